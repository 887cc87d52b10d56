"""The frame of a phase's function: argument table, stack slots, loops, strips and masks.

Takes loops of a nest, writes the control flow around their bodies; what a statement means is left
to the subclass. Invariant: a vector loop's body is emitted for full vectors and, masked, for the
rest.

    vector i < n unroll 2      while i + 2W <= n: body(i); body(i + W)      while i < n: body masked
      sequential j < m           while j < m: body(i, j); body(i + W, j)    unroll and jam
"""

from __future__ import annotations

from dataclasses import dataclass

from fjit.backend.accumulate import WORD, Accumulator, Lanewise, ordered, virtual_lanes
from fjit.backend.emitter import PTR, Emitter, Ty, Val
from fjit.backend.statements import Statements
from fjit.lower import nest as n
from fjit.optimize import cost
from fjit.target import CpuTarget

MAX_UNROLLED = 8
MOST_STRIPS = 4
"""Masked vectors that a short loop may take."""
LONG_BODY = 1000
"""Flops of a body from which on code is written once, masked, for full vectors and the rest.

A chain of 130 sines, 390 operations: first call 0.88 s with two copies of the body, 0.44 with one.
"""


@dataclass(slots=True)
class Copy:
    """What differs between copies of a vector loop's body that go through inner loops as one."""

    number: int
    base: Val
    within: Val
    values: dict[int, Val]
    strides: dict[int, Val]
    accs: dict[int, Accumulator | Lanewise]


class Frame(Statements):
    """The function of one phase under construction."""

    def __init__(self, nest: n.Nest, lanes: int, target: CpuTarget, narrow: int = 0) -> None:
        hardware_half = "f16c" in target.requires or target.architecture == "aarch64"
        hardware_scale = "avx512vl" in target.requires
        em = Emitter(hardware_half=hardware_half, hardware_scale=hardware_scale)
        super().__init__(nest, em)
        self.fences = target.architecture == "x86_64"  # where streaming stores need a fence
        self.lanes = lanes
        self.narrow = narrow or lanes  # lanes of the ends of loops without sums
        self.vector: str | None = None
        self.mask: Val | None = None
        self.copy = 0
        self.copies: tuple[Copy, ...] = ()
        self.row: tuple[str, int, int] | None = None  # axis, copy and copies of an unrolled loop
        self.tiles: dict[tuple[n.Value, int], list[Val]] = {}
        self.within: Val | None = None
        self.strides: dict[int, Val] = {}
        self.counters: dict[int, Val] = {}
        self.slots: dict[int, Val] = {}
        self.pointers: dict[int, Val] = {}
        self.streaming = False  # whether stores that may go past the caches do
        self.streams = False
        self.opens: list[n.Open] = []
        self.plan_copies: dict[int, int] = {}
        self.scans: set[int] = set()

    # ---- frame ----------------------------------------------------------------------------
    def run(self, loop: n.Loop) -> None:
        """Emit the whole phase."""
        em = self.em
        self._survey([loop])
        body: list[str] = []
        self.status = self._alloca(WORD)
        self.dummy = self._alloca(WORD, 64)
        em.lines = body
        self._set(self.status, em.const(WORD, 0))
        for stmt in self.nest.entry:
            self.statement(stmt)
        self._parallel(loop)
        self._report()
        em.ret()
        em.lines = ["entry:", *self.entry, "  br label %start", "start:", *body]

    def copies_of(self, loop: n.Loop) -> int:
        """Copies of a vector loop's body: enough for the running lanes of its ordered sums."""
        if self.is_short(loop):
            return -(-loop.most // self.lanes)
        opened = {s.acc: s for s in self.opens}
        accs = [opened[s.acc] for s in loop.body if isinstance(s, n.Update)]
        needed = [max(1, virtual_lanes(o.dtype) // self.lanes) for o in accs
                  if ordered(o.op, o.dtype) and not o.lanewise]  # fmt: skip
        wanted = max(needed, default=max(1, loop.unroll * self.narrow // self.lanes))
        return wanted if loop.unroll > 1 and wanted <= MAX_UNROLLED else min(loop.unroll, 4)

    def is_short(self, loop: n.Loop) -> bool:
        """Whether a few masked vectors are the whole of a vector loop."""
        lanes = min(self.lanes, self.narrow)  # one lane has no mask
        few = lanes > 1 and 0 < loop.most <= MOST_STRIPS * lanes
        return few and _is_plain(loop) and not is_long(loop)

    def _survey(self, stmts: list[n.Stmt]) -> None:
        """Note which accumulators there are, and how many copies of the body update them."""
        for stmt in stmts:
            if isinstance(stmt, n.Open):
                self.opens.append(stmt)
            elif isinstance(stmt, n.Loop):
                self._survey(stmt.body)
                for inner in stmt.body:
                    if isinstance(inner, n.Update):
                        self.plan_copies[inner.acc] = self.copies_of(stmt)
                    elif isinstance(inner, n.Scan):
                        self.scans.add(inner.acc)

    def _word(self, index: int, ty: Ty) -> Val:
        """An entry of the argument table, read at entry."""
        at = self.em.fresh("at")
        name = self.em.fresh("arg")
        self.entry.append(f"  {at} = getelementptr i64, ptr %args, i64 {index}")
        self.entry.append(f"  {name} = load {ty}, ptr {at}, !invariant.load !{{}}")
        return Val(ty, name)

    def slot(self, slot: n.Slot) -> Val:
        """A run-time integer."""
        known = self.slots.get(slot.number)
        if known is None:
            index = 1 + len(self.nest.buffers) + slot.number
            known = self.slots[slot.number] = self._word(index, WORD)
        return known

    def pointer(self, buffer: int) -> Val:
        """A buffer's address; private memory is offset by the worker's number."""
        known = self.pointers.get(buffer)
        if known is not None:
            return known
        pointer = self._word(1 + buffer, PTR)
        info = self.nest.buffers[buffer]
        if info.kind == "private":
            assert info.size is not None
            size, offset, name = self.slot(info.size), self.em.fresh("off"), self.em.fresh("own")
            self.entry.append(f"  {offset} = mul i64 {size.ref}, %worker")
            self.entry.append(f"  {name} = getelementptr i8, ptr {pointer.ref}, i64 {offset}")
            pointer = Val(PTR, name)
        self.pointers[buffer] = pointer
        return pointer

    def _report(self) -> None:
        """Set the status word's bits if an error was met."""
        em = self.em
        flags = self._read(self.status, WORD)
        bad, done = self._label("bad"), self._label("done")
        em.cond_br(em.icmp("ne", flags, em.const(WORD, 0)), bad, done)
        em.label(bad)
        status = self._word(0, PTR)
        em.inst(WORD, f"atomicrmw or ptr {status.ref}, i64 {flags.ref} monotonic")
        em.br(done)
        em.label(done)
        if self.streams and self.fences:
            em.call("llvm.x86.sse.sfence", None)

    # ---- loops ----------------------------------------------------------------------------
    def _parallel(self, loop: n.Loop) -> None:
        em = self.em
        stop = Val(WORD, "%end")
        if loop.cell is not None:
            stop = self._smaller(stop, em.load(WORD, self.pointer(loop.cell)))
        counter, begin = self._alloca(WORD), Val(WORD, "%begin")
        self._set(counter, begin)
        quick = all(not isinstance(s, n.Loop) or self.is_short(s) for s in loop.body)
        places = self._counters(loop, begin) if quick else {}
        now, *labels = self._while(counter, stop, 1)
        axes = {axis: self._read(place, WORD) for axis, place in places.items()}
        self.axes.update(axes if quick else self._decoded(loop, now))
        self.body(loop.body)
        if quick:
            self._advance(loop, places)
        self._next(counter, now, 1, (labels[0], labels[1]))

    def _counters(self, loop: n.Loop, begin: Val) -> dict[str, Val]:
        """Where the axes of short tasks are counted, set to those of the first one.

        Longer tasks are decoded by division: counters would take registers in their loops.
        """
        axes = self._decoded(loop, begin)
        places = {axis: self._alloca(WORD) for axis in axes}
        for axis, place in places.items():
            self._set(place, axes[axis])
        return places

    def _advance(self, loop: n.Loop, places: dict[str, Val]) -> None:
        """Count on to the axes of the next task, without a division."""
        em = self.em
        carry = em.const(WORD, 1)
        for position, (axis, extent) in enumerate(reversed(loop.decode)):
            now = em.add(self.axes[axis], carry)
            if position < len(loop.decode) - 1:
                full = em.icmp("eq", now, self.slot(extent))
                now = em.select(full, em.const(WORD, 0), now)
                carry = em.zext(full, WORD)
            self._set(places[axis], now)

    def _sequential(self, loop: n.Loop) -> None:
        start, stop = self._bounds(loop)
        em = self.em
        counter = self._alloca(WORD)
        self._set(counter, start)
        if loop.unroll > 1 and self.mask is None:
            last = em.sub(stop, em.const(WORD, loop.unroll - 1))
            now, *labels = self._while(counter, last, loop.unroll)
            for copy in range(loop.unroll):
                self.axes[loop.axis] = em.add(now, em.const(WORD, copy))
                self.row = (loop.axis, copy, loop.unroll)
                self.body(loop.body)
            self.row, self.tiles = None, {}
            self._next(counter, now, loop.unroll, (labels[0], labels[1]))
        now, *labels = self._while(counter, stop, 1)
        self.axes[loop.axis] = now
        self.body(loop.body)
        self._next(counter, now, 1, (labels[0], labels[1]), self._quits(loop), stop)

    def _quits(self, loop: n.Loop) -> Val | None:
        """Whether the rest of a loop cannot change what it looks for; None if it always goes on."""
        em, decided = self.em, None
        for number in loop.until:
            acc = self.accs[number]
            assert isinstance(acc, Accumulator)
            own = acc.decided()
            decided = own if decided is None else em.and_(decided, own)
        if decided is None or loop.flag is None:
            return decided
        word = self.pointer(loop.flag)
        old = em.inst(WORD, f"load atomic i64, ptr {word.ref} monotonic, align 8")
        decided = em.or_(decided, em.icmp("ne", old, em.const(WORD, 0)))
        new = em.select(decided, em.const(WORD, 1), old)
        em.stmt(f"store atomic i64 {new.ref}, ptr {word.ref} monotonic, align 8")
        return decided

    def _vector(self, loop: n.Loop) -> None:
        """Emit a vector loop."""
        raise NotImplementedError

    # ---- strips ---------------------------------------------------------------------------
    def _blocks(self, loop: n.Loop, start: Val, stop: Val, used: list[int]) -> None:
        """The whole of a vector loop, with its accumulators folded after each block."""
        em = self.em
        if self.is_short(loop):
            self._short(loop, start, stop, used)
            return
        if not loop.block:
            self._strips(loop, start, stop, start, used)
            return
        counter = self._alloca(WORD)
        done = self._quits(loop) if loop.flag is not None else None
        self._set(counter, start if done is None else em.select(done, stop, start))
        now, *labels = self._while(counter, stop, loop.block)
        end = self._smaller(em.add(now, em.const(WORD, loop.block)), stop)
        self._strips(loop, now, end, now, used)
        for acc in used:
            self.accs[acc].flush()
        self._next(counter, now, loop.block, (labels[0], labels[1]), self._quits(loop), stop)

    def _short(self, loop: n.Loop, start: Val, stop: Val, used: list[int]) -> None:
        """Masked vectors without a loop; the masks are the same for all rows."""
        wide, self.lanes = self.lanes, self.lanes if used else self.narrow
        for copy in range(-(-loop.most // self.lanes)):
            at = self.em.add(start, self.em.const(WORD, copy * self.lanes))
            self._strip(loop, at, None, copy, self._tail(at, stop), at=at)
        self.lanes = wide
        for acc in used if loop.block else ():
            self.accs[acc].flush()

    def _strips(self, loop: n.Loop, start: Val, stop: Val, origin: Val, used: list[int]) -> None:
        """Full vectors `unroll` at a time, then masked ones."""
        em = self.em
        unroll = self.copies_of(loop)
        counter = self._alloca(WORD)
        self._set(counter, start)
        if not is_long(loop):
            self._full(loop, counter, stop, origin)
        end = self._label("rest")
        if used:
            for copy in range(unroll):
                self._masked(loop, counter, stop, origin, copy, end)
            em.br(end)
        else:
            wide, self.lanes = self.lanes, self.narrow
            now, *labels = self._while(counter, stop, self.lanes)
            self._strip(loop, now, origin, 0, self._tail(now, stop), at=now)
            self._next(counter, now, self.lanes, (labels[0], labels[1]))
            self.lanes = wide
            em.br(end)
        em.label(end)

    def _full(self, loop: n.Loop, counter: Val, stop: Val, origin: Val) -> None:
        """Full vectors from the counter on, `unroll` at a time, as long as they fit."""
        em, unroll = self.em, self.copies_of(loop)
        step = self.lanes * unroll
        last = em.sub(stop, em.const(WORD, step - 1))
        now, *labels = self._while(counter, last, step)
        if unroll > 1 and any(isinstance(s, n.Loop) for s in loop.body):
            self._jammed(loop, now, origin, unroll)
        else:
            for copy in range(unroll):
                self._strip(loop, now, origin, copy, None)
        self._next(counter, now, step, (labels[0], labels[1]))

    def _masked(
        self, loop: n.Loop, counter: Val, stop: Val, origin: Val, copy: int, end: str
    ) -> None:
        em = self.em
        now = self._read(counter, WORD)
        inside = self._label("part")
        em.cond_br(em.icmp("slt", now, stop), inside, end)
        em.label(inside)
        self._strip(loop, now, origin, copy, self._tail(now, stop), at=now)
        self._set(counter, em.add(now, em.const(WORD, self.lanes)))

    def _tail(self, now: Val, stop: Val) -> Val | None:
        """Lanes that lie before `stop`; None where there is one lane, which always does."""
        if self.lanes == 1:
            return None
        return self._lanes_within(now, None, stop)

    def _lanes_within(self, base: Val, low: Val | None, high: Val) -> Val:
        """Lanes k with low <= base + k < high, compared in 32 bits: lane numbers are small."""
        em = self.em
        index = Ty("i", 32, self.lanes)
        lane = em.iota(index)

        def short(value: Val) -> Val:
            bound = em.const(WORD, self.lanes)
            zero = em.const(WORD, 0)
            clamped = em.select(em.icmp("slt", value, zero), zero, value)
            clamped = em.select(em.icmp("slt", bound, clamped), bound, clamped)
            return em.splat(em.trunc_int(clamped, Ty("i", 32)), self.lanes)

        below = em.icmp("ult", lane, short(em.sub(high, base)))
        if low is None:
            return below
        return em.and_(below, em.icmp("uge", lane, short(em.sub(low, base))))

    def _strip(
        self,
        loop: n.Loop,
        now: Val,
        origin: Val | None,
        copy: int,
        mask: Val | None,
        at: Val | None = None,
    ) -> None:
        """One vector's worth of the body."""
        em = self.em
        base = at if at is not None else em.add(now, em.const(WORD, copy * self.lanes))
        self.axes[loop.axis] = base
        self.mask, self.copy = mask, copy
        self.within = None if origin is None else em.sub(base, origin)
        self.body(loop.body)
        self.mask = None

    def _jammed(self, loop: n.Loop, now: Val, origin: Val, unroll: int) -> None:
        """Several vectors' worth of a body with loops in it, which run once for all of them."""
        em, outer = self.em, Copy(0, now, now, self.values, self.strides, self.accs)
        bases = [em.add(now, em.const(WORD, copy * self.lanes)) for copy in range(unroll)]
        self.copies = tuple(
            Copy(copy, base, em.sub(base, origin), dict(self.values), dict(self.strides), {})
            for copy, base in enumerate(bases)
        )
        self.body(loop.body)
        self.copies = ()
        self._enter(outer)

    def _enter(self, copy: Copy) -> None:
        """Go on with one copy of the body."""
        assert self.vector is not None
        self.axes[self.vector] = copy.base
        self.copy, self.within = copy.number, copy.within
        self.values, self.strides, self.accs = copy.values, copy.strides, copy.accs

    def body(self, stmts: list[n.Stmt]) -> None:
        """Emit statements in order; each once for every copy of a body with loops in it."""
        for stmt in stmts:
            if isinstance(stmt, n.Loop) or not self.copies:
                self.statement(stmt)
                continue
            for copy in self.copies:
                self._enter(copy)
                self.statement(stmt)


def is_long(loop: n.Loop) -> bool:
    """Whether the code of a loop's body had better be written once."""
    work = sum(cost.FLOPS.get(s.op, 1) for s in loop.body if isinstance(s, n.Let))
    updates = any(isinstance(s, n.Update) for s in loop.body)
    return work > LONG_BODY and _is_plain(loop) and not updates


def _is_plain(loop: n.Loop) -> bool:
    return not any(isinstance(s, n.Loop | n.Scan | n.Append) for s in loop.body)
