"""argmax and argmin where an element is no better than the identity, in vectors and in chunks."""

import numpy as np
import pytest

from fjit.testing import check


def positions(a):
    return [(a.argmax(axis=k), a.argmin(axis=k)) for k in (None, 0, 1)]


def ends(dtype):
    """The smallest and the largest value of a dtype."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return (False, True) if dtype.kind == "b" else (-np.inf, np.inf)


@pytest.mark.parametrize(
    "dtype, shape", [(d, (7, 99)) for d in ("i1", "u8", "f4", "?")] + [("f8", (150_000, 2))]
)
def test_of_the_worst_there_is(dtype, shape):
    low, high = ends(np.dtype(dtype))
    for value, other in ((low, high), (high, low)):
        x = np.full(shape, value, dtype)
        check(positions, x)
        x[shape[0] // 2, -1] = other
        check(positions, x.T)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_of_nan_among_infinities(dtype):
    x = np.full((3, 40_000), -np.inf, dtype)
    x[1, [777, 30_000]] = np.nan
    x[2, 39_999] = -1
    check(positions, x)
