"""When a kernel walks tiles of two axes: an operand lies across the others' memory order.

Takes a schedule and strides, gives a verdict. In x.T + y every cache line of x serves several rows.

On a CPU those rows have to come before the line is evicted: tiles of the last two axes see to that
(`crosses`). On a GPU tasks are rows, of which a block of threads takes a tile at a time: the nest's
text has to say along which axes of tasks operands lie side by side (`across`).

    x.T + y, in rows of y     tasks i1, vector i2     load x[i1*unit + i2*s], load y[i1*s + i2*unit]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fjit.core.ir import Var
from fjit.lower.memory import Memory
from fjit.optimize import demand
from fjit.optimize.drafts import root_reads
from fjit.optimize.index import Axis, Indices, steps
from fjit.optimize.orders import axis_strides
from fjit.optimize.schedule import Schedule

TILE_ROWS: Final = 16
"""Rows of a tile: a cache line of float32, and as many vectors as are turned at once."""
TILE_COLUMNS: Final = 256
MOST_TILED: Final = 16
"""Most statements of a body that is repeated for each row of a tile."""
CACHE_LINE: Final = 64
LEAST_ACROSS: Final = 3
"""Elements side by side along an axis of tasks, for which a GPU's blocks take tiles."""
LEAST_ALONG: Final = 8
"""Elements along the vector axis of such a tile."""


def crosses(env: demand.Env, plan: Schedule, memory: dict[Var, Memory]) -> bool:
    """Whether a plain elementwise kernel reads an operand across its memory order."""
    if not _is_plain(plan) or plan.inner is None:
        return False
    axes = (plan.rows[-1], plan.inner)
    if any(a.sym is not None or a.extent < TILE_ROWS for a in axes):
        return False
    for at, memory_of, size in _reads(env, plan, memory):
        across, along = axis_strides(at, memory_of.strides, axes)
        if abs(across) == size and abs(along) > CACHE_LINE:
            return True
    return False


def across(
    env: demand.Env, plan: Schedule, memory: dict[Var, Memory], outputs: dict[Var, Memory]
) -> tuple[Axis, ...]:
    """Axes of tasks of a plain elementwise kernel along which an operand or a result is contiguous.

    Not where it is so along the vector axis too, or does not go along it.
    """
    inner = plan.inner
    if not _is_plain(plan) or inner is None or inner.extent < LEAST_ALONG:
        return ()
    found = set()
    written = [(q.at, outputs[q.root.var], q.root.var.aval.dtype.itemsize) for q in plan.placed]
    for at, memory_of, size in (*_reads(env, plan, memory), *written):
        step = steps(at, memory_of.strides)
        if abs(step.get(inner, 0)) not in (0, size):
            found |= {axis for axis in plan.rows if abs(step.get(axis, 0)) == size}
    return tuple(a for a in plan.rows if a in found and a.extent >= LEAST_ACROSS and a.sym is None)


def _is_plain(plan: Schedule) -> bool:
    """Whether a kernel of several axes only stores what it computes element by element."""
    if not plan.rows or plan.stages > 1:
        return False
    return all(q.cls == "store" and q.level == "inner" for q in plan.placed)


def _reads(
    env: demand.Env, plan: Schedule, memory: dict[Var, Memory]
) -> Iterator[tuple[Indices, Memory, int]]:
    """Operands in memory: at which elements, where they lie, bytes of an element."""
    for q in plan.placed:
        for leaf in demand.walk(env, root_reads(q.root, q.at, q.guard))[0]:
            if not memory[leaf.var].scalar:
                yield leaf.at, memory[leaf.var], leaf.var.aval.dtype.itemsize
