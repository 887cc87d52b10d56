"""pow, cbrt, rsqrt, hypot, fmod and nextafter.

    pow(x, y)  ->  exp(y * log|x|) in two parts, then the sign and the special values of C99

float32 pow goes through float64 polynomials of just enough terms. For float64 the logarithm is
n ln 2 + 2 atanh(s), s = (m - 1)/(m + 1), whose first two terms are kept in two parts (relative
error 2**-65). cbrt iterates on m**(-1/3) without a division and corrects by the exact remainder.
fmod is exact: a remainder with a quotient below 2**52 (2**23 for float32) is exact in one
multiply-add, and larger quotients take a loop. Errors: pow below 1, the others below 1.
"""

from fjit.backend.emitter import F64, Emitter, Ty, Val
from fjit.backend.math.core import (
    BIAS,
    INF,
    MANTISSA,
    NAN,
    TINY_NORMAL,
    Pair,
    bits_of,
    clamp,
    fast_two_sum,
    from_bits,
    horner,
    int_like,
    like,
    poly,
    power_of_two,
    round_scaled,
    scale,
    through_f64,
    two_prod,
)
from fjit.backend.math.exponential import LN2_HI, LN2_LO, exp_pair
from fjit.backend.math.logarithm import reduce_log

# fmt: off
# log2(1 + f) / f on sqrt(1/2) <= 1 + f <= sqrt(2), for a float32 result
LOG2_MID = (
    1.4426950408667023, -0.7213475207465213, 0.48089836255023627, -0.36067369941964333,
    0.28853719797592714, -0.24045173061841238, 0.20617763366531833, -0.18033590459105486,
    0.15876253435758703, -0.14276646517509783, 0.1444678702941053, -0.14443625448280342,
    0.07954851029926241,
)
# 2^r on |r| <= 1/2, for a float32 result
EXP2_MID = (
    0.9999999999595348, 0.6931471805350286, 0.24022651213692373, 0.05550410976105039,
    0.00961802559259364, 0.0013333422647083518, 0.000154697347408328, 1.5316461574910607e-05,
)
# (atanh(s) / s - 1 - s^2/3) / s^4 in s^2 on |s| <= 0.1716
ATANH = (
    0.1999999999999999, 0.14285714285722576, 0.1111111110876348, 0.09090909435744836,
    0.07692278395176054, 0.06668160268522719, 0.05837377476184467, 0.05994772159174884,
)
# m^(-1/3) on [1, 8], to 2^-7
CBRT = (
    1.3377202615879633, -0.44085672940581694, 0.10851312871333964, -0.012987947528553484,
    0.0005853602133383992,
)
# fmt: on
THIRD = {
    32: (0.3333333432674408, -9.934107758624577e-09),
    64: (0.3333333333333333, 1.850371707708594e-17),
}


def rsqrt(e: Emitter, x: Val) -> Val:
    """1 / sqrt(x), corrected once by its own remainder."""
    y = e.fdiv(like(e, x, 1.0), e.sqrt(x))
    h, h_lo = two_prod(e, x, y)
    rest = e.fma(e.fneg(h_lo), y, e.fma(e.fneg(h), y, like(e, x, 1.0)))
    better = e.fma(e.fmul(y, like(e, x, 0.5)), rest, y)
    fine = e.fcmp("one", e.fmul(x, like(e, x, 0.0)), like(e, x, 1.0))
    usual = e.and_(fine, e.fcmp("ogt", x, like(e, x, 0.0)))
    return e.select(usual, better, y)


def cbrt(e: Emitter, x: Val) -> Val:
    """Cube root, negative arguments included."""
    bits = x.ty.bits
    size = e.fabs(x)
    lift = 54 if bits == 64 else 24
    tiny = e.fcmp("olt", size, like(e, x, TINY_NORMAL[bits]))
    v = e.select(tiny, e.fmul(size, like(e, x, 2.0**lift)), size)
    raw = bits_of(e, v)
    shift = int_like(e, x, MANTISSA[bits])
    offset = -BIAS[bits] % 3
    exponent = e.add(e.lshr(raw, shift), int_like(e, x, offset))
    third = e.lshr(e.mul(exponent, int_like(e, x, 21846)), int_like(e, x, 16))
    left = e.sub(exponent, e.mul(third, int_like(e, x, 3)))
    fraction = e.and_(raw, int_like(e, x, (1 << MANTISSA[bits]) - 1))
    exponent_bits = e.shl(e.add(left, int_like(e, x, BIAS[bits])), shift)
    m = from_bits(e, e.or_(fraction, exponent_bits))
    k = e.sub(third, int_like(e, x, (BIAS[bits] + offset) // 3))
    k = e.sub(k, e.select(tiny, int_like(e, x, lift // 3), int_like(e, x, 0)))
    root = e.fmul(_cbrt_unit(e, m), power_of_two(e, k))
    usual = e.fcmp("ogt", e.fmul(size, like(e, x, INF)), like(e, x, 0.0))
    usual = e.and_(usual, e.fcmp("olt", size, like(e, x, INF)))
    return e.select(usual, e.copysign(root, x), x)


def _cbrt_unit(e: Emitter, m: Val) -> Val:
    """Cube root on [1, 8): y -> y (1 + h/3 + 2h^2/9 + 14h^3/81), h = 1 - m y^3, then m y^2."""
    y, one = horner(e, m, CBRT), like(e, m, 1.0)
    h = e.fma(e.fmul(m, e.fneg(e.fmul(y, y))), y, one)
    y = e.fma(e.fmul(y, h), horner(e, h, (1 / 3, 2 / 9, 14 / 81)), y)
    if m.ty.bits == 64:
        h = e.fma(e.fmul(m, e.fneg(e.fmul(y, y))), y, one)
        y = e.fma(e.fmul(y, h), like(e, m, 1 / 3), y)
    square = e.fmul(y, y)
    z = e.fmul(m, square)
    zz, zz_lo = two_prod(e, z, z)
    rest = e.fma(zz_lo, z, e.fma(zz, z, e.fneg(m)))
    return e.fma(rest, e.fmul(square, like(e, m, -1 / 3)), z)


def hypot(e: Emitter, x: Val, y: Val) -> Val:
    """sqrt(x^2 + y^2) without overflow; inf where one is infinite, even beside NaN."""
    if through_f64(x.ty):
        a, b = e.fpext(x, F64), e.fpext(y, F64)
        value = e.fptrunc(e.sqrt(e.fma(a, a, e.fmul(b, b))), x.ty)
    else:
        value = _hypot_wide(e, x, y)
    infinity = like(e, x, INF)
    infinite = e.or_(e.fcmp("oeq", e.fabs(x), infinity), e.fcmp("oeq", e.fabs(y), infinity))
    return e.select(infinite, infinity, value)


def _hypot_wide(e: Emitter, x: Val, y: Val) -> Val:
    a, b = e.fabs(x), e.fabs(y)
    swap = e.fcmp("olt", a, b)
    a, b = e.select(swap, b, a), e.select(swap, a, b)
    one = like(e, x, 1.0)
    up, down = like(e, x, 2.0**600), like(e, x, 2.0**-600)
    factor = e.select(e.fcmp("ogt", a, like(e, x, 2.0**500)), down, one)
    factor = e.select(e.fcmp("olt", a, like(e, x, 2.0**-400)), up, factor)
    a, b = e.fmul(a, factor), e.fmul(b, factor)
    square, square_lo = two_prod(e, a, a)
    other, other_lo = two_prod(e, b, b)
    h, h_lo = fast_two_sum(e, square, other)
    h_lo = e.fadd(h_lo, e.fadd(square_lo, other_lo))
    root = e.sqrt(h)
    rest = e.fadd(e.fma(e.fneg(root), root, h), h_lo)
    better = e.fadd(root, e.fdiv(rest, e.fadd(root, root)))
    root = e.select(e.fcmp("ogt", root, like(e, x, 0.0)), better, root)
    back = e.select(e.fcmp("olt", factor, one), up, one)
    back = e.select(e.fcmp("ogt", factor, one), down, back)
    return e.fmul(root, back)


def pow(e: Emitter, x: Val, y: Val) -> Val:
    """x**y with the special values of C99, annex F."""
    size = e.fabs(x)
    value = _pow_narrow(e, size, y) if through_f64(x.ty) else _pow_wide(e, size, y)
    zero, one = like(e, x, 0.0), like(e, x, 1.0)
    infinity = like(e, x, INF)
    # |x| of 0 or inf, or y infinite: the limit is 0 or inf, by whether |x|**y grows.
    small = e.fcmp("olt", size, one)
    shrinks = e.xor(small, e.fcmp("olt", y, zero))
    limit = e.select(shrinks, zero, infinity)
    edge = e.or_(e.fcmp("oeq", size, zero), e.fcmp("oeq", size, infinity))
    edge = e.or_(edge, e.fcmp("oeq", e.fabs(y), infinity))
    value = e.select(edge, limit, value)
    value = e.select(e.fcmp("uno", x, y), e.fadd(x, y), value)
    value = _pow_sign(e, x, y, value)
    unit = e.and_(e.fcmp("oeq", size, one), e.fcmp("oeq", e.fabs(y), infinity))
    unit = e.or_(e.or_(unit, e.fcmp("oeq", y, zero)), e.fcmp("oeq", x, one))
    return e.select(unit, one, value)


def _pow_sign(e: Emitter, x: Val, y: Val, value: Val) -> Val:
    """Negate for a negative x and an odd y; NaN for a negative finite x and a fractional y."""
    half = e.fmul(y, like(e, y, 0.5))
    whole = e.fcmp("oeq", e.trunc(y), y)
    odd = e.and_(whole, e.fcmp("one", e.trunc(half), half))
    signed = from_bits(e, e.or_(bits_of(e, value), e.and_(bits_of(e, x), sign_bit(e, x))))
    value = e.select(odd, signed, value)
    below = e.and_(e.fcmp("olt", x, like(e, x, 0.0)), e.fcmp("ogt", x, like(e, x, -INF)))
    return e.select(e.and_(below, e.fcmp("one", e.trunc(y), y)), like(e, x, NAN), value)


def sign_bit(e: Emitter, x: Val) -> Val:
    """The integer whose only bit is the sign of `x`."""
    return int_like(e, x, 1 << (x.ty.bits - 1))


def _pow_narrow(e: Emitter, x: Val, y: Val) -> Val:
    """float32 |x|**y by way of float64: log2 and exp2 good to 2**-34."""
    wide = e.fpext(x, F64)
    n, f = _split(e, wide)
    product = e.fmul(e.fma(f, poly(e, f, LOG2_MID), n), e.fpext(y, F64))
    product = clamp(e, product, -300.0, 300.0)
    word, rounded = round_scaled(e, product, 1.0)
    power = poly(e, e.fsub(product, rounded), EXP2_MID)
    return e.fptrunc(e.fmul(power, power_of_two(e, word)), x.ty)


def _split(e: Emitter, v: Val) -> Pair:
    """v = 2**n (1 + f) for a normal v: (n, f)."""
    reduced = reduce_log(e, v)
    return reduced.n, reduced.f


def log_wide(e: Emitter, v: Val) -> Pair:
    """log(v) of float64 in two parts to 2**-65, for 0 < v < inf."""
    n, f = _split(e, v)
    two = like(e, v, 2.0)
    den, den_lo = fast_two_sum(e, two, f)
    inverse = e.fdiv(two, den)  # s is twice f / (2 + f)
    s = e.fmul(f, inverse)
    rest = e.fma(e.fneg(s), den, e.fmul(f, two))
    s_lo = e.fmul(e.fma(e.fneg(s), den_lo, rest), e.fmul(inverse, like(e, v, 0.5)))
    quarter = like(e, v, 0.25)
    z, z_lo = two_prod(e, s, s)
    z_lo = e.fmul(e.fma(e.fadd(s, s), s_lo, z_lo), quarter)
    z = e.fmul(z, quarter)
    third, third_lo = (like(e, v, part) for part in THIRD[64])
    w, w_lo = two_prod(e, z, third)
    w_lo = e.fma(z, third_lo, e.fma(z_lo, third, w_lo))
    w, more = fast_two_sum(e, w, e.fmul(e.fmul(z, z), poly(e, z, ATANH)))
    w_lo = e.fadd(w_lo, more)
    p, p_lo = two_prod(e, s, w)
    p_lo = e.fma(s, w_lo, e.fma(s_lo, w, p_lo))
    h, lo = fast_two_sum(e, s, p)
    lo = e.fadd(e.fadd(lo, s_lo), p_lo)
    u, u_lo = fast_two_sum(e, e.fmul(n, like(e, v, LN2_HI[64])), h)
    return fast_two_sum(e, u, e.fma(n, like(e, v, LN2_LO[64]), e.fadd(u_lo, lo)))


def _pow_wide(e: Emitter, x: Val, y: Val) -> Val:
    """float64 |x|**y for finite operands."""
    h, lo = log_wide(e, x)
    product, product_lo = two_prod(e, h, y)
    product_lo = e.fma(lo, y, product_lo)
    inside = e.fcmp("olt", e.fabs(product), like(e, x, 760.0))
    product_lo = e.select(inside, product_lo, like(e, x, 0.0))
    p, p_lo, word = exp_pair(e, clamp(e, product, -760.0, 760.0), product_lo)
    return scale(e, e.fadd(p, p_lo), word)


def nextafter(e: Emitter, a: Val, b: Val) -> Val:
    """The float after `a` in the direction of `b`."""
    raw = bits_of(e, a)
    zero = like(e, a, 0.0)
    away = e.xor(e.fcmp("olt", a, b), e.fcmp("olt", a, zero))
    one = int_like(e, a, 1)
    step = e.select(away, one, int_like(e, a, -1))
    smallest = e.or_(e.and_(bits_of(e, b), sign_bit(e, a)), one)
    moved = e.select(e.fcmp("oeq", a, zero), smallest, e.add(raw, step))
    value = e.select(e.fcmp("oeq", a, b), b, from_bits(e, moved))
    return e.select(e.fcmp("uno", a, b), e.fadd(a, b), value)


# fmod


def fmod(e: Emitter, a: Val, b: Val) -> Val:
    """Exact remainder of a / b with the sign of `a`."""
    (value,) = e.call_struct(_fmod_helper(e, a.ty), (a.ty,), e.fabs(a), e.fabs(b))
    infinity = like(e, a, INF)
    bad = e.or_(e.fcmp("oeq", b, like(e, a, 0.0)), e.fcmp("oeq", e.fabs(a), infinity))
    value = e.select(e.fcmp("oeq", e.fabs(b), infinity), e.fabs(a), value)
    value = e.select(bad, like(e, a, NAN), e.copysign(value, a))
    return e.select(e.fcmp("uno", a, b), e.fadd(a, b), value)


def _fmod_helper(e: Emitter, ty: Ty) -> str:
    """Define the remainder loop: one step is enough unless the quotient is huge."""
    name = f"fjit.fmod.{ty.suffix}"
    if name in e.helpers:
        return name
    sub = e.nested()
    a, b = Val(ty, "%a"), Val(ty, "%b")
    infinity = like(sub, a, INF)
    usable = sub.and_(sub.fcmp("ogt", b, like(sub, b, 0.0)), sub.fcmp("olt", a, infinity))
    b = sub.select(sub.and_(usable, sub.fcmp("olt", b, infinity)), b, infinity)
    exponent = _exponent(sub, b)
    sub.br("loop")
    sub.label("loop")
    now = Val(ty, "%now")
    at = len(sub.lines)
    after = _fmod_step(sub, now, b, exponent)
    more = sub.any_(sub.fcmp("oge", after, b))
    sub.lines.insert(at, f"  %now = phi {ty} [ %a, %0 ], [ {after.ref}, %loop ]")
    sub.cond_br(more, "loop", "done")
    sub.label("done")
    sub.ret_struct(after)
    e.adopt(sub, name, [(ty, "a"), (ty, "b")], "alwaysinline nounwind", (ty,))
    return name


def _exponent(e: Emitter, b: Val) -> Val:
    """The biased exponent of b >= 0, continued below zero for subnormals."""
    bits = b.ty.bits
    shift = int_like(e, b, MANTISSA[bits])
    tiny = e.fcmp("olt", b, like(e, b, TINY_NORMAL[bits]))
    lifted = e.select(tiny, e.fmul(b, like(e, b, 2.0 ** MANTISSA[bits])), b)
    lift = e.select(tiny, shift, int_like(e, b, 0))
    return e.sub(e.lshr(bits_of(e, lifted), shift), lift)


def _fmod_step(e: Emitter, a: Val, b: Val, exponent: Val) -> Val:
    """a modulo b * 2**k, exactly, with k >= 0 so chosen that the quotient stays small."""
    bits = a.ty.bits
    digits = 51 if bits == 64 else 22  # the least for which a subnormal `a` has k = 0
    gap = e.sub(e.lshr(bits_of(e, a), int_like(e, a, MANTISSA[bits])), exponent)
    k = e.sub(gap, int_like(e, a, digits))
    k = e.select(e.icmp("sgt", k, int_like(e, a, 0)), k, int_like(e, a, 0))
    half = e.lshr(k, int_like(e, a, 1))
    b = e.fmul(e.fmul(b, power_of_two(e, half)), power_of_two(e, e.sub(k, half)))
    quotient = e.trunc(e.fdiv(a, b))
    rest = e.fma(e.fneg(quotient), b, a)
    zero = like(e, a, 0.0)
    rest = e.select(e.fcmp("olt", rest, zero), e.fadd(rest, b), rest)
    rest = e.select(e.fcmp("oge", rest, b), e.fsub(rest, b), rest)
    return e.select(e.fcmp("olt", a, b), a, rest)
