"""The arguments of a launch as the bytes of its parameters.

Takes parameters and Python values, gives bytes, and arrays' places in memory. Invariant: every
array's own memory is used, not a copy; an argument that does not fit its parameter is refused.

    (.param .u64 x, .param .f32 a), [array, 2.0]  ->  8 bytes of address, 4 of 2.0f
"""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from fjit.backend.ptx.buffers import Memory
from fjit.backend.ptx.program import Variable
from fjit.backend.ptx.types import FLOATS, Type
from fjit.errors import EmulatorError

POINTER = 8


class Pointer(NamedTuple):
    """An argument that points into an array, `offset` bytes from its first element."""

    array: np.ndarray
    offset: int = 0


def pack(
    params: tuple[Variable, ...], args: Sequence[object], memory: Memory
) -> tuple[np.ndarray, list[int]]:
    """The bytes of all parameters, and the offset of each."""
    if len(args) != len(params):
        raise EmulatorError(f"the kernel takes {len(params)} arguments, not {len(args)}.")
    data, offsets = bytearray(), []
    for number, (param, value) in enumerate(zip(params, args, strict=True)):
        data += bytes(-len(data) % param.align)
        offsets.append(len(data))
        data += _bytes(number, param, value, memory)
    room = np.zeros(len(data) + 16, np.uint8)
    room[: len(data)] = np.frombuffer(bytes(data), np.uint8)
    return room, offsets


def _bytes(number: int, param: Variable, value: object, memory: Memory) -> bytes:
    what = f"argument {number}"
    if isinstance(value, np.ndarray):
        value = Pointer(value)
    if isinstance(value, Pointer):
        if param.size != POINTER:
            raise EmulatorError(f"{what} is an array, but its parameter has {param.size} bytes.")
        address = place(what, value.array, memory) + value.offset
        return address.to_bytes(POINTER, "little")
    if isinstance(value, bytes | bytearray):
        raw = bytes(value)
    elif isinstance(value, np.void) or (isinstance(value, np.generic) and param.type.kind == "b"):
        raw = value.tobytes()
    else:
        raw = _number(what, param.type, value)
    if len(raw) != param.size:
        raise EmulatorError(f"{what} has {len(raw)} bytes, its parameter {param.size}.")
    return raw


def _number(what: str, ty: Type, value: object) -> bytes:
    """A number in the parameter's type; one in untyped bits says by its kind what it is."""
    if value is None:
        value = 0
    if isinstance(value, float | np.floating) and ty.kind in "fb" and ty.bits in FLOATS:
        return bytes(FLOATS[ty.bits].type(value).tobytes())
    if ty.kind == "f" and isinstance(value, int | np.integer):
        return bytes(FLOATS[ty.bits].type(value).tobytes())
    if not isinstance(value, int | np.integer | np.bool_):
        kind = type(value).__name__
        raise EmulatorError(f"{what} is a {kind}, its parameter is .{ty.name}.")
    number = int(value)
    if not -(1 << (ty.bits - 1)) <= number < 1 << ty.bits:
        raise EmulatorError(f"{what} is {number}, which .{ty.name} does not hold.")
    return (number & ((1 << ty.bits) - 1)).to_bytes(ty.size, "little")


def place(what: str, array: np.ndarray, memory: Memory) -> int:
    """Give an array's memory an address; the array's first element is there.

    The bytes between the elements of a strided array belong to it, those around it do not.
    """
    low, high = byte_bounds(array)
    size = high - low if array.size else 0
    whole = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(low))
    base = memory.add(what, whole, writable=array.flags.writeable).base
    return base + (array.ctypes.data - low if array.size else 0)
