"""The writer of LLVM IR text that every back end shares.

Takes: calls such as `e.fadd(a, b)`, one per instruction, on typed values.
Gives: the text of one function, its helpers and the declarations it needs.
Invariant: an operation is strict IEEE arithmetic, and the two operands of a binary operation have
one type; a scalar beside a vector is splatted first.

Before, in Python, with `x` a `<4 x float>`::

    e.fma(x, e.const(F32, 2.0), x)

After, in `e.lines`::

    %v1 = call <4 x float> @llvm.fma.v4f32(<4 x float> %x, <4 x float> splat (float 0x40...), ...)

Plain string formatting is used on purpose: a kernel is a few thousand instructions and has to be
written in milliseconds.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

from fjit.backend.memory import Memory
from fjit.backend.values import (
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    PTR,
    SHARED,
    Ty,
    Val,
    const_text,
    struct_text,
)

__all__ = ["F16", "F32", "F64", "I1", "I8", "I16", "I32", "I64", "PTR", "Emitter", "Ty", "Val"]


@cache
def _binary(op: str) -> Callable[["Emitter", Val, Val], Val]:
    def emit(self: "Emitter", a: Val, b: Val) -> Val:
        if a.ty.lanes != b.ty.lanes:
            a, b = self._same(a, b)
        return self.inst(a.ty, f"{op} {a.ty} {a.ref}, {b.ref}")

    return emit


def _unary(name: str) -> Callable[["Emitter", Val], Val]:
    return lambda self, a: self.intrinsic(name, a.ty, a)


def _conversion(op: str) -> Callable[["Emitter", Val, Ty], Val]:
    def emit(self: "Emitter", a: Val, ty: Ty) -> Val:
        ty = ty.with_lanes(a.ty.lanes)
        return a if ty == a.ty else self.inst(ty, f"{op} {a.ty} {a.ref} to {ty}")

    return emit


class Emitter(Memory):
    """One function body under construction.

    `lines` is public: a caller may swap in another list to emit into another block. `declares`
    maps a callee to its declaration, `helpers` a name to the text of an internal function.
    `hardware_half` says whether the target converts between float16 and float32 itself (F16C),
    `hardware_scale` whether it multiplies by a power of two in one instruction (AVX-512), `gpu`
    whether it is an NVIDIA GPU, where some functions are libdevice's. The text is of one dialect;
    `fjit.backend.dialect` makes the older one of it.
    """

    def __init__(
        self, *, hardware_half: bool = True, hardware_scale: bool = False, gpu: bool = False
    ) -> None:
        self.hardware_half = hardware_half
        self.hardware_scale = hardware_scale
        self.gpu = gpu
        self.lines: list[str] = []
        self.declares: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self._count = 0

    def nested(self) -> "Emitter":
        """Start the body of a helper; it shares declarations and helpers with this function."""
        inner = Emitter(
            hardware_half=self.hardware_half, hardware_scale=self.hardware_scale, gpu=self.gpu
        )
        inner.declares, inner.helpers = self.declares, self.helpers
        return inner

    def adopt(
        self,
        body: "Emitter",
        name: str,
        params: Sequence[tuple[Ty, str]],
        attrs: str,
        ret: Sequence[Ty],
    ) -> None:
        """Keep a finished body as the internal function `name` that returns a struct."""
        self.helpers[name] = body.define(name, params, attrs, struct_text(ret), "internal")

    # Text

    def fresh(self, prefix: str = "v") -> str:
        """Return a register name that was not handed out before."""
        self._count += 1
        return f"%{prefix or 'v'}{self._count}"

    def inst(self, ty: Ty, text: str) -> Val:
        """Append an instruction with a result."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return Val(ty, name)

    def stmt(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Start the basic block `name` (without "%")."""
        self.lines.append(f"{name}:")

    def br(self, label: str) -> None:
        """Jump to a block."""
        self.lines.append(f"  br label %{label}")

    def cond_br(self, val: Val, a: str, b: str) -> None:
        """Jump to block `a` when the scalar i1 `val` is true, to `b` otherwise."""
        self.lines.append(f"  br i1 {val.ref}, label %{a}, label %{b}")

    def phi(self, ty: Ty, *edges: tuple[Val, str]) -> Val:
        """Join values by the block they come from."""
        return self.inst(ty, f"phi {ty} " + ", ".join(f"[ {v.ref}, %{b} ]" for v, b in edges))

    def ret(self, val: Val | None = None) -> None:
        """Return from the function."""
        self.stmt("ret void" if val is None else f"ret {val.ty} {val.ref}")

    def ret_struct(self, *vals: Val) -> None:
        """Return several values as one struct."""
        ty = struct_text([val.ty for val in vals])
        whole = "poison"
        for i, val in enumerate(vals):
            name = self.fresh()
            self.stmt(f"{name} = insertvalue {ty} {whole}, {val.ty} {val.ref}, {i}")
            whole = name
        self.stmt(f"ret {ty} {whole}")

    def function(
        self, name: str, params: Sequence[tuple[Ty, str]], attrs: str = "", ret: Ty | None = None
    ) -> str:
        """Return the text of `define name(params)`, then helpers, then declarations."""
        parts = [self.define(name, params, attrs, ret), *self.helpers.values()]
        return "\n".join([*parts, *self.declares.values()]) + "\n"

    def define(
        self,
        name: str,
        params: Sequence[tuple[Ty, str]],
        attrs: str = "",
        ret: Ty | str | None = None,
        linkage: str = "",
    ) -> str:
        """Return the text of the function alone; parameter names are given without "%"."""
        args = ", ".join(f"{ty} %{arg}" for ty, arg in params)
        head = " ".join(part for part in ("define", linkage, str(ret or "void")) if part)
        tail = f" {attrs}" if attrs else ""
        return "\n".join([f"{head} @{name}({args}){tail} {{", *self.lines, "}", ""])

    def shared_array(self, name: str, ty: Ty, count: int, align: int = 16) -> Val:
        """Return a pointer to `count` elements that the threads of one GPU block share."""
        space = f"addrspace({SHARED.space})"
        array = f"internal {space} global [{count} x {ty}] undef, align {align}"
        self.helpers[name] = f"@{name} = {array}\n"
        return Val(SHARED, f"@{name}")

    # Constants and lanes

    def const(self, ty: Ty, number: float) -> Val:
        """Return an exact constant of `ty`, a splat when `ty` is a vector."""
        sign = math.copysign(1.0, number) if ty.kind == "f" else 0.0
        return self._splat_const(ty, const_text(ty.kind, ty.bits, number, sign))

    def undef(self, ty: Ty) -> Val:
        """Return a value of `ty` that nobody may look at."""
        return Val(ty, "poison")

    def iota(self, ty: Ty) -> Val:
        """Return the constant 0, 1, ..., lanes-1."""
        numbers = [self.const(ty.element, i) for i in range(ty.lanes)]
        if ty.lanes == 1:
            return numbers[0]
        return Val(ty, "<" + ", ".join(f"{n.ty} {n.ref}" for n in numbers) + ">")

    def splat(self, val: Val, lanes: int) -> Val:
        """Repeat a scalar in every lane."""
        if lanes == val.ty.lanes:
            return val
        ty = val.ty.with_lanes(lanes)
        if val.is_const:
            return self._splat_const(ty, val.ref)
        one = self.inst(ty, f"insertelement {ty} poison, {val.ty} {val.ref}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.inst(ty, f"shufflevector {ty} {one.ref}, {ty} poison, {zeros}")

    def extract(self, val: Val, index: int | Val) -> Val:
        """Return one lane."""
        if val.ty.lanes == 1:
            return val
        return self.inst(
            val.ty.element, f"extractelement {val.ty} {val.ref}, {self._index_text(index)}"
        )

    def insert(self, vec: Val, val: Val, index: int | Val) -> Val:
        """Return `vec` with one lane replaced."""
        if vec.ty.lanes == 1:
            return val
        element = f"{val.ty} {val.ref}, {self._index_text(index)}"
        return self.inst(vec.ty, f"insertelement {vec.ty} {vec.ref}, {element}")

    def shuffle(self, a: Val, b: Val, indices: Sequence[int]) -> Val:
        """Return the chosen lanes of `a` followed by `b`; -1 leaves a lane unspecified."""
        mask = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in indices)
        text = f"shufflevector {a.ty} {a.ref}, {b.ty} {b.ref}, <{len(indices)} x i32> <{mask}>"
        return self.inst(a.ty.with_lanes(len(indices)), text)

    def _splat_const(self, ty: Ty, text: str) -> Val:
        return Val(ty, text if ty.lanes == 1 else f"splat ({ty.element} {text})")

    def _index_text(self, index: int | Val) -> str:
        return f"i64 {index}" if isinstance(index, int) else f"{index.ty} {index.ref}"

    def _same(self, a: Val, b: Val) -> tuple[Val, Val]:
        lanes = max(a.ty.lanes, b.ty.lanes)
        return self.splat(a, lanes), self.splat(b, lanes)

    # Floating point

    fadd = _binary("fadd")  # a + b
    fsub = _binary("fsub")  # a - b
    fmul = _binary("fmul")  # a * b
    fdiv = _binary("fdiv")  # a / b
    frem = _binary("frem")  # Remainder with the sign of `a`; LLVM turns it into a library call

    def fneg(self, a: Val) -> Val:
        """-a, a flip of the sign bit."""
        return self.inst(a.ty, f"fneg {a.ty} {a.ref}")

    def fma(self, a: Val, b: Val, c: Val) -> Val:
        """a * b + c, rounded once."""
        lanes = max(a.ty.lanes, b.ty.lanes, c.ty.lanes)
        a, b, c = (self.splat(v, lanes) for v in (a, b, c))
        return self.intrinsic("fma", a.ty, a, b, c)

    fabs = _unary("fabs")  # |a|
    sqrt = _unary("sqrt")  # Correctly rounded square root
    floor = _unary("floor")  # Round towards -inf
    ceil = _unary("ceil")  # Round towards +inf
    trunc = _unary("trunc")  # Round towards zero
    rint = _unary("rint")  # Round to nearest, ties to even

    def copysign(self, a: Val, b: Val) -> Val:
        """|a| with the sign of `b`."""
        a, b = self._same(a, b)
        return self.intrinsic("copysign", a.ty, a, b)

    def fcmp(self, pred: str, a: Val, b: Val) -> Val:
        """Compare floats; `pred` as in LLVM: oeq, olt, une, uno, ..."""
        a, b = self._same(a, b)
        return self.inst(a.ty.as_bool, f"fcmp {pred} {a.ty} {a.ref}, {b.ref}")

    # Integers

    add = _binary("add")  # a + b, wrapping
    sub = _binary("sub")  # a - b, wrapping
    mul = _binary("mul")  # a * b, wrapping
    sdiv = _binary("sdiv")  # Quotient towards zero; the caller rules out 0 and INT_MIN / -1
    udiv = _binary("udiv")  # Unsigned quotient; the caller rules out zero
    srem = _binary("srem")  # Remainder with the sign of `a`; ruled out are 0 and INT_MIN % -1
    urem = _binary("urem")  # Unsigned remainder; the caller rules out zero
    and_ = _binary("and")  # a & b
    or_ = _binary("or")  # a | b
    xor = _binary("xor")  # a ^ b
    shl = _binary("shl")  # a << b; the caller keeps b below the width
    lshr = _binary("lshr")  # Unsigned a >> b; the caller keeps b below the width
    ashr = _binary("ashr")  # Signed a >> b; the caller keeps b below the width

    def neg(self, a: Val) -> Val:
        """-a, wrapping."""
        return self.sub(self.const(a.ty, 0), a)

    def not_(self, a: Val) -> Val:
        """~a."""
        return self.xor(a, self.const(a.ty, -1))

    def icmp(self, pred: str, a: Val, b: Val) -> Val:
        """Compare integers; `pred` as in LLVM: eq, slt, uge, ..."""
        a, b = self._same(a, b)
        return self.inst(a.ty.as_bool, f"icmp {pred} {a.ty} {a.ref}, {b.ref}")

    def select(self, c: Val, a: Val, b: Val) -> Val:
        """`a` where `c` is true, `b` elsewhere."""
        lanes = max(c.ty.lanes, a.ty.lanes, b.ty.lanes)
        a, b = self.splat(a, lanes), self.splat(b, lanes)
        return self.inst(a.ty, f"select {c.ty} {c.ref}, {a.ty} {a.ref}, {b.ty} {b.ref}")

    # Conversions; the lanes are those of the operand

    zext = _conversion("zext")  # Widen an unsigned integer
    sext = _conversion("sext")  # Widen a signed integer
    trunc_int = _conversion("trunc")  # Keep the low bits
    sitofp = _conversion("sitofp")  # Signed integer to float
    uitofp = _conversion("uitofp")  # Unsigned integer to float
    fptosi = _conversion("fptosi")  # Float to signed integer; poison out of range
    fptoui = _conversion("fptoui")  # Float to unsigned integer; poison out of range
    fpext = _conversion("fpext")  # Widen a float
    fptrunc = _conversion("fptrunc")  # Narrow a float, rounding once

    def bitcast(self, a: Val, ty: Ty) -> Val:
        """The same bits as another type; `ty` is the whole type, lanes included."""
        return a if ty == a.ty else self.inst(ty, f"bitcast {a.ty} {a.ref} to {ty}")

    # Calls

    def call(self, name: str, ret_ty: Ty | None, *vals: Val) -> Val:
        """Call `name`, declared unless it is a helper; `ret_ty` None is a call without a result."""
        result = str(ret_ty or "void")
        if name not in self.declares and name not in self.helpers:
            types = ", ".join([str(v.ty) for v in vals])
            self.declares[name] = f"declare {result} @{name}({types})"
        args = ", ".join([f"{v.ty} {v.ref}" for v in vals])
        text = f"call {result} @{name}({args})"
        if ret_ty is not None:
            return self.inst(ret_ty, text)
        self.stmt(text)
        return Val(I1, "poison")

    def intrinsic(self, name: str, ret_ty: Ty, *vals: Val) -> Val:
        """Call `llvm.<name>` overloaded on the type of its result."""
        return self.call(f"llvm.{name}.{ret_ty.suffix}", ret_ty, *vals)

    def call_struct(self, name: str, ret: Sequence[Ty], *vals: Val) -> tuple[Val, ...]:
        """Call the helper `name` and take its struct apart."""
        ty = struct_text(ret)
        whole = self.fresh()
        args = ", ".join([f"{v.ty} {v.ref}" for v in vals])
        self.stmt(f"{whole} = call {ty} @{name}({args})")
        return tuple(self.inst(t, f"extractvalue {ty} {whole}, {i}") for i, t in enumerate(ret))

    def any_(self, mask: Val) -> Val:
        """Whether a lane of a mask is set."""
        if mask.ty.lanes == 1:
            return mask
        return self.call(f"llvm.vector.reduce.or.{mask.ty.suffix}", I1, mask)
