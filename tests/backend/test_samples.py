"""Functions of float64 on 10**8 inputs each, and those of two arguments, float32 and float64.

A third each of the inputs are any bits, the useful range, and points approached by powers of two
(measure.samples); then come hard cases. The reference is glibc's long double (references.WIDE); the
largest errors met are a table in docs/numerics.md.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from tests.backend import libm, references
from tests.backend.measure import HARD, RANGES, Tally, narrow, pairs, samples, wide
from tests.backend.test_exhaustive import BOUND, OTHER_BOUND, by_name

BLOCK = 200_000
BLOCKS = pytest.mark.parametrize("blocks", [1, pytest.param(500, marks=pytest.mark.slow)])
BOUND64 = BOUND | {"erf": 1.5, "erfc": 1.5, "power": 1.5}

Array = np.ndarray[Any, Any]


def over(name: str, blocks: int) -> Tally:
    """The tally over samples and hard cases."""
    function = fjit.fuse(by_name(name), threads=1)
    total = Tally()
    cases = [np.array(HARD.get(name, (0.0,)))]
    for seed in range(-1, blocks):
        x = cases.pop() if seed < 0 else samples(RANGES[name], np.float64, BLOCK, seed)
        with np.errstate(all="ignore"):
            least = references.scale(name, x, np.float64)
            total = total.add(wide(function(x), *references.WIDE[name](x), least))
    return total


def over_pairs(name: str, dtype: type, blocks: int) -> Tally:
    """The tally of a function of two arguments."""
    function = fjit.fuse(by_name(name), threads=1)
    total = Tally()
    for seed in range(blocks):
        x, y = pairs(name, dtype, BLOCK, seed)
        with np.errstate(all="ignore"):
            got = function(x, y)
            if dtype is np.float64:
                total = total.add(wide(got, *references.WIDE[name](x, y), 0.0))
            else:
                want = references.NARROW[name](x.astype(np.float64), y.astype(np.float64))
                total = total.add(narrow(got, want, 0.0)[:3])
    return total


@libm.missing
@BLOCKS
@pytest.mark.parametrize("name", references.UNARY)
def test_float64(name: str, blocks: int, record_property: Callable[[str, object], None]) -> None:
    total = over(name, blocks)
    record_property("tally", str(total))
    assert total.error <= BOUND64.get(name, OTHER_BOUND)
    assert total.special == total.zeros == 0


@libm.missing
@BLOCKS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", references.BINARY)
def test_two_arguments(
    name: str, dtype: type, blocks: int, record_property: Callable[[str, object], None]
) -> None:
    total = over_pairs(name, dtype, blocks)
    record_property("tally", str(total))
    assert total.error <= (BOUND64.get(name, 1.0) if dtype is np.float64 else 1.0)
    assert total.special == total.zeros == 0
