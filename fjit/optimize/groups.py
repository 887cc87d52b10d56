"""Groups of roots that will share a kernel, while they merge: who makes and who reads each value.

Takes groups and what each reads, gives the pairs that may merge next. Invariant: pairs come in the
order of a key of the groups, whatever has merged.

    t = x.sum(); y = x / t      flows: (sum, store of y)      siblings, by x: (sum, store of y)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from fjit.core.ir import Var
from fjit.optimize.drafts import Root
from fjit.optimize.schedule import Schedule


class Group(NamedTuple):
    """Roots that share a kernel, and their schedule."""

    roots: tuple[Root, ...]
    schedule: Schedule


Pair = tuple[Group, Group]
Unit = tuple[Root, ...]
"""Roots that always share a kernel."""


class Graph:
    """Groups with who makes and who reads each value, kept up to date as groups merge."""

    def __init__(
        self,
        groups: list[Group],
        reads: Callable[[Group], dict[Var, None]],
        key: Callable[[Group], Any],  # something to sort by
    ) -> None:
        self.reads, self.key = reads, key
        self.members: dict[tuple[Root, ...], Group] = {}
        self.makers: dict[Var, Group] = {}
        self.readers: dict[Var, list[Group]] = {}
        for group in groups:
            self._add(group)

    @property
    def groups(self) -> list[Group]:
        """The groups there are now."""
        return list(self.members.values())

    def alive(self, group: Group) -> bool:
        """Whether a group has not been merged into another one."""
        return group.roots in self.members

    def _add(self, group: Group) -> None:
        self.members[group.roots] = group
        for root in group.roots:
            self.makers[root.var] = group
        for var in self.reads(group):
            self.readers.setdefault(var, []).append(group)

    def replace(self, a: Group, b: Group, merged: Group) -> None:
        """Put a merged group in the place of two."""
        for group in (a, b):
            del self.members[group.roots]
            for var in self.reads(group):
                self.readers[var].remove(group)
        self._add(merged)

    def flows(self, group: Group) -> list[Pair]:
        """Pairs of a producer and a consumer that `group` is part of."""
        pairs: dict[tuple[int, int], Pair] = {}
        for root in group.roots:
            for reader in self.readers.get(root.var, ()):
                if reader is not group:
                    pairs.setdefault((id(group), id(reader)), (group, reader))
        for var in self.reads(group):
            maker = self.makers.get(var)
            if maker is not None and maker is not group:
                pairs.setdefault((id(maker), id(group)), (maker, group))
        return self._sorted(pairs.values())

    def siblings(self, group: Group) -> list[Pair]:
        """Pairs that read a value together."""
        pairs: dict[int, Pair] = {}
        for var in self.reads(group):
            for reader in self.readers[var]:
                if reader is not group:
                    first, second = sorted((group, reader), key=self.key)
                    pairs.setdefault(id(reader), (first, second))
        return self._sorted(pairs.values())

    def _sorted(self, pairs: Iterable[Pair]) -> list[Pair]:
        return sorted(pairs, key=lambda pair: (self.key(pair[0]), self.key(pair[1])))
