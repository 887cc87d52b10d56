"""Functions that write into their arguments, in the native entry: what is written, and when not."""

import os
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.oracle.memory import clone
from fjit.runtime import entry
from fjit.testing import assert_same

pytestmark = pytest.mark.skipif(bool(entry.missing()), reason=entry.missing() or "native")

X, Y = np.arange(-5.0, 7.0).reshape(3, 4), np.arange(1.0, 13.0).reshape(3, 4)
TOTAL = np.zeros(4)
SWAPPED = np.dtype(">f8")
"""One object: the entry tells dtypes apart by identity."""


def answers(f: Any, *args: Any) -> bool:
    """Whether this call was answered natively; what it gives and writes must be NumPy's."""
    mine, other = clone(list(args)), clone(list(args))
    before = f.answered
    got = f(*mine)
    answered = bool(f.answered > before)
    assert_same(got, f.function(*other))
    for a, b in zip(mine, other, strict=True):
        assert_same(a, b)
    return answered


def warm(function: Callable[..., Any], *args: Any) -> Any:
    """A fused function that answers such calls natively."""
    f = fjit.fuse(function)
    for _ in range(2):
        f(*clone(list(args)))
    assert answers(f, *args), f.prepare(*args).record
    return f


def add_one(a: Any) -> None:
    a += 1


def add_and_return(a: Any, b: Any) -> Any:
    a += b
    return a


def shift(a: Any) -> Any:
    a[1:-1] = a[2:] * 0.5
    return a.sum()


def out(a: Any, b: Any) -> Any:
    np.multiply(a, b, out=b)
    return b * 2, b


def masked(a: Any, k: Any) -> None:
    a[a < 0] = k


def adam(p: Any, g: Any, m: Any, v: Any) -> None:
    m[...] = 0.9 * m + 0.1 * g
    v[...] = 0.999 * v + 0.001 * g * g
    p -= 0.01 * m / (np.sqrt(v) + 1e-8)


def filtered(a: Any) -> Any:
    a *= 2
    return a[a > 0]


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (add_one, (X,)), (add_and_return, (X, Y)), (add_and_return, (X, 2.0)), (shift, (X,)),
        (out, (X, Y)), (masked, (X, 0.0)), (adam, (X, Y, X * 0, Y * 0)), (filtered, (X,)),
        (add_one, (np.array(2.0),)), (add_one, (X.astype("i4"),)), (add_one, (X[:0],)),
        (add_one, (X.astype("u1"),)),
    ],
)  # fmt: skip
def test_writes_of_every_kind(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    f = warm(function, *args)
    assert answers(f, *args)


@pytest.mark.parametrize(
    "view",
    [
        lambda b: b[::2], lambda b: b[:, ::3], lambda b: b.T, lambda b: b[::-1],
        lambda b: b[1:3, 1:3], lambda b: b.T[::-1], np.asfortranarray,
        lambda b: b.astype(SWAPPED), lambda b: np.concatenate([b] * 2000),
    ],
)  # fmt: skip
def test_layouts_of_what_is_written(view: Callable[[Any], Any]) -> None:
    base = np.arange(60.0).reshape(6, 10)
    f = fjit.fuse(lambda a, k: a.__iadd__(k))
    for _ in range(3):
        mine, other = base.copy(), base.copy()
        target = view(mine)
        want = view(other)
        want += 1.5
        result = f(target, 1.5)
        assert_same(target, want)
        assert_same(mine, other)
        assert result is target
    assert f.answered


def test_what_is_returned_is_the_argument() -> None:
    f, x = fjit.fuse(add_and_return), X.copy()
    for n in range(5):
        assert f(x, Y) is x
        assert_same(x, X + Y * (n + 1))
    assert f.answered
    g = fjit.fuse(lambda a, k: (a, k, a * 2))
    for _ in range(3):
        one, number, twice = g(x, 2.5)
        assert one is x and number == 2.5 and type(number) is float
        assert_same(twice, x * 2)
    assert g.answered
    h = fjit.fuse(add_one)
    assert [h(x) for _ in range(4)] == [None] * 4 and h.answered


def test_a_read_only_argument_is_refused_and_untouched() -> None:
    f = warm(add_one, X)
    fixed = X.copy()
    fixed.flags.writeable = False
    for _ in range(3):
        with pytest.raises(ValueError, match="read-only"):
            f(fixed)
    assert_same(fixed, X)
    changing = X.copy()
    f(changing)
    changing.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        f(changing)
    assert_same(changing, X + 1)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (slice(0, 9), slice(1, 10)), (slice(1, 10), slice(0, 9)), (slice(0, 9), slice(0, 9)),
        (slice(0, 9), slice(8, None, -1)), (slice(0, 9), slice(9, 18)), (slice(0, 9), slice(8, 17)),
        (slice(0, 18, 2), slice(1, 19, 2)), (slice(0, 18, 2), slice(9, 18)),
    ],
)  # fmt: skip
def test_overlapping_arguments_are_right(a: slice, b: slice) -> None:
    """First apart, so that there is a record; then sharing memory in every way."""
    f = fjit.fuse(add_and_return)
    for _ in range(3):
        f(np.arange(9.0), np.ones(9))
    assert f.answered
    for _ in range(3):
        mine, other = np.arange(19.0), np.arange(19.0)
        f(mine[a], mine[b])
        target = other[a]
        target += other[b]
        assert_same(mine, other)
    apart = np.arange(18.0)
    before = f.answered
    f(apart[:9], apart[9:])
    assert f.answered == before + 1


def test_captured_arrays_that_are_written_or_meet_what_is() -> None:
    def accumulate(a: Any) -> Any:
        TOTAL[...] += a
        return TOTAL * 2

    f, total = fjit.fuse(accumulate), np.zeros(4)
    TOTAL[...] = 0
    for n in range(6):
        total += n
        assert_same(f(np.full(4, float(n))), total * 2)
        assert_same(TOTAL, total)
    table = np.arange(4.0)

    def write(a: Any) -> None:
        a += table[::-1]

    g = fjit.fuse(write)
    for _ in range(4):
        a = np.ones(4)
        g(a)
        assert_same(a, 1 + table[::-1])
    assert g.answered
    want = table + table[::-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            g(table)
        except fjit.errors.FjitError:
            return
    assert_same(table, want)


def test_one_array_given_twice() -> None:
    f = fjit.fuse(add_and_return)
    f(X.copy(), Y), f(X.copy(), Y), f(X.copy(), Y)
    for _ in range(4):
        both = X.copy()
        assert f(both, both) is both
        assert_same(both, X * 2)


def test_an_error_in_a_kernel_leaves_the_argument_as_it_was() -> None:
    def write(a: Any, i: Any) -> None:
        a += 1
        a[...] = a[i]

    f = warm(write, X, np.array([2, 0, 1]))
    x = X.copy()
    with pytest.raises(IndexError):
        f(x, np.array([0, 5, 1]))
    assert_same(x, X)
    assert answers(f, X, np.array([1, 1, 1]))


def test_subclasses_dtypes_and_shapes_that_differ() -> None:
    class Tagged(np.ndarray):
        pass

    f = warm(add_one, X)
    tagged = X.copy().view(Tagged)
    for other in (X.astype("f4"), X[:2].copy(), X.T.copy(), np.asfortranarray(X), X.astype(">f8")):
        assert not answers(f, other)
    try:
        f(tagged)
    except fjit.errors.FjitError:
        assert_same(np.asarray(tagged), X)
    else:
        assert_same(np.asarray(tagged), X + 1)
    assert answers(f, X)


def test_references_stay() -> None:
    x, table = X.copy(), np.ones(4)

    def write(a: Any) -> Any:
        a += table
        return a, a * 2, a.sum()

    f = fjit.fuse(write)
    for _ in range(3):
        f(x)
    assert f.answered
    watched = (x, table, x.dtype, None, f)
    before = [sys.getrefcount(w) for w in watched]
    for _ in range(1000):
        f(x)
    assert all(abs(b - sys.getrefcount(w)) < 20 for b, w in zip(before, watched, strict=True))


def test_threads_write_into_arrays_of_their_own() -> None:
    f = fjit.fuse(add_and_return, threads=1)
    wrong: list[int] = []

    def work(number: int) -> None:
        mine = np.zeros(50_000)
        step = np.full(50_000, float(number))
        for _ in range(30):
            f(mine, step)
        if not np.array_equal(mine, step * 30):
            wrong.append(number)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong and f.answered


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_writes_in_a_forked_child() -> None:
    f = warm(add_one, X)
    child = os.fork()
    if not child:
        x = X.copy()
        f(x)
        os._exit(0 if np.array_equal(x, X + 1) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
