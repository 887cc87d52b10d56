"""Arrays as a GPU can read them: elements at multiples of their size.

Takes an argument, gives itself or, where it is not aligned, an aligned copy whose strides are those
that the code was made for. Invariant: an element keeps its place in the strides unless these are no
multiples of its size; then the copy is in C order.

    np.frombuffer(data, "f4", offset=1)     ->     a copy at an address divisible by 4
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def settled_strides(array: Array) -> tuple[int, ...]:
    """The strides of an array as code for a GPU reads it."""
    size = array.itemsize
    if all(stride % size == 0 for stride in array.strides):
        return array.strides
    return np.empty(array.shape, array.dtype).strides if array.size else array.strides


def settled(array: Array) -> Array:
    """The array itself if its elements are aligned, else an aligned copy."""
    strides = settled_strides(array)
    if strides == array.strides and array.__array_interface__["data"][0] % array.itemsize == 0:
        return array
    if strides != array.strides:
        return array.copy(order="C")
    low, high = np.lib.array_utils.byte_bounds(array)
    first = array.__array_interface__["data"][0] - low
    block = np.zeros(high - low + array.itemsize, np.uint8)
    start = first + -(block.__array_interface__["data"][0] + first) % array.itemsize
    copy = np.ndarray(array.shape, array.dtype, block, start, array.strides)
    copy[...] = array
    return copy
