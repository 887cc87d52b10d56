"""What the sign of a NaN decides, which no two ways to compute one agree on.

Takes a program and arguments, gives for each output the slack that signs of NaN leave to it: inf
where one decides the element, 0 elsewhere, None for none. IEEE 754 gives a NaN that an operation
makes no sign, and takes either operand's NaN from a sum of two; processors, compilers (which fold
0 / 0) and NumPy's own loops each have theirs. A NaN that is only read, moved, negated or stripped
of its sign has the sign that it came with.

    b = div 0 0; c = signbit b      c is open; signbit of an argument is not

Invariant: `neg`, `abs` and `copysign` are exact on the sign of every NaN whose sign is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import Eqn, Primitive, Program
from fjit.oracle.walk import MOVED, Undetermined, moved, walk

Array = Any  # NumPy arrays of any dtype
KNOWN: Final = 0
SIGN: Final = 1  # a NaN of either sign
OPEN: Final = 2  # any value at all
READERS: Final = (p.signbit, p.copysign)


class Signed(NamedTuple):
    """A value, and one of KNOWN, SIGN and OPEN for each element; None where all are known."""

    value: Array
    state: Array | None


def sign_slack(program: Program, arguments: Sequence[Any]) -> list[Array | None]:
    """The slack of each output; raises Undetermined where the sign of a NaN decides a shape."""
    if not any(eqn.primitive in READERS for eqn in program.eqns):
        return [None] * len(program.outputs)
    found = walk(program, arguments, lambda value: Signed(value, None), _apply)
    return [_slack(result.state) for result in found]


def _slack(state: Array | None) -> Array | None:
    if state is None or not (state == OPEN).any():
        return None
    return np.where(state == OPEN, np.inf, 0.0)


def _apply(eqn: Eqn, operands: list[Signed], params: dict[str, Any], value: Array) -> Signed:
    state = np.broadcast_to(_state(eqn.primitive, operands, params, value), value.shape)
    return Signed(value, state if state.any() else None)


def _filled(operand: Signed) -> Array:
    return np.zeros(np.shape(operand.value), np.uint8) if operand.state is None else operand.state


def _is_open(operand: Signed) -> Array:
    return _filled(operand) == OPEN


def _state(
    primitive: Primitive, operands: list[Signed], params: dict[str, Any], value: Array
) -> Array:
    if primitive in MOVED:
        if all(o.state is None for o in operands):
            return np.uint8(KNOWN)
        loose = [bool(_is_open(o).any()) for o in operands]
        values, states = [o.value for o in operands], [_filled(o) for o in operands]
        return moved(primitive, values, states, loose, params)
    if primitive in BY_BIT:
        return BY_BIT[primitive](operands)
    return np.where(_touched(primitive, operands, params, value), OPEN, _computed(value))


def _computed(value: Array) -> Array:
    """The state of what arithmetic made of known operands."""
    return np.where(np.isnan(value), SIGN, KNOWN) if value.dtype.kind == "f" else np.uint8(KNOWN)


# ---- operations on the sign bit -----------------------------------------------------------------


def _kept(operands: list[Signed]) -> Array:
    return _filled(operands[0])


def _stripped(operands: list[Signed]) -> Array:
    return np.where(_is_open(operands[0]), OPEN, KNOWN)


def _read(operands: list[Signed]) -> Array:
    return np.where(_filled(operands[0]) == KNOWN, KNOWN, OPEN)


def _taken(operands: list[Signed]) -> Array:
    """A size of one operand, the sign of the other."""
    size, sign = operands
    either = np.where(np.isnan(size.value), SIGN, OPEN)
    state = np.where(_filled(sign) == SIGN, either, KNOWN)
    return np.where(_is_open(size) | _is_open(sign), OPEN, state)


def _chosen(operands: list[Signed]) -> Array:
    condition, yes, no = operands
    state = np.where(condition.value, _filled(yes), _filled(no))
    return np.where(_is_open(condition), OPEN, state)


BY_BIT: Final[dict[Primitive, Callable[[list[Signed]], Array]]] = {
    p.copy: _kept, p.neg: _kept, p.abs_: _stripped, p.signbit: _read, p.copysign: _taken,
    p.select: _chosen,
}  # fmt: skip


# ---- what is open stays open --------------------------------------------------------------------


def _touched(
    primitive: Primitive, operands: list[Signed], params: dict[str, Any], value: Array
) -> Array:
    """Which elements of a result are made of an open one."""
    opened = [_is_open(o) for o in operands]
    if not any(o.any() for o in opened):
        return np.zeros(value.shape, bool)
    if primitive.family == "elementwise":
        return np.logical_or.reduce(np.broadcast_arrays(*opened))
    if primitive in (p.reduce, p.argreduce):
        return opened[0].any(axis=params["axes"])
    if primitive is p.cumulate:
        return np.logical_or.accumulate(opened[0], axis=params["axis"])
    if primitive in (p.sort, p.argsort):
        return np.broadcast_to(opened[0].any(axis=params["axis"], keepdims=True), value.shape)
    if primitive is p.matmul:
        return (opened[0] @ np.ones_like(opened[1])) | (np.ones_like(opened[0]) @ opened[1])
    if primitive is p.scatter and any(o.any() for o in opened[2:]):
        raise Undetermined("the sign of a NaN decides an index of scatter")
    return np.ones(value.shape, bool)
