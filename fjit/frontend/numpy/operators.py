"""Operators where they are not NumPy's ufuncs: between Python numbers, and `**`.

A traced Python number (an argument `s: float`, `float(x.sum())`) stays one under operators with
other Python numbers: `s * 2` is weak, and `x * (s * 2)` keeps the dtype of a float32 `x`. Takes and
gives weak tracers; anything else goes to the ufunc. Traced ints are 64 bits wide, and division by
zero gives NumPy's value, since neither Python's big ints nor its exceptions exist at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fjit.core import primitives as p
from fjit.core.ir import Atom, Primitive
from fjit.core.trace import Trace
from fjit.frontend import operands as ops
from fjit.frontend.numpy import ufunc_table
from fjit.frontend.operands import DEFAULTS, Operand
from fjit.frontend.session import current
from fjit.frontend.tracer import OPERATORS, UFUNCS, Tracer, from_atom

Rule = Callable[..., Any]  # (trace, kind, *atoms) -> (atom, kind) or a tuple of such pairs


def _number_kind(kinds: list[type]) -> type:
    return float if float in kinds else int


def _numbers(values: tuple[Any, ...]) -> list[Operand] | None:
    """The operands if all are Python numbers, traced or not."""
    operands = []
    for value in values:
        is_number = value.weak is not None if isinstance(value, Tracer) else type(value) in DEFAULTS
        if not is_number:
            return None
        operands.append(ops.lift(value))
    return operands


def _emit(trace: Trace, primitive: Primitive, kind: type, atoms: tuple[Atom, ...]) -> Atom:
    return trace.emit(primitive, *[ufunc_table.cast(trace, a, DEFAULTS[kind]) for a in atoms])


def _arithmetic(primitive: Primitive) -> Rule:
    def rule(trace: Trace, kinds: list[type], *atoms: Atom) -> Any:
        kind = _number_kind(kinds)
        return _emit(trace, primitive, kind, atoms), kind

    return rule


def _bits(primitive: Primitive) -> Rule:
    def rule(trace: Trace, kinds: list[type], *atoms: Atom) -> Any:
        kind = bool if kinds == [bool, bool] else int
        return trace.emit(
            primitive, *[ufunc_table.cast(trace, a, DEFAULTS[kind]) for a in atoms]
        ), kind

    return rule


def _shift(primitive: Primitive) -> Rule:
    def rule(trace: Trace, kinds: list[type], *atoms: Atom) -> Any:
        return _emit(trace, primitive, int, atoms), int

    return rule


def _comparison(primitive: Primitive) -> Rule:
    def rule(trace: Trace, kinds: list[type], *atoms: Atom) -> Any:
        return _emit(trace, primitive, _number_kind(kinds), atoms), bool

    return rule


def _divide(trace: Trace, kinds: list[type], a: Atom, b: Atom) -> Any:
    return _emit(trace, p.div, float, (a, b)), float


def _divmod(trace: Trace, kinds: list[type], a: Atom, b: Atom) -> Any:
    return _arithmetic(p.floordiv)(trace, kinds, a, b), _arithmetic(p.mod)(trace, kinds, a, b)


def _identity(trace: Trace, kinds: list[type], a: Atom) -> Any:
    kind = _number_kind(kinds)
    return ufunc_table.cast(trace, a, DEFAULTS[kind]), kind


def _invert(trace: Trace, kinds: list[type], a: Atom) -> Any:
    return _emit(trace, p.not_, int, (a,)), int


# fmt: off
NUMBERS: dict[str, Rule] = {
    "add":           _arithmetic(p.add),
    "subtract":      _arithmetic(p.sub),
    "multiply":      _arithmetic(p.mul),
    "divide":        _divide,
    "floor_divide":  _arithmetic(p.floordiv),
    "remainder":     _arithmetic(p.mod),
    "divmod":        _divmod,
    "power":         _arithmetic(p.pow_),
    "negative":      _arithmetic(p.neg),
    "positive":      _identity,
    "absolute":      _arithmetic(p.abs_),
    "invert":        _invert,
    "bitwise_and":   _bits(p.and_),
    "bitwise_or":    _bits(p.or_),
    "bitwise_xor":   _bits(p.xor),
    "left_shift":    _shift(p.shl),
    "right_shift":   _shift(p.shr),
    "equal":         _comparison(p.eq),
    "not_equal":     _comparison(p.ne),
    "less":          _comparison(p.lt),
    "less_equal":    _comparison(p.le),
    "greater":       _comparison(p.gt),
    "greater_equal": _comparison(p.ge),
}
# fmt: on


def _operator(name: str) -> Callable[..., Any]:
    rule = NUMBERS[name]

    def operator(*values: Any, **keywords: Any) -> Any:
        numbers = _numbers(values)
        if numbers is None or keywords:
            return UFUNCS[name](*values, **keywords)
        trace = current().trace
        kinds = [operand.weak or float for operand in numbers]
        result = rule(trace, kinds, *[operand.atom for operand in numbers])
        if isinstance(result[0], tuple):
            return tuple(from_atom(trace, atom, weak=kind) for atom, kind in result)
        return from_atom(trace, result[0], weak=result[1])

    return operator


def _power(base: Any, exponent: Any, modulus: Any = None, **keywords: Any) -> Any:
    """`base ** exponent`: NumPy's array operator has ufuncs of its own for 2, -1 and 0.5.

    See fast_scalar_power in NumPy's number.c. Between Python numbers an int to a negative power is
    a float.
    """
    if isinstance(base, Tracer) and base.weak is None:
        name = _fast_power(base, exponent)
        if name is not None:
            return UFUNCS[name](base, **keywords)
    if type(exponent) is int and exponent < 0 and isinstance(base, Tracer) and base.weak:
        exponent = float(exponent)
    return _number_power(base, exponent, **keywords)


def _fast_power(base: Tracer, exponent: Any) -> str | None:
    """The ufunc that NumPy's `**` calls instead of power; bool arrays have one for 2."""
    kind, is_float = type(exponent), base.dtype.kind == "f"
    if kind is int and exponent == 2 and (is_float or not base.is_scalar):
        return "square"
    if kind is int and exponent == -1 and is_float:
        return "reciprocal"
    return "sqrt" if kind is float and exponent == 0.5 and is_float else None


_number_power = _operator("power")
OPERATORS.update({name: _operator(name) for name in NUMBERS})
OPERATORS["power"] = _power
