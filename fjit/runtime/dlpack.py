"""DLPack by hand: arrays of other libraries as `Placed`, and ours as capsules.

Takes a capsule or an array, gives the other. Invariant: the producer's memory is held until the
last view of it is gone, and a capsule is consumed once.

    placed_of(x.__dlpack__(stream=1), device)    ->    a Placed array over x's memory
    capsule(array)                               ->    a capsule named "dltensor"

The structures are those of dlpack.h, version 0.8, which every library reads.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from fjit.core.placed import Place, Placed, placed
from fjit.errors import UnsupportedError
from fjit.runtime import driver as drivers

CUDA: Final = 2
KINDS: Final = {"i": 0, "u": 1, "f": 2, "b": 6}
_CHARS: Final = {code: kind for kind, code in KINDS.items()}
_NAME: Final = b"dltensor"
_USED: Final = b"used_dltensor"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


def _python(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's C interface, which keeps the global lock."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_pointer_at = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_is_valid_at = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_rename = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


class _Borrowed:
    """A producer's memory, given back to it when this goes."""

    def __init__(self, managed: _Managed, address: int) -> None:
        self.managed, self.address = managed, address

    def __del__(self) -> None:
        """Call the producer's deleter, but in a forked child, which has none of the memory."""
        if self.managed.deleter and drivers.is_usable():
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.managed.deleter)(self.address)


def placed_of(capsule: Any, place: Place, stream: int) -> Placed:
    """The array that a capsule holds, whose contents are ready on the stream; consumes it."""
    if not _is_valid(capsule, _NAME):
        raise UnsupportedError("__dlpack__ gave no fresh capsule: each can be read once")
    address = _pointer(capsule, _NAME)
    managed = _Managed.from_address(address)
    tensor = managed.tensor
    if tensor.lanes != 1 or tensor.code not in _CHARS:
        raise UnsupportedError(
            f"an array in GPU memory has elements of DLPack type {tensor.code} with {tensor.bits} "
            f"bits and {tensor.lanes} lanes, which fjit does not handle: use bool, a fixed-width "
            "integer or a float dtype"
        )
    dtype = np.dtype(f"{_CHARS[tensor.code]}{tensor.bits // 8}")
    shape = tuple(tensor.shape[: tensor.ndim])
    steps = tensor.strides[: tensor.ndim] if tensor.strides else None
    strides = None if steps is None else [step * dtype.itemsize for step in steps]
    _rename(capsule, _USED)
    start = (tensor.data or 0) + tensor.byte_offset
    holder = _Borrowed(managed, address)
    return placed(place, start, shape, dtype, strides, holder=holder, stream=stream)


_given: dict[int, tuple[Any, ...]] = {}
"""What is lent to consumers, by the address of its structure: that, and the array."""


def capsule(array: Placed) -> Any:
    """A capsule for an array; its memory is held until the consumer lets go of it."""
    kind, size = array.dtype.kind, array.itemsize
    if kind not in KINDS or any(stride % size for stride in array.strides):
        raise BufferError(f"an array of {array.dtype} with strides {array.strides} has no DLPack")
    if not array.flags.writeable:
        raise BufferError("a read-only array has no DLPack: pass a copy")
    words = ctypes.c_int64 * max(array.ndim, 1)
    shape, strides = words(*array.shape), words(*(s // size for s in array.strides))
    tensor = _Tensor(
        array.address, CUDA, array.place.number, array.ndim, KINDS[kind], 8 * size, 1,
        ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
        ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)), 0,
    )  # fmt: skip
    deleter = ctypes.cast(_forget, ctypes.c_void_p).value
    managed = _Managed(tensor, None, deleter)
    address = ctypes.addressof(managed)
    _given[address] = managed, shape, strides, array
    return _new(address, _NAME, ctypes.cast(_unused, ctypes.c_void_p))


def _on_forget(address: int) -> None:
    """The consumer is done."""
    _given.pop(address, None)


def _on_end(capsule_at: int) -> None:
    """A capsule goes: if nobody consumed it, the array is not lent any more."""
    if _is_valid_at(capsule_at, _NAME):
        _given.pop(_pointer_at(capsule_at, _NAME), None)


_forget = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_on_forget)
_unused = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_on_end)
