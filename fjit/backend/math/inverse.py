"""asin, acos, atan and atan2.

Odd polynomials t + t^3 P(t^2) on [0, tan(pi/8)] and [0, 1/2]; the rest of the domain by

    atan(x)  ->  pi/2 - atan(1/x)                       for x > 1
    atan(x)  ->  pi/4 + atan((x - 1)/(x + 1))           for tan(pi/8) < x <= 1
    asin(x)  ->  pi/2 - 2 asin(sqrt((1 - x)/2))         for x > 1/2

with quotient, root and pi/2 in two parts (fdlibm's e_asin.c, Sun Microsystems 1993, gives the
last in this form). Errors are below 1 unit in the last place.
"""

from fjit.backend.emitter import Emitter, Val
from fjit.backend.math.core import (
    INF,
    NAN,
    Pair,
    bits_of,
    clamp,
    fast_two_sum,
    int_like,
    like,
    pair_div,
    pair_sqrt,
    poly,
    two_sum,
)

# fmt: off
# (atan(t) - t) / t^3 in t^2 on [0, tan(pi/8)]
ATAN = {
    32: (-0.33332953, 0.19977863, -0.13879105, 0.08057718),
    64: (-0.333333333333332, 0.19999999999953655, -0.14285714280203005, 0.11111110783759076,
         -0.09090897765414624, 0.07692060331386248, -0.06663105103308054, 0.05847894782024217,
         -0.05039318847661023, 0.03806464431555751, -0.017906996143315593),
}
# (asin(t) - t) / t^3 in t^2 on [0, 1/2]
ASIN = {
    32: (0.16666754, 0.07495232, 0.045478426, 0.024140643, 0.042231042),
    64: (0.16666666666666763, 0.07499999999970114, 0.04464285717527348, 0.030381942675817557,
         0.022372215892168253, 0.01735159572642326, 0.013981016024402366, 0.011397312191496265,
         0.010789220693131148, 0.0036725416991472593, 0.021789829194809433, -0.02111562532341207,
         0.03270151406860121),
}
# fmt: on
TAN_PI_8 = 0.41421356237309503
HALF_PI = {
    32: (1.5707963705062866, -4.371138828673793e-08),
    64: (1.5707963267948966, 6.123233995736766e-17),
}
PI = {
    32: (3.1415927410125732, -8.742277657347586e-08),
    64: (3.141592653589793, 1.2246467991473532e-16),
}


def _odd(e: Emitter, t: Val, t_lo: Val, coefficients: tuple[float, ...]) -> Pair:
    """t + t_lo + t^3 P(t^2) in two parts; `t_lo` is already times the slope."""
    z = e.fmul(t, t)
    return t, e.fma(e.fmul(z, t), poly(e, z, coefficients), t_lo)


def _atan_unit(e: Emitter, num: Val, den: Val) -> Pair:
    """atan(num / den) in two parts for 0 <= num <= den, den of moderate size."""
    bits = num.ty.bits
    middle = e.fcmp("ogt", num, e.fmul(den, like(e, den, TAN_PI_8)))
    zero = like(e, num, 0.0)
    turned = fast_two_sum(e, e.fneg(den), num), fast_two_sum(e, den, num)
    top = _pick(e, middle, turned[0], (num, zero))
    t, t_lo = pair_div(e, top, _pick(e, middle, turned[1], (den, zero)))
    z = e.fmul(t, t)
    t, t_lo = _odd(e, t, e.fma(e.fneg(t_lo), z, t_lo), ATAN[bits])
    hi, lo = (e.select(middle, like(e, num, part / 2), zero) for part in HALF_PI[bits])
    u, v = fast_two_sum(e, hi, t)
    return fast_two_sum(e, u, e.fadd(v, e.fadd(lo, t_lo)))


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
    pair = _atan_unit(e, e.select(steep, one, size), e.select(steep, size, one))
    value = e.fadd(*_pick(e, steep, _from_half_pi(e, pair), pair))
    return e.copysign(value, x)


def atan2(e: Emitter, y: Val, x: Val) -> Val:
    """Angle of the point (x, y), signed zeros and infinities as in C99."""
    # A common power of two keeps the quotient's remainder away from underflow and overflow.
    bits = x.ty.bits
    a, b = e.fabs(y), e.fabs(x)
    steep = e.fcmp("ogt", a, b)
    num, den = e.select(steep, b, a), e.select(steep, a, b)
    down, up = (2.0**-40, 2.0**40) if bits == 32 else (2.0**-200, 2.0**200)
    high, low = (2.0**80, 2.0**40) if bits == 32 else (2.0**600, 2.0**300)
    factor = e.select(e.fcmp("ogt", den, like(e, x, high)), like(e, x, down), like(e, x, 1.0))
    factor = e.select(e.fcmp("olt", den, like(e, x, low)), like(e, x, up), factor)
    num, den = e.fmul(num, factor), e.fmul(den, factor)
    zero, one = like(e, x, 0.0), like(e, x, 1.0)
    infinite = e.fcmp("oeq", den, like(e, x, INF))
    both = e.fcmp("oeq", num, den)
    num = e.select(infinite, e.select(both, one, zero), num)
    den = e.select(e.or_(infinite, e.fcmp("oeq", den, zero)), one, den)
    pair = _atan_unit(e, num, den)
    pair = _pick(e, steep, _from_half_pi(e, pair), pair)
    pi_hi, pi_lo = PI[bits]
    u, v = fast_two_sum(e, like(e, x, pi_hi), e.fneg(pair[0]))
    behind = u, e.fadd(v, e.fsub(like(e, x, pi_lo), pair[1]))
    left = e.icmp("slt", bits_of(e, x), int_like(e, x, 0))
    value = e.fadd(*_pick(e, left, behind, pair))
    return e.select(e.fcmp("uno", x, y), e.fadd(x, y), e.copysign(value, y))


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
