"""Machine descriptions: LLVM knows each row; occupancy follows CUDA's rules."""

import dataclasses

import pytest

from fjit.runtime import jit, llvm
from fjit.target import CPU_TARGETS, GPU_TARGETS, KIB, CpuTarget, GpuTarget

WIDE = """
define void @twice(ptr %x, i64 %n) {
  %v = load <16 x float>, ptr %x, align 4
  %w = fadd <16 x float> %v, %v
  store <16 x float> %w, ptr %x, align 4
  ret void
}
"""

# What a 64-byte addition is made of: the register name that must appear in the assembly.
REGISTER = {"avx512": "%zmm", "avx2": "%ymm", "sse": "%xmm", "neon": "v0.4s"}

rows = pytest.mark.parametrize("row", CPU_TARGETS.values(), ids=lambda row: row.name)


@rows
def test_a_row_is_consistent(row: CpuTarget) -> None:
    assert CPU_TARGETS[row.name] is row
    assert row.architecture in ("x86_64", "aarch64")
    assert row.l1_bytes < row.l2_bytes < row.l3_bytes
    assert row.lanes(4) * 32 == row.vector_bits and row.lanes(8) * 64 == row.vector_bits
    assert row.lanes(1024) == 1


@rows
def test_llvm_compiles_for_a_row_with_its_registers(row: CpuTarget) -> None:
    assert REGISTER[row.name] in jit.assembly(WIDE, row)


@rows
def test_the_level_has_the_same_vectors(row: CpuTarget) -> None:
    level = dataclasses.replace(row, cpu=row.level)
    assert REGISTER[row.name] in jit.assembly(WIDE, level)


def test_rows_of_one_architecture_stand_widest_first() -> None:
    widths = [row.vector_bits for row in CPU_TARGETS.values() if row.architecture == "x86_64"]
    assert widths == sorted(widths, reverse=True)


def test_descriptions_are_hashable_values() -> None:
    row = CPU_TARGETS["avx2"]
    assert {row: 1}[dataclasses.replace(row)] == 1


def test_what_decides_the_code_is_in_the_identity() -> None:
    row = CPU_TARGETS["avx2"]
    assert dataclasses.replace(row, features="+sha").identity() != row.identity()
    assert dataclasses.replace(row, l1_bytes=1).identity() == row.identity()


def test_required_features_are_names_llvm_knows() -> None:
    known = set(llvm.binding().get_host_cpu_features())
    here = llvm.binding().get_process_triple().partition("-")[0]
    for row in CPU_TARGETS.values():
        if row.architecture == here:
            assert set(row.requires) <= known


gpus = pytest.mark.parametrize("gpu", GPU_TARGETS.values(), ids=lambda gpu: gpu.name)


@gpus
def test_a_gpu_is_consistent(gpu: GpuTarget) -> None:
    assert GPU_TARGETS[gpu.name] is gpu
    assert gpu.compute == f"compute_{gpu.name.removeprefix('sm_')}"
    assert gpu.dialect == ("opaque" if gpu.capability >= (10, 0) else "typed")
    assert gpu.shared_block_bytes + gpu.shared_reserved <= gpu.shared_bytes
    assert gpu.identity().split()[1] == gpu.name


# Name, registers per thread, threads per block, bytes of shared memory, and the blocks that follow
# from the rules of CUDA's occupancy calculator, by hand.
OCCUPANCY = [
    ("sm_75", 32, 1024, 0, 1),
    ("sm_75", 64, 256, 0, 4),
    ("sm_75", 65, 256, 0, 3),
    ("sm_75", 32, 32, 0, 16),
    ("sm_75", 32, 64, 16 * KIB, 4),
    ("sm_80", 32, 256, 0, 8),
    ("sm_80", 33, 256, 0, 6),
    ("sm_80", 64, 256, 0, 4),
    ("sm_80", 255, 256, 0, 1),
    ("sm_80", 128, 1024, 0, 0),
    ("sm_80", 32, 128, 48 * KIB, 3),
    ("sm_80", 32, 32, 0, 32),
    ("sm_86", 40, 256, 0, 6),
    ("sm_86", 32, 1024, 0, 1),
    ("sm_86", 32, 64, 0, 16),
    ("sm_89", 32, 64, 0, 24),
    ("sm_90", 32, 128, 227 * KIB, 1),
    ("sm_100", 168, 128, 0, 3),
    ("sm_120", 42, 96, 0, 13),
]


@pytest.mark.parametrize(("name", "registers", "threads", "shared", "blocks"), OCCUPANCY)
def test_blocks_of_a_multiprocessor(
    name: str, registers: int, threads: int, shared: int, blocks: int
) -> None:
    gpu = GPU_TARGETS[name]
    assert gpu.blocks_per_sm(registers, threads, shared) == blocks
    warps = blocks * -(-threads // 32)
    assert gpu.occupancy(registers, threads, shared) == warps / gpu.max_warps


@gpus
def test_what_no_multiprocessor_holds_has_no_block(gpu: GpuTarget) -> None:
    assert gpu.blocks_per_sm(32, 1025) == 0
    assert gpu.blocks_per_sm(32, 0) == 0
    assert gpu.blocks_per_sm(256, 32) == 0
    assert gpu.blocks_per_sm(32, 32, gpu.shared_block_bytes + 1) == 0
    assert gpu.blocks_per_sm(32, 32, gpu.shared_block_bytes) == 1
