"""np.gradient: central differences inside, one-sided ones at the ends, formula by formula.

Takes a traced array and spacings (numbers, or coordinates along an axis), gives one array per axis.
NumPy takes its formula for even spacing when coordinates happen to be even, which is known only at
run time: traced coordinates always use the general formula, concrete ones choose as NumPy does.

    np.gradient(x)[1:-1]      records      (x[2:] - x[:-2]) / 2.0
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fjit.core import dtypes
from fjit.core.trace import where as user_line
from fjit.errors import FjitTypeError, FjitValueError
from fjit.frontend.numpy.arrays import as_dtype, as_tracer, axes_of
from fjit.frontend.numpy.cumulative import along
from fjit.frontend.tracer import FUNCTIONS, Tracer, implements

INNER: Final = slice(1, -1)


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """See np.gradient."""
    x = as_tracer(f)
    axes = tuple(range(x.ndim)) if axis is None else axes_of(axis, x.ndim)
    if edge_order > 2:
        raise FjitValueError(f"'edge_order' greater than 2 not supported (at {user_line()})")
    spacings = _spacings(varargs, x, axes)
    if x.dtype.kind in "iu":
        x = as_dtype(x, dtypes.F64)
    results = []
    for place, spacing in zip(axes, spacings, strict=True):
        if x.shape[place] < edge_order + 1:
            raise FjitValueError(
                "Shape of array too small to calculate a numerical gradient, at least "
                f"(edge_order + 1) elements are required. (at {user_line()})"
            )
        results.append(_along_axis(x, place, spacing, edge_order))
    return results[0] if len(axes) == 1 else tuple(results)


def _spacings(varargs: tuple[Any, ...], x: Tracer, axes: tuple[int, ...]) -> list[Any]:
    """Per axis a number, or the differences of its coordinates."""
    if not varargs:
        return [1.0] * len(axes)
    if len(varargs) == 1 and np.ndim(varargs[0]) == 0:
        return list(varargs) * len(axes)
    if len(varargs) != len(axes):
        raise FjitTypeError(f"invalid number of arguments (at {user_line()})")
    return [_differences(v, x.shape[k]) for v, k in zip(varargs, axes, strict=True)]


def _differences(distances: Any, extent: Any) -> Any:
    is_traced = isinstance(distances, Tracer)
    points = distances if is_traced else np.asarray(distances)
    if points.ndim == 0:
        return distances
    if points.ndim != 1:
        raise FjitValueError(f"distances must be either scalars or 1d (at {user_line()})")
    if len(points) != extent:
        raise FjitValueError(
            "when 1d, distances must match the length of the corresponding dimension "
            f"({len(points)} and {extent}, at {user_line()})"
        )
    if points.dtype.kind in "iu":
        points = points.astype(np.float64)
    steps = np.diff(points)
    return steps[0] if not is_traced and (steps == steps[0]).all() else steps


def _along_axis(x: Tracer, axis: int, spacing: Any, edge_order: int) -> Any:
    dtype = x.dtype if x.dtype.kind == "f" else dtypes.F64
    out = FUNCTIONS[np.empty_like](x, dtype=dtype)

    def put(index: Any, value: Any) -> None:
        out[(slice(None),) * axis + (index,)] = value

    def at(index: Any) -> Any:
        return along(x, axis, index)

    is_even = np.ndim(spacing) == 0
    if is_even:
        put(INNER, (at(slice(2, None)) - at(slice(None, -2))) / (2.0 * spacing))
    else:
        a, b, c = (_column(w, x.ndim, axis) for w in _inner_weights(spacing[:-1], spacing[1:]))
        put(INNER, a * at(slice(None, -2)) + b * at(INNER) + c * at(slice(2, None)))
    if edge_order == 1:
        put(0, (at(1) - at(0)) / (spacing if is_even else spacing[0]))
        put(-1, (at(-1) - at(-2)) / (spacing if is_even else spacing[-1]))
        return out
    first, last = _edge_weights(spacing, is_even)
    put(0, first[0] * at(0) + first[1] * at(1) + first[2] * at(2))
    put(-1, last[0] * at(-3) + last[1] * at(-2) + last[2] * at(-1))
    return out


def _column(weights: Any, ndim: int, axis: int) -> Any:
    shape = tuple(-1 if k == axis else 1 for k in range(ndim))
    return np.reshape(weights, shape)


def _inner_weights(d1: Any, d2: Any) -> tuple[Any, Any, Any]:
    return -(d2) / (d1 * (d1 + d2)), (d2 - d1) / (d1 * d2), d1 / (d2 * (d1 + d2))


def _edge_weights(spacing: Any, is_even: bool) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Weights of the three first and the three last elements, second order."""
    if is_even:
        d = spacing
        return (-1.5 / d, 2.0 / d, -0.5 / d), (0.5 / d, -2.0 / d, 1.5 / d)
    d1, d2 = spacing[0], spacing[1]
    first = (-(2.0 * d1 + d2) / (d1 * (d1 + d2)), (d1 + d2) / (d1 * d2), -d1 / (d2 * (d1 + d2)))
    d1, d2 = spacing[-2], spacing[-1]
    last = (d2 / (d1 * (d1 + d2)), -(d2 + d1) / (d1 * d2), (2.0 * d2 + d1) / (d2 * (d1 + d2)))
    return first, last
