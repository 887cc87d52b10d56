"""where, select, choose, piecewise, clip and the functions that write under a mask."""

import numpy as np
import pytest

import fjit
from tests.frontend.conftest import assert_same

X = np.random.default_rng(0).standard_normal((3, 4))
SPECIAL = np.array([[0.0, -0.0, np.nan, 1.0], [np.inf, -np.inf, 2.0, -3.0], [0.5, 1.5, -2.5, 9.0]])
DTYPES = ["?", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8"]

# fmt: off
CHOICES = [
    lambda a: np.where(a > 0, a, np.inf), lambda a: np.where(a > 0, 1, 0),
    lambda a: np.where(a > 0, a, a[0]), lambda a: np.where(a[:, :1] > 0, a.T[0], 3),
    lambda a: np.where(a, 1.5, a), lambda a: np.where(a[0, 0] > 0, 1, a[1, 1]),
    lambda a: np.where(a.T > 0, a.T, 0), lambda a: np.where(a > 0, a, np.float32(2)),
    lambda a: np.select([a > 1, a > 0], [a, -a], 7.0), lambda a: np.select([a > 1], [1]),
    lambda a: np.select([a > 1, a[0] > 0], [1, a], default=-1), lambda a: np.select([a], [a]),
    lambda a: np.select([], []), lambda a: np.select([a > 0], [a, a]),
    lambda a: np.choose(a > 0, [a, -1]),
    lambda a: np.choose((a * 3).astype(int), [a, 1, 2], mode="clip"),
    lambda a: np.choose((a * 3).astype(int), [a, 1, 2], mode="wrap"),
    lambda a: np.piecewise(a, [a > 0, a < -1], [lambda v: v * 2, -1, lambda v: v + 1]),
    lambda a: np.piecewise(a, [a > 0], [np.exp, 0]), lambda a: np.piecewise(a, a > 0, [1, 2]),
]
# fmt: on


@pytest.mark.parametrize("f", CHOICES)
def test_choices(f, same_as_numpy):
    same_as_numpy(f, X)
    same_as_numpy(f, X.astype("f4"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_clip(dtype, same_as_numpy):
    with np.errstate(all="ignore"):
        x = (
            np.arange(12).reshape(3, 4).astype(dtype)
            if dtype[0] in "iu?"
            else SPECIAL.astype(dtype)
        )
    for low, high in ((1, 5), (None, 2), (1, None), (-3, 300), (0.5, 1.5), (5, 1), (None, None),
                      (np.float32(0.5), 3), (x.dtype.type(1), x), (np.nan, 3), (-0.0, 0.0),
                      (-(10**30), 10**30)):  # fmt: skip
        same_as_numpy(lambda a, lo=low, hi=high: np.clip(a, lo, hi), x)
        same_as_numpy(lambda a, lo=low, hi=high: a.clip(lo, hi), x)
    same_as_numpy(lambda a: np.clip(a, min=1, max=2), x)
    same_as_numpy(lambda a: np.clip(a, a[0], a[1]), x)
    same_as_numpy(lambda a, s: np.clip(a, -s, s), x, 2.0)
    same_as_numpy(lambda a: np.clip(a[0, 0], 1, 2), x)


def test_clip_into(same_as_numpy):
    def into(a, b):
        np.clip(a, -0.5, 0.5, out=b)
        return a.clip(0, 1, out=a)

    same_as_numpy(into, X, X.astype("f4"))
    same_as_numpy(lambda a: np.clip(a, 0, 1, min=2), X)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_to_num(dtype, same_as_numpy):
    with np.errstate(all="ignore"):
        x = SPECIAL.astype(dtype)
    same_as_numpy(np.nan_to_num, x)
    same_as_numpy(lambda a: np.nan_to_num(a, nan=1.5, posinf=2, neginf=-7), x)
    same_as_numpy(lambda a: np.nan_to_num(a[0, 2]), x)

    def in_place(a):
        np.nan_to_num(a, copy=False)
        return a + 1

    same_as_numpy(in_place, x)


def test_masked_writes(same_as_numpy):
    def copyto(a, b):
        np.copyto(a, b)
        np.copyto(a[1], 3)
        np.copyto(a, 0.5, where=a > 1)
        np.copyto(b, a, casting="unsafe")

    same_as_numpy(copyto, X, X.astype("f4"))
    same_as_numpy(np.copyto, np.arange(3), X[0, :3])

    def masks(a):
        np.putmask(a, a > 0, a * 2)
        np.putmask(a[1], a[1] < 0, [1, 2, 3])
        np.place(a, a > 1, [7, 8])
        np.place(a[2], a[2] < 0, 4)

    same_as_numpy(masks, X)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "?"])
@pytest.mark.parametrize("value", [300, -1, -300, 2**40, 2**63, 2**64 - 1, 2**64, -(2**63) - 1])
def test_an_int_that_the_other_dtype_cannot_hold_wraps(dtype, value, same_as_numpy):
    x, mask = np.arange(3).astype(dtype), np.array([True, False, True])
    same_as_numpy(lambda m, a: np.where(m, a, value), mask, x)
    same_as_numpy(lambda m, a: np.where(m, value, a), mask, x)
    same_as_numpy(lambda m, a: np.select([m], [a], value), mask, x)
    same_as_numpy(lambda m, a: np.choose(m, [a, value]), mask, x)
    if -(2**63) <= value < 2**63:
        same_as_numpy(np.where, mask, x, value)


EXTREMA = {
    "of an array": lambda x: (min(x), max(x)),
    "of scalars": lambda x: max(x[0], x[1]) * np.float32(2),
    "of arrays of rank 0": lambda x: max(np.array(x[0]), np.array(x[1])),
    "of floats": lambda x: max(float(x[0]), 0.5) * x,
    "of ints": lambda x: min(int(x[0]), 2) * x,
    "of bools": lambda x: max(bool(x[0]), False) * x,
    "of lists": lambda x: max([float(x[0]), float(x[1]), 1.5]) + x,
    "with a key": lambda x: max([int(x[0]), int(x[1])], key=lambda v: -v) + x,
}


@pytest.mark.parametrize("name", EXTREMA)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "i1"])
def test_extrema_of_python_keep_the_kind_of_number(name, dtype):
    x = np.array([1, 3, 2]).astype(dtype)
    assert_same(fjit.fuse(EXTREMA[name])(x), EXTREMA[name](x))


def test_choose_of_numbers_is_a_number(same_as_numpy):
    for index in (np.True_, np.array(True)):
        same_as_numpy(lambda i, x: np.choose(i, [x[0], 1]), index, np.arange(3.0))
