"""Searches in sorted vectors, counted and by halves, against NumPy on every path."""

import numpy as np
import pytest

import fjit
from fjit.testing import check

EXTENTS = (0, 1, 64, 65, 128, 1000)


def _table(extent: int, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(extent)
    values = rng.integers(0, 2 * extent + 2, extent) - extent * (dtype[0] != "u")
    return np.sort((values / (1 if dtype[0] in "iu" else 4)).astype(dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "u1", "?"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_positions_of_what_is_there_and_of_what_is_not(dtype: str, side: str) -> None:
    for extent in EXTENTS:
        table = _table(extent, dtype)
        values = np.concatenate([table, table + table.dtype.type(1), table[::-1]])[:150]
        check(lambda t, x: np.searchsorted(t, x, side), table, values)
        check(lambda t, x: np.searchsorted(t, x, side), table, values[:100].reshape(-1, 1))


@pytest.mark.parametrize("extent", [5, 100])
@pytest.mark.parametrize("side", ["left", "right"])
def test_what_is_not_a_number_comes_last(extent: int, side: str) -> None:
    table = np.arange(float(extent))
    table[-1], table[-2], table[-3] = np.nan, np.nan, np.inf
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, extent - 4.0, 0.5])
    check(lambda t, x: np.searchsorted(t, x, side), table, values)
    check(lambda t: (np.searchsorted(t, np.nan, side), np.searchsorted(t, 1.5, side)), table)


@pytest.mark.parametrize("extent", [3, 64, 200])
@pytest.mark.parametrize("right", [False, True])
def test_bins_that_rise_and_fall(extent: int, right: bool) -> None:
    edges, values = np.linspace(0, 9, extent), np.linspace(-1, 10, 333)
    for bins in (edges, edges[::-1], edges[::-1].copy()):
        check(lambda x, b: np.digitize(x, b, right), values, bins)
    check(lambda x, b: np.digitize(np.abs(x), b * 2, right) + 1, values, edges)


@pytest.mark.parametrize("extent", [64, 65, 300])
def test_members_among_many(extent: int) -> None:
    tests = np.arange(extent)[::-1] * 3
    for dtype in ("i4", "f8"):
        x = np.arange(500).reshape(50, 10).astype(dtype)
        check(lambda x, t: (np.isin(x, t), np.isin(x, t, invert=True)), x, tests.astype(dtype))


def test_a_search_is_one_kernel_with_what_surrounds_it() -> None:
    def shifted(table: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.searchsorted(table, x * 2) + 1

    for extent, kernels in ((20, 2), (1000, 1)):  # the first stores x * 2: rows of 20 read it
        lowered = fjit.fuse(shifted).lower(np.arange(float(extent)), np.ones(5000))
        assert len(lowered.nests) == kernels
        assert "searchsorted" not in str(lowered.program)
