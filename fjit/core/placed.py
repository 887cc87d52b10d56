"""Arrays in the memory of a GPU, as their geometry: dtype, shape, strides, address.

Takes an address and a layout, gives a `Placed`, an ndarray of which nobody reads an element. So
tracing, planning and views see it as any array, by arithmetic on addresses. Invariant: its memory
is never touched from here; what would read it (a ufunc, a NumPy function, text) is refused.

    x = placed(place, 0x7f2000000000, (2, 3), np.dtype("f4"))
    x[:, ::-1].strides    ->    (12, -4)
    np.exp(x)             ->    FjitTypeError: this array lies in the memory of GPU 0 ...
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from fjit.errors import FjitTypeError

Array = np.ndarray[Any, Any]


class Place(Protocol):
    """A device: its number, and how its memory is read and written from the host."""

    @property
    def number(self) -> int:
        """The device's number among the visible ones."""

    def download(self, array: Placed) -> Array:
        """A copy in the host's memory."""

    def upload_into(self, array: Placed, values: Array) -> None:
        """Write values of the same shape into the array."""


class Placed(np.ndarray[Any, Any]):
    """The geometry of an array on a device; see the module's docstring.

    `holder` keeps the memory alive, `origin` is the caller's own object for it, `stream` the one
    that its contents are ready on.
    """

    place: Place
    holder: Any
    origin: Any
    stream: int

    def __array_finalize__(self, parent: Any) -> None:
        """A view lies where its parent does, and is no object of the caller's."""
        if isinstance(parent, Placed):
            self.place, self.holder, self.stream = parent.place, parent.holder, parent.stream
        self.origin = None

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        """Refuse."""
        raise self._unreadable()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Broadcasting and questions about addresses need no element; the rest is refused."""
        if function is np.broadcast_to:
            kwargs = {**kwargs, "subok": True}
        elif function is not np.may_share_memory:
            raise self._unreadable()
        return super().__array_function__(function, (Placed, np.ndarray), args, kwargs)

    def __repr__(self) -> str:
        """The geometry; elements would have to be fetched."""
        return f"<array {self.dtype}{self.shape} on GPU {self.place.number}>"

    __str__ = __repr__

    @property
    def address(self) -> int:
        """Where the first element lies."""
        return int(self.__array_interface__["data"][0])

    def on_host(self) -> Array:
        """A copy in the host's memory."""
        return self.place.download(self)

    def _unreadable(self) -> FjitTypeError:
        return FjitTypeError(
            f"this array lies in the memory of GPU {self.place.number}, where NumPy cannot read "
            "it: call .to_numpy() for a copy in the host's memory, or do this inside a fused "
            "function"
        )


def placed(
    place: Place,
    address: int,
    shape: Sequence[int],
    dtype: np.dtype[Any],
    strides: Sequence[int] | None = None,
    *,
    holder: Any = None,
    stream: int = 0,
) -> Placed:
    """The array of this layout whose first element is at `address`; strides are in bytes."""
    shape = tuple(shape)
    if strides is None:
        strides = _packed(shape, dtype.itemsize)
    steps = list(zip(shape, strides, strict=True))
    before = -sum(min(s, 0) * (n - 1) for n, s in steps) if all(shape) else 0
    after = sum(max(s, 0) * (n - 1) for n, s in steps) + dtype.itemsize if all(shape) else 1
    memory: Any = (ctypes.c_char * (before + after)).from_address(address - before)
    array = np.ndarray.__new__(Placed, shape, dtype, memory, before, tuple(strides))
    array.place, array.holder, array.stream = place, holder, stream
    return array


def on_host(value: Any) -> Any:
    """A copy in the host's memory of what lies on a device; anything else as it is."""
    return value.on_host() if isinstance(value, Placed) else value


def span(array: Array) -> tuple[int, int]:
    """The first address of an array's memory, and the first one after it."""
    if not array.size:
        start = int(array.__array_interface__["data"][0])
        return start, start
    low, high = np.lib.array_utils.byte_bounds(array.view(np.ndarray))
    return int(low), int(high)


def _packed(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides, step = [], itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))
