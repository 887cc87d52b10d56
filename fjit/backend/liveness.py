"""The bodies of vector loops as lines of statements, and the dtypes of their values.

Takes loops of a nest, gives `Body`s. Invariant: neither sizes nor a machine are asked for.

    vector i0 < s1: %0 = load ...; %1 = mul %0 %0; store %1      a line of 3 steps
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fjit.core import dtypes
from fjit.core.live import Line
from fjit.lower import nest as n
from fjit.lower.uses import uses

Dtypes = dict[n.Value, np.dtype | None]


def flat(loop: n.Loop) -> Iterator[n.Stmt]:
    """All statements below a loop that are no loops."""
    for stmt in loop.body:
        if isinstance(stmt, n.Loop):
            yield from flat(stmt)
        else:
            yield stmt


def vector_loops(loop: n.Loop) -> Iterator[n.Loop]:
    """All vector loops below a loop, itself included."""
    if loop.kind == "vector":
        yield loop
    for stmt in loop.body:
        if isinstance(stmt, n.Loop):
            yield from vector_loops(stmt)


def dtypes_of(nest: n.Nest) -> Dtypes:
    """The dtype of every value; None for constants, which are free."""
    accs: dict[int, np.dtype] = {}
    found: Dtypes = {}
    statements = [*nest.entry]
    for phase in nest.phases:
        statements += flat(phase.loop)
    for stmt in statements:
        if isinstance(stmt, n.Open):
            accs[stmt.acc] = stmt.dtype
        elif isinstance(stmt, n.Const):
            found[stmt.out] = None
        elif isinstance(stmt, n.Scan):
            found[stmt.out] = accs[stmt.acc]
        elif isinstance(stmt, n.Within):
            found[stmt.out] = dtypes.BOOL
        elif isinstance(stmt, n.Position | n.Split | n.Checked):
            found[stmt.out] = dtypes.I64
        elif isinstance(stmt, n.Let | n.Load | n.Scalar):
            found[stmt.out] = stmt.dtype
        elif isinstance(stmt, n.Close):
            found.update(dict.fromkeys(stmt.outs, stmt.dtype))
    return found


class Body:
    """The straight line of statements of one loop."""

    def __init__(self, loop: n.Loop) -> None:
        self.stmts: tuple[n.Stmt, ...] = tuple(s for s in loop.body if not isinstance(s, n.Loop))
        read = [uses(stmt) for stmt in self.stmts]
        self.line = Line[n.Value](read, [getattr(stmt, "out", None) for stmt in self.stmts])
        self.counts: dict[n.Value, int] = {}
        for values in read:
            for value in values:
                self.counts[value] = self.counts.get(value, 0) + 1
        self.outside = self.counts.keys() - self.line.maker.keys()

    def loads_first(self) -> list[int]:
        """All loads in front, then the rest as it is."""
        loads = [k for k, stmt in enumerate(self.stmts) if isinstance(stmt, n.Load)]
        return loads + [k for k, s in enumerate(self.stmts) if not isinstance(s, n.Load)]
