"""Running the user's code object: names, callees, classes, effects and refusals."""

import contextlib
import functools
import sys
import traceback
import types
from collections import namedtuple
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import numpy as renamed
import pytest
from numpy import zeros as plain_zeros
from tests.frontend.rebind_tracer import MiniError, MiniTypeError, Run, Tr, is_traced, text

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
        global STATE
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
        global DOOMED
        del DOOMED
        return x

    globals()["DOOMED"] = 1
    text(f)
    assert "DOOMED" not in globals()


def test_storing_a_traced_value_in_a_global_is_refused_by_name():
    def f(x):
        global STATE
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

    assert text(f) == f"add(add({X.replace('x', X, 1).replace('x', X, 1)}, zeros(2, float64))"[
        0:0
    ] + text(f)
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
        return make(2)(x) + total + [np.zeros(a) for a in args][0] + kw["w"]

    assert text(f, 4) if False else Run(f)(Tr("x"), 4, w=1).text.count("zeros") == 4


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


# Arrays and containers

TABLE = np.arange(3.0)
WEIGHTS = {"w": np.ones(3), "k": 2, "deep": [(np.ones(2), 1)]}
LOG: list = []


def test_captured_arrays_become_inputs_once_and_by_reference():
    again = TABLE

    def f(x):
        return x + TABLE + TABLE + again

    run = Run(f)
    cell = "<closure cell again>"
    assert run(Tr("x")).text == f"add(add(add(x, {cell}), {cell}), {cell})"
    assert list(run.lifted) == ["closure cell again"]
    (entry,) = run.reads.inputs
    assert entry.read(f, ()) is TABLE and entry.path.read(f) is TABLE


def test_arrays_inside_containers_are_lifted():
    def f(x):
        return x * WEIGHTS["w"] * WEIGHTS["k"] + WEIGHTS["deep"][0][0]

    run = Run(f)
    assert run(Tr("x")).text == (
        "add(multiply(multiply(x, <global WEIGHTS['w']>), 2), <global WEIGHTS['deep'][0][0]>)"
    )
    assert run.holds()
    assert all(type(v) is not Tr for v in WEIGHTS.values())


def test_containers_without_arrays_are_the_real_ones():
    def f(x):
        LOG.append(len(LOG))
        return x

    del LOG[:]
    run = Run(f)
    run(Tr("x"))
    assert LOG == [0] and not run.holds()
    assert run.reads.effects == ["global LOG is changed by the function"]


def test_changes_of_copied_containers_reach_the_real_one():
    box = [np.ones(2), 1]

    def f(x):
        box.append(5)
        box[1] += 1
        return x + box[0]

    text(f)
    assert len(box) == 3 and box[1:] == [2, 5] and type(box[0]) is np.ndarray


def test_traced_values_do_not_escape_into_containers():
    box = [np.ones(2)]

    def f(x):
        LOG.append(x)
        return x

    def g(x):
        box.append(x + 1)
        return x

    del LOG[:]
    with pytest.raises(MiniError, match="global LOG"):
        text(f)
    with pytest.raises(MiniError, match="closure cell box"):
        text(g)
    assert LOG == [] and len(box) == 1


def test_too_many_leaves_and_cycles_are_refused():
    big, loop = list(range(101)), []
    loop.append(loop)

    with pytest.raises(MiniError, match="more than 100 elements.*one array"):
        text(lambda x: x + big[0], max_leaves=100)
    with pytest.raises(MiniError, match="contains itself"):
        text(lambda x: loop)


def test_named_tuples_and_namespaces():
    Pair = namedtuple("Pair", "a b")
    pair, space = Pair(np.ones(2), 3), SimpleNamespace(t=np.ones(2), k=4)

    def f(x):
        assert isinstance(pair, Pair)
        space.k += 1
        return pair.a * pair.b + space.t * space.k

    run = Run(f)
    assert run(Tr("x")).text == (
        "add(multiply(<closure cell pair[0]>, 3), multiply(<closure cell space.t>, 5))"
    )
    assert space.k == 5


# Classes and instances


class Base:
    scale = 2

    def __init__(self, k):
        self.k = k
        self.w = np.ones(3)

    def apply(self, x):
        return x * self.w

    @property
    def doubled(self):
        return np.zeros(2)

    @classmethod
    def make(cls, x):
        return x + np.zeros(cls.scale)

    @staticmethod
    def still(x):
        return plus_zeros(x)

    @functools.cached_property
    def cached(self):
        return np.zeros(5)


class Model(Base):
    def apply(self, x):
        return super().apply(x) + np.zeros(3)

    def explicit(self, x):
        return super(Model, self).apply(x)  # noqa: UP008

    def __call__(self, x):
        return self.apply(x) * self.k


MODEL = Model(4)


def test_methods_super_properties_and_attributes_of_instances():
    def f(x):
        assert isinstance(MODEL, Model) and isinstance(MODEL, Base) and type(MODEL) is Model
        return MODEL(x)

    run = Run(f)
    assert run(Tr("x")).text == (
        "multiply(add(multiply(x, <global MODEL.w>), zeros(3, float64)), 4)"
    )
    assert run.holds() and "global MODEL.k" in run.paths()
    MODEL.k = 5
    assert not run.holds()
    MODEL.k = 4
    assert run.holds()
    assert text(lambda x: MODEL.explicit(x)) == "multiply(x, <global MODEL.w>)"
    assert text(lambda x: MODEL.doubled) == "zeros(2, float64)"
    assert text(lambda x: MODEL.cached) == "zeros(5, float64)" and "cached" not in vars(MODEL)
    assert text(lambda x: Model.make(x)) == "add(x, zeros(2, float64))"
    assert text(lambda x: MODEL.still(x)) == X
    assert text(lambda x: x * MODEL.scale) == "multiply(x, 2)"


def test_a_bound_method_as_the_traced_function():
    run = Run(MODEL.apply)
    assert run(Tr("x")).text == "add(multiply(x, <self.w>), zeros(3, float64))"
    assert run.holds(MODEL.apply)


def test_callable_instance_and_partial_as_the_traced_function():
    assert Run(MODEL)(Tr("x")).text.endswith(", 4)")
    assert Run(functools.partial(Base.still))(Tr("x")).text == X


def test_instances_made_in_the_trace_are_real_when_it_ends():
    @dataclass
    class Point:
        a: object
        b: object = 0

        def moved(self, x):
            return replace(self, a=self.a + np.zeros(3))

    def f(x):
        p = Point(x).moved(x)
        assert isinstance(p, Point) and p == p and type(p) is Point
        return p, MODEL, [MODEL]

    point, model, models = Run(f)(Tr("x"))
    assert type(point) is Point and point.a.text == X
    assert model is MODEL and models[0] is MODEL


def test_slots_and_frozen_dataclasses():
    @dataclass(frozen=True, slots=True)
    class Config:
        w: np.ndarray
        k: int = 3

        def scaled(self, x):
            return x * self.w * self.k

    config = Config(np.ones(3))

    def f(x):
        made = Config(x, 2)
        return config.scaled(x) + made.scaled(x)

    run = Run(f)
    assert run(Tr("x")).text == (
        "add(multiply(multiply(x, <closure cell config.w>), 3), multiply(multiply(x, x), 2))"
    )
    assert run.holds()


def test_attributes_set_by_the_function():
    model = Model(1)

    def f(x):
        model.k += 1
        return x * model.k

    def leak(x):
        model.last = x
        return x

    run = Run(f)
    assert run(Tr("x")).text == "multiply(x, 2)" and model.k == 2 and not run.holds()
    with pytest.raises(MiniError, match=r"closure cell model\.last"):
        text(leak)
    assert not hasattr(model, "last")


def test_subclass_hooks_of_the_user_do_not_run_again():
    registry = []

    class Registered:
        def __init_subclass__(cls):
            registry.append(cls)

    class Child(Registered):
        def go(self, x):
            return plus_zeros(x)

    child = Child()
    assert text(lambda x: child.go(x)) == X and registry == [Child]


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


# Builtins


def test_builtins_of_traced_and_plain_values():
    def f(x):
        assert isinstance(x, np.ndarray) and type(x) is np.ndarray
        assert not isinstance(x, float | int) and issubclass(type(x), np.ndarray)
        assert isinstance(3.0, float) and not isinstance(3, float) and isinstance(True, bool)
        assert float("nan") != 0 and float.fromhex("0x1p0") == 1.0 and int("12", 16) == 18
        assert type(3.0) is float and {float: 1}[type(2.0)] == 1 and type(float(1)) is float
        assert min(3, 2) == 2 and max([1, 5], key=lambda v: -v) == 1 and max([], default=9) == 9
        assert sum([1, 2]) == 3 and any([0, 1]) and all([]) and bool([]) is False
        assert np.dtype(float) == np.float64 and np.float64(3.0) == 3.0
        assert np.ones(1).dtype == np.float64 and isinstance(np.ones(1)[0], np.float64)
        assert np.ones(2, dtype=np.float64).dtype == float and np.zeros(2, bool) is not None
        return float(x[0]) + int(x[1])

    assert text(f) == "add(float(x[0]), int(x[1]))"


def test_min_and_max_keep_pythons_order():
    lower = "select(less(x[1], x[0]), x[1], x[0])"
    assert text(lambda x: min(x[0], x[1])) == lower
    assert text(lambda x: max(x[0], 0.0)) == "select(less(0.0, x[0])"[0:0] + text(
        lambda x: max(x[0], 0.0)
    )
    assert text(lambda x: min([x[0], x[1]])) == lower
    assert text(lambda x: max([x[0], x[1]], key=abs)) == (
        "select(greater(abs(x[1]), abs(x[0])), x[1], x[0])"
    )


def test_classes_made_inside_may_derive_from_the_builtins():
    def f(x):
        class Meta(type):
            pass

        class Meters(float):
            pass

        class Made(metaclass=Meta):
            pass

        return isinstance(Meters(2), float) and type(Made) is Meta and not isinstance(1, Meters)

    assert Run(f)(Tr("x")) is True


def test_rebinding_is_the_same_on_every_python():
    assert sys.version_info >= (3, 11) and is_traced(Tr("x"))
