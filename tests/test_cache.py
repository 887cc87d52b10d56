"""What is remembered: no compile storms, no stale values, bounded memory, code on disk, pickles."""

import copy
import functools
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fjit
import fjit.fused

ROOT = Path(__file__).parents[1]


def clipped(x: Any, s: Any) -> Any:
    return np.clip(x, -s, s) * (s * 2) + 1


# Sizes and scalars


def test_fifty_scalars_compile_once_and_trace_once() -> None:
    fused: Any = fjit.fuse(clipped)
    x = np.linspace(-3, 3, 100)
    for s in np.linspace(0.1, 4, 50):
        np.testing.assert_array_equal(fused(x, float(s)), clipped(x, float(s)))
    info = fused.cache_info()
    assert info.traces == info.misses == 1 and info.hits == 49 and info.compiles <= 1


def test_kinds_of_scalars_are_traced_apart() -> None:
    fused: Any = fjit.fuse(lambda x, s: x * s)
    x = np.ones(3, "f4")
    for scalar in (2, 2.0, np.float64(2), np.float32(2), np.int8(2), True):
        got, want = fused(x, scalar), x * scalar
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_a_hundred_lengths_compile_next_to_nothing() -> None:
    fused: Any = fjit.fuse(lambda x, y: (np.tanh(x * y).sum(), x - y))
    fused(np.ones(18), np.ones(18))
    before = fused.cache_info().compiles
    for n in range(20, 820, 8):
        total, difference = fused(np.full(n, 0.5), np.full(n, 2.0))
        np.testing.assert_allclose(total, n * np.tanh(1.0), rtol=1e-14)
        np.testing.assert_array_equal(difference, np.full(n, -1.5))
    info = fused.cache_info()
    assert info.traces == 101 and info.compiles - before <= 1


def test_many_shapes_of_rank_two_compile_a_few_times_at_most() -> None:
    fused: Any = fjit.fuse(lambda x: x / np.sqrt((x * x).sum(axis=1, keepdims=True)))
    for rows in range(17, 60, 7):
        for columns in range(17, 300, 23):
            x = np.full((rows, columns), 2.0)
            np.testing.assert_allclose(fused(x), columns**-0.5, rtol=1e-14)
    assert fused.cache_info().compiles <= 4


def test_the_second_call_is_a_hit_and_costs_no_seconds() -> None:
    fused: Any = fjit.fuse(lambda x: x + 1)
    fused(np.ones(3))
    seconds = fused.cache_info().seconds
    fused(np.ones(3))
    info = fused.cache_info()
    assert (info.hits, info.misses, info.seconds) == (1, 1, seconds)
    assert info.bytes > 0 and seconds > 0


def test_cache_clear_forgets() -> None:
    fused: Any = fjit.fuse(lambda x: x + 2)
    fused(np.ones(3))
    fused.cache_clear()
    assert fused.cache_info() == (0, 0, 0, 0, 0.0, 0)
    np.testing.assert_array_equal(fused(np.ones(3)), 3)
    assert fused.cache_info().traces == 1


def test_traces_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fjit.fused, "MAX_ENTRIES", 8)
    fused: Any = fjit.fuse(target="interpreter")(lambda x: x + 1)
    for n in range(1, 30):
        fused(np.ones(n))
    assert fused.cache_info().traces == 29
    fused(np.ones(29))
    assert fused.cache_info().hits == 1, "the latest is kept"
    fused(np.ones(1))
    assert fused.cache_info().traces == 30, "the oldest is gone"


def test_what_is_used_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fjit.fused, "MAX_ENTRIES", 4)
    fused: Any = fjit.fuse(target="interpreter")(lambda x: x + 1)
    fused(np.ones(1))
    for n in range(2, 12):
        fused(np.ones(n))
        fused(np.ones(1))
    assert fused.cache_info().traces == 11


# Values from outside

GAIN = 1.0
TABLE = np.arange(3.0)


def with_globals(x: Any) -> Any:
    return x * GAIN + TABLE


def test_globals_are_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    fused: Any = fjit.fuse(with_globals)
    x = np.ones(3)
    for gain, table in ((1.0, TABLE), (5.0, TABLE), (5.0, TABLE * 2), (1, TABLE), (1.0, TABLE)):
        monkeypatch.setitem(globals(), "GAIN", gain)
        monkeypatch.setitem(globals(), "TABLE", table)
        np.testing.assert_array_equal(fused(x), with_globals(x))
    traces = fused.cache_info().traces
    np.testing.assert_array_equal(fused(x), with_globals(x))
    assert fused.cache_info().traces == traces <= 5


def test_closures_are_fresh_and_arrays_are_read_by_reference() -> None:
    weights, offset = np.arange(3.0), 1.0

    def shift(by: float) -> None:
        nonlocal offset
        offset += by

    fused: Any = fjit.fuse(lambda x: x * weights + offset)
    x = np.ones(3)
    np.testing.assert_array_equal(fused(x), weights + 1)
    weights[:] = 7
    np.testing.assert_array_equal(fused(x), [8, 8, 8])
    assert fused.cache_info().traces == 1
    shift(2)
    np.testing.assert_array_equal(fused(x), [10, 10, 10])


def test_a_captured_array_may_change_its_shape_and_layout() -> None:
    state = {"table": np.arange(6.0).reshape(2, 3)}
    fused: Any = fjit.fuse(lambda x: x + state["table"].sum(axis=0))
    x = np.zeros(3)
    for table in (state["table"], np.ones((5, 3)), np.asfortranarray(np.ones((5, 3))), np.eye(3)):
        state["table"] = table
        np.testing.assert_array_equal(fused(x), table.sum(axis=0))


class Model:
    """A model whose attributes are read by its fused method."""

    def __init__(self) -> None:
        self.rate = 2.0
        self.weights = np.ones(3)

    @fjit.fuse
    def step(self, x: Any) -> Any:
        return x * self.rate + self.weights


def step_of(model: Model, x: Any) -> Any:
    return x * model.rate + model.weights


def test_attributes_read_through_a_closure_are_fresh() -> None:
    model = Model()
    fused = fjit.fuse(lambda x: step_of(model, x))
    x = np.ones(3)
    for rate in (2.0, 3.0, 2.0):
        model.rate = rate
        np.testing.assert_array_equal(fused(x), x * rate + 1)
    model.weights = np.full(3, 9.0)
    np.testing.assert_array_equal(fused(x), 11)


def test_a_fused_method_sees_its_instance() -> None:
    first, second = Model(), Model()
    second.rate = 10.0
    x = np.ones(3)
    np.testing.assert_array_equal(first.step(x), 3)
    np.testing.assert_array_equal(second.step(x), 11)


# Code on disk

PROCESS = """
import json, sys
import numpy as np
import fjit
f = fjit.fuse(cache=sys.argv[1] == "on")(lambda x, y: np.exp(-x * y).sum(axis=1) + 41)
x = np.linspace(0, 1, 600).reshape(20, 30)
result = f(x, x + 1)
print(json.dumps([f.cache_info().compiles, result.tolist()]))
"""


def in_process(cache: str, directory: Path) -> tuple[int, list[float]]:
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, cache],
        env={**os.environ, "FJIT_CACHE_DIR": str(directory)},
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    compiles, result = json.loads(done.stdout)
    return compiles, result


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    first, result = in_process("on", tmp_path)
    second, again = in_process("on", tmp_path)
    assert first >= 1 and second == 0 and result == again


def test_the_disk_can_be_left_alone(tmp_path: Path) -> None:
    assert in_process("off", tmp_path)[0] >= 1
    assert in_process("off", tmp_path)[0] >= 1


def test_a_folder_that_cannot_be_written_still_runs(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert in_process("on", blocked / "cache")[0] >= 1


# Copies


@fjit.fuse
def importable(x: Any) -> Any:
    return np.tanh(x) + 1


def plain(x: Any) -> Any:
    return np.tanh(x) + 2


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_fused_function_can_be_pickled(protocol: int) -> None:
    x = np.linspace(-1, 1, 7)
    fused: Any = fjit.fuse(static_argnames=(), fusion="none", threads=1)(plain)
    want = fused(x)
    loaded = pickle.loads(pickle.dumps(fused, protocol))
    assert loaded.choices == fused.choices
    np.testing.assert_array_equal(loaded(x), want)


def test_a_decorated_function_can_be_pickled() -> None:
    x = np.linspace(-1, 1, 7)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(importable))(x), importable(x))


def test_copies_work() -> None:
    x = np.linspace(-1, 1, 7)
    for made in (copy.copy(importable), copy.deepcopy(importable), copy.deepcopy([importable])[0]):
        np.testing.assert_array_equal(made(x), importable(x))


def test_it_looks_like_the_function() -> None:
    assert importable.__name__ == "importable" and importable.__module__ == __name__
    assert "importable" in repr(importable)
    fused = fjit.fuse(functools.partial(clipped, s=2.0))
    np.testing.assert_array_equal(fused(np.arange(4.0)), clipped(np.arange(4.0), 2.0))
