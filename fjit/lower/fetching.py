"""Prefetches: memory of the next row or block is asked for while this one is walked again.

Takes the loads of a first walk, gives prefetches for the body of another one. A first walk waits
for memory, later ones find their data in cache and leave memory idle:

    layernorm, row r    vector i: load x[r, i] (memory)    ...    vector i: prefetch x[r + 1, i]

Invariant: a prefetch reads nothing and faults nowhere; it is a matter of speed alone.
"""

from __future__ import annotations

from typing import Final

from fjit.lower.build import Writer
from fjit.lower.nest import UNIT, Load, Prefetch, Slot, Stmt
from fjit.optimize.index import Axis
from fjit.optimize.schedule import Schedule

LONGEST_ROW: Final = 64 << 10
"""Bytes of a row's operands beyond which the next would drive this one out of the cache."""


def loads_along(writer: Writer, axis: Axis, body: list[Stmt]) -> list[Load]:
    """The loads from arguments in a body over `axis` that go through memory side by side."""
    along = (f"i{axis.number}", UNIT)
    return [
        s for s in body
        if isinstance(s, Load) and along in s.at.terms and writer.buffers[s.buffer].kind == "in"
    ]  # fmt: skip


def fetch_ahead(writer: Writer, loads: list[Load], elements: int) -> None:
    """Prefetch what lies so many elements behind each load."""
    for load in loads:
        _fetch(writer, load, elements * load.dtype.itemsize)


def between_walks(
    writer: Writer, plan: Schedule, stage: int, axis: Axis, loads: list[Load]
) -> list[Load]:
    """In the second of several walks over a row, fetch the next one; gives the first's loads."""
    if plan.cascade != "row" or not plan.rows or plan.outer:
        return []
    if stage == 0:
        return loads_along(writer, axis, writer.levels[-1].stmts)
    if stage == 1:
        _fetch_next_row(writer, loads, plan.rows[-1], axis.extent)
    return loads


def _fetch_next_row(writer: Writer, loads: list[Load], row: Axis, extent: int) -> None:
    """Prefetch what each load reads in the next row, if it reads another place then."""
    if extent * sum(load.dtype.itemsize for load in loads) > LONGEST_ROW:
        return
    for load in loads:
        steps = [f for term, f in load.at.terms if term == f"i{row.number}"]
        if len(steps) == 1 and isinstance(steps[0], Slot):
            step = writer.slots[steps[0].number]
            assert isinstance(step, int)
            _fetch(writer, load, step)


def _fetch(writer: Writer, load: Load, ahead: int) -> None:
    offset = 0 if load.at.offset is None else writer.slots[load.at.offset.number]
    assert isinstance(offset, int)
    slot = writer.extent_slot(("ahead", load.buffer, load.at), offset + ahead)
    writer.place(Prefetch(load.buffer, load.at._replace(offset=slot), load.dtype), writer.depth)
