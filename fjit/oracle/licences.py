"""How much further a result may lie from NumPy's by the licence of fastmath flags.

Takes a primitive, the values of its operands and of its result, and flags; gives the additional
slack (see `fjit.oracle.bounds`), or None. It is charged to the operation as it was traced, since
rewriting moves an error but makes none of another size:

    contract    a * b may be rounded or not: one unit of a * b
    nsz         a sum that is zero may have either sign: one unit at zero

Invariant: no flag loosens what it does not license; `approx` needs no more than NumPy itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import Primitive

Array = Any  # NumPy arrays of any dtype
Rule = Callable[[Sequence[Array], Array], Array]


def licence(
    primitive: Primitive, values: Sequence[Array], result: Array, fastmath: Collection[str]
) -> Array | None:
    """The slack that the flags add to one operation."""
    if not fastmath or not values or values[0].dtype.kind != "f":
        return None
    rules = (RULES[flag].get(primitive) for flag in RULES if flag in fastmath)
    found = [rule(values, result) for rule in rules if rule is not None]
    return np.asarray(sum(found[1:], found[0])) if found else None


def _unit(value: Array) -> Array:
    unit = np.spacing(np.abs(value)).astype(np.float64)
    return np.where(np.isfinite(unit), unit, 0.0)


def _overflown(values: Sequence[Array], result: Array) -> Array:
    """Where a finite result may become infinite, or the other way round."""
    edge = np.finfo(result.dtype).max / 2
    finite = np.isfinite(values[0]) & np.isfinite(values[1])
    return np.where(finite & ~(np.abs(result) < edge), np.inf, 0.0)


def _product(values: Sequence[Array], result: Array) -> Array:
    return 2 * _unit(result) + _overflown(values, result)


def _constants(values: Sequence[Array], result: Array) -> Array:
    """Where a constant is added: rounding relative to the operands, whatever they cancel to."""
    size = np.abs(values[0]).astype(np.float64) + np.abs(values[1]).astype(np.float64)
    size = np.where(np.isfinite(size), size, 0.0)
    return np.finfo(result.dtype).eps * size + _overflown(values, result)


def _quotient(values: Sequence[Array], result: Array) -> Array:
    """Anything, where the reciprocal of the divisor is not of normal size."""
    tiny, size = float(np.finfo(result.dtype).tiny), np.abs(values[1]).astype(np.float64)
    is_odd = (size > 0) & np.isfinite(size) & ((size < 4 * tiny) | (size > 0.25 / tiny))
    return 2 * _unit(result) + np.where(is_odd, np.inf, 0.0) + _overflown(values, result)


def _signless(values: Sequence[Array], result: Array) -> Array:
    return np.where(result == 0, _unit(result), 0.0)


def _any_of(test: Callable[[Array], Array]) -> Rule:
    """Anything, where an operand passes a test."""

    def rule(values: Sequence[Array], result: Array) -> Array:
        odd = [test(v) for v in values]
        return np.where(odd[0] if len(odd) == 1 else odd[0] | odd[1], np.inf, 0.0)

    return rule


def _nan_result(values: Sequence[Array], result: Array) -> Array:
    return np.where(np.isnan(result), np.inf, 0.0)


def _nan_anywhere(values: Sequence[Array], result: Array) -> Array:
    return np.full(result.shape, np.inf if np.isnan(values[0]).any() else 0.0)


_nan, _inf = _any_of(np.isnan), _any_of(np.isinf)

# fmt: off
RULES: Final[dict[str, dict[Primitive, Rule]]] = {
    "contract": {p.mul: _product},
    "reassoc":  {p.add: _constants, p.sub: _constants, p.mul: _product},
    "nnan":     {p.max_: _nan, p.min_: _nan, p.fmax: _nan, p.fmin: _nan, p.reduce: _nan_result,
                 p.argreduce: _nan_anywhere},
    "ninf":     {p.hypot: _inf},
    "nsz":      {p.add: _signless, p.sub: _signless},
    "arcp":     {p.div: _quotient},
}
# fmt: on
