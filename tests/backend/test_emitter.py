"""The emitter: text that LLVM parses, exact constants, memory operations that do what they say."""

import ctypes
import math
import struct
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest

from fjit.backend.emitter import F16, F32, F64, I1, I8, I32, I64, PTR, Emitter, Ty, Val
from fjit.backend.values import GLOBAL, SHARED

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def compile_text(text: str) -> llvm.ExecutionEngine:
    module = llvm.parse_assembly(text)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
    )
    return llvm.create_mcjit_compiler(module, machine)


def run(build: Callable[[Emitter, Val, Val], None], source: np.ndarray, out: np.ndarray) -> None:
    e = Emitter()
    build(e, Val(PTR, "%src"), Val(PTR, "%dst"))
    e.ret()
    engine = compile_text(e.function("k", [(PTR, "src"), (PTR, "dst")], "nounwind"))
    address = engine.get_function_address("k")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)(
        source.ctypes.data, out.ctypes.data
    )


def test_type_text_and_relatives() -> None:
    ty = Ty("f", 32, 16)
    assert str(ty) == "<16 x float>"
    assert str(ty.as_bool) == "<16 x i1>"
    assert str(ty.as_int.element) == "i32"
    assert str(PTR) == "ptr"
    assert str(PTR.with_lanes(4)) == "<4 x ptr>"
    assert (ty.suffix, I64.suffix, PTR.with_lanes(8).suffix) == ("v16f32", "i64", "v8p0")


@pytest.mark.parametrize(
    ("ty", "number", "text"),
    [
        (F64, 1.0, "0x3FF0000000000000"),
        (F64, -0.0, "0x8000000000000000"),
        (F64, 0.0, "0x0000000000000000"),
        (F64, math.inf, "0x7FF0000000000000"),
        (F64, math.nan, "0x7FF8000000000000"),
        (F32, 0.1, "0x3FB99999A0000000"),
        (F32, 1e39, "0x7FF0000000000000"),
        (F16, 1.0, "0xH3C00"),
        (F16, -1e6, "0xHFC00"),
        (I1, 1, "true"),
        (I8, 255, "-1"),
        (I32, 2**31, str(-(2**31))),
        (I64, -5, "-5"),
        (F32.with_lanes(4), 1.0, "splat (float 0x3FF0000000000000)"),
    ],
)
def test_constants(ty: Ty, number: float, text: str) -> None:
    assert Emitter().const(ty, number).ref == text


def test_registers_are_fresh() -> None:
    e = Emitter()
    names = [e.fresh(), e.fresh("loop"), e.inst(I32, "add i32 1, 2").ref, e.fresh("")]
    assert len(set(names)) == len(names)


def test_pointers_keep_their_address_space() -> None:
    assert (str(GLOBAL), SHARED.suffix) == ("ptr addrspace(1)", "p3")
    assert GLOBAL.with_lanes(2).element == GLOBAL != PTR
    e = Emitter(gpu=True)
    place = e.gep(e.shared_array("tile", F32, 64), e.const(I64, 8))
    e.store(e.load(F32, place, 4), Val(GLOBAL, "%p"), 4)
    assert place.ty == SHARED
    assert e.lines == [
        "  %v1 = getelementptr i8, ptr addrspace(3) @tile, i64 8",
        "  %v2 = load float, ptr addrspace(3) %v1, align 4",
        "  store float %v2, ptr addrspace(1) %p, align 4",
    ]
    assert e.helpers["tile"] == (
        "@tile = internal addrspace(3) global [64 x float] undef, align 16\n"
    )


def test_a_helper_is_for_the_same_target() -> None:
    inner = Emitter(hardware_half=False, hardware_scale=True, gpu=True).nested()
    assert (inner.hardware_half, inner.hardware_scale, inner.gpu) == (False, True, True)


@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_every_operation_parses(lanes: int) -> None:
    e = Emitter()
    f, i = F32.with_lanes(lanes), I32.with_lanes(lanes)
    a, b = e.load(f, Val(PTR, "%p"), 4), e.load(f, Val(PTR, "%p"))
    m, n = e.load(i, Val(PTR, "%p")), e.load(i, Val(PTR, "%p"))
    for op in (e.fadd, e.fsub, e.fmul, e.fdiv, e.frem, e.copysign):
        a = op(a, b)
        a = op(a, e.const(F32, 2.5))
    for unary in (e.fneg, e.fabs, e.sqrt, e.floor, e.ceil, e.trunc, e.rint):
        a = unary(a)
    for op in (e.add, e.sub, e.mul, e.sdiv, e.udiv, e.srem, e.urem, e.and_, e.or_, e.xor):
        m = op(m, n)
    for op in (e.shl, e.lshr, e.ashr):
        m = op(m, e.const(I32, 3))
    m = e.select(e.icmp("slt", e.neg(m), e.not_(n)), m, e.const(I32, 0))
    a = e.select(e.fcmp("olt", a, b), e.fma(a, b, e.const(F32, 1.0)), a)
    wide = e.fpext(a, F64)
    a = e.fadd(e.fptrunc(wide, F32), e.sitofp(e.fptosi(a, I32), F32))
    a = e.fadd(a, e.uitofp(e.fptoui(a, I32), F32))
    m = e.add(m, e.trunc_int(e.add(e.zext(m, I64), e.sext(m, I64)), I32))
    m = e.add(e.bitcast(a, i), e.add(m, e.iota(i)))
    e.store(m, Val(PTR, "%p"), 4)
    e.label("done")
    e.lines.insert(-1, "  br label %done")
    e.ret()
    compile_text(e.function("k", [(PTR, "p")]))


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_masked_load_and_store(lanes: int) -> None:
    def build(e: Emitter, src: Val, dst: Val) -> None:
        i = I32.with_lanes(lanes)
        mask = e.icmp("slt", e.iota(i), e.const(I32, max(1, lanes - 2)))
        ty = F64.with_lanes(lanes)
        e.masked_store(e.masked_load(ty, src, mask, e.const(ty, 9.0), 8), dst, mask, 8)

    source, out = np.arange(1.0, lanes + 1), np.full(lanes, -1.0)
    run(build, source, out)
    active = np.arange(lanes) < max(1, lanes - 2)
    np.testing.assert_array_equal(out, np.where(active, source, -1.0))


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_gather_and_scatter(lanes: int) -> None:
    def build(e: Emitter, src: Val, dst: Val) -> None:
        ty, i = F32.with_lanes(lanes), I64.with_lanes(lanes)
        mask = e.icmp("sge", e.iota(i), e.const(i, 0))
        back = e.sub(e.const(I64, 4 * (lanes - 1)), e.mul(e.iota(i), e.const(i, 4)))
        values = e.gather(ty, e.gep(src, back), mask, e.const(ty, 0.0), 4)
        e.scatter(e.fadd(values, e.const(F32, 1.0)), e.gep(dst, back), mask, 4)

    source, out = np.arange(lanes, dtype=np.float32), np.zeros(lanes, np.float32)
    run(build, source, out)
    np.testing.assert_array_equal(out, source + 1)


def test_lanes_are_moved() -> None:
    def build(e: Emitter, src: Val, dst: Val) -> None:
        v = e.load(F32.with_lanes(4), src)
        v = e.shuffle(v, v, [3, 2, 1, 0])
        v = e.insert(v, e.extract(v, 3), 1)
        e.store(e.fadd(v, e.load(F32, src)), dst)

    out = np.zeros(4, np.float32)
    run(build, np.array([1, 2, 3, 4], np.float32), out)
    assert out.tolist() == [5, 2, 3, 2]


def test_control_flow_and_helpers() -> None:
    def build(e: Emitter, src: Val, dst: Val) -> None:
        e.helpers["twice"] = (
            "define internal double @twice(double %x) {\n"
            "  %y = fadd double %x, %x\n  ret double %y\n}\n"
        )
        x = e.load(F64, src)
        e.label("start")
        e.lines.insert(-1, "  br label %start")
        e.cond_br(e.fcmp("olt", x, e.const(F64, 0.0)), "less", "join")
        e.label("less")
        y = e.call("twice", F64, x)
        e.br("join")
        e.label("join")
        e.store(e.phi(F64, (x, "start"), (y, "less")), dst)

    for value, want in ((3.0, 3.0), (-3.0, -6.0)):
        out = np.zeros(1)
        run(build, np.array([value]), out)
        assert out[0] == want


@pytest.mark.parametrize("number", [0.1, 1e-310, 5e-324, -0.0, 1.7976931348623157e308])
def test_float64_constants_are_exact(number: float) -> None:
    out = np.zeros(1)
    run(lambda e, src, dst: e.store(e.const(F64, number), dst), out, out)
    assert struct.pack("d", out[0]) == struct.pack("d", number)
