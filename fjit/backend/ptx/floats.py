"""Floating arithmetic of PTX: float16, bfloat16, float32 and float64, single and packed.

Takes an instruction, gives an Operation, or None where its types are integers. Invariant: results
are correctly rounded in the mode the instruction names; `.ftz` flushes subnormal operands and
results of float32 to zero of their sign, `.sat` clamps to [0, 1] with NaN to 0.

    fma.rn.ftz.f32  ->  Operation(f32, (f32,) * 3, flush(fma(flush(a), flush(b), flush(c))))
"""

from collections.abc import Callable

import numpy as np

from fjit.backend.ptx import rounding
from fjit.backend.ptx.bfloat import shorten, widen
from fjit.backend.ptx.operation import Operation, Rule, same
from fjit.backend.ptx.program import Instruction
from fjit.backend.ptx.types import PRED

Arithmetic = Callable[..., np.ndarray]
SMALLEST = {2: 2.0**-14, 4: 2.0**-126}
"""The least normal numbers, by bytes, of the dtypes that .ftz concerns."""


def mode_of(ins: Instruction) -> str:
    return next((flag for flag in ins.flags if flag in rounding.MODES), "rn")


def flush(a: np.ndarray) -> np.ndarray:
    """Zero, with its sign, for subnormal numbers of float16 and float32."""
    small = np.abs(a) < np.array(SMALLEST.get(a.dtype.itemsize, 0.0), a.dtype)
    return np.where(small, np.copysign(np.zeros(1, a.dtype), a), a)


def saturate(a: np.ndarray) -> np.ndarray:
    """Clamped to [0, 1]; NaN and -0 become 0."""
    zero, one = np.zeros(1, a.dtype), np.ones(1, a.dtype)
    return np.where(a > 0, np.minimum(a, one), zero)


def floating(ins: Instruction, count: int, function: Arithmetic) -> Operation:
    """An operation on `count` operands of the instruction's type, with its modifiers applied.

    With two types, as in fma.rn.f32.f16, the result and the last operand have the first one.
    """
    ty, narrow = ins.types[0], ins.type
    ftz, sat, bfloat = ins.has("ftz"), ins.has("sat"), ty.kind == "t"
    mixed = len(ins.types) == 2

    def compute(*operands: np.ndarray) -> np.ndarray:
        values = [widen(v) for v in operands] if bfloat else list(operands)
        if mixed:
            *factors, last = operands
            half = narrow.kind == "t"
            values = [widen(v) if half else v.astype(np.float32) for v in factors] + [last]
        if ftz:
            values = [flush(v) for v in values]
        result = function(*values)
        result = flush(result) if ftz else result
        result = saturate(result) if sat else result
        result = np.maximum(result, 0) if ins.has("relu") else result
        return shorten(result) if bfloat else result

    if mixed:
        return Operation(ty, (narrow,) * (count - 1) + (ty,), compute)
    return same(ty, count, compute)


def _rounded(function: Callable[..., np.ndarray], count: int) -> Rule:
    """A rule for an operation of rounding.py, which takes the mode last."""

    def rule(ins: Instruction) -> Operation | None:
        if not ins.type.floating:
            return None
        mode = mode_of(ins)
        return floating(ins, count, lambda *operands: function(*operands, mode))

    return rule


def _subtract(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    return rounding.add(a, -b, mode)


def _fma_rule(ins: Instruction) -> Operation | None:
    """bfloat16 goes through float64: rounding to float32 in between would round twice."""
    if ins.type.kind != "t":
        return _rounded(rounding.fma, 3)(ins)

    def exact(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        x, y, z = (v.astype(np.float64) for v in (a, b, c))
        return rounding.to_odd(*rounding.two_sum(x * y, z))

    return floating(ins, 3, exact)


def _mad(ins: Instruction) -> Operation | None:
    """mad of floats is fma; without a rounding mode it is not for any machine of today."""
    return _fma_rule(ins) if ins.has(*rounding.MODES) else None


# Division and roots


def _reciprocal(a: np.ndarray, mode: str) -> np.ndarray:
    return rounding.divide(np.ones(1, a.dtype), a, mode)


def _rcp(ins: Instruction) -> Operation | None:
    if ins.has("approx") and ins.type.bits == 64:
        return same(ins.type, 1, lambda a: coarse(1.0 / coarse(a)))
    return _rounded(_reciprocal, 1)(ins)


def _rsqrt(ins: Instruction) -> Operation | None:
    if ins.has("ftz") and ins.type.bits == 64:
        return same(ins.type, 1, lambda a: coarse(1.0 / np.sqrt(coarse(a))))
    return floating(ins, 1, lambda a: through_double(a, lambda x: 1.0 / np.sqrt(x)))


def coarse(a: np.ndarray) -> np.ndarray:
    """The upper 32 bits of float64 numbers, subnormal ones flushed, as .approx.ftz forms use."""
    kept = (a.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    small = np.abs(kept) < 2.0**-1022
    return np.where(small, np.copysign(0.0, kept), kept)


def through_double(a: np.ndarray, function: Arithmetic) -> np.ndarray:
    """A function evaluated in float64 and rounded to the operand's dtype."""
    return function(a.astype(np.float64)).astype(a.dtype)


def _approximate(function: Arithmetic) -> Rule:
    """ex2, lg2, sin, cos and tanh: far better than their documented errors."""

    def rule(ins: Instruction) -> Operation | None:
        if not ins.has("approx"):
            return None
        return floating(ins, 1, lambda a: through_double(a, function))

    return rule


# Signs, minimum and maximum


def _neg(ins: Instruction) -> Operation | None:
    return floating(ins, 1, np.negative) if ins.type.floating else None


def _abs(ins: Instruction) -> Operation | None:
    return floating(ins, 1, np.abs) if ins.type.floating else None


def smaller(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The minimum; -0 before +0, a number before NaN."""
    first = (a < b) | ((a == b) & np.signbit(a)) | np.isnan(b)
    return np.where(first, a, b)


def larger(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The maximum; +0 before -0, a number before NaN."""
    first = (a > b) | ((a == b) & np.signbit(b)) | np.isnan(b)
    return np.where(first, a, b)


def _extreme(function: Arithmetic) -> Rule:
    def rule(ins: Instruction) -> Operation | None:
        if not ins.type.floating:
            return None
        nan, xorsign = ins.has("NaN"), ins.has("xorsign")

        def pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            if not xorsign:
                result = function(a, b)
            else:
                sign = np.where(np.signbit(a) != np.signbit(b), -1, 1).astype(a.dtype)
                result = np.copysign(function(np.abs(a), np.abs(b)), sign)
            return np.where(np.isnan(a) | np.isnan(b), a + b, result) if nan else result

        if len(ins.operands) == 4:
            return floating(ins, 3, lambda a, b, c: pair(pair(a, b), c))
        return floating(ins, 2, pair)

    return rule


def _copysign(ins: Instruction) -> Operation:
    """The sign of the first operand, the magnitude of the second."""
    return floating(ins, 2, lambda a, b: np.copysign(b, a))


def _testp(ins: Instruction) -> Operation | None:
    tests: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny),
    }
    test = next((tests[flag] for flag in ins.flags if flag in tests), None)
    return None if test is None else Operation(PRED, (ins.type,), test)


RULES: dict[str, Rule] = {
    "add": _rounded(rounding.add, 2),
    "sub": _rounded(_subtract, 2),
    "mul": _rounded(rounding.multiply, 2),
    "fma": _fma_rule,
    "mad": _mad,
    "div": _rounded(rounding.divide, 2),
    "rcp": _rcp,
    "sqrt": _rounded(rounding.root, 1),
    "rsqrt": _rsqrt,
    "ex2": _approximate(np.exp2),
    "lg2": _approximate(np.log2),
    "sin": _approximate(np.sin),
    "cos": _approximate(np.cos),
    "tanh": _approximate(np.tanh),
    "neg": _neg,
    "abs": _abs,
    "min": _extreme(smaller),
    "max": _extreme(larger),
    "copysign": _copysign,
    "testp": _testp,
}
