"""When positions and addresses of a kernel fit into 32 bits."""

from typing import Any

import numpy as np
import pytest

import fjit
from fjit.lower.reach import MOST, is_short


def short(x: Any, function: Any = lambda x: x + 1) -> bool:
    lowered = fjit.fuse(function).lower(x)
    (kernel,) = lowered.plan.kernels
    return is_short(kernel.eqn, lowered.nests[0], lowered.memory)


def spread(*shape: int, itemsize: int = 8, strides: tuple[int, ...] | None = None) -> Any:
    """An array of any extents on a few bytes, of which nothing is read."""
    few = np.zeros(2, f"f{itemsize}")
    return np.lib.stride_tricks.as_strided(few, shape, strides or (0,) * len(shape))


@pytest.mark.parametrize("itemsize", [4, 8])
def test_small_and_large(itemsize: int) -> None:
    most = MOST // itemsize
    assert short(np.ones((3, 5), f"f{itemsize}"))
    assert short(spread(most, itemsize=itemsize))
    assert not short(spread(most + 1, itemsize=itemsize))
    assert not short(spread(most // 4, 5, itemsize=itemsize))


def test_what_is_spanned_counts() -> None:
    """Few elements that lie far apart, in either direction."""
    for stride in (MOST // 4, -MOST // 4):
        assert short(spread(4, strides=(stride,)))
        assert not short(spread(6, strides=(stride,)))


def test_sums_of_many_elements_that_lie_close() -> None:
    assert not short(spread(MOST + 1), lambda x: x.sum())
    assert short(spread(1000, 1000), lambda x: x.sum())


def test_bits_of_a_number_are_no_extent() -> None:
    """1024 as a float32, by which a mean divides, is 2^30 + 2^26 as an integer."""
    assert short(np.ones((4, 1024), "f4"), lambda x: x.mean(1))


def test_filters_count_as_what_they_may_keep() -> None:
    assert short(np.ones(100), lambda x: x[x > 0])
    assert not short(spread(MOST // 4), lambda x: x[x > 0])
