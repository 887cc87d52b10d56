"""Special functions on traced arrays, as scipy.special names them.

Takes what a NumPy function takes, gives traced results. Functions of one argument work in float32
for float32 and in float64 for everything else, as scipy.special's ufuncs do; softmax and its kin
keep float16 too (computed in float32, rounded once) and make float64 of integers. Everything but
four primitives is a composition of NumPy functions; errors are at most 4 units in the last place
where a docstring names no other bound.

    expit(x)      records      b = abs a; c = neg b; d = exp c; ...
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Primitive
from fjit.frontend import operands as ops
from fjit.frontend.foreign import SCIPY_SPECIAL
from fjit.frontend.numpy.arrays import as_dtype, as_tracer
from fjit.frontend.numpy.reduction_core import in_blocks, reduce_in_blocks
from fjit.frontend.numpy.ufunc_table import F16
from fjit.frontend.session import current
from fjit.frontend.tracer import fresh

Array = Any  # a traced array, which NumPy's own annotations do not know
DType = np.dtype[Any]

SPLITTERS: Final = {dtypes.F32: 2.0**12 + 1, dtypes.F64: 2.0**27 + 1}  # Dekker 1971
ROOT_HALF: Final = math.sqrt(0.5)
ROOT_HALF_REST: Final = -4.833646656726457e-17  # sqrt(1/2) - ROOT_HALF
TAIL: Final = -30.0  # where the series of log_ndtr takes over
TAIL_SERIES: Final = (-1.0, 3.0, -15.0, 105.0, -945.0, 10395.0)  # (-1)^k (2k - 1)!!


# ---- operands -----------------------------------------------------------------------------------


def _floating(x: Any) -> Array:
    """`x` as scipy.special's ufuncs take it: float32 stays, the rest becomes float64."""
    x = as_tracer(x)
    return as_dtype(x, dtypes.F32 if x.dtype == dtypes.F32 else dtypes.F64)


def working(x: Any) -> tuple[Array, DType]:
    """`x` in the dtype to compute in, and the dtype of the result."""
    x = as_tracer(x)
    if x.dtype == F16:
        return as_dtype(x, dtypes.F32), F16
    x = _floating(x)
    return x, x.dtype


def _pair(x: Any, y: Any) -> tuple[Array, Array]:
    """Two operands in their common floating dtype; Python numbers are weak."""
    first, second = ops.lift(x), ops.lift(y)
    dtype = ops.common_dtype([first, second])
    dtype = dtypes.F32 if dtype == dtypes.F32 else dtypes.F64
    return (
        fresh(ops.cast(first, dtype), first.strides),
        fresh(ops.cast(second, dtype), second.strides),
    )


def _scalar(x: Array) -> Array:
    """A result of rank 0 as a scalar, as ufuncs give it."""
    return x if x.static_shape else x[()]


def _apply(primitive: Primitive, x: Any) -> Array:
    operand = ops.lift(_floating(x))
    return ops.finish(current().trace.emit(primitive, operand.atom), [operand])


# ---- functions of scipy.special -----------------------------------------------------------------


def erf(x: Any) -> Any:
    """The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.

    Args:
        x: Real array or number of any shape.

    Returns:
        An array of x's shape: float32 for float32, else float64. Error at most 1 unit in the last
        place (float32), 1.5 (float64).

    Source: piecewise minimax polynomials, after W. J. Cody, Math. Comp. 23 (1969).

    >>> import fjit.special
    >>> fjit.special.erf(1.0)
    np.float64(0.8427007929497149)
    """
    return _apply(p.erf, x)


def erfc(x: Any) -> Any:
    """The complementary error function, 1 - erf(x), accurate where erf(x) is close to 1.

    Args:
        x: Real array or number of any shape.

    Returns:
        An array of x's shape: float32 for float32, else float64. Error at most 1 unit in the last
        place (float32), 1.5 (float64).

    Source: exp(-x^2) in two parts times a minimax polynomial, after W. J. Cody, Math. Comp. 23
    (1969).

    >>> import fjit.special
    >>> fjit.special.erfc(0.0)
    np.float64(1.0)
    """
    return _apply(p.erfc, x)


def gammaln(x: Any) -> Any:
    """The logarithm of the absolute value of the gamma function; inf at its poles.

    Args:
        x: Real array or number of any shape.

    Returns:
        An array of x's shape: float32 for float32, else float64. For negative x the error bound is
        relative to the largest term of the reflection formula, as the function crosses zero.

    Source: Stirling's series, recurrence and reflection, NIST Handbook of Mathematical Functions
    5.5 and 5.11.

    >>> import fjit.special
    >>> fjit.special.gammaln(1.0)
    np.float64(0.0)
    """
    return _apply(p.gammaln, x)


def digamma(x: Any) -> Any:
    """The logarithmic derivative of the gamma function; NaN at the negative poles.

    Args:
        x: Real array or number of any shape.

    Returns:
        An array of x's shape: float32 for float32, else float64. For negative x the error bound is
        relative to the largest term of the reflection formula, as the function crosses zero.

    Source: asymptotic series, recurrence and reflection, NIST Handbook of Mathematical Functions
    5.5 and 5.11.

    >>> import fjit.special
    >>> round(float(fjit.special.digamma(1.0)), 12)
    -0.577215664902
    """
    return _apply(p.digamma, x)


def expit(x: Any) -> Any:
    """The logistic function, 1 / (1 + exp(-x)).

    Args:
        x: Real array or number of any shape.

    Returns:
        An array of x's shape: float32 for float32, else float64.

    Source: exp(-|x|) on both sides, so that nothing overflows and small values keep their digits.

    >>> import fjit.special
    >>> fjit.special.expit(0.0)
    np.float64(0.5)
    """
    x = _floating(x)
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, decay) / (1 + decay)


def log_expit(x: Any) -> Any:
    """The logarithm of the logistic function, log(1 / (1 + exp(-x))).

    Args:
        x: Real array or number of any shape.

    Returns:
        An array of x's shape: float32 for float32, else float64.

    Source: min(x, 0) - log1p(exp(-|x|)), negated last, since the value is never above -0.

    >>> import fjit.special
    >>> fjit.special.log_expit(1000.0)
    np.float64(-0.0)
    """
    x = _floating(x)
    return -(np.maximum(-x, 0) + np.log1p(np.exp(-np.abs(x))))


def logit(x: Any) -> Any:
    """The inverse of the logistic function, log(x / (1 - x)); NaN outside [0, 1].

    Args:
        x: Real array or number of any shape.

    Returns:
        An array of x's shape: float32 for float32, else float64.

    Source: 2 artanh(2 x - 1) on [1/4, 3/4], where 2 x - 1 is exact and the quotient is near one.

    >>> import fjit.special
    >>> fjit.special.logit(0.5)
    np.float64(0.0)
    """
    x = _floating(x)
    middle = np.abs(x - 0.5) <= 0.25
    return _scalar(np.where(middle, 2 * np.arctanh(2 * x - 1), np.log(x / (1 - x))))


def normal_cdf(x: Array) -> Array:
    """The normal distribution function of a floating array.

    The rounding of x / sqrt(2), exact by Dekker's product, is made good by erfc's logarithmic
    derivative, which lies close to t + sqrt(t^2 + 4/pi) (Abramowitz & Stegun 7.1.13).
    """
    kind = x.dtype.type
    x = np.clip(x, -40, 40)
    scale = kind(-ROOT_HALF)
    rest = kind(-ROOT_HALF - float(scale) - ROOT_HALF_REST)
    t = x * scale
    high, low = _halves(x)
    scale_high, scale_low = _number_halves(scale)
    error = ((high * scale_high - t) + high * scale_low + low * scale_high) + low * scale_low
    error = error + x * rest
    value = 0.5 * fresh(ops.lift(_apply(p.erfc, t)).atom, t.element_strides)
    slope = t + np.sqrt(t * t + kind(4 / math.pi))
    return value - value * (slope * error)


def _halves(x: Array) -> tuple[Any, Any]:
    """`x` as a sum of two numbers of half the digits, by Dekker's splitting."""
    scaled = x * x.dtype.type(SPLITTERS[x.dtype])
    high = scaled - (scaled - x)
    return high, x - high


def _number_halves(x: Any) -> tuple[Any, Any]:
    scaled = x * type(x)(SPLITTERS[np.dtype(type(x))])
    high = scaled - (scaled - x)
    return high, x - high


def ndtr(x: Any) -> Any:
    """The cumulative distribution function of the standard normal distribution.

    Args:
        x: Real array or number of any shape.

    Returns:
        An array of x's shape: float32 for float32, else float64. The bound holds in the far tail,
        too, where 0.5 * erfc(-x / sqrt(2)) as written loses three digits.

    Source: erfc with the rounding of its argument made good (T. J. Dekker, Numer. Math. 18, 1971).

    >>> import fjit.special
    >>> fjit.special.ndtr(0.0)
    np.float64(0.5)
    """
    return normal_cdf(_floating(x))


def log_ndtr(x: Any) -> Any:
    """The logarithm of the cumulative distribution function of the standard normal distribution.

    Args:
        x: Real array or number of any shape.

    Returns:
        An array of x's shape: float32 (computed in float64) for float32, else float64.

    Source: log(ndtr(x)) down to -30, then the asymptotic series, Abramowitz & Stegun 26.2.12;
    log1p(-ndtr(-x)) for positive x.

    >>> import fjit.special
    >>> fjit.special.log_ndtr(0.0)
    np.float64(-0.6931471805599453)
    """
    x = _floating(x)
    wide = as_dtype(x, dtypes.F64)
    near = np.maximum(wide, TAIL)
    share = normal_cdf(-np.abs(near))
    body = np.where(near > 0, np.log1p(-share), np.log(share))
    far = np.minimum(wide, TAIL)
    step = 1 / (far * far)
    series: Any = TAIL_SERIES[-1]
    for coefficient in TAIL_SERIES[-2::-1]:
        series = coefficient + step * series
    tail = np.log1p(step * series) - np.log(-far) - 0.5 * math.log(2 * math.pi) - 0.5 * far * far
    return _scalar(as_dtype(np.where(wide < TAIL, tail, body), x.dtype))


def xlogy(x: Any, y: Any) -> Any:
    """x * log(y), and 0 where x is 0 and y is not NaN.

    Args:
        x: Real array or number.
        y: Real array or number whose shape broadcasts with x's.

    Returns:
        An array of the broadcast shape: float32 if NumPy's common dtype is, else float64.

    >>> import fjit.special
    >>> fjit.special.xlogy(0.0, 0.0)
    np.float64(0.0)
    """
    x, y = _pair(x, y)
    return _scalar(np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y)))


def entr(x: Any) -> Any:
    """The entropy of a share: -x log(x) for x > 0, 0 at 0, -inf for negative x.

    Args:
        x: Real array or number of any shape.

    Returns:
        An array of x's shape: float32 for float32, else float64.

    >>> import fjit.special
    >>> fjit.special.entr(1.0)
    np.float64(-0.0)
    """
    x = _floating(x)
    value = np.where(x == 0, 0, -x * np.log(x))
    return _scalar(np.where(x < 0, -math.inf, value))


# ---- along axes ---------------------------------------------------------------------------------


def _shifted(x: Array, axis: Any) -> tuple[Array, Array]:
    """`x` minus its largest element along `axis` (minus 0 where that is not finite), and that."""
    largest = np.max(x, axis=axis, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0)
    return x - largest, largest


def _log_of_sum(x: Array, shifted: Array, axis: Any, keepdims: bool) -> Any:
    """log(sum(exp(shifted))): ones are counted, so that a small rest beside them is not lost.

    Of rows too long to be walked twice it is one reduction of `x`, block by block.
    """
    if in_blocks(x, axis, x.dtype, only_rows=True):
        return reduce_in_blocks("logexpsum", x, axis, x.dtype, keepdims)
    is_one = shifted == 0
    ones = np.sum(is_one, axis=axis, keepdims=keepdims, dtype=shifted.dtype)
    rest = np.sum(np.where(is_one, 0, np.exp(shifted)), axis=axis, keepdims=keepdims)
    return np.where(ones > 0, np.log1p(rest / np.maximum(ones, 1)) + np.log(ones), np.log(rest))


def softmax(x: Any, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along axes.

    Args:
        x: Real array.
        axis: Axis or axes to sum over; None, as in scipy.special, for all of them.

    Returns:
        An array of x's shape and floating dtype (float64 for integers) whose sums are 1. The
        largest element of a row is exactly 1 / sum.

    Source: the largest element is subtracted first (scipy.special.softmax).

    >>> import numpy as np, fjit.special
    >>> fjit.special.softmax(np.zeros((2, 4)), axis=1)[0]
    array([0.25, 0.25, 0.25, 0.25])
    """
    x, dtype = working(x)
    weights: Array = np.exp(x - np.max(x, axis=axis, keepdims=True))
    if in_blocks(x, axis, x.dtype, only_rows=True):
        return as_dtype(weights / reduce_in_blocks("expsum", x, axis, x.dtype, True), dtype)
    return as_dtype(weights / np.sum(weights, axis=axis, keepdims=True), dtype)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """The logarithm of softmax along axes.

    Args:
        x: Real array.
        axis: Axis or axes to sum over; None, as in scipy.special, for all of them.

    Returns:
        An array of x's shape and floating dtype (float64 for integers).

    Source: as logsumexp.

    >>> import numpy as np, fjit.special
    >>> fjit.special.log_softmax(np.array([1000.0, 0.0]))
    array([    0., -1000.])
    """
    x, dtype = working(x)
    shifted, _ = _shifted(x, axis)
    return as_dtype(shifted - _log_of_sum(x, shifted, axis, True), dtype)


def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> Any:
    """log(sum(b * exp(a))) along axes.

    Args:
        a: Real array.
        axis: Axis or axes to sum over; None for all of them.
        b: Real array of factors whose shape broadcasts with a's; None for ones.
        keepdims: Whether summed axes stay, with extent 1.
        return_sign: Whether a pair of log(abs(sum)) and the sum's sign is returned.

    Returns:
        An array of a's floating dtype (float64 for integers); NaN for a negative sum unless
        return_sign. Infinite elements of a give what the limit gives.

    Source: the largest element is subtracted first, and elements equal to it are counted instead
    of summed (P. Blanchard et al., IMA J. Numer. Anal. 41, 2021; scipy.special.logsumexp).

    >>> import numpy as np, fjit.special
    >>> fjit.special.logsumexp(np.array([1000.0, 1000.0]))
    np.float64(1000.6931471805599)
    """
    x, dtype = working(a)
    if b is not None:
        return _weighted(x, as_dtype(as_tracer(b), x.dtype), axis, keepdims, return_sign, dtype)
    shifted, largest = _shifted(x, axis)
    if not keepdims:
        largest = np.squeeze(largest, axis=_axes(axis, x.ndim))
    value = _scalar(as_dtype(largest + _log_of_sum(x, shifted, axis, keepdims), dtype))
    if not return_sign:
        return value
    sign: Array = np.where(np.isneginf(value), 0, 1)
    return value, _scalar(as_dtype(sign, dtype))


def _axes(axis: Any, ndim: int) -> Any:
    return tuple(range(ndim)) if axis is None else axis


def _weighted(
    x: Array, b: Array, axis: Any, keepdims: bool, return_sign: bool, dtype: DType
) -> Any:
    """logsumexp with factors; an element with factor 0 does not count, whatever it is."""
    x = np.where(b == 0, -math.inf, x)
    shifted, largest = _shifted(x, axis)
    total = np.sum(b * np.exp(shifted), axis=axis, keepdims=keepdims)
    if not keepdims:
        largest = np.squeeze(largest, axis=_axes(axis, x.ndim))
    if not return_sign:
        return _scalar(as_dtype(largest + np.log(total), dtype))
    value = _scalar(as_dtype(largest + np.log(np.abs(total)), dtype))
    return value, _scalar(as_dtype(np.sign(total), dtype))


SCIPY_SPECIAL.update(
    digamma=digamma, entr=entr, erf=erf, erfc=erfc, expit=expit, gammaln=gammaln,
    log_expit=log_expit, log_ndtr=log_ndtr, logit=logit, ndtr=ndtr, psi=digamma, xlogy=xlogy,
)  # fmt: skip
