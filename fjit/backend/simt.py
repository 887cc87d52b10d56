"""The GPU emitter: a loop nest becomes kernels, tasks spread over blocks and steps over threads.

Takes a `Nest` and the size of its vector loops' steps, gives LLVM IR of one kernel per phase,

    void phase0(ptr status, ptr b0, ..., i64 s0, ...)

A task belongs to `ntid.x` threads in each of `nctaid.x` blocks; `ntid.y` tasks share a block and
blocks take tasks `nctaid.y * ntid.y` apart. A thread takes `unit` elements side by side, with one
access where memory is aligned. Statements outside vector loops are run by all threads of a task,
their stores by one. Invariant: which thread takes an element depends on extents alone, and all
threads of a block reach every barrier.

    parallel task < n           for (t = ctaid.y; t < n; t += nctaid.y)
      open a0                     a0 = 0
      vector i < m                for (i = tid.x; i < m; i += ntid.x)
        update a0 x[t, i]           a0 += x[t, i]
      %1 = close a0               a0 = sum of the threads' a0
      store y[t] %1               if (tid.x == 0) y[t] = a0
"""

from __future__ import annotations

from fjit.backend import packed, scalar
from fjit.backend.accumulate import Lanewise
from fjit.backend.emitter import I64, Emitter, Ty, Val
from fjit.backend.flow import ROLLED_TEXT
from fjit.backend.look_back import STEPS, Carry, LookBack
from fjit.backend.spread import Spread, holds, merges, spread_of, vector_loops, wide_accesses
from fjit.backend.statements import FLAG, WORD, raw
from fjit.backend.thread_accumulate import ThreadAccumulator, counted_before
from fjit.backend.threads_ir import EXCHANGE, Threads
from fjit.backend.tile_loops import TileLoops
from fjit.backend.tiles import tile_of
from fjit.backend.values import GLOBAL
from fjit.core.meanings import start_value
from fjit.lower import nest as n
from fjit.lower.carried import Carried, carried


def emit(nest: n.Nest, *, short: bool = False) -> tuple[str, list[str]]:
    """LLVM IR of a kernel's phases, named phase0, phase1, ..., and these names.

    `short` says that positions and addresses within buffers fit into 32 bits (lower/reach.py).
    """
    parts: list[str] = []
    helpers: dict[str, str] = {}
    declares: dict[str, str] = {}
    names, exchanges = [], False
    for number, phase in enumerate(nest.phases):
        kernel = _Kernel(nest, phase.loop, short=short)
        names.append(f"phase{number}")
        parts.append(kernel.run(names[-1]))
        helpers.update(kernel.em.helpers)
        declares.update(kernel.em.declares)
        exchanges |= kernel.threads.exchanges
    if exchanges:
        parts.insert(0, EXCHANGE)
    parts.append(ROLLED_TEXT)
    return "\n".join([*parts, *helpers.values(), *declares.values()]) + "\n", names


class _Kernel(TileLoops):
    """One phase under construction."""

    def __init__(self, nest: n.Nest, loop: n.Loop, *, short: bool) -> None:
        super().__init__(nest, Emitter(hardware_half=True, gpu=True), short=short)
        self.tasks = loop
        self.spread: Spread = spread_of(nest, loop)
        self.em.lines = self.entry
        self.threads = Threads(self.em, self._label, self._alloca)
        folds = (n.Update, n.Merge)
        self.shared = {s.acc for v in vector_loops(loop) for s in v.body if isinstance(s, folds)}
        self.scans = {s.acc for v in vector_loops(loop) for s in v.body if isinstance(s, n.Scan)}
        self.counters: dict[int, Val] = {}
        self.kept: dict[n.Value, tuple[Val, Val]] = {}
        self.vector: str | None = None
        self.mask: Val | None = None
        self.wide: dict[n.Value, Val] = {}
        self.pending: dict[int, list[Val]] | None = None
        self.copy = 0
        self.carried = carried(loop)
        self.dry = False  # whether only a partition's aggregates are wanted

    def run(self, name: str) -> str:
        """The text of the kernel."""
        em, threads = self.em, self.threads
        wide, high = self._number(threads.width), self._number(threads.height)
        self.lane, self.lanes = self._number(threads.x), wide
        if self.carried is None:
            start = em.mul(self._number(threads.block[0]), wide)
            self.lane = em.add(start, self.lane)
            self.lanes = em.mul(self._number(threads.blocks[0]), wide)
        self.first = em.icmp("eq", self.lane, self._const(0))
        self.offset = self._number(threads.y)
        self.begin = em.mul(self._number(threads.block[1]), high)
        self.step = em.mul(self._number(threads.blocks[1]), high)
        self.place = em.add(self.begin, self.offset)  # of the task among those that run at once
        body: list[str] = []
        em.lines = body
        self.live = em.const(FLAG, 1)
        for stmt in self.nest.entry:
            self.statement(stmt)
        tile = tile_of(self.nest, self.tasks)
        self._tasks(self.tasks) if tile is None else self._tiles(self.tasks, tile)
        em.ret()
        em.lines = ["entry:", *self.entry, "  br label %start", "start:", *body]
        buffers = [(GLOBAL, f"b{k}") for k in range(len(self.nest.buffers))]
        slots = [(WORD, f"s{k}") for k in range(len(self.nest.slots))]
        state = [] if self.carried is None else [(GLOBAL, "state")]
        return em.define(name, [(GLOBAL, "status"), *buffers, *slots, *state])

    # ---- loops ----------------------------------------------------------------------------------
    def _tasks(self, loop: n.Loop) -> None:
        """Tasks a grid apart; the last rows of a block may be beyond the last task."""
        em, stop = self.em, self.slot(loop.extent)
        if not loop.decode:  # a single task, which shares no block
            self.body(loop.body)
            return
        if loop.cell is not None:
            stop = self._smaller(stop, self.count_in(loop.cell))

        def task(first: Val) -> None:
            wanted = em.add(first, self.offset)
            self.live = em.icmp("slt", wanted, stop)
            last = em.sub(stop, self._const(1))
            self.axes.update(self._decoded(loop, em.select(self.live, wanted, last)))
            self.body(loop.body)

        self.loop(self.begin, stop, self.step, task)

    def body(self, stmts: list[n.Stmt]) -> None:
        """Emit statements in order."""
        for stmt in stmts:
            self.statement(stmt)

    def _on_loop(self, loop: n.Loop) -> None:
        start, stop = self._bounds(loop)
        if merges(loop):
            self.vector = loop.axis
            self._elements(loop, self.lane, stop, self.lanes)
            self.vector = None
            return
        if loop.kind != "vector":
            self._sequential(loop, start, stop)
            return
        self.vector = loop.axis
        if self.carried is not None and loop is self.carried.loop:
            self._partitions(self.carried, stop)
        elif self.spread.lockstep and holds(loop, n.Scan, n.Append, n.Advance):
            self._together(loop, start, stop)
        else:
            stop = self.em.select(self.live, stop, start)
            self._strided(loop, start, stop)
        self.vector = None
        if any(self._is_scratch(s.buffer) for s in loop.body if isinstance(s, n.Store)):
            self.threads.barrier()

    def _is_scratch(self, buffer: int) -> bool:
        return self.nest.buffers[buffer].kind in ("private", "shared")

    def _sequential(self, loop: n.Loop, start: Val, stop: Val) -> None:
        def step(now: Val) -> None:
            self.axes[loop.axis] = now
            self.body(loop.body)

        self.loop(start, stop, self._const(1), step, unroll=loop.unroll > 1)

    def _together(self, loop: n.Loop, start: Val, stop: Val) -> None:
        """All threads take a step together, and those beyond the end have nothing to add."""
        em = self.em

        def step(now: Val) -> None:
            at = em.add(now, self.lane)
            inside = em.icmp("slt", at, stop)
            self.mask = em.and_(inside, self.live)
            self.axes[loop.axis] = em.select(inside, at, em.sub(stop, self._const(1)))
            self.kept = {}
            self.body(loop.body)
            self._flush(loop)
            self.mask = None

        self.loop(start, stop, self.lanes, step)

    def _partitions(self, found: Carried, stop: Val) -> None:
        """Partitions of the loop, each walked for its aggregates, then for what it stores."""
        em = self.em
        places, carries = self._carries(found)
        look_back = LookBack(self, self.threads, Val(GLOBAL, "%state"), carries)
        size = em.mul(self.lanes, self._const(STEPS))
        count = em.udiv(em.add(stop, em.sub(size, self._const(1))), size)
        count = self._larger(count, self._const(1))
        last = self._alloca(FLAG)
        self._set(last, em.const(FLAG, 0))

        def partition(number: Val) -> None:
            now = self._number(number)
            first = em.mul(now, size)
            end = self._smaller(em.add(first, size), stop)
            for place, carry in zip(places, carries, strict=True):
                self._set(place, carry.identity)
            self.dry = True
            self._together(found.loop, first, end)
            self.dry = False
            pairs = zip(places, carries, strict=True)
            mine = tuple(self._read(place, carry.identity.ty) for place, carry in pairs)
            own = self.threads.fold(mine, look_back.fold)
            for place, word in zip(places, look_back.before(number, own), strict=True):
                self._set(place, word)
            self._together(found.loop, first, end)
            self._set(last, em.icmp("eq", now, em.sub(count, self._const(1))))

        look_back.each(self._position(count), partition)
        self.live = em.and_(self.live, self._read(last, FLAG))

    def _carries(self, found: Carried) -> tuple[list[Val], list[Carry]]:
        """Where counters and running values are kept, and how they are folded."""
        em = self.em
        places = [self.counters[number] for number in found.counters]
        carries = [Carry(em.add, em.const(WORD, 0)) for _ in found.counters]
        for number in found.accs:
            acc = self.accs[number]
            assert isinstance(acc, ThreadAccumulator)
            places.append(acc.slots[0])
            carries.append(Carry(acc.fold, em.const(acc.ty, acc.start)))  # type: ignore[arg-type]
        return places, carries

    def _strided(self, loop: n.Loop, start: Val, stop: Val) -> None:
        """Threads take groups of `unit` elements side by side, the last one as far as it goes."""
        em, unit = self.em, self.spread.unit
        if unit == 1:
            self._elements(loop, em.add(start, self.lane), stop, self.lanes)
            return
        size = self._const(unit)
        shift = self._const(unit.bit_length() - 1)
        count = stop if loop.start is None else self._larger(em.sub(stop, start), self._const(0))
        number = self._alloca(self.word)
        self._set(number, self.lane)
        wide = wide_accesses(loop)
        if wide:
            whole = em.select(self._aligned(wide, loop, start), em.lshr(count, shift), self.lane)

            def whole_group(now: Val) -> None:
                self._group(loop, em.add(start, em.mul(now, size)), wide)

            self._from(number, whole, self.lanes, whole_group)

        def group(now: Val) -> None:
            first = em.add(start, em.mul(now, size))
            end = self._smaller(em.add(first, size), stop)
            self._elements(loop, first, end, self._const(1))
            self._flush(loop)

        last = em.lshr(em.add(count, self._const(unit - 1)), shift)
        self._from(number, last, self.lanes, group)

    def _elements(self, loop: n.Loop, first: Val, stop: Val, step: Val) -> None:
        def element(at: Val) -> None:
            self.axes[loop.axis] = at
            self.body(loop.body)
            if step is self.lanes:
                self._flush(loop)

        self.loop(first, stop, step, element)

    def _flush(self, loop: n.Loop) -> None:
        """Move what the steps of ordered sums came to into their wider words."""
        for stmt in loop.body:
            if isinstance(stmt, n.Update):
                self.accs[stmt.acc].flush()

    # ---- elements side by side ------------------------------------------------------------------
    def _aligned(self, wide: dict[int, n.Load | n.Store], loop: n.Loop, start: Val) -> Val:
        """Whether all these accesses are of aligned addresses."""
        em = self.em
        self.axes[loop.axis] = start
        bits = em.const(WORD, 0)
        for stmt in wide.values():
            size = stmt.dtype.itemsize
            pointer = self._at(stmt.buffer, stmt.at, size)
            address = em.inst(I64, f"ptrtoint {pointer.ty} {pointer.ref} to i64")
            low = em.const(WORD, self.spread.unit * size - 1)
            bits = em.or_(bits, em.and_(address, low))
        return em.icmp("eq", bits, em.const(WORD, 0))

    def _group(self, loop: n.Loop, first: Val, accesses: dict[int, n.Load | n.Store]) -> None:
        """`unit` elements: loads, the elements one after the other, stores."""
        em, unit = self.em, self.spread.unit
        self.axes[loop.axis] = first
        for stmt in accesses.values():
            if isinstance(stmt, n.Load):
                ty = raw(scalar.memory_type(stmt.dtype, unit), stmt.swapped)
                pointer = self._at(stmt.buffer, stmt.at, stmt.dtype.itemsize)
                self.wide[stmt.out] = packed.load(em, ty, pointer)
        self.pending = {key: [] for key, s in accesses.items() if isinstance(s, n.Store)}
        for copy in range(unit):
            self.copy = copy
            self.axes[loop.axis] = em.add(first, self._const(copy))
            self.body(loop.body)
        self._flush(loop)
        self.axes[loop.axis] = first
        for key, values in self.pending.items():
            store = accesses[key]
            pointer = self._at(store.buffer, store.at, store.dtype.itemsize)
            packed.store(em, values, pointer)
        self.pending, self.wide = None, {}

    # ---- memory ---------------------------------------------------------------------------------
    def _on_position(self, stmt: n.Position) -> None:
        self.values[stmt.out] = self._position(self.linear(stmt.linear)[0])

    def _on_split(self, stmt: n.Split) -> None:
        em = self.em
        value, by = self._number(self.values[stmt.value]), self.slot(stmt.by)
        part = em.udiv(value, by) if stmt.op == "div" else em.urem(value, by)
        self.values[stmt.out] = self._position(part)

    def _on_within(self, stmt: n.Within) -> None:
        em, value = self.em, self.values[stmt.value]
        low = em.const(WORD, 0) if stmt.low is None else self.full(stmt.low)
        below = em.icmp("slt", value, self.full(stmt.high))
        self.values[stmt.out] = em.and_(em.icmp("sge", value, low), below)

    def _on_prefetch(self, stmt: n.Prefetch) -> None:
        """Threads in flight hide latency."""

    def _place(self, stmt: n.Load | n.Store) -> Val:
        """Where a statement accesses memory."""
        return self._at(stmt.buffer, stmt.at, stmt.dtype.itemsize)

    def _on_load(self, stmt: n.Load) -> None:
        em = self.em
        if stmt.out in self.wide:
            element = em.extract(self.wide[stmt.out], self.copy)
            self.values[stmt.out] = self._from_memory(element, stmt)
            return
        size = stmt.dtype.itemsize
        pointer = self._place(stmt)
        if stmt.other is not None and stmt.choose is not None:
            buffer, at = stmt.other
            instead = self._at(buffer, at, size)
            pointer = em.select(self.values[stmt.choose], pointer, instead)
        ty = raw(scalar.memory_type(stmt.dtype, 1), stmt.swapped)
        guard = None if stmt.guard is None else self.values[stmt.guard]
        value = (
            em.load(ty, pointer, size) if guard is None else self._guarded(ty, pointer, guard, size)
        )
        self.values[stmt.out] = self._from_memory(value, stmt)

    def _guarded(self, ty: Ty, pointer: Val, guard: Val, size: int) -> Val:
        """What memory holds where the guard holds, else zero."""
        em, place = self.em, self._alloca(ty)
        self._set(place, em.const(ty, 0))
        self.when(guard, lambda: self._set(place, em.load(ty, pointer, size)))
        return self._read(place, ty)

    def _on_store(self, stmt: n.Store) -> None:
        if self.dry:
            return
        value = self._to_memory(self.values[stmt.value], stmt.dtype)
        if self.pending is not None and id(stmt) in self.pending:
            self.pending[id(stmt)].append(value)
            return
        guard = None if stmt.guard is None else self.values[stmt.guard]
        if self.vector is None:
            once = self.em.and_(self.live, self.first)
            guard = once if guard is None else self.em.and_(guard, once)
        elif self.mask is not None:
            guard = self.mask if guard is None else self.em.and_(guard, self.mask)
        size = stmt.dtype.itemsize

        def store() -> None:
            em, place = self.em, self._place(stmt)
            em.store(value, place, size)
            for k, other in enumerate(stmt.more, 1):
                behind = self._to_memory(self.values[other], stmt.dtype)
                em.store(behind, em.gep(place, em.const(WORD, k * size)), size)

        if guard is None:
            store()
        else:
            self.when(guard, store)
        if self.vector is None and self._is_scratch(stmt.buffer):
            self.threads.barrier()

    # ---- reductions -----------------------------------------------------------------------------
    def _on_open(self, stmt: n.Open) -> None:
        acc = self.accs.get(stmt.acc)
        if acc is None and stmt.lanewise:
            acc = Lanewise(self.em, self.entry, stmt.op, stmt.dtype, 1, 1, stmt.fast)
        elif acc is None:
            acc = ThreadAccumulator(
                self.em,
                self.threads,
                stmt.op,
                stmt.dtype,
                stmt.fast,
                shared=stmt.acc in self.shared,
            )
        self.accs[stmt.acc] = acc
        start: object = start_value(stmt.op, stmt.dtype)
        if stmt.op == "sum" and stmt.dtype.kind == "f" and stmt.acc in self.scans:
            start = -0.0
        acc.open(start)

    def _on_update(self, stmt: n.Update) -> None:
        em, acc = self.em, self.accs[stmt.acc]
        mask = None if stmt.guard is None else self.values[stmt.guard]
        if self.mask is not None:
            mask = self.mask if mask is None else em.and_(mask, self.mask)
        if stmt.position is None:
            acc.update(self.values[stmt.value], mask, 0, None)
        else:
            assert isinstance(acc, ThreadAccumulator)
            place = self.values[stmt.position]
            acc.update_place(self.values[stmt.value], mask, 0, place, unsorted=True)
        if self.vector is None and isinstance(acc, ThreadAccumulator):
            acc.flush()

    def _on_scan(self, stmt: n.Scan) -> None:
        em, acc = self.em, self.accs[stmt.acc]
        assert isinstance(acc, ThreadAccumulator)
        assert self.mask is not None
        value = self.values[stmt.value]
        start = em.const(value.ty, acc.start)  # type: ignore[arg-type]
        value = em.select(self.mask, value, start)
        if self.dry:
            acc.update(value, None, 0, None)
            self.values[stmt.out] = value
            return
        self.values[stmt.out] = acc.scan_step(value)

    # ---- filters --------------------------------------------------------------------------------
    def _on_count(self, stmt: n.Count) -> None:
        em = self.em
        if stmt.begin:
            if stmt.counter not in self.counters:
                self.counters[stmt.counter] = self._alloca(WORD)
            self._set(self.counters[stmt.counter], em.const(WORD, 0))
            return
        count = self._read(self.counters[stmt.counter], WORD)
        cell = self.pointer(stmt.cell)
        self.when(em.and_(self.first, self.live), lambda: em.store(count, cell, 8))

    def _counted(self, guard: n.Value) -> tuple[Val, Val]:
        """How many threads before this one a guard holds for in this step, and for how many."""
        if guard not in self.kept:
            assert self.mask is not None
            wanted = self.em.and_(self.values[guard], self.mask)
            self.kept[guard] = counted_before(self.em, self.threads, wanted)
        return self.kept[guard]

    def _on_append(self, stmt: n.Append) -> None:
        if self.dry:
            return
        em, value = self.em, self._to_memory(self.values[stmt.value], stmt.dtype)
        before = self._counted(stmt.guard)[0] if self.mask is not None else em.const(WORD, 0)
        place = em.add(self._read(self.counters[stmt.counter], WORD), before)
        size = stmt.dtype.itemsize
        pointer = em.gep(self.pointer(stmt.buffer), em.mul(place, em.const(WORD, size)))
        own = self.first if self.mask is None else self.mask
        wanted = em.and_(self.values[stmt.guard], own)
        self.when(wanted, lambda: em.store(value, pointer, size))

    def _on_advance(self, stmt: n.Advance) -> None:
        em, counter = self.em, self.counters[stmt.counter]
        if self.dry:
            assert self.mask is not None
            more = em.zext(em.and_(self.values[stmt.guard], self.mask), WORD)
        elif self.mask is not None:
            more = self._counted(stmt.guard)[1]
        else:
            more = em.zext(self.values[stmt.guard], WORD)
        self._set(counter, em.add(self._read(counter, WORD), more))
