"""How well the accesses of fjit's kernels coalesce, by the emulator's counts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.backend import emulator
from fjit.backend.ptx.traffic import Traffic

pytestmark = pytest.mark.nvvm

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 192, 320)).astype("f4")
YT = np.ascontiguousarray(Y.T)


def traffic(function: Callable[..., Any], *arguments: Any) -> Traffic:
    fused = fjit.fuse(function, target="cuda-emulator:sm_90")
    with emulator.counting() as counts:
        fused(*arguments)
    assert counts.bytes > 0
    return counts


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], float]] = {
    "add-f4": (lambda x, y: x + y, (X, Y), 1.0),
    "add-f8": (lambda x, y: x + y, (X.astype("f8"), Y.astype("f8")), 1.0),
    "add-u1": (lambda x, y: x | y, (X > 0, Y > 0), 1.0),
    "add-i2": (lambda x, y: x + y, (X.astype("i2"), Y.astype("i2")), 1.0),
    "add-f2": (lambda x, y: x + y, (X.astype("f2"), Y.astype("f2")), 1.0),
    "turned-f4": (lambda x, y: x.T + y, (X, YT), 1.0),
    "turned-f8": (lambda x, y: x.T + y, (X.astype("f8"), YT.astype("f8")), 1.0),
    "turned-u1": (lambda x, y: x.T | y, (X > 0, YT > 0), 1.0),
    "turned-back": (lambda x, y: (x.T * y).T, (X, YT), 1.0),
    "rows": (lambda x: x.sum(axis=1), (X,), 1.05),
    "columns": (lambda x: x.sum(axis=0), (X,), 1.05),
    "whole": (lambda x: x.sum(), (X,), 1.05),
    "softmax": (lambda x: np.exp(x) / np.exp(x).sum(axis=1, keepdims=True), (X,), 1.0),
    "layernorm": (lambda x: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True), (X,), 1.05),
    "cumsum": (np.cumsum, (X.ravel(),), 1.1),
    "filter": (lambda x: x[x > 0], (X.ravel(),), 1.2),
    "product": (lambda x, y: x @ y.T, (X, Y), 1.4),
}


@pytest.mark.parametrize("name", CASES)
def test_accesses_coalesce(name: str) -> None:
    function, arguments, most = CASES[name]
    assert traffic(function, *arguments).ratio <= most


@pytest.mark.parametrize("name", ["turned-f4", "turned-f8", "turned-back", "rows", "softmax"])
def test_shared_memory_has_no_conflicts(name: str) -> None:
    function, arguments, _ = CASES[name]
    counts = traffic(function, *arguments)
    assert counts.passes > 0
    assert counts.conflicts == 0


def test_what_walks_across_is_seen() -> None:
    apart = traffic(lambda x: x[:, ::8] * 2, X)
    assert apart.ratio > 3
