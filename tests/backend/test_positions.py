"""argmax and argmin where an element is no better than the identity, in vectors and in chunks."""

import numpy as np
import pytest

import fjit
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


@pytest.mark.parametrize("shape", [(316, 316), (33, 3), (40, 5, 7), (2, 1000), (1, 77)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "?"])
def test_positions_in_joined_axes(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(len(shape))
    x = (rng.integers(0, 50, shape) / 2).astype(dtype)
    check(lambda x: (np.argmax(x), x.argmin(), np.argmax(x.T), np.argmax(x[::-1])), x)
    text = str(fjit.fuse(np.argmax).lower(x).nests[0])
    assert " div " not in text and " mod " not in text
