"""Running reductions, differences, gradient."""

from functools import partial

import numpy as np
import pytest

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 5, 6))
DTYPES = ["?", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8"]
TOLERANCE = {"f2": 4e-3, "f4": 2e-6}


def array(dtype):
    return np.abs(X * 3).astype(dtype) if dtype[0] == "u" else (X * 3).astype(dtype)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum", "nancumprod"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_running(name, dtype, same_as_numpy):
    f, x, rtol = getattr(np, name), array(dtype), 3 * TOLERANCE.get(dtype, 1e-13)
    if dtype == "f2":
        x = np.sign(x)  # products and sums of these are exact
    for axis in (None, 0, 1, -1, 3):
        same_as_numpy(partial(f, axis=axis), x, rtol=rtol)
        same_as_numpy(partial(f, axis=axis), np.asfortranarray(x), rtol=rtol)
    same_as_numpy(partial(f, axis=1, dtype="f4"), x, rtol=3e-6)
    same_as_numpy(partial(f, axis=0), x.T, rtol=rtol)
    same_as_numpy(f, x[0, 0, 0], rtol=rtol)


def test_nan_is_skipped(same_as_numpy):
    x = np.where(X > 1, np.nan, X)
    same_as_numpy(np.nancumsum, x, rtol=1e-12)
    same_as_numpy(partial(np.nancumprod, axis=1), x, rtol=1e-12)


def test_standard_forms_and_methods(same_as_numpy):
    same_as_numpy(lambda a: a.cumsum(1), X)
    same_as_numpy(lambda a: a.cumprod(), X)
    same_as_numpy(partial(np.cumulative_sum, axis=1), X)
    same_as_numpy(partial(np.cumulative_sum, axis=1, include_initial=True), X)
    same_as_numpy(partial(np.cumulative_prod, axis=-1, include_initial=True), X)
    same_as_numpy(np.cumulative_sum, X)
    same_as_numpy(np.cumulative_sum, X[0, 0])
    for name in ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "hypot"):
        if name != "hypot":
            same_as_numpy(partial(getattr(np, name).accumulate, axis=1), X)
            same_as_numpy(getattr(np, name).accumulate, X[0, 0])
            same_as_numpy(getattr(np, name).accumulate, array("i4")[0, 0])

    def into(a, b):
        np.cumsum(a, axis=0, out=b)

    same_as_numpy(into, X, X.copy())


@pytest.mark.parametrize("dtype", DTYPES)
def test_diff(dtype, same_as_numpy):
    x = array(dtype)
    for n, axis in ((1, -1), (2, 0), (0, 0), (1, 1), (9, 0), (-1, 0), (1, 4)):
        same_as_numpy(partial(np.diff, n=n, axis=axis), x)
    same_as_numpy(lambda a: np.diff(a, prepend=0), x)
    same_as_numpy(lambda a: np.diff(a, append=a[..., :2], axis=-1), x)
    same_as_numpy(np.ediff1d, x)
    same_as_numpy(lambda a: np.ediff1d(a, to_begin=a[0, 0, 0], to_end=[1, 0]), x)
    same_as_numpy(lambda a: np.ediff1d(a, to_end=a[0, 0]), x)
    same_as_numpy(np.diff, x[0, 0, 0])


@pytest.mark.parametrize("dtype", ["i4", "f4", "f8"])
def test_gradient(dtype, same_as_numpy):
    x = array(dtype)
    uneven = np.array([0.0, 1, 3, 4, 8])
    same_as_numpy(np.gradient, x)
    same_as_numpy(np.gradient, x[0, 0])
    for keywords in (
        {"axis": 1},
        {"axis": (0, 2)},
        {"edge_order": 2},
        {"axis": 0, "edge_order": 2},
    ):
        same_as_numpy(partial(np.gradient, **keywords), x)
    same_as_numpy(lambda a: np.gradient(a, 0.5, axis=1), x)
    same_as_numpy(lambda a: np.gradient(a, uneven, axis=1), x)
    same_as_numpy(lambda a: np.gradient(a, np.arange(5) * 2, axis=1), x)
    same_as_numpy(lambda a: np.gradient(a, uneven, axis=1, edge_order=2), x)
    same_as_numpy(lambda a, u: np.gradient(a, u, axis=1, edge_order=2), x, uneven)
    same_as_numpy(lambda a: np.gradient(a, 1, 2, 3), x)
    same_as_numpy(lambda a: np.gradient(a[:1], axis=0), x)


def test_integrals_and_phases(same_as_numpy):
    same_as_numpy(np.trapezoid, X, rtol=1e-13)
    same_as_numpy(lambda a: np.trapezoid(a, dx=0.5, axis=1), X, rtol=1e-13)
    same_as_numpy(lambda a, b: np.trapezoid(a, b, axis=0), X, np.array([0, 1.0, 4, 5]), rtol=1e-13)
    same_as_numpy(lambda a: np.trapezoid(a, a * 2), X, rtol=1e-12)
    same_as_numpy(np.unwrap, X * 5)
    same_as_numpy(lambda a: np.unwrap(a, axis=0, period=4), array("i4"))
    same_as_numpy(lambda a: np.unwrap(a, discont=4.0), X * 5)
