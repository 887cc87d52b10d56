"""Which accesses of a phase lie across its tasks' memory order, and go through tiles of a block.

Takes a phase's loops, gives a `Tile`, or None where no access is to be turned. Threads side by side
take elements side by side along the vector loop; an operand whose elements lie side by side along
an axis of the tasks would be read a row apart by each. So a block takes a tile of 1024 elements,
32 of 32 tasks, reads such operands with its threads along the tasks, and turns them in shared
memory:

    parallel task < s1 as i1<s0
      vector i2 < s2                       Tile(axis="i1", turned=(load b0[...],))
        %0 = load b0[i2*s3 + i1*unit]
        %1 = load b1[i1*s5 + i2*unit]
        store b2[i1*s7 + i2*unit] %2

Invariant: turned accesses go by axes and slots alone, so that any thread may make them for another;
all else in the phase is elementwise, so that the order of tasks is free.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from fjit.lower import nest as n

ELEMENTS: Final = 1024
"""Elements of a tile, whatever its shape."""
THREADS: Final = 256
SIDE: Final = 32
"""Elements of a square tile's side: the threads of a warp."""
LEAST_TASKS: Final = 4
LEAST_ALONG: Final = 8
ROOM: Final = ELEMENTS + ELEMENTS // LEAST_ALONG
"""Elements that a tile takes in memory, at most: its rows are longer than they hold."""
MOST_SHARED: Final = 48 << 10
"""Bytes of shared memory that every device gives a block: accesses beyond that are not turned."""
TURNED_FACTORS: Final = (n.UNIT, n.BACK)

_PURE: Final = (n.Const, n.Let, n.Position, n.Split, n.Within, n.Scalar, n.Load, n.Prefetch)
_INSIDE: Final = (*_PURE, n.Checked, n.Store)


class Tile(NamedTuple):
    """The axis of the tasks that threads run along, its extent, and the accesses to turn."""

    axis: str
    extent: n.Slot
    turned: tuple[n.Load | n.Store, ...]


def tile_of(nest: n.Nest, loop: n.Loop) -> Tile | None:
    """How the phase of a parallel loop is tiled, if it is."""
    if not _is_elementwise(nest, loop):
        return None
    vectors = [s for s in loop.body if isinstance(s, n.Loop)]
    sizes: dict[str, int] = {}
    for vector in vectors:
        for axis, stmt in _across(loop, vector):
            sizes[axis] = sizes.get(axis, 0) + stmt.dtype.itemsize
    if not sizes:
        return None
    axis = max(sizes, key=lambda a: sizes[a])
    turned, left = [], MOST_SHARED
    for vector in vectors:
        for along, stmt in _across(loop, vector):
            room = ROOM * stmt.dtype.itemsize
            if along == axis and room <= left:
                left -= room
                turned.append(stmt)
    return Tile(axis, dict(loop.decode)[axis], tuple(turned)) if turned else None


def _is_elementwise(nest: n.Nest, loop: n.Loop) -> bool:
    """Whether a phase only stores what its vector loops compute element by element."""
    if any(b.kind in ("private", "shared") for b in nest.buffers):
        return False
    return all(_walks(s) if isinstance(s, n.Loop) else _is_free(s) for s in loop.body)


def _walks(loop: n.Loop) -> bool:
    """Whether a loop walks a whole axis, and each of its steps stands alone."""
    if loop.kind != "vector" or loop.start is not None:
        return False
    return all(isinstance(s, _INSIDE) for s in loop.body)


def _is_free(stmt: n.Stmt) -> bool:
    """Whether a statement of a task may be run by any thread, as often as it likes.

    One that may set the error flag has to run for tasks without elements too.
    """
    flags = isinstance(stmt, n.Let) and stmt.op == "pow" and stmt.dtype.kind == "i"
    return isinstance(stmt, _PURE) and not flags


def _across(loop: n.Loop, vector: n.Loop) -> Iterator[tuple[str, n.Load | n.Store]]:
    """Accesses of a vector loop that lie side by side along an axis of the tasks: axis, access."""
    tasks = {axis for axis, _ in loop.decode}
    for stmt in vector.body:
        if not isinstance(stmt, n.Load | n.Store) or stmt.guard is not None:
            continue
        if stmt.other is not None if isinstance(stmt, n.Load) else stmt.more:
            continue
        steps = dict(stmt.at.terms)
        if len(steps) < len(stmt.at.terms) or not steps.keys() <= tasks | {vector.axis}:
            continue
        units = [axis for axis, factor in steps.items() if factor in TURNED_FACTORS]
        if len(units) == 1 and units[0] != vector.axis and vector.axis in steps:
            yield units[0], stmt


def shape_of(across: int, along: int) -> tuple[int, int]:
    """Threads of a block along x and y for tiles of a phase: x along elements, 4 tasks for each y.

    `across` is the extent of the tile's axis of the tasks, `along` the longest vector loop's.
    """
    tasks = min(max(power(across), LEAST_TASKS), SIDE)
    wide = min(max(power(along), LEAST_ALONG), ELEMENTS // tasks)
    return wide, THREADS // wide


def power(count: int) -> int:
    """The least power of two that is no less."""
    return 1 << max(count - 1, 0).bit_length()
