"""The CPU emitter: a loop nest becomes LLVM IR text with explicit vectors, masks and tails.

Takes a `Nest` and a machine description, gives the text of one function per phase,

    void phase0(ptr args, i64 begin, i64 end, i64 worker)

where `args` holds the status word's address, the buffers' addresses and the slots. Invariant: a
vector loop's body does the same arithmetic for full vectors and, masked, for the rest.
"""

from __future__ import annotations

from fjit.backend import scalar
from fjit.backend.accumulate import WORD, Accumulator, Lanewise
from fjit.backend.emitter import PTR, Emitter, Ty, Val
from fjit.backend.lanes import end_lanes, lanes_for
from fjit.backend.statements import FLAG, like, raw
from fjit.backend.turning import turned, woven
from fjit.backend.versions import CACHE_LINE, LEAST_STREAMED, Versions
from fjit.core.meanings import start_value
from fjit.lower import nest as n
from fjit.target import CpuTarget

STREAMING = "!0 = !{i32 1}\n"
"""What a store that goes past the caches refers to."""
SIGNATURE = ((PTR, "args"), (WORD, "begin"), (WORD, "end"), (WORD, "worker"))


def emit(nest: n.Nest, target: CpuTarget, width: int = 0) -> str:
    """LLVM IR of a kernel's phases, named phase0, phase1, ..."""
    lanes = lanes_for(nest, target, width)
    narrow = end_lanes(nest, target, width)
    parts: list[str] = []
    helpers: dict[str, str] = {}
    declares: dict[str, str] = {}
    streams = False
    for number, phase in enumerate(nest.phases):
        writer = _Phase(nest, lanes, target, narrow)
        writer.run(phase.loop)
        parts.append(writer.em.define(f"phase{number}", SIGNATURE, "nounwind"))
        helpers.update(writer.em.helpers)
        declares.update(writer.em.declares)
        streams |= writer.streams
    if streams:
        parts.append(STREAMING)
    return "\n".join([*parts, *helpers.values(), *declares.values()]) + "\n"


class _Phase(Versions):
    """Emits the statements of one phase."""

    # ---- statements -----------------------------------------------------------------------
    def _on_loop(self, loop: n.Loop) -> None:
        moved = _moved(loop)
        if moved is not None:
            self._move(loop, *moved)
        else:
            (self._vector if loop.kind == "vector" else self._sequential)(loop)

    def _move(self, loop: n.Loop, load: n.Load, store: n.Store) -> None:
        """A loop that only copies, done by memcpy: that knows what the processor copies best by."""
        em, size = self.em, load.dtype.itemsize
        start, stop = self._bounds(loop)
        self.vector, self.axes[loop.axis] = loop.axis, start
        source = em.gep(self.pointer(load.buffer), self.linear(load.at, size)[0])
        target = em.gep(self.pointer(store.buffer), self.linear(store.at, size)[0])
        self.vector = None
        nothing = em.const(WORD, 0)
        count = em.sub(stop, start)
        count = em.select(em.icmp("slt", count, nothing), nothing, count)
        nbytes = em.mul(count, em.const(WORD, size))
        em.call("llvm.memcpy.p0.p0.i64", None, target, source, nbytes, em.const(FLAG, 0))

    def flag(self, bad: Val, code: int) -> None:
        """Set bits of the status word if any wanted lane is bad."""
        em = self.em
        if self.mask is not None and bad.ty.lanes > 1:
            bad = em.and_(bad, self.mask)
        met = em.any_(bad) if bad.ty.lanes > 1 else bad
        flags = self._read(self.status, WORD)
        bits = em.select(met, em.const(WORD, code), em.const(WORD, 0))
        self._set(self.status, em.or_(flags, bits))

    def _on_position(self, stmt: n.Position) -> None:
        base, vector = self.linear(stmt.linear)
        self.strides.pop(stmt.out, None)
        if vector is not None:
            if any(t == self.vector and f == 1 for t, f in stmt.linear.terms) and not any(
                t[0] == "%" and self.values[int(t[1:])].ty.lanes > 1 for t, _ in stmt.linear.terms
            ):
                self.strides[stmt.out] = base
            base = self.em.add(self.em.splat(base, self.lanes), vector)
        self.values[stmt.out] = base

    def _on_within(self, stmt: n.Within) -> None:
        em, value = self.em, self.values[stmt.value]
        low = em.const(WORD, 0) if stmt.low is None else self.slot(stmt.low)
        if stmt.value in self.strides:
            base, high = self.strides[stmt.value], self.slot(stmt.high)
            self.values[stmt.out] = self._lanes_within(base, low, high)
            return
        above = em.icmp("sge", value, like(em, low, value))
        below = em.icmp("slt", value, like(em, self.slot(stmt.high), value))
        self.values[stmt.out] = em.and_(above, below)

    # ---- addresses ------------------------------------------------------------------------
    def linear(self, linear: n.Linear, itemsize: int = 1) -> tuple[Val, Val | None]:
        """A scalar part and, where it varies irregularly or by a stride, a vector part."""
        em = self.em
        base = em.const(WORD, 0) if linear.offset is None else self.slot(linear.offset)
        vector: Val | None = None
        for term, factor in linear.terms:
            if term[0] == "%":
                value = self.values[int(term[1:])]
            elif term[0] == "c" and term != "chunk":
                value = self._read(self.counters[int(term[1:])], WORD)
            else:
                value = self.axes[term]
                if term == self.vector and self.lanes > 1 and factor not in (n.UNIT, n.BACK):
                    lane = em.iota(WORD.with_lanes(self.lanes))
                    vector = _plus(em, vector, self._times(lane, factor, itemsize))
            part = self._times(value, factor, itemsize)
            if part.ty.lanes > 1:
                vector = _plus(em, vector, part)
            else:
                base = em.add(base, part)
        return base, vector

    def _is_contiguous(self, linear: n.Linear) -> bool:
        units = (n.UNIT, n.BACK)
        return self.lanes > 1 and any(t == self.vector and f in units for t, f in linear.terms)

    def _runs_back(self, linear: n.Linear) -> bool:
        """Whether lanes lie one after the other in memory, the last one first."""
        return self.lanes > 1 and any(t == self.vector and f == n.BACK for t, f in linear.terms)

    def _reversed(self, value: Val) -> Val:
        return self.em.shuffle(value, value, list(range(self.lanes))[::-1])

    def _last_lane(self, pointer: Val, itemsize: int) -> Val:
        """The address of the last lane, which comes first in memory."""
        return self.em.gep(pointer, self.em.const(WORD, -(self.lanes - 1) * itemsize))

    def _full_mask(self, guard: Val | None) -> Val | None:
        """The tail's mask and the guard, as a vector; None where every lane is wanted."""
        em = self.em
        if guard is not None and guard.ty.lanes == 1 and self.lanes > 1:
            guard = em.splat(guard, self.lanes)
        if self.mask is None or guard is None:
            return guard if self.mask is None else self.mask
        return em.and_(self.mask, guard)

    # ---- memory ---------------------------------------------------------------------------
    def _on_load(self, stmt: n.Load) -> None:
        em = self.em
        size = stmt.dtype.itemsize
        base, vector = self.linear(stmt.at, size)
        granted = stmt.guard is None or stmt.guard in self.granted
        guard = None if granted or stmt.guard is None else self.values[stmt.guard]
        pointer = em.gep(self.pointer(stmt.buffer), base)
        if stmt.other is not None and stmt.choose is not None:
            buffer, at = stmt.other
            instead = em.gep(self.pointer(buffer), self.linear(at, size)[0])
            pointer = em.select(self.values[stmt.choose], pointer, instead)
        contiguous = self._is_contiguous(stmt.at)
        if vector is None and not contiguous:
            value = self._scalar_load(stmt, pointer, guard)
        else:
            ty = raw(scalar.memory_type(stmt.dtype, self.lanes), stmt.swapped)
            back = vector is None and self._runs_back(stmt.at)
            pointer = self._last_lane(pointer, size) if back else pointer
            if guard is not None and guard.ty.lanes == 1 and vector is None:
                # a masked load that masks all lanes off is slow where its page is not there
                pointer, guard = em.select(guard, pointer, self.dummy), None
            mask = self._full_mask(guard)
            mask = self._reversed(mask) if back and mask is not None else mask
            if vector is not None and mask is None and self._is_turned(stmt.at):
                value = self._turned_load(ty, pointer, stmt)
            elif vector is not None and mask is None and self._is_strided(stmt.at):
                value = self._strided_load(ty, pointer, stmt.at, size)
            elif vector is not None:
                pointers = self._pointers(pointer, vector)
                every = em.const(FLAG.with_lanes(self.lanes), 1)
                value = em.gather(ty, pointers, mask or every, _ones(em, ty))
            elif mask is None:
                value = em.load(ty, pointer)
            else:
                value = em.masked_load(ty, pointer, mask, _ones(em, ty))
            value = self._reversed(value) if back else value
        self.values[stmt.out] = self._from_memory(value, stmt)

    def _on_prefetch(self, stmt: n.Prefetch) -> None:
        """One request a cache line, into the nearest cache."""
        em, nbytes = self.em, self.lanes * stmt.dtype.itemsize
        if nbytes < CACHE_LINE and self.copy % (CACHE_LINE // nbytes):
            return
        base = self.linear(stmt.at, stmt.dtype.itemsize)[0]
        for offset in range(0, nbytes, CACHE_LINE):
            place = em.gep(self.pointer(stmt.buffer), em.add(base, em.const(WORD, offset)))
            how = (em.const(Ty("i", 32), k) for k in (0, 3, 1))  # to read, into all caches, data
            em.call("llvm.prefetch.p0", None, place, *how)

    def _pointers(self, pointer: Val, offsets: Val) -> Val:
        ty = PTR.with_lanes(self.lanes)
        text = f"getelementptr i8, ptr {pointer.ref}, {offsets.ty} {offsets.ref}"
        return self.em.inst(ty, text)

    def _is_strided(self, linear: n.Linear) -> bool:
        """Whether only the vector axis makes an address vary from lane to lane."""
        return not any(
            t[0] == "%" and self.values[int(t[1:])].ty.lanes > 1 for t, _ in linear.terms
        )

    def _is_turned(self, linear: n.Linear) -> bool:
        """Whether elements of the rows that are unrolled now lie side by side, and lanes apart."""
        if self.row is None or self.row[2] % self.lanes:
            return False
        return (self.row[0], n.UNIT) in linear.terms and self._is_strided(linear)

    def _turned_load(self, ty: Ty, pointer: Val, stmt: n.Load) -> Val:
        """A row of a square tile, which is loaded along the other axis at the first of its rows."""
        assert self.row is not None
        em = self.em
        group, row = divmod(self.row[1], self.lanes)
        known = self.tiles.get((stmt.out, group))
        if known is None:
            factor = next(f for t, f in stmt.at.terms if t == self.vector)
            step = self._times(em.const(WORD, 1), factor, stmt.dtype.itemsize)
            places = [em.gep(pointer, em.mul(step, em.const(WORD, k))) for k in range(self.lanes)]
            known = turned(em, [em.load(ty, place) for place in places])
            self.tiles[stmt.out, group] = known
        return known[row]

    def _strided_load(self, ty: Ty, pointer: Val, at: n.Linear, size: int) -> Val:
        """Elements a stride apart, one by one: a gather instruction takes longer."""
        em = self.em
        factor = next(f for t, f in at.terms if t == self.vector)
        step = self._times(em.const(WORD, 1), factor, size)
        value = em.undef(ty)
        for lane in range(self.lanes):
            place = em.gep(pointer, em.mul(step, em.const(WORD, lane))) if lane else pointer
            value = em.insert(value, em.load(ty.element, place), lane)
        return value

    def _scalar_load(self, stmt: n.Load, pointer: Val, guard: Val | None) -> Val:
        em = self.em
        ty = raw(scalar.memory_type(stmt.dtype, 1), stmt.swapped)
        if guard is not None:
            met = em.any_(guard) if guard.ty.lanes > 1 else guard
            pointer = em.select(met, pointer, self.dummy)
        return em.load(ty, pointer)

    def _on_store(self, stmt: n.Store) -> None:
        em = self.em
        base, vector = self.linear(stmt.at, stmt.dtype.itemsize)
        guard = None if stmt.guard is None else self.values[stmt.guard]
        pointer = em.gep(self.pointer(stmt.buffer), base)
        if stmt.more:
            self._woven_store(stmt, pointer)
            return
        value = self.values[stmt.value]
        contiguous = self._is_contiguous(stmt.at)
        if vector is None and not contiguous:
            self._scalar_store(stmt, pointer, value, guard)
            return
        value = self._lanes_to_memory(value, stmt.dtype)
        mask = self._full_mask(guard)
        if vector is None and self._runs_back(stmt.at):
            pointer, value = self._last_lane(pointer, stmt.dtype.itemsize), self._reversed(value)
            mask = None if mask is None else self._reversed(mask)
        if vector is not None:
            every = em.const(FLAG.with_lanes(self.lanes), 1)
            em.scatter(value, self._pointers(pointer, vector), mask or every)
        else:
            streams = stmt.streaming and not self._runs_back(stmt.at)
            self._put(value, pointer, mask, stmt.dtype.itemsize, streams)

    def _woven_store(self, stmt: n.Store, pointer: Val) -> None:
        """Values whose lanes take turns in memory: as many vectors, one behind the other."""
        em, size = self.em, stmt.dtype.itemsize
        numbers = (stmt.value, *stmt.more)
        values = [self._lanes_to_memory(self.values[v], stmt.dtype) for v in numbers]
        masks: list[Val | None] = [None] * len(values)
        if self.mask is not None:
            masks = [*woven(em, [self.mask] * len(values))]
        for part, (value, mask) in enumerate(zip(woven(em, values), masks, strict=True)):
            place = em.gep(pointer, em.const(WORD, part * self.lanes * size))
            self._put(value, place, mask, size, stmt.streaming)

    def _put(self, value: Val, pointer: Val, mask: Val | None, size: int, streams: bool) -> None:
        """Store a vector side by side, past the caches if it may go there and may go now."""
        em = self.em
        if mask is not None:
            em.masked_store(value, pointer, mask)
        elif self.streaming and streams:
            nbytes = self.lanes * size
            aligned = min(nbytes, CACHE_LINE) if nbytes >= LEAST_STREAMED else 1
            em.store(value, pointer, aligned, "!nontemporal !0" if aligned > 1 else "")
        else:
            em.store(value, pointer)

    def _scalar_store(self, stmt: n.Store, pointer: Val, value: Val, guard: Val | None) -> None:
        em = self.em
        value = self._to_memory(value, stmt.dtype)
        if guard is not None:
            pointer = em.select(guard, pointer, self.dummy)
        em.store(value, pointer)

    def _lanes_to_memory(self, value: Val, dtype: object) -> Val:
        if value.ty.lanes != self.lanes:
            value = self.em.splat(value, self.lanes)
        return self._to_memory(value, dtype)

    # ---- reductions -----------------------------------------------------------------------
    def _on_open(self, stmt: n.Open) -> None:
        acc = self.accs.get(stmt.acc)
        if acc is None or (stmt.lanewise and acc.lanes != self.lanes):  # the end may be narrower
            copies = self.plan_copies.get(stmt.acc, 1)
            kind = Lanewise if stmt.lanewise else Accumulator
            acc = kind(self.em, self.entry, stmt.op, stmt.dtype, self.lanes, copies, stmt.fast)
            self.accs[stmt.acc] = acc
        start: object = start_value(stmt.op, stmt.dtype)
        if stmt.op == "sum" and stmt.dtype.kind == "f" and stmt.acc in self.scans:
            start = -0.0
        acc.open(start)

    def _on_update(self, stmt: n.Update) -> None:
        guard = None if stmt.guard is None else self.values[stmt.guard]
        position = None if stmt.position is None else self.values[stmt.position]
        mask, acc = self._full_mask(guard), self.accs[stmt.acc]
        if position is None:
            acc.update(self.values[stmt.value], mask, self.copy, self.within)
        else:
            assert isinstance(acc, Accumulator)
            acc.update_place(self.values[stmt.value], mask, self.copy, position, stmt.unsorted)

    def _on_scan(self, stmt: n.Scan) -> None:
        value = self.values[stmt.value]
        self.values[stmt.out] = self.accs[stmt.acc].scan(value)

    # ---- filters --------------------------------------------------------------------------
    def _on_count(self, stmt: n.Count) -> None:
        if stmt.begin:
            if stmt.counter not in self.counters:
                self.counters[stmt.counter] = self._alloca(WORD)
            self._set(self.counters[stmt.counter], self.em.const(WORD, 0))
        else:
            count = self._read(self.counters[stmt.counter], WORD)
            self.em.store(count, self.pointer(stmt.cell), align=8)

    def _on_append(self, stmt: n.Append) -> None:
        em = self.em
        place = self._read(self.counters[stmt.counter], WORD)
        offset = em.mul(place, em.const(WORD, stmt.dtype.itemsize))
        pointer = em.gep(self.pointer(stmt.buffer), offset)
        mask = self._full_mask(self.values[stmt.guard])
        assert mask is not None
        value = self.values[stmt.value]
        if self.lanes == 1:
            em.store(self._to_memory(value, stmt.dtype), em.select(mask, pointer, self.dummy))
            return
        value = self._lanes_to_memory(value, stmt.dtype)
        name = f"llvm.masked.compressstore.{value.ty.suffix}"
        em.call(name, None, value, pointer, mask)

    def _on_advance(self, stmt: n.Advance) -> None:
        em = self.em
        guard = self.values[stmt.guard]
        mask = self._full_mask(guard) if self.vector is not None else guard
        assert mask is not None
        counter = self.counters[stmt.counter]
        bits = em.bitcast(mask, Ty("i", mask.ty.lanes)) if mask.ty.lanes > 1 else mask
        if mask.ty.lanes > 1:
            bits = em.intrinsic("ctpop", bits.ty, bits)
        count = bits if bits.ty.bits == 64 else em.zext(bits, WORD)
        self._set(counter, em.add(self._read(counter, WORD), count))


def _moved(loop: n.Loop) -> tuple[n.Load, n.Store] | None:
    """The load and the store of a vector loop that moves elements side by side, and no more."""
    if loop.kind != "vector" or len(loop.body) not in (2, 3):
        return None
    load, *between, store = loop.body
    if not (isinstance(load, n.Load) and isinstance(store, n.Store)):
        return None
    plain = load.guard is None and load.other is None and not load.swapped
    if not plain or store.guard is not None:
        return None
    value = load.out
    for stmt in between:
        if not (isinstance(stmt, n.Let) and stmt.op == "copy" and stmt.args == (value,)):
            return None
        value = stmt.out
    unit = (loop.axis, n.UNIT)
    side_by_side = load.at.terms.count(unit) == 1 and store.at.terms.count(unit) == 1
    return (load, store) if side_by_side and store.value == value else None


def _plus(em: Emitter, a: Val | None, b: Val) -> Val:
    return b if a is None else em.add(a, b)


def _ones(em: Emitter, ty: Ty) -> Val:
    return em.const(ty, 1)
