"""Which loops a group of roots shares: axes, their roles, stages; or the reason why none fit.

Takes roots (values to store, reductions, scans, filters) and the equations that may be computed in
place, gives a `Schedule` or a `Refusal`. The shared iteration space has axes in three roles:

    rows P (kept by every reduction), S (reduced, outer), I (innermost in memory, the vector axis)

    softmax(x) over axis 1    P=(axis 0) S=() I=(axis 1), stages max / sum / store
    x.sum(0), x.sum(1)        P=() S=(axis 0) I=(axis 1), one stage, classes outer and inner

Invariant: a value computed from reductions reads them at the row it belongs to.
"""

from __future__ import annotations

from typing import NamedTuple

from fjit.core import primitives as p
from fjit.core.ir import Var
from fjit.core.rules import ORDERED_OPS, PIVOTS
from fjit.optimize import chunks, demand
from fjit.optimize import index as ix
from fjit.optimize.drafts import (
    Draft,
    Refusal,
    Root,
    axes_of,
    leaves_of,
    loop_order_of,
    name_of,
    scanned,
    unify,
)
from fjit.optimize.index import Axis, Guard, Holds, Indices
from fjit.optimize.orders import Orders

MAX_ROW_BUFFER = 1 << 18
"""Bytes of a row that a worker keeps for later stages."""
SHORT = 512
"""Reduced innermost axes shorter than this are joined with the next one, whatever the layout."""
ROW_LIMIT = 1 << 16
"""Elements of a row that one task may walk several times when there is no other parallel work."""


class Placed(NamedTuple):
    """A root with the indices of its operand over the schedule's axes.

    `guard` restricts it to the elements a filter keeps; `reduced` are the axes it reduces; `cls` is
    store, inner, outer, whole, scan or filter; `stage` orders it among the loops over one row;
    `level` says where a store runs: "inner" in the innermost loop, "row" after I, "block" after
    S and I, "column" over I after S.
    """

    root: Root
    at: Indices
    guard: Guard
    reduced: tuple[Axis, ...]
    cls: str
    stage: int
    level: str


class Schedule(NamedTuple):
    """Loops for a group: see the module's docstring. `cascade` is "", "row" or "block".

    Of each root `woven` entries follow one another in `placed`, whose elements do so in memory.
    """

    rows: tuple[Axis, ...]
    outer: tuple[Axis, ...]
    inner: Axis | None
    placed: tuple[Placed, ...]
    cascade: str
    stages: int
    woven: int = 1

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes, outermost first."""
        return (*self.rows, *self.outer, *(() if self.inner is None else (self.inner,)))


def schedule(env: demand.Env, roots: tuple[Root, ...], orders: Orders) -> Schedule | Refusal:
    """Loops shared by `roots`, or a Refusal."""
    try:
        return _schedule(env, roots, orders)
    except demand.OutOfStepError:
        return Refusal("a filter's result is read by position, so it must be in memory")


def _schedule(env: demand.Env, roots: tuple[Root, ...], orders: Orders) -> Schedule | Refusal:
    unified = unify(env, roots)
    if isinstance(unified, Refusal):
        return unified
    return _classify(env, *unified, orders)


def _classify(
    env: demand.Env,
    drafts: list[Draft],
    results: dict[Var, Draft],
    domain: tuple[Axis, ...],
    orders: Orders,
) -> Schedule | Refusal:
    reads = {id(d): leaves_of(env, d) for d in drafts}
    for draft in drafts:
        for leaf in reads[id(draft)]:
            producer = results.get(leaf.var)
            if producer is not None and leaf.at != producer.kept():
                return Refusal(
                    f"a result of {name_of(producer)} is read at another row than its own"
                )
    packs = any(d.packs for d in drafts)
    loop_order = (
        _packing_order(drafts, domain) if packs else loop_order_of(env, drafts, domain, orders)
    )
    if isinstance(loop_order, Refusal):
        return loop_order
    scans = {scanned(d) for d in drafts if d.root.kind == "cumulative"}
    used = set(domain) if packs else {a for d in drafts for a in d.reduced()} | scans
    inner = loop_order[-1] if loop_order else None
    outer = tuple(a for a in loop_order if a in used and a is not inner)
    rows = tuple(a for a in loop_order if a not in used and a is not inner)
    return _stages(drafts, results, reads, (rows, outer, inner))


def _packing_order(drafts: list[Draft], domain: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The masks' axes in C order, then the others: rows are packed one after the other."""
    masked = {a for d in drafts for c in d.guard if isinstance(c, Holds) for a in ix.axes_of(c.at)}
    return (*[a for a in domain if a in masked], *[a for a in domain if a not in masked])


Roles = tuple[tuple[Axis, ...], tuple[Axis, ...], Axis | None]
"""Rows P, reduced outer axes S and the innermost axis I."""


def _stages(
    drafts: list[Draft],
    results: dict[Var, Draft],
    reads: dict[int, list[demand.Leaf]],
    roles: Roles,
) -> Schedule | Refusal:
    rows, outer, inner = roles
    classes = _classes(drafts, outer, inner)
    if isinstance(classes, Refusal):
        return classes
    stage: dict[int, int] = {}
    levels: dict[int, str] = {}
    cascades: set[str] = set()
    pending = list(drafts)
    while pending:
        left = []
        for draft in pending:
            sources = [results[leaf.var] for leaf in reads[id(draft)] if leaf.var in results]
            sources = [s for s in sources if s is not draft]
            if any(id(s) not in stage for s in sources):
                left.append(draft)
                continue
            found = _stage(draft, sources, classes, stage, roles)
            if isinstance(found, Refusal):
                return found
            stage[id(draft)], levels[id(draft)], needed = found
            cascades |= needed
        if len(left) == len(pending):
            return Refusal("the values depend on each other in a circle")
        pending = left
    placed = tuple(
        Placed(d.root, d.at, d.guard, d.reduced(), classes[id(d)], stage[id(d)], levels[id(d)])
        for d in drafts
    )
    return _checked(Schedule(rows, outer, inner, placed, "", 1 + max(stage.values())), cascades)


def _stage(
    draft: Draft,
    sources: list[Draft],
    classes: dict[int, str],
    stage: dict[int, int],
    roles: Roles,
) -> tuple[int, str, set[str]] | Refusal:
    """Stage and level of a draft whose sources have theirs, and classes that it cascades from."""
    rows, outer, inner = roles
    own, full = set(axes_of(draft.at)), {*rows, *outer, *(() if inner is None else (inner,))}
    needed = {classes[id(s)] for s in sources if classes[id(s)] in _ENDS}
    step = max([stage[id(s)] + (classes[id(s)] in _ENDS) for s in sources], default=0)
    for s in sources:
        if classes[id(s)] == "scan" and stage[id(s)] < step and not _kept(s, roles):
            return Refusal("a scan is read again after a reduction over its row")
    if own == full and (own or not needed):
        return step, "inner", needed
    level = _level(own, needed, roles)
    if level is None or draft.root.kind != "store":
        return Refusal(f"{name_of(draft)} covers only some axes of the loops it would share")
    if level != "inner":
        step = max([stage[id(s)] for s in sources], default=0)
    return step, level, set()


def _classes(
    drafts: list[Draft], outer: tuple[Axis, ...], inner: Axis | None
) -> dict[int, str] | Refusal:
    """What each draft does to the loops, by its identity."""
    classes: dict[int, str] = {}
    for draft in drafts:
        cls = _class(draft, outer, inner)
        if cls is None:
            return Refusal(f"{name_of(draft)} reduces other axes than its siblings")
        classes[id(draft)] = cls
    return classes


_ENDS = ("inner", "outer", "whole")


def _class(draft: Draft, outer: tuple[Axis, ...], inner: Axis | None) -> str | None:
    kind = draft.root.kind
    if kind == "store":
        return "filter" if draft.packs else "store"
    if kind == "cumulative":
        return "scan"
    reduced = set(draft.reduced())
    if inner is None or not reduced:
        return "inner" if not reduced else None
    if reduced == {inner}:
        return "inner"
    if outer and reduced == set(outer):
        return "outer"
    return "whole" if reduced == {*outer, inner} else None


def _kept(scan: Draft, roles: Roles) -> bool:
    """Whether a scan's row can be kept in a row buffer for later stages."""
    _, outer, inner = roles
    itemsize = scan.root.var.aval.dtype.itemsize
    return not outer and inner is not None and inner.extent * itemsize <= MAX_ROW_BUFFER


def _level(
    own: set[Axis], needed: set[str],
    roles: Roles,
) -> str | None:  # fmt: skip
    """Where a store over some of the axes runs, given the classes of reductions that it reads."""
    rows, outer, inner = roles
    if own == {*rows, *outer} and needed == {"inner"}:
        return "row"
    if own == set(rows) and needed <= {"inner", "whole"} and (not outer or needed == {"whole"}):
        return "row" if needed == {"inner"} else "block"
    if inner is not None and own == {*rows, inner} and needed and needed <= {"outer", "whole"}:
        return "column"
    return None


def _checked(schedule: Schedule, cascades: set[str]) -> Schedule | Refusal:
    """Decide the cascade's form and refuse rows that are too long to walk again and again."""
    refusal = _in_order_refusal(schedule)
    if refusal is not None:
        return refusal
    placed = schedule.placed
    refusal = _two_walks_refusal(schedule, cascades)
    if refusal is not None:
        return refusal
    if not cascades:
        return _chunk_refusal(schedule) or schedule
    if cascades == {"inner"} and all(q.cls != "scan" or not schedule.outer for q in placed):
        form = "row"
    elif "inner" in cascades and schedule.outer:
        return Refusal("rows and columns are both reduced and used again")
    else:
        form = "block"
    walked = schedule.inner.extent if schedule.inner else 1
    parallel = 1
    for axis in schedule.rows:
        parallel *= axis.extent
    for axis in schedule.outer:
        if form == "row":
            parallel *= axis.extent
        else:
            walked *= axis.extent
    if walked >= 2 * ROW_LIMIT or (walked > ROW_LIMIT // 2 and parallel < 4):
        return Refusal(f"a row of {walked} elements does not stay in cache for a second walk")
    schedule = schedule._replace(cascade=form)
    return _chunk_refusal(schedule) or schedule


def _chunk_refusal(schedule: Schedule) -> Refusal | None:
    """Why an ordered reduction would not have the chunks here that it has alone, if so."""
    outer, inner = schedule.outer, schedule.inner
    if inner is None:
        return None
    whole = bool(schedule.cascade) or any(q.cls in ("scan", "filter") for q in schedule.placed)
    for q in schedule.placed:
        eqn = q.root.eqn
        if q.cls not in _ENDS or eqn is None or eqn.get("op") not in ORDERED_OPS:
            continue
        if eqn.inputs[0].aval.dtype.kind != "f":
            continue
        if outer and q.cls != "inner":
            lost = whole and chunks.of_columns(outer, inner)[0] > 1
        else:
            lost = (whole or bool(outer)) and chunks.of_row(inner)[0] > 1
        if lost:
            return Refusal("a floating sum is cut into chunks, which the others cannot be")
    return None


def _two_walks_refusal(schedule: Schedule, cascades: set[str]) -> Refusal | None:
    """Why columns whose rows are walked twice cannot share them, if so."""
    walked = [q for q in schedule.placed if q.level == "inner"]
    for q in walked:
        if q.cls != "outer" or q.root.eqn is None or q.root.eqn.get("op") not in PIVOTS:
            continue
        apart = schedule.stages > 1 and "inner" not in cascades
        for other in walked:
            if apart and other.stage != q.stage:
                continue
            eqn = other.root.eqn
            if other.cls != "outer" or eqn is None or eqn.primitive is p.argreduce:
                return Refusal("columns walked twice share their rows with sums of columns alone")
    return None


def _in_order_refusal(schedule: Schedule) -> Refusal | None:
    """Why the totals, filters and scans cannot keep their order in one set of loops, if so."""
    placed = schedule.placed
    classes = {q.cls for q in placed}
    short = schedule.inner is not None and schedule.inner.extent < SHORT
    if "whole" in classes and classes & {"inner", "outer", "scan"} and short:
        return Refusal("a total over short rows adds in another order than sums of rows or columns")
    scans = [q for q in placed if q.cls == "scan"]
    filters = [q for q in placed if q.cls == "filter"]
    if filters and (schedule.stages > 1 or scans or len({q.guard for q in filters}) > 1):
        return Refusal("a filter's results are packed in one pass over one mask")
    if filters and len(filters) < len(placed):
        return Refusal("packing a filter's results runs in order, other results run in parallel")
    if any(q.guard and q.root.eqn is not None and q.cls == "scan" for q in placed):
        return Refusal("a scan over a filtered axis needs the filtered values in memory")
    for scan in scans:
        axes = set(axes_of(scan.at))
        if len(schedule.outer) > 1 or len(axes) != len(schedule.axes):
            return Refusal("scans along different axes")
        if schedule.outer and schedule.inner is not None:
            along = ix.bare_axis(scan.at[scan.root.eqn.param("axis")])  # type: ignore[union-attr,index]
            if along is not schedule.outer[0] and along != schedule.outer[0]:
                return Refusal("a scan along the vector axis and a reduction of another axis")
    return None
