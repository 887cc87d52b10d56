"""Threads of a warp that wait for each other at an instruction with a member mask.

Takes groups that come to such an instruction, gives those whose members are all there. Invariant:
the instruction runs once for all lanes that its mask names, whatever way they came.

    lanes 0-15 come to shfl.sync with mask -1  ->  None; lanes 16-31 come  ->  lanes 0-31
"""

from __future__ import annotations

import numpy as np

from fjit.backend.ptx.blocks import Block
from fjit.backend.ptx.lanes import Group, narrowed
from fjit.backend.ptx.warps import ballot, present
from fjit.backend.ptx.wave import Wave


class Meetings:
    """Lanes that wait for the rest of their warp, by block."""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.waiting: dict[int, np.ndarray] = {}
        everyone = Group(wave, None)
        self.existing = ballot(everyone, np.ones(1, bool))

    def meet(self, block: Block, number: int, group: Group) -> np.ndarray | None:
        """The lanes that may go on."""
        assert block.meets is not None
        before = self.waiting.pop(number, None)
        if before is not None:
            group = Group(self.wave, narrowed(np.sort(np.concatenate([before, group.lanes]))))
        wave, lanes = self.wave, group.lanes
        mask = group.spread(block.meets(group))
        outside = (mask >> wave.lane_in_warp[lanes].astype(np.uint32)) & np.uint32(1) == 0
        if outside.any():
            raise group.fault("the thread is not in its own member mask", int(np.argmax(outside)))
        needed = mask & self.existing[wave.warp_of[lanes]]
        ready = (present(group) & needed) == needed
        if not ready.all():
            self.waiting[number] = lanes[~ready]
            lanes = lanes[ready]
        if not len(lanes):
            return None
        wave.warp_epoch[wave.warp_of[lanes]] += 1
        return lanes

    def first_waiting(self) -> tuple[int, int, str] | None:
        """The block of the instruction, a lane, and what it waits for."""
        for number, lanes in self.waiting.items():
            return number, int(lanes[0]), "for all threads of its member mask"
        return None
