"""np.interp as a search, three gathers and one line per point.

Takes points and the nodes of a piecewise linear function, gives float64. Invariant: the bits are
those of NumPy's compiled_interp: slope * (x - xp[j]) + fp[j], the node's own value at a node, and
its fall-backs where that is NaN.

    np.interp(x, xp, fp)      records      j = searchsorted[side=right] xp x
                                          gathers at j - 1; d = add c f
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Primitive
from fjit.core.trace import where as user_line
from fjit.errors import FjitValueError
from fjit.frontend import operands as ops
from fjit.frontend.numpy.arrays import array, as_dtype, as_tracer
from fjit.frontend.session import current
from fjit.frontend.tracer import FUNCTIONS, Tracer, implements


@implements(np.interp)
def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """See np.interp."""
    points, nodes, values = (as_dtype(as_tracer(v), dtypes.F64) for v in (x, xp, fp))
    if nodes.ndim != 1 or values.ndim != 1:
        raise FjitValueError(f"Data points must be 1-D sequences (at {user_line()})")
    if nodes.static_shape != values.static_shape:
        raise FjitValueError(
            f"fp and xp are not of the same length: {values.static_shape} and "
            f"{nodes.static_shape} (at {user_line()})"
        )
    if nodes.static_shape[0] == 0:
        raise FjitValueError(f"array of sample points is empty (at {user_line()})")
    if period is not None:
        points, nodes, values = _periodic(points, nodes, values, period)
        left = right = None
    ends = [_end(values, left, 0), _end(values, right, -1)]
    return _interpolated(points, nodes, values, ends[0], ends[1])


def _periodic(x: Tracer, xp: Tracer, fp: Tracer, period: Any) -> tuple[Tracer, Tracer, Tracer]:
    """Points and nodes in one period, the nodes extended by one to both sides."""
    if not isinstance(period, Tracer) and period == 0:
        raise FjitValueError(f"period must be a non-zero value (at {user_line()})")
    period = abs(period)
    x, xp = x % period, xp % period
    order = FUNCTIONS[np.argsort](xp)
    xp, fp = FUNCTIONS[np.take](xp, order), FUNCTIONS[np.take](fp, order)
    join = FUNCTIONS[np.concatenate]
    return x, join((xp[-1:] - period, xp, xp[0:1] + period)), join((fp[-1:], fp, fp[0:1]))


def _end(values: Tracer, given: Any, position: int) -> Atom:
    if given is not None:
        return ops.convert(ops.lift(given).atom, dtypes.F64)
    atom: Atom = values[position].atom
    return atom


def _interpolated(x: Tracer, xp: Tracer, fp: Tracer, left: Atom, right: Atom) -> Tracer:
    trace, shape, at = current().trace, x.static_shape, x.atom

    def emit(primitive: Primitive, *operands: Atom) -> Atom:
        return ops.broadcast_to(trace.emit(primitive, *ops.align(list(operands), shape)), shape)

    def pick(vector: Atom, index: Atom) -> Atom:
        return trace.emit(p.gather, vector, index, axes=(0,))

    count = len(xp)
    first, last = xp[0].atom, xp[-1].atom
    if count == 1:
        result = ops.broadcast_to(fp[0].atom, shape)
    else:
        found = FUNCTIONS[np.searchsorted](xp, x, side="right").atom
        one, zero, top = (trace.literal(v, dtypes.I64) for v in (1, 0, count - 2))
        j = emit(p.min_, emit(p.max_, emit(p.sub, found, one), zero), top)
        slopes = ((fp[1:] - fp[:-1]) / (xp[1:] - xp[:-1])).atom
        slope, x0, y0 = (pick(v, j) for v in (slopes, xp.atom, fp.atom))
        x1, y1 = (pick(v, emit(p.add, j, one)) for v in (xp.atom, fp.atom))
        result = emit(p.add, emit(p.mul, slope, emit(p.sub, at, x0)), y0)
        backward = emit(p.add, emit(p.mul, slope, emit(p.sub, at, x1)), y1)
        level = emit(p.select, emit(p.eq, y0, y1), y0, backward)
        backward = emit(p.select, emit(p.isnan, backward), level, backward)
        result = emit(p.select, emit(p.isnan, result), backward, result)
        result = emit(p.select, emit(p.eq, at, x0), y0, result)
        result = emit(p.select, emit(p.eq, at, last), fp[-1].atom, result)
    result = emit(p.select, emit(p.lt, at, first), left, result)
    result = emit(p.select, emit(p.gt, at, last), right, result)
    if count > 1:  # NumPy gives the node's value to NaN if there is one node
        result = emit(p.select, emit(p.isnan, at), at, result)
    if not shape:
        return ops.finish(result, [])
    return array(result)
