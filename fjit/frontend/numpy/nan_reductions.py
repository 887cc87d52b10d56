"""Reductions that skip NaN: compositions of `select`, `isnan` and the plain reductions.

Takes what NumPy's functions take, gives traced results; each follows NumPy's _nanfunctions_impl.py
step by step. An integer array has no NaN and goes to the plain function. Where a whole slice is
NaN, nanargmax and nanargmin give 0: NumPy raises, but values are not known while tracing.

    np.nansum(x)      records      b = isnan a; c = select b 0.0 a; d = reduce[op=sum axes=(0,)] c
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fjit.core import dtypes
from fjit.core.trace import where as user_line
from fjit.errors import FjitTypeError
from fjit.frontend import operands as ops
from fjit.frontend.numpy import reductions, ufuncs
from fjit.frontend.numpy.arrays import as_tracer
from fjit.frontend.numpy.cumulative import without_nan
from fjit.frontend.numpy.reduction_core import NO_VALUE, reduce_ufunc
from fjit.frontend.tracer import FUNCTIONS, Tracer, fresh, implements


@implements(np.nansum)
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Any:
    """See np.nansum."""
    x = without_nan(as_tracer(a), 0)
    return reductions.sum_(x, axis, dtype, out, keepdims, initial, where)


@implements(np.nanprod)
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Any:
    """See np.nanprod."""
    x = without_nan(as_tracer(a), 1)
    return reductions.prod(x, axis, dtype, out, keepdims, initial, where)


@implements(np.nanmax)
def nanmax(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Any:
    """See np.nanmax: NaN where there is nothing else."""
    return reduce_ufunc(np.fmax, a, axis, None, out, keepdims is True, initial, where)


@implements(np.nanmin)
def nanmin(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Any:
    """See np.nanmin: NaN where there is nothing else."""
    return reduce_ufunc(np.fmin, a, axis, None, out, keepdims is True, initial, where)


@implements(np.nanargmax)
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    """See np.nanargmax."""
    return reductions.argmax(without_nan(as_tracer(a), -math.inf), axis, out, keepdims=keepdims)


@implements(np.nanargmin)
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    """See np.nanargmin."""
    return reductions.argmin(without_nan(as_tracer(a), math.inf), axis, out, keepdims=keepdims)


@implements(np.nanmean)
def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NO_VALUE,
    *,
    where: Any = NO_VALUE,
) -> Any:
    """See np.nanmean."""
    x = as_tracer(a)
    where = True if where is NO_VALUE else where
    if x.dtype.kind != "f":
        return reductions.mean(x, axis, dtype, out, keepdims, where=where)
    _check_dtype(dtype)
    total = reductions.sum_(without_nan(x, 0), axis, dtype, None, keepdims, NO_VALUE, where)
    count = _count(x, axis, keepdims, where)
    return ops.store(reductions.divide_by_count(total, count), out, "unsafe")


@implements(np.nanvar)
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = NO_VALUE,
    *,
    where: Any = NO_VALUE,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """See np.nanvar: NaN where the degrees of freedom are used up."""
    x = as_tracer(a)
    where = True if where is NO_VALUE else where
    if x.dtype.kind != "f":
        return reductions.var(
            x, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction
        )
    _check_dtype(dtype)
    ddof = reductions.freedom(ddof, correction)
    if mean is NO_VALUE:
        total = reductions.sum_(without_nan(x, 0), axis, dtype, None, True, NO_VALUE, where)
        mean = reductions.divide_by_count(total, _count(x, axis, True, where))
    deviation = ufuncs.call("subtract", without_nan(x, 0), mean, casting="unsafe")
    deviation = _in_dtype(deviation, x)
    kept = FUNCTIONS[np.where](ufuncs.call("isnan", x), x.dtype.type(0), deviation)
    squares = ufuncs.call("multiply", kept, kept)
    total = reductions.sum_(squares, axis, dtype, None, keepdims, NO_VALUE, where)
    freedom = ufuncs.call("subtract", _count(x, axis, keepdims, where), ddof)
    result = reductions.divide_by_count(total, freedom)
    used_up = ufuncs.call("less_equal", freedom, 0)
    chosen = FUNCTIONS[np.where](used_up, result.dtype.type(math.nan), result)
    return ops.store(fresh(chosen.atom, result.element_strides), out, "unsafe")


@implements(np.nanstd)
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = NO_VALUE,
    *,
    where: Any = NO_VALUE,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """See np.nanstd."""
    variance = nanvar(
        a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction
    )
    return ops.store(ufuncs.call("sqrt", variance), out, "unsafe")


def _check_dtype(dtype: Any) -> None:
    if dtype is not None and np.dtype(dtype).kind != "f":
        raise FjitTypeError(f"If a is inexact, then dtype must be inexact (at {user_line()})")


def _count(x: Tracer, axis: Any, keepdims: Any, where: Any) -> Tracer:
    """How many numbers each result is made of."""
    present = ufuncs.call("logical_not", ufuncs.call("isnan", x))
    count: Tracer = reductions.sum_(present, axis, dtypes.I64, None, keepdims, NO_VALUE, where)
    return count


def _in_dtype(x: Tracer, like: Tracer) -> Tracer:
    """NumPy subtracts the mean in place: the deviations have the array's own dtype."""
    return fresh(ops.convert(x.atom, like.dtype), x.element_strides)
