"""Correct rounding: error-free sums and products, rounding to odd, exact arithmetic for the rest.

Takes float64 arrays, gives float64, float32 or float16 in a rounding mode. Invariant: each result
is the exact one rounded once, in every mode, at every edge of the range.

    fma.rn.f32(a, b, c)  ->  a * b is exact in float64; its sum with c rounds to odd, then to
    float32

A number rounded to odd with two more bits than needed keeps which side of every tie the exact one
lies on, so that rounding it again is as good as rounding the exact one (Boldo and Melquiond,
"Emulation of FMA and correctly rounded sums", 2008). Modes are "rn", "rz", "rm" (down), "rp" (up).
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

SPLITTER = 134217729.0  # 2**27 + 1
LARGE = 2.0**480
"""Factors up to here have error-free products and sums that do not overflow."""
TINY = 2.0**-900
"""Products from here on have an error that is a normal number."""
MODES = ("rn", "rz", "rm", "rp")


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b rounded, and the exact error (Knuth); a NaN error where the sum is not finite."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a * b rounded, and the exact error (Dekker), barring over- and underflow."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def _split(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = a * SPLITTER
    high = scaled - (scaled - a)
    return high, a - high


def to_odd(value: np.ndarray, error: np.ndarray) -> np.ndarray:
    """value + error rounded to odd: if inexact, the neighbour whose last bit is set."""
    bits = np.ascontiguousarray(value).view(np.int64)
    moves = (error != 0) & (np.abs(error) < np.inf) & (bits & 1 == 0)
    away = np.signbit(error) == np.signbit(value)  # from zero: the next larger bits, either sign
    step = (away.view(np.int8) * np.int8(2) - np.int8(1)) * moves
    return np.asarray((bits + step).view(np.float64))


def directed(value: np.ndarray, error: np.ndarray, mode: str) -> np.ndarray:
    """The nearest number to `value + error`, given as `value`, moved as the mode says.

    `value` has the dtype of the result; only the sign of `error` counts. An infinite value with an
    error stands for a finite number beyond the range.
    """
    if mode == "rn":
        return value
    down = np.nextafter(value, np.array(-np.inf, value.dtype))
    up = np.nextafter(value, np.array(np.inf, value.dtype))
    if mode == "rm":
        return np.where(error < 0, down, value)
    if mode == "rp":
        return np.where(error > 0, up, value)
    inward = np.where((value > 0) & (error < 0), down, value)
    return np.where((value < 0) & (error > 0), up, inward)


def narrow(value: np.ndarray, dtype: np.dtype, mode: str = "rn") -> np.ndarray:
    """A float64 array in a narrower dtype (or the same), rounded once."""
    if value.dtype == dtype:
        return value
    result = value.astype(dtype)
    if mode == "rn":
        return result
    back = result.astype(np.float64)
    error = np.where(np.isinf(back) & np.isfinite(value), -back, value - back)
    return directed(result, error, mode)


# Sums, products, quotients and roots of one dtype


def add(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """a + b."""
    if mode == "rn":
        return np.asarray(a + b)
    total, error = two_sum(a.astype(np.float64), b.astype(np.float64))
    if a.dtype != np.float64:
        return _zero_sum(narrow(to_odd(total, error), a.dtype, mode), a, b, mode)
    beyond = np.isinf(total) & np.isfinite(a) & np.isfinite(b)
    return _zero_sum(directed(total, np.where(beyond, -total, error), mode), a, b, mode)


def _zero_sum(total: np.ndarray, a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """An exact zero from opposite numbers is -0 when rounding down."""
    if mode != "rm":
        return total
    cancels = (total == 0) & (np.signbit(a) != np.signbit(b))
    return np.where(cancels, np.array(-0.0, total.dtype), total)


def multiply(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """a * b."""
    if mode == "rn":
        return np.asarray(a * b)
    if a.dtype != np.float64:
        return narrow(a.astype(np.float64) * b.astype(np.float64), a.dtype, mode)
    product, error = two_product(a, b)
    zero = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b)
    result = directed(product, np.where(zero, 0.0, error), mode)
    return _repaired(result, ~zero & ~_safe(a, b), (a, b), lambda x, y: x * y, mode)


def divide(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """a / b."""
    result = np.divide(a, b)
    if mode == "rn":
        return np.asarray(result)
    usual = np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
    if a.dtype != np.float64:
        x, y = a.astype(np.float64), b.astype(np.float64)
        wide = x / y
        product, error = two_product(wide, y)
        rest = ((x - product) - error) * np.sign(y)
        return narrow(to_odd(wide, np.where(usual, rest, 0.0)), a.dtype, mode)
    return _repaired(result, usual, (a, b), lambda x, y: x / y, mode)


def root(a: np.ndarray, mode: str) -> np.ndarray:
    """The square root."""
    wide = np.sqrt(a.astype(np.float64))
    if mode == "rn":
        return np.asarray(np.sqrt(a))
    scaled = np.where(a > 0, a.astype(np.float64), 1.0)
    exponent = np.frexp(scaled)[1] // 2
    mantissa = np.ldexp(scaled, -2 * exponent)
    part = np.sqrt(mantissa)
    product, error = two_product(part, part)
    rest = np.where((a > 0) & np.isfinite(a), (mantissa - product) - error, 0.0)
    if a.dtype != np.float64:
        return narrow(to_odd(wide, rest), a.dtype, mode)
    return directed(wide, rest, mode)


# Fused multiply-add


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a * b + c with one rounding."""
    if a.dtype == np.float64:
        return _fma_double(a, b, c, mode)
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    product = x * y
    total, error = two_sum(product, z)
    return narrow(_zero_sum(to_odd(total, error), product, z, mode), a.dtype, mode)


def _fma_double(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str) -> np.ndarray:
    high, low = two_product(a, b)
    middle, rest = two_sum(c, low)
    total, more = two_sum(high, middle)
    last = to_odd(*two_sum(rest, more))
    plain = a * b + c
    if mode == "rn":
        result = total + last
    else:
        value, error = two_sum(total, last)
        result = _zero_sum(directed(value, error, mode), high, c, mode)
    direct = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c)
    result = np.where(direct, plain, result)
    if mode == "rm":
        result = np.where(direct, _zero_sum(plain, a * b, c, mode), result)
    hard = ~direct & ~(_safe(a, b) & (np.abs(c) < LARGE))
    if mode == "rn" and hard.any():
        result, hard = _shortened(result, hard, a * b, c)
    return _repaired(result, hard, (a, b, c), lambda x, y, z: x * y + z, mode)


def _shortened(
    result: np.ndarray, hard: np.ndarray, product: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Settle the hard elements whose addend is zero, or so large that the product is lost in it."""
    alone = hard & (c == 0)
    lost = hard & (np.abs(product) <= TINY) & (np.abs(c) > TINY * 2.0**60) & (np.abs(c) < np.inf)
    result = np.where(alone, product, np.where(lost, c, result))
    return result, hard & ~alone & ~lost


def _safe(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whether the factors' error-free product neither over- nor underflows."""
    product = np.abs(a * b)
    return np.asarray((np.abs(a) < LARGE) & (np.abs(b) < LARGE) & (product > TINY))


def _repaired(
    result: np.ndarray,
    hard: np.ndarray,
    operands: tuple[np.ndarray, ...],
    exact: Callable[..., Fraction],
    mode: str,
) -> np.ndarray:
    """The result with its hard elements replaced by exact arithmetic, one by one."""
    if not hard.any():
        return result
    shape = np.broadcast_shapes(result.shape, hard.shape)
    result = np.broadcast_to(result, shape).copy()
    full = [np.broadcast_to(v, shape) for v in operands]
    for k in np.flatnonzero(np.broadcast_to(hard, shape)):
        value = exact(*(Fraction(float(v[k])) for v in full))
        cancelled = -0.0 if mode == "rm" else 0.0
        result[k] = nearest_double(value, mode) if value else cancelled
    return result


# Exact numbers


def nearest_double(value: Fraction, mode: str) -> float:
    """A nonzero fraction as float64."""
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - 52, -1074)
    whole, part = divmod(size / unit, 1)
    if _away(int(whole), part, value > 0, mode):
        whole += 1
    rounded = whole * unit
    if rounded >= Fraction(2) ** 1024:
        stays = mode == "rz" or mode == ("rm" if value > 0 else "rp")
        limit = float(np.finfo(np.float64).max) if stays else np.inf
        return limit if value > 0 else -limit
    result = float(rounded)
    return result if value > 0 else -result


def _away(whole: int, part: Fraction, positive: bool, mode: str) -> bool:
    """Whether to round the magnitude up."""
    if mode == "rn":
        return part > Fraction(1, 2) or (part == Fraction(1, 2) and whole % 2 == 1)
    return part > 0 and mode == ("rp" if positive else "rm")
