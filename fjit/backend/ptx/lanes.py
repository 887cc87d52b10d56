"""Groups of threads that stand at one instruction, and the registers of all threads.

Takes the lanes of a group, reads and writes whole arrays of register bits. Invariant: an array that
was handed out or stored is never changed in place; a value of one element stands for all lanes.

    all threads at one place     index None            registers[3] is the operand itself
    neighbouring threads         index slice(0, 40)    a view
    any others                   index [3, 7, 9]       a gather

Keeping what is the same for all threads as one element makes address arithmetic on parameters and
loops of a common length free of work per thread.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from fjit.backend.ptx.program import Reg, Sym
from fjit.backend.ptx.shape import Shape

Index = np.ndarray | slice | None


class Fault(Exception):
    """Something no program may do, found for one lane of a wave."""

    def __init__(self, reason: str, lane: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.lane = lane


def lane_at(index: Index, position: int) -> int:
    """The lane at a position of an index."""
    if index is None:
        return position
    return index.start + position if isinstance(index, slice) else int(index[position])


def narrowed(index: np.ndarray) -> np.ndarray | slice:
    """A sorted index as a slice if its lanes are neighbours."""
    first, last = int(index[0]), int(index[-1])
    return slice(first, last + 1) if last - first + 1 == len(index) else index


class Registers:
    """The register file: one array per register, and who has written it where not all have."""

    def __init__(self, registers: tuple[Reg, ...], count: int, checks: bool) -> None:
        self.names = registers
        self.count = count
        self.checks = checks
        self.values: list[np.ndarray | None] = [None] * len(registers)
        self.written: list[np.ndarray | None] = [None] * len(registers)
        self.shared = [False] * len(registers)

    def read(self, slot: int, index: Index) -> np.ndarray:
        """The bits of a register for some lanes."""
        value = self.values[slot]
        if value is None:
            return self._unwritten(slot, index)
        if self.written[slot] is not None:
            self._check(slot, index)
        if index is None or len(value) == 1:
            self.shared[slot] = True
            return value
        return value[index]

    def write(self, slot: int, index: Index, bits: np.ndarray) -> None:
        """Set a register's bits for some lanes."""
        if index is None:
            self.values[slot] = bits
            self.written[slot] = None
            self.shared[slot] = True
            return
        value = self.values[slot]
        if value is None or self.shared[slot] or len(value) != self.count:
            value = self._own(slot)
        value[index] = bits
        written = self.written[slot]
        if written is not None:
            written[index] = True

    def _own(self, slot: int) -> np.ndarray:
        """A copy of a register's array, one element per lane, that may be changed."""
        value = self.values[slot]
        if value is None:
            own = np.zeros(self.count, self.names[slot].type.stored)
            self.written[slot] = np.zeros(self.count, bool)
        elif len(value) == self.count:
            own = value.copy()
        else:
            own = np.full(self.count, value[0])
        self.values[slot] = own
        self.shared[slot] = False
        return own

    def _unwritten(self, slot: int, index: Index) -> np.ndarray:
        register = self.names[slot]
        if self.checks:
            reason = f"register {register.name} is read before it was written"
            raise Fault(reason, lane_at(index, 0))
        return np.zeros(1, register.type.stored)

    def _check(self, slot: int, index: Index) -> None:
        written = self.written[slot]
        assert written is not None
        seen = written if index is None else written[index]
        if seen.all():
            if index is None or written.all():
                self.written[slot] = None
        elif self.checks:
            reason = f"register {self.names[slot].name} is read before it was written"
            raise Fault(reason, lane_at(index, int(np.argmin(seen))))


class Wave(Protocol):
    """What steps know of all the threads that run together; wave.py has the class.

    The state spaces' own type stands above groups in the order of imports, hence Any.
    """

    shape: Shape
    count: int
    lanes: np.ndarray
    thread_numbers: np.ndarray
    block_numbers: np.ndarray
    block_of: np.ndarray
    warps: int
    warp_of: np.ndarray
    lane_in_warp: np.ndarray
    block_epoch: np.ndarray
    warp_epoch: np.ndarray
    registers: Registers
    frame: Any
    spaces: dict[str, Any]
    traffic: Any

    def special(self, name: str, group: Group) -> np.ndarray:
        """A special register for the lanes of a group."""

    def address_of(self, symbol: Sym) -> np.ndarray:
        """The address of a variable in its own state space."""

    def parameter_space(self, name: str) -> Any:
        """Where a parameter is."""

    def thread_text(self, lane: int) -> str:
        """A lane's thread and block as messages name them."""


class Group:
    """Threads of one wave that execute an instruction together, in the order of their lanes."""

    __slots__ = ("count", "index", "wave")

    def __init__(self, wave: Wave, index: Index) -> None:
        self.wave = wave
        self.index = index
        if index is None:
            self.count = wave.count
        else:
            self.count = index.stop - index.start if isinstance(index, slice) else len(index)

    def read(self, slot: int) -> np.ndarray:
        return self.wave.registers.read(slot, self.index)

    def write(self, slot: int, bits: np.ndarray) -> None:
        self.wave.registers.write(slot, self.index, bits)

    def fault(self, reason: str, position: int = 0) -> Fault:
        """The error for the lane at a position of the group."""
        return Fault(reason, lane_at(self.index, position))

    @property
    def lanes(self) -> np.ndarray:
        """The numbers of the lanes within the wave, ascending."""
        every = self.wave.lanes
        return every if self.index is None else every[self.index]

    def of(self, values: np.ndarray) -> np.ndarray:
        """The group's part of an array with one element per lane of the wave."""
        return values if self.index is None else values[self.index]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """One element per lane of the group."""
        return values if len(values) == self.count else np.full(self.count, values[0])

    def take(self, positions: np.ndarray) -> Group:
        """The lanes at ascending positions, or where a mask of the group is set."""
        return Group(self.wave, narrowed(self.lanes[positions]))

    def split(self, mask: np.ndarray) -> tuple[Group | None, Group | None]:
        """The lanes with a set mask, and the others."""
        yes = self.where(mask)
        if yes is self:
            return self, None
        return yes, self if yes is None else self.where(~mask)

    def where(self, mask: np.ndarray) -> Group | None:
        """The lanes with a set mask (one element, or one per lane), or None if there are none."""
        if mask.all():
            return self
        if len(mask) == 1 or not mask.any():
            return None
        return self.take(mask)
