"""sinh, cosh, tanh and their inverses.

sinh and cosh take |x| = n ln 2 + r and use the addition theorem with S = sinh(r), C = cosh(r):

    sinh(x)  ->  C * sinh(n ln 2) + S * cosh(n ln 2), where 2**n and 2**-n are exact

so that one pair of polynomials serves all sizes without cancellation. tanh is E / (E + 2) with
E = exp(2|x|) - 1 in two parts, in float32 a polynomial or 1 - 2 / (E + 2); asinh and acosh are
logarithms of an argument in two parts, and

    atanh(x)  ->  (n ln 2 + log(a / b)) / 2 with a = 1 + |x|, b = 2**n (1 - |x|) of about one size
    log(a / b)  ->  2 atanh((a - b)/(a + b))

Errors are below 0.9 units in the last place, that of tanh in float32 below 1.
"""

from fjit.backend.emitter import Emitter, Val
from fjit.backend.math.core import (
    INF,
    LN2,
    MANTISSA,
    NAN,
    ONE_BITS,
    ROUNDER,
    Pair,
    bits_of,
    clamp,
    fast_two_sum,
    from_bits,
    horner,
    int_like,
    keep_tiny,
    like,
    poly,
    positive_root,
    power_of_two,
    rough_root,
    round_scaled,
    scale,
    two_prod,
    two_sum,
)
from fjit.backend.math.exponential import EXP, LN2_HI, LN2_LO, LOG2_E, half_expm1, reduce_exp
from fjit.backend.math.logarithm import NATURAL, log_pair

# fmt: off
# (sinh(r) - r) / r^3 in r^2 on |r| <= ln(2)/2
SINH = {
    32: (0.16666667, 0.008333288, 0.00019905585),
    64: (0.16666666666666677, 0.008333333333321149, 0.00019841269887494327,
         2.755724270042287e-06, 2.510960429934232e-08),
}
# (cosh(r) - 1) / r^2 in r^2
COSH = {
    32: (0.5, 0.041666258, 0.0013946793),
    64: (0.5, 0.04166666666666671, 0.001388888888886294, 2.480158736524094e-05,
         2.755724029091904e-07, 2.09248957756634e-09),
}
# (2 atanh(f/2) - f) / f^3 in f^2 on |f| <= 0.403
ATANH = {
    32: (0.08333333, 0.012500283, 0.0022269425, 0.00047132684),
    64: (0.08333333333333323, 0.012500000000019702, 0.0022321428558075163, 0.00043402782150455077,
         8.877761831484799e-05, 1.878835555594621e-05, 4.018706073532149e-06,
         1.0587340479495357e-06),
}
# (tanh(x) / x - 1) / x^2 in x^2, for float32 up to TANH_CUT
TANH_NEAR = (
    -0.33333296, 0.13332345, -0.0538798, 0.021486657, -0.0079461057, 0.002301364, -0.0003584518,
)
# fmt: on
TOP = {32: 89.5, 64: 710.5}  # beyond the overflow of sinh, before that of 2**(n - 2)
TANH_TOP = {32: 20.0, 64: 44.0}
TANH_CUT = 1.0
HUGE = 2.0**28  # from here on 1 is lost beside x^2
TINY = {32: 2.0**-12, 64: 2.0**-27}  # below, asinh(x) is x


def _half_hyperbolic(e: Emitter, x: Val) -> tuple[Val, Val, Val, Pair, Pair]:
    """Return r, S - r, C - 1 and half of sinh(n ln 2) and cosh(n ln 2) for 0 <= x <= TOP.

    The last two are pairs: from 2 n = the bits of the mantissa on, 2**n +- 2**-n is rounded.
    """
    word, n, r, r_lo = reduce_exp(e, x)
    z = e.fmul(r, r)
    s = e.fma(e.fmul(z, r), poly(e, z, SINH[x.ty.bits]), r_lo)
    c = e.fma(r, r_lo, e.fmul(z, poly(e, z, COSH[x.ty.bits])))
    two = e.const(word.ty, 2)
    big = power_of_two(e, e.sub(word, two))
    small = power_of_two(e, e.sub(e.const(word.ty, -2), word))
    small = e.select(e.fcmp("olt", n, like(e, x, 60.0)), small, like(e, x, 0.0))
    return r, s, c, fast_two_sum(e, big, e.fneg(small)), fast_two_sum(e, big, small)


def sinh(e: Emitter, x: Val) -> Val:
    """Hyperbolic sine."""
    r, s, c, (sinh_n, sinh_lo), (cosh_n, cosh_lo) = _half_hyperbolic(
        e, clamp(e, e.fabs(x), 0.0, TOP[x.ty.bits])
    )
    product, product_lo = two_prod(e, cosh_n, r)
    product_lo = e.fadd(product_lo, e.fma(cosh_lo, r, sinh_lo))
    u, v = fast_two_sum(e, sinh_n, product)
    half = e.fadd(u, e.fadd(v, e.fma(sinh_n, c, e.fma(cosh_n, s, product_lo))))
    return keep_tiny(e, x, e.copysign(e.fadd(half, half), x), 2.0**-28)


def cosh(e: Emitter, x: Val) -> Val:
    """Hyperbolic cosine."""
    r, s, c, (sinh_n, sinh_lo), (cosh_n, cosh_lo) = _half_hyperbolic(
        e, clamp(e, e.fabs(x), 0.0, TOP[x.ty.bits])
    )
    product, product_lo = two_prod(e, sinh_n, r)
    product_lo = e.fadd(product_lo, e.fma(sinh_lo, r, cosh_lo))
    u, v = fast_two_sum(e, cosh_n, product)
    half = e.fadd(u, e.fadd(v, e.fma(cosh_n, c, e.fma(sinh_n, s, product_lo))))
    return e.fadd(half, half)


def tanh(e: Emitter, x: Val) -> Val:
    """Hyperbolic tangent."""
    size = e.fabs(x)
    if x.ty.bits == 32:
        return _tanh_narrow(e, x, size)
    u, v = half_expm1(e, clamp(e, e.fadd(size, size), 0.0, TANH_TOP[x.ty.bits]))
    den, den_lo = two_sum(e, u, like(e, x, 1.0))
    inverse = e.fdiv(like(e, x, 1.0), den)
    q = e.fmul(u, inverse)
    rest = e.fma(e.fneg(q), den, u)
    rest = e.fadd(rest, e.fma(e.fneg(q), e.fadd(den_lo, v), v))
    return keep_tiny(e, x, e.copysign(e.fma(rest, inverse, q), x), 2.0**-28)


def _tanh_narrow(e: Emitter, x: Val, size: Val) -> Val:
    """tanh of float32: a polynomial up to TANH_CUT, from there on 1 - 2 / (e**(2|x|) + 1)."""
    one, z = like(e, x, 1.0), e.fmul(x, x)
    near = e.fma(e.fmul(size, z), horner(e, z, TANH_NEAR), size)
    top = like(e, x, TANH_TOP[32])
    twice = e.select(e.fcmp("olt", top, size), top, e.fadd(size, size))
    word, n = round_scaled(e, twice, LOG2_E)
    r = e.fma(n, like(e, x, -LN2_LO[32]), e.fma(n, like(e, x, -LN2_HI[32]), twice))
    p, p_lo = fast_two_sum(e, one, r)
    q = e.fma(r, poly(e, r, EXP[32]), like(e, x, 0.5))
    power = scale(e, e.fadd(p, e.fma(e.fmul(r, r), q, p_lo)), word, n, normal=True)
    far = e.fsub(one, e.fdiv(like(e, x, 2.0), e.fadd(power, one)))
    return e.copysign(e.select(e.fcmp("olt", size, like(e, x, TANH_CUT)), near, far), x)


def _log_ratio(e: Emitter, n: Val, num: Pair, half: Pair) -> Val:
    """n ln 2 + 2 atanh(num / (2 half)), for a quotient that is small or n = 0."""
    bits, (hi, lo) = num[0].ty.bits, half
    inverse = e.fdiv(like(e, hi, 1.0), hi)
    f = e.fmul(num[0], inverse)
    rest = e.fadd(e.fma(e.fneg(f), hi, num[0]), e.fma(e.fneg(f), lo, num[1]))
    z = e.fmul(f, f)
    f_lo = e.fma(e.fmul(z, f), poly(e, z, ATANH[bits]), e.fmul(rest, inverse))
    u, u_lo = fast_two_sum(e, e.fmul(n, like(e, f, LN2_HI[bits])), f)
    return e.fadd(u, e.fadd(u_lo, e.fma(n, like(e, f, LN2_LO[bits]), f_lo)))


def _log_sum(e: Emitter, a: Pair, b: Pair, x: Val, huge: Val) -> Val:
    """log(a + b) for a >= b, or log(2 x) where x is huge."""
    zero = like(e, x, 0.0)
    v, v_lo = fast_two_sum(e, a[0], b[0])
    v_lo = e.fadd(v_lo, e.fadd(a[1], b[1]))
    v, v_lo = e.select(huge, x, v), e.select(huge, zero, v_lo)
    u, lo = log_pair(e, v, v_lo, NATURAL[x.ty.bits], subnormal=False)
    return e.fadd(u, e.fadd(lo, e.select(huge, like(e, x, LN2), zero)))


def asinh(e: Emitter, x: Val) -> Val:
    """Inverse hyperbolic sine: log(|x| + sqrt(x^2 + 1)) with the sign of x."""
    size, one = e.fabs(x), like(e, x, 1.0)
    huge = e.fcmp("ogt", size, like(e, x, HUGE))
    fed = e.select(huge, one, size)
    h = e.fma(fed, fed, one)
    h_lo = e.fma(fed, fed, e.fsub(one, h))  # the difference is exact where that counts
    result = _log_sum(e, positive_root(e, h, h_lo), (fed, like(e, x, 0.0)), size, huge)
    result = keep_tiny(e, size, result, TINY[x.ty.bits])
    return e.copysign(e.select(e.fcmp("olt", size, like(e, x, INF)), result, size), x)


def acosh(e: Emitter, x: Val) -> Val:
    """Inverse hyperbolic cosine: log(x + sqrt(d^2 + 2 d)) with d = x - 1."""
    huge = e.fcmp("ogt", x, like(e, x, HUGE))
    fed = e.select(huge, like(e, x, 2.0), x)
    d = e.fsub(fed, like(e, x, 1.0))
    double = e.fadd(d, d)
    h = e.fma(d, d, double)
    h_lo = e.fma(d, d, e.fsub(double, h))
    root = rough_root(e, h, h_lo)
    result = _log_sum(e, (fed, like(e, x, 0.0)), root, x, huge)
    result = e.select(e.fcmp("olt", x, like(e, x, INF)), result, x)
    return e.select(e.fcmp("olt", x, like(e, x, 1.0)), like(e, x, NAN), result)


def atanh(e: Emitter, x: Val) -> Val:
    """Inverse hyperbolic tangent: log((1 + |x|) / (1 - |x|)) / 2 with the sign of x.

    2**n is so chosen that (1 + |x|) / (1 - |x|) / 2**n is close to 1.
    """
    bits, size, one = x.ty.bits, e.fabs(x), like(e, x, 1.0)
    top, top_lo = fast_two_sum(e, one, size)
    low, low_lo = fast_two_sum(e, one, e.fneg(size))
    gap = e.sub(bits_of(e, top), bits_of(e, low))
    gap = e.add(gap, int_like(e, x, 1 << (MANTISSA[bits] - 1)))
    field = e.and_(gap, int_like(e, x, -1 << MANTISSA[bits]))
    rounder = like(e, x, ROUNDER[bits])
    count = e.add(e.lshr(gap, int_like(e, x, MANTISSA[bits])), bits_of(e, rounder))
    n = e.fsub(from_bits(e, count), rounder)
    power = from_bits(e, e.add(field, int_like(e, x, ONE_BITS[bits])))
    low, low_lo = e.fmul(low, power), e.fmul(low_lo, power)
    num = e.fsub(top, low), e.fsub(top_lo, low_lo)
    half_top = e.fmul(top, like(e, x, 0.5))
    half = e.fma(low, like(e, x, 0.5), half_top)
    half_lo = e.fma(low, like(e, x, 0.5), e.fsub(half_top, half))
    half_lo = e.fma(e.fadd(top_lo, low_lo), like(e, x, 0.5), half_lo)
    result = e.fmul(_log_ratio(e, n, num, (half, half_lo)), like(e, x, 0.5))
    result = e.select(e.fcmp("oeq", size, one), like(e, x, INF), result)
    result = e.select(e.fcmp("ogt", size, one), like(e, x, NAN), result)
    return e.copysign(result, x)
