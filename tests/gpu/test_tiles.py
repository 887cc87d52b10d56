"""Operands and results that lie across the others' memory order, turned in shared memory."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.oracle.check import EMULATED, check_paths
from fjit.target import GPU_TARGETS

pytestmark = pytest.mark.nvvm

RNG = np.random.default_rng(3)
SHAPES = ((1, 1), (33, 65), (67, 130), (3, 300), (300, 9), (0, 5), (5, 0))
FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "first": lambda x, y: x.T + y,
    "second": lambda x, y: x + y.T,
    "result": lambda x, y: (x.T * y).T,
    "backwards": lambda x, y: x.T[::-1, 1:-1] + y[:, 1:-1],
    "copy": lambda x, y: (x.T.copy(), y.T.copy()),
    "edges": lambda x, y: (np.pad(x.T, 1), np.concatenate([x.T, y], axis=1)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FORMS)
def test_forms_and_sizes(name: str, shape: tuple[int, int]) -> None:
    x, y = RNG.normal(size=shape).astype("f4"), RNG.normal(size=shape[::-1]).astype("f4")
    check_paths(FORMS[name], (x, y), {}, EMULATED[1:2])


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "f2", "f4", ">f4", "f8", ">i8"])
def test_item_sizes(dtype: str) -> None:
    x, y = ((RNG.normal(size=s) * 3).astype("i1").astype(dtype) for s in ((33, 65), (65, 33)))
    check_paths(lambda x, y: x.T | y if dtype == "?" else x.T + y, (x, y), {}, EMULATED[:1])


def test_axes_of_several_and_heavy_bodies() -> None:
    z = RNG.normal(size=(5, 33, 40)).astype("f4")
    w = RNG.normal(size=(40, 33, 5)).astype("f4")
    check_paths(lambda z, w: z.transpose(2, 1, 0) + w, (z, w), {}, EMULATED[2:])
    check_paths(lambda z: np.ascontiguousarray(z.transpose(1, 2, 0)), (z,), {}, EMULATED[:1])
    x, y = z[0], np.ascontiguousarray(z[1].T)
    heavy = lambda x, y: np.sin(x.T) * np.exp(y) + np.arctan(x.T + y) ** 2.5
    check_paths(heavy, (abs(x), abs(y)), {}, EMULATED[1:2])


def test_operands_beyond_the_memory_of_a_block_stay_where_they_are() -> None:
    arrays = [RNG.normal(size=(20, 33)) for _ in range(7)]
    total = lambda y, *rest: sum((a.T for a in rest), y)
    given = (np.ascontiguousarray(arrays[0].T), *arrays[1:])
    check_paths(total, given, {}, EMULATED[1:2])
    (usage,) = fjit.fuse(total, target="cuda:sm_90").lower(*given).sass_info or ()
    assert 0 < usage.shared_bytes <= 48 << 10


@pytest.mark.parametrize("name", FORMS)
def test_turned_in_shared_memory_without_spills(name: str) -> None:
    x, y = np.ones((640, 320), "f4"), np.ones((320, 640), "f4")
    for arch in GPU_TARGETS:
        lowered = fjit.fuse(FORMS[name], target=f"cuda:{arch}").lower(x, y)
        assert lowered.ptx is not None and lowered.sass_info is not None
        assert re.search(r"st\.shared\.[bfu]32", lowered.ptx), arch
        assert not any(k.actual_spills for k in lowered.sass_info), arch
