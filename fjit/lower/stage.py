"""One stage of a nest: the loops over I, what is in them, and the accumulators they fold into.

Takes a kernel's sub-program and a schedule for its roots, gives the statements of one stage at a
time to the assembler of phases (assemble.py). The order of a reduction's terms is that of
lower/order.py.

    y = x - x.mean(1)     stage 0: open a0; vector: update a0; close a0    stage 1: vector: store
"""

from __future__ import annotations

from fjit.core.ir import Program, Var
from fjit.core.rules import PIVOTS
from fjit.lower import order, quitting
from fjit.lower.blocks import Blocks, length_of, op_of
from fjit.lower.build import Writer
from fjit.lower.checks import check_count, counted
from fjit.lower.collapse import collapsed
from fjit.lower.columns import Columns, Partials
from fjit.lower.fetching import between_walks
from fjit.lower.keeping import keep_block, keep_row
from fjit.lower.memory import Memory
from fjit.lower.nest import (
    Close,
    Linear,
    Load,
    Loop,
    Open,
    Scan,
    Update,
    Value,
    short,
)
from fjit.lower.packing import Packing
from fjit.lower.segments import cuts
from fjit.lower.tasks import Chunks, chunks_of
from fjit.optimize import chunks, demand
from fjit.optimize import index as ix
from fjit.optimize.drafts import root_reads
from fjit.optimize.index import Axis
from fjit.optimize.schedule import Placed, Schedule


class StageWriter:
    """Writes the stages of one kernel where its phases have opened loops."""

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
        on_gpu: bool = False,
    ) -> None:
        self.env, self.on_gpu = env, on_gpu
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
        most = chunks.GPU if on_gpu else chunks.CPU
        cut = None if by_rows else chunks_of(self.plan, inner, quits=self.quits, most=most)
        self.chunk_axis, self.chunk_count, self.chunk_length = cut or Chunks(None)
        self.blocks = Blocks(self.writer)
        self.columns = Columns(self.writer, inner)
        self.packing = Packing(self.writer, inner, outputs, self.out)
        self.partials = Partials(self.writer, inner, self.plan.rows, self.chunk_count)

    @property
    def reductions(self) -> list[Placed]:
        """Placed reductions."""
        return [q for q in self.plan.placed if q.cls in order.ENDS]

    # ---- loops ----------------------------------------------------------------------------------
    def loop(self, axis: Axis, kind: str) -> Loop:
        """The loop over an axis, not yet open."""
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
            self.part(loop, "chunk", self.chunk_length)
        elif kind == "vector" and axis.sym is None:
            loop.most = short(axis.extent)
        return loop

    def part(self, loop: Loop, counter: str, length: int) -> None:
        """Restrict a loop to one part of `length` steps, numbered by `counter`."""
        size = self.writer.extent_slot(("length", counter, loop.axis), length)
        loop.start, loop.stop, loop.extent = Linear(None, ((counter, size),)), loop.extent, size

    def _cut_out(self, loop: Loop, axis: Axis, start: int) -> None:
        """Restrict the loop over a part of the chunked axis, from `start` on, to the chunk's."""
        writer, stop = self.writer, loop.extent
        self.part(loop, "chunk", self.chunk_length)
        assert loop.start is not None
        before = writer.extent_slot(("before", axis), -start)
        loop.start, loop.stop, loop.most = loop.start._replace(offset=before), stop, 0

    def groups(self, axis: Axis, name: str, size: int) -> Loop:
        """The loop over groups of rows of an outer axis, or blocks of the inner one, or a chunk."""
        slot = self.writer.extent_slot((name, axis), -(-axis.extent // size))
        loop = Loop(name, slot, "sequential")
        if axis == self.chunk_axis:
            self.part(loop, "chunk", self.chunk_length // size)
        return loop

    def stage(self, stage: int, accs: dict[Var, int]) -> None:
        """One loop over I: update accumulators, store results, then finish the row."""
        plan = self.plan
        here = [q for q in plan.placed if q.stage == stage and q.level == "inner"]
        inner = [q for q in here if q.cls == "inner"]
        accs = accs | {q.root.var: self.open(q) for q in inner}
        for q in here:
            if q.cls == "scan" and not plan.outer:
                accs[q.root.var] = self.open(q)
        if here:
            self._vector_loops(here, accs, stage)
        self.packing.end_row(here, plan.outer, len(plan.outer))
        for q in inner if not self.looking else []:
            self.end(q, accs[q.root.var])
        if not (self.chunk_axis == self.inner and self.reductions):
            self.stores([q for q in plan.placed if q.stage == stage], "row")

    def _vector_loops(self, here: list[Placed], accs: dict[Var, int], stage: int) -> None:
        """The loop over I, in parts where conditions along it change."""
        plan, axis = self.plan, self.inner
        if any(order.in_two_walks(q) and q.cls != "outer" for q in here):
            self._block_loops(here, accs, stage)
            return
        parts = [(0, axis.extent)]
        if plan.stages == 1 and (self.chunk_axis != axis or not self.reductions):
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
            self._vector_loop(moved, accs, stage, part, start)

    def _block_loops(self, here: list[Placed], accs: dict[Var, int], stage: int) -> None:
        """The loop over blocks of I, each walked a second time by the reductions that need it."""
        writer, axis, blocks = self.writer, self.inner, self.blocks
        twice = [q for q in here if order.in_two_walks(q) and q.cls != "outer"]
        loop = self.groups(axis, "block", order.WALKED_TWICE)
        writer.open(loop, (loop.axis,))
        firsts = {q.root.var: self.number() for q in twice}
        for q in twice:
            blocks.open(q, firsts[q.root.var], PIVOTS[op_of(q)])
        first = self._walk_block(axis)
        self.body(here, accs | firsts, stage)
        for q in twice:
            keep_block(writer, self.env, axis, q)
        first.unroll = self._unroll(first, here)
        writer.close(first)
        number = length_of(writer, axis, "block", order.WALKED_TWICE)
        walked = []
        for q in twice:
            seconds = tuple(self.number() for _ in range(blocks.merging(q).terms))
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
        self.part(loop, "block", order.WALKED_TWICE)
        self.writer.open(loop, (loop.axis,))
        self.writer.vector_axis = axis
        return loop

    def _vector_loop(
        self, here: list[Placed], accs: dict[Var, int], stage: int, axis: Axis, start: int = 0
    ) -> None:
        """A loop over I, or over the part of it that begins at `start`."""
        writer = self.writer
        loop = self.loop(axis, "vector")
        if self.chunk_axis == self.inner != axis:
            self._cut_out(loop, axis, start)
        if any(order.is_float_sum(q) for q in here if q.cls in ("inner", "whole")):
            loop.block = order.BLOCK
        writer.open(loop, (loop.axis,))
        writer.vector_axis = axis
        self.body(here, accs, stage)
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

    # ---- bodies ---------------------------------------------------------------------------------
    def body(self, here: list[Placed], accs: dict[Var, int], stage: int) -> None:
        """What is done with one element: scans, stores, filters and updates."""
        writer = self.writer
        roots = [r for q in here for r in root_reads(q.root, q.at, q.guard)]
        scanned = {q.root.var for q in here if q.cls == "scan"}
        for q in here:
            if q.cls == "scan":
                writer.prepare(root_reads(q.root, q.at, q.guard), scanned)
                self._scan(q, accs)
        writer.prepare(roots, {var for var, _ in writer.held})
        turns, first = list[Value](), here[0]  # values whose turns come one after the other
        for q in here:
            if q.cls == "scan":
                continue
            guard = writer.guard(q.guard)
            value = writer.value(q.root.operand, q.at)
            if q.cls == "store":
                first = q if not turns else first
                turns.append(value)
                if len(turns) == self.plan.woven:
                    self._store(first, *turns)
                    turns = []
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

    def _store(self, q: Placed, value: Value, *more: Value) -> None:
        """Store a value, and those whose turn comes after it in memory."""
        writer, var = self.writer, q.root.var
        memory = self.outputs[var]
        size = var.aval.dtype.itemsize
        address = writer.address(q.at, memory.strides, size, ("store", var, q.at))
        streaming = self.streams and q.level == "inner"
        writer.store(self.out[var], address, value, var.aval.dtype, None, streaming, more)

    def stores(self, placed: list[Placed], level: str) -> None:
        """Stores of values made from finished reductions, at the present loop level."""
        here = [q for q in placed if q.level == level and q.cls == "store"]
        if not here:
            return
        self.writer.prepare([(q.root.operand, q.at) for q in here], set())
        for q in here:
            self._store(q, self.writer.value(q.root.operand, q.at))

    # ---- accumulators ---------------------------------------------------------------------------
    def number(self) -> int:
        """The next accumulator's number."""
        self.acc += 1
        return self.acc

    def open(self, q: Placed) -> int:
        """Open the accumulator of a reduction; gives its number."""
        eqn = q.root.eqn
        assert eqn is not None
        if order.in_two_walks(q):
            self.blocks.begin(q)
            return 0
        dtype = eqn.inputs[0].aval.dtype
        opened = Open(self.number(), order.op_of(eqn), dtype, fast=eqn.fast)
        self.writer.place(opened, self.writer.depth)
        return self.acc

    def end(self, q: Placed, acc: int) -> None:
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

    # ---- scans ----------------------------------------------------------------------------------
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
