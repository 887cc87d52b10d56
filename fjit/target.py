"""Machine descriptions: what the schedule and the code generator may assume about a processor.

Takes the host (or a name), gives a frozen `CpuTarget`. Invariant: equal descriptions give equal
plans and equal code; nothing here is measured at run time except cache sizes, which Linux reports.

    >>> from fjit.target import CPU_TARGETS
    >>> CPU_TARGETS["avx512"].lanes(4)
    16
"""

import dataclasses
import functools
import os
import platform
from pathlib import Path

from fjit.errors import FjitValueError
from fjit.runtime import llvm

KIB = 1024
MIB = 1024 * KIB


@dataclasses.dataclass(frozen=True, slots=True)
class CpuTarget:
    """One processor: how LLVM names it, and the sizes that a schedule depends on.

    `requires` are the LLVM feature names without which the row does not apply; `level` is the CPU
    name that has these features and nothing else, used when `FJIT_CPU` asks for less than the host.
    """

    name: str
    triple: str
    cpu: str
    features: str
    level: str
    requires: tuple[str, ...]
    vector_bits: int
    vector_registers: int
    mask_registers: int
    has_fma: bool
    has_gather: bool
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    cache_line: int = 64

    def lanes(self, itemsize: int) -> int:
        """Return how many elements of `itemsize` bytes one vector register holds."""
        return max(1, self.vector_bits // (8 * itemsize))

    @property
    def architecture(self) -> str:
        """The first part of the triple: "x86_64" or "aarch64"."""
        return self.triple.partition("-")[0]

    def identity(self) -> str:
        """Return the text that decides which machine code is valid: a part of every cache key."""
        return f"{self.triple} {self.cpu} {self.features}"


_SSE = ("sse4.2", "ssse3", "popcnt")
_AVX2 = (*_SSE, "avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

_X86_LINUX = "x86_64-unknown-linux-gnu"

# Cache sizes: AMD Zen 4, Intel Haswell and Nehalem, Arm Neoverse V2, from the vendors' manuals; the
# last-level size is one core complex's or a desktop part's. Widest first within an architecture.
CPU_TARGETS: dict[str, CpuTarget] = {
    row.name: row
    for row in (
        CpuTarget(
            name="avx512", triple=_X86_LINUX, cpu="znver4", features="", level="x86-64-v4",
            requires=_AVX512, vector_bits=512, vector_registers=32, mask_registers=8,
            has_fma=True, has_gather=True,
            l1_bytes=32 * KIB, l2_bytes=1 * MIB, l3_bytes=32 * MIB,
        ),
        CpuTarget(
            name="avx2", triple=_X86_LINUX, cpu="haswell", features="", level="x86-64-v3",
            requires=_AVX2, vector_bits=256, vector_registers=16, mask_registers=0,
            has_fma=True, has_gather=True,
            l1_bytes=32 * KIB, l2_bytes=256 * KIB, l3_bytes=8 * MIB,
        ),
        CpuTarget(
            name="sse", triple=_X86_LINUX, cpu="x86-64-v2", features="", level="x86-64-v2",
            requires=_SSE, vector_bits=128, vector_registers=16, mask_registers=0,
            has_fma=False, has_gather=False,
            l1_bytes=32 * KIB, l2_bytes=256 * KIB, l3_bytes=8 * MIB,
        ),
        CpuTarget(
            name="neon", triple="aarch64-unknown-linux-gnu", cpu="neoverse-v2", features="",
            level="generic", requires=("neon",), vector_bits=128, vector_registers=32,
            mask_registers=0, has_fma=True, has_gather=False,
            l1_bytes=64 * KIB, l2_bytes=2 * MIB, l3_bytes=32 * MIB,
        ),
    )
}  # fmt: skip


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
        return _with_caches(dataclasses.replace(row, triple=triple, cpu=row.level))
    row = _widest(architecture, present)
    return _with_caches(
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


def _with_caches(row: CpuTarget) -> CpuTarget:
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
