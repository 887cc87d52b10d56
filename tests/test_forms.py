"""Forms: a shape like one that came before gets, to the letter, what planning it would give."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.core.show import show
from fjit.entries import Choices, memory_of
from fjit.errors import FjitError
from fjit.forms import Forms
from fjit.frontend.function import Traced
from fjit.fused import Fused
from fjit.lower.assembly import Assembly, Fit, assembled
from fjit.lower.memory import Memory
from fjit.oracle.choose import seeded
from fjit.oracle.programs import RandomProgram, build
from fjit.planning import Policy, planned
from fjit.testing import assert_same
from tests.corpus import CORPUS, Case

SIZES = (17, 18, 20, 31, 32, 33, 40, 64, 67, 100)
LONG = (*SIZES, 130, 300, 511, 512, 513, 1024, 1025, 5000)
POLICY = Policy(fit=Fit(100_000))  # some sizes outgrow it
VECTOR = (*LONG, 20_000, 65_536, 131_072, 200_001)


def described(assembly: Assembly) -> str:
    """All of an assembly as text."""
    lines = [show(assembly.program)]
    lines += [str((m.strides, m.swapped, m.scalar)) for m in assembly.memory.values()]
    for kernel in assembly.kernels:
        phases = [(q.tasks, q.grain, q.elements) for q in kernel.nest.phases]
        cells = [(s.bound, s.origin.aval.shape) for s in kernel.cells]
        lines += [kernel.text, str((kernel.nest.slots, phases, cells))]
    return "\n".join(lines)


def resized(arguments: tuple[Any, ...], rng: random.Random) -> tuple[Any, ...]:
    """Arguments of other sizes: axes that had one extent have one again; 0 and 1 stay."""
    rank = max((a.ndim for a in arguments if isinstance(a, np.ndarray)), default=0)
    choices = (VECTOR, VECTOR, LONG, SIZES, SIZES[:3])[rank]
    extents = {e: e if e < 2 else rng.choice(choices) for a in arguments for e in np.shape(a)}
    return tuple(_resized(a, extents) for a in arguments)


def _resized(array: Any, extents: dict[int, int]) -> Any:
    """An array of zeros with the strides' order and signs of `array`; tracing reads no values."""
    if not isinstance(array, np.ndarray) or not array.ndim:
        return array
    shape = tuple(extents[e] for e in array.shape)
    order = sorted(range(array.ndim), key=lambda k: -abs(array.strides[k]))
    step = 1 if array.flags.forc else 2
    base = np.zeros([shape[k] * step for k in order], array.dtype)
    base = base[(slice(None, None, step),) * array.ndim].transpose(np.argsort(order))
    signs = tuple(slice(None, None, -1 if s < 0 else 1) for s in array.strides)
    base = base[signs]
    base.flags.writeable = array.flags.writeable
    return base


def traced(function: Any, arguments: tuple[Any, ...]) -> tuple[Traced, list[Memory]]:
    fused = Fused(function, Choices())
    found = fused._trace(fused._calls.take_apart(arguments, {}))[0]
    captured = [c.array for c in found.captures.values()]
    return found, [memory_of(a) for a in (*arguments, *captured)]


def compared(function: Any, all_arguments: Iterator[tuple[Any, ...]]) -> int:
    """Compare forms with planning afresh; how many assemblies came from forms."""
    forms, used = Forms(), 0
    for arguments in all_arguments:
        try:
            found, memory = traced(function, arguments)
        except (FjitError, ValueError, IndexError, TypeError):  # not a program of these sizes
            continue
        stages = forms.stages(found, memory, POLICY)
        if stages.planned is None:
            used += 1
            assert described(stages.assembly) == described(
                assembled(planned(stages.traced, memory, POLICY)[1], memory, POLICY.fit)
            ), arguments
    return used


def sizes_of(program: RandomProgram, seed: int) -> Iterator[tuple[Any, ...]]:
    rng = random.Random(seed)
    for _ in range(5):
        yield resized(program.arguments, rng)


@pytest.mark.parametrize("part", range(4))
def test_random_programs_of_random_sizes(part: int) -> None:
    used = 0
    for seed in range(part * 40, part * 40 + 40):
        program = build(seeded(seed))
        used += compared(program.function, sizes_of(program, seed))
    assert used > 20


@pytest.mark.parametrize("case", CORPUS.values(), ids=CORPUS)
def test_corpus_programs_of_random_sizes(case: Case) -> None:
    rng = random.Random(case.name)
    sizes = (resized(case.arguments(), rng) for _ in range(6))
    compared(case.function, sizes)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def matrices(*shapes: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    return ((np.ones(shape),) for shape in shapes)


def test_a_form_serves_every_later_shape_like_it() -> None:
    assert compared(softmax, matrices((20, 60), (30, 70), (31, 75), (90, 44), (200, 500))) == 4


@pytest.mark.parametrize("extent", [512, 16_384, 32_768, 65_536, 131_072])
def test_thresholds_of_the_plan_are_conditions(extent: int) -> None:
    """Short rows, rows that stay in cache, chunks: the plans on both sides differ."""
    around = [(40, extent + step) for step in (-3, -2, -1, 0, 1, 2)]
    compared(softmax, matrices(*around))
    compared(lambda x: (x.sum(), x.sum(0), x.max(1)), matrices(*around))
    compared(lambda x: np.cumsum(x, axis=1) / x.sum(), matrices(*around))


def test_sizes_that_meet_products_of_others() -> None:
    """An extent may come to equal a stride, a product or a sum that it was told from before."""

    def f(x: Any) -> Any:
        y = np.pad(x.reshape(5, 6, -1), ((0, 0), (1, 1), (0, 0)))
        return y.reshape(-1)[::-1] * 2, np.concatenate([x, x[30:]]), y.transpose(2, 0, 1)

    sizes = (30 * k for k in (17, 18, 20, 24, 29, 30, 31, 36, 40, 42, 60, 64, 70, 150))
    assert compared(f, matrices(*((n,) for n in sizes))) > 3


def test_a_shape_that_python_looks_at_is_traced_again() -> None:
    @fjit.fuse
    def f(x: Any) -> Any:
        return x.sum() if x.shape[0] % 2 else x * x.shape[0]

    for n in range(50, 60):
        x = np.arange(float(n))
        np.testing.assert_array_equal(f(x), x.sum() if n % 2 else x * n)


def test_new_shapes_give_numpy_s_results_and_compile_nothing() -> None:
    fused = fjit.fuse(softmax)
    rng = np.random.default_rng(3)
    for n in range(40, 80, 4):
        x = rng.standard_normal((n, 2 * n + 1))
        first = fused(x)
        np.testing.assert_array_equal(first, fjit.fuse(softmax)(x))
        if n == 40:
            compiled = fused.cache_info().compiles
    assert fused.cache_info().compiles == compiled
    assert fused.cache_info().traces == 10


def standardised(x: Any) -> Any:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) / len(x)


FUNCTIONS: tuple[Callable[[Any], Any], ...] = (
    standardised,
    lambda x: x / x.shape[1] + x.shape[0],
    lambda x: np.where(x > x.shape[0], x.size, x) * 2.0,
    lambda x: (x.astype("f4") * np.float32(1 / len(x))).mean(0),
    lambda x: np.pad(x, 1, constant_values=x.shape[1]) - x.shape[1],
    lambda x: x**2 + x.shape[0] ** 2 * np.full(x.shape, 1.0 / x.size),
    lambda x: (x > len(x)).sum(0) + len(x) // 2,
    lambda x: np.linspace(0, 1, x.shape[1]) * x + np.arange(x.shape[1]) / x.shape[1],
    lambda x: (np.float32(len(x)), x.std(), x.sum() / len(x) * 1),
)


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_constants_that_follow_from_sizes_compile_once_more_at_most(number: int) -> None:
    function = FUNCTIONS[number]
    fused, rng, compiled = fjit.fuse(function), np.random.default_rng(number), []
    for n in (35, 36, 41, 47, 60, 128, 1, 53):  # 128 is beyond 64 KiB, where std is another loop
        x = rng.standard_normal((n, 2 * n + 1)) * 40
        for got, want in zip(leaves(fused(x)), leaves(fjit.fuse(function)(x)), strict=True):
            assert_same(got, want)
        compiled.append(fused.cache_info().compiles)
    assert compiled[1] == compiled[4], compiled


def layernorm(x: Any) -> Any:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


@pytest.mark.parametrize(
    "function", [softmax, layernorm, lambda x: np.tanh(x * x + 1) - x, lambda x: x.std(0, ddof=1)]
)
def test_the_second_shape_compiles_nothing(function: Callable[[Any], Any]) -> None:
    fused = fjit.fuse(function, cache=False)
    for n in (300, 301, 331, 256):
        x = np.random.default_rng(n).standard_normal((n, n + 60))
        assert_same(fused(x), fjit.fuse(function)(x))
        if n == 300:
            compiled = fused.cache_info().compiles
    assert fused.cache_info().compiles == compiled


def leaves(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def test_numbers_from_outside_that_change_compile_once_more_at_most() -> None:
    scale = 2.0

    def scaled(x: Any) -> Any:
        return np.maximum(x * scale, 1.0) + scale

    fused, x = fjit.fuse(scaled), np.linspace(-3, 3, 11)
    for k, value in enumerate((2.0, 3.0, 0.0, -0.0, np.nan, 1e300, -1.0, 5e-324, 0.1)):
        scale = value
        assert_same(fused(x), scaled(x))
        if k == 1:
            compiled = fused.cache_info().compiles
    assert fused.cache_info().compiles == compiled


def test_measuring_a_call_with_varying_constants() -> None:
    fused = fjit.fuse(standardised)
    for n in (40, 50, 60):
        report = fused.explain(np.ones((n, 90)), measure=True)
        assert all(kernel.measured_ns for kernel in report.kernels)


def test_explain_and_prepare_show_the_plan_of_the_shape_at_hand() -> None:
    fused = fjit.fuse(softmax)
    for n in (40, 50, 60):
        x = np.ones((n, 99))
        assert f"f64[{n},99]" in str(fused.prepare(x).plan)
        assert str(fused.explain(x)) == str(fjit.fuse(softmax).explain(x))


def test_a_function_that_chooses_fusions_sees_plain_numbers() -> None:
    seen: list[Any] = []

    def choose(decision: Any) -> bool:
        seen.extend(type(v) for v in decision.numbers.values())
        return True

    fused = fjit.fuse(softmax, fusion=choose)
    for n in (40, 50, 60):
        fused(np.ones((n, 99)))
    assert set(seen) == {float}


def test_branches_filters_writes_and_library_calls_in_new_shapes() -> None:
    def f(x: Any, y: Any) -> Any:
        if np.any(x < 0):
            x = -x
        y += 1
        return np.sort(x, axis=0)[1:] @ y, x[x > 0.5] * 2, np.cumsum(y, axis=0)

    fused, rng = fjit.fuse(f), np.random.default_rng(5)
    for n in range(20, 32):
        x, y = rng.standard_normal((n, n + 1)), rng.standard_normal((n + 1, 3))
        mine, other = y.copy(), y.copy()
        for got, want in zip(fused(x, mine), f(x, other), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(mine, other)
