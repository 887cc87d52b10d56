"""Barriers of blocks.

Takes groups that arrive, gives the lanes that may go on. Invariant: a block's lanes go on when all
its threads, or as many as the instruction says, have come to the barrier of one number.
"""

from __future__ import annotations

import numpy as np

from fjit.backend.ptx.lanes import Group
from fjit.backend.ptx.wave import Wave

Released = list[tuple[int, np.ndarray]]


class Barriers:
    """Per barrier number, how many threads of each block have come, and who waits where."""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.arrived: dict[int, np.ndarray] = {}
        self.waiting: dict[int, list[tuple[int, np.ndarray]]] = {}

    def arrive(self, group: Group, number: int, threads: int, following: int | None) -> Released:
        """Count a group in; `threads` 0 means the whole block, `following` None does not wait."""
        wave = self.wave
        lanes = group.lanes
        blocks = wave.block_of[lanes]
        arrived = self.arrived.setdefault(number, np.zeros(wave.blocks, np.int64))
        arrived += np.bincount(blocks, minlength=wave.blocks)
        waiting = self.waiting.setdefault(number, [])
        if following is not None:
            waiting.append((following, lanes))
        done = arrived >= (threads or wave.shape.threads)
        if not done.any():
            return []
        arrived[done] = 0
        wave.block_epoch[done] += 1
        released: Released = []
        kept: list[tuple[int, np.ndarray]] = []
        for block, those in waiting:
            free = done[wave.block_of[those]]
            for part, into in ((those[free], released), (those[~free], kept)):
                if len(part):
                    into.append((block, part))
        self.waiting[number] = kept
        return released

    def first_waiting(self) -> tuple[int, int, str] | None:
        """The block to go on at, a lane, and what it waits for."""
        for number, waiting in self.waiting.items():
            for block, lanes in waiting:
                lane = int(lanes[0])
                came = int(self.arrived[number][self.wave.block_of[lane]])
                what = f"at barrier {number}, to which {came} threads of the block have come"
                return block, lane, what
        return None
