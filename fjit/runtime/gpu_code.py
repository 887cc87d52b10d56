"""A kernel's GPU code, made when it is first wanted from its nest, or the form of a product.

Takes a nest and its text, or a form, and an architecture, gives a `Code`. Invariant: equal texts
share one in this process, and nothing here needs a driver.

    code = gpu_code(nest, text, GPU_TARGETS["sm_90"])
    code.ptx                        ".version 9.1 .target sm_90 ..."
    code.linked.kernels[0]          phase0: 32 registers, no spills
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from fjit.backend import nvvm, simt, tiled_product
from fjit.backend.gpu_registers import gpu_pressure, product_pressure
from fjit.backend.registers import Pressure, note
from fjit.backend.spread import Spread, spread_of
from fjit.backend.tiled_product import Form
from fjit.lower.nest import Nest
from fjit.runtime.cubins import Cubin, compiled
from fjit.target import GpuTarget

_codes: dict[tuple[str, GpuTarget], Code] = {}
_lock = threading.Lock()


class Code:
    """Kernels' code for one architecture, and their names; `text` is what it is made from."""

    def __init__(self, text: str, names: tuple[str, ...], arch: GpuTarget, *, cache: bool) -> None:
        self.arch, self.cache = arch, cache
        self.text, self.names = text, names

    @property
    def ir(self) -> str:
        """The LLVM IR of the module, before libNVVM's passes."""
        raise NotImplementedError

    @property
    def foreseen(self) -> tuple[Pressure, ...]:
        """Registers and spills of each phase, as the model foresees them."""
        raise NotImplementedError

    @cached_property
    def cubin(self) -> Cubin:
        """The machine code, from the disk cache if it is there."""
        made = compiled(self.ir, self.arch, cache=self.cache)
        used = {info.name: info for info in made.kernels}
        for name, pressure in zip(self.names, self.foreseen, strict=True):
            note(name, self.arch.name, pressure, used[name].registers, used[name].spills)
        return made

    @property
    def ptx(self) -> str:
        """The PTX of the module."""
        return self.cubin.ptx

    @cached_property
    def linked(self) -> nvvm.Linked:
        """The machine code, and what each phase uses of the machine, first to last."""
        by_name = {info.name: info for info in self.cubin.kernels}
        return nvvm.Linked(self.cubin.code, tuple(by_name[name] for name in self.names))


class NestCode(Code):
    """The code of a nest: a kernel for each of its phases, and how they are spread.

    `short` says that its positions fit into 32 bits.
    """

    def __init__(self, nest: Nest, text: str, arch: GpuTarget, *, short: bool, cache: bool) -> None:
        names = tuple(f"phase{k}" for k in range(len(nest.phases)))
        super().__init__(text, names, arch, cache=cache)
        self.spreads: tuple[Spread, ...] = tuple(spread_of(nest, p.loop) for p in nest.phases)
        self.nest, self.short = nest, short

    @property
    def foreseen(self) -> tuple[Pressure, ...]:
        """Registers and spills of each phase, as the model foresees them."""
        return tuple(gpu_pressure(self.nest, p.loop, self.arch) for p in self.nest.phases)

    @cached_property
    def ir(self) -> str:
        """The LLVM IR of the module, before libNVVM's passes."""
        text, names = simt.emit(self.nest, short=self.short)
        return nvvm.module([text], [nvvm.Kernel(name) for name in names])


class ProductCode(Code):
    """The code of a matrix product."""

    def __init__(self, form: Form, arch: GpuTarget, *, cache: bool) -> None:
        super().__init__(repr(form), (tiled_product.NAME,), arch, cache=cache)
        self.form = form

    @property
    def foreseen(self) -> tuple[Pressure, ...]:
        """Registers and spills, as the model foresees them."""
        return (product_pressure(self.form),)

    @cached_property
    def ir(self) -> str:
        """The LLVM IR of the module, before libNVVM's passes."""
        kernel = nvvm.Kernel(tiled_product.NAME, self.form.tiling.threads, self.form.resident)
        return nvvm.module([tiled_product.emit(self.form)], [kernel])


class Usage(NamedTuple):
    """What one phase of a kernel uses of the machine, foreseen and by the linker's account."""

    name: str
    predicted_registers: int
    actual_registers: int
    predicted_spills: int
    actual_spills: int
    shared_bytes: int
    stack_bytes: int


def usage_of(kernel: str, code: Code) -> list[Usage]:
    """The accounts of a kernel's phases."""
    return [
        Usage(
            f"{kernel}.{info.name}", foreseen.registers, info.registers, foreseen.spills,
            info.spills, info.shared, info.stack,
        )
        for foreseen, info in zip(code.foreseen, code.linked.kernels, strict=True)
    ]  # fmt: skip


def gpu_code(
    nest: Nest, text: str, arch: GpuTarget, *, short: bool = False, cache: bool = True
) -> NestCode:
    """The code of a nest; equal texts share it."""
    key = f"short\n{text}" if short else text
    code = _shared(key, arch, lambda: NestCode(nest, text, arch, short=short, cache=cache))
    assert isinstance(code, NestCode)
    return code


def product_code(form: Form, arch: GpuTarget, *, cache: bool = True) -> Code:
    """The code of a matrix product."""
    return _shared(repr(form), arch, lambda: ProductCode(form, arch, cache=cache))


def _shared(text: str, arch: GpuTarget, make: Callable[[], Code]) -> Code:
    with _lock:
        code = _codes.get((text, arch))
        if code is None:
            code = _codes[text, arch] = make()
        return code


def clear_codes() -> None:
    """Forget all GPU code of this process."""
    with _lock:
        _codes.clear()
