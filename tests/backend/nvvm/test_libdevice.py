"""libdevice is chosen where its error is allowed and its code is shorter, and only there."""

import functools
import re
from collections.abc import Callable

import numpy as np
import pytest

from fjit.backend import libdevice, nvvm, scalar
from fjit.backend.emitter import F32, F64, Emitter, Val
from fjit.backend.math.table import APPROXIMATE, MATH
from fjit.backend.values import GLOBAL
from fjit.target import GpuTarget
from tests.backend.nvvm import rows

archs = pytest.mark.parametrize("arch", (rows.TYPED, rows.OPAQUE), ids=lambda arch: arch.name)
functions = pytest.mark.parametrize(
    ("op", "bits"), libdevice.ROWS, ids=[f"{op}-{bits}" for op, bits in libdevice.ROWS]
)
BINARY = ("pow", "atan2", "hypot")
# Nothing of that name, or a documented error beyond any bound of ours.
WITHOUT_A_ROW = {"expit", "logit", "logaddexp", "logaddexp2", "rsqrt", "fmod", "gammaln", "digamma"}

Write = Callable[..., Val]


def test_every_function_was_considered() -> None:
    assert {op for op, _ in libdevice.ROWS} == set(MATH) - WITHOUT_A_ROW
    both = {op for op, bits in libdevice.ROWS if bits == 32} & {
        op for op, bits in libdevice.ROWS if bits == 64
    }
    assert both == set(MATH) - WITHOUT_A_ROW - {"hypot"}


def test_what_is_chosen() -> None:
    exact = {key for key in libdevice.ROWS if libdevice.exact(*key)}
    assert exact == {(op, 32) for op in ("expm1", "log", "log2", "log1p", "cbrt")}
    assert libdevice.approximate("exp", 32) == "__nv_expf"
    assert libdevice.approximate("exp", 64) is None
    assert libdevice.exact("exp", 32) is None and libdevice.exact("digamma", 32) is None


@functools.cache
def instructions(op: str, bits: int, theirs: bool, arch: GpuTarget) -> int:
    """The PTX instructions of one function, without loads, stores and return."""
    name = libdevice.ROWS[op, bits].name
    write: Write = (lambda em, *vals: em.call(name, vals[0].ty, *vals)) if theirs else MATH[op]
    em, ty = Emitter(gpu=True), F32 if bits == 32 else F64
    params = [(GLOBAL, f"a{k}") for k in range(2 if op in BINARY else 1)]
    value = write(em, *[em.load(ty, Val(GLOBAL, f"%{arg}"), bits // 8) for _, arg in params])
    em.store(value, Val(GLOBAL, "%out"), bits // 8)
    em.ret()
    text = nvvm.module([em.function("k", [*params, (GLOBAL, "out")])], [nvvm.Kernel("k")])
    lines = re.findall(r"^\s+(?:@!?%p\d+ )?([a-z].*)", nvvm.compile_ptx(text, arch), re.MULTILINE)
    return sum(not re.match(r"ld\.param|ld\.global\.|st\.global|ret", line) for line in lines)


@pytest.mark.nvvm
@functions
def test_instructions_are_as_the_table_says(op: str, bits: int) -> None:
    """To a tenth, so that another version of libNVVM may differ a little, and the choice holds."""
    row = libdevice.ROWS[op, bits]
    ours, theirs = (
        (instructions(op, bits, which, rows.TYPED), instructions(op, bits, which, rows.OPAQUE))
        for which in (False, True)
    )
    np.testing.assert_allclose(ours, row.ours, rtol=0.1, atol=1)
    np.testing.assert_allclose(theirs, row.theirs, rtol=0.1, atol=1)
    assert libdevice._shorter(row._replace(ours=ours, theirs=theirs)) == libdevice._shorter(row)


def calls(op: str, dtype: str, fast: str = "", gpu: bool = True) -> set[str]:
    """The functions of libdevice that a primitive calls."""
    em, kind = Emitter(gpu=gpu), np.dtype(dtype)
    arity = 2 if op in BINARY else 1
    args = tuple(Val(scalar.register_type(kind), f"%a{k}") for k in range(arity))
    scalar.emit(em, op, (kind,) * arity, args, kind, fast)
    return {name for name in em.declares if name.startswith("__nv_")}


def test_the_emitter_of_a_gpu_calls_what_is_chosen() -> None:
    assert calls("log", "f4") == {"__nv_logf"}
    assert calls("log", "f2") == {"__nv_logf"}
    assert calls("log", "f8") == calls("exp", "f4") == calls("sqrt", "f4") == set()


def test_a_processor_never_does() -> None:
    for op in ("log", "log1p", "cbrt"):
        for fast in ("", "approx"):
            assert calls(op, "f4", fast, gpu=False) == set()


def test_approximate_functions_are_shorter_or_exact() -> None:
    assert calls("exp", "f4", "approx") == {"__nv_expf"}
    assert calls("sin", "f2", "approx") == {"__nv_sinf"}
    assert calls("sin", "f8", "approx") == calls("asin", "f8", "approx") == set()
    for op in APPROXIMATE:
        em, ty = Emitter(gpu=True), np.dtype("f8")
        args = (Val(F64, "%a"),) * (2 if op in ("atan2", "hypot", "logaddexp", "logaddexp2") else 1)
        scalar.emit(em, op, (ty,) * len(args), args, ty, "approx")
        assert not any("approx" in name or "guard" in name for name in em.helpers), op


@pytest.mark.nvvm
@archs
def test_approximate_functions_link_without_a_spill(arch: GpuTarget) -> None:
    for dtype in map(np.dtype, ("f2", "f4", "f8")):
        some = [
            case._replace(fast="approx") for case in rows.cases(dtype) if case.op in APPROXIMATE
        ]
        linked = nvvm.link(nvvm.compile_ptx(rows.module(some), arch), arch)
        assert len(linked.kernels) == len(some) > 20
        assert [k for k in linked.kernels if k.spill_stores or k.spill_loads] == []
