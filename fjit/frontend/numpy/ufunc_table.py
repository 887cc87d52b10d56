"""One table of NumPy's ufuncs: name -> how operands are promoted, what is recorded.

A builder takes the trace and the operands' atoms, already cast to the dtypes of NumPy's own loop
and aligned, and gives the result's atom (a tuple for two results):

    np.square(x)      records      b = mul a a

Invariant: a builder records only what NumPy's loop computes, in that dtype, operation by operation;
what a ufunc returns for a dtype is therefore decided here and by `ufunc.resolve_dtypes` alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Literal, Primitive
from fjit.core.trace import Trace, where
from fjit.errors import FjitValueError

Build = Callable[..., Any]  # (trace, *atoms) -> Atom, or a tuple of atoms
F16: Final = np.dtype(np.float16)
U8: Final = np.dtype(np.uint8)
U64: Final = np.dtype(np.uint64)


class Promotion(Enum):
    """How operands get the dtypes that a builder takes."""

    LOOP = "the dtypes of NumPy's loop"
    TRUTH = "each operand as bool: is it nonzero"
    COMPARE = "as LOOP, but integers of any size compare exactly"


class Row(NamedTuple):
    """A ufunc's promotion and builder."""

    promotion: Promotion
    build: Build


def cast(trace: Trace, atom: Atom, dtype: np.dtype[Any]) -> Atom:
    """`atom` in `dtype`, folded for literals."""
    if atom.aval.dtype == dtype:
        return atom
    if isinstance(atom, Literal):
        return trace.literal(atom.value, dtype)
    return trace.emit(p.convert, atom, dtype=dtype)


def like(trace: Trace, value: object, atom: Atom) -> Literal:
    """The literal `value` in the dtype of `atom`."""
    return trace.literal(value, atom.aval.dtype)


def _is(primitive: Primitive) -> Build:
    return lambda trace, *atoms: trace.emit(primitive, *atoms)


def _whole(primitive: Primitive) -> Build:
    """A rounding: the identity on integers."""

    def build(trace: Trace, a: Atom) -> Atom:
        return trace.emit(primitive, a) if a.aval.dtype.kind == "f" else a

    return build


def _float_test(primitive: Primitive, otherwise: bool) -> Build:
    """A test of floats with a constant answer for integers."""

    def build(trace: Trace, a: Atom) -> Atom:
        if a.aval.dtype.kind == "f":
            return trace.emit(primitive, a)
        return trace.literal(otherwise, dtypes.BOOL)

    return build


def _by_kind(floating: Primitive, integer: Primitive) -> Build:
    def build(trace: Trace, *atoms: Atom) -> Atom:
        return trace.emit(floating if atoms[0].aval.dtype.kind == "f" else integer, *atoms)

    return build


def _identity(trace: Trace, a: Atom) -> Atom:
    return a


def _absolute(trace: Trace, a: Atom) -> Atom:
    return a if a.aval.dtype.kind in "bu" else trace.emit(p.abs_, a)


def _square(trace: Trace, a: Atom) -> Atom:
    return trace.emit(p.mul, a, a)


def _reciprocal(trace: Trace, a: Atom) -> Atom:
    if a.aval.dtype.kind == "f":
        return trace.emit(p.div, like(trace, 1, a), a)
    return trace.emit(p.reciprocal, a)


def _scaled(numerator: float, denominator: float) -> Build:
    """Multiplication by a quotient formed in the loop's dtype; float16 works in float32."""

    def build(trace: Trace, a: Atom) -> Atom:
        half = a.aval.dtype == F16
        wide = cast(trace, a, dtypes.F32) if half else a
        kind = wide.aval.dtype.type
        factor = like(trace, kind(numerator) / kind(denominator), wide)
        return cast(trace, trace.emit(p.mul, wide, factor), a.aval.dtype)

    return build


def _power(trace: Trace, a: Atom, b: Atom) -> Atom:
    if isinstance(b, Literal):
        exponent: Any = b.value
        if b.aval.dtype.kind == "i" and exponent < 0:
            raise FjitValueError(
                f"Integers to negative integer powers are not allowed. (at {where()})"
            )
        if exponent == 2:  # NumPy's own loop does so for one exponent
            return trace.emit(p.mul, a, a)
    return trace.emit(p.pow_, a, b)


def _divmod(trace: Trace, a: Atom, b: Atom) -> tuple[Atom, Atom]:
    return trace.emit(p.floordiv, a, b), trace.emit(p.mod, a, b)


def _modf(trace: Trace, a: Atom) -> tuple[Atom, Atom]:
    whole = trace.emit(p.trunc, a)
    rest = trace.emit(p.sub, a, whole)
    rest = trace.emit(p.select, trace.emit(p.isinf, a), like(trace, 0, a), rest)
    return trace.emit(p.copysign, rest, a), whole


def _heaviside(trace: Trace, a: Atom, b: Atom) -> Atom:
    zero, one = like(trace, 0, a), like(trace, 1, a)
    result = trace.emit(p.select, trace.emit(p.lt, a, zero), zero, one)
    result = trace.emit(p.select, trace.emit(p.eq, a, zero), b, result)
    return trace.emit(p.select, trace.emit(p.isnan, a), like(trace, math.nan, a), result)


def _bitwise_count(trace: Trace, a: Atom) -> Atom:
    """Hacker's Delight, 5-1: add neighbouring bits, pairs, nibbles; then bytes by a product."""
    if a.aval.dtype.kind == "i":
        a = trace.emit(p.abs_, a)
    bits = cast(trace, a, U64)

    def lit(value: int) -> Literal:
        return trace.literal(value, U64)

    pairs = trace.emit(p.and_, trace.emit(p.shr, bits, lit(1)), lit(0x5555555555555555))
    bits = trace.emit(p.sub, bits, pairs)
    low = trace.emit(p.and_, bits, lit(0x3333333333333333))
    high = trace.emit(p.and_, trace.emit(p.shr, bits, lit(2)), lit(0x3333333333333333))
    bits = trace.emit(p.add, low, high)
    bits = trace.emit(p.add, bits, trace.emit(p.shr, bits, lit(4)))
    bits = trace.emit(p.and_, bits, lit(0x0F0F0F0F0F0F0F0F))
    total = trace.emit(p.mul, bits, lit(0x0101010101010101))
    return cast(trace, trace.emit(p.shr, total, lit(56)), U8)


def _bitwise_count_of(trace: Trace, a: Atom) -> Atom:
    """The count of set bits of |a|; the most negative number counts its one bit."""
    count = _bitwise_count(trace, a)
    if a.aval.dtype.kind != "i":
        return count
    lowest = like(trace, np.iinfo(a.aval.dtype).min, a)
    is_lowest = trace.emit(p.eq, a, lowest)
    return trace.emit(p.select, is_lowest, trace.literal(1, U8), count)


def _compare(primitive: Primitive, swapped: Primitive, negative_left: bool) -> Build:
    """A comparison; int64 with uint64 compares values, so a negative number decides by itself.

    `negative_left` is the answer when the left operand is negative and the right unsigned.
    """

    def mixed(trace: Trace, a: Atom, b: Atom, test: Primitive, if_negative: bool) -> Atom:
        below = trace.emit(p.lt, a, like(trace, 0, a))
        tested = trace.emit(test, cast(trace, a, U64), b)
        if if_negative:
            return trace.emit(p.or_, below, tested)
        return trace.emit(p.and_, trace.emit(p.not_, below), tested)

    negative_right = swapped is primitive and negative_left
    if swapped is not primitive:
        negative_right = not negative_left

    def build(trace: Trace, a: Atom, b: Atom) -> Atom:
        if a.aval.dtype == b.aval.dtype:
            return trace.emit(primitive, a, b)
        if a.aval.dtype == dtypes.I64:
            return mixed(trace, a, b, primitive, negative_left)
        return mixed(trace, b, a, swapped, negative_right)

    return build


L, T, C = Promotion.LOOP, Promotion.TRUTH, Promotion.COMPARE
# fmt: off
TABLE: Final[dict[str, Row]] = {
    "negative":      Row(L, _is(p.neg)),
    "positive":      Row(L, _identity),
    "absolute":      Row(L, _absolute),
    "fabs":          Row(L, _is(p.abs_)),
    "sign":          Row(L, _is(p.sign)),
    "square":        Row(L, _square),
    "sqrt":          Row(L, _is(p.sqrt)),
    "cbrt":          Row(L, _is(p.cbrt)),
    "reciprocal":    Row(L, _reciprocal),
    "conjugate":     Row(L, _identity),
    "floor":         Row(L, _whole(p.floor)),
    "ceil":          Row(L, _whole(p.ceil)),
    "trunc":         Row(L, _whole(p.trunc)),
    "rint":          Row(L, _is(p.rint)),
    "isnan":         Row(L, _float_test(p.isnan, False)),
    "isinf":         Row(L, _float_test(p.isinf, False)),
    "isfinite":      Row(L, _float_test(p.isfinite, True)),
    "signbit":       Row(L, _is(p.signbit)),
    "exp":           Row(L, _is(p.exp)),
    "exp2":          Row(L, _is(p.exp2)),
    "expm1":         Row(L, _is(p.expm1)),
    "log":           Row(L, _is(p.log)),
    "log2":          Row(L, _is(p.log2)),
    "log10":         Row(L, _is(p.log10)),
    "log1p":         Row(L, _is(p.log1p)),
    "sin":           Row(L, _is(p.sin)),
    "cos":           Row(L, _is(p.cos)),
    "tan":           Row(L, _is(p.tan)),
    "arcsin":        Row(L, _is(p.asin)),
    "arccos":        Row(L, _is(p.acos)),
    "arctan":        Row(L, _is(p.atan)),
    "sinh":          Row(L, _is(p.sinh)),
    "cosh":          Row(L, _is(p.cosh)),
    "tanh":          Row(L, _is(p.tanh)),
    "arcsinh":       Row(L, _is(p.asinh)),
    "arccosh":       Row(L, _is(p.acosh)),
    "arctanh":       Row(L, _is(p.atanh)),
    "deg2rad":       Row(L, _scaled(math.pi, 180)),
    "radians":       Row(L, _scaled(math.pi, 180)),
    "rad2deg":       Row(L, _scaled(180, math.pi)),
    "degrees":       Row(L, _scaled(180, math.pi)),
    "add":           Row(L, _is(p.add)),
    "subtract":      Row(L, _is(p.sub)),
    "multiply":      Row(L, _is(p.mul)),
    "divide":        Row(L, _is(p.div)),
    "floor_divide":  Row(L, _is(p.floordiv)),
    "remainder":     Row(L, _is(p.mod)),
    "fmod":          Row(L, _is(p.fmod)),
    "divmod":        Row(L, _divmod),
    "modf":          Row(L, _modf),
    "power":         Row(L, _power),
    "float_power":   Row(L, _power),
    "maximum":       Row(L, _is(p.max_)),
    "minimum":       Row(L, _is(p.min_)),
    "fmax":          Row(L, _by_kind(p.fmax, p.max_)),
    "fmin":          Row(L, _by_kind(p.fmin, p.min_)),
    "arctan2":       Row(L, _is(p.atan2)),
    "hypot":         Row(L, _is(p.hypot)),
    "copysign":      Row(L, _is(p.copysign)),
    "nextafter":     Row(L, _is(p.nextafter)),
    "logaddexp":     Row(L, _is(p.logaddexp)),
    "logaddexp2":    Row(L, _is(p.logaddexp2)),
    "heaviside":     Row(L, _heaviside),
    "invert":        Row(L, _is(p.not_)),
    "bitwise_and":   Row(L, _is(p.and_)),
    "bitwise_or":    Row(L, _is(p.or_)),
    "bitwise_xor":   Row(L, _is(p.xor)),
    "left_shift":    Row(L, _is(p.shl)),
    "right_shift":   Row(L, _is(p.shr)),
    "bitwise_count": Row(L, _bitwise_count_of),
    "logical_not":   Row(T, _is(p.not_)),
    "logical_and":   Row(T, _is(p.and_)),
    "logical_or":    Row(T, _is(p.or_)),
    "logical_xor":   Row(T, _is(p.xor)),
    "equal":         Row(C, _compare(p.eq, p.eq, negative_left=False)),
    "not_equal":     Row(C, _compare(p.ne, p.ne, negative_left=True)),
    "less":          Row(C, _compare(p.lt, p.gt, negative_left=True)),
    "less_equal":    Row(C, _compare(p.le, p.ge, negative_left=True)),
    "greater":       Row(C, _compare(p.gt, p.lt, negative_left=False)),
    "greater_equal": Row(C, _compare(p.ge, p.le, negative_left=False)),
}
# fmt: on
