"""GPU kernels run by the emulator, on the host's memory.

Takes a lowered plan and an architecture, gives an object with `run`, as executable.py's. Invariant:
what runs is the PTX that a device of the architecture gets.

    EmulatedExecutable(assembly, options).run([x])    ->    outputs, run-time extents
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fjit.backend import emulator
from fjit.core.ir import Sym
from fjit.runtime.addresses import NOTHING
from fjit.runtime.alignment import settled
from fjit.runtime.buffers import ALIGNMENT
from fjit.runtime.device import DeviceExecutable, Launches


class EmulatedExecutable(DeviceExecutable):
    """Runs the kernels' PTX in the emulator, on the host's memory."""

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
        if self.zeroed.stop > self.zeroed.start:
            scratch[self.zeroed] = 0
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
        # What holds nothing has room, too: a load that no step needs may stand before the loops.
        arrays += [scratch[at : at + (size or ALIGNMENT)] for at, size in pairs]
        patches = zip(self.patch_at, self.patch_from, strict=True)
        found: dict[int, Any] = {
            int(at): emulator.Pointer(arrays[which], self.starts.get(int(at), 0))
            for at, which in patches
        }
        for at, offset in zip(self.inner_at, self.inner_offset, strict=True):
            found[int(at)] = table[offset // 8 : offset // 8 + 1]
        for at, offset in self.shared:
            found[at] = scratch[offset : self.private_from]
        for at, offset, nbytes in self.private:
            start = self.private_from + offset * count
            found[at] = scratch[start : start + nbytes * count]
        return found
