"""NumPy's reductions: sum prod mean var std, extremes and their positions, truth and counts.

Takes what the NumPy functions take, gives traced results of NumPy's dtype; each function is the
composition that NumPy's own Python code is (numpy/_core/_methods.py), rounding by rounding.

    np.mean(f4)      records      b = reduce[op=sum axes=(0,)] a; c = div b 8.0
"""

from __future__ import annotations

import operator
from typing import Any, Final

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom
from fjit.core.trace import where as user_line
from fjit.errors import FjitTypeError, FjitValueError
from fjit.frontend import operands as ops
from fjit.frontend.numpy import ufuncs
from fjit.frontend.numpy.arrays import as_dtype, as_tracer, axes_of, no_bool
from fjit.frontend.numpy.reduction_core import (
    NO_VALUE,
    count_of,
    in_blocks,
    kept_shape,
    reduce_in_blocks,
    reduce_ufunc,
    reduced_axes,
)
from fjit.frontend.numpy.ufunc_table import F16
from fjit.frontend.session import current
from fjit.frontend.tracer import Tracer, fresh, implements

COUNT_IS_PYTHON_INT: Final = not isinstance(np.count_nonzero(np.ones(1)), np.generic)


@implements(np.sum)
def sum_(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """See np.sum."""
    return reduce_ufunc(np.add, a, axis, dtype, out, _flag(keepdims), initial, where)


@implements(np.prod)
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """See np.prod."""
    return reduce_ufunc(np.multiply, a, axis, dtype, out, _flag(keepdims), initial, where)


@implements(np.max, np.amax)
def max_(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """See np.max."""
    return reduce_ufunc(np.maximum, a, axis, None, out, _flag(keepdims), initial, where)


@implements(np.min, np.amin)
def min_(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """See np.min."""
    return reduce_ufunc(np.minimum, a, axis, None, out, _flag(keepdims), initial, where)


@implements(np.any)
def any_(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    """See np.any."""
    return reduce_ufunc(np.logical_or, a, axis, None, out, _flag(keepdims), where=where)


@implements(np.all)
def all_(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    """See np.all."""
    return reduce_ufunc(np.logical_and, a, axis, None, out, _flag(keepdims), where=where)


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """See np.count_nonzero; over all axes older versions of NumPy give a Python int."""
    truth = as_dtype(as_tracer(a), dtypes.BOOL)
    count = reduce_ufunc(np.add, truth, axis, dtypes.I64, None, keepdims)
    if axis is None and not keepdims and COUNT_IS_PYTHON_INT:
        return Tracer(current().trace, count.buffer, weak=int, is_scalar=True)
    return count


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """See np.ptp."""
    high, low = max_(a, axis, keepdims=keepdims), min_(a, axis, keepdims=keepdims)
    return ufuncs.call("subtract", high, low, out=out)


# ---- positions ----------------------------------------------------------------------------------


@implements(np.argmax)
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """See np.argmax."""
    return _position("argmax", a, axis, out, keepdims)


@implements(np.argmin)
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """See np.argmin."""
    return _position("argmin", a, axis, out, keepdims)


def _position(op: str, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    x = as_tracer(a)
    if axis is not None:
        axis = operator.index(no_bool(axis))
    axes = reduced_axes(axis, max(x.ndim, 1)) if axis is not None else reduced_axes(None, x.ndim)
    axes = axes if x.ndim else ()
    if any(x.static_shape[k] == 0 for k in axes):
        raise FjitValueError(f"attempt to get {op} of an empty sequence (at {user_line()})")
    trace = current().trace
    if not axes:
        return ops.store(fresh(trace.literal(0, dtypes.I64)), out)
    atom: Atom = trace.emit(p.argreduce, x.atom, op=op, axes=axes)
    if _flag(keepdims):
        atom = trace.emit(p.reshape, atom, shape=kept_shape(x.static_shape, axes))
    return ops.store(fresh(atom), out)  # always in C order, unlike other reductions


# ---- moments ------------------------------------------------------------------------------------


@implements(np.mean)
def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    *,
    where: Any = True,
) -> Any:
    """See np.mean: integers sum in float64, float16 in float32."""
    x = as_tracer(a)
    keepdims, where = _flag(keepdims), True if where is NO_VALUE else where
    is_half = dtype is None and x.dtype == F16
    if dtype is None:
        dtype = dtypes.F32 if is_half else _inexact(x)
    total = reduce_ufunc(np.add, x, axis, dtype, None, keepdims, where=where)
    result = divide_by_count(total, _count(x, axis, keepdims, where))
    if is_half and out is None:
        return _like(result, ops.convert(result.atom, F16))
    return ops.store(result, out, "unsafe")


@implements(np.var)
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """See np.var: the mean first, then the mean square of the deviations from it.

    Rows too long to be walked twice are one reduction, block by block.
    """
    x = as_tracer(a)
    keepdims, where = _flag(keepdims), True if where is NO_VALUE else where
    ddof = freedom(ddof, correction)
    if dtype is None:
        dtype = _inexact(x)
    if where is True and (mean is NO_VALUE or mean is None) and in_blocks(x, axis, dtype):
        total = reduce_in_blocks("deviations", x, axis, dtype, keepdims)
        count = max(_count(x, axis, keepdims, where) - ddof, 0)
        return ops.store(divide_by_count(total, count), out, "unsafe")
    if mean is NO_VALUE or mean is None:
        total = reduce_ufunc(np.add, x, axis, dtype, None, True, where=where)
        mean = divide_by_count(total, _count(x, axis, True, where))
    deviation = ufuncs.call("subtract", x, mean)
    squares = ufuncs.call("square", deviation)
    total = reduce_ufunc(np.add, squares, axis, dtype, None, keepdims, where=where)
    count = _count(x, axis, keepdims, where)
    if isinstance(count, Tracer):
        count = ufuncs.call("maximum", ufuncs.call("subtract", count, ddof), 0)
    else:
        count = max(count - ddof, 0)
    return ops.store(divide_by_count(total, count), out, "unsafe")


@implements(np.std)
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """See np.std."""
    variance = var(
        a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction
    )
    root = ufuncs.call("sqrt", variance)
    if root.dtype != variance.dtype:  # an integer dtype= was asked for
        root = _like(root, ops.convert(root.atom, variance.dtype))
    return ops.store(root, out, "unsafe")


def freedom(ddof: Any, correction: Any) -> Any:
    """The degrees of freedom, given by either name."""
    if correction is NO_VALUE:
        return ddof
    if ddof != 0:
        raise FjitValueError(
            "ddof and correction can't be provided simultaneously. (at " + user_line() + ")"
        )
    return correction


def _inexact(x: Tracer) -> np.dtype[Any]:
    """The dtype in which means are formed: float64 for integers and bools."""
    return x.dtype if x.dtype.kind == "f" else dtypes.F64


def _flag(keepdims: Any) -> bool:
    return keepdims is not NO_VALUE and bool(keepdims)


def _count(x: Tracer, axis: Any, keepdims: bool, where: Any) -> Any:
    """How many elements each result is made of: an int, or traced."""
    if where is True:
        return count_of(x, reduced_axes(axis, x.ndim))
    mask = ops.broadcast_to(ops.convert(ops.lift(where).atom, dtypes.BOOL), x.static_shape)
    return reduce_ufunc(np.add, fresh(mask), axis, dtypes.I64, None, keepdims)


def divide_by_count(total: Tracer, count: Any) -> Tracer:
    """`total / count` as NumPy divides by an intp: in float64, then rounded to the total's dtype.

    A count that the dtype holds exactly is divided by in that dtype: the bits are the same
    (double rounding of a quotient is harmless at more than twice the digits).
    """
    dtype = total.dtype
    trace, atom = current().trace, total.atom
    if not isinstance(count, Tracer):
        if dtype.kind == "f" and float(dtype.type(count)) == count:
            return _like(total, trace.emit(p.div, atom, trace.literal(count, dtype, varies=True)))
        divisor: Atom = trace.literal(count, dtypes.F64, varies=True)
    else:
        divisor = ops.convert(count.atom, dtypes.F64)
    wide = ops.convert(atom, dtypes.F64)
    shape = ops.broadcast_shapes(wide.aval.shape, divisor.aval.shape)
    quotient = trace.emit(p.div, *ops.align([wide, divisor], shape))
    return _like(total, ops.convert(quotient, dtype))


def _like(source: Tracer, atom: Atom) -> Tracer:
    """A fresh result with the layout of `source`."""
    return fresh(atom, source.element_strides)


@implements(np.average)
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    """See np.average; a sum of weights that is zero gives NaN or inf, not ZeroDivisionError."""
    x = as_tracer(a)
    axis = None if axis is None else axes_of(axis, x.ndim)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        if 0 in result.static_shape:
            raise ZeroDivisionError(f"division by zero (np.average at {user_line()})")
        if not returned:
            return result
        scale: Any = ufuncs.call(
            "multiply",
            fresh(ops.lift(count_of(x, reduced_axes(axis, x.ndim))).atom),
            result.dtype.type(1),
        )
        return result, fresh(ops.broadcast_to(scale.atom, result.static_shape))
    w = as_tracer(weights)
    if w.static_shape != x.static_shape:
        w = _fit_weights(w, x, axis)
    wide = dtypes.unify(x.dtype, w.dtype, *([] if x.dtype.kind == "f" else [dtypes.F64]))
    scale = reduce_ufunc(np.add, w, axis, wide, None, keepdims)
    if 0 in w.static_shape and 0 not in scale.static_shape:
        raise ZeroDivisionError(
            f"Weights sum to zero, can't be normalized (np.average at {user_line()})"
        )
    product = ufuncs.call("multiply", x, w, dtype=wide)
    result = ufuncs.call("divide", reduce_ufunc(np.add, product, axis, None, None, keepdims), scale)
    return (result, scale) if returned else result


def _fit_weights(w: Tracer, x: Tracer, axis: Any) -> Tracer:
    """Weights along `axis` alone, broadcast against the whole array."""
    if axis is None:
        raise FjitTypeError(
            f"Axis must be specified when shapes of a and weights differ. (at {user_line()})"
        )
    axes = reduced_axes(axis, x.ndim)
    if w.static_shape != tuple(x.static_shape[k] for k in axes):
        raise FjitValueError(
            f"Shape of weights must be consistent with shape of a along specified axis. "
            f"(weights {w.static_shape}, a {x.static_shape}, at {user_line()})"
        )
    trace = current().trace
    return fresh(trace.emit(p.broadcast, w.atom, shape=x.static_shape, axes=axes))
