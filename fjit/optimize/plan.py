"""The planner: which equations share a kernel, with a reason for every fusion taken or refused.

Takes an optimized program, gives an equal program whose equations are kernels (equations that hold
sub-programs) and library calls, and the decisions behind it:

    let b = exp a; c = reduce[sum] b in (c,)
    becomes
    let c = kernel[program={ lambda a . let b = exp a; c = reduce[sum] b in (c,) }] a in (c,)

Invariant: the fused program means what the program means; neither names nor statement order change
the number of kernels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Literal, Program, Var
from fjit.core.show import show
from fjit.optimize import demand, store
from fjit.optimize.drafts import Refusal, Root, root_reads
from fjit.optimize.groups import Graph, Group
from fjit.optimize.index import Holds
from fjit.optimize.orders import Orders
from fjit.optimize.panels import Kernels, Panels, joined
from fjit.optimize.schedule import Schedule, schedule

MOST_ROUNDS = 6
"""Times that groups are formed anew because several kernels would compute a heavy value."""
MAX_OPERATIONS = 400
MAX_POINTERS = 64


@dataclass(frozen=True, slots=True)
class Decision:
    """One fusion considered: the pair, whether it was taken, the rule that decided, its numbers."""

    pair: tuple[str, str]
    taken: bool
    reason: str
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """One kernel of a plan: its equation in the fused program and the loops it will have."""

    eqn: Eqn
    schedule: Schedule
    env: dict[Var, Eqn]
    by_rows: bool = False  # part of panels, whose tasks are rows


@dataclass(frozen=True, slots=True)
class Plan:
    """The fused program, its kernels by equation, the decisions, and products in panels."""

    program: Program
    kernels: tuple[KernelPlan, ...]
    decisions: tuple[Decision, ...]
    layouts: dict[Var, tuple[int, ...]]
    panels: tuple[Panels, ...] = ()
    over: tuple[Var, ...] = ()  # results that lie in the part of an input that they replace

    @property
    def steps(self) -> tuple[Eqn, ...]:
        """The equations in the order in which they run, those of panels one by one."""
        inside = {panels.eqn: panels.stages for panels in self.panels}
        return tuple(e for eqn in self.program.eqns for e in inside.get(eqn, (eqn,)))

    @property
    def private(self) -> set[Var]:
        """Values that exist one panel at a time."""
        return {var for panels in self.panels for var in panels.private}

    def __str__(self) -> str:
        lines = [show(self.program)]
        for d in self.decisions:
            verdict = "fused" if d.taken else "apart"
            lines.append(f"{verdict}: {d.pair[0]} | {d.pair[1]}: {d.reason}")
        return "\n".join(lines)


Choose = Callable[[Any], bool]
"""A user's fusion function: from a candidate Decision to whether to take it."""


class Planner:
    """Plans one program."""

    def __init__(
        self,
        program: Program,
        strides: dict[Var, tuple[int, ...]],
        orders: dict[Var, tuple[int, ...]],
        fusion: str | Choose,
        panels: bool,
    ) -> None:
        self.program = program
        self.fusion, self.panels = fusion, panels
        self.producers: dict[Var, Eqn] = {v: e for e in program.eqns for v in e.outputs}
        self.orders = Orders(self.producers, strides, orders)
        self.rank = {e: k for k, e in enumerate(program.eqns)}
        self.decisions: list[Decision] = []
        self.kept: list[Decision] = []
        self.costly: store.Stored = {}
        self.refused: dict[tuple[tuple[Root, ...], tuple[Root, ...]], Refusal] = {}
        self.stored: store.Stored = {}
        self.calls: dict[Var, list[Eqn]] = {}
        self.env: dict[Var, Eqn] = {}

    # ---- what is stored -------------------------------------------------------------------
    def plan(self) -> Plan:
        """The plan."""
        self._choose_stored()
        groups = self._groups()
        rounds = 0
        while self._store_crossing(groups) or (rounds < MOST_ROUNDS and self._store_shared(groups)):
            groups = self._groups()
            rounds += 1
        return self._assemble(groups)

    def _choose_stored(self) -> None:
        unfused = self.fusion == "none"
        self.stored = store.required(self.program, self.producers, unfused=unfused)
        if not unfused:
            for value in store.crowded(self.program, self.producers, self.stored):
                self._keep(value, "stored: it would be computed under many different guards", {})
        while not unfused:
            found = store.recomputed(self.program, self.producers, self.stored)
            if found is None:
                break
            value, times = found
            reason = "stored: computing it once costs less than at every use"
            self._keep(value, reason, {"times": times})
        self._refresh()

    def _keep(self, value: Var, reason: str, numbers: dict[str, float]) -> None:
        """Store a value that could be computed in place."""
        self.costly[value] = None
        self.stored[value] = None
        names = (_describe(self.producers[value]), "its uses")
        numbers = {**numbers, "bytes": 1.0 * value.aval.nbytes}
        self.kept.append(Decision(names, False, reason, numbers))

    def _refresh(self) -> None:
        self.calls = {}
        for eqn in self.program.eqns:
            if self._is_call(eqn):
                for atom in eqn.inputs:
                    if isinstance(atom, Var):
                        self.calls.setdefault(atom, []).append(eqn)
        self._read_cache: dict[tuple[Root, ...], dict[Var, None]] = {}
        self.env = store.inline_env(self.producers, self.stored)

    def _store_crossing(self, groups: list[Group]) -> bool:
        """Store reductions and scans that other kernels read; True if any was found."""
        found = False
        for group in groups:
            own = {r.var for r in group.roots}
            for var in self._reads(group):
                if var in self.env:
                    continue
                if var in self.producers and var not in own and var not in self.stored:
                    self.stored[var] = None
                    found = True
        self._refresh()
        return found

    def _store_shared(self, groups: list[Group]) -> bool:
        """Store heavy values that several kernels would compute; True if any was found."""
        users: dict[Var, int] = {}
        for group in groups:
            for var in _computed(self.env_of(group), group):
                users[var] = users.get(var, 0) + (var not in self.stored)
        found = store.shared(self.program, self.env, users)
        self.stored.update(dict.fromkeys(found))
        self._refresh()
        return bool(found)

    def env_of(self, group: Group) -> dict[Var, Eqn]:
        """Producers that a group may compute in place: unstored values and its own stores."""
        env = dict(self.env)
        for root in group.roots:
            if root.eqn is None and self.producers[root.var].primitive.family in store.INLINE:
                env[root.var] = self.producers[root.var]
        return env

    def _is_call(self, eqn: Eqn) -> bool:
        """Whether an equation runs between kernels: an expand only if its values are in memory."""
        if eqn.primitive is p.expand:
            return eqn.inputs[1] in self.stored or eqn.inputs[1] not in self.producers
        return eqn.primitive.family in store.CALLS

    # ---- grouping -------------------------------------------------------------------------
    def _roots(self) -> list[Root]:
        needed: dict[Var, Root] = {}
        order: list[Root] = []
        for eqn in self.program.eqns:
            var = eqn.outputs[0]
            family = eqn.primitive.family
            if self._is_call(eqn):
                continue
            if family in ("reduction", "cumulative"):
                needed[var] = Root(var, eqn)
                order.append(needed[var])
            if var in self.stored and family in (*store.INLINE, "reduction", "cumulative"):
                order.append(Root(var, None))
        return order

    def _groups(self) -> list[Group]:
        """Greedy merging of roots along data flow, then of siblings that share inputs."""
        self.decisions = list(self.kept)
        groups: list[Group] = []
        for root in self._roots():
            if root.eqn is None and self.producers[root.var].primitive.family not in store.INLINE:
                home = next(g for g in groups if any(r.var is root.var for r in g.roots))
                merged = self._try((*home.roots, root))
                assert isinstance(merged, Schedule), f"{merged}"
                groups[groups.index(home)] = Group((*home.roots, root), merged)
                continue
            single = self._try((root,))
            if isinstance(single, Refusal):
                raise AssertionError(f"a single root cannot be scheduled: {single.reason}")
            groups.append(Group((root,), single))
        return self._merge(groups)

    def _try(self, roots: tuple[Root, ...]) -> Schedule | Refusal:
        env = dict(self.env)
        for root in roots:
            if root.eqn is None and self.producers[root.var].primitive.family in store.INLINE:
                env[root.var] = self.producers[root.var]
        return schedule(env, roots, self.orders)

    def _merge(self, groups: list[Group]) -> list[Group]:
        """Merge along data flow first, then groups that read the same values."""
        if self.fusion == "none":
            return groups
        self.refused = {}
        graph = Graph(groups, self._reads)
        queue = deque(pair for group in groups for pair in graph.flows(group))
        later = deque(pair for group in groups for pair in graph.siblings(group))
        while queue or later:
            a, b = queue.popleft() if queue else later.popleft()
            if not (graph.alive(a) and graph.alive(b)) or (a.roots, b.roots) in self.refused:
                continue
            result = self._merged(graph, a, b)
            if isinstance(result, Refusal):
                self.refused[a.roots, b.roots] = result
                continue
            graph.replace(a, b, result)
            queue.extendleft(reversed(graph.flows(result)))
            later.extendleft(reversed(graph.siblings(result)))
        groups = graph.groups
        for group in groups:
            for a, b in (*graph.flows(group), *graph.siblings(group)):
                refusal = self.refused.pop((a.roots, b.roots), None)
                if refusal is not None:
                    names = (self._name(a), self._name(b))
                    self.decisions.append(Decision(names, False, refusal.reason))
        return groups

    def _reads(self, group: Group) -> dict[Var, None]:
        """Values that a group reads from memory or from its own reductions, or just names."""
        known = self._read_cache.get(group.roots)
        if known is None:
            known = self._read_cache[group.roots] = self._find_reads(group)
        return known

    def _find_reads(self, group: Group) -> dict[Var, None]:
        env, found, computed = self.env_of(group), dict[Var, None](), dict[Var, None]()
        for placed in group.schedule.placed:
            leaves, places = demand.walk(env, root_reads(placed.root, placed.at, placed.guard))
            found.update((leaf.var, None) for leaf in leaves)
            computed.update((var, None) for var in places)
        inside = self._inside(group, computed)
        for var in inside:  # what is named has to be there before the kernel, too
            for atom in self.producers[var].inputs:
                if isinstance(atom, Var) and atom not in inside:
                    found[atom] = None
        return found

    def _merged(self, graph: Graph, a: Group, b: Group) -> Group | Refusal:
        names = (self._name(a), self._name(b))
        if self._cycle(graph, a, b):
            return Refusal("a value in between would depend on the merged kernel")
        roots = tuple(sorted((*a.roots, *b.roots), key=self._place))
        result = self._try(roots)
        if isinstance(result, Refusal):
            return result
        group = Group(roots, result)
        computed = _computed(self.env_of(group), group)
        if any(len(computed.get(v, ())) > 1 for v in self.costly):
            return Refusal("a value is read at several places, where computing it again costs more")
        operations = len(computed)
        pointers = len(self._reads(group)) + sum(r.eqn is None for r in roots)
        if operations > MAX_OPERATIONS or pointers > MAX_POINTERS:
            return Refusal(f"{operations} operations, {pointers} pointers: over the cap")
        saved = self._saved(a, b)
        decision = Decision(names, True, "fewer bytes through memory", {"bytes_saved": saved})
        if callable(self.fusion) and not self.fusion(decision):
            return Refusal("refused by the fusion function")
        self.decisions.append(decision)
        return group

    def _place(self, root: Root) -> tuple[int, int]:
        return self.rank[self.producers[root.var]], root.eqn is None

    def _saved(self, a: Group, b: Group) -> float:
        shared = self._reads(a).keys() & self._reads(b).keys()
        shared |= {r.var for r in a.roots} & self._reads(b).keys()
        return 1.0 * sum(v.aval.nbytes for v in shared)

    def _name(self, group: Group) -> str:
        return "+".join(_describe(self.producers[r.var]) for r in group.roots)

    def _cycle(self, graph: Graph, a: Group, b: Group) -> bool:
        """Whether a path from one group to the other leaves the pair."""
        pair = {r.var for r in a.roots} | {r.var for r in b.roots}
        for start, goal in ((a, b), (b, a)):
            stack = [v for r in start.roots for v in self._after(graph, r.var, start, goal)]
            seen: set[Var] = set()
            wanted = self._reads(goal)
            while stack:
                var = stack.pop()
                if var in seen or var in pair:
                    continue
                seen.add(var)
                if var in wanted:
                    return True
                stack.extend(self._after(graph, var, start, goal))
        return False

    def _after(self, graph: Graph, var: Var, start: Group, goal: Group) -> list[Var]:
        """Values made by groups and calls that read `var`, the pair itself left out."""
        found: list[Var] = []
        for group in graph.readers.get(var, ()):
            if group is not start and group is not goal:
                found.extend(r.var for r in group.roots)
        for eqn in self.calls.get(var, ()):
            found.extend(eqn.outputs)
        return found

    # ---- the fused program ----------------------------------------------------------------
    def _assemble(self, groups: list[Group]) -> Plan:
        kernels: list[KernelPlan] = []
        for group in groups:
            kernels.append(self._kernel(group))
        calls = [e for e in self.program.eqns if e.primitive.family in store.CALLS]
        expands = [e for v in self.stored if self._is_call(e := self.producers[v])
                   and e.primitive is p.expand]  # fmt: skip
        eqns = _sorted([k.eqn for k in kernels] + calls + expands, self.program.inputs)
        program = Program(self.program.inputs, eqns, self.program.outputs)
        layouts = {v: self.orders.layout(v) for e in eqns for v in e.outputs}
        order = {e: k for k, e in enumerate(eqns)}
        kernels.sort(key=lambda k: order[k.eqn])
        apart = Plan(program, tuple(kernels), tuple(self.decisions), layouts)
        return self._joined(apart) if self.panels else apart

    def _joined(self, plan: Plan) -> Plan:
        """The plan with matrix products in panels, where it has any."""
        known = Kernels({k.eqn: (k.schedule, k.env) for k in plan.kernels}, plan.layouts,
                        self._agrees)  # fmt: skip
        inputs = {v: self.orders.layout(v) for v in self.program.inputs}
        joint = joined(plan.program, known, inputs)
        if not joint.panels:
            return plan
        inside = {e for panels in joint.panels for e in panels.stages}
        program = Program(plan.program.inputs, joint.eqns, plan.program.outputs)
        told = [Decision(*d) for d in joint.decisions] if self.fusion != "none" else []
        kernels = tuple(replace(k, by_rows=k.eqn in inside) for k in plan.kernels)
        after = Plan(program, kernels, (*plan.decisions, *told), plan.layouts, joint.panels)
        order = {eqn: k for k, eqn in enumerate(after.steps)}
        return replace(after, kernels=tuple(sorted(kernels, key=lambda k: order[k.eqn])))

    def _agrees(self, pair: tuple[str, str], numbers: dict[str, float]) -> bool:
        """Whether the caller lets a product and a kernel share panels."""
        if callable(self.fusion):
            return self.fusion(Decision(pair, True, "on panels of rows", numbers))
        return self.fusion != "none"

    def _inside(self, group: Group, computed: Iterable[Var]) -> dict[Var, None]:
        """Values made in a group's kernel: computed ones, its own roots, and what they name.

        An operand that no element of a result needs is named all the same.
        """
        stack = [*computed]
        stack += [r.var for r in group.roots if r.eqn is not None]
        inside: dict[Var, None] = {}
        while stack:
            var = stack.pop()
            if var in inside:
                continue
            inside[var] = None
            for atom in self.producers[var].inputs:
                if isinstance(atom, Var) and atom in self.env:
                    stack.append(atom)
        return inside

    def _kernel(self, group: Group) -> KernelPlan:
        env = self.env_of(group)
        inside = self._inside(group, _computed(env, group))
        eqns = tuple(sorted((self.producers[v] for v in inside), key=lambda e: self.rank[e]))
        outputs = tuple(r.var for r in group.roots if r.eqn is None)
        made = {v for e in eqns for v in e.outputs}
        inputs: dict[Var, None] = {}
        guards = [c.atom for q in group.schedule.placed for c in q.guard if isinstance(c, Holds)]
        for atom in (*guards, *[a for e in eqns for a in e.inputs]):
            if isinstance(atom, Var) and atom not in made:
                inputs[atom] = None
        program = Program(tuple(inputs), eqns, outputs)
        eqn = Eqn(p.kernel, tuple(inputs), (("program", program),), outputs, eqns[-1].source)
        return KernelPlan(eqn, group.schedule, {v: e for v, e in env.items() if v in inside})


def _computed(env: dict[Var, Eqn], group: Group) -> dict[Var, demand.Places]:
    reads = [r for q in group.schedule.placed for r in root_reads(q.root, q.at, q.guard)]
    return demand.walk(env, reads)[1]


def _describe(eqn: Eqn) -> str:
    op = eqn.get("op")
    return eqn.primitive.name + (f"[{op}]" if op else "")


def _sorted(eqns: list[Eqn], inputs: tuple[Var, ...]) -> tuple[Eqn, ...]:
    """Equations in dependency order, otherwise in the order given."""
    ready: set[Atom] = set(inputs)
    pending, done = list(eqns), []
    while pending:
        left = []
        for eqn in pending:
            if all(isinstance(a, Literal) or a in ready for a in eqn.inputs):
                done.append(eqn)
                ready.update(eqn.outputs)
            else:
                left.append(eqn)
        assert len(left) < len(pending), "kernels depend on each other in a circle"
        pending = left
    return tuple(done)


def plan(
    program: Program,
    strides: dict[Var, tuple[int, ...]],
    orders: dict[Var, tuple[int, ...]],
    fusion: str | Choose = "auto",
    *,
    panels: bool = True,
) -> Plan:
    """Partition `program` into kernels and library calls.

    `strides` gives element strides of the inputs, `orders` the axis order of outputs; `fusion` is
    "auto", "max", "none" or a function from a candidate Decision to bool; `panels` says whether
    framed products share panels of rows with kernels.
    """
    return Planner(program, strides, orders, fusion, panels).plan()
