"""Writes into parts of arguments: kernels walk the part, not the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.testing import assert_same, check

N = 600
ROW, GRID = np.arange(float(N)), np.arange(600.0).reshape(20, 30)


def one(x: Any) -> None:
    x[3] = 1


def last(x: Any) -> None:
    x[-1] = x[0]


def added(x: Any) -> None:
    x[2:5] += x[10:13]


def column(u: Any) -> None:
    u[:, 1] *= 2


def row(u: Any) -> None:
    u[0, :] = 0


def odd(x: Any) -> None:
    x[::2] = x[1::2]


def backwards(x: Any) -> Any:
    x[::-3] += 1
    return x[3:]


def seen(x: Any) -> None:
    v = x[2:]
    v[0] = 1


def inside(u: Any) -> None:
    w = u[3]
    w[2:5] *= 2


def several(x: Any) -> None:
    x[0] = 1
    x[5] = 2
    x[7:9] = x[0]


def twice(x: Any) -> None:
    x[2:6] = 1
    x[2:6] += 2


def neighbours(x: Any) -> None:
    x[1:-1] = x[:-2] + x[2:]


def stencil(u: Any) -> Any:
    u[1:-1, 1:-1] = u[:-2, 1:-1] + u[2:, 1:-1]
    return u


def edges(u: Any) -> None:
    u[0, :] = u[1, :]
    u[-1, :] = u[-2, :]
    u[:, 0] = u[:, 1]
    u[:, -1] = u[:, -2]


def overlapping(x: Any) -> None:
    x[2:6] = 1
    x[4:9] = x[1:6]


def summed(x: Any) -> Any:
    x[0] = 1
    return x.sum()


def old(x: Any) -> Any:
    before = x[2:5] * 3
    x[3:6] = 7
    return before


def centred(x: Any) -> None:
    x[2:9] -= x[2:9].mean()


# the parts that are written where they are, and the elements of all results
CASES: list[tuple[Callable[..., Any], Any, int, int]] = [
    (one, ROW, 1, 1), (last, ROW, 1, 1), (added, ROW, 1, 3), (column, GRID, 1, 20),
    (row, GRID, 1, 30), (odd, ROW, 1, 300), (backwards, ROW, 1, 200), (seen, ROW, 1, 1),
    (inside, GRID, 1, 3), (several, ROW, 3, 4), (twice, ROW, 1, 4), (neighbours, ROW, 0, 598),
    (stencil, GRID, 0, 504), (edges, GRID, 0, 100), (overlapping, ROW, 0, 9), (summed, ROW, 0, 2),
    (old, ROW, 1, 6), (centred, ROW, 0, 7),
]  # fmt: skip


@pytest.mark.parametrize(("function", "x", "parts", "elements"), CASES)
def test_kernels_walk_the_parts(
    function: Callable[..., Any], x: Any, parts: int, elements: int
) -> None:
    executable = fjit.fuse(function).prepare(x.copy()).executable
    assert executable is not None
    assert (len(executable.parts), sum(v.aval.bound for v in executable.results)) == (
        parts, elements,
    )  # fmt: skip


@pytest.mark.parametrize("function", [case[0] for case in CASES])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_results_are_numpys(function: Callable[..., Any], dtype: str) -> None:
    x = next(case[1] for case in CASES if case[0] is function)
    kept = function is not centred or dtype != "i4"
    check(function, x.astype(dtype if kept else "f8"))


@pytest.mark.parametrize("function", [column, row, inside, stencil, edges])
def test_other_memory_orders(function: Callable[..., Any]) -> None:
    wide = np.arange(2400.0).reshape(40, 60)
    for u in (np.asfortranarray(GRID), wide[::2, ::2], wide[::-2, 1::2], wide.T[5:35, 3:33]):
        check(function, u)


@pytest.mark.parametrize("function", [one, added, several, edges, stencil, neighbours, odd])
def test_calls_that_come_again(function: Callable[..., Any]) -> None:
    fused = fjit.fuse(function)
    shape = GRID if function in (edges, stencil) else ROW
    for x in (shape, shape, shape * 2, np.concatenate([shape, shape]), np.tile(shape, 3)[:40]):
        got, want = x.copy(), x.copy()
        assert_same(fused(got), function(want))
        np.testing.assert_array_equal(got, want)


def test_arguments_that_overlap() -> None:
    def shifted(a: Any, b: Any) -> None:
        a[2:9] = b[3:10] * 2

    x = np.arange(40.0)
    for a, b in ((slice(0, 20), slice(1, 21)), (slice(3, 20), slice(0, 17))):
        got, want = x.copy(), x.copy()
        fused = fjit.fuse(shifted)
        fused(got[:20].copy(), got[20:].copy())
        fused(got[a], got[b])
        shifted(want[a], want[b])
        np.testing.assert_array_equal(got, want)


def test_masks_and_bools() -> None:
    check(one, np.zeros(N, np.bool_))


def test_reports_tell_of_the_part() -> None:
    kernels = fjit.fuse(added).explain(ROW.copy(), compile=False).kernels
    assert [k.bytes_written for k in kernels] == [24]
