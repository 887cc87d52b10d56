"""Weave results: a short axis that is innermost in memory goes out of the loops, into the stores.

Takes an elementwise schedule, gives an equal one in which each root has one entry for every
position along a short axis; their values take turns in memory, so that one store writes them all:

    stack([a, b], -1): y[i, k], k < 2       becomes       y[i, 0], y[i, 1] = a[i], b[i]

A store with a stride takes longer than whole vectors and the shuffles that order them, and a loop
over the short axis would write to each cache line as often as it has elements. Invariant: results
do not change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fjit.core.ir import Var
from fjit.lower.memory import Memory
from fjit.optimize import demand
from fjit.optimize import index as ix
from fjit.optimize.drafts import root_reads
from fjit.optimize.index import Axis
from fjit.optimize.schedule import Placed, Schedule

MOST_WOVEN: Final = 8
LEAST_WALKED: Final = 32
"""Elements along the other axis, below which there are few whole vectors."""
MOST_STATEMENTS: Final = 100
"""Values computed for all positions of the short axis: each is code of its own."""


def woven(
    env: demand.Env, plan: Schedule, memory: dict[Var, Memory], outputs: dict[Var, Memory]
) -> Schedule:
    """A plain kernel's schedule with the short axis of its results woven, if they have one."""
    if plan.cascade or plan.inner is None or not plan.rows or plan.stages > 1:
        return plan
    if any(q.cls != "store" or q.level != "inner" or q.guard for q in plan.placed):
        return plan
    for short, along in _pairs(plan):
        fits = all(_takes_turns(q, outputs[q.root.var], short, along) for q in plan.placed)
        if not fits or along.sym is not None or along.extent < LEAST_WALKED:
            continue
        placed = tuple(r for q in plan.placed for r in _at_each(q, short))
        if short == plan.inner and not _whole_vectors(env, placed, memory, along):
            continue
        if len(_computed(env, placed)) > MOST_STATEMENTS:
            continue
        rows = tuple(a for a in plan.rows if a not in (short, along))
        return plan._replace(rows=rows, inner=along, placed=placed, woven=short.extent)
    return plan


def _pairs(plan: Schedule) -> Iterator[tuple[Axis, Axis]]:
    """Short axes, each with the one that vectors run along then."""
    assert plan.inner is not None
    pairs = [(a, plan.inner) for a in plan.rows] + [(plan.inner, plan.rows[-1])]
    for short, along in pairs:
        if 1 < short.extent <= MOST_WOVEN and short.sym is None:
            yield short, along


def _takes_turns(q: Placed, memory: Memory, short: Axis, along: Axis) -> bool:
    """Whether a result's elements lie side by side along one axis, and then along the other."""
    size = q.root.var.aval.dtype.itemsize
    steps = ix.steps(q.at, memory.strides)
    return (steps.get(short), steps.get(along)) == (size, size * short.extent)


def _at_each(q: Placed, axis: Axis) -> list[Placed]:
    return [
        q._replace(at=ix.substitute(q.at, {axis: ix.Index(position)}))
        for position in range(axis.extent)
    ]


def _whole_vectors(
    env: demand.Env, placed: tuple[Placed, ...], memory: dict[Var, Memory], along: Axis
) -> bool:
    """Whether no operand has gaps along an axis, whose loads would cost what stores win."""
    for q in placed:
        for leaf in demand.walk(env, root_reads(q.root, q.at, q.guard))[0]:
            size = leaf.var.aval.dtype.itemsize
            own = memory[leaf.var]
            if own.scalar:
                continue
            steps = ix.steps(leaf.at, own.strides)
            others = tuple(ix.of(term) for term in steps if term != along)
            if abs(steps.get(along, 0)) not in (0, size) or along in ix.axes_of(others):
                return False
    return True


def _computed(env: demand.Env, placed: tuple[Placed, ...]) -> list[object]:
    roots = [r for q in placed for r in root_reads(q.root, q.at, q.guard)]
    return [at for places in demand.walk(env, roots)[1].values() for at in places]
