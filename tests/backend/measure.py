"""Errors in units in the last place, over large blocks of inputs.

`samples(range, dtype, size, seed)` gives a block of inputs, `narrow` and `wide` compare results
with true values: the largest error, and how many special values, signs of zero and neighbours are
wrong.

    narrow(got, want, 0.0)   ->   (0.53, 0, 0, 2)
"""

from typing import Any, NamedTuple

import numpy as np

import fjit
from tests.backend.libm import LIFT

Array = np.ndarray[Any, Any]


class Tally(NamedTuple):
    """The largest error, and how many special values, signs of zero and neighbours are wrong."""

    error: float = 0.0
    special: int = 0
    zeros: int = 0
    disorder: int = 0

    def add(self, other: tuple[Any, ...]) -> "Tally":
        error, *counts = other
        return Tally(
            max(self.error, float(error)),
            *(a + int(b) for a, b in zip(self[1:], counts, strict=False)),
        )


def _tally(got: Array, hi: Array, lo: Array, least: Any) -> tuple[Any, Any, Any]:
    """Errors of `got` from hi + lo / 2**LIFT in units of the larger of hi and `least`."""
    size = np.maximum(np.abs(hi), least).astype(hi.dtype)
    unit = (np.nextafter(size, np.inf) - size).astype(np.float64)
    near = np.isfinite(got) & np.isfinite(hi)
    error = np.abs((got - hi).astype(np.float64) * 2.0**LIFT - lo) / (unit * 2.0**LIFT)
    special = ~near & ~((got == hi) | (np.isnan(got) & np.isnan(hi)))
    zeros = (got == 0) & (hi == 0) & (np.signbit(got) != np.signbit(hi))
    return (
        np.max(np.where(near, error, 0.0)),
        np.count_nonzero(special),
        np.count_nonzero(zeros),
    )


@fjit.fuse(threads=1)
def wide(got: Array, hi: Array, lo: Array, least: Any) -> tuple[Any, ...]:
    """The tally of float64 results, neighbours aside."""
    return _tally(got, hi, lo, least)


@fjit.fuse(threads=1)
def narrow(got: Array, want: Array, least: Any) -> tuple[Any, ...]:
    """The tally of float32 results; neighbours are those of the array."""
    hi = want.astype(np.float32)
    rise, fall = got[1:] > got[:-1], got[1:] < got[:-1]
    disorder = (rise & (want[1:] < want[:-1])) | (fall & (want[1:] > want[:-1]))
    return *_tally(got, hi, (want - hi) * 2.0**LIFT, least), np.count_nonzero(disorder)


class Range(NamedTuple):
    """Where a function is neither constant nor its argument, and points of interest."""

    low: float
    high: float
    points: tuple[float, ...] = (0.0,)


# fmt: off
HALF_PI = 1.5707963267948966
RANGES: dict[str, Range] = {
    "exp":       Range(-750, 710, (0, -745.13, -708.4, 709.78)),
    "exp2":      Range(-1080, 1024, (0, 1, -1, -1022, -1074, 1024)),
    "expm1":     Range(-40, 710, (0, 709.78)),
    "log":       Range(0, 100, (0, 1)),
    "log2":      Range(0, 100, (0, 1)),
    "log10":     Range(0, 100, (0, 1)),
    "log1p":     Range(-1, 100, (0, -1)),
    "sin":       Range(-1000, 1000, (0, HALF_PI, 2 * HALF_PI, 3 * HALF_PI)),
    "cos":       Range(-1000, 1000, (0, HALF_PI, 2 * HALF_PI, 3 * HALF_PI)),
    "tan":       Range(-1000, 1000, (0, HALF_PI, 2 * HALF_PI, 3 * HALF_PI)),
    "arcsin":    Range(-1, 1, (0, 1, -1, 0.5, -0.5)),
    "arccos":    Range(-1, 1, (0, 1, -1, 0.5, -0.5)),
    "arctan":    Range(-10, 10, (0, 1, -1, 0.4142135623730951)),
    "sinh":      Range(-711, 711, (0, 710.4758600739439)),
    "cosh":      Range(-711, 711, (0, 710.4758600739439)),
    "tanh":      Range(-22, 22, (0, 19.06, 22)),
    "arcsinh":   Range(-100, 100, (0, 2.0**28)),
    "arccosh":   Range(1, 100, (1, 2.0**28)),
    "arctanh":   Range(-1, 1, (0, 1, -1)),
    "cbrt":      Range(-100, 100, (0, 1)),
    "sqrt":      Range(0, 100, (0, 1)),
    "erf":       Range(-6, 6, (0, 1, 5.93)),
    "erfc":      Range(-6, 28, (0, 0.4375, 26.55, 27.23)),
    "gammaln":   Range(-30, 60, (0, 1, 2, 1.35, 2.35, 8)),
    "digamma":   Range(-30, 60, (0, 1, 2, 3, 8, 1.4616321449683622)),
    "expit":     Range(-750, 40, (0, -708.4)),
    "log_expit": Range(-750, 750, (0, -708.4, 708.4)),
    "logit":     Range(0, 1, (0, 1, 0.5, 0.25, 0.75)),
    "ndtr":      Range(-38.5, 9, (0, -37.5, -38.5)),
    "log_ndtr":  Range(-100, 39, (0, -30)),
    "entr":      Range(0, 10, (0, 1)),
    "silu":      Range(-750, 40, (0, -708.4)),
    "softplus":  Range(-750, 750, (0, -708.4)),
    "gelu":      Range(-38.5, 10, (0, -37.5)),
}
# fmt: on


# Multiples of pi/2 as float64 has them, small and large, and the float64 closest to one.
MULTIPLES = (*(k * HALF_PI for k in range(1, 20_000)), *(2.0**k * HALF_PI for k in range(1023)))
CLOSEST = (6381956970095103 * 2.0**797, 5.319372648326541e255, 1e22, 2.0**1023, 1.7e308)
TRIGONOMETRIC = (*MULTIPLES, *CLOSEST)
# Arguments whose value lies within 2**-53 units of a float64 or of the middle between two, after
# V. Lefevre and J.-M. Muller, "Worst cases for correct rounding of the elementary functions in
# double precision", ARITH 15 (2001).
WORST = {
    "exp": ("0x1.9E9CBBFD6080Bp-31", "-0x1.ED318EFB627EAp-27"),
    "exp2": ("0x1.E4596526BF94Dp-10",),
    "log2": ("0x1.61555F75885B4p+128",),
    "sin": ("0x1.E0000000001C2p-20", "0x1.598BAE9E632F6p-7"),
    "cos": ("0x1.8000000000009p-23",),
    "tan": ("0x1.DFFFFFFFFFF1Fp-22", "0x1.67FFFFFFFA114p-18"),
    "arcsin": ("0x1.C373FF4AAD79Bp-14", "0x1.E9950730C4696p-2"),
    "arccos": ("0x1.53EA6C7255E88p-4", "0x1.FD737BE914578p-11"),
    "sinh": ("0x1.DFFFFFFFFFE3Ep-20",),
}
HARD = {
    name: (
        *map(float.fromhex, WORST.get(name, ())),
        *(TRIGONOMETRIC if name in ("sin", "cos", "tan") else RANGES[name].points),
        5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
    )
    for name in RANGES
}  # fmt: skip


def random_bits(dtype: type, size: int, rng: np.random.Generator) -> Array:
    """Any number of a floating type, NaN and subnormal ones too."""
    width = np.dtype(dtype).itemsize * 8
    return rng.integers(0, 2**width, size, f"u{width // 8}").view(dtype)


def samples(useful: Range, dtype: type, size: int, seed: int) -> Array:
    """A third each of any bits, of the useful range, and of points approached by powers of two."""
    rng = np.random.default_rng(seed)
    count = size // 3
    far = rng.uniform(useful.low, useful.high, count)
    near = rng.choice(useful.points, size - 2 * count)
    distance = np.ldexp(rng.uniform(-2, 2, near.size), rng.integers(-60, 1, near.size))
    ordinary = np.concatenate([far, near + distance * np.maximum(np.abs(near), 1)])
    return np.concatenate([random_bits(dtype, count, rng), ordinary.astype(dtype)])


def pairs(name: str, dtype: type, size: int, seed: int) -> tuple[Array, Array]:
    """Arguments of a function of two: any bits, sizes far apart and near, results of any size."""
    rng = np.random.default_rng(seed)
    count = size // 3
    bits = [random_bits(dtype, count, rng) for _ in range(2)]
    top = np.finfo(dtype).maxexp
    exponents = rng.integers(-top - 20, top - 1, count)
    near = np.clip(exponents + rng.integers(-60, 60, count), -top - 50, top - 1)
    rest = size - 2 * count
    with np.errstate(all="ignore"):
        x, y = (np.ldexp(rng.uniform(-2, 2, count), e).astype(dtype) for e in (exponents, near))
        more = (_powers if name == "power" else _moderate)(dtype, rest, rng)
    return np.concatenate([bits[0], x, more[0]]), np.concatenate([bits[1], y, more[1]])


def _moderate(dtype: type, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x = rng.uniform(-9, 9, size).astype(dtype)
    y = x * (1 + np.ldexp(rng.uniform(-1, 1, size), rng.integers(-40, 3, size)))
    return x, y.astype(dtype)


def _powers(dtype: type, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Bases near one and far from it, exponents that give results of every size."""
    small = np.ldexp(rng.uniform(-1, 1, size), rng.integers(-50, 1, size))
    x = np.where(rng.random(size) < 0.5, 1 + small, np.exp(rng.uniform(-700, 700, size)))
    x = np.abs(x).astype(dtype)
    top = np.log(float(np.finfo(dtype).max)) * 1.06  # beyond overflow and into subnormals
    return x, (rng.uniform(-top, top, size) / np.log(x.astype(np.float64))).astype(dtype)
