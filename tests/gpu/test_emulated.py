"""GPU code run by the emulator: the corpus, random programs and odd arguments, against NumPy."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.oracle.check import EMULATED, check_paths
from fjit.oracle.choose import seeded
from fjit.oracle.programs import build
from fjit.runtime import device
from fjit.target import GPU_TARGETS
from fjit.testing import check_emulated
from tests.corpus import CORPUS

pytestmark = pytest.mark.nvvm

RANDOM, PARTS = 200, 8
RNG = np.random.default_rng(5)


@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name: str) -> None:
    case = CORPUS[name]
    check_emulated(case.function, *case.arguments())


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int) -> None:
    """Each on one of the architectures."""
    for seed in range(part, RANDOM, PARTS):
        program = build(seeded(seed))
        path = EMULATED[seed // PARTS % len(EMULATED)]
        try:
            check_paths(program.function, program.arguments, {}, [path])
        except AssertionError as error:
            raise AssertionError(f"{program}\n{error}") from error


@pytest.mark.parametrize("name", CORPUS)
def test_all_architectures_link_without_spills(name: str) -> None:
    case = CORPUS[name]
    for arch in GPU_TARGETS:
        lowered = fjit.fuse(case.function, target=f"cuda:{arch}").lower(*case.arguments())
        assert lowered.ptx is not None and lowered.sass_info is not None
        assert f".target {arch}" in lowered.ptx
        assert all(k.actual_registers and not k.actual_spills for k in lowered.sass_info), name


@pytest.mark.parametrize("reduce", [np.sum, np.max, np.mean, np.prod, np.argmax, np.var])
def test_values_between_kernels_without_elements(reduce: Callable[..., Any]) -> None:
    """Loads of one that is the same for all steps stand before loops that have none."""
    for shape in ((0, 3), (0, 700), (4, 0, 3)):
        x = np.zeros(shape, "f4")
        check_emulated(lambda x: reduce(x, axis=-1, keepdims=True), x)
        check_emulated(lambda x: reduce(x, axis=-1)[..., None] * 2, x)


DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
FORMS: dict[str, Callable[[Any], Any]] = {
    "elements": lambda x: np.where(x > 1, x + x, x * x),
    "rows": lambda x: (x.sum(1), x.max(1), x.argmin(1)),
    "columns": lambda x: (x.sum(0), x.min(0), x.argmax(0)),
    "all": lambda x: (x.sum(), x.prod(), x.max(), x.argmax(), x.any(), x.all()),
    "running": lambda x: x.cumsum(1),
    "running all": lambda x: x.cumsum(),
    "kept": lambda x: x[x > 0],
    "sorted": lambda x: np.sort(x, 1) + x,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FORMS)
def test_every_dtype(name: str, dtype: str) -> None:
    for shape in ((3, 5), (40, 33), (2, 700)):
        x = (RNG.normal(size=shape) * 2).astype("i1").astype(dtype)
        check_paths(FORMS[name], (x,), {}, EMULATED[-1:])


@pytest.mark.parametrize("name", CORPUS)
def test_positions_of_64_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrays of more than 512 MiB get."""
    monkeypatch.setattr(device, "is_short", lambda *given: False)
    case = CORPUS[name]
    check_paths(case.function, case.arguments(), {}, EMULATED[-1:])


@pytest.mark.parametrize("extent", [1, 2, 3, 4, 5, 31, 32, 33, 127, 128, 129, 1023, 4097])
def test_row_lengths(extent: int) -> None:
    """Fewer threads than lanes of a warp, whole warps, several steps."""
    x = RNG.normal(size=(3, extent)).astype("f4")

    def rows(x: Any) -> Any:
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True), x.var(1), x.argmax(1), x.cumsum(1), x.sum()

    check_paths(rows, (x,), {}, EMULATED[1:2])


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "backwards": lambda x: x[::-1, ::-1],
    "strided": lambda x: x[::2, 1::3],
    "columns first": np.asfortranarray,
    "repeated": lambda x: np.broadcast_to(x[:1], (5, 12)),
    "swapped": lambda x: x.astype(x.dtype.newbyteorder()),
    "unaligned": lambda x: np.frombuffer(b"-" + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
    "off a line": lambda x: x[:, 1:],
    "empty": lambda x: x[:, :0],
    "of a record": lambda x: np.rec.fromarrays([x, x.astype("i1")])["f0"],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    x = LAYOUTS[name](RNG.normal(size=(6, 12)))
    check_emulated(lambda x: (x * 2 + 1, x.sum(1), x.T.copy()), x)


def test_writes_into_arguments() -> None:
    def step(u: Any, v: Any) -> None:
        u[1:-1] += v[1:-1] * 0.5
        v[...] = u[::-1]
        u[0] = u[-1]

    u = RNG.normal(size=(40, 7))
    check_emulated(step, u, u.copy())
    unaligned = LAYOUTS["unaligned"](u).copy()
    check_emulated(step, unaligned, u)


def test_errors_are_those_of_the_cpu() -> None:
    check_emulated(lambda x, k: x[k], np.arange(5.0), np.array([1, 9]))
    check_emulated(lambda a, b: a**b, np.array([2, 3]), np.array([1, -1]))


def test_accesses_are_wide_and_kernels_few() -> None:
    x = np.ones(1 << 20, "f4")
    lowered = fjit.fuse(lambda x, y: np.tanh(x) * y + 1, target="cuda:sm_90").lower(x, x)
    assert lowered.ptx is not None
    assert re.search(r"ld\.global(\.nc)?\.v4", lowered.ptx)
    assert re.search(r"st\.global\.v4", lowered.ptx)
    assert lowered.ptx.count(".entry") == 1
    assert "bar.sync" not in lowered.ptx


def test_sums_do_not_depend_on_the_place_of_their_terms() -> None:
    """An aligned row is read in wide accesses, another one element by element, in one order."""
    row = RNG.normal(size=1000).astype("f4")
    apart = np.concatenate([row[:1], row])[1:]
    total = fjit.fuse(lambda x: x.sum(), target="cuda-emulator")
    assert total(row.copy()) == total(apart)


def test_chunks_of_large_reductions() -> None:
    """Blocks of their own, whose partial results a second launch merges; columns a thread each."""
    x = RNG.normal(size=(600, 700)).astype("f4")

    def reductions(x: Any) -> Any:
        return x.sum(), x.max(), x.argmax()

    check_paths(reductions, (x,), {}, EMULATED[:1])
    check_paths(lambda x: (x.sum(0), x.mean(0), x.min(0)), (x,), {}, EMULATED[:1])
    lowered = fjit.fuse(lambda x: x.sum(), target="cuda:sm_90").lower(x)
    assert lowered.nests[0].phases[0].tasks > 4 and len(lowered.nests[0].phases) == 2


@pytest.mark.parametrize("shape", [(9000, 64), (70_000, 1)])
def test_tasks_of_different_lengths_share_no_block(shape: tuple[int, int]) -> None:
    """The last chunk of rows is shorter, and a barrier waits for all threads of a block."""
    x = RNG.normal(size=shape).astype("f4")
    for arrays in (x, np.asfortranarray(x)):
        check_paths(lambda x: (x.max(0), x.sum(0), x.argmin(0)), (arrays,), {}, EMULATED[1:2])
        check_paths(lambda x: x.max(1).sum(), (arrays,), {}, EMULATED[1:2])
