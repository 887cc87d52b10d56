"""Which loops are filters and running reductions that many blocks of a GPU may share.

Takes a phase, gives its loop and what steps carry on, or None. Invariant: a partition's aggregates,
what it adds to counts and running values, can be found without knowing what came before it.

    count c0 = 0
    vector i0 < s1                    this loop; c0 is carried
      %0 = load b0[i0*unit] f32
      %2 = gt.f32,f32 %0 %1 bool
      append b1[c0] %0 f32 if %2
      advance c0 if %2
    store count c0
"""

from __future__ import annotations

from typing import NamedTuple

from fjit.lower import nest as n
from fjit.lower.uses import uses


class Carried(NamedTuple):
    """A loop, and the numbers of the counters and accumulators that its steps carry on."""

    loop: n.Loop
    counters: tuple[int, ...]
    accs: tuple[int, ...]


def carried(task: n.Loop) -> Carried | None:
    """What a phase's only loop carries on, if it is one task's and blocks may share it."""
    loops = [s for s in task.body if isinstance(s, n.Loop)]
    if task.decode or task.cell is not None or len(loops) != 1:
        return None
    (loop,) = loops
    if loop.kind != "vector" or loop.start is not None or not _is_free(loop):
        return None
    counters = [s.counter for s in loop.body if isinstance(s, n.Advance)]
    accs = [s.acc for s in loop.body if isinstance(s, n.Scan)]
    if not (counters or accs):
        return None
    return Carried(loop, tuple(dict.fromkeys(counters)), tuple(dict.fromkeys(accs)))


def _is_free(loop: n.Loop) -> bool:
    """Whether no aggregate depends on what was carried in."""
    known_late: set[n.Value] = set()
    for stmt in loop.body:
        if isinstance(stmt, n.Loop | n.Update | n.Merge):
            return False
        late = not known_late.isdisjoint(uses(stmt)) or _counts(stmt)
        if isinstance(stmt, n.Scan | n.Advance) and late:
            return False
        if isinstance(stmt, n.Append) and stmt.guard in known_late:
            return False
        out = getattr(stmt, "out", None)
        if out is not None and (late or isinstance(stmt, n.Scan)):
            known_late.add(out)
    return True


def _counts(stmt: n.Stmt) -> bool:
    """Whether a statement's address or position has a counter in it."""
    linears = (getattr(stmt, "at", None), getattr(stmt, "linear", None))
    return any(
        term[0] == "c" and term != "chunk"
        for linear in linears if linear is not None for term, _ in linear.terms
    )  # fmt: skip
