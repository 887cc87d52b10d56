"""Accumulators of a task's threads: each folds what it meets, the threads agree at the end.

Takes single values, gives the result in every thread of the task. A float32 sum adds what a thread
meets in one step in float32 and the steps in float64; a float64 one keeps the rounding error of
each addition. Invariant: the order of the terms follows from the number of threads of a task, and
that from the extents; running reductions (scans) take a step of all threads at a time.

    update a1 %0 ; close a1     ->     each thread: a1 += %0     ->     shuffles, words of warps
"""

from __future__ import annotations

import numpy as np

from fjit.backend.accumulate import WORD, Accumulator, two_sum_error
from fjit.backend.emitter import I32, Emitter, Ty, Val
from fjit.backend.threads_ir import Threads, Words


class ThreadAccumulator(Accumulator):
    """One running reduction; `shared` if threads of a task met different elements."""

    def __init__(
        self, em: Emitter, threads: Threads, op: str, dtype: np.dtype, fast: str, *, shared: bool
    ) -> None:
        self.threads, self.shared = threads, shared
        super().__init__(em, [], op, dtype, 1, 1, fast, registers=1)

    def _slots(self, ty: Ty, count: int) -> list[Val]:
        return [self.threads.alloca(ty) for _ in range(count)]

    def close_words(self) -> Words:
        """The words of all threads together."""
        words = super().close_words()
        return self.threads.fold(words, self._together) if self.shared else words

    def _together(self, a: Words, b: Words) -> Words:
        """Two threads' words as one; the same whichever comes first, but for signs of zeros."""
        em = self.em
        if self.places:
            return self._first((a[0], a[1]), (b[0], b[1]))
        if not self.blocked:
            return (self.fold(a[0], b[0]),)
        total = em.fadd(a[0], b[0])
        if len(a) == 1:
            return (total,)
        return total, em.fadd(em.fadd(a[1], b[1]), two_sum_error(em, a[0], b[0], total))

    def scan_step(self, value: Val) -> Val:
        """The running reduction up to and including this thread's value, of all threads' values."""
        em, threads = self.em, self.threads
        for step in (1, 2, 4, 8, 16):
            distance = em.const(I32, step)
            before = threads.shuffle("up", value, distance)
            inside = em.icmp("uge", threads.place, distance)
            value = em.select(inside, self.fold(before, value), value)
        threads.give((value,), last=True)
        ahead, carry = threads.alloca(self.ty), self._get(self.slots[0], self.ty)
        self._put(ahead, carry)

        def pass_on(words: Words) -> None:
            total = self._get(self.slots[0], self.ty)
            earlier = em.icmp("ult", threads.number, threads.warp)
            mine = self._get(ahead, self.ty)
            self._put(ahead, em.select(earlier, self.fold(mine, words[0]), mine))
            self._put(self.slots[0], self.fold(total, words[0]))

        threads.each_warp(em.const(I32, 0), (value,), pass_on)
        threads.barrier()
        return self.fold(self._get(ahead, self.ty), value)


def counted_before(em: Emitter, threads: Threads, wanted: Val) -> tuple[Val, Val]:
    """How many threads before this one want something, and how many of all threads do."""
    ballot = threads.ballot(wanted)
    below = em.sub(em.shl(em.const(I32, 1), threads.lane), em.const(I32, 1))
    here = em.intrinsic("ctpop", I32, em.and_(ballot, below))
    threads.give((em.intrinsic("ctpop", I32, ballot),))
    before, total = threads.alloca(I32), threads.alloca(I32)
    em.store(here, before, 4)
    em.store(em.const(I32, 0), total, 4)

    def count(words: Words) -> None:
        now = em.load(I32, before, 4)
        earlier = em.icmp("ult", threads.number, threads.warp)
        em.store(em.select(earlier, em.add(now, words[0]), now), before, 4)
        em.store(em.add(em.load(I32, total, 4), words[0]), total, 4)

    threads.each_warp(em.const(I32, 0), (here,), count)
    threads.barrier()
    return em.zext(em.load(I32, before, 4), WORD), em.zext(em.load(I32, total, 4), WORD)
