"""An assembly that runs as GPU kernels: launches in place of calls into machine code.

Takes a lowered plan and an architecture, gives an object with `run`, as executable.py's. Invariant:
the words that a kernel takes are those that the CPU's reads from its table: the status word's
address, the buffers' addresses, the slots.

    steps: launch phase0 <<<(1, 67), (64, 4)>>> (status, b0, b1, b2, s0, ...)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fjit.backend import emulator
from fjit.backend.spread import Launch, launch_of, vector_loops
from fjit.core.ir import Sym
from fjit.frontend.function import Write
from fjit.lower.assembly import Assembly, Kernel
from fjit.runtime.alignment import settled
from fjit.runtime.executable import NOTHING, Executable, Options
from fjit.runtime.gpu_code import Code, gpu_code
from fjit.runtime.table import Table


class KernelLaunch(NamedTuple):
    """One phase's launch: its code, its shape, and which words of the table it takes."""

    code: Code
    name: str
    shape: Launch
    first: int
    pointers: int
    words: int


class Launches(NamedTuple):
    """Launches between two library calls."""

    launches: tuple[KernelLaunch, ...]


class DeviceExecutable(Executable):
    """Runs a lowered plan as GPU kernels. See the module's docstring."""

    def __init__(self, assembly: Assembly, options: Options, writes: Sequence[Write] = ()) -> None:
        self.codes: list[Code] = []
        self.launches: list[KernelLaunch] = []
        super().__init__(assembly, options, writes)

    def build_kernel(self, kernel: Kernel, table: Table) -> list[list[int]]:
        """Give a kernel a place in the table; a launch for each of its phases."""
        eqn, nest, text, cells = kernel
        assert self.options.gpu is not None
        code = gpu_code(nest, text, self.options.gpu, cache=self.options.cache)
        self.codes.append(code)
        first = table.append(eqn, nest, cells) // 8
        for _, sym in table.cells:
            self.symbol(sym)
        rows = []
        for name, spread, phase in zip(code.names, code.spreads, nest.phases, strict=True):
            extents = [_number(nest.slots[v.extent.number]) for v in vector_loops(phase.loop)]
            shape = launch_of(spread, phase.tasks, extents)
            if phase.tasks:
                rows.append([len(self.launches)])
                pointers, slots = 1 + len(nest.buffers), len(nest.slots)
                self.launches.append(
                    KernelLaunch(code, name, shape, first, pointers, pointers + slots)
                )
        return rows

    def flush(self, rows: list[list[int]]) -> None:
        """Make the launches since the last library call one step."""
        if rows:
            self.steps.append(Launches(tuple(self.launches[k] for (k,) in rows)))
            rows.clear()

    def workers(self) -> int:
        """How many tasks run at once: private memory is as many."""
        return max((launch.shape.places for launch in self.launches), default=1)

    def run(self, arguments: Sequence[Any]) -> tuple[list[Any], dict[Sym, int]]:
        """Run on arrays and numbers; what a GPU cannot read where it is runs on a copy."""
        pointed = frozenset(self.pointed)
        given = [settled(a) if k in pointed else a for k, a in enumerate(arguments)]
        outcome = super().run(given)
        written = [*self.over.values(), *(write.position for write in self.parts.values())]
        for k in dict.fromkeys(written):
            if given[k] is not arguments[k]:
                np.copyto(arguments[k], given[k])
        return outcome


class EmulatedExecutable(DeviceExecutable):
    """Runs the kernels' PTX in the emulator, on the host's memory."""

    def run_steps(
        self,
        table: np.ndarray[Any, Any],
        base: int,
        arguments: Sequence[Any],
        results: list[Any],
        scratch: Any,
        count: int,
    ) -> None:
        """Run the steps in order on memory that is in place."""
        places = self._arrays(table, arguments, results, scratch, count)
        for step in self.steps:
            if not isinstance(step, Launches):
                self.call(step.eqn, table, arguments, results, scratch)
                continue
            for launch in step.launches:
                last = launch.first + launch.words
                words = [places.get(at, int(table[at])) for at in range(launch.first, last)]
                shape = launch.shape
                emulator.launch(launch.code.ptx, launch.name, shape.grid, shape.block, words)

    def _arrays(
        self,
        table: np.ndarray[Any, Any],
        arguments: Sequence[Any],
        results: list[Any],
        scratch: Any,
        count: int,
    ) -> dict[int, Any]:
        """What each word of the table that is an address points to."""
        pointed = frozenset(self.pointed)
        arrays = [arguments[k] if k in pointed else NOTHING for k in range(len(self.empty))]
        arrays += [r if r.size else NOTHING for r in results]
        sizes = [v.aval.nbytes for v in self.offsets]
        pairs = zip(self.offsets.values(), sizes, strict=True)
        arrays += [scratch[at : at + max(size, 1)] for at, size in pairs]
        patches = zip(self.patch_at, self.patch_from, strict=True)
        found = {int(at): arrays[which] for at, which in patches}
        for at, offset in zip(self.inner_at, self.inner_offset, strict=True):
            found[int(at)] = table[offset // 8 : offset // 8 + 1]
        for at, offset in self.shared:
            found[at] = scratch[offset : self.private_from]
        for at, offset, nbytes in self.private:
            start = self.private_from + offset * count
            found[at] = scratch[start : start + nbytes * count]
        return found


def _number(slot: int | tuple[str, int]) -> int:
    assert not isinstance(slot, tuple), "an extent is no scalar argument"
    return int(slot)
