"""gammaln and digamma.

    gammaln(x)  ->  x >= 8: Stirling's series; below: the recurrence moves x to [1.35, 2.35), with
                    lgamma(2 + t) = t P(t), and the product of the steps enters by its logarithm
    digamma(x)  ->  x >= 8: the asymptotic series; [1, 3]: (x - root) P(x - 2); the recurrence
                    between, its sum of reciprocals kept as one fraction

(NIST Handbook of Mathematical Functions, 5.5, 5.11.) Negative x are reflected. float32 is computed
in float64. Errors for x > 0 are below 2 (gammaln) and 4 units in the last place (digamma). For
x < 0, where the functions cross zero between each two poles, the unit is that of a larger term; the
docstrings say which.
"""

from fjit.backend.emitter import F64, Emitter, Val
from fjit.backend.math.core import (
    INF,
    NAN,
    Pair,
    fast_two_sum,
    like,
    pair_div,
    poly,
    through_f64,
    two_prod,
    two_sum,
)
from fjit.backend.math.logarithm import NATURAL, log_pair
from fjit.backend.math.trigonometric import cos_kernel, sin_kernel

# fmt: off
# (lgamma(2 + t) / t - digamma(2)) / t on -0.65 <= t <= 0.35
GAMMALN = (
    0.3224670334241132, -0.06735230105319809, 0.020580808427785056, -0.007385551028675269,
    0.002890510330691314, -0.001192753911667565, 0.0005096695269591758, -0.00022315475733987602,
    9.94574614864354e-05, -4.492631172144972e-05, 2.0507856357854524e-05, -9.437946582413455e-06,
    4.370918774704374e-06, -2.0543742821817723e-06, 9.59780847400977e-07, -3.788346434074147e-07,
    2.7643033587678667e-07, -2.0192835591259772e-07, -1.806331557704005e-07,
    -1.6089202205901992e-07,
)
# x (lgamma(x) - (x - 1/2) log x + x - log(2 pi)/2) in 1/x^2 for x >= 8
STIRLING = (
    0.08333333333333333, -0.002777777777777672, 0.0007936507935079895, -0.0005952380216599531,
    0.0008417321432171967, -0.001914924343337303, 0.0062059462823242885, -0.0208111482189154,
)
# digamma(2 + t) / (2 + t - root) on |t| <= 1
DIGAMMA = (
    0.7853075386041053, -0.26073895468300085, 0.10899991701762683, -0.04955103291774924,
    0.02344730959768748, -0.011338432550153715, 0.005552254172302327, -0.0027395729450290437,
    0.0013581421776276642, -0.000675312688586075, 0.0003364324783518677, -0.0001678198984738417,
    8.377913435336571e-05, -4.1824465556972664e-05, 2.089358087271612e-05,
    -1.0510767145329648e-05, 5.26412269816661e-06, -2.4758618686728805e-06,
    1.219930023049335e-06, -8.610738932771946e-07, 4.520971464391679e-07, 6.091055174016884e-08,
    -4.8395090371108004e-08, -2.0257168528088048e-07, 1.1103489387071888e-07,
    6.236920335849817e-08, -3.430454876961696e-08, -1.9110834549791627e-08,
    1.0001133674975481e-08,
)
# x^2 (log x - 1/(2x) - digamma(x)) in 1/x^2 for x >= 8
DIGAMMA_FAR = (
    0.08333333333333333, -0.008333333333331626, 0.003968253965946966, -0.00416666547586918,
    0.007575454259230142, -0.021050439644474946, 0.0799903298966863, -0.29874658893165695,
)
# fmt: on
DIGAMMA_2 = (0.42278433509846713, 4.942915152430645e-18)
ROOT = (1.4616321449683622, 9.549995429965697e-17)
FAR = 8.0
UNIT = 1.35  # where the interval of the polynomial begins
PI, PI_LO = 3.141592653589793, 1.2246467991473532e-16
WHOLE = 2.0**53  # from here on all numbers are even
HALF_LOG_2PI = 0.9189385332046728
LOG_PI = 1.1447298858494002


def _log_lo(e: Emitter, v: Val, v_lo: Val) -> Pair:
    """log(v + v_lo) in two parts for 0 < v < inf."""
    return fast_two_sum(e, *log_pair(e, v, v_lo, NATURAL[64]))


def _sin_cos_pi(e: Emitter, x: Val) -> tuple[Pair, Pair]:
    """sin(pi x) up to sign and cos(pi x) with the same sign, in two parts, for x >= 0."""
    top = like(e, x, WHOLE)
    x = e.select(e.fcmp("olt", x, top), x, top)
    n = e.rint(e.fadd(x, x))
    turn = e.fma(n, like(e, x, -0.5), x)
    r, r_lo = two_prod(e, turn, like(e, x, PI))
    r_lo = e.fma(turn, like(e, x, PI_LO), r_lo)
    s, s_lo = fast_two_sum(e, *sin_kernel(e, r, r_lo))
    c, c_lo = fast_two_sum(e, *cos_kernel(e, r, r_lo, exact=True))
    half = e.fmul(n, like(e, x, 0.5))
    odd = e.fcmp("one", e.trunc(half), half)
    sine = e.select(odd, c, s), e.select(odd, c_lo, s_lo)
    return sine, (e.select(odd, e.fneg(s), c), e.select(odd, e.fneg(s_lo), c_lo))


def gammaln(e: Emitter, x: Val) -> Val:
    """log|gamma(x)|; inf at the poles.

    For x < 0 the error is below 2 units in the last place of max(1, |result|), zeros included:
    log(pi), log|x sin(pi x)| and log gamma(|x|) are summed in two parts.
    """
    if through_f64(x.ty):
        return e.fptrunc(gammaln(e, e.fpext(x, F64)), x.ty)
    zero, infinity = like(e, x, 0.0), like(e, x, INF)
    size = e.fabs(x)
    usual = e.fcmp("olt", size, infinity)
    size = e.select(usual, size, like(e, x, 1.0))
    positive, positive_lo = _gammaln_positive(e, size)
    sine = e.fabs(_sin_cos_pi(e, size)[0][0])
    pole = e.fcmp("oeq", sine, zero)
    u, u_lo = _log_lo(e, size, zero)
    w, w_lo = _log_lo(e, e.select(pole, like(e, x, 1.0), sine), zero)
    u, more = two_sum(e, u, w)
    u_lo = e.fadd(e.fadd(u_lo, w_lo), more)
    u, more = two_sum(e, like(e, x, LOG_PI), e.fneg(u))
    u_lo = e.fsub(more, u_lo)
    u, more = two_sum(e, u, e.fneg(positive))
    mirrored = e.fadd(u, e.fadd(more, e.fsub(u_lo, positive_lo)))
    mirrored = e.select(pole, infinity, mirrored)
    value = e.select(e.fcmp("olt", x, zero), mirrored, e.fadd(positive, positive_lo))
    value = e.select(e.fcmp("oeq", x, zero), infinity, value)
    return e.select(usual, value, e.fmul(x, x))


def _gammaln_positive(e: Emitter, x: Val) -> Pair:
    """log gamma(x) in two parts for 0 < x < inf."""
    one, zero = like(e, x, 1.0), like(e, x, 0.0)
    far = e.fcmp("oge", x, like(e, x, FAR))
    t, product = x, one
    for _ in range(2):
        low = e.fcmp("olt", t, like(e, x, UNIT))
        product = e.select(low, e.fmul(product, t), product)
        t = e.select(low, e.fadd(t, one), t)
    rising = e.fcmp("olt", x, like(e, x, UNIT))
    for _ in range(6):
        high = e.fcmp("oge", t, like(e, x, UNIT + 1.0))
        t = e.select(high, e.fsub(t, one), t)
        product = e.select(high, e.fmul(product, t), product)
    tiny = e.fcmp("olt", x, like(e, x, 2.0**-60))
    product = e.select(tiny, x, product)
    u, u_lo = _log_lo(e, e.select(far, x, product), zero)
    # t - 2 from x itself: a rounded x + 1 would spoil the zero at x = 1.
    t = e.select(rising, e.fsub(x, one), e.fsub(t, like(e, x, 2.0)))
    t = e.select(e.fcmp("olt", x, like(e, x, UNIT - 1.0)), x, t)
    t = e.select(far, zero, t)
    signed, signed_lo = e.select(rising, e.fneg(u), u), e.select(rising, e.fneg(u_lo), u_lo)
    beside, beside_lo = _gammaln_near(e, t)
    near, near_lo = two_sum(e, signed, beside)
    near_lo = e.fadd(near_lo, e.fadd(signed_lo, beside_lo))
    inverse = e.fdiv(one, x)
    series = e.fmul(inverse, poly(e, e.fmul(inverse, inverse), STIRLING))
    factor = e.fsub(x, like(e, x, 0.5))
    # (x - 1/2)(log x - 1) + log(2 pi)/2 - 1/2 + series
    u, more = fast_two_sum(e, u, like(e, x, -1.0))
    top, top_lo = two_prod(e, factor, u)
    top_lo = e.fma(factor, e.fadd(u_lo, more), top_lo)
    top, more = fast_two_sum(e, top, e.fadd(series, like(e, x, HALF_LOG_2PI - 0.5)))
    top_lo = e.fadd(top_lo, more)
    infinite = e.fcmp("oeq", top, like(e, x, INF))
    top_lo = e.select(infinite, zero, top_lo)
    return e.select(far, top, near), e.select(far, top_lo, near_lo)


def _gammaln_near(e: Emitter, t: Val) -> Pair:
    """log gamma(2 + t) = t (a + t (b + t P(t))) in two parts, for -0.65 <= t <= 0.35."""
    first, *others = GAMMALN
    q, q_lo = fast_two_sum(e, like(e, t, first), e.fmul(t, poly(e, t, others)))
    m, m_lo = two_prod(e, t, q)
    s, s_lo = fast_two_sum(e, like(e, t, DIGAMMA_2[0]), m)
    s_lo = e.fadd(e.fadd(s_lo, like(e, t, DIGAMMA_2[1])), e.fma(t, q_lo, m_lo))
    value, value_lo = two_prod(e, t, s)
    return value, e.fma(t, s_lo, value_lo)


def digamma(e: Emitter, x: Val) -> Val:
    """Logarithmic derivative of gamma; NaN at negative poles, -+inf at +-0.

    For x < 0 the error is below 4 units in the last place of max(1, log|x|, |result|).
    """
    if through_f64(x.ty):
        return e.fptrunc(digamma(e, e.fpext(x, F64)), x.ty)
    zero, one, infinity = like(e, x, 0.0), like(e, x, 1.0), like(e, x, INF)
    negative = e.fcmp("olt", x, zero)
    size = e.fabs(x)
    usual = e.fcmp("olt", size, infinity)
    size = e.select(usual, size, one)
    fed = e.select(negative, e.fadd(size, one), size)  # psi(1 - x) = psi(1 + |x|)
    value = _digamma_positive(e, fed)
    value = e.select(negative, _digamma_mirrored(e, size, value), value)
    tiny = e.fcmp("olt", size, like(e, x, 2.0**-60))
    value = e.select(tiny, e.fdiv(e.fneg(one), x), value)
    value = e.select(usual, value, e.select(negative, like(e, x, NAN), x))
    return e.select(e.fcmp("oeq", x, zero), e.fneg(e.copysign(infinity, x)), value)


def _digamma_mirrored(e: Emitter, size: Val, value: Val) -> Val:
    """value + pi / tan(pi size), NaN at whole numbers; the second term in two parts."""
    sine, cosine = _sin_cos_pi(e, size)
    q, q_lo = pair_div(e, cosine, sine)
    term, term_lo = two_prod(e, q, like(e, size, PI))
    term_lo = e.fma(q, like(e, size, PI_LO), e.fma(q_lo, like(e, size, PI), term_lo))
    u, lost = two_sum(e, value, term)
    total = e.fadd(u, e.fadd(lost, term_lo))
    return e.select(e.fcmp("oeq", sine[0], like(e, size, 0.0)), like(e, size, NAN), total)


def _digamma_positive(e: Emitter, x: Val) -> Val:
    """digamma for 2**-60 < x < inf."""
    one, zero = like(e, x, 1.0), like(e, x, 0.0)
    start = e.fcmp("olt", x, one)
    shifted = e.select(start, e.fadd(x, one), x)
    # psi(x) = psi(t) + top/bottom, going down to [1, 3) or, below 1, one step up.
    t, top, bottom = shifted, zero, one
    for _ in range(5):
        high = e.fcmp("oge", t, like(e, x, 3.0))
        t = e.select(high, e.fsub(t, one), t)
        top = e.select(high, e.fma(top, t, bottom), top)
        bottom = e.select(high, e.fmul(bottom, t), bottom)
    far = e.fcmp("oge", x, like(e, x, FAR))
    top = e.select(start, e.fneg(one), top)
    bottom = e.select(start, x, bottom)
    top, bottom = e.select(far, like(e, x, -0.5), top), e.select(far, x, bottom)
    inverse = e.fdiv(one, bottom)
    steps = e.fmul(top, inverse)
    lost = e.fmul(e.fma(e.fneg(steps), bottom, top), inverse)
    offset = e.fsub(e.fsub(t, like(e, x, ROOT[0])), like(e, x, ROOT[1]))
    near = e.fmul(offset, _digamma_slope(e, e.fsub(t, like(e, x, 2.0))))
    square = e.fmul(inverse, inverse)
    u, u_lo = _log_lo(e, e.select(far, x, one), zero)
    series = e.fma(e.fneg(square), poly(e, square, DIGAMMA_FAR), u_lo)
    total, more = two_sum(e, e.select(far, u, near), steps)
    return e.fadd(total, e.fadd(e.fadd(more, lost), e.select(far, series, zero)))


def _digamma_slope(e: Emitter, t: Val) -> Val:
    """digamma(2 + t) / (2 + t - root) for |t| <= 1; the last steps by Horner, with small errors."""
    first, second, *others = DIGAMMA
    rest = e.fma(t, poly(e, t, others), like(e, t, second))
    return e.fma(t, rest, like(e, t, first))
