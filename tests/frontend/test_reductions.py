"""Reductions: every dtype, axis and keyword, against NumPy."""

from functools import partial

import numpy as np
import pytest

DTYPES = ["?", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8"]
NAMES = ["sum", "prod", "mean", "var", "std", "min", "max", "amin", "amax", "argmin", "argmax",
         "any", "all", "count_nonzero", "ptp"]  # fmt: skip
TOLERANCE = {"f2": 4e-3, "f4": 2e-6}


def array(dtype, shape=(4, 5, 6), seed=0):
    d, rng = np.dtype(dtype), np.random.default_rng(seed)
    if d.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if d.kind in "iu":
        i = np.iinfo(d)
        return rng.integers(i.min, i.max, shape, d, True)
    return (1 + rng.standard_normal(shape) / 8).astype(d)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_axis(name, dtype, same_as_numpy):
    f = getattr(np, name)
    exact = name[:3] in ("arg", "min", "max", "any", "all", "ptp", "ami", "ama")
    rtol = 0 if exact else TOLERANCE.get(dtype, 1e-13)
    axes = [None, 0, 1, -1, (0, 2), (0, 1, 2), (), (2, -2), 5, (0, 0)]
    for x in (array(dtype), np.asfortranarray(array(dtype)), array(dtype).transpose(2, 0, 1)[::-1]):
        for axis in axes[:4] if name.startswith("arg") else axes:
            for keep in (False, True):
                same_as_numpy(partial(f, axis=axis, keepdims=keep), x, rtol=rtol)
    same_as_numpy(f, np.array(array(dtype)[0, 0, 0]), rtol=rtol)
    same_as_numpy(lambda a: f(a, axis=0), np.zeros((0, 3), dtype), rtol=rtol)
    same_as_numpy(lambda a: f(a, axis=1), np.zeros((0, 3), dtype), rtol=rtol)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("count_nonzero", "amin", "amax")])
def test_methods(name, same_as_numpy):
    x = array("f8")
    if name != "ptp":
        same_as_numpy(lambda a: getattr(a, name)(), x, rtol=1e-13)
        same_as_numpy(lambda a: getattr(a, name)(axis=1), x, rtol=1e-13)


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_initial_and_where(name, dtype, same_as_numpy):
    f, x, rtol = getattr(np, name), array(dtype), TOLERANCE.get(dtype, 1e-13)
    mask = array("?", seed=3)
    same_as_numpy(lambda a: f(a, axis=1, initial=1), x, rtol=rtol)
    same_as_numpy(lambda a, m: f(a, axis=1, where=m, initial=1), x, mask, rtol=rtol)
    same_as_numpy(lambda a, m: f(a, axis=1, where=m), x, mask, rtol=rtol)
    same_as_numpy(lambda a, m: f(a, where=m[0], initial=1), x, mask, rtol=rtol)
    same_as_numpy(lambda a: f(a, axis=0, initial=1), x[:0], rtol=rtol)


@pytest.mark.parametrize("name", ["mean", "var", "std"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_moments(name, dtype, same_as_numpy):
    f, x, rtol = getattr(np, name), array(dtype), TOLERANCE.get(dtype, 1e-13)
    mask = array("?", seed=3)
    same_as_numpy(lambda a, m: f(a, axis=1, where=m), x, mask, rtol=rtol)
    same_as_numpy(lambda a, m: f(a, where=m, keepdims=True), x, mask, rtol=rtol)
    for asked in ("f4", "f8"):
        same_as_numpy(partial(f, axis=1, dtype=asked), x, rtol=max(rtol, 2e-6))
    if name != "mean":
        for ddof in (1, 4, 6, 1.5):
            same_as_numpy(partial(f, axis=0, ddof=ddof), x, rtol=rtol)
        same_as_numpy(lambda a: f(a, axis=0, correction=1), x, rtol=rtol)
        same_as_numpy(lambda a: f(a, axis=0, mean=np.mean(a, axis=0, keepdims=True)), x, rtol=rtol)


def test_out(same_as_numpy):
    x = array("f8")

    def into(a):
        out, narrow = np.zeros_like(a[0]), np.zeros_like(a[0], dtype="f4")
        position = np.zeros_like(a[0], dtype="i8")
        np.sum(a, axis=0, out=out)
        np.argmax(a, axis=0, out=position)
        return np.mean(a, axis=0, out=narrow), out, a.max(axis=0, out=out), position

    same_as_numpy(into, x, rtol=1e-6)


def test_nan_and_infinities(same_as_numpy):
    x = np.array([[1.0, np.nan, -np.inf], [np.inf, 3.0, np.nan], [1.0, 1.0, 1.0]])
    for name in ("max", "min", "argmax", "argmin", "sum", "mean", "any", "all"):
        same_as_numpy(partial(getattr(np, name), axis=1), x)
        same_as_numpy(getattr(np, name), x)


def test_average(same_as_numpy):
    x, w = array("f8"), np.abs(array("f8", seed=4))
    same_as_numpy(lambda a: np.average(a, axis=1), x, rtol=1e-13)
    same_as_numpy(lambda a: np.average(a, axis=1, returned=True), x, rtol=1e-13)
    same_as_numpy(lambda a, b: np.average(a, axis=1, weights=b, returned=True), x, w, rtol=1e-13)
    same_as_numpy(lambda a, b: np.average(a, axis=2, weights=b), x, w[0, 0], rtol=1e-13)
    same_as_numpy(lambda a, b: np.average(a, axis=2, weights=b), array("i4"), w[0, 0], rtol=1e-13)
    same_as_numpy(lambda a, b: np.average(a, weights=b), array("f4"), array("f4"), rtol=1e-6)


def test_mean_divides_like_numpy_for_large_counts(same_as_numpy):
    x = np.ones((1 << 12) + 1, "f2")
    same_as_numpy(lambda a: np.mean(a, dtype="f2"), x)
    same_as_numpy(np.mean, x)


@pytest.mark.parametrize("dtype", ["i4", "f2", "f4", "f8"])
def test_symbolic_extents(dtype, same_as_numpy):
    x, rtol = array(dtype, (40,)), TOLERANCE.get(dtype, 1e-12)
    names = [n for n in NAMES if n not in ("amin", "amax")]
    for f in (getattr(np, n) for n in names):
        same_as_numpy(lambda a, f=f: f(a[a > a[3]]), x, rtol=rtol)
    same_as_numpy(lambda a: a[a > a[3]].mean(keepdims=True), x, rtol=rtol)
    same_as_numpy(lambda a: (a[a > a[3]].sum() + 1) * 2, x, rtol=rtol)
    same_as_numpy(lambda a: np.sum(a[a > a[3]], where=a[a > a[3]] > 1), x, rtol=rtol)
    same_as_numpy(lambda a: np.var(a[a > a[3]], ddof=1), x, rtol=rtol)
    same_as_numpy(lambda a: np.zeros_like(a[a > a[3]]) + np.ones_like(a[a > a[3]]), x)
    same_as_numpy(lambda a: np.cumsum(a[a > a[3]]), x, rtol=10 * rtol)
    same_as_numpy(lambda a: np.where(a[a > a[3]] > 1, a[a > a[3]], 0), x)
    same_as_numpy(lambda a: np.sum(a[a != a]), x)
    same_as_numpy(lambda a: np.mean(a[a != a]), x)
    same_as_numpy(lambda a: np.max(a[a != a]), x)


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "nansum", "nanmax"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_initial_that_the_dtype_may_not_hold(name, dtype, same_as_numpy):
    f, x = getattr(np, name), array(dtype)[:2, 0, 0]
    values = [np.inf, -np.inf, np.nan, -3.5, 2.5, 300, -1, 2**63, 2**70, True, np.int8(3)]
    for value in values:
        same_as_numpy(lambda a, v=value: f(a, initial=v), x, rtol=TOLERANCE.get(dtype, 1e-13))
        same_as_numpy(lambda a, v=value: f(a[:0], initial=v), x)
