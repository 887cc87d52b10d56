"""Reductions that walk each block of a row twice while it is in cache.

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
from fjit.core.rules import PIVOTS
from fjit.lower import merging, order
from fjit.lower.build import Writer
from fjit.lower.fetching import fetch_ahead, loads_along
from fjit.lower.merging import Merging, lengths_of, merging_of
from fjit.lower.nest import Close, Linear, Load, Open, Position, Update, Value
from fjit.optimize.index import Axis
from fjit.optimize.schedule import Placed

I64, F64 = dtypes.I64, dtypes.F64
NOWHERE = Linear(None)


class Walked(NamedTuple):
    """A reduction between its block's walks: the second one's accumulators, and its pivot."""

    placed: Placed
    accs: tuple[int, ...]
    pivot: Value
    wide: Value


def dtype_of(q: Placed) -> np.dtype:
    """The dtype of a reduction's operand."""
    assert q.root.eqn is not None
    return q.root.eqn.inputs[0].aval.dtype


def op_of(q: Placed) -> str:
    """The operation of a placed reduction."""
    assert q.root.eqn is not None
    return order.op_of(q.root.eqn)


class Cell:
    """The number of elements or rows merged so far, in the worker's memory."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.buffer = writer.buffer("private", F64, nbytes=order.aligned(F64.itemsize))

    def read(self) -> Value:
        """What it holds."""
        out = self.writer.fresh(self.writer.depth)
        self.writer.place(Load(out, self.buffer, NOWHERE, F64), self.writer.depth)
        return out

    def write(self, value: Value) -> None:
        """Replace it."""
        self.writer.store(self.buffer, NOWHERE, value, F64)


def length_of(writer: Writer, axis: Axis, counter: str, step: int) -> Value:
    """How many of `step` elements of `axis` part number `counter` has: fewer in the last one."""
    rest = writer.fresh(writer.depth)
    size = writer.extent_slot(("extent", axis), axis.extent)
    back = writer.extent_slot(("back", counter, axis), -step)
    writer.place(Position(rest, Linear(size, ((counter, back),))), writer.depth)
    full = writer.fresh(writer.depth)
    place = Position(full, Linear(writer.extent_slot(("step", counter, axis), step)))
    writer.place(place, writer.depth)
    least = writer.let("min", (rest, full), (I64, I64), I64)
    return writer.let("convert", (least,), (I64,), F64)


class Blocks:
    """The running words of reductions in two walks along the vector axis."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.cells: dict[Var, list[Cell]] = {}

    # ---- state ------------------------------------------------------------------------------
    def merging(self, q: Placed) -> Merging:
        """The arithmetic of a reduction."""
        return merging_of(self.writer, op_of(q), dtype_of(q))

    def words(self, q: Placed) -> tuple[np.dtype, ...]:
        """Dtypes of a stretch's words: its length, then those of `merging.words`."""
        return (F64, *merging.words(op_of(q), dtype_of(q)))

    def begin(self, q: Placed) -> None:
        """An empty stretch."""
        starts = (0.0, *self.merging(q).starts)
        if q.root.var not in self.cells:
            self.cells[q.root.var] = [Cell(self.writer) for _ in starts]
        for cell, start in zip(self.cells[q.root.var], starts, strict=True):
            cell.write(self.writer.constant(start, F64))

    def read(self, q: Placed) -> tuple[Value, ...]:
        """The words of the stretch so far."""
        return tuple(cell.read() for cell in self.cells[q.root.var])

    def merge(self, q: Placed, new: tuple[Value, ...]) -> None:
        """Merge the words of the stretch that follows."""
        before, *old = self.read(q)
        lengths = lengths_of(self.writer, before, new[0])
        merged = self.merging(q).merge(tuple(old), new[1:], lengths)
        for cell, value in zip(self.cells[q.root.var], (lengths.both, *merged), strict=True):
            cell.write(value)

    def result(self, q: Placed) -> Value:
        """The finished value."""
        return self.merging(q).finish(self.read(q)[1:])

    # ---- one block --------------------------------------------------------------------------
    def open(self, q: Placed, acc: int, op: str) -> None:
        """Start a reduction over the block."""
        self.writer.place(Open(acc, op, dtype_of(q)), self.writer.depth)

    def _sum(self, q: Placed, acc: int) -> Value:
        """A block's sum in float64."""
        writer, dtype = self.writer, dtype_of(q)
        out = writer.fresh(writer.depth)
        writer.place(Close((out,), acc, F64, partial=dtype != F64), writer.depth)
        return out

    def between_walks(self, q: Placed, acc: int, accs: tuple[int, ...], number: Value) -> Walked:
        """What the second walk is about, from the first walk's accumulator; starts the second's."""
        writer = self.writer
        if PIVOTS[op_of(q)] == "sum":
            first = self._sum(q, acc)
        else:
            first = writer.fresh(writer.depth)
            writer.place(Close((first,), acc, dtype_of(q)), writer.depth)
        pivot, wide = self.merging(q).pivot(first, number)
        for second in accs:
            self.open(q, second, "sum")
        return Walked(q, accs, pivot, wide)

    def second_walk(self, walked: list[Walked]) -> None:
        """The body of the second walk."""
        writer = self.writer
        kept = {var for var, _ in writer.held}
        writer.prepare([(w.placed.root.operand, w.placed.at) for w in walked], kept)
        for w in walked:
            value = writer.value(w.placed.root.operand, w.placed.at)
            terms = self.merging(w.placed).term(value, w.pivot)
            for acc, term in zip(w.accs, terms, strict=True):
                writer.place(Update(acc, term), writer.depth)
        axis = writer.vector_axis
        assert axis is not None
        fetch_ahead(writer, loads_along(writer, axis, writer.levels[-1].stmts), order.WALKED_TWICE)

    def after_walks(self, walked: Walked, number: Value) -> None:
        """Merge the block."""
        q = walked.placed
        self.writer.held.pop((q.root.operand, q.at), None)  # type: ignore[arg-type]
        sums = tuple(self._sum(q, acc) for acc in walked.accs)
        words = self.merging(q).block(walked.pivot, walked.wide, sums, number)
        self.merge(q, (number, *words))
