"""Rules for views: views of views are one view, and views that change nothing go.

Takes an equation, gives what to read instead:

    let b = slice[starts=(2,) sizes=(8,) steps=(2,)] a; c = slice[starts=(7,) ... steps=(-2,)] b
    becomes
    let c = slice[starts=(16,) ... steps=(-4,)] a

Measure: each rule shortens the chain of views behind a value, or moves a broadcast towards the end
of the chain, where it costs nothing. Symbolic extents stay whole and are compared by identity.
"""

from __future__ import annotations

from typing import Any, Final

from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Extent, Shape
from fjit.optimize.rewrite import Draft, Rewriter, replaced

Result = Atom | Draft | None
Ints = tuple[int, ...]

MAX_OPERANDS: Final = 64
"""Nested concatenates are flattened up to this many operands, so that long chains stay linear."""


def ints(eqn: Eqn, key: str) -> Ints:
    """A parameter that is a tuple of ints."""
    value: Any = eqn.param(key)  # parameters are objects; the type rule has checked this one
    return tuple(value)


def shape_of(eqn: Eqn) -> Shape:
    """The shape of the equation's result."""
    return eqn.output.aval.shape


# ---- views that change nothing ------------------------------------------------------------------
def same_shape(_: Rewriter, eqn: Eqn) -> Result:
    """A reshape or broadcast to the shape that the operand has."""
    (a,) = eqn.inputs
    return a if a.aval.shape == shape_of(eqn) else None


def same_axes(_: Rewriter, eqn: Eqn) -> Result:
    """A transpose that keeps the order of axes."""
    perm = ints(eqn, "perm")
    return eqn.inputs[0] if perm == tuple(range(len(perm))) else None


def whole_slice(_: Rewriter, eqn: Eqn) -> Result:
    """A slice of everything, in order."""
    (a,) = eqn.inputs
    if a.aval.shape != shape_of(eqn):
        return None
    extents = zip(shape_of(eqn), ints(eqn, "starts"), ints(eqn, "steps"), strict=True)
    return a if all(_is_whole(n, start, step) for n, start, step in extents) else None


def _is_whole(extent: Extent, start: int, step: int) -> bool:
    few = isinstance(extent, int) and extent <= 1
    return few or (start == 0 and step == 1)


def pad_nothing(_: Rewriter, eqn: Eqn) -> Result:
    """A pad of no elements on any side."""
    return None if any(ints(eqn, "low") + ints(eqn, "high")) else eqn.inputs[0]


# ---- a view of a view ---------------------------------------------------------------------------
def broadcast_once(rw: Rewriter, eqn: Eqn) -> Result:
    """A broadcast of a broadcast."""
    made = rw.producer(eqn.inputs[0], p.broadcast)
    if made is None:
        return None
    outer = ints(eqn, "axes")
    return replaced(eqn, made.inputs[0], axes=tuple(outer[k] for k in ints(made, "axes")))


def broadcast_of_reshape(rw: Rewriter, eqn: Eqn) -> Result:
    """A broadcast of a reshape that only inserts axes of extent 1, as `x[:, None]`."""
    made = rw.producer(eqn.inputs[0], p.reshape)
    if made is None:
        return None
    outer, (a,) = ints(eqn, "axes"), made.inputs
    kept = [k for k, extent in enumerate(shape_of(made)) if extent != 1]
    if tuple(shape_of(made)[k] for k in kept) != a.aval.shape:
        return None
    return replaced(eqn, a, axes=tuple(outer[k] for k in kept))


def transpose_once(rw: Rewriter, eqn: Eqn) -> Result:
    """A transpose of a transpose."""
    made = rw.producer(eqn.inputs[0], p.transpose)
    if made is None:
        return None
    inner = ints(made, "perm")
    return replaced(eqn, made.inputs[0], perm=tuple(inner[k] for k in ints(eqn, "perm")))


def transpose_of_broadcast(rw: Rewriter, eqn: Eqn) -> Result:
    """A transpose of a broadcast that leaves the axes of the source in order."""
    made = rw.producer(eqn.inputs[0], p.broadcast)
    if made is None:
        return None
    perm = ints(eqn, "perm")
    axes = tuple(perm.index(k) for k in ints(made, "axes"))
    if list(axes) != sorted(axes):
        return None
    return replaced(made, made.inputs[0], shape=shape_of(eqn), axes=axes)


def reshape_once(rw: Rewriter, eqn: Eqn) -> Result:
    """A reshape of a reshape."""
    made = rw.producer(eqn.inputs[0], p.reshape)
    return None if made is None else replaced(eqn, made.inputs[0])


def reshape_of_scalar(rw: Rewriter, eqn: Eqn) -> Result:
    """A reshape of a repeated scalar."""
    made = rw.producer(eqn.inputs[0], p.broadcast)
    if made is None or made.inputs[0].aval.shape:
        return None
    return replaced(made, made.inputs[0], shape=shape_of(eqn))


def slice_once(rw: Rewriter, eqn: Eqn) -> Result:
    """A slice of a slice."""
    made = rw.producer(eqn.inputs[0], p.slice_)
    if made is None:
        return None
    outer = tuple(zip(ints(eqn, "starts"), ints(eqn, "steps"), strict=True))
    inner = tuple(zip(ints(made, "starts"), ints(made, "steps"), strict=True))
    starts = tuple(s + t * step for (s, step), (t, _) in zip(inner, outer, strict=True))
    steps = tuple(step * by for (_, step), (_, by) in zip(inner, outer, strict=True))
    return replaced(eqn, made.inputs[0], starts=starts, steps=steps)


def slice_of_broadcast(rw: Rewriter, eqn: Eqn) -> Result:
    """A slice of a broadcast: slice the source along its own axes, repeat less along the others."""
    made = rw.producer(eqn.inputs[0], p.broadcast)
    if made is None:
        return None
    (a,), axes = made.inputs, ints(made, "axes")
    starts, steps, sizes = ints(eqn, "starts"), ints(eqn, "steps"), shape_of(eqn)
    own = [k for k, extent in zip(axes, a.aval.shape, strict=True) if extent != 1]
    region = {
        "starts": tuple(starts[k] if k in own else 0 for k in axes),
        "steps": tuple(steps[k] if k in own else 1 for k in axes),
        "sizes": tuple(sizes[k] if k in own else 1 for k in axes),
    }
    return replaced(made, rw.emit(p.slice_, a, **region), shape=sizes)


# ---- concatenate --------------------------------------------------------------------------------
def join_one(_: Rewriter, eqn: Eqn) -> Result:
    """A concatenate of one operand."""
    return eqn.inputs[0] if len(eqn.inputs) == 1 else None


def join_flat(rw: Rewriter, eqn: Eqn) -> Result:
    """A concatenate of concatenates along the same axis."""
    operands: list[Atom] = []
    for atom in eqn.inputs:
        made = rw.producer(atom, p.concat)
        is_alike = made is not None and made.params == eqn.params
        operands.extend(made.inputs if made is not None and is_alike else (atom,))
    if len(eqn.inputs) == len(operands) or len(operands) > MAX_OPERANDS:
        return None
    return replaced(eqn, *operands)


def slice_of_concatenate(rw: Rewriter, eqn: Eqn) -> Result:
    """A slice of a concatenate that lies in one of its operands."""
    made = rw.producer(eqn.inputs[0], p.concat)
    if made is None:
        return None
    axis: Any = made.param("axis")  # an int
    starts, steps, size = ints(eqn, "starts"), ints(eqn, "steps"), shape_of(eqn)[axis]
    assert isinstance(size, int), "concatenate refuses symbolic extents along its axis"
    last = starts[axis] + (size - 1) * steps[axis]
    low, high, offset = min(starts[axis], last), max(starts[axis], last), 0
    for operand in made.inputs if size else ():
        extent = operand.aval.shape[axis]
        assert isinstance(extent, int)
        if offset <= low and high < offset + extent:
            moved = (*starts[:axis], starts[axis] - offset, *starts[axis + 1 :])
            return replaced(eqn, operand, starts=moved)
        offset += extent
    return None
