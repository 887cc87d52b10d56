"""Registers and spills as foreseen, against what LLVM and the linker made of the same kernels."""

import logging
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.backend import cpu, registers
from fjit.backend.gpu_registers import FITS
from fjit.bench import registers as table
from fjit.report import asm
from fjit.runtime.jit import assembly
from fjit.target import CPU_TARGETS, GPU_TARGETS

FEW, ALL = range(24), range(300)
DOZEN = range(12)


def body(seed: int) -> Any:
    """A random chain of cheap operations, its inputs 4 to 56 arrays."""
    rng = np.random.default_rng(seed)
    count, steps = (4, 8, 16, 24, 40, 56)[seed % 6], 20 + 7 * seed % 170
    return table.cheap_body(rng, count, steps), [np.ones(4096)] * count


def spills(name: str, seeds: range) -> tuple[np.ndarray, np.ndarray]:
    """Spills foreseen and made on one processor."""
    target, foreseen, made = CPU_TARGETS[name], list[int](), list[int]()
    for seed in seeds:
        function, arguments = body(seed)
        for nest in fjit.fuse(fusion="max")(function).lower(*arguments).nests:  # type: ignore[attr-defined]
            foreseen.append(registers.pressure(nest, target).spills)
            made.append(asm.usage(assembly(cpu.emit(nest, target, 0), target)).spills)
    return np.array(foreseen), np.array(made)


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    ranks = [np.argsort(np.argsort(v + 1e-9 * np.arange(len(v)))) for v in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def check_spills(name: str, seeds: range, right: float) -> None:
    foreseen, made = spills(name, seeds)
    assert made.max() > 0
    assert np.mean((foreseen > 0) == (made > 0)) >= right
    assert rank_correlation(foreseen, made) >= 0.9


@pytest.mark.parametrize("name", ["avx2", "avx512", "neon"])
def test_spills_are_foreseen(name: str) -> None:
    check_spills(name, FEW, 0.9)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "right"), [("avx2", 0.95), ("avx512", 0.95), ("neon", 0.92)])
def test_spills_of_300_bodies_are_foreseen(name: str, right: float) -> None:
    check_spills(name, ALL, right)


def gpu_errors(seeds: range) -> np.ndarray:
    """Errors over all architectures; a spill that was not foreseen fails."""
    off = []
    for name in table.ARCHITECTURES:
        known = list(table.samples(name, seeds))
        assert not any(s.spills for s in known)
        off.append(table.errors(FITS[name], known))
    return np.concatenate(off)


@pytest.mark.nvvm
def test_gpu_registers_are_foreseen() -> None:
    off = gpu_errors(DOZEN)
    assert off.mean() <= 4.0
    assert np.mean(off <= table.NEAR) >= 0.88


@pytest.mark.slow
@pytest.mark.nvvm
def test_gpu_registers_of_198_bodies_are_foreseen() -> None:
    off = gpu_errors(range(table.BODIES))
    assert off.mean() <= 4.0
    assert np.mean(off <= table.NEAR) >= 0.93


@pytest.mark.nvvm
def test_a_fit_finds_its_way_back() -> None:
    known = list(table.samples("sm_90", range(6)))
    fit = FITS["sm_90"]
    bad = fit._replace(least=(fit.least[0] + 20, *fit.least[1:]))
    assert table.errors(table.refitted(bad, known), known).mean() < table.errors(bad, known).mean()


@pytest.mark.parametrize("name", GPU_TARGETS)
def test_every_architecture_has_a_prediction(name: str) -> None:
    fused: Any = fjit.fuse(target=f"cuda:{name}")(lambda x: (np.exp(x).sum(axis=1), x * 2, x @ x))
    for kernel in fused.explain(np.ones((64, 64)), compile=False).kernels:
        assert 10 < kernel.predicted_registers < 255
        assert kernel.actual_registers is None


@pytest.mark.nvvm
def test_predictions_stand_beside_the_linkers_numbers(caplog: pytest.LogCaptureFixture) -> None:
    fused: Any = fjit.fuse(target="cuda:sm_90", cache=False)(lambda x: (np.tanh(x) * 3, x @ x))
    x = np.ones((48, 48), np.float32)
    with caplog.at_level(logging.DEBUG, "fjit.registers"):
        usages = fused.lower(x).sass_info
    for usage in usages:
        assert abs(usage.predicted_registers - usage.actual_registers) <= 16
        assert usage.predicted_spills == usage.actual_spills == 0
    assert all("sm_90" in message for message in caplog.messages)


def test_explained_kernels_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "fjit.registers"):
        (kernel,) = fjit.fuse(lambda x: x * x + 1).explain(np.ones(100)).kernels
    (message,) = caplog.messages
    assert kernel.name in message
    assert f"{kernel.predicted_registers} foreseen, {kernel.actual_registers} used" in message


def test_the_curve_peaks_at_the_foreseen_count() -> None:
    function, arguments = body(3)
    (nest,) = fjit.fuse(function).lower(*arguments).nests
    for target in CPU_TARGETS.values():
        rows = registers.curve(nest, target)
        assert max(live for _, live in rows) == registers.pressure(nest, target).registers
        assert len(rows) == sum(not line.endswith(":") for line, _ in rows)
