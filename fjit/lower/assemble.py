"""Assemble a kernel's nest: phases, task loops, stages, accumulators, stores.

Takes a kernel's sub-program and a schedule for its roots, gives the `Nest`. The order of a
reduction's terms is that of lower/order.py.

    y = x - x.mean(1)     parallel task as row: open a0; vector: update a0; close a0; vector: store
"""

from __future__ import annotations

import math
from typing import Final

from fjit.core import dtypes
from fjit.core.ir import Program, Var
from fjit.core.rules import PIVOTS
from fjit.lower import order, quitting
from fjit.lower.blocks import Blocks, length_of, op_of
from fjit.lower.build import Memory, Writer
from fjit.lower.checks import check_count, counted
from fjit.lower.collapse import collapsed
from fjit.lower.columns import LENGTHS, Columns, Partials
from fjit.lower.fetching import between_walks
from fjit.lower.keeping import keep_block, keep_row
from fjit.lower.merging import Lengths
from fjit.lower.nest import (
    Close,
    Linear,
    Load,
    Loop,
    Merge,
    Nest,
    Open,
    Phase,
    Scan,
    Update,
    Value,
    short,
)
from fjit.lower.packing import Packing
from fjit.lower.segments import cuts
from fjit.lower.tasks import Chunks, chunks_of
from fjit.lower.tiles import MOST_TILED, TILE_COLUMNS, TILE_ROWS, crosses
from fjit.optimize import chunks, demand
from fjit.optimize import index as ix
from fjit.optimize.drafts import root_reads
from fjit.optimize.index import Axis
from fjit.optimize.schedule import Placed, Schedule

F64, I64 = dtypes.F64, dtypes.I64
GRAIN: Final = 1 << 15
"""Elements that a worker takes at a time."""


class Assembler:
    """Builds the phases of one kernel."""

    def __init__(
        self,
        env: demand.Env,
        program: Program,
        plan: Schedule,
        memory: dict[Var, Memory],
        outputs: dict[Var, Memory],
        streams: bool = False,
        *,
        by_rows: bool = False,
    ) -> None:
        self.env = env
        self.streams = streams and not by_rows  # panels stay in cache
        self.by_rows = by_rows  # tasks are rows, for panels of them
        self.memory = memory
        self.outputs = outputs
        plan = plan if by_rows else collapsed(env, plan, memory, outputs)
        self.plan, self.checks = counted(plan)
        self.writer = Writer(env, memory, program.inputs)
        self.out = {
            var: self.writer.buffer("out", var.aval.dtype, k)
            for k, var in enumerate(program.outputs)
            if isinstance(var, Var)
        }
        self.acc = self.parts = 0
        self.loads: list[Load] = []
        inner = self.plan.inner
        assert inner is not None
        self.inner: Axis = inner
        self.quits = bool(self.plan.placed) and quitting.may_quit(self.plan)
        self.flag: int | None = None
        self.looking = False
        cut = Chunks(None) if by_rows else chunks_of(self.plan, inner, quits=self.quits)
        self.chunk_axis, self.chunk_count, self.chunk_length = cut
        self.blocks = Blocks(self.writer)
        self.columns = Columns(self.writer, inner)
        self.packing = Packing(self.writer, inner, outputs, self.out)
        self.partials = Partials(self.writer, inner, self.plan.rows, self.chunk_count)

    # ---- shape of the nest ----------------------------------------------------------------
    @property
    def reductions(self) -> list[Placed]:
        """Placed reductions."""
        return [q for q in self.plan.placed if q.cls in order.ENDS]

    def build(self) -> Nest:
        """The nest of the kernel."""
        tiled = not self.by_rows and self.chunk_axis is None
        tiled = tiled and crosses(self.env, self.plan, self.memory)
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

    # ---- loops ----------------------------------------------------------------------------
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

    def _loop(self, axis: Axis, kind: str) -> Loop:
        writer = self.writer
        cell = None if axis.sym is None else writer.cell(axis.sym)
        extent = writer.extent_slot(("extent", axis), axis.extent)
        loop = Loop(f"i{axis.number}", extent, kind, cell=cell)
        if axis == self.chunk_axis and self.looking:
            rest = self.inner.extent if self.plan.outer else 1
            first = max(1, quitting.FIRST // max(rest, 1))
            loop.start, loop.stop = Linear(None), extent
            loop.extent = writer.extent_slot(("first", axis), first)
        elif axis == self.chunk_axis:
            self._part(loop, "chunk", self.chunk_length)
        elif kind == "vector" and axis.sym is None:
            loop.most = short(axis.extent)
        return loop

    def _part(self, loop: Loop, counter: str, length: int) -> None:
        """Restrict a loop to one part of `length` steps, numbered by `counter`."""
        size = self.writer.extent_slot(("length", counter, loop.axis), length)
        loop.start, loop.stop, loop.extent = Linear(None, ((counter, size),)), loop.extent, size

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
        rows, inner = self._loop(row, "sequential"), self._loop(self.inner, "vector")
        self._part(rows, "tile0", TILE_ROWS)
        self._part(inner, "tile1", TILE_COLUMNS)
        writer.open(inner, (inner.axis,))
        writer.vector_axis, writer.tile_axis = self.inner, row
        writer.open(rows, (rows.axis,))
        self._body(list(plan.placed), {}, 0)
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
        accs = {q.root.var: self._open(q) for q in whole}
        outer = [q for q in here if q.cls == "outer"]
        columns.begin(outer + [q for q in here if q.cls == "scan" and plan.outer])
        filters = [q for q in here if q.cls == "filter"]
        if filters:
            self.packing.count(filters, begin=True)
        self._walk(stages, accs, outer, [q for q in here if q.level == "inner"])
        for q in whole:
            self._end(q, accs[q.root.var])
        for q in outer:
            self._end_columns(q)
        if self.chunk_axis is not None and any(order.in_two_walks(q) for q in outer):
            self.partials.store(LENGTHS, (F64,), (columns.rows.read(),), columns=False)
        if filters:
            self.packing.count(filters, begin=False)
        if self.chunk_axis is None or not self.reductions:
            self._stores(here, "block")
            self._store_columns([q for q in here if q.level == "column"])

    def _walk(
        self, stages: range, accs: dict[Var, int], outer: list[Placed], here: list[Placed]
    ) -> None:
        """The loops over S: plain, or in groups of rows where columns are summed."""
        plan, writer, columns = self.plan, self.writer, self.columns
        interchange = bool(outer) and columns.can_interchange(here)
        if not (interchange or any(order.grouped(q) for q in outer)):
            loops = [self._loop(a, "sequential") for a in plan.outer]
            for loop in loops:
                writer.open(loop, (loop.axis,))
            for stage in stages:
                self._stage(stage, accs)
            self._close_rows(loops)
            return
        last = plan.outer[-1]
        loops = [self._loop(a, "sequential") for a in plan.outer[:-1]]
        for loop in loops:
            writer.open(loop, (loop.axis,))
        groups = self._groups(last, "group", chunks.GROUP)
        writer.open(groups, (groups.axis,))
        cell = None if last.sym is None else writer.cell(last.sym)
        extent = writer.extent_slot(("extent", last), last.extent)
        rows = Loop(f"i{last.number}", extent, "sequential", cell=cell)
        self._part(rows, "group", chunks.GROUP)
        if interchange:
            columns.walk_group(here, rows, last, self.acc + 1)
            self.acc += len(here)
            self.acc += sum(columns.merging(q).terms for q in here if order.in_two_walks(q))
        else:
            columns.begin([q for q in outer if order.grouped(q)], group=True)
            writer.open(rows, (rows.axis,))
            for stage in stages:
                self._stage(stage, accs)
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
        accs = {q.root.var: self._open(q) for q in here if q.cls == "whole"}
        self.looking = True
        self._walk(range(1), accs, [], here)
        self.looking = False
        writer.close(task)
        return Phase(task, count, 1, quitting.FIRST)

    def _groups(self, axis: Axis, name: str, size: int) -> Loop:
        """The loop over groups of rows of an outer axis, or blocks of the inner one, or a chunk."""
        slot = self.writer.extent_slot((name, axis), -(-axis.extent // size))
        loop = Loop(name, slot, "sequential")
        if axis == self.chunk_axis:
            self._part(loop, "chunk", self.chunk_length // size)
        return loop

    def _stage(self, stage: int, accs: dict[Var, int]) -> None:
        """One loop over I: update accumulators, store results, then finish the row."""
        plan = self.plan
        here = [q for q in plan.placed if q.stage == stage and q.level == "inner"]
        inner = [q for q in here if q.cls == "inner"]
        accs = accs | {q.root.var: self._open(q) for q in inner}
        for q in here:
            if q.cls == "scan" and not plan.outer:
                accs[q.root.var] = self._open(q)
        if here:
            self._vector_loops(here, accs, stage)
        self.packing.end_row(here, plan.outer, len(plan.outer))
        for q in inner if not self.looking else []:
            self._end(q, accs[q.root.var])
        if not (self.chunk_axis == self.inner and self.reductions):
            self._stores([q for q in plan.placed if q.stage == stage], "row")

    def _vector_loops(self, here: list[Placed], accs: dict[Var, int], stage: int) -> None:
        """The loop over I, in parts where conditions along it change."""
        plan, axis = self.plan, self.inner
        if any(order.in_two_walks(q) and q.cls != "outer" for q in here):
            self._block_loops(here, accs, stage)
            return
        parts = [(0, axis.extent)]
        if plan.stages == 1 and self.chunk_axis != axis:
            parts = cuts(self.env, here, axis)
        if len(parts) == 1:
            self._vector_loop(here, accs, stage, axis)
            return
        for start, extent in parts:
            self.parts += 1
            part = Axis(max(a.number for a in (*plan.axes, axis)) + self.parts, extent)
            names = {axis: ix.Index(start, ((part, 1),))}
            moved = [
                q._replace(at=ix.substitute(q.at, names), guard=ix.substitute_guard(q.guard, names))
                for q in here
            ]
            self._vector_loop(moved, accs, stage, part)

    def _block_loops(self, here: list[Placed], accs: dict[Var, int], stage: int) -> None:
        """The loop over blocks of I, each walked a second time by the reductions that need it."""
        writer, axis, blocks = self.writer, self.inner, self.blocks
        twice = [q for q in here if order.in_two_walks(q) and q.cls != "outer"]
        loop = self._groups(axis, "block", order.WALKED_TWICE)
        writer.open(loop, (loop.axis,))
        firsts = {q.root.var: self._number() for q in twice}
        for q in twice:
            blocks.open(q, firsts[q.root.var], PIVOTS[op_of(q)])
        first = self._walk_block(axis)
        self._body(here, accs | firsts, stage)
        for q in twice:
            keep_block(writer, self.env, axis, q)
        first.unroll = self._unroll(first, here)
        writer.close(first)
        number = length_of(writer, axis, "block", order.WALKED_TWICE)
        walked = []
        for q in twice:
            seconds = tuple(self._number() for _ in range(blocks.merging(q).terms))
            walked.append(blocks.between_walks(q, firsts[q.root.var], seconds, number))
        second = self._walk_block(axis)
        blocks.second_walk(walked)
        second.unroll = self._unroll(second, here)
        writer.close(second)
        for walk in walked:
            blocks.after_walks(walk, number)
        writer.close(loop)

    def _walk_block(self, axis: Axis) -> Loop:
        """Open a loop over the elements of a block."""
        extent = self.writer.extent_slot(("extent", axis), axis.extent)
        loop = Loop(f"i{axis.number}", extent, "vector", block=order.BLOCK)
        self._part(loop, "block", order.WALKED_TWICE)
        self.writer.open(loop, (loop.axis,))
        self.writer.vector_axis = axis
        return loop

    def _vector_loop(
        self, here: list[Placed], accs: dict[Var, int], stage: int, axis: Axis
    ) -> None:
        writer = self.writer
        loop = self._loop(axis, "vector")
        if any(order.is_float_sum(q) for q in here if q.cls in ("inner", "whole")):
            loop.block = order.BLOCK
        writer.open(loop, (loop.axis,))
        writer.vector_axis = axis
        self._body(here, accs, stage)
        loop.unroll = self._unroll(loop, here)
        self.loads = between_walks(writer, self.plan, stage, axis, self.loads)
        if self.quits:
            quitting.watch(loop, self.flag)
        writer.close(loop)

    def _unroll(self, loop: Loop, here: list[Placed]) -> int:
        size = len(loop.body)
        if any(q.cls in ("scan", "filter") for q in here):
            return 1
        if any(q.cls in ("inner", "whole") for q in here):
            return 4 if size <= 60 else 1
        return 2 if size <= 40 else 1

    # ---- bodies ---------------------------------------------------------------------------
    def _body(self, here: list[Placed], accs: dict[Var, int], stage: int) -> None:
        writer = self.writer
        roots = [r for q in here for r in root_reads(q.root, q.at, q.guard)]
        scanned = {q.root.var for q in here if q.cls == "scan"}
        for q in here:
            if q.cls == "scan":
                writer.prepare(root_reads(q.root, q.at, q.guard), scanned)
                self._scan(q, accs)
        writer.prepare(roots, {var for var, _ in writer.held})
        for q in here:
            if q.cls == "scan":
                continue
            guard = writer.guard(q.guard)
            value = writer.value(q.root.operand, q.at)
            if q.cls == "store":
                self._store(q, value)
            elif q.cls == "filter":
                self.packing.append(q, value, guard, is_last=q is here[-1])
            elif q.cls == "outer":
                self.columns.update(q, value, guard, self.plan.axes)
            else:
                writer.place(self._update(q, accs[q.root.var], value, guard), writer.depth)
        keep_row(writer, self.env, self.plan, here, stage)

    def _update(self, q: Placed, acc: int, value: Value, guard: Value | None) -> Update:
        """Fold an element in; for argmax and argmin with its position among the reduced ones."""
        eqn = q.root.eqn
        assert eqn is not None
        if not order.op_of(eqn).startswith("arg"):
            return Update(acc, value, guard)
        place = order.place_index(eqn, q.at)
        unsorted = not order.rises(place, self.plan.axes)
        return Update(acc, value, guard, self.writer.position(place), unsorted)

    def _store(self, q: Placed, value: Value) -> None:
        writer, var = self.writer, q.root.var
        memory = self.outputs[var]
        size = var.aval.dtype.itemsize
        address = writer.address(q.at, memory.strides, size, ("store", var, q.at))
        streaming = self.streams and q.level == "inner"
        writer.store(self.out[var], address, value, var.aval.dtype, streaming=streaming)

    def _stores(self, placed: list[Placed], level: str) -> None:
        """Stores of values made from finished reductions, at the present loop level."""
        here = [q for q in placed if q.level == level and q.cls == "store"]
        if not here:
            return
        self.writer.prepare([(q.root.operand, q.at) for q in here], set())
        for q in here:
            self._store(q, self.writer.value(q.root.operand, q.at))

    def _store_columns(self, placed: list[Placed]) -> None:
        """A loop over I that stores values made from finished column reductions."""
        if not placed:
            return
        loop = self.columns.open()
        self._stores(placed, "column")
        self.writer.close(loop)

    # ---- accumulators in registers --------------------------------------------------------
    def _number(self) -> int:
        """The next accumulator's number."""
        self.acc += 1
        return self.acc

    def _open(self, q: Placed) -> int:
        eqn = q.root.eqn
        assert eqn is not None
        if order.in_two_walks(q):
            self.blocks.begin(q)
            return 0
        dtype = eqn.inputs[0].aval.dtype
        opened = Open(self._number(), order.op_of(eqn), dtype, fast=eqn.fast)
        self.writer.place(opened, self.writer.depth)
        return self.acc

    def _end(self, q: Placed, acc: int) -> None:
        """Close an accumulator: the result at this level, or a partial result of the chunk."""
        writer, eqn, var = self.writer, q.root.eqn, q.root.var
        assert eqn is not None
        twice = order.in_two_walks(q)
        if self.chunk_axis is None or (q.cls == "inner" and self.chunk_axis != self.inner):
            out = self.blocks.result(q) if twice else writer.fresh(writer.depth)
            if not twice:
                writer.place(Close((out,), acc, var.aval.dtype), writer.depth)
            if self.flag is not None:
                out = quitting.decided(writer, self.flag, order.op_of(eqn), out)
            self._finished(q, out)
            return
        if twice:
            self.partials.store(var, self.blocks.words(q), self.blocks.read(q), columns=False)
            return
        words = order.partial_dtypes(order.op_of(eqn), eqn.inputs[0].aval.dtype)
        outs = tuple(writer.fresh(writer.depth) for _ in words)
        writer.place(Close(outs, acc, var.aval.dtype, partial=True), writer.depth)
        self.partials.store(var, words, outs, columns=False)

    def _finished(self, q: Placed, out: Value) -> None:
        """Let readers find a reduction's result; a count of 0 is an error."""
        writer = self.writer
        if q.root.var in self.checks:
            check_count(writer, out, self.checks[q.root.var])
            return
        writer.remember((q.root.var, order.kept_indices(q), None), out)

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
        accs = {q.root.var: self._open(q) for q in ends}
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
            self._end(q, accs[q.root.var])
        for q in outer:
            self._end_columns(q)
        for level in ("row", "block"):
            if level == "block" or any(q.cls == "inner" for q in ends):
                self._stores(list(plan.placed), level)
        self._store_columns([q for q in plan.placed if q.level == "column"])
        writer.close(task)
        width = self.inner.extent if outer else 1
        return Phase(task, count, 1, count * self.chunk_count * width)

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

    # ---- scans ----------------------------------------------------------------------------
    def _scan(self, q: Placed, accs: dict[Var, int]) -> None:
        writer, eqn, var = self.writer, q.root.eqn, q.root.var
        assert eqn is not None
        value = writer.value(q.root.operand, q.at)
        if self.plan.outer:
            old = self.columns.read(q)
            dtype = var.aval.dtype
            (out,) = self.columns.combine(eqn, dtype, old, (value,))
            self.columns.write(q, (out,))
        else:
            out = writer.fresh(writer.depth)
            writer.place(Scan(out, accs[var], value), writer.depth)
        writer.remember((var, q.at, None), out)
