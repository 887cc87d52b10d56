"""Machine descriptions: what the schedule and the code generator may assume about a processor.

Takes a name, gives a frozen `CpuTarget`. Invariant: equal descriptions give equal plans and equal
code; nothing here looks at the machine it runs on (`fjit.runtime.host` does).

    >>> from fjit.target import CPU_TARGETS
    >>> CPU_TARGETS["avx512"].lanes(4)
    16
"""

import dataclasses

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
