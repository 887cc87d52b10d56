"""The references that functions are measured against, and mpmath."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.backend import libm, references
from tests.backend.measure import RANGES, pairs, samples

Array = np.ndarray[Any, Any]
NARROW_GOOD, WIDE_GOOD = 2.0**-40, 2.0**-59


SIZES = pytest.mark.parametrize("size", [300, pytest.param(10_000, marks=pytest.mark.slow)])


def true_gammaln(x: Any) -> Any:
    return mpmath.re(mpmath.loggamma(x))


def true_logit(x: Any) -> Any:
    return mpmath.log(x / (1 - x))


def true_log_ndtr(x: Any) -> Any:
    return mpmath.log(true_ndtr(x)) if x < 0 else mpmath.log1p(-true_ndtr(-x))


def true_ndtr(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def true_expit(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


# fmt: off
EXACT: dict[str, Callable[..., Any]] = {
    **{name: getattr(mpmath, name.replace("arc", "a")) for name in references.ELEMENTARY
       if name not in ("exp2", "log2", "cbrt")},
    "exp2":      lambda x: mpmath.mpf(2) ** x,
    "log2":      lambda x: mpmath.log(x, 2),
    "cbrt":      lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "erf":       mpmath.erf,
    "erfc":      mpmath.erfc,
    "gammaln":   true_gammaln,
    "digamma":   mpmath.digamma,
    "expit":     true_expit,
    "log_expit": lambda x: -mpmath.log1p(mpmath.exp(-x)),
    "logit":     true_logit,
    "ndtr":      true_ndtr,
    "log_ndtr":  true_log_ndtr,
    "entr":      lambda x: -x * mpmath.log(x),
    "silu":      lambda x: x * true_expit(x),
    "softplus":  lambda x: mpmath.log1p(mpmath.exp(x)),
    "gelu":      lambda x: x * true_ndtr(x),
    "arctan2":   mpmath.atan2,
    "hypot":     mpmath.hypot,
    "power":     mpmath.power,
}
# fmt: on


def worst(got: tuple[Array, Array], name: str, *arrays: Array) -> tuple[float, list[float]]:
    """The largest relative error where the value is an ordinary float64 number."""
    scale = np.broadcast_to(references.scale(name, arrays[0], np.float64), arrays[0].shape)
    largest, where = 0.0, [0.0]
    for k, numbers in enumerate(zip(*(a.tolist() for a in arrays), strict=True)):
        if not 1e-290 < abs(got[0][k]) < 1e300:
            continue
        with mpmath.workprec(300 + 1100 * (abs(numbers[0]) > 1e6)):
            value = EXACT[name](*map(mpmath.mpf, numbers))
            size = max(abs(value), float(scale[k]))
            error = abs(mpmath.mpf(got[0][k]) + mpmath.ldexp(got[1][k], -libm.LIFT) - value) / size
        if error > largest:
            largest, where = float(error), list(numbers)
    return largest, where


@libm.missing
@SIZES
@pytest.mark.parametrize("name", references.UNARY)
def test_float64_is_good_enough_for_float32(name: str, size: int) -> None:
    with np.errstate(all="ignore"):
        x = samples(RANGES[name], np.float32, size, 5).astype(np.float64)
        value = references.NARROW[name](x)
    error, where = worst((value, np.zeros_like(value)), name, x)
    assert error < NARROW_GOOD, (error, where)


@libm.missing
@SIZES
@pytest.mark.parametrize("name", references.UNARY)
def test_two_parts_are_good_enough_for_float64(name: str, size: int) -> None:
    x = samples(RANGES[name], np.float64, size, 6)
    with np.errstate(all="ignore"):
        value = references.WIDE[name](x)
    error, where = worst(value, name, x)
    assert error < WIDE_GOOD, (error, where)


@libm.missing
@SIZES
@pytest.mark.parametrize("name", references.BINARY)
def test_two_parts_of_two_arguments(name: str, size: int) -> None:
    x, y = pairs(name, np.float64, size, 7)
    with np.errstate(all="ignore"):
        value = references.WIDE[name](x, y)
    error, where = worst(value, name, x, y)
    assert error < WIDE_GOOD, (error, where)
