"""How well warps' accesses coalesce: sectors of global memory, bank conflicts of shared memory.

Takes the addresses of one access of a group, adds to a `Traffic`. Invariant: a warp's access is
counted once for each instruction that its lanes execute together, as hardware sees it.

    32 lanes load neighbouring floats    128 bytes asked for, 4 sectors: ratio 1
    32 lanes load a column of floats     128 bytes, 32 sectors: ratio 8
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fjit.backend.ptx.lanes import Group
from fjit.backend.ptx.part import Access

SECTOR = 32
BANKS = 32
BANK_BYTES = 4
PASS_BYTES = BANKS * BANK_BYTES
WARP = 32


@dataclass(slots=True)
class Traffic:
    """Counts over launches; see `fjit.backend.emulator.counting`.

    `sectors` are the 32-byte pieces of global memory that warps' loads and stores touch, `bytes`
    what they ask for, equal addresses within a warp once. `passes` are the passes through the banks
    of shared memory that warps' accesses take, `conflicts` those beyond the first of each.
    Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory", "Shared Memory and
    Memory Banks".
    """

    sectors: int = 0
    bytes: int = 0
    passes: int = 0
    conflicts: int = 0

    @property
    def ratio(self) -> float:
        """Bytes that go through memory over bytes that are asked for: 1 is the least."""
        return self.sectors * SECTOR / self.bytes if self.bytes else 1.0

    def note(self, group: Group, space: str, address: np.ndarray, access: Access) -> None:
        """Count one access of all lanes of a group."""
        size = access.size * access.count
        warps = group.of(group.wave.warp_of).astype(np.uint64)
        if space == "global":
            self._note_global(warps, group.spread(address), size)
        elif space == "shared":
            lanes = group.of(group.wave.lane_in_warp).astype(np.uint64)
            self._note_shared(warps, lanes, group.spread(address), size)

    def _note_global(self, warps: np.ndarray, address: np.ndarray, size: int) -> None:
        pairs = np.unique(np.stack([warps, address]), axis=1)
        self.bytes += size * pairs.shape[1]
        first, last = pairs[1] // SECTOR, (pairs[1] + np.uint64(size - 1)) // SECTOR
        pieces = int((last - first).max(initial=0)) + 1
        touched = [np.stack([pairs[0], np.minimum(first + np.uint64(k), last)])
                   for k in range(pieces)]  # fmt: skip
        self.sectors += np.unique(np.concatenate(touched, axis=1), axis=1).shape[1]

    def _note_shared(
        self, warps: np.ndarray, lanes: np.ndarray, address: np.ndarray, size: int
    ) -> None:
        """Lanes of a warp that together ask for more than one pass holds take turns."""
        turns = max(1, WARP * size // PASS_BYTES)
        turn = warps * np.uint64(turns) + lanes // np.uint64(WARP // turns)
        words = address // BANK_BYTES
        each = max(1, size // BANK_BYTES)
        found = [np.stack([turn, words + np.uint64(k)]) for k in range(each)]
        pairs = np.unique(np.concatenate(found, axis=1), axis=1)
        place = np.stack([pairs[0], pairs[1] % BANKS])
        banks, counts = np.unique(place, axis=1, return_counts=True)
        accesses, start = np.unique(banks[0], return_index=True)
        passes = int(np.maximum.reduceat(counts, start).sum())
        self.passes += passes
        self.conflicts += passes - len(accesses)
