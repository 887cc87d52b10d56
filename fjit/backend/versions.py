"""Vector loops in versions: stores past the caches where they begin a line, rows without guards.

Takes a vector loop, writes it once or, behind a condition that is tested once, twice. Invariant:
all versions compute the same; a plain loop has one.

    load x if %1 ; store y streaming     if %1: (if y on a line: stream; else: store)  else: select
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fjit.backend.accumulate import WORD
from fjit.backend.emitter import Val
from fjit.backend.frame import Frame
from fjit.backend.statements import FLAG
from fjit.lower import nest as n

CACHE_LINE: Final = 64
LEAST_STREAMED: Final = 16
"""Bytes of a vector below which a streaming store does not pay."""


class Versions(Frame):
    """A phase's frame whose vector loops come in versions."""

    def _vector(self, loop: n.Loop) -> None:
        start, stop = self._bounds(loop)
        self.vector = loop.axis
        used = [s.acc for s in loop.body if isinstance(s, n.Update)]
        ordered = bool(used) or any(isinstance(s, n.Scan) for s in loop.body)
        stores = self._streams(loop)

        def plain() -> None:
            self._blocks(loop, start, stop, used)

        def emit() -> None:
            if not stores:
                plain()
            elif ordered:
                self._either(self._on_lines(loop, stores, start), self._streaming(plain), plain)
            else:
                self._streamed(loop, stores, start, stop)

        guards = self._guards(loop)
        tile = self._tile(loop)
        if tile is not None:
            self._either(self._rows_on_lines(loop, tile, start), self._streaming(plain), plain)
        elif guards:
            self._either(self._hold(guards), self._granted(guards, emit), plain)
        else:
            emit()
        self.vector = None

    # ---- guards of a whole row ------------------------------------------------------------
    def _guards(self, loop: n.Loop) -> list[n.Value]:
        """Conditions of loads that are the same for the whole loop, such as a row within a pad."""
        if any(isinstance(s, n.Loop) for s in loop.body) or self.copies or self.is_short(loop):
            return []
        inside = {getattr(s, "out", None) for s in loop.body}
        guards = [s.guard for s in loop.body if isinstance(s, n.Load) and s.guard not in inside]
        return [g for g in dict.fromkeys(guards) if g is not None and self.values[g].ty == FLAG]

    def _hold(self, guards: list[n.Value]) -> Val:
        """Whether all conditions hold."""
        every = self.values[guards[0]]
        for guard in guards[1:]:
            every = self.em.and_(every, self.values[guard])
        return every

    def _granted(self, guards: list[n.Value], emit: Callable[[], None]) -> Callable[[], None]:
        """The same code where the conditions are known to hold: it has no branches for them."""

        def granted() -> None:
            self.granted = frozenset(guards)
            emit()
            self.granted = frozenset()

        return granted

    # ---- streaming stores -----------------------------------------------------------------
    def _streams(self, loop: n.Loop) -> list[n.Store]:
        """Stores that may go past the caches: side by side, and no narrower than 16 bytes."""
        if any(isinstance(s, n.Loop) for s in loop.body) or self.copies or self.is_short(loop):
            return []
        stores = [s for s in loop.body if isinstance(s, n.Store)]
        return [s for s in stores if self._may_stream(loop, s)]

    def _may_stream(self, loop: n.Loop, store: n.Store) -> bool:
        beside = bool(store.more) or (loop.axis, n.UNIT) in store.at.terms
        wide = self.lanes * store.dtype.itemsize >= LEAST_STREAMED
        return store.streaming and store.guard is None and beside and wide

    def _places(self, loop: n.Loop, stores: list[n.Store], at: Val) -> list[Val]:
        """The addresses that stores write to at a position of the loop, as integers."""
        em = self.em
        self.axes[loop.axis] = at
        places = [
            em.gep(self.pointer(s.buffer), self.linear(s.at, s.dtype.itemsize)[0]) for s in stores
        ]
        return [em.inst(WORD, f"ptrtoint ptr {place.ref} to i64") for place in places]

    def _on_lines(self, loop: n.Loop, stores: list[n.Store], at: Val) -> Val:
        """Whether all stores begin a cache line at a position of the loop."""
        em = self.em
        either, *others = self._places(loop, stores, at)
        for place in others:
            either = em.or_(either, place)
        low = em.and_(either, em.const(WORD, CACHE_LINE - 1))
        return em.icmp("eq", low, em.const(WORD, 0))

    def _tile(self, loop: n.Loop) -> n.Loop | None:
        """The loop over the rows of a tile, if what it stores may go past the caches."""
        inner = loop.body[0] if len(loop.body) == 1 else None
        if not isinstance(inner, n.Loop) or inner.kind != "sequential" or inner.cell is not None:
            return None
        stores = [s for s in inner.body if isinstance(s, n.Store)]
        fits = all(self._may_stream(loop, s) for s in stores)
        return inner if stores and fits and not self.copies else None

    def _rows_on_lines(self, loop: n.Loop, rows: n.Loop, start: Val) -> Val:
        """Whether all stores begin a cache line in each row of a tile."""
        em = self.em
        self.axes[rows.axis] = self._bounds(rows)[0]
        stores = [s for s in rows.body if isinstance(s, n.Store)]
        lined = self._on_lines(loop, stores, start)
        for store in stores:
            steps = [f for term, f in store.at.terms if term == rows.axis and isinstance(f, n.Slot)]
            for step in steps:
                low = em.and_(self.slot(step), em.const(WORD, CACHE_LINE - 1))
                lined = em.and_(lined, em.icmp("eq", low, em.const(WORD, 0)))
        return lined

    def _streaming(self, emit: Callable[[], None]) -> Callable[[], None]:
        """The same code with streaming stores."""

        def streaming() -> None:
            self.streaming = self.streams = True
            emit()
            self.streaming = False

        return streaming

    def _either(self, condition: Val, fast: Callable[[], None], plain: Callable[[], None]) -> None:
        """One code where the condition holds, another elsewhere."""
        em = self.em
        where, elsewhere, done = self._label("fast"), self._label("plain"), self._label("joined")
        em.cond_br(condition, where, elsewhere)
        em.label(where)
        fast()
        em.br(done)
        em.label(elsewhere)
        plain()
        em.br(done)
        em.label(done)

    def _streamed(self, loop: n.Loop, stores: list[n.Store], start: Val, stop: Val) -> None:
        """An elementwise loop: masked up to a cache line of the results, full vectors, masked rest.

        One masked loop serves both ends: `limit` says where it stops.
        """
        em = self.em
        counter, limit = self._alloca(WORD), self._alloca(WORD)
        self._set(counter, start)
        (place,) = self._places(loop, stores[:1], start)
        ahead = em.and_(em.neg(place), em.const(WORD, CACHE_LINE - 1))
        nbytes = stores[0].dtype.itemsize * (1 + len(stores[0].more))
        ahead = em.udiv(ahead, em.const(WORD, nbytes))
        self._set(limit, self._smaller(em.add(start, ahead), stop))
        ends, middle, done = self._label("ends"), self._label("middle"), self._label("streamed")
        em.br(ends)
        em.label(ends)
        end = self._read(limit, WORD)
        wide, self.lanes = self.lanes, self.narrow
        now, *labels = self._while(counter, end, self.lanes)
        self._strip(loop, now, start, 0, self._tail(now, end), at=now)
        self._set(counter, self._smaller(em.add(now, em.const(WORD, self.lanes)), end))
        em.br(labels[0])
        em.label(labels[1])
        self.lanes = wide
        em.cond_br(em.icmp("slt", end, stop), middle, done)
        em.label(middle)
        lined = self._on_lines(loop, stores, self._read(counter, WORD))

        def full() -> None:
            self._full(loop, counter, stop, start)

        self._either(lined, self._streaming(full), full)
        self._set(limit, stop)
        em.br(ends)
        em.label(done)
