"""Assemble a kernel's nest: phases, task loops, stages, accumulators, stores.

Takes a kernel's sub-program and a schedule for its roots, gives the `Nest`. For every reduction the
order of its terms is a function of the reduced extents and the dtype alone (docs/numerics.md):
chunks of the outermost reduced axis, blocks of 1024 elements, fixed lanes.

    y = x - x.mean(1)     parallel task as row: open a0; vector: update a0; close a0; vector: store
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fjit.core import dtypes
from fjit.core.ir import Eqn, Program, Sym, Var
from fjit.optimize import demand
from fjit.optimize import index as ix
from fjit.lower.build import I64, Memory, Writer
from fjit.lower.collapse import collapse
from fjit.optimize.index import Axis, Holds, Indices
from fjit.lower.nest import (
    UNIT,
    Advance,
    Append,
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
    Slot,
    Update,
    Value,
)
from fjit.optimize.schedule import Placed, Schedule, root_reads

BLOCK: Final = 1024
CHUNK: Final = 1 << 16
MAX_CHUNKS: Final = 32
GRAIN: Final = 1 << 15
MAX_PRIVATE: Final = 1 << 20
HEAVY: Final = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh cbrt erf erfc gammaln digamma pow atan2 hypot logaddexp logaddexp2 div mod floordiv "
    "fmod sqrt".split()
)
"""Operations that are cheaper to keep in a row buffer than to compute again."""


def array_dtypes(op: str, dtype: np.dtype) -> tuple[np.dtype, ...]:
    """Dtypes of the running values of a reduction kept in memory, one element per lane."""
    if op == "sum" and dtype.kind == "f":
        return (dtypes.F64,)
    return (dtype, I64) if op.startswith("arg") else (dtype,)


def partial_dtypes(op: str, dtype: np.dtype) -> tuple[np.dtype, ...]:
    """Dtypes of the words of a partial result (a float64 sum carries its rounding error)."""
    if op == "sum" and dtype == dtypes.F64:
        return (dtypes.F64, dtypes.F64)
    return array_dtypes(op, dtype)


def identity(op: str, dtype: np.dtype) -> object:
    """The start value of a reduction: never visible in results."""
    if op in ("sum", "or"):
        return 0
    if op in ("prod", "and"):
        return 1
    lowest = op in ("max", "argmax")
    if dtype.kind == "f":
        return -math.inf if lowest else math.inf
    if dtype.kind == "b":
        return not lowest
    info = np.iinfo(dtype)
    return info.min if lowest else info.max


def chunks(total: int, extent: int, multiple: int) -> tuple[int, int]:
    """How many chunks the outermost reduced axis has, and their length: of extents alone."""
    count = max(1, min(total // CHUNK, MAX_CHUNKS, extent))
    if count == 1:
        return 1, max(extent, 1)
    length = -(-extent // count)
    length = -(-length // multiple) * multiple
    return -(-extent // length), length


def op_of(eqn: Eqn) -> str:
    """The reduction's operation."""
    return str(eqn.param("op"))


def kept_indices(placed: Placed) -> Indices:
    """Indices of a root's own result."""
    eqn = placed.root.eqn
    if eqn is None or eqn.primitive.family != "reduction":
        return placed.at
    axes: tuple[int, ...] = eqn.param("axes")  # type: ignore[assignment]
    return tuple(i for k, i in enumerate(placed.at) if k not in axes)


class Assembler:
    """Builds the phases of one kernel."""

    def __init__(
        self,
        env: demand.Env,
        program: Program,
        plan: Schedule,
        memory: dict[Var, Memory],
        outputs: dict[Var, Memory],
    ) -> None:
        self.env = env
        self.plan = _with_inner(_collapsed(env, plan, memory, outputs))
        self.memory = memory
        self.outputs = outputs
        self.writer = Writer(env, memory, program.inputs)
        self.out = {
            var: self.writer.buffer("out", var.aval.dtype, k)
            for k, var in enumerate(program.outputs)
            if isinstance(var, Var)
        }
        self.acc = 0
        self.arrays: dict[Var, list[int]] = {}
        self.partials: dict[Var, list[int]] = {}
        self.counter_used = False
        inner = self.plan.inner
        assert inner is not None
        self.inner: Axis = inner
        self.chunk_axis: Axis | None = None
        self.chunk_count = 1
        self.chunk_length = 0
        self._choose_chunks()

    # ---- shape of the nest ----------------------------------------------------------------
    @property
    def reductions(self) -> list[Placed]:
        """Placed reductions."""
        return [q for q in self.plan.placed if q.cls in ("inner", "outer", "whole")]

    @property
    def scans_outer(self) -> bool:
        """Whether a scan runs along an outer axis, with one running value per column."""
        return any(q.cls == "scan" for q in self.plan.placed) and bool(self.plan.outer)

    def _choose_chunks(self) -> None:
        plan = self.plan
        if plan.cascade or any(q.cls in ("scan", "filter") for q in plan.placed):
            return
        rows = math.prod(a.extent for a in plan.rows)
        if plan.outer:
            ends = [q for q in plan.placed if q.cls in ("outer", "whole")]
            if not ends:
                return
            total = math.prod(a.extent for a in (*plan.outer, self.inner))
            axis, multiple = plan.outer[0], 1
        elif self.reductions:
            total, axis, multiple = self.inner.extent, self.inner, BLOCK
        elif rows < 64:
            total, axis, multiple = self.inner.extent, self.inner, BLOCK
        else:
            return
        self.chunk_count, self.chunk_length = chunks(total, axis.extent, multiple)
        if self.chunk_count > 1:
            self.chunk_axis = axis

    def build(self) -> Nest:
        """The nest of the kernel."""
        phases = [self._first_phase()]
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
    def _extent(self, axis: Axis) -> Slot:
        return self.writer.extent_slot(("extent", axis), axis.extent)

    def _tasks(self, axes: tuple[Axis, ...], chunked: bool) -> tuple[Loop, int]:
        """The parallel loop over rows (and chunks), not yet open."""
        decode = [(f"i{a.number}", self._extent(a)) for a in axes]
        count = math.prod(a.extent for a in axes)
        if chunked:
            decode.append(("chunk", self.writer.extent_slot("chunks", self.chunk_count)))
            count *= self.chunk_count
        cell = None
        dynamic = [a for a in axes if a.sym is not None]
        if dynamic and len(axes) == 1 and not chunked:
            cell = self.writer.cell(dynamic[0].sym)  # type: ignore[arg-type]
        tasks = self.writer.extent_slot(("tasks", axes, chunked), count)
        return Loop("task", tasks, "parallel", decode=tuple(decode), cell=cell), count

    def _loop(self, axis: Axis, kind: str) -> Loop:
        cell = None if axis.sym is None else self.writer.cell(axis.sym)
        loop = Loop(f"i{axis.number}", self._extent(axis), kind, cell=cell)
        if axis == self.chunk_axis:
            length = self.writer.extent_slot("chunk length", self.chunk_length)
            loop.start = Linear(None, (("chunk", length),))
            loop.stop = loop.extent
            loop.extent = length
        return loop

    def _first_phase(self) -> Phase:
        plan, writer = self.plan, self.writer
        chunked = self.chunk_axis is not None
        rows = plan.rows
        task, count = self._tasks(rows, chunked)
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

    def _block(self, stages: range) -> None:
        """Loops over S around the stages' loops over I, and what follows them."""
        plan, writer = self.plan, self.writer
        here = [q for q in plan.placed if q.stage in stages]
        whole = [q for q in here if q.cls == "whole"]
        accs = {q.root.var: self._open(q) for q in whole}
        outer = [q for q in here if q.cls == "outer" or (q.cls == "scan" and plan.outer)]
        self._begin_arrays(outer)
        filters = [q for q in here if q.cls == "filter"]
        if filters:
            self._count(filters, begin=True)
        loops = [self._loop(a, "sequential") for a in plan.outer]
        for loop in loops:
            writer.open(loop, (loop.axis,))
        for stage in stages:
            self._stage(stage, accs)
        for loop in reversed(loops):
            writer.close(loop)
        for q in whole:
            self._end(q, accs[q.root.var])
        for q in outer:
            if q.cls == "outer":
                self._end_array(q)
        if filters:
            self._count(filters, begin=False)
        if self.chunk_axis is None or not self.reductions:
            self._stores(here, "block")
            self._columns([q for q in here if q.level == "column"])

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
            loop = self._loop(self.inner, "vector")
            if any(_is_float_sum(q) for q in here if q.cls in ("inner", "whole")):
                loop.block = BLOCK
            writer.open(loop, (loop.axis,))
            writer.vector_axis = self.inner
            self._body(here, accs, stage)
            loop.unroll = self._unroll(loop, here)
            writer.close(loop)
        if any(q.cls == "filter" and _rows_kept(q, self.inner) for q in here):
            guard = writer.guard(here[0].guard)
            assert guard is not None
            writer.place(Advance(0, guard), writer.depth)
        chunked = self.chunk_axis == self.inner
        for q in inner:
            self._end(q, accs[q.root.var])
        if not (chunked and self.reductions):
            level_rows = [q for q in plan.placed if q.stage == stage and q.level == "row"]
            self._stores(level_rows, "row")

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
        writer.prepare(roots, set())
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
                self._update_array(q, value, guard)
            else:
                at = self._position(q)
                writer.place(Update(accs[q.root.var], value, guard, at), writer.depth)
        self._buffer_row(here, stage)

    def _position(self, q: Placed) -> Value | None:
        """Position among the reduced elements, for argmax and argmin."""
        eqn = q.root.eqn
        assert eqn is not None
        if not op_of(eqn).startswith("arg"):
            return None
        return self.writer.position(arg_index(eqn, q.at))

    def _store(self, q: Placed, value: Value) -> None:
        writer, var = self.writer, q.root.var
        memory = self.outputs[var]
        size = var.aval.dtype.itemsize
        address = writer.address(q.at, memory.strides, size, ("store", var))
        writer.store(self.out[var], address, value, var.aval.dtype)

    def _stores(self, placed: list[Placed], level: str) -> None:
        """Stores of values made from finished reductions, at the present loop level."""
        here = [q for q in placed if q.level == level and q.cls == "store"]
        if not here:
            return
        self.writer.prepare([(q.root.operand, q.at) for q in here], set())
        for q in here:
            self._store(q, self.writer.value(q.root.operand, q.at))

    def _columns(self, placed: list[Placed]) -> None:
        """A loop over I that stores values made from finished column reductions."""
        if not placed:
            return
        writer = self.writer
        axis = self.inner
        cell = None if axis.sym is None else writer.cell(axis.sym)
        loop = Loop(f"i{axis.number}", self._extent(axis), "vector", cell=cell)
        writer.open(loop, (loop.axis,))
        writer.vector_axis = self.inner
        self._stores(placed, "column")
        writer.close(loop)

    def _append(self, q: Placed, value: Value, guard: Value | None) -> None:
        writer, var = self.writer, q.root.var
        assert guard is not None
        dtype = var.aval.dtype
        if not _rows_kept(q, self.inner):
            writer.place(Append(self.out[var], 0, value, dtype, guard), writer.depth)
            if q is self._last_filter():
                writer.place(Advance(0, guard), writer.depth)
            return
        rest = writer.address(
            (ix.ZERO, *q.at[1:]), self.outputs[var].strides, dtype.itemsize, ("store", var)
        )
        row = writer.extent_slot(("row", var), self.outputs[var].strides[0])
        at = Linear(rest.offset, (("c0", row), *rest.terms))
        writer.store(self.out[var], at, value, dtype, guard)

    def _last_filter(self) -> Placed:
        return [q for q in self.plan.placed if q.cls == "filter"][-1]

    def _count(self, filters: list[Placed], begin: bool) -> None:
        sym = filters[0].root.var.aval.shape[0]
        assert isinstance(sym, Sym)
        self.writer.place(Count(0, self.writer.cell(sym), begin), self.writer.depth)

    # ---- accumulators in registers ----------------------------------------------------------
    def _open(self, q: Placed) -> int:
        eqn = q.root.eqn
        assert eqn is not None
        self.acc += 1
        op = op_of(eqn)
        self.writer.place(Open(self.acc, op, eqn.inputs[0].aval.dtype), self.writer.depth)
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
        words = partial_dtypes(op_of(eqn), eqn.inputs[0].aval.dtype)
        outs = tuple(writer.fresh(writer.depth) for _ in words)
        writer.place(Close(outs, acc, var.aval.dtype, partial=True), writer.depth)
        buffers = self._partial_buffers(var, words, self.plan.rows, columns=False)
        for out, buffer, word in zip(outs, buffers, words, strict=True):
            at = self._partial_address(self.plan.rows, word, columns=False)
            writer.store(buffer, at, out, word)

    def _finished(self, q: Placed, out: Value) -> None:
        """Let readers find a reduction's result; a filtered extremum of nothing is an error."""
        writer, eqn = self.writer, q.root.eqn
        assert eqn is not None
        writer.remember((q.root.var, kept_indices(q), None), out)

    # ---- accumulators in memory, one per column ---------------------------------------------
    def _arrays(self, q: Placed) -> list[int]:
        eqn, var = q.root.eqn, q.root.var
        assert eqn is not None
        known = self.arrays.get(var)
        if known is None:
            words = _words(q)
            extent = max(self.inner.extent, 1)
            known = self.arrays[var] = [
                self.writer.buffer("private", w, nbytes=_aligned(extent * w.itemsize))
                for w in words
            ]
        return known

    def _column_at(self, axis: Axis) -> Linear:
        return Linear(None, ((f"i{axis.number}", UNIT),))

    def _begin_arrays(self, outer: list[Placed]) -> None:
        if not outer:
            return
        writer = self.writer
        for q in outer:
            self._arrays(q)
        cell = None if self.inner.sym is None else writer.cell(self.inner.sym)
        loop = Loop(f"i{self.inner.number}", self._extent(self.inner), "vector", cell=cell)
        writer.open(loop, (loop.axis,))
        writer.vector_axis = self.inner
        for q in outer:
            assert q.root.eqn is not None
            op = op_of(q.root.eqn)
            starts = [identity(op, _words(q)[0]), -1]
            if q.cls == "scan" and op == "sum" and _words(q)[0].kind == "f":
                starts[0] = -0.0
            for buffer, word, start in zip(self._arrays(q), _words(q), starts, strict=False):
                writer.store(
                    buffer, self._column_at(self.inner), writer.constant(start, word), word
                )
        writer.close(loop)

    def _read_arrays(self, q: Placed) -> tuple[Value, ...]:
        writer = self.writer
        depth = max(writer.axis_depth[f"i{self.inner.number}"], writer.depth)
        values = []
        for buffer, word in zip(self._arrays(q), _words(q), strict=True):
            out = writer.fresh(depth)
            writer.place(Load(out, buffer, self._column_at(self.inner), word), depth)
            values.append(out)
        return tuple(values)

    def _write_arrays(self, q: Placed, values: tuple[Value, ...]) -> None:
        for buffer, word, value in zip(self._arrays(q), _words(q), values, strict=True):
            self.writer.store(buffer, self._column_at(self.inner), value, word)

    def _update_array(self, q: Placed, value: Value, guard: Value | None) -> None:
        eqn = q.root.eqn
        assert eqn is not None
        position = None
        if op_of(eqn).startswith("arg"):
            position = self.writer.position(arg_index(eqn, q.at))
        old = self._read_arrays(q)
        dtype = eqn.inputs[0].aval.dtype
        word = _words(q)[0]
        if word != dtype:
            value = self.writer.let("convert", (value,), (dtype,), word)
        new = (value,) if position is None else (value, position)
        self._write_arrays(q, self.combine(op_of(eqn), word, old, new, guard))

    def combine(
        self,
        op: str,
        dtype: np.dtype,
        old: tuple[Value, ...],
        new: tuple[Value, ...],
        guard: Value | None = None,
    ) -> tuple[Value, ...]:
        """old op new, elementwise; old where the guard does not hold."""
        writer = self.writer
        pair = (dtype, dtype)
        if op.startswith("arg"):
            better = self._better(op, dtype, old, new)
            better = better if guard is None else writer.both(better, guard) or better
            return (
                writer.let("select", (better, new[0], old[0]), (dtypes.BOOL, *pair), dtype),
                writer.let("select", (better, new[1], old[1]), (dtypes.BOOL, I64, I64), I64),
            )
        name = {"sum": "add", "prod": "mul"}.get(op, op)
        result = writer.let(name, (old[0], new[0]), pair, dtype)
        if guard is not None:
            result = writer.let("select", (guard, result, old[0]), (dtypes.BOOL, *pair), dtype)
        return (result,)

    def _better(
        self, op: str, dtype: np.dtype, old: tuple[Value, ...], new: tuple[Value, ...]
    ) -> Value:
        """Whether a later element beats the one held: greater, first of all, or the first NaN."""
        writer, b = self.writer, dtypes.BOOL
        pair = (dtype, dtype)
        name = "gt" if op == "argmax" else "lt"
        better = writer.let(name, (new[0], old[0]), pair, b)
        none = writer.let("lt", (old[1], writer.constant(0, I64)), (I64, I64), b)
        better = writer.let("or", (better, none), (b, b), b)
        if dtype.kind != "f":
            return better
        fresh = writer.let("isnan", (new[0],), (dtype,), b)
        held = writer.let("isnan", (old[0],), (dtype,), b)
        first = writer.let("and", (fresh, writer.negation(held)), (b, b), b)
        return writer.let("or", (better, first), (b, b), b)

    def _end_array(self, q: Placed) -> None:
        """Let readers find the column results, or store the chunk's partial results."""
        if self.chunk_axis is None:
            self.writer.held[(q.root.var, kept_indices(q))] = lambda: self._column_value(q)
            return
        writer = self.writer
        words = _words(q)
        rows = self.plan.rows
        buffers = self._partial_buffers(q.root.var, words, rows, columns=True)
        loop = Loop(f"i{self.inner.number}", self._extent(self.inner), "vector")
        writer.open(loop, (loop.axis,))
        writer.vector_axis = self.inner
        for value, buffer, word in zip(self._read_arrays(q), buffers, words, strict=True):
            writer.store(buffer, self._partial_address(rows, word, columns=True), value, word)
        writer.close(loop)

    def _column_value(self, q: Placed) -> Value:
        assert q.root.eqn is not None
        values = self._read_arrays(q)
        return self._converted(q, values)

    def _converted(self, q: Placed, values: tuple[Value, ...]) -> Value:
        eqn = q.root.eqn
        assert eqn is not None
        if op_of(eqn).startswith("arg"):
            return values[1]
        word, dtype = _words(q)[0], q.root.var.aval.dtype
        if word == dtype:
            return values[0]
        return self.writer.let("convert", (values[0],), (word,), dtype)

    # ---- partial results of chunks ----------------------------------------------------------
    def _partial_buffers(
        self, var: Var, words: tuple[np.dtype, ...], rows: tuple[Axis, ...], columns: bool
    ) -> list[int]:
        known = self.partials.get(var)
        if known is None:
            count = math.prod(a.extent for a in rows) * self.chunk_count
            count *= self.inner.extent if columns else 1
            known = self.partials[var] = [
                self.writer.buffer("shared", w, nbytes=_aligned(count * w.itemsize)) for w in words
            ]
        return known

    def _partial_address(self, rows: tuple[Axis, ...], word: np.dtype, *, columns: bool) -> Linear:
        writer = self.writer
        size = word.itemsize
        terms: list[tuple[str, Slot | int]] = []
        step = size * (self.inner.extent if columns else 1)
        role = ("partial", columns, size)
        terms.append(("chunk", writer.extent_slot((role, "chunk"), step)))
        step *= self.chunk_count
        for axis in reversed(rows):
            terms.append((f"i{axis.number}", writer.extent_slot((role, axis), step)))
            step *= axis.extent
        if columns:
            terms.append((f"i{self.inner.number}", UNIT))
        return Linear(None, tuple(terms))

    def _second_phase(self) -> Phase:
        """Fold the chunks' partial results in order, then store what depends on them."""
        plan, writer = self.plan, self.writer
        self.arrays.clear()
        writer.held.clear()
        task, count = self._tasks(plan.rows, chunked=False)
        writer.open(task, tuple(a for a, _ in task.decode))
        outer = [q for q in self.reductions if q.cls == "outer"]
        ends = [q for q in self.reductions if q.root.var in self.partials and q.cls != "outer"]
        accs = {q.root.var: self._open(q) for q in ends}
        self._begin_arrays(outer)
        chunk = Loop("chunk", writer.extent_slot("chunks", self.chunk_count), "sequential")
        writer.open(chunk, ("chunk",))
        for q in ends:
            self._merge(q, accs[q.root.var])
        if outer:
            loop = Loop(f"i{self.inner.number}", self._extent(self.inner), "vector")
            writer.open(loop, (loop.axis,))
            writer.vector_axis = self.inner
            for q in outer:
                self._merge_array(q)
            writer.close(loop)
        writer.close(chunk)
        self.chunk_axis = None
        for q in ends:
            self._end(q, accs[q.root.var])
        for q in outer:
            self._end_array(q)
        for level in ("row", "block"):
            if level == "block" or any(q.cls == "inner" for q in ends):
                self._stores(list(plan.placed), level)
        self._columns([q for q in plan.placed if q.level == "column"])
        writer.close(task)
        columns = self.inner.extent if outer else 1
        return Phase(task, count, 1, count * self.chunk_count * columns)

    def _merge(self, q: Placed, acc: int) -> None:
        writer, eqn = self.writer, q.root.eqn
        assert eqn is not None
        words = partial_dtypes(op_of(eqn), eqn.inputs[0].aval.dtype)
        parts = []
        for buffer, word in zip(self.partials[q.root.var], words, strict=True):
            out = writer.fresh(writer.depth)
            at = self._partial_address(self.plan.rows, word, columns=False)
            writer.place(Load(out, buffer, at, word), writer.depth)
            parts.append(out)
        writer.place(Merge(acc, tuple(parts)), writer.depth)

    def _merge_array(self, q: Placed) -> None:
        writer, eqn = self.writer, q.root.eqn
        assert eqn is not None
        words = _words(q)
        parts = []
        for buffer, word in zip(self.partials[q.root.var], words, strict=True):
            out = writer.fresh(writer.depth)
            at = self._partial_address(self.plan.rows, word, columns=True)
            writer.place(Load(out, buffer, at, word), writer.depth)
            parts.append(out)
        old = self._read_arrays(q)
        self._write_arrays(q, self.combine(op_of(eqn), words[0], old, tuple(parts)))

    # ---- scans and row buffers --------------------------------------------------------------
    def _scan(self, q: Placed, accs: dict[Var, int]) -> None:
        writer, eqn, var = self.writer, q.root.eqn, q.root.var
        assert eqn is not None
        value = writer.value(q.root.operand, q.at)
        if self.plan.outer:
            old = self._read_arrays(q)
            (out,) = self.combine(op_of(eqn), var.aval.dtype, old, (value,))
            self._write_arrays(q, (out,))
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
        for var, eqn in self.env.items():
            if eqn.primitive.name not in HEAVY:
                continue
            for at in again.get(var, ()):
                key = (var, at)
                known = writer.memo.get((var, at, None))
                if known is None or key in writer.held or writer.depths[known] < writer.depth:
                    continue
                if self.inner.extent * var.aval.dtype.itemsize <= MAX_PRIVATE // 4:
                    self._keep(var, at, known)

    def _keep(self, var: Var, at: Indices, value: Value) -> None:
        writer = self.writer
        dtype = var.aval.dtype
        nbytes = _aligned(max(self.inner.extent, 1) * dtype.itemsize)
        buffer = writer.buffer("private", dtype, nbytes=nbytes)
        writer.store(buffer, self._column_at(self.inner), value, dtype)

        def load() -> Value:
            out = writer.fresh(writer.depth)
            writer.place(Load(out, buffer, self._column_at(self.inner), dtype), writer.depth)
            return out

        writer.held[(var, at)] = load


def arg_index(eqn: Eqn, at: Indices) -> ix.Index:
    """C-order position over the reduced axes."""
    axes: tuple[int, ...] = eqn.param("axes")  # type: ignore[assignment]
    shape = eqn.inputs[0].aval.shape
    position = ix.ZERO
    for axis in axes:
        extent = shape[axis]
        size = extent if isinstance(extent, int) else extent.bound
        position = ix.plus(ix.affine(position, size, 0), at[axis])
    return position


def _words(q: Placed) -> tuple[np.dtype, ...]:
    eqn = q.root.eqn
    assert eqn is not None
    dtype = eqn.inputs[0].aval.dtype
    return (dtype,) if q.cls == "scan" else array_dtypes(op_of(eqn), dtype)


def _is_float_sum(q: Placed) -> bool:
    eqn = q.root.eqn
    return eqn is not None and op_of(eqn) == "sum" and eqn.inputs[0].aval.dtype.kind == "f"


def _rows_kept(q: Placed, inner: Axis) -> bool:
    """Whether a filter keeps whole rows: its mask does not vary along the innermost axis."""
    holds = [c for c in q.guard if isinstance(c, Holds)]
    return not any(inner in ix.axes_of(c.at) for c in holds)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 64) * 64


def _with_inner(plan: Schedule) -> Schedule:
    """Rank-0 kernels get a vector axis of extent 1."""
    return plan if plan.inner is not None else plan._replace(inner=Axis(0, 1))


def _collapsed(
    env: demand.Env, plan: Schedule, memory: dict[Var, Memory], outputs: dict[Var, Memory]
) -> Schedule:
    if len(plan.axes) < 2 or any(q.cls in ("scan", "filter") for q in plan.placed):
        return plan
    results = {q.root.var for q in plan.placed if q.root.eqn is not None}
    accesses = []
    positions: set[Axis] = set()
    for q in plan.placed:
        leaves, computed = demand.walk(env, root_reads(q.root, q.at, q.guard))
        for leaf in leaves:
            if leaf.var not in results and not memory[leaf.var].scalar:
                accesses.append((leaf.at, memory[leaf.var].strides))
        if q.root.var in outputs and q.root.eqn is None:
            accesses.append((q.at, outputs[q.root.var].strides))
        for var, places in computed.items():
            positions |= _index_values(env[var], places)
        if q.root.eqn is not None and q.root.eqn.primitive.name == "argreduce":
            positions |= set(q.reduced)
    return collapse(plan, accesses, positions)


def _index_values(eqn: Eqn, places: set[Indices]) -> set[Axis]:
    """Axes whose position is itself needed as a value: iota, guards."""
    found: set[Axis] = set()
    if eqn.primitive.family != "view":
        return found
    for at in places:
        source = demand.step(eqn, at)
        if isinstance(source, demand.Position):
            found |= ix.axes_of((source.index,))
        elif isinstance(source, demand.Choice):
            for guard, _ in source.options:
                for c in guard:
                    if not isinstance(c, Holds):
                        found |= ix.axes_of((c.index,))
    return found
