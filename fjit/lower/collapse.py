"""Collapse adjacent axes of a schedule into one where every access walks them as one.

Takes a schedule and the element strides of what it reads, gives an equal schedule with fewer axes:

    rows (a, b) with strides (128, 1) everywhere     becomes     one axis of a*b elements

Invariant: results do not change; for reductions the collapse depends on shapes alone, because the
order of a floating sum follows the axes (docs/numerics.md).
"""

from __future__ import annotations

from typing import NamedTuple

from fjit.core.ir import Eqn, Var
from fjit.lower.memory import Memory
from fjit.lower.split import split
from fjit.lower.weaving import woven
from fjit.optimize import cost, demand
from fjit.optimize import index as ix
from fjit.optimize.drafts import root_reads
from fjit.optimize.index import Axis, Holds, Indices
from fjit.optimize.schedule import SHORT, Placed, Schedule

FEW, FEW_HEAVY, MANY = 2, 4, 32
"""A plain kernel's innermost axis of so few elements changes places with one of MANY.

Masked vectors take rows of 3 and 4 in half the time, unless elementary functions are computed in
their idle lanes (exp of rows of 3 float64: 1.8 ms, and 0.7 with a stride).
"""


class Positions(NamedTuple):
    """Axes whose index is needed as a value (iota), and what conditions test (pad, concatenate)."""

    values: set[Axis]
    guards: set[ix.Index]


Access = tuple[Indices, tuple[int, ...]]  # indices of a read or written value, its element strides


def collapsed(
    env: demand.Env, plan: Schedule, memory: dict[Var, Memory], outputs: dict[Var, Memory]
) -> Schedule:
    """A kernel's schedule with as few axes as its accesses allow, and always a vector axis."""
    plan = split(env, _joined(env, plan, memory, outputs), memory)
    plan = woven(env, plan, memory, outputs)
    if plan.woven > 1:
        return _joined(env, plan, memory, outputs)
    plan = _turned(plan, FEW_HEAVY if any(map(cost.is_elementary, env.values())) else FEW)
    return plan if plan.inner is not None else plan._replace(inner=Axis(0, 1))


def _turned(plan: Schedule, few: int) -> Schedule:
    """Let the vector run over the next axis, with a stride, where the innermost one is short."""
    if plan.inner is None or not plan.rows or any(q.cls != "store" for q in plan.placed):
        return plan
    last = plan.rows[-1]
    if plan.inner.extent > few or last.extent < MANY or last.sym is not None:
        return plan
    if plan.cascade or any(q.level != "inner" for q in plan.placed):
        return plan
    return plan._replace(rows=(*plan.rows[:-1], plan.inner), inner=last)


def _joined(
    env: demand.Env, plan: Schedule, memory: dict[Var, Memory], outputs: dict[Var, Memory]
) -> Schedule:
    if len(plan.axes) < 2 or any(q.cls in ("scan", "filter") for q in plan.placed):
        return plan
    results = {q.root.var for q in plan.placed if q.root.eqn is not None}
    accesses = []
    positions = Positions(set(), set())
    for q in plan.placed:
        leaves, computed = demand.walk(env, root_reads(q.root, q.at, q.guard))
        cuttable = plan.stages == 1 and all(q.cls == "store" for q in plan.placed)
        for leaf in leaves:
            if leaf.guarded and cuttable and len(ix.axes_of(leaf.at)) < len(plan.axes):
                continue  # an edge: the loop is cut around it, see lower/segments.py
            if leaf.var not in results and not memory[leaf.var].scalar:
                accesses.append((leaf.at, memory[leaf.var].strides))
        if q.root.var in outputs and q.root.eqn is None:
            accesses.append((q.at, outputs[q.root.var].strides))
        for var, places in computed.items():
            _note_positions(env[var], places, positions)
        if q.root.eqn is not None and q.root.eqn.primitive.name == "argreduce":
            positions.values.update(q.reduced)
    return collapse(plan, accesses, positions)


def _note_positions(eqn: Eqn, places: demand.Places, positions: Positions) -> None:
    """Note axes whose position is itself needed: by iota as a value, by guards in conditions."""
    if eqn.primitive.family != "view":
        return
    for at in places:
        source = demand.step(eqn, at)
        if isinstance(source, demand.Position):
            positions.values.update(ix.axes_of((source.inner,)))
        elif isinstance(source, demand.Choice):
            for guard, _ in source.options:
                for c in guard:
                    if not isinstance(c, Holds):
                        positions.guards.add(c.inner)


def collapse(schedule: Schedule, accesses: list[Access], positions: Positions) -> Schedule:
    """Join axes until none can be joined. `positions` are axes whose index is itself needed."""
    joined = True
    while joined:
        joined = False
        for outer, inner in _pairs(schedule):
            if not _joinable(schedule, accesses, positions, outer, inner):
                continue
            schedule, accesses, positions = _join(schedule, accesses, positions, outer, inner)
            joined = True
            break
    return schedule


def _pairs(schedule: Schedule) -> list[tuple[Axis, Axis]]:
    """Neighbours in loop order that play one role."""
    pairs = list(zip(schedule.rows, schedule.rows[1:], strict=False))
    inner = schedule.inner
    if inner is None:
        return pairs
    classes = {q.cls for q in schedule.placed}
    if classes == {"store"} and schedule.rows:
        pairs.append((schedule.rows[-1], inner))
    totals = classes <= {"whole", "store"} and schedule.cascade != "row"
    plain = all(q.level in ("inner", "block") for q in schedule.placed)
    if schedule.outer and totals and plain:
        pairs.append((schedule.outer[-1], inner))
    return pairs[::-1]


def _joinable(
    schedule: Schedule,
    accesses: list[Access],
    positions: Positions,
    outer: Axis,
    inner: Axis,
) -> bool:
    if outer.sym is not None or inner.sym is not None:
        return False
    if inner == schedule.inner and outer in schedule.outer:
        return inner.extent < SHORT
    if {outer, inner} & positions.values:
        return False
    tested = [((g,), (1,)) for g in positions.guards if inner in ix.axes_of((g,))]
    return all(_walks_as_one(at, own, outer, inner) for at, own in (*accesses, *tested))


def _walks_as_one(at: Indices, own: tuple[int, ...], outer: Axis, inner: Axis) -> bool:
    steps = ix.steps(at, own)
    others = tuple(ix.of(term) for term in steps if not isinstance(term, Axis))
    if {outer, inner} & ix.axes_of(others):
        return False
    return steps.get(outer, 0) == steps.get(inner, 0) * inner.extent


def _join(
    schedule: Schedule,
    accesses: list[Access],
    positions: Positions,
    outer: Axis,
    inner: Axis,
) -> tuple[Schedule, list[Access], Positions]:
    both = Axis(inner.number, outer.extent * inner.extent)
    whole = ix.of(both)
    names = {outer: ix.quotient(whole, inner.extent), inner: ix.remainder(whole, inner.extent)}

    def axes(group: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(both if a == inner else a for a in group if a != outer)

    placed = tuple(
        q._replace(
            at=ix.substitute(q.at, names),
            guard=ix.substitute_guard(q.guard, names),
            reduced=axes(q.reduced),
        )
        for q in schedule.placed
    )
    joined = schedule._replace(
        rows=axes(schedule.rows) if inner in schedule.rows else tuple(
            a for a in schedule.rows if a != outer
        ),
        outer=tuple(a for a in schedule.outer if a != outer),
        inner=both if schedule.inner == inner else schedule.inner,
        placed=_reclassed(placed, schedule, outer),
        cascade="row" if schedule.cascade and schedule.outer == (outer,) else schedule.cascade,
    )  # fmt: skip
    guards = {ix.joined(g) for g in ix.substitute(tuple(positions.guards), names)}
    return (
        joined,
        [(ix.substitute(at, names), own) for at, own in accesses],
        positions._replace(guards=guards),
    )


def _reclassed(placed: tuple[Placed, ...], schedule: Schedule, gone: Axis) -> tuple[Placed, ...]:
    """Whole reductions become inner ones when the last outer axis joins the inner axis."""
    if schedule.outer != (gone,):
        return placed
    swap = {"whole": "inner"}
    levels = {"block": "row"}
    return tuple(
        q._replace(cls=swap.get(q.cls, q.cls), level=levels.get(q.level, q.level)) for q in placed
    )
