"""Joining and splitting: concatenate, stack, split, tile, repeat, roll and their kin.

Takes traced arrays, gives copies (joins) or views (splits):

    np.roll(x, 1)    records    b = slice[...] a;  c = slice[...] a;  d = concatenate[axis=0] b c

Invariant: the extents along the joined axis are known; only `repeat` by traced counts makes an
extent that is known at run time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Extent, Var
from fjit.core.trace import where
from fjit.errors import FjitTypeError, FjitValueError, ShapeError, shape_text
from fjit.frontend.layout import join_order, ordered_strides
from fjit.frontend.numpy import arrays
from fjit.frontend.numpy.arrays import as_tracer, axis_of, integer_axis, static_int
from fjit.frontend.numpy.shaping import ravel, reshape
from fjit.frontend.operands import broadcast_to, convert, store
from fjit.frontend.session import current
from fjit.frontend.tracer import FUNCTIONS, Tracer, implements, require_static

UNKNOWN_EXTENT: Final = 2**31 - 1
"""The bound of an extent that counts give at run time (np.repeat)."""
MAX_RUNS: Final = 32
"""Rearranging an axis by more slices than this is a gather instead."""


def many(values: Any) -> list[Tracer]:
    """The arrays of a sequence argument; an array stands for its rows."""
    if not isinstance(values, (Tracer, np.ndarray, list, tuple)):
        raise FjitTypeError(f"arrays to stack at {where()} must be passed as a list or tuple")
    return [as_tracer(v) for v in values]


# ---- concatenate ------------------------------------------------------------------------------


@implements(np.concatenate)
def concatenate(
    arrays_: Any,
    /,
    axis: int | None = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    """See np.concatenate."""
    parts = many(arrays_)
    if not parts:
        raise FjitValueError(f"need at least one array to concatenate, at {where()}")
    if axis is None:
        parts, axis = [ravel(x) for x in parts], 0
    if any(not x.static_shape for x in parts):
        raise FjitValueError(f"zero-dimensional arrays cannot be concatenated, at {where()}")
    wanted = arrays.joined_dtype(parts, dtype if out is None else out.dtype)
    for x in parts:
        if not np.can_cast(x.dtype, wanted, casting):  # type: ignore[arg-type]
            raise FjitTypeError(
                f"Cannot cast array data from {x.dtype!r} to {wanted!r} according to the rule "
                f"'{casting}', at {where()}"
            )
    return store(join(parts, integer_axis(axis, parts[0].ndim), wanted), out, "unsafe")


def join(parts: Sequence[Tracer], axis: int, dtype: np.dtype[Any]) -> Tracer:
    """Arrays of at least one axis joined along `axis`, in `dtype` and NumPy's memory order."""
    _check_fit(parts, axis)
    atoms = [convert(x.atom, dtype) for x in parts]
    filled = [a for a in atoms if a.aval.shape[axis] != 0] or atoms[:1]
    alone = len(filled) == 1
    atom = filled[0] if alone else current().trace.emit(p.concat, *filled, axis=axis)
    shape = atom.aval.shape
    strides = ordered_strides(shape, join_order(len(shape), [_told(x) for x in parts]))
    return arrays.array(atom, strides)


def _told(x: Tracer) -> tuple[int, ...]:
    """Strides as a join sees them: axes of extent 1 alone say nothing about the order."""
    pairs = zip(x.static_shape, x.element_strides, strict=True)
    return tuple(0 if extent == 1 else abs(stride) + 1 for extent, stride in pairs)


def _check_fit(parts: Sequence[Tracer], axis: int) -> None:
    first = parts[0].static_shape
    for k, x in enumerate(parts):
        shape = x.static_shape
        if len(shape) != len(first):
            raise ShapeError(
                "all the input array dimensions except for the concatenation axis must match "
                f"exactly, but the array at index 0 has {len(first)} dimension(s) and the array "
                f"at index {k} has {len(shape)} dimension(s), at {where()}: the shapes are "
                f"{shape_text(first)} and {shape_text(shape)}"
            )
        if len(parts) > 1:
            require_static(shape[axis], "joining arrays")
        for d in range(len(shape)):
            if d != axis and shape[d] != first[d]:
                raise ShapeError(
                    "all the input array dimensions except for the concatenation axis must match "
                    f"exactly, but along dimension {d}, the array at index 0 has size {first[d]} "
                    f"and the array at index {k} has size {shape[d]}, at {where()}"
                )


@implements(np.stack)
def stack(
    arrays_: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """See np.stack."""
    parts = many(arrays_)
    if not parts:
        raise FjitValueError(f"need at least one array to stack, at {where()}")
    shapes = {x.static_shape for x in parts}
    if len(shapes) > 1:
        seen = ", ".join(shape_text(x.static_shape) for x in parts[:8])
        raise ShapeError(f"all input arrays must have the same shape, not {seen}, at {where()}")
    at = axis_of(axis, parts[0].ndim + 1)
    expanded = [arrays.expand_view(x, (at,)) for x in parts]
    return concatenate(expanded, at, out, dtype=dtype, casting=casting)


def at_least(x: Tracer, ndim: int) -> Tracer:
    """`x` with leading axes of extent 1 up to `ndim` axes."""
    return arrays.expand_view(x, range(ndim - x.ndim)) if x.ndim < ndim else x


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """See np.hstack."""
    parts = [at_least(x, 1) for x in many(tup)]
    axis = 0 if parts and parts[0].ndim == 1 else 1
    return concatenate(parts, axis, dtype=dtype, casting=casting)


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """See np.vstack."""
    return concatenate([at_least(x, 2) for x in many(tup)], 0, dtype=dtype, casting=casting)


@implements(np.dstack)
def dstack(tup: Any) -> Any:
    """See np.dstack."""
    parts = [at_least(x, 2) for x in many(tup)]
    return concatenate([x if x.ndim > 2 else arrays.expand_view(x, (2,)) for x in parts], 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Any:
    """See np.column_stack."""
    parts = [at_least(x, 1) for x in many(tup)]
    return concatenate([x if x.ndim > 1 else arrays.expand_view(x, (1,)) for x in parts], 1)


@implements(np.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """See np.append."""
    x = as_tracer(arr)
    if axis is None:
        return concatenate((ravel(x), ravel(values)), 0)
    return concatenate((x, as_tracer(values)), axis)


@implements(np.block)
def block(arrays_: Any) -> Any:
    """See np.block."""
    depth = _depth(arrays_)
    if depth == 0:
        return arrays.copy(as_tracer(arrays_), "C")
    ndim = max(depth, *[x.ndim for x in _leaves(arrays_)])
    return _block(arrays_, depth, ndim)


def _depth(nested: Any) -> int:
    if not isinstance(nested, list):
        if isinstance(nested, tuple):
            raise FjitTypeError(f"np.block at {where()} takes nested lists, not tuples")
        return 0
    depths = {_depth(v) for v in nested}
    if len(depths) != 1:
        raise FjitValueError(f"List depths are mismatched or empty in np.block, at {where()}")
    return 1 + depths.pop()


def _leaves(nested: Any) -> list[Tracer]:
    if isinstance(nested, list):
        return [x for v in nested for x in _leaves(v)]
    return [as_tracer(nested)]


def _block(nested: Any, level: int, ndim: int) -> Any:
    if level == 0:
        return at_least(as_tracer(nested), ndim)
    return concatenate([_block(v, level - 1, ndim) for v in nested], ndim - level)


# ---- splitting --------------------------------------------------------------------------------


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tracer]:
    """See np.array_split: views."""
    x = as_tracer(ary)
    axis = axis_of(axis, x.ndim)
    extent = require_static(x.static_shape[axis], "splitting")
    contents = arrays.known(indices_or_sections)
    if contents is not None or isinstance(indices_or_sections, (np.ndarray, range)):
        indices_or_sections = indices_or_sections if contents is None else contents
        inner = [static_int(k, "a place to split at") for k in indices_or_sections]
        points = [0, *inner, extent]
    else:
        points = _even_points(extent, static_int(indices_or_sections, "the number of sections"))
    views = []
    for first, last in itertools.pairwise(points):
        start, stop, _ = slice(first, last).indices(extent)
        size = max(stop - start, 0)
        views.append(arrays.slice_axis(x, axis, start if size else 0, size).view())
    return views


def _even_points(extent: int, sections: int) -> list[int]:
    if sections <= 0:
        raise FjitValueError(f"number sections must be larger than 0, at {where()}")
    each, extra = divmod(extent, sections)
    return [k * each + min(k, extra) for k in range(sections + 1)]


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tracer]:
    """See np.split: views."""
    x = as_tracer(ary)
    if not isinstance(indices_or_sections, (Tracer, list, tuple, np.ndarray, range)):
        sections = static_int(indices_or_sections, "the number of sections")
        extent = require_static(x.static_shape[axis_of(axis, x.ndim)], "splitting")
        if sections > 0 and extent % sections:
            raise FjitValueError(
                f"array split does not result in an equal division, at {where()}: {extent} into "
                f"{sections}"
            )
    return array_split(x, indices_or_sections, axis)


def _split_along(name: str, least: int, axis: int) -> Any:
    def function(ary: Any, indices_or_sections: Any) -> list[Tracer]:
        x = as_tracer(ary)
        if x.ndim < least:
            raise FjitValueError(
                f"{name} only works on arrays of {least} or more dimensions, at {where()}"
            )
        return split(x, indices_or_sections, min(axis, x.ndim - 1))

    function.__name__ = name
    function.__doc__ = f"See np.{name}."
    return function


implements(np.hsplit)(_split_along("hsplit", 1, 1))
implements(np.vsplit)(_split_along("vsplit", 2, 0))
implements(np.dsplit)(_split_along("dsplit", 3, 2))


# ---- repeating --------------------------------------------------------------------------------


@implements(np.tile)
def tile(A: Any, reps: Any) -> Tracer:
    """See np.tile."""
    given = reps if isinstance(reps, (tuple, list, np.ndarray)) else (reps,)
    counts = [static_int(r, "reps") for r in given]
    x = at_least(as_tracer(A), len(counts))
    counts = [1] * (x.ndim - len(counts)) + counts
    if all(count == 1 for count in counts):
        return arrays.copy(x)
    wide: list[Extent] = []
    target: list[Extent] = []
    axes: list[int] = []
    for extent, count in zip(x.static_shape, counts, strict=True):
        if count == 1:
            target.append(extent)
        else:
            target.append(count * require_static(extent, "np.tile"))
            wide.append(count)
        axes.append(len(wide))
        wide.append(extent)
    trace = current().trace
    atom = trace.emit(p.broadcast, x.atom, shape=tuple(wide), axes=tuple(axes))
    return arrays.array(trace.emit(p.reshape, atom, shape=tuple(target)))


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Tracer:
    """See np.repeat; traced counts give an extent known at run time."""
    x = as_tracer(a)
    if axis is None:
        x, axis = ravel(x), 0
    x, axis = arrays.with_axis(x, axis)
    if not isinstance(repeats, (Tracer, np.ndarray, list, tuple)):
        return _repeat_each(x, static_int(repeats, "repeats"), axis)
    contents = arrays.known(repeats)
    if contents is not None and contents.ndim == 1:
        return _repeat_listed(x, [static_int(r, "repeats") for r in contents], axis)
    return _repeat_traced(x, as_tracer(repeats), axis)


def _repeat_each(x: Tracer, count: int, axis: int) -> Tracer:
    if count < 0:
        raise FjitValueError(f"repeats may not contain negative values, at {where()}.")
    shape = x.static_shape
    extent = require_static(shape[axis], "np.repeat")
    wide = (*shape[: axis + 1], count, *shape[axis + 1 :])
    axes = tuple(k for k in range(len(wide)) if k != axis + 1)
    trace = current().trace
    atom = trace.emit(p.broadcast, x.atom, shape=wide, axes=axes)
    target = (*shape[:axis], extent * count, *shape[axis + 1 :])
    return arrays.array(trace.emit(p.reshape, atom, shape=target))


def _repeat_listed(x: Tracer, counts: list[int], axis: int) -> Tracer:
    extent = require_static(x.static_shape[axis], "np.repeat")
    if len(counts) == 1:
        return _repeat_each(x, counts[0], axis)
    if len(counts) != extent:
        raise _bad_counts(extent, len(counts))
    if min(counts, default=0) < 0:
        raise FjitValueError(f"repeats may not contain negative values, at {where()}.")
    return arrays.array(rearranged(x, axis, np.repeat(np.arange(extent), counts)).atom)


def _bad_counts(extent: object, count: object) -> ShapeError:
    return ShapeError(
        f"operands could not be broadcast together with shape ({extent},) ({count},), at "
        f"{where()}: np.repeat takes one count, or one for each of the {extent} elements"
    )


def _repeat_traced(x: Tracer, counts: Tracer, axis: int) -> Tracer:
    if counts.dtype.kind not in "biu":
        raise FjitTypeError(
            f"Cannot cast array data from {counts.dtype!r} to dtype('int64') according to the rule "
            f"'safe', at {where()}: np.repeat takes integer counts"
        )
    extent = x.static_shape[axis]
    if counts.static_shape not in ((), (1,), (extent,)):
        raise _bad_counts(extent, counts.static_shape[0] if counts.ndim == 1 else "?")
    trace = current().trace
    atom = broadcast_to(convert(counts.atom, dtypes.I64), (extent,))
    assert isinstance(atom, Var), "counts have one axis"
    symbol = trace.symbol(atom, UNKNOWN_EXTENT)
    return arrays.array(trace.emit(p.repeat, x.atom, atom, axis=axis, extent=symbol))


# ---- rearranging one axis ---------------------------------------------------------------------


def runs(positions: np.ndarray[Any, Any]) -> list[tuple[int, int, int]]:
    """Known positions as maximal runs of start, size and step (-1, 0 or 1)."""
    found, k = [], 0
    while k < len(positions):
        step, size = 1, 1
        if k + 1 < len(positions) and abs(positions[k + 1] - positions[k]) <= 1:
            step = int(positions[k + 1] - positions[k])
            while k + size < len(positions) and (
                positions[k + size] - positions[k + size - 1] == step
            ):
                size += 1
        found.append((int(positions[k]), size, step))
        k += size
    return found


def rearranged(x: Tracer, axis: int, positions: np.ndarray[Any, Any]) -> Tracer:
    """`x` with the known positions of one axis, in their order: a copy in C order or like `x`."""
    parts = runs(positions)
    if len(parts) > MAX_RUNS:
        return FUNCTIONS[np.take](x, positions.tolist(), axis=axis)  # type: ignore[no-any-return]
    if not parts:
        return arrays.copy(arrays.slice_axis(x, axis, 0, 0))
    pieces = [_piece(x, axis, *part) for part in parts]
    return join(pieces, axis, x.dtype)


def _piece(x: Tracer, axis: int, start: int, size: int, step: int) -> Tracer:
    if step:
        return arrays.slice_axis(x, axis, start, size, step)
    one = arrays.slice_axis(x, axis, start, 1)
    shape = list(one.static_shape)
    shape[axis] = size
    return arrays.broadcast_view(one, tuple(shape))


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Tracer:
    """See np.roll; the shift must be known while tracing."""
    x = as_tracer(a)
    if axis is None:
        return arrays.copy(reshape(roll(ravel(x), shift, 0), x.static_shape), "C")
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,)
    if len(axes) != len(shifts):
        if 1 not in (len(axes), len(shifts)):
            raise FjitValueError(
                f"'shift' and 'axis' should be scalars or 1D sequences that fit, at {where()}"
            )
        count = max(len(axes), len(shifts))
        axes, shifts = tuple(axes) * (count // len(axes)), tuple(shifts) * (count // len(shifts))
    result = x
    for one, by in zip(axes, shifts, strict=True):
        result = _rolled(result, axis_of(one, x.ndim), static_int(by, "the shift of np.roll"))
    return arrays.array(result.atom, arrays.order_strides(x.static_shape, x.element_strides, "K"))


def _rolled(x: Tracer, axis: int, shift: int) -> Tracer:
    extent = require_static(x.static_shape[axis], "np.roll")
    shift = shift % extent if extent else 0
    if not shift:
        return x
    head = arrays.slice_axis(x, axis, extent - shift, shift)
    return join((head, arrays.slice_axis(x, axis, 0, extent - shift)), axis, x.dtype)


def _contiguous(x: Tracer, like: Tracer) -> Tracer:
    """A copy in C order, or in Fortran order where `like` is laid out so."""
    fortran = arrays.is_fortran_only(like.static_shape, like.element_strides)
    return arrays.copy(x, "F" if fortran else "C")


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: int | None = None) -> Tracer:
    """See np.delete; the positions must be known while tracing."""
    x = as_tracer(arr)
    if axis is None:
        x, axis = ravel(x), 0
    axis = axis_of(axis, x.ndim)
    extent = require_static(x.static_shape[axis], "np.delete")
    kept = np.delete(np.arange(extent), known_positions(obj, "np.delete"))
    return _contiguous(rearranged(x, axis, kept), x)


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tracer:
    """See np.insert; the positions must be known while tracing."""
    x = as_tracer(arr)
    if axis is None:
        x, axis = ravel(x), 0
    axis = axis_of(axis, x.ndim)
    extent = require_static(x.static_shape[axis], "np.insert")
    places = known_positions(obj, "np.insert")
    new = at_least(arrays.as_dtype(as_tracer(values), x.dtype), x.ndim)
    if np.ndim(places) == 0 and not isinstance(places, slice):
        new = FUNCTIONS[np.moveaxis](new, 0, axis)
        count = require_static(new.static_shape[axis], "np.insert")
    else:
        count = len(np.arange(extent + 1)[places])
    shape = (*x.static_shape[:axis], count, *x.static_shape[axis + 1 :])
    new = FUNCTIONS[np.broadcast_to](new, shape)
    order = np.insert(np.arange(extent), places, np.arange(extent, extent + count))
    return _contiguous(rearranged(join((x, new), axis, x.dtype), axis, order), x)


def known_positions(obj: Any, name: str) -> Any:
    """Static positions: an int, a slice, or a list of ints or bools."""
    contents = arrays.known(obj)
    obj = obj if contents is None else contents
    if isinstance(obj, Tracer):
        raise FjitTypeError(
            f"{name} at {where()} needs positions that are known while the function is traced, "
            f"not a traced array {obj.aval}: select with a mask (x[~mask]) instead"
        )
    if isinstance(obj, slice):
        return obj
    return np.asarray(obj, dtype=None if np.size(obj) else np.int64)
