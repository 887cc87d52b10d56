"""searchsorted, digitize, bincount, isin, convolve agree with NumPy."""

from typing import Any

import numpy as np
import pytest

from tests.frontend.conftest import run_traced

EDGES = np.array([-1.0, 0.0, 0.5, 2.0, 2.0, 9.0])
X = np.array([[0.0, -3.0, 2.0], [1.0, 9.5, np.nan]])
C = np.array([3, 1, 1, 0, 5, 3])


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(same_as_numpy: Any, side: str) -> None:
    same_as_numpy(lambda e, x: np.searchsorted(e, x, side=side), EDGES, X)
    same_as_numpy(lambda e, x: e.searchsorted(x, side), EDGES, X.astype("f4"))
    same_as_numpy(lambda x: np.searchsorted(EDGES, x, side), X)
    same_as_numpy(lambda e: (np.searchsorted(e, 0.5, side), np.searchsorted(e, [1, 2])), EDGES)
    same_as_numpy(lambda e: np.searchsorted(e, 1.5, side), np.arange(5))
    same_as_numpy(lambda e, s: np.searchsorted(e, 3, side, sorter=s), C, np.argsort(C))
    same_as_numpy(lambda e: np.searchsorted(e, 1, "middle"), EDGES)


@pytest.mark.parametrize("right", [False, True])
def test_digitize(same_as_numpy: Any, right: bool) -> None:
    bins = np.array([-1.0, 0.0, 2.0, 4.0])
    same_as_numpy(lambda x: np.digitize(x, bins, right), X)
    same_as_numpy(lambda x: np.digitize(x, bins[::-1].copy(), right), X)
    same_as_numpy(lambda x, b: np.digitize(x, b, right), X, bins)
    same_as_numpy(lambda x, b: np.digitize(x, b, right), X, bins[::-1].copy())
    same_as_numpy(lambda x: np.digitize(x, [0, 2, 5], right), X)
    same_as_numpy(lambda x: np.digitize(x, [0, 2, 1]), X)


def test_bincount(same_as_numpy: Any) -> None:
    same_as_numpy(lambda c: np.bincount(c, minlength=6), C)
    same_as_numpy(lambda c: np.bincount(c, minlength=9), C.astype("i2"))
    same_as_numpy(lambda c, w: np.bincount(c, w, minlength=6), C, C * 0.25)
    same_as_numpy(lambda c: (np.bincount(c), np.bincount(c, minlength=4)), C.astype("u1"))
    same_as_numpy(lambda c: (np.bincount(c), np.bincount(c, minlength=9)), C.astype("u1")[:3])
    same_as_numpy(lambda c: np.bincount(c, minlength=3), C.astype("u1")[:0])
    same_as_numpy(lambda c: np.bincount(c, minlength=3), C.astype("f8"))
    same_as_numpy(lambda c: np.bincount(c, [1.0, 2.0], minlength=6), C)
    same_as_numpy(lambda c: np.bincount(c, minlength=-1), C)
    with pytest.raises(ValueError, match="minlength= as a bound"):
        run_traced(np.bincount, (C,))
    for bad in (np.array([0, 7]), np.array([-1])):
        with pytest.raises(IndexError):
            run_traced(lambda c: np.bincount(c, minlength=3), (bad,))


def test_isin(same_as_numpy: Any) -> None:
    same_as_numpy(lambda c: np.isin(c, [1, 5, 7]), C)
    same_as_numpy(lambda x: np.isin(x, [2.0, np.nan], invert=True), X)
    same_as_numpy(np.isin, C, np.array([3, 5]))
    same_as_numpy(lambda c: np.isin(c, np.arange(0, 300, 3)), C)
    same_as_numpy(lambda x: np.isin(x, np.arange(100)), X)
    same_as_numpy(lambda c: np.isin(c, []), C)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", ["f8", "i4"])
def test_convolve(same_as_numpy: Any, mode: str, dtype: str) -> None:
    x, k = (np.arange(12) * 3 % 7).astype(dtype), np.array([1, -2, 4, 3]).astype(dtype)
    for a, b in ((x, k), (k, x), (x, k[:1]), (x, k[:3]), (k, k)):
        same_as_numpy(lambda p, q: np.convolve(p, q, mode), a, b, rtol=1e-14)
        same_as_numpy(lambda p, q: np.correlate(p, q, mode), a, b, rtol=1e-14)


def test_convolve_edges(same_as_numpy: Any) -> None:
    same_as_numpy(lambda a: np.convolve(a, [1, np.inf]), np.ones(4))
    same_as_numpy(lambda a: np.convolve(a, [0.5, 0.5]), np.ones(4, "f4"))
    same_as_numpy(lambda a: np.convolve(a, 2.0), np.ones(4))
    same_as_numpy(lambda a: np.convolve(a, []), np.ones(4))
    with pytest.raises(ValueError, match="up to 64"):
        run_traced(lambda a: np.convolve(a, a), (np.ones(100),))


@pytest.mark.parametrize("value", [0.5, np.float64(2.0), np.array(3.5)])
def test_one_value_gives_a_number(value: Any, same_as_numpy: Any) -> None:
    edges = np.array([1.0, 2.0, 4.0])
    same_as_numpy(lambda v, e: np.searchsorted(e, v), value, edges)
    for right in (False, True):
        same_as_numpy(lambda v, e, r=right: np.digitize(v, e, r), value, edges)
        same_as_numpy(lambda v, e, r=right: np.digitize(v, e, r), value, edges[::-1])
        same_as_numpy(lambda v, r=right: np.digitize(v, [3.0, 2.0, 1.0], r), value)


@pytest.mark.parametrize("dtype", ["u1", "?"])
def test_bincount_with_a_bin_for_every_value_has_a_known_length(
    dtype: str, same_as_numpy: Any
) -> None:
    x = np.array([0, 1, 1, 0, 1]).astype(dtype)
    for length in (2, 3, 255, 256, 300):
        if length >= 256 or dtype == "?":
            same_as_numpy(lambda v, n=length: np.bincount(v, minlength=n) + np.arange(n), x)
        same_as_numpy(lambda v, n=length: np.bincount(v, minlength=n), x)
