"""A kernel's GPU code, made from its nest when it is first wanted.

Takes a nest, its text and an architecture, gives a `Code`. Invariant: equal texts share one in this
process, and nothing here needs a driver.

    code = gpu_code(nest, text, GPU_TARGETS["sm_90"])
    code.ptx                        ".version 9.1 .target sm_90 ..."
    code.linked.kernels[0]          phase0: 32 registers, no spills
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import NamedTuple

from fjit.backend import nvvm, simt
from fjit.backend.spread import Spread, spread_of
from fjit.lower.nest import Nest
from fjit.runtime.cubins import Cubin, compiled
from fjit.target import GpuTarget

_codes: dict[tuple[str, GpuTarget, bool], Code] = {}
_lock = threading.Lock()


class Code:
    """One kernel's code for one architecture: the names of its phases, and how they are spread.

    `short` says that its positions fit into 32 bits.
    """

    def __init__(self, nest: Nest, text: str, arch: GpuTarget, *, short: bool, cache: bool) -> None:
        self.arch, self.short, self.cache = arch, short, cache
        self.spreads: tuple[Spread, ...] = tuple(spread_of(nest, p.loop) for p in nest.phases)
        self.names = tuple(f"phase{k}" for k in range(len(nest.phases)))
        self._nest = nest
        self.text = text

    @cached_property
    def ir(self) -> str:
        """The LLVM IR of the module, before libNVVM's passes."""
        text, names = simt.emit(self._nest, short=self.short)
        return nvvm.module([text], [nvvm.Kernel(name) for name in names])

    @cached_property
    def cubin(self) -> Cubin:
        """The machine code, from the disk cache if it is there."""
        return compiled(self.ir, self.arch, cache=self.cache)

    @property
    def ptx(self) -> str:
        """The PTX of the module."""
        return self.cubin.ptx

    @cached_property
    def linked(self) -> nvvm.Linked:
        """The machine code, and what each phase uses of the machine, first to last."""
        by_name = {info.name: info for info in self.cubin.kernels}
        return nvvm.Linked(self.cubin.code, tuple(by_name[name] for name in self.names))


class Usage(NamedTuple):
    """What one phase of a kernel uses of the machine, by the linker's account."""

    name: str
    actual_registers: int
    actual_spills: int
    shared_bytes: int
    stack_bytes: int


def usage_of(kernel: str, info: nvvm.KernelInfo) -> Usage:
    """The account of a phase; spills are stores and loads of four bytes."""
    spills = (info.spill_stores + info.spill_loads) // 4
    return Usage(f"{kernel}.{info.name}", info.registers, spills, info.shared, info.stack)


def gpu_code(
    nest: Nest, text: str, arch: GpuTarget, *, short: bool = False, cache: bool = True
) -> Code:
    """The code of a nest; equal texts share it."""
    key = (text, arch, short)
    with _lock:
        code = _codes.get(key)
        if code is None:
            code = _codes[key] = Code(nest, text, arch, short=short, cache=cache)
        return code


def clear_codes() -> None:
    """Forget all GPU code of this process."""
    with _lock:
        _codes.clear()
