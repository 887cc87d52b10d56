"""Slack of reductions, running reductions, sorts and matrix products, whatever their order.

Takes a primitive with the values and slacks of its operands, gives the slack of its result (see
`fjit.oracle.bounds`). Sums of n terms may differ by n eps sum|x| and products by n eps |result|; a
sum of small dyadic numbers that cannot round is exact in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import Primitive

Array = Any  # NumPy arrays of any dtype
GRID: Final = 16  # multiples of 1 / GRID count as dyadic


class _Fold(NamedTuple):
    """How to combine values along the folded axes with a ufunc; and how many are combined."""

    combine: Callable[[Any, Array], Array]
    terms: int


def fold_slack(
    primitive: Primitive,
    values: Sequence[Array],
    slacks: Sequence[Array | None],
    params: dict[str, Any],
    result: Array,
) -> Array | None:
    """The slack of a reduction, scan, sort, search or matrix product."""
    if primitive is p.matmul:
        return _matmul(values, slacks, result)
    if primitive is p.sort:
        return None if slacks[0] is None else _along(slacks[0], params["axis"])
    if primitive in (p.argsort, p.searchsorted):
        is_exact = all(s is None for s in slacks)
        return None if is_exact else np.full(result.shape, np.inf)
    if primitive is p.argreduce:
        return None if slacks[0] is None else _argreduce(values[0], slacks[0], params)
    fold = _fold_of(primitive, values[0], params)
    if values[0].dtype.kind != "f":
        return None if slacks[0] is None else fold.combine(np.maximum, slacks[0])
    rules = {"sum": _sum, "prod": _prod, "max": _extremum, "min": _extremum,
             "deviations": _deviations, "expsum": _expsum, "logexpsum": _logexpsum}  # fmt: skip
    return rules[params["op"]](fold, values[0], slacks[0], result)


def _fold_of(primitive: Primitive, value: Array, params: dict[str, Any]) -> _Fold:
    if primitive is p.cumulate:
        axis = params["axis"]
        return _Fold(lambda op, x: op.accumulate(x, axis=axis), value.shape[axis])
    axes = params["axes"]
    count = math.prod(value.shape[k] for k in axes)
    if not count:
        kept = tuple(n for k, n in enumerate(value.shape) if k not in axes)
        return _Fold(lambda op, x: np.zeros(kept), 0)
    return _Fold(lambda op, x: op.reduce(x, axis=axes), count)


def _along(slack: Array, axis: int) -> Array:
    if not slack.size:
        return slack
    return np.broadcast_to(np.max(slack, axis=axis, keepdims=True), slack.shape)


def _any(fold: _Fold, flags: Array) -> Array:
    found: Array = fold.combine(np.maximum, flags.astype(np.float64))
    return found > 0


def _zeros(value: Array, slack: Array | None) -> Array:
    return np.zeros(value.shape) if slack is None else slack


def _sum(fold: _Fold, value: Array, slack: Array | None, result: Array) -> Array | None:
    if fold.terms <= 1:
        return None if slack is None else fold.combine(np.add, slack)
    info = np.finfo(value.dtype)
    is_finite = np.isfinite(value)
    size = np.where(is_finite, np.abs(value), 0).astype(np.longdouble)
    total = fold.combine(np.add, size)
    rounding = float(info.eps) * (fold.terms - 1) * total
    if slack is None and (size * GRID == np.rint(size * GRID)).all():
        rounding = np.where(total * GRID < 2.0**info.nmant, 0.0, rounding)
    carried = fold.combine(np.add, _zeros(value, slack))
    out = np.where(np.isinf(carried), np.inf, rounding + carried)
    out = np.where(_any(fold, ~is_finite) & ~np.isinf(carried), 0.0, out)
    return np.where(total > info.max / 4, np.inf, out).astype(np.float64)


def _deviations(fold: _Fold, value: Array, slack: Array | None, result: Array) -> Array:
    """Both means err by n eps mean|x| at most, and so does every deviation from them."""
    eps, terms = float(np.finfo(value.dtype).eps), fold.terms
    size = np.abs(value).astype(np.longdouble)
    error = eps * fold.combine(np.add, size) + fold.combine(np.maximum, _zeros(value, slack))
    root = np.sqrt(np.abs(result).astype(np.longdouble) * terms)
    out = 2 * eps * terms * np.abs(result) + 2 * root * error + 2 * terms * error**2
    return np.where(np.isfinite(out), out, np.inf).astype(np.float64)


def _expsum(fold: _Fold, value: Array, slack: Array | None, result: Array) -> Array:
    """A sum of exponentials, each to 8 units; relative, so that it also holds of the logarithm."""
    relative = _relative_of_expsum(fold, value, slack)
    return np.where(np.isfinite(result), relative * np.abs(result), 0.0)


def _logexpsum(fold: _Fold, value: Array, slack: Array | None, result: Array) -> Array:
    """The logarithm of such a sum, and that to 8 units."""
    own = 8 * np.spacing(np.abs(result)).astype(np.float64)
    relative = _relative_of_expsum(fold, value, slack)
    return np.where(np.isfinite(result), relative + own, 0.0)


def _relative_of_expsum(fold: _Fold, value: Array, slack: Array | None) -> Array:
    """Differences from the maximum round, and weigh as much as their exponentials."""
    eps = float(np.finfo(value.dtype).eps)
    carried = 2 * fold.combine(np.maximum, _zeros(value, slack))
    out = eps * (fold.terms + 16) + np.expm1(np.minimum(carried, 100.0))
    return np.where(np.isfinite(out) & (carried < 1), out, np.inf)


def _prod(fold: _Fold, value: Array, slack: Array | None, result: Array) -> Array | None:
    if fold.terms <= 1:
        return None if slack is None else fold.combine(np.add, slack)
    info = np.finfo(value.dtype)
    is_finite = np.isfinite(value)
    size = np.where(is_finite & (value != 0), np.abs(value), 1).astype(np.longdouble)
    large = fold.combine(np.multiply, np.maximum(size, 1))
    small = fold.combine(np.multiply, np.minimum(size, 1))
    given = _zeros(value, slack)
    relative = fold.combine(np.add, np.where(given > 0, given / np.abs(value), 0.0))
    rounding: Array = float(info.eps) * (fold.terms - 1)
    if slack is None and (value == np.rint(value)).all():
        rounding = np.where(large < 2.0**info.nmant, 0.0, rounding)
    out = np.abs(result) * (rounding + 1.1 * relative)
    out = np.where(relative > 0.25, np.inf, out)
    is_special = _any(fold, ~is_finite)
    out = np.where(is_special, np.where(relative > 0, np.inf, 0.0), out)
    return np.where((large > info.max / 4) | (small < info.tiny * 4), np.inf, out).astype(float)


def _extremum(fold: _Fold, value: Array, slack: Array | None, result: Array) -> Array:
    """The largest slack of the candidates; the sign of a zero is unspecified."""
    carried = fold.combine(np.maximum, _zeros(value, slack))
    out = np.where(np.isnan(result) & ~np.isinf(carried), 0.0, carried)
    return np.maximum(out, np.where(result == 0, 5e-324, 0.0))


def _argreduce(value: Array, slack: Array, params: dict[str, Any]) -> Array:
    """Infinite where another element's interval touches the extremum's."""
    axes = params["axes"]
    kept = [k for k in range(value.ndim) if k not in axes]
    order, shape = (*kept, *axes), (*(value.shape[k] for k in kept), -1)
    flat, loose = (np.transpose(x, order).reshape(shape) for x in (value, slack))
    position = p.meaning(p.argreduce)(value, **params)[..., None]
    best = np.take_along_axis(flat, position, -1)
    both = loose + np.take_along_axis(loose, position, -1)
    apart = np.abs(flat - best) if value.dtype != bool else (flat != best).astype(float)
    near = (apart <= both) & (both > 0)
    np.put_along_axis(near, position, False, -1)
    is_open = near.any(-1) | np.isinf(loose).any(-1)
    return np.where(is_open, np.inf, 0.0)


def _matmul(values: Sequence[Array], slacks: Sequence[Array | None], result: Array) -> Array | None:
    if result.dtype.kind != "f":
        is_exact = all(s is None for s in slacks)
        return None if is_exact else np.full(result.shape, np.inf)
    a, b = (np.abs(v).astype(np.float64) for v in values)
    loose_a, loose_b = (_zeros(v, s) for v, s in zip(values, slacks, strict=True))
    info = np.finfo(result.dtype)
    total = a @ b
    out = 2 * float(info.eps) * max(a.shape[-1], 1) * total
    if all((x * GRID == np.rint(x * GRID)).all() for x in (a, b)):
        out = np.where(total * GRID * GRID < 2.0**info.nmant, 0.0, out)
    out = out + loose_a @ b + a @ loose_b + loose_a @ loose_b
    return np.where(np.isfinite(total) & (total < info.max / 4), out, np.inf)
