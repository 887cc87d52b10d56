"""Which roots may share a kernel, whatever it costs: legality, on one choice of stored values.

Takes a program and the memory order of its values, gives groups and merges of them, or the reason
why there is none. Invariant: groups, and pairs of them, come in an order that does not depend on
how the program was written down (canonical.py).

    t = x.sum(); y = x / t      roots: sum, store of y      merged: both, or a Refusal
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from fjit.core import primitives as p
from fjit.core.ir import Eqn, Program, Var
from fjit.optimize import demand, store
from fjit.optimize.canonical import places
from fjit.optimize.drafts import Refusal, Root, root_reads
from fjit.optimize.groups import Graph, Group, Unit
from fjit.optimize.orders import Orders
from fjit.optimize.schedule import Schedule, schedule
from fjit.optimize.work import Work, work_of

MAX_OPERATIONS: Final = 400
MAX_POINTERS: Final = 64
ENDS: Final = ("reduction", "cumulative")


class Grouping:
    """A program with a set of stored values, and the kernels that its roots may share.

    A root is the same object for the same value, so that groups are known by their roots.
    """

    def __init__(
        self,
        program: Program,
        strides: dict[Var, tuple[int, ...]],
        orders: dict[Var, tuple[int, ...]],
    ) -> None:
        self.program = program
        self.producers: dict[Var, Eqn] = {v: e for e in program.eqns for v in e.outputs}
        self.orders = Orders(self.producers, strides, orders)
        self.places = places(program)
        self.stored: store.Stored = {}
        self._stores: dict[Var, Root] = {}
        self._ends: dict[Var, Root] = {}
        self._schedules: dict[Unit, Schedule | Refusal] = {}
        self._reads: dict[Unit, dict[Var, None]] = {}
        self._computed: dict[Unit, dict[Var, demand.Places]] = {}
        self.env: dict[Var, Eqn] = {}
        self.needed = store.required(program, self.producers, unfused=False)
        self.refresh()

    # ---- stored values --------------------------------------------------------------------
    def refresh(self) -> None:
        """Take note of what is stored now."""
        env = store.inline_env(self.producers, self.stored)
        if env.keys() != self.env.keys():
            self._schedules.clear()
            self._reads.clear()
            self._computed.clear()
        self.env = env
        self.calls: dict[Var, list[Eqn]] = {}
        for eqn in self.program.eqns:
            if self.is_call(eqn):
                for atom in eqn.inputs:
                    if isinstance(atom, Var):
                        self.calls.setdefault(atom, []).append(eqn)

    def swap(self, inline: Iterable[Var], stored: Iterable[Var], anew: Unit) -> None:
        """Compute some values in place from now on and store others, which concerns one kernel."""
        for var in inline:
            self.stored.pop(var, None)
            if self.producers[var].primitive.family in store.INLINE:
                self.env[var] = self.producers[var]
        for var in stored:
            self.stored[var] = None
            self.env.pop(var, None)
        for known in (self._schedules, self._reads, self._computed):
            known.pop(anew, None)

    def is_call(self, eqn: Eqn) -> bool:
        """Whether an equation runs between kernels: an expand only if its values are in memory."""
        if eqn.primitive is p.expand:
            return eqn.inputs[1] in self.stored or eqn.inputs[1] not in self.producers
        return eqn.primitive.family in store.CALLS

    def env_of(self, roots: Iterable[Root]) -> dict[Var, Eqn]:
        """Producers that a kernel may compute in place: unstored values and its own stores."""
        env = dict(self.env)
        for root in roots:
            if root.eqn is None and self.producers[root.var].primitive.family in store.INLINE:
                env[root.var] = self.producers[root.var]
        return env

    # ---- roots ----------------------------------------------------------------------------
    def roots(self) -> list[tuple[Root, ...]]:
        """Roots that always share a kernel: a value to store, or a reduction with its store."""
        found: list[tuple[Root, ...]] = []
        for eqn in sorted(self.program.eqns, key=self.places.__getitem__):
            var, family = eqn.outputs[0], eqn.primitive.family
            if self.is_call(eqn):
                continue
            own = [self._end(eqn)] if family in ENDS else []
            if var in self.stored and (own or family in store.INLINE):
                own.append(self.store_of(var))
            if own:
                found.append(tuple(own))
        return found

    def store_of(self, var: Var) -> Root:
        """The root that stores a value."""
        return self._stores.setdefault(var, Root(var, None))

    def _end(self, eqn: Eqn) -> Root:
        return self._ends.setdefault(eqn.outputs[0], Root(eqn.outputs[0], eqn))

    def singles(self) -> list[Group]:
        """A group for each of `roots`."""
        return [self.single(unit) for unit in self.roots()]

    def single(self, unit: Unit) -> Group:
        """The group of roots that always share a kernel."""
        found = self.attempt(unit)
        if isinstance(found, Refusal):
            raise AssertionError(f"a single root cannot be scheduled: {found.reason}")
        return Group(unit, found)

    def sorted(self, *parts: Iterable[Root]) -> tuple[Root, ...]:
        """All roots of some groups, in order."""
        return tuple(sorted((root for part in parts for root in part), key=self._place))

    def _place(self, root: Root) -> tuple[int, int]:
        return self.places[self.producers[root.var]], root.eqn is None

    def key(self, group: Group) -> tuple[tuple[int, int], ...]:
        """Sorts groups."""
        return tuple(map(self._place, group.roots))

    # ---- kernels --------------------------------------------------------------------------
    def attempt(self, roots: tuple[Root, ...]) -> Schedule | Refusal:
        """Loops shared by roots."""
        known = self._schedules.get(roots)
        if known is None:
            known = self._schedules[roots] = schedule(self.env_of(roots), roots, self.orders)
        return known

    def computed(self, group: Group) -> dict[Var, demand.Places]:
        """The places at which a group computes each value."""
        known = self._computed.get(group.roots)
        if known is None:
            reads = [r for q in group.schedule.placed for r in root_reads(q.root, q.at, q.guard)]
            known = demand.walk(self.env_of(group.roots), reads)[1]
            self._computed[group.roots] = known
        return known

    def reads(self, group: Group) -> dict[Var, None]:
        """Values that a group reads from memory or from its own reductions, or just names."""
        known = self._reads.get(group.roots)
        if known is None:
            known = self._reads[group.roots] = self._find_reads(group)
        return known

    def _find_reads(self, group: Group) -> dict[Var, None]:
        env, found, computed = self.env_of(group.roots), dict[Var, None](), dict[Var, None]()
        for placed in group.schedule.placed:
            leaves, at = demand.walk(env, root_reads(placed.root, placed.at, placed.guard))
            found.update((leaf.var, None) for leaf in leaves)
            computed.update((var, None) for var in at)
        inside = self.inside(group, computed)
        for var in inside:  # what is named has to be there before the kernel, too
            for atom in self.producers[var].inputs:
                if isinstance(atom, Var) and atom not in inside:
                    found[atom] = None
        return found

    def inside(self, group: Group, computed: Iterable[Var]) -> dict[Var, None]:
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

    def work(self, group: Group) -> Work:
        """What a group's kernel moves and computes."""
        return work_of(self.env_of(group.roots), group.schedule, self.orders.layout)

    # ---- merging --------------------------------------------------------------------------
    def graph(self, groups: list[Group]) -> Graph:
        """Who makes and who reads each value."""
        return Graph(groups, self.reads, self.key)

    def merged(self, graph: Graph, a: Group, b: Group) -> Group | Refusal:
        """One group in the place of two, as far as the law goes."""
        if self._cycle(graph, a, b):
            return Refusal("a value in between would depend on the merged kernel")
        return self.group(self.sorted(a.roots, b.roots))

    def group(self, roots: tuple[Root, ...]) -> Group | Refusal:
        """The group of some roots, within the caps of one kernel."""
        result = self.attempt(roots)
        if isinstance(result, Refusal):
            return result
        group = Group(roots, result)
        operations = len(self.computed(group))
        pointers = len(self.reads(group)) + sum(r.eqn is None for r in roots)
        if operations > MAX_OPERATIONS or pointers > MAX_POINTERS:
            return Refusal(f"{operations} operations, {pointers} pointers: over the cap")
        return group

    def crossing(self, groups: Iterable[Group]) -> store.Stored:
        """Reductions and scans that kernels read which do not make them."""
        found: store.Stored = {}
        for group in groups:
            own = {r.var for r in group.roots}
            for var in self.reads(group):
                elsewhere = var in self.producers and var not in own and var not in self.env
                if elsewhere and self.producers[var].primitive.family in ENDS:
                    found[var] = None
        return found

    def in_order(self, groups: Sequence[Group]) -> bool:
        """Whether kernels can run one after the other, with the calls between them."""
        makers: dict[Var, int] = {r.var: k for k, g in enumerate(groups) for r in g.roots}
        waits: list[tuple[int, int]] = []
        for k, group in enumerate(groups):
            for var in self._before(group, makers):
                if makers[var] != k:
                    waits.append((k, makers[var]))
                elif var not in self.reads(group):
                    return False  # through a call, back to itself
        left = set(range(len(groups)))
        while left:
            ready = left - {k for k, first in waits if first in left}
            if not ready:
                return False
            left -= ready
        return True

    def _before(self, group: Group, makers: Collection[Var]) -> Iterator[Var]:
        """What other kernels have to make before a group's can run, directly or through calls."""
        stack, seen = list(self.reads(group)), set[Var]()
        while stack:
            var = stack.pop()
            if var in seen:
                continue
            seen.add(var)
            if var in makers:
                yield var
            elif var in self.producers:
                stack.extend(a for a in self.producers[var].inputs if isinstance(a, Var))

    def _cycle(self, graph: Graph, a: Group, b: Group) -> bool:
        """Whether a path from one group to the other leaves the pair."""
        pair = {r.var for r in a.roots} | {r.var for r in b.roots}
        for start, goal in ((a, b), (b, a)):
            stack = [v for r in start.roots for v in self._after(graph, r.var, start, goal)]
            seen: set[Var] = set()
            wanted = self.reads(goal)
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

    # ---- words ----------------------------------------------------------------------------
    def name(self, group: Group) -> str:
        """A group in words: what its roots are."""
        return "+".join(dict.fromkeys(describe(self.producers[r.var]) for r in group.roots))

    def shared_bytes(self, a: Group, b: Group) -> float:
        """Bytes that do not go through memory if two groups share a kernel."""
        shared = self.reads(a).keys() & self.reads(b).keys()
        shared |= {r.var for r in a.roots} & self.reads(b).keys()
        shared |= {r.var for r in b.roots} & self.reads(a).keys()
        return 1.0 * sum(v.aval.nbytes for v in shared)


def describe(eqn: Eqn) -> str:
    """An equation in a word."""
    op = eqn.get("op")
    return eqn.primitive.name + (f"[{op}]" if op else "")
