"""Types, typed operands and constants as LLVM IR writes them.

Takes kinds, widths and numbers, gives text. Invariant: a constant is exact, in hexadecimal where it
is a float; types are equal when their text is.

    Ty("f", 32, 4)               ->  <4 x float>
    const_text("f", 32, 2.0, 1)  ->  0x4000000000000000
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

FLOAT_NAMES = {16: "half", 32: "float", 64: "double"}


@dataclass(frozen=True, slots=True)
class Ty:
    """The type of an LLVM value: `kind` is "f" (float), "i" (integer) or "p" (pointer).

    A pointer has an address `space`: 0, or on a GPU 1 (global), 3 (shared by a block), 5 (local).
    """

    kind: str
    bits: int
    lanes: int = 1
    space: int = 0

    def __str__(self) -> str:
        return _type_text(self.kind, self.bits, self.lanes, self.space)

    def with_lanes(self, lanes: int) -> "Ty":
        """Return the type of `lanes` such elements."""
        return self if lanes == self.lanes else Ty(self.kind, self.bits, lanes, self.space)

    @property
    def element(self) -> "Ty":
        """The scalar type of one lane."""
        return self.with_lanes(1)

    @property
    def as_int(self) -> "Ty":
        """The integer type of the same width and lanes."""
        return Ty("i", self.bits, self.lanes)

    @property
    def as_float(self) -> "Ty":
        """The floating type of the same width and lanes."""
        return Ty("f", self.bits, self.lanes)

    @property
    def as_bool(self) -> "Ty":
        """The mask type of the same lanes."""
        return Ty("i", 1, self.lanes)

    @property
    def suffix(self) -> str:
        """The name of the type within an overloaded intrinsic: `v16f32`, `i64`, `p0`."""
        element = f"{self.kind}{self.space if self.kind == 'p' else self.bits}"
        return element if self.lanes == 1 else f"v{self.lanes}{element}"


class Val(NamedTuple):
    """A typed operand: `ref` is a register (`%v12`), an argument or the text of a constant."""

    ty: Ty
    ref: str

    @property
    def is_const(self) -> bool:
        """Whether the operand is a constant and no register or global."""
        return self.ref[0] not in "%@"


I1, I8, I16, I32, I64 = (Ty("i", bits) for bits in (1, 8, 16, 32, 64))
F16, F32, F64 = (Ty("f", bits) for bits in (16, 32, 64))
PTR, GLOBAL, SHARED, LOCAL = (Ty("p", 64, space=space) for space in (0, 1, 3, 5))


@cache
def _type_text(kind: str, bits: int, lanes: int, space: int) -> str:
    pointer = f"ptr addrspace({space})" if space else "ptr"
    element = FLOAT_NAMES[bits] if kind == "f" else f"i{bits}" if kind == "i" else pointer
    return element if lanes == 1 else f"<{lanes} x {element}>"


@lru_cache(maxsize=4096)
def const_text(kind: str, bits: int, number: float, sign: float) -> str:
    """Text of a scalar constant; `sign` only tells 0.0 and -0.0 apart in the cache."""
    if kind == "p":
        return "null"
    if kind == "i":
        if bits == 1:
            return "true" if number else "false"
        value = int(number) & ((1 << bits) - 1)
        return str(value - (1 << bits) if value >> (bits - 1) else value)
    if bits == 16:
        return "0xH" + _pack(">e", number).hex().upper()
    if bits == 32:  # LLVM wants the float32 value, written as a double
        number = struct.unpack(">f", _pack(">f", number))[0]
    return "0x" + struct.pack(">d", number).hex().upper()


def _pack(layout: str, number: float) -> bytes:
    try:
        return struct.pack(layout, number)
    except OverflowError:
        return struct.pack(layout, math.copysign(math.inf, number))


def struct_text(types: Sequence[Ty]) -> str:
    """Text of a struct of these types."""
    return "{ " + ", ".join([str(ty) for ty in types]) + " }"


def vector_text(ty: Ty) -> str:
    """Text of a type as a vector, of one lane if need be."""
    return str(ty) if ty.lanes > 1 else f"<1 x {ty}>"
