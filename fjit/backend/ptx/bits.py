"""Bit manipulation of PTX: logic, shifts, fields, counts and permutations.

Takes an instruction, gives an Operation. Invariant: shift counts beyond the width act as the width,
as PTX says, and positions and lengths of fields use their low eight bits.

    shl.b32 d, a, 40  ->  0        bfe.u32 d, a, 28, 8  ->  the upper four bits of a
"""

import numpy as np

from fjit.backend.ptx.operation import Operation, Rule, same, where
from fjit.backend.ptx.program import Instruction
from fjit.backend.ptx.types import B32, TYPES, U32, Type

BYTE = np.uint64(0xFF)


def _unsigned(ty: Type) -> Type:
    return TYPES[f"u{ty.bits}"]


def _logic(function: np.ufunc) -> Rule:
    return lambda ins: same(ins.type, 2, function)


def _not(ins: Instruction) -> Operation:
    if ins.type.kind == "p":
        return same(ins.type, 1, np.logical_not)
    return same(ins.type, 1, np.invert)


def _cnot(ins: Instruction) -> Operation:
    return same(ins.type, 1, lambda a: (a == 0).astype(a.dtype))


def _lop3(ins: Instruction) -> Operation:
    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: np.ndarray) -> np.ndarray:
        result = np.zeros_like(a & b & c)
        for row in range(8):
            if int(table[0]) >> row & 1:
                parts = [v if row >> k & 1 else ~v for v, k in ((a, 2), (b, 1), (c, 0))]
                result = result | (parts[0] & parts[1] & parts[2])
        return np.asarray(result)

    return Operation(ins.type, (ins.type,) * 3 + (U32,), compute)


# Shifts


def _shl(ins: Instruction) -> Operation:
    ty = _unsigned(ins.type)

    def compute(a: np.ndarray, count: np.ndarray) -> np.ndarray:
        low = np.minimum(count, ty.bits - 1).astype(a.dtype)
        return where(count < ty.bits, a << low, np.zeros(1, a.dtype))

    return Operation(ty, (ty, U32), compute)


def _shr(ins: Instruction) -> Operation:
    ty = ins.type

    def compute(a: np.ndarray, count: np.ndarray) -> np.ndarray:
        low = np.minimum(count, ty.bits - 1).astype(a.dtype)
        if ty.signed:
            return np.asarray(a >> low)
        return where(count < ty.bits, a >> low, np.zeros(1, a.dtype))

    return Operation(ty, (ty, U32), compute)


def _shf(ins: Instruction) -> Operation:
    """A funnel shift: of the upper (l) or lower (r) half of the 64 bits b:a."""
    left, wrap = ins.has("l"), ins.has("wrap")

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        count = ((c & 31) if wrap else np.minimum(c, 32)).astype(np.uint64)
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        if left:
            return np.asarray(((both << count) >> np.uint64(32)).astype(np.uint32))
        return np.asarray((both >> count).astype(np.uint32))

    return same(B32, 3, compute)


# Fields


def _low_bits(length: np.ndarray) -> np.ndarray:
    """The mask of the lowest `length` (0 to 64) bits, as uint64."""
    short = np.minimum(length, 63)
    mask = (np.uint64(1) << short) - np.uint64(1)
    return np.where(length > 63, ~np.uint64(0), mask)


def _bfe(ins: Instruction) -> Operation:
    ty = ins.type

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        start, length = b.astype(np.uint64) & BYTE, c.astype(np.uint64) & BYTE
        wide = a.astype(np.int64).view(np.uint64) if ty.signed else a.astype(np.uint64)
        size = np.minimum(length, 64)
        shifted = wide >> np.minimum(start, 63)
        if not ty.signed:
            shifted = np.where(start > 63, np.uint64(0), shifted)
            return np.asarray((shifted & _low_bits(size)).astype(ty.seen))
        last = np.minimum(start + length - np.uint64(1), np.uint64(ty.bits - 1))
        sign = (wide >> last) & np.uint64(1)
        room = np.where(start < ty.bits, np.uint64(ty.bits) - np.minimum(start, ty.bits), 0)
        kept = _low_bits(np.minimum(size, room))
        filled = (shifted & kept) | np.where(sign == 1, ~kept, np.uint64(0))
        return np.where(length == 0, np.uint64(0), filled).astype(ty.seen)

    return Operation(ty, (ty, U32, U32), compute)


def _bfi(ins: Instruction) -> Operation:
    ty = _unsigned(ins.type)

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
        start, length = c.astype(np.uint64) & BYTE, d.astype(np.uint64) & BYTE
        shift = np.minimum(start, 63)
        mask = np.where(start > 63, np.uint64(0), _low_bits(np.minimum(length, 64)) << shift)
        return np.asarray(((b & ~mask) | ((a.astype(np.uint64) << shift) & mask)).astype(ty.seen))

    return Operation(ty, (ty, ty, U32, U32), compute)


# Counts


def _popc(ins: Instruction) -> Operation:
    ty = _unsigned(ins.type)
    return Operation(U32, (ty,), lambda a: np.bitwise_count(a).astype(np.uint32))


def highest_bit(a: np.ndarray) -> np.ndarray:
    """The place of the highest set bit of unsigned integers, -1 for zero, as int32."""
    wide = a.astype(np.uint64)
    place = np.zeros(a.shape, np.int32)
    for step in (32, 16, 8, 4, 2, 1):
        above = wide >> np.uint64(step)
        place += np.where(above != 0, step, 0).astype(np.int32)
        wide = np.where(above != 0, above, wide)
    return np.where(a == 0, np.int32(-1), place)


def _clz(ins: Instruction) -> Operation:
    ty = _unsigned(ins.type)
    return Operation(U32, (ty,), lambda a: (ty.bits - 1 - highest_bit(a)).astype(np.uint32))


def _bfind(ins: Instruction) -> Operation:
    ty = ins.type
    amount = ins.has("shiftamt")

    def compute(a: np.ndarray) -> np.ndarray:
        bits = (np.where(a < 0, ~a, a) if ty.signed else a).astype(_unsigned(ty).seen)
        place = highest_bit(bits)
        shown = np.where(place < 0, place, ty.bits - 1 - place) if amount else place
        return np.asarray(shown.astype(np.int32).view(np.uint32))

    return Operation(U32, (ty,), compute)


def _brev(ins: Instruction) -> Operation:
    ty = _unsigned(ins.type)

    def compute(a: np.ndarray) -> np.ndarray:
        rows = np.ascontiguousarray(a).view(np.uint8).reshape(-1, ty.size)
        turned = np.unpackbits(rows, axis=1, bitorder="little")[:, ::-1]
        packed = np.packbits(np.ascontiguousarray(turned), axis=1, bitorder="little")
        return np.ascontiguousarray(packed).view(ty.seen).reshape(-1)

    return same(ty, 1, compute)


# Permutation of bytes

SELECTORS = {
    "f4e": ((3, 2, 1, 0), (4, 3, 2, 1), (5, 4, 3, 2), (6, 5, 4, 3)),
    "b4e": ((5, 6, 7, 0), (6, 7, 0, 1), (7, 0, 1, 2), (0, 1, 2, 3)),
    "rc8": ((0,) * 4, (1,) * 4, (2,) * 4, (3,) * 4),
    "ecl": ((3, 2, 1, 0), (3, 2, 1, 1), (3, 2, 2, 2), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 0)),
    "rc16": ((1, 0, 1, 0), (3, 2, 3, 2), (1, 0, 1, 0), (3, 2, 3, 2)),
}
"""Source bytes of the result's bytes 3, 2, 1, 0 for each value of the selector's low two bits."""


def _prmt(ins: Instruction) -> Operation:
    table = next((SELECTORS[flag] for flag in ins.flags if flag in SELECTORS), None)

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        result = np.zeros(1, np.uint64)
        for k in range(4):
            result = result | (_picked(both, _selector(c, k, table)) << np.uint64(8 * k))
        return result.astype(np.uint32)

    return same(B32, 3, compute)


def _selector(c: np.ndarray, k: int, table: tuple[tuple[int, ...], ...] | None) -> np.ndarray:
    """Which of the eight bytes result byte k is, plus 8 if its sign is wanted instead."""
    if table is None:
        return (c >> np.uint32(4 * k)).astype(np.uint64) & np.uint64(15)
    return np.asarray(np.array([row[3 - k] for row in table], np.uint64)[c & np.uint32(3)])


def _picked(both: np.ndarray, selector: np.ndarray) -> np.ndarray:
    byte = (both >> ((selector & np.uint64(7)) * np.uint64(8))) & BYTE
    sign = np.where(byte >> np.uint64(7) == 1, BYTE, np.uint64(0))
    return np.where(selector > 7, sign, byte)


def _bmsk(ins: Instruction) -> Operation:
    wrap = ins.has("wrap")

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        start, length = a.astype(np.uint64), b.astype(np.uint64)
        if wrap:
            start, length = start & np.uint64(31), length & np.uint64(31)
        mask = _low_bits(np.minimum(length, 32)) << np.minimum(start, 32)
        return mask.astype(np.uint32)

    return same(B32, 2, compute)


RULES: dict[str, Rule] = {
    "and": _logic(np.bitwise_and),
    "or": _logic(np.bitwise_or),
    "xor": _logic(np.bitwise_xor),
    "not": _not,
    "cnot": _cnot,
    "lop3": _lop3,
    "shl": _shl,
    "shr": _shr,
    "shf": _shf,
    "bfe": _bfe,
    "bfi": _bfi,
    "popc": _popc,
    "clz": _clz,
    "bfind": _bfind,
    "brev": _brev,
    "prmt": _prmt,
    "bmsk": _bmsk,
}
