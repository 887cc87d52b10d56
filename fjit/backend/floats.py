"""Floating operations that are not one instruction, as NumPy's loops define them.

Takes float32 or float64 values of one type (float16 too where a docstring says so), gives a value.
Invariant: strict IEEE arithmetic; NaN and signed zeros come out as NumPy 2.4 gives them.

    maximum(a, b)  ->  %m = select (a > b), a, b ; select (a is NaN), a, %m
"""

from fjit.backend.casts import extend_half, widen
from fjit.backend.emitter import Emitter, Val
from fjit.backend.math.table import MATH

# Tests and bits; any width


def _bits(em: Emitter, a: Val) -> Val:
    return em.bitcast(a, a.ty.as_int)


def _magnitude(em: Emitter, a: Val) -> Val:
    bits = _bits(em, a)
    return em.and_(bits, em.const(bits.ty, (1 << (a.ty.bits - 1)) - 1))


def _infinity(em: Emitter, a: Val) -> Val:
    """The bits of inf, as text that folds."""
    mantissa = {16: 10, 32: 23, 64: 52}[a.ty.bits]
    return em.const(a.ty.as_int, ((1 << (a.ty.bits - 1)) - 1) >> mantissa << mantissa)


def isnan(em: Emitter, a: Val) -> Val:
    """Whether a is NaN; any width."""
    if a.ty.bits == 16:
        return em.icmp("ugt", _magnitude(em, a), _infinity(em, a))
    return em.fcmp("uno", a, a)


def isinf(em: Emitter, a: Val) -> Val:
    """Whether a is inf or -inf; any width."""
    return em.icmp("eq", _magnitude(em, a), _infinity(em, a))


def isfinite(em: Emitter, a: Val) -> Val:
    """Whether a is neither NaN nor infinite; any width."""
    return em.icmp("ult", _magnitude(em, a), _infinity(em, a))


def signbit(em: Emitter, a: Val) -> Val:
    """The sign bit, of zeros and NaN too; any width."""
    return em.icmp("slt", _bits(em, a), em.const(a.ty.as_int, 0))


def neg(em: Emitter, a: Val) -> Val:
    """-a; any width. A GPU's own negation does not keep the bits of a NaN."""
    if a.ty.bits > 16 and not em.gpu:
        return em.fneg(a)
    bits = _bits(em, a)
    return em.bitcast(em.xor(bits, em.const(bits.ty, -1 << (a.ty.bits - 1))), a.ty)


def absolute(em: Emitter, a: Val) -> Val:
    """|a|; any width."""
    return em.fabs(a) if a.ty.bits > 16 else em.bitcast(_magnitude(em, a), a.ty)


def copysign(em: Emitter, a: Val, b: Val) -> Val:
    """|a| with the sign of b; any width."""
    if a.ty.bits > 16:
        return em.copysign(a, b)
    sign = em.and_(_bits(em, b), em.const(b.ty.as_int, -1 << 15))
    return em.bitcast(em.or_(_magnitude(em, a), sign), a.ty)


def nextafter(em: Emitter, a: Val, b: Val) -> Val:
    """The neighbour of a towards b; any width. Equal operands give b (float16: a)."""
    wide_a, wide_b = widen(em, a), widen(em, b)
    bits = _bits(em, a)
    zero = em.const(wide_a.ty, 0.0)
    outwards = em.xor(em.fcmp("olt", wide_a, wide_b), signbit(em, a))
    step = em.select(outwards, em.const(bits.ty, 1), em.const(bits.ty, -1))
    moved = em.bitcast(em.add(bits, step), a.ty)
    least = copysign(em, em.bitcast(em.const(bits.ty, 1), a.ty), b)
    result = em.select(em.fcmp("oeq", wide_a, zero), least, moved)
    same = em.fcmp("oeq", wide_a, wide_b)
    result = em.select(same, a if a.ty.bits == 16 else b, result)
    nan = em.select(isnan(em, a), a, b)
    return em.select(em.fcmp("uno", wide_a, wide_b), nan, result)


# Extrema and sign; any width


def maximum(em: Emitter, a: Val, b: Val) -> Val:
    """The larger, or a NaN; equal zeros give b (float16: a)."""
    return _extremum(em, "ogt", "olt", a, b)


def minimum(em: Emitter, a: Val, b: Val) -> Val:
    """The smaller, or a NaN; equal zeros give b (float16: a)."""
    return _extremum(em, "olt", "ogt", a, b)


def _extremum(em: Emitter, wins: str, loses: str, a: Val, b: Val) -> Val:
    if a.ty.bits == 16:
        inner = em.select(em.fcmp(loses, extend_half(em, a), extend_half(em, b)), b, a)
        return em.select(isnan(em, a), a, em.select(isnan(em, b), b, inner))
    return em.select(isnan(em, a), a, em.select(em.fcmp(wins, a, b), a, b))


def larger(em: Emitter, a: Val, b: Val) -> Val:
    """The larger of two numbers, neither NaN, in one instruction; any width, zeros as maximum."""
    pred = "oge" if a.ty.bits == 16 else "ogt"
    return em.select(em.fcmp(pred, widen(em, a), widen(em, b)), a, b)


def smaller(em: Emitter, a: Val, b: Val) -> Val:
    """The smaller of two numbers, neither NaN, in one instruction; any width, zeros as minimum."""
    pred = "ole" if a.ty.bits == 16 else "olt"
    return em.select(em.fcmp(pred, widen(em, a), widen(em, b)), a, b)


def fmax(em: Emitter, a: Val, b: Val) -> Val:
    """The larger of those that are no NaN."""
    return _numeric_extremum(em, "olt", a, b)


def fmin(em: Emitter, a: Val, b: Val) -> Val:
    """The smaller of those that are no NaN."""
    return _numeric_extremum(em, "ogt", a, b)


def _numeric_extremum(em: Emitter, loses: str, a: Val, b: Val) -> Val:
    inner = em.select(em.fcmp(loses, widen(em, a), widen(em, b)), b, a)
    return em.select(isnan(em, a), b, inner)


def sign(em: Emitter, a: Val) -> Val:
    """-1, 0 (of either sign of zero) or 1; NaN stays."""
    wide = widen(em, a)
    zero = em.const(wide.ty, 0.0)
    rest = em.select(em.fcmp("oeq", wide, zero), em.const(a.ty, 0.0), a)
    rest = em.select(em.fcmp("olt", wide, zero), em.const(a.ty, -1.0), rest)
    return em.select(em.fcmp("ogt", wide, zero), em.const(a.ty, 1.0), rest)


# Division with rounding to integers


def fmod(em: Emitter, a: Val, b: Val) -> Val:
    """The exact remainder with the sign of a."""
    return MATH["fmod"](em, a, b)


def mod(em: Emitter, a: Val, b: Val) -> Val:
    """Remainder with the sign of b, as npy_divmod; a zero remainder has the sign of b."""
    rest = fmod(em, a, b)
    by_zero = em.fcmp("oeq", b, em.const(b.ty, 0.0))
    _, lifted = _python_remainder(em, b, rest)
    return em.select(by_zero, rest, lifted)


def _python_remainder(em: Emitter, b: Val, rest: Val) -> tuple[Val, Val]:
    """Return (whether b was added, the remainder with b's sign) from C's remainder."""
    zero = em.const(b.ty, 0.0)
    some = em.fcmp("une", rest, zero)
    differ = em.xor(em.fcmp("olt", b, zero), em.fcmp("olt", rest, zero))
    adjust = em.and_(some, differ)
    lifted = em.select(adjust, em.fadd(rest, b), rest)
    return adjust, em.select(some, lifted, em.copysign(zero, b))


def floordiv(em: Emitter, a: Val, b: Val) -> Val:
    """floor(a / b) from the exact remainder, as npy_divmod."""
    zero, one = em.const(a.ty, 0.0), em.const(a.ty, 1.0)
    by_zero = em.fcmp("oeq", b, zero)
    rest = fmod(em, a, em.select(by_zero, one, b))  # NumPy takes no remainder: no invalid flag
    adjust, _ = _python_remainder(em, b, rest)
    ratio = em.fdiv(em.fsub(a, rest), b)
    ratio = em.select(adjust, em.fsub(ratio, one), ratio)
    whole = em.floor(ratio)
    up = em.fcmp("ogt", em.fsub(ratio, whole), em.const(a.ty, 0.5))
    whole = em.select(up, em.fadd(whole, one), whole)
    plain = em.fdiv(a, b)
    whole = em.select(em.fcmp("une", ratio, zero), whole, em.copysign(zero, plain))
    return em.select(by_zero, plain, whole)
