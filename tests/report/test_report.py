"""Reports as data: kernels, bytes, flops, registers, decisions, calls, measurement."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.backend import registers
from fjit.errors import FjitTypeError, FjitValueError
from fjit.lower import nest as n
from fjit.report import asm, counts, machine
from fjit.target import CPU_TARGETS

F64 = np.dtype(np.float64)
BYTES = 64 * 128 * 8


def normalised(x: Any) -> Any:
    return x / x.sum(1, keepdims=True)


ONE: dict[str, Callable[[Any, Any], Any]] = {
    "chain": lambda x, y: sum((np.tanh(x * k) + y for k in range(1, 12)), x),
    "softmax": lambda x, y: normalised(np.exp(x - x.max(1, keepdims=True))),
    "layernorm": lambda x, y: (
        (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    ),
    "stats": lambda x, y: (x.sum(), x.max(), x.min(), (x * x).sum()),
    "rowcol": lambda x, y: (x.sum(0), x.sum(1)),
    "map-reduce": lambda x, y: (np.exp(-x * x) * y).sum(),
    "outputs": lambda x, y: (x * y + 1, x * y - 1, np.maximum(x, y)),
    "views": lambda x, y: x.T[::-1] * 2 + y.T,
    "stencil": lambda x, y: (
        0.2 * (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    ),
    "cat": lambda x, y: (np.concatenate([x * 2, y + 1], axis=1) ** 2).sum(1),
    "mask": lambda x, y: x[x > 0].sum(),
    "broadcast": lambda x, y: np.exp(-np.abs(x[:, :1] - y[:1, :])).sum(1),
}
MOVED = {
    "chain": (2 * BYTES, BYTES),
    "softmax": (BYTES, BYTES),
    "layernorm": (BYTES, BYTES),
    "stats": (BYTES, 4 * 8),
    "rowcol": (BYTES, (64 + 128) * 8),
    "map-reduce": (2 * BYTES, 8),
    "outputs": (2 * BYTES, 3 * BYTES),
    "views": (2 * BYTES, BYTES),
    "stencil": (BYTES, 62 * 126 * 8),
    "cat": (2 * BYTES, 64 * 8),
    "mask": (BYTES, 8),
    "broadcast": (2 * BYTES, 64 * 8),
}


@pytest.fixture
def pair(rng: np.random.Generator) -> tuple[Any, Any]:
    return rng.standard_normal((64, 128)), rng.standard_normal((64, 128))


@pytest.mark.parametrize("name", ONE)
def test_named_programs_are_one_kernel_with_the_expected_bytes(
    name: str, pair: tuple[Any, Any]
) -> None:
    report = fjit.fuse(ONE[name]).explain(*pair)
    (kernel,) = report.kernels
    assert (kernel.bytes_read, kernel.bytes_written) == MOVED[name]
    assert (report.bytes_read, report.bytes_written) == MOVED[name]
    assert kernel.operations and all("test_report.py" in line for _, line in kernel.operations)
    assert kernel.actual_registers and kernel.actual_registers > 0
    assert kernel.actual_spills is not None and kernel.actual_spills >= 0
    assert kernel.predicted_registers >= 1 and kernel.predicted_spills >= 0
    assert kernel.estimated_ns > 0 and kernel.measured_ns is None
    assert kernel.name.startswith("k0_") and kernel.iteration_space
    assert all(d.reason for d in report.decisions)
    assert report.optimality_gap is None or report.optimality_gap >= 0


def test_decisions_are_taken_and_refused_with_reasons(pair: tuple[Any, Any]) -> None:
    taken = fjit.fuse(ONE["softmax"]).explain(*pair).decisions
    assert taken and all(d.taken and "bytes_saved" in d.numbers for d in taken)
    report = fjit.fuse(lambda x, y: (x.sum(1), x.T.sum(1) @ x.T[:, :1])).explain(*pair)
    assert all(d.reason and len(d.pair) == 2 for d in report.decisions)
    never = fjit.fuse(ONE["stats"], fusion=lambda candidate: False).explain(*pair)
    refused = [d for d in never.decisions if not d.taken]
    assert refused and all("fusion function" in d.reason for d in refused)


def test_flops_weigh_operations(pair: tuple[Any, Any]) -> None:
    def flops(f: Callable[[Any, Any], Any]) -> int:
        (kernel,) = fjit.fuse(f).explain(*pair, compile=False).kernels
        return kernel.flops

    assert flops(lambda x, y: x + y) == 64 * 128
    assert flops(lambda x, y: np.exp(x) + y) == 21 * 64 * 128
    assert flops(lambda x, y: np.sqrt(x) / y) == 16 * 64 * 128
    assert flops(lambda x, y: x.sum()) == 64 * 128
    assert flops(lambda x, y: (x * y).sum(1)) == 2 * 64 * 128
    columns = flops(lambda x, y: (x[1:-1, :] * 2).sum(0))  # and partial sums put together
    assert 2 * 62 * 128 <= columns <= 2.2 * 62 * 128


@pytest.mark.parametrize("f, each", [
    (lambda x: x.sum(axis=0), 1), (lambda x: x.sum(), 1), (lambda x: x.var(), 5),
    (lambda x: x.var(axis=0), 5), (lambda x: x.var(axis=1), 5),
])  # fmt: skip
def test_flops_of_chunks_are_those_of_the_whole(f: Callable[[Any], Any], each: int) -> None:
    x = np.ones((700, 20_000), np.float32)
    (kernel,) = fjit.fuse(f).explain(x, compile=False).kernels
    assert each * x.size <= kernel.flops <= 1.5 * each * x.size


def test_flops_of_a_chunked_reduction_are_those_of_its_elements() -> None:
    x = np.ones(1_000_003)
    (kernel,) = fjit.fuse(lambda x: (x * 2).sum()).explain(x, compile=False).kernels
    assert kernel.flops == 2 * 1_000_003


def test_flops_count_recomputation() -> None:
    x, y = np.ones((1, 1000)), np.ones((100, 1))
    report = fjit.fuse(lambda x, y: np.sin(x) + np.cos(y)).explain(x, y, compile=False)
    assert sum(k.flops for k in report.kernels) < 2 * 100 * 1000


def test_broadcast_and_number_inputs_count_at_their_own_size() -> None:
    wide = np.broadcast_to(np.ones(128), (64, 128))
    (kernel,) = fjit.fuse(lambda x, s: x * s).explain(wide, 2.0, compile=False).kernels
    assert (kernel.bytes_read, kernel.bytes_written) == (128 * 8, BYTES)


def test_library_calls_stand_between_kernels(pair: tuple[Any, Any]) -> None:
    report = fjit.fuse(lambda x, y: np.exp((x * 2) @ y.T) + 1).explain(*pair)
    (call,) = report.calls
    assert "matmul" in call.name and 1 <= call.position <= len(report.kernels)
    assert call.bytes_written == 0, "the product exists one panel at a time"
    assert "test_report.py" in call.operation[1]
    text = str(report)
    steps = text[text.index("steps") : text.index("operations")]
    assert steps.index("k0_") < steps.index("matmul") < steps.index("exp_add")
    assert "sort" in fjit.fuse(lambda x: np.sort(x + 1)).explain(pair[0]).calls[0].name
    barrier = fjit.fuse(lambda x: fjit.barrier(x * 2) + 1).explain(pair[0])
    assert len(barrier.kernels) == 2 and "barrier" in barrier.calls[0].name


def test_filters_count_by_bound(pair: tuple[Any, Any]) -> None:
    (kernel,) = fjit.fuse(lambda x: x[x > 0] * 2).explain(pair[0], measure=True).kernels
    assert kernel.bytes_written == BYTES and kernel.measured_ns


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0), ()])
def test_no_elements(shape: tuple[int, ...]) -> None:
    report = fjit.fuse(lambda x: (x * 2 + 1, x.sum())).explain(np.zeros(shape), measure=True)
    assert report.kernels and "kernel" in str(report)


def test_a_function_that_computes_nothing(pair: tuple[Any, Any]) -> None:
    report = fjit.fuse(lambda x, y: x).explain(*pair, measure=True)
    assert report.kernels == () and "0 kernels" in str(report) and "<h1>" in report._repr_html_()


def test_interpreter_has_the_same_plan_and_no_actuals(pair: tuple[Any, Any]) -> None:
    report = fjit.fuse(ONE["softmax"], target="interpreter").explain(*pair, measure=True)
    (kernel,) = report.kernels
    assert kernel.actual_registers is None and kernel.actual_spills is None
    assert kernel.measured_ns is None and "interpreter" in str(report)


def test_measure_leaves_arguments_alone(pair: tuple[Any, Any]) -> None:
    def step(x: Any, y: Any) -> Any:
        x += y
        return np.sort(x * 2, axis=1).sum(0)

    x, y = (a.copy() for a in pair)
    report = fjit.fuse(step).explain(x, y, measure=True)
    assert np.array_equal(x, pair[0]) and np.array_equal(y, pair[1])
    for kernel in report.kernels:
        assert kernel.measured_ns and kernel.measured_ns > 0
        assert kernel.roofline_fraction and kernel.roofline_fraction > 0
    assert report.calls[0].measured_ns and "roofline" in str(report)


def test_measured_kernels_compute_what_the_call_computes(pair: tuple[Any, Any]) -> None:
    """The bench feeds each step what it gets in the real call: a sort of a mask's values."""
    f = fjit.fuse(lambda x, y: np.sort(x[x > y]) * 2)
    report = f.explain(*pair, measure=True)
    assert all(step.measured_ns for step in (*report.kernels, *report.calls))
    assert np.array_equal(f(*pair), np.sort(pair[0][pair[0] > pair[1]]) * 2)


def test_predictions_load_no_llvm_and_do_not_depend_on_it() -> None:
    code = """
import sys
sys.modules["llvmlite"] = None
import numpy as np, fjit
x = np.ones((64, 128))
r = fjit.fuse(lambda x: np.exp(x - x.max(1, keepdims=True))).explain(x, compile=False)
assert all(k.actual_registers is None and k.actual_spills is None for k in r.kernels)
print([(k.predicted_registers, k.predicted_spills, k.flops) for k in r.kernels])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert out.returncode == 0, out.stderr
    f = fjit.fuse(lambda x: np.exp(x - x.max(1, keepdims=True)))
    report = f.explain(np.ones((64, 128)))
    after = [(k.predicted_registers, k.predicted_spills, k.flops) for k in report.kernels]
    assert out.stdout == f"{after}\n"


def test_predicting_leaves_the_function_to_compile_later(pair: tuple[Any, Any]) -> None:
    f = fjit.fuse(lambda x, y: x * y)
    f.explain(*pair, compile=False)
    f.lower(*pair)
    assert f.cache_info().misses == 0
    assert np.array_equal(f(*pair), pair[0] * pair[1])
    assert f.prepare(*pair).executable is not None


def test_plans_side_by_side(pair: tuple[Any, Any]) -> None:
    plans = fjit.explain(
        ONE["stats"], *pair, compare=["auto", "none", {"threads": 1}], compile=False
    )
    assert list(plans.reports) == ["auto", "none", "threads=1"]
    assert len(plans["auto"].kernels) == 1 < len(plans["none"].kernels)
    text = str(plans)
    assert all(label in text for label in plans.reports) and "<table>" in plans._repr_html_()


def test_explain_without_plans_is_the_report(pair: tuple[Any, Any]) -> None:
    fused = fjit.fuse(ONE["rowcol"], threads=1)
    assert len(fjit.explain(fused, *pair, compile=False).kernels) == 1
    assert "1 thread," in fjit.explain(fused, *pair, compile=False).machine
    with pytest.raises(FjitValueError, match="good values: auto, max, none"):
        fjit.explain(fused, *pair, compare=["best"])
    with pytest.raises(FjitValueError, match="'fuse' is no keyword of fuse"):
        fjit.explain(fused, *pair, compare=[{"fuse": 1}])
    with pytest.raises(FjitTypeError, match="takes a function, not int"):
        fjit.explain(3)


# ---- counting -----------------------------------------------------------------------------------
def _nest(body: list[n.Stmt], unroll: int = 1) -> n.Nest:
    vector = n.Loop("i0", n.Slot(1), "vector", body, unroll=unroll)
    task = n.Loop("task", n.Slot(0), "parallel", [vector])
    buffers = (n.Buffer("in", 0, F64), n.Buffer("out", 0, F64))
    return n.Nest((), (n.Phase(task, 3, 1, 30),), buffers, (3, 10), 8)


def _load(out: int) -> n.Load:
    return n.Load(out, 0, n.Linear(None, (("i0", n.UNIT),)), F64)


def _let(out: int, op: str, *args: int) -> n.Let:
    return n.Let(out, op, args, (F64,) * len(args), F64)


def _store(value: int) -> n.Store:
    return n.Store(1, n.Linear(None, (("i0", n.UNIT),)), value, F64)


def test_flops_of_a_nest_skip_what_nobody_uses() -> None:
    body = [_load(0), _let(1, "exp", 0), _let(2, "mul", 0, 0), _store(2)]
    assert counts.flops(_nest(body)) == 3 * 10


def test_pressure_is_the_most_values_live_at_once() -> None:
    wide = CPU_TARGETS["avx512"]
    loads = [_load(k) for k in range(4)]
    squares = [_let(4 + k, "mul", k, k) for k in range(4)]
    sums = [_let(8, "add", 4, 5), _let(9, "add", 6, 7), _let(10, "add", 8, 9)]
    assert registers.pressure(_nest([*loads, *squares, *sums, _store(10)]), wide) == (4, 0)
    many = [_load(k) for k in range(40)]
    fold = [_let(40, "add", 0, 1)] + [_let(39 + k, "add", 38 + k, k) for k in range(2, 40)]
    again = [_let(79 + k, "add", 78 + k, k) for k in range(40)]
    assert registers.pressure(_nest([*many, *fold, *again, _store(118)]), wide).spills > 0


def test_single_use_loads_are_free_on_x86_only() -> None:
    body = [_load(0), _load(1), _let(2, "add", 0, 1), _store(2)]
    assert registers.pressure(_nest(body), CPU_TARGETS["avx2"]).registers == 1
    assert registers.pressure(_nest(body), CPU_TARGETS["neon"]).registers == 2


X86 = """
phase0:
# %bb.0:                                # %entry
	vmovups	%zmm9, 8(%rsp)                  # 64-byte Spill
.LBB0_1:                                # %outer
                                        # =>This Loop Header: Depth=1
                                        #     Child Loop BB0_2 Depth 2
	vaddpd	%zmm30, %zmm31, %zmm29
.LBB0_2:                                # %body
                                        #   Parent Loop BB0_1 Depth=1
                                        # =>  This Inner Loop Header: Depth=2
	vmovups	8(%rsp), %zmm3                  # 64-byte Reload
	movq	8(%rsp), %rax                   # 8-byte Reload
# %bb.3:                                #   in Loop: Header=BB0_2 Depth=2
	vaddpd	%zmm3, %ymm1, %xmm2             # 16-byte Folded Reload
# %bb.4:                                # %exit
                                        #   in Loop: Header=BB0_1 Depth=1
	vmovups	%zmm8, %zmm7
"""


def test_assembly_of_the_inner_loop_alone_counts() -> None:
    assert asm.usage(X86) == (3, 2)
    arm = "\tfadd\tv0.2d, v1.2d, v17.2d\n\tldr\tq3, [sp]  // 16-byte Folded Reload\n"
    assert asm.usage(arm) == (4, 1)


def test_machine_reads_linux_flags(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("model name\t: Some CPU\nflags\t\t: sse4_2 abm bmi1 avx2\n")
    assert machine.cpu_flags(info) == {"sse4.2", "lzcnt", "bmi", "avx2"}
    assert machine.model_name(info) == "Some CPU"
    assert machine.cpu_flags(tmp_path / "none") == frozenset()
    monkeypatch.setenv("FJIT_CPU", "avx2")
    assert machine.description() is CPU_TARGETS["avx2"]
