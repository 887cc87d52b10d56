"""Creation functions called on traced values, and plain ones through CREATION."""

import numpy as np
import pytest

import fjit
from fjit.frontend.numpy.creation import CREATION

X = np.random.default_rng(0).standard_normal((3, 4))


def plain(f):
    """`f(namespace)` for the numpy module, and for one whose creation functions are traced."""

    class Traced:
        def __getattr__(self, name):
            value = getattr(np, name)
            return CREATION.get(value, value) if callable(value) else value

    return lambda x: f(Traced() if not isinstance(x, np.ndarray) else np)


# fmt: off
FILLED = [
    lambda n: n.zeros(5), lambda n: n.zeros((2, 3), "f4"), lambda n: n.ones([2, 0], dtype=int),
    lambda n: n.isnan(n.empty((2, 3), order="F")) & False,
    lambda n: n.full((2, 3), 7), lambda n: n.zeros(()),
    lambda n: n.full(3, 2.5, dtype="i4"), lambda n: n.full((2, 3), [1, 2, 3]),
    lambda n: n.zeros((2, 3), order="F"), lambda n: n.ones(3, bool), lambda n: n.full(2, True),
    lambda n: n.zeros_like(np.ones((2, 3), "f4")),
    lambda n: n.full_like(np.ones((2, 3), "i4"), 3.7),
    lambda n: n.ones_like([1, 2]), lambda n: n.eye(3, 4, k=1), lambda n: n.eye(4, dtype="i4", k=-2),
    lambda n: n.identity(3), lambda n: n.tri(3, 5, -1), lambda n: n.tri(3, dtype=int, k=1),
    lambda n: n.array([1, 2, 3]), lambda n: n.array([[1, 2.5], [3, 4]], order="F"),
    lambda n: n.array(3), lambda n: n.asarray([1.0]), lambda n: n.array([1, 2], ndmin=3),
    lambda n: n.array([True]), lambda n: n.asarray((1, 2), dtype="f4"),
    lambda n: n.zeros(np.int64(3)),
    lambda n: n.indices((2, 3)), lambda n: n.indices((2, 3), sparse=True, dtype="f4"),
    lambda n: n.fromfunction(lambda i, j: i * 10 + j, (2, 3)), lambda n: n.zeros(-1),
    lambda n: n.meshgrid(n.arange(3), n.arange(4.0)),
]
# fmt: on


@pytest.mark.parametrize("f", FILLED)
def test_plain_creation(f, same_as_numpy):
    same_as_numpy(plain(f), X)


@pytest.mark.parametrize("dtype", [None, "i1", "i4", "u8", "f2", "f4", "f8", "?"])
def test_arange(dtype, same_as_numpy):
    cases = [(5,), (0,), (-3,), (2, 9), (2, 9, 3), (9, 2, -2), (0.1, 2.05, 0.3), (1.5, -1, -0.25),
             (0, 1, 0.1), (np.float32(0.5), 3), (3, 200, 7)]  # fmt: skip
    for case in cases:
        if dtype == "u8" and min(case) < 0:
            continue
        if dtype == "?" and len(np.arange(*case)) > 2:
            continue
        same_as_numpy(plain(lambda n, c=case: n.arange(*c, dtype=dtype)), X)
    same_as_numpy(plain(lambda n: n.arange(start=1, stop=4)), X)


def test_linspace_bits(same_as_numpy):
    rng = np.random.default_rng(0)
    for _ in range(30):
        a, b = rng.standard_normal(2)
        same_as_numpy(plain(lambda n, a=a, b=b: n.linspace(a, b, 17)), X)
    for keywords in ({"num": 1}, {"num": 0}, {"num": 5, "endpoint": False}, {"dtype": int},
                     {"dtype": "f4", "num": 9}, {"retstep": True}):  # fmt: skip
        same_as_numpy(plain(lambda n, k=keywords: n.linspace(0, 7, **k)), X)
    same_as_numpy(plain(lambda n: n.linspace(np.float32(0), np.float32(1), 7)), X)
    same_as_numpy(plain(lambda n: n.linspace(0, 5e-324, 10)), X)
    same_as_numpy(plain(lambda n: n.linspace(2, 2, 4)), X)
    same_as_numpy(lambda x: np.linspace(x[0], x[1], 5), X)
    same_as_numpy(lambda x: np.linspace(x[0], x[1], 5, axis=-1), X)
    same_as_numpy(lambda x, s: np.linspace(x[0, 0], s, 5, endpoint=False), X, 3.5)


def test_logarithmic_ranges(same_as_numpy):
    same_as_numpy(plain(lambda n: n.logspace(0, 3, 7)), X, ulp=1)
    same_as_numpy(plain(lambda n: n.logspace(0, 3, 7, base=2, dtype=int)), X, ulp=1)
    same_as_numpy(plain(lambda n: n.geomspace(1, 1000, 7)), X, ulp=2)
    same_as_numpy(plain(lambda n: n.geomspace(-1, -1000, 7, endpoint=False)), X, ulp=2)
    same_as_numpy(plain(lambda n: n.geomspace(0, 3)), X)
    same_as_numpy(lambda x: np.geomspace(x[0] ** 2 + 1, 50, 6), X, ulp=2)


def test_of_traced_values(same_as_numpy):
    for f in (np.zeros_like, np.ones_like, lambda x: np.full_like(x, 3), lambda x: x.copy(),
              lambda x: np.full_like(x, 3, dtype=int, shape=(2,)), lambda x: np.full_like(x, x[0]),
              lambda x: np.empty_like(x, dtype="i4") * 0, np.copy, np.atleast_1d, np.atleast_2d,
              np.atleast_3d, lambda x: np.atleast_3d(x[0]), lambda x: np.atleast_2d(x[0], x[0, 0]),
              lambda x: np.diag(x[0]), lambda x: np.diag(x[0], 2), lambda x: np.diag(x[0], -1),
              lambda x: np.diag(x, 1) + 0, lambda x: np.diagflat(x[:2, :2], 1),
              lambda x: np.vander(x[0]), lambda x: np.vander(x[0], 3, increasing=True),
              lambda x: np.meshgrid(x[0], x[:, 0]),
              lambda x: np.meshgrid(x[0], x[1], indexing="ij"),
              lambda x: np.meshgrid(x[0], x[:, 0], sparse=True),
              lambda x: tuple(a + 0 for a in np.ix_(x[0], x[:, 1])),
              lambda x: np.zeros_like(x.T), lambda x: np.ones_like(x[::-1, ::2]),
              lambda x: x.T.copy(), lambda x: np.copy(x.T)):  # fmt: skip
        same_as_numpy(f, X)
    same_as_numpy(lambda x: np.vander(x, 3), np.arange(4, dtype="i4"))


def test_asarray_keeps_aliasing(same_as_numpy):
    def alias(x):
        y = np.asarray(x) if isinstance(x, np.ndarray) else CREATION[np.asarray](x)
        y[0] = 0
        z = np.array(x) if isinstance(x, np.ndarray) else CREATION[np.array](x)
        z[1] = 5
        return z

    same_as_numpy(alias, X)


def test_lists_of_traced_values(same_as_numpy):
    def build(x):
        array = np.array if isinstance(x, np.ndarray) else CREATION[np.array]
        return array([x[0, 0], 1, x[1, 1]]), array([[x[0, 0], 2.0], [x[1, 1], x[2, 2]]])

    same_as_numpy(build, X)
    same_as_numpy(build, X.astype("f4"))


def test_filling(same_as_numpy):
    def fill(n):
        out = n.zeros((3, 4))
        out[:, 0] = n.arange(3)
        out[1] += n.linspace(0, 1, 4)
        out.T[2] *= 2
        return out

    same_as_numpy(plain(fill), X)


def test_dtypes_outside_programs_stay_plain_numpy():
    assert CREATION[np.zeros](2, dtype=object).dtype == object
    assert CREATION[np.array](["a"]).dtype.kind == "U"


@pytest.mark.parametrize("dtype", ["?", "i1", "u4", "i8", "f2", "f4", "f8", ">f8", "<i4", "q"])
def test_results_have_numpys_own_dtypes(dtype: str) -> None:
    """An equal instance is not enough: NumPy's fast paths ask for its own."""
    x = np.ones(3, dtype)
    for result in fjit.fuse(lambda x: (x + x[0], np.zeros_like(x) + x, x.astype("f8")))(x):
        assert result.dtype is np.dtype(f"{result.dtype.kind}{result.dtype.itemsize}")
