"""Loads and stores in every state space, and conversions between their addresses.

Takes an instruction, gives its step. Invariant: a generic address says by its window which space it
means: shared and local memory have windows above all buffers.

    ld.shared.v2.f32 {%f1,%f2}, [%r1+8]  ->  two elements of the block's shared memory
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fjit.backend.ptx.access import Reader, reader, writer
from fjit.backend.ptx.lanes import Group
from fjit.backend.ptx.part import Access, Part, Space, load, store
from fjit.backend.ptx.program import Address, Instruction, Operand, Pack, Reg, Sym
from fjit.backend.ptx.types import PRED, U32, U64
from fjit.errors import EmulatorError

Step = Callable[[Group], None]
SHARED_WINDOW = 1 << 48
LOCAL_WINDOW = 1 << 49
WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}
SPACES = ("global", "const", "shared", "local", "param")
STRONG = ("volatile", "relaxed", "acquire", "release", "mmio")


def space_name(ins: Instruction) -> str:
    """The state space an instruction names, "generic" if none; `.shared::cta` is shared."""
    for flag in ins.flags:
        if flag.split("::")[0] in SPACES and flag != "shared::cluster":
            return flag.split("::")[0]
    return "generic"


# Addresses


def address_reader(operand: Operand) -> Reader:
    """The address an operand in brackets stands for, as uint64."""
    if not isinstance(operand, Address):
        raise EmulatorError(f"the operand {operand} is no address.")
    base, offset = operand.base, operand.offset
    narrow = isinstance(base, Reg) and base.type.width == 32
    read = reader(base, U32 if narrow else U64)
    if not offset:
        return lambda group: read(group).astype(np.uint64, copy=False)
    if narrow:
        short = np.array([offset & 0xFFFFFFFF], np.uint32)
        return lambda group: (read(group) + short).astype(np.uint64)
    wide = np.array([offset & 0xFFFFFFFFFFFFFFFF], np.uint64)
    return lambda group: read(group) + wide


def space_finder(ins: Instruction, operand: Operand) -> Callable[[Group], Space]:
    """Which space of a wave an instruction means."""
    name = space_name(ins)
    if name == "param" and isinstance(operand, Address) and isinstance(operand.base, Sym):
        symbol = operand.base.name
        return lambda group: group.wave.parameter_space(symbol)
    if name in WINDOWS or name == "generic":
        return lambda group: group.wave.spaces[name]
    return lambda group: group.wave.spaces["global"]


class Generic:
    """The space of generic addresses, made of the others."""

    def __init__(self, spaces: dict[str, Space]) -> None:
        self.spaces = spaces

    def parts(self, group: Group, address: np.ndarray, access: Access) -> list[Part]:
        low, high = int(address.min()), int(address.max())
        if high < SHARED_WINDOW:
            return self.spaces["global"].parts(group, address, access)
        if low >= LOCAL_WINDOW:
            return self.spaces["local"].parts(group, address - np.uint64(LOCAL_WINDOW), access)
        if low >= SHARED_WINDOW and high < LOCAL_WINDOW:
            return self.spaces["shared"].parts(group, address - np.uint64(SHARED_WINDOW), access)
        return self._mixed(group, group.spread(address), access)

    def _mixed(self, group: Group, address: np.ndarray, access: Access) -> list[Part]:
        """The parts of lanes whose addresses are in different spaces."""
        shared, local = address >= np.uint64(SHARED_WINDOW), address >= np.uint64(LOCAL_WINDOW)
        found: list[Part] = []
        for name, mask in (("global", ~shared), ("shared", shared & ~local), ("local", local)):
            where = np.flatnonzero(mask)
            if len(where):
                own = address[where] - np.uint64(WINDOWS.get(name, 0))
                for part in self.spaces[name].parts(group.take(where), own, access):
                    places = where if part.where is None else where[part.where]
                    found.append(replace(part, where=places))
        return found


# Loads and stores


def _elements(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Pack) else (operand,)


def _access(ins: Instruction, count: int) -> Access:
    return Access(ins.type.size, count, ins.has(*STRONG), ins.has("nc"))


def _ld(ins: Instruction) -> Step:
    ty = ins.type
    items = _elements(ins.operands[0])
    writers = [writer(item, ty) for item in items]
    address, access = address_reader(ins.operands[1]), _access(ins, len(items))
    find, space = space_finder(ins, ins.operands[1]), space_name(ins)

    def step(group: Group) -> None:
        place = address(group)
        if group.wave.traffic is not None:
            _count(group, space, place, access)
        values = load(group, find(group), place, access)
        for write, value in zip(writers, values, strict=True):
            write(group, value.view(ty.seen))

    return step


def _st(ins: Instruction) -> Step:
    ty = ins.type
    items = _elements(ins.operands[1])
    readers = [reader(item, ty) for item in items]
    address, access = address_reader(ins.operands[0]), _access(ins, len(items))
    find, space = space_finder(ins, ins.operands[0]), space_name(ins)

    def step(group: Group) -> None:
        values = [np.ascontiguousarray(read(group)).view(ty.stored) for read in readers]
        place = address(group)
        if group.wave.traffic is not None:
            _count(group, space, place, access)
        store(group, find(group), place, access, [v.reshape(-1) for v in values])

    return step


def _count(group: Group, space: str, address: np.ndarray, access: Access) -> None:
    """Note an access; a generic address is in the space of its window."""
    if space != "generic":
        group.wave.traffic.note(group, space, address, access)
        return
    every = group.spread(address)
    shared = every >= np.uint64(SHARED_WINDOW)
    for name, mask in (("global", ~shared), ("shared", shared & (every < LOCAL_WINDOW))):
        if mask.any():
            group.wave.traffic.note(group.take(np.flatnonzero(mask)), name, every[mask], access)


# Conversions of addresses


def _cvta(ins: Instruction) -> Step:
    window = np.array([WINDOWS.get(space_name(ins), 0)], np.uint64)
    ty = ins.type
    read, write = reader(ins.operands[1], ty), writer(ins.operands[0], ty)
    if ins.has("to"):
        return lambda group: write(group, (read(group) - window).astype(ty.seen))
    return lambda group: write(group, (read(group) + window).astype(ty.seen))


def _isspacep(ins: Instruction) -> Step:
    name = space_name(ins)
    low = WINDOWS.get(name, 0)
    high = {"shared": LOCAL_WINDOW, "local": LOCAL_WINDOW * 2}.get(name, SHARED_WINDOW)
    read, write = reader(ins.operands[1], U64), writer(ins.operands[0], PRED)

    def step(group: Group) -> None:
        address = read(group)
        write(group, (address >= np.uint64(low)) & (address < np.uint64(high)))

    return step


def nothing(ins: Instruction) -> Step:
    """Hints, and orders that threads in lock-step keep anyway."""
    return lambda group: None


STEPS: dict[str, Callable[[Instruction], Step]] = {
    "ld": _ld,
    "ldu": _ld,
    "st": _st,
    "cvta": _cvta,
    "isspacep": _isspacep,
    "membar": nothing,
    "fence": nothing,
    "nanosleep": nothing,
    "prefetch": nothing,
    "prefetchu": nothing,
    "griddepcontrol": nothing,
    "pmevent": nothing,
}
