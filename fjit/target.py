"""Machine descriptions: what the schedule and the code generator may assume about a processor.

Takes a name, gives a frozen `CpuTarget` or `GpuTarget`. Invariant: equal descriptions give equal
plans and equal code; nothing here looks at the machine it runs on (`fjit.runtime.host` does).

    >>> from fjit.target import CPU_TARGETS, GPU_TARGETS
    >>> CPU_TARGETS["avx512"].lanes(4)
    16
    >>> GPU_TARGETS["sm_80"].blocks_per_sm(registers=64, threads=256)
    4
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


@dataclasses.dataclass(frozen=True, slots=True)
class GpuTarget:
    """One NVIDIA architecture: what its multiprocessors hold, and how fast a usual part of it is.

    `dialect` is the LLVM text that libNVVM takes for it: "typed" (LLVM 7) or "opaque" pointers.
    Shared memory is what one multiprocessor has for all its blocks and what one block may ask for;
    `shared_reserved` bytes of each block go to the system. Clock in GHz, bandwidth in GB/s.
    """

    name: str
    dialect: str
    max_warps: int
    max_blocks: int
    shared_bytes: int
    shared_block_bytes: int
    shared_granule: int
    shared_reserved: int
    part: str
    multiprocessors: int
    l2_bytes: int
    clock_ghz: float
    bandwidth_gbs: float
    warp: int = 32
    registers: int = 65536
    register_granule: int = 256
    partitions: int = 4
    max_registers: int = 255
    max_threads: int = 1024

    @property
    def compute(self) -> str:
        """The virtual architecture that libNVVM compiles for: "compute_90"."""
        return self.name.replace("sm_", "compute_")

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability as the driver tells it: (9, 0), (12, 0)."""
        number = int(self.name.removeprefix("sm_"))
        return number // 10, number % 10

    def blocks_per_sm(self, registers: int, threads: int, shared: int = 0) -> int:
        """Return how many blocks a multiprocessor holds at once; 0 if not even one fits.

        `registers` per thread, `threads` and bytes of `shared` memory per block. Registers go to
        warps in granules, and a warp's must come from one of the partitions.
        """
        fits = 0 < threads <= self.max_threads and registers <= self.max_registers
        if not fits or shared > self.shared_block_bytes:
            return 0
        warps = -(-threads // self.warp)
        per_warp = _round_up(max(registers, 1) * self.warp, self.register_granule)
        resident = self.registers // self.partitions // per_warp * self.partitions
        per_block = _round_up(shared + self.shared_reserved, self.shared_granule)
        by_shared = self.shared_bytes // per_block if per_block else self.max_blocks
        return min(self.max_blocks, self.max_warps // warps, resident // warps, by_shared)

    def occupancy(self, registers: int, threads: int, shared: int = 0) -> float:
        """Return the share of a multiprocessor's warps that are resident."""
        blocks = self.blocks_per_sm(registers, threads, shared)
        return blocks * -(-threads // self.warp) / self.max_warps

    def identity(self) -> str:
        """Return the text that decides which machine code is valid: a part of every cache key."""
        return f"nvptx64 {self.name} {self.dialect}"


def _round_up(number: int, granule: int) -> int:
    return -(-number // granule) * granule


def _gpu(
    name: str, limits: tuple[int, int], shared: tuple[int, int], part: str,
    machine: tuple[int, int, float, float], *, dialect: str = "typed", granule: int = 128,
    reserved: int = KIB,
) -> GpuTarget:  # fmt: skip
    warps, blocks = limits
    of_sm, of_block = shared
    multiprocessors, l2_mib, clock, bandwidth = machine
    return GpuTarget(
        name=name, dialect=dialect, max_warps=warps, max_blocks=blocks, shared_bytes=of_sm * KIB,
        shared_block_bytes=of_block * KIB, shared_granule=granule, shared_reserved=reserved,
        part=part, multiprocessors=multiprocessors, l2_bytes=l2_mib * MIB, clock_ghz=clock,
        bandwidth_gbs=bandwidth,
    )  # fmt: skip


# Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". Parts:
# NVIDIA's architecture whitepapers and product pages, with the boost clock. Oldest first.
GPU_TARGETS: dict[str, GpuTarget] = {
    row.name: row
    for row in (
        #    name      warps, blocks  shared KiB  part             SMs, L2 MiB, GHz, GB/s
        _gpu("sm_75",  (32, 16), (64, 64),        "T4",            (40, 4, 1.59, 320.0),
             granule=256, reserved=0),
        _gpu("sm_80",  (64, 32), (164, 163),      "A100 SXM 80GB", (108, 40, 1.41, 2039.0)),
        _gpu("sm_86",  (48, 16), (100, 99),       "RTX 3090",      (82, 6, 1.70, 936.0)),
        _gpu("sm_89",  (48, 24), (100, 99),       "RTX 4090",      (128, 72, 2.52, 1008.0)),
        _gpu("sm_90",  (64, 32), (228, 227),      "H100 SXM",      (132, 50, 1.98, 3350.0)),
        _gpu("sm_100", (64, 32), (228, 227),      "B200",          (148, 126, 1.97, 8000.0),
             dialect="opaque"),
        _gpu("sm_120", (48, 24), (100, 99),       "RTX 5090",      (170, 96, 2.41, 1792.0),
             dialect="opaque"),
    )
}  # fmt: skip
