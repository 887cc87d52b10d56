"""Memory that each block or each thread has for itself: shared, local, and parameters of calls.

Takes offsets, gives indices into one array for all blocks or threads of a wave. Invariant: nobody
reads a byte that nobody wrote, and nobody leaves its own piece.

    block 3 of 256 bytes, ld.shared.u32 [16]  ->  element (3 * 256 + 16) / 4

Notes are kept per cell, the smallest access that the code makes, which is exact as accesses are
multiples of it and aligned.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fjit.backend.ptx.lanes import Group
from fjit.backend.ptx.part import Access, Part, misaligned
from fjit.backend.ptx.races import Races
from fjit.backend.ptx.types import UNSIGNED

ALIGNMENT = 16


class Scratch:
    """One kind of private memory of a wave: `units` pieces of `size` bytes."""

    def __init__(
        self,
        name: str,
        size: int,
        units: int,
        unit_of: Callable[[Group], np.ndarray],
        cell: int,
        checks: bool,
    ) -> None:
        self.name = name
        self.size = size
        self.stride = -(-size // ALIGNMENT) * ALIGNMENT
        self.memory = np.zeros(self.stride * units, np.uint8)
        self.unit_of = unit_of
        self.cell = cell
        self.written = np.zeros(len(self.memory) // cell if checks else 0, bool)
        self.checks = checks
        self.races: Races | None = None

    def watch_races(self) -> None:
        """Also report threads that access one place with no barrier between."""
        self.races = Races(len(self.written))

    def parts(self, group: Group, address: np.ndarray, access: Access) -> list[Part]:
        if int(address.max()) + access.total > self.size:
            raise self._outside(group, address, access)
        misaligned(group, address, access)
        array = self.memory.view(UNSIGNED[8 * access.size])
        offset = address.view(np.int64)
        return [
            Part(
                self,
                group,
                None,
                array,
                (self.unit_of(group) * self.stride + offset) // access.size,
            )
        ]

    def _outside(self, group: Group, address: np.ndarray, access: Access) -> Exception:
        room = self.size - access.total
        outside = address > np.uint64(max(room, 0)) if room >= 0 else np.ones(len(address), bool)
        position = int(np.argmax(outside))
        value = int(address[position])
        where = f"{access.total} bytes at {hex(value)} of {self.size} bytes of {self.name} memory"
        return group.fault(f"out of bounds: {where}", position)

    def copy(self, group: Group, source: int, target: int, size: int) -> None:
        """Copy bytes of each lane's piece, with what is known of them."""
        lanes = group.lanes
        rows = self.memory.reshape(-1, self.stride)
        rows[lanes, target : target + size] = rows[lanes, source : source + size]
        if self.checks:
            known, cell = self.written.reshape(-1, self.stride // self.cell), self.cell
            ends = slice(source // cell, -(-(source + size) // cell))
            known[lanes, target // cell : target // cell + ends.stop - ends.start] = known[
                lanes, ends
            ]

    # Notes

    def note_read(self, part: Part, access: Access) -> None:
        if not self.checks:
            return
        for cells in self._cells(part, access):
            known = self.written[cells]
            if not known.all():
                position = int(np.argmin(known))
                reason = f"{self.name} memory is read before it was written"
                raise part.group.fault(f"uninitialised: {reason}", position)
            if self.races is not None:
                self.races.read(part.group, cells, access.strong)

    def note_write(self, part: Part, access: Access, values: list[np.ndarray] | None) -> None:
        if not self.checks:
            return
        changes = np.ones(1, bool) if values is None else part.differs(values)
        for cells in self._cells(part, access):
            self.written[cells] = True
            if self.races is not None:
                self.races.write(part.group, cells, access.strong, changes)

    def note_written(self, part: Part, access: Access, values: list[np.ndarray]) -> None:
        if self.races is not None and not access.strong:
            lost = part.differs(values)
            if lost.any():
                self.races.refuse_lost(part.group, self._cells(part, access), lost)

    def _cells(self, part: Part, access: Access) -> list[np.ndarray]:
        ratio = access.size // self.cell
        first = part.index * ratio
        return [first + k for k in range(ratio * access.count)]
