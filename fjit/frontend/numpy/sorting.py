"""Sorting and order statistics: sort, argsort, partition, lexsort, quantile.

Takes traced arrays, gives copies:

    np.quantile(x, 1)      records      b = sort[axis=0 stable=False] a;  c = slice[...] b

Invariant: NaN sorts last, and an order statistic of values that hold a NaN is NaN. A partition is a
full sort, which is one of the orders that NumPy's partition may give.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fjit.core import primitives as p
from fjit.core.trace import where
from fjit.errors import FjitTypeError, FjitValueError, unsupported_function
from fjit.frontend.numpy import arrays
from fjit.frontend.numpy.arrays import (
    as_tracer,
    axes_of,
    axis_of,
    integer_axis,
    static_int,
)
from fjit.frontend.numpy.joining import many
from fjit.frontend.numpy.shaping import ravel, reshape
from fjit.frontend.operands import store
from fjit.frontend.session import current
from fjit.frontend.tracer import FUNCTIONS, UFUNCS, Tracer, implements, require_static

KINDS = {
    None: False, "quicksort": False, "heapsort": False, "introsort": False, "mergesort": True,
    "stable": True, "q": False, "h": False, "m": True, "s": True,
}  # fmt: skip


def _stable(kind: Any, stable: bool | None, order: Any) -> bool:
    if order is not None:
        raise FjitValueError(f"Cannot specify order when the array has no fields, at {where()}.")
    if kind is not None and stable is not None:
        raise FjitValueError(f"`kind` and `stable` parameters can't be provided at the same time, "
                             f"at {where()}. Use only one of them.")  # fmt: skip
    if kind not in KINDS:
        raise FjitValueError(f"sort kind must be one of 'quick', 'heap', or 'stable' (got {kind!r})"
                             f", at {where()}")  # fmt: skip
    return bool(stable) or KINDS[kind]


def _sortable(a: Any, axis: int | None) -> tuple[Tracer, int]:
    x = as_tracer(a)
    if axis is None:
        return ravel(x), 0
    return x, axis_of(axis, x.ndim)


def _of_one_axis(a: Any, axis: Any) -> tuple[Tracer, int]:
    """As `_sortable`, of functions whose axis must not be a bool; a number has one axis."""
    x = as_tracer(a)
    if axis is None or not x.ndim:
        return ravel(x), 0 if axis is None else integer_axis(axis, 1)
    return x, integer_axis(axis, x.ndim)


@implements(np.sort)
def sort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Tracer:
    """See np.sort."""
    x, at = _sortable(a, axis)
    atom = current().trace.emit(p.sort, x.atom, axis=at, stable=_stable(kind, stable, order))
    return arrays.array(atom, arrays.order_strides(x.static_shape, x.element_strides, "K"))


@implements(np.argsort)
def argsort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Tracer:
    """See np.argsort."""
    x, at = _of_one_axis(a, axis)
    atom = current().trace.emit(p.argsort, x.atom, axis=at, stable=_stable(kind, stable, order))
    return arrays.array(atom)


def _check_kth(kth: Any, extent: Any) -> None:
    size = require_static(extent, "np.partition")
    for k in kth if isinstance(kth, (tuple, list, np.ndarray)) else (kth,):
        if not -size <= static_int(k, "kth") < size:
            raise FjitValueError(f"kth(={k}) out of bounds ({size}), at {where()}")


@implements(np.partition)
def partition(
    a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None
) -> Tracer:
    """See np.partition: fully sorted."""
    x, at = _sortable(a, axis)
    _check_kth(kth, x.static_shape[at])
    return sort(x, at)


@implements(np.argpartition)
def argpartition(
    a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None
) -> Tracer:
    """See np.argpartition: fully sorted."""
    x, at = _of_one_axis(a, axis)
    _check_kth(kth, x.static_shape[at])
    return argsort(x, at)


@implements(np.lexsort)
def lexsort(keys: Any, axis: int = -1) -> Tracer:
    """See np.lexsort: the last key is the primary one."""
    columns = many(keys)
    if not columns:
        raise FjitTypeError(f"need sequence of keys with len > 0 in lexsort, at {where()}")
    if any(key.static_shape != columns[0].static_shape for key in columns):
        raise FjitValueError(f"all keys need to be the same shape, at {where()}")
    at = axis_of(axis, columns[0].ndim)
    along = FUNCTIONS[np.take_along_axis]
    order = argsort(columns[0], at, stable=True)
    for key in columns[1:]:
        order = along(order, argsort(along(key, order, at), at, stable=True), at)
    return order


# ---- order statistics -------------------------------------------------------------------------


def _one_axis(a: Any, axis: Any) -> tuple[Tracer, int, tuple[int, ...]]:
    """The array with the reduced axes made one, that axis, and which axes they were."""
    x = as_tracer(a)
    if axis is None:
        return ravel(x), 0, tuple(range(x.ndim))
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1:
        return x, axes[0], axes
    kept = [k for k in range(x.ndim) if k not in axes]
    moved = FUNCTIONS[np.moveaxis](x, tuple(sorted(axes)), range(len(kept), x.ndim))
    return reshape(moved, (*[x.static_shape[k] for k in kept], -1)), len(kept), axes


def _or_nan(ordered: Tracer, axis: int, result: Any) -> Any:
    """NaN where the sorted values end in one."""
    if ordered.dtype.kind != "f":
        return result
    extent = require_static(ordered.static_shape[axis], "an order statistic")
    last = arrays.drop_view(arrays.slice_axis(ordered, axis, extent - 1, 1), (axis,))
    return FUNCTIONS[np.where](UFUNCS["isnan"](last), arrays.as_dtype(last, result.dtype), result)


def _kept(result: Any, a: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if keepdims:
        return FUNCTIONS[np.expand_dims](result, axes)
    return FUNCTIONS[np.reshape](result, ())[()] if not result.static_shape else result


@implements(np.quantile)
def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """See np.quantile, for known probabilities and linear interpolation."""
    return _quantile("np.quantile", a, q, 1, axis, out, method, keepdims, weights)


@implements(np.percentile)
def percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """See np.percentile, for known percentages and linear interpolation."""
    return _quantile("np.percentile", a, q, 100, axis, out, method, keepdims, weights)


def _quantile(
    name: str, a: Any, q: Any, scale: int, axis: Any, out: Any, method: str, keepdims: bool,
    weights: Any,
) -> Any:  # fmt: skip
    if method != "linear" or weights is not None:
        raise unsupported_function(
            f"{name} with method={method!r} or weights", "use method='linear'", where()
        )
    if isinstance(q, (Tracer, np.ndarray)):
        raise unsupported_function(
            f"{name} with traced or captured quantiles",
            "write them as numbers, or name the argument in static_argnames",
            where(),
        )
    x, at, axes = _one_axis(a, axis)
    extent = require_static(x.static_shape[at], name)
    points = np.true_divide(q, scale) if scale != 1 else np.asarray(q)
    if not ((points >= 0) & (points <= 1)).all():
        raise FjitValueError(f"Quantiles must be in the range [0, 1] ({name} at {where()})")
    if extent == 0:
        raise IndexError(f"{name} of an empty axis, at {where()}")
    ordered = sort(x, at)
    weak = type(q) in (int, float)
    parts = [_at(ordered, at, extent, point, weak) for point in np.atleast_1d(points).ravel()]
    kept = [_kept(part, a, axes, keepdims) for part in parts]
    if np.ndim(q) == 0:
        return store(kept[0], out)
    return store(FUNCTIONS[np.stack](kept), out)


def _at(ordered: Tracer, axis: int, extent: int, point: Any, weak: bool) -> Any:
    """One quantile, interpolated as NumPy does: from the nearer side (numpy's _lerp)."""
    virtual = (extent - 1) * point
    if isinstance(virtual, np.integer):
        return _or_nan(ordered, axis, _row(ordered, axis, int(virtual)))
    below = int(np.floor(virtual)) if virtual < extent - 1 else extent - 1
    above = min(below + 1, extent - 1)
    gamma = virtual - below if virtual < extent - 1 else virtual - (-1)
    fraction: Any = float(gamma) if weak else np.float64(gamma)
    low, high = _row(ordered, axis, below), _row(ordered, axis, above)
    multiply, subtract = UFUNCS["multiply"], UFUNCS["subtract"]
    distance = subtract(high, low)
    if fraction >= 0.5:
        result = subtract(high, multiply(distance, 1 - fraction))
    else:
        result = UFUNCS["add"](low, multiply(distance, fraction))
    return _or_nan(ordered, axis, result)


def _row(x: Tracer, axis: int, position: int) -> Tracer:
    return arrays.drop_view(arrays.slice_axis(x, axis, position, 1), (axis,))
