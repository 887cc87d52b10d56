"""asin, acos, atan and atan2.

Odd polynomials t + t^3 P(t^2) on [0, tan(pi/8)] and [0, 1/2]; the rest of the domain by

    atan(x)  ->  pi/2 - atan(1/x)                       for x > 1
    atan(x)  ->  pi/4 + atan((x - 1)/(x + 1))           for tan(pi/8) < x <= 1
    asin(x)  ->  pi/2 - 2 asin(sqrt((1 - x)/2))         for x > 1/2

with quotient, root and pi/2 in two parts (fdlibm's e_asin.c, Sun Microsystems 1993, gives the
last in this form); atan2 adds to or takes from a multiple of pi/4 once, and takes a cold path where
a lane is zero, infinite or of a size at which the quotient's remainder underflows: that of float32
is one float64 polynomial on [0, 1]. Errors are below 0.8 units in the last place.
"""

from fjit.backend.emitter import F64, Emitter, Val
from fjit.backend.math.core import (
    INF,
    NAN,
    Pair,
    bits_of,
    clamp,
    fast_two_sum,
    int_like,
    like,
    outside,
    pair_sqrt,
    patched,
    poly,
    through_f64,
    two_sum,
)

# fmt: off
# (atan(t) - t) / t^3 in t^2 on [0, tan(pi/8)]
ATAN = {
    32: (-0.33333316, 0.19998491, -0.14243864, 0.10596073, -0.060835626),
    64: (-0.333333333333332, 0.19999999999953655, -0.14285714280203005, 0.11111110783759076,
         -0.09090897765414624, 0.07692060331386248, -0.06663105103308054, 0.05847894782024217,
         -0.05039318847661023, 0.03806464431555751, -0.017906996143315593),
}
# atan(t) / t in t^2 on [0, 1], for a float32 result
ATAN_MID = (
    0.9999999996283143, -0.33333323935898124, 0.19999604643408703, -0.1427915964772673,
    0.11054501121612757, -0.0879877151736751, 0.06716106426043476, -0.04435748404802234,
    0.022274349434996007, -0.0071993832465890965, 0.0010911110199450225,
)
# (asin(t) - t) / t^3 in t^2 on [0, 1/2]
ASIN = {
    32: (0.16666754, 0.07495232, 0.045478426, 0.024140643, 0.042231042),
    64: (0.16666666666666763, 0.07499999999970114, 0.04464285717527348, 0.030381942675817557,
         0.022372215892168253, 0.01735159572642326, 0.013981016024402366, 0.011397312191496265,
         0.010789220693131148, 0.0036725416991472593, 0.021789829194809433, -0.02111562532341207,
         0.03270151406860121),
}
# fmt: on
# below the first the remainder of a quotient underflows; from the second to the third, not at all
ATAN2_RANGE = {32: (2.0**-90, 2.0**-60, 2.0**60), 64: (2.0**-900, 2.0**-500, 2.0**600)}
TAN_PI_8 = 0.41421356237309503
HALF_PI = {
    32: (1.5707963705062866, -4.371138828673793e-08),
    64: (1.5707963267948966, 6.123233995736766e-17),
}
PI = {
    32: (3.1415927410125732, -8.742277657347586e-08),
    64: (3.141592653589793, 1.2246467991473532e-16),
}

# of so few bits that 3/4 of the first part is exact
SHORT_PI = {
    32: (3.1415929794311523, -3.258413591052874e-07),
    64: (3.141592653589793, 1.2246467991473532e-16),
}


def _odd(e: Emitter, t: Val, t_lo: Val, coefficients: tuple[float, ...]) -> Pair:
    """t + t_lo + t^3 P(t^2) in two parts; `t_lo` is already times the slope."""
    z = e.fmul(t, t)
    return t, e.fma(e.fmul(z, t), poly(e, z, coefficients), t_lo)


def _angle(e: Emitter, num: Val, den: Val, steep: Val, left: Val | None = None) -> Val:
    """atan(num / den) for 0 <= num <= den, turned into its octant; den is of moderate size."""
    bits, zero = num.ty.bits, like(e, num, 0.0)
    middle = e.fcmp("ogt", num, e.fmul(den, like(e, den, TAN_PI_8)))
    top = _pick(e, middle, fast_two_sum(e, e.fneg(den), num), (num, zero))
    bottom = _pick(e, middle, fast_two_sum(e, den, num), (den, zero))
    inverse = e.fdiv(like(e, num, 1.0), bottom[0])
    t = e.fmul(top[0], inverse)
    rest = e.fma(e.fneg(t), bottom[0], top[0])
    t_lo = e.fmul(e.fadd(rest, e.fma(e.fneg(t), bottom[1], top[1])), inverse)
    z = e.fmul(t, t)
    lo = e.fma(e.fmul(z, t), poly(e, z, ATAN[bits]), e.fma(e.fneg(t_lo), z, t_lo))
    back = steep if left is None else e.xor(steep, left)
    t, lo = e.select(back, e.fneg(t), t), e.select(back, e.fneg(lo), lo)
    hi = _octant(e, num, middle, steep, left)
    u, v = fast_two_sum(e, hi, t)
    return e.fadd(u, e.fadd(v, e.fma(hi, like(e, hi, SHORT_PI[bits][1] / SHORT_PI[bits][0]), lo)))


def _octant(e: Emitter, num: Val, middle: Val, steep: Val, left: Val | None) -> Val:
    """The multiple of pi/4 that an angle is added to or taken from."""
    pi = SHORT_PI[num.ty.bits][0]
    zero, quarter, half, three, whole = (like(e, num, k * pi) for k in (0.0, 0.25, 0.5, 0.75, 1.0))
    if left is None:
        return e.select(middle, quarter, e.select(steep, half, zero))
    slanted = e.select(left, three, quarter)
    return e.select(middle, slanted, e.select(steep, half, e.select(left, whole, zero)))


def _from_half_pi(e: Emitter, pair: Pair) -> Pair:
    """pi/2 minus a pair."""
    hi, lo = HALF_PI[pair[0].ty.bits]
    u, v = fast_two_sum(e, like(e, pair[0], hi), e.fneg(pair[0]))
    return u, e.fadd(v, e.fsub(like(e, u, lo), pair[1]))


def _pick(e: Emitter, mask: Val, a: Pair, b: Pair) -> Pair:
    return e.select(mask, a[0], b[0]), e.select(mask, a[1], b[1])


def atan(e: Emitter, x: Val) -> Val:
    """Inverse tangent."""
    size, one = clamp(e, e.fabs(x), 0.0, 2.0**60), like(e, x, 1.0)
    steep = e.fcmp("ogt", size, one)
    value = _angle(e, e.select(steep, one, size), e.select(steep, size, one), steep)
    return e.copysign(value, x)


def atan2(e: Emitter, y: Val, x: Val) -> Val:
    """Angle of the point (x, y), signed zeros and infinities as in C99."""
    steep = e.fcmp("ogt", e.fabs(y), e.fabs(x))
    left = e.icmp("slt", bits_of(e, x), int_like(e, x, 0))
    num = e.select(steep, e.fabs(x), e.fabs(y))
    den = e.select(steep, e.fabs(y), e.fabs(x))
    value = e.copysign(_angle(e, num, den, steep, left), y)
    slight, least, most = ATAN2_RANGE[x.ty.bits]
    tiny = e.icmp("ult", e.sub(bits_of(e, num), int_like(e, x, 1)), bits_of(e, like(e, x, slight)))
    odd = e.or_(tiny, outside(e, den, least, most))
    if through_f64(x.ty):
        return patched(
            e, "atan2", odd, value, (value, odd, y, x, num, den, steep, left), _narrow_cold
        )
    return patched(e, "atan2", odd, value, (y, x, num, den, steep, left), _atan2_cold)


def _narrow_cold(
    e: Emitter, value: Val, odd: Val, y: Val, x: Val, num: Val, den: Val, steep: Val, left: Val
) -> Val:
    """Any float32, by way of float64 where a lane is odd."""
    wide = e.copysign(_atan2_narrow(e, num, den, steep, left), y)
    wide = e.select(e.fcmp("uno", x, y), e.fadd(x, y), wide)
    return e.select(odd, wide, value)


def _atan2_narrow(e: Emitter, num: Val, den: Val, steep: Val, left: Val) -> Val:
    """Size of the angle for float32, by one float64 polynomial good to 2**-31."""
    zero, one = like(e, num, 0.0), like(e, num, 1.0)
    both = e.fcmp("oeq", num, den)  # both zero or both infinite, too
    num = e.select(both, e.select(e.fcmp("ogt", den, zero), one, zero), num)
    num = e.select(e.xor(steep, left), e.fneg(num), num)
    t = e.fdiv(e.fpext(num, F64), e.fpext(e.select(both, one, den), F64))
    nowhere, half, whole = (like(e, t, part * PI[64][0]) for part in (0.0, 0.5, 1.0))
    base = e.select(steep, half, e.select(left, whole, nowhere))
    return e.fptrunc(e.fma(t, poly(e, e.fmul(t, t), ATAN_MID), base), num.ty)


def _atan2_cold(e: Emitter, y: Val, x: Val, num: Val, den: Val, steep: Val, left: Val) -> Val:
    """Any float64: a power of two keeps the remainder of the quotient from under- and overflow."""
    zero, one = like(e, x, 0.0), like(e, x, 1.0)
    factor = e.select(e.fcmp("ogt", den, like(e, x, 2.0**600)), like(e, x, 2.0**-200), one)
    factor = e.select(e.fcmp("olt", den, like(e, x, 2.0**300)), like(e, x, 2.0**200), factor)
    num, den = e.fmul(num, factor), e.fmul(den, factor)
    infinite = e.fcmp("oeq", den, like(e, x, INF))
    both = e.fcmp("oeq", num, den)
    num = e.select(infinite, e.select(both, one, zero), num)
    den = e.select(e.or_(infinite, e.fcmp("oeq", den, zero)), one, den)
    value = e.copysign(_angle(e, num, den, steep, left), y)
    return e.select(e.fcmp("uno", x, y), e.fadd(x, y), value)


def _asin_parts(e: Emitter, x: Val) -> tuple[Val, Pair]:
    """Return (|x| > 1/2, asin of |x| or of sqrt((1 - |x|)/2) in two parts)."""
    size, half = e.fabs(x), like(e, x, 0.5)
    large = e.fcmp("ogt", size, half)
    square = e.fmul(e.fsub(like(e, x, 1.0), size), half)
    root, root_lo = pair_sqrt(e, e.select(large, square, half), like(e, x, 0.0))
    root_lo = e.fma(e.fmul(root_lo, e.fmul(root, root)), half, root_lo)
    zero = like(e, x, 0.0)
    t, t_lo = e.select(large, root, size), e.select(large, root_lo, zero)
    return large, _odd(e, t, t_lo, ASIN[x.ty.bits])


def asin(e: Emitter, x: Val) -> Val:
    """Inverse sine; NaN beyond [-1, 1]."""
    large, (t, t_lo) = _asin_parts(e, x)
    double = e.fadd(t, t), e.fadd(t_lo, t_lo)
    value = e.fadd(*_pick(e, large, _from_half_pi(e, double), (t, t_lo)))
    return _unit_domain(e, x, e.copysign(value, x))


def acos(e: Emitter, x: Val) -> Val:
    """Inverse cosine; NaN beyond [-1, 1]."""
    large, (t, t_lo) = _asin_parts(e, x)
    negative = e.fcmp("olt", x, like(e, x, 0.0))
    # |x| <= 1/2: pi/2 -+ t; beyond: 2t, or pi - 2t for negative x.
    hi, lo = HALF_PI[x.ty.bits]
    factor = e.select(large, like(e, x, 2.0), like(e, x, 1.0))
    minus = e.icmp("eq", large, negative)
    factor = e.select(minus, e.fneg(factor), factor)
    pi_hi, pi_lo = PI[x.ty.bits]
    zero = like(e, x, 0.0)
    base = e.select(large, e.select(negative, like(e, x, pi_hi), zero), like(e, x, hi))
    base_lo = e.select(large, e.select(negative, like(e, x, pi_lo), zero), like(e, x, lo))
    u, v = two_sum(e, base, e.fmul(factor, t))
    value = e.fadd(u, e.fadd(v, e.fma(factor, t_lo, base_lo)))
    return _unit_domain(e, x, value)


def _unit_domain(e: Emitter, x: Val, value: Val) -> Val:
    outside = e.fcmp("ugt", e.fabs(x), like(e, x, 1.0))
    return e.select(outside, like(e, x, NAN), value)
