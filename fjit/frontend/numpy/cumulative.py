"""Running reductions: cumsum, cumprod, their standard forms and NaN forms, ufunc.accumulate.

Takes what NumPy's functions take, gives traced arrays of NumPy's accumulation dtype; float16 runs
in float32 and is rounded once per element.

    np.cumsum(i4)      records      b = convert[dtype=int64] a; c = cumulate[op=sum axis=0] b
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom
from fjit.core.trace import where as user_line
from fjit.errors import FjitTypeError, FjitValueError, unsupported_function
from fjit.frontend import operands as ops
from fjit.frontend.layout import iteration_order, ordered_strides
from fjit.frontend.numpy import ufuncs
from fjit.frontend.numpy.arrays import (
    array,
    as_tracer,
    axis_of,
    integer_axis,
    no_bool,
    order_strides,
)
from fjit.frontend.numpy.reduction_core import accumulation_dtype
from fjit.frontend.numpy.ufunc_table import F16
from fjit.frontend.session import current
from fjit.frontend.tracer import FUNCTIONS, Tracer, implements

ACCUMULATE: Final[dict[str, str]] = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min",
    "logical_and": "min", "logical_or": "max",
}  # fmt: skip
"""Ufunc name -> operation of `cumulate`; a running `and` of bools is their running minimum."""


def accumulate_ufunc(
    ufunc: np.ufunc, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None
) -> Any:
    """`ufunc.accumulate(a, ...)` of a traced array."""
    name = ufunc.__name__
    op = ACCUMULATE.get(name)
    if op is None:
        raise unsupported_function(
            f"{name}.accumulate",
            "accumulate with add, multiply, maximum, minimum, logical_and or logical_or",
            user_line(),
        )
    x = as_tracer(a)
    (single,) = axis if isinstance(axis, tuple) and len(axis) == 1 else (axis,)
    place = integer_axis(single, x.ndim)
    if not x.ndim:
        raise FjitTypeError(f"cannot accumulate on a scalar (at {user_line()})")
    if name.startswith("logical"):
        wide = dtypes.BOOL
    elif dtype is not None:
        wide = dtypes.canonical(np.dtype(dtype), f"dtype= at {user_line()}")
    else:
        wide = _resolve(ufunc, x, out)
    atom = _cumulated(ops.convert(x.atom, wide), op, place)
    order = iteration_order(x.static_shape, x.element_strides)
    return ops.store(array(atom, ordered_strides(x.static_shape, order)), out)


def _resolve(ufunc: np.ufunc, x: Tracer, out: Any) -> np.dtype[Any]:
    (target,) = out if isinstance(out, tuple) else (out,)
    try:
        return accumulation_dtype(ufunc, x.dtype, None if target is None else target.dtype)
    except TypeError as error:
        raise FjitTypeError(f"{error} (at {user_line()})") from None


def _cumulated(atom: Atom, op: str, axis: int) -> Atom:
    trace = current().trace
    if op in ("sum", "prod") and atom.aval.dtype == F16:
        wide = ops.convert(atom, dtypes.F32)
        return ops.convert(trace.emit(p.cumulate, wide, op=op, axis=axis), F16)
    return trace.emit(p.cumulate, atom, op=op, axis=axis)


def _running(ufunc: np.ufunc, a: Any, axis: Any, dtype: Any, out: Any) -> Any:
    x = as_tracer(a)
    if axis is None or not x.ndim:
        x = FUNCTIONS[np.ravel](x)
        axis = 0 if axis is None else axis
    return accumulate_ufunc(ufunc, x, integer_axis(axis, x.ndim), dtype, out)


@implements(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """See np.cumsum."""
    return _running(np.add, a, axis, dtype, out)


@implements(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """See np.cumprod."""
    return _running(np.multiply, a, axis, dtype, out)


@implements(np.nancumsum)
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """See np.nancumsum: NaN counts as zero."""
    return cumsum(without_nan(as_tracer(a), 0), axis, dtype, out)


@implements(np.nancumprod)
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """See np.nancumprod: NaN counts as one."""
    return cumprod(without_nan(as_tracer(a), 1), axis, dtype, out)


def without_nan(x: Tracer, value: float) -> Tracer:
    """`x` with `value` in place of NaN; integers stay as they are."""
    if x.dtype.kind != "f":
        return x
    trace, atom = current().trace, x.atom
    replaced = trace.emit(p.select, trace.emit(p.isnan, atom), trace.literal(value, x.dtype), atom)
    return array(replaced, order_strides(x.static_shape, x.element_strides, "K"))


@implements(np.cumulative_sum)
def cumulative_sum(
    x: Any,
    /,
    *,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
) -> Any:
    """See np.cumulative_sum."""
    return _standard(np.add, 0, x, axis, dtype, out, include_initial)


@implements(np.cumulative_prod)
def cumulative_prod(
    x: Any,
    /,
    *,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
) -> Any:
    """See np.cumulative_prod."""
    return _standard(np.multiply, 1, x, axis, dtype, out, include_initial)


def _standard(
    ufunc: np.ufunc, first: int, x: Any, axis: Any, dtype: Any, out: Any, include_initial: bool
) -> Any:
    """The array API's cumulative functions, which may begin with the identity."""
    source = as_tracer(x)
    if source.ndim == 0:
        source = FUNCTIONS[np.atleast_1d](source)
    if axis is None:
        if source.ndim > 1:
            raise FjitValueError(
                "For arrays which have more than one dimension ``axis`` argument is required. "
                f"(at {user_line()})"
            )
        axis = 0
    (axis,) = axis if isinstance(axis, tuple) and len(axis) == 1 else (axis,)
    result = accumulate_ufunc(ufunc, source, axis, dtype, None if include_initial else out)
    if not include_initial:
        return result
    place = axis_of(axis, source.ndim)
    low = tuple(int(k == place) for k in range(source.ndim))
    trace = current().trace
    initial = trace.literal(first, result.dtype)
    padded = trace.emit(p.pad, result.atom, initial, low=low, high=(0,) * source.ndim)
    return ops.store(array(padded), out)


# ---- differences --------------------------------------------------------------------------------

_NO_VALUE: Final[Any] = np._NoValue  # NumPy's "argument not given"


@implements(np.diff)
def diff(
    a: Any, n: int = 1, axis: Any = -1, prepend: Any = _NO_VALUE, append: Any = _NO_VALUE
) -> Any:
    """See np.diff; of bools it tells where neighbours differ."""
    if n == 0:
        return a
    if n < 0:
        raise FjitValueError(f"order must be non-negative but got {n!r} (at {user_line()})")
    x = as_tracer(a)
    if not x.ndim:
        raise FjitValueError(
            f"diff requires input that is at least one dimensional (at {user_line()})"
        )
    place = axis_of(axis, x.ndim)
    ends = [_end(e, x, place) if e is not _NO_VALUE else None for e in (prepend, append)]
    parts = [part for part in (ends[0], x, ends[1]) if part is not None]
    if len(parts) > 1:
        x = FUNCTIONS[np.concatenate](parts, place)
    for _ in range(n):
        upper, lower = along(x, place, slice(1, None)), along(x, place, slice(None, -1))
        x = ufuncs.call("not_equal" if x.dtype == dtypes.BOOL else "subtract", upper, lower)
    return x


def _end(value: Any, x: Tracer, axis: int) -> Tracer:
    end = as_tracer(value)
    if end.ndim:
        return end
    shape = tuple(1 if k == axis else extent for k, extent in enumerate(x.static_shape))
    broadcast: Tracer = FUNCTIONS[np.broadcast_to](end, shape)
    return broadcast


def along(x: Tracer, axis: int, index: Any) -> Any:
    """`x` indexed on one axis."""
    return x[(slice(None),) * axis + (index,)]


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """See np.ediff1d."""
    x = FUNCTIONS[np.ravel](as_tracer(ary))
    middle = x[1:] - x[:-1]
    if to_begin is None and to_end is None:
        return middle
    parts = [middle]
    for name, end, place in (("to_begin", to_begin, 0), ("to_end", to_end, len(parts))):
        if end is None:
            continue
        joined = as_tracer(end)
        if not np.can_cast(joined.dtype, x.dtype, casting="same_kind"):
            raise FjitTypeError(
                f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` "
                f"rule. (at {user_line()})"
            )
        joined = FUNCTIONS[np.ravel](joined)
        parts.insert(place * len(parts), array(ops.convert(joined.atom, x.dtype)))
    return FUNCTIONS[np.concatenate](parts)


@implements(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    """See np.trapezoid."""
    values = as_tracer(y)
    place = axis_of(axis, values.ndim)
    spacing = dx
    if x is not None:
        points = as_tracer(x)
        if points.ndim == 1:
            spacing = diff(points)
            shape = [1] * values.ndim
            shape[place] = -1
            spacing = FUNCTIONS[np.reshape](spacing, tuple(shape))
        else:
            spacing = diff(points, axis=axis)
    pairs = along(values, place, slice(1, None)) + along(values, place, slice(None, -1))
    return FUNCTIONS[np.sum](spacing * pairs / 2.0, axis)


@implements(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: Any = -1, *, period: Any = 2 * np.pi) -> Any:
    """See np.unwrap; the period is concrete."""
    phase = as_tracer(p)
    place = axis_of(no_bool(axis), phase.ndim)
    steps = diff(phase, axis=place)
    limit = period / 2 if discont is None else discont
    dtype = ops.common_dtype([ops.lift(steps), ops.lift(period)])
    if dtype.kind in "iu":
        high, rest = divmod(period, 2)
        is_ambiguous = rest == 0
    else:
        high, is_ambiguous = period / 2, True
    wrapped = (steps - -high) % period + -high
    if is_ambiguous:
        wrapped = FUNCTIONS[np.where]((wrapped == -high) & (steps > 0), high, wrapped)
    correction = FUNCTIONS[np.where](abs(steps) < limit, 0, wrapped - steps)
    up = FUNCTIONS[np.array](phase, dtype=dtype)
    rest_of = (slice(None),) * place + (slice(1, None),)
    up[rest_of] = phase[rest_of] + cumsum(correction, place)
    return up
