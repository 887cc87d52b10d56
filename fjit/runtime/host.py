"""The machine this process runs on, as a `CpuTarget`.

Takes what LLVM and Linux say of the processor, gives the widest shipped description whose features
are all there, with the host's own name, features and cache sizes. Invariant: what `FJIT_CPU` asks
for is a part of what the host can run.

    FJIT_CPU=avx2 on a Zen 4    ->    cpu "x86-64-v3", 256-bit vectors, 16 registers
"""

import dataclasses
import functools
import os
import platform
from pathlib import Path

from fjit.errors import FjitValueError
from fjit.runtime import llvm
from fjit.target import CPU_TARGETS, KIB, MIB, CpuTarget


def host() -> CpuTarget:
    """Return the description of this machine, or of the part of it that `FJIT_CPU` names.

    Raises FjitValueError when `FJIT_CPU` names no description or needs features the host lacks.
    """
    return _host(os.environ.get("FJIT_CPU", ""))


@functools.cache
def _host(wanted: str) -> CpuTarget:
    binding = llvm.binding()
    triple: str = binding.get_process_triple()
    flags: dict[str, bool] = dict(binding.get_host_cpu_features())
    present = frozenset(name for name, on in flags.items() if on)
    architecture = triple.partition("-")[0]
    if architecture in ("arm64", "aarch64"):
        architecture, present = "aarch64", present | {"neon"}
    if wanted:
        row = _requested(wanted, architecture, present)
        return with_caches(dataclasses.replace(row, triple=triple, cpu=row.level))
    row = _widest(architecture, present)
    return with_caches(
        dataclasses.replace(
            row,
            triple=triple,
            cpu=binding.get_host_cpu_name(),
            features=binding.get_host_cpu_features().flatten(),
        )
    )


def _requested(wanted: str, architecture: str, present: frozenset[str]) -> CpuTarget:
    usable = [row.name for row in _rows(architecture) if present.issuperset(row.requires)]
    if wanted not in usable:
        raise FjitValueError(
            f"FJIT_CPU={wanted!r} cannot be used on this machine ({platform.machine()}): "
            f"its features allow {', '.join(usable) or 'no shipped description'}. "
            "Unset FJIT_CPU to use the whole processor."
        )
    return CPU_TARGETS[wanted]


def _widest(architecture: str, present: frozenset[str]) -> CpuTarget:
    rows = _rows(architecture)
    for row in rows:
        if present.issuperset(row.requires):
            return row
    # Every 64-bit processor LLVM compiles for has, or is given by legalisation, 128-bit vectors.
    return rows[-1] if rows else CPU_TARGETS["sse"]


def _rows(architecture: str) -> list[CpuTarget]:
    return [row for row in CPU_TARGETS.values() if row.architecture == architecture]


def with_caches(row: CpuTarget) -> CpuTarget:
    """Return a description with this machine's cache sizes, where Linux tells them."""
    sizes = cache_sizes()
    return dataclasses.replace(
        row,
        l1_bytes=sizes.get(1, row.l1_bytes),
        l2_bytes=sizes.get(2, row.l2_bytes),
        l3_bytes=sizes.get(3, row.l3_bytes),
    )


def cache_sizes(root: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[int, int]:
    """Return bytes of data cache by level as Linux reports them for CPU 0; empty when unknown."""
    sizes: dict[int, int] = {}
    for index in sorted(root.glob("index[0-9]*")):
        try:
            kind, level, size = (
                (index / leaf).read_text().strip() for leaf in ("type", "level", "size")
            )
            if kind != "Instruction":
                sizes[int(level)] = _bytes(size)
        except (OSError, ValueError):
            continue
    return sizes


def _bytes(size: str) -> int:
    """Return the bytes of a size as /sys writes it.

    >>> _bytes("48K")
    49152
    """
    unit = {"K": KIB, "M": MIB, "G": 1024 * MIB}.get(size[-1:])
    return int(size[:-1]) * unit if unit else int(size)
