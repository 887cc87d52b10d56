"""The threads that run together: some blocks of a launch, their registers and memory.

Takes code, the launch's shape and global memory, gives the state that steps work on. Invariant:
lane k is thread k % n of block k // n of the wave, where blocks have n threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fjit.backend.ptx.buffers import Memory
from fjit.backend.ptx.code import Code
from fjit.backend.ptx.lanes import Group, Registers
from fjit.backend.ptx.memory import Generic
from fjit.backend.ptx.part import Space
from fjit.backend.ptx.program import Sym
from fjit.backend.ptx.scratch import Scratch
from fjit.backend.ptx.shape import Shape, coordinates
from fjit.backend.ptx.special import FIXED
from fjit.backend.ptx.traffic import Traffic

WARP = 32


@dataclass(frozen=True, slots=True)
class Launch:
    """What the waves of a launch have in common; `symbols` are addresses of variables."""

    code: Code
    shape: Shape
    memory: Memory
    symbols: dict[str, int]
    checks: bool
    traffic: Traffic | None = None


class Wave:
    """`blocks` blocks from number `first` on."""

    def __init__(self, launch: Launch, first: int, blocks: int) -> None:
        self.launch, self.code, self.shape = launch, launch.code, launch.shape
        self.traffic = launch.traffic
        threads = self.shape.threads
        self.count = blocks * threads
        self.blocks = blocks
        self.lanes = np.arange(self.count)
        self.thread_numbers = self.lanes % threads
        self.block_of = self.lanes // threads
        self.block_numbers = self.block_of + first
        per_block = -(-threads // WARP)
        self.warps = blocks * per_block
        self.warp_of = self.block_of * per_block + self.thread_numbers // WARP
        self.lane_in_warp = self.thread_numbers % WARP
        self.block_epoch = np.zeros(blocks, np.int32)
        self.warp_epoch = np.zeros(self.warps, np.int32)
        self.registers = Registers(self.code.module.registers, self.count, launch.checks)
        for slot in self.code.module.undefined:
            self.registers.values[slot] = np.zeros(1, self.registers.names[slot].type.stored)
        self.clock = 0
        self.cache: dict[str, np.ndarray] = {}
        self.frame, self.spaces = self._make_spaces()

    def _make_spaces(self) -> tuple[Scratch, dict[str, Space]]:
        code, checks, cell = self.code, self.launch.checks, self.code.cell
        one_block = np.zeros(1, np.int64)

        def block(group: Group) -> np.ndarray:
            return one_block if self.blocks == 1 else group.of(self.block_of)

        def thread(group: Group) -> np.ndarray:
            return group.lanes

        shared = Scratch("shared", self.shape.shared, self.blocks, block, cell, checks)
        if checks and self.shape.shared:
            shared.watch_races()
        local = Scratch("local", code.local.size, self.count, thread, cell, checks)
        frame = Scratch("parameter", code.frame.size, self.count, thread, cell, checks)
        spaces: dict[str, Space] = {
            "global": self.launch.memory,
            "shared": shared,
            "local": local,
            "frame": frame,
        }
        return frame, {**spaces, "generic": Generic(spaces)}

    def special(self, name: str, group: Group) -> np.ndarray:
        """A special register for the lanes of a group."""
        if name not in FIXED:
            ticks = self.clock >> 32 if name.endswith("_hi") else self.clock
            return np.array([ticks], np.uint64)
        if name not in self.cache:
            self.cache[name] = np.asarray(FIXED[name](self)).astype(np.uint64)
        value = self.cache[name]
        return value if len(value) == 1 else group.of(value)

    def address_of(self, symbol: Sym) -> np.ndarray:
        """The address of a variable in its own state space."""
        return np.array([self.launch.symbols[symbol.name] + symbol.offset], np.uint64)

    def parameter_space(self, name: str) -> Space:
        """Where a parameter is: a call's in the frame, a kernel's in global memory."""
        return self.frame if name in self.code.frame.places else self.spaces["global"]

    def thread_text(self, lane: int) -> str:
        """A lane's thread and block as messages name them."""
        return f"{self._place(lane, block=False)} of block {self._place(lane, block=True)}"

    def _place(self, lane: int, block: bool) -> str:
        numbers = self.block_numbers if block else self.thread_numbers
        shape = self.shape.grid if block else self.shape.block
        found = [int(coordinates(numbers[lane : lane + 1], shape, axis)[0]) for axis in range(3)]
        return "(" + ", ".join(map(str, found)) + ")"
