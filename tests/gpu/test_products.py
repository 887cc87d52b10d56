"""Matrix products as GPU kernels, in the emulator: every dtype, layout and tile, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.backend import emulator, nvvm
from fjit.backend.tiled_product import LARGE, MIDDLE, SMALL, Form, Tiling, emit, held_as
from fjit.optimize.frames import is_frame
from fjit.optimize.products import LONG
from fjit.oracle.check import EMULATED, check_paths
from fjit.runtime.gpu_products import MANY, tiling_of
from fjit.target import GPU_TARGETS
from fjit.testing import check_emulated

pytestmark = pytest.mark.nvvm

RNG = np.random.default_rng(3)
DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
TILINGS = (SMALL, MIDDLE, LARGE)
FORMS = [
    Form(np.dtype(dtype), tiling, left, right, batch)
    for dtype in ("?", "u8", "f2", "f4", "f8")
    for tiling in TILINGS
    for left in (False, True)
    for right in (False, True)
    for batch in (0, 2)
    if tiling != LARGE or held_as(np.dtype(dtype)).bits == 32
]


def random(dtype: str, *shape: int) -> Any:
    """Numbers that wrap around where integers do, and that halves do not overflow from."""
    if dtype == "?":
        return RNG.random(shape) < 0.1
    if dtype[0] == "f":
        return RNG.normal(size=shape).astype(dtype)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)


def has_product(f: Callable[..., Any], *arguments: Any) -> bool:
    """Whether the plan has a product for the GPU's kernel; else it is written out."""
    lowered = fjit.fuse(f, target="cuda:sm_90").lower(*arguments)
    return any(is_frame(eqn) for eqn in lowered.plan.program.eqns)


# Programs


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: str) -> None:
    x, w = random(dtype, 37, 70), random(dtype, 70, 33)
    assert has_product(np.matmul, x, w)
    check_emulated(np.matmul, x, w)


@pytest.mark.parametrize("m", [1, 2, 31, 33, 64, 70])
@pytest.mark.parametrize("k", [0, 1, 15, 16, 17, 32, 61])
def test_edges(m: int, k: int) -> None:
    for n in (1, 5, 32, 65):
        check_paths(np.matmul, (random("f4", m, k), random("f4", k, n)), {}, EMULATED[1:2])


def _unaligned(a: Any) -> Any:
    memory = np.zeros(a.nbytes + 1, np.uint8)
    there = memory[1:].view(a.dtype).reshape(a.shape)
    there[...] = a
    return there


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda a: a.swapaxes(-1, -2).copy().swapaxes(-1, -2),
    "backwards": lambda a: a[..., ::-1, ::-1].copy()[..., ::-1, ::-1],
    "every second": lambda a: np.repeat(np.repeat(a, 2, -1), 3, -2)[..., ::3, ::2],
    "one row": lambda a: np.broadcast_to(a[..., :1, :], a.shape),
    "one column": lambda a: np.broadcast_to(a[..., :1], a.shape),
    "swapped bytes": lambda a: a.astype(a.dtype.newbyteorder("S")),
    "unaligned": _unaligned,
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    layout = LAYOUTS[name]
    x, w = random("f8", 3, 37, 40), random("f8", 3, 40, 35)
    for a, b in ((layout(x), w), (x, layout(w)), (layout(x), layout(w))):
        check_paths(np.matmul, (a, b), {}, EMULATED[-1:])


def test_views_are_read_in_place() -> None:
    """No kernel copies what strides can say: the product is the only step."""
    x, w = random("f4", 80, 90), random("f4", 90, 40)

    def views(x: Any, w: Any) -> Any:
        return x.T[::-1, 1:41] @ w[:40, ::-1]

    lowered = fjit.fuse(views, target="cuda:sm_90").lower(x, w)
    assert len(lowered.plan.steps) == 1
    check_emulated(views, x, w)


STACKS = [
    ((3, 20, 30), (3, 30, 25)), ((2, 3, 20, 30), (2, 3, 30, 25)), ((4, 20, 30), (30, 25)),
    ((20, 30), (4, 30, 25)), ((2, 1, 20, 30), (1, 3, 30, 25)), ((0, 20, 30), (0, 30, 25)),
    ((5, 1, 40), (5, 40, 50)), ((5, 50, 40), (5, 40, 1)), ((70, 30), (30,)), ((30,), (30, 70)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), STACKS, ids=str)
def test_stacks(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    for dtype in ("f4", "i2"):
        check_paths(np.matmul, (random(dtype, *left), random(dtype, *right)), {}, EMULATED[:1])


def test_a_stack_of_transposed_matrices() -> None:
    x, w = random("f4", 20, 3, 4, 30), random("f4", 4, 30, 3, 25)
    check_emulated(lambda x, w: x.transpose(1, 2, 0, 3) @ w.transpose(2, 0, 1, 3), x, w)


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a layer": lambda x, w, b: np.maximum(x @ w + b, 0),
    "two layers": lambda x, w, b: np.maximum(np.tanh(x @ w + b) @ w.T, 0),
    "between reductions": lambda x, w, b: ((x - x.mean(1)[:, None]) @ (w * 2)).sum(0) + b,
    "einsum": lambda x, w, b: np.einsum("ij,jk->ik", x, w) + b,
    "dot and outer": lambda x, w, b: np.dot(x, w) + np.outer(x[:, 0], b),
    "a product of itself": lambda x, w, b: (x.T @ x, x @ x.T, b),
    "in place": lambda x, w, b: _in_place(x, w),
    "what a mask kept": lambda x, w, b: x[x[:, 0] > 0] @ w + b,
    "sorted between": lambda x, w, b: np.sort(x @ w, axis=1) @ w.T,
}


def _in_place(x: Any, w: Any) -> Any:
    x[:, :33] = x @ w
    return x.sum()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    x, w, b = random("f8", 40, 50), random("f8", 50, 33), random("f8", 33)
    check_emulated(PROGRAMS[name], x, w, b)


def _whole(x: Any, w: Any) -> None:
    x[...] = x @ w


def _turned(x: Any, w: Any) -> Any:
    x[...] = w @ x.T
    return x + 1


def _rows(x: Any, w: Any) -> Any:
    x[3:40] = x[20:57] @ w
    return x


def _behind(x: Any, w: Any) -> None:
    x[:5] = (x @ w)[2:7] + x[:5]
    w += x.T @ x


@pytest.mark.parametrize("write", [_whole, _turned, _rows, _behind])
def test_products_written_over_what_they_read(write: Callable[[Any, Any], Any]) -> None:
    x, w = random("f8", 60, 60), random("f8", 60, 60)
    check_emulated(write, x, w)
    check_paths(write, (np.asfortranarray(x), w), {}, EMULATED[:1])
    check_paths(write, (x, x), {}, EMULATED[:1])


def test_odd_values() -> None:
    """What is outside of the operands adds nothing to NaN, infinities and the sign of zero."""
    x, w = random("f4", 35, 40), random("f4", 40, 37)
    x[3, 5], x[10, 2], w[7, 3], w[39, 36] = np.nan, np.inf, -np.inf, np.nan
    x[20], w[:, 30] = -0.0, 0.0
    check_emulated(np.matmul, x, w)


@pytest.mark.parametrize("dtype", ["f4", "i2", "?"])
@pytest.mark.parametrize("k", [LONG - 1, LONG, 2 * LONG + 37])
def test_long_sums_of_few_elements_are_cut(dtype: str, k: int) -> None:
    """So that there are blocks for a device; the parts are read where they are."""
    x, w = random(dtype, k, 33), random(dtype, k, 5)

    def gram(x: Any, w: Any) -> Any:
        return x.T @ w

    steps = fjit.fuse(gram, target="cuda:sm_90").lower(x, w).plan.steps
    assert len(steps) == {LONG - 1: 1, LONG: 2, 2 * LONG + 37: 3}[k]
    check_paths(gram, (x, w), {}, EMULATED[1:2])


# Tiles


def launched(form: Form, a: Any, b: Any, arch: str = "sm_90") -> Any:
    """The product by one form's kernel, which need not be the one that would be chosen."""
    tiling, (m, k), n = form.tiling, a.shape[-2:], b.shape[-1]
    c = np.zeros((*a.shape[:-1], n), form.dtype)
    axes = range(form.batch)
    found = {"m": m, "n": n, "k": k, "a": 0, "b": 0}
    for name, array, ends in (("a", a, "mk"), ("b", b, "kn"), ("c", c, "mn")):
        steps = zip((*axes, *ends), array.strides, strict=True)
        found |= {f"{name}{which}": step for which, step in steps}
    found |= {f"e{axis}": a.shape[axis] for axis in axes}
    words = [np.int64(found[name]) for name in form.words]
    text = nvvm.module([emit(form)], [nvvm.Kernel("product", tiling.threads, form.resident)])
    ptx = nvvm.compile_ptx(text, GPU_TARGETS[arch])
    blocks = -(-m // tiling.tile) * -(-n // tiling.tile) * int(np.prod(a.shape[:-2]))
    emulator.launch(ptx, "product", blocks, tiling.threads, [a, b, c, *words])
    return c


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u8"])
def test_all_tiles_give_the_same_bits(dtype: str) -> None:
    """More than eight tiles down, so that they go in groups."""
    a, b = random(dtype, 5, 150, 45), random(dtype, 5, 45, 140)
    forms = [f for f in FORMS if f.dtype == a.dtype and f.batch == 2] or [
        Form(a.dtype, SMALL, left, False, 2) for left in (False, True)
    ]
    first, *others = (launched(form, a[None], b[None]) for form in forms)
    assert others
    for other in others:
        np.testing.assert_array_equal(other, first)
    if dtype[0] == "f":
        bound = 2 * 45 * np.finfo(dtype).eps * (abs(a.astype("f8")) @ abs(b.astype("f8")))
        assert (abs(first[0] - a.astype("f8") @ b.astype("f8")) <= bound).all()
    else:
        np.testing.assert_array_equal(first[0], a @ b)


def test_an_element_is_a_chain_of_fused_multiply_adds() -> None:
    """In the order of k: the result is that of float64, rounded after each term."""
    a, b = random("f4", 2, 33), random("f4", 33, 3)
    total = np.zeros((2, 3), "f4")
    for k in range(33):
        term = a[:, k : k + 1].astype("f8") * b[k].astype("f8")
        total = (term + total).astype("f4")  # exact but for double rounding, which is rare
    np.testing.assert_array_max_ulp(launched(Form(a.dtype, SMALL, True, False, 0), a, b), total, 1)


@pytest.mark.parametrize(
    ("m", "n", "stack", "size", "tiling"),
    [
        (5000, 5000, 1, 4, LARGE), (5000, 5000, 1, 8, MIDDLE), (700, 700, 1, 4, MIDDLE),
        (300, 300, 1, 4, SMALL), (64, 64, MANY, 4, MIDDLE), (32, 10_000, 1, 4, SMALL),
        (65, 100_000, 1, 4, LARGE), (1, 1, 1, 8, SMALL), (100, 100, 1000, 4, LARGE),
    ],
)  # fmt: skip
def test_the_choice_of_tiles(m: int, n: int, stack: int, size: int, tiling: Tiling) -> None:
    assert tiling_of(m, n, stack, size) == tiling


FEW = ("sm_75", "sm_90")  # the oldest, and one of today's
ARCHS = [a if a in FEW else pytest.param(a, marks=pytest.mark.slow) for a in GPU_TARGETS]


@pytest.mark.parametrize("arch", ARCHS)
def test_no_form_spills(arch: str) -> None:
    for form in FORMS:
        kernel = nvvm.Kernel("product", form.tiling.threads, form.resident)
        ptx = nvvm.compile_ptx(nvvm.module([emit(form)], [kernel]), GPU_TARGETS[arch])
        (info,) = nvvm.link(ptx, GPU_TARGETS[arch]).kernels
        assert not (info.spill_stores or info.spill_loads or info.stack), form
        per_processor = GPU_TARGETS[arch].blocks_per_sm(
            info.registers, form.tiling.threads, info.shared
        )
        assert per_processor * form.tiling.threads >= 6 * 32, form


def test_the_loop_multiplies_more_than_it_loads() -> None:
    form = Form(np.dtype("f4"), LARGE, True, False, 0)
    text = nvvm.module([emit(form)], [nvvm.Kernel("product", LARGE.threads)])
    ptx = nvvm.compile_ptx(text, GPU_TARGETS["sm_90"])
    counts = {name: ptx.count(name) for name in ("fma.rn.f32", "ld.shared.v4", "ld.shared.f32")}
    assert counts == {"fma.rn.f32": 64 * 2, "ld.shared.v4": 4 * 2, "ld.shared.f32": 0}


# Looking inside


def test_explain_and_lower_show_the_product() -> None:
    x, w = random("f4", 40, 50), random("f4", 50, 33)
    f = fjit.fuse(lambda x, w: np.sort(np.maximum(x @ w, 0), 1), target="cuda:sm_90")
    report, lowered = f.explain(x, w), f.lower(x, w)  # type: ignore[attr-defined]
    assert [call.name for call in report.calls] == ["call0_matmul", "call1_sort"]
    assert "call0_matmul: made by a kernel of tiles, on the GPU." in report.notes
    assert any(note.startswith("call1_sort: made by the host") for note in report.notes)
    usage = {info.name: info for info in lowered.sass_info}
    assert usage["call0_matmul.product"].actual_registers > 32
    assert not usage["call0_matmul.product"].actual_spills
    assert "// kernel call0_matmul" in lowered.ptx and "@product" in lowered.llvm_ir
