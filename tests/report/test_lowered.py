"""Lowered calls: every stage, made when asked, running nothing."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import fjit

CALLS: list[int] = []


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.fixture
def x(rng: np.random.Generator) -> Any:
    return rng.standard_normal((64, 128))


def test_stages_of_one_kernel(x: Any) -> None:
    lowered = fjit.fuse(softmax).lower(x)
    assert str(lowered.program) == str(fjit.make_program(softmax)(x))
    assert len(lowered.plan.kernels) == len(lowered.nests) == len(lowered.names) == 1
    assert "parallel" in str(lowered.nests[0]) and "exp.f64" in str(lowered.nests[0])
    assert "define void @phase0" in lowered.llvm_ir and "fadd" in lowered.llvm_ir
    assert "ret" in lowered.asm and "Inner Loop Header" in lowered.asm
    assert lowered.ptx is None and lowered.sass_info is None
    assert "softmax: 1 kernels" in repr(lowered)


def test_texts_name_their_kernels(x: Any) -> None:
    lowered = fjit.fuse(lambda x: np.sort(x * 2) + 1).lower(x)
    assert lowered.names == ("k0_mul", "k1_add")
    for name in lowered.names:
        assert f"; kernel {name}\n" in lowered.llvm_ir and f"# kernel {name}\n" in lowered.asm


def test_compile_makes_the_next_call_just_run(x: Any) -> None:
    f = fjit.fuse(softmax)
    lowered = f.lower(x)
    assert f.cache_info().misses == 0
    compiled = lowered.compile()
    assert f.cache_info().misses == 1
    np.testing.assert_allclose(compiled(x), softmax(x), rtol=1e-13)
    assert (f.cache_info().hits, f.cache_info().misses) == (1, 1)


def test_lowering_changes_no_argument(x: Any) -> None:
    def write(a: Any) -> Any:
        a += 1
        return a

    before = x.copy()
    assert "store" in fjit.fuse(write).lower(x).llvm_ir
    assert np.array_equal(x, before)


def test_the_interpreter_has_stages_too(x: Any) -> None:
    lowered = fjit.fuse(softmax, target="interpreter").lower(x)
    assert len(lowered.nests) == 1 and "ret" in lowered.asm


def test_stages_above_llvm_do_not_load_it() -> None:
    code = """
import sys
sys.modules["llvmlite"] = None
import numpy as np, fjit
low = fjit.fuse(lambda x: np.exp(x).sum()).lower(np.ones(100))
print(low.program, low.names, low.nests[0])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert out.returncode == 0 and "k0_exp_sum" in out.stdout, out.stderr
