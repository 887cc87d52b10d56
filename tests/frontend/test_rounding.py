"""round, closeness, interp and the functions that are trivial for real numbers."""

from functools import partial

import numpy as np
import pytest

X = np.random.default_rng(0).standard_normal((3, 4)) * 10
SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 0.5, 1.5, -2.5, 3e38, 2.675, 1e-40, 3])


@pytest.mark.parametrize("dtype", ["?", "i4", "u1", "i8", "f2", "f4", "f8"])
def test_round(dtype, same_as_numpy):
    with np.errstate(all="ignore"):
        x = (np.abs(X) if dtype == "u1" else X).astype(dtype)
        special = SPECIAL.astype(dtype)
    for decimals in (0, 1, 2, -1, -2, 5):
        same_as_numpy(partial(np.round, decimals=decimals), x)
        same_as_numpy(partial(np.around, decimals=decimals), special)
        same_as_numpy(lambda a, d=decimals: a.round(d), np.asfortranarray(x))
    same_as_numpy(lambda a: np.round(a[0, 0], 1), x)
    same_as_numpy(np.fix, x)


def test_round_into(same_as_numpy):
    def into(a, b):
        np.round(a, 1, out=b)
        return a.round(2, a)

    same_as_numpy(into, X, X.copy())
    same_as_numpy(into, X, X.astype("f4"))


# fmt: off
TRIVIAL = [np.isreal, np.iscomplex, np.isrealobj, np.iscomplexobj, np.isposinf, np.isneginf,
           np.real_if_close, np.angle, partial(np.angle, deg=True), lambda a: np.real(a) + 1,
           lambda a: np.imag(a) + 1, lambda a: np.zeros_like(a, np.result_type(a, 1.0, "i8")),
           lambda a: np.can_cast(a.dtype, "f8"), lambda a: np.zeros_like(a, np.common_type(a))]
# fmt: on


@pytest.mark.parametrize("f", TRIVIAL)
def test_trivial_for_real_numbers(f, same_as_numpy):
    same_as_numpy(f, SPECIAL)
    same_as_numpy(f, SPECIAL.astype("f4"))
    same_as_numpy(f, np.arange(3))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
def test_sinc(dtype, same_as_numpy):
    same_as_numpy(np.sinc, X.astype(dtype))
    same_as_numpy(np.sinc, np.zeros(3, dtype))


def test_closeness(same_as_numpy):
    near = X * (1 + 1e-6)
    near[0] = X[0] + 1
    for f in (np.isclose, np.allclose, np.array_equal, np.array_equiv):
        same_as_numpy(f, X, near)
        same_as_numpy(f, X, X.copy())
        same_as_numpy(f, X, X[0])
        same_as_numpy(f, X.astype("f4"), X)
        same_as_numpy(f, np.arange(4), np.arange(4))
        same_as_numpy(f, SPECIAL, SPECIAL.copy())
    same_as_numpy(partial(np.isclose, equal_nan=True), SPECIAL, SPECIAL.copy())
    same_as_numpy(partial(np.array_equal, equal_nan=True), SPECIAL, SPECIAL.copy())
    same_as_numpy(lambda a: np.isclose(a, 0.5, rtol=0, atol=0.1), X)
    same_as_numpy(lambda a: np.isclose(2, a[0, 0]), X)
    same_as_numpy(lambda a, t: np.isclose(a, a + t, atol=t), X, 0.25)
    same_as_numpy(np.isclose, np.array([-128, 1], "i1"), np.array([-128, 2], "i1"))


NODES = np.array([-5.0, -1, 0, 0.5, 7]), np.array([1.0, 3, 3, -2, np.inf])


def test_interp(same_as_numpy):
    xp, fp = NODES
    points = np.concatenate([X.ravel(), xp, SPECIAL]).reshape(-1)
    same_as_numpy(np.interp, points, xp, fp)
    same_as_numpy(np.interp, X, xp, np.arange(5))
    same_as_numpy(lambda a: np.interp(a, xp, fp, left=-1, right=np.nan), points)
    same_as_numpy(lambda a: np.interp(a[0, 0], xp, fp), X)
    same_as_numpy(lambda a: np.interp(a, [0.0], [3.0], left=-1), points)
    same_as_numpy(lambda a: np.interp(a, xp, np.arange(5), period=4), X)
    same_as_numpy(lambda y: np.interp([0.1, 3.0, -9], xp, y), fp)
    same_as_numpy(lambda a: np.interp(a, xp, fp[:3]), X)
    same_as_numpy(np.interp, X.astype("f4"), xp.astype("f4"), np.arange(5, dtype="i4"))
