"""Filters and running reductions that many blocks share, in the emulator: decoupled look-back."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.backend import spread
from fjit.backend.look_back import STEPS
from fjit.lower.carried import carried
from fjit.runtime.cuda_executable import STATUS
from fjit.target import GPU_TARGETS
from fjit.testing import check_emulated

pytestmark = pytest.mark.nvvm

PARTITION = spread.THREADS * STEPS
RNG = np.random.default_rng(23)
DTYPES = ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8"]


def numbers(size: int, dtype: str = "f4") -> Any:
    return (RNG.normal(size=size) * 2).astype("i1").astype(dtype)


def is_shared(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether blocks share the only loop of one of the function's kernels."""
    nests = fjit.fuse(function, target="cuda:sm_90").lower(*arguments).nests
    return any(carried(nest.phases[0].loop) is not None for nest in nests)


FILTERS: dict[str, Callable[..., Any]] = {
    "one": lambda x, y: x[x > 0],
    "worked on": lambda x, y: x[x > y] * y[x > y] + 1,
    "two masks": lambda x, y: (x[x > 0], y[y < 0], x[y < 0]),
    "beside elements": lambda x, y: (x[x > 0], x + y),
    "places": lambda x, y: np.flatnonzero(x > 0),
    "with a running sum": lambda x, y: (x[x > 0], x.cumsum(), np.cumsum(y * 2)),
}
SCANS: dict[str, Callable[..., Any]] = {
    "sum": lambda x: x.cumsum(),
    "product": lambda x: np.cumprod(x * 0 + 1),
    "maximum": np.maximum.accumulate,
    "minimum": np.minimum.accumulate,
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("size", [0, 1, 33, PARTITION, PARTITION + 1, 3 * PARTITION - 7])
def test_filters(name: str, size: int) -> None:
    x, y = numbers(size), numbers(size)
    check_emulated(FILTERS[name], x, y)
    assert size < 2 or is_shared(FILTERS[name], x, y)  # one element is no loop


@pytest.mark.parametrize("dtype", DTYPES)
def test_filters_of_every_dtype(dtype: str) -> None:
    check_emulated(lambda x: x[x > 0], numbers(2 * PARTITION + 5, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SCANS)
def test_scans_of_every_dtype(name: str, dtype: str) -> None:
    check_emulated(SCANS[name], numbers(2 * PARTITION + 5, dtype))


@pytest.mark.parametrize("kept", [0.0, 1.0])
def test_nothing_and_everything(kept: float) -> None:
    x = np.full(PARTITION + 9, kept, "f4")
    check_emulated(lambda x: x[x > 0.5], x)


def test_strided_and_reversed() -> None:
    x = numbers(4 * PARTITION)
    check_emulated(lambda x: (x[x > 0], x.cumsum()), x[::-2])


def test_not_a_number_runs_on() -> None:
    x = numbers(2 * PARTITION)
    x[PARTITION - 3] = np.nan
    check_emulated(lambda x: (x.cumsum(), np.maximum.accumulate(x)), x)


@pytest.mark.parametrize("blocks", [1, 2, 7, 64])
def test_bits_do_not_depend_on_the_blocks(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More partitions than a warp looks at in one go, by few blocks and by many."""
    x = RNG.normal(size=45 * PARTITION).astype("f4")

    def running(x: Any) -> Any:
        return x.cumsum(), x[x > 1]

    def results() -> Any:
        return fjit.fuse(running, target="cuda-emulator:sm_90")(x)

    sums, kept = results()
    monkeypatch.setattr(spread, "MOST_WIDE", blocks)
    again, kept_again = results()
    assert sums.tobytes() == again.tobytes()
    assert kept.tobytes() == kept_again.tobytes() == x[x > 1].tobytes()
    np.testing.assert_allclose(sums, x.cumsum(dtype="f8"), atol=1e-3)


def test_what_is_left_to_one_block() -> None:
    """A running value of running values, rows."""
    x = numbers(7 * 300)
    for function in (lambda x: x.cumsum().cumsum(), lambda x: x.reshape(7, -1).cumsum(1)):
        assert not is_shared(function, x)
        check_emulated(function, x)


def test_what_runs_on_beside_other_things() -> None:
    x = numbers(2 * PARTITION)
    check_emulated(lambda x: x[x.cumsum() > 3], x)
    check_emulated(lambda x: (x[x > 0], x.sum(), x.max()), x)


def test_the_counter_of_partitions_is_no_error_of_values() -> None:
    """Whoever sees an atomic instruction on the status word waits for it to be read back."""
    x = numbers(10 * PARTITION)
    for function, raises in ((SCANS["sum"], False), (lambda x: x[x.astype("i8")], True)):
        for arch in ("sm_75", "sm_100"):
            ptx = fjit.fuse(function, target=f"cuda:{arch}").lower(x).ptx
            assert ptx is not None
            assert bool(STATUS.search(ptx)) is raises, arch


@pytest.mark.parametrize("arch", GPU_TARGETS)
def test_links_without_spills(arch: str) -> None:
    x = numbers(10 * PARTITION)
    for function in (FILTERS["with a running sum"], FILTERS["two masks"]):
        used = fjit.fuse(function, target=f"cuda:{arch}").lower(x, x + 1).sass_info
        assert used is not None and not any(k.actual_spills for k in used)
