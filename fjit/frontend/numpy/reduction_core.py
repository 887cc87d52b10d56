"""Reductions as such: axes, accumulation dtype, `initial`, `where`, `keepdims`, layout.

Takes a ufunc and what its `reduce` method takes, gives the traced result; `reductions.py` builds
NumPy's functions from it. Invariant: accumulation dtypes are NumPy's (`resolve_dtypes` of the
reduction), except that float16 sums and products accumulate in float32 and are rounded once.

    np.add.reduce(i8)      records      b = convert[dtype=int64] a; c = reduce[op=sum axes=(0,)] b

Whether an axis of symbolic extent is empty is known at run time only; a maximum over it is recorded
as it stands, and the compiled code raises NumPy's error.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Extent, Shape, Sym
from fjit.core.trace import where as user_line
from fjit.errors import FjitTypeError, FjitValueError, unsupported_function
from fjit.frontend import operands as ops
from fjit.frontend.layout import iteration_order, ordered_strides
from fjit.frontend.numpy.arrays import as_tracer, assigned, no_bool
from fjit.frontend.numpy.ufunc_table import F16
from fjit.frontend.session import current
from fjit.frontend.tracer import Tracer, extent_value, fresh

DType = np.dtype[Any]
NO_VALUE: Final[Any] = np._NoValue  # NumPy's "argument not given"
ROW_BYTES: Final = 1 << 16  # of a row that is walked twice, the same on every machine


class Reducer(NamedTuple):
    """The primitive's operation and its identity (None: has none)."""

    op: str
    identity: Any
    is_logical: bool = False


REDUCERS: Final[dict[str, Reducer]] = {
    "add": Reducer("sum", 0),
    "multiply": Reducer("prod", 1),
    "maximum": Reducer("max", None),
    "minimum": Reducer("min", None),
    "fmax": Reducer("max", None),
    "fmin": Reducer("min", None),
    "logical_and": Reducer("and", True, True),
    "logical_or": Reducer("or", False, True),
}


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that `axis` (None, an int or several) names, in increasing order."""
    if axis is None or axis is NO_VALUE:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    try:
        return tuple(sorted(normalize_axis_tuple(no_bool(axis), ndim)))
    except ValueError as error:
        if isinstance(error, np.exceptions.AxisError):
            raise
        raise FjitValueError(f"duplicate value in 'axis', at {user_line()}") from None


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes of a ufunc's reduction: those of `reduced_axes`; a number has an axis 0 as well."""
    is_index = isinstance(axis, (int, np.integer)) and not isinstance(axis, bool)
    if not ndim and is_index and axis in (0, -1):
        return ()
    return reduced_axes(axis, ndim)


@lru_cache(maxsize=4096)
def accumulation_dtype(ufunc: np.ufunc, given: DType, out: DType | None) -> DType:
    """The dtype in which NumPy reduces an array of `given` (into `out`); raises its TypeError."""
    found = ufunc.resolve_dtypes((out, given, None), reduction=True)
    return dtypes.canonical(found[1], f"{ufunc.__name__}.reduce")


def kept_shape(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """The shape with extent 1 on the reduced axes, as `keepdims` has it."""
    return tuple(1 if k in axes else extent for k, extent in enumerate(shape))


def finish(
    atom: Atom, source: Tracer, axes: tuple[int, ...], keepdims: bool, out: Any = None
) -> Any:
    """A reduction's result in K-order of its source, with the axes kept if asked, or in `out`."""
    order = iteration_order(source.static_shape, source.element_strides)
    if keepdims and axes:
        shape = kept_shape(source.static_shape, axes)
        atom = current().trace.emit(p.reshape, atom, shape=shape)
    elif axes:
        kept = [k for k in range(source.ndim) if k not in axes]
        order = tuple(kept.index(k) for k in order if k not in axes)
    result = fresh(atom, ordered_strides(atom.aval.shape, order))
    return ops.store(result, out)


def count_of(x: Tracer, axes: tuple[int, ...]) -> Any:
    """The number of elements along `axes`: an int, or a traced one for symbolic extents."""
    static, symbols = _factors(x.static_shape, axes)
    total: Any = static
    for symbol in symbols:
        total = total * extent_value(current().trace, symbol)
    return total


def _factors(shape: Shape, axes: tuple[int, ...]) -> tuple[int, list[Sym]]:
    extents: list[Extent] = [shape[k] for k in axes]
    return (
        math.prod(e for e in extents if isinstance(e, int)),
        [e for e in extents if isinstance(e, Sym)],
    )


def _emit(reducer: Reducer, atom: Atom, axes: tuple[int, ...], *, checked: bool = True) -> Atom:
    """The reduction of `atom` over `axes`; float16 sums and products run in float32.

    Unchecked, an extremum over a filter that keeps nothing is the identity.
    """
    trace = current().trace
    if not axes:
        is_sum = reducer.op == "sum" and atom.aval.dtype.kind == "f" and checked
        zero = trace.literal(0.0, atom.aval.dtype)
        return trace.emit(p.add, atom, zero) if is_sum else atom  # -0.0 becomes 0.0
    if reducer.op in ("sum", "prod") and atom.aval.dtype == F16:
        wide = ops.convert(atom, dtypes.F32)
        return ops.convert(trace.emit(p.reduce, wide, op=reducer.op, axes=axes), F16)
    if not checked and not atom.aval.is_static:
        return trace.emit(p.reduce, atom, op=reducer.op, axes=axes, checked=False)
    return trace.emit(p.reduce, atom, op=reducer.op, axes=axes)


def reduce_ufunc(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """`ufunc.reduce(array, ...)` of a traced array."""
    reducer = REDUCERS.get(ufunc.__name__)
    if reducer is None:
        raise unsupported_function(
            f"{ufunc.__name__}.reduce",
            "reduce with add, multiply, maximum, minimum, fmax, fmin, logical_and or logical_or",
            user_line(),
        )
    x = as_tracer(array)
    axes = _axes(axis, x.ndim)
    if reducer.is_logical:
        accumulator = dtypes.BOOL
    elif dtype is not None and dtype is not NO_VALUE:
        accumulator = dtypes.canonical(np.dtype(dtype), f"dtype= at {user_line()}")
    else:
        accumulator = _resolve(ufunc, x.dtype, out)
    atom = ops.convert(x.atom, accumulator)
    first = None
    if initial is not NO_VALUE and initial is not None:
        first = assigned(initial, accumulator)
    if where is not True and where is not NO_VALUE:
        atom = _masked(ufunc, atom, where, first, reducer)
    return finish(_reduced(ufunc, reducer, atom, axes, first), x, axes, bool(keepdims), out)


# ---- reductions in two walks --------------------------------------------------------------------


def in_blocks(x: Tracer, axis: Any, dtype: Any, *, only_rows: bool = False) -> bool:
    """Whether a mean and what is about it are formed block by block, not one after the other.

    So they are where what the first of two walks reads, before the second begins, is longer than
    ROW_BYTES: a row, or where columns are reduced and not `only_rows` are asked for, all rows of
    them.
    """
    dtype = np.dtype(dtype)
    if dtype not in (dtypes.F32, dtypes.F64) or np.result_type(x.dtype, dtype) != dtype:
        return False
    axes = reduced_axes(axis, x.ndim)
    shape = x.static_shape
    if any(not isinstance(e, int) for e in shape):
        return False
    if math.prod(e for k in axes if isinstance(e := shape[k], int)) < 2:  # of one element each
        return False
    order = iteration_order(shape, x.element_strides)
    first = min(order.index(k) for k in axes)
    if only_rows and order[-1] not in axes:
        return False
    between = math.prod(e for k in order[first:] if isinstance(e := shape[k], int))
    return bool(between * dtype.itemsize > ROW_BYTES)


def reduce_in_blocks(op: str, x: Tracer, axis: Any, dtype: Any, keepdims: bool) -> Any:
    """The reduction `op` of a static, floating array, of which each block is walked twice."""
    axes = reduced_axes(axis, x.ndim)
    atom = ops.convert(x.atom, np.dtype(dtype))
    return finish(current().trace.emit(p.reduce, atom, op=op, axes=axes), x, axes, keepdims)


def _resolve(ufunc: np.ufunc, given: DType, out: Any) -> DType:
    (target,) = out if isinstance(out, tuple) else (out,)
    try:
        return accumulation_dtype(ufunc, given, None if target is None else target.dtype)
    except TypeError as error:
        raise FjitTypeError(f"{error} (at {user_line()})") from None


def _masked(ufunc: np.ufunc, atom: Atom, where: Any, first: Atom | None, reducer: Reducer) -> Atom:
    """`atom` with the identity, or else `initial`, where the mask does not hold."""
    trace = current().trace
    rest = first
    if reducer.identity is not None:
        rest = trace.literal(reducer.identity, atom.aval.dtype)
    if rest is None:
        raise FjitValueError(
            f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a where "
            f"mask one has to specify 'initial' (at {user_line()})"
        )
    mask = ops.convert(ops.lift(where).atom, dtypes.BOOL)
    shape = atom.aval.shape
    if ops.broadcast_shapes(mask.aval.shape, shape) != shape:
        raise FjitValueError(
            f"non-broadcastable operand with shape {shape} doesn't match the shape "
            f"{mask.aval.shape} of where= at {user_line()}"
        )
    return ops.broadcast_to(trace.emit(p.select, *ops.align([mask, atom, rest], shape)), shape)


def _reduced(
    ufunc: np.ufunc, reducer: Reducer, atom: Atom, axes: tuple[int, ...], first: Atom | None
) -> Atom:
    trace, name = current().trace, ufunc.__name__
    is_empty = any(atom.aval.shape[k] == 0 for k in axes)
    if is_empty and first is not None:
        kept = tuple(e for k, e in enumerate(atom.aval.shape) if k not in axes)
        return ops.broadcast_to(first, kept)
    if is_empty and reducer.identity is None:
        raise FjitValueError(
            f"zero-size array to reduction operation {name} which has no identity "
            f"(at {user_line()})"
        )
    if name in ("fmax", "fmin") and atom.aval.dtype.kind == "f":
        result = _ignoring_nan(reducer, atom, axes)
    else:
        result = _emit(reducer, atom, axes, checked=first is None)
    if first is None:
        return result
    shape = result.aval.shape
    step = _combine(reducer, name, result.aval.dtype)
    return ops.broadcast_to(trace.emit(step, *ops.align([first, result], shape)), shape)


def _combine(reducer: Reducer, name: str, dtype: DType) -> Any:
    if dtype.kind == "f" and name in ("fmax", "fmin"):
        return p.fmax if name == "fmax" else p.fmin
    steps = {"sum": p.add, "prod": p.mul, "max": p.max_, "min": p.min_, "and": p.and_, "or": p.or_}
    return steps[reducer.op]


def _ignoring_nan(reducer: Reducer, atom: Atom, axes: tuple[int, ...]) -> Atom:
    """fmax.reduce: NaN counts as the worst value, unless there is nothing else."""
    trace = current().trace
    worst = trace.literal(-math.inf if reducer.op == "max" else math.inf, atom.aval.dtype)
    is_nan = trace.emit(p.isnan, atom)
    found = _emit(reducer, trace.emit(p.select, is_nan, worst, atom), axes)
    nothing = _emit(REDUCERS["logical_and"], is_nan, axes)
    return trace.emit(p.select, nothing, trace.literal(math.nan, atom.aval.dtype), found)
