"""Cheaper forms of elementary functions, which `fastmath={"approx"}` licenses.

Takes and gives what the exact forms do, over the whole domain, with errors of up to 4 units in the
last place. Three things make them cheaper: sums and products are rounded where the exact forms keep
two parts; sin and cos are reduced by pi, so that one polynomial serves both; and inputs near
overflow, NaN and the like go to the exact form by a cold path, so the common path has no patches.

    log(x)  ->  n, f = split(x) ; s = f / (2 + f) ; n ln 2 + (f + s (s^2 P(s^2) - f))

A lane has the same value whatever its neighbours are. docs/numerics.md has times and errors.
"""

from collections.abc import Callable

from fjit.backend.emitter import Emitter, Val
from fjit.backend.math import (
    exponential,
    hyperbolic,
    inverse,
    logarithm,
    power,
    trigonometric,
)
from fjit.backend.math.core import (
    INF,
    LN2,
    ROUNDER,
    TINY_NORMAL,
    bits_of,
    clamp,
    flip_sign,
    int_like,
    like,
    outlined,
    outside,
    patched,
    poly,
    power_of_two,
    scale_normal,
)
from fjit.backend.math.exponential import LN2_HI, LN2_LO, LOG2_E
from fjit.backend.math.logarithm import reduce_log

# fmt: off
# (exp(r) - 1 - r) / r^2 on |r| <= ln(2)/2
EXPM1 = {
    32: (0.5, 0.1666654, 0.041666273, 0.008366911, 0.0013947018),
    64: (0.5000000000000006, 0.16666666666666688, 0.04166666666656991, 0.008333333333313856,
         0.001388888893367434, 0.00019841269904843624, 2.480150280827728e-05,
         2.7557226175507018e-06, 2.762700541122203e-07, 2.5115078110903376e-08),
}
# (log((1 + s)/(1 - s)) / s - 2) / s^2 in s^2 on |s| <= 0.1716
ATANH = {
    32: (0.66666776, 0.3997753, 0.2987228),
    64: (0.6666666666666735, 0.399999999994128, 0.2857142874288772, 0.22222198513839259,
         0.18183567807489384, 0.15313951774081572, 0.14797031168822153),
}
# (sin(r) / r - 1) / r^2 in r^2 on |r| <= pi/2
SIN = {
    32: (-0.1666666, 0.008333066, -0.0001980954, 2.6056312e-06),
    64: (-0.16666666666666666, 0.008333333333333193, -0.0001984126984120885,
         2.7557319211072172e-06, -2.5052106866687482e-08, 1.6058939391172797e-10,
         -7.642983116417068e-13, 2.7210849625189014e-15),
}
# pi in three parts
PI = {
    32: (3.141592502593994, 1.5099578831723193e-07, 1.078060505991553e-14),
    64: (3.141592653589793, 1.224646799147353e-16, 2.1657133478438278e-32),
}
# (atan(t) / t - 1) / t^2 in t^2 on [0, tan(pi/8)]
ATAN = {
    32: (-0.33332947, 0.1997765, -0.13876976, 0.08051285),
    64: (-0.33333333333330123, 0.19999999999081491, -0.1428571419460926, 0.11111106625839981,
         -0.09090781748200517, 0.07690058741933657, -0.0664103681135251, 0.05692091837257412,
         -0.043577902558498305, 0.02124372799124701),
}
# (asin(t) / t - 1) / t^2 in t^2 on [0, 1/2]
ASIN = {
    32: (0.16666754, 0.074952796, 0.045472834, 0.024166405, 0.042190116),
    64: (0.16666666666665395, 0.07500000000340475, 0.04464285682535379, 0.03038195926399097,
         0.022371754910196145, 0.01735975342156748, 0.013884742957352635, 0.01217251828672103,
         0.006513376620057483, 0.01956899170428027, -0.01628932488960725, 0.03195764022871966),
}
# fmt: on
EXP_FAR = {32: 65.0, 64: 660.0}  # up to here exp(x) 2**LIFT is finite
EXP2_FAR = {32: 94.0, 64: 958.0}
LIFT = {32: 32, 64: 64}  # the smallest subnormal times 2**LIFT is normal
EXPM1_FAR = {32: 88.0, 64: 709.0}
ROOT = {32: (2.0**-50, 2.0**60), 64: (2.0**-450, 2.0**500)}  # squares neither over- nor underflow
PART_BITS = 512
LOG10_2, LOG10_E = 0.3010299956639812, 0.4342944819032518


def _with_cold(
    e: Emitter, name: str, odd: Val, value: Val, exact: Callable[..., Val], *args: Val
) -> Val:
    """`value`, and in lanes that are `odd` the exact form, which runs only if there are any.

    The exact form is written for one register and called for each, since every kernel compiles it
    (a kernel of log in float64: 58 ms with the exact form for 32 lanes, 42 with that for 8).
    """

    def write(sub: Emitter, odd: Val, value: Val, *args: Val) -> Val:
        return sub.select(odd, exact(sub, *args), value)

    def in_parts(sub: Emitter, odd: Val, value: Val, *args: Val) -> Val:
        size = min(value.ty.lanes, PART_BITS // value.ty.bits)
        if size == value.ty.lanes:
            return write(sub, odd, value, *args)
        whole = (odd, value, *args)
        parts = [[_lanes(sub, v, k, size) for v in whole] for k in range(0, odd.ty.lanes, size)]
        helper = outlined(sub, f"approx_{name}_cold", parts[0], value.ty.with_lanes(size), write)
        results = [sub.call_struct(helper, (p[1].ty,), *p)[0] for p in parts]
        return _joined(sub, results)

    return patched(e, f"approx_{name}", odd, value, (odd, value, *args), in_parts)


def _lanes(e: Emitter, v: Val, first: int, size: int) -> Val:
    return e.shuffle(v, v, range(first, first + size))


def _joined(e: Emitter, parts: list[Val]) -> Val:
    """Vectors one after the other, by pairs."""
    while len(parts) > 1:
        indices = range(2 * parts[0].ty.lanes)
        parts = [e.shuffle(a, b, indices) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _at_least(e: Emitter, x: Val, low: float) -> Val:
    """The larger of x and `low`, in one instruction; of NaN `low`."""
    bound = like(e, x, low)
    return e.select(e.fcmp("ogt", x, bound), x, bound)


# Exponentials


def _rounded(e: Emitter, x: Val, factor: float, lift: int = 0) -> tuple[Val, Val]:
    """n = rint(x * factor), and a word ending in n + lift."""
    rounder = like(e, x, ROUNDER[x.ty.bits] + lift)
    t = e.fma(x, like(e, x, factor), rounder)
    return bits_of(e, t), e.fsub(t, rounder)


def _reduce(e: Emitter, x: Val, lift: int = 0) -> tuple[Val, Val]:
    """(word ending in n + lift, r) with x = n ln 2 + r."""
    word, n = _rounded(e, x, LOG2_E, lift)
    r = e.fma(n, like(e, x, -LN2_HI[x.ty.bits]), x)
    return word, e.fma(n, like(e, x, -LN2_LO[x.ty.bits]), r)


def _expm1_unit(e: Emitter, r: Val) -> Val:
    """exp(r) - 1 for |r| <= ln(2)/2."""
    return e.fma(e.fmul(r, r), poly(e, r, EXPM1[r.ty.bits]), r)


def _exp_lifted(e: Emitter, r: Val, word: Val) -> Val:
    """exp(r) 2**n with n + LIFT in the low bits of `word`: a subnormal is rounded by the lift."""
    p = e.fadd(like(e, r, 1.0), _expm1_unit(e, r))
    return e.fmul(scale_normal(e, p, word), like(e, r, 2.0 ** -LIFT[r.ty.bits]))


def _exp_near(e: Emitter, x: Val) -> Val:
    """exp(x) for x in (lower end of EXP_RANGE, EXP_FAR)."""
    word, r = _reduce(e, x, LIFT[x.ty.bits])
    return _exp_lifted(e, r, word)


def exp(e: Emitter, x: Val) -> Val:
    """e**x."""
    bits = x.ty.bits
    odd = e.fcmp("uge", x, like(e, x, EXP_FAR[bits]))
    value = _exp_near(e, _at_least(e, x, exponential.EXP_RANGE[bits][0]))
    return _with_cold(e, "exp", odd, value, exponential.exp, x)


def exp2(e: Emitter, x: Val) -> Val:
    """2**x; exact for integers."""
    bits = x.ty.bits
    odd = e.fcmp("uge", x, like(e, x, EXP2_FAR[bits]))
    fed = _at_least(e, x, exponential.EXP2_RANGE[bits][0])
    word, n = _rounded(e, fed, 1.0, LIFT[bits])
    value = _exp_lifted(e, e.fmul(e.fsub(fed, n), like(e, x, LN2)), word)
    return _with_cold(e, "exp2", odd, value, exponential.exp2, x)


def _expm1_near(e: Emitter, x: Val) -> Val:
    """exp(x) - 1 for x in (lower end of EXPM1_RANGE, EXPM1_FAR)."""
    word, r = _reduce(e, x)
    power = power_of_two(e, word)
    return e.fma(power, _expm1_unit(e, r), e.fsub(power, like(e, x, 1.0)))


def expm1(e: Emitter, x: Val) -> Val:
    """e**x - 1, accurate near zero."""
    bits = x.ty.bits
    odd = e.fcmp("uge", x, like(e, x, EXPM1_FAR[bits]))
    value = _expm1_near(e, _at_least(e, x, exponential.EXPM1_RANGE[bits][0]))
    return _with_cold(e, "expm1", odd, e.copysign(value, x), exponential.expm1, x)


def tanh(e: Emitter, x: Val) -> Val:
    """Hyperbolic tangent: E / (E + 2), E = exp(2|x|) - 1."""
    size = e.fabs(x)
    u = _expm1_near(e, clamp(e, e.fadd(size, size), 0.0, hyperbolic.TANH_TOP[x.ty.bits]))
    return e.copysign(e.fdiv(u, e.fadd(u, like(e, x, 2.0))), x)


def sinh(e: Emitter, x: Val) -> Val:
    """Hyperbolic sine: (E + E / (E + 1)) / 2, E = exp(|x|) - 1."""
    size = e.fabs(x)
    odd = e.fcmp("uge", size, like(e, x, EXPM1_FAR[x.ty.bits]))
    u = _expm1_near(e, size)
    twice = e.fadd(u, e.fdiv(u, e.fadd(u, like(e, x, 1.0))))
    value = e.copysign(e.fmul(twice, like(e, x, 0.5)), x)
    return _with_cold(e, "sinh", odd, value, hyperbolic.sinh, x)


def cosh(e: Emitter, x: Val) -> Val:
    """Hyperbolic cosine: exp(|x|) / 2 + 1 / (2 exp(|x|))."""
    size, half = e.fabs(x), like(e, x, 0.5)
    odd = e.fcmp("uge", size, like(e, x, EXPM1_FAR[x.ty.bits]))
    word, r = _reduce(e, size)
    power = scale_normal(e, e.fadd(like(e, x, 1.0), _expm1_unit(e, r)), word)
    value = e.fma(power, half, e.fdiv(half, power))
    return _with_cold(e, "cosh", odd, value, hyperbolic.cosh, x)


# Logarithms


def _log_unit(e: Emitter, f: Val) -> Val:
    """log(1 + f) for sqrt(1/2) <= 1 + f < sqrt(2), by s = f / (2 + f): 2 s = f - s f."""
    s = e.fdiv(f, e.fadd(f, like(e, f, 2.0)))
    z = e.fmul(s, s)
    return e.fma(s, e.fsub(e.fmul(z, poly(e, z, ATANH[f.ty.bits])), f), f)


def _log_base(
    e: Emitter, name: str, x: Val, exact: Callable[..., Val], two: float, factor: float
) -> Val:
    """n `two` + log(1 + f) `factor`, where x = 2**n (1 + f)."""
    odd = outside(e, x, TINY_NORMAL[x.ty.bits], INF)
    n, f, _ = reduce_log(e, x, subnormal=False)
    unit = _log_unit(e, f)
    if factor != 1.0:
        unit = e.fmul(unit, like(e, x, factor))
    value = e.fma(n, like(e, x, two), unit)
    return _with_cold(e, name, odd, value, exact, x)


def log(e: Emitter, x: Val) -> Val:
    """Natural logarithm."""
    return _log_base(e, "log", x, logarithm.log, LN2, 1.0)


def log2(e: Emitter, x: Val) -> Val:
    """Logarithm to base 2; exact for powers of two."""
    return _log_base(e, "log2", x, logarithm.log2, 1.0, LOG2_E)


def log10(e: Emitter, x: Val) -> Val:
    """Logarithm to base 10."""
    return _log_base(e, "log10", x, logarithm.log10, LOG10_2, LOG10_E)


def _log1p_near(e: Emitter, x: Val, v: Val) -> Val:
    """log(1 + x) with v = 1 + x rounded, of normal size; a zero may lose its sign."""
    lost = e.fsub(x, e.fsub(v, like(e, x, 1.0)))
    n, f, inverse_power = reduce_log(e, v, subnormal=False)
    f = e.fma(lost, e.fmul(inverse_power, like(e, x, 0.5)), f)
    return e.fma(n, like(e, x, LN2), _log_unit(e, f))


def log1p(e: Emitter, x: Val) -> Val:
    """log(1 + x), accurate near zero."""
    v = e.fadd(x, like(e, x, 1.0))
    odd = outside(e, v, TINY_NORMAL[x.ty.bits], INF)
    value = e.copysign(_log1p_near(e, x, v), x)
    return _with_cold(e, "log1p", odd, value, logarithm.log1p, x)


def logaddexp(e: Emitter, a: Val, b: Val) -> Val:
    """log(e**a + e**b) = max + log1p(e**-|a - b|)."""
    return _log_add(e, "logaddexp", a, b, logarithm.logaddexp, 1.0)


def logaddexp2(e: Emitter, a: Val, b: Val) -> Val:
    """log2(2**a + 2**b)."""
    return _log_add(e, "logaddexp2", a, b, logarithm.logaddexp2, LN2)


def _log_add(e: Emitter, name: str, a: Val, b: Val, exact: Callable[..., Val], unit: float) -> Val:
    """max + log1p(exp(-|a - b| unit)) / unit."""
    swap = e.fcmp("olt", a, b)
    top, low = e.select(swap, b, a), e.select(swap, a, b)
    d = e.fsub(low, top)
    odd = e.fcmp("ule", d, like(e, a, -INF))
    if unit != 1.0:
        d = e.fmul(d, like(e, d, unit))
    p = _exp_near(e, _at_least(e, d, exponential.EXP_RANGE[a.ty.bits][0]))
    more = _log1p_near(e, p, e.fadd(p, like(e, p, 1.0)))
    if unit != 1.0:
        more = e.fmul(more, like(e, more, 1.0 / unit))  # rounded: log2(2**a + 2**a) is a + 1
    return _with_cold(e, name, odd, e.fadd(top, more), exact, a, b)


def asinh(e: Emitter, x: Val) -> Val:
    """Inverse hyperbolic sine: log1p(a + a^2 / (1 + sqrt(1 + a^2))), a = |x|."""
    size, one = e.fabs(x), like(e, x, 1.0)
    odd = e.fcmp("uge", size, like(e, x, ROOT[x.ty.bits][1]))
    z = e.fmul(size, size)
    u = e.fadd(size, e.fdiv(z, e.fadd(one, e.sqrt(e.fadd(z, one)))))
    value = e.copysign(_log1p_near(e, u, e.fadd(u, one)), x)
    return _with_cold(e, "asinh", odd, value, hyperbolic.asinh, x)


def acosh(e: Emitter, x: Val) -> Val:
    """Inverse hyperbolic cosine: log1p(d + sqrt(d^2 + 2 d)), d = x - 1."""
    one = like(e, x, 1.0)
    odd = outside(e, x, 1.0, ROOT[x.ty.bits][1])
    d = e.fsub(x, one)
    u = e.fadd(d, e.sqrt(e.fma(d, d, e.fadd(d, d))))
    value = _log1p_near(e, u, e.fadd(u, one))
    return _with_cold(e, "acosh", odd, value, hyperbolic.acosh, x)


def atanh(e: Emitter, x: Val) -> Val:
    """Inverse hyperbolic tangent: log1p(2 a / (1 - a)) / 2, a = |x|."""
    size, one = e.fabs(x), like(e, x, 1.0)
    odd = e.fcmp("uge", size, one)
    u = e.fdiv(e.fadd(size, size), e.fsub(one, size))
    half = e.fmul(_log1p_near(e, u, e.fadd(u, one)), like(e, x, 0.5))
    return _with_cold(e, "atanh", odd, e.copysign(half, x), hyperbolic.atanh, x)


# Trigonometry


def _less_pi(e: Emitter, x: Val, n: Val, factor: float = 1.0) -> Val:
    """x - n pi `factor`."""
    for part in PI[x.ty.bits]:
        x = e.fma(n, like(e, x, -part * factor), x)
    return x


def _sin_unit(e: Emitter, r: Val) -> Val:
    """sin(r) for |r| <= pi/2."""
    z = e.fmul(r, r)
    return e.fma(e.fmul(z, r), poly(e, z, SIN[r.ty.bits]), r)


def _keep_zero(e: Emitter, x: Val, value: Val) -> Val:
    return e.select(e.fcmp("oeq", x, like(e, x, 0.0)), x, value)


def _is_huge(e: Emitter, x: Val) -> Val:
    return e.fcmp("ugt", e.fabs(x), like(e, x, trigonometric.LIMIT[x.ty.bits]))


def sin(e: Emitter, x: Val) -> Val:
    """Sine of an angle in radians."""
    word, n = _rounded(e, x, 0.3183098861837907)
    sine = _sin_unit(e, _less_pi(e, x, n))
    value = _keep_zero(e, x, flip_sign(e, sine, e.shl(word, int_like(e, x, x.ty.bits - 1))))
    return _with_cold(e, "sin", _is_huge(e, x), value, trigonometric.sin, x)


def cos(e: Emitter, x: Val) -> Val:
    """Cosine of an angle in radians: that of (n + 1/2) pi + r is sin(r), negated for even n."""
    rounder = like(e, x, ROUNDER[x.ty.bits])
    t = e.fadd(e.fma(x, like(e, x, 0.3183098861837907), like(e, x, -0.5)), rounder)
    n = e.fadd(e.fsub(t, rounder), like(e, x, 0.5))
    sine = _sin_unit(e, _less_pi(e, x, n))
    word = e.not_(bits_of(e, t))
    value = flip_sign(e, sine, e.shl(word, int_like(e, x, x.ty.bits - 1)))
    return _with_cold(e, "cos", _is_huge(e, x), value, trigonometric.cos, x)


def tan(e: Emitter, x: Val) -> Val:
    """Tangent: sin/cos, or -cos/sin in odd quadrants."""
    bits = x.ty.bits
    word, n = _rounded(e, x, 0.6366197723675814)
    r = _less_pi(e, x, n, 0.5)
    z = e.fmul(r, r)
    s = e.fma(e.fmul(z, r), poly(e, z, trigonometric.SIN[bits]), r)
    half = e.fma(z, like(e, x, -0.5), like(e, x, 1.0))
    c = e.fma(e.fmul(z, z), poly(e, z, trigonometric.COS[bits]), half)
    odd = e.icmp("ne", e.and_(word, int_like(e, x, 1)), int_like(e, x, 0))
    value = e.fdiv(e.select(odd, c, s), e.select(odd, e.fneg(s), c))
    value = _keep_zero(e, x, value)
    return _with_cold(e, "tan", _is_huge(e, x), value, trigonometric.tan, x)


def _angle(e: Emitter, num: Val, den: Val) -> Val:
    """atan(num / den) for 0 <= num <= den."""
    middle = e.fcmp("ogt", num, e.fmul(den, like(e, den, inverse.TAN_PI_8)))
    top = e.select(middle, e.fsub(num, den), num)
    t = e.fdiv(top, e.select(middle, e.fadd(num, den), den))
    z = e.fmul(t, t)
    angle = e.fma(e.fmul(z, t), poly(e, z, ATAN[t.ty.bits]), t)
    base = e.select(middle, like(e, t, PI[64][0] / 4), like(e, t, 0.0))
    return e.fadd(base, angle)


def atan(e: Emitter, x: Val) -> Val:
    """Inverse tangent."""
    size, one = e.fabs(x), like(e, x, 1.0)
    steep = e.fcmp("ogt", size, one)
    fed = e.select(e.fcmp("olt", size, like(e, x, 2.0**60)), size, like(e, x, 2.0**60))
    angle = _angle(e, e.select(steep, one, size), e.select(steep, fed, one))
    angle = e.select(steep, e.fsub(like(e, x, PI[64][0] / 2), angle), angle)
    return e.copysign(angle, x)


def atan2(e: Emitter, y: Val, x: Val) -> Val:
    """Angle of the point (x, y)."""
    a, b = e.fabs(y), e.fabs(x)
    steep = e.fcmp("ogt", a, b)
    num, den = e.select(steep, b, a), e.select(steep, a, b)
    odd = e.or_(outside(e, den, TINY_NORMAL[x.ty.bits], ROOT[x.ty.bits][1]), e.fcmp("uno", x, y))
    angle = _angle(e, num, den)
    angle = e.select(steep, e.fsub(like(e, x, PI[64][0] / 2), angle), angle)
    left = e.icmp("slt", bits_of(e, x), int_like(e, x, 0))
    angle = e.select(left, e.fsub(like(e, x, PI[64][0]), angle), angle)
    return _with_cold(e, "atan2", odd, e.copysign(angle, y), inverse.atan2, y, x)


def _asin_half(e: Emitter, size: Val) -> tuple[Val, Val]:
    """(size > 1/2, asin of size or of sqrt((1 - size) / 2)); NaN for size > 1."""
    half = like(e, size, 0.5)
    large = e.fcmp("ugt", size, half)
    root = e.sqrt(e.fma(e.fneg(size), half, half))
    t = e.select(large, root, size)
    z = e.fmul(t, t)
    return large, e.fma(e.fmul(z, t), poly(e, z, ASIN[t.ty.bits]), t)


def asin(e: Emitter, x: Val) -> Val:
    """Inverse sine; NaN beyond [-1, 1]."""
    large, p = _asin_half(e, e.fabs(x))
    mirrored = e.fma(p, like(e, x, -2.0), like(e, x, PI[64][0] / 2))
    return e.copysign(e.select(large, mirrored, p), x)


def acos(e: Emitter, x: Val) -> Val:
    """Inverse cosine; NaN beyond [-1, 1]."""
    large, p = _asin_half(e, e.fabs(x))
    twice = e.fadd(p, p)
    mirrored = e.fsub(like(e, x, PI[64][0]), twice)
    far = e.select(e.fcmp("olt", x, like(e, x, 0.0)), mirrored, twice)
    near = e.fsub(like(e, x, PI[64][0] / 2), e.copysign(p, x))
    return e.select(large, far, near)


# Lengths


def hypot(e: Emitter, x: Val, y: Val) -> Val:
    """sqrt(x^2 + y^2) without overflow."""
    a, b = e.fabs(x), e.fabs(y)
    larger = e.select(e.fcmp("ogt", a, b), a, b)
    odd = e.or_(outside(e, larger, *ROOT[x.ty.bits]), e.fcmp("uno", x, y))
    value = e.sqrt(e.fma(a, a, e.fmul(b, b)))
    return _with_cold(e, "hypot", odd, value, power.hypot, x, y)
