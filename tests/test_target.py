"""Machine descriptions: LLVM knows each row, and a row's level has the features it requires."""

import dataclasses

import pytest

from fjit.runtime import jit, llvm
from fjit.target import CPU_TARGETS, CpuTarget

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
