"""What fusion promises: how many kernels a program becomes, however it is written down."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.oracle.compare import assert_same
from tests.corpus import CORPUS

ROOT = Path(__file__).parents[1]
ONE_KERNEL = (
    "softmax", "layernorm", "chain", "stats", "rowcol", "masked-sum", "stencil", "cat-reduce",
    "outer-broadcast-reduce",
)  # fmt: skip
X, Y = np.random.default_rng(3).standard_normal((2, 24, 40))


def kernels(function: Callable[..., Any], *arguments: Any, **options: Any) -> int:
    fused: Any = fjit.fuse(**options)(function)
    return len(fused.lower(*arguments).plan.kernels)


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel_is_promised(name: str) -> None:
    assert CORPUS[name].kernels == 1


@pytest.mark.parametrize("name", CORPUS)
def test_kernels_of_the_corpus(name: str) -> None:
    case = CORPUS[name]
    assert kernels(case.function, *case.arguments()) == case.kernels


@pytest.mark.parametrize("name", CORPUS)
def test_the_corpus_gives_numpys_numbers(name: str) -> None:
    case = CORPUS[name]
    got_args, want_args = case.arguments(), case.arguments()
    got, want = fjit.fuse(case.function)(*got_args), case.function(*want_args)
    assert_same((got, got_args), (want, want_args), rtol=case.rtol, order=True)


def test_without_fusion_every_operation_is_a_kernel() -> None:
    case = CORPUS["stencil"]
    assert kernels(case.function, *case.arguments(), fusion="none") >= 5


def test_the_users_function_decides() -> None:
    seen = []

    def refuse(candidate: Any) -> bool:
        seen.append(candidate)
        return False

    case = CORPUS["stats"]
    assert kernels(case.function, *case.arguments(), fusion=refuse) > 1
    assert seen and all(len(c.pair) == 2 and c.numbers for c in seen)
    assert kernels(case.function, *case.arguments(), fusion=lambda candidate: True) == 1


# What must not matter


def two_branches(x: Any, y: Any) -> Any:
    a = np.exp(x) * 2
    b = np.tanh(y) + 1
    c = a.sum(axis=1)
    d = b.max(axis=1)
    return a - b, c, d


def two_branches_reordered(x: Any, y: Any) -> Any:
    b = 1 + np.tanh(y)
    d = b.max(axis=1)
    a = 2 * np.exp(x)
    c = a.sum(axis=1)
    return a - b, c, d


def stats_reversed(x: Any) -> Any:
    squares = (x * x).sum()
    low = x.min()
    high = x.max()
    return x.sum(), high, low, squares


def cascade(x: Any, y: Any) -> Any:
    m = x.max(axis=1, keepdims=True)
    e = np.exp(x - m)
    s = e.sum(axis=1, keepdims=True)
    return e / s + y, (x * y).sum(axis=1)


def cascade_reordered(x: Any, y: Any) -> Any:
    second = (y * x).sum(axis=1)
    m = x.max(axis=1, keepdims=True)
    e = np.exp(-m + x)
    return y + e / e.sum(axis=1, keepdims=True), second


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [(two_branches, two_branches_reordered, 3), (cascade, cascade_reordered, 2)],
)
def test_statement_and_operand_order_do_not_matter(
    one: Callable[..., Any], other: Callable[..., Any], count: int
) -> None:
    assert kernels(one, X, Y) == kernels(other, X, Y) <= count


def test_order_of_statistics_does_not_matter() -> None:
    assert kernels(stats_reversed, X) == 1


def test_order_of_arguments_does_not_matter() -> None:
    assert kernels(lambda a, b: two_branches(b, a), Y, X) == kernels(two_branches, X, Y)


TEXTS = """
import fjit, fjit.core.show
from fjit.backend import cpu
from fjit.target import CPU_TARGETS
from tests.corpus import CORPUS
for case in CORPUS.values():
    lowered = fjit.fuse(case.function).lower(*case.arguments())
    print(case.name, [(d.pair, d.taken, d.reason) for d in lowered.plan.decisions])
    print(fjit.core.show.show(lowered.plan.program))
    for nest in lowered.nests:
        print(nest, cpu.emit(nest, CPU_TARGETS["avx2"]))
"""


def test_hash_seeds_do_not_matter() -> None:
    texts = set()
    for seed in ("0", "1", "977"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", TEXTS]
        run = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, check=False, text=True
        )
        assert run.returncode == 0, run.stderr
        texts.add(run.stdout)
    assert len(texts) == 1, "a text depends on the hash seed"


def test_shape_and_scalar_values_do_not_matter() -> None:
    case = CORPUS["softmax"]
    counts = {kernels(case.function, np.ones((n, 3 * n))) for n in (2, 5, 64, 300)}
    assert counts == {1}


def test_a_barrier_separates() -> None:
    assert kernels(lambda x: np.exp(fjit.barrier(x * 2)), X) == 2


def test_a_library_call_separates() -> None:
    assert kernels(lambda x, y: (x + 1) @ (y.T * 2) - 1, X, Y) == 3
