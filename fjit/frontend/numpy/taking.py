"""Selecting and placing elements by position or mask: take, compress, nonzero, put, place, triu.

Takes traced arrays and positions or conditions, gives copies, or writes into the first argument:

    np.nonzero(x > 0)      records      c = gt a 0.0;  d = iota[...];  e:i64[n<=8] = compress c d

Invariant: everything selected by one mask has one symbol as its extent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Primitive, Shape
from fjit.core.trace import where
from fjit.errors import FjitTypeError, FjitValueError, ShapeError, shape_text
from fjit.frontend.layout import c_strides, result_strides
from fjit.frontend.numpy import arrays
from fjit.frontend.numpy.arrays import as_tracer, assigned, axis_of
from fjit.frontend.numpy.assigning import check_writeable, fitted, replaced
from fjit.frontend.numpy.indexing import compress as compress_atom
from fjit.frontend.numpy.indexing import mask_positions
from fjit.frontend.numpy.indices import checked, progression, wrapped
from fjit.frontend.numpy.joining import join, rearranged
from fjit.frontend.numpy.shaping import ravel, reshape, resize
from fjit.frontend.operands import broadcast_shapes, broadcast_to, convert, store
from fjit.frontend.session import current
from fjit.frontend.tracer import (
    FUNCTIONS,
    UFUNCS,
    Tracer,
    extent_value,
    fresh,
    implements,
    require_static,
)

MODES = ("raise", "wrap", "clip")


def _iota(shape: Shape, axis: int) -> Atom:
    return current().trace.emit(p.iota, shape=shape, axis=axis)


def _int(value: int) -> Atom:
    return current().trace.literal(value, dtypes.I64)


# ---- take -------------------------------------------------------------------------------------


@implements(np.take)
def take(
    a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise"
) -> Any:
    """See np.take."""
    x = as_tracer(a)
    if axis is None:
        x, axis = ravel(x), 0
    x, axis = arrays.with_axis(x, axis)
    extent = x.static_shape[axis]
    contents = _known(indices)
    if isinstance(extent, int) and mode == "raise" and contents is not None:
        positions = checked(contents, axis, extent)
        spaced = progression(positions)
        if spaced is not None:
            start, size, step = spaced
            piece = arrays.slice_axis(x, axis, start, size, step)
            return store(arrays.copy(piece, "C"), out)
        index: Tracer = as_tracer(positions) if positions.ndim else fresh(_int(int(positions)))
        atom = index.atom
    else:
        index = as_tracer(indices)
        _check_integer(index)
        atom = positions_in(index, extent, mode)
    return store(_gathered(x, atom, axis), out)


def _known(indices: Any) -> Any:
    """Positions whose values are known while tracing, else None."""
    if isinstance(indices, (int, np.integer)) and not isinstance(indices, bool):
        return np.asarray(indices)
    found = arrays.known(indices)
    if found is not None and found.dtype.kind not in "iu":
        return None
    return found


def _check_integer(index: Tracer) -> None:
    if index.dtype.kind not in "biu":
        raise FjitTypeError(
            f"Cannot cast array data from {index.dtype!r} to dtype('int64') according to the rule "
            f"'safe', at {where()}: positions must be integers"
        )


def positions_in(index: Tracer, extent: Any, mode: str) -> Atom:
    """Traced positions as int64 within the extent, by NumPy's mode."""
    if mode not in MODES:
        raise FjitValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap', at {where()}")
    if mode == "raise":
        return wrapped(index.atom, extent)
    trace, atom = current().trace, convert(index.atom, dtypes.I64)
    size = _int(extent) if isinstance(extent, int) else extent_value(trace, extent).atom
    if mode == "wrap":
        return trace.emit(p.mod, atom, size)
    last = trace.emit(p.sub, size, _int(1))
    return trace.emit(p.min_, trace.emit(p.max_, atom, _int(0)), last)


def _gathered(x: Tracer, positions: Atom, axis: int) -> Tracer:
    """Elements of one axis, in C order, the positions' axes in its place."""
    trace = current().trace
    atom = trace.emit(p.gather, x.atom, positions, axes=(axis,))
    count = positions.aval.ndim
    if axis:
        rest = range(count, atom.aval.ndim)
        perm = (*rest[:axis], *range(count), *rest[axis:])
        if perm != tuple(range(len(perm))):
            atom = trace.emit(p.transpose, atom, perm=perm)
    return fresh(atom)


# ---- along an axis ----------------------------------------------------------------------------


def _along(x: Tracer, index: Tracer, axis: int) -> tuple[Atom, ...]:
    """Positions for every axis of `x`: the index along `axis`, the place itself elsewhere."""
    if x.ndim != index.ndim:
        raise FjitValueError(
            f"`indices` and `arr` must have the same number of dimensions, at {where()}: "
            f"{shape_text(index.static_shape)} and {shape_text(x.static_shape)}"
        )
    if index.dtype.kind not in "iu":
        raise IndexError(f"`indices` must be an integer array, at {where()}")
    others = tuple(1 if k == axis else e for k, e in enumerate(x.static_shape))
    shape = broadcast_shapes(index.static_shape, others)
    places = []
    for k, extent in enumerate(x.static_shape):
        if k == axis:
            places.append(broadcast_to(wrapped(index.atom, extent), shape))
        elif extent == 1:
            places.append(broadcast_to(_int(0), shape))
        else:
            places.append(_iota(shape, k))
    return tuple(places)


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Tracer:
    """See np.take_along_axis."""
    x, index = as_tracer(arr), as_tracer(indices)
    if axis is None:
        x, axis = ravel(x), 0
    places = _along(x, index, axis_of(axis, x.ndim))
    axes = tuple(range(x.ndim))
    return arrays.array(current().trace.emit(p.gather, x.atom, *places, axes=axes))


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    """See np.put_along_axis: writes into `arr`."""
    base, index = check_writeable(arr, "np.put_along_axis"), as_tracer(indices)
    shape = base.static_shape
    flat = arrays.array(base.atom)
    if axis is None:
        flat, axis = ravel(flat), 0
    places = _along(flat, index, axis_of(axis, flat.ndim))
    value = fitted(assigned(values, base.dtype), places[0].aval.shape)
    axes = tuple(range(flat.ndim))
    trace = current().trace
    atom = trace.emit(p.scatter, flat.atom, value, *places, axes=axes, op="set")
    base.assign(reshape(fresh(atom), shape).atom)


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """See np.put: writes into `a` at flat positions, values repeated as needed."""
    base = check_writeable(a, "np.put")
    index = as_tracer(ind)
    _check_integer(index)
    flat = ravel(arrays.array(base.atom))
    positions = ravel(fresh(positions_in(index, flat.static_shape[0], mode)))
    count = require_static(positions.static_shape[0], "np.put")
    values = ravel(as_tracer(v))
    if count == 0 or values.static_shape == (0,):
        return
    value = convert(resize(values, (count,)).atom, base.dtype)
    trace = current().trace
    atom = trace.emit(p.scatter, flat.atom, value, positions.atom, axes=(0,), op="set")
    base.assign(reshape(fresh(atom), base.static_shape).atom)


# ---- masks ------------------------------------------------------------------------------------


def as_mask(x: Tracer) -> Atom:
    """Where `x` is not zero."""
    return x.atom if x.dtype == dtypes.BOOL else UFUNCS["not_equal"](x, 0).atom


@implements(np.nonzero)
def nonzero(a: Any) -> tuple[Tracer, ...]:
    """See np.nonzero: arrays whose common extent is known at run time."""
    x = as_tracer(a)
    if not x.static_shape:
        raise FjitValueError(
            "Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() "
            f"instead, at {where()}"
        )
    rows = mask_positions(as_mask(x))
    return tuple(arrays.array(atom, (x.ndim,)) for atom in rows)  # NumPy's are columns of one array


@implements(np.flatnonzero)
def flatnonzero(a: Any) -> Tracer:
    """See np.flatnonzero."""
    return nonzero(ravel(a))[0]


@implements(np.argwhere)
def argwhere(a: Any) -> Tracer:
    """See np.argwhere."""
    rows = [arrays.expand_view(x, (0,)) for x in nonzero(a)]
    return arrays.transpose_view(join(rows, 0, dtypes.I64), (1, 0))


@implements(np.compress)
def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """See np.compress."""
    x = as_tracer(a)
    if axis is None:
        x, axis = ravel(x), 0
    x, axis = arrays.with_axis(x, axis)
    contents = arrays.known(condition)
    if contents is not None and contents.ndim == 1:
        kept = np.flatnonzero(contents)
        extent = require_static(x.static_shape[axis], "np.compress")
        picked = rearranged(x, axis, checked(kept, axis, extent))
        return store(arrays.copy(picked, "C"), out)
    keep = as_tracer(condition)
    if keep.ndim != 1:
        raise FjitValueError(f"condition must be a 1-d array, at {where()}: it is {keep.aval}")
    if keep.static_shape[0] != x.static_shape[axis]:
        length = require_static(keep.static_shape[0], "np.compress")
        if length > require_static(x.static_shape[axis], "np.compress"):
            raise FjitValueError(
                f"np.compress at {where()}: the condition has {length} elements, the axis "
                f"{x.static_shape[axis]}"
            )
        x = arrays.slice_axis(x, axis, 0, length)
    moved = FUNCTIONS[np.moveaxis](x, axis, 0)
    picked = arrays.array(compress_atom(as_mask(keep), moved.atom))
    return store(arrays.copy(FUNCTIONS[np.moveaxis](picked, 0, axis), "C"), out)


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Tracer:
    """See np.extract."""
    mask, x = ravel(condition), ravel(arr)
    if mask.static_shape != x.static_shape:
        raise ShapeError(
            f"np.extract at {where()}: the condition has {mask.static_shape[0]} elements, the "
            f"array {x.static_shape[0]}"
        )
    return arrays.array(compress_atom(as_mask(mask), x.atom))


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """See np.place: the k-th true element becomes vals[k % len(vals)]."""
    base, condition, values = check_writeable(arr, "np.place"), as_tracer(mask), ravel(vals)
    if condition.static_shape != base.static_shape:
        raise ShapeError(
            f"place: mask and data must be the same size, at {where()}: "
            f"{shape_text(condition.static_shape)} and {shape_text(base.static_shape)}"
        )
    trace, shape = current().trace, base.static_shape
    holds = as_mask(condition)
    value, count = convert(values.atom, base.dtype), values.static_shape[0]
    if count == 0:
        raise FjitValueError(f"Cannot insert from an empty array!, at {where()}")
    if count == 1:
        value = trace.emit(p.reshape, value, shape=())
    else:
        flat = ravel(fresh(holds))
        rank = trace.emit(p.cumulate, convert(flat.atom, dtypes.I64), op="sum", axis=0)
        rank = trace.emit(p.sub, rank, _int(1))
        size = _int(require_static(count, "np.place"))
        picked = trace.emit(p.gather, value, trace.emit(p.mod, rank, size), axes=(0,))
        value = trace.emit(p.reshape, picked, shape=shape)
    base.assign(replaced(base.atom, holds, tuple(range(len(shape))), value))


@implements(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    """See np.putmask: values at the same places, repeated if they are fewer."""
    base, condition = check_writeable(a, "np.putmask"), as_tracer(mask)
    shape = base.static_shape
    if condition.static_shape != shape:
        raise ShapeError(f"putmask: mask and data must be the same size, at {where()}")
    value = convert(as_tracer(values).atom, base.dtype)
    if value.aval.shape and value.aval.shape != shape:
        value = resize(arrays.array(value), shape).atom
    base.assign(replaced(base.atom, as_mask(condition), tuple(range(len(shape))), value))


# ---- triangles and diagonals ------------------------------------------------------------------


def _triangle(m: Any, k: Any, keep: Primitive) -> Tracer:
    x = as_tracer(m)
    if not x.static_shape:
        raise FjitValueError(f"triu and tril need at least one axis, at {where()}")
    shape = x.static_shape if x.ndim > 1 else (x.static_shape[0],) * 2
    trace, last = current().trace, len(shape) - 1
    distance = trace.emit(p.sub, _iota(shape, last), _iota(shape, last - 1))
    holds = trace.emit(keep, distance, assigned(k, dtypes.I64))
    chosen = trace.emit(p.select, holds, broadcast_to(x.atom, shape), trace.literal(0, x.dtype))
    triangle = shape[-2:]
    seen = [(triangle, c_strides(triangle)), (x.static_shape, x.element_strides)]
    return arrays.array(chosen, result_strides(shape, tuple(seen)))


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Tracer:
    """See np.triu."""
    return _triangle(m, k, p.ge)


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Tracer:
    """See np.tril."""
    return _triangle(m, k, p.le)


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """See np.fill_diagonal: writes into `a`."""
    base = check_writeable(a, "np.fill_diagonal")
    shape = base.static_shape
    if len(shape) < 2:
        raise FjitValueError(f"array must be at least 2-d, at {where()}")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise FjitValueError(f"All dimensions of input must be of equal length, at {where()}")
    rows, columns = (require_static(e, "np.fill_diagonal") for e in shape[:2])
    if wrap and rows > columns + 1:
        raise FjitValueError(f"np.fill_diagonal with wrap=True of a tall matrix at {where()}")
    trace = current().trace
    row = _iota(shape, 0)
    holds = trace.emit(p.eq, row, _iota(shape, 1))
    for axis in range(2, len(shape)):
        holds = trace.emit(p.and_, holds, trace.emit(p.eq, row, _iota(shape, axis)))
    value = assigned(val, base.dtype)
    if value.aval.shape:
        along = resize(arrays.array(value), (rows,)).atom
        value = trace.emit(p.broadcast, along, shape=shape, axes=(0,))
    base.assign(trace.emit(p.select, holds, value, base.atom))
