"""A kernel's GPU code: PTX from its nest, and the linked cubin when somebody wants it.

Takes a nest, its text and an architecture, gives a `Code`, from the disk cache if it is there.
Invariant: equal texts share one, in this process and on disk, and nothing here needs a driver.

    code = gpu_code(nest, text, GPU_TARGETS["sm_90"])
    code.ptx                        ".version 9.1 .target sm_90 ..."
    code.linked.kernels[0]          phase0: 32 registers, no spills
"""

from __future__ import annotations

import dataclasses
import json
import threading
from functools import cached_property
from typing import NamedTuple

from fjit.backend import nvvm, simt
from fjit.backend.spread import Spread, spread_of
from fjit.lower.nest import Nest
from fjit.runtime.cache import default_cache, sources_digest
from fjit.target import GpuTarget

_codes: dict[tuple[str, GpuTarget], Code] = {}
_lock = threading.Lock()


class Code:
    """One kernel's code for one architecture; `fresh` if this process compiled the PTX."""

    def __init__(self, nest: Nest, text: str, arch: GpuTarget, *, cache: bool) -> None:
        self.arch, self.cache, self.fresh = arch, cache, False
        self.spreads: tuple[Spread, ...] = tuple(spread_of(nest, p.loop) for p in nest.phases)
        self.names = tuple(f"phase{k}" for k in range(len(nest.phases)))
        self._nest, self._text = nest, text

    @cached_property
    def ir(self) -> str:
        """The LLVM IR of the module, before libNVVM's passes."""
        text, names = simt.emit(self._nest)
        return nvvm.module([text], [nvvm.Kernel(name) for name in names])

    @cached_property
    def ptx(self) -> str:
        """The PTX of the module."""
        found = self._stored("ptx")
        if found is not None:
            return found.decode()
        self.fresh = True
        ptx = nvvm.compile_ptx(self.ir, self.arch)
        self._store("ptx", ptx.encode())
        return ptx

    @cached_property
    def linked(self) -> nvvm.Linked:
        """The cubin, and what each phase uses of the machine."""
        found = self._stored("cubin")
        if found is not None:
            line, _, cubin = found.partition(b"\n")
            infos = tuple(nvvm.KernelInfo(**fields) for fields in json.loads(line))
            return nvvm.Linked(cubin, infos)
        linked = nvvm.link(self.ptx, self.arch)
        by_name = {info.name: info for info in linked.kernels}
        linked = nvvm.Linked(linked.cubin, tuple(by_name[name] for name in self.names))
        line = json.dumps([dataclasses.asdict(info) for info in linked.kernels]).encode()
        self._store("cubin", line + b"\n" + linked.cubin)
        return linked

    def _key(self, kind: str) -> str:
        return nvvm.key("\0".join((kind, sources_digest(), self._text)), self.arch)

    def _stored(self, kind: str) -> bytes | None:
        return default_cache().get(self._key(kind)) if self.cache else None

    def _store(self, kind: str, data: bytes) -> None:
        if self.cache:
            default_cache().put(self._key(kind), data)


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


def gpu_code(nest: Nest, text: str, arch: GpuTarget, *, cache: bool = True) -> Code:
    """The code of a nest; equal texts share it."""
    key = (text, arch)
    with _lock:
        code = _codes.get(key)
        if code is None:
            code = _codes[key] = Code(nest, text, arch, cache=cache)
        return code


def clear_codes() -> None:
    """Forget all GPU code of this process."""
    with _lock:
        _codes.clear()
