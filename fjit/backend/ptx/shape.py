"""The shape of a launch.

Takes extents, gives counts. Invariant: threads and blocks are numbered with x fastest.

    grid (2, 1, 1), block (32, 4, 1)  ->  2 blocks of 128 threads
"""

from dataclasses import dataclass

import numpy as np

Extents = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """Grid and block, and the bytes of shared memory: those given at launch, and all."""

    grid: Extents
    block: Extents
    dynamic: int
    shared: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


def coordinates(number: np.ndarray, extents: Extents, axis: int) -> np.ndarray:
    """The coordinate on an axis of linear numbers."""
    step = int(np.prod(extents[:axis], dtype=np.int64))
    return np.asarray(number // step % extents[axis])
