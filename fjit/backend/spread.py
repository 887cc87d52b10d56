"""How a phase is spread over blocks and threads: what its loops allow, and launch shapes.

Takes a phase's loops and the sizes of a call, gives a `Spread` (of the loops alone, part of the
code) and a `Launch` (of the sizes). Invariant: the threads of a task follow from extents alone, so
that sums have one order on every device.

    elementwise, 1000 x 1000 f32     4 elements a thread, 256 x 1 threads a block, 1 x 1000 blocks
    row sums, 1000 x 1000 f32        4 elements a thread, 256 x 1 threads a block, 1 x 1000 blocks
    row sums, 10^6 x 3 f32           1 x 128 threads a block: 128 rows
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fjit.backend.look_back import STEPS
from fjit.backend.tiles import ELEMENTS, power, shape_of, tile_of
from fjit.lower import nest as n
from fjit.lower.carried import carried

ACCESS: Final = 16
"""Bytes of the widest access of a thread."""
MOST_LOADED: Final = 128
"""Bytes that a thread loads ahead of its elements: 48 registers, which leaves as many of 96 for
what it computes. Two elements of 32 float64 operands took 191 registers, one takes 72."""
MOST_COPIED: Final = 200
"""Statements that the elements of a thread, one after the other, may come to."""
THREADS: Final = 256
WARP: Final = 32
MOST_HIGH: Final = 65_535
MOST_WIDE: Final = 4_096
"""Blocks side by side: each takes several steps beyond that."""
WAVES: Final = 8
"""How often a device is filled with blocks, at most: each takes several tasks beyond that."""


class Spread(NamedTuple):
    """What a phase's loops allow: elements side by side, blocks of one task, steps together."""

    unit: int
    wide: bool  # whether several blocks may share a task
    lockstep: bool  # whether all threads of a block have to take each step together
    even: bool  # whether tasks go through as many steps, so that they may share a block
    carries: int = 0  # values carried from block to block through partitions of the only loop
    across: n.Slot | None = None  # the extent of the tasks' axis that tiles lie along, if they do


class Launch(NamedTuple):
    """Blocks and threads along x (of a task) and y (tasks)."""

    grid: tuple[int, int]
    block: tuple[int, int]

    @property
    def places(self) -> int:
        """How many tasks run at once: private memory is as many."""
        return self.grid[1] * self.block[1]


def vector_loops(loop: n.Loop) -> Iterator[n.Loop]:
    """The loops of a phase whose steps threads share: vector loops, outermost ones, and merges."""
    for stmt in loop.body:
        if isinstance(stmt, n.Loop):
            shared = stmt.kind == "vector" or merges(stmt)
            yield from (stmt,) if shared else vector_loops(stmt)


def merges(loop: n.Loop) -> bool:
    """Whether a loop only merges partial results into accumulators, in any order."""
    kinds = (n.Load, n.Merge, n.Position)
    return any(isinstance(s, n.Merge) for s in loop.body) and all(
        isinstance(s, kinds) for s in loop.body
    )


def holds(loop: n.Loop, *kinds: type) -> bool:
    """Whether there is a statement of some kind in a loop, however deep."""
    return any(
        isinstance(s, kinds) or (isinstance(s, n.Loop) and holds(s, *kinds)) for s in loop.body
    )


def spread_of(nest: n.Nest, loop: n.Loop) -> Spread:
    """How the phase of a parallel loop may be spread."""
    loops = list(vector_loops(loop))
    lockstep = holds(loop, n.Scan, n.Append, n.Advance)
    shares = any(isinstance(s, n.Update | n.Merge) for v in loops for s in v.body)
    wide = not (lockstep or shares or _scratch_outside(nest, loop.body)) and _one_space(nest, loops)
    longest = max((len(v.body) for v in loops), default=1)
    nested = any(holds(v, n.Loop) for v in loops)  # a thread has one column, the next one the next
    tile = tile_of(nest, loop)
    if tile is not None:
        return Spread(1, wide=True, lockstep=False, even=True, across=tile.extent)
    unit = 1 if lockstep or nested else max(1, ACCESS // max(_narrow(nest, loops), 1))
    loaded = max((_loaded(v) for v in loops), default=0)
    while unit > 1 and (unit * longest > MOST_COPIED or unit * loaded > MOST_LOADED):
        unit //= 2
    even = bool(loop.decode) and not (lockstep or _uneven(loop))
    found = carried(loop)
    carries = 0 if found is None else len(found.counters) + len(found.accs)
    return Spread(unit, wide, lockstep, even, carries)


def _narrow(nest: n.Nest, loops: Sequence[n.Loop]) -> int:
    """The widest item of what vector loops access: elements side by side are one access of it."""
    sizes = [s.dtype.itemsize for v in loops for s in v.body if isinstance(s, n.Load | n.Store)]
    return max(sizes, default=nest.width)


def _loaded(loop: n.Loop) -> int:
    """Bytes that one step of a loop loads."""
    return sum(s.dtype.itemsize for s in loop.body if isinstance(s, n.Load))


def _scratch_outside(nest: n.Nest, stmts: Sequence[n.Stmt]) -> bool:
    """Whether private memory is written outside vector loops, by one thread."""
    for stmt in stmts:
        if isinstance(stmt, n.Store) and nest.buffers[stmt.buffer].kind == "private":
            return True
        if isinstance(stmt, n.Loop) and stmt.kind != "vector" and _scratch_outside(nest, stmt.body):
            return True
    return False


def _uneven(loop: n.Loop) -> bool:
    """Whether tasks differ in the steps of a loop around those of their threads: in chunks."""
    around = (s for s in loop.body if isinstance(s, n.Loop) and s.kind != "vector")
    return any(s.start is not None or _uneven(s) for s in around)


def _one_space(nest: n.Nest, loops: Sequence[n.Loop]) -> bool:
    """Whether a thread that reads private memory has written it: all loops walk alike."""
    if not any(b.kind == "private" for b in nest.buffers):
        return True
    return len({(v.extent, v.start, v.stop) for v in loops}) <= 1


def wide_accesses(loop: n.Loop) -> dict[int, n.Load | n.Store]:
    """Loads and stores of a vector loop whose elements lie side by side, by identity."""
    inside = {f"%{out}" for s in loop.body for out in _outs(s)}
    return {
        id(s): s
        for s in loop.body
        if isinstance(s, n.Load | n.Store)
        and s.guard is None
        and not (s.other is not None if isinstance(s, n.Load) else s.more)
        and s.at.terms.count((loop.axis, n.UNIT)) == 1
        and not any(t in inside or (t[0] == "c" and t != "chunk") for t, _ in s.at.terms)
    }


def _outs(stmt: n.Stmt) -> tuple[n.Value, ...]:
    out = getattr(stmt, "out", None)
    return getattr(stmt, "outs", ()) if out is None else (out,)


def launch_of(
    spread: Spread, tasks: int, extents: Sequence[int], most: int = THREADS, across: int = 0
) -> Launch:
    """The launch of so many tasks whose vector loops have these extents.

    `most` is how many threads of a block the registers of a multiprocessor hold; `across` is the
    extent of the axis that tiles lie along.
    """
    if spread.across is not None:
        return _tiled(tasks, max(extents), across)
    steps = -(-max(extents, default=1) // spread.unit)
    wide = power(min(max(steps, 1), most))
    if not spread.even:
        wide = max(wide, WARP)
    high = 1
    if spread.even and (wide <= WARP or spread.wide):
        high = max(1, (THREADS if spread.wide else 4 * WARP) // wide)
        high = max(high, WARP // wide)
    blocks = min(-(-steps // wide), MOST_WIDE) if spread.wide else 1
    if spread.carries:
        blocks = min(partitions(steps, wide), MOST_WIDE)
    return Launch((max(blocks, 1), min(-(-tasks // high), MOST_HIGH)), (wide, high))


def partitions(steps: int, threads: int) -> int:
    """Into how many partitions blocks of so many threads cut a loop of so many steps."""
    return max(1, -(-steps // (threads * STEPS)))


def _tiled(tasks: int, longest: int, across: int) -> Launch:
    """The launch of tiles, of 4 tasks for each of a block's threads along y."""
    wide, high = shape_of(across, longest)
    blocks = (-(-longest // wide), -(-tasks // (ELEMENTS // wide)))
    grid = (min(max(blocks[0], 1), MOST_WIDE), min(max(blocks[1], 1), MOST_HIGH))
    return Launch(grid, (wide, high))


def in_waves(launch: Launch, resident: int) -> Launch:
    """The launch with no more blocks than some waves of those that a device holds at once."""
    most = WAVES * max(resident, 1)
    wide = min(launch.grid[0], most)
    return launch._replace(grid=(wide, min(launch.grid[1], max(1, most // wide))))
