"""Reductions that walk each block of a row twice while it is in the first cache.

Takes placed reductions along the vector axis, writes their part of the nest: a loop over blocks
around two loops over the block's elements, and the merging of blocks, whose state is in memory.

    x.var()    sequential block: open a0 sum; vector i in block: update a0 x[i]
                                 open a1 sum; vector i in block: update a1 (x[i] - mean)^2
                                 merge (mean, squares) into those of the blocks before

Invariant: everything else that the row's loop does happens in the first of the two walks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fjit.core import dtypes
from fjit.core.ir import Var
from fjit.lower import merging, order
from fjit.lower.build import Writer
from fjit.lower.merging import Merging
from fjit.lower.nest import UNIT, Close, Linear, Load, Open, Position, Prefetch, Update, Value
from fjit.optimize.index import Axis
from fjit.optimize.schedule import Placed

I64, F64 = dtypes.I64, dtypes.F64
NOWHERE = Linear(None)


class Walked(NamedTuple):
    """A reduction between its block's two walks: its second accumulator, its block's mean."""

    placed: Placed
    acc: int
    pivot: Value
    wide: Value


def dtype_of(q: Placed) -> np.dtype:
    """The dtype of a reduction's operand."""
    assert q.root.eqn is not None
    return q.root.eqn.inputs[0].aval.dtype


class Lengths:
    """The number of elements or rows merged so far, one cell of the worker's memory."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.cell = writer.buffer("private", F64, nbytes=order.aligned(F64.itemsize))

    def begin(self) -> None:
        """Nothing yet."""
        self.write(self.writer.constant(0.0, F64))

    def read(self) -> Value:
        """The number so far."""
        out = self.writer.fresh(self.writer.depth)
        self.writer.place(Load(out, self.cell, NOWHERE, F64), self.writer.depth)
        return out

    def write(self, value: Value) -> None:
        """Replace it."""
        self.writer.store(self.cell, NOWHERE, value, F64)


def length_of(writer: Writer, axis: Axis, counter: str, step: int) -> Value:
    """How many of `step` elements of `axis` part number `counter` has: fewer in the last one."""
    rest = writer.fresh(writer.depth)
    size = writer.extent_slot(("extent", axis), axis.extent)
    back = writer.extent_slot(("back", counter, axis), -step)
    writer.place(Position(rest, Linear(size, ((counter, back),))), writer.depth)
    full = writer.fresh(writer.depth)
    place = Position(full, Linear(writer.extent_slot(("step", counter, axis), step)))
    writer.place(place, writer.depth)
    least = writer.let("min", (rest, full), (I64, I64), I64, writer.depth)
    return writer.let("convert", (least,), (I64,), F64)


class Blocks:
    """The running words of reductions in two walks along the vector axis."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.merging = Merging(writer)
        self.known: dict[Var, tuple[Lengths, list[int]]] = {}

    # ---- state ------------------------------------------------------------------------------
    def words(self, q: Placed) -> tuple[np.dtype, ...]:
        """Dtypes of a stretch's words: its length, then those of `merging.words`."""
        return (F64, *merging.words(order.op_of(q.root.eqn), dtype_of(q)))  # type: ignore[arg-type]

    def begin(self, q: Placed) -> None:
        """An empty stretch."""
        if q.root.var not in self.known:
            words = self.words(q)[1:]
            size = order.aligned(F64.itemsize)
            cells = [self.writer.buffer("private", w, nbytes=size) for w in words]
            self.known[q.root.var] = Lengths(self.writer), cells
        lengths, cells = self.known[q.root.var]
        lengths.begin()
        for cell in cells:
            self.writer.store(cell, NOWHERE, self.writer.constant(0.0, F64), F64)

    def read(self, q: Placed) -> tuple[Value, ...]:
        """The words of the stretch so far."""
        writer = self.writer
        lengths, cells = self.known[q.root.var]
        values = [lengths.read()]
        for cell in cells:
            out = writer.fresh(writer.depth)
            writer.place(Load(out, cell, NOWHERE, F64), writer.depth)
            values.append(out)
        return tuple(values)

    def merge(self, q: Placed, new: tuple[Value, ...]) -> None:
        """Merge the words of the stretch that follows."""
        before, *old = self.read(q)
        both, share, weight = self.merging.share(before, new[0])
        merged = self.merging.merge(tuple(old), new[1:], share, weight)
        lengths, cells = self.known[q.root.var]
        lengths.write(both)
        for cell, value in zip(cells, merged, strict=True):
            self.writer.store(cell, NOWHERE, value, F64)

    def result(self, q: Placed) -> Value:
        """The finished value."""
        return self.merging.finish(self.read(q)[1:], dtype_of(q))

    # ---- one block --------------------------------------------------------------------------
    def open_sum(self, q: Placed, acc: int) -> None:
        """Start a sum over the block."""
        self.writer.place(Open(acc, "sum", dtype_of(q)), self.writer.depth)

    def _close(self, q: Placed, acc: int) -> Value:
        """A block's sum in float64."""
        writer, dtype = self.writer, dtype_of(q)
        out = writer.fresh(writer.depth)
        writer.place(Close((out,), acc, F64, partial=dtype != F64), writer.depth)
        return out

    def between_walks(self, q: Placed, first: int, second: int, count: Value) -> Walked:
        """The mean of the block, from the first walk's accumulator; starts the second's."""
        pivot, wide = self.merging.pivot(self._close(q, first), count, dtype_of(q))
        self.open_sum(q, second)
        return Walked(q, second, pivot, wide)

    def second_walk(self, walked: list[Walked]) -> None:
        """The body of the second walk."""
        writer = self.writer
        kept = {var for var, _ in writer.held}
        writer.prepare([(w.placed.root.operand, w.placed.at) for w in walked], kept)
        for w in walked:
            value = writer.value(w.placed.root.operand, w.placed.at)
            term = self.merging.term(value, w.pivot, dtype_of(w.placed))
            writer.place(Update(w.acc, term), writer.depth)
        self._fetch_next()

    def _fetch_next(self) -> None:
        """Fetch the next block, whose first walk would otherwise wait for memory alone."""
        writer, here = self.writer, self.writer.levels[-1].stmts
        axis = writer.vector_axis
        assert axis is not None
        loads = [s for s in here if isinstance(s, Load) and (f"i{axis.number}", UNIT) in s.at.terms]
        for load in loads:
            if writer.buffers[load.buffer].kind != "in" or load.at.offset is None:
                continue
            offset = writer.slots[load.at.offset.number]
            assert isinstance(offset, int)
            ahead = offset + order.WALKED_TWICE * load.dtype.itemsize
            slot = writer.extent_slot(("ahead", load.buffer, load.at), ahead)
            at = load.at._replace(offset=slot)
            writer.place(Prefetch(load.buffer, at, load.dtype), writer.depth)

    def after_walks(self, walked: Walked, count: Value) -> None:
        """Merge the block."""
        q = walked.placed
        self.writer.held.pop((q.root.operand, q.at), None)  # type: ignore[arg-type]
        self.merge(q, (count, walked.wide, self._close(q, walked.acc)))
