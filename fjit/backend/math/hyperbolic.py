"""sinh, cosh, tanh and their inverses.

sinh and cosh take |x| = n ln 2 + r and use the addition theorem with S = sinh(r), C = cosh(r):

    sinh(x)  ->  C * sinh(n ln 2) + S * cosh(n ln 2), where 2**n and 2**-n are exact

so that one pair of polynomials serves all sizes without cancellation. tanh is E / (E + 2) with
E = exp(2|x|) - 1 in two parts; the inverses are logarithms of an argument in two parts. Errors are
below 1 unit in the last place.
"""

from fjit.backend.emitter import Emitter, Val
from fjit.backend.math.core import (
    INF,
    LN2,
    NAN,
    Pair,
    clamp,
    fast_two_sum,
    keep_tiny,
    like,
    pair_div,
    pair_sqrt,
    poly,
    power_of_two,
    two_prod,
    two_sum,
)
from fjit.backend.math.exponential import half_expm1, reduce_exp
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
# fmt: on
TOP = {32: 89.5, 64: 710.5}  # beyond the overflow of sinh, before that of 2**(n - 2)
TANH_TOP = {32: 20.0, 64: 44.0}
HUGE = 2.0**28  # from here on 1 is lost beside x^2
TINY = {32: 2.0**-12, 64: 2.0**-27}  # below, asinh(x) is x
CUBIC = {32: 2.0**-7, 64: 2.0**-14}  # below, atanh(x) is x + x^3/3


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
    u, v = half_expm1(e, clamp(e, e.fadd(size, size), 0.0, TANH_TOP[x.ty.bits]))
    den, den_lo = two_sum(e, u, like(e, x, 1.0))
    inverse = e.fdiv(like(e, x, 1.0), den)
    q = e.fmul(u, inverse)
    rest = e.fma(e.fneg(q), den, u)
    rest = e.fadd(rest, e.fma(e.fneg(q), e.fadd(den_lo, v), v))
    return keep_tiny(e, x, e.copysign(e.fma(rest, inverse, q), x), 2.0**-28)


def _log_of(e: Emitter, v: Pair, more: Val | None = None) -> Val:
    """log of a pair that is no subnormal, plus `more`."""
    u, lo = log_pair(e, v[0], v[1], NATURAL[v[0].ty.bits], subnormal=False)
    return e.fadd(u, lo if more is None else e.fadd(lo, more))


def _log_sum(e: Emitter, a: Val, h: Val, h_lo: Val, x: Val, huge: Val) -> Val:
    """log(a + sqrt(h + h_lo)) for sqrt(h) >= a, or log(2 x) where x is huge."""
    zero = like(e, x, 0.0)
    root, root_lo = pair_sqrt(e, h, h_lo)
    v, v_lo = two_sum(e, a, root)
    v, v_lo = e.select(huge, x, v), e.select(huge, zero, e.fadd(v_lo, root_lo))
    return _log_of(e, (v, v_lo), e.select(huge, like(e, x, LN2), zero))


def asinh(e: Emitter, x: Val) -> Val:
    """Inverse hyperbolic sine: log(|x| + sqrt(x^2 + 1)) with the sign of x."""
    size, one = e.fabs(x), like(e, x, 1.0)
    huge = e.fcmp("ogt", size, like(e, x, HUGE))
    fed = e.select(huge, one, size)
    h = e.fma(fed, fed, one)
    h_lo = e.fma(fed, fed, e.fsub(one, h))  # the difference is exact where that counts
    result = _log_sum(e, fed, h, h_lo, size, huge)
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
    result = _log_sum(e, fed, h, h_lo, x, huge)
    result = e.select(e.fcmp("olt", x, like(e, x, INF)), result, x)
    return e.select(e.fcmp("olt", x, like(e, x, 1.0)), like(e, x, NAN), result)


def atanh(e: Emitter, x: Val) -> Val:
    """Inverse hyperbolic tangent: log((1 + |x|) / (1 - |x|)) / 2 with the sign of x."""
    size, one = e.fabs(x), like(e, x, 1.0)
    v = pair_div(e, fast_two_sum(e, one, size), fast_two_sum(e, one, e.fneg(size)))
    result = e.fmul(_log_of(e, v), like(e, x, 0.5))
    cubic = e.fma(e.fmul(size, e.fmul(size, size)), like(e, x, 1.0 / 3.0), size)
    result = e.select(e.fcmp("olt", size, like(e, x, CUBIC[x.ty.bits])), cubic, result)
    result = e.select(e.fcmp("oeq", size, one), like(e, x, INF), result)
    result = e.select(e.fcmp("ogt", size, one), like(e, x, NAN), result)
    return e.copysign(result, x)
