"""The machine for which a report foresees registers and times, found without loading LLVM.

Takes what the system says of the processor, gives a shipped `CpuTarget`. Invariant: the answer is
that of `fjit.runtime.host` as far as vectors and registers go, but nothing is compiled or loaded.

    flags of /proc/cpuinfo with avx2 and without avx512f    ->    CPU_TARGETS["avx2"]
"""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

from fjit.target import CPU_TARGETS, CpuTarget

# Linux's names where they differ from LLVM's.
_RENAMED = {"sse4_2": "sse4.2", "bmi1": "bmi", "abm": "lzcnt"}


def description() -> CpuTarget:
    """The description of this machine, or the one that `FJIT_CPU` names."""
    wanted = CPU_TARGETS.get(os.environ.get("FJIT_CPU", ""))
    return wanted if wanted is not None else _description()


@functools.cache
def _description() -> CpuTarget:
    architecture = platform.machine().lower().replace("amd64", "x86_64").replace("arm64", "aarch64")
    rows = [row for row in CPU_TARGETS.values() if row.architecture == architecture]
    flags = cpu_flags()
    for row in rows:
        if flags.issuperset(row.requires) or architecture == "aarch64":
            return row
    return rows[-1] if rows else CPU_TARGETS["sse"]


def cpu_flags(path: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Feature names of the first processor, as LLVM spells them; none where Linux does not tell."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(_RENAMED.get(word, word) for word in value.split())
    return frozenset()


def model_name(path: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as Linux gives it, else the architecture."""
    try:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model"):
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
