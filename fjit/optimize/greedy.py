"""A plan by simple rules: values kept by cost, then merges along data flow, then of siblings.

Takes a `Grouping`, gives groups; search.py goes on from there. Invariant: a merge that is legal and
does not compute again what was kept for its cost is taken.

    y = exp(x); z = y.sum(); y / z      stored: the result; groups: sum | store, merged
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

from fjit.core.ir import Var
from fjit.optimize import store
from fjit.optimize.decisions import Decision
from fjit.optimize.drafts import Refusal
from fjit.optimize.grouping import Grouping, describe
from fjit.optimize.groups import Graph, Group, Pair, Unit

MOST_ROUNDS: Final = 6
"""Times that groups are formed anew because several kernels would compute a heavy value."""


class Greedy:
    """Plans by rules. `kept` are values to store, `inline` those to compute again, whatever it
    costs; "max" weighs no cost, "none" merges nothing.
    """

    def __init__(
        self,
        grouping: Grouping,
        fusion: str,
        kept: Collection[Var] = (),
        inline: Collection[Var] = (),
    ) -> None:
        self.grouping, self.fusion = grouping, fusion
        self.forced, self.inline = tuple(kept), frozenset(inline)
        self.costly: store.Stored = {}
        self.decisions: list[Decision] = []

    def groups(self) -> list[Group]:
        """The groups; `decisions` holds what was kept, and why."""
        grouping = self.grouping
        self._choose_stored()
        groups = self._merge(grouping.singles())
        rounds = 0
        while self._store_crossing(groups) or (rounds < MOST_ROUNDS and self._store_shared(groups)):
            groups = self._merge(grouping.singles())
            rounds += 1
        return groups

    # ---- what is stored -------------------------------------------------------------------
    def _choose_stored(self) -> None:
        grouping, unfused = self.grouping, self.fusion == "none"
        program, producers = grouping.program, grouping.producers
        stored = grouping.stored = store.required(program, producers, unfused=unfused)
        if not unfused:
            for value in store.crowded(program, producers, stored):
                self._keep(value, "stored: it would be computed under many different guards", {})
        for value in self.forced:
            self._keep(value, "stored: the plan as a whole takes less time with it", {})
        while self.fusion == "auto":
            found = store.recomputed(program, producers, stored, self.inline)
            if found is None:
                break
            value, times = found
            reason = "stored: computing it once costs less than at every use"
            self._keep(value, reason, {"times": times})
        grouping.refresh()

    def _keep(self, value: Var, reason: str, numbers: dict[str, float]) -> None:
        """Store a value that could be computed in place."""
        if value in self.grouping.stored:
            return
        self.costly[value] = None
        self.grouping.stored[value] = None
        names = (describe(self.grouping.producers[value]), "its uses")
        numbers = {**numbers, "bytes": 1.0 * value.aval.nbytes}
        self.decisions.append(Decision(names, False, reason, numbers))

    def _store_crossing(self, groups: list[Group]) -> bool:
        """Store reductions and scans that other kernels read; True if any was found."""
        found = self.grouping.crossing(groups).keys() - self.grouping.stored.keys()
        self.grouping.stored.update(dict.fromkeys(sorted(found, key=self._place)))
        self.grouping.refresh()
        return bool(found)

    def _store_shared(self, groups: list[Group]) -> bool:
        """Store heavy values that several kernels would compute; True if any was found."""
        grouping = self.grouping
        users: dict[Var, int] = {}
        for group in groups:
            for var in grouping.computed(group):
                users[var] = users.get(var, 0) + (var not in grouping.stored)
        found = [v for v in store.shared(grouping.program, grouping.env, users)
                 if v not in self.inline and self.fusion == "auto"]  # fmt: skip
        grouping.stored.update(dict.fromkeys(found))
        grouping.refresh()
        return bool(found)

    def _place(self, var: Var) -> int:
        return self.grouping.places[self.grouping.producers[var]]

    # ---- merging --------------------------------------------------------------------------
    def _merge(self, groups: list[Group]) -> list[Group]:
        """Merge along data flow first, then groups that read the same values."""
        if self.fusion == "none":
            return groups
        refused: set[tuple[Unit, Unit]] = set()
        graph = self.grouping.graph(groups)
        queue = deque(pair for group in groups for pair in graph.flows(group))
        later = deque(pair for group in groups for pair in graph.siblings(group))
        while queue or later:
            a, b = queue.popleft() if queue else later.popleft()
            if not (graph.alive(a) and graph.alive(b)) or (a.roots, b.roots) in refused:
                continue
            result = self._merged(graph, (a, b))
            if isinstance(result, Refusal):
                refused.add((a.roots, b.roots))
                continue
            graph.replace(a, b, result)
            queue.extendleft(reversed(graph.flows(result)))
            later.extendleft(reversed(graph.siblings(result)))
        return sorted(graph.groups, key=self.grouping.key)

    def _merged(self, graph: Graph, pair: Pair) -> Group | Refusal:
        group = self.grouping.merged(graph, *pair)
        if isinstance(group, Refusal) or self.fusion == "max":
            return group
        computed = self.grouping.computed(group)
        if any(len(computed.get(v, ())) > 1 for v in self.costly):
            return Refusal("a value is read at several places, where computing it again costs more")
        return group
