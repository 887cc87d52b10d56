"""Conversions between dtypes, as NumPy's compiled x86-64 loops do them.

Takes a register value and its dtype, gives a value of another dtype. Invariant: no conversion is
poison for any input. Out of range and NaN, one rule on every machine and vector width:

    float -> int32          INT32_MIN
    float -> int64          INT64_MIN
    float -> (u)int8, 16    the low bits of the int32
    float -> uint32         the low bits of the int64
    float -> uint64         the int64 below 2**63, the number up to 2**64, and 0 from there on

LLVM's fptosi is poison out of range, and a select does not hand on the poison of the side it does
not take; the processor still sees the operand and raises its invalid flag:

    float -> int32  ->  %ok = |x| < 2**31 ; %y = fptosi x ; select %ok, %y, INT32_MIN

float16 values live in `half` registers. Only float32 <-> float16 exists in hardware, and only where
`Emitter.hardware_half` says so; otherwise the bits are moved by integer arithmetic (after Giesen,
"Half to float done quick", 2012).
"""

import numpy as np

from fjit.backend.emitter import F16, F32, I1, I32, I64, Emitter, Ty, Val

_HALF = np.dtype(np.float16)


def register_type(dtype: np.dtype, lanes: int = 1) -> Ty:
    """The type of a value of `dtype` in a register: bool is i1, floats are floats."""
    if dtype.kind == "b":
        return I1.with_lanes(lanes)
    return Ty("f" if dtype.kind == "f" else "i", 8 * dtype.itemsize, lanes)


def memory_type(dtype: np.dtype, lanes: int = 1) -> Ty:
    """The type of a value of `dtype` in memory: bool is i8, others as in registers."""
    return Ty("i", 8, lanes) if dtype.kind == "b" else register_type(dtype, lanes)


def convert(em: Emitter, source: np.dtype, x: Val, target: np.dtype) -> Val:
    """`x` of dtype `source` as `target`."""
    if source == target:
        return x
    if target.kind == "b":
        return to_bool(em, source, x)
    if source.kind == "b":
        return _from_bool(em, x, register_type(target, x.ty.lanes))
    if source.kind == "f":
        return _from_float(em, x, target)
    if target.kind == "f":
        return _int_to_float(em, source, x, register_type(target))
    return resize(em, source, x, register_type(target))


def to_bool(em: Emitter, source: np.dtype, x: Val) -> Val:
    """Whether `x` differs from zero; NaN does."""
    if source == _HALF:
        magnitude = em.and_(em.bitcast(x, x.ty.as_int), em.const(x.ty.as_int, 0x7FFF))
        return em.icmp("ne", magnitude, em.const(x.ty.as_int, 0))
    if source.kind == "f":
        return em.fcmp("une", x, em.const(x.ty, 0.0))
    return em.icmp("ne", x, em.const(x.ty, 0))


def resize(em: Emitter, source: np.dtype, x: Val, ty: Ty) -> Val:
    """The integer `x` in another width: the low bits, or extended as its signedness asks."""
    if ty.bits < x.ty.bits:
        return em.trunc_int(x, ty)
    if ty.bits == x.ty.bits:
        return x
    return em.sext(x, ty) if source.kind == "i" else em.zext(x, ty)


def _from_bool(em: Emitter, x: Val, ty: Ty) -> Val:
    if ty.kind == "i":
        return em.zext(x, ty)
    return em.select(x, em.const(ty, 1.0), em.const(ty, 0.0))


def _int_to_float(em: Emitter, source: np.dtype, x: Val, ty: Ty) -> Val:
    """One rounding; integers that float32 rounds are beyond float16's range anyway."""
    to_float = em.sitofp if source.kind == "i" else em.uitofp
    if ty.bits == 16:
        return round_half(em, to_float(x, F32))
    return to_float(x, ty)


def _from_float(em: Emitter, x: Val, target: np.dtype) -> Val:
    ty = register_type(target)
    if ty.kind == "f":
        return float_to_float(em, x, ty)
    if x.ty.bits == 16:
        x = extend_half(em, x)
    if target == np.dtype(np.uint64):
        return _to_u64(em, x)
    through = I64 if ty.bits == 64 or target == np.dtype(np.uint32) else I32
    return em.trunc_int(to_signed(em, x, through), ty)


def to_signed(em: Emitter, x: Val, ty: Ty) -> Val:
    """Truncate a float32 or float64 to i32 or i64; INT_MIN when out of range or NaN."""
    limit = 2.0 ** (ty.bits - 1)
    inside = em.fcmp("olt", em.fabs(x), em.const(x.ty, limit))
    ty = ty.with_lanes(x.ty.lanes)
    return em.select(inside, em.fptosi(x, ty), em.const(ty, -1 << (ty.bits - 1)))


def _to_u64(em: Emitter, x: Val) -> Val:
    limit = em.const(x.ty, 2.0**63)
    high = em.fcmp("oge", x, limit)
    low_part = to_signed(em, em.select(high, em.fsub(x, limit), x), I64)
    top = em.const(low_part.ty, -(1 << 63))
    return em.xor(low_part, em.select(high, top, em.const(low_part.ty, 0)))


def float_to_float(em: Emitter, x: Val, ty: Ty) -> Val:
    """Widen exactly or round once."""
    if ty.bits == x.ty.bits:
        return x
    if x.ty.bits == 16:
        return em.fpext(extend_half(em, x), ty)
    if ty.bits == 16:
        return round_half(em, x if x.ty.bits == 32 else _round_to_odd(em, x))
    return em.fpext(x, ty) if ty.bits > x.ty.bits else em.fptrunc(x, ty)


def _round_to_odd(em: Emitter, x: Val) -> Val:
    """float64 -> float32 whose last bit says "inexact": rounding that once more is right.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008. What is too small for
    this in float32 is far below half of float16's least subnormal.
    """
    bits = em.bitcast(x, x.ty.as_int)
    low = em.const(bits.ty, (1 << 29) - 1)
    sticky = em.add(em.and_(bits, low), low)
    odd = em.and_(em.or_(bits, sticky), em.not_(low))
    return em.fptrunc(em.bitcast(odd, x.ty), F32)


def extend_half(em: Emitter, x: Val) -> Val:
    """float16 -> float32, exact."""
    if em.hardware_half:
        return em.fpext(x, F32)
    bits = em.zext(em.bitcast(x, x.ty.as_int), I32)
    ty = bits.ty
    magnitude = em.shl(em.and_(bits, em.const(ty, 0x7FFF)), em.const(ty, 13))
    scaled = em.fmul(em.bitcast(magnitude, ty.as_float), em.const(ty.as_float, 2.0**112))
    wide = em.bitcast(scaled, ty)
    special = em.icmp("uge", magnitude, em.const(ty, 0x7C00 << 13))
    wide = em.select(special, em.or_(magnitude, em.const(ty, 0x7F800000)), wide)
    sign = em.shl(em.and_(bits, em.const(ty, 0x8000)), em.const(ty, 16))
    return em.bitcast(em.or_(wide, sign), ty.as_float)


def round_half(em: Emitter, x: Val) -> Val:
    """float32 -> float16, ties to even."""
    half = F16.with_lanes(x.ty.lanes)
    if em.hardware_half:
        return em.fptrunc(x, half)
    bits = em.bitcast(x, x.ty.as_int)
    ty = bits.ty
    magnitude = em.and_(bits, em.const(ty, 0x7FFFFFFF))
    magic = em.const(ty, 126 << 23)  # adding 1/2 leaves a subnormal's bits at the end
    small = em.fadd(em.bitcast(magnitude, x.ty), em.bitcast(magic, x.ty))
    small = em.sub(em.bitcast(small, ty), magic)
    odd = em.and_(em.lshr(magnitude, em.const(ty, 13)), em.const(ty, 1))
    rounded = em.add(em.add(magnitude, em.const(ty, 0xFFF - (112 << 23))), odd)
    normal = em.lshr(rounded, em.const(ty, 13))
    result = em.select(em.icmp("ult", magnitude, em.const(ty, 113 << 23)), small, normal)
    is_nan = em.icmp("ugt", magnitude, em.const(ty, 0x7F800000))
    special = em.select(is_nan, em.const(ty, 0x7E00), em.const(ty, 0x7C00))
    result = em.select(em.icmp("uge", magnitude, em.const(ty, 143 << 23)), special, result)
    sign = em.and_(em.lshr(bits, em.const(ty, 16)), em.const(ty, 0x8000))
    return em.bitcast(em.trunc_int(em.or_(result, sign), half.as_int), half)


def widen(em: Emitter, x: Val) -> Val:
    """The type that arithmetic on `x` is done in: float32 for float16, else its own."""
    return extend_half(em, x) if x.ty.kind == "f" and x.ty.bits == 16 else x
