"""Integer arithmetic with NumPy's results at the edges, and none of the processor's traps.

Takes the common dtype and register values of it, gives a value. Invariant: nothing is poison and
no division sees a zero divisor or INT_MIN / -1, whatever the operands.

    floordiv(a, b)  ->  %s = select (b == 0 or a == MIN and b == -1), 1, b ; %q = a / %s ; ...

Vector division of 8 to 32 bits goes through floating division, which hardware has for vectors: for
|a|, |b| < 2**n the distance of a/b from the integer above it is at least 1/|b|, more than the error
|a/b| 2**-p of a quotient rounded to p bits as soon as p > n, so truncation of it is exact.
"""

import numpy as np

from fjit.backend.casts import resize
from fjit.backend.emitter import F32, F64, I32, Emitter, Val


def _is_signed(dtype: np.dtype) -> bool:
    return dtype.kind == "i"


def prefixed(dtype: np.dtype, name: str) -> str:
    """LLVM's name of an operation that depends on the sign: `slt`, `umax`."""
    return ("s" if _is_signed(dtype) else "u") + name


def neg(em: Emitter, dtype: np.dtype, a: Val) -> Val:
    """-a, wrapping."""
    return em.neg(a)


def absolute(em: Emitter, dtype: np.dtype, a: Val) -> Val:
    """|a|; INT_MIN stays."""
    if not _is_signed(dtype):
        return a
    return em.select(em.icmp("slt", a, em.const(a.ty, 0)), em.neg(a), a)


def sign(em: Emitter, dtype: np.dtype, a: Val) -> Val:
    """-1, 0 or 1."""
    zero = em.const(a.ty, 0)
    positive = em.zext(em.icmp("ne", a, zero), a.ty)
    if not _is_signed(dtype):
        return positive
    return em.or_(em.ashr(a, em.const(a.ty, a.ty.bits - 1)), positive)


def reciprocal(em: Emitter, dtype: np.dtype, a: Val) -> Val:
    """1 / a towards zero; of 0, INT_MIN for int32 and int64 and 0 for the others."""
    one, zero = em.const(a.ty, 1), em.const(a.ty, 0)
    unit = em.icmp("eq", a, one)
    if not _is_signed(dtype):
        return em.zext(unit, a.ty)
    unit = em.or_(unit, em.icmp("eq", a, em.const(a.ty, -1)))
    result = em.select(unit, a, zero)
    if a.ty.bits < 32:
        return result
    return em.select(em.icmp("eq", a, zero), em.const(a.ty, -1 << (a.ty.bits - 1)), result)


def maximum(em: Emitter, dtype: np.dtype, a: Val, b: Val) -> Val:
    """The larger operand."""
    return em.intrinsic(prefixed(dtype, "max"), a.ty, a, b)


def minimum(em: Emitter, dtype: np.dtype, a: Val, b: Val) -> Val:
    """The smaller operand."""
    return em.intrinsic(prefixed(dtype, "min"), a.ty, a, b)


def shl(em: Emitter, dtype: np.dtype, a: Val, b: Val) -> Val:
    """a << b; 0 for counts outside 0..width-1. The unselected shift may be poison."""
    inside = em.icmp("ult", b, em.const(b.ty, a.ty.bits))
    return em.select(inside, em.shl(a, b), em.const(a.ty, 0))


def shr(em: Emitter, dtype: np.dtype, a: Val, b: Val) -> Val:
    """a >> b; counts outside 0..width-1 leave the sign: 0 or -1."""
    if _is_signed(dtype):
        return em.ashr(a, em.intrinsic("umin", b.ty, b, em.const(b.ty, a.ty.bits - 1)))
    inside = em.icmp("ult", b, em.const(b.ty, a.ty.bits))
    return em.select(inside, em.lshr(a, b), em.const(a.ty, 0))


# Division


def _safe_divisor(em: Emitter, dtype: np.dtype, a: Val, b: Val) -> Val:
    """`b`, or 1 where dividing by it would trap: then a % 1 = 0 and MIN / 1 = MIN are right."""
    bad = em.icmp("eq", b, em.const(b.ty, 0))
    if _is_signed(dtype):
        least = em.icmp("eq", a, em.const(a.ty, -1 << (a.ty.bits - 1)))
        bad = em.or_(bad, em.and_(least, em.icmp("eq", b, em.const(b.ty, -1))))
    return em.select(bad, em.const(b.ty, 1), b)


def _quotient(em: Emitter, dtype: np.dtype, a: Val, b: Val) -> Val:
    """a / b towards zero for a safe divisor."""
    signed = _is_signed(dtype)
    bits = a.ty.bits
    if a.ty.lanes == 1 or bits == 64 or b.is_const:
        return em.sdiv(a, b) if signed else em.udiv(a, b)
    if bits < 32:
        wide = [em.sitofp(resize(em, dtype, v, I32), F32) for v in (a, b)]
        return em.trunc_int(em.fptosi(em.fdiv(*wide), I32), a.ty)
    to_float = em.sitofp if signed else em.uitofp
    ratio = em.fdiv(to_float(a, F64), to_float(b, F64))
    return em.fptosi(ratio, a.ty) if signed else em.fptoui(ratio, a.ty)


def _divide(em: Emitter, dtype: np.dtype, a: Val, b: Val) -> tuple[Val, Val, Val]:
    """Return (safe divisor, quotient towards zero, its remainder)."""
    divisor = b if _known_safe(b) else _safe_divisor(em, dtype, a, b)
    quotient = _quotient(em, dtype, a, divisor)
    return divisor, quotient, em.sub(a, em.mul(quotient, divisor))


def _known_safe(b: Val) -> bool:
    number = constant(b)
    return number is not None and number not in (0, -1)


def _crosses(em: Emitter, divisor: Val, remainder: Val) -> Val:
    """Whether floor differs from truncation: the remainder and the divisor differ in sign."""
    opposite = em.icmp("slt", em.xor(remainder, divisor), em.const(divisor.ty, 0))
    return em.and_(opposite, em.icmp("ne", remainder, em.const(divisor.ty, 0)))


def floordiv(em: Emitter, dtype: np.dtype, a: Val, b: Val) -> Val:
    """a // b as Python, wrapping; 0 where b = 0."""
    divisor, quotient, remainder = _divide(em, dtype, a, b)
    if _is_signed(dtype):
        borrow = em.sext(_crosses(em, divisor, remainder), a.ty)
        quotient = em.add(quotient, borrow)
    if _known_safe(b):
        return quotient
    zero = em.const(a.ty, 0)
    return em.select(em.icmp("eq", b, zero), zero, quotient)


def mod(em: Emitter, dtype: np.dtype, a: Val, b: Val) -> Val:
    """a % b as Python, with the sign of b; 0 where b = 0."""
    divisor, _, remainder = _divide(em, dtype, a, b)
    if not _is_signed(dtype):
        return remainder
    zero = em.const(a.ty, 0)
    lift = em.select(_crosses(em, divisor, remainder), divisor, zero)
    return em.add(remainder, lift)


def fmod(em: Emitter, dtype: np.dtype, a: Val, b: Val) -> Val:
    """a % b as C, with the sign of a; 0 where b = 0."""
    return _divide(em, dtype, a, b)[2]


# Powers


def constant(x: Val) -> int | None:
    """The number that an integer constant or a splat of one stands for, else None."""
    if not x.is_const:
        return None
    text = x.ref.removeprefix(f"splat ({x.ty.element} ").removesuffix(")")
    try:
        return int(text)
    except ValueError:
        return None


def power(em: Emitter, dtype: np.dtype, a: Val, b: Val) -> Val:
    """a ** b, wrapping. A negative exponent gives 0: NumPy raises, so callers check before."""
    exponent = constant(b)
    if exponent is None:
        return em.call(_power_helper(em, dtype, a), a.ty, a, b)
    if not _is_signed(dtype):
        exponent &= (1 << a.ty.bits) - 1
    if exponent < 0:
        return em.const(a.ty, 0)
    result: Val | None = None
    while exponent:
        if exponent & 1:
            result = a if result is None else em.mul(result, a)
        exponent >>= 1
        a = em.mul(a, a) if exponent else a
    return em.const(a.ty, 1) if result is None else result


def _power_helper(em: Emitter, dtype: np.dtype, like: Val) -> str:
    """Define the loop of repeated squaring; it ends when no lane has exponent bits left."""
    ty = like.ty
    name = f"fjit.{dtype.kind}pow.{ty.suffix}"
    if name in em.helpers:
        return name
    body = em.nested()
    base, exponent = Val(ty, "%a"), Val(ty, "%b")
    zero, one = body.const(ty, 0), body.const(ty, 1)
    start = one
    if _is_signed(dtype):
        negative = body.icmp("slt", exponent, zero)
        exponent = body.select(negative, zero, exponent)
        start = body.select(negative, zero, one)
    body.lines.insert(0, "entry:")
    body.br("loop")
    body.label("loop")
    result, square, left = (Val(ty, f"%{n}") for n in ("result", "square", "left"))
    edges = ((result, start, "%more"), (square, base, "%squared"), (left, exponent, "%rest"))
    for val, first, later in edges:
        body.stmt(f"{val.ref} = phi {ty} [ {first.ref}, %entry ], [ {later}, %loop ]")
    odd = body.icmp("ne", body.and_(left, one), zero)
    body.stmt(f"%more = mul {ty} {result.ref}, {body.select(odd, square, one).ref}")
    body.stmt(f"%squared = mul {ty} {square.ref}, {square.ref}")
    body.stmt(f"%rest = lshr {ty} {left.ref}, {one.ref}")
    rest = Val(ty, "%rest")
    if ty.lanes > 1:
        rest = body.call(f"llvm.vector.reduce.or.{ty.suffix}", ty.element, rest)
    body.cond_br(body.icmp("eq", rest, body.const(ty.element, 0)), "done", "loop")
    body.label("done")
    body.ret(Val(ty, "%more"))
    em.helpers[name] = body.define(name, [(ty, "a"), (ty, "b")], "nounwind", ty, "internal")
    return name
