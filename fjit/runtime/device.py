"""An assembly that runs as GPU kernels: launches in place of calls into machine code.

Takes a lowered plan and an architecture, gives an object with `run`, as executable.py's. Invariant:
the words that a kernel takes are those that the CPU's reads from its table: the status word's
address, the buffers' addresses, the slots.

emulated.py runs them in the emulator, cuda_executable.py on a device.

    steps: launch phase0 <<<(1, 67), (64, 4)>>> (status, b0, b1, b2, s0, ...)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fjit.backend.look_back import state_bytes
from fjit.backend.spread import Launch, launch_of, partitions, vector_loops
from fjit.core.ir import Eqn
from fjit.frontend.function import Write
from fjit.lower.assembly import Assembly, Kernel
from fjit.lower.reach import is_short
from fjit.lower.starts import starts
from fjit.optimize.frames import is_frame
from fjit.runtime.executable import Executable
from fjit.runtime.gpu_code import Code, NestCode, gpu_code, product_code
from fjit.runtime.gpu_products import product
from fjit.runtime.options import Options
from fjit.runtime.rows import Row
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
        self.starts: dict[int, int] = {}  # what launches add to pointers, by their words
        super().__init__(assembly, options, writes)

    def build_kernel(self, kernel: Kernel, table: Table) -> list[Row]:
        """Give a kernel a place in the table; a launch for each of its phases."""
        eqn, nest, text, cells = kernel
        assert self.options.gpu is not None
        short = is_short(eqn, nest, self.memory)
        code = gpu_code(nest, text, self.options.gpu, short=short, cache=self.options.cache)
        self.codes.append(code)
        first = table.append(eqn, nest, cells) // 8
        for buffer, slot in starts(nest).items():
            self.starts[first + 1 + buffer] = _number(nest.slots[slot.number])
        for _, sym in table.cells:
            self.symbol(sym)
        state, pointers, slots = 0, 1 + len(nest.buffers), len(nest.slots)
        rows = []
        for number, (name, spread) in enumerate(zip(code.names, code.spreads, strict=True)):
            phase = nest.phases[number]
            extents = [_number(nest.slots[v.extent.number]) for v in vector_loops(phase.loop)]
            across = 0 if spread.across is None else _number(nest.slots[spread.across.number])
            launch = launch_of(spread, phase.tasks, extents, across=across)
            shape = self.spread_out(code, number, launch)
            if phase.tasks:
                rows.append(Row(len(self.launches), 0, phase.tasks, 1, 0))
                words = pointers + slots + bool(spread.carries)
                self.launches.append(KernelLaunch(code, name, shape, first, pointers, words))
            if spread.carries:
                count = partitions(max(extents), shape.block[0])
                state = state_bytes(count, spread.carries)
        if state:
            table.append_state(state)
        return rows

    def together(self, members: list[list[Row]], table: Table) -> list[list[int]]:
        """A launch for each phase."""
        return [row.words for rows in members for row in rows]

    def build_call(self, eqn: Eqn, table: Table, rows: list[list[int]]) -> None:
        """A matrix product is a launch like those of kernels; the host makes other calls."""
        if not is_frame(eqn):
            super().build_call(eqn, table, rows)
            return
        made = product(eqn, self.memory)
        assert self.options.gpu is not None
        code = product_code(made.form, self.options.gpu, cache=self.options.cache)
        self.codes.append(code)
        first = table.append_words(made.values, made.numbers) // 8
        words = len(made.values) + len(made.numbers)
        rows.append(Row(len(self.launches), 0, 1, 1, 0).words)
        (name,) = code.names
        self.launches.append(KernelLaunch(code, name, made.launch, first, len(made.values), words))

    def _fill(self, table: Any, base: int, *more: Any) -> None:
        super()._fill(table, base, *more)
        for word, start in self.starts.items():
            table[word] += start

    def spread_out(self, code: Code, number: int, launch: Launch) -> Launch:
        """The shape of a phase's launch, of which the grid is free: it changes no result."""
        return launch

    def flush(self, rows: list[list[int]]) -> None:
        """Make the launches since the last library call one step."""
        if rows:
            self.steps.append(Launches(tuple(self.launches[k] for k, *_ in rows)))
            rows.clear()

    def workers(self) -> int:
        """How many tasks run at once: private memory is as many."""
        of_nests = (k.shape.places for k in self.launches if isinstance(k.code, NestCode))
        return max(of_nests, default=1)


def _number(slot: int | tuple[str, int]) -> int:
    assert not isinstance(slot, tuple), "an extent is no scalar argument"
    return int(slot)
