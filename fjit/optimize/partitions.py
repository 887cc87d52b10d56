"""All ways to share kernels between a few roots, and the one that takes the least time.

Takes units (roots that always share a kernel) and which of them share values, gives partitions and
the groups of the best. Invariant: a group is connected, since others save nothing.

    a, b, c, where b reads a and c      {a b c} {a b|c} {a|b c} {a|b|c}, not {a c|b}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fjit.optimize.cost import Scale
from fjit.optimize.drafts import Refusal
from fjit.optimize.grouping import Grouping
from fjit.optimize.groups import Group, Unit

Partition = tuple[tuple[int, ...], ...]


class Best(NamedTuple):
    """Groups and their estimated time."""

    groups: tuple[Group, ...]
    ns: float


def partitions(units: Sequence[Unit], adjacent: set[frozenset[int]]) -> Iterator[Partition]:
    """Partitions of the units' numbers into connected parts, those with few parts first."""
    found = (p for p in _partitions(len(units)) if all(_connected(part, adjacent) for part in p))
    return iter(sorted(found, key=len))


def _partitions(count: int) -> Iterator[Partition]:
    if not count:
        yield ()
        return
    for rest in _partitions(count - 1):
        last = count - 1
        for k, part in enumerate(rest):
            yield (*rest[:k], (*part, last), *rest[k + 1 :])
        yield (*rest, (last,))


def _connected(part: tuple[int, ...], adjacent: set[frozenset[int]]) -> bool:
    reached, left = {part[0]}, set(part[1:])
    while left:
        new = {k for k in left if any(frozenset((k, r)) in adjacent for r in reached)}
        if not new:
            return False
        reached |= new
        left -= new
    return True


def least_time(
    grouping: Grouping, units: Sequence[Unit], ways: Iterable[Partition], scale: Scale
) -> Best | None:
    """The groups of the legal partition that takes the least time; None if none is legal."""
    trial = _Trial(grouping, units)
    best: Best | None = None
    for way in ways:
        groups = trial.groups(way)
        if groups is None:
            continue
        ns = sum(trial.ns(group, scale) for group in groups)
        if best is None or ns < best.ns * (1 - 1e-9):
            best = Best(groups, ns)
    return best


class _Trial:
    """Partitions tried one after the other; kernels are known by their roots."""

    def __init__(self, grouping: Grouping, units: Sequence[Unit]) -> None:
        self.grouping, self.units = grouping, units
        needed = grouping.needed
        self.ends = [unit[0].var if unit[0].eqn is not None else None for unit in units]
        self.bare = [
            unit[:1] if end is not None and end not in needed else unit
            for unit, end in zip(units, self.ends, strict=True)
        ]
        self.reads = [grouping.reads(grouping.single(unit)) for unit in units]
        self._groups: dict[object, Group | Refusal] = {}
        self._ns: dict[object, float] = {}

    def groups(self, way: Partition) -> tuple[Group, ...] | None:
        """The groups of a partition, or None if the law forbids it."""
        grouping, found = self.grouping, []
        for part in way:
            outside = [k for k in range(len(self.units)) if k not in part]
            roots = [root for k in part for root in self.bare[k]]
            for k in part:
                end = self.ends[k]
                crosses = end is not None and any(end in self.reads[o] for o in outside)
                if crosses and len(self.bare[k]) == 1 and end is not None:
                    roots.append(grouping.store_of(end))
            key = grouping.sorted(roots)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = grouping.group(key)
            if isinstance(group, Refusal):
                return None
            found.append(group)
        return tuple(found) if grouping.in_order(found) else None

    def ns(self, group: Group, scale: Scale) -> float:
        """The estimated time of a kernel."""
        known = self._ns.get(group.roots)
        if known is None:
            known = self._ns[group.roots] = self.grouping.work(group).ns(scale)
        return known
