"""sin, cos and tan, with the argument reduced to [-pi/4, pi/4] in two parts.

Takes x, gives x = q pi/2 + r + r_lo. Up to |x| = LIMIT three parts of pi/2 are subtracted (Cody and
Waite) such that the second product is exact. Beyond it a cold helper multiplies by 192 bits of 2/pi
(Payne and Hanek, "Radian reduction for trigonometric functions", 1983); float32 goes through the
float64 reduction first. A call reaches it only when a lane needs it; the helper around both is
`alwaysinline`, so that the common path stays in registers. Errors, over all finite x, are below 0.8
units in the last place for sin and cos, 1 for tan.

    sin(x)  ->  q, r = reduce(x) ; s = sin_kernel(r) ; c = cos_kernel(r) ; +-(q & 1 ? c : s)
"""

from fjit.backend.emitter import F64, I64, Emitter, Ty, Val
from fjit.backend.math.core import (
    INF,
    NAN,
    Pair,
    fast_two_sum,
    flip_sign,
    horner,
    int_like,
    like,
    round_scaled,
)

LIMIT = {32: 3000.0, 64: 1.0e8}
# fmt: off
# pi/2 = a + b + c, b so short that q * b is exact up to LIMIT
PIO2 = {
    32: (1.5707963705062866, -4.370667738839984e-08, -4.712613545926336e-12),
    64: (1.5707963267948966, 6.123233932053594e-17, 6.36831716351095e-25),
}
# (sin(r) - r) / r^3 in r^2 on |r| <= pi/4
SIN = {
    32: (-0.16666655, 0.008332176, -0.00019516978),
    64: (-0.16666666666666632, 0.008333333333322372, -0.0001984126982977151,
         2.755731367869152e-06, -2.5050755954729648e-08, 1.5896665643352808e-10),
}
# (cos(r) - 1 + r^2/2) / r^4 in r^2
COS = {
    32: (0.041666646, -0.0013887364, 2.44381e-05),
    64: (0.0416666666666666, -0.0013888888888874066, 2.4801587289444867e-05,
         -2.7557314341059556e-07, 2.087572167840102e-09, -1.1359562172789938e-11),
}
# 2/pi in words of 64 bits after one word of zeros
TWO_OVER_PI = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041,
    0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)
# fmt: on
TWO_OVER_PI_NAME = "fjit.two_over_pi"
HALF_PI = {
    32: (1.5707963705062866, -4.371138828673793e-08),
    64: (1.5707963267948966, 6.123233995736766e-17),
}


def reduce_small(e: Emitter, x: Val) -> tuple[Val, Val, Val]:
    """Return (word ending in q, r, r_lo) for |x| <= LIMIT."""
    a, b, c = PIO2[x.ty.bits]
    word, n = round_scaled(e, x, 0.6366197723675814)
    first = e.fma(n, like(e, x, -a), x)
    second = e.fmul(n, like(e, x, -b))
    r, r_lo = fast_two_sum(e, first, second)
    return word, r, e.fma(n, like(e, x, -c), r_lo)


def reduce(e: Emitter, x: Val) -> tuple[Val, Val, Val]:
    """Return (word ending in q, r, r_lo) for every x."""
    result = e.call_struct(_reduce_helper(e, x.ty), (x.ty.as_int, x.ty, x.ty), x)
    return result[0], result[1], result[2]


def sin_kernel(e: Emitter, r: Val, r_lo: Val) -> Pair:
    """sin(r + r_lo) in two parts."""
    z = e.fmul(r, r)
    slope = e.fma(z, like(e, r, -0.5), like(e, r, 1.0))
    p = horner(e, z, SIN[r.ty.bits])
    return r, e.fma(e.fmul(z, r), p, e.fmul(r_lo, slope))


def cos_kernel(e: Emitter, r: Val, r_lo: Val, exact: bool = False) -> Pair:
    """cos(r + r_lo) in two parts; `exact` keeps the rounding error of r^2, for a quotient."""
    z = e.fmul(r, r)
    half, one = e.fmul(z, like(e, r, 0.5)), like(e, r, 1.0)
    top = e.fsub(one, half)
    lost = e.fsub(e.fsub(one, top), half)
    lost = e.fma(e.fneg(r), r_lo, lost)
    if exact:
        lost = e.fma(e.fma(r, r, e.fneg(z)), like(e, r, -0.5), lost)
    return top, e.fma(e.fmul(z, z), horner(e, z, COS[r.ty.bits]), lost)


def _quarter(e: Emitter, x: Val, shift: int) -> Val:
    word, r, r_lo = reduce(e, x)
    if shift:
        word = e.add(word, int_like(e, x, shift))
    odd = e.icmp("ne", e.and_(word, int_like(e, x, 1)), int_like(e, x, 0))
    s, c = sin_kernel(e, r, r_lo), cos_kernel(e, r, r_lo)
    value = e.fadd(e.select(odd, c[0], s[0]), e.select(odd, c[1], s[1]))
    return flip_sign(e, value, e.shl(word, int_like(e, x, x.ty.bits - 2)))


def _keep_zero(e: Emitter, x: Val, result: Val) -> Val:
    return e.select(e.fcmp("oeq", x, like(e, x, 0.0)), x, result)


def sin(e: Emitter, x: Val) -> Val:
    """Sine of an angle in radians."""
    return _keep_zero(e, x, _quarter(e, x, 0))


def cos(e: Emitter, x: Val) -> Val:
    """Cosine of an angle in radians."""
    return _quarter(e, x, 1)


def tan(e: Emitter, x: Val) -> Val:
    """Tangent: sin/cos, or -cos/sin in odd quadrants, the quotient corrected once."""
    word, r, r_lo = reduce(e, x)
    s = fast_two_sum(e, *sin_kernel(e, r, r_lo))
    c = fast_two_sum(e, *cos_kernel(e, r, r_lo, exact=True))
    odd = e.icmp("ne", e.and_(word, int_like(e, x, 1)), int_like(e, x, 0))
    num = [e.select(odd, b, a) for a, b in zip(s, c, strict=True)]
    den = [e.select(odd, a, b) for a, b in zip(s, c, strict=True)]
    inverse = e.fdiv(like(e, x, 1.0), den[0])
    q = e.fmul(num[0], inverse)
    rest = e.fadd(e.fma(e.fneg(q), den[0], num[0]), e.fma(e.fneg(q), den[1], num[1]))
    value = e.fma(rest, inverse, q)
    value = flip_sign(e, value, e.shl(word, int_like(e, x, x.ty.bits - 1)))
    return _keep_zero(e, x, value)


# Helpers


def _reduce_helper(e: Emitter, ty: Ty) -> str:
    """Define the reduction of `ty`: the common path, and a branch to the cold one."""
    name = f"fjit.reduce_pi_2.{ty.suffix}"
    if name in e.helpers:
        return name
    sub = e.nested()
    x = Val(ty, "%x")
    common = reduce_small(sub, x)
    huge = sub.fcmp("ogt", sub.fabs(x), like(sub, x, LIMIT[ty.bits]))
    some = sub.any_(huge)
    sub.br("test")
    sub.label("test")
    sub.cond_br(some, "cold", "done")
    sub.label("cold")
    cold = sub.call_struct(_cold_helper(sub, ty), (ty.as_int, ty, ty), x)
    sub.br("done")
    sub.label("done")
    merged = [sub.phi(a.ty, (a, "test"), (b, "cold")) for a, b in zip(common, cold, strict=True)]
    sub.ret_struct(*merged)
    e.adopt(sub, name, [(ty, "x")], "alwaysinline nounwind", (ty.as_int, ty, ty))
    return name


def _cold_helper(e: Emitter, ty: Ty) -> str:
    """Define the reduction for a vector with a huge lane."""
    name = f"fjit.reduce_pi_2_cold.{ty.suffix}"
    if name in e.helpers:
        return name
    sub = e.nested()
    x = Val(ty, "%x")
    parts = _cold_narrow(sub, x) if ty.bits < 64 else _cold_wide(sub, x)
    sub.ret_struct(*parts)
    e.adopt(sub, name, [(ty, "x")], "noinline cold nounwind", (ty.as_int, ty, ty))
    return name


def _cold_narrow(e: Emitter, x: Val) -> tuple[Val, Val, Val]:
    """Reduce huge float32 lanes in float64 and split the remainder."""
    word, wide, wide_lo = reduce(e, e.fpext(x, F64))
    wide = e.fadd(wide, wide_lo)
    r = e.fptrunc(wide, x.ty)
    r_lo = e.fptrunc(e.fsub(wide, e.fpext(r, F64)), x.ty)
    return _where_huge(e, x, (e.trunc_int(word, x.ty.as_int), r, r_lo))


def _where_huge(e: Emitter, x: Val, cold: tuple[Val, Val, Val]) -> tuple[Val, Val, Val]:
    """Keep the common path for small lanes: no lane may depend on its neighbours."""
    huge = e.fcmp("ogt", e.fabs(x), like(e, x, LIMIT[x.ty.bits]))
    word, r, r_lo = (e.select(huge, a, b) for a, b in zip(cold, reduce_small(e, x), strict=True))
    return word, r, r_lo


def _cold_wide(e: Emitter, x: Val) -> tuple[Val, Val, Val]:
    """Reduce huge float64 lanes one by one."""
    huge = e.fcmp("ogt", e.fabs(x), like(e, x, LIMIT[64]))
    fed = e.select(huge, x, like(e, x, 2.0**30))
    words, his, los = e.undef(x.ty.as_int), e.undef(x.ty), e.undef(x.ty)
    scalar = _payne_hanek_helper(e)
    for lane in range(x.ty.lanes):
        one = e.call_struct(scalar, (I64, F64, F64), e.extract(fed, lane))
        words, his, los = (
            e.insert(total, part, lane) for total, part in zip((words, his, los), one, strict=True)
        )
    return _where_huge(e, x, (words, his, los))


def _payne_hanek_helper(e: Emitter) -> str:
    """Define the scalar reduction for 2**10 <= |x|."""
    name = "fjit.payne_hanek"
    if name in e.helpers:
        return name
    words = ", ".join(f"i64 {w - (1 << 64) if w >> 63 else w}" for w in TWO_OVER_PI)
    array = f"[{len(TWO_OVER_PI)} x i64] [{words}]"
    e.helpers[TWO_OVER_PI_NAME] = f"@{TWO_OVER_PI_NAME} = private unnamed_addr constant {array}\n"
    sub = e.nested()
    sub.ret_struct(*_payne_hanek(sub, Val(F64, "%x")))
    e.adopt(sub, name, [(F64, "x")], "noinline cold nounwind", (I64, F64, F64))
    return name


def _payne_hanek(e: Emitter, x: Val) -> tuple[Val, Val, Val]:
    """x * 2/pi modulo 4 as a fixed-point number with 126 fraction bits; x = m * 2**k."""
    raw = e.bitcast(x, I64)
    m = e.or_(e.and_(raw, e.const(I64, (1 << 52) - 1)), e.const(I64, 1 << 52))
    exponent = e.and_(e.lshr(raw, e.const(I64, 52)), e.const(I64, 2047))
    position = e.sub(exponent, e.const(I64, 1075 - 62))
    first, shift = e.lshr(position, e.const(I64, 6)), e.and_(position, e.const(I64, 63))
    base = e.gep(Val(Ty("p", 64), f"@{TWO_OVER_PI_NAME}"), e.shl(first, e.const(I64, 3)))
    w = [e.load(I64, e.gep(base, e.const(I64, 8 * i)), 8) for i in range(4)]
    a = [e.intrinsic("fshl", I64, w[i], w[i + 1], shift) for i in range(3)]
    wide = Ty("i", 128)
    m_wide = e.zext(m, wide)
    low = e.lshr(e.mul(m_wide, e.zext(a[2], wide)), e.const(wide, 64))
    total = e.add(e.mul(m_wide, e.zext(a[1], wide)), low)
    total = e.add(total, e.shl(e.zext(e.mul(m, a[0]), wide), e.const(wide, 64)))
    turned = e.add(total, e.const(wide, 1 << 125))
    q = e.trunc_int(e.lshr(turned, e.const(wide, 126)), I64)
    rest = e.sub(total, e.shl(e.zext(q, wide), e.const(wide, 126)))
    r, r_lo = _angle(e, rest)
    negative = e.icmp("slt", raw, e.const(I64, 0))
    q = e.select(negative, e.neg(q), q)
    r, r_lo = e.select(negative, e.fneg(r), r), e.select(negative, e.fneg(r_lo), r_lo)
    finite = e.fcmp("olt", e.fabs(x), e.const(F64, INF))
    return q, e.select(finite, r, e.const(F64, NAN)), r_lo


def _angle(e: Emitter, rest: Val) -> Pair:
    """pi/2 times a signed fixed-point fraction of 126 bits, in two parts."""
    high = e.trunc_int(e.ashr(rest, e.const(rest.ty, 64)), I64)
    low = e.uitofp(e.trunc_int(rest, I64), F64)
    top = e.sitofp(high, F64)
    lost = e.sitofp(e.sub(high, e.fptosi(top, I64)), F64)
    f, f_lo = fast_two_sum(e, top, e.fma(low, e.const(F64, 2.0**-64), lost))
    hi, lo = (e.const(F64, part * 2.0**-62) for part in HALF_PI[64])
    r = e.fmul(f, hi)
    return r, e.fma(f_lo, hi, e.fma(f, lo, e.fma(f, hi, e.fneg(r))))
