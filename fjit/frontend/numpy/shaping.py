"""Shapes and axes: reshape, transpose, broadcast, flip, diagonal and what is made of them.

Takes traced arrays, gives views where NumPy gives views and copies where it copies:

    f(x) = x.reshape(6).T      records      b:f64[6] = reshape[shape=(6,)] a
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fjit.core import dtypes
from fjit.core.ir import Extent, Shape, Sym
from fjit.core.rules import element_key
from fjit.core.trace import where
from fjit.errors import FjitTypeError, FjitValueError, ShapeError, shape_text
from fjit.frontend.layout import iteration_order, reshape_strides
from fjit.frontend.numpy import arrays
from fjit.frontend.numpy.arrays import (
    as_tracer,
    axes_of,
    axis_of,
    integer_axis,
    no_bool,
    static_int,
)
from fjit.frontend.operands import broadcast_shapes, convert
from fjit.frontend.session import current
from fjit.frontend.tracer import (
    FUNCTIONS,
    Tracer,
    extent_value,
    fresh,
    implements,
    require_static,
)

ORDERS = ("C", "F", "A", "K")


# ---- reshape ----------------------------------------------------------------------------------


def _extent(x: Tracer, value: Any) -> Extent:
    """An extent given by the user: an int, or the traced extent of one of `x`'s own axes."""
    if isinstance(value, Tracer):
        trace = current().trace
        for extent in x.static_shape:
            if isinstance(extent, Sym) and extent_value(trace, extent).atom is value.atom:
                return extent
    return static_int(value, "an extent of the new shape")


def _target(x: Tracer, shape: Any) -> Shape:
    """The new shape with -1 replaced; raises ShapeError if it does not fit."""
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    target = [_extent(x, e) for e in given]
    own = x.static_shape
    if target.count(-1) == 1:
        hole = target.index(-1)
        target[hole] = _missing(own, (*target[:hole], *target[hole + 1 :]), target)
    if element_key(own) != element_key(tuple(target)) or any(
        isinstance(e, int) and e < 0 for e in target
    ):
        raise _misfit(own, target)
    return tuple(target)


def _missing(own: Shape, rest: Shape, target: Sequence[Extent]) -> Extent:
    count, symbols = element_key(own)
    known, used = element_key(rest)
    left = [s for s in symbols if s not in used]
    if left:
        if len(left) > 1 or count != known:
            raise _misfit(own, target)
        return left[0]
    if known <= 0 or count % known:
        raise _misfit(own, target)
    return count // known


def _misfit(own: Shape, target: Sequence[Extent]) -> ShapeError:
    if target.count(-1) > 1:
        return ShapeError(f"can only specify one unknown dimension, at {where()}")
    size, symbols = element_key(own)
    what = f"of shape {shape_text(own)}" if symbols else f"of size {size}"
    return ShapeError(
        f"cannot reshape array {what} into shape {shape_text(target)}, at {where()}: the array "
        f"has shape {shape_text(own)}"
    )


@implements(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> Tracer:
    """See np.reshape: a view where NumPy makes one, else a copy."""
    x = as_tracer(a)
    if shape is None:
        raise FjitTypeError(f"reshape() at {where()} needs the new shape")
    target = _target(x, shape)
    if _is_fortran(x, order):
        result = _reshape(arrays.transpose_view(x, _reverse(x.ndim)), target[::-1], copy)
        return arrays.transpose_view(result, _reverse(len(target)))
    return _reshape(x, target, copy)


def _is_fortran(x: Tracer, order: str) -> bool:
    if order not in ("C", "F", "A"):
        raise FjitValueError(f"order must be one of 'C', 'F', 'A' (got {order!r}), at {where()}")
    return order == "F" or (
        order == "A" and arrays.is_fortran_only(x.static_shape, x.element_strides)
    )


def _reverse(ndim: int) -> tuple[int, ...]:
    return tuple(range(ndim - 1, -1, -1))


def _reshape(x: Tracer, target: Shape, copy: bool | None) -> Tracer:
    own = x.static_shape
    strides = x.element_strides if own == target else reshape_strides(
        own, x.element_strides, target
    )  # fmt: skip
    if strides is not None and not copy:
        return arrays.reshape_view(x, target, strides)
    if strides is None and copy is False:
        raise FjitValueError(f"Unable to avoid creating a copy while reshaping, at {where()}.")
    fresh = arrays.copy(x, "C")
    return arrays.copy(arrays.reshape_view(fresh, target, fresh.element_strides), "C")


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Tracer:
    """See np.ravel: a view of a contiguous array, else a copy."""
    x = as_tracer(a)
    if order == "K":
        order_of_memory = iteration_order(x.static_shape, x.element_strides)
        return _ravel(arrays.transpose_view(x, order_of_memory))
    if _is_fortran(x, order):
        return _ravel(arrays.transpose_view(x, _reverse(x.ndim)))
    return _ravel(x)


def _ravel(x: Tracer) -> Tracer:
    shape = x.static_shape
    _, symbols = element_key(shape)
    if len(symbols) > 1 or (symbols and len(shape) > 1 and x.aval.bound != symbols[0].bound):
        raise FjitValueError(
            f"flattening an array of shape {shape_text(shape)} at {where()}: its extent is known "
            "only at run time; reduce the other axes first"
        )
    target: Shape = symbols or (x.aval.bound,)
    if arrays.is_contiguous(shape, x.element_strides):
        return arrays.reshape_view(x, target, (1,))
    fresh = arrays.copy(x, "C")
    return arrays.copy(arrays.reshape_view(fresh, target, (1,)))


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Tracer:
    """See np.resize: the elements repeated as often as needed."""
    x = ravel(a)
    target = new_shape if isinstance(new_shape, (tuple, list)) else (new_shape,)
    shape = tuple(static_int(e, "an extent of the new shape") for e in target)
    if any(e < 0 for e in shape):
        raise FjitValueError(f"all elements of `new_shape` must be non-negative, at {where()}")
    own = require_static(x.static_shape[0], "np.resize")
    total = int(np.prod(shape, dtype=np.int64))
    if total == 0 or own == 0:
        zeros: Tracer = FUNCTIONS[np.zeros_like](x, shape=shape)
        return zeros
    repeats = -(-total // own)
    joined = FUNCTIONS[np.concatenate]((x,) * repeats)
    return reshape(arrays.slice_axis(joined, 0, 0, total), shape)


# ---- axes -------------------------------------------------------------------------------------


@implements(np.transpose)
def transpose(a: Any, axes: Any = None) -> Tracer:
    """See np.transpose."""
    x = as_tracer(a)
    if axes is None:
        return arrays.transpose_view(x, _reverse(x.ndim))
    given = axes if isinstance(axes, (tuple, list)) else (axes,)
    if len(given) != x.ndim:
        raise FjitValueError(f"axes don't match array, at {where()}")
    return arrays.transpose_view(x, axes_of(given, x.ndim, "transpose"))


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Tracer:
    """See np.matrix_transpose."""
    a = as_tracer(x)
    if a.ndim < 2:
        raise FjitValueError(
            f"Input array must be at least 2-dimensional, but it is {a.ndim}, at {where()}"
        )
    return swapaxes(a, -1, -2)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Tracer:
    """See np.swapaxes."""
    x = as_tracer(a)
    perm = list(range(x.ndim))
    i, j = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    perm[i], perm[j] = j, i
    return arrays.transpose_view(x, tuple(perm))


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Tracer:
    """See np.moveaxis."""
    x = as_tracer(a)
    sources = axes_of(source, x.ndim, "source")
    destinations = axes_of(destination, x.ndim, "destination")
    if len(sources) != len(destinations):
        raise FjitValueError(
            "`source` and `destination` arguments must have the same number of elements, at "
            f"{where()}"
        )
    perm = [k for k in range(x.ndim) if k not in sources]
    for to, axis in sorted(zip(destinations, sources, strict=True)):
        perm.insert(to, axis)
    return arrays.transpose_view(x, tuple(perm))


@implements(np.rollaxis)
def rollaxis(a: Any, axis: int, start: int = 0) -> Tracer:
    """See np.rollaxis."""
    x = as_tracer(a)
    axis = axis_of(axis, x.ndim)
    start = start + x.ndim if start < 0 else start
    if not 0 <= start <= x.ndim:
        raise np.exceptions.AxisError(f"'start' arg requires {-x.ndim} <= start < {x.ndim + 1}")
    perm = [k for k in range(x.ndim) if k != axis]
    perm.insert(start - (axis < start), axis)
    return arrays.transpose_view(x, tuple(perm))


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Tracer:
    """See np.expand_dims."""
    x = as_tracer(a)
    many = axis if isinstance(axis, (tuple, list)) else (axis,)
    if x.is_scalar:
        x = arrays.array(x.atom)
    return arrays.expand_view(x, axes_of(many, x.ndim + len(many)))


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Tracer:
    """See np.squeeze."""
    x = as_tracer(a)
    shape = x.static_shape
    if axis is None:
        return arrays.drop_view(x, [k for k, e in enumerate(shape) if e == 1])
    if not shape and not isinstance(axis, tuple):
        integer_axis(axis, 0)
        return x.view()  # type: ignore[no-any-return]
    axes = axes_of(no_bool(axis), x.ndim)
    if any(shape[k] != 1 for k in axes):
        raise FjitValueError(
            "cannot select an axis to squeeze out which has size not equal to one, at "
            f"{where()}: the shape is {shape_text(shape)}"
        )
    return arrays.drop_view(x, axes)


# ---- broadcasting -----------------------------------------------------------------------------


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tracer:
    """See np.broadcast_to: a read-only view."""
    x = as_tracer(array)
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    target = tuple(_extent(x, e) for e in given)
    own = x.static_shape
    fits = len(own) <= len(target) and all(
        e in (1, t) for e, t in zip(reversed(own), reversed(target), strict=False)
    )
    if not fits:
        raise ShapeError(
            "operands could not be broadcast together with remapped shapes [original->remapped]: "
            f"{shape_text(own)} and requested shape {shape_text(target)}, at {where()}"
        )
    return arrays.broadcast_view(x, target)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tracer, ...]:
    """See np.broadcast_arrays."""
    many = [as_tracer(a) for a in args]
    shape = broadcast_shapes(*[x.static_shape for x in many]) if many else ()
    return tuple(x if x.static_shape == shape else arrays.broadcast_view(x, shape) for x in many)


# ---- flips and diagonals ----------------------------------------------------------------------


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Tracer:
    """See np.flip."""
    x = as_tracer(m)
    axes = range(x.ndim) if axis is None else axes_of(axis, x.ndim)
    shape = x.static_shape
    if not shape:
        return fresh(x.atom)
    starts, steps = [0] * x.ndim, [1] * x.ndim
    for k in axes:
        starts[k], steps[k] = max(require_static(shape[k], "np.flip") - 1, 0), -1
    return arrays.slice_view(x, tuple(starts), shape, tuple(steps))


@implements(np.flipud)
def flipud(m: Any) -> Tracer:
    """See np.flipud."""
    return flip(_at_least(m, 1), 0)


@implements(np.fliplr)
def fliplr(m: Any) -> Tracer:
    """See np.fliplr."""
    return flip(_at_least(m, 2), 1)


def _at_least(value: Any, ndim: int) -> Tracer:
    x = as_tracer(value)
    if x.ndim < ndim:
        raise FjitValueError(f"Input must be >= {ndim}-d, at {where()}: it is {x.aval}.")
    return x


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tracer:
    """See np.rot90."""
    x = as_tracer(m)
    if len(tuple(axes)) != 2:
        raise FjitValueError(f"len(axes) must be 2, at {where()}.")
    first, second = axes_of(axes, x.ndim, "axes")
    turns = static_int(k, "k") % 4
    if turns == 0:
        return x.view()  # type: ignore[no-any-return]
    if turns == 2:
        return flip(flip(x, first), second)
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second)


@implements(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tracer:
    """See np.diagonal: a read-only view."""
    x = as_tracer(a)
    if x.ndim < 2:
        raise FjitValueError(f"diag requires an array of at least two dimensions, at {where()}")
    first, second = axes_of((axis1, axis2), x.ndim, "axis1, axis2")
    return arrays.diagonal_view(x, static_int(offset, "offset"), first, second)


@implements(np.linalg.diagonal)
def linalg_diagonal(x: Any, /, *, offset: int = 0) -> Tracer:
    """See np.linalg.diagonal."""
    return diagonal(x, offset, -2, -1)


@implements(np.trace)
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    """See np.trace: the sum along a diagonal."""
    return FUNCTIONS[np.sum](diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)


@implements(np.linalg.trace)
def linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """See np.linalg.trace."""
    return trace(x, offset, -2, -1, dtype)


# ---- dtype and description --------------------------------------------------------------------


@implements(np.astype)
def astype(
    x: Any,
    dtype: Any,
    /,
    *,
    copy: bool = True,
    device: Any = None,
    order: str = "K",
    casting: str = "unsafe",
) -> Tracer:
    """See np.astype and ndarray.astype."""
    a = as_tracer(x)
    wanted = dtypes.canonical(np.dtype(dtype), f"astype at {where()}")
    if not np.can_cast(a.dtype, wanted, casting):  # type: ignore[arg-type]
        raise FjitTypeError(
            f"Cannot cast array data from {a.dtype!r} to {wanted!r} according to the rule "
            f"'{casting}', at {where()}"
        )
    if not copy and wanted == a.dtype and order in ("K", "A"):
        return a
    atom = convert(a.atom, wanted)
    strides = arrays.order_strides(atom.aval.shape, a.element_strides, order)
    result = arrays.array(atom, strides)
    result.is_scalar = a.is_scalar
    return result


@implements(np.shape)
def shape(a: Any) -> tuple[Any, ...]:
    """See np.shape."""
    return as_tracer(a).shape


@implements(np.ndim)
def ndim(a: Any) -> int:
    """See np.ndim."""
    return len(as_tracer(a).static_shape)


@implements(np.size)
def size(a: Any, axis: Any = None) -> Any:
    """See np.size."""
    x = as_tracer(a)
    if axis is None:
        return x.size
    total: Any = 1
    for k in axes_of(axis, x.ndim):
        total = total * x.shape[k]
    return total


@implements(np.unstack)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tracer, ...]:
    """See np.unstack."""
    a = as_tracer(x)
    if a.ndim == 0:
        raise FjitValueError(f"Input array must be at least 1-d, at {where()}.")
    return tuple(moveaxis(a, axis, 0))
