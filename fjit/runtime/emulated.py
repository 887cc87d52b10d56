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
from fjit.runtime.device import DeviceExecutable, Launches
from fjit.runtime.executable import NOTHING


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
        held = [table, NOTHING, *results, *(arguments[k] for k in self.pointed)]
        memory = emulator.Memory(held if scratch is None else [*held, scratch])
        for step in self.steps:
            if not isinstance(step, Launches):
                self.call(step.eqn, table, arguments, results, scratch)
                continue
            for launch in step.launches:
                words = table[launch.first : launch.first + launch.words].tolist()
                emulator.launch(
                    launch.code.ptx,
                    launch.name,
                    (*launch.shape.grid, 1),
                    (*launch.shape.block, 1),
                    words,
                    memory=memory,
                )
