"""Blocks that overwrite each other's results in global memory.

Takes plain stores to one buffer, raises where the value depends on which block came last.
Invariant: only stores of different values by different blocks count; volatile, relaxed and atomic
accesses, which blocks use to talk to each other, do not.

    block 0 stores 1 to x[0], block 1 stores 2 to x[0]  ->  an error at the second store
"""

import numpy as np

from fjit.backend.ptx.lanes import Group
from fjit.backend.ptx.part import Access, Part


class Writers:
    """Per element of each size, the block that wrote it last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.blocks: dict[int, np.ndarray] = {}

    def write(self, part: Part, access: Access, values: list[np.ndarray]) -> None:
        """Lanes are about to write."""
        last = self._last(part, access)
        block, index = self._own(part.group), part.group.spread(part.index)
        changes = part.differs(values)
        for k in range(access.count):
            before = last[index + k]
            self._refuse(part.group, changes & (before >= 0) & (before != block), before)
            last[index + k] = block

    def written(self, part: Part, access: Access, values: list[np.ndarray]) -> None:
        """Lanes have written; those whose value is not there lost it to another lane."""
        lost = part.differs(values)
        if lost.any():
            last = self._last(part, access)
            for k in range(access.count):
                other = last[part.group.spread(part.index) + k]
                self._refuse(part.group, lost & (other != self._own(part.group)), other)

    def _last(self, part: Part, access: Access) -> np.ndarray:
        if access.size not in self.blocks:
            self.blocks[access.size] = np.full(len(part.array), -1)
        return self.blocks[access.size]

    def _own(self, group: Group) -> np.ndarray:
        return group.of(group.wave.block_numbers)

    def _refuse(self, group: Group, clash: np.ndarray, other: np.ndarray) -> None:
        if clash.any():
            position = int(np.argmax(clash))
            raise group.fault(
                f"it writes another value to {self.name} than block number {int(other[position])} "
                "did: the result depends on which comes last",
                position,
            )
