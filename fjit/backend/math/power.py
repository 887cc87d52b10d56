"""cbrt, hypot and fmod.

    cbrt(x)  ->  y = m**(-1/3) by iteration, without a division ; m y^2, corrected by the remainder
    fmod(x, y)  ->  x - y trunc(x / y) in one multiply-add, exact while the quotient is below 2**52
                    (2**23 for float32); larger quotients take a loop

cbrt is corrected once by an exact remainder; hypot keeps its squares in two parts.
Errors are below 1 unit in the last place; fmod is exact.
"""

from fjit.backend.emitter import F64, Emitter, Ty, Val
from fjit.backend.math.core import (
    BIAS,
    INF,
    MANTISSA,
    NAN,
    TINY_NORMAL,
    bits_of,
    fast_two_sum,
    from_bits,
    horner,
    int_like,
    like,
    power_of_two,
    through_f64,
    two_prod,
)

# fmt: off
# m^(-1/3) on [1, 8], to 2^-7
CBRT = (
    1.3377202615879633, -0.44085672940581694, 0.10851312871333964, -0.012987947528553484,
    0.0005853602133383992,
)
# fmt: on


def cbrt(e: Emitter, x: Val) -> Val:
    """Cube root, negative arguments included."""
    bits = x.ty.bits
    size = e.fabs(x)
    lift = 54 if bits == 64 else 24
    tiny = e.fcmp("olt", size, like(e, x, TINY_NORMAL[bits]))
    v = e.select(tiny, e.fmul(size, like(e, x, 2.0**lift)), size)
    raw = bits_of(e, v)
    shift = int_like(e, x, MANTISSA[bits])
    offset = -BIAS[bits] % 3
    exponent = e.add(e.lshr(raw, shift), int_like(e, x, offset))
    third = e.lshr(e.mul(exponent, int_like(e, x, 21846)), int_like(e, x, 16))
    left = e.sub(exponent, e.mul(third, int_like(e, x, 3)))
    fraction = e.and_(raw, int_like(e, x, (1 << MANTISSA[bits]) - 1))
    exponent_bits = e.shl(e.add(left, int_like(e, x, BIAS[bits])), shift)
    m = from_bits(e, e.or_(fraction, exponent_bits))
    k = e.sub(third, int_like(e, x, (BIAS[bits] + offset) // 3))
    k = e.sub(k, e.select(tiny, int_like(e, x, lift // 3), int_like(e, x, 0)))
    root = e.fmul(_cbrt_unit(e, m), power_of_two(e, k))
    usual = e.fcmp("ogt", e.fmul(size, like(e, x, INF)), like(e, x, 0.0))
    usual = e.and_(usual, e.fcmp("olt", size, like(e, x, INF)))
    return e.select(usual, e.copysign(root, x), x)


def _cbrt_unit(e: Emitter, m: Val) -> Val:
    """Cube root on [1, 8): y -> y (1 + h/3 + 2h^2/9 + 14h^3/81), h = 1 - m y^3, then m y^2."""
    y, one = horner(e, m, CBRT), like(e, m, 1.0)
    h = e.fma(e.fmul(m, e.fneg(e.fmul(y, y))), y, one)
    y = e.fma(e.fmul(y, h), horner(e, h, (1 / 3, 2 / 9, 14 / 81)), y)
    if m.ty.bits == 64:
        h = e.fma(e.fmul(m, e.fneg(e.fmul(y, y))), y, one)
        y = e.fma(e.fmul(y, h), like(e, m, 1 / 3), y)
    square = e.fmul(y, y)
    z = e.fmul(m, square)
    zz, zz_lo = two_prod(e, z, z)
    rest = e.fma(zz_lo, z, e.fma(zz, z, e.fneg(m)))
    return e.fma(rest, e.fmul(square, like(e, m, -1 / 3)), z)


def hypot(e: Emitter, x: Val, y: Val) -> Val:
    """sqrt(x^2 + y^2) without overflow; inf where one is infinite, even beside NaN."""
    value = hypot_finite(e, x, y)
    infinity = like(e, x, INF)
    infinite = e.or_(e.fcmp("oeq", e.fabs(x), infinity), e.fcmp("oeq", e.fabs(y), infinity))
    return e.select(infinite, infinity, value)


def hypot_finite(e: Emitter, x: Val, y: Val) -> Val:
    """sqrt(x^2 + y^2) without overflow; NaN where one is NaN."""
    if not through_f64(x.ty):
        return _hypot_wide(e, x, y)
    a, b = e.fpext(x, F64), e.fpext(y, F64)
    return e.fptrunc(e.sqrt(e.fma(a, a, e.fmul(b, b))), x.ty)


def _hypot_wide(e: Emitter, x: Val, y: Val) -> Val:
    a, b = e.fabs(x), e.fabs(y)
    swap = e.fcmp("olt", a, b)
    a, b = e.select(swap, b, a), e.select(swap, a, b)
    one = like(e, x, 1.0)
    up, down = like(e, x, 2.0**600), like(e, x, 2.0**-600)
    factor = e.select(e.fcmp("ogt", a, like(e, x, 2.0**500)), down, one)
    factor = e.select(e.fcmp("olt", a, like(e, x, 2.0**-400)), up, factor)
    a, b = e.fmul(a, factor), e.fmul(b, factor)
    square, square_lo = two_prod(e, a, a)
    other, other_lo = two_prod(e, b, b)
    h, h_lo = fast_two_sum(e, square, other)
    h_lo = e.fadd(h_lo, e.fadd(square_lo, other_lo))
    root = e.sqrt(h)
    rest = e.fadd(e.fma(e.fneg(root), root, h), h_lo)
    better = e.fadd(root, e.fdiv(rest, e.fadd(root, root)))
    root = e.select(e.fcmp("ogt", root, like(e, x, 0.0)), better, root)
    back = e.select(e.fcmp("olt", factor, one), up, one)
    back = e.select(e.fcmp("ogt", factor, one), down, back)
    return e.fmul(root, back)


# fmod


def fmod(e: Emitter, a: Val, b: Val) -> Val:
    """Exact remainder of a / b with the sign of `a`."""
    (value,) = e.call_struct(_fmod_helper(e, a.ty), (a.ty,), e.fabs(a), e.fabs(b))
    infinity = like(e, a, INF)
    bad = e.or_(e.fcmp("oeq", b, like(e, a, 0.0)), e.fcmp("oeq", e.fabs(a), infinity))
    value = e.select(e.fcmp("oeq", e.fabs(b), infinity), e.fabs(a), value)
    value = e.select(bad, like(e, a, NAN), e.copysign(value, a))
    return e.select(e.fcmp("uno", a, b), e.fadd(a, b), value)


def _fmod_helper(e: Emitter, ty: Ty) -> str:
    """Define the remainder loop: one step is enough unless the quotient is huge."""
    name = f"fjit.fmod.{ty.suffix}"
    if name in e.helpers:
        return name
    sub = e.nested()
    a, b = Val(ty, "%a"), Val(ty, "%b")
    infinity = like(sub, a, INF)
    usable = sub.and_(sub.fcmp("ogt", b, like(sub, b, 0.0)), sub.fcmp("olt", a, infinity))
    b = sub.select(sub.and_(usable, sub.fcmp("olt", b, infinity)), b, infinity)
    exponent = _exponent(sub, b)
    sub.br("loop")
    sub.label("loop")
    now = Val(ty, "%now")
    at = len(sub.lines)
    after = _fmod_step(sub, now, b, exponent)
    more = sub.any_(sub.fcmp("oge", after, b))
    sub.lines.insert(at, f"  %now = phi {ty} [ %a, %0 ], [ {after.ref}, %loop ]")
    sub.cond_br(more, "loop", "done")
    sub.label("done")
    sub.ret_struct(after)
    e.adopt(sub, name, [(ty, "a"), (ty, "b")], "alwaysinline nounwind", (ty,))
    return name


def _exponent(e: Emitter, b: Val) -> Val:
    """The biased exponent of b >= 0, continued below zero for subnormals."""
    bits = b.ty.bits
    shift = int_like(e, b, MANTISSA[bits])
    tiny = e.fcmp("olt", b, like(e, b, TINY_NORMAL[bits]))
    lifted = e.select(tiny, e.fmul(b, like(e, b, 2.0 ** MANTISSA[bits])), b)
    lift = e.select(tiny, shift, int_like(e, b, 0))
    return e.sub(e.lshr(bits_of(e, lifted), shift), lift)


def _fmod_step(e: Emitter, a: Val, b: Val, exponent: Val) -> Val:
    """a modulo b * 2**k, exactly, with k >= 0 so chosen that the quotient stays small."""
    bits = a.ty.bits
    digits = 51 if bits == 64 else 22  # the least for which a subnormal `a` has k = 0
    gap = e.sub(e.lshr(bits_of(e, a), int_like(e, a, MANTISSA[bits])), exponent)
    k = e.sub(gap, int_like(e, a, digits))
    k = e.select(e.icmp("sgt", k, int_like(e, a, 0)), k, int_like(e, a, 0))
    half = e.lshr(k, int_like(e, a, 1))
    b = e.fmul(e.fmul(b, power_of_two(e, half)), power_of_two(e, e.sub(k, half)))
    quotient = e.trunc(e.fdiv(a, b))
    rest = e.fma(e.fneg(quotient), b, a)
    zero = like(e, a, 0.0)
    rest = e.select(e.fcmp("olt", rest, zero), e.fadd(rest, b), rest)
    rest = e.select(e.fcmp("oge", rest, b), e.fsub(rest, b), rest)
    return e.select(e.fcmp("olt", a, b), a, rest)
