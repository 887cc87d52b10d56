"""Reductions that skip NaN."""

from functools import partial

import numpy as np
import pytest

X = np.random.default_rng(0).standard_normal((4, 5, 6))
GAPS = np.where(X > 0.8, np.nan, X)
NAMES = ["nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["i4", "?", "f4", "f8"])
def test_axes(name, dtype, same_as_numpy):
    x = (GAPS if dtype[0] == "f" else X).astype(dtype)
    rtol = 3e-6 if dtype == "f4" else 1e-12
    f = getattr(np, name)
    for axis in (None, 0, -1, (0, 2)):
        for keep in (False, True):
            same_as_numpy(partial(f, axis=axis, keepdims=keep), x, rtol=rtol)
    same_as_numpy(lambda a, m: f(a, axis=1, where=m, **extra(name)), x, X > -1, rtol=rtol)


def extra(name):
    return {"initial": 0} if name in ("nanmax", "nanmin") else {}


def test_all_nan(same_as_numpy):
    x = GAPS.copy()
    x[1, 2] = np.nan
    for name in NAMES:
        same_as_numpy(partial(getattr(np, name), axis=-1), x, rtol=1e-12)
    same_as_numpy(partial(np.nanvar, axis=0, ddof=3), GAPS, rtol=1e-12)


def test_positions(same_as_numpy):
    for f in (np.nanargmax, np.nanargmin):
        same_as_numpy(f, GAPS)
        same_as_numpy(partial(f, axis=1), GAPS)
        same_as_numpy(partial(f, axis=0, keepdims=True), GAPS)
        same_as_numpy(f, np.arange(5))
