"""Assemble a kernel's nest: phases, task loops, stages, accumulators, stores.

Takes a kernel's sub-program and a schedule for its roots, gives the `Nest`. The order of a
reduction's terms is that of lower/order.py.

    y = x - x.mean(1)     parallel task as row: open a0; vector: update a0; close a0; vector: store
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from fjit.core import primitives as p
from fjit.core.ir import Eqn, Program, Sym, Var, literal
from fjit.lower import order
from fjit.lower.build import EMPTY_REDUCTION, EMPTY_SEARCH, I64, Memory, Writer
from fjit.lower.collapse import collapsed, substitute, substitute_guard
from fjit.lower.columns import Columns, Partials
from fjit.lower.nest import (
    Advance,
    Append,
    Checked,
    Close,
    Count,
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
)
from fjit.lower.segments import cuts
from fjit.lower.tiles import MOST_TILED, TILE_COLUMNS, TILE_ROWS, crosses
from fjit.optimize import cost, demand
from fjit.optimize import index as ix
from fjit.optimize.drafts import Root, root_reads
from fjit.optimize.index import Axis, Holds, Indices
from fjit.optimize.schedule import MAX_ROW_BUFFER, Placed, Schedule

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
        *,
        by_rows: bool = False,
    ) -> None:
        self.env = env
        self.by_rows = by_rows  # tasks are rows, for panels of them
        self.memory = memory
        self.outputs = outputs
        plan = plan if by_rows else collapsed(env, plan, memory, outputs)
        self.checks: dict[Var, int] = {}
        self.plan = self._counted(plan)
        self.writer = Writer(env, memory, program.inputs)
        self.out = {
            var: self.writer.buffer("out", var.aval.dtype, k)
            for k, var in enumerate(program.outputs)
            if isinstance(var, Var)
        }
        self.acc = self.parts = 0
        inner = self.plan.inner
        assert inner is not None
        self.inner: Axis = inner
        self.chunk_axis: Axis | None = None
        self.chunk_count, self.chunk_length = 1, 0
        self._choose_chunks()
        self.columns = Columns(self.writer, inner)
        self.partials = Partials(self.writer, inner, self.plan.rows, self.chunk_count)

    def _counted(self, plan: Schedule) -> Schedule:
        """Add a count to each extremum over a filtered axis: of nothing it is an error."""
        added: list[Placed] = []
        for q in plan.placed:
            eqn = q.root.eqn
            if eqn is None or q.cls not in order.ENDS or eqn.get("checked") is False:
                continue
            dynamic = bool(q.guard) or any(a.sym is not None for a in q.reduced)
            if not dynamic or order.op_of(eqn) in ("sum", "prod", "and", "or"):
                continue
            one = literal(1, I64)
            var = Var(replace(q.root.var.aval, dtype=I64))
            count = Eqn(p.reduce, (one,), (("axes", eqn.param("axes")), ("op", "sum")), (var,))
            search = order.op_of(eqn).startswith("arg")
            self.checks[var] = EMPTY_SEARCH if search else EMPTY_REDUCTION
            added.append(q._replace(root=Root(var, count)))
        return plan._replace(placed=(*plan.placed, *added)) if added else plan

    # ---- shape of the nest ----------------------------------------------------------------
    @property
    def reductions(self) -> list[Placed]:
        """Placed reductions."""
        return [q for q in self.plan.placed if q.cls in order.ENDS]

    def _choose_chunks(self) -> None:
        plan = self.plan
        if self.by_rows or plan.cascade or any(q.cls in ("scan", "filter") for q in plan.placed):
            return
        rows = math.prod(a.extent for a in plan.rows)
        if plan.outer:
            if not any(q.cls in ("outer", "whole") for q in plan.placed):
                return
            total = math.prod(a.extent for a in (*plan.outer, self.inner))
            axis, multiple, most = plan.outer[0], order.GROUP, order.COLUMN_CHUNKS
        elif self.reductions or rows < 64:
            total, axis, multiple = self.inner.extent, self.inner, order.BLOCK
            most = order.MAX_CHUNKS
        else:
            return
        self.chunk_count, self.chunk_length = order.chunks(total, axis.extent, multiple, most)
        if self.chunk_count > 1:
            self.chunk_axis = axis

    def build(self) -> Nest:
        """The nest of the kernel."""
        tiled = not self.by_rows and self.chunk_axis is None
        tiled = tiled and crosses(self.env, self.plan, self.memory)
        phases = [self._tiled_phase() if tiled else self._first_phase()]
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
        if axis == self.chunk_axis:
            self._part(loop, "chunk", self.chunk_length)
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
        plan, writer, columns = self.plan, self.writer, self.columns
        here = [q for q in plan.placed if q.stage in stages]
        whole = [q for q in here if q.cls == "whole"]
        accs = {q.root.var: self._open(q) for q in whole}
        outer = [q for q in here if q.cls == "outer"]
        columns.begin(outer + [q for q in here if q.cls == "scan" and plan.outer])
        filters = [q for q in here if q.cls == "filter"]
        if filters:
            self._count(filters, begin=True)
        self._walk(stages, accs, outer, [q for q in here if q.level == "inner"])
        for q in whole:
            self._end(q, accs[q.root.var])
        for q in outer:
            self._end_columns(q)
        if filters:
            self._count(filters, begin=False)
        if self.chunk_axis is None or not self.reductions:
            self._stores(here, "block")
            self._store_columns([q for q in here if q.level == "column"])
        assert writer.depth >= 1

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
            for loop in reversed(loops):
                writer.close(loop)
            return
        last = plan.outer[-1]
        loops = [self._loop(a, "sequential") for a in plan.outer[:-1]]
        for loop in loops:
            writer.open(loop, (loop.axis,))
        groups = self._groups(last)
        writer.open(groups, (groups.axis,))
        cell = None if last.sym is None else writer.cell(last.sym)
        extent = writer.extent_slot(("extent", last), last.extent)
        rows = Loop(f"i{last.number}", extent, "sequential", cell=cell)
        self._part(rows, "group", order.GROUP)
        if interchange:
            columns.walk_group(here, rows, self.acc + 1)
            self.acc += len(here)
        else:
            columns.begin([q for q in outer if order.grouped(q)], group=True)
            writer.open(rows, (rows.axis,))
            for stage in stages:
                self._stage(stage, accs)
            writer.close(rows)
            columns.fold_groups(outer)
        writer.close(groups)
        for loop in reversed(loops):
            writer.close(loop)

    def _groups(self, axis: Axis) -> Loop:
        """The loop over groups of rows of an outer axis, or of one chunk of it."""
        count = -(-axis.extent // order.GROUP)
        slot = self.writer.extent_slot(("groups", axis), count)
        loop = Loop("group", slot, "sequential")
        if axis == self.chunk_axis:
            self._part(loop, "chunk", self.chunk_length // order.GROUP)
        return loop

    def _stage(self, stage: int, accs: dict[Var, int]) -> None:
        """One loop over I: update accumulators, store results, then finish the row."""
        plan, writer = self.plan, self.writer
        here = [q for q in plan.placed if q.stage == stage and q.level == "inner"]
        inner = [q for q in here if q.cls == "inner"]
        accs = accs | {q.root.var: self._open(q) for q in inner}
        for q in here:
            if q.cls == "scan" and not plan.outer:
                accs[q.root.var] = self._open(q)
        if here:
            self._vector_loops(here, accs, stage)
        if any(q.cls == "filter" and _rows_kept(q, self.inner) for q in here):
            guard = writer.guard(here[0].guard)
            assert guard is not None
            writer.place(Advance(0, guard), writer.depth)
        for q in inner:
            self._end(q, accs[q.root.var])
        if not (self.chunk_axis == self.inner and self.reductions):
            self._stores([q for q in plan.placed if q.stage == stage], "row")

    def _vector_loops(self, here: list[Placed], accs: dict[Var, int], stage: int) -> None:
        """The loop over I, in parts where conditions along it change."""
        plan, axis = self.plan, self.inner
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
                q._replace(at=substitute(q.at, names), guard=substitute_guard(q.guard, names))
                for q in here
            ]
            self._vector_loop(moved, accs, stage, part)

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
                self._append(q, value, guard)
            elif q.cls == "outer":
                self.columns.update(q, value, guard, self.plan.axes)
            else:
                writer.place(self._update(q, accs[q.root.var], value, guard), writer.depth)
        self._buffer_row(here, stage)

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
        writer.store(self.out[var], address, value, var.aval.dtype)

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

    # ---- filters --------------------------------------------------------------------------
    def _append(self, q: Placed, value: Value, guard: Value | None) -> None:
        writer, var = self.writer, q.root.var
        assert guard is not None
        dtype = var.aval.dtype
        if not _rows_kept(q, self.inner):
            writer.place(Append(self.out[var], 0, value, dtype, guard), writer.depth)
            if q is [f for f in self.plan.placed if f.cls == "filter"][-1]:
                writer.place(Advance(0, guard), writer.depth)
            return
        strides = self.outputs[var].strides
        packed = _packed_axis(var)
        at = (*q.at[:packed], ix.ZERO, *q.at[packed + 1 :])
        rest = writer.address(at, strides, dtype.itemsize, ("store", var))
        row = writer.extent_slot(("row", var), strides[packed])
        address = Linear(rest.offset, (("c0", row), *rest.terms))
        writer.store(self.out[var], address, value, dtype, guard)

    def _count(self, filters: list[Placed], begin: bool) -> None:
        var = filters[0].root.var
        sym = var.aval.shape[_packed_axis(var)]
        assert isinstance(sym, Sym)
        self.writer.place(Count(0, self.writer.cell(sym), begin), self.writer.depth)

    # ---- accumulators in registers --------------------------------------------------------
    def _open(self, q: Placed) -> int:
        eqn = q.root.eqn
        assert eqn is not None
        self.acc += 1
        opened = Open(self.acc, order.op_of(eqn), eqn.inputs[0].aval.dtype)
        self.writer.place(opened, self.writer.depth)
        return self.acc

    def _end(self, q: Placed, acc: int) -> None:
        """Close an accumulator: the result at this level, or a partial result of the chunk."""
        writer, eqn, var = self.writer, q.root.eqn, q.root.var
        assert eqn is not None
        if self.chunk_axis is None or (q.cls == "inner" and self.chunk_axis != self.inner):
            out = writer.fresh(writer.depth)
            writer.place(Close((out,), acc, var.aval.dtype), writer.depth)
            self._finished(q, out)
            return
        words = order.partial_dtypes(order.op_of(eqn), eqn.inputs[0].aval.dtype)
        outs = tuple(writer.fresh(writer.depth) for _ in words)
        writer.place(Close(outs, acc, var.aval.dtype, partial=True), writer.depth)
        self.partials.store(var, words, outs, columns=False)

    def _finished(self, q: Placed, out: Value) -> None:
        """Let readers find a reduction's result; a count of 0 is an error."""
        writer = self.writer
        if q.root.var in self.checks:
            one = writer.constant(1, I64)
            more = writer.let("sub", (out, one), (I64, I64), I64)
            extent = writer.extent_slot("any count", (1 << 63) - 1)
            code = self.checks[q.root.var]
            checked = Checked(writer.fresh(writer.depth), more, extent, None, code)
            writer.place(checked, writer.depth)
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
            loop = columns.open()
            for q in outer:
                self._merge_columns(q)
            writer.close(loop)
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
        words = order.partial_dtypes(order.op_of(eqn), eqn.inputs[0].aval.dtype)
        parts = self.partials.load(q.root.var, words, columns=False)
        self.writer.place(Merge(acc, parts), self.writer.depth)

    def _merge_columns(self, q: Placed) -> None:
        eqn = q.root.eqn
        assert eqn is not None
        words = order.column_dtypes(q)
        parts = self.partials.load(q.root.var, words, columns=True)
        old = self.columns.read(q)
        merged = self.columns.combine(order.op_of(eqn), words[0], old, parts, unsorted=True)
        self.columns.write(q, merged)

    # ---- scans and row buffers ------------------------------------------------------------
    def _scan(self, q: Placed, accs: dict[Var, int]) -> None:
        writer, eqn, var = self.writer, q.root.eqn, q.root.var
        assert eqn is not None
        value = writer.value(q.root.operand, q.at)
        if self.plan.outer:
            old = self.columns.read(q)
            dtype = var.aval.dtype
            (out,) = self.columns.combine(order.op_of(eqn), dtype, old, (value,))
            self.columns.write(q, (out,))
        else:
            out = writer.fresh(writer.depth)
            writer.place(Scan(out, accs[var], value), writer.depth)
        writer.remember((var, q.at, None), out)

    def _buffer_row(self, here: list[Placed], stage: int) -> None:
        """Keep values of heavy operations that later stages compute again in a row buffer."""
        plan, writer = self.plan, self.writer
        if stage + 1 >= plan.stages or (plan.outer and plan.cascade == "block"):
            return
        later = [q for q in plan.placed if q.stage > stage and q.level == "inner"]
        roots = [r for q in later for r in root_reads(q.root, q.at, q.guard)]
        again = demand.walk(self.env, roots, unguarded=True)[1]
        read = {leaf.var for leaf in demand.walk(self.env, roots)[0]}
        for q in here:
            if q.cls == "scan" and q.root.var in read:
                self._keep(q.root.var, q.at, writer.memo[(q.root.var, q.at, None)])
        for var, eqn in self.env.items():
            if not cost.is_heavy(eqn):
                continue
            for at in again.get(var, ()):
                known = writer.memo.get((var, at, None))
                held = (var, at) in writer.held
                if known is None or held or writer.depths[known] < writer.depth:
                    continue
                if self.inner.extent * var.aval.dtype.itemsize <= MAX_ROW_BUFFER:
                    self._keep(var, at, known)

    def _keep(self, var: Var, at: Indices, value: Value) -> None:
        writer, place = self.writer, self.columns.at()
        dtype = var.aval.dtype
        nbytes = order.aligned(max(self.inner.extent, 1) * dtype.itemsize)
        buffer = writer.buffer("private", dtype, nbytes=nbytes)
        writer.store(buffer, place, value, dtype)

        def load() -> Value:
            out = writer.fresh(writer.depth)
            writer.place(Load(out, buffer, place, dtype), writer.depth)
            return out

        writer.held[(var, at)] = load


def _packed_axis(var: Var) -> int:
    """The axis of a filter's result whose extent the filter decides."""
    return next(k for k, e in enumerate(var.aval.shape) if isinstance(e, Sym))


def _rows_kept(q: Placed, inner: Axis) -> bool:
    """Whether a filter keeps whole rows: its mask does not vary along the innermost axis."""
    holds = [c for c in q.guard if isinstance(c, Holds)]
    return not any(inner in ix.axes_of(c.at) for c in holds)
