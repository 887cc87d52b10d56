"""Rows that are walked several times: while one is worked on, the next is fetched.

Takes a task loop, adds `Prefetch` statements to its second walk over the row. The first walk waits
for memory and computes little, those that follow compute on what the first has brought into cache;
so the memory is asked for the next row meanwhile. Invariant: no value changes.

    parallel task as i0               parallel task as i0
      vector i1: load x[i0, i1]    ->   vector i1: load x[i0, i1]
      vector i1: exp ...                vector i1: exp ... ; prefetch x[i0 + 1, i1]
"""

from collections.abc import Iterator, Sequence
from typing import Final

from fjit.lower.nest import UNIT, Buffer, Load, Loop, Prefetch, Slot

LONGEST_ROW: Final = 64 << 10
"""Bytes of the operands of a row beyond which the next would drive this one out of the cache."""


def fetch_ahead(task: Loop, buffers: Sequence[Buffer], slots: Sequence[object]) -> None:
    """Let the second walk over a task's row fetch what the first one of the next row reads."""
    walks = [s for s in task.body if isinstance(s, Loop)]
    if len(walks) < 2 or not task.decode or any(w.kind != "vector" for w in walks):
        return
    first, second = walks[:2]
    if first.axis != second.axis or first.start is not None:
        return
    extent = slots[first.extent.number]
    found = list(_next_row(first, task.decode[-1][0], buffers))
    nbytes = sum(p.dtype.itemsize for p in found)
    if isinstance(extent, int) and extent * nbytes <= LONGEST_ROW:
        second.body.extend(found)


def _next_row(loop: Loop, row: str, buffers: Sequence[Buffer]) -> Iterator[Prefetch]:
    """What the loop reads element by element of arguments, one row further on."""
    for stmt in loop.body:
        if not isinstance(stmt, Load) or stmt.guard is not None or stmt.other is not None:
            continue
        steps = [factor for term, factor in stmt.at.terms if term == row]
        beside = (loop.axis, UNIT) in stmt.at.terms
        if buffers[stmt.buffer].kind == "in" and beside and len(steps) == 1:
            (step,) = steps
            if isinstance(step, Slot):
                yield Prefetch(stmt.buffer, stmt.at, stmt.dtype, step)
