"""Comparisons, selections and moves."""

import operator
from collections.abc import Callable

import numpy as np
import pytest

from fjit.backend.ptx.types import TYPES
from tests.backend.emulator.exact import operands
from tests.backend.emulator.kernels import evaluate, run
from tests.backend.emulator.test_integers import as_python, grid

TESTS: dict[str, Callable[[object, object], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@pytest.mark.parametrize("name", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_integers(name: str) -> None:
    arrays = grid(name, name)
    a, b = (as_python(name, array) for array in arrays)
    tests = dict(TESTS)
    if name[0] == "u":
        tests |= {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
    for op, test in tests.items():
        got = evaluate(f"setp.{op}.{name}", "pred", *((name, array) for array in arrays))
        assert got.tolist() == [test(x, y) for x, y in zip(a, b, strict=True)], op


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_floats(name: str) -> None:
    a, b = operands(TYPES[name].seen, 2)
    nan = np.isnan(a) | np.isnan(b)
    for op, test in TESTS.items():
        plain = np.array([bool(test(x, y)) for x, y in zip(a, b, strict=True)])
        got = evaluate(f"setp.{op}.{name}", "pred", (name, a), (name, b))
        assert np.array_equal(got, plain & ~nan), op
        got = evaluate(f"setp.{op}u.{name}", "pred", (name, a), (name, b))
        assert np.array_equal(got, plain | nan), op
    assert np.array_equal(evaluate(f"setp.nan.{name}", "pred", (name, a), (name, b)), nan)
    assert np.array_equal(evaluate(f"setp.num.{name}", "pred", (name, a), (name, b)), ~nan)


@pytest.mark.parametrize(
    ("combine", "function"),
    [("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)],
)
def test_combined_and_paired(combine: str, function: np.ufunc) -> None:
    a, b = (np.arange(16, dtype="i4") % m for m in (3, 5))
    c = (np.arange(16) % 2).astype("u1")
    got = evaluate(f"setp.lt.{combine}.s32", "pred", ("s32", a), ("s32", b), ("pred", c))
    assert np.array_equal(got, function(a < b, c != 0))
    out = np.zeros((16, 2), "u4")
    body = f"""rem.u32 %r1, %r30, 3; rem.u32 %r2, %r30, 5; and.b32 %r3, %r30, 1;
        setp.ne.u32 %p3, %r3, 0; setp.lt.{combine}.s32 %p1|%p2, %r1, %r2, !%p3;
        selp.u32 %r4, 1, 0, %p1; selp.u32 %r5, 1, 0, %p2;
        mul.wide.u32 %rd1, %r30, 8; add.s64 %rd2, %rd30, %rd1;
        st.global.v2.u32 [%rd2], {{%r4, %r5}};"""
    run(body, out, threads=16)
    assert np.array_equal(out[:, 0] != 0, function(a < b, c == 0))
    assert np.array_equal(out[:, 1] != 0, function(a >= b, c == 0))


def test_set_and_select() -> None:
    a, b = np.array([1.0, 2.0, np.nan], "f4"), np.array([2.0, 2.0, 1.0], "f4")
    got = evaluate("set.lt.u32.f32", "u32", ("f32", a), ("f32", b)).view("u4")
    assert got.tolist() == [0xFFFFFFFF, 0, 0]
    got = evaluate("set.ltu.f32.f32", "f32", ("f32", a), ("f32", b)).view("f4")
    assert got.tolist() == [1.0, 0.0, 1.0]
    choice = np.array([1, 0, 1], "u1")
    got = evaluate("selp.f32", "f32", ("f32", a), ("f32", b), ("pred", choice)).view("f4")
    assert got[:2].tolist() == [1.0, 2.0] and np.isnan(got[2])
    sign = np.array([-1, 0, 5], "i4")
    got = evaluate("slct.f32.s32", "f32", ("f32", b), ("f32", b * 2), ("s32", sign)).view("f4")
    assert got.tolist() == [4.0, 2.0, 1.0]
    weights = np.array([-0.0, -1.0, np.nan], "f4")
    got = evaluate("slct.s32.f32", "s32", ("s32", sign), ("s32", -sign), ("f32", weights)).view(
        "i4"
    )
    assert got.tolist() == [-1, 0, -5]


def test_packing_and_unpacking() -> None:
    out = np.zeros(6, "u4")
    body = """mov.b64 %rd1, {7, %r30}; mov.b64 {_, %r1}, 0x1234567800000000; mov.b64 {%r2, %r3},
    %rd1;
        mov.b32 {%h1, %h2}, 0xAAAA5555; cvt.u32.u16 %r4, %h1; cvt.u32.u16 %r5, %h2;
        mov.b32 %r6, {%h2, %h1}; st.global.v4.b32 [%rd30], {%r1, %r2, %r3, %r4};
        st.global.b32 [%rd30+16], %r5; st.global.b32 [%rd30+20], %r6;"""
    run(body, out)
    assert out.tolist() == [0x12345678, 7, 0, 0x5555, 0xAAAA, 0x5555AAAA]
