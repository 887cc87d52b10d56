"""Results written over arguments: only where each element is read at its own place, and before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.testing import assert_same, check

X, Y = np.arange(-30.0, 30.0).reshape(6, 10), np.linspace(1, 2, 60).reshape(6, 10)
INDEX = np.array([5, 0, 3, 3, 1, 2])


def over(function: Callable[..., Any], *args: Any) -> int:
    """How many arguments the kernels write over; results and arguments must be NumPy's."""
    check(function, *args)
    executable = fjit.fuse(function).prepare(*args).executable
    assert executable is not None
    return len(executable.over) + len(executable.parts)


def add(a: Any, b: Any) -> None:
    a += b


def chain(a: Any, b: Any) -> Any:
    a *= 2
    a += np.tanh(b)
    return a.sum()


def adam(p: Any, g: Any, m: Any, v: Any) -> None:
    m[...] = 0.9 * m + 0.1 * g
    v[...] = 0.999 * v + 0.001 * g * g
    p -= 0.01 * m / (np.sqrt(v) + 1e-8)


def inner(a: Any, b: Any) -> None:
    a[1:-1] += b[1:-1]


def fill(a: Any, b: Any) -> None:
    a[...] = b * 2


def old(a: Any, b: Any) -> Any:
    before = a * 3
    a[...] = b
    return before


@pytest.mark.parametrize(
    ("function", "args", "count"),
    [
        (add, (X, Y), 1), (add, (X, 2.0), 1), (add, (X, X), 1), (add, (X, Y[0]), 1),
        (add, (X.T, Y.T), 1), (adam, (X, Y, X * 0, Y * 0), 3), (fill, (X, Y), 1),
        (inner, (X, Y), 1), (chain, (X, Y), 1),
    ],
)  # fmt: skip
def test_written_over(function: Callable[..., Any], args: tuple[Any, ...], count: int) -> None:
    assert over(function, *args) == count


def reverse(a: Any) -> None:
    a[:] = a[::-1]


def shift(a: Any) -> None:
    a[1:] = a[:-1]


def turn(a: Any) -> None:
    a[...] = a.T


def softmax(a: Any) -> None:
    a[...] = np.exp(a - a.max(1, keepdims=True))


def total(a: Any) -> None:
    a /= a.sum()


def running(a: Any) -> None:
    a[...] = np.cumsum(a[:, ::-1], axis=1)


def blur(a: Any) -> None:
    a[1:-1] = (a[:-2] + a[2:]) / 2


def pick(a: Any, index: Any) -> None:
    a[...] = a[index]


def pick_other(a: Any, b: Any, index: Any) -> None:
    a += b[index]


def rows(a: Any) -> None:
    a -= a[0]


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (reverse, (X,)), (shift, (X,)), (turn, (X[:, :6].copy(),)), (softmax, (X,)), (total, (Y,)),
        (running, (X,)), (blur, (X,)), (pick, (X, INDEX)), (pick_other, (X, Y, INDEX)),
        (rows, (X,)), (add, (X[:, ::2], Y[:, ::2])), (add, (X.astype(">f8"), Y)),
        (add, (X[::-1], Y)), (add, (np.array(2.0), 3.0)),
    ],
)  # fmt: skip
def test_not_written_over(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    assert over(function, *args) == 0


def power(a: Any, k: Any) -> None:
    a **= k


def test_what_may_fail_is_not_written_over() -> None:
    ints = np.arange(1, 7)
    assert over(power, ints, np.array([0, 1, 2, 0, 1, 2])) == 0
    fused = fjit.fuse(power)
    for _ in range(3):
        a = ints.copy()
        with pytest.raises(ValueError, match="negative integer powers"):
            fused(a, np.array([1, 1, -1, 1, 1, 1]))
        assert_same(a, ints)


def swap(a: Any, b: Any) -> None:
    before = a.copy()
    a[...] = b
    b[...] = before


def mix(a: Any, b: Any) -> Any:
    before = a - b
    a += b
    b[...] = before * a
    return before


@pytest.mark.parametrize("function", [swap, mix, old, add])
@pytest.mark.parametrize("size", [1, 7, 8, 33, 1000, 300_000])
def test_arrays_that_are_read_and_written_in_one_kernel(
    function: Callable[..., Any], size: int
) -> None:
    rng = np.random.default_rng(size)
    check(function, rng.standard_normal(size), rng.standard_normal(size).astype("f4"))
    check(function, rng.standard_normal(size), rng.standard_normal(size))


@pytest.mark.parametrize("apart", [0, 1, 5, 59, 60])
def test_arguments_that_meet_in_later_calls(apart: int) -> None:
    """A call with arguments apart comes first: it may write over them."""
    fused = fjit.fuse(old)
    fused(X.copy(), Y), fused(X.copy(), Y), fused(X.copy(), Y)
    for _ in range(3):
        mine, other = np.arange(120.0), np.arange(120.0)
        got = fused(mine[:60].reshape(6, 10), mine[apart : apart + 60].reshape(6, 10))
        want = old(other[:60].reshape(6, 10), other[apart : apart + 60].reshape(6, 10))
        assert_same(got, want)
        assert_same(mine, other)
