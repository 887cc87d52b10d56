"""Roots on their way into one set of loops: their axes unified, and the order they walk them in.

Takes roots and the equations that may be computed in place, gives drafts over common axes, or the
reason why there are none. Invariant: a floating sum, product or scan walks its axes in the order in
which it would walk them alone.

    x.sum(0), y.max(1) over (a, b) and (c, d)    ->    (c, d) renamed to (a, b), if extents agree
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Literal, Shape, Sym, Var
from fjit.core.rules import ORDERED_OPS
from fjit.frontend.layout import k_order
from fjit.optimize import demand
from fjit.optimize import index as ix
from fjit.optimize.index import ZERO, Axis, Guard, Holds, Index, Indices, Lockstep
from fjit.optimize.orders import Orders, axis_strides


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


class Refusal(NamedTuple):
    """Why roots do not share loops."""

    reason: str


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


def axes_of(at: Indices) -> tuple[Axis, ...]:
    found = []
    for index in _flat(at):
        axis = ix.bare_axis(index)
        if axis is not None:
            found.append(axis)
    return tuple(found)


def _volume(at: Indices) -> int:
    total = 1
    for axis in axes_of(at):
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


class Draft:
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
        return axes_of(tuple(i for k, i in enumerate(self.at) if k in axes))


Drafts = tuple[list[Draft], dict[Var, Draft], tuple[Axis, ...]]
"""Drafts, those of reductions and scans by their results, and the axes of the largest one."""


def unify(env: demand.Env, roots: tuple[Root, ...]) -> Drafts | Refusal:
    """Drafts of `roots` over common axes."""
    space = _Space(env)
    drafts = []
    for root in roots:
        symbols = {extent for extent in root.operand.aval.shape if isinstance(extent, Sym)}
        filtered = filters(env, root.operand, symbols) if symbols else symbols
        if isinstance(filtered, Refusal):
            return filtered
        drafts.append(Draft(root, space, filtered))
    results = {d.root.var: d for d in drafts if d.root.eqn is not None}
    primary = max(
        drafts, key=lambda d: (len(axes_of(d.at)), _volume(d.at), d.root.kind == "reduction")
    )
    primary.done = True
    domain = axes_of(primary.at)
    refusal = _unify(env, drafts, results, primary, domain)
    return (drafts, results, domain) if refusal is None else refusal


def leaves_of(env: demand.Env, draft: Draft) -> list[demand.Leaf]:
    return demand.walk(env, root_reads(draft.root, draft.at, draft.guard))[0]


def root_reads(root: Root, at: Indices, guard: Guard) -> list[tuple[Atom, Indices]]:
    """The elements that one step of a root reads."""
    held: list[tuple[Atom, Indices]] = [(c.atom, c.at) for c in guard if isinstance(c, Holds)]
    return [(root.operand, at), *held]


def _unify(
    env: demand.Env,
    drafts: list[Draft],
    results: dict[Var, Draft],
    primary: Draft,
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
    env: demand.Env, draft: Draft, results: dict[Var, Draft], domain: tuple[Axis, ...]
) -> dict[Axis, Axis] | None:
    own = axes_of(draft.at)
    if [(a.extent, a.sym) for a in own] == [(a.extent, a.sym) for a in domain]:
        return dict(zip(own, domain, strict=True))
    names: dict[Axis, Axis] = {}
    for leaf in leaves_of(env, draft):
        producer = results.get(leaf.var)
        if producer is None or not producer.done:
            continue
        for mine, theirs in zip(leaf.at, producer.kept(), strict=True):
            a, b = ix.bare_axis(mine), ix.bare_axis(theirs)
            if a is None or b is None or a.extent != b.extent or names.get(a, b) != b:
                continue
            names[a] = b
    return names if len(names) == len(own) and len(set(names.values())) == len(own) else None


def name_of(draft: Draft) -> str:
    eqn = draft.root.eqn
    return "a stored value" if eqn is None else f"{eqn.primitive.name}[{eqn.get('op', '')}]"


def scanned(draft: Draft) -> Axis | None:
    assert draft.root.eqn is not None
    axis: int = draft.root.eqn.param("axis")  # type: ignore[assignment]
    return ix.bare_axis(draft.at[axis])


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


def loop_order_of(
    env: demand.Env, drafts: list[Draft], domain: tuple[Axis, ...], orders: Orders
) -> tuple[Axis, ...] | Refusal:
    """The order in which floating sums, products and scans walk by themselves; else that of all."""
    ordered = [d for d in drafts if _is_ordered(d)]
    leading = [d for d in ordered if set(axes_of(d.at)) == set(domain)][:1]
    loop_order = _order(env, leading or drafts, domain, orders)
    for draft in ordered:
        own = axes_of(draft.at)
        if _order(env, [draft], own, orders) != tuple(a for a in loop_order if a in own):
            return Refusal(f"{name_of(draft)} would meet its terms in another order")
    return loop_order


def _order(
    env: demand.Env, drafts: list[Draft], domain: tuple[Axis, ...], orders: Orders
) -> tuple[Axis, ...]:
    """Loop order, outermost first: K-order of the results and of what they are computed from."""
    rows: dict[tuple[int, ...], None] = {}
    for draft in drafts:
        if draft.root.eqn is None and set(axes_of(draft.at)) == set(domain):
            rows[axis_strides(draft.at, orders.layout(draft.root.var), domain)] = None
        reads = root_reads(draft.root, draft.at, draft.guard)
        for leaf in demand.walk(_InStep(env), reads)[0]:
            for row in orders.rows(leaf.var):
                rows[axis_strides(leaf.at, row, domain)] = None
    return tuple(domain[k] for k in k_order(len(domain), list(rows)))


def _is_ordered(draft: Draft) -> bool:
    """Whether the order of a reduction's or scan's terms shows in its result."""
    eqn = draft.root.eqn
    if eqn is None or eqn.get("op") not in ORDERED_OPS:
        return False
    return eqn.inputs[0].aval.dtype.kind == "f"
