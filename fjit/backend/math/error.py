"""erf and erfc.

    erf(x)   ->  x (1 + P(x^2))                    for |x| < 1.125, else 1 - 2**Q(|x|)
    erfc(x)  ->  exp(-x^2) R(t) / (1 + 2|x|), t = (|x| - K)/(|x| + K), or 2 minus that for x < 0;
                 1 - erf(x) for |x| < 0.4375

the last after Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x",
1981, with the square, the quotient and the product in two parts. P and Q are one polynomial, of
which each lane picks the coefficients: a blend costs less than a second multiply-add. erf of
float32 has a polynomial for each of three intervals and no power; erfc of float32 is computed in
float64, for all x by the second form. Errors in units in the last place are below 0.9 (erf) and 0.6
(erfc) for float32, 1.5 for float64.
"""

from fjit.backend.emitter import F64, Emitter, Val
from fjit.backend.math.core import (
    clamp,
    estrin,
    fast_two_sum,
    horner,
    like,
    pair_div,
    poly,
    round_scaled,
    scale,
    scale_normal,
    through_f64,
    two_prod,
    two_sum,
)
from fjit.backend.math.exponential import LOG2_E, exp2_mid, exp_pair

# fmt: off
# erf(x)/x - 1 in x^2 on [0, 1.125]
ERF_SMALL = (
    0.1283791670955126, -0.37612638903183787, 0.11283791670955462, -0.026866170645139225,
    0.005223977625340184, -0.0008548327012865069, 0.00012055332483739739, -1.4925635837563402e-05,
    1.6461828788517187e-06, -1.6361934661674027e-07, 1.476968252191839e-08,
    -1.2041716830996958e-09, 8.321765889105835e-11, -3.689484148045403e-12,
)
# log2(erfc(x)) from there to ERF_TOP, weighted by erfc(x)
ERF_BIG = (
    -2.8902088596822053e-06, -1.627880379374214, -0.9185628559001344, -0.14796385933853642,
    0.02703166638320951, 0.0010682992838181896, -0.003235106787766878, 0.0014735227442246276,
    -0.00041305091221387983, 7.47426455772725e-05, -6.206243253891717e-06, -9.4030538748511e-07,
    4.310231501298103e-07, -7.746951883700723e-08, 8.15752148332777e-09, -4.930114817976544e-10,
    1.3324681097167994e-11,
)
# 2^r on |r| <= 1/2, good enough beside 1
EXP2_SMALL = (
    1.0, 0.6931471805599453, 0.24022650695910158, 0.05550410866482177, 0.009618129107587248,
    0.0013333558146374437, 0.00015403530463735824, 1.5252733870821125e-05,
    1.3215432530428735e-06, 1.0178045391430796e-07, 7.074195213189863e-09, 4.457517810527629e-10,
)
# float32: erf(x)/x - 1 in x^2 up to the first of ERF_CUTS, then erf(centre + t) in t
ERF_NARROW = (
    (0.12837917, -0.37612632, 0.11283674, -0.02685834, 0.0051985662, -0.00081158907,
     8.260343e-05, 0.0, 0.0, 0.0, 0.0),
    (0.94224954, 0.18644172, -0.25016695, 0.16163479, -0.025050275, -0.03504345, 0.022334354,
     -0.00022664241, -0.0045835325, 0.0013652295, 0.0001487878),
    (0.99996626, 0.00020817501, -0.0006107038, 0.0011266441, -0.0014450741, 0.0013443284,
     -0.0009400156, 0.0004958656, -0.00014275864, -3.168759e-05, 2.8940936e-05),
)
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
ERF_CUT = 1.125
ERF_SLOPE = -0.25  # of the first form where the square's rounding counts
ERF_TOP = {32: 3.9375, 64: 5.95}  # erf is 1 from here on
ERF_CUTS = (0.9375, 1.9375)
ERF_CENTRES = (1.341796875, 2.93212890625)
ERFC_TOP = {32: 10.5, 64: 28.0}
ERFC_CENTRE = {32: 3.0, 64: 4.0}


def erf(e: Emitter, x: Val) -> Val:
    """Error function; the forms share one polynomial, whose coefficients each lane picks."""
    size, top = e.fabs(x), like(e, x, ERF_TOP[x.ty.bits])
    size = e.select(e.fcmp("ogt", size, top), top, size)
    return (_erf_narrow if through_f64(x.ty) else _erf_wide)(e, x, size)


def _erf_wide(e: Emitter, x: Val, size: Val) -> Val:
    near = e.fcmp("ult", size, like(e, x, ERF_CUT))  # NaN, too
    square, square_lo = two_prod(e, size, size)
    small = ERF_SMALL + (0.0,) * (len(ERF_BIG) - len(ERF_SMALL))
    pairs = zip(small, ERF_BIG, strict=True)
    terms = [e.select(near, like(e, x, a), like(e, x, b)) for a, b in pairs]
    terms[0] = e.fma(square_lo, _slope(e, near, x), terms[0])
    p = estrin(e, e.select(near, square, size), terms)
    word, n = round_scaled(e, p, 1.0)
    rest = scale_normal(e, poly(e, e.fsub(p, n), EXP2_SMALL), word)
    return e.select(near, e.fma(x, p, x), e.copysign(e.fsub(like(e, x, 1.0), rest), x))


def _erf_narrow(e: Emitter, x: Val, size: Val) -> Val:
    near, middle = (e.fcmp("ult", size, like(e, x, cut)) for cut in ERF_CUTS)
    offset = e.fsub(size, e.select(middle, *(like(e, x, centre) for centre in ERF_CENTRES)))
    square, square_lo = two_prod(e, size, size)
    t = e.select(near, square, offset)
    rows = zip(*ERF_NARROW, strict=True)
    first, second, *others = (_of_three(e, near, middle, x, row) for row in rows)
    rest = estrin(e, t, others)
    # (first + second t) + t^2 rest is better where first and second t cancel, Horner elsewhere
    first = e.fma(square_lo, _slope(e, near, x), first)
    first = e.select(near, e.fma(t, second, first), first)
    factor = e.select(near, e.fmul(t, t), t)
    p = e.fma(factor, e.select(near, rest, e.fma(t, rest, second)), first)
    return e.select(near, e.fma(x, p, x), e.copysign(p, x))


def _slope(e: Emitter, near: Val, x: Val) -> Val:
    return e.select(near, like(e, x, ERF_SLOPE), like(e, x, 0.0))


def _of_three(e: Emitter, near: Val, middle: Val, x: Val, numbers: tuple[float, ...]) -> Val:
    a, b, c = (like(e, x, number) for number in numbers)
    return e.select(near, a, e.select(middle, b, c))


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
    small = e.fma(x, poly(e, e.fmul(x, x), ERF_SMALL), x)
    near = e.fsub(like(e, x, 1.0), small)
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
