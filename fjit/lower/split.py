"""Split an axis in two where an operand repeats along it, so that no index needs a division.

Takes an elementwise schedule, gives an equal one with more axes:

    repeat(x, 3): y[j] = x[j div 3], j < 3n        becomes        y[3 q + r] = x[q], q < n, r < 3
    tile(x, 2):   y[j] = x[j mod n], j < 2n        becomes        y[n q + r] = x[r], q < 2, r < n

Invariant: results do not change. Axes of reductions stay whole: the order of a sum follows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fjit.core.ir import Var
from fjit.lower.memory import Memory
from fjit.optimize import demand
from fjit.optimize import index as ix
from fjit.optimize.drafts import root_reads
from fjit.optimize.index import Axis, Div, Index, Indices, Mod
from fjit.optimize.schedule import Schedule

MOST_AXES: Final = 8
"""Axes of a schedule beyond which none is split: each is one more to find for every task."""


def split(env: demand.Env, plan: Schedule, memory: dict[Var, Memory]) -> Schedule:
    """Split axes until no operand of an elementwise kernel repeats along one."""
    if any(q.cls != "store" or q.level != "inner" for q in plan.placed) or plan.cascade:
        return plan
    while len(plan.axes) < MOST_AXES:
        found = next(_repeats(env, plan, memory), None)
        if found is None:
            break
        plan = _split(plan, *found)
    return plan


def _repeats(
    env: demand.Env, plan: Schedule, memory: dict[Var, Memory]
) -> Iterator[tuple[Axis, int]]:
    """Axes with what divides them, of operands in memory that are not walked along as a whole."""
    for q in plan.placed:
        for leaf in demand.walk(env, root_reads(q.root, q.at, q.guard))[0]:
            if memory[leaf.var].scalar:
                continue
            for (axis, by), (whole, rest) in _steps(leaf.at, memory[leaf.var].strides).items():
                if axis in plan.axes and axis.extent % by == 0 and whole != rest * by:
                    yield axis, by


def _steps(at: Indices, strides: tuple[int, ...]) -> dict[tuple[Axis, int], tuple[int, int]]:
    """How far an address goes with an axis's quotient and with its remainder, by what divides.

    Where the first is the second times the divisor, the axis was joined of two (lower/collapse.py).
    """
    found: dict[tuple[Axis, int], tuple[int, int]] = {}
    for term, step in ix.steps(at, strides).items():
        axis = ix.bare_axis(term.inner) if isinstance(term, Div | Mod) else None
        if axis is None or axis.sym is not None or not isinstance(term, Div | Mod):
            continue
        whole, rest = found.get((axis, term.by), (0, 0))
        is_whole = isinstance(term, Div)
        found[axis, term.by] = (whole + step, rest) if is_whole else (whole, rest + step)
    return found


def _split(plan: Schedule, axis: Axis, by: int) -> Schedule:
    number = max(a.number for a in plan.axes)
    high, low = Axis(number + 1, axis.extent // by), Axis(number + 2, by)
    names = {axis: Index(0, ((high, by), (low, 1)))}
    placed = tuple(
        q._replace(at=ix.substitute(q.at, names), guard=ix.substitute_guard(q.guard, names))
        for q in plan.placed
    )
    if axis == plan.inner:
        return plan._replace(rows=(*plan.rows, high), inner=low, placed=placed)
    at = plan.rows.index(axis)
    rows = (*plan.rows[:at], high, low, *plan.rows[at + 1 :])
    return plan._replace(rows=rows, placed=placed)
