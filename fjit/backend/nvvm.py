"""From LLVM text to PTX by libNVVM, and from PTX to a cubin by nvJitLink; no driver is needed.

Takes texts of functions and a `GpuTarget`, gives PTX, the cubin, and what each kernel uses of the
machine. Invariant: arithmetic is IEEE's (no contraction, no flush to zero, correctly rounded
division and root) unless `options` ask otherwise, and equal inputs give equal code.

    text = module([function], [Kernel("k", threads=256)])
    ptx = compile_ptx(text, GPU_TARGETS["sm_90"])
    link(ptx, GPU_TARGETS["sm_90"]).kernels[0].registers   ->   16

Every call makes and destroys its own program, so calls from several threads do not meet.
"""

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fjit.backend import toolkit
from fjit.backend.dialect import typed
from fjit.errors import InternalError
from fjit.target import GpuTarget

TRIPLE = "nvptx64-nvidia-cuda"
LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64"
    "-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
)
IR_VERSION = (2, 0, 3, 1)  # of NVVM IR and of its debug information
STRICT = {"fma": 0, "ftz": 0, "prec-div": 1, "prec-sqrt": 1, "opt": 3}

Options = Mapping[str, int]
NO_OPTIONS: Options = MappingProxyType({})

_LIBDEVICE_USE = re.compile(r"^declare .*@__nv_", re.MULTILINE)
_PLACE = re.compile(r"\((\d+), \d+\)")
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[\d+\]")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function that the host launches; `threads` is the block size it is compiled for.

    `resident` blocks of it are to fit on a multiprocessor, by their registers.
    """

    name: str
    threads: int | None = None
    resident: int | None = None


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What the linker says one kernel uses: registers per thread, the rest in bytes."""

    name: str
    registers: int
    spill_stores: int
    spill_loads: int
    shared: int
    stack: int
    constant: int

    @property
    def spills(self) -> int:
        """Stores and loads of four bytes."""
        return (self.spill_stores + self.spill_loads) // 4


@dataclass(frozen=True, slots=True)
class Linked:
    """Machine code of one architecture and what its kernels use, in the order of the code."""

    cubin: bytes
    kernels: tuple[KernelInfo, ...]


def module(parts: Iterable[str], kernels: Sequence[Kernel]) -> str:
    """Return the text of a module of functions, globals and declarations, some of them kernels.

    A part that stands twice, such as a helper of two kernels, is written once.
    """
    header = f'target triple = "{TRIPLE}"\ntarget datalayout = "{LAYOUT}"\n'
    version = ", ".join(f"i32 {number}" for number in IR_VERSION)
    notes = [line for kernel in kernels for line in _annotations(kernel)]
    numbered = [f"!{number} = {note}" for number, note in enumerate(notes, 1)]
    listed = ", ".join(f"!{number}" for number in range(1, len(notes) + 1))
    tail = ["!nvvmir.version = !{!0}", f"!nvvm.annotations = !{{{listed}}}", f"!0 = !{{{version}}}"]
    return "\n".join([header, *dict.fromkeys(parts), *tail, *numbered, ""])


def _annotations(kernel: Kernel) -> list[str]:
    notes = [f'!{{ptr @{kernel.name}, !"kernel", i32 1}}']
    if kernel.threads is not None:
        notes.append(f'!{{ptr @{kernel.name}, !"maxntidx", i32 {kernel.threads}}}')
    if kernel.resident is not None:
        notes.append(f'!{{ptr @{kernel.name}, !"minctasm", i32 {kernel.resident}}}')
    return notes


# Compiling


def compile_ptx(text: str, arch: GpuTarget, options: Options = NO_OPTIONS) -> str:
    """Return the PTX of a module.

    `options` of libNVVM override the strict ones: {"fma": 1}. libdevice is linked when the text
    declares a function of it. Text that libNVVM refuses is an InternalError with its log and the
    line it stumbled over.
    """
    if arch.dialect == "typed":
        text = typed(text)
    nvvm = toolkit.nvvm()
    flags = [f"-arch={arch.compute}", *_flags(options)]
    program = nvvm.create_program()
    try:
        _add(nvvm.add_module_to_program, program, text.encode(), "fjit")
        if _LIBDEVICE_USE.search(text):
            _add(nvvm.lazy_add_module_to_program, program, toolkit.libdevice(), "libdevice")
        try:
            nvvm.compile_program(program, len(flags), flags)
        except nvvm.nvvmError as error:
            raise _refused(text, arch, _log(nvvm, program) or str(error)) from error
        return _text(program, nvvm.get_compiled_result_size, nvvm.get_compiled_result)
    finally:
        nvvm.destroy_program(program)


def _flags(options: Options) -> list[str]:
    return [f"-{name}={number}" for name, number in {**STRICT, **options}.items()]


def _add(add: Any, program: int, code: bytes, name: str) -> None:
    """`add` is a function of a binding without type information."""
    add(program, code, len(code), name)


def _log(nvvm: Any, program: int) -> str:
    """`nvvm` is a binding without type information."""
    return _text(program, nvvm.get_program_log_size, nvvm.get_program_log)


def _text(handle: int, size: Any, read: Any) -> str:
    """A text that a library hands out by size and buffer, through untyped functions."""
    return _bytes(handle, size, read).decode(errors="replace").rstrip("\0")


def _bytes(handle: int, size: Any, read: Any) -> bytes:
    """Bytes that a library hands out by size and buffer, through untyped functions."""
    buffer = bytearray(size(handle))
    if buffer:
        read(handle, buffer)
    return bytes(buffer)


def _refused(text: str, arch: GpuTarget, log: str) -> InternalError:
    place = _PLACE.search(log)
    lines = text.splitlines()
    line = ""
    if place is not None and 0 < int(place[1]) <= len(lines):
        line = f"\nline {place[1]}: {lines[int(place[1]) - 1].strip()}"
    return InternalError(f"libNVVM refuses the module for {arch.name}: {log.strip()}{line}")


# Linking


def link(ptx: str, arch: GpuTarget) -> Linked:
    """Return the machine code of PTX, and the linker's account of its kernels.

    PTX that it refuses, such as a call of a function nobody defines, is an InternalError.
    """
    linker = toolkit.nvjitlink()
    options = [f"-arch={arch.name}", "-Xptxas=-v"]
    handle = linker.create(len(options), options)
    try:
        code = ptx.encode()
        try:
            linker.add_data(handle, linker.InputType.PTX, code, len(code), "fjit")
            linker.complete(handle)
        except linker.nvJitLinkError as error:
            log = _text(handle, linker.get_error_log_size, linker.get_error_log).strip()
            raise InternalError(f"nvJitLink refuses the PTX for {arch.name}: {log}") from error
        log = _text(handle, linker.get_info_log_size, linker.get_info_log)
        cubin = _bytes(handle, linker.get_linked_cubin_size, linker.get_linked_cubin)
    finally:
        linker.destroy(handle)
    return Linked(cubin, kernel_infos(log))


def kernel_infos(log: str) -> tuple[KernelInfo, ...]:
    """What ptxas -v wrote of each entry function."""
    parts = _ENTRY.split(log)
    return tuple(_info(name, body) for name, body in zip(parts[1::2], parts[2::2], strict=True))


def _info(name: str, body: str) -> KernelInfo:
    own = body.split(f"Function properties for {name}", 1)[-1]
    spills, used = _SPILLS.search(own), _USED.search(own)
    if spills is None or used is None:
        raise InternalError(f"nvJitLink's account of {name} cannot be read: {body.strip()}")
    stack, stores, loads = map(int, spills.groups())
    usage = own[used.start() :].partition("\n")[0]
    shared = _SHARED.search(usage)
    return KernelInfo(
        name=name,
        registers=int(used[1]),
        spill_stores=stores,
        spill_loads=loads,
        shared=int(shared[1]) if shared else 0,
        stack=stack,
        constant=sum(map(int, _CONSTANT.findall(usage))),
    )


# Keys


def key(text: str, arch: GpuTarget, options: Options = NO_OPTIONS) -> str:
    """Return 64 hex digits that stand for the cubin and PTX of a module, for a cache on disk.

    They cover the text, the architecture, the options and both libraries' versions; the cache adds
    what it knows of fjit's own sources.
    """
    about = "\n".join((arch.identity(), _libraries(), *_flags(options), text))
    return hashlib.sha256(about.encode()).hexdigest()


@functools.cache
def _libraries() -> str:
    found = toolkit.versions()
    return f"libNVVM {found.nvvm} nvJitLink {found.nvjitlink}"
