"""The true values that elementary and special functions are measured against.

`NARROW[name]` takes float64 arrays that hold float32 numbers, gives float64 good to 2**-40 of the
value; `WIDE[name]` takes float64 arrays, gives the float64 nearest to the value and the rest times
2**libm.LIFT, good to 2**-59.
Where a function of negative numbers crosses zero by cancellation, the terms that cancel count:
`scale(name, x)` is their size. test_references.py compares all of them with mpmath.
"""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import scipy.special as scipy_special

from tests.backend import libm

Array = np.ndarray[Any, Any]
Pair = tuple[Array, Array]
Long = np.longdouble

ELEMENTARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin",
    "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "cbrt", "sqrt",
)  # fmt: skip
SPECIAL = (
    "erf", "erfc", "gammaln", "digamma", "expit", "log_expit", "logit", "ndtr", "log_ndtr", "entr",
    "silu", "softplus", "gelu",
)  # fmt: skip
BINARY = ("arctan2", "hypot", "power")
UNARY = ELEMENTARY + SPECIAL


def scale(name: str, x: Array, dtype: type) -> Array | float:
    """The size of the largest term that cancels, or zero.

    silu and gelu are x times a function that may be subnormal, with few digits left.
    """
    with np.errstate(all="ignore"):
        if name == "gammaln":
            return np.where(x < 0, 1.0, 0.0)
        if name == "digamma":
            return np.where(x < 0, np.maximum(1.0, np.log(-x)), 0.0)
        if name in ("silu", "gelu"):
            return np.minimum(np.abs(x), 1e3) * float(np.finfo(dtype).tiny)
    return 0.0


# ---- float64 values -----------------------------------------------------------------------------


def _expit(x: Array) -> Array:
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, decay) / (1 + decay)


def _log1p_decay(x: Array) -> Array:
    return np.log1p(np.exp(-np.abs(x)))


def _logit_narrow(x: Array) -> Array:
    middle = np.abs(x - 0.5) <= 0.25
    inner = 2 * np.arctanh(np.where(middle, 2 * x - 1, 0))
    return np.where(middle, inner, np.log(x) - np.log1p(-x))


def _gammaln(x: Array) -> Array:
    return libm.plain("lgamma")(x)


# fmt: off
NARROW: dict[str, Callable[..., Array]] = {
    **{name: getattr(np, name) for name in ELEMENTARY + BINARY},
    "erf":       scipy_special.erf,
    "erfc":      scipy_special.erfc,
    "gammaln":   _gammaln,  # scipy.special's loses digits beside 1 and 2
    "digamma":   scipy_special.digamma,
    "expit":     _expit,
    "log_expit": lambda x: -(np.maximum(-x, 0) + _log1p_decay(x)),
    "logit":     _logit_narrow,
    "ndtr":      scipy_special.ndtr,
    "log_ndtr":  scipy_special.log_ndtr,
    "entr":      lambda x: np.where(x < 0, -np.inf, np.where(x == 0, 0, -x * np.log(x))),
    "silu":      lambda x: np.maximum(x, -800) * _expit(x),
    "softplus":  lambda x: np.maximum(x, 0) + _log1p_decay(x),
    "gelu":      lambda x: np.maximum(x, -40) * scipy_special.ndtr(x),
}
# fmt: on


# ---- numbers in several parts -------------------------------------------------------------------


def parts(value: Any, count: int = 3) -> list[Long]:
    """An mpmath number as a sum of float64 numbers."""
    with mpmath.workdps(60):
        heads = []
        for _ in range(count):
            heads.append(Long(float(value)))
            value = value - float(value)
        return heads


def long(value: Any) -> Long:
    """An mpmath number as a long double."""
    head, rest = parts(value, 2)
    return head + rest


def split(value: Array) -> Pair:
    """A long double as the float64 nearest to it and the lifted rest."""
    hi = value.astype(np.float64)
    return hi, np.where(np.isfinite(hi), np.ldexp(value - hi, libm.LIFT), 0).astype(np.float64)


def join(pair: Pair) -> Array:
    """The sum of two such parts as a long double."""
    value = pair[0].astype(Long) + np.ldexp(pair[1].astype(Long), -libm.LIFT)
    return np.where(np.isfinite(pair[0]), value, pair[0])


def horner(x: Array, coefficients: list[Long]) -> Array:
    total = np.full(x.shape, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


with mpmath.workdps(60):
    PI = long(+mpmath.pi)
    ROOT = mpmath.findroot(mpmath.digamma, 1.46)
    ROOT_PARTS = parts(ROOT)
    # digamma(ROOT + t) / t in powers of t
    TAYLOR = [long(mpmath.polygamma(k, ROOT) / mpmath.factorial(k)) for k in range(1, 50)]
    # B_2k / 2k
    BERNOULLI = [long(mpmath.bernoulli(2 * k) / (2 * k)) for k in range(1, 14)]
    ROOT_HALF = [float(p) for p in parts(mpmath.sqrt(0.5))]
    TWO_OVER_ROOT_PI = float(2 / mpmath.sqrt(mpmath.pi))


# ---- digamma ------------------------------------------------------------------------------------

NEAR_ROOT = 0.45  # where Taylor's series serves
FAR = 20  # from here on the asymptotic series does


def _digamma_positive(x: Array) -> Array:
    """digamma of long doubles above zero."""
    t, steps = x.copy(), np.zeros_like(x)
    for _ in range(FAR):
        low = t < FAR
        steps[low] += 1 / t[low]
        t[low] += 1
    inverse = 1 / t
    square = inverse * inverse
    value = np.log(t) - inverse / 2 - square * horner(square, BERNOULLI) - steps
    offset = x
    for part in ROOT_PARTS:
        offset = offset - part
    near = np.abs(offset) < NEAR_ROOT
    value[near] = offset[near] * horner(offset[near], TAYLOR)
    return value


def _digamma(x: Array) -> Pair:
    usual = np.isfinite(x) & (x != 0)
    wide = np.where(usual, x, 1).astype(Long)
    negative = wide < 0
    value = _digamma_positive(np.where(negative, 1 - wide, wide))
    turn = wide[negative] - np.rint(wide[negative])
    with np.errstate(divide="ignore"):
        value[negative] -= np.where(turn == 0, np.nan, PI / np.tan(PI * turn))
    odd = np.where(x == 0, -np.copysign(np.inf, x), np.where(x > 0, x, np.nan))
    return split(np.where(usual, value, odd))


# ---- the logistic function and its kin ----------------------------------------------------------


def _expit_long(x: Array) -> Array:
    decay = np.exp(-np.abs(x.astype(Long)))
    return np.where(x >= 0, 1, decay) / (1 + decay)


def _log_expit(x: Array) -> Pair:
    return split(-(np.maximum(-x, 0) + np.log1p(np.exp(-np.abs(x.astype(Long))))))


def _softplus(x: Array) -> Pair:
    return split(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x.astype(Long)))))


def _logit(x: Array) -> Pair:
    wide = x.astype(Long)
    middle = np.abs(x - 0.5) <= 0.25
    inner = 2 * np.arctanh(np.where(middle, 2 * wide - 1, 0))
    return split(np.where(middle, inner, np.log(wide) - np.log1p(-wide)))


def _entr(x: Array) -> Pair:
    wide = x.astype(Long)
    value = np.where(x == 0, 0, -wide * np.log(wide))
    return split(np.where(x < 0, -np.inf, value))


# ---- the normal distribution --------------------------------------------------------------------


def _product_rest(a: Array, b: float) -> Array:
    """What rounding loses of a * b (Dekker 1971)."""
    a_hi, b_hi = ((2.0**27 + 1) * v - ((2.0**27 + 1) * v - v) for v in (a, b))
    return ((a_hi * b_hi - a * b) + a_hi * (b - b_hi) + (a - a_hi) * b_hi) + (a - a_hi) * (b - b_hi)


def _ndtr_long(x: Array) -> Array:
    """erfc(t + d) / 2 with -x / sqrt(2) = t + d, from erfc(t) and its slope."""
    x = np.clip(x, -40, 40)
    t = -x * ROOT_HALF[0]
    d = -(_product_rest(x, ROOT_HALF[0]) + x * ROOT_HALF[1])
    slope = TWO_OVER_ROOT_PI / scipy_special.erfcx(t)  # relative to erfc(t)
    return join(libm.wide("erfc")(t)) * (1 - slope * d.astype(Long)) / 2


def _log_ndtr(x: Array) -> Pair:
    wide = x.astype(Long)
    share = _ndtr_long(-np.abs(x))
    body = np.where(x > 0, np.log1p(-share), np.log(share))
    scaled = scipy_special.erfcx(-np.minimum(x, 0) * ROOT_HALF[0])
    far = np.log(scaled.astype(Long) / 2) - wide * wide / 2
    return split(np.where(x < -30, far, body))


def _gelu(x: Array) -> Pair:
    return split(np.maximum(x, -40) * _ndtr_long(x))


def _silu(x: Array) -> Pair:
    return split(np.maximum(x, -800) * _expit_long(x))


def _libm(name: str, arity: int = 1) -> Callable[..., Pair]:
    """glibc's long double function by NumPy's name, compiled when it is first called."""
    symbol = {"power": "pow", "gammaln": "lgamma"}.get(name, name.replace("arc", "a"))

    def call(*arrays: Array) -> Pair:
        return libm.wide(symbol, arity)(*arrays)

    return call


# fmt: off
WIDE: dict[str, Callable[..., Pair]] = {
    **{name: _libm(name) for name in (*ELEMENTARY, "erf", "erfc", "gammaln")},
    **{name: _libm(name, 2) for name in BINARY},
    "digamma":   _digamma,
    "expit":     lambda x: split(_expit_long(x)),
    "log_expit": _log_expit,
    "logit":     _logit,
    "ndtr":      lambda x: split(_ndtr_long(x)),
    "log_ndtr":  _log_ndtr,
    "entr":      _entr,
    "silu":      _silu,
    "softplus":  _softplus,
    "gelu":      _gelu,
}
# fmt: on
