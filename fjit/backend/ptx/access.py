"""How instructions reach their operands: readers and writers of registers, constants and packs.

Takes an operand and the type an instruction sees it as, gives a function of the group that
executes. Invariant: a reader gives arrays of the type's dtype with one element, or one per lane
(pairs of a packed type as rows); a writer takes such arrays.

    cvt.u64.u8 %rd1, %r1;   reader(Reg r1, u8) keeps the low byte; writer(Reg rd1, u64)
"""

import struct
from collections.abc import Callable

import numpy as np

from fjit.backend.ptx.lanes import Group
from fjit.backend.ptx.program import Imm, Operand, Pack, Reg, Sink, Special, Sym
from fjit.backend.ptx.types import SIGNED, TYPES, UNSIGNED, Type
from fjit.errors import EmulatorError

Reader = Callable[[Group], np.ndarray]
Value = np.ndarray | tuple[np.ndarray, ...]
Writer = Callable[[Group, Value], None]


def reader(operand: Operand, ty: Type) -> Reader:
    """How to read an operand as a type."""
    match operand:
        case Reg():
            return _register_reader(operand, ty)
        case Imm():
            value = constant(operand, ty)
            return lambda group: value
        case Special(name=name):
            stored = ty.stored
            return lambda group: _seen(group.wave.special(name, group).astype(stored), ty)
        case Sym():
            return lambda group: group.wave.address_of(operand).astype(ty.stored).view(ty.seen)
        case Pack(items=items):
            return _pack_reader(items, ty)
    raise EmulatorError(f"the operand {operand} cannot be read.")


def _seen(bits: np.ndarray, ty: Type) -> np.ndarray:
    """Register bits as an instruction sees them."""
    if ty.packed == 1:
        return bits.view(ty.seen)
    return np.ascontiguousarray(bits).view(ty.seen).reshape(-1, ty.packed)


def _register_reader(reg: Reg, ty: Type) -> Reader:
    slot, seen = reg.slot, ty.seen
    if (reg.type.kind == "p") != (ty.kind == "p") or reg.type.width < ty.width:
        raise EmulatorError(f"register {reg.name} (.{reg.type.name}) is no .{ty.name}.")
    if reg.negated:
        return lambda group: np.logical_not(group.read(slot))
    if ty.kind == "p":
        return lambda group: group.read(slot)
    if ty.packed > 1:
        return lambda group: _seen(group.read(slot), ty)
    if reg.type.width == ty.width:
        return lambda group: group.read(slot).view(seen)
    stored = ty.stored
    return lambda group: group.read(slot).astype(stored).view(seen)


def constant(imm: Imm, ty: Type) -> np.ndarray:
    """A constant as an array of one element."""
    if ty.kind == "p":
        return np.array([imm.value != 0])
    value = imm.value
    if ty.floating and imm.bits not in (0, ty.width):
        number = struct.unpack(
            "<d" if imm.bits == 64 else "<f", value.to_bytes(imm.bits // 8, "little")
        )
        return np.array(number).astype(ty.seen)
    if ty.kind == "f" and not imm.bits:
        return np.array([value], ty.seen)
    return _seen(np.array([value & ((1 << ty.width) - 1)], ty.stored), ty)


def _pack_reader(items: tuple[Operand, ...], ty: Type) -> Reader:
    """{a, b, ...} as one value, the first operand in the lowest bits."""
    part = TYPES[f"b{ty.width // len(items)}"]
    readers = [reader(item, part) for item in items]

    def read(group: Group) -> np.ndarray:
        result = np.zeros(1, ty.stored)
        for k, one in enumerate(readers):
            shift = np.array(k * part.width, ty.stored)
            result = result | (one(group).astype(ty.stored) << shift)
        return _seen(result, ty)

    return read


# Writing


def writer(operand: Operand, ty: Type) -> Writer:
    """How to write a value of a type to an operand."""
    match operand:
        case Reg():
            return _register_writer(operand, ty)
        case Sink():
            return lambda group, value: None
        case Pack(items=items) if ty.kind == "p":
            return _pair_writer(items, ty)
        case Pack(items=items):
            return _pack_writer(items, ty)
    raise EmulatorError(f"the operand {operand} cannot be written.")


def _register_writer(reg: Reg, ty: Type) -> Writer:
    slot = reg.slot
    if (reg.type.kind == "p") != (ty.kind == "p") or reg.type.width < ty.width:
        raise EmulatorError(f"register {reg.name} (.{reg.type.name}) does not hold a .{ty.name}.")
    if ty.kind == "p":
        return lambda group, value: group.write(slot, _single(value))
    stored, seen, wider = ty.stored, ty.seen, reg.type.width > ty.width
    signed, target = SIGNED[reg.type.width], UNSIGNED[reg.type.width]

    def write(group: Group, value: Value) -> None:
        array = np.ascontiguousarray(_single(value), seen)
        if ty.packed > 1:
            array = array.view(stored).reshape(-1)
        elif wider:
            array = array.astype(signed if ty.signed else target).view(target)
        else:
            array = array.view(stored)
        group.write(slot, array)

    return write


def _single(value: Value) -> np.ndarray:
    assert isinstance(value, np.ndarray)
    return value


def _pair_writer(items: tuple[Operand, ...], ty: Type) -> Writer:
    """p|q: two results."""
    writers = [writer(item, ty) for item in items]

    def write(group: Group, value: Value) -> None:
        for one, part in zip(writers, value, strict=True):
            one(group, part)

    return write


def _pack_writer(items: tuple[Operand, ...], ty: Type) -> Writer:
    """{a, b, ...} from one value, the lowest bits to the first operand."""
    part = TYPES[f"b{ty.width // len(items)}"]
    writers = [writer(item, part) for item in items]

    def write(group: Group, value: Value) -> None:
        bits = np.ascontiguousarray(_single(value)).view(ty.stored).reshape(-1)
        for k, one in enumerate(writers):
            shift = np.array(k * part.width, ty.stored)
            one(group, (bits >> shift).astype(part.stored))

    return write
