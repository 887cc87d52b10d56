"""A scan in one pass over memory: partitions of a loop, taken by many blocks.

Takes the aggregate of a partition, gives the prefix of all partitions before it, by decoupled
look-back (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", NVIDIA
2016). Invariants: a block takes the next partition off a counter, so whoever waits, waits for
blocks that run; and the inclusive prefix of partition k is that of k - 1 with k's aggregate folded
in, whether it was found or put together anew in that order, so that floats have the same bits
whoever came first.

    state    next partition | flag, aggregate, inclusive prefix | flag, ... | ...    zeros at first
    flag     0 nothing yet, 1 the aggregate is there, 2 the inclusive prefix, too
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fjit.backend.emitter import I1, I32, I64, Val
from fjit.backend.flow import Flow
from fjit.backend.threads_ir import MOST_WORDS, WARP, Threads, Words, as_value, as_word, size_of

STEPS: Final = 16
"""Elements of a thread in one partition."""
AGGREGATE, PREFIX = 1, 2  # flags


class Carry(NamedTuple):
    """A carried value: how two are folded, the earlier one first, and the identity."""

    fold: Callable[[Val, Val], Val]
    identity: Val


def state_bytes(partitions: int, carries: int) -> int:
    """Memory that blocks share, zeroed before a launch."""
    return 8 * (1 + partitions * (1 + 2 * carries))


class LookBack:
    """The partitions of a loop under construction; `state` is the memory that blocks share."""

    def __init__(self, flow: Flow, threads: Threads, state: Val, carries: Sequence[Carry]) -> None:
        self.em, self.flow, self.threads = flow.em, flow, threads
        self.state, self.carries = state, carries

    def each(self, count: Val, body: Callable[[Val], None]) -> None:
        """Run `body` for partitions that this block takes, until all are taken."""
        em, label = self.em, self.threads.label
        head, inside, done = label("partition"), label("taken"), label("all")
        em.br(head)
        em.label(head)
        number = self._take()
        em.cond_br(em.icmp("slt", number, count), inside, done)
        em.label(inside)
        body(number)
        em.br(head)
        em.label(done)

    def fold(self, before: Words, words: Words) -> Words:
        """Carried values and later ones as one."""
        each = zip(self.carries, before, words, strict=True)
        return tuple(carry.fold(earlier, later) for carry, earlier, later in each)

    def before(self, number: Val, own: Words) -> Words:
        """The prefix of the partitions before this one; tells the others of both."""
        em, threads = self.em, self.threads
        places = [threads.alloca(word.ty) for word in own]
        for place, carry in zip(places, self.carries, strict=True):
            self._set(place, carry.identity)
        self._first(lambda: self._publish(number, own, AGGREGATE))

        def look() -> None:
            self._fold_from(self._nearest(number), number, places)
            inclusive = self.fold(self._values(places, own), own)
            self._first(lambda: self._publish(number, inclusive, PREFIX))

        self.flow.when(em.icmp("eq", threads.warp, em.const(I32, 0)), look)
        return self._shared(self._values(places, own))

    # ---- memory of all blocks -------------------------------------------------------------------
    def _take(self) -> Val:
        """The number of the next partition, in all threads of the block."""
        em, place = self.em, self.threads.alloca(I64)
        self._set(place, em.const(I64, 0))

        def add() -> None:
            text = f"atomicrmw add {self.state.ty} {self.state.ref}, i64 1 monotonic"
            self._set(place, em.inst(I64, text))

        self._first(add)
        return self._shared((em.load(I64, place, 8),))[0]

    def _cell(self, partition: Val, word: int) -> Val:
        em, size = self.em, 1 + 2 * len(self.carries)
        place = em.add(em.mul(partition, em.const(I64, 8 * size)), em.const(I64, 8 * (1 + word)))
        return em.gep(self.state, place)

    def _read(self, partition: Val, word: int) -> Val:
        cell = self._cell(partition, word)
        return self.em.inst(I64, f"load volatile i64, {cell.ty} {cell.ref}, align 8")

    def _write(self, partition: Val, word: int, value: Val) -> None:
        cell = self._cell(partition, word)
        text = f"store volatile i64 {value.ref}, {cell.ty} {cell.ref}, align 8"
        self.em.stmt(text)

    def _publish(self, number: Val, words: Words, flag: int) -> None:
        """Words of this partition, and only then the flag that says so."""
        em = self.em
        for k, word in enumerate(words):
            self._write(number, self._at(k, flag), as_word(em, word))
        em.call("llvm.nvvm.membar.gl", None)
        self._write(number, 0, em.const(I64, flag))

    def _at(self, number: int, flag: int) -> int:
        return 1 + 2 * number + (flag == PREFIX)

    # ---- looking back ---------------------------------------------------------------------------
    def _nearest(self, number: Val) -> Val:
        """The nearest partition before this one whose inclusive prefix is there, or -1.

        A warp looks at 32 of them at a time.
        """
        em, threads = self.em, self.threads
        end, found = threads.alloca(I64), threads.alloca(I64)
        self._set(end, number)
        back, spin, seen = threads.label("back"), threads.label("spin"), threads.label("seen")
        near = threads.label("near")
        em.br(back)
        em.label(back)
        top = em.sub(em.load(I64, end, 8), em.const(I64, 1))
        at = em.sub(top, em.zext(threads.lane, I64))
        inside = em.icmp("sge", at, em.const(I64, 0))
        cell = em.select(inside, at, em.const(I64, 0))
        em.br(spin)
        em.label(spin)
        flag = em.select(inside, self._read(cell, 0), em.const(I64, PREFIX))
        full = threads.ballot(em.icmp("eq", flag, em.const(I64, PREFIX)))
        nearer = em.sub(em.and_(full, em.neg(full)), em.const(I32, 1))  # all of them if none
        waits = em.and_(threads.ballot(em.icmp("eq", flag, em.const(I64, 0))), nearer)
        em.cond_br(em.icmp("ne", waits, em.const(I32, 0)), spin, seen)
        em.label(seen)
        lane = em.call("llvm.cttz.i32", I32, full, em.const(I1, 0))
        self._set(found, em.sub(top, em.zext(lane, I64)))
        self._set(end, em.sub(top, em.const(I64, WARP - 1)))
        em.cond_br(em.icmp("eq", full, em.const(I32, 0)), back, near)
        em.label(near)
        em.call("llvm.nvvm.membar.gl", None)
        return em.load(I64, found, 8)

    def _fold_from(self, start: Val, number: Val, places: Sequence[Val]) -> None:
        """The inclusive prefix of `start`, with the aggregates of those behind it folded in."""
        em = self.em
        there = em.icmp("sge", start, em.const(I64, 0))
        cell = em.select(there, start, em.const(I64, 0))
        for k, (carry, place) in enumerate(zip(self.carries, places, strict=True)):
            self._set(place, self._value(cell, k, PREFIX, there, carry))

        def some(first: Val) -> None:
            at = em.add(first, em.zext(self.threads.lane, I64))
            there = em.icmp("slt", at, number)
            cell = em.select(there, at, em.const(I64, 0))
            for k, (carry, place) in enumerate(zip(self.carries, places, strict=True)):
                value = self._value(cell, k, AGGREGATE, there, carry)
                self._in_order(carry, place, value, em.sub(number, first))

        self.flow.loop(em.add(start, em.const(I64, 1)), number, em.const(I64, WARP), some)

    def _in_order(self, carry: Carry, place: Val, value: Val, count: Val) -> None:
        """Fold the first `count` lanes' values in, one after the other."""
        em = self.em
        few = em.icmp("slt", count, em.const(I64, WARP))
        lanes = em.select(few, em.trunc_int(count, I32), em.const(I32, WARP))

        def one(lane: Val) -> None:
            other = self.threads.shuffle("idx", value, lane)
            total = em.load(value.ty, place, size_of(value.ty))
            self._set(place, carry.fold(total, other))

        self.flow.loop(em.const(I32, 0), lanes, em.const(I32, 1), one)

    def _value(self, partition: Val, number: int, flag: int, there: Val, carry: Carry) -> Val:
        em = self.em
        word = as_value(em, self._read(partition, self._at(number, flag)), carry.identity.ty)
        return em.select(there, word, carry.identity)

    # ---- threads --------------------------------------------------------------------------------
    def _first(self, body: Callable[[], None]) -> None:
        """Let one thread of the block run `body`."""
        self.flow.when(self.em.icmp("eq", self.threads.x, self.em.const(I32, 0)), body)

    def _shared(self, words: Words) -> Words:
        """The first thread's words, in all threads of the block."""
        threads = self.threads
        found: list[Val] = []
        for start in range(0, len(words), MOST_WORDS):
            some = words[start : start + MOST_WORDS]
            threads.give(some)
            found += threads.taken(self.em.const(I32, 0), some)
            threads.barrier()
        return tuple(found)

    def _set(self, place: Val, value: Val) -> None:
        self.em.store(value, place, size_of(value.ty))

    def _values(self, places: Sequence[Val], like: Words) -> Words:
        pairs = zip(places, like, strict=True)
        return tuple(self.em.load(w.ty, p, size_of(w.ty)) for p, w in pairs)
