"""Floating arithmetic by fractions: what a correctly rounded result is."""

from fractions import Fraction

import numpy as np

EDGES = {
    2: [0.0, 5.96e-8, 6.1e-5, 1e-3, 0.5, 1.0, 1.001, 1.5, 3.0, 100.0, 2047.0, 65504.0, np.inf],
    4: [
        *[0.0, 1e-45, 3e-39, 1.1754944e-38, 1e-20, 0.1, 1.0, 1.0000001, 1.5, 3.0, 16777215.0],
        *[1e10, 1e20, 2e38, 3.4028235e38, np.inf],
    ],
    8: [
        *[0.0, 5e-324, 1e-310, 2.2250738585072014e-308, 1e-200, 1e-160, 0.1, 1.0, 1 + 2.0**-52],
        *[1.5, 3.0, 2.0**53 - 1, 1e100, 1e160, 1e300, 1.7976931348623157e308, np.inf],
    ],
}


def operands(dtype: np.dtype, count: int, size: int = 500, seed: int = 3) -> list[np.ndarray]:
    """Mixtures of edge values of both signs, NaN, and random numbers of all magnitudes."""
    rng = np.random.default_rng(seed)
    edges = np.array(EDGES[dtype.itemsize], dtype)
    edges = np.concatenate([edges, -edges, [np.nan]]).astype(dtype)
    found = []
    for _ in range(count):
        wide = rng.standard_normal(size) * 2.0 ** rng.integers(-12, 12, size)
        with np.errstate(all="ignore"):
            mixed = np.where(rng.random(size) < 0.4, rng.choice(edges, size), wide.astype(dtype))
        found.append(mixed.astype(dtype))
    return found


def _value(x: np.floating) -> Fraction:
    """A number, infinity standing for the power of two behind the last number."""
    if np.isinf(x):
        limit = Fraction(2) ** int(np.finfo(x.dtype).maxexp)
        return limit if x > 0 else -limit
    return Fraction(float(x))


def rounded(value: Fraction, dtype: np.dtype, mode: str = "rn") -> np.floating:
    """The number of a dtype that a nonzero fraction rounds to."""
    limit = Fraction(2) ** int(np.finfo(dtype).maxexp)
    bounded = max(-limit, min(limit, value))
    with np.errstate(all="ignore"):
        try:
            start = np.array(float(bounded)).astype(dtype)[()]
        except OverflowError:
            start = dtype.type(np.inf if value > 0 else -np.inf)
        near = [start]
        for end in (-np.inf, np.inf):
            x = start
            for _ in range(2):
                x = np.nextafter(x, dtype.type(end))
                near.append(x)
    below = max((x for x in near if _value(x) <= bounded), key=_value)
    above = min((x for x in near if _value(x) >= bounded), key=_value)
    sign = dtype.type(-1.0 if value < 0 else 1.0)
    if mode == "rn":
        left, right = bounded - _value(below), _value(above) - bounded
        if left == right and below != above:
            even = below if _even(below) else above
            return np.copysign(even, sign)
        return np.copysign(below if left < right else above, sign)
    down = mode == "rm" or (mode == "rz" and value > 0)
    chosen = below if down else above
    if np.isinf(chosen) and _value(chosen) == bounded and abs(value) >= limit:
        inward = (mode == "rz") or (mode == "rm") == (value > 0)
        chosen = np.finfo(dtype).max if inward else dtype.type(np.inf)
    return np.copysign(chosen, sign)


def _even(x: np.floating) -> bool:
    return x.tobytes()[0] % 2 == 0


def same(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where two arrays hold the same bits, or NaN both."""
    bits = f"u{got.dtype.itemsize}"
    return (got.view(bits) == expected.view(bits)) | (np.isnan(got) & np.isnan(expected))
