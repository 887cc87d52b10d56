"""Arrays in every memory layout, and equal copies with identical layout.

Takes arrays, gives arrays of the same values (`lay_out`) or of the same values, strides, byte
order, alignment and writeability in memory of their own (`clone`). Invariant: clones of arguments
that overlap overlap in the same way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

Array = Any  # NumPy arrays of any dtype
ALIGN: Final = 64


def _strided(x: Array) -> Array:
    out: Array = np.zeros(tuple(2 * n + 1 for n in x.shape), x.dtype)
    view = out[(..., *(slice(1, 1 + 2 * n, 2) for n in x.shape))]  # with ..., a view even if 0-d
    view[...] = x
    return view


def _negative(x: Array) -> Array:
    flip = (..., *(slice(None, None, -1) for _ in x.shape))
    flipped: Array = np.array(x[flip], order="C")
    return flipped[flip]


def _zero_stride(x: Array) -> Array:
    """The first row along the first axis longer than one, repeated: the only change of values."""
    axis = next((k for k, n in enumerate(x.shape) if n > 1), None)
    if axis is None:
        return np.broadcast_to(x, x.shape)
    return np.broadcast_to(np.take(x, [0], axis), x.shape)


def _unaligned(x: Array) -> Array:
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:]
    out: Array = raw.view(x.dtype).reshape(x.shape)
    out[...] = x
    return out


def _read_only(x: Array) -> Array:
    out = x.copy()
    out.flags.writeable = False
    return out


def _big_endian(x: Array) -> Array:
    return x.astype(x.dtype.newbyteorder(">"))


_MAKERS: Final[dict[str, Callable[[Array], Array]]] = {
    "C": lambda x: np.array(x, order="C"),
    "F": lambda x: np.array(x, order="F"),
    "strided": _strided,
    "negative": _negative,
    "zero-stride": _zero_stride,
    "unaligned": _unaligned,
    "big-endian": _big_endian,
    "read-only": _read_only,
}
LAYOUTS: Final = tuple(_MAKERS)


def lay_out(array: Array, layout: str) -> Array:
    """`array` in one of `LAYOUTS`; ValueError for another name."""
    if layout not in _MAKERS:
        raise ValueError(f"layout {layout!r} is not known; good values: {', '.join(LAYOUTS)}")
    return _MAKERS[layout](np.asarray(array))


def _bounds(array: Array) -> tuple[int, int]:
    """First address of an array's bytes and the one after its last."""
    low = high = array.__array_interface__["data"][0]
    if not array.size:
        return low, low
    for extent, stride in zip(array.shape, array.strides, strict=True):
        low += min(0, (extent - 1) * stride)
        high += max(0, (extent - 1) * stride)
    return low, high + array.itemsize


def clone(leaves: Sequence[Any]) -> list[Any]:
    """Equal copies of the arrays among `leaves`, laid out and overlapping as they are."""
    arrays = {id(a): a for a in leaves if isinstance(a, np.ndarray)}
    copies: dict[int, Array] = {}
    for low, high, members in _regions(list(arrays.values())):
        raw = np.empty(high - low + 2 * ALIGN, np.uint8)
        start = (low - raw.__array_interface__["data"][0]) % ALIGN
        raw[start : start + high - low] = np.frombuffer(ctypes.string_at(low, high - low), "u1")
        for array in members:
            offset = start + array.__array_interface__["data"][0] - low
            copy = np.ndarray(array.shape, array.dtype, raw, offset, array.strides)
            copy.flags.writeable = array.flags.writeable
            copies[id(array)] = copy
    return [copies.get(id(leaf), leaf) for leaf in leaves]


def _regions(arrays: list[Array]) -> list[tuple[int, int, list[Array]]]:
    """Arrays grouped by overlapping stretches of memory."""
    regions: list[tuple[int, int, list[Array]]] = []
    for array in sorted(arrays, key=_bounds):
        low, high = _bounds(array)
        if regions and low < regions[-1][1]:
            start, end, members = regions[-1]
            regions[-1] = (start, max(end, high), [*members, array])
        else:
            regions.append((low, high, [array]))
    return regions
