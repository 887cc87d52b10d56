"""What the elementary functions share: polynomials, exact sums and products, bits of floats.

Takes and gives values of one floating type, any number of lanes. A pair `(hi, lo)` is an
unevaluated sum with |lo| <= ulp(hi)/2, after Dekker, "A floating-point technique for extending the
available precision", 1971, and Knuth, TAOCP 2, 4.2.2.

    two_sum(e, a, b)   ->   %s = fadd a, b ; ... ; (s, the rounding error of s)

Coefficients in this package are minimax fits (Remez exchange in 250-bit arithmetic, weighted by
the error that each function tolerates), lowest order first; each says what it approximates.
"""

import math
from collections.abc import Callable, Sequence

from fjit.backend.emitter import Emitter, Ty, Val

Pair = tuple[Val, Val]

MANTISSA = {32: 23, 64: 52}
BIAS = {32: 127, 64: 1023}
ROUNDER = {32: 1.5 * 2.0**23, 64: 1.5 * 2.0**52}  # adding it rounds to an integer in the low bits
TINY_NORMAL = {32: 2.0**-126, 64: 2.0**-1022}
LN2 = 0.6931471805599453
SCALE_BITS = (128, 256, 512)  # the vectors that AVX-512 multiplies by powers of two
# less the bits of x, they are those of 1/(2x) to one part in 20
HALF_INVERSE_BITS = {32: 0x7E7127EA, 64: 0x7FCE623822FC16E6}
ONE_BITS = {32: 127 << 23, 64: 1023 << 52}


def like(e: Emitter, x: Val, number: float) -> Val:
    """Return a constant of the type of `x`."""
    return e.const(x.ty, number)


def int_like(e: Emitter, x: Val, number: int) -> Val:
    """Return an integer constant as wide as `x`, lane by lane."""
    return e.const(x.ty.as_int, number)


def poly(e: Emitter, x: Val, coefficients: Sequence[float]) -> Val:
    """Evaluate a polynomial by Estrin's scheme, lowest coefficient first."""
    return estrin(e, x, [like(e, x, c) for c in coefficients])


def estrin(e: Emitter, x: Val, terms: list[Val]) -> Val:
    """Evaluate a polynomial whose coefficients may differ by lane, lowest first."""
    power = x
    while len(terms) > 1:
        pairs = [e.fma(hi, power, lo) for lo, hi in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(pairs) * 2 :]
        if len(terms) > 1:
            power = e.fmul(power, power)
    return terms[0]


def horner(e: Emitter, x: Val, coefficients: Sequence[float]) -> Val:
    """Evaluate a short polynomial with one multiply-add per coefficient."""
    total = like(e, x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = e.fma(total, x, like(e, x, c))
    return total


def fast_two_sum(e: Emitter, a: Val, b: Val) -> Pair:
    """a + b exactly, for |a| >= |b| or a = 0."""
    s = e.fadd(a, b)
    return s, e.fsub(b, e.fsub(s, a))


def two_sum(e: Emitter, a: Val, b: Val) -> Pair:
    """a + b exactly, in any order of size."""
    s = e.fadd(a, b)
    of_b = e.fsub(s, a)
    return s, e.fadd(e.fsub(a, e.fsub(s, of_b)), e.fsub(b, of_b))


def two_prod(e: Emitter, a: Val, b: Val) -> Pair:
    """a * b exactly."""
    p = e.fmul(a, b)
    return p, e.fma(a, b, e.fneg(p))


def pair_div(e: Emitter, num: Pair, den: Pair) -> Pair:
    """num / den to about twice the working precision, with one division."""
    inverse = e.fdiv(like(e, num[0], 1.0), den[0])
    q = e.fmul(num[0], inverse)
    rest = e.fma(e.fneg(q), den[0], num[0])
    rest = e.fadd(rest, e.fma(e.fneg(q), den[1], num[1]))
    return fast_two_sum(e, q, e.fmul(rest, inverse))


def pair_sqrt(e: Emitter, h: Val, lo: Val) -> Pair:
    """sqrt(h + lo) for h >= 0; a zero stays zero."""
    s, correction = positive_root(e, h, lo)
    return s, e.select(e.fcmp("ogt", s, like(e, s, 0.0)), correction, like(e, s, 0.0))


def positive_root(e: Emitter, h: Val, lo: Val) -> Pair:
    """sqrt(h + lo) for h > 0."""
    s = e.sqrt(h)
    rest = e.fadd(e.fma(e.fneg(s), s, h), lo)
    return s, e.fmul(rest, e.fdiv(like(e, s, 0.5), s))


def rough_root(e: Emitter, h: Val, lo: Val) -> Pair:
    """sqrt(h + lo) for h >= 0, its low part to one part in 20, from the bits of the high part."""
    s = e.sqrt(h)
    rest = e.fadd(e.fma(e.fneg(s), s, h), lo)
    inverse = from_bits(e, e.sub(int_like(e, s, HALF_INVERSE_BITS[s.ty.bits]), bits_of(e, s)))
    return s, e.fmul(rest, inverse)


def bits_of(e: Emitter, x: Val) -> Val:
    """The bits of a float as an integer."""
    return e.bitcast(x, x.ty.as_int)


def from_bits(e: Emitter, bits: Val) -> Val:
    """The float with these bits."""
    return e.bitcast(bits, bits.ty.as_float)


def round_scaled(e: Emitter, x: Val, factor: float) -> tuple[Val, Val]:
    """Round x * factor to an integer n, small beside the mantissa: (word ending in n, n)."""
    rounder = like(e, x, ROUNDER[x.ty.bits])
    t = e.fma(x, like(e, x, factor), rounder)
    return bits_of(e, t), e.fsub(t, rounder)


def power_of_two(e: Emitter, word: Val) -> Val:
    """2**n for a normal result, n in the low bits of `word`."""
    bits = word.ty.bits
    shifted = e.shl(word, e.const(word.ty, MANTISSA[bits]))
    return from_bits(e, e.add(shifted, e.const(word.ty, ONE_BITS[bits])))


def scale_normal(e: Emitter, p: Val, word: Val) -> Val:
    """p * 2**n for a normal result; NaN may become anything."""
    shifted = e.shl(word, e.const(word.ty, MANTISSA[word.ty.bits]))
    return from_bits(e, e.add(bits_of(e, p), shifted))


def scale(e: Emitter, p: Val, word: Val, n: Val | None = None, *, normal: bool = False) -> Val:
    """p * 2**n, n in the low bits of `word`; a subnormal result is rounded once from p, NaN stays.

    With n as a float it is one instruction where there is one, else one multiplication where the
    result is `normal`, else two.
    """
    if n is not None and e.hardware_scale and p.ty.lanes * p.ty.bits >= SCALE_BITS[0]:
        return _scaled(e, p, n)
    if normal:
        return e.fmul(p, power_of_two(e, word))
    half = e.lshr(word, e.const(word.ty, 1))
    p = e.fmul(p, power_of_two(e, half))
    return e.fmul(p, power_of_two(e, e.sub(word, half)))


def _scaled(e: Emitter, p: Val, n: Val) -> Val:
    """p * 2**n by AVX-512's instruction, register by register."""
    lanes = min(p.ty.lanes, SCALE_BITS[-1] // p.ty.bits)
    ty = p.ty.with_lanes(lanes)
    kind = f"p{'s' if ty.bits == 32 else 'd'}.{lanes * ty.bits}"
    every = e.const(Ty("i", max(lanes, 8)), -1)
    rounding = (e.const(Ty("i", 32), 4),) if lanes * ty.bits == SCALE_BITS[-1] else ()
    parts = []
    for first in range(0, p.ty.lanes, lanes):
        a, b = (e.shuffle(v, v, range(first, first + lanes)) for v in (p, n))
        name = f"llvm.x86.avx512.mask.scalef.{kind}"
        parts.append(e.call(name, ty, a, b, e.const(ty, 0.0), every, *rounding))
    while len(parts) > 1:
        both = range(2 * parts[0].ty.lanes)
        parts = [e.shuffle(a, b, both) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def clamp(e: Emitter, x: Val, lo: float, hi: float) -> Val:
    """Limit x to [lo, hi] and keep NaN."""
    top, bottom = like(e, x, hi), like(e, x, lo)
    x = e.select(e.fcmp("olt", top, x), top, x)
    return e.select(e.fcmp("ogt", bottom, x), bottom, x)


def sign_bit(e: Emitter, x: Val) -> Val:
    """The integer whose only bit is the sign of `x`."""
    return int_like(e, x, 1 << (x.ty.bits - 1))


def flip_sign(e: Emitter, x: Val, sign_word: Val) -> Val:
    """Negate x where the top bit of `sign_word` is set."""
    return from_bits(e, e.xor(bits_of(e, x), e.and_(sign_word, sign_bit(e, x))))


def keep_tiny(e: Emitter, x: Val, result: Val, limit: float) -> Val:
    """Return x itself where |x| < limit: right for f(x) = x + O(x^2) there, and keeps -0."""
    return e.select(e.fcmp("olt", e.fabs(x), like(e, x, limit)), x, result)


def through_f64(ty: Ty) -> bool:
    """Whether a type is narrow enough to be computed in float64."""
    return ty.bits < 64


def patched(
    e: Emitter, name: str, odd: Val, value: Val, args: tuple[Val, ...], write: Callable[..., Val]
) -> Val:
    """Return `value`, or `write(e, *args)` by way of a cold function if a lane is `odd`.

    All lanes then come from `write`, which has to give the others their same bits.
    """
    ty = value.ty
    guard = f"fjit.{name}_guard.{ty.suffix}"
    if guard not in e.helpers:
        cold = outlined(e, f"{name}_cold", args, ty, write)
        _write_guard(e, guard, cold, (odd, value, *args))
    return e.call_struct(guard, (ty,), odd, value, *args)[0]


def outlined(e: Emitter, name: str, args: Sequence[Val], ty: Ty, write: Callable[..., Val]) -> str:
    """The name of a cold helper that returns `write(e, *args)`."""
    name = f"fjit.{name}.{ty.suffix}"
    if name not in e.helpers:
        params, inner = _parameters(args)
        sub = e.nested()
        sub.ret_struct(write(sub, *inner))
        e.adopt(sub, name, params, "noinline cold nounwind", (ty,))
    return name


def _write_guard(e: Emitter, name: str, cold: str, args: tuple[Val, ...]) -> None:
    sub, (params, inner) = e.nested(), _parameters(args)
    odd, value, *rest = inner
    some = sub.any_(odd)
    sub.br("test")
    sub.label("test")
    sub.cond_br(some, "cold", "done")
    sub.label("cold")
    (other,) = sub.call_struct(cold, (value.ty,), *rest)
    sub.br("done")
    sub.label("done")
    sub.ret_struct(sub.phi(value.ty, (value, "test"), (other, "cold")))
    e.adopt(sub, name, params, "alwaysinline nounwind", (value.ty,))


def _parameters(args: Sequence[Val]) -> tuple[list[tuple[Ty, str]], list[Val]]:
    params = [(arg.ty, f"a{k}") for k, arg in enumerate(args)]
    return params, [Val(ty, f"%{name}") for ty, name in params]


def outside(e: Emitter, x: Val, least: float, top: float) -> Val:
    """Whether x, bits and sign, lies outside [least, top); negative and NaN do."""
    low, high = (bits_of(e, like(e, x, bound)) for bound in (least, top))
    return e.icmp("uge", e.sub(bits_of(e, x), low), e.sub(high, low))


INF = math.inf
NAN = math.nan
