"""log, log2, log10, log1p, logaddexp and logaddexp2.

Takes v (or v + v_lo), gives n ln 2 + log(1 + f), v = 2**n (1 + f), sqrt(1/2) <= 1 + f < sqrt(2).
log(1 + f) = f - f^2/2 + f^3 P(f) needs no division; n ln 2 + f is summed exactly, and a low part
enters as v_lo 2**-n / (1 + f). Errors are below 0.9 units in the last place, logaddexp aside:
where its result crosses zero the bound is relative to the larger argument.

    log(x)  ->  f = m(x) - 1 ; u, v = n*hi + f ; u + (v + (f*f*(f*P - 0.5) + n*lo))
"""

from typing import NamedTuple

from fjit.backend.emitter import Emitter, Val
from fjit.backend.math.core import (
    BIAS,
    INF,
    LN2,
    MANTISSA,
    NAN,
    ONE_BITS,
    ROUNDER,
    TINY_NORMAL,
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
    scale,
    two_prod,
    two_sum,
)
from fjit.backend.math.exponential import LN2_HI, LN2_LO, exp_pair

# fmt: off
# -2 (log(1 + f) - f + f^2/2) / f^3 on sqrt(1/2) <= 1 + f <= sqrt(2)
LOG = {
    32: (-0.6666662, 0.49999973, -0.40004417, 0.33338496, -0.28437877, 0.24769036, -0.23742758,
         0.2357694, -0.1383406),
    64: (-0.6666666666666693, 0.4999999999999854, -0.3999999999988435, 0.33333333333648163,
         -0.28571428588554537, 0.24999999981706536, -0.22222220992558966, 0.1999999987731149,
         -0.18181867628791104, 0.16666717209795232, -0.15383438914937209, 0.1428356074729609,
         -0.1334975377247176, 0.1254390440427212, -0.11644209460123438, 0.10632922363698262,
         -0.10768899029752811, 0.12567789743444116, -0.1157238834830714, 0.0499521811036289),
}
# fmt: on
# 1/(1 + f) = 1 + f SLOPE(f) to one part in 400, and exactly 1 at f = 0
SLOPE = (-1.0057389708351787, 1.0934271232396775, -0.9329384619487645)
ROOT_HALF_BITS = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}
LIFT = {32: 25, 64: 54}  # a subnormal times 2**LIFT is normal


class Base(NamedTuple):
    """1/ln(b) and log_b(2) in two parts each; the high part of log_b(2) times n is exact."""

    factor: float
    factor_lo: float
    two: float
    two_lo: float


NATURAL = {bits: Base(1.0, 0.0, LN2_HI[bits], LN2_LO[bits]) for bits in (32, 64)}
BINARY = {
    32: Base(1.4426950216293335, 1.925963033500011e-08, 1.0, 0.0),
    64: Base(1.4426950408889634, 2.0355273740931033e-17, 1.0, 0.0),
}
DECIMAL = {
    32: Base(0.4342944920063019, -1.0103049952192578e-08, 0.301025390625, 4.605039066518657e-06),
    64: Base(0.4342944819032518, 1.098319650216765e-17, 0.30102999566383914, 1.42050232272661e-13),
}
LN2_PAIR = {
    32: (0.6931471824645996, -1.904654299957768e-09),
    64: (0.6931471805599453, 2.3190468138462996e-17),
}
# where exp(d) is too small for a low part of d to count, and where it and 2**d are zero
LOG_ADD_RANGE = {32: (-110.0, -104.0, -151.0), 64: (-800.0, -746.0, -1100.0)}


class Reduced(NamedTuple):
    """v = 2**n (1 + f); `inverse_power` is 2**(1-n)."""

    n: Val
    f: Val
    inverse_power: Val


def reduce_log(e: Emitter, v: Val, subnormal: bool = True) -> Reduced:
    """Split a positive finite v, of normal size unless `subnormal`."""
    bits = v.ty.bits
    offset = ROUNDER[bits] + BIAS[bits]
    offsets = like(e, v, offset)
    if subnormal:
        tiny = e.fcmp("olt", v, like(e, v, TINY_NORMAL[bits]))
        v = e.select(tiny, e.fmul(v, like(e, v, 2.0 ** LIFT[bits])), v)
        offsets = e.select(tiny, like(e, v, offset + LIFT[bits]), offsets)
    raw = bits_of(e, v)
    index = e.add(raw, int_like(e, v, ONE_BITS[bits] - ROOT_HALF_BITS[bits]))
    exponent = e.lshr(index, int_like(e, v, MANTISSA[bits]))
    rounder = bits_of(e, like(e, v, ROUNDER[bits]))
    n = e.fsub(from_bits(e, e.add(exponent, rounder)), offsets)
    field = e.and_(index, int_like(e, v, -1 << MANTISSA[bits]))
    one, step = int_like(e, v, ONE_BITS[bits]), 1 << MANTISSA[bits]
    f = e.fsub(from_bits(e, e.add(e.sub(raw, field), one)), like(e, v, 1.0))
    inverse_power = from_bits(e, e.sub(int_like(e, v, 2 * ONE_BITS[bits] + step), field))
    return Reduced(n, f, inverse_power)


def log1p_tail(e: Emitter, f: Val, low: Val | None, wide: bool) -> Pair:
    """log(1 + f) + low as f plus a rest, or, if `wide`, as a head that takes in -f^2/2."""
    minus_half = e.fmul(f, like(e, f, -0.5))
    half_square = e.fmul(f, minus_half)
    cube, p = e.fmul(half_square, f), poly(e, f, LOG[f.ty.bits])
    if wide:
        head, rest = fast_two_sum(e, f, half_square)
        rest = e.fadd(rest, e.fma(f, minus_half, e.fneg(half_square)))
        return head, e.fma(cube, p, rest if low is None else e.fadd(rest, low))
    if low is None:
        return f, e.fma(cube, p, half_square)
    return f, e.fma(f, minus_half, e.fma(cube, p, low))


def log_pair(e: Emitter, v: Val, v_lo: Val | None, base: Base, subnormal: bool = True) -> Pair:
    """log_b(v + v_lo) in two parts (not normalised), for 0 < v < inf and |v_lo| <= ulp(v)."""
    n, f, inverse_power = reduce_log(e, v, subnormal)
    low = None
    if v_lo is not None:
        f_lo = e.fmul(v_lo, e.fmul(inverse_power, like(e, v, 0.5)))
        low = e.fma(e.fmul(f_lo, f), horner(e, f, SLOPE), f_lo)
    head, rest = log1p_tail(e, f, low, wide=base.factor != 1.0)
    if base.factor != 1.0:
        factor = like(e, v, base.factor)
        rest = e.fma(head, like(e, v, base.factor_lo), e.fmul(rest, factor))
        head, head_lo = two_prod(e, head, factor)
        rest = e.fadd(rest, head_lo)
    u, u_lo = fast_two_sum(e, e.fmul(n, like(e, v, base.two)), head)
    if base.two_lo:
        rest = e.fma(n, like(e, v, base.two_lo), rest)
    return u, e.fadd(u_lo, rest)


def log_special(e: Emitter, x: Val, result: Val, pole: float = 0.0) -> Val:
    """Patch log at and below its pole, at inf and at NaN."""
    at = like(e, x, pole)
    result = e.select(e.fcmp("olt", x, like(e, x, INF)), result, x)
    below = e.select(e.fcmp("oeq", x, at), like(e, x, -INF), like(e, x, NAN))
    return e.select(e.fcmp("ole", x, at), below, result)


def log_base(e: Emitter, x: Val, base: Base) -> Val:
    """log_b(x)."""
    return log_special(e, x, e.fadd(*log_pair(e, x, None, base)))


def log(e: Emitter, x: Val) -> Val:
    """Natural logarithm."""
    return log_base(e, x, NATURAL[x.ty.bits])


def log2(e: Emitter, x: Val) -> Val:
    """Logarithm to base 2; exact for powers of two."""
    return log_base(e, x, BINARY[x.ty.bits])


def log10(e: Emitter, x: Val) -> Val:
    """Logarithm to base 10; exact for powers of ten."""
    return log_base(e, x, DECIMAL[x.ty.bits])


def log1p(e: Emitter, x: Val) -> Val:
    """log(1 + x), accurate near zero."""
    v, v_lo = two_sum(e, like(e, x, 1.0), x)
    result = e.fadd(*log_pair(e, v, v_lo, NATURAL[x.ty.bits], subnormal=False))
    return log_special(e, x, keep_tiny(e, x, result, 2.0**-60), -1.0)


def logaddexp(e: Emitter, a: Val, b: Val) -> Val:
    """log(e**a + e**b) = max + log1p(e**-|a - b|), the difference and the sum in two parts."""
    return _log_add(e, a, b, binary=False)


def logaddexp2(e: Emitter, a: Val, b: Val) -> Val:
    """log2(2**a + 2**b)."""
    return _log_add(e, a, b, binary=True)


def _log_add(e: Emitter, a: Val, b: Val, binary: bool) -> Val:
    bits = a.ty.bits
    swap = e.fcmp("olt", a, b)
    top, low = e.select(swap, b, a), e.select(swap, a, b)
    d, d_lo = two_sum(e, low, e.fneg(top))
    lost, lowest, lowest2 = LOG_ADD_RANGE[bits]
    d_lo = e.select(e.fcmp("oge", d, like(e, a, lost)), d_lo, like(e, a, 0.0))
    if binary:
        factor, factor_lo = (like(e, a, part) for part in LN2_PAIR[bits])
        d, product_lo = two_prod(e, clamp(e, d, lowest2, 0.0), factor)
        d_lo = e.fma(d_lo, factor, e.fma(d, factor_lo, product_lo))
    p, p_lo, word = exp_pair(e, clamp(e, d, lowest, 0.0), d_lo)
    p, p_lo = scale(e, p, word), scale(e, p_lo, word)
    v, v_lo = fast_two_sum(e, like(e, a, 1.0), p)
    base = BINARY[bits] if binary else NATURAL[bits]
    h, lo = log_pair(e, v, e.fadd(v_lo, p_lo), base, subnormal=False)
    u, u_lo = two_sum(e, top, h)
    result = e.fadd(u, e.fadd(u_lo, lo))
    constant = like(e, a, 1.0 if binary else LN2)
    infinite = e.fcmp("oeq", e.fabs(top), like(e, a, INF))
    result = e.select(e.fcmp("oeq", a, b), e.fadd(a, constant), e.select(infinite, top, result))
    return e.select(e.fcmp("uno", a, b), e.fadd(a, b), result)
