"""Which axis of a kernel is cut into the chunks that threads work on.

Takes a schedule, gives the axis, how many chunks it has and how long they are.

    x.sum()        chunks of the innermost axis        x.sum(0)    chunks of rows
    softmax(x)     none: rows are tasks enough

Invariant: an ordered reduction has the chunks of optimize/chunks.py, whatever else there is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fjit.lower import order
from fjit.optimize import chunks
from fjit.optimize.index import Axis
from fjit.optimize.schedule import Schedule

MANY_ROWS = 64
"""Rows of a kernel without reductions that are tasks enough."""


class Chunks(NamedTuple):
    """The axis that is cut (None: none is), the number of its chunks, and their length."""

    axis: Axis | None
    number: int = 1
    length: int = 0


def chunks_of(
    plan: Schedule, inner: Axis, *, quits: bool, most: chunks.Most = chunks.CPU
) -> Chunks:
    """The chunks of a kernel; of any and all (`quits`) each row is better left to one task."""
    if plan.cascade or any(q.cls in ("scan", "filter") for q in plan.placed):
        return Chunks(None)
    rows = math.prod(a.extent for a in plan.rows)
    ends = {q.cls for q in plan.placed if q.cls in order.ENDS}
    if quits and rows > 1:
        return Chunks(None)
    if plan.outer:
        axis, (count, length) = plan.outer[0], chunks.of_columns(plan.outer, inner, most)
        wanted = bool(ends & {"outer", "whole"})
    else:
        axis = inner
        count, length = chunks.of_row(inner, most) if ends else chunks.of_elements(inner, most)
        wanted = bool(ends) or rows < MANY_ROWS
    return Chunks(axis, count, length) if wanted and count > 1 else Chunks(None)
