"""Numbers and addresses of a GPU kernel, whichever way its threads share the work.

Takes a nest, writes the arithmetic of positions of one thread. Invariant:
loops count, and addresses differ from their base, in 32 bits where those are known to do
(lower/reach.py), else in 64; positions among values have 64 bits always.

    load b0[s4 + i1*s3 + i2*unit]      (b0 + s4) + (i1*s3 + i2*4), the latter in 32 bits
"""

from __future__ import annotations

from fjit.backend.emitter import I32, Emitter, Val
from fjit.backend.statements import WORD, Statements
from fjit.backend.values import GLOBAL
from fjit.lower import nest as n
from fjit.lower.starts import starts


class Addresses(Statements):
    """A kernel under construction; which task of those that run at once it is, is `place`."""

    place: Val
    live: Val
    mask: Val | None
    counters: dict[int, Val]

    def __init__(self, nest: n.Nest, em: Emitter, *, short: bool) -> None:
        super().__init__(nest, em)
        self.word = I32 if short else WORD
        self.starts = starts(nest)

    # ---- numbers --------------------------------------------------------------------------------
    def _const(self, value: int) -> Val:
        return self.em.const(self.word, value)

    def _number(self, value: Val) -> Val:
        """An integer, no less than zero, in the word that loops count in."""
        if value.ty.bits > self.word.bits:
            return self.em.trunc_int(value, self.word)
        return self.em.zext(value, self.word) if value.ty.bits < self.word.bits else value

    def _position(self, value: Val) -> Val:
        """A position in 64 bits, as values have them."""
        return value if value.ty == WORD else self.em.sext(value, WORD)

    # ---- arguments ------------------------------------------------------------------------------
    def slot(self, slot: n.Slot) -> Val:
        """A run-time integer."""
        return self._number(self.full(slot))

    def full(self, slot: n.Slot) -> Val:
        """A run-time integer in 64 bits."""
        return Val(WORD, f"%s{slot.number}")

    def count_in(self, cell: int) -> Val:
        """A run-time extent."""
        return self._number(self.em.load(WORD, self.pointer(cell), 8))

    def pointer(self, buffer: int) -> Val:
        """A buffer's address; private memory is offset by the task's place."""
        info, whole = self.nest.buffers[buffer], Val(GLOBAL, f"%b{buffer}")
        if info.kind != "private":
            return whole
        assert info.size is not None
        return self.em.gep(whole, self.em.mul(self.full(info.size), self._position(self.place)))

    def flag(self, bad: Val, code: int) -> None:
        """Set bits of the status word if this thread's element is wanted and bad."""
        em = self.em
        bad = em.and_(bad, self.live if self.mask is None else self.mask)

        def set_bits() -> None:
            em.inst(WORD, f"atomicrmw or {GLOBAL} %status, i64 {code} monotonic")

        self.when(bad, set_bits)

    def linear(self, linear: n.Linear, itemsize: int = 1) -> tuple[Val, Val | None]:
        """A position or address: there is no vector part."""
        base = self._const(0) if linear.offset is None else self.slot(linear.offset)
        return self._along(linear, itemsize, base), None

    def _along(self, linear: n.Linear, itemsize: int, base: Val) -> Val:
        """How far the terms lead from a base."""
        em = self.em
        for term, factor in linear.terms:
            if term[0] == "%":
                value = self._number(self.values[int(term[1:])])
            elif term[0] == "c" and term != "chunk":
                value = self._number(self._read(self.counters[int(term[1:])], WORD))
            else:
                value = self.axes[term]
            base = em.add(base, self._times(value, factor, itemsize))
        return base

    def _at(self, buffer: int, linear: n.Linear, itemsize: int) -> Val:
        """An address: the offset is added first, as it is the same all along.

        The launch adds a buffer's only one (lower/starts.py): a sum in the kernel would take two
        registers all along.
        """
        em, base = self.em, self.pointer(buffer)
        if linear.offset is not None and buffer not in self.starts:
            base = em.gep(base, self.full(linear.offset))
        return em.gep(base, self._along(linear, itemsize, self._const(0)))
