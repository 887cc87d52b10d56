"""Rows of native steps: the phases of kernels, one after the other or several at once.

Takes what is known of phases, gives the words that the native runner reads (parallel_ir.py).

    Row(address, 64, tasks=3, grain=1, wide=1)    ->    [address, 64, 3, 1, 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """A phase of a kernel: its code, arguments' offset in the table, tasks, and estimated time."""

    address: int
    offset: int
    tasks: int
    grain: int
    wide: int
    ns: float = 0.0

    @property
    def words(self) -> list[int]:
        """The row of a native step."""
        return [self.address, self.offset, self.tasks, self.grain, self.wide]


def batch_words(phases: Sequence[Row]) -> tuple[list[int], int]:
    """What `fjit_batch` reads of phases that run at once, and how many units of work they are."""
    words, units = [len(phases)], 0
    for row in phases:
        grain = max(row.grain, 1)
        words += [units, row.address, row.offset, row.tasks, grain]
        units += -(-row.tasks // grain)
    return words, units
