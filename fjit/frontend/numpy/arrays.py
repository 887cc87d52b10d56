"""What the array functions share: operands as traced arrays, axes, copies and basic view steps.

Takes anything NumPy takes for an array, gives tracers. Invariant: a view step made here has the
strides NumPy gives the same view; a copy has a buffer of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fjit.core import dtypes
from fjit.core.ir import Atom, Shape
from fjit.core.trace import where
from fjit.errors import FjitTypeError, FjitValueError
from fjit.frontend import views
from fjit.frontend.layout import Strides, axis_order, ordered_strides, size
from fjit.frontend.operands import array_of, cast, common_dtype, convert, lift
from fjit.frontend.session import current
from fjit.frontend.tracer import Tracer, fresh


def as_tracer(value: Any) -> Tracer:
    """`value` as a traced array, as np.asanyarray: a captured array keeps its buffer."""
    if isinstance(value, Tracer):
        return value
    if isinstance(value, (list, tuple)):
        value = array_of(value)
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        session = current()
        return Tracer(session.trace, session.capture(value))
    if isinstance(value, Tracer):  # a list that holds traced values was stacked
        return value
    operand = lift(value)
    return fresh(operand.atom)


def known(value: Any) -> Any:
    """The contents of a list or of an array written as one in the function; None if not known."""
    if isinstance(value, Tracer):
        return None if value.steps else current().constants.get(value.buffer.value)
    if isinstance(value, (list, tuple)):
        plain = array_of(value)
        return plain if isinstance(plain, np.ndarray) else None
    return None


def array(atom: Atom, strides: Strides | None = None) -> Tracer:
    """A traced array of its own memory; unlike `fresh`, rank 0 gives a 0-d array."""
    result = fresh(atom, strides)
    result.is_scalar = False
    return result


def copy(x: Tracer, order: str = "K") -> Tracer:
    """A copy of `x` in the given memory order."""
    atom = x.atom
    shape = atom.aval.shape
    return array(atom, order_strides(shape, x.element_strides, order))


def order_strides(shape: Shape, strides: Strides, order: str) -> Strides:
    """Strides of a contiguous copy in `order` (C, F, A or K) of an array with these strides."""
    if order == "K":
        return ordered_strides(shape, axis_order(strides))
    fortran = order == "F" or (order == "A" and is_fortran_only(shape, strides))
    axes = tuple(range(len(shape)))
    return ordered_strides(shape, axes[::-1] if fortran else axes)


def is_contiguous(shape: Shape, strides: Strides) -> bool:
    """Whether the layout is C-contiguous; axes of extent 1 do not matter."""
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent == 0:
            return True
        if extent == 1:
            continue
        if stride != step:
            return False
        step *= size(extent)
    return True


def is_fortran_only(shape: Shape, strides: Strides) -> bool:
    """Whether the layout is Fortran- and not C-contiguous."""
    return is_contiguous(shape[::-1], strides[::-1]) and not is_contiguous(shape, strides)


def axis_of(axis: Any, ndim: int) -> int:
    """A possibly negative axis as a position; raises np.exceptions.AxisError as NumPy does."""
    return normalize_axis_index(static_int(axis, "axis"), ndim)


def integer_axis(axis: Any, ndim: int) -> int:
    """`axis_of` for functions whose axis must not be a bool; an array of rank 0 has one axis."""
    return axis_of(no_bool(axis), max(ndim, 1))


def with_axis(x: Tracer, axis: Any) -> tuple[Tracer, int]:
    """The array, of at least one axis, and the position of `axis`, which must not be a bool."""
    place = integer_axis(axis, x.ndim)
    return (x if x.static_shape else expand_view(array(x.atom), (0,))), place


def no_bool(axis: Any) -> Any:
    """`axis` (several, too, or None) as given; raises FjitTypeError if it is or holds a bool."""
    many = axis if isinstance(axis, (tuple, list)) else (axis,)
    if any(isinstance(one, (bool, np.bool_)) for one in many):
        raise FjitTypeError(f"an integer is required for the axis, at {where()}: it is {axis}")
    return axis


def axes_of(axes: Any, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """One axis or several as distinct positions."""
    many = tuple(axes) if isinstance(axes, Iterable) else (axes,)
    found = tuple(axis_of(a, ndim) for a in many)
    if len(set(found)) != len(found):
        raise FjitValueError(f"repeated axis in `{name}` argument, at {where()}")
    return found


def static_int(value: Any, what: str) -> int:
    """`value` as a Python int; a traced value or a float is refused."""
    if type(value) is int:
        return value
    if isinstance(value, Tracer):
        raise FjitTypeError(
            f"{what} at {where()} must be known while the function is traced, and this one is "
            f"the traced value {value.aval}: pass a Python int named in static_argnames"
        )
    try:
        return operator.index(value)
    except TypeError:
        raise FjitTypeError(
            f"{what} at {where()} must be an integer, not {type(value).__name__}"
        ) from None


def joined_dtype(arrays: Sequence[Tracer], dtype: Any = None) -> np.dtype[Any]:
    """The dtype of a join: Python numbers count with their default dtype, as np.asarray has it."""
    if dtype is not None:
        return dtypes.canonical(np.dtype(dtype), f"the dtype at {where()}")
    return common_dtype([lift(a)._replace(weak=None) for a in arrays])


def as_dtype(x: Tracer, dtype: np.dtype[Any]) -> Tracer:
    """`x` in `dtype`, `x` itself where it has it already."""
    atom = x.atom
    if atom.aval.dtype == dtype:
        return x
    return array(convert(atom, dtype), order_strides(atom.aval.shape, x.element_strides, "K"))


def scalar_atom(value: Any, dtype: np.dtype[Any], what: str) -> Atom:
    """A number as a rank-0 atom of `dtype`, cast as assignment into an array casts."""
    operand = lift(value)
    if operand.shape:
        raise FjitValueError(f"{what} at {where()} must be a scalar, not of shape {operand.shape}")
    return assigned(value, dtype)


def assigned(value: Any, dtype: np.dtype[Any]) -> Atom:
    """The atom of `value` in `dtype`, as `array[...] = value` casts it.

    A Python number that an integer dtype cannot hold raises as in NumPy: OverflowError out of
    range and for infinities, ValueError for NaN.
    """
    operand = lift(value)
    number = operand.value
    if number is not None and dtype.kind in "iu":
        operand = lift(int(number))
    if operand.weak is int:
        return cast(operand, dtype)
    return convert(operand.atom, dtype)


# ---- view steps -------------------------------------------------------------------------------


def slice_view(x: Tracer, starts: tuple[int, ...], sizes: Shape, steps: tuple[int, ...]) -> Tracer:
    """The strided region as a view."""
    strides = tuple(s * t for s, t in zip(x.element_strides, steps, strict=True))
    return _view(x, views.Slice(starts, sizes, steps, strides))


def slice_axis(x: Tracer, axis: int, start: int, extent: int, step: int = 1) -> Tracer:
    """`extent` elements of one axis, from `start` with `step`, as a view."""
    shape = x.static_shape
    if extent == shape[axis] and start == 0 and step == 1:
        return x
    starts, steps, sizes = [0] * len(shape), [1] * len(shape), list(shape)
    starts[axis], steps[axis], sizes[axis] = start, step, extent
    return slice_view(x, tuple(starts), tuple(sizes), tuple(steps))


def transpose_view(x: Tracer, perm: tuple[int, ...]) -> Tracer:
    """Axes permuted, as a view."""
    strides = x.element_strides
    return _view(x, views.Transpose(perm, tuple(strides[k] for k in perm)))


def reshape_view(x: Tracer, shape: Shape, strides: Strides) -> Tracer:
    """A reshape that needs no copy, as a view."""
    return _view(x, views.Reshape(shape, strides))


def broadcast_view(x: Tracer, shape: Shape) -> Tracer:
    """np.broadcast_to for a shape known to fit, as a read-only view."""
    own = x.static_shape
    lead = len(shape) - len(own)
    axes = tuple(range(lead, len(shape)))
    strides = [0] * len(shape)
    for extent, stride, axis in zip(own, x.element_strides, axes, strict=True):
        strides[axis] = 0 if extent == 1 and shape[axis] != 1 else stride
    return _view(x, views.Broadcast(shape, axes, tuple(strides)))


def expand_view(x: Tracer, axes: Iterable[int]) -> Tracer:
    """New axes of extent 1 at the given positions of the result, as a view."""
    shape, strides = list(x.static_shape), list(x.element_strides)
    for axis in sorted(axes):
        shape.insert(axis, 1)
        strides.insert(axis, 0)
    return reshape_view(x, tuple(shape), tuple(strides))


def drop_view(x: Tracer, axes: Iterable[int]) -> Tracer:
    """Axes of extent 1 removed, as a view."""
    gone = set(axes)
    kept = [k for k in range(x.ndim) if k not in gone]
    shape, strides = x.static_shape, x.element_strides
    return reshape_view(x, tuple(shape[k] for k in kept), tuple(strides[k] for k in kept))


def diagonal_view(x: Tracer, offset: int, axis1: int, axis2: int) -> Tracer:
    """The diagonal of two axes, as a read-only view."""
    strides = x.element_strides
    rest = tuple(s for k, s in enumerate(strides) if k not in (axis1, axis2))
    own = (*rest, strides[axis1] + strides[axis2])
    return _view(x, views.Diagonal(offset, axis1, axis2, own))


def _view(x: Tracer, step: views.Step) -> Tracer:
    return Tracer(x._trace, x.buffer, (*x.steps, step))
