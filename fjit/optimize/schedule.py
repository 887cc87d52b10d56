"""Which loops a group of roots shares: axes, their roles, stages; or the reason why none fit.

Takes roots (values to store, reductions, scans, filters) and the equations that may be computed in
place, gives a `Schedule` or a `Refusal`. The shared iteration space has axes in three roles:

    rows P (kept by every reduction), S (reduced, outer), I (innermost in memory, the vector axis)

    softmax(x) over axis 1    P=(axis 0) S=() I=(axis 1), stages max / sum / store
    x.sum(0), x.sum(1)        P=() S=(axis 0) I=(axis 1), one stage, classes outer and inner

Invariant: a value computed from reductions reads them at the row it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Literal, Shape, Sym, Var
from fjit.frontend.layout import k_order
from fjit.optimize import demand
from fjit.optimize import index as ix
from fjit.optimize.index import ZERO, Axis, Guard, Holds, Index, Indices, Lockstep
from fjit.optimize.orders import Orders, axis_strides

MAX_ROW_BUFFER = 1 << 18
"""Bytes of a row that a worker keeps for later stages."""
SHORT = 512
"""Reduced innermost axes shorter than this are joined with the next one, whatever the layout."""
ROW_LIMIT = 1 << 16
"""Elements of a row that one task may walk several times when there is no other parallel work."""


@dataclass(frozen=True, slots=True, eq=False)
class Root:
    """What a kernel computes: a reduction or scan (`eqn`), or a value to store (`eqn` None)."""

    var: Var
    eqn: Eqn | None

    @property
    def operand(self) -> Atom:
        """The value whose elements the root walks over."""
        return self.var if self.eqn is None else self.eqn.inputs[0]

    @property
    def kind(self) -> str:
        """store, reduction or cumulative."""
        return "store" if self.eqn is None else self.eqn.primitive.family


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
    """Loops for a group: see the module's docstring. `cascade` is "", "row" or "block"."""

    rows: tuple[Axis, ...]
    outer: tuple[Axis, ...]
    inner: Axis | None
    placed: tuple[Placed, ...]
    cascade: str
    stages: int

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes, outermost first."""
        return (*self.rows, *self.outer, *(() if self.inner is None else (self.inner,)))


class Refusal(NamedTuple):
    """Why roots do not share loops."""

    reason: str


class _InStep(Mapping[Var, Eqn]):
    """The producers of filtered values among those of `env`."""

    def __init__(self, env: demand.Env) -> None:
        self.env = env

    def __contains__(self, var: object) -> bool:
        return isinstance(var, Var) and not var.aval.is_static and var in self.env

    def __getitem__(self, var: Var) -> Eqn:
        return self.env[var]

    def __iter__(self) -> Iterator[Var]:
        return (v for v in self.env if v in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Space:
    """Fresh axes for each root, then one set of axes for all."""

    def __init__(self, env: demand.Env) -> None:
        self.env = env
        self.number = 0

    def axis(self, extent: int, sym: Sym | None = None) -> Index:
        if extent == 1 and sym is None:
            return ZERO
        self.number += 1
        return ix.of(Axis(self.number, extent, sym))

    def place(self, shape: Shape, filtered: set[Sym]) -> tuple[Indices, Guard]:
        """Fresh axes for an operand of `shape`; a `filtered` axis walks over its mask."""
        at: list[Index] = []
        guard: list[ix.Condition] = []
        for extent in shape:
            if isinstance(extent, int):
                at.append(self.axis(extent))
            elif extent in filtered:
                base, inner = self.place(extent.origin.aval.shape, filtered)
                at.append(ix.of(Lockstep(extent, base)))
                guard.extend((*inner, Holds(extent.origin, base)))
            else:
                at.append(self.axis(extent.bound, extent))
        return tuple(at), tuple(guard)


def _flat(at: Indices) -> list[Index]:
    """Indices with a filter's position replaced by the mask's indices."""
    out: list[Index] = []
    for index in at:
        term = index.terms[0][0] if index.terms else None
        out.extend(_flat(term.at) if isinstance(term, Lockstep) else [index])
    return out


def _axes(at: Indices) -> tuple[Axis, ...]:
    found = []
    for index in _flat(at):
        axis = ix.bare_axis(index)
        if axis is not None:
            found.append(axis)
    return tuple(found)


def _volume(at: Indices) -> int:
    total = 1
    for axis in _axes(at):
        total *= axis.extent
    return total


def _rename(at: Indices, names: dict[Axis, Axis]) -> Indices:
    out: list[Index] = []
    for index in at:
        term = index.terms[0][0] if index.terms else None
        if isinstance(term, Lockstep):
            out.append(ix.of(Lockstep(term.sym, _rename(term.at, names))))
        elif isinstance(term, Axis):
            out.append(ix.of(names.get(term, term)))
        else:
            out.append(index)
    return tuple(out)


def _rename_guard(guard: Guard, names: dict[Axis, Axis]) -> Guard:
    return tuple(c._replace(at=_rename(c.at, names)) if isinstance(c, Holds) else c for c in guard)


def filters(env: demand.Env, atom: Atom, symbols: set[Sym]) -> set[Sym] | Refusal:
    """Symbols along which an operand is computed at its mask's positions, not read from memory."""
    found, stored = set(symbols), set()
    computed: set[Sym] = set()
    seen: set[Atom] = set()
    stack = [atom]
    while stack:
        value = stack.pop()
        if value in seen or isinstance(value, Literal) or value.aval.is_static:
            continue
        seen.add(value)
        mine = {e for e in value.aval.shape if isinstance(e, Sym)}
        found |= mine
        if value not in env:
            stored |= mine
            continue
        if env[value].primitive is p.compress:
            computed.add(env[value].param("extent"))  # type: ignore[arg-type]
        stack.extend(env[value].inputs)
    if computed & stored:
        return Refusal("filtered values are read both from memory and at their mask's positions")
    return {e for e in found - stored if e.origin.aval.dtype.kind == "b"}


class _Draft:
    """A root while its axes are being unified with the group's."""

    def __init__(self, root: Root, space: _Space, filtered: set[Sym]) -> None:
        self.root = root
        shape = root.operand.aval.shape
        self.at, self.guard = space.place(shape, filtered)
        self.done = False

    @property
    def packs(self) -> bool:
        """Whether the root stores what a filter keeps."""
        return self.root.eqn is None and bool(self.guard)

    def unify(self, names: dict[Axis, Axis]) -> None:
        self.at = _rename(self.at, names)
        self.guard = _rename_guard(self.guard, names)
        self.done = True

    def kept(self) -> Indices:
        """Indices of the root's own result."""
        eqn = self.root.eqn
        if eqn is None or eqn.primitive.family != "reduction":
            return self.at
        axes: tuple[int, ...] = eqn.param("axes")  # type: ignore[assignment]
        return tuple(i for k, i in enumerate(self.at) if k not in axes)

    def reduced(self) -> tuple[Axis, ...]:
        eqn = self.root.eqn
        if eqn is None or eqn.primitive.family != "reduction":
            return ()
        axes: tuple[int, ...] = eqn.param("axes")  # type: ignore[assignment]
        return _axes(tuple(i for k, i in enumerate(self.at) if k in axes))


def schedule(env: demand.Env, roots: tuple[Root, ...], orders: Orders) -> Schedule | Refusal:
    """Loops shared by `roots`, or a Refusal."""
    try:
        return _schedule(env, roots, orders)
    except demand.OutOfStepError:
        return Refusal("a filter's result is read by position, so it must be in memory")


def _schedule(env: demand.Env, roots: tuple[Root, ...], orders: Orders) -> Schedule | Refusal:
    space = _Space(env)
    drafts = []
    for root in roots:
        symbols = {extent for extent in root.operand.aval.shape if isinstance(extent, Sym)}
        filtered = filters(env, root.operand, symbols) if symbols else symbols
        if isinstance(filtered, Refusal):
            return filtered
        drafts.append(_Draft(root, space, filtered))
    results = {d.root.var: d for d in drafts if d.root.eqn is not None}
    primary = max(
        drafts, key=lambda d: (len(_axes(d.at)), _volume(d.at), d.root.kind == "reduction")
    )
    primary.done = True
    domain = _axes(primary.at)
    refusal = _unify(env, drafts, results, primary, domain)
    if refusal is not None:
        return refusal
    return _classify(env, drafts, results, domain, orders)


def _leaves(env: demand.Env, draft: _Draft) -> list[demand.Leaf]:
    return demand.walk(env, root_reads(draft.root, draft.at, draft.guard))[0]


def root_reads(root: Root, at: Indices, guard: Guard) -> list[tuple[Atom, Indices]]:
    """The elements that one step of a root reads."""
    held: list[tuple[Atom, Indices]] = [(c.atom, c.at) for c in guard if isinstance(c, Holds)]
    return [(root.operand, at), *held]


def _unify(
    env: demand.Env,
    drafts: list[_Draft],
    results: dict[Var, _Draft],
    primary: _Draft,
    domain: tuple[Axis, ...],
) -> Refusal | None:
    """Give every root the primary root's axes, through the reductions it reads or by shape."""
    pending = [d for d in drafts if not d.done]
    while pending:
        left = []
        for draft in pending:
            names = _names(env, draft, results, domain)
            if names is None:
                left.append(draft)
            else:
                draft.unify(names)
        if len(left) == len(pending):
            shapes = f"{left[0].root.operand.aval} and {primary.root.operand.aval}"
            return Refusal(f"different iteration spaces: {shapes}")
        pending = left
    return None


def _names(
    env: demand.Env, draft: _Draft, results: dict[Var, _Draft], domain: tuple[Axis, ...]
) -> dict[Axis, Axis] | None:
    own = _axes(draft.at)
    if [(a.extent, a.sym) for a in own] == [(a.extent, a.sym) for a in domain]:
        return dict(zip(own, domain, strict=True))
    names: dict[Axis, Axis] = {}
    for leaf in _leaves(env, draft):
        producer = results.get(leaf.var)
        if producer is None or not producer.done:
            continue
        for mine, theirs in zip(leaf.at, producer.kept(), strict=True):
            a, b = ix.bare_axis(mine), ix.bare_axis(theirs)
            if a is None or b is None or a.extent != b.extent or names.get(a, b) != b:
                continue
            names[a] = b
    return names if len(names) == len(own) and len(set(names.values())) == len(own) else None


def _classify(
    env: demand.Env,
    drafts: list[_Draft],
    results: dict[Var, _Draft],
    domain: tuple[Axis, ...],
    orders: Orders,
) -> Schedule | Refusal:
    reads = {id(d): _leaves(env, d) for d in drafts}
    for draft in drafts:
        for leaf in reads[id(draft)]:
            producer = results.get(leaf.var)
            if producer is not None and leaf.at != producer.kept():
                return Refusal(f"a result of {_name(producer)} is read at another row than its own")
    packs = any(d.packs for d in drafts)
    loop_order = (
        _packing_order(drafts, domain) if packs else _loop_order(env, drafts, domain, orders)
    )
    if isinstance(loop_order, Refusal):
        return loop_order
    scans = {_scanned(d) for d in drafts if d.root.kind == "cumulative"}
    used = set(domain) if packs else {a for d in drafts for a in d.reduced()} | scans
    inner = loop_order[-1] if loop_order else None
    outer = tuple(a for a in loop_order if a in used and a is not inner)
    rows = tuple(a for a in loop_order if a not in used and a is not inner)
    return _stages(drafts, results, reads, (rows, outer, inner))


def _packing_order(drafts: list[_Draft], domain: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The masks' axes in C order, then the others: rows are packed one after the other."""
    masked = {a for d in drafts for c in d.guard if isinstance(c, Holds) for a in ix.axes_of(c.at)}
    return (*[a for a in domain if a in masked], *[a for a in domain if a not in masked])


def _name(draft: _Draft) -> str:
    eqn = draft.root.eqn
    return "a stored value" if eqn is None else f"{eqn.primitive.name}[{eqn.get('op', '')}]"


def _scanned(draft: _Draft) -> Axis | None:
    assert draft.root.eqn is not None
    axis: int = draft.root.eqn.param("axis")  # type: ignore[assignment]
    return ix.bare_axis(draft.at[axis])


def _loop_order(
    env: demand.Env, drafts: list[_Draft], domain: tuple[Axis, ...], orders: Orders
) -> tuple[Axis, ...] | Refusal:
    """The order in which floating sums, products and scans walk by themselves; else that of all."""
    ordered = [d for d in drafts if _is_ordered(d)]
    leading = [d for d in ordered if set(_axes(d.at)) == set(domain)][:1]
    loop_order = _order(env, leading or drafts, domain, orders)
    for draft in ordered:
        own = _axes(draft.at)
        if _order(env, [draft], own, orders) != tuple(a for a in loop_order if a in own):
            return Refusal(f"{_name(draft)} would meet its terms in another order")
    return loop_order


def _order(
    env: demand.Env, drafts: list[_Draft], domain: tuple[Axis, ...], orders: Orders
) -> tuple[Axis, ...]:
    """Loop order, outermost first: K-order of the results and of what they are computed from."""
    rows: dict[tuple[int, ...], None] = {}
    for draft in drafts:
        if draft.root.eqn is None and set(_axes(draft.at)) == set(domain):
            rows[axis_strides(draft.at, orders.layout(draft.root.var), domain)] = None
        reads = root_reads(draft.root, draft.at, draft.guard)
        for leaf in demand.walk(_InStep(env), reads)[0]:
            for row in orders.rows(leaf.var):
                rows[axis_strides(leaf.at, row, domain)] = None
    return tuple(domain[k] for k in k_order(len(domain), list(rows)))


def _is_ordered(draft: _Draft) -> bool:
    """Whether the order of a reduction's or scan's terms shows in its result."""
    eqn = draft.root.eqn
    if eqn is None or eqn.get("op") not in ("sum", "prod"):
        return False
    return eqn.inputs[0].aval.dtype.kind == "f"


def _stages(
    drafts: list[_Draft],
    results: dict[Var, _Draft],
    reads: dict[int, list[demand.Leaf]],
    roles: tuple[tuple[Axis, ...], tuple[Axis, ...], Axis | None],
) -> Schedule | Refusal:
    rows, outer, inner = roles
    classes = _classes(drafts, outer, inner)
    if isinstance(classes, Refusal):
        return classes
    stage: dict[int, int] = {}
    levels: dict[int, str] = {}
    cascades: set[str] = set()
    pending = list(drafts)
    full = {*rows, *outer, *(() if inner is None else (inner,))}
    while pending:
        left = []
        for draft in pending:
            sources = [results[leaf.var] for leaf in reads[id(draft)] if leaf.var in results]
            sources = [s for s in sources if s is not draft]
            if any(id(s) not in stage for s in sources):
                left.append(draft)
                continue
            own = set(_axes(draft.at))
            needed = {classes[id(s)] for s in sources if classes[id(s)] in _ENDS}
            level = "inner"
            if own != full or (not own and needed):
                level_or_none = _level(own, needed, roles)
                if level_or_none is None or draft.root.kind != "store":
                    return Refusal(
                        f"{_name(draft)} covers only some axes of the loops it would share"
                    )
                level = level_or_none
            elif needed:
                cascades |= needed
            levels[id(draft)] = level
            step = max([stage[id(s)] + (classes[id(s)] in _ENDS) for s in sources], default=0)
            for s in sources:
                if classes[id(s)] == "scan" and stage[id(s)] < step and not _kept(s, roles):
                    return Refusal("a scan is read again after a reduction over its row")
            if level != "inner":
                step = max([stage[id(s)] for s in sources], default=0)
            stage[id(draft)] = step
        if len(left) == len(pending):
            return Refusal("the values depend on each other in a circle")
        pending = left
    placed = tuple(
        Placed(d.root, d.at, d.guard, d.reduced(), classes[id(d)], stage[id(d)], levels[id(d)])
        for d in drafts
    )
    return _checked(Schedule(rows, outer, inner, placed, "", 1 + max(stage.values())), cascades)


def _classes(
    drafts: list[_Draft], outer: tuple[Axis, ...], inner: Axis | None
) -> dict[int, str] | Refusal:
    """What each draft does to the loops, by its identity."""
    classes: dict[int, str] = {}
    for draft in drafts:
        cls = _class(draft, outer, inner)
        if cls is None:
            return Refusal(f"{_name(draft)} reduces other axes than its siblings")
        classes[id(draft)] = cls
    return classes


_ENDS = ("inner", "outer", "whole")


def _class(draft: _Draft, outer: tuple[Axis, ...], inner: Axis | None) -> str | None:
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


def _kept(scan: _Draft, roles: tuple[tuple[Axis, ...], tuple[Axis, ...], Axis | None]) -> bool:
    """Whether a scan's row can be kept in a row buffer for later stages."""
    _, outer, inner = roles
    itemsize = scan.root.var.aval.dtype.itemsize
    return not outer and inner is not None and inner.extent * itemsize <= MAX_ROW_BUFFER


def _level(
    own: set[Axis], needed: set[str],
    roles: tuple[tuple[Axis, ...], tuple[Axis, ...], Axis | None],
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
    if not cascades:
        return schedule
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
    return schedule._replace(cascade=form)


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
        axes = set(_axes(scan.at))
        if len(schedule.outer) > 1 or len(axes) != len(schedule.axes):
            return Refusal("scans along different axes")
        if schedule.outer and schedule.inner is not None:
            along = ix.bare_axis(scan.at[scan.root.eqn.param("axis")])  # type: ignore[union-attr,index]
            if along is not schedule.outer[0] and along != schedule.outer[0]:
                return Refusal("a scan along the vector axis and a reduction of another axis")
    return None
