"""Stretches of one loop, taken by many blocks, with values handed on from each to the next.

Takes what a stretch adds by itself, gives what all before it came to: a scan in one pass over
memory, by decoupled look-back (Merrill and Garland, "Single-pass Parallel Prefix Scan with
Decoupled Look-back", NVIDIA 2016). Invariants: a block takes the next stretch off a counter, so
whoever waits, waits for blocks that run; and what stretch k hands on is what k - 1 handed on with
k's own part folded in, found so or put together anew in that order, so that floats have the same
bits whoever came first.

    state    next stretch | flag, own, handed on | flag, own, handed on | ...     zeros at first
    flag     0 nothing yet, 1 its own part is there, 2 what it hands on, too
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fjit.backend.emitter import I1, I32, I64, Emitter, Val
from fjit.backend.threads_ir import MOST_WORDS, WARP, Threads, Words, as_value, as_word

STEPS: Final = 16
"""Elements of a thread in one stretch."""
OWN, ALL = 1, 2  # what a flag says


class Part(NamedTuple):
    """A value that is handed on: how two are folded, the earlier one first, and the identity."""

    fold: Callable[[Val, Val], Val]
    identity: Val


def state_bytes(stretches: int, parts: int) -> int:
    """Memory that blocks share, zeroed before a launch."""
    return 8 * (1 + stretches * (1 + 2 * parts))


class Chain:
    """The stretches of a loop under construction; `state` is the memory that blocks share."""

    def __init__(self, em: Emitter, threads: Threads, state: Val, parts: Sequence[Part]) -> None:
        self.em, self.threads, self.state, self.parts = em, threads, state, parts

    def each(self, count: Val, body: Callable[[Val], None]) -> None:
        """Run `body` for stretches that this block takes, until all are taken."""
        em, label = self.em, self.threads.label
        head, inside, done = label("stretch"), label("taken"), label("all")
        em.br(head)
        em.label(head)
        number = self._take()
        em.cond_br(em.icmp("slt", number, count), inside, done)
        em.label(inside)
        body(number)
        em.br(head)
        em.label(done)

    def before(self, number: Val, own: Words) -> Words:
        """What the stretches before this one came to; tells the others of both."""
        em, threads = self.em, self.threads
        places = [threads.alloca(word.ty) for word in own]
        for place, part in zip(places, self.parts, strict=True):
            self._set(place, part.identity)
        self._first(lambda: self._publish(number, own, OWN))
        looks, done = threads.label("looks"), threads.label("known")
        em.cond_br(em.icmp("eq", threads.warp, em.const(I32, 0)), looks, done)
        em.label(looks)
        self._fold_from(self._nearest(number), number, places)
        found = self._values(places, own)
        mine = tuple(p.fold(b, o) for p, b, o in zip(self.parts, found, own, strict=True))
        self._first(lambda: self._publish(number, mine, ALL))
        em.br(done)
        em.label(done)
        return self._shared(self._values(places, own))

    # ---- memory of all blocks -------------------------------------------------------------------
    def _take(self) -> Val:
        """The number of the next stretch, in all threads of the block."""
        em, place = self.em, self.threads.alloca(I64)
        self._set(place, em.const(I64, 0))

        def add() -> None:
            text = f"atomicrmw add {self.state.ty} {self.state.ref}, i64 1 monotonic"
            self._set(place, em.inst(I64, text))

        self._first(add)
        return self._shared((em.load(I64, place, 8),))[0]

    def _cell(self, stretch: Val, word: int) -> Val:
        em, size = self.em, 1 + 2 * len(self.parts)
        place = em.add(em.mul(stretch, em.const(I64, 8 * size)), em.const(I64, 8 * (1 + word)))
        return em.gep(self.state, place)

    def _read(self, stretch: Val, word: int) -> Val:
        cell = self._cell(stretch, word)
        return self.em.inst(I64, f"load volatile i64, {cell.ty} {cell.ref}, align 8")

    def _write(self, stretch: Val, word: int, value: Val) -> None:
        cell = self._cell(stretch, word)
        text = f"store volatile i64 {value.ref}, {cell.ty} {cell.ref}, align 8"
        self.em.stmt(text)

    def _publish(self, number: Val, words: Words, flag: int) -> None:
        """Words of this stretch, and only then the flag that says so."""
        em = self.em
        for k, word in enumerate(words):
            self._write(number, self._at(k, flag), as_word(em, word))
        em.call("llvm.nvvm.membar.gl", None)
        self._write(number, 0, em.const(I64, flag))

    def _at(self, part: int, flag: int) -> int:
        return 1 + 2 * part + (flag == ALL)

    # ---- looking back ---------------------------------------------------------------------------
    def _nearest(self, number: Val) -> Val:
        """The nearest stretch before this one that handed on, -1 if none: its lanes look at 32."""
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
        flag = em.select(inside, self._read(cell, 0), em.const(I64, ALL))
        full = self._ballot(em.icmp("eq", flag, em.const(I64, ALL)))
        nearer = em.sub(em.and_(full, em.neg(full)), em.const(I32, 1))  # all of them if none
        waits = em.and_(self._ballot(em.icmp("eq", flag, em.const(I64, 0))), nearer)
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
        """What stretch `start` handed on, with the parts of those behind it folded in, in order."""
        em, threads = self.em, self.threads
        there = em.icmp("sge", start, em.const(I64, 0))
        cell = em.select(there, start, em.const(I64, 0))
        for k, (part, place) in enumerate(zip(self.parts, places, strict=True)):
            self._set(place, self._value(cell, k, ALL, there, part))
        now = threads.alloca(I64)
        self._set(now, em.add(start, em.const(I64, 1)))
        head, inside, done = threads.label("fold"), threads.label("some"), threads.label("folded")
        em.br(head)
        em.label(head)
        first = em.load(I64, now, 8)
        em.cond_br(em.icmp("slt", first, number), inside, done)
        em.label(inside)
        at = em.add(first, em.zext(threads.lane, I64))
        there = em.icmp("slt", at, number)
        cell = em.select(there, at, em.const(I64, 0))
        for k, (part, place) in enumerate(zip(self.parts, places, strict=True)):
            value = self._value(cell, k, OWN, there, part)
            self._in_order(part, place, value, em.sub(number, first))
        self._set(now, em.add(first, em.const(I64, WARP)))
        em.br(head)
        em.label(done)

    def _in_order(self, part: Part, place: Val, value: Val, count: Val) -> None:
        """Fold the first `count` lanes' values in, one after the other."""
        em, threads = self.em, self.threads
        step = threads.alloca(I32)
        self._set(step, em.const(I32, 0))
        most = em.select(
            em.icmp("slt", count, em.const(I64, WARP)), em.trunc_int(count, I32),
            em.const(I32, WARP),
        )  # fmt: skip
        head, inside, done = threads.label("lane"), threads.label("one"), threads.label("lanes")
        em.br(head)
        em.label(head)
        lane = em.load(I32, step, 4)
        em.cond_br(em.icmp("slt", lane, most), inside, done)
        em.label(inside)
        other = threads.shuffle("idx", value, lane)
        self._set(place, part.fold(em.load(value.ty, place, _size(value)), other))
        self._set(step, em.add(lane, em.const(I32, 1)))
        em.br(head)
        em.label(done)

    def _value(self, stretch: Val, part: int, flag: int, there: Val, what: Part) -> Val:
        em = self.em
        word = as_value(em, self._read(stretch, self._at(part, flag)), what.identity.ty)
        return em.select(there, word, what.identity)

    # ---- threads --------------------------------------------------------------------------------
    def _first(self, body: Callable[[], None]) -> None:
        """Let one thread of the block run `body`."""
        em, threads = self.em, self.threads
        first, done = threads.label("first"), threads.label("others")
        em.cond_br(em.icmp("eq", threads.x, em.const(I32, 0)), first, done)
        em.label(first)
        body()
        em.br(done)
        em.label(done)

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

    def _ballot(self, wanted: Val) -> Val:
        every = self.em.const(I32, -1)
        return self.em.call("llvm.nvvm.vote.ballot.sync", I32, every, wanted)

    def _set(self, place: Val, value: Val) -> None:
        self.em.store(value, place, _size(value))

    def _values(self, places: Sequence[Val], like: Words) -> Words:
        pairs = zip(places, like, strict=True)
        return tuple(self.em.load(w.ty, p, _size(w)) for p, w in pairs)


def _size(value: Val) -> int:
    return max(1, value.ty.bits // 8)
