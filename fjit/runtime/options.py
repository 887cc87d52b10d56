"""How kernels are to run: what a caller may choose, and what a native call is told.

Takes nothing, gives data classes that load no code generator.

    Options(host(), threads=2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fjit.target import CpuTarget, GpuTarget


class Options(NamedTuple):
    """What a caller may choose: machine, vector lanes (0: the machine's), threads, disk cache.

    `gpu` is the architecture of a GPU that runs the kernels instead.
    """

    target: CpuTarget
    width: int = 0
    threads: int | None = None
    cache: bool = True
    gpu: GpuTarget | None = None


@dataclass(slots=True)
class Native:
    """Kernels that run in one native call: rows of phase, table offset, tasks, grain, parallel."""

    steps: np.ndarray[Any, np.dtype[np.int64]]
    address: int
