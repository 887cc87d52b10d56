"""Reductions that keep one running value per column, in memory of the worker.

Takes placed reductions over outer axes, writes their part of the nest. Floating sums add groups of
16 rows in their own dtype, row by row, then the group to a float64 total.

    x.sum(0)      vector i: total[i] = 0
                  sequential group: vector i: open a; sequential s in group: update a x[s, i]
                                              total[i] += close a
                  vector i: store total[i]
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from fjit.core import dtypes
from fjit.core.ir import Aval, Eqn, Var
from fjit.core.meanings import start_value
from fjit.core.rules import PIVOTS
from fjit.lower import order
from fjit.lower.blocks import Cell, Walked, dtype_of, length_of, op_of
from fjit.lower.build import Writer
from fjit.lower.merging import Lengths, Merging, lengths_of, merging_of
from fjit.lower.nest import UNIT, Close, Let, Linear, Load, Loop, Open, Slot, Stmt, Update, Value
from fjit.optimize import chunks
from fjit.optimize.cost import FLOPS
from fjit.optimize.index import Axis
from fjit.optimize.schedule import Placed

BOOL, I64, F64 = dtypes.BOOL, dtypes.I64, dtypes.F64
SMALL: Final = 8
"""Most operations of a body of which two vectors go side by side."""
MAX_SIZE: Final = 24
"""Most operations of a body that is repeated for each row of a group: one elementary function."""
LONG: Final = frozenset({"sin", "cos", "tan"})
"""Functions whose code is too long to repeat."""


LENGTHS: Final = Var(Aval((), F64))
"""Stands for the chunks' numbers of rows among their partial results."""


class Columns:
    """Running values per column of one kernel phase."""

    def __init__(self, writer: Writer, inner: Axis) -> None:
        self.writer = writer
        self.inner = inner
        self.arrays: dict[tuple[Var, bool], list[int]] = {}
        self.known_rows: Cell | None = None

    # ---- memory ---------------------------------------------------------------------------
    def at(self) -> Linear:
        """The running value of this column."""
        return Linear(None, ((f"i{self.inner.number}", UNIT),))

    def words(self, q: Placed, group: bool = False) -> tuple[np.dtype, ...]:
        """Dtypes of the running values, or of a group's sum."""
        assert q.root.eqn is not None
        return (q.root.eqn.inputs[0].aval.dtype,) if group else order.column_dtypes(q)

    def buffers(self, q: Placed, group: bool = False) -> list[int]:
        """The memory of the running values (or of a group's sum)."""
        key = (q.root.var, group)
        known = self.arrays.get(key)
        if known is None:
            extent = max(self.inner.extent, 1)
            known = self.arrays[key] = [
                self.writer.buffer("private", w, nbytes=order.aligned(extent * w.itemsize))
                for w in self.words(q, group)
            ]
        return known

    def loop(self) -> Loop:
        """A loop over the columns, not yet open."""
        writer = self.writer
        cell = None if self.inner.sym is None else writer.cell(self.inner.sym)
        extent = writer.extent_slot(("extent", self.inner), self.inner.extent)
        return Loop(f"i{self.inner.number}", extent, "vector", cell=cell)

    def open(self) -> Loop:
        """Open a loop over the columns."""
        loop = self.loop()
        self.writer.open(loop, (loop.axis,))
        self.writer.vector_axis = self.inner
        return loop

    def begin(self, placed: list[Placed], group: bool = False) -> None:
        """Set the running values to the identity."""
        if not placed:
            return
        for q in placed:
            self.buffers(q, group)
        if any(order.in_two_walks(q) for q in placed):
            self.rows.write(self.writer.constant(0.0, F64))
        loop = self.open()
        for q in placed:
            for buffer, word, start in zip(
                self.buffers(q, group), self.words(q, group), self._starts(q, group), strict=False
            ):
                value = self.writer.constant(start, word)
                self.writer.store(buffer, self.at(), value, word)
        self.writer.close(loop)

    def _starts(self, q: Placed, group: bool) -> tuple[object, ...]:
        assert q.root.eqn is not None
        op = order.op_of(q.root.eqn)
        word = self.words(q, group)[0]
        if q.cls == "scan" and op == "sum" and word.kind == "f":
            return (-0.0, -1)
        if order.in_two_walks(q):
            return self.merging(q).starts
        return (start_value(op, word), -1)

    def read(self, q: Placed, group: bool = False) -> tuple[Value, ...]:
        """Load the running values of this column."""
        writer, values = self.writer, []
        for buffer, word in zip(self.buffers(q, group), self.words(q, group), strict=True):
            out = writer.fresh(writer.depth)
            writer.place(Load(out, buffer, self.at(), word), writer.depth)
            values.append(out)
        return tuple(values)

    def write(self, q: Placed, values: tuple[Value, ...], group: bool = False) -> None:
        """Store the running values of this column."""
        for buffer, word, value in zip(
            self.buffers(q, group), self.words(q, group), values, strict=True
        ):
            self.writer.store(buffer, self.at(), value, word)

    # ---- updates --------------------------------------------------------------------------
    def update(self, q: Placed, value: Value, guard: Value | None, axes: tuple[Axis, ...]) -> None:
        """Fold one row's value in, in loops over `axes`; a floating sum goes to its group."""
        eqn = q.root.eqn
        assert eqn is not None
        group = order.grouped(q)
        new: tuple[Value, ...] = (value,)
        unsorted = False
        if order.op_of(eqn).startswith("arg"):
            place = order.place_index(eqn, q.at)
            new, unsorted = (value, self.writer.position(place)), not order.rises(place, axes)
        old = self.read(q, group)
        word = self.words(q, group)[0]
        folded = self.combine(eqn, word, old, new, guard, unsorted=unsorted)
        self.write(q, folded, group)

    def fold_groups(self, placed: list[Placed]) -> None:
        """Add the groups' sums to the totals."""
        sums = [q for q in placed if order.grouped(q)]
        if not sums:
            return
        loop = self.open()
        for q in sums:
            self.fold(q, self.read(q, group=True)[0])
        self.writer.close(loop)

    def fold(self, q: Placed, value: Value) -> None:
        """Add a group's result to the running value."""
        eqn = q.root.eqn
        assert eqn is not None
        word = self.words(q)[0]
        dtype = eqn.inputs[0].aval.dtype
        if word != dtype:
            value = self.writer.let("convert", (value,), (dtype,), word)
        self.write(q, self.combine(eqn, word, self.read(q), (value,)))

    def combine(
        self,
        eqn: Eqn,
        dtype: np.dtype,
        old: tuple[Value, ...],
        new: tuple[Value, ...],
        guard: Value | None = None,
        *,
        unsorted: bool = False,
    ) -> tuple[Value, ...]:
        """old op new, elementwise, by a reduction's op; old where the guard does not hold.

        `unsorted` if the new position may come before the old one.
        """
        writer, op = self.writer, order.op_of(eqn)
        pair = (dtype, dtype)
        if op.startswith("arg"):
            nans = dtype.kind == "f" and eqn.fast != "nnan"
            better = self._better(op, dtype, old, new, nans)
            if unsorted:
                earlier = self._earlier(dtype, old, new, nans)
                better = writer.let("or", (better, earlier), (BOOL, BOOL), BOOL)
            if guard is not None:
                better = writer.let("and", (better, guard), (BOOL, BOOL), BOOL)
            return (
                writer.let("select", (better, new[0], old[0]), (BOOL, *pair), dtype),
                writer.let("select", (better, new[1], old[1]), (BOOL, I64, I64), I64),
            )
        name = {"sum": "add", "prod": "mul"}.get(op, op)
        result = writer.let(name, (old[0], new[0]), pair, dtype, eqn.fast)
        if guard is not None:
            result = writer.let("select", (guard, result, old[0]), (BOOL, *pair), dtype)
        return (result,)

    def _better(
        self, op: str, dtype: np.dtype, old: tuple[Value, ...], new: tuple[Value, ...], nans: bool
    ) -> Value:
        """Whether a later element beats the one held: greater, first of all, or the first NaN."""
        writer, both = self.writer, (BOOL, BOOL)
        name = "gt" if op == "argmax" else "lt"
        better = writer.let(name, (new[0], old[0]), (dtype, dtype), BOOL)
        none = writer.let("lt", (old[1], writer.constant(0, I64)), (I64, I64), BOOL)
        better = writer.let("or", (better, none), both, BOOL)
        if not nans:
            return better
        fresh = writer.let("isnan", (new[0],), (dtype,), BOOL)
        held = writer.let("isnan", (old[0],), (dtype,), BOOL)
        first = writer.let("and", (fresh, writer.negation(held)), both, BOOL)
        return writer.let("or", (better, first), both, BOOL)

    def _earlier(
        self, dtype: np.dtype, old: tuple[Value, ...], new: tuple[Value, ...], nans: bool
    ) -> Value:
        """Whether the two are equal, or both NaN, and the new one has a smaller valid position."""
        writer, both, pair = self.writer, (BOOL, BOOL), (dtype, dtype)
        same = writer.let("eq", (new[0], old[0]), pair, BOOL)
        if nans:
            odd = [writer.let("isnan", (v[0],), (dtype,), BOOL) for v in (new, old)]
            same = writer.let("or", (same, writer.let("and", tuple(odd), both, BOOL)), both, BOOL)
        first = writer.let("lt", (new[1], old[1]), (I64, I64), BOOL)
        there = writer.let("ge", (new[1], writer.constant(0, I64)), (I64, I64), BOOL)
        first = writer.let("and", (first, there), both, BOOL)
        return writer.let("and", (same, first), both, BOOL)

    # ---- columns in registers ---------------------------------------------------------------
    def can_interchange(self, placed: list[Placed]) -> bool:
        """Whether a stage may walk its rows inside the loop over columns."""
        return all(
            q.cls == "outer" and q.root.eqn is not None
            and not order.op_of(q.root.eqn).startswith("arg")
            for q in placed
        )  # fmt: skip

    def walk_group(self, placed: list[Placed], rows: Loop, axis: Axis, first_acc: int) -> None:
        """A loop over columns; in it the rows of a group, summed in registers, then folded."""
        writer = self.writer
        twice = [q for q in placed if order.in_two_walks(q)]
        lengths = None
        if twice:
            lengths = self.lengths(length_of(writer, axis, "group", chunks.GROUP))
        loop = self.open()
        accs = {}
        for number, q in enumerate(placed, first_acc):
            assert q.root.eqn is not None
            accs[q.root.var] = number
            dtype = dtype_of(q)
            op, fast = order.op_of(q.root.eqn), q.root.eqn.fast
            opened = Open(number, PIVOTS.get(op, op), dtype, lanewise=True, fast=fast)
            writer.place(opened, writer.depth)
            if not (order.grouped(q) or q in twice):
                writer.place(Update(number, self.read(q)[0]), writer.depth)
        again = replace(rows, body=[])
        writer.open(rows, (rows.axis,))
        for q in placed:
            guard = writer.guard(q.guard)
            value = writer.value(q.root.operand, q.at)
            writer.place(Update(accs[q.root.var], value, guard), writer.depth)
        loop.unroll, rows.unroll = _unrolled(rows.body)
        writer.close(rows)
        for q in placed:
            if q not in twice:
                self._end_group(q, accs[q.root.var])
        if lengths is not None:
            again.unroll = rows.unroll
            self._walk_again(twice, again, accs, lengths)
        writer.close(loop)
        if lengths is not None:
            self.rows.write(lengths.both)

    def _end_group(self, q: Placed, acc: int) -> None:
        """Fold what a group's rows come to."""
        out = self.writer.fresh(self.writer.depth)
        self.writer.place(Close((out,), acc, dtype_of(q)), self.writer.depth)
        if order.grouped(q):
            self.fold(q, out)
        else:
            self.write(q, (out,))

    # ---- groups walked twice ----------------------------------------------------------------
    @property
    def rows(self) -> Cell:
        """The number of rows so far."""
        if self.known_rows is None:
            self.known_rows = Cell(self.writer)
        return self.known_rows

    def lengths(self, number: Value) -> Lengths:
        """The rows so far with `number` more."""
        return lengths_of(self.writer, self.rows.read(), number)

    def merging(self, q: Placed) -> Merging:
        """The arithmetic of a reduction in two walks."""
        return merging_of(self.writer, op_of(q), dtype_of(q))

    def _walk_again(
        self, twice: list[Placed], rows: Loop, accs: dict[Var, int], lengths: Lengths
    ) -> None:
        """The second walk over a group's rows, about the first one's result; merges the group."""
        writer, walked = self.writer, []
        number = max(accs.values()) + 1
        for q in twice:
            merging = self.merging(q)
            first = self._closed(q, accs[q.root.var], wide=PIVOTS[op_of(q)] == "sum")
            pivot, wide = merging.pivot(first, lengths.number)
            seconds = tuple(range(number, number + merging.terms))
            number += merging.terms
            for acc in seconds:
                writer.place(Open(acc, "sum", dtype_of(q), lanewise=True), writer.depth)
            walked.append(Walked(q, seconds, pivot, wide))
        writer.open(rows, (rows.axis,))
        for q, seconds, pivot, _ in walked:
            value = writer.value(q.root.operand, q.at)
            for acc, term in zip(seconds, self.merging(q).term(value, pivot), strict=True):
                writer.place(Update(acc, term), writer.depth)
        writer.close(rows)
        for q, seconds, pivot, wide in walked:
            sums = tuple(self._closed(q, acc, wide=True) for acc in seconds)
            words = self.merging(q).block(pivot, wide, sums, lengths.number)
            self.merge(q, words, lengths)

    def _closed(self, q: Placed, acc: int, *, wide: bool) -> Value:
        """What a group comes to in the operand's dtype, or in float64."""
        writer, dtype = self.writer, dtype_of(q)
        out = writer.fresh(writer.depth)
        writer.place(Close((out,), acc, dtype), writer.depth)
        if not wide or dtype == F64:
            return out
        return writer.let("convert", (out,), (dtype,), F64)

    def merge(self, q: Placed, new: tuple[Value, ...], lengths: Lengths) -> None:
        """Merge the words of the rows that follow."""
        self.write(q, self.merging(q).merge(self.read(q), new, lengths))

    # ---- results --------------------------------------------------------------------------
    def result(self, q: Placed) -> Value:
        """The finished value of this column in the result's dtype."""
        eqn = q.root.eqn
        assert eqn is not None
        values = self.read(q)
        if order.op_of(eqn).startswith("arg"):
            return values[1]
        if order.in_two_walks(q):
            return self.merging(q).finish(values)
        word, dtype = self.words(q)[0], q.root.var.aval.dtype
        if word == dtype:
            return values[0]
        return self.writer.let("convert", (values[0],), (word,), dtype)


def _unrolled(body: list[Stmt]) -> tuple[int, int]:
    """Vectors side by side and rows a round of a walk through a group.

    All rows of a group in one round give each load instruction a stride of its own, which the
    processor foresees. Two vectors fill what one chain of sums leaves idle; with more, one round
    fills the processor's window and the next round's loads wait.
    """
    ops = [s.op for s in body if isinstance(s, Let)]
    size = len(body) + sum(FLOPS.get(op, 1) - 1 for op in ops)
    if size > MAX_SIZE or not LONG.isdisjoint(ops):
        return 1, 1
    return (2 if size <= SMALL else 1), chunks.GROUP


class Partials:
    """Partial results of chunks, in memory shared by all workers."""

    def __init__(self, writer: Writer, inner: Axis, rows: tuple[Axis, ...], count: int) -> None:
        self.writer, self.inner, self.rows, self.count = writer, inner, rows, count
        self.known: dict[Var, list[int]] = {}

    def buffers(self, var: Var, words: tuple[np.dtype, ...], *, columns: bool) -> list[int]:
        """One buffer a word."""
        known = self.known.get(var)
        if known is None:
            size = math.prod(a.extent for a in self.rows) * self.count
            size *= self.inner.extent if columns else 1
            known = self.known[var] = [
                self.writer.buffer("shared", w, nbytes=order.aligned(size * w.itemsize))
                for w in words
            ]
        return known

    def address(self, word: np.dtype, *, columns: bool) -> Linear:
        """Where this row's and chunk's (and column's) word is."""
        writer, size = self.writer, word.itemsize
        step = size * (self.inner.extent if columns else 1)
        role = ("partial", columns, size)
        terms: list[tuple[str, Slot | int]] = [("chunk", writer.extent_slot((role, "chunk"), step))]
        step *= self.count
        for axis in reversed(self.rows):
            terms.append((f"i{axis.number}", writer.extent_slot((role, axis), step)))
            step *= axis.extent
        if columns:
            terms.append((f"i{self.inner.number}", UNIT))
        return Linear(None, tuple(terms))

    def store(self, var: Var, words: tuple[np.dtype, ...], values: tuple[Value, ...], *,
              columns: bool) -> None:  # fmt: skip
        """Keep a chunk's words."""
        buffers = self.buffers(var, words, columns=columns)
        for buffer, word, value in zip(buffers, words, values, strict=True):
            self.writer.store(buffer, self.address(word, columns=columns), value, word)

    def load(self, var: Var, words: tuple[np.dtype, ...], *, columns: bool) -> tuple[Value, ...]:
        """Read a chunk's words."""
        writer, values = self.writer, []
        for buffer, word in zip(self.known[var], words, strict=True):
            out = writer.fresh(writer.depth)
            at = self.address(word, columns=columns)
            writer.place(Load(out, buffer, at, word), writer.depth)
            values.append(out)
        return tuple(values)
