"""Functions of float64 on 10**8 inputs each, and those of two arguments.

A third each of the inputs are any bits, the useful range, and points approached by powers of two
(measure.samples); then come published hard cases. The reference is glibc's long double
(references.WIDE).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from tests.backend import libm, references
from tests.backend.measure import RANGES, Tally, narrow, pairs, samples, wide
from tests.backend.test_exhaustive import by_name

BLOCK, BLOCKS = 200_000, 500

Array = np.ndarray[Any, Any]


def unary(name: str, blocks: int) -> Tally:
    function = fjit.fuse(by_name(name), threads=1)
    total = Tally()
    for seed in range(blocks):
        x = samples(RANGES[name], np.float64, BLOCK, seed)
        with np.errstate(all="ignore"):
            value = references.WIDE[name](x)
            total = total.add(wide(function(x), *value, references.scale(name, x)))
    return total


def binary(name: str, dtype: type, blocks: int) -> Tally:
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
