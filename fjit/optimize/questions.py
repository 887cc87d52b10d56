"""A plan by a user's answers: from every operation by itself, one question a fusion.

Takes a `Grouping` and a function from a candidate Decision to bool, gives groups. Every value that
NumPy would make is stored at first; a fusion that is taken keeps values inside that nobody else
reads. Invariant: a question is asked once, and only if either answer can be followed.

    tanh(x * 2 + y).sum(1)     mul | add?  add | tanh?  tanh | reduce[sum]?
"""

from __future__ import annotations

from typing import NamedTuple

from fjit.core.ir import Var
from fjit.optimize import store
from fjit.optimize.account import account
from fjit.optimize.cost import Scale
from fjit.optimize.decisions import Choose, Decision, Found
from fjit.optimize.drafts import Refusal, Root
from fjit.optimize.grouping import Grouping
from fjit.optimize.groups import Group, Unit


def answered(grouping: Grouping, choose: Choose, scale: Scale) -> Found:
    """The groups that a user's answers give."""
    return _Questions(grouping, choose, scale).found()


class _Edge(NamedTuple):
    """Two units that share a value, by their numbers; `flows` if the second reads the first."""

    first: int
    second: int
    flows: bool


class _Questions:
    """The state of one series of questions."""

    def __init__(self, grouping: Grouping, choose: Choose, scale: Scale) -> None:
        self.grouping, self.choose, self.scale = grouping, choose, scale
        program, producers = grouping.program, grouping.producers
        self.needed = grouping.needed
        grouping.stored = store.required(program, producers, unfused=True)
        grouping.refresh()
        grouping.stored.update(grouping.crossing(grouping.singles()))
        grouping.refresh()
        self.units = grouping.roots()
        singles = grouping.singles()
        self.home = list(range(len(singles)))  # of each unit, the first unit of its kernel
        self.groups = dict(enumerate(singles))
        self.edges = self._edges(singles)
        self.readers = [
            {e.second for e in self.edges if e.flows and e.first == k} for k in self.groups
        ]

    def _edges(self, singles: list[Group]) -> list[_Edge]:
        """Data flow first, then what reads the same values."""
        graph = self.grouping.graph(singles)
        number = {id(single): k for k, single in enumerate(singles)}
        flows = {(number[id(a)], number[id(b)]) for s in singles for a, b in graph.flows(s)}
        pairs = {(number[id(a)], number[id(b)]) for s in singles for a, b in graph.siblings(s)}
        found = [_Edge(a, b, True) for a, b in sorted(flows)]
        return found + [_Edge(a, b, False) for a, b in sorted(pairs - flows)]

    def found(self) -> Found:
        """Ask until nothing is left to ask."""
        left = list(self.edges)
        while left:
            before = len(left)
            left = [edge for edge in left if not self._settled(edge)]
            if len(left) == before:
                break
        groups = [self.groups[k] for k in sorted(self.groups)]
        told = account(self.grouping, groups, self.scale, "refused by the fusion function")
        return Found(groups, told)

    def _settled(self, edge: _Edge) -> bool:
        """Whether an edge is inside of a kernel, or was asked about; if it can be, it is asked."""
        a, b = self.home[edge.first], self.home[edge.second]
        if a == b:
            return True
        apart = [self.groups[a], self.groups[b]]
        members = [k for k, home in enumerate(self.home) if home in (a, b)]
        inside = self._inside(members)
        roots = self._roots(members, inside)
        self.grouping.swap(inside, (), roots)
        merged = self._legal(a, b, roots)
        if merged is None:
            self.grouping.swap((), inside, roots)
            return False
        if self.choose(self._candidate(apart, inside)):
            home = min(a, b)
            self.groups[home] = merged
            del self.groups[max(a, b)]
            self.home = [home if k in members else h for k, h in enumerate(self.home)]
        else:
            self.grouping.swap((), inside, roots)
        return True

    def _inside(self, members: list[int]) -> list[Var]:
        """Stored values that nobody reads but these units."""
        own, stored = set(members), self.grouping.stored
        made = {k: self.units[k][-1].var for k in members if self.readers[k]}
        return [
            var for k, var in made.items()
            if self.readers[k] <= own and var in stored and var not in self.needed
        ]  # fmt: skip

    def _roots(self, members: list[int], inside: list[Var]) -> Unit:
        stored = self.grouping.stored.keys() - set(inside)
        roots: list[Root] = [root for k in members for root in self.units[k]]
        return self.grouping.sorted(r for r in roots if r.eqn is not None or r.var in stored)

    def _legal(self, a: int, b: int, roots: Unit) -> Group | None:
        """The kernel of two kernels' units, if there can be one."""
        merged = self.grouping.group(roots)
        if isinstance(merged, Refusal):
            return None
        others = [group for k, group in self.groups.items() if k not in (a, b)]
        return merged if self.grouping.in_order([*others, merged]) else None

    def _candidate(self, apart: list[Group], inside: list[Var]) -> Decision:
        names = (self.grouping.name(apart[0]), self.grouping.name(apart[1]))
        saved = self.grouping.shared_bytes(*apart) + sum(v.aval.nbytes for v in inside)
        return Decision(names, True, "fewer bytes through memory", {"bytes_saved": saved})
