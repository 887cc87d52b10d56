"""Integer arithmetic of PTX.

Takes an instruction, gives an Operation, or None where its types are floating. Invariant:
everything wraps; nothing raises, whatever the operands (a division by zero gives all ones, as on
hardware).

    mul.wide.s32 d, a, b  ->  Operation(s64, (s32, s32), exact product)
"""

from collections.abc import Callable

import numpy as np

from fjit.backend.ptx.operation import Operation, Rule, same
from fjit.backend.ptx.program import Instruction
from fjit.backend.ptx.types import S32, TYPES, U32, Type

HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)


def _wide(ty: Type) -> Type:
    return TYPES[f"{ty.kind}{ty.bits * 2}"]


def _wrapping(function: np.ufunc) -> Rule:
    def rule(ins: Instruction) -> Operation | None:
        return None if ins.type.floating else same(ins.type, 2, _saturated(function, ins))

    return rule


def _saturated(function: np.ufunc, ins: Instruction) -> Callable[..., np.ndarray]:
    if not ins.has("sat"):
        return function
    limits = np.iinfo(ins.type.seen)

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        exact = function(a.astype(np.int64), b.astype(np.int64))
        return np.asarray(np.clip(exact, limits.min, limits.max).astype(a.dtype))

    return compute


# Products


def high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of the double-width product."""
    if a.dtype.itemsize < 8:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return (a.astype(wide) * b.astype(wide) >> wide(8 * a.dtype.itemsize)).astype(a.dtype)
    x, y = a.view(np.uint64), b.view(np.uint64)
    result = _high_unsigned(x, y)
    if a.dtype.kind == "i":
        result = result - np.where(a < 0, y, 0).astype(np.uint64)
        result = result - np.where(b < 0, x, 0).astype(np.uint64)
    return result.view(a.dtype)


def _high_unsigned(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x_high, x_low, y_high, y_low = x >> HALF, x & LOW, y >> HALF, y & LOW
    middle = x_high * y_low + (x_low * y_low >> HALF)
    other = x_low * y_high + (middle & LOW)
    return np.asarray(x_high * y_high + (middle >> HALF) + (other >> HALF))


def _product(ins: Instruction) -> tuple[Type, Callable[..., np.ndarray]]:
    """The result's type and the function of the kind of product (.lo, .hi, .wide) asked for."""
    ty = ins.type
    if ins.has("wide"):
        wide = _wide(ty)
        return wide, lambda a, b: np.multiply(a, b, dtype=wide.seen)
    return ty, high if ins.has("hi") else np.multiply


def _mul(ins: Instruction) -> Operation | None:
    if ins.type.floating:
        return None
    result, compute = _product(ins)
    return Operation(result, (ins.type, ins.type), compute)


def _mad(ins: Instruction) -> Operation | None:
    if ins.type.floating or ins.has("cc") or ins.has("sat"):
        return None
    result, product = _product(ins)

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return np.asarray(product(a, b) + c)

    return Operation(result, (ins.type, ins.type, result), compute)


def _product24(ins: Instruction, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = np.int64 if ins.type.signed else np.uint64
    x, y = (((v.astype(wide) << wide(40)) >> wide(40)) for v in (a, b))
    return np.asarray((x * y >> wide(16 if ins.has("hi") else 0)).astype(a.dtype))


def _mul24(ins: Instruction) -> Operation:
    return same(ins.type, 2, lambda a, b: _product24(ins, a, b))


def _mad24(ins: Instruction) -> Operation:
    return same(ins.type, 3, lambda a, b, c: _product24(ins, a, b) + c)


def _sad(ins: Instruction) -> Operation:
    return same(ins.type, 3, lambda a, b, c: c + np.where(a < b, b - a, a - b))


def _dot(lanes: int) -> Rule:
    """dp4a: four products of bytes and a sum; dp2a: two of 16-bit and 8-bit parts."""

    def rule(ins: Instruction) -> Operation:
        first, second = ins.types
        result = S32 if first.signed or second.signed else U32
        start = 2 if ins.has("hi") else 0

        def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
            total = c.astype(np.int64)
            for k in range(lanes):
                x = _part(a, k, 32 // lanes, first.signed)
                total = total + x * _part(b, k + start, 8, second.signed)
            return total.astype(result.seen)

        return Operation(result, (U32, U32, result), compute)

    return rule


def _part(a: np.ndarray, place: int, bits: int, signed: bool) -> np.ndarray:
    """Part `place` of `bits` bits of 32-bit words, as int64."""
    up = a.astype(np.int64) << np.int64(64 - bits * (place + 1))
    if signed:
        return np.asarray(up >> np.int64(64 - bits))
    return (up.view(np.uint64) >> np.uint64(64 - bits)).view(np.int64)


# Quotients


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b towards zero; all ones by zero, and the least number by -1 stays."""
    divisor = np.where(b == 0, 1, b).astype(b.dtype)
    if a.dtype.kind == "u":
        result = a // divisor
    else:
        unit = divisor == -1
        safe = np.where(unit, 1, divisor).astype(b.dtype)
        whole = a // safe
        whole = whole + ((whole < 0) & (whole * safe != a))
        result = np.where(unit, np.zeros(1, a.dtype) - a, whole)
    return np.where(b == 0, np.invert(np.zeros(1, a.dtype)), result).astype(a.dtype)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b * quotient(a, b); a itself by zero."""
    result = a - b * quotient(a, b)
    return np.where(b == 0, a, result).astype(a.dtype)


def _integer(function: Callable[..., np.ndarray], count: int) -> Rule:
    def rule(ins: Instruction) -> Operation | None:
        if ins.type.floating:
            return None
        return same(ins.type, count, function)

    return rule


def _absolute(a: np.ndarray) -> np.ndarray:
    return np.where(a < 0, np.zeros(1, a.dtype) - a, a).astype(a.dtype)


def _negative(a: np.ndarray) -> np.ndarray:
    return np.asarray(np.zeros(1, a.dtype) - a)


# Carries


def _added(a: np.ndarray, b: np.ndarray, carry: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    part = a + b
    total = part + carry
    return total, (part < a) | (total < part)


def _subtracted(a: np.ndarray, b: np.ndarray, borrow: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    part = a - b
    total = part - borrow
    return total, (a < b) | (part < total)


def _carrying(ins: Instruction, step: Callable[..., tuple[np.ndarray, np.ndarray]]) -> Operation:
    """add, sub, mad and their c forms, on unsigned numbers; .cc keeps what is carried."""
    ty, seen = TYPES[f"u{ins.type.bits}"], ins.type.seen
    reads, writes = ins.op.endswith("c"), ins.has("cc")
    multiplies = ins.op.startswith("mad")
    product = high if ins.has("hi") else np.multiply

    def compute(*operands: np.ndarray) -> tuple[np.ndarray, np.ndarray] | np.ndarray:
        values = list(operands)
        carry = values.pop().astype(ty.seen) if reads else np.zeros(1, ty.seen)
        if multiplies:
            a, b = values[0].view(seen), values[1].view(seen)
            values[:2] = [product(a, b).view(ty.seen)]
        total, out = step(values[0], values[1], carry)
        return (total, out) if writes else total

    return Operation(ty, (ty,) * (3 if multiplies else 2), compute, reads, writes)


def _with_carry(step: Callable[..., tuple[np.ndarray, np.ndarray]], plain: Rule | None) -> Rule:
    def rule(ins: Instruction) -> Operation | None:
        if plain is not None and not ins.has("cc"):
            return plain(ins)
        return None if ins.type.floating else _carrying(ins, step)

    return rule


RULES: dict[str, Rule] = {
    "add": _with_carry(_added, _wrapping(np.add)),
    "addc": _with_carry(_added, None),
    "sub": _with_carry(_subtracted, _wrapping(np.subtract)),
    "subc": _with_carry(_subtracted, None),
    "mul": _mul,
    "mad": _with_carry(_added, _mad),
    "madc": _with_carry(_added, None),
    "mul24": _mul24,
    "mad24": _mad24,
    "sad": _sad,
    "dp4a": _dot(4),
    "dp2a": _dot(2),
    "div": _integer(quotient, 2),
    "rem": _integer(remainder, 2),
    "abs": _integer(_absolute, 1),
    "neg": _integer(_negative, 1),
    "min": _integer(np.minimum, 2),
    "max": _integer(np.maximum, 2),
}
