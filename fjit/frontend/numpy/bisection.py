"""Where values belong in a sorted vector: as many elements as it has come before each of them.

Takes the atoms of a vector and of values of its dtype, gives positions. Few elements are counted,

    n = sum(table < v)

more are searched by halves, all values in step and without a branch: NumPy's search takes one value
at a time, and its branches are foreseen half of the time.

    end = n + 2**k;  n = end if end <= len(table) and table[end - 1] < v else n;  k = k - 1

Invariant: NaN comes last, as np.sort puts it; of a vector that is not sorted the result is not
specified, as NumPy's.
"""

from __future__ import annotations

from typing import Final

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Primitive
from fjit.frontend import operands as ops
from fjit.frontend.session import current

COUNTED: Final = 64
"""Elements up to which all are compared (of 64 float64: 3 ns a value, and 10 by halves)."""


def positions(table: Atom, values: Atom, extent: int, side: str) -> Atom:
    """How many of the `extent` elements of `table` come before each value (`side` as in NumPy)."""
    return (_counted if extent <= COUNTED else _halved)(table, values, extent, side)


def _counted(table: Atom, values: Atom, extent: int, side: str) -> Atom:
    trace, ndim = current().trace, values.aval.ndim
    wide = (*values.aval.shape, extent)
    t = trace.emit(p.broadcast, table, shape=wide, axes=(ndim,))
    v = trace.emit(p.broadcast, values, shape=wide, axes=tuple(range(ndim)))
    before = ops.convert(_before(t, v, side), dtypes.I64)
    return trace.emit(p.reduce, before, op="sum", axes=(ndim,))


def _halved(table: Atom, values: Atom, extent: int, side: str) -> Atom:
    trace, shape = current().trace, values.aval.shape

    def whole(number: int) -> Atom:
        return ops.broadcast_to(trace.literal(number, dtypes.I64), shape)

    found, half = whole(0), 1 << (extent.bit_length() - 1)
    while half:
        end = trace.emit(p.add, found, whole(half))
        last = trace.emit(p.sub, trace.emit(p.min_, end, whole(extent)), whole(1))
        before = _before(trace.emit(p.gather, table, last, axes=(0,)), values, side)
        fits = trace.emit(p.le, end, whole(extent))
        found = trace.emit(p.select, trace.emit(p.and_, before, fits), end, found)
        half //= 2
    return found


def _before(t: Atom, v: Atom, side: str) -> Atom:
    """Whether an element comes before where a value belongs."""
    trace = current().trace
    compare: Primitive = p.lt if side == "left" else p.le
    before = trace.emit(compare, t, v)
    if v.aval.dtype.kind != "f":
        return before
    behind = trace.emit(p.isnan, v)
    if side == "left":
        behind = trace.emit(p.and_, behind, trace.emit(p.eq, t, t))
    return trace.emit(p.or_, before, behind)
