"""How far a right answer may lie from NumPy's: a running error bound through a traced program.

Takes a program and arguments, gives each output with its slack: the largest absolute difference
that the bounds of docs/numerics.md permit, per element. Slack begins at elementary functions and
at floating reductions, whose order is free, and is carried along by evaluating each primitive at
the ends of its operands' intervals:

    b = exp a; c = floor b      gives c slack 0, but where b's interval holds a whole number: inf

Invariant: None means exact (the same bits); inf means that anything is right, as where rounding
decides a comparison. `Undetermined` is raised where rounding decides a shape.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import Eqn, Literal, Primitive, Program, Sym
from fjit.oracle.folds import fold_slack
from fjit.oracle.licences import licence

Array = Any  # NumPy arrays of any dtype
ELEMENTARY_ULP: Final = 8  # 4 for ours and 4 for NumPy's, each against the true value

ELEMENTARY: Final = frozenset((
    p.exp, p.exp2, p.expm1, p.log, p.log2, p.log10, p.log1p, p.sin, p.cos, p.tan, p.asin, p.acos,
    p.atan, p.sinh, p.cosh, p.tanh, p.asinh, p.acosh, p.atanh, p.cbrt, p.erf, p.erfc, p.gammaln,
    p.digamma, p.pow_, p.atan2, p.hypot, p.logaddexp, p.logaddexp2,
))  # fmt: skip
WIDEST: Final[dict[Primitive, float]] = {
    p.sin: 0.25, p.cos: 0.25, p.tan: 0.25, p.gammaln: 1e-3, p.digamma: 1e-3,
}  # fmt: skip
"""Where the ends of an interval say too little: the half-width above which anything is right."""

MOVED: Final[dict[Primitive, tuple[int, ...] | None]] = {
    p.broadcast: None, p.transpose: None, p.reshape: None, p.slice_: None, p.pad: None,
    p.concat: None, p.update: None, p.diagonal: None, p.barrier: None, p.gather: (0,),
    p.expand: (1, 2), p.compress: (1,), p.repeat: (0,), p.iota: (),
}  # fmt: skip
"""Primitives that only move values, and which operands hold these (None: all)."""


class Undetermined(Exception):
    """Rounding decides a shape or an index, so nothing that follows can be compared."""


class Bounded(NamedTuple):
    """A value and its slack: None for exact, else float64 of the value's shape."""

    value: Array
    slack: Array | None


def bounded(
    program: Program, arguments: Sequence[Any], fastmath: Collection[str] = ()
) -> list[Bounded]:
    """The outputs of `program`, each with its slack; raises Undetermined.

    `program` is as without `fastmath`, whose flags add to the slack of what they loosen.
    """
    env: dict[Any, Bounded] = {}
    extents: dict[Sym, int] = {}

    def read(atom: Any) -> Bounded:
        return Bounded(np.asarray(atom.value), None) if isinstance(atom, Literal) else env[atom]

    for var, value in zip(program.inputs, arguments, strict=True):
        env[var] = Bounded(np.asarray(value, var.aval.dtype), None)
    with np.errstate(all="ignore"):
        for eqn in program.eqns:
            result = _apply(eqn, [read(a) for a in eqn.inputs], extents, fastmath)
            env[eqn.output] = result
            for extent, size in zip(eqn.output.aval.shape, result.value.shape, strict=True):
                if isinstance(extent, Sym):
                    extents.setdefault(extent, size)
    return [read(a) for a in program.outputs]


def _resolved(value: object, extents: dict[Sym, int]) -> object:
    if isinstance(value, Sym):
        return extents.get(value, value.bound)
    return tuple(_resolved(v, extents) for v in value) if isinstance(value, tuple) else value


def _apply(
    eqn: Eqn, operands: list[Bounded], extents: dict[Sym, int], fastmath: Collection[str]
) -> Bounded:
    params = {key: _resolved(value, extents) for key, value in eqn.meant}
    meaning = p.meaning(eqn.primitive)
    dtype = eqn.output.aval.dtype
    value = np.asarray(meaning(*(o.value for o in operands), **params), dtype)
    slack = _slack(eqn.primitive, operands, params, value)
    more = licence(eqn.primitive, [o.value for o in operands], value, fastmath)
    if more is not None:
        slack = more if slack is None else slack + more
    if slack is None or not slack.any():
        return Bounded(value, None)
    slack = np.where(np.isnan(slack), np.inf, slack)
    if dtype.kind != "f":
        slack = np.where(slack > 0, np.inf, 0.0)
    return Bounded(value, np.broadcast_to(slack, value.shape))


def _slack(
    primitive: Primitive, operands: list[Bounded], params: dict[str, Any], value: Array
) -> Array | None:
    if primitive in MOVED:
        return _moved(primitive, operands, params)
    if primitive is p.scatter:
        return _scattered(operands, params, value)
    if primitive.family == "elementwise":
        return _elementwise(primitive, operands, params, value)
    return fold_slack(primitive, [o.value for o in operands], [o.slack for o in operands],
                      params, value)  # fmt: skip


def _filled(operand: Bounded) -> Array:
    return np.zeros(np.shape(operand.value)) if operand.slack is None else operand.slack


def _moved(primitive: Primitive, operands: list[Bounded], params: dict[str, Any]) -> Array | None:
    data = MOVED[primitive]
    held = range(len(operands)) if data is None else data
    if any(o.slack is not None for k, o in enumerate(operands) if k not in held):
        raise Undetermined(f"rounding decides an index or a mask of {primitive}")
    if all(o.slack is None for o in operands):
        return None
    given = [_filled(o) if k in held else o.value for k, o in enumerate(operands)]
    moved: Array = p.meaning(primitive)(*given, **params)
    return moved


def _scattered(operands: list[Bounded], params: dict[str, Any], value: Array) -> Array | None:
    base, values, *indices = operands
    if any(i.slack is not None for i in indices):
        raise Undetermined("rounding decides an index of scatter")
    where = [i.value for i in indices]
    scatter = p.meaning(p.scatter)
    if params["op"] == "set":
        return scatter(_filled(base), _filled(values), *where, axes=params["axes"], op="set")
    if base.slack is None and values.slack is None and value.dtype.kind != "f":
        return None
    if params["op"] != "add":
        is_exact = base.slack is None and values.slack is None and params["op"] in ("max", "min")
        return None if is_exact else np.full(value.shape, np.inf)
    size = [np.abs(o.value).astype(np.float64) for o in (base, values)]
    total = scatter(size[0], size[1], *where, axes=params["axes"], op="add")
    carried = scatter(_filled(base), _filled(values), *where, axes=params["axes"], op="add")
    return carried + np.finfo(value.dtype).eps * max(values.value.size, 1) * total


# ---- elementwise --------------------------------------------------------------------------------


def _elementwise(
    primitive: Primitive, operands: list[Bounded], params: dict[str, Any], value: Array
) -> Array | None:
    if primitive is p.select:
        return _selected(operands)
    unit = np.spacing(np.abs(value)).astype(np.float64) if value.dtype.kind == "f" else 0.0
    own = np.where(np.isfinite(unit), unit, 0.0)
    slack: Array | None = None
    if primitive is p.convert and value.dtype.kind == "u":
        slack = _out_of_range(operands[0].value, value.dtype)
    if any(o.slack is not None for o in operands):
        far = _at_corners(primitive, operands, params, value)
        start = 0.0 if slack is None else slack
        slack = np.where(far > 0, far * (1 + 2**-10) + own, start)
        slack = np.where(_unknown(primitive, operands, params), np.inf, slack)
    if primitive in ELEMENTARY and value.dtype.kind == "f":
        slack = ELEMENTARY_ULP * own + (0.0 if slack is None else slack)
    if primitive in (p.logaddexp, p.logaddexp2):  # NumPy adds the larger operand last
        larger = np.maximum(operands[0].value, operands[1].value)
        step = np.spacing(np.abs(larger)).astype(np.float64)
        slack = np.where(np.isfinite(step), ELEMENTARY_ULP * step, 0.0) + slack
    if primitive in (p.copysign, p.signbit):  # a computed NaN has either sign
        nan = np.isnan(operands[-1].value)
        slack = np.where(nan, np.inf, 0.0 if slack is None else slack) if nan.any() else slack
    if primitive in (p.fmax, p.fmin):  # the sign of a zero is unspecified
        slack = np.where(value == 0, unit, 0.0) + (0.0 if slack is None else slack)
    return slack


def _out_of_range(value: Array, dtype: np.dtype) -> Array | None:
    """Floats outside an unsigned type, for which NumPy's own loops differ (contiguous or not)."""
    if value.dtype.kind != "f":
        return None
    is_inside = (value > -1) & (value < 2.0 ** (8 * dtype.itemsize))
    return None if is_inside.all() else np.where(is_inside, 0.0, np.inf)


def _selected(operands: list[Bounded]) -> Array | None:
    condition, yes, no = operands
    if all(o.slack is None for o in operands):
        return None
    chosen = np.where(condition.value, _filled(yes), _filled(no))
    return np.where(_filled(condition) > 0, np.inf, chosen)


def _at_corners(
    primitive: Primitive, operands: list[Bounded], params: dict[str, Any], value: Array
) -> Array:
    """The largest change of the result over the corners of the operands' intervals."""
    ends = [(o.value,) if o.slack is None else (_end(o, -1), _end(o, 1)) for o in operands]
    far = np.zeros(value.shape)
    for corner in itertools.product(*ends):
        other = np.asarray(p.meaning(primitive)(*corner, **params), value.dtype)
        gap = np.abs(other.astype(np.longdouble) - value.astype(np.longdouble)).astype(np.float64)
        same = (other == value) | ((other != other) & (value != value))
        if value.dtype.kind == "f":
            same &= (np.signbit(other) == np.signbit(value)) | np.isnan(value)
            gap = np.maximum(gap, 5e-324)
        far = np.maximum(far, np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap)))
    return far


def _end(operand: Bounded, sign: int) -> Array:
    value, slack = operand.value, _filled(operand)
    if value.dtype.kind != "f":
        return value
    end = (value.astype(np.longdouble) + sign * slack).astype(value.dtype)
    outward = np.nextafter(end, value.dtype.type(sign * np.inf))
    return np.where((slack == 0) | np.isinf(slack), value, outward)


def _unknown(primitive: Primitive, operands: list[Bounded], params: dict[str, Any]) -> Array:
    """Where the ends of the intervals do not bound the result."""
    slacks = [_filled(o) for o in operands]
    unknown: Array = np.isinf(slacks[0])
    for slack in slacks[1:]:
        unknown = unknown | np.isinf(slack)
    if primitive in WIDEST:
        unknown = unknown | (slacks[0] > WIDEST[primitive])
    if primitive in (p.eq, p.ne):
        left, right = (o.value.astype(np.longdouble) for o in operands)
        gap = np.abs(left - right)
        unknown = unknown | ((gap <= slacks[0] + slacks[1]) & (slacks[0] + slacks[1] > 0))
    if primitive is p.convert and params["dtype"].kind == "b":
        unknown = unknown | ((np.abs(operands[0].value) <= slacks[0]) & (slacks[0] > 0))
    if primitive in (p.div, p.floordiv, p.mod, p.fmod, p.pow_):
        base = 0 if primitive is p.pow_ else 1
        size = np.abs(operands[base].value)
        unknown = unknown | ((size <= slacks[base]) & (slacks[base] > 0))
    if primitive in (p.mod, p.fmod):
        period = np.abs(operands[1].value) / 2
        unknown = unknown | ((slacks[0] >= period) & (slacks[0] > 0))
    return unknown
