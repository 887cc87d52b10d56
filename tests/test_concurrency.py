"""Threads, processes and memory: one function called from everywhere gives the same numbers."""

import hashlib
import multiprocessing
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.core import tree
from tests.corpus import CORPUS

ROOT = Path(__file__).parents[1]
RNG = np.random.default_rng(11)
BIG = RNG.standard_normal(1 << 20)


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What `work` gives in each of `count` threads that start at once."""
    gate = threading.Barrier(count)

    def run(k: int) -> Any:
        gate.wait(60)
        return work(k)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def program(x: Any, y: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) + y, (x * y).sum()


@pytest.mark.parametrize("salt", range(3))
def test_eight_threads_meet_at_the_first_call(salt: int) -> None:
    fused = fjit.fuse(lambda x, y: program(x, y * salt))
    x, y = RNG.standard_normal((2, 40, 50))
    want = program(x, y * salt)
    for got in together(8, lambda k: [fused(x, y) for _ in range(20)]):
        for result in got:
            np.testing.assert_allclose(result[0], want[0], rtol=1e-12)
            np.testing.assert_allclose(result[1], want[1], rtol=1e-12)


def test_eight_threads_with_eight_shapes_and_dtypes() -> None:
    fused = fjit.fuse(program)
    kinds = [(n, m, d) for n in (3, 30) for m in (7, 64) for d in ("f4", "f8")]
    arguments = [RNG.standard_normal((2, n, m)).astype(d) for n, m, d in kinds]

    def work(k: int) -> None:
        for turn in range(24):
            x, y = arguments[(k + turn) % 8]
            got, want = fused(x, y), program(x, y)
            tolerance = 1e-4 if x.dtype == np.float32 else 1e-11
            np.testing.assert_allclose(got[0], want[0], rtol=tolerance)
            np.testing.assert_allclose(got[1], want[1], rtol=tolerance, atol=tolerance * 10)

    together(8, work)


def test_threads_trace_different_functions_at_once() -> None:
    cases = list(CORPUS.values())[:8]

    def work(k: int) -> Any:
        return fjit.fuse(cases[k].function)(*cases[k].arguments())

    for case, got in zip(cases, together(8, work), strict=True):
        want = case.function(*case.arguments())
        for g, w in zip(tree.flatten(got)[0], tree.flatten(want)[0], strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-11)


def test_calls_from_threads_that_write_their_own_arrays() -> None:
    fused = fjit.fuse(CORPUS["threshold"].function)

    def work(k: int) -> None:
        for turn in range(50):
            x = np.full(1000, k - turn / 7)
            want = x.copy()
            result = CORPUS["threshold"].function(want, 0.5)
            np.testing.assert_array_equal(fused(x, 0.5), result)
            np.testing.assert_array_equal(x, want)

    together(8, work)


# One answer for any number of threads


def sums(x: Any) -> Any:
    return x.sum(), (x * x).mean(), x.reshape(1024, -1).sum(axis=0), x.reshape(1024, -1).var(axis=1)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_bits_do_not_depend_on_threads(dtype: str) -> None:
    x = BIG.astype(dtype)
    results = [fjit.fuse(threads=n)(sums)(x) for n in (1, 2, 3, 8)]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert a.tobytes() == b.tobytes()


MODES = """
import hashlib, sys
import numpy as np
import fjit
from tests.test_concurrency import BIG, sums
got = fjit.fuse(threads=2)(sums)(BIG)
print(hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in got)).hexdigest())
"""


@pytest.mark.parametrize("mode", ["auto", "openmp", "pool", "none"])
def test_every_threading_mode_gives_the_same_bits(mode: str) -> None:
    got = fjit.fuse(threads=1)(sums)(BIG)
    want = hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in got)).hexdigest()
    done = subprocess.run(
        [sys.executable, "-c", MODES],
        env={**os.environ, "FJIT_THREADING": mode},
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == want


# Forks


def in_child(work: Callable[[], bool]) -> bool:
    """Whether `work` returned true in a forked child, within 15 seconds."""
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads
        child = context.Process(target=lambda: os._exit(0 if work() else 1))
        child.start()
    child.join(15)
    if child.is_alive():
        child.kill()
        child.join()
        return False
    return child.exitcode == 0


def test_a_child_forked_after_threads_were_used() -> None:
    fused = fjit.fuse(threads=2)(sums)
    want = [np.asarray(a).tobytes() for a in fused(BIG)]

    def work() -> bool:
        warm = [np.asarray(a).tobytes() for a in fused(BIG)]
        fresh = fjit.fuse(lambda x: np.tanh(x) * 3)(BIG)
        return warm == want and np.allclose(fresh, np.tanh(BIG) * 3)

    assert in_child(work)
    assert [np.asarray(a).tobytes() for a in fused(BIG)] == want


def test_a_child_of_a_child() -> None:
    fused = fjit.fuse(threads=2)(sums)
    want = fused(BIG)[0]
    assert in_child(lambda: in_child(lambda: fused(BIG)[0] == want))


def test_a_fork_while_another_thread_compiles() -> None:
    stop = threading.Event()

    def compile_things() -> None:
        for k in range(1000):
            if stop.is_set():
                return
            scope: dict[str, Any] = {"np": np}
            exec(
                f"def f(x): return np.exp(x * {k}) - np.sqrt(x + {k % 7}) * {'x * ' * (k % 5)} 2",
                scope,
            )
            fjit.fuse(cache=False)(scope["f"])(np.ones(3 + k % 4))

    thread = threading.Thread(target=compile_things)
    thread.start()
    try:
        x = np.arange(5.0)
        for _ in range(5):
            assert in_child(lambda: bool((fjit.fuse(lambda x: x * 3 - 1)(x) == x * 3 - 1).all()))
    finally:
        stop.set()
        thread.join()


# Fused functions in fused functions


@fjit.fuse
def inner(x: Any) -> Any:
    return np.exp(x) - 1


def test_a_fused_function_in_a_fused_function_is_inlined() -> None:
    outer: Any = fjit.fuse(lambda x: (inner(x) * 2).sum())
    x = np.linspace(0, 1, 9)
    np.testing.assert_allclose(outer(x), ((np.exp(x) - 1) * 2).sum(), rtol=1e-14)
    assert len(outer.lower(x).plan.kernels) == 1


def test_recursion_ends_as_in_python() -> None:
    @fjit.fuse(static_argnames="depth")
    def nested(x: Any, depth: int) -> Any:
        return x if depth == 0 else np.tanh(nested(x, depth - 1)) + depth

    x = np.linspace(-1, 1, 5)
    want = x
    for depth in range(1, 6):
        want = np.tanh(want) + depth
    np.testing.assert_allclose(nested(x, 5), want, rtol=1e-14)
    np.testing.assert_array_equal(nested(x, depth=0), x)


def test_endless_recursion_is_pythons_error() -> None:
    @fjit.fuse
    def endless(x: Any) -> Any:
        return endless(x + 1)

    with pytest.raises(RecursionError):
        endless(np.ones(2))


# Memory


@pytest.mark.parametrize("name", CORPUS)
def test_results_share_no_memory_between_calls(name: str) -> None:
    case = CORPUS[name]
    fused, arguments = fjit.fuse(case.function), case.arguments()
    first = [a for a in tree.flatten(fused(*arguments))[0] if isinstance(a, np.ndarray)]
    kept = [a.copy() for a in first]
    second = [a for a in tree.flatten(fused(*case.arguments()))[0] if isinstance(a, np.ndarray)]
    for a, copy in zip(first, kept, strict=True):
        assert not any(np.shares_memory(a, b) for b in second)
        np.testing.assert_array_equal(a, copy)


def test_results_own_their_memory_unless_numpy_returns_the_argument() -> None:
    x = np.arange(6.0).reshape(2, 3)
    same, view, fresh = fjit.fuse(lambda x: (x, x[:, 1:], x * 1))(x)
    assert same is x and np.shares_memory(view, x) and view.base is not None
    assert not np.shares_memory(fresh, x) and fresh.flags.owndata


@pytest.mark.parametrize("name", CORPUS)
def test_arguments_change_as_in_numpy_and_not_otherwise(name: str) -> None:
    case = CORPUS[name]
    got, want = case.arguments(), case.arguments()
    case.function(*want)
    fjit.fuse(case.function)(*got)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=case.rtol)


def test_results_live_longer_than_the_function() -> None:
    x = np.arange(1000.0)
    got = [fjit.fuse(lambda x, k=k: x + k)(x) for k in range(20)]
    for k, result in enumerate(got):
        np.testing.assert_array_equal(result, x + k)
