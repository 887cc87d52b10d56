"""The text of the native parallel-for compiles for every architecture and system it names."""

import pytest

from fjit.runtime import jit
from fjit.runtime.parallel_ir import control_word_ir, parallel_ir
from fjit.target import CPU_TARGETS

# The instructions that read and write the control word.
CONTROL = {"avx2": ("stmxcsr", "ldmxcsr"), "neon": ("mrs\t", "msr\tFPCR")}


@pytest.mark.parametrize("system", ["Linux", "Darwin"])
@pytest.mark.parametrize("name", list(CONTROL))
def test_it_compiles_and_sets_the_control_word(name: str, system: str) -> None:
    target = CPU_TARGETS[name]
    text = jit.assembly(parallel_ir(target.architecture, system), target)
    assert all(instruction in text for instruction in CONTROL[name])
    assert ("pthread_setaffinity_np" in text) is (system == "Linux")


def test_other_architectures_have_no_control_word() -> None:
    assert "llvm." not in control_word_ir("riscv64")
    assert "fjit_pause" in control_word_ir("riscv64")
