"""Rules for reductions and cumulative functions: reductions over nothing, and of reductions.

Takes an equation, gives what to read instead:

    let b = reduce[axes=(0,) op=max] a; c = reduce[axes=(0,) op=max] b
    becomes
    let c = reduce[axes=(0,1) op=max] a

Measure: each rule removes a reduction. A floating sum of sums stays: its rounding order is part of
the program's meaning.
"""

from __future__ import annotations

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, literal
from fjit.core.rules import ORDERED_OPS, PIVOTS
from fjit.optimize.rewrite import Draft, Rewriter, replaced
from fjit.optimize.viewing import ints, shape_of

Result = Atom | Draft | None


def _is_over_ones(eqn: Eqn) -> bool:
    shape = eqn.inputs[0].aval.shape
    return all(shape[k] == 1 for k in ints(eqn, "axes"))


def reduce_ones(rw: Rewriter, eqn: Eqn) -> Result:
    """A reduction over axes of extent 1 is a reshape; a floating sum turns -0.0 into 0.0."""
    if not _is_over_ones(eqn):
        return None
    (a,) = eqn.inputs
    if eqn.param("op") in PIVOTS:
        return None
    if eqn.param("op") == "sum" and dtypes.is_float(a.aval.dtype):
        a = rw.emit(p.add, a, literal(0.0, a.aval.dtype))
    return Draft(p.reshape, (a,), {"shape": shape_of(eqn)})


def argreduce_ones(_: Rewriter, eqn: Eqn) -> Result:
    """The position of the extremum over axes of extent 1 is 0."""
    if not _is_over_ones(eqn):
        return None
    zero = literal(0, dtypes.I64)
    if not shape_of(eqn):
        return zero
    return Draft(p.broadcast, (zero,), {"shape": shape_of(eqn), "axes": ()})


def reduce_once(rw: Rewriter, eqn: Eqn) -> Result:
    """max of max, min of min, and of and, or of or, integer sum of sums, product of products."""
    dtype = eqn.output.aval.dtype
    is_ordered = eqn.param("op") in ORDERED_OPS and not dtypes.is_integer(dtype)
    return None if is_ordered else join_reductions(rw, eqn)


def join_reductions(rw: Rewriter, eqn: Eqn) -> Draft | None:
    """A reduction of a like one that nothing else reads, over the axes of both."""
    made = rw.producer(eqn.inputs[0], p.reduce)
    if made is None or made.param("op") != eqn.param("op") or rw.is_shared(eqn.inputs[0]):
        return None
    (a,) = made.inputs
    if eqn.param("op") in PIVOTS or not a.aval.is_static:
        return None
    inner = ints(made, "axes")
    left = [k for k in range(a.aval.ndim) if k not in inner]
    axes = sorted((*inner, *(left[k] for k in ints(eqn, "axes"))))
    return replaced(eqn, a, axes=tuple(axes))


def cumulate_one(_: Rewriter, eqn: Eqn) -> Result:
    """A cumulative function along an axis of extent 1."""
    (a,), axis = eqn.inputs, eqn.param("axis")
    assert isinstance(axis, int)
    return a if a.aval.shape[axis] == 1 else None
