"""The `asarray` family: a traced array stays itself or is copied, lists are stacked.

Takes tracers, arrays, numbers and nested lists of them, gives traced arrays. Invariant:
`np.asarray` keeps aliasing (writing to the result writes to the argument) exactly where NumPy does;
`np.array` copies.

    np.array([x, 1.0, y])      records      stacked scalars: b = concatenate[axis=0] ...
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fjit.core import dtypes
from fjit.errors import FjitValueError, dtype_error
from fjit.frontend import operands as ops
from fjit.frontend.numpy import arrays
from fjit.frontend.numpy.creation import creates, program_dtype
from fjit.frontend.session import current
from fjit.frontend.tracer import FUNCTIONS, Tracer, implements


@creates(np.array)
def array(
    object: Any,  # NumPy's own name, which may be used as a keyword
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: Any = None,
) -> Any:
    """See np.array."""
    result = _converted(object, dtype, copy, order)
    if isinstance(result, Tracer) and result.ndim < ndmin:
        return FUNCTIONS[np.reshape](result, (1,) * (ndmin - result.ndim) + result.static_shape)
    return result


@creates(np.asarray, np.asanyarray)
def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    device: Any = None,
    copy: bool | None = None,
    like: Any = None,
) -> Any:
    """See np.asarray: the array itself where nothing has to change."""
    return _converted(a, dtype, copy, order or "K")


@creates(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """See np.ascontiguousarray: at least one axis, in C order."""
    return atleast_1d(_converted(a, dtype, None, "C"))


@creates(np.asfortranarray)
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """See np.asfortranarray: at least one axis, in Fortran order."""
    return atleast_1d(_converted(a, dtype, None, "F"))


def _converted(value: Any, dtype: Any, copy: bool | None, order: str) -> Any:
    if isinstance(value, (list, tuple)):
        made = ops.array_of(value)
        value = made if isinstance(made, Tracer) else value
    if not isinstance(value, Tracer):
        return _concrete(value, dtype, copy, order)
    x = value
    wanted = x.dtype if dtype is None else program_dtype(dtype)
    if wanted is None:
        raise dtype_error(dtype, "np.asarray of a traced array")
    must_copy = copy is True or x.is_scalar or x.dtype != wanted or not _is_laid_out(x, order)
    if not must_copy:
        return x
    if copy is False:
        raise FjitValueError("Unable to avoid copy while creating an array as requested.")
    strides = arrays.order_strides(x.static_shape, x.element_strides, order)
    return arrays.array(ops.convert(x.atom, wanted), strides)


def _is_laid_out(x: Tracer, order: str) -> bool:
    shape, strides = x.static_shape, x.element_strides
    if order == "C":
        return arrays.is_contiguous(shape, strides)
    return order != "F" or arrays.is_contiguous(shape[::-1], strides[::-1])


def _concrete(value: Any, dtype: Any, copy: bool | None, order: str) -> Any:
    """An array made from plain values: an input of the program; a number is part of its text."""
    is_array = isinstance(value, np.ndarray)
    if is_array and not copy and (dtype is None or value.dtype == np.dtype(dtype)):
        return arrays.as_tracer(value) if program_dtype(value.dtype) else value
    made = np.array(value, dtype, order=order)  # type: ignore[call-overload]
    if program_dtype(made.dtype) is None:
        return made
    if is_array and value.size > 1:  # by reference: its contents may change between calls
        captured = arrays.as_tracer(value)
        strides = arrays.order_strides(made.shape, captured.element_strides, order)
        return arrays.array(ops.convert(captured.atom, dtypes.canonical(made.dtype)), strides)
    if made.size == 1:
        atom = ops.lift(made.reshape(-1)[0]).atom
        return arrays.array(ops.broadcast_to(atom, made.shape))
    buffer = current().capture(made)
    if not is_array:
        current().constants[buffer.value] = made
    return arrays.array(buffer.value, buffer.strides)


@creates(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """See np.copy."""
    return arrays.copy(arrays.as_tracer(a), order)


def _at_least(x: Tracer, ndim: int) -> Tracer:
    """New axes as np.atleast_nd adds them: before the axes, and for 3-d of a matrix after them."""
    rank = x.ndim
    shape = x.static_shape
    if x.is_scalar:
        x = arrays.array(x.atom)
    if rank >= ndim:
        return x
    before = 0 if ndim == 3 and rank == 2 else 1 if ndim > rank else 0
    if rank == 0:
        target: tuple[Any, ...] = (1,) * ndim
    else:
        target = (1,) * before + shape + (1,) * (ndim - rank - before)
    reshaped: Tracer = FUNCTIONS[np.reshape](x, target)
    return reshaped


def _family(arys: tuple[Any, ...], ndim: int) -> Any:
    made = tuple(_at_least(arrays.as_tracer(a), ndim) for a in arys)
    return made[0] if len(made) == 1 else made


@implements(np.atleast_1d)
def atleast_1d(*arys: Any) -> Any:
    """See np.atleast_1d."""
    return _family(arys, 1)


@implements(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    """See np.atleast_2d."""
    return _family(arys, 2)


@implements(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    """See np.atleast_3d."""
    return _family(arys, 3)
