"""What the threads of a block do together: shuffles, barriers, and words that they exchange.

Takes values of one thread, gives values that all threads of a task agree on. A task has `width`
threads, a power of two: lanes of one warp (`width` <= 32) or whole warps. Invariant: every thread
of a block gets here, and values are combined in an order that `width` alone decides.

    all threads' sums -> shuffles within the warp -> words in shared memory -> the sum, in each
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fjit.backend.emitter import I32, I64, Emitter, Ty, Val
from fjit.backend.values import SHARED

Words = tuple[Val, ...]
Combine = Callable[[Words, Words], Words]

WARP = 32
MOST_WARPS = 32
MOST_WORDS = 2
EXCHANGE = (
    f"@exchange = internal addrspace(3) global [{MOST_WARPS * MOST_WORDS} x i64] undef, align 8\n"
)
"""Memory of a block: words of each warp."""


class Threads:
    """The threads of a block under construction; `label` names new basic blocks."""

    def __init__(
        self, em: Emitter, label: Callable[[str], str], alloca: Callable[[Ty], Val]
    ) -> None:
        self.em, self.label, self.alloca = em, label, alloca
        self.exchanges = False  # whether there are words that blocks exchange
        x, y = self._register("tid.x"), self._register("tid.y")
        self.x, self.y = x, y
        self.width, self.height = self._register("ntid.x"), self._register("ntid.y")
        self.block = (self._register("ctaid.x"), self._register("ctaid.y"))
        self.blocks = (self._register("nctaid.x"), self._register("nctaid.y"))
        inside = em.add(em.mul(y, self.width), x)
        self.lane = em.and_(inside, em.const(I32, WARP - 1))
        self.warp = em.lshr(x, em.const(I32, 5))
        self.place = em.and_(x, em.const(I32, WARP - 1))  # in the warp's part of the task
        self.span = self._least(self.width, em.const(I32, WARP))

    def _register(self, name: str) -> Val:
        return self.em.call(f"llvm.nvvm.read.ptx.sreg.{name}", I32)

    def _least(self, a: Val, b: Val) -> Val:
        return self.em.select(self.em.icmp("ult", a, b), a, b)

    # ---- within a warp --------------------------------------------------------------------------
    def shuffle(self, how: str, value: Val, lane: Val) -> Val:
        """Another lane's value: `how` is bfly, up or idx, as in PTX's shfl.sync."""
        em, ty = self.em, value.ty
        bits = value if ty.kind == "i" else em.bitcast(value, ty.as_int)
        if ty.bits < 32:
            moved = em.trunc_int(self._shuffle(how, em.zext(bits, I32), lane), ty.as_int)
        elif ty.bits == 32:
            moved = self._shuffle(how, bits, lane)
        else:
            low = self._shuffle(how, em.trunc_int(bits, I32), lane)
            high = em.trunc_int(em.lshr(bits, em.const(I64, 32)), I32)
            high = em.zext(self._shuffle(how, high, lane), I64)
            moved = em.or_(em.shl(high, em.const(I64, 32)), em.zext(low, I64))
        return moved if ty.kind == "i" else em.bitcast(moved, ty)

    def _shuffle(self, how: str, bits: Val, lane: Val) -> Val:
        em = self.em
        clamp = em.const(I32, 0 if how == "up" else WARP - 1)
        every = em.const(I32, -1)
        return em.call(f"llvm.nvvm.shfl.sync.{how}.i32", I32, every, bits, lane, clamp)

    def ballot(self, wanted: Val) -> Val:
        """A bit for each lane of the warp that wants something."""
        return self.em.call("llvm.nvvm.vote.ballot.sync", I32, self.em.const(I32, -1), wanted)

    def fold(self, words: Words, combine: Combine) -> Words:
        """All threads' words combined; the same in each thread of a task."""
        em = self.em
        for step in (16, 8, 4, 2, 1):
            distance = em.const(I32, step)
            others = tuple(self.shuffle("bfly", w, distance) for w in words)
            inside = em.icmp("ult", distance, self.span)
            both = combine(words, others)
            words = tuple(em.select(inside, b, w) for b, w in zip(both, words, strict=True))
        first = em.sub(self.lane, em.and_(self.lane, em.sub(self.span, em.const(I32, 1))))
        words = tuple(self.shuffle("idx", w, first) for w in words)
        return self._across(words, combine)

    def _across(self, words: Words, combine: Combine) -> Words:
        """The warps' words combined, first to last, where a task has several warps."""
        em = self.em
        places = [self.alloca(w.ty) for w in words]
        for place, word in zip(places, words, strict=True):
            em.store(word, place, size_of(word.ty))
        many, done = self.label("warps"), self.label("agreed")
        em.cond_br(em.icmp("ugt", self.width, em.const(I32, WARP)), many, done)
        em.label(many)
        self.give(words)

        def take(now: Words) -> None:
            old = tuple(em.load(p_ty.ty, p, size_of(p_ty.ty))
                        for p_ty, p in zip(words, places, strict=True))  # fmt: skip
            for place, word in zip(places, combine(old, now), strict=True):
                em.store(word, place, size_of(word.ty))

        first = self.taken(em.const(I32, 0), words)
        for place, word in zip(places, first, strict=True):
            em.store(word, place, size_of(word.ty))
        self.each_warp(em.const(I32, 1), words, take)
        self.barrier()
        em.br(done)
        em.label(done)
        return tuple(em.load(w.ty, p, size_of(w.ty)) for w, p in zip(words, places, strict=True))

    # ---- between warps --------------------------------------------------------------------------
    def barrier(self) -> None:
        """Wait for all threads of the block."""
        self.em.call("llvm.nvvm.barrier0", None)

    def give(self, words: Words, *, last: bool = False) -> None:
        """Show the words of the first (or last) lane of this warp to the other warps."""
        em = self.em
        self.exchanges = True
        mine, given = self.label("mine"), self.label("given")
        lane = em.const(I32, WARP - 1 if last else 0)
        em.cond_br(em.icmp("eq", self.place, lane), mine, given)
        em.label(mine)
        for k, word in enumerate(words):
            em.store(as_word(em, word), self._cell(self.warp, k), 8)
        em.br(given)
        em.label(given)
        self.barrier()

    def taken(self, warp: Val, like: Sequence[Val]) -> Words:
        """The words that a warp has shown."""
        em = self.em
        return tuple(
            as_value(em, em.load(I64, self._cell(warp, k), 8), word.ty)
            for k, word in enumerate(like)
        )

    def each_warp(self, first: Val, like: Sequence[Val], body: Callable[[Words], None]) -> None:
        """A loop over the warps' words, first to last."""
        em = self.em
        counter = self.alloca(I32)
        em.store(first, counter, 4)
        head, inside, done = self.label("warp"), self.label("word"), self.label("warped")
        em.br(head)
        em.label(head)
        now = em.load(I32, counter, 4)
        count = em.lshr(self.width, em.const(I32, 5))
        em.cond_br(em.icmp("ult", now, count), inside, done)
        em.label(inside)
        self.number = now
        body(self.taken(now, like))
        em.store(em.add(now, em.const(I32, 1)), counter, 4)
        em.br(head)
        em.label(done)

    def _cell(self, warp: Val, word: int) -> Val:
        em = self.em
        offset = em.add(em.mul(warp, em.const(I32, 8 * MOST_WORDS)), em.const(I32, 8 * word))
        return em.gep(Val(SHARED, "@exchange"), em.zext(offset, I64))


def size_of(ty: Ty) -> int:
    """Bytes of a value in memory."""
    return max(1, ty.bits // 8)


def as_word(em: Emitter, value: Val) -> Val:
    """A value's bits in 64."""
    bits = value if value.ty.kind == "i" else em.bitcast(value, value.ty.as_int)
    return bits if bits.ty.bits == 64 else em.zext(bits, I64)


def as_value(em: Emitter, word: Val, ty: Ty) -> Val:
    """The value whose bits a word of 64 holds."""
    bits = word if ty.bits == 64 else em.trunc_int(word, ty.as_int)
    return bits if ty.kind == "i" else em.bitcast(bits, ty)
