"""Arrays made inside a traced function: filled ones, their `_like` forms, diagonals and triangles.

Takes what NumPy's creation functions take, gives traced arrays with fresh writeable buffers, so
that `out = np.zeros(n); out[0] = traced` works as written. `CREATION` says which function the
stand-in for the numpy module calls in place of NumPy's. Sizes are concrete ints; object
and str dtypes give plain NumPy arrays, which may hold traced values as Python objects.

    np.zeros(5)      records      b = broadcast[shape=(5,) axes=()] 0.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Shape
from fjit.core.trace import where as user_line
from fjit.errors import FjitTypeError, FjitValueError
from fjit.frontend import operands as ops
from fjit.frontend.layout import Strides, c_strides
from fjit.frontend.numpy.arrays import array, as_tracer, assigned, order_strides, static_int
from fjit.frontend.session import current
from fjit.frontend.tracer import FUNCTIONS, Tracer, implements

DType = np.dtype[Any]
CREATION: Final[dict[Any, Callable[..., Any]]] = {}
"""NumPy function -> its traced version, for calls that NumPy's protocols do not catch."""


def creates(*numpy_functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the traced version of creation functions, in CREATION and in FUNCTIONS."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for numpy_function in numpy_functions:
            CREATION[numpy_function] = function
        return implements(*numpy_functions)(function)

    return register


def program_dtype(dtype: Any) -> DType | None:
    """`dtype` in native byte order, or None for one that programs cannot hold."""
    native = np.dtype(dtype).newbyteorder("=")
    return dtypes.canonical(native) if native in dtypes.COMPILED else None


def static_shape(shape: Any) -> tuple[int, ...]:
    """A shape argument as ints; a traced size is refused."""
    if isinstance(shape, (tuple, list)):
        sizes = tuple(static_int(extent, "a size in a shape") for extent in shape)
    elif isinstance(shape, np.ndarray):
        sizes = tuple(int(extent) for extent in shape.ravel())
    else:
        sizes = (static_int(shape, "a shape"),)
    if any(extent < 0 for extent in sizes):
        raise FjitValueError(f"negative dimensions are not allowed (at {user_line()})")
    return sizes


def filled(value: Any, shape: Shape, dtype: DType, strides: Strides | None = None) -> Tracer:
    """A fresh array with every element `value`, which broadcasts to `shape`."""
    operand = ops.lift(value)
    if ops.broadcast_shapes(operand.shape, shape) != shape:
        raise FjitValueError(
            f"could not broadcast input array from shape {operand.shape} into shape {shape} "
            f"(at {user_line()})"
        )
    return array(ops.broadcast_to(assigned(value, dtype), shape), strides)


def _strides(shape: Shape, order: str) -> Strides:
    return order_strides(shape, c_strides(shape), "F" if order == "F" else "C")


def _filler(function: Any, value: int) -> Callable[..., Any]:
    def create(
        shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None
    ) -> Any:
        wanted = program_dtype(float if dtype is None else dtype)
        sizes = static_shape(shape)
        if wanted is None:
            return function(sizes, dtype, order)
        return filled(value, sizes, wanted, _strides(sizes, order))

    create.__doc__ = f"See np.{function.__name__}."
    return create


def _filler_like(function: Any, value: int) -> Callable[..., Any]:
    def create(
        prototype: Any,
        dtype: Any = None,
        order: str = "K",
        subok: bool = True,
        shape: Any = None,
        *,
        device: Any = None,
    ) -> Any:
        return _like(prototype, value, dtype, order, shape)

    create.__doc__ = f"See np.{function.__name__}."
    return create


def _like(prototype: Any, value: Any, dtype: Any, order: str, shape: Any) -> Any:
    """An array of the prototype's shape, dtype and layout unless told otherwise."""
    if isinstance(prototype, Tracer):
        own, strides, kind = prototype.static_shape, prototype.element_strides, prototype.dtype
    else:
        source = np.asarray(ops.array_of(prototype))
        own, kind = source.shape, source.dtype
        strides = tuple(s // max(source.itemsize, 1) for s in source.strides)
    wanted = program_dtype(kind if dtype is None else dtype)
    if wanted is None:
        return np.full(own if shape is None else shape, value, kind if dtype is None else dtype)
    if shape is None:
        return filled(value, own, wanted, order_strides(own, strides, order))
    sizes = static_shape(shape)
    if order == "K" and len(sizes) == len(own):
        return filled(value, sizes, wanted, order_strides(sizes, strides, "K"))
    return filled(value, sizes, wanted, _strides(sizes, order))


_FILLERS: Final[dict[Any, int]] = {np.zeros: 0, np.ones: 1, np.empty: 0}
_LIKES: Final[dict[Any, int]] = {np.zeros_like: 0, np.ones_like: 1, np.empty_like: 0}
for _function, _value in _FILLERS.items():
    creates(_function)(_filler(_function, _value))
for _function, _value in _LIKES.items():
    creates(_function)(_filler_like(_function, _value))


@creates(np.full)
def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Any:
    """See np.full."""
    sizes = static_shape(shape)
    fill_value = ops.array_of(fill_value)
    if dtype is None:
        dtype = fill_value.dtype if isinstance(fill_value, Tracer) else np.asarray(fill_value).dtype
    wanted = program_dtype(dtype)
    if wanted is None:
        return np.full(sizes, fill_value, dtype)
    return filled(fill_value, sizes, wanted, _strides(sizes, order))


@creates(np.full_like)
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    """See np.full_like."""
    return _like(a, ops.array_of(fill_value), dtype, order, shape)


# ---- diagonals and triangles --------------------------------------------------------------------


def positions(shape: Shape, axis: int) -> Atom:
    """The position along `axis`, for every element of `shape`."""
    return current().trace.emit(p.iota, shape=shape, axis=axis)


def _compare_positions(rows: int, columns: int, k: int, test: Any) -> Atom:
    """Whether `column - k` and `row` pass the test, for every element."""
    trace, shape = current().trace, (rows, columns)
    shifted = trace.emit(p.add, positions(shape, 0), trace.literal(k, dtypes.I64))
    return trace.emit(test, positions(shape, 1), shifted)


@creates(np.eye)
def eye(
    N: Any,
    M: Any = None,
    k: Any = 0,
    dtype: Any = float,
    order: str = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Any:
    """See np.eye."""
    rows = static_int(N, "the number of rows")
    columns = rows if M is None else static_int(M, "the number of columns")
    wanted = program_dtype(dtype)
    if wanted is None:
        raise FjitTypeError(f"np.eye of dtype {dtype} at {user_line()}: use a numeric dtype")
    mask = _compare_positions(rows, columns, static_int(k, "k"), p.eq)
    return array(ops.convert(mask, wanted), _strides((rows, columns), order))


@creates(np.identity)
def identity(n: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """See np.identity."""
    return eye(n, dtype=float if dtype is None else dtype)


@creates(np.tri)
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, *, like: Any = None) -> Any:
    """See np.tri."""
    rows = static_int(N, "the number of rows")
    columns = rows if M is None else static_int(M, "the number of columns")
    mask = _compare_positions(max(rows, 0), max(columns, 0), static_int(k, "k"), p.le)
    return array(ops.convert(mask, np.dtype(dtype)))


@implements(np.diag)
def diag(v: Any, k: Any = 0) -> Any:
    """See np.diag: a matrix of a vector, a diagonal (a view) of a matrix."""
    x = as_tracer(v)
    if x.ndim == 2:
        return FUNCTIONS[np.diagonal](x, k)
    if x.ndim != 1:
        raise FjitValueError(f"Input must be 1- or 2-d. (at {user_line()})")
    return _diagonal_matrix(x, static_int(k, "k"))


@implements(np.diagflat)
def diagflat(v: Any, k: Any = 0) -> Any:
    """See np.diagflat."""
    return _diagonal_matrix(FUNCTIONS[np.ravel](as_tracer(v)), static_int(k, "k"))


def _diagonal_matrix(x: Tracer, k: int) -> Tracer:
    trace = current().trace
    (extent,) = x.static_shape
    if not isinstance(extent, int):
        raise FjitValueError(
            f"np.diag at {user_line()} of a vector whose length is known only at run time"
        )
    size = extent + abs(k)
    mask = _compare_positions(size, size, k, p.eq)
    low = (max(k, 0),)  # the vector starts in column k; padded, it is every row of the matrix
    zero = trace.literal(0, x.dtype)
    row = trace.emit(p.pad, x.atom, zero, low=low, high=(abs(k) - low[0],))
    rows = trace.emit(p.broadcast, row, shape=(size, size), axes=(1,))
    return array(trace.emit(p.select, mask, rows, zero))


@implements(np.vander)
def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """See np.vander: a running product along each row."""
    v = as_tracer(x)
    if v.ndim != 1:
        raise FjitValueError(f"x must be a one-dimensional array or sequence. (at {user_line()})")
    rows = len(v)
    columns = rows if N is None else static_int(N, "N")
    dtype = dtypes.unify(v.dtype, dtypes.I64)
    trace, shape = current().trace, (rows, columns)
    base = trace.emit(p.broadcast, ops.convert(v.atom, dtype), shape=shape, axes=(0,))
    first = trace.emit(p.eq, positions(shape, 1), trace.literal(0, dtypes.I64))
    factors = trace.emit(p.select, first, trace.literal(1, dtype), base)
    powers = trace.emit(p.cumulate, factors, op="prod", axis=1)
    result = array(powers)
    return result if increasing else FUNCTIONS[np.copy](FUNCTIONS[np.fliplr](result), order="C")
