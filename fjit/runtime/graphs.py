"""Kernels that are launched together again and again, replayed as one CUDA graph.

Takes the launches of a step, gives an object that queues them. Invariant: what runs depends on the
words alone: a graph is used only where all of them are those that it was recorded with.

    first call with some addresses     launch phase0, launch phase0, launch phase1
    second call with them              the same, recorded
    later calls with them              launch graph
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from fjit.core.placed import Array
from fjit.errors import DriverError
from fjit.runtime import driver as drivers
from fjit.runtime.devices import Device
from fjit.runtime.driver import Launch

MOST: Final = 8
"""Sets of words that a step remembers, as results take turns in a few places of memory."""


class Kernel(NamedTuple):
    """A launch whose words stand in a table."""

    function: int
    grid: tuple[int, int]
    block: tuple[int, int]
    first: int
    words: int


class Replay:
    """Queues a step's kernels. See the module's docstring."""

    def __init__(self, device: Device, kernels: Sequence[Kernel]) -> None:
        self.device, self.kernels = device, tuple(kernels)
        self._from = min(kernel.first for kernel in kernels)
        self._to = max(kernel.first + kernel.words for kernel in kernels)
        self._lock = threading.Lock()
        self._graphs: OrderedDict[bytes, int] = OrderedDict()  # 0: seen once, not recorded

    def run(self, table: Array, stream: int) -> None:
        """Queue the kernels with the words of this table."""
        if len(self.kernels) == 1 or not self._replayed(table, stream):
            for launch in self._launches(table):
                self.device.driver.launch(launch, stream)

    def _launches(self, table: Array) -> list[Launch]:
        return [
            Launch(function, grid, block, table[first : first + words])
            for function, grid, block, first, words in self.kernels
        ]

    def _replayed(self, table: Array, stream: int) -> bool:
        """Launch the graph of these words, if they came before."""
        key = table[self._from : self._to].tobytes()
        driver = self.device.driver
        with self._lock:
            graph = self._graphs.get(key)
            if graph == 0:
                graph = self._graphs[key] = driver.graph(self._launches(table))
            elif graph is None:
                self._graphs[key] = 0
                while len(self._graphs) > MOST:
                    self._forget(self._graphs.popitem(last=False)[1])
            if not graph:
                return False
            self._graphs.move_to_end(key)
            driver.launch_graph(graph, stream)
            return True

    def _forget(self, graph: int) -> None:
        if graph:
            self.device.driver.destroy_graph(graph)

    def __del__(self) -> None:
        """Give the graphs back."""
        if drivers.is_usable() and any(self._graphs.values()):
            with contextlib.suppress(DriverError), self.device.active():
                for graph in self._graphs.values():
                    self._forget(graph)
