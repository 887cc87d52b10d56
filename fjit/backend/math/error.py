"""erf and erfc.

    erf(x)   ->  x (2/sqrt(pi) + x^2 P(x^2))      for |x| < 1, else 1 - exp(Q(|x|))
    erfc(x)  ->  exp(-x^2) R(t) / (1 + 2|x|), t = (|x| - K)/(|x| + K), or 2 minus that for x < 0;
                 1 - erf(x) for |x| < 0.4375

after Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", 1981. The
square, the quotient and the product are kept in two parts; float32 erfc is computed in float64, for
all x by the second form. Errors are below 1 unit (float32) and 1.5 units (float64) in the last
place.
"""

from fjit.backend.emitter import F64, Emitter, Val
from fjit.backend.math.core import (
    clamp,
    fast_two_sum,
    horner,
    like,
    pair_div,
    poly,
    scale,
    through_f64,
    two_prod,
    two_sum,
)
from fjit.backend.math.exponential import LOG2_E, exp, exp2_mid, exp_pair

# fmt: off
# (erf(x)/x - 2/sqrt(pi)) / x^2 in x^2 on [0, 1]
ERF_SMALL = {
    32: (-0.37612632, 0.1128363, -0.026855484, 0.005191292, -0.0008035035, 7.933122e-05),
    64: (-0.3761263890318375, 0.1128379167095493, -0.026866170645084494, 0.005223977624882105,
         -0.0008548326984105393, 0.00012055331220162604, -1.4925597676581123e-05,
         1.6461036612154187e-06, -1.635067367478438e-07, 1.4662078222491991e-08,
         -1.1381334628251003e-09, 5.970915073640974e-11),
}
# log(erfc(x)) on [1, 4] and [1, 6], weighted by erfc(x)
ERF_BIG = {
    32: (0.00018802745, -1.1295784, -0.63322, -0.108418465, 0.02520819, -0.004204538,
         0.00044133185, -2.1686486e-05),
    64: (-5.098842246577429e-07, -1.128374022834271, -0.6366439211184209, -0.10270264543347886,
         0.01898869380950201, 0.0004126614865979029, -0.0019180544974821852,
         0.0007723401431941158, -0.0001361193984526056, -1.9735873940985786e-05,
         2.2614812096851646e-05, -8.603487253750792e-06, 2.1205676018567177e-06,
         -3.705861322139833e-07, 4.6065443910690254e-08, -3.901831087380305e-09,
         2.026848862816065e-10, -4.881714836165527e-12),
}
# (1 + 2x) exp(x^2) erfc(x) in t = (x - K)/(x + K)
ERFC = (
    1.2329951186255526, -0.1396211168405629, 0.015379652102619707, 0.06809705425473701,
    -0.10103906603629782, 0.09373283499681172, -0.06633036581264086, 0.037167515562003615,
    -0.016197734047513512, 0.005031969762675803, -0.0007577734110653019, -0.0001992555591913945,
    0.00015062249715099794, -2.4402938280857403e-05, -1.1225347272217286e-05, 5.717264235695616e-06,
    3.020501082592754e-07, -8.341648458448916e-07, 6.23219764887405e-08, 1.1447752035160457e-07,
    -7.771367739647958e-09, -1.3350023641669713e-08, -1.706170936352536e-09,
)
# the same with K of float32, to 2^-28
ERFC_MID = (
    1.253008059518431, -0.13562114245498286, -0.04756244192274974, 0.1296464832918844,
    -0.11927024470843638, 0.06829577400336002, -0.023801520324622082, 0.00256394423650152,
    0.0020077020319380487, -0.0007678616440578521, -0.00026435501167710066,
)
# what rounding its first coefficient lost
ERFC_FIRST_LO = -4.5280821550544295e-17
# its derivative, roughly
ERFC_SLOPE = (
    -0.11226238125060957, 0.09803756797773192, -0.2282132039900279, -0.7719231485641612,
    1.3800066674088565,
)
# fmt: on
TWO_OVER_ROOT_PI = {
    32: (1.128379225730896, -5.8635382771399236e-08),
    64: (1.1283791670955126, 1.533545961316588e-17),
}
ERF_TOP = {32: 4.0, 64: 6.0}
ERFC_TOP = {32: 10.5, 64: 28.0}
ERFC_CENTRE = {32: 3.0, 64: 4.0}


def _near(e: Emitter, x: Val) -> Val:
    """erf(x) for |x| <= 1."""
    bits = x.ty.bits
    z, z_lo = two_prod(e, x, x)
    hi, lo = TWO_OVER_ROOT_PI[bits]
    linear, *others = ERF_SMALL[bits]
    second, second_lo = two_prod(e, z, like(e, x, linear))
    rest = e.fma(e.fmul(z, z), poly(e, z, others), like(e, x, lo))
    rest = e.fadd(rest, e.fma(z_lo, like(e, x, linear), second_lo))
    factor, factor_lo = fast_two_sum(e, like(e, x, hi), second)
    value, value_lo = two_prod(e, x, factor)
    return e.fadd(value, e.fma(x, e.fadd(factor_lo, rest), value_lo))


def erf(e: Emitter, x: Val) -> Val:
    """Error function."""
    bits = x.ty.bits
    size, one = e.fabs(x), like(e, x, 1.0)
    exponent = poly(e, clamp(e, size, 1.0, ERF_TOP[bits]), ERF_BIG[bits])
    far = e.copysign(e.fsub(one, exp(e, exponent)), x)
    value = e.select(e.fcmp("olt", size, one), _near(e, x), far)
    value = e.select(e.fcmp("oeq", x, like(e, x, 0.0)), x, value)
    return e.select(e.fcmp("uno", x, x), x, value)


def erfc(e: Emitter, x: Val) -> Val:
    """Complement 1 - erf(x), accurate where it is small."""
    bits = x.ty.bits
    if through_f64(x.ty):
        return _erfc_narrow(e, x)
    size = clamp(e, e.fabs(x), 0.0, ERFC_TOP[bits])
    centre = ERFC_CENTRE[bits]
    below, above = two_sum(e, size, like(e, x, -centre)), two_sum(e, size, like(e, x, centre))
    t, t_lo = pair_div(e, below, above)
    first, *others = ERFC
    top, top_lo = fast_two_sum(e, like(e, x, first), e.fmul(t, poly(e, t, others)))
    top_lo = e.fadd(top_lo, like(e, x, ERFC_FIRST_LO))
    top_lo = e.fma(t_lo, horner(e, t, ERFC_SLOPE), top_lo)
    bottom = two_sum(e, like(e, x, 1.0), e.fadd(size, size))
    q, q_lo = pair_div(e, (top, top_lo), bottom)
    square, square_lo = two_prod(e, size, size)
    p, p_lo, word = exp_pair(e, e.fneg(square), e.fneg(square_lo))
    value, value_lo = two_prod(e, p, q)
    value_lo = e.fadd(value_lo, e.fma(p, q_lo, e.fmul(p_lo, q)))
    value, value_lo = fast_two_sum(e, value, value_lo)
    tail = scale(e, value, word)
    mirrored = e.fsub(like(e, x, 2.0), e.fadd(tail, scale(e, value_lo, word)))
    value = e.select(e.fcmp("olt", x, like(e, x, 0.0)), mirrored, tail)
    near = e.fsub(like(e, x, 1.0), _near(e, x))
    return e.select(e.fcmp("olt", e.fabs(x), like(e, x, 0.4375)), near, value)


def _erfc_narrow(e: Emitter, x: Val) -> Val:
    """erfc of float32 in float64, with one quotient for t and 1 / (1 + 2|x|)."""
    size = e.fpext(clamp(e, e.fabs(x), 0.0, ERFC_TOP[32]), F64)
    one, centre = like(e, size, 1.0), like(e, size, ERFC_CENTRE[32])
    above, double = e.fadd(size, centre), e.fma(size, like(e, size, 2.0), one)
    inverse = e.fdiv(one, e.fmul(above, double))
    t = e.fmul(e.fmul(e.fsub(size, centre), double), inverse)
    power = exp2_mid(e, e.fmul(e.fmul(size, size), like(e, size, -LOG2_E)))
    tail = e.fmul(e.fmul(poly(e, t, ERFC_MID), power), e.fmul(above, inverse))
    mirrored = e.fsub(like(e, size, 2.0), tail)
    return e.fptrunc(e.select(e.fcmp("olt", x, like(e, x, 0.0)), mirrored, tail), x.ty)
