"""Kernels cut so that none needs more registers than a user allows.

Takes groups and a `Limit`, gives groups. A kernel over the limit is cut along one order of its
operations into pieces of few live values; what one piece computes and another reads is stored.
Invariant: the pieces compute the same values, each once.

    120 operations on 24 inputs, max_registers=16      1 kernel of 31 registers -> 4 of at most 16
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from fjit.core.ir import Atom, Eqn, Literal, Var
from fjit.optimize.decisions import Decision
from fjit.optimize.drafts import Refusal
from fjit.optimize.grouping import ENDS, Grouping
from fjit.optimize.groups import Group


class Limit(NamedTuple):
    """Most registers of a kernel, and how many the kernel of a group is foreseen to need."""

    registers: int
    needed: Callable[[Group], int]


def capped(
    grouping: Grouping, groups: Sequence[Group], limit: Limit
) -> tuple[list[Group], list[Decision]]:
    """Groups of at most so many registers, as far as single operations allow, and why."""
    found: list[Group] = []
    decisions: list[Decision] = []
    for group in groups:
        needed = limit.needed(group)
        if needed <= limit.registers:
            found.append(group)
            continue
        pieces = _Cutter(grouping, group, limit).pieces()
        most = max(map(limit.needed, pieces))
        reason = f"cut for max_registers={limit.registers}: {needed} registers in one kernel"
        if most > limit.registers:
            reason += f"; a single operation needs {most}"
        numbers = {"registers": 1.0 * needed, "kernels": 1.0 * len(pieces)}
        decisions.append(Decision((grouping.name(group), "the rest of it"), False, reason, numbers))
        found += pieces
    return sorted(found, key=grouping.key), decisions


class _Cutter:
    """One kernel that is cut."""

    def __init__(self, grouping: Grouping, group: Group, limit: Limit) -> None:
        self.grouping, self.group, self.limit = grouping, group, limit
        inside = grouping.inside(group, grouping.computed(group))
        self.env = {v: grouping.producers[v] for v in inside}
        self.order = list(self._steps())
        self.stores = {root.var for root in group.roots if root.eqn is None}
        self.cut: list[Var] = []  # values stored for the pieces

    def _steps(self) -> Iterator[Eqn]:
        """Operations and reductions, each after its operands, depth first; no views."""
        done: set[Var] = set()
        for root in self.group.roots:
            stack = [root.var]
            while stack:
                var = stack[-1]
                reads = self._operands(self.env[var])
                waiting = [v for v in reads if v not in done and v in self.env]
                if var in done or not waiting:
                    stack.pop()
                    if var not in done and self._is_step(var):
                        yield self.env[var]
                    done.add(var)
                else:
                    stack.append(waiting[0])

    def _is_step(self, var: Var) -> bool:
        return self.env[var].primitive.family in ("elementwise", *ENDS)

    def _operands(self, eqn: Eqn) -> list[Var]:
        """What an operation reads, views seen through, the longest way first."""
        found: dict[Var, None] = {}
        stack: list[Atom] = list(reversed(eqn.inputs))
        while stack:
            atom = stack.pop()
            if isinstance(atom, Literal):
                continue
            made = self.env.get(atom)
            if made is not None and made.primitive.family not in ("elementwise", *ENDS):
                stack.extend(reversed(made.inputs))
            else:
                found[atom] = None
        return list(found)

    def pieces(self) -> list[Group]:
        """Groups that keep to the limit, with as many live values as that allows."""
        budget = self.limit.registers
        while True:
            groups = self._groups(self._cut(budget))
            if budget == 1 or all(self.limit.needed(g) <= self.limit.registers for g in groups):
                return groups
            budget = max(1, min(budget - 1, budget * 3 // 4))

    def _cut(self, budget: int) -> list[list[Eqn]]:
        """Runs of operations in order, each of at most so many live values."""
        pieces: list[list[Eqn]] = [[]]
        for eqn in self.order:
            if pieces[-1] and self._live([*pieces[-1], eqn]) > budget:
                pieces.append([])
            pieces[-1].append(eqn)
        return pieces

    def _live(self, eqns: Sequence[Eqn]) -> int:
        """Most values live at once; what is loaded for one use is an operand in memory."""
        made = {v for eqn in eqns for v in eqn.outputs}
        uses: dict[Var, list[int]] = {}
        for k, eqn in enumerate(eqns):
            for var in self._operands(eqn):
                uses.setdefault(var, []).append(k)
        first = {v: k for k, eqn in enumerate(eqns) for v in eqn.outputs}
        live = [0] * len(eqns)
        for var, at in uses.items():
            if var in made or len(at) > 1:
                for k in range(first.get(var, at[0]), at[-1]):
                    live[k] += 1
        return 1 + max(live, default=0)

    def _groups(self, pieces: Sequence[Sequence[Eqn]]) -> list[Group]:
        """The groups of pieces, with what crosses from one to another stored."""
        grouping = self.grouping
        home = {v: k for k, piece in enumerate(pieces) for eqn in piece for v in eqn.outputs}
        for var in self.cut:
            del grouping.stored[var]
        cross = (
            v for k, piece in enumerate(pieces) for eqn in piece
            for v in self._operands(eqn) if home.get(v, k) != k and v not in self.stores
        )  # fmt: skip
        self.cut = list(dict.fromkeys(cross))
        grouping.stored.update(dict.fromkeys(self.cut))
        grouping.refresh()
        found: list[Group] = []
        units = {unit[-1].var: unit for unit in grouping.roots()}
        for k in range(len(pieces)):
            here = [units[v] for v, at in home.items() if at == k and v in units]
            group = grouping.group(grouping.sorted(*here))
            found += map(grouping.single, here) if isinstance(group, Refusal) else [group]
        return found
