"""pow.

    pow(x, y)  ->  p = y log2|x| in two parts ; n = rint(p) ; 2**n * 2**(p - n)

With |x| = 2**k (1 + f) and s = f / (2 + f), log2|x| is k + s T(s^2); s and T are kept in two parts
(relative error 2**-65), and the quotient takes the only division. Sums are so ordered that few
steps wait for the quotient's low part: the chain of dependent steps limits the speed. float32 goes
through float64 polynomials of just enough terms.

A vector takes the cold path, C99's special values and sizes beyond the normal range, only where a
lane asks for it; the other lanes keep their bits. Errors: below 0.6 units in the last place for
float32, 1.2 for float64 (the most where the result is close to overflow or underflow).
"""

from fjit.backend.emitter import F64, Emitter, Val
from fjit.backend.math.core import (
    INF,
    LN2,
    NAN,
    TINY_NORMAL,
    Pair,
    bits_of,
    from_bits,
    like,
    outside,
    patched,
    poly,
    round_scaled,
    scale,
    scale_normal,
    sign_bit,
    through_f64,
    two_prod,
)
from fjit.backend.math.exponential import exp2_mid
from fjit.backend.math.logarithm import reduce_log

# fmt: off
# log2(1 + f) / f on sqrt(1/2) <= 1 + f <= sqrt(2), for a float32 result
LOG2_MID = (
    1.4426950408667023, -0.7213475207465213, 0.48089836255023627, -0.36067369941964333,
    0.28853719797592714, -0.24045173061841238, 0.20617763366531833, -0.18033590459105486,
    0.15876253435758703, -0.14276646517509783, 0.1444678702941053, -0.14443625448280342,
    0.07954851029926241,
)
# (log2((1 + s)/(1 - s)) / s - A - B s^2) / s^2 in s^2 on |s| <= 0.1716; B makes it small
ATANH = (
    -0.014152077731445738, 0.5770780163556944, 0.4121985830732113, 0.32059890457234,
    0.2623075453631675, 0.22198991688902503, 0.19113694614160176, 0.1913514081660364,
)
# (2^r - 1 - r ln 2) / r^2 on |r| <= 0.54
EXP2_WIDE = (
    0.2402265069591018, 0.05550410866481976, 0.009618129107570806, 0.0013333558146904887,
    0.0001540353048907699, 1.5252733395745713e-05, 1.3215418751761123e-06,
    1.0178220454524713e-07, 7.076655485454506e-09, 4.43471851046251e-10,
)
# fmt: on
A = (2.8853900817779268, 4.073256705906858e-17)  # 2 / ln 2
B = 0.9759487716574212
SLOPE = 2.9557  # 2 / ln 2 and a bit for the next term
FAR = 1021.0  # |p| up to here: 2**p is normal
BEYOND = 1100.0  # from here on it is 0 or inf in float64; in float32 from FAR on


def pow(e: Emitter, x: Val, y: Val) -> Val:
    """x**y with the special values of C99, annex F."""
    write = _narrow if through_f64(x.ty) else _wide
    return write(e, x, y)


def _log2_product(e: Emitter, v: Val, y: Val, subnormal: bool) -> Pair:
    """y log2(v) of float64 in two parts, not normalised, for 0 < v < inf."""
    n, f, _ = reduce_log(e, v, subnormal)
    a, a_lo, b = (like(e, v, part) for part in (*A, B))
    s, s_lo = _quotient(e, f)
    z, z_lo = two_prod(e, s, s)
    t = e.fma(z, b, a)
    t_lo = e.fma(z, b, e.fsub(a, t))
    t_lo = e.fadd(t_lo, e.fma(z_lo, b, a_lo))
    slope = e.fma(z, like(e, v, SLOPE), a)  # of s T(s^2), to 2**-13
    h, h_lo = two_prod(e, s, t)
    u = e.fadd(n, h)
    u_lo = e.fma(s, t_lo, e.fadd(h_lo, e.fadd(e.fsub(n, u), h)))
    u_lo = e.fma(s_lo, slope, u_lo)
    u_lo = e.fma(e.fmul(s, z), poly(e, z, ATANH), u_lo)
    p, p_lo = two_prod(e, u, y)
    return p, e.fma(u_lo, y, p_lo)


def _quotient(e: Emitter, f: Val) -> Pair:
    """f / (2 + f) in two parts."""
    two = like(e, f, 2.0)
    den = e.fadd(f, two)
    den_lo = e.fsub(f, e.fsub(den, two))
    inverse = e.fdiv(like(e, f, 1.0), den)
    error = e.fma(e.fneg(inverse), den, like(e, f, 1.0))
    error = e.fma(e.fneg(inverse), den_lo, error)
    s, s_lo = two_prod(e, f, inverse)
    return s, e.fma(s, error, s_lo)


def _exp2_parts(e: Emitter, p: Val, p_lo: Val) -> Pair:
    """2**(p + p_lo) as a significand and a word that ends in its power."""
    word, n = round_scaled(e, p, 1.0)
    r = e.fadd(e.fsub(p, n), p_lo)
    one, ln2 = like(e, p, 1.0), like(e, p, LN2)
    head = e.fma(r, ln2, one)
    rest = e.fma(r, ln2, e.fsub(one, head))
    return e.fadd(head, e.fma(e.fmul(r, r), poly(e, r, EXP2_WIDE), rest)), word


def _wide_parts(e: Emitter, x: Val, y: Val, subnormal: bool) -> tuple[Val, Val, Val]:
    """Return y log2|x|, and |x|**y as a significand and a word, of float64."""
    p, p_lo = _log2_product(e, e.fabs(x), y, subnormal)
    return p, *_exp2_parts(e, p, p_lo)


def _wide(e: Emitter, x: Val, y: Val) -> Val:
    """x**y of float64."""
    p, significand, word = _wide_parts(e, x, y, subnormal=False)
    return _patched(e, scale_normal(e, significand, word), x, y, p, significand, word)


def _narrow(e: Emitter, x: Val, y: Val) -> Val:
    """x**y of float32: log2 and exp2 in float64, good to 2**-34."""
    n, f, _ = reduce_log(e, e.fpext(e.fabs(x), F64), subnormal=False)
    p = e.fmul(e.fma(f, poly(e, f, LOG2_MID), n), e.fpext(y, F64))
    return _patched(e, e.fptrunc(exp2_mid(e, p), x.ty), x, y, p)


# Cold path


def _patched(e: Emitter, value: Val, x: Val, y: Val, p: Val, *parts: Val) -> Val:
    """Pass `value` on, through the cold path if a lane has no positive finite x or is far."""
    odd = outside(e, x, TINY_NORMAL[64] if parts else 2.0**-149, INF)
    odd = e.or_(odd, e.fcmp("uge", e.fabs(p), like(e, p, FAR)))
    return patched(e, "pow", odd, value, (value, x, y, p, *parts), _cold)


def _cold(e: Emitter, value: Val, x: Val, y: Val, p: Val, *parts: Val) -> Val:
    limit = FAR
    if parts:
        limit = BEYOND
        p, value = _any_size(e, x, y, p, *parts)
    grows = e.fcmp("ogt", p, like(e, p, 0.0))
    edge = e.select(grows, like(e, x, INF), like(e, x, 0.0))
    value = e.select(e.fcmp("olt", e.fabs(p), like(e, p, limit)), value, edge)
    return _c99(e, x, y, value)


def _any_size(e: Emitter, x: Val, y: Val, p: Val, significand: Val, word: Val) -> Pair:
    """Return y log2|x| and |x|**y of float64, now for subnormal x and results too."""
    tiny = e.fcmp("olt", e.fabs(x), like(e, x, TINY_NORMAL[64]))
    some = e.any_(e.and_(tiny, e.fcmp("one", x, like(e, x, 0.0))))
    e.br("given")
    e.label("given")
    e.cond_br(some, "lift", "scale")
    e.label("lift")
    lifted = _wide_parts(e, x, y, subnormal=True)
    e.br("scale")
    e.label("scale")
    before = (p, significand, word)
    p, significand, word = (
        e.phi(a.ty, (a, "given"), (b, "lift")) for a, b in zip(before, lifted, strict=True)
    )
    return p, scale(e, significand, word)


def _c99(e: Emitter, x: Val, y: Val, value: Val) -> Val:
    """Patch |x|**y, right for finite operands and x != 0, to x**y."""
    size = e.fabs(x)
    zero, one = like(e, x, 0.0), like(e, x, 1.0)
    infinity = like(e, x, INF)
    # |x| of 0 or inf, or y infinite: the limit is 0 or inf, by whether |x|**y grows.
    small = e.fcmp("olt", size, one)
    shrinks = e.xor(small, e.fcmp("olt", y, zero))
    limit = e.select(shrinks, zero, infinity)
    edge = e.or_(e.fcmp("oeq", size, zero), e.fcmp("oeq", size, infinity))
    edge = e.or_(edge, e.fcmp("oeq", e.fabs(y), infinity))
    value = e.select(edge, limit, value)
    value = e.select(e.fcmp("uno", x, y), e.fadd(x, y), value)
    value = _sign(e, x, y, value)
    unit = e.and_(e.fcmp("oeq", size, one), e.fcmp("oeq", e.fabs(y), infinity))
    unit = e.or_(e.or_(unit, e.fcmp("oeq", y, zero)), e.fcmp("oeq", x, one))
    return e.select(unit, one, value)


def _sign(e: Emitter, x: Val, y: Val, value: Val) -> Val:
    """Negate for a negative x and an odd y; NaN for a negative finite x and a fractional y."""
    half = e.fmul(y, like(e, y, 0.5))
    whole = e.fcmp("oeq", e.trunc(y), y)
    odd = e.and_(whole, e.fcmp("one", e.trunc(half), half))
    signed = from_bits(e, e.or_(bits_of(e, value), e.and_(bits_of(e, x), sign_bit(e, x))))
    value = e.select(odd, signed, value)
    below = e.and_(e.fcmp("olt", x, like(e, x, 0.0)), e.fcmp("ogt", x, like(e, x, -INF)))
    return e.select(e.and_(below, e.fcmp("one", e.trunc(y), y)), like(e, x, NAN), value)
