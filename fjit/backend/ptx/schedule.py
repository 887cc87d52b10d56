"""Which lanes run next.

Takes a wave, runs it to its end. Invariant: of the places where lanes are ready the first in the
text runs next, so that lanes which parted meet again; lanes that wait for others in a loop step
back until those others have had their turn, so that every spin ends that can end.

    lanes 0-3 at block 2, lanes 4-7 at block 5  ->  2 runs for 0-3, which reach 5; 5 for 0-7
"""

from __future__ import annotations

import numpy as np

from fjit.backend.ptx.barriers import Barriers
from fjit.backend.ptx.blocks import Block
from fjit.backend.ptx.lanes import Fault, Group, Index, narrowed
from fjit.backend.ptx.meeting import Meetings
from fjit.backend.ptx.program import Instruction
from fjit.backend.ptx.wave import Wave
from fjit.errors import EmulatorError

PATIENCE = 1 << 9
"""Jumps back after which even lanes in a loop that looks harmless step back once."""

Queue = dict[int, list[Index]]


class Scheduler:
    """Lanes that are ready, by block; those that stepped back; and those that wait."""

    def __init__(self, wave: Wave, max_steps: int) -> None:
        self.wave = wave
        self.left = self.max_steps = max_steps
        self.ready: Queue = {0: [None]}
        self.later: Queue = {}
        self.jumps = 0
        self.returns: dict[str, np.ndarray] = {}
        self.exited = np.zeros(wave.count, bool)
        self.barriers = Barriers(wave)
        self.meetings = Meetings(wave)

    # What endings call

    def push(self, block: int, group: Group) -> None:
        self.ready.setdefault(block, []).append(group.index)

    def push_back(self, block: int, group: Group, spins: bool) -> None:
        """A jump back; one over an access that waits for other lanes lets those run first."""
        self.jumps += 1
        if spins or self.jumps > PATIENCE:
            self.jumps = 0
            self.later.setdefault(block, []).append(group.index)
        else:
            self.push(block, group)

    def exit(self, group: Group) -> None:
        self.exited[slice(None) if group.index is None else group.index] = True

    def wait(self, group: Group, number: int, threads: int, following: int | None) -> None:
        """A barrier: lanes go on at block `following` once enough have come."""
        for block, lanes in self.barriers.arrive(group, number, threads, following):
            self.ready.setdefault(block, []).append(lanes)

    def enter(self, name: str, start: int, following: int, group: Group) -> None:
        """A call."""
        places = self.returns.setdefault(name, np.zeros(self.wave.count, np.int64))
        places[group.lanes] = following
        self.push(start, group)

    def leave(self, name: str, group: Group) -> None:
        """A return, to where each lane came from."""
        places = self.returns[name][group.lanes]
        for place in np.unique(places):
            part = group.where(places == place)
            assert part is not None
            for source, target, size in self.wave.code.returns[int(place)]:
                self.wave.frame.copy(part, source, target, size)
            self.push(int(place), part)

    # Running

    def run(self) -> None:
        """Run until all lanes have exited."""
        blocks = self.wave.code.blocks
        while self.ready or self.later:
            if not self.ready:
                self.ready, self.later = self.later, {}
            number = min(self.ready)
            group = Group(self.wave, self._merged(self.ready.pop(number)))
            block = blocks[number]
            if block.meets is not None:
                met = self._meet(block, number, group)
                if met is None:
                    continue
                group = met
            self._run(block, group)
        self._refuse_waiting()

    def _merged(self, parts: list[Index]) -> Index:
        """Lanes that came to one block from several."""
        if len(parts) == 1:
            index = parts[0]
        else:
            every = self.wave.lanes
            index = np.sort(np.concatenate([every[part] for part in parts if part is not None]))
        if isinstance(index, np.ndarray):
            index = narrowed(index)
        whole = isinstance(index, slice) and index.stop - index.start == self.wave.count
        return None if whole else index

    def _meet(self, block: Block, number: int, group: Group) -> Group | None:
        try:
            met = self.meetings.meet(block, number, group)
        except Fault as fault:
            raise self._error(fault, block.instructions[0]) from None
        return None if met is None else Group(self.wave, self._merged([met]))

    def _run(self, block: Block, group: Group) -> None:
        done = 0
        try:
            for step in block.steps:
                step(group)
                done += 1
            block.end(self, group)
        except Fault as fault:
            raise self._error(fault, block.instructions[done]) from None
        self.wave.clock += len(block.instructions) + 1
        self.left -= len(block.instructions) + 1
        if self.left < 0 and (self.ready or self.later):
            raise self._endless(block, group)

    # Errors

    def _error(self, fault: Fault, ins: Instruction) -> EmulatorError:
        thread = self.wave.thread_text(fault.lane)
        return EmulatorError(f"{ins.text} (PTX line {ins.line}), thread {thread}: {fault.reason}.")

    def _endless(self, block: Block, group: Group) -> EmulatorError:
        thread = self.wave.thread_text(int(group.lanes[0]))
        where = block.instructions[-1] if block.instructions else None
        at = f" at {where.text} (PTX line {where.line})" if where else ""
        return EmulatorError(
            f"still running after {self.max_steps} steps, thread {thread}{at}: a loop that never "
            "ends, or one that waits for what a later block writes. Raise max_steps if the kernel "
            "needs more; a block may wait for blocks before it only."
        )

    def _refuse_waiting(self) -> None:
        """All lanes that are left wait for others: a deadlock."""
        waiting = self.barriers.first_waiting() or self.meetings.first_waiting()
        if waiting is None:
            return
        block, lane, what = waiting
        ins = self._instruction(block)
        thread, wave = self.wave.thread_text(lane), self.wave
        gone = np.flatnonzero(self.exited & (wave.block_of == wave.block_of[lane]))
        others = "the others wait elsewhere"
        if len(gone):
            others = f"thread {wave.thread_text(int(gone[0]))} has exited"
        raise EmulatorError(
            f"{ins.text} (PTX line {ins.line}), thread {thread}: a deadlock: it waits {what}, but "
            f"{others}. All threads must come to the same barrier."
        )

    def _instruction(self, block: int) -> Instruction:
        """The instruction at which lanes wait that are to go on at a block."""
        own = self.wave.code.blocks[block]
        if own.meets is not None and block in self.meetings.waiting:
            return own.instructions[0]
        return self.wave.code.blocks[block - 1].instructions[-1]
