"""Sorts and order statistics agree with NumPy, NaN included."""

from typing import Any

import numpy as np
import pytest

from tests.frontend.conftest import run_traced

RNG = np.random.default_rng(1)
X = RNG.standard_normal((3, 4, 5)).round(1)
N = X.copy()
N[1, 2, 3] = N[0, 0, 0] = np.nan


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1", "?", "i8"])
@pytest.mark.parametrize("axis", [-1, 0, 1, None])
def test_sort(same_as_numpy: Any, axis: Any, dtype: str) -> None:
    for x in (X, N, np.asfortranarray(X)):
        y = (np.nan_to_num(x) * 10).astype(dtype) if dtype[0] != "f" else x.astype(dtype)
        same_as_numpy(lambda a: np.sort(a, axis=axis), y)
        same_as_numpy(lambda a: np.sort(a, axis=axis, kind="stable"), y)
        same_as_numpy(lambda a: np.argsort(a, axis=axis, stable=True), y)
        same_as_numpy(lambda a: a.argsort(axis, kind="mergesort"), y)


def test_sort_in_place_and_bad(same_as_numpy: Any) -> None:
    def f(a: Any) -> Any:
        a[1].sort(axis=0)
        a.sort()
        return a

    same_as_numpy(f, X)
    same_as_numpy(lambda a: np.sort(a, kind="bogo"), X)
    same_as_numpy(lambda a: np.sort(a, axis=3), X)
    same_as_numpy(lambda a: np.sort(a.sum()), X)
    same_as_numpy(lambda a: np.sort(a, kind="stable", stable=True), X)


@pytest.mark.parametrize("kth", [1, [0, 2], -1])
def test_partition_puts_every_kth_in_its_place(kth: Any) -> None:
    got, _ = run_traced(lambda a: (np.partition(a, kth), np.argpartition(a, kth)), (X,))
    want = np.partition(X, kth)
    np.testing.assert_array_equal(got[0][..., kth], want[..., kth])
    np.testing.assert_array_equal(np.take_along_axis(X, got[1], -1), got[0])
    with pytest.raises(ValueError, match="out of bounds"):
        run_traced(lambda a: np.partition(a, 9), (X,))


def test_lexsort(same_as_numpy: Any) -> None:
    same_as_numpy(lambda a, b: np.lexsort((a, b)), X[0, 0], np.array([1, 0, 1, 0, 1]))
    same_as_numpy(np.lexsort, X[0].round(), layout=False)
    same_as_numpy(lambda a: np.lexsort((a, a > 0), axis=0), X[0], layout=False)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("q", [50, 33.3, 0, 100, [10, 90], 25.0, 75])
def test_percentile(same_as_numpy: Any, q: Any, axis: Any) -> None:
    for x in (X, N, X.astype("f4"), (X * 10).astype("i4")):
        same_as_numpy(lambda a: np.percentile(a, q, axis=axis), x, layout=False)
        same_as_numpy(
            lambda a: np.quantile(a, np.true_divide(q, 100).tolist(), axis=axis, keepdims=True),
            x,
            layout=False,
        )


def test_quantile_whole_numbers_and_refusals(same_as_numpy: Any) -> None:
    same_as_numpy(lambda a: (np.quantile(a, 0), np.quantile(a, 1), np.quantile(a, [0, 1])), X)
    same_as_numpy(lambda a: np.percentile(a, 101), X)
    for f in (
        lambda a: np.quantile(a, a[0, 0, 0]),
        lambda a: np.quantile(a, 0.5, method="nearest"),
    ):
        with pytest.raises(TypeError, match=r"static_argnames|method='linear'"):
            run_traced(f, (X,))


@pytest.mark.parametrize("dtype", ["u1", "i1", "?"])
@pytest.mark.parametrize("extent", [1, 3, 23, 24, 100])
def test_rows_of_bytes_of_every_length(same_as_numpy: Any, extent: int, dtype: str) -> None:
    x = np.random.default_rng(extent).integers(-128, 128, (20, extent)).astype(dtype)
    same_as_numpy(lambda x: (np.sort(x, axis=1), np.sort(x.T, axis=0), np.sort(x, axis=0)), x)
