"""Elementary functions of float32 on every one of the 2**32 inputs, against NumPy's float64.

The float64 value is good to 2**-52 and stands for the true one; the unit is that of the float32
nearest to it. The largest errors met are tables in docs/numerics.md: of the exact forms, and of
those that `fastmath={"approx"}` licenses.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit

CHUNK = 1 << 17  # stays in cache
FUNCTIONS = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin",
    "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "cbrt", "sqrt",
)  # fmt: skip
BOUND = 1.0
APPROXIMATE = tuple(n for n in FUNCTIONS if n not in ("cbrt", "sqrt"))
APPROXIMATE_BOUND = 4.0
# Units in the last place of a float32 with each exponent field; that of inf and NaN does not count.
UNITS = np.ldexp(1.0, np.maximum(np.arange(256), 1) - 150)

Array = np.ndarray[Any, Any]


@fjit.fuse
def worst(got: Array, want: Array, bits: Array, units: Array) -> Any:
    """The largest error in units, and how many special values differ; `bits` of float32(want)."""
    fields = (bits >> 23) & 255
    near = np.isfinite(got) & (fields < 255)
    error = np.abs(got.astype(np.float64) - want) / units[fields]
    odd = ~near & ~((got == want.astype(np.float32)) | (np.isnan(got) & np.isnan(want)))
    return np.max(np.where(near, error, 0.0)), np.count_nonzero(odd)


def largest_error(function: Callable[[Any], Any], fused: Callable[[Any], Any]) -> float:
    """Over all bit patterns; raises AssertionError where a special value differs."""
    top = 0.0
    for start in range(0, 1 << 32, CHUNK):
        x = np.arange(start, start + CHUNK, dtype=np.uint64).astype(np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            want = function(x.astype(np.float64))
            bits = want.astype(np.float32).view(np.int32)
        error, odd = worst(fused(x), want, bits, UNITS)
        assert not odd, f"{odd} special values differ from {x[0]!r} on"
        top = max(top, float(error))
    return top


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_float32(name: str, record_property: Callable[[str, object], None]) -> None:
    function = getattr(np, name)
    top = largest_error(function, fjit.fuse(function, threads=1))
    record_property("ulp", f"{top:.3f}")
    print(f"{name}: {top:.3f} ulp")
    assert top <= BOUND


@pytest.mark.slow
@pytest.mark.parametrize("name", APPROXIMATE)
def test_every_float32_of_the_approximate_form(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    function = getattr(np, name)
    fast = fjit.fuse(function, threads=1, fastmath={"approx"})
    top = largest_error(function, fast)
    record_property("ulp", f"{top:.3f}")
    print(f"{name}, approx: {top:.3f} ulp")
    assert top <= APPROXIMATE_BOUND


def test_the_error_is_noticed() -> None:
    x = np.linspace(1, 2, 1000, dtype=np.float32)
    want = np.exp(x.astype(np.float64))
    bits = want.astype(np.float32).view(np.int32)
    good = want.astype(np.float32)
    wrong = np.nextafter(np.nextafter(good, np.float32(9)), np.float32(9))
    assert worst(good, want, bits, UNITS)[0] < 1 < worst(wrong, want, bits, UNITS)[0]
    good[3] = np.nan
    assert worst(good, want, bits, UNITS)[1] == 1
