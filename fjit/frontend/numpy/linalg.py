"""Products: matmul, dot and their kin on one primitive, the batched matrix product.

Takes traced arrays, gives copies. Operands are brought to one dtype and to equal batch shapes by
broadcasting; vectors get an axis that is dropped again:

    x @ v      records      b = reshape[shape=(4, 1)] v;  c = matmul x b;  d = reshape[shape=(3,)] c

Invariant: products without a sum over more than one element stay elementwise, so they fuse; which
of the others are loops and which library calls is decided in optimize/products.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import Atom, Shape
from fjit.core.trace import where
from fjit.errors import FjitTypeError, FjitValueError, ShapeError, shape_text
from fjit.frontend.numpy import arrays
from fjit.frontend.numpy.arrays import as_tracer, axes_of, axis_of, no_bool, static_int
from fjit.frontend.numpy.shaping import ravel, reshape
from fjit.frontend.operands import (
    broadcast_shapes,
    broadcast_to,
    common_dtype,
    convert,
    lift,
    store,
)
from fjit.frontend.session import current
from fjit.frontend.tracer import FUNCTIONS, UFUNCS, Tracer, fresh, implements


def _emit_reshape(atom: Atom, shape: Shape) -> Atom:
    if atom.aval.shape == shape:
        return atom
    return current().trace.emit(p.reshape, atom, shape=shape)


def product_dtype(*operands: Any, dtype: Any = None) -> np.dtype[Any]:
    """NumPy's common dtype of a product."""
    return np.dtype(dtype) if dtype is not None else common_dtype([lift(o) for o in operands])


def _strong(value: Any) -> Tracer:
    """A traced array; a Python number counts with its default dtype, as in np.dot."""
    x = as_tracer(value)
    return Tracer(x._trace, x.buffer, x.steps, is_scalar=x.is_scalar) if x.weak else x


# ---- matmul -----------------------------------------------------------------------------------


def matmul(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    casting: str = "same_kind",
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    axes: Any = None,
    axis: Any = None,
    keepdims: bool = False,
) -> Any:
    """See np.matmul."""
    if axes is not None or axis is not None:
        raise FjitValueError(f"np.matmul with axes= at {where()}: move the axes with np.moveaxis")
    a, b = as_tracer(x1), as_tracer(x2)
    if not a.static_shape or not b.static_shape:
        number = 0 if not a.static_shape else 1
        raise FjitValueError(
            f"matmul: Input operand {number} does not have enough dimensions (has 0, gufunc core "
            f"with signature (n?,k),(k,m?)->(n?,m?) requires 1), at {where()}: use * for scalars"
        )
    wanted = product_dtype(x1, x2, dtype=dtype)
    return store(_result(_matmul(convert(a.atom, wanted), convert(b.atom, wanted))), out, casting)


UFUNCS["matmul"] = matmul


def _result(atom: Atom) -> Tracer:
    return fresh(atom) if not atom.aval.shape else arrays.array(atom)


def _matmul(a: Atom, b: Atom) -> Atom:
    """Vectors and batches as np.matmul has them."""
    rows, columns = a.aval.shape, b.aval.shape
    if rows[-1] != columns[max(len(columns) - 2, 0)]:
        raise _inner_mismatch(rows, columns)
    left = _emit_reshape(a, (1, *rows)) if len(rows) == 1 else a
    right = _emit_reshape(b, (*columns, 1)) if len(columns) == 1 else b
    product = batched(left, right)
    shape = product.aval.shape
    if len(columns) == 1:
        shape = shape[:-1]
    if len(rows) == 1:
        shape = (*shape[:-2], *shape[-1:]) if len(columns) > 1 else shape[:-1]
    return _emit_reshape(product, shape)


def _inner_mismatch(a: Shape, b: Shape) -> ShapeError:
    return ShapeError(
        f"matmul: shapes {shape_text(a)} and {shape_text(b)} are not aligned at {where()}: the "
        f"last axis of the first has {a[-1]} elements, the axis of the second summed with it has "
        f"{b[max(len(b) - 2, 0)]}"
    )


def batched(a: Atom, b: Atom) -> Atom:
    """The matrix product of stacks of matrices whose batch axes broadcast."""
    batch = broadcast_shapes(a.aval.shape[:-2], b.aval.shape[:-2])
    a = broadcast_to(a, (*batch, *a.aval.shape[-2:]))
    b = broadcast_to(b, (*batch, *b.aval.shape[-2:]))
    return current().trace.emit(p.matmul, a, b)


def matrix_product(a: Tracer, b: Tracer, dtype: np.dtype[Any]) -> Atom:
    """The product of two matrices."""
    return current().trace.emit(p.matmul, convert(a.atom, dtype), convert(b.atom, dtype))


# ---- dot and kin ------------------------------------------------------------------------------


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """See np.dot."""
    x, y = _strong(a), _strong(b)
    if not x.static_shape or not y.static_shape:
        return UFUNCS["multiply"](x, y, out=out)
    axis = max(y.ndim - 2, 0)
    if x.static_shape[-1] != y.static_shape[axis]:
        raise _not_aligned(x, y)
    if x.ndim <= 2 and y.ndim <= 2:
        return UFUNCS["matmul"](x, y, out=out)
    return store(tensordot(x, y, ((x.ndim - 1,), (axis,))), out, "no")


def _not_aligned(x: Tracer, y: Tracer) -> ShapeError:
    return ShapeError(
        f"shapes {shape_text(x.static_shape)} and {shape_text(y.static_shape)} not aligned at "
        f"{where()}: the axes that are summed over must have equal extents"
    )


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """See np.vdot."""
    return dot(ravel(a), ravel(b))


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """See np.inner."""
    x, y = _strong(a), _strong(b)
    if not x.static_shape or not y.static_shape:
        return UFUNCS["multiply"](x, y)
    if x.static_shape[-1] != y.static_shape[-1]:
        raise _not_aligned(x, y)
    if x.ndim == y.ndim == 1:
        return UFUNCS["matmul"](x, y)
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


@implements(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """See np.outer."""
    x, y = ravel(_strong(a)), ravel(_strong(b))
    return UFUNCS["multiply"](arrays.expand_view(x, (1,)), arrays.expand_view(y, (0,)), out=out)


@implements(np.linalg.outer)
def linalg_outer(x1: Any, x2: Any, /) -> Any:
    """See np.linalg.outer."""
    x, y = as_tracer(x1), as_tracer(x2)
    if x.ndim != 1 or y.ndim != 1:
        raise FjitValueError(
            f"Input arrays must be one-dimensional, but they are {x.aval} and {y.aval}, at "
            f"{where()}"
        )
    return outer(x, y)


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """See np.tensordot."""
    x, y = _strong(a), _strong(b)
    summed_x, summed_y = _summed_axes(axes, x, y)
    if len(summed_x) != len(summed_y) or any(
        x.static_shape[i] != y.static_shape[j] for i, j in zip(summed_x, summed_y, strict=True)
    ):
        raise ShapeError(
            f"shape-mismatch for sum at {where()}: {shape_text(x.static_shape)} along {summed_x} "
            f"and {shape_text(y.static_shape)} along {summed_y}"
        )
    dtype = product_dtype(x, y)
    kept_x = tuple(k for k in range(x.ndim) if k not in summed_x)
    kept_y = tuple(k for k in range(y.ndim) if k not in summed_y)
    if not summed_x:
        return UFUNCS["multiply"](arrays.expand_view(x, range(x.ndim, x.ndim + y.ndim)), y)
    inner_size = _product(tuple(x.static_shape[k] for k in summed_x))
    outer_x = tuple(x.static_shape[k] for k in kept_x)
    outer_y = tuple(y.static_shape[k] for k in kept_y)
    left = reshape(arrays.transpose_view(x, kept_x + summed_x), (_product(outer_x), inner_size))
    right = reshape(arrays.transpose_view(y, summed_y + kept_y), (inner_size, _product(outer_y)))
    product = matrix_product(left, right, dtype)
    return arrays.array(_emit_reshape(product, (*outer_x, *outer_y)))


implements(np.linalg.tensordot)(lambda x1, x2, /, *, axes=2: tensordot(x1, x2, axes))


def _product(shape: Shape) -> int:
    total = 1
    for extent in shape:
        total *= static_int(extent, "an extent")
    return total


def _summed_axes(axes: Any, x: Tracer, y: Tracer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, (tuple, list)):
        return axes_of(axes[0], x.ndim, "axes"), axes_of(axes[1], y.ndim, "axes")
    count = static_int(axes, "axes")
    if count > min(x.ndim, y.ndim):
        raise ShapeError(
            f"tuple index out of range in np.tensordot at {where()}: {count} axes of {x.aval} and "
            f"{y.aval}"
        )
    return tuple(range(x.ndim - count, x.ndim)), tuple(range(count))


@implements(np.kron)
def kron(a: Any, b: Any) -> Any:
    """See np.kron."""
    x, y = _strong(a), _strong(b)
    ndim = max(x.ndim, y.ndim)
    if not x.static_shape or not y.static_shape:
        return UFUNCS["multiply"](x, y)
    x = arrays.expand_view(x, range(ndim - x.ndim))
    y = arrays.expand_view(y, range(ndim - y.ndim))
    shape = tuple(
        static_int(e, "an extent") * static_int(f, "an extent")
        for e, f in zip(x.static_shape, y.static_shape, strict=True)
    )
    wide = UFUNCS["multiply"](
        arrays.expand_view(x, range(1, 2 * ndim, 2)), arrays.expand_view(y, range(0, 2 * ndim, 2))
    )
    return arrays.array(_emit_reshape(wide.atom, shape))


@implements(np.linalg.vecdot)
def linalg_vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """See np.linalg.vecdot."""
    return vecdot(x1, x2, axis=axis)


def vecdot(x1: Any, x2: Any, /, out: Any = None, *, axis: int = -1, **_: Any) -> Any:
    """See np.vecdot."""
    x, y = as_tracer(x1), as_tracer(x2)
    if not x.static_shape or not y.static_shape:
        raise FjitValueError(f"vecdot: operands need at least one axis, at {where()}")
    x = FUNCTIONS[np.moveaxis](x, no_bool(axis), -1)
    y = FUNCTIONS[np.moveaxis](y, axis, -1)
    if x.static_shape[-1] != y.static_shape[-1]:
        raise _not_aligned(x, y)
    dtype = product_dtype(x1, x2)
    product = UFUNCS["multiply"](x, y)
    if dtype == np.bool_:
        return store(FUNCTIONS[np.any](product, axis=-1), out)
    return store(FUNCTIONS[np.sum](product, axis=-1, dtype=dtype), out)


UFUNCS["vecdot"] = vecdot


def matvec(x1: Any, x2: Any, /, out: Any = None, **_: Any) -> Any:
    """See np.matvec."""
    column = arrays.expand_view(as_tracer(x2), (as_tracer(x2).ndim,))
    return store(FUNCTIONS[np.squeeze](matmul(x1, column), -1), out)


def vecmat(x1: Any, x2: Any, /, out: Any = None, **_: Any) -> Any:
    """See np.vecmat."""
    row = arrays.expand_view(as_tracer(x1), (as_tracer(x1).ndim - 1,))
    return store(FUNCTIONS[np.squeeze](matmul(row, x2), -2), out)


UFUNCS["matvec"] = matvec
UFUNCS["vecmat"] = vecmat


@implements(np.linalg.matmul)
def linalg_matmul(x1: Any, x2: Any, /) -> Any:
    """See np.linalg.matmul."""
    return matmul(x1, x2)


# ---- cross ------------------------------------------------------------------------------------


@implements(np.cross)
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """See np.cross, for vectors of three components."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = _strong(a), _strong(b)
    if not x.static_shape or not y.static_shape:
        raise FjitValueError(f"At least one array has zero dimension, at {where()}")
    x = FUNCTIONS[np.moveaxis](x, axis_of(axisa, x.ndim), -1)
    y = FUNCTIONS[np.moveaxis](y, axis_of(axisb, y.ndim), -1)
    if x.static_shape[-1] != 3 or y.static_shape[-1] != 3:
        raise FjitValueError(
            "incompatible dimensions for cross product (both vectors must have 3 components, not "
            f"{x.static_shape[-1]} and {y.static_shape[-1]}), at {where()}"
        )
    multiply, subtract = UFUNCS["multiply"], UFUNCS["subtract"]
    parts = [
        subtract(multiply(x[..., i], y[..., j]), multiply(x[..., j], y[..., i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return FUNCTIONS[np.stack](parts, axis=axis_of(axisc, parts[0].ndim + 1))


@implements(np.linalg.cross)
def linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """See np.linalg.cross."""
    return cross(x1, x2, axis=axis)


# ---- norms ------------------------------------------------------------------------------------


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """See np.linalg.norm, for the norms that need no decomposition."""
    a = as_tracer(x)
    if a.dtype.kind != "f":
        a = arrays.as_dtype(a, np.dtype(np.float64))
    if axis is None:
        if ord is None or (ord in ("f", "fro") and a.ndim == 2) or (ord == 2 and a.ndim == 1):
            return _flat_norm(a, keepdims)
        axes: tuple[int, ...] = tuple(range(a.ndim))
    else:
        axes = axes_of(axis, a.ndim)
    if len(axes) == 1:
        return _vector_norm(a, ord, axes[0], keepdims)
    if len(axes) == 2:
        return _matrix_norm(a, ord, axes, keepdims)
    raise FjitValueError(f"Improper number of dimensions to norm, at {where()}: {a.aval}.")


@implements(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """See np.linalg.vector_norm, over one axis or all of them."""
    a = as_tracer(x)
    if axis is None:
        result = norm(ravel(a), ord)
        return FUNCTIONS[np.reshape](result, (1,) * a.ndim) if keepdims else result
    if isinstance(axis, (tuple, list)):
        axes = axes_of(axis, a.ndim)
        kept = tuple(k for k in range(a.ndim) if k not in axes)
        rest = tuple(a.static_shape[k] for k in kept)
        flat = reshape(arrays.transpose_view(a, (*kept, *axes)), (*rest, -1))
        result = norm(flat, ord, -1)
        return FUNCTIONS[np.expand_dims](result, axes) if keepdims else result
    return norm(a, ord, axis, keepdims)


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """See np.linalg.matrix_norm."""
    return norm(x, ord, (-2, -1), keepdims)


def _flat_norm(a: Tracer, keepdims: bool) -> Any:
    flat = FUNCTIONS[np.ravel](a, order="K")
    root = UFUNCS["sqrt"](FUNCTIONS[np.sum](UFUNCS["multiply"](flat, flat)))
    return FUNCTIONS[np.reshape](root, (1,) * a.ndim) if keepdims else root


def _vector_norm(a: Tracer, ord: Any, axis: int, keepdims: bool) -> Any:
    options = {"axis": axis, "keepdims": keepdims}
    if ord is None or ord == 2:
        squares = FUNCTIONS[np.sum](UFUNCS["multiply"](a, a), **options)
        return UFUNCS["sqrt"](squares)
    if isinstance(ord, (str, Tracer)):
        raise FjitValueError(f"Invalid norm order '{ord}' for vectors, at {where()}")
    size = UFUNCS["absolute"](a)
    if ord == np.inf:
        return FUNCTIONS[np.max](size, **options)
    if ord == -np.inf:
        return FUNCTIONS[np.min](size, **options)
    if ord == 0:
        nonzero = UFUNCS["not_equal"](a, 0)
        return FUNCTIONS[np.sum](arrays.as_dtype(nonzero, a.dtype), **options)
    if ord == 1:
        return FUNCTIONS[np.sum](size, **options)
    total = FUNCTIONS[np.sum](UFUNCS["power"](size, ord), **options)
    return UFUNCS["power"](total, 1.0 / ord)


def _matrix_norm(a: Tracer, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if ord in (None, "f", "fro"):
        squares = FUNCTIONS[np.sum](UFUNCS["multiply"](a, a), axis=axes, keepdims=keepdims)
        return UFUNCS["sqrt"](squares)
    if ord not in (1, -1, np.inf, -np.inf):
        raise FjitTypeError(
            f"np.linalg.norm at {where()} with ord={ord!r} needs singular values, which fused "
            "functions do not compute: use 'fro', 1 or np.inf, or compute it outside"
        )
    summed, kept = axes if abs(ord) == 1 else axes[::-1]
    sums = FUNCTIONS[np.sum](UFUNCS["absolute"](a), axis=summed, keepdims=keepdims)
    extremum = FUNCTIONS[np.max if ord > 0 else np.min]
    at = kept if keepdims or kept < summed else kept - 1
    return extremum(sums, axis=at, keepdims=keepdims)
