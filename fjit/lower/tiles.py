"""When a kernel walks its last two axes in tiles: an operand lies across the others' memory order.

Takes a schedule and strides, gives a verdict. In x.T + y every cache line of x serves several rows,
but only if those rows come before the line is evicted; tiles of rows and columns see to that.
"""

from __future__ import annotations

from typing import Final

from fjit.core.ir import Var
from fjit.lower.build import Memory
from fjit.optimize import demand
from fjit.optimize.drafts import root_reads
from fjit.optimize.orders import axis_strides
from fjit.optimize.schedule import Schedule

TILE_ROWS: Final = 16
"""Rows of a tile: a cache line of float32, and as many vectors as are turned at once."""
TILE_COLUMNS: Final = 256
MOST_TILED: Final = 16
"""Most statements of a body that is repeated for each row of a tile."""
CACHE_LINE: Final = 64


def crosses(env: demand.Env, plan: Schedule, memory: dict[Var, Memory]) -> bool:
    """Whether a plain elementwise kernel reads an operand across its memory order."""
    if not plan.rows or plan.inner is None or plan.stages > 1:
        return False
    if any(q.cls != "store" or q.level != "inner" for q in plan.placed):
        return False
    axes = (plan.rows[-1], plan.inner)
    if any(a.sym is not None or a.extent < TILE_ROWS for a in axes):
        return False
    for q in plan.placed:
        for leaf in demand.walk(env, root_reads(q.root, q.at, q.guard))[0]:
            if memory[leaf.var].scalar:
                continue
            across, along = axis_strides(leaf.at, memory[leaf.var].strides, axes)
            if abs(across) == leaf.var.aval.dtype.itemsize and abs(along) > CACHE_LINE:
                return True
    return False
