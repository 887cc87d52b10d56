"""Rules for writes into parts of arrays: updates, reads behind them, masked writes.

Takes an equation, gives what to read instead:

    let b = broadcast[shape=(2,)] 0.0; c = update[starts=(0,)] b x; d = update[starts=(1,)] c y
    becomes
    let d = concatenate[axis=0] x y

Measure: each rule shortens the chain of writes behind a value. Invariant: a region along a symbolic
extent is the whole of it (the type rule of slice), so it is equal to every other one.
"""

from __future__ import annotations

import math
from typing import Final

from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Extent
from fjit.optimize.rewrite import Draft, Rewriter, Run, replaced
from fjit.optimize.viewing import ints, shape_of

Result = Atom | Draft | None
Span = tuple[int, Extent, int]  # start, size, step along one axis

MAX_WRITES: Final = 64
"""Writes that a read is followed through, so that long runs of writes and reads stay linear."""


def _spans(eqn: Eqn, sizes: tuple[Extent, ...]) -> tuple[Span, ...]:
    """The region of a slice or update, one span per axis; a single element's step is 1."""
    rows = zip(ints(eqn, "starts"), sizes, ints(eqn, "steps"), strict=True)
    return tuple((start, size, 1 if size == 1 else step) for start, size, step in rows)


def _written(update: Eqn) -> tuple[Span, ...]:
    return _spans(update, update.inputs[1].aval.shape)


def is_apart(a: Span, b: Span) -> bool:
    """Whether two spans of one axis surely share no position."""
    (start, size, step), (other, count, by) = a, b
    if not isinstance(size, int) or not isinstance(count, int):
        return False
    if not size or not count:
        return True
    if (start - other) % math.gcd(step, by):
        return True
    last, end = start + (size - 1) * step, other + (count - 1) * by
    return max(start, last) < min(other, end) or max(other, end) < min(start, last)


# ---- updates ------------------------------------------------------------------------------------
def write_nothing(_: Rewriter, eqn: Eqn) -> Result:
    """An update of no elements."""
    return eqn.inputs[0] if 0 in eqn.inputs[1].aval.shape else None


def write_all(_: Rewriter, eqn: Eqn) -> Result:
    """An update of everything, in order."""
    base, value = eqn.inputs
    spans = _written(eqn)
    is_whole = value.aval.shape == base.aval.shape and all(
        start == 0 and step == 1 for start, _, step in spans
    )
    return value if is_whole else None


def write_again(rw: Rewriter, eqn: Eqn) -> Result:
    """An update of the region that the update before it wrote."""
    base, value = eqn.inputs
    made = rw.producer(base, p.update)
    if made is None or _written(made) != _written(eqn):
        return None
    return replaced(eqn, made.inputs[0], value)


def join_updates(rw: Rewriter, eqn: Eqn) -> Result:
    """Updates along one axis that cover the whole base are a concatenate of their values."""
    base, value = eqn.inputs
    axis = _axis_of(eqn)
    if axis is None:
        return None
    start, size, _ = _written(eqn)[axis]
    extent = base.aval.shape[axis]
    assert isinstance(size, int)
    run = rw.runs.pop(base, None)
    if run is None or run.axis != axis or not run.write(start, size, value):
        run = Run(axis)
        run.write(start, size, value)
    if run.covered == extent:
        return Draft(p.concat, run.values(), {"axis": axis})
    rw.runs[eqn.output] = run
    return None


def _axis_of(eqn: Eqn) -> int | None:
    """The one axis that an update does not write whole; None if there are more, or gaps."""
    base = eqn.inputs[0].aval.shape
    found = None
    for axis, (extent, (start, size, step)) in enumerate(zip(base, _written(eqn), strict=True)):
        if step != 1:
            return None
        if size == extent and start == 0:
            continue
        if found is not None:
            return None
        found = axis
    return found


# ---- a slice of an update -----------------------------------------------------------------------
def read_written(rw: Rewriter, eqn: Eqn) -> Result:
    """A slice of the region just written is the value; one apart from it reads the base."""
    region = _spans(eqn, shape_of(eqn))
    atom = eqn.inputs[0]
    for _ in range(MAX_WRITES):
        made = rw.producer(atom, p.update)
        written = () if made is None else _written(made)
        if made is None or not (written == region or any(map(is_apart, region, written))):
            return None if atom is eqn.inputs[0] else replaced(eqn, atom)
        if written == region:
            return made.inputs[1]
        atom = made.inputs[0]
    return None


# ---- masks --------------------------------------------------------------------------------------
def expand_compressed(rw: Rewriter, eqn: Eqn) -> Result:
    """`expand(mask, compress(mask, x), base)` picks x where the mask holds."""
    mask, values, base = eqn.inputs
    made = rw.producer(values, p.compress)
    if made is None or made.inputs[0] is not mask or made.inputs[1].aval != base.aval:
        return None
    if mask.aval.ndim < base.aval.ndim:
        axes = tuple(range(mask.aval.ndim))
        mask = rw.emit(p.broadcast, mask, shape=base.aval.shape, axes=axes)
    return Draft(p.select, (mask, made.inputs[1], base), {})


def compress_selected(rw: Rewriter, eqn: Eqn) -> Result:
    """`compress(mask, select(mask, a, b))` reads a only."""
    mask, selected = eqn.inputs
    made = rw.producer(selected, p.select)
    if made is None or not _is_mask(rw, made.inputs[0], mask):
        return None
    a = made.inputs[1]
    if a.aval.shape != selected.aval.shape:
        a = rw.emit(p.broadcast, a, shape=selected.aval.shape, axes=())
    return replaced(eqn, mask, a)


def _is_mask(rw: Rewriter, condition: Atom, mask: Atom) -> bool:
    """Whether `condition` is `mask`, repeated along trailing axes or not."""
    if condition is mask:
        return True
    made = rw.producer(condition, p.broadcast)
    if made is None or made.inputs[0] is not mask:
        return False
    return ints(made, "axes") == tuple(range(mask.aval.ndim))
