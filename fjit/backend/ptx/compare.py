"""Comparison and selection in PTX: setp, set, selp, slct, and moves.

Takes an instruction, gives an Operation. Invariant: an ordered comparison with NaN is false, one
that ends in u is true.

    setp.ltu.and.f32 p|q, a, b, c  ->  p = !(a >= b) and c,  q = (a >= b) and c
"""

from collections.abc import Callable

import numpy as np

from fjit.backend.ptx.bfloat import widen
from fjit.backend.ptx.floats import flush
from fjit.backend.ptx.operation import Operation, Rule, same
from fjit.backend.ptx.program import Instruction, Pack
from fjit.backend.ptx.types import F32, PRED, S32, Type

Test = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _either_nan(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.isnan(a) | np.isnan(b))


def _ordered_ne(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`ne` of floats is false for NaN, unlike NumPy's."""
    return (a < b) | (a > b)


ORDERED: dict[str, Test] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
FLOATING: dict[str, Test] = {
    **ORDERED,
    "ne": _ordered_ne,
    "equ": lambda a, b: ~_ordered_ne(a, b),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: ~_either_nan(a, b),
    "nan": _either_nan,
}
COMBINED: dict[str, Test] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def _test(ins: Instruction, ty: Type) -> Test | None:
    """The comparison an instruction names, on operands of a type."""
    table = FLOATING if ty.floating else ORDERED
    test = next((table[flag] for flag in ins.flags if flag in table), None)
    if test is None:
        return None
    prepare: Callable[[np.ndarray], np.ndarray] = widen if ty.kind == "t" else np.asarray
    if ins.has("ftz"):
        return lambda a, b: test(flush(prepare(a)), flush(prepare(b)))
    return lambda a, b: test(prepare(a), prepare(b))


def _combination(ins: Instruction) -> Test | None:
    return next((COMBINED[flag] for flag in ins.flags if flag in COMBINED), None)


def _setp(ins: Instruction) -> Operation | None:
    ty = ins.type
    test, combine = _test(ins, ty), _combination(ins)
    if test is None or ty.packed > 1:
        return None
    pair = isinstance(ins.operands[0], Pack)

    def compute(a: np.ndarray, b: np.ndarray, *rest: np.ndarray) -> object:
        yes = test(a, b)
        no = ~yes
        if combine is not None:
            yes, no = combine(yes, rest[0]), combine(no, rest[0])
        return (yes, no) if pair else yes

    return Operation(PRED, (ty, ty) + (PRED,) * (combine is not None), compute)


def _set(ins: Instruction) -> Operation | None:
    """A comparison as a number: 1.0 or 0.0, all ones or zero."""
    if len(ins.types) != 2:
        return None
    target, ty = ins.types
    test, combine = _test(ins, ty), _combination(ins)
    if test is None or ty.packed > 1:
        return None
    true = 1.0 if target.kind == "f" else np.array(-1).astype(target.seen)

    def compute(a: np.ndarray, b: np.ndarray, *rest: np.ndarray) -> np.ndarray:
        found = test(a, b)
        found = found if combine is None else combine(found, rest[0])
        return np.where(found, np.array(true, target.seen), np.zeros(1, target.seen))

    return Operation(target, (ty, ty) + (PRED,) * (combine is not None), compute)


def _selp(ins: Instruction) -> Operation:
    ty = ins.type
    return Operation(ty, (ty, ty, PRED), lambda a, b, c: np.where(c, a, b))


def _slct(ins: Instruction) -> Operation | None:
    if len(ins.types) != 2 or ins.types[1] not in (S32, F32):
        return None
    ty, sign = ins.types
    return Operation(ty, (ty, ty, sign), lambda a, b, c: np.where(c >= 0, a, b))


def _mov(ins: Instruction) -> Operation:
    return same(ins.type, 1, lambda a: a)


RULES: dict[str, Rule] = {
    "setp": _setp,
    "set": _set,
    "selp": _selp,
    "slct": _slct,
    "mov": _mov,
}
