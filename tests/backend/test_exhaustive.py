"""Functions of one float32 on every one of the 2**32 inputs.

Error, special values, signs of zero, and neighbours whose results are ordered the wrong way round.
The reference is float64 (references.NARROW), the unit that of the float32 nearest to the true value.
The largest errors met are a table in docs/numerics.md.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
import fjit.special
from tests.backend import libm, references
from tests.backend.measure import Tally, narrow

CHUNK = 1 << 17  # stays in cache

Array = np.ndarray[Any, Any]


def tally(name: str) -> Tally:
    """Over all bit patterns; chunks overlap by one, for the sake of neighbours."""
    function = fjit.fuse(by_name(name), threads=1)
    total = Tally()
    for start in range(0, 1 << 32, CHUNK):
        stop = min(start + CHUNK + 1, 1 << 32)
        x = np.arange(start, stop, dtype=np.uint64).astype(np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            exact = x.astype(np.float64)
            want = references.NARROW[name](exact)
            total = total.add(narrow(function(x), want, references.scale(name, exact)))
    return total


def by_name(name: str) -> Callable[..., Any]:
    if name == "gelu":
        return lambda x: fjit.special.gelu(x, approximate=False)
    if hasattr(np, name):
        return getattr(np, name)
    special = getattr(fjit.special, name)
    return lambda x: special(x)


@libm.missing
@pytest.mark.slow
@pytest.mark.parametrize("name", references.UNARY)
def test_every_float32(name: str, record_property: Callable[[str, object], None]) -> None:
    total = tally(name)
    print(name,total)
