"""From a program's outputs to what the function returns: scalars, views of arguments, layouts.

Takes a traced result's description, the outputs' arrays and the call's arguments, gives an object.
Invariant: what NumPy returns as an argument or a view of it is that; all else owns its memory.
Results on a GPU stay arrays, those without axes too, in the memory order that their kernel chose.

    Result(argument=0, steps=(Slice(...),))     gives     x[1:], a view of the caller's x
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fjit.core.placed import Placed, on_host
from fjit.frontend import views
from fjit.frontend.function import Result
from fjit.runtime.results import ResultLayout, packed_strides


def result_of(result: Result, outputs: Sequence[Any], arguments: list[Any]) -> Any:
    if result.argument is not None:
        value = arguments[result.argument]
        if not isinstance(value, np.ndarray):
            return value
        for step in result.steps:
            value = _view(value, step)
    elif result.output is None:
        return result.static
    else:
        value = outputs[result.output]
        if value.ndim > 1 and not isinstance(value, Placed):
            value = _laid_out(value, result.order)
    if result.weak is not None:
        return result.weak(on_host(value))
    if isinstance(value, Placed):
        return value
    if result.is_scalar:
        return value[()]
    if result.swapped and result.argument is None:
        return value.astype(value.dtype.newbyteorder())
    return value


def write_back(array: Any, values: Any) -> None:
    """Write an argument's new contents into it, wherever either lies."""
    if isinstance(array, Placed):
        array.place.upload_into(array, on_host(values))
    else:
        np.copyto(array, on_host(values))


def is_laid_out(result: Result, how: ResultLayout) -> bool:
    """Whether an output made like `how` needs no copy into the result's memory order."""
    made = packed_strides(how.shape, how.dtype.itemsize, range(len(how.shape)))
    wanted = packed_strides(how.shape, how.dtype.itemsize, result.order)
    pairs = zip(how.strides or made, wanted, how.shape, strict=True)
    return all(have == want or extent <= 1 for have, want, extent in pairs)


def _laid_out(value: Any, order: tuple[int, ...]) -> Any:
    """`value` with its axes in memory in `order`, outermost first; itself if it is so already."""
    packed = packed_strides(value.shape, value.itemsize, order)
    pairs = zip(value.strides, packed, value.shape, strict=True)
    if all(have == want or extent <= 1 for have, want, extent in pairs):
        return value
    pattern = np.lib.stride_tricks.as_strided(np.empty(1, value.dtype), value.shape, packed)
    fresh = np.empty_like(pattern)
    np.copyto(fresh, value)
    return fresh


def _view(array: Any, step: views.Step) -> Any:
    """A view step applied to a real array."""
    if isinstance(step, views.Slice):
        index = []
        for start, size, stride in zip(step.starts, step.sizes, step.steps, strict=True):
            stop: int | None = start + size * stride  # type: ignore[operator]
            index.append(slice(start, None if stop < 0 else stop, stride))  # type: ignore[operator]
        return array[tuple(index)]
    if isinstance(step, views.Transpose):
        return array.transpose(step.perm)
    if isinstance(step, views.Reshape):
        return array.reshape(step.shape)
    if isinstance(step, views.Diagonal):
        return array.diagonal(step.offset, step.axis1, step.axis2)
    assert isinstance(step, views.Broadcast), step
    full = [1] * len(step.shape)
    for extent, axis in zip(array.shape, step.axes, strict=True):
        full[axis] = extent
    shape: Any = step.shape  # static: results with symbols are never views
    return np.broadcast_to(array.reshape(full), shape)
