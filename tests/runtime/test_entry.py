"""The native entry: which calls it answers, that it notices changes, and that it leaks nothing.

`answers(f, *args)` says whether a call was answered natively; every test compares with NumPy too.
"""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import fjit
from fjit.core import tree
from fjit.errors import FjitError
from fjit.fused import Fused
from fjit.runtime import entry
from fjit.testing import assert_same

pytestmark = pytest.mark.skipif(bool(entry.missing()), reason=entry.missing() or "native")

X, Y = np.arange(-5.0, 7.0).reshape(3, 4), np.arange(1.0, 13.0).reshape(3, 4)
FACTOR, TABLE = 3.0, np.arange(4.0)


def answers(f: Any, *args: Any) -> bool:
    """Whether this call was answered natively; its result must be NumPy's."""
    before = f.answered
    assert_same(f(*args), f.function(*args))
    return bool(f.answered > before)


def warm(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A fused function that answers such calls natively."""
    f = fjit.fuse(function, **options)
    f(*args), f(*args)
    assert answers(f, *args), f.prepare(*args).record
    return f


# ---- which calls --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        (X, Y), (X, 2.5), (X, 3), (X, True), (X.T, Y.T), (X[:, ::2], Y[:, 1::2]), (X, X),
        (X.astype("f4"), 0.1), (X.astype("i8"), 7), (X > 0, Y > 2), (X[::-1], Y), (X[:0], Y[:0]),
        (X.astype(">f8"), Y), (np.array(2.0), np.array(3.0)), (X, np.array(1.5)),
        (np.broadcast_to(X[0], (3, 4)), Y), (X.astype("f2"), Y.astype("f2")),
    ],
)  # fmt: skip
def test_arguments_of_every_kind(args: tuple[Any, ...]) -> None:
    f = warm(lambda a, b: np.where(b > 1, a * b, a) + b, *args)
    assert answers(f, *args)


class Pair(NamedTuple):
    low: Any
    high: Any


def test_results_of_every_kind() -> None:
    for function in (
        lambda a: a.sum(),
        lambda a: (a.sum(), a.max(axis=0)),
        lambda a: {"mean": a.mean(), "rows": [a + 1, a.sum(1)]},
        lambda a: Pair(a - 1, a + 1),
        lambda a: [a * 2],
        lambda a: (a + 1).T,
        lambda a: np.asfortranarray(a * 2),
        lambda a: a.argmax(axis=1),
        lambda a: (a > 0).any(),
        lambda a: (a * 2)[None],
        lambda a: np.stack([a, a + 1], axis=-1),
    ):
        f = fjit.fuse(function)
        for _ in range(3):
            assert_same(f(X), function(X))
        assert f.answered, f.prepare(X).record


def test_large_results_come_from_the_pool() -> None:
    x = np.ones((700, 700))
    f = warm(lambda a: (a + 1, a.T * 2), x)
    first = f(x)
    assert all(r.flags.owndata and r.flags.writeable for r in first)
    assert_same(f(x), f.function(x))


def test_what_differs_goes_through_python_and_is_right() -> None:
    f = warm(lambda a, b: a * b + 1, X, Y)
    other: list[tuple[Any, ...]] = [
        (X.astype("f4"), Y), (X, Y.astype("i4")), (X.T.copy().T, Y), (X[:2], Y[:2]), (X, X),
        (X, 2.0), (X, 2), (X, np.float64(2)), (X, 2**40),
        (X[None], Y), (X.astype(">f8"), Y),
    ]  # fmt: skip
    for args in other:
        assert not answers(f, *args)
        assert answers(f, X, Y)


def test_numbers_that_do_not_fit() -> None:
    small = np.arange(5, dtype=np.uint8)
    f = warm(lambda a, k: a + k, small, 3)
    assert answers(f, small, 255)
    for number in (256, -1, 2**63, -(2**70)):
        with pytest.raises((OverflowError, FjitError)):
            f(small, number)
    assert not answers(f, small, True)
    g = warm(lambda a, k: a * k, X, 1.0)
    for number in (np.nan, -0.0, 1e300, 5e-324):
        assert answers(g, X, number)


def test_keywords_defaults_and_wrong_counts() -> None:
    f = warm(lambda a, b=2.0: a * b, X, Y)
    assert_same(f(X, b=Y), X * Y)
    assert_same(f(X), X * 2.0)
    assert_same(f(a=X, b=Y), X * Y)
    for args in ((), (X, Y, X)):
        with pytest.raises(TypeError):
            f(*args)


def test_containers_are_not_taken_for_their_leaves() -> None:
    f = fjit.fuse(lambda a, b: (a[0] * 2, b + 1))
    for args in (([X], Y), (X, Y), ((X, Y), Y), ([Y, X], Y + 5)):
        for _ in range(3):
            assert_same(f(*args), f.function(*args))
        assert answers(f, *args)
    assert len(f.records) == 4


CONTAINERS: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((X,), {"b": Y}),
    ((), {"b": Y, "a": X}),
    ((), {"a": [X, 2.0], "b": Y}),
    (({"w": X, "b": Y},), {"b": (Y, {"k": 3})}),
    ((Pair(X, Y), [X, [Y, (X, Y)]]), {}),
    (({2: X, 1: Y}, (X,)), {}),
)


@pytest.mark.parametrize("number", range(len(CONTAINERS)))
def test_keywords_and_containers(number: int) -> None:
    args, keywords = CONTAINERS[number]

    def function(a: Any, b: Any) -> Any:
        leaves = tree.flatten((a, b))[0]
        total = leaves[0] * 1
        for k, leaf in enumerate(leaves[1:], 2):
            total = total + leaf * k
        return total

    f = fjit.fuse(function)
    for _ in range(3):
        assert_same(f(*args, **keywords), function(*args, **keywords))
    assert f.answered == 1, f.prepare(*args, **keywords).record


def test_containers_that_change() -> None:
    f = fjit.fuse(lambda p: p["x"] * 2 + sum(p["more"]))
    p: dict[str, Any] = {"x": X, "more": [Y, Y + 1]}
    f(p), f(p)
    assert answers(f, p)
    p["more"].append(X)
    assert not answers(f, p)
    p["more"].pop()
    p["x"] = Y * 3
    assert answers(f, p)
    p["other"] = Y
    assert not answers(f, p)
    del p["other"]
    assert answers(f, {"more": p["more"], "x": X})
    assert not answers(f, {"more": tuple(p["more"]), "x": X})
    with pytest.raises(KeyError):
        f({"y": X, "more": p["more"]})


def test_what_is_in_a_container_outlives_the_call() -> None:
    """The entry holds the arrays while another thread empties the dict."""
    f = fjit.fuse(lambda p: np.sin(np.exp(np.cos(p["x"]))), threads=1)
    p = {"x": np.linspace(0, 1, 3_000_000)}
    for _ in range(3):
        want = f(p)
    assert f.answered
    emptied = threading.Event()

    def empty() -> None:
        time.sleep(1e-3)
        p.clear()
        gc.collect()
        emptied.set()

    worker = threading.Thread(target=empty)
    worker.start()
    got = f(p)
    worker.join()
    assert np.array_equal(got, want)


def test_other_names_and_orders_of_names() -> None:
    f = fjit.fuse(lambda a, b, k=1.0: a * 2 + b * k)
    f(X, b=Y, k=2.0), f(X, b=Y, k=2.0)
    before = f.answered
    assert_same(f(X, **{"b": Y, "k": 2.0}), X * 2 + Y * 2.0)
    assert f.answered == before + 1
    assert_same(f(X, k=2.0, b=Y), X * 2 + Y * 2.0)
    assert_same(f(X, b=2.0, k=Y), X * 2 + Y * 2.0)
    assert_same(f(b=X, a=Y), Y * 2 + X)
    with pytest.raises(TypeError):
        f(X, b=Y, c=2.0)


def test_sharing_of_arguments_matters() -> None:
    f = warm(lambda a, b: a * b, X, Y)
    assert not answers(f, X, X)
    f(X, X)
    assert answers(f, X, X)
    assert answers(f, X, Y)
    assert answers(f, Y, X)


def test_a_read_only_argument_is_another_kind() -> None:
    fixed = X.copy()
    fixed.flags.writeable = False
    f = warm(lambda a: a + 1, X)
    assert not answers(f, fixed)
    f(fixed)
    assert answers(f, fixed)
    assert answers(f, X)


def test_many_kinds_of_calls() -> None:
    f = fjit.fuse(lambda a: a * 2 + 1)
    arrays = [np.arange(float(n)) for n in range(1, 3 * entry.MAX_RECORDS)]
    for _ in range(4):
        for x in arrays:
            assert_same(f(x), x * 2 + 1)
    assert len(f.records) == entry.MAX_RECORDS
    assert f.cache_info().hits == 3 * len(arrays)
    f(arrays[-1])
    assert answers(f, arrays[-1])


# ---- what changed -------------------------------------------------------------------------------


def test_a_global_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    f = warm(lambda a: a * FACTOR + TABLE, X)
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert not answers(f, X)
    f(X)
    assert answers(f, X)
    monkeypatch.setitem(globals(), "TABLE", np.ones(4))
    assert answers(f, X)  # of the same kind: read anew
    monkeypatch.setitem(globals(), "TABLE", np.ones((3, 4), "f4"))
    assert not answers(f, X)
    monkeypatch.delitem(globals(), "FACTOR")
    with pytest.raises(NameError):
        f(X)


def test_contents_of_a_captured_array_are_read_anew() -> None:
    table = np.arange(4.0)
    f = warm(lambda a: a + table, X)
    table[1] = 100
    assert answers(f, X)
    table = np.ones(4)
    assert answers(f, X)
    table = np.ones(4, "f4")
    assert not answers(f, X)


def test_a_cell_a_helper_and_a_builtin_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    k = 2.0

    def helper(a: Any) -> Any:
        return a + k

    def other(a: Any) -> Any:
        return a - 1

    f = warm(lambda a: helper(a) + abs(a), X)
    k = 4.0
    assert not answers(f, X)
    f(X)
    assert answers(f, X)
    helper.__code__ = other.__code__.replace(co_freevars=helper.__code__.co_freevars)
    assert not answers(f, X)
    monkeypatch.setitem(globals(), "abs", lambda a: a * 0)
    assert not answers(f, X)


def test_attributes_of_an_instance() -> None:
    class Model:
        def __init__(self) -> None:
            self.k = 2.0
            self.w = np.arange(4.0)

        @fjit.fuse
        def apply(self, a: Any) -> Any:
            return a * self.k + self.w

    model = Model()
    for k in (2.0, 3.0):
        model.k = k
        for _ in range(3):
            assert_same(model.apply(X), X * k + model.w)
        assert model.apply.answered
        model.w = model.w + 1
        assert_same(model.apply(X), X * k + model.w)


def test_an_error_in_a_kernel_is_raised_by_python() -> None:
    f = warm(lambda a, i: a[i] * 2, X, np.array([0, 2]))
    with pytest.raises(IndexError):
        f(X, np.array([0, 3]))
    assert answers(f, X, np.array([1, 1]))


def test_inside_a_trace_a_fused_function_is_inlined() -> None:
    inner = warm(lambda a: a * FACTOR, X)
    before = inner.answered
    outer = fjit.fuse(lambda a: inner(X) + a)
    assert_same(outer(Y), X * FACTOR + Y)
    assert inner.answered == before
    program = str(fjit.make_program(lambda a: inner(X) + a)(Y))
    assert "mul" in program


# ---- life ---------------------------------------------------------------------------------------


def test_reference_counts_stay() -> None:
    x, table = X.copy(), np.arange(4.0)
    f = warm(lambda a, k: (a * k + table, (a + k).sum(), a.T - k), x, 2.5)
    watched = (x, table, x.dtype, np.dtype("f8"), np, np.ndarray, f, None, True)
    before = [sys.getrefcount(w) for w in watched]
    for _ in range(1000):
        f(x, 2.5)
    after = [sys.getrefcount(w) for w in watched]
    assert all(abs(b - a) < 20 for a, b in zip(before, after, strict=True))


def test_results_are_freed_and_never_shared() -> None:
    f = warm(lambda a: (a + 1, a * 2), X)
    one, two = f(X), f(X)
    assert not np.shares_memory(one[0], two[0])
    seen = weakref.ref(one[0])
    del one
    assert seen() is None


def test_a_fused_function_can_go() -> None:
    f = warm(lambda a: a + 1, X)
    seen = weakref.ref(f)
    records = [weakref.ref(r) for r in f.records]
    del f
    gc.collect()
    assert seen() is None and all(r() is None for r in records)


def test_cache_clear_forgets_records() -> None:
    f = warm(lambda a: a + 1, X)
    f.cache_clear()
    assert f.cache_info()[:3] == (0, 0, 0) and not f.records
    assert not answers(f, X)
    f(X)
    assert answers(f, X)


def test_subclasses_have_the_entry_too() -> None:
    class Named(Fused):
        pass

    plain = fjit.fuse(lambda a: a + 1)
    named = Named(plain.function, plain.choices)
    named(X), named(X)
    assert answers(named, X)


# ---- threads and processes ----------------------------------------------------------------------


def test_threads_with_kinds_that_push_each_other_out() -> None:
    f = fjit.fuse(lambda a, k: a * k + FACTOR)
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(300):
            x = np.arange(float(rng.integers(1, 40)))
            if not np.array_equal(f(x, 2.0), x * 2.0 + FACTOR):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for n in range(50):
        f.cache_clear() if n % 10 == 0 else time.sleep(0.001)
    for t in threads:
        t.join()
    assert wrong == []


def test_long_kernels_let_other_threads_run() -> None:
    x = np.linspace(0, 1, 4_000_000)
    f = fjit.fuse(lambda a: np.sin(np.exp(np.cos(a))), threads=1)
    f(x), f(x)
    assert f.records
    ticks, done = [], threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(10.0)  # only a released lock lets the other thread run
    t = threading.Thread(target=tick)
    try:
        t.start()
        start = time.perf_counter()
        f(x)
        end = time.perf_counter()
    finally:
        done.set()
        sys.setswitchinterval(switch)
        t.join()
    assert [s for s in ticks if start + 1e-3 < s < end - 1e-3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_goes_on() -> None:
    x = np.ones((900, 900))
    f = warm(lambda a: (a * 2).sum(axis=0), x)
    child = os.fork()
    if not child:
        good = f(x)[0] == 1800.0 and f.answered > 0 and fjit.fuse(lambda a: a + 1)(x)[0, 0] == 2
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


SCRIPT = """
import numpy as np, fjit
f = fjit.fuse(lambda x: x * 2 + 1)
x = np.arange(5.0)
for _ in range(4):
    assert (f(x) == x * 2 + 1).all()
print(f.answered, f.cache_info().hits, f.prepare(x).record)
"""


@pytest.mark.parametrize(
    ("choice", "said"),
    [("python", "0 3 FJIT_DISPATCH=python"), ("native", "2 3 <"), ("auto", "2 3 <")],
)
def test_the_choice_of_dispatch(choice: str, said: str) -> None:
    environment = {**os.environ, "FJIT_DISPATCH": choice}
    run = [sys.executable, "-c", SCRIPT]
    out = subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout
    assert out.startswith(said)


def test_a_wrong_choice_is_refused() -> None:
    environment = {**os.environ, "FJIT_DISPATCH": "fast"}
    run = [sys.executable, "-c", SCRIPT]
    out = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert (
        out.returncode and "FJIT_DISPATCH='fast' is not one of auto, native, python" in out.stderr
    )
