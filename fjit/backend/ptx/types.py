"""The types of PTX and the NumPy dtypes that hold them.

Takes a name such as "f32", gives a frozen description. Invariant: registers hold bits only, as
unsigned integers (predicates as bools); a type says how an instruction looks at them.

    .s32 -> kind "s", 32 bits: stored as uint32, seen as int32
    .f16x2 -> kind "f", 16 bits, packed twice: stored as uint32, seen as pairs of float16

NumPy has no bfloat16: its bits stay uint16, and instructions on it convert to float32 and back.
"""

from dataclasses import dataclass

import numpy as np

Dtypes = dict[int, np.dtype]
UNSIGNED: Dtypes = {8: np.dtype("u1"), 16: np.dtype("u2"), 32: np.dtype("u4"), 64: np.dtype("u8")}
SIGNED: Dtypes = {8: np.dtype("i1"), 16: np.dtype("i2"), 32: np.dtype("i4"), 64: np.dtype("i8")}
FLOATS: Dtypes = {16: np.dtype("f2"), 32: np.dtype("f4"), 64: np.dtype("f8")}
BOOL = np.dtype(bool)


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar or packed type: kind "u", "s", "b", "f", "t" (bfloat16) or "p" (predicate)."""

    name: str
    kind: str
    bits: int
    packed: int = 1

    @property
    def width(self) -> int:
        """Bits of a register that holds it."""
        return self.bits * self.packed

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.width // 8

    @property
    def seen(self) -> np.dtype:
        """The dtype instructions compute with."""
        if self.kind == "p":
            return BOOL
        table = {"s": SIGNED, "f": FLOATS}.get(self.kind, UNSIGNED)
        return table[self.bits]

    @property
    def stored(self) -> np.dtype:
        """The dtype of the register's bits."""
        return BOOL if self.kind == "p" else UNSIGNED[self.width]

    @property
    def signed(self) -> bool:
        return self.kind == "s"

    @property
    def floating(self) -> bool:
        return self.kind in "ft"


def _all() -> dict[str, Type]:
    found = [Type(f"{kind}{bits}", kind, bits) for kind in "usb" for bits in (8, 16, 32, 64)]
    found += [Type(f"f{bits}", "f", bits) for bits in (16, 32, 64)]
    found += [Type("f16x2", "f", 16, 2), Type("bf16", "t", 16), Type("bf16x2", "t", 16, 2)]
    found += [Type("u16x2", "u", 16, 2), Type("s16x2", "s", 16, 2), Type("pred", "p", 1)]
    return {ty.name: ty for ty in found}


TYPES = _all()
PRED, B16, B32, B64 = TYPES["pred"], TYPES["b16"], TYPES["b32"], TYPES["b64"]
U16, U32, U64, S32, S64 = (TYPES[name] for name in ("u16", "u32", "u64", "s32", "s64"))
F16, F32, F64 = TYPES["f16"], TYPES["f32"], TYPES["f64"]
