"""Where NumPy warns about or refuses integer operands: the processor's flags do not say so.

Takes a primitive, its operands' dtypes and register values, gives masks. Invariant: no instruction
is written for operations that cannot fault, or whose constant operand rules the fault out.

    faults(em, "floordiv" of i32, a, b)  ->  divide: b == 0 ; over: a == MIN and b == -1

The names are `np.errstate`'s, and "negative_power" for the ValueError of `int ** negative int`.
Floating operations and casts raise the processor's own flags. A flag may also be raised where NumPy
raises none (comparing NaN, say): flags tell when a warning is possible.
"""

from collections.abc import Callable

import numpy as np

from fjit.backend.emitter import Emitter, Val
from fjit.backend.integers import constant

Faults = tuple[tuple[str, Val], ...]
Rule = Callable[[Emitter, np.dtype, tuple[Val, ...]], Faults]


def _divisor(em: Emitter, dtype: np.dtype, args: tuple[Val, ...]) -> Faults:
    b = args[1]
    if constant(b) not in (None, 0):
        return ()
    return (("divide", em.icmp("eq", b, em.const(b.ty, 0))),)


def _floordiv(em: Emitter, dtype: np.dtype, args: tuple[Val, ...]) -> Faults:
    a, b = args
    found = _divisor(em, dtype, args)
    if dtype.kind == "u" or constant(b) not in (None, -1):
        return found
    least = em.icmp("eq", a, em.const(a.ty, -1 << (a.ty.bits - 1)))
    return (*found, ("over", em.and_(least, em.icmp("eq", b, em.const(b.ty, -1)))))


def _reciprocal(em: Emitter, dtype: np.dtype, args: tuple[Val, ...]) -> Faults:
    zero = em.icmp("eq", args[0], em.const(args[0].ty, 0))
    return (("divide", zero), ("invalid", zero))


def _power(em: Emitter, dtype: np.dtype, args: tuple[Val, ...]) -> Faults:
    b = args[1]
    exponent = constant(b)
    if dtype.kind == "u" or (exponent is not None and exponent >= 0):
        return ()
    return (("negative_power", em.icmp("slt", b, em.const(b.ty, 0))),)


RULES: dict[str, Rule] = {
    "floordiv": _floordiv,
    "mod": _divisor,
    "fmod": _divisor,
    "reciprocal": _reciprocal,
    "pow": _power,
}


def faults(em: Emitter, op: str, dtypes: tuple[np.dtype, ...], args: tuple[Val, ...]) -> Faults:
    """Return (name, mask of the lanes that fault) pairs for one equation; mostly none."""
    rule = RULES.get(op)
    if rule is None or dtypes[0].kind not in "iu":
        return ()
    lanes = max([arg.ty.lanes for arg in args])
    return rule(em, dtypes[0], tuple([em.splat(arg, lanes) for arg in args]))
