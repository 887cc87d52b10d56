"""Golden texts of every stage: program, plan with its reasons, loop tree, LLVM IR.

`make golden` rewrites them; a difference is reviewed like code. LLVM IR is emitted for one fixed
machine description, whatever the host is, and kept for the programs whose text a reader can follow.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import fjit
from fjit.backend import cpu
from fjit.core.show import show
from fjit.optimize.plan import Plan
from fjit.target import CPU_TARGETS
from tests.corpus import CORPUS

TARGET = CPU_TARGETS["avx512"]
WITH_LLVM = (
    "adam", "brighten", "cat-reduce", "cumulative", "distances", "filter", "gather", "layernorm",
    "masked-sum", "matmul-relu", "outer-broadcast-reduce", "rmsnorm", "rowcol", "stats", "stencil",
    "threshold", "transpose-add", "where-clip",
)  # fmt: skip

Golden = Callable[[str, str], None]


@cache
def stages(name: str) -> Any:
    """The Lowered of a program of the corpus."""
    case = CORPUS[name]
    return fjit.fuse(case.function).lower(*case.arguments())  # type: ignore[attr-defined]


def plan_text(plan: Plan) -> str:
    lines = [show(plan.program), ""]
    for decision in plan.decisions:
        verdict = "fused" if decision.taken else "apart"
        numbers = "".join(f" {key}={value:g}" for key, value in decision.numbers.items())
        lines.append(f"{verdict}: {' | '.join(decision.pair)}: {decision.reason}{numbers}")
    return "\n".join(lines)


@pytest.mark.parametrize("name", CORPUS)
def test_program(name: str, golden: Golden) -> None:
    case = CORPUS[name]
    golden(f"{name}/program", show(fjit.make_program(case.function)(*case.arguments())))


@pytest.mark.parametrize("name", CORPUS)
def test_plan(name: str, golden: Golden) -> None:
    golden(f"{name}/plan", plan_text(stages(name).plan))


@pytest.mark.parametrize("name", CORPUS)
def test_nest(name: str, golden: Golden) -> None:
    golden(f"{name}/nest", "\n".join(str(nest) for nest in stages(name).nests))


@pytest.mark.parametrize("name", WITH_LLVM)
def test_llvm(name: str, golden: Golden) -> None:
    texts = [cpu.emit(nest, TARGET) for nest in stages(name).nests]
    golden(f"{name}/llvm", "\n".join(texts))


def test_there_are_enough() -> None:
    assert len(CORPUS) >= 20 and len(WITH_LLVM) >= 15 and set(WITH_LLVM) <= set(CORPUS)
