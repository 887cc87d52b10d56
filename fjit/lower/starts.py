"""Which buffers a kernel reads and writes from one start alone, so that a launch can add it.

Takes a nest, gives slots by buffer. Invariant: every access of such a buffer has its slot as
offset, so that a pointer to the start and no offset reach the same bytes.

    load b0[s4 + i1*s3]; load b1[s5]; load b1[s6]      {0: s4}, since b1 has two starts
"""

from __future__ import annotations

from collections.abc import Iterator

from fjit.lower.nest import Append, Linear, Load, Loop, Nest, Prefetch, Slot, Stmt, Store


def starts(nest: Nest) -> dict[int, Slot]:
    """The only offset of each argument that has but one."""
    found: dict[int, set[Slot | None]] = {}
    for stmt in _statements(nest):
        for buffer, at in _accesses(stmt):
            found.setdefault(buffer, set()).add(None if at is None else at.offset)
    only = {buffer: slots.pop() for buffer, slots in found.items() if len(slots) == 1}
    kinds = ("in", "out")
    return {
        buffer: slot for buffer, slot in only.items()
        if slot is not None and nest.buffers[buffer].kind in kinds
    }  # fmt: skip


def _statements(nest: Nest) -> Iterator[Stmt]:
    yield from nest.entry
    pending: list[Loop] = [phase.loop for phase in nest.phases]
    while pending:
        for stmt in pending.pop().body:
            if isinstance(stmt, Loop):
                pending.append(stmt)
            else:
                yield stmt


def _accesses(stmt: Stmt) -> Iterator[tuple[int, Linear | None]]:
    """Buffers that a statement accesses, and where; None where it counts by itself."""
    if isinstance(stmt, Load | Store | Prefetch):
        yield stmt.buffer, stmt.at
    if isinstance(stmt, Load) and stmt.other is not None:
        yield stmt.other
    if isinstance(stmt, Append):
        yield stmt.buffer, None
