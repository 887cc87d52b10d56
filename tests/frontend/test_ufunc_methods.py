"""reduce, accumulate, outer and at of ufuncs; keywords of ufunc calls."""

from functools import partial

import numpy as np
import pytest

from fjit.errors import UnsupportedError
from fjit.frontend.function import trace_function

X = np.random.default_rng(0).standard_normal((3, 4))
NAMES = ["add", "multiply", "maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["?", "i4", "u1", "f4", "f8"])
def test_reduce(name, dtype, same_as_numpy):
    f, x = getattr(np, name).reduce, X.astype(dtype)
    rtol = 1e-6 if dtype == "f4" else 1e-13
    for axis in (0, 1, None, (0, 1), ()):
        same_as_numpy(partial(f, axis=axis), x, rtol=rtol)
    same_as_numpy(partial(f, axis=1, keepdims=True, initial=1), x, rtol=rtol)
    same_as_numpy(lambda a: f(a, axis=1, where=a > 0, initial=0), x, rtol=rtol)


def test_reduce_ignoring_nan(same_as_numpy):
    x = np.where(X > 0, np.nan, X)
    x[1] = np.nan
    same_as_numpy(lambda a: (np.fmax.reduce(a, 1), np.fmin.reduce(a), np.fmax.reduce(a, None)), x)


def test_outer(same_as_numpy):
    for name in ("add", "subtract", "less", "power", "divmod"):
        same_as_numpy(getattr(np, name).outer, X[0], np.abs(X[:, :2]))
    same_as_numpy(lambda a: np.multiply.outer(a, 2), X.astype("f4"))
    same_as_numpy(lambda a: np.multiply.outer(np.arange(3.0), a), X[0])


def test_at(same_as_numpy):
    def at(a, i):
        np.add.at(a, i, 1.5)
        np.add.at(a, (i, [0, 1, 3]), a[0, :3])
        np.maximum.at(a[1], [0, 0, -1], [3, 1, 2])
        np.multiply.at(a.T, i, 2)

    same_as_numpy(at, X, np.array([0, 2, 0]))
    with pytest.raises(UnsupportedError, match="convert the values first"):
        from_traced(lambda a: np.add.at(a, [0], 1.5), np.arange(3))


def test_refusals(same_as_numpy):
    for f in (lambda a: np.add.reduceat(a, [0, 1]), np.hypot.reduce,
              np.subtract.accumulate, np.frexp, np.spacing,
              lambda a: np.subtract.at(a, [0], 1)):  # fmt: skip
        with pytest.raises(UnsupportedError, match=r"np|use|with|compute"):
            from_traced(f)


def from_traced(f, x=X):
    trace_function(lambda leaves: f(*leaves), [x.copy()], ["a"])


def test_keywords(same_as_numpy):
    def out(a, b):
        np.add(a, 1, out=b)
        np.multiply(a, 2, b, casting="unsafe")
        np.divide(1, a, out=b, where=a > 0)
        np.exp(a, out=(b,), where=b > 0)
        return np.subtract(a, b, out=a)

    same_as_numpy(out, X, X.copy())
    same_as_numpy(out, X, X.astype("f4"))
    same_as_numpy(lambda a: np.add(a, 1, dtype="f4", casting="same_kind"), X)
    same_as_numpy(lambda a: np.add(a, 1, dtype="i4"), X)
    same_as_numpy(lambda a: np.add(a, 1, dtype="f8"), X.astype("i2"))
    same_as_numpy(lambda a: np.add(a, 1, signature="ff->f", casting="unsafe"), X)
    same_as_numpy(lambda a: np.add(a, a.T[:, :1].T[:, :1], order="F"), X)
    same_as_numpy(lambda a: np.negative(a, order="C"), np.asfortranarray(X))
    same_as_numpy(lambda a, i: np.add(a, i, out=i), X, X.astype("i4"))
    same_as_numpy(lambda a: np.add(a, a, out=a[0]), X)

    def two(a, b, c):
        np.divmod(a, 0.3, out=(b, c))
        return np.modf(a, out=(None, b))

    same_as_numpy(two, X, X.copy(), X.copy())


def test_in_place_operators(same_as_numpy):
    def update(a, i):
        a += 1
        a *= i
        i -= 2
        i **= 2
        a **= 2
        a /= 3
        a[1:] -= a[:-1]

    same_as_numpy(update, X, np.arange(12).reshape(3, 4))

    def bad(i):
        i += 0.5

    same_as_numpy(bad, np.arange(3))
    same_as_numpy(lambda i: i.__itruediv__(2), np.arange(3))
