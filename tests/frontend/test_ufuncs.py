"""Every ufunc, dtype by dtype, against NumPy."""

import numpy as np
import pytest

from fjit.frontend.numpy.ufunc_table import TABLE

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.75, 2.0, np.inf, -np.inf, np.nan, 1e-40, 88.8, 1e10]
UNARY = [name for name in TABLE if getattr(np, name).nin == 1]
BINARY = [name for name in TABLE if getattr(np, name).nin == 2]


def sample(dtype, seed=0):
    d, rng = np.dtype(dtype), np.random.default_rng(seed)
    if d.kind == "b":
        return rng.integers(0, 2, 24).astype(bool)
    if d.kind in "iu":
        i = np.iinfo(d)
        edges = np.array([0, 1, 2, 3, i.max, i.min], d)
        return rng.permutation(np.concatenate([rng.integers(i.min, i.max, 18, d, True), edges]))
    with np.errstate(over="ignore"):
        return rng.permutation(np.array([*FLOATS, *rng.standard_normal(10) * 3])).astype(d)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name, same_as_numpy):
    f = getattr(np, name)
    for dtype in DTYPES:
        same_as_numpy(f, sample(dtype))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name, same_as_numpy):
    f = getattr(np, name)
    for left in DTYPES:
        for right in DTYPES:
            x, y = sample(left), sample(right, 1)
            if "shift" in name and y.dtype.kind in "iu":
                y = y % y.dtype.type(7)
            if name == "power" and np.result_type(x, y).kind in "iub":
                y = np.abs(y % 7 if y.dtype.kind in "iu" else y)
            # float_power's loop is not vectorised in NumPy, the meaning of our pow is
            same_as_numpy(f, x, y, ulp=1 if name == "float_power" else 0)
