"""exp, exp2 and expm1.

Takes x, gives 2**n * p(r) with n = rint(x / ln 2) and r = x - n ln 2 in two parts (Cody and Waite,
"Software Manual for the Elementary Functions", 1980), |r| <= ln(2)/2.

    exp(x)  ->  n = rint(x * 1.4427) ; r = x - n*hi - n*lo ; p = 1 + (r + r*r*q(r)) ; p * 2**n

Errors, in units in the last place of the result, are below 1 (expm1 keeps the sum of 2**n - 1 and
2**n * expm1(r) in two parts).
"""

from fjit.backend.emitter import Emitter, Val
from fjit.backend.math.core import (
    LN2,
    Pair,
    clamp,
    fast_two_sum,
    keep_tiny,
    like,
    poly,
    power_of_two,
    round_scaled,
    scale,
    scale_normal,
    two_prod,
)

LOG2_E = 1.4426950408889634
LN2_HI = {32: 0.693359375, 64: 6.93147180369123816490e-01}  # few bits: n * LN2_HI is exact
LN2_LO = {32: -2.12194440054690583e-4, 64: 1.90821492927058770002e-10}

# fmt: off
# (exp(r) - 1 - r - r^2/2) / r^3 on |r| <= ln(2)/2
EXP = {
    32: (0.16666518, 0.04166638, 0.00836908, 0.0013942476),
    64: (0.16666666666666688, 0.041666666666600294, 0.008333333333312936, 0.0013888888928388948,
         0.0001984126990723891, 2.48015065586194e-05, 2.7557223877446484e-06,
         2.762607555164815e-07, 2.511582222199453e-08),
}
# the same, one term more for the functions that keep two parts
EXPM1 = {
    32: (0.16666667, 0.041666456, 0.008333274, 0.0013935862, 0.00019913728),
    64: (0.16666666666666685, 0.0416666666666667, 0.008333333333316205, 0.0013888888888864445,
         0.00019841269898467098, 2.4801587366550947e-05, 2.755723276746225e-06,
         2.755723744380266e-07, 2.5112768798774827e-08, 2.0926056852053637e-09),
}
# (2^r - 1 - r ln 2) / r^2 on |r| <= 1/2
EXP2 = {
    32: (0.2402265, 0.055503618, 0.009618023, 0.0013390438, 0.00015471762),
    64: (0.24022650695910133, 0.05550410866482169, 0.009618129107593597, 0.0013333558146386515,
         0.0001540353045780392, 1.525273386267957e-05, 1.321543493489661e-06,
         1.0178047951695658e-07, 7.073842306612198e-09, 4.4572126962427927e-10),
}
# 2^r on |r| <= 1/2, for a float32 result
EXP2_MID = (
    0.9999999999595348, 0.6931471805350286, 0.24022651213692373, 0.05550410976105039,
    0.00961802559259364, 0.0013333422647083518, 0.000154697347408328, 1.5316461574910607e-05,
)
# fmt: on
EXP_RANGE = {32: (-104.0, 89.0), 64: (-746.0, 710.0)}
EXP2_RANGE = {32: (-151.0, 129.0), 64: (-1076.0, 1025.0)}
EXPM1_RANGE = {32: (-20.0, 89.0), 64: (-40.0, 710.0)}


def reduce_exp(e: Emitter, x: Val, x_lo: Val | None = None) -> tuple[Val, Val, Val, Val]:
    """Return (word ending in n, n, r, r_lo) with x + x_lo = n ln 2 + r + r_lo."""
    bits = x.ty.bits
    word, n = round_scaled(e, x, LOG2_E)
    first = e.fma(n, like(e, x, -LN2_HI[bits]), x)
    rest = e.fmul(n, like(e, x, -LN2_LO[bits]))
    if x_lo is not None:
        rest = e.fadd(rest, x_lo)
    r, r_lo = fast_two_sum(e, first, rest)
    return word, n, r, r_lo


def expm1_kernel(e: Emitter, r: Val, r_lo: Val) -> Pair:
    """exp(r + r_lo) - 1 in two parts for |r| <= ln(2)/2."""
    bits = r.ty.bits
    square, square_lo = two_prod(e, r, r)
    if bits == 64:  # float32 stays within its bound without
        r_lo = e.fma(square_lo, like(e, r, 0.5), r_lo)
    tail = e.fma(e.fmul(square, r), poly(e, r, EXPM1[bits]), r_lo)
    return fast_two_sum(e, r, e.fma(square, like(e, r, 0.5), tail))


def exp_pair(e: Emitter, x: Val, x_lo: Val) -> tuple[Val, Val, Val]:
    """Return (p, p_lo, word): exp(x + x_lo) = (p + p_lo) * 2**n, for x already in range."""
    word, _, r, r_lo = reduce_exp(e, x, x_lo)
    s, s_lo = expm1_kernel(e, r, r_lo)
    p, p_lo = fast_two_sum(e, like(e, x, 1.0), s)
    return p, e.fadd(p_lo, s_lo), word


def exp(e: Emitter, x: Val) -> Val:
    """e**x."""
    bits = x.ty.bits
    x = clamp(e, x, *EXP_RANGE[bits])
    word, n = round_scaled(e, x, LOG2_E)
    r = e.fma(n, like(e, x, -LN2_HI[bits]), x)
    r = e.fma(n, like(e, x, -LN2_LO[bits]), r)
    p, p_lo = fast_two_sum(e, like(e, x, 1.0), r)
    q = e.fma(r, poly(e, r, EXP[bits]), like(e, x, 0.5))
    return scale(e, e.fadd(p, e.fma(e.fmul(r, r), q, p_lo)), word, n)


def exp2(e: Emitter, x: Val) -> Val:
    """2**x; exact for integers."""
    bits = x.ty.bits
    x = clamp(e, x, *EXP2_RANGE[bits])
    word, n = round_scaled(e, x, 1.0)
    r = e.fsub(x, n)
    one, ln2 = like(e, x, 1.0), like(e, x, LN2)
    head = e.fma(r, ln2, one)
    rest = e.fma(r, ln2, e.fsub(one, head))  # what rounding the head lost
    s = e.fma(e.fmul(r, r), poly(e, r, EXP2[bits]), rest)
    return scale(e, e.fadd(head, s), word, n)


def exp2_mid(e: Emitter, x: Val) -> Val:
    """2**x of float64 for a float32 result, to 2**-34, where 2**x is normal."""
    word, n = round_scaled(e, x, 1.0)
    return scale_normal(e, poly(e, e.fsub(x, n), EXP2_MID), word)


def half_expm1(e: Emitter, x: Val) -> Pair:
    """(e**x - 1) / 2 in two parts, for x in EXPM1_RANGE; the half keeps 2**n finite."""
    word, _, r, r_lo = reduce_exp(e, x)
    s, s_lo = expm1_kernel(e, r, r_lo)
    power = power_of_two(e, e.sub(word, e.const(word.ty, 1)))
    less, less_lo = fast_two_sum(e, power, like(e, x, -0.5))
    u, v = fast_two_sum(e, less, e.fmul(power, s))
    return u, e.fma(power, s_lo, e.fadd(v, less_lo))


def expm1(e: Emitter, x: Val) -> Val:
    """e**x - 1, accurate near zero."""
    u, v = half_expm1(e, clamp(e, x, *EXPM1_RANGE[x.ty.bits]))
    half = e.fadd(u, v)
    return keep_tiny(e, x, e.fadd(half, half), 2.0**-60)
