"""The search for the best plan: on from what the rules give, with a proof of how far it got.

Takes a `Grouping`, gives groups whose estimated time is the least that was found, and the gap to a
bound that no plan can be under. Parts of a program that share no value are searched by themselves;
in a part of at most MOST_UNITS roots every partition is tried. Invariant: no clock is asked, only
counts, so that a plan is the same on every machine.

    x.sum(0), x.sum(1), x * 2      one kernel reads x once: at the bound, gap 0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Final, NamedTuple

from fjit.core.ir import Program, Var
from fjit.core.recorded import plain
from fjit.optimize import cost, store
from fjit.optimize.decisions import Decision
from fjit.optimize.drafts import Root
from fjit.optimize.greedy import Greedy
from fjit.optimize.grouping import ENDS, Grouping
from fjit.optimize.groups import Group, Unit
from fjit.optimize.partitions import least_time, partitions
from fjit.optimize.work import least, reads_of, volume

MOST_UNITS: Final = 6
"""Roots of a part that are partitioned in every way: 203 ways, of at most 63 kernels."""
MOST_TOGGLES: Final = 3
"""Values of which both is tried in all combinations: to store them, to compute them again."""
CLOSE: Final = 0.01
"""A gap that is not worth a search."""
WORTH: Final = 0.03
"""What storing other values has to gain: less is below what the model knows, and plans that take
turns from size to size are compiled each."""


class Part(NamedTuple):
    """Groups that share values: their time, a bound under all plans', whether none is shorter."""

    groups: tuple[Group, ...]
    ns: float
    bound: float
    exact: bool


class Outcome(NamedTuple):
    """A plan: values kept and computed again by choice, values stored by rule, parts."""

    kept: tuple[Var, ...]
    inline: tuple[Var, ...]
    decisions: tuple[Decision, ...]
    stored: store.Stored
    parts: tuple[Part, ...]

    @property
    def ns(self) -> float:
        """The estimated time of all kernels."""
        return sum(part.ns for part in self.parts)

    @property
    def groups(self) -> list[Group]:
        """The groups of all parts."""
        return [group for part in self.parts for group in part.groups]

    @property
    def gap(self) -> float:
        """How much longer the plan may take than the best with the same values stored."""
        bound = sum(part.ns if part.exact else part.bound for part in self.parts)
        return max(0.0, self.ns / bound - 1.0) if bound else 0.0

    @property
    def whole_gap(self) -> float:
        """The same for the best with any values stored."""
        bound = sum(part.bound for part in self.parts)
        return max(0.0, self.ns / bound - 1.0) if bound else 0.0


class Search:
    """The search on one program."""

    def __init__(self, grouping: Grouping) -> None:
        self.grouping = grouping
        self.scale = scale_of(grouping.program)

    def best(self) -> tuple[Outcome, float]:
        """The best plan found, and its gap; `grouping` stores what the plan does."""
        chosen = first = self._outcome()
        least = first.ns
        toggles = self._toggles(first) if first.whole_gap > CLOSE else []
        exact = len(toggles) <= MOST_TOGGLES and first.gap == 0.0
        for values in _subsets(toggles[:MOST_TOGGLES]):
            kept = tuple(v for v in values if v not in first.stored)
            inline = tuple(v for v in values if v in first.stored)
            other = self._outcome(kept, inline)
            exact = exact and other.gap == 0.0
            least = min(least, other.ns)
            if other.ns < min(chosen.ns, first.ns * (1 - WORTH)):
                chosen = other
        self._restore(chosen)
        known = chosen.ns / least - 1.0 if exact and least else chosen.whole_gap
        return chosen, max(0.0, min(known, chosen.whole_gap))

    def _outcome(self, kept: tuple[Var, ...] = (), inline: tuple[Var, ...] = ()) -> Outcome:
        greedy = Greedy(self.grouping, "auto", kept, inline)
        groups = greedy.groups()
        stored = dict(self.grouping.stored)
        parts = tuple(self._part(groups) for groups in self._components(groups))
        outcome = Outcome(kept, inline, tuple(greedy.decisions), stored, parts)
        return outcome

    def _restore(self, outcome: Outcome) -> None:
        """Store what a plan stores: reductions and scans only where other kernels read them."""
        grouping = self.grouping
        needed = grouping.needed
        grouping.stored = outcome.stored
        grouping.refresh()
        crossing = grouping.crossing(outcome.groups)
        grouping.stored = {
            v: None for v in outcome.stored
            if v in needed or v in crossing or grouping.producers[v].primitive.family not in ENDS
        }  # fmt: skip
        grouping.refresh()

    # ---- parts ----------------------------------------------------------------------------
    def _components(self, groups: Sequence[Group]) -> Iterator[list[Group]]:
        """Groups that share values with each other, directly or through others."""
        graph = self.grouping.graph(list(groups))
        seen: set[int] = set()
        for group in groups:
            if id(group) in seen:
                continue
            seen.add(id(group))
            part, stack = [], [group]
            while stack:
                found = stack.pop()
                part.append(found)
                for pair in (*graph.flows(found), *graph.siblings(found)):
                    for other in pair:
                        if id(other) not in seen:
                            seen.add(id(other))
                            stack.append(other)
            yield sorted(part, key=self.grouping.key)

    def _part(self, groups: list[Group]) -> Part:
        """The best partition of the roots of some groups."""
        ns = self._time(groups)
        bound = self._bound(groups)
        units = self._units(groups)
        if len(units) == 1:
            return Part(tuple(groups), ns, min(ns, bound), True)
        if ns <= bound * (1 + CLOSE) or len(units) > MOST_UNITS:
            return Part(tuple(groups), ns, min(ns, bound), False)
        ways = partitions(units, self._adjacent(units))
        found = least_time(self.grouping, units, ways, self.scale)
        if found is not None and found.ns < ns * (1 - 1e-9):
            return Part(found.groups, found.ns, min(found.ns, bound), True)
        return Part(tuple(groups), ns, min(ns, bound), True)

    def _units(self, groups: Sequence[Group]) -> list[Unit]:
        """The roots of some groups, those that always share a kernel as one."""
        found: dict[Var, list[Root]] = {}
        for root in self.grouping.sorted(*(group.roots for group in groups)):
            found.setdefault(root.var, []).append(root)
        return [tuple(unit) for unit in found.values()]

    def _adjacent(self, units: Sequence[Unit]) -> set[frozenset[int]]:
        """Which units share a value, by their numbers."""
        here = [self.grouping.single(unit) for unit in units]
        graph = self.grouping.graph(here)
        number = {id(single): k for k, single in enumerate(here)}
        pairs = (p for s in here for p in (*graph.flows(s), *graph.siblings(s)))
        return {frozenset((number[id(a)], number[id(b)])) for a, b in pairs}

    def _time(self, groups: Sequence[Group]) -> float:
        return sum(self.grouping.work(group).ns(self.scale) for group in groups)

    def _bound(self, groups: Sequence[Group]) -> float:
        """The time of one kernel that does nothing twice."""
        grouping = self.grouping
        needed = grouping.needed
        made = [r.var for g in groups for r in g.roots if r.eqn is None and r.var in needed]
        works = [(grouping.env_of(group.roots), group.schedule) for group in groups]
        read = [v for g in groups for v in grouping.reads(g) if self._is_given(v)]
        return least(works, made, read, grouping.orders.layout).ns(self.scale)

    def _is_given(self, var: Var) -> bool:
        """Whether a value is in memory whatever the plan: an input, or what a call makes."""
        eqn = self.grouping.producers.get(var)
        return eqn is None or eqn.primitive.family in store.CALLS

    # ---- values to store or to compute again ------------------------------------------------
    def _toggles(self, outcome: Outcome) -> list[Var]:
        """Values that cost most by being computed again or by being stored, first ones first."""
        grouping = self.grouping
        needed = grouping.needed
        lost: dict[Var, float] = {}
        for var in outcome.stored:
            if var not in needed and grouping.producers[var].primitive.family == "elementwise":
                lost[var] = 2 * plain(var.aval.nbytes) * self.scale.rate
        spent: dict[Var, float] = {}
        least_times: dict[Var, int] = {}
        for group in outcome.groups:
            for c in reads_of(grouping.env_of(group.roots), group.schedule)[1]:
                if c.var not in needed:
                    once = cost.element_ns(grouping.producers[c.var])
                    spent[c.var] = spent.get(c.var, 0.0) + once * c.times
                    least_times[c.var] = max(least_times.get(c.var, 0), volume(c.place))
        for var, ns in spent.items():
            extra = ns - cost.element_ns(grouping.producers[var]) * least_times[var]
            if extra > 2 * plain(var.aval.nbytes) * self.scale.rate and var.aval.is_static:
                lost[var] = max(lost.get(var, 0.0), extra)
        place = grouping.places
        return sorted(lost, key=lambda v: (-lost[v], place[grouping.producers[v]]))


def scale_of(program: Program) -> cost.Scale:
    """How the work of a program is weighed, by the class of its inputs and results."""
    held = dict.fromkeys(v for v in (*program.inputs, *program.outputs) if isinstance(v, Var))
    return cost.scale_of(sum(v.aval.nbytes for v in held))


def _subsets(values: Sequence[Var]) -> Iterator[tuple[Var, ...]]:
    """All subsets but the empty one."""
    return chain.from_iterable(combinations(values, k) for k in range(1, len(values) + 1))
