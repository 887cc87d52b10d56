"""Versions of vector loops: stores past the caches, rows without guards; no result changes."""

import dataclasses

import numpy as np
import pytest

import fjit
from fjit.runtime.host import host
from fjit.testing import check
from tests.corpus import CORPUS

PLAIN = dataclasses.replace(host(), l3_bytes=1 << 40)
TINY = dataclasses.replace(host(), l3_bytes=0)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose last-level cache holds nothing: whatever may go past the caches does."""
    monkeypatch.setattr("fjit.planning.host", lambda: TINY)
    monkeypatch.setattr("fjit.report.lowered.with_caches", lambda _: TINY)


def streamed(function: object, *args: object) -> int:
    """Stores past the caches in the code of a function."""
    return fjit.fuse(function).lower(*args).llvm_ir.count("!nontemporal")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", CORPUS)
def test_the_corpus(name: str) -> None:
    check(CORPUS[name].function, *CORPUS[name].arguments())


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("start", range(4))
@pytest.mark.parametrize("extent", [1, 7, 15, 16, 17, 63, 100, 1030])
def test_rows_that_begin_anywhere_in_a_cache_line(extent: int, start: int) -> None:
    x = np.random.default_rng(start).normal(size=(5, extent + start)).astype("f4")[:, start:]
    check(lambda x: (x * 2, np.tanh(x).astype("f8"), x > 0), x)
    check(lambda x: (np.cumsum(x, axis=1), (x + 1, x.sum(axis=1))), x)
    check(lambda x: (x - x.max(axis=1, keepdims=True))[:, 1:], x)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("shape", [(64, 512), (33, 50), (16, 256), (70, 304), (17, 17)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
def test_tiles(dtype: str, shape: tuple[int, int]) -> None:
    x, y = (np.ones(s, dtype) * 3 for s in (shape, shape[::-1]))
    x += np.arange(shape[1], dtype=dtype)
    check(lambda x, y: (x.T + y, (x.T * y)[1:, 1:]), x, y)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "f2", "i4", "f4", "i8", "f8"])
def test_every_dtype(dtype: str) -> None:
    x = np.arange(3 * 1000).reshape(3, 1000).astype(dtype)
    check(lambda x: (x | x if x.dtype.kind in "biu" else x + x, x > 1, x.astype("f8")), x)


def test_only_what_no_cache_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones(1000, "f4")
    monkeypatch.setattr("fjit.report.lowered.with_caches", lambda _: PLAIN)
    assert streamed(lambda x: x * 2, x) == 0
    moved = dataclasses.replace(PLAIN, l3_bytes=x.nbytes * 8 // 3 + 1)
    monkeypatch.setattr("fjit.report.lowered.with_caches", lambda _: moved)
    assert streamed(lambda x: x * 2, x) == 0
    less = dataclasses.replace(PLAIN, l3_bytes=x.nbytes * 8 // 3)
    monkeypatch.setattr("fjit.report.lowered.with_caches", lambda _: less)
    assert streamed(lambda x: x * 2, x) > 0


@pytest.mark.usefixtures("tiny")
def test_only_stores_side_by_side() -> None:
    x = np.ones((100, 100), "f4")
    assert streamed(lambda x: x.sum(axis=1), x) == 0
    assert streamed(lambda x: np.asarray(x * 2, order="F")[:, ::2], x) == 0
    assert streamed(lambda x: x[x > 0], x) == 0
    assert streamed(lambda x: x.T + x, x) > 0


@pytest.mark.skipif(host().architecture != "x86_64", reason="a fence of x86")
@pytest.mark.usefixtures("tiny")
def test_a_fence_ends_each_phase_that_streams() -> None:
    x = np.ones(1000, "f4")
    assert fjit.fuse(lambda x: x * 2).lower(x).llvm_ir.count("call void @llvm.x86.sse.sfence") == 1
    assert "sfence" not in fjit.fuse(lambda x: x.sum()).lower(x).llvm_ir
    assert "movnt" in fjit.fuse(lambda x: x * 2).lower(x).asm


# Rows without guards


def neighbours(x: np.ndarray, value: float = 0.0) -> np.ndarray:
    rows, columns = x.shape
    framed = np.pad(x, 1, constant_values=value)
    return sum(framed[a : a + rows, b : b + columns] for a in range(3) for b in range(3))


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (2, 33), (3, 64), (17, 129)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "?"])
def test_frames_of_rows(dtype: str, shape: tuple[int, int]) -> None:
    x = (np.random.default_rng(1).normal(size=shape) * 9).astype(dtype)
    check(lambda x: neighbours(x) + (neighbours(x, 3.0) * 2).astype(x.dtype), x)
    check(lambda x: (np.pad(x, ((2, 0), (0, 0)))[:-1].sum(axis=1), np.pad(x * 2, 2, "edge")), x)
    check(lambda x: np.pad(x, ((0, 1), (3, 3))).max(axis=0) + np.pad(x, 3)[0, 3], x)


@pytest.mark.usefixtures("tiny")
def test_frames_past_the_caches() -> None:
    x = np.random.default_rng(2).normal(size=(9, 200)).astype("f4")
    check(neighbours, x)


def test_inner_rows_have_no_guards() -> None:
    """The loop of rows within the frame loads and adds; nothing is selected."""
    text = fjit.fuse(neighbours).lower(np.ones((50, 500), "f4")).llvm_ir
    fast = text[text.index("\nfast") :]
    fast = fast[: fast.index("\njoined")]
    body = fast[: fast.index("\nplain")]
    assert "fadd" in body
    assert "select i1" not in body.split("\nbody")[1].split("br label")[0]
