"""cvt: every conversion between the types of PTX.

Takes an instruction, gives an Operation. Invariant: a float becomes an integer rounded as asked and
clamped to its range, NaN becomes 0 (or, from float64 or to 64 bits, the least signed number), and
between floats values are rounded once.

    cvt.rzi.s32.f32 d, 3e9  ->  2147483647        cvt.rni.f32.f32 d, 2.5  ->  2.0
"""

from collections.abc import Callable

import numpy as np

from fjit.backend.ptx.bfloat import shorten, widen
from fjit.backend.ptx.floats import flush, mode_of, saturate
from fjit.backend.ptx.operation import Operation, Rule
from fjit.backend.ptx.program import Instruction
from fjit.backend.ptx.rounding import directed, narrow, to_odd, two_sum
from fjit.backend.ptx.types import TYPES, Type

WHOLE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


def _cvt(ins: Instruction) -> Operation | None:
    if len(ins.types) != 2:
        return None
    target, source = ins.types
    if target.packed == 2:
        return _cvt_pair(ins)
    if source.kind == "b" or target.kind == "b":
        return None
    if not source.floating:
        convert = _from_integer(ins, source, target)
    elif not target.floating:
        convert = _to_integer(ins, source, target)
    else:
        convert = _between_floats(ins, source, target)
    return Operation(target, (source,), convert)


def _from_integer(
    ins: Instruction, source: Type, target: Type
) -> Callable[[np.ndarray], np.ndarray]:
    mode, sat = mode_of(ins), ins.has("sat")

    def convert(a: np.ndarray) -> np.ndarray:
        if target.floating:
            return _limited(from_integer(a, target, mode), ins, target)
        if not sat:
            return a.astype(target.seen)
        limits, own = np.iinfo(target.seen), np.iinfo(a.dtype)
        kept = np.clip(a, max(limits.min, own.min), min(limits.max, own.max))
        return np.asarray(kept.astype(target.seen))

    return convert


def from_integer(a: np.ndarray, target: Type, mode: str) -> np.ndarray:
    """Integers as floats, rounded once: exact as a sum of two float64 halves."""
    if a.dtype.itemsize < 8:
        value, error = a.astype(np.float64), np.zeros(1)
    else:
        bits = np.array(32, a.dtype)
        upper = (a >> bits).astype(np.float64) * 2.0**32
        lower = (a & np.array(0xFFFFFFFF, a.dtype)).astype(np.float64)
        value, error = two_sum(upper, lower)
    if target.kind == "t":
        return shorten(to_odd(value, error), mode)
    if target.bits == 64:
        return directed(value, error, mode)
    return narrow(to_odd(value, error), target.seen, mode)


def _to_integer(ins: Instruction, source: Type, target: Type) -> Callable[[np.ndarray], np.ndarray]:
    whole = next((WHOLE[flag] for flag in ins.flags if flag in WHOLE), np.trunc)
    limits = np.iinfo(target.seen)
    wide = source.bits == 64 or target.bits == 64
    nan = 1 << (target.bits - 1) if wide else 0
    least, beyond = float(limits.min), 2.0 ** (target.bits - target.signed)

    def convert(a: np.ndarray) -> np.ndarray:
        value = widen(a) if source.kind == "t" else a
        value = whole((flush(value) if ins.has("ftz") else value).astype(np.float64))
        inside = (value >= least) & (value < beyond)
        number = np.where(inside, value, 0.0).astype(target.seen)
        number = np.where(value >= beyond, np.array(limits.max, target.seen), number)
        number = np.where(value < least, np.array(limits.min, target.seen), number)
        missing = np.array(nan, TYPES[f"u{target.bits}"].seen).view(target.seen)
        return np.where(np.isnan(value), missing, number)

    return convert


def _between_floats(
    ins: Instruction, source: Type, target: Type
) -> Callable[[np.ndarray], np.ndarray]:
    whole = next((WHOLE[flag] for flag in ins.flags if flag in WHOLE), None)
    mode, ftz = mode_of(ins), ins.has("ftz")

    def convert(a: np.ndarray) -> np.ndarray:
        value = widen(a) if source.kind == "t" else a
        value = flush(value) if ftz else value
        value = value if whole is None else whole(value)
        if target.kind == "t":
            result = shorten(value, mode)
        elif value.dtype.itemsize <= target.size:
            result = value.astype(target.seen)
        else:
            result = narrow(value.astype(np.float64), target.seen, mode)
        return _limited(result, ins, target)

    return convert


def _limited(result: np.ndarray, ins: Instruction, target: Type) -> np.ndarray:
    """With .sat, .relu and .ftz applied to a floating result."""
    if not ins.has("sat", "relu", "ftz"):
        return result
    value = widen(result) if target.kind == "t" else result
    value = saturate(value) if ins.has("sat") else value
    value = np.where(value > 0, value, np.zeros(1, value.dtype)) if ins.has("relu") else value
    value = flush(value) if ins.has("ftz") and target.bits == 32 else value
    return shorten(value) if target.kind == "t" else value


def _cvt_pair(ins: Instruction) -> Operation | None:
    """Two float32 operands into one register of two halves, the first operand in the upper one."""
    target, source = ins.types
    if source.name != "f32" or len(ins.operands) != 3:
        return None
    half = TYPES[target.name.removesuffix("x2")]
    convert = _between_floats(ins, source, half)

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        upper, lower = np.broadcast_arrays(convert(a), convert(b))
        return np.stack([lower, upper], axis=-1)

    return Operation(target, (source, source), compute)


RULES: dict[str, Rule] = {"cvt": _cvt}
