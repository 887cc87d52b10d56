"""Running the user's code object: names, callees, classes, effects and refusals."""

import contextlib
import datetime
import functools
import traceback
import types

import numpy as np
import numpy as renamed
import pytest
from numpy import zeros as plain_zeros

from fjit.frontend.paths import Attr
from tests.frontend.rebind_tracer import MiniError, MiniTypeError, Run, Tr, text

X = "add(x, zeros(3, float64))"  # what a rebound `x + np.zeros(3)` gives


def plus_zeros(x):
    return x + np.zeros(3)


# Names


def test_numpy_is_found_by_identity_whatever_its_name():
    def f(x):
        return x + renamed.zeros(3) + plain_zeros(2)

    assert text(f) == "add(add(x, zeros(3, float64)), zeros(2, float64))"


def test_numpy_imported_inside_the_function():
    def f(x):
        import numpy as mine
        import numpy.linalg as la
        from numpy import pi, zeros

        assert la.norm(np.ones(1)) == 1.0 and pi > 3
        return x + mine.zeros(3) + zeros(2)

    assert text(f) == "add(add(x, zeros(3, float64)), zeros(2, float64))"


def test_global_loads_after_the_interpreter_specialised_them():
    for _ in range(5000):
        plus_zeros(1.0)
    for _ in range(3):
        assert text(plus_zeros) == X
        for _ in range(2000):
            assert plus_zeros(1.0).shape == (3,)
    run = Run(plus_zeros)
    assert {run(Tr("x")).text for _ in range(3000)} == {X}


def test_globals_stay_observed_when_the_loop_is_hot():
    def f(x):
        for _ in range(3000):
            y = np.zeros(3)
        return x + y

    assert text(f) == X


def test_helpers_defined_later_recursion_and_mutual_recursion():
    def f(x):
        return even(x, 3)

    def even(x, n):
        return plus_zeros(x) if n == 0 else odd(x, n - 1)

    def odd(x, n):
        return -even(x, n - 1) if n else -x

    assert text(f) == "negative(negative(x))"
    assert text(late) == X


def late(x):
    return defined_after(x)


def defined_after(x):
    return plus_zeros(x)


def test_class_body_and_eval_and_exec_see_standins():
    def f(x):
        class Local:
            base = np.zeros(3)
            shape = eval("np.zeros(2)")

        scope = {}
        exec("y = np.zeros(4) + COUNT", globals(), scope)
        return x + Local.base + Local.shape + scope["y"] + eval("COUNT")

    run = Run(f)
    result = run(Tr("x")).text
    assert "zeros(4, float64)" in result and "zeros(2, float64)" in result
    assert "global COUNT" in run.paths()


COUNT = 5


def test_globals_gives_the_recording_dict():
    def f(x):
        assert globals().get("len") is None and "COUNT" in globals()
        return x + globals()["np"].zeros(3)

    assert text(f) == X


def test_unknown_name_is_a_name_error_with_the_users_lines():
    def f(x):
        return x + nowhere  # noqa: F821

    with pytest.raises(NameError, match="nowhere") as caught:
        text(f)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.name, last.lineno) == ("f", f.__code__.co_firstlineno + 1)
    assert last.filename == __file__


# Effects on globals and cells

STATE = None


def test_store_global_is_written_back_and_serves_one_call():
    def f(x):
        global STATE  # noqa: PLW0603
        if STATE is None:
            STATE = len([1, 2])
        return x + STATE

    globals()["STATE"] = None
    run = Run(f)
    assert run(Tr("x")).text == "add(x, 2)" and STATE == 2
    assert not run.holds() and run.reads.effects == ["global STATE is assigned by the function"]
    again = Run(f)
    assert again(Tr("x")).text == "add(x, 2)" and again.holds()


def test_delete_global_is_written_back():
    def f(x):
        global DOOMED  # noqa: PLW0603
        del DOOMED
        return x

    globals()["DOOMED"] = 1
    text(f)
    assert "DOOMED" not in globals()


def test_storing_a_traced_value_in_a_global_is_refused_by_name():
    def f(x):
        global STATE  # noqa: PLW0603
        STATE = x * 2
        return x

    globals()["STATE"] = 7
    with pytest.raises(MiniError, match="global STATE, which outlives the call"):
        text(f)
    assert STATE == 7


def test_nonlocal_writes_act_on_the_users_cell():
    count, last = 0, None

    def bump():
        nonlocal count
        count += 1

    def f(x):
        bump()
        return x * count

    def leak(x):
        nonlocal last
        last = x
        return x

    run = Run(f)
    assert run(Tr("x")).text == "multiply(x, 1)" and count == 1 and not run.holds()
    with pytest.raises(MiniError, match="closure cell last"):
        text(leak)
    assert last is None


def test_nonlocal_of_a_replaced_cell_is_written_back():
    helper = plus_zeros

    def f(x):
        nonlocal helper
        y = helper(x)
        helper = None
        return y

    assert text(f) == X and helper is None


# Callees


def test_callees_through_attributes_partials_lambdas_and_map():
    module = types.ModuleType("users_module")
    exec("import numpy as np\ndef g(x): return x + np.zeros(3)", vars(module))
    part = functools.partial(lambda n, x: x + np.zeros(n), 3)
    table = {"id": lambda x: x, "plus": [plus_zeros]}
    direct = plus_zeros

    def f(x):
        a, b = map(direct, [x, x])
        return module.g(x), part(x), table["plus"][0](x), a, b

    assert [y.text for y in Run(f)(Tr("x"))] == [X] * 5


def test_wraps_decorated_cached_and_standard_library_decorators():
    def twice(g):
        @functools.wraps(g)
        def wrapper(*args, **kw):
            return g(g(*args, **kw))

        return wrapper

    @twice
    def step(x):
        return plus_zeros(x)

    @functools.lru_cache
    def window(n):
        return np.zeros(n)

    @contextlib.contextmanager
    def scaled(x):
        yield x + np.zeros(3)

    def f(x):
        with scaled(x) as y:
            return step(y) + window(2)

    assert text(f).count("zeros(3") == 3 and "zeros(2" in text(f)
    assert window.cache_info().currsize == 0


def test_functions_are_rebound_once_and_stay_identical():
    g = plus_zeros
    pair = [plus_zeros]

    def f(x):
        assert g is plus_zeros and pair[0] is g
        return g

    assert Run(f)(Tr("x")) is plus_zeros


def test_nested_functions_generators_comprehensions_and_arguments():
    def f(x, *args, n=3, **kw):
        def make(k):
            def inner(y):
                return y + np.zeros(k)

            return inner

        def numbers():
            for i in range(2):
                yield np.zeros(n), i

        total = sum(z * i for z, i in numbers())
        return make(2)(x) + total + sum([np.zeros(a) for a in args]) + kw["w"]

    assert Run(f)(Tr("x"), 4, w=1).text.count("zeros") == 4


def test_defaults_and_kwdefaults_are_replaced():
    table = np.arange(3.0)

    def f(x, make=np.zeros, *, t=table, dtype=np.float64):
        return x + make(3, dtype) + t

    run = Run(f)
    assert run(Tr("x")).text == "add(add(x, zeros(3, float64)), <default of t>)"
    assert run.lifted["default of t"] is table and f.__defaults__ == (np.zeros,)


def test_async_and_generator_functions_are_refused():
    async def f(x):
        return x

    def g(x):
        yield x

    def h(x):
        return f(x)

    with pytest.raises(MiniError, match="coroutine function"):
        Run(f)
    with pytest.raises(MiniError, match="generator function"):
        Run(g)
    with pytest.raises(MiniError, match="cannot wait"):
        text(h)


def test_library_functions_are_not_rebound_unless_followed():
    import textwrap

    def f(x):
        return textwrap.dedent

    assert Run(f)(Tr("x")) is textwrap.dedent


# Refusals and errors


def test_refused_functions_modules_and_instances():
    rng = np.random.default_rng(0)
    numbers = iter([1, 2])

    with pytest.raises(MiniError, match=r"fjit\.random"):
        text(lambda x: x + np.random.normal())
    with pytest.raises(MiniError, match=r"closure cell rng: generators freeze"):
        text(lambda x: x + rng.normal())
    with pytest.raises(MiniError, match="freezes one answer"):
        text(lambda x: x + float(input()))
    with pytest.raises(MiniError, match="iterator"):
        text(lambda x: x + next(numbers))


def test_our_errors_are_raised_even_if_the_function_catches_them():
    def f(x):
        try:
            return x + np.random.normal()
        except Exception:
            return x

    def g(x):
        try:
            input()
        except Exception:
            raise ValueError("mine") from None

    with pytest.raises(MiniError, match=r"fjit\.random"):
        text(f)
    with pytest.raises(MiniError, match="freezes"):
        text(g)


def test_the_tracers_errors_are_recorded_too():
    def f(x):
        try:
            return 1 if x else 2
        except TypeError:
            return 3

    run = Run(f)
    original = Tr.__bool__

    def recording(self):
        run.reads.fail(MiniTypeError("bool() of a traced array"))

    Tr.__bool__ = recording
    try:
        with pytest.raises(MiniTypeError):
            run(Tr("x"))
    finally:
        Tr.__bool__ = original


def test_the_users_own_exceptions_pass_through():
    def f(x):
        try:
            raise KeyError("k")
        except KeyError:
            return x

    assert text(f) == "x"
    with pytest.raises(ZeroDivisionError):
        text(lambda x: 1 / 0)


# Adapters and dispatch


def test_wrappers_of_the_tracer_are_traced_through():
    class Fused:
        def __init__(self, function):
            self.function = function

        def __call__(self, x):
            raise AssertionError

    fused = Fused(plus_zeros)

    def inline(value, path, observer):
        return observer.observe(value.function, Attr(path, "function"), value)

    def f(x):
        return fused(x)

    run = Run(f, adapters={Fused: inline})
    assert run(Tr("x")).text == X and "closure cell fused.function" in run.paths()


def test_singledispatch_sees_arrays_and_keeps_its_cache_clean():
    @functools.singledispatch
    def kind(x):
        return x

    @kind.register
    def _(x: np.ndarray):
        return plus_zeros(x)

    def f(x):
        return kind(x)

    assert text(f) == X and kind(1) == 1
    assert isinstance(kind(np.ones(3)), np.ndarray)


def test_helpers_beside_the_traced_function_are_followed_whatever_the_module():
    space = {"np": np, "__name__": "numpy.inside"}
    exec("def g(x): return x + np.zeros(3)\ndef f(x): return g(x)", space)
    assert text(space["f"]) == X


def test_a_refused_class_still_answers_isinstance_and_an_interrupt_passes():
    def f(x):
        assert not isinstance(x, np.random.Generator)
        return x

    def g(x):
        LOG.append(x)
        raise KeyboardInterrupt

    def h(x):
        return today.now()

    today = datetime.datetime
    assert text(f, refuse={id(np.random.Generator): "no"}) == "x"
    with pytest.raises(MiniError, match="the clock"):
        text(h, refuse={id(datetime.datetime): "a trace would stop the clock"})
    with pytest.raises(KeyboardInterrupt):
        text(g)
    assert LOG == []


LOG: list = []
