"""Lanes of vector loops, and every description of this machine's processor family at work."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fjit
from fjit.backend.lanes import end_lanes, lanes_for
from fjit.errors import FjitValueError
from fjit.runtime.host import host
from fjit.target import CPU_TARGETS

ROOT = Path(__file__).parents[2]
X = np.ones((40, 60), np.float32)

SCRIPT = """
import numpy as np
from fjit.oracle.check import NATURAL, check_paths
from tests.corpus import CORPUS

rng = np.random.default_rng(0)
more = (
    lambda x: (np.cumsum(np.exp(x), axis=1), np.cumprod(x, axis=0)),
    lambda x: np.tanh(x.T) + x.T,
    lambda x: (np.exp(x).sum(axis=0), np.hypot(x, x) - x.max(axis=0)),
    lambda x: (np.concatenate([x, x * 2]).sum(axis=0), x.T.argmax(), x[1:-1] + x[2:] + x[:-2]),
)
for case in CORPUS.values():
    check_paths(case.function, case.arguments(), {}, (NATURAL,))
for function in more:
    for dtype in ("f4", "f8"):
        check_paths(function, (rng.normal(size=(40, 37)).astype(dtype),), {}, (NATURAL,))
print("all agree")
"""


@pytest.mark.parametrize("name", CPU_TARGETS)
def test_every_description_computes_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FJIT_CPU", name)
    try:
        host()
    except FjitValueError:
        pytest.skip(f"this machine cannot run {name}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "all agree\n", done.stderr[-2000:]


@pytest.mark.parametrize(
    ("function", "lanes", "ends"),
    [
        (lambda x: x + 1, 16, 16),
        (np.tanh, 64, 16),
        (lambda x: np.exp(x).sum(axis=1), 32, 16),
        (lambda x: x[1:-1] + x[2:] + x[:-2], 8, 8),
        (lambda x: np.cumsum(np.exp(x), axis=1), 8, 8),
        (lambda x: x[np.exp(x) > 1], 16, 16),
    ],
)
def test_lanes_of_avx512(function: object, lanes: int, ends: int) -> None:
    nest = fjit.fuse(function).lower(X).nests[0]  # type: ignore[call-overload]
    target = CPU_TARGETS["avx512"]
    assert (lanes_for(nest, target), end_lanes(nest, target)) == (lanes, ends)
