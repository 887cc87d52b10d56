"""The loops of a GPU kernel over tiles: operands that lie across are turned in shared memory.

Takes a phase's parallel loop and its `Tile`, writes control flow around the bodies of its vector
loops. A block of 256 threads takes a tile of W tasks x E elements (W E = 1024), each thread four of
its elements: once along the tasks, for what is turned, and once along the elements.

    for (t = W ctaid.y; t < tasks; t += W nctaid.y)
      for (i = E ctaid.x; i < elements; i += E nctaid.x)
        tile[w][e] = b0[t + w, i + e]                         w = thread mod W, e = thread div W
        barrier
        b2[t + w, i + e] = tile[w][e] + b1[t + w, i + e]      w = tid.y, e = tid.x
        barrier

Invariant: all threads of a block reach every barrier; one beyond the last task or element reads the
last one's operands and stores nothing. Rows of a tile in memory are longer than what they hold, so
that the threads of a warp meet in no bank of memory, whichever way they run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from fjit.backend import scalar
from fjit.backend.addresses import Addresses
from fjit.backend.emitter import I32, Ty, Val
from fjit.backend.spread import MOST_COPIED
from fjit.backend.statements import WORD, raw
from fjit.backend.threads_ir import Threads
from fjit.backend.tiles import ELEMENTS, ROOM, SIDE, THREADS, Tile
from fjit.lower import nest as n

TURNS = ELEMENTS // THREADS
"""Elements of a thread."""


class Range(NamedTuple):
    """The first task or element of a tile, and the end of all of them."""

    first: Val
    stop: Val


class Row(NamedTuple):
    """A task of a tile: its axes, whether there is one, and this thread's cell in the tile."""

    axes: dict[str, Val]
    live: Val
    cell: Val


class Walk(NamedTuple):
    """A vector loop, what of it is turned, and how many elements are computed side by side.

    `arrays` are the tiles in shared memory, by the identity of the access; `tasks` the loop around.
    """

    tasks: n.Loop
    loop: n.Loop
    loads: list[n.Load]
    stores: list[n.Store]
    arrays: dict[int, Val]
    copies: int


class TileLoops(Addresses):
    """Writes the tiles of a kernel; what is declared first is the kernel's."""

    threads: Threads
    vector: str | None
    wide: dict[int, Val]
    pending: dict[int, list[Val]] | None

    # ---- loops over tiles -----------------------------------------------------------------------
    def _tiles(self, loop: n.Loop, tile: Tile) -> None:
        """Tiles of tasks, as far apart as the blocks along y reach."""
        em, threads = self.em, self.threads
        others = tuple(pair for pair in loop.decode if pair[0] != tile.axis)
        loop = replace(loop, decode=(*others, (tile.axis, tile.extent)))
        walks = [self._walk(loop, s, tile) for s in loop.body if isinstance(s, n.Loop)]
        rows = em.mul(threads.height, em.const(I32, TURNS))
        number = em.add(em.mul(threads.y, threads.width), threads.x)
        self.row, self.column = em.urem(number, rows), em.udiv(number, rows)
        spare = em.lshr(threads.width, em.const(I32, SIDE.bit_length() - 1))
        self.pitch = em.add(threads.width, em.select(em.icmp("eq", spare, _i32(0)), _i32(1), spare))
        stop = self.slot(loop.extent)
        if loop.cell is not None:
            stop = self._smaller(stop, self.count_in(loop.cell))

        def strips(first: Val) -> None:
            tasks = Range(first, stop)
            across = self._row(loop, self.row, em.mul(self.row, self.pitch), tasks)
            for walk in walks:
                self._strip(walk, across, tasks)

        self._every(1, rows, self._const(0), stop, strips)

    def _walk(self, tasks: n.Loop, loop: n.Loop, tile: Tile) -> Walk:
        """A vector loop, with memory for its part of the tile."""
        own = {id(s) for s in loop.body}
        turned = [(k, s) for k, s in enumerate(tile.turned) if id(s) in own]
        arrays = {}
        for number, stmt in turned:
            ty = self._kept(stmt)
            arrays[id(stmt)] = self.em.shared_array(f"tile{number}_{ty.suffix}", ty, ROOM)
        copies = TURNS
        while copies > 1 and copies * len(loop.body) > MOST_COPIED:
            copies //= 2
        loads = [s for _, s in turned if isinstance(s, n.Load)]
        stores = [s for _, s in turned if isinstance(s, n.Store)]
        return Walk(tasks, loop, loads, stores, arrays, copies)

    def _every(
        self, way: int, size: Val, start: Val, stop: Val, body: Callable[[Val], None]
    ) -> None:
        """The tiles of this block along x (0) or y (1), each of a size."""
        em, threads = self.em, self.threads
        size = self._number(size)
        first = em.add(start, em.mul(self._number(threads.block[way]), size))
        self.loop(first, stop, em.mul(self._number(threads.blocks[way]), size), body)

    def _strip(self, walk: Walk, across: Row, tasks: Range) -> None:
        """Tiles of elements, as far apart as the blocks along x reach."""
        em = self.em
        whole = walk.copies == TURNS
        known = [self._row_of(walk, _i32(turn), tasks) for turn in range(TURNS if whole else 0)]
        start, stop = self._bounds(walk.loop)

        def tile(first: Val) -> None:
            elements = Range(first, stop)

            def some(turn: Val) -> None:
                number = turn if turn.ty == I32 else em.trunc_int(turn, I32)
                turns = [em.add(number, _i32(copy)) for copy in range(walk.copies)]
                self._compute(walk, [self._row_of(walk, t, tasks) for t in turns], elements)

            if walk.loads:
                self._fill(walk, across, elements)
                self.threads.barrier()
            if known:
                self._compute(walk, known, elements)
            else:
                none, every, copies = (self._const(k) for k in (0, TURNS, walk.copies))
                self.loop(none, every, copies, some)
            if walk.arrays:
                self.threads.barrier()
            if walk.stores:
                self._drain(walk, across, elements)
            if walk.stores and not walk.loads:
                self.threads.barrier()

        self._every(0, self.threads.width, start, stop, tile)

    # ---- places in a tile -----------------------------------------------------------------------
    def _row(self, loop: n.Loop, row: Val, cell: Val, tasks: Range) -> Row:
        """A task of a tile; the last one's axes beyond it."""
        em = self.em
        task = em.add(tasks.first, self._number(row))
        last = em.sub(tasks.stop, self._const(1))
        axes = self._decoded(loop, self._smaller(task, last))
        return Row(axes, em.icmp("slt", task, tasks.stop), cell)

    def _row_of(self, walk: Walk, turn: Val, tasks: Range) -> Row:
        """The task of this thread in one of its turns, where it runs along the elements."""
        em, threads = self.em, self.threads
        row = em.add(threads.y, em.mul(threads.height, turn))
        cell = em.add(em.mul(row, self.pitch), threads.x)
        return self._row(walk.tasks, row, cell, tasks)

    def _stand(self, walk: Walk, row: Row, at: Val, elements: Range) -> Val:
        """Go to an element of a task, or to the last one beyond it; gives whether there is one."""
        em = self.em
        element = em.add(elements.first, self._number(at))
        last = em.sub(elements.stop, self._const(1))
        self.axes = {**row.axes, walk.loop.axis: self._smaller(element, last)}
        return em.and_(row.live, em.icmp("slt", element, elements.stop))

    def _turns(self, across: Row) -> list[tuple[Val, Val]]:
        """Elements of this thread where it runs along the tasks, and their cells in the tile."""
        em = self.em
        quarter = em.lshr(self.threads.width, _i32(TURNS.bit_length() - 1))
        ats = [em.add(self.column, em.mul(quarter, _i32(turn))) for turn in range(TURNS)]
        return [(at, em.add(across.cell, at)) for at in ats]

    def _cell(self, walk: Walk, stmt: n.Load | n.Store, cell: Val) -> Val:
        """The address of a cell of an access's tile."""
        offset = self.em.mul(cell, _i32(stmt.dtype.itemsize))
        return self.em.gep(walk.arrays[id(stmt)], self.em.zext(offset, WORD))

    def _memory(self, stmt: n.Load | n.Store) -> Val:
        """The address in global memory of the element where this thread stands."""
        return self._at(stmt.buffer, stmt.at, stmt.dtype.itemsize)

    def _kept(self, stmt: n.Load | n.Store) -> Ty:
        """The type of an element in memory."""
        return raw(scalar.memory_type(stmt.dtype, 1), isinstance(stmt, n.Load) and stmt.swapped)

    # ---- one tile -------------------------------------------------------------------------------
    def _fill(self, walk: Walk, across: Row, elements: Range) -> None:
        """Load what is turned, running along the tasks, all of it before any is waited for."""
        em, loaded = self.em, []
        for at, cell in self._turns(across):
            self._stand(walk, across, at, elements)
            for stmt in walk.loads:
                value = em.load(self._kept(stmt), self._memory(stmt), stmt.dtype.itemsize)
                loaded.append((value, stmt, cell))
        for value, stmt, cell in loaded:
            em.store(value, self._cell(walk, stmt, cell), stmt.dtype.itemsize)

    def _compute(self, walk: Walk, rows: Sequence[Row], elements: Range) -> None:
        """The bodies of this thread's elements, running along them, and then their stores."""
        before = self.values
        stores = [s for s in walk.loop.body if isinstance(s, n.Store)]
        late = [s for s in stores if s.guard is None and not s.more]
        self.pending = {id(s): [] for s in late}
        done = []
        for row in rows:
            self.values = dict(before)
            inside = self.mask = self._stand(walk, row, self.threads.x, elements)
            self.wide = {s.out: self._turned(walk, s, row.cell) for s in walk.loads}
            for stmt in walk.tasks.body:
                if not isinstance(stmt, n.Loop):
                    self.statement(stmt)
            self.vector = walk.loop.axis
            for stmt in walk.loop.body:
                self.statement(stmt)
            self.vector = None
            done.append((self.axes, self.values, inside))
        for number, (row, (axes, values, inside)) in enumerate(zip(rows, done, strict=True)):
            self.axes, self.values = axes, values
            self._put(walk, late, row, number, inside)
        self.mask, self.pending, self.wide, self.values = None, None, {}, before

    def _turned(self, walk: Walk, stmt: n.Load | n.Store, cell: Val) -> Val:
        """What a cell of an access's tile holds."""
        size = stmt.dtype.itemsize
        return self.em.load(self._kept(stmt), self._cell(walk, stmt, cell), size)

    def _put(self, walk: Walk, late: Sequence[n.Store], row: Row, number: int, inside: Val) -> None:
        """Store what was computed for one of the elements: what is turned in its tile."""
        em, pending = self.em, self.pending
        assert pending is not None
        here = [s for s in late if id(s) not in walk.arrays]
        for stmt in walk.stores:
            value = pending[id(stmt)][number]
            em.store(value, self._cell(walk, stmt, row.cell), stmt.dtype.itemsize)

        def store() -> None:
            for stmt in here:
                em.store(pending[id(stmt)][number], self._memory(stmt), stmt.dtype.itemsize)

        if here:
            self.when(inside, store)

    def _drain(self, walk: Walk, across: Row, elements: Range) -> None:
        """Store what was turned, running along the tasks."""
        em = self.em
        turns = self._turns(across)
        found = [[self._turned(walk, s, cell) for s in walk.stores] for _, cell in turns]
        for (at, _), values in zip(turns, found, strict=True):
            inside = self._stand(walk, across, at, elements)

            def store(values: list[Val] = values) -> None:
                for stmt, value in zip(walk.stores, values, strict=True):
                    em.store(value, self._memory(stmt), stmt.dtype.itemsize)

            self.when(inside, store)


def _i32(number: int) -> Val:
    return Val(I32, str(number))
