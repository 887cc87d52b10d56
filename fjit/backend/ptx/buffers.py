"""Global memory: the arguments' arrays and the module's variables, each in a region of its own.

Takes arrays, gives addresses, and finds arrays by address. Invariant: an access lies inside one
buffer; two buffers are 64 GiB of addresses apart, so that no plausible index leads from one to
another.

    argument 0, 256 bytes  ->  0x1000000000 ... 0x10000000ff        argument 1  ->  0x2000000000 ...

Buffers are views of the caller's memory, so that arguments which overlap do so here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fjit.backend.ptx.lanes import Group
from fjit.backend.ptx.part import Access, Part, misaligned
from fjit.backend.ptx.types import UNSIGNED
from fjit.backend.ptx.writers import Writers

REGION = 36
"""Bits of the addresses of one region."""
MOST_BUFFERS = 4000
PHASE = 16
"""A buffer's address is that of its memory modulo this, as a caller's alignment checks expect."""


@dataclass(eq=False, slots=True)
class Buffer:
    """One piece of memory with a name, a first address, and notes for the check of .nc loads."""

    name: str
    base: int
    memory: np.ndarray
    writable: bool
    notes: Notes | None = None
    writers: Writers | None = None
    place: int = 0
    views: dict[int, tuple[np.ndarray, np.uint64, np.uint64]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.base + len(self.memory)

    def view(self, size: int) -> tuple[np.ndarray, np.uint64, np.uint64]:
        """The memory as elements of a size, the first one's address, and the shift to an index."""
        if size not in self.views:
            skip = -self.base % size
            count = max(0, len(self.memory) - skip) // size
            array = self.memory[skip : skip + count * size].view(UNSIGNED[8 * size])
            shift = np.uint64(size.bit_length() - 1)
            self.views[size] = (array, np.uint64(self.base + skip), shift)
        return self.views[size]

    def note_read(self, part: Part, access: Access) -> None:
        if access.constant and self.notes is not None:
            self.notes.reading(part, self, access)

    def note_write(self, part: Part, access: Access, values: list[np.ndarray] | None) -> None:
        if not self.writable:
            raise part.group.fault(f"{self.name} is read-only")
        if self.notes is not None:
            self.notes.writing(part, self, access)
        if self.writers is not None and values is not None and not access.strong:
            self.writers.write(part, access, values)

    def note_written(self, part: Part, access: Access, values: list[np.ndarray]) -> None:
        if self.writers is not None and not access.strong:
            self.writers.written(part, access, values)


class Notes:
    """Which cells of one block of memory .nc loads have read, and which were written."""

    def __init__(self, size: int, cell: int) -> None:
        self.cell = cell
        self.read = np.zeros(-(-size // cell), bool)
        self.written = np.zeros(-(-size // cell), bool)

    def reading(self, part: Part, buffer: Buffer, access: Access) -> None:
        places = self._places(part, buffer, access)
        self._refuse(part, self.written[places])
        self.read[places] = True

    def writing(self, part: Part, buffer: Buffer, access: Access) -> None:
        places = self._places(part, buffer, access)
        self._refuse(part, self.read[places])
        self.written[places] = True

    def _places(self, part: Part, buffer: Buffer, access: Access) -> np.ndarray:
        skip = buffer.place + int(buffer.view(access.size)[1]) - buffer.base
        first = (skip + part.index * access.size) // self.cell
        return first[:, None] + np.arange(access.total // self.cell)

    def _refuse(self, part: Part, clash: np.ndarray) -> None:
        if clash.any():
            reason = "memory read by ld.global.nc is written by the same kernel"
            raise part.group.fault(reason, int(np.argmax(clash.any(axis=1))))


class Memory:
    """All buffers of a launch."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []

    def add(self, name: str, memory: np.ndarray, writable: bool = True) -> Buffer:
        """Give a one-dimensional array of bytes an address."""
        base = (len(self.buffers) + 1) << REGION
        buffer = Buffer(name, base + memory.ctypes.data % PHASE, memory, writable)
        self.buffers.append(buffer)
        return buffer

    def watch_constants(self, cell: int) -> None:
        """Keep notes for the check of .nc loads; arrays that overlap share them.

        `cell` is the size of the smallest access to global memory.
        """
        ordered = sorted(self.buffers, key=lambda buffer: buffer.memory.ctypes.data)
        block: list[Buffer] = []
        end = 0
        for buffer in ordered:
            start = buffer.memory.ctypes.data
            if block and start >= end:
                _share_notes(block, end, cell)
                block = []
            block.append(buffer)
            end = max(end, start + len(buffer.memory))
        _share_notes(block, end, cell)

    def watch_blocks(self) -> None:
        """Report blocks that write different values to one place."""
        for buffer in self.buffers:
            buffer.writers = Writers(buffer.name)

    def parts(self, group: Group, address: np.ndarray, access: Access) -> list[Part]:
        low, high = int(address.min()), int(address.max())
        buffer = self._at(low)
        if buffer is None or high + access.total > buffer.end:
            return self._scattered(group, address, access)
        misaligned(group, address, access)
        return [_part(buffer, group, None, address, access)]

    def _at(self, address: int) -> Buffer | None:
        """The buffer that an address points into."""
        region = (address >> REGION) - 1
        if not 0 <= region < len(self.buffers):
            return None
        buffer = self.buffers[region]
        return buffer if buffer.base <= address < buffer.end else None

    def _scattered(self, group: Group, address: np.ndarray, access: Access) -> list[Part]:
        """An access to several buffers, or outside of all."""
        address = group.spread(address)
        regions = address >> np.uint64(REGION)
        parts: list[Part] = []
        for region in np.unique(regions):
            where = np.flatnonzero(regions == region)
            own = address[where]
            buffer = self._at(int(own.min()))
            if buffer is None or int(own.max()) + access.total > buffer.end:
                raise self._outside(group, where, own, access)
            parts.append(_part(buffer, group.take(where), where, own, access))
        misaligned(group, address, access)
        return parts

    def _outside(
        self, group: Group, where: np.ndarray, own: np.ndarray, access: Access
    ) -> Exception:
        for position, value in zip(where, own.tolist(), strict=True):
            buffer = self._at(value)
            if buffer is None or value + access.total > buffer.end:
                what = f"{access.total} bytes at {hex(value)}"
                return group.fault(f"out of bounds: {what}, {self.nearest(value)}", int(position))
        raise AssertionError("no lane is out of bounds")

    def nearest(self, address: int) -> str:
        """Where an address lies, seen from the nearest buffer."""
        if not self.buffers:
            return "and the launch has no memory"

        def distance(buffer: Buffer) -> int:
            return max(buffer.base - address, address - buffer.end, 0)

        buffer = min(self.buffers, key=distance)
        what = f"{buffer.name} ({len(buffer.memory)} bytes at {hex(buffer.base)})"
        if address < buffer.base:
            return f"{buffer.base - address} bytes before {what}"
        if address >= buffer.end:
            return f"{address - buffer.end} bytes past the end of {what}"
        return f"{buffer.end - address} bytes before the end of {what}"


def _part(
    buffer: Buffer, group: Group, where: np.ndarray | None, address: np.ndarray, access: Access
) -> Part:
    array, first, shift = buffer.view(access.size)
    return Part(buffer, group, where, array, ((address - first) >> shift).view(np.int64))


def _share_notes(block: list[Buffer], end: int, cell: int) -> None:
    """Give buffers that overlap common notes, in cells that their elements share."""
    if not block:
        return
    start = block[0].memory.ctypes.data
    for buffer in block:
        buffer.place = buffer.memory.ctypes.data - start
    if any((buffer.place - buffer.base % cell) % cell for buffer in block):
        cell = 1
    notes = Notes(end - start, cell)
    for buffer in block:
        buffer.notes = notes
