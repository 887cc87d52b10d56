"""Every elementwise primitive and cast on every dtype, compiled and linked in both dialects."""

import functools
import re

import numpy as np
import pytest

from fjit.backend import nvvm, scalar
from fjit.core.dtypes import NAMES
from fjit.target import GPU_TARGETS, GpuTarget
from tests.backend.nvvm import rows
from tests.backend.test_scalar import TRANSCENDENTAL

pytestmark = pytest.mark.nvvm

# Those whose definition holds a multiply-add: exact remainders, and the operation itself.
BY_FMA = {*TRANSCENDENTAL, "fma", "fmod", "mod", "floordiv"}

dtypes = pytest.mark.parametrize("dtype", rows.DTYPES, ids=NAMES.get)
archs = pytest.mark.parametrize("arch", (rows.TYPED, rows.OPAQUE), ids=lambda arch: arch.name)


@functools.cache
def ptx(dtype: np.dtype, arch: GpuTarget) -> str:
    return nvvm.compile_ptx(rows.module(rows.cases(dtype)), arch)


def entries(text: str) -> dict[str, str]:
    """The body of each kernel by name."""
    parts = re.split(r"\.visible \.entry (\w+)\(", text)
    bodies = [part.partition("\n}\n")[0] for part in parts[2::2]]
    return dict(zip(parts[1::2], bodies, strict=True))


@dtypes
@archs
def test_every_row_links_without_a_spill(dtype: np.dtype, arch: GpuTarget) -> None:
    linked = nvvm.link(ptx(dtype, arch), arch)
    assert {k.name for k in linked.kernels} == {case.name for case in rows.cases(dtype)}
    assert [k for k in linked.kernels if k.spill_stores or k.spill_loads] == []
    assert all(k.registers for k in linked.kernels)


@dtypes
@archs
def test_arithmetic_is_neither_contracted_nor_flushed(dtype: np.dtype, arch: GpuTarget) -> None:
    bodies = entries(ptx(dtype, arch))
    plain = [case for case in rows.cases(dtype) if case.op not in BY_FMA or dtype.kind != "f"]
    assert len(plain) > 20
    for case in plain:
        assert not re.search(r"\bfma\b|\.ftz|\.approx", bodies[case.name]), case.name


@archs
def test_divisions_and_roots_are_correctly_rounded(arch: GpuTarget) -> None:
    for dtype, suffix in ((np.dtype("f4"), "f32"), (np.dtype("f8"), "f64")):
        bodies = entries(ptx(dtype, arch))
        for op in ("div", "sqrt"):
            (case,) = [c for c in rows.cases(dtype) if c.op == op]
            assert f"{op}.rn.{suffix}" in bodies[case.name]


@archs
def test_halves_are_converted_by_the_hardware(arch: GpuTarget) -> None:
    bodies = entries(ptx(np.dtype("f2"), arch))
    assert "cvt.f32.f16" in bodies["convert_f16_f32"]
    bodies = entries(ptx(np.dtype("f4"), arch))
    assert "cvt.rn.f16.f32" in bodies["convert_f32_f16"]


@archs
def test_a_sign_is_flipped_in_the_bits(arch: GpuTarget) -> None:
    """PTX leaves the sign of a negated NaN open; NumPy flips it."""
    for dtype in (np.dtype("f4"), np.dtype("f8")):
        (case,) = [c for c in rows.cases(dtype) if c.op == "neg"]
        body = entries(ptx(dtype, arch))[case.name]
        assert "xor." in body and "neg." not in body


def test_every_row_is_tried() -> None:
    tried = {case.op for dtype in rows.DTYPES for case in rows.cases(dtype)}
    assert tried == {*scalar.ROWS, "convert"}


@pytest.mark.parametrize("name", GPU_TARGETS)
def test_every_architecture_compiles_and_links(name: str) -> None:
    arch = GPU_TARGETS[name]
    some = [case for case in rows.cases(np.dtype("f4")) if case.op in ("exp", "max", "shr", "sin")]
    text = nvvm.compile_ptx(rows.module(some), arch)
    assert f".target {name}" in text
    assert len(nvvm.link(text, arch).kernels) == len(some)
