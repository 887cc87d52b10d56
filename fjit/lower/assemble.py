"""Assemble a kernel's nest: its phases, task loops and loops over rows, around stages.

Takes a kernel's sub-program and a schedule for its roots, gives the `Nest`. The order of a
reduction's terms is that of lower/order.py.

    y = x - x.mean(1)     parallel task as row: open a0; vector: update a0; close a0; vector: store
"""

from __future__ import annotations

import math
from typing import Final

from fjit.core import dtypes
from fjit.core.ir import Var
from fjit.lower import order, quitting
from fjit.lower.columns import LENGTHS, Columns
from fjit.lower.merging import Lengths
from fjit.lower.nest import (
    Linear,
    Loop,
    Merge,
    Nest,
    Phase,
)
from fjit.lower.stage import StageWriter
from fjit.lower.tiles import MOST_TILED, TILE_COLUMNS, TILE_ROWS, across, crosses
from fjit.optimize import chunks
from fjit.optimize.index import Axis
from fjit.optimize.schedule import Placed

F64, I64 = dtypes.F64, dtypes.I64
GRAIN: Final = 1 << 15
"""Elements that a worker takes at a time."""


class Assembler(StageWriter):
    """Builds the phases of one kernel."""

    def build(self) -> Nest:
        """The nest of the kernel."""
        tiled = not self.by_rows and self.chunk_axis is None
        if tiled and self.on_gpu:
            self.writer.across = across(self.env, self.plan, self.memory, self.outputs)
        tiled = tiled and not self.on_gpu and crosses(self.env, self.plan, self.memory)
        phases = []
        if self.quits and self.chunk_axis is not None:
            self.flag = self.writer.buffer("shared", I64, nbytes=order.aligned(I64.itemsize))
            phases.append(self._look())
        phases.append(self._tiled_phase() if tiled else self._first_phase())
        if self.chunk_axis is not None and self.reductions:
            phases.append(self._second_phase())
        writer = self.writer
        width = max(
            [v.aval.dtype.itemsize for v in self.env]
            + [b.dtype.itemsize for b in writer.buffers if b.kind in ("in", "out")],
            default=8,
        )
        return Nest(
            tuple(s for s in writer.levels[0].stmts if not isinstance(s, Loop)),
            tuple(phases),
            tuple(writer.buffers),
            tuple(writer.slots),
            width,
        )

    def _tasks(self, axes: tuple[Axis, ...], chunked: bool) -> tuple[Loop, int]:
        """The parallel loop over rows (and chunks), not yet open."""
        writer = self.writer
        decode = [(f"i{a.number}", writer.extent_slot(("extent", a), a.extent)) for a in axes]
        count = math.prod(a.extent for a in axes)
        if chunked:
            decode.append(("chunk", writer.extent_slot("chunks", self.chunk_count)))
            count *= self.chunk_count
        cell = None
        if len(axes) == 1 and axes[0].sym is not None and not chunked:
            cell = writer.cell(axes[0].sym)
        tasks = writer.extent_slot(("tasks", axes, chunked), count)
        return Loop("task", tasks, "parallel", decode=tuple(decode), cell=cell), count

    # ---- phases ---------------------------------------------------------------------------------
    def _first_phase(self) -> Phase:
        plan, writer = self.plan, self.writer
        task, count = self._tasks(plan.rows, self.chunk_axis is not None)
        writer.open(task, tuple(a for a, _ in task.decode))
        if plan.cascade == "block" and plan.outer:
            for stage in range(plan.stages):
                self._block(range(stage, stage + 1))
        else:
            self._block(range(plan.stages))
        writer.close(task)
        elements = math.prod(a.extent for a in plan.axes) * max(plan.stages, 1)
        grain = max(1, count * GRAIN // max(elements, 1))
        return Phase(task, count, grain, elements)

    def _tiled_phase(self) -> Phase:
        """Tasks are tiles of the last two axes."""
        plan, writer = self.plan, self.writer
        row = plan.rows[-1]
        tiles = (-(-row.extent // TILE_ROWS), -(-self.inner.extent // TILE_COLUMNS))
        task, count = self._tasks(plan.rows[:-1], chunked=False)
        task.decode = (
            *task.decode,
            ("tile0", writer.extent_slot("tiles 0", tiles[0])),
            ("tile1", writer.extent_slot("tiles 1", tiles[1])),
        )
        count *= tiles[0] * tiles[1]
        task.extent = writer.extent_slot("tiles", count)
        writer.open(task, tuple(a for a, _ in task.decode))
        rows, inner = self.loop(row, "sequential"), self.loop(self.inner, "vector")
        self.part(rows, "tile0", TILE_ROWS)
        self.part(inner, "tile1", TILE_COLUMNS)
        writer.open(inner, (inner.axis,))
        writer.vector_axis, writer.tile_axis = self.inner, row
        writer.open(rows, (rows.axis,))
        self.body(list(plan.placed), {}, 0)
        if len(rows.body) <= MOST_TILED:
            rows.unroll = TILE_ROWS
        writer.close(rows)
        writer.close(inner)
        writer.tile_axis = None
        writer.close(task)
        elements = math.prod(a.extent for a in plan.axes)
        return Phase(task, count, max(1, GRAIN // (TILE_ROWS * TILE_COLUMNS)), elements)

    def _block(self, stages: range) -> None:
        """Loops over S around the stages' loops over I, and what follows them."""
        plan, columns = self.plan, self.columns
        here = [q for q in plan.placed if q.stage in stages]
        whole = [q for q in here if q.cls == "whole"]
        accs = {q.root.var: self.open(q) for q in whole}
        outer = [q for q in here if q.cls == "outer"]
        columns.begin(outer + [q for q in here if q.cls == "scan" and plan.outer])
        filters = [q for q in here if q.cls == "filter"]
        if filters:
            self.packing.count(filters, begin=True)
        self._walk(stages, accs, outer, [q for q in here if q.level == "inner"])
        for q in whole:
            self.end(q, accs[q.root.var])
        for q in outer:
            self._end_columns(q)
        if self.chunk_axis is not None and any(order.in_two_walks(q) for q in outer):
            self.partials.store(LENGTHS, (F64,), (columns.rows.read(),), columns=False)
        if filters:
            self.packing.count(filters, begin=False)
        if self.chunk_axis is None or not self.reductions:
            self.stores(here, "block")
            self._store_columns([q for q in here if q.level == "column"])

    def _walk(
        self, stages: range, accs: dict[Var, int], outer: list[Placed], here: list[Placed]
    ) -> None:
        """The loops over S: plain, or in groups of rows where columns are summed."""
        plan, writer, columns = self.plan, self.writer, self.columns
        interchange = bool(outer) and columns.can_interchange(here)
        if not (interchange or any(order.grouped(q) for q in outer)):
            loops = [self.loop(a, "sequential") for a in plan.outer]
            for loop in loops:
                writer.open(loop, (loop.axis,))
            for stage in stages:
                self.stage(stage, accs)
            self._close_rows(loops)
            return
        last = plan.outer[-1]
        loops = [self.loop(a, "sequential") for a in plan.outer[:-1]]
        for loop in loops:
            writer.open(loop, (loop.axis,))
        groups = self.groups(last, "group", chunks.GROUP)
        writer.open(groups, (groups.axis,))
        cell = None if last.sym is None else writer.cell(last.sym)
        extent = writer.extent_slot(("extent", last), last.extent)
        rows = Loop(f"i{last.number}", extent, "sequential", cell=cell)
        self.part(rows, "group", chunks.GROUP)
        if interchange:
            columns.walk_group(here, rows, last, self.acc + 1)
            self.acc += len(here)
            self.acc += sum(columns.merging(q).terms for q in here if order.in_two_walks(q))
        else:
            columns.begin([q for q in outer if order.grouped(q)], group=True)
            writer.open(rows, (rows.axis,))
            for stage in stages:
                self.stage(stage, accs)
            writer.close(rows)
            columns.fold_groups(outer)
        writer.close(groups)
        self.packing.end_row(here, plan.outer, len(loops))
        self._close_rows(loops)

    def _close_rows(self, loops: list[Loop]) -> None:
        """Close the loops over S, which end as early as those over I for any and all."""
        here = [q for q in self.plan.placed if q.level == "inner"]
        for number, loop in reversed([*enumerate(loops)]):
            if self.quits:
                quitting.watch_rows(loop)
            self.writer.close(loop)
            self.packing.end_row(here, self.plan.outer, number)

    def _look(self) -> Phase:
        """One thread looks at the first elements for what decides any or all of the others."""
        writer, plan = self.writer, self.plan
        task, count = self._tasks((), chunked=False)
        writer.open(task, ())
        assert self.flag is not None and self.chunk_axis is not None
        writer.store(self.flag, Linear(None), writer.constant(0, I64), I64)
        here = [q for q in plan.placed if q.level == "inner"]
        accs = {q.root.var: self.open(q) for q in here if q.cls == "whole"}
        self.looking = True
        self._walk(range(1), accs, [], here)
        self.looking = False
        writer.close(task)
        return Phase(task, count, 1, quitting.FIRST)

    def _store_columns(self, placed: list[Placed]) -> None:
        """A loop over I that stores values made from finished column reductions."""
        if not placed:
            return
        loop = self.columns.open()
        self.stores(placed, "column")
        self.writer.close(loop)

    def _end_columns(self, q: Placed) -> None:
        """Let readers find the column results, or store the chunk's partial results."""
        if self.chunk_axis is None:
            key = (q.root.var, order.kept_indices(q))
            self.writer.held[key] = lambda: self.columns.result(q)
            return
        loop = self.columns.open()
        values = self.columns.read(q)
        self.partials.store(q.root.var, order.column_dtypes(q), values, columns=True)
        self.writer.close(loop)

    def _second_phase(self) -> Phase:
        """Fold the chunks' partial results in order, then store what depends on them."""
        plan, writer = self.plan, self.writer
        columns = self.columns = Columns(writer, self.inner)
        writer.held.clear()
        task, count = self._tasks(plan.rows, chunked=False)
        writer.open(task, tuple(a for a, _ in task.decode))
        outer = [q for q in self.reductions if q.cls == "outer"]
        ends = [
            q for q in self.reductions if q.root.var in self.partials.known and q.cls != "outer"
        ]
        accs = {q.root.var: self.open(q) for q in ends}
        columns.begin(outer)
        chunk = Loop("chunk", writer.extent_slot("chunks", self.chunk_count), "sequential")
        writer.open(chunk, ("chunk",))
        for q in ends:
            self._merge(q, accs[q.root.var])
        if outer:
            lengths = None
            if LENGTHS in self.partials.known:
                lengths = columns.lengths(*self.partials.load(LENGTHS, (F64,), columns=False))
            loop = columns.open()
            for q in outer:
                self._merge_columns(q, lengths)
            writer.close(loop)
            if lengths is not None:
                columns.rows.write(lengths.both)
        writer.close(chunk)
        self.chunk_axis = None
        for q in ends:
            self.end(q, accs[q.root.var])
        for q in outer:
            self._end_columns(q)
        for level in ("row", "block"):
            if level == "block" or any(q.cls == "inner" for q in ends):
                self.stores(list(plan.placed), level)
        self._store_columns([q for q in plan.placed if q.level == "column"])
        writer.close(task)
        width = self.inner.extent if outer else 1
        return Phase(task, count, 1, count * self.chunk_count * width)

    # ---- partial results of chunks --------------------------------------------------------------
    def _merge(self, q: Placed, acc: int) -> None:
        eqn = q.root.eqn
        assert eqn is not None
        if order.in_two_walks(q):
            words = self.blocks.words(q)
            self.blocks.merge(q, self.partials.load(q.root.var, words, columns=False))
            return
        words = order.partial_dtypes(order.op_of(eqn), eqn.inputs[0].aval.dtype)
        parts = self.partials.load(q.root.var, words, columns=False)
        self.writer.place(Merge(acc, parts), self.writer.depth)

    def _merge_columns(self, q: Placed, lengths: Lengths | None) -> None:
        eqn = q.root.eqn
        assert eqn is not None
        words = order.column_dtypes(q)
        parts = self.partials.load(q.root.var, words, columns=True)
        if order.in_two_walks(q):
            assert lengths is not None
            self.columns.merge(q, parts, lengths)
            return
        old = self.columns.read(q)
        merged = self.columns.combine(eqn, words[0], old, parts, unsorted=True)
        self.columns.write(q, merged)
