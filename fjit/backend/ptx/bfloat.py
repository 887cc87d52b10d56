"""bfloat16, which NumPy does not have: its bits as uint16, its values as float32.

Takes bits or values, gives the other. Invariant: rounding is to nearest, ties to even, once.

    0x3F80 <-> 1.0f        1.00390625f (a tie) -> 0x3F80
"""

import numpy as np

from fjit.backend.ptx.rounding import narrow

QUIET = np.uint16(0x7FFF)


def widen(bits: np.ndarray) -> np.ndarray:
    """The float32 values of bfloat16 bits."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def shorten(value: np.ndarray, mode: str = "rn") -> np.ndarray:
    """The bfloat16 bits of float32 or float64 values."""
    single = _odd(value) if value.dtype == np.float64 else value
    bits = np.ascontiguousarray(single).view(np.uint32)
    upper, lower = bits >> np.uint32(16), bits & np.uint32(0xFFFF)
    grow = _grows(upper, lower, mode)
    result = (upper + grow).astype(np.uint16)
    return np.where(np.isnan(single), QUIET, result)


def _grows(upper: np.ndarray, lower: np.ndarray, mode: str) -> np.ndarray:
    """Whether the magnitude of the upper half rounds up."""
    if mode == "rn":
        return np.asarray((lower > 0x8000) | ((lower == 0x8000) & (upper & np.uint32(1) == 1)))
    if mode == "rz":
        return np.zeros(lower.shape, bool)
    negative = upper >> np.uint32(15) == 1
    return np.asarray((lower != 0) & (negative if mode == "rm" else ~negative))


def _odd(value: np.ndarray) -> np.ndarray:
    """float64 to float32, rounded to odd, so that rounding again is rounding once."""
    result = narrow(value, np.dtype(np.float32), "rz")
    inexact = (result.astype(np.float64) != value) & np.isfinite(value)
    return np.asarray((np.ascontiguousarray(result).view(np.uint32) | inexact).view(np.float32))
