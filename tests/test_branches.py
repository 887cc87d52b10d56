"""Python branches on traced scalars: the first call's way, guarded; other ways are traced anew."""

from typing import Any

import numpy as np
import pytest

import fjit
from fjit.testing import check


def checked(x: Any) -> Any:
    if np.any(x < 0):
        raise ValueError("negative input")
    if x.sum() > 10:
        return x * 2
    return -x


def newton(a: Any) -> Any:
    x, steps = a.copy(), 0
    while np.abs(x * x - a).max() > 1e-10 and steps < 50:
        x = 0.5 * (x + a / x)
        steps += 1
    return x


@pytest.mark.parametrize(
    "f",
    [
        lambda x, k: x[k:],
        lambda x, k: x[k : k + 2] * 2,
        lambda x, k: x[-k:].sum(),
        lambda x, k: x[::k],
        lambda x, k: x[k::-1],
        lambda x, k: x[k:None:1],
        lambda x, k: x[0 * k :],
        lambda x, k: x[int(x[1]) : int(x[3])],
        lambda x, k: x.reshape(3, 2)[k - 1 :, : k - 1],
    ],
)
@pytest.mark.parametrize("k", [1, 2, np.int32(3)])
def test_slices_follow_traced_bounds(f: Any, k: Any) -> None:
    check(f, np.arange(6.0), k)


def test_writes_to_slices_follow_traced_bounds() -> None:
    def f(x: Any, k: Any) -> Any:
        x[k:] = 0
        x[:k] += x[k - 1]

    check(f, np.arange(6.0), 2)


def test_each_way_is_traced_once() -> None:
    fused = fjit.fuse(checked)
    for x in (np.ones(3), np.full(3, 9.0), np.ones(3) / 2, np.full(3, 8.0)):
        np.testing.assert_array_equal(fused(x), checked(x))
    assert fused.cache_info().traces == 2


def test_an_exception_of_the_function_is_raised_by_the_call_that_meets_it() -> None:
    fused = fjit.fuse(checked)
    fused(np.ones(3))
    with pytest.raises(ValueError, match="negative input"):
        fused(-np.ones(3))
    np.testing.assert_array_equal(fused(np.ones(3)), -np.ones(3))


def test_a_loop_until_convergence() -> None:
    a = np.array([2.0, 3.0])
    np.testing.assert_array_equal(fjit.fuse(newton)(a), newton(a))


def test_an_int_argument_may_be_a_range() -> None:
    def powers(x: Any, n: int) -> Any:
        for k in range(n):
            x = x + k
        return x

    fused = fjit.fuse(powers)
    for n in (0, 3, 12, 3):
        np.testing.assert_array_equal(fused(np.zeros(2), n), powers(np.zeros(2), n))


def test_too_many_ways_are_refused_with_the_line() -> None:
    def steps(x: Any) -> Any:
        total = 0
        for level in range(20):
            if x[0] > level:
                total += 1
        return x * total

    fused = fjit.fuse(steps)
    for level in range(8):
        np.testing.assert_array_equal(fused(np.ones(2) * level), steps(np.ones(2) * level))
    with pytest.raises(fjit.errors.BranchError, match=r"test_branches\.py.*8 different traces"):
        fused(np.ones(2) * 9)


def test_an_array_of_several_elements_has_no_truth() -> None:
    def ambiguous(x: Any) -> Any:
        return x if x > 0 else -x

    with pytest.raises(fjit.errors.BranchError, match=r"test_branches\.py.*np\.where"):
        fjit.fuse(ambiguous)(np.ones(3))


def test_a_program_has_no_arguments_to_follow() -> None:
    with pytest.raises(fjit.errors.BranchError, match="while the function is traced"):
        fjit.make_program(checked)(np.ones(3))


def test_branches_decide_before_arguments_are_written() -> None:
    def scale(x: Any) -> Any:
        if x[0] > 1:
            x *= 2
        else:
            x += 1
        return x

    fused = fjit.fuse(scale)
    x, y = np.array([0.0, 1.0]), np.array([0.0, 1.0])
    for _ in range(5):
        np.testing.assert_array_equal(fused(x), scale(y))
        np.testing.assert_array_equal(x, y)
