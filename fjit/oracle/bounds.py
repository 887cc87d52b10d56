"""How far a right answer may lie from NumPy's: a running error bound through a traced program.

Takes a program and arguments, gives each output with its slack: the largest absolute difference
that the bounds of docs/numerics.md permit, per element. Slack begins at elementary functions and
at floating reductions, whose order is free, and is carried along by evaluating each primitive at
the ends of its operands' intervals:

    b = exp a; c = floor b      gives c slack 0, but where b's interval holds a whole number: inf

Invariant: None means exact (the same bits); inf means that anything is right, as where rounding
or the sign of a NaN decides a comparison. `Undetermined` is raised where one decides a shape.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import Eqn, Primitive, Program
from fjit.oracle.folds import fold_slack
from fjit.oracle.licences import licence
from fjit.oracle.signs import sign_slack
from fjit.oracle.walk import MOVED, Undetermined, moved, walk

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


class Bounded(NamedTuple):
    """A value and its slack: None for exact, else float64 of the value's shape.

    `halves` is given for a float32 that stands for float16 in a reduction: the slack that it has
    once it is float16 again, since NumPy may round each partial result to that.
    """

    value: Array
    slack: Array | None
    halves: Array | None = None


def bounded(
    program: Program, arguments: Sequence[Any], fastmath: Collection[str] = ()
) -> list[Bounded]:
    """The outputs of `program`, each with its slack; raises Undetermined.

    `program` is as without `fastmath`, whose flags add to the slack of what they loosen.
    """

    def rule(eqn: Eqn, operands: list[Bounded], params: dict[str, Any], value: Array) -> Bounded:
        return _apply(eqn.primitive, operands, params, value, fastmath)

    found = walk(program, arguments, lambda value: Bounded(value, None), rule)
    signs = sign_slack(program, arguments)
    return [
        result if sign is None else result._replace(slack=np.maximum(_filled(result), sign))
        for result, sign in zip(found, signs, strict=True)
    ]


def _apply(
    primitive: Primitive,
    operands: list[Bounded],
    params: dict[str, Any],
    value: Array,
    fastmath: Collection[str],
) -> Bounded:
    slack = _slack(primitive, operands, params, value)
    more = licence(primitive, [o.value for o in operands], value, fastmath)
    if more is not None:
        slack = more if slack is None else slack + more
    halves = _halves(primitive, operands, params, value)
    if slack is None or not slack.any():
        return Bounded(value, None, halves)
    slack = np.where(np.isnan(slack), np.inf, slack)
    if value.dtype.kind != "f":
        slack = np.where(slack > 0, np.inf, 0.0)
    return Bounded(value, np.broadcast_to(slack, value.shape), halves)


def _halves(
    primitive: Primitive, operands: list[Bounded], params: dict[str, Any], value: Array
) -> Array | None:
    """The slack of a float32 as float16 (see Bounded): of one that was, and of sums of such."""
    if value.dtype != np.float32 or not operands:
        return None
    first = operands[0]
    if primitive is p.convert:
        return _filled(first) if first.value.dtype == np.float16 else None
    if first.halves is None:
        return None
    if primitive in MOVED and len(operands) == 1:
        return moved(primitive, [first.value], [first.halves], [False], params)
    if params.get("op") not in ("sum", "prod"):
        return None
    slack = first.halves if first.halves.any() else None
    narrow = first.value.astype(np.float16)
    found = fold_slack(primitive, [narrow], [slack], params, value.astype(np.float16))
    return np.zeros(value.shape) if found is None else found


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
    loose = [o.slack is not None for o in operands]
    if not any(loose):
        return None
    values, slacks = [o.value for o in operands], [_filled(o) for o in operands]
    return moved(primitive, values, slacks, loose, params)


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
    if primitive is p.convert and value.dtype == np.float16 and operands[0].halves is not None:
        slack = np.maximum(operands[0].halves, 0.0 if slack is None else slack)
    if primitive in ELEMENTARY and value.dtype.kind == "f":
        slack = ELEMENTARY_ULP * own + (0.0 if slack is None else slack)
    if primitive in (p.logaddexp, p.logaddexp2):  # NumPy adds the larger operand last
        larger = np.maximum(operands[0].value, operands[1].value)
        step = np.spacing(np.abs(larger)).astype(np.float64)
        slack = np.where(np.isfinite(step), ELEMENTARY_ULP * step, 0.0) + slack
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
