"""What fjit finds on this machine, and what to do about what it does not find.

Takes the process as it is, gives rows of a table. Invariant: nothing is changed, no device is
started beyond asking the driver what there is, and a missing part is a row, never an error.

    BLAS      scipy 1.17.1                                -
    driver    libcuda.so.1 was not found                  install NVIDIA's driver; without it, ...
"""

from __future__ import annotations

import os
import platform
import re
import sys
from dataclasses import dataclass
from importlib import metadata

import numpy as np

from fjit.backend import toolkit
from fjit.errors import MissingPackageError
from fjit.report import devices, machine
from fjit.report.blocks import Block, Heading, Paragraph, Table, nbytes
from fjit.runtime import entry, llvm, threads
from fjit.runtime.blas import blas
from fjit.runtime.cache import default_cache
from fjit.runtime.host import host
from fjit.target import GPU_TARGETS

TESTED_SYSTEMS = ("Linux",)
LIMITS = ("FJIT_THREADING", "FJIT_NUM_THREADS", "OMP_NUM_THREADS", "FJIT_CPU", "FJIT_CACHE_DIR",
          "FJIT_DISPATCH", "FJIT_RESULT_POOL")  # fmt: skip

_EXTRA = re.compile(r"""^([\w.-]+).*;.*\bextra\s*==\s*['"]([\w-]+)['"]""")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked for: what was found, and what to do if it is not as it should be."""

    what: str
    found: str
    advice: str = ""
    fatal: bool = False


def findings() -> list[Finding]:
    """Everything looked for, in a fixed order."""
    return [
        *_python(), _processor(), _llvm(), *_threads(), _dispatch(), _blas(), *_cuda(), *_cache(),
        _settings(), *_extras(),
    ]  # fmt: skip


def blocks(found: list[Finding]) -> tuple[Block, ...]:
    """The findings as a page."""
    rows = tuple((f.what, f.found, f.advice or "-") for f in found)
    broken = [f.what for f in found if f.fatal]
    verdict = f"Broken: {', '.join(broken)}." if broken else "fjit can compile on this machine."
    return (
        Heading("fjit doctor", 1),
        Table(("part", "found", "what to do"), rows),
        Paragraph(verdict),
    )


def installed(package: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _python() -> list[Finding]:
    python = f"{platform.python_version()} {sys.implementation.name}"
    system = f"{platform.system()} {platform.machine()}"
    tested = platform.system() in TESTED_SYSTEMS
    advice = "" if tested else "calls go through Python here; only Linux on x86-64 is tested"
    return [
        Finding("fjit", installed("fjit") or "not installed: run from its sources"),
        Finding("python", python),
        Finding("numpy", np.__version__),
        Finding("system", system, advice),
    ]


def _processor() -> Finding:
    try:
        target = host()
    except Exception as error:  # llvmlite may be missing or broken, FJIT_CPU wrong: told as a row
        return Finding("processor", machine.model_name(), _sentence(error), fatal=True)
    caches = ", ".join(
        f"L{level} {nbytes(size)}"
        for level, size in enumerate((target.l1_bytes, target.l2_bytes, target.l3_bytes), 1)
    )
    text = (
        f"{machine.model_name()} as {target.cpu}: {target.name}, {target.vector_registers} vector "
        f"registers of {target.vector_bits} bits, {caches}"
    )
    return Finding("processor", text)


def _llvm() -> Finding:
    version = installed("llvmlite")
    advice = "pip install 'llvmlite>=0.50'"
    if version is None:
        return Finding("LLVM", "llvmlite is not installed", advice, fatal=True)
    try:
        return Finding("LLVM", f"{llvm.version()} in llvmlite {version}")
    except Exception as error:  # whatever keeps a binary package from loading
        found = f"llvmlite {version} does not load: {_sentence(error)}"
        return Finding("LLVM", found, advice, fatal=True)


def _threads() -> list[Finding]:
    try:
        backend, count, path = threads.backend(), threads.num_threads(), threads.openmp_path()
    except ValueError as error:
        return [Finding("threads", "none", _sentence(error), fatal=True)]
    text = f"{count} of {threads.processors()} processors, run by {_BACKENDS[backend]}"
    advice = "" if count > 1 or threads.processors() == 1 else "lift OMP_NUM_THREADS for more"
    openmp = path or "no runtime in this process: fjit uses its own threads"
    return [Finding("threads", text, advice), Finding("OpenMP", openmp)]


_BACKENDS = {
    "openmp": "the OpenMP runtime",
    "pool": "fjit's own pool",
    "none": "the calling thread",
}


def _dispatch() -> Finding:
    """How calls of known kinds are answered."""
    try:
        missing = entry.missing()
    except ValueError as error:
        return Finding("calls", "none", _sentence(error), fatal=True)
    if missing:
        return Finding("calls", f"through Python, some 10 us each: {missing}")
    return Finding("calls", "a native entry, some 0.1 us each")


def _blas() -> Finding:
    """Which library multiplies matrices, and whether machine code calls it."""
    found = blas()
    if found is None:
        return Finding("BLAS", "NumPy's own, called from Python", _BLAS_ADVICE)
    threads = "" if found.set_threads else ", with as many threads as it likes"
    return Finding("BLAS", f"{found.owner}'s own, called from machine code{threads}")


_BLAS_ADVICE = "pip install scipy: matrix products without Python, and in panels with their kernels"


def _cuda() -> list[Finding]:
    """The packages that compile for a GPU, and the driver that runs what they made."""
    versions = {name: installed(name) for name in toolkit.PACKAGES}
    missing = [name for name, version in versions.items() if version is None]
    present = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    advice = f"pip install 'fjit[cuda]' for GPUs (missing: {', '.join(missing)})"
    return [
        Finding("CUDA packages", present or "none", advice if missing else ""),
        *([] if missing else [_gpu_compiler()]),
        *_gpus(devices.driver()),
    ]


def _gpu_compiler() -> Finding:
    try:
        compiler, linker = (
            ".".join(map(str, door().version())) for door in (toolkit.nvvm, toolkit.nvjitlink)
        )
        text = f"libNVVM {compiler}, nvJitLink {linker}, {toolkit.libdevice_path().name}"
    except MissingPackageError as error:
        return Finding("GPU compiler", "does not load", _sentence(error))
    return Finding("GPU compiler", text)


def _gpus(driver: devices.Driver) -> list[Finding]:
    if not driver.found:
        advice = "to run on a GPU, install NVIDIA's driver; compiling for one needs none"
        return [Finding("CUDA driver", f"{devices.LIBRARY} was not found", advice)]
    if driver.version is None:
        found = f"{devices.LIBRARY} does not start (cuInit gives {driver.status})"
        return [Finding("CUDA driver", found, "see nvidia-smi")]
    text = f"CUDA {'.'.join(map(str, driver.version))}, {len(driver.devices)} device(s)"
    advice = "" if driver.devices else "no device is visible: see CUDA_VISIBLE_DEVICES"
    rows = [_gpu(number, device) for number, device in enumerate(driver.devices)]
    return [Finding("CUDA driver", text, advice), *rows]


def _gpu(number: int, device: devices.Device) -> Finding:
    capability = ".".join(map(str, device.capability))
    text = f"{device.name}, compute capability {capability}"
    if device.target is None:
        return Finding(f"GPU {number}", text, f"fjit compiles for {', '.join(GPU_TARGETS)}")
    return Finding(f"GPU {number}", f"{text}, compiled for as {device.target}")


def _cache() -> list[Finding]:
    cache = default_cache()
    entries = cache.entries()
    size = sum(entry.nbytes for entry in entries)
    problem = cache.stats().problem
    text = f"{cache.directory}: {len(entries)} entries, {nbytes(size)} of {nbytes(cache.max_bytes)}"
    advice = f"{problem}; or set FJIT_CACHE_DIR to another directory" if problem else ""
    return [Finding("kernel cache", text, advice)]


def _settings() -> Finding:
    found = [f"{name}={os.environ[name]}" for name in LIMITS if name in os.environ]
    return Finding("environment", ", ".join(found) or f"none of {', '.join(LIMITS)} is set")


def extras() -> dict[str, tuple[str, ...]]:
    """The optional extras that the installed fjit declares, with the packages of each."""
    try:
        declared = metadata.requires("fjit") or []
    except metadata.PackageNotFoundError:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for line in declared:
        match = _EXTRA.match(line)
        if match is not None and match[2] != "dev":
            found[match[2]] = (*found.get(match[2], ()), match[1])
    return found


def _extras() -> list[Finding]:
    rows = []
    for extra, packages in extras().items():
        missing = [name for name in packages if installed(name) is None]
        present = [f"{name} {installed(name)}" for name in packages if name not in missing]
        found = ", ".join(present) or "not installed"
        advice = f"optional: pip install 'fjit[{extra}]'" if missing else ""
        rows.append(Finding(f"extra {extra}", found, advice))
    return rows


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
