"""Searching and counting by value: searchsorted, digitize, bincount, isin.

Takes traced arrays, gives copies:

    np.bincount(i, minlength=4)      records      c = broadcast[shape=(4,)] 0
                                                  d = scatter[axes=(0,) op=add] c ones i

Invariant: the extent of a result is known, or bounded by the dtype of what is counted.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom
from fjit.core.trace import where
from fjit.errors import FjitTypeError, FjitValueError
from fjit.frontend.numpy import arrays, bisection
from fjit.frontend.numpy.arrays import as_tracer, joined_dtype, static_int
from fjit.frontend.numpy.indexing import compress
from fjit.frontend.numpy.shaping import ravel
from fjit.frontend.operands import broadcast_to, convert
from fjit.frontend.session import current
from fjit.frontend.tracer import FUNCTIONS, UFUNCS, Tracer, fresh, implements, require_static

COMPARED_ONE_BY_ONE: Final = 64
"""np.isin compares with at most so many values directly; more are sorted and searched."""


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tracer:
    """See np.searchsorted."""
    x, values = as_tracer(a), as_tracer(v)
    if side not in ("left", "right"):
        raise FjitValueError(f"search side must be 'left' or 'right' (got '{side}'), at {where()}")
    if x.ndim != 1:
        raise FjitValueError(f"object too deep for desired array, at {where()}: {x.aval}")
    if sorter is not None:
        x = FUNCTIONS[np.take](x, sorter)
    dtype = joined_dtype((x, values))
    return fresh(_found(convert(x.atom, dtype), convert(values.atom, dtype), side))


def _found(table: Atom, values: Atom, side: str) -> Atom:
    """Positions in a table; of an extent known at run time alone by a call of NumPy."""
    extent = table.aval.shape[0]
    if isinstance(extent, int) and values.aval.is_static:
        return bisection.positions(table, values, extent, side)
    return current().trace.emit(p.searchsorted, table, values, side=side)


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Tracer:
    """See np.digitize; bins that are not written as a list are taken to be monotonic."""
    values, edges = as_tracer(x), as_tracer(bins)
    if edges.ndim != 1:
        raise FjitValueError(f"object too deep for desired array, at {where()}: {edges.aval}")
    side = "left" if right else "right"
    count = require_static(edges.static_shape[0], "np.digitize")
    contents = arrays.known(bins)
    if count < 2 or (contents is not None and _rises(contents)):
        return searchsorted(edges, values, side)
    falls = True if contents is not None else UFUNCS["greater"](edges[0], edges[-1])
    if count > bisection.COUNTED:  # fewer are counted, in any order
        edges = FUNCTIONS[np.where](falls, FUNCTIONS[np.flip](edges), edges)
    found = searchsorted(edges, values, side)
    return fresh(FUNCTIONS[np.where](falls, UFUNCS["subtract"](count, found), found).atom)


def _rises(bins: np.ndarray[Any, Any]) -> bool:
    steps = np.diff(bins)
    if (steps >= 0).all():
        return True
    if (steps <= 0).all():
        return False
    raise FjitValueError(f"bins must be monotonically increasing or decreasing, at {where()}")


# ---- bincount ---------------------------------------------------------------------------------


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Tracer:
    """See np.bincount; `minlength` bounds the values, unless they are bool or uint8."""
    values = as_tracer(x)
    if values.ndim != 1:
        raise FjitValueError(f"object of too small depth for desired array, at {where()}")
    if values.dtype.kind not in "biu":
        raise FjitTypeError(
            f"Cannot cast array data from {values.dtype!r} to dtype('int64') according to the rule "
            f"'safe', at {where()}: np.bincount counts integers"
        )
    least = static_int(minlength, "minlength")
    if least < 0:
        raise FjitValueError(f"'minlength' must not be negative, at {where()}")
    small = {"b": 2, "u": 256}.get(values.dtype.kind) if values.itemsize == 1 else None
    if small is None and least == 0:
        raise FjitValueError(
            f"np.bincount of {values.aval} at {where()}: the length of the result is one more than "
            "the largest value, which is known only at run time. Pass minlength= as a bound (a "
            "value that is not below it then raises IndexError), or count x.astype('uint8')."
        )
    counts = _counts(values, weights, max(least, small or 0))
    return counts if small is None or least >= small else _cut(counts, values, least)


def _counts(values: Tracer, weights: Any, length: int) -> Tracer:
    trace = current().trace
    index, size = convert(values.atom, dtypes.I64), trace.literal(length, dtypes.I64)
    if values.dtype.kind == "i":  # a negative value has no bin: it must not count from the end
        negative = trace.emit(p.lt, index, trace.literal(0, dtypes.I64))
        index = trace.emit(p.select, negative, size, index)
    dtype = dtypes.I64 if weights is None else dtypes.F64
    one: Atom = trace.literal(1, dtype)
    if weights is not None:
        given = as_tracer(weights)
        if given.static_shape != values.static_shape:
            raise FjitValueError(f"The weights and list don't have the same length, at {where()}.")
        one = convert(given.atom, dtype)
    zeros = broadcast_to(trace.literal(0, dtype), (length,))
    added = broadcast_to(one, values.static_shape)
    return arrays.array(trace.emit(p.scatter, zeros, added, index, axes=(0,), op="add"))


def _cut(counts: Tracer, values: Tracer, least: int) -> Tracer:
    """The counts up to the largest value that occurs, at least `least` of them."""
    if values.static_shape[0] == 0:
        return arrays.copy(arrays.slice_axis(counts, 0, 0, least))
    trace = current().trace
    (length,) = counts.static_shape
    largest = FUNCTIONS[np.max](arrays.as_dtype(values, dtypes.I64)).atom
    place = trace.emit(p.iota, shape=(length,), axis=0)
    top = trace.emit(p.max_, largest, trace.literal(least - 1, dtypes.I64))
    return arrays.array(compress(trace.emit(p.le, place, top), counts.atom))


# ---- isin -------------------------------------------------------------------------------------


@implements(np.isin)
def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Any:
    """See np.isin."""
    x, tests = as_tracer(element), ravel(test_elements)
    count = require_static(tests.static_shape[0], "np.isin")
    if count <= COMPARED_ONE_BY_ONE:
        wide = arrays.expand_view(x, (x.ndim,))
        found = FUNCTIONS[np.any](UFUNCS["equal"](wide, tests), axis=-1)
    else:
        dtype = joined_dtype((x, tests))
        x, tests = arrays.as_dtype(x, dtype), FUNCTIONS[np.sort](arrays.as_dtype(tests, dtype))
        place = UFUNCS["minimum"](searchsorted(tests, x), count - 1)
        found = UFUNCS["equal"](FUNCTIONS[np.take](tests, place), x)
    if invert:
        found = UFUNCS["logical_not"](found)
    return arrays.array(found.atom)
