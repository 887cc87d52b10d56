"""The account of a plan: why each kernel's roots are together, and why each pair of kernels is not.

Takes a `Grouping` and its groups, gives decisions. Invariant: every two kernels that share a value
are in it, and every root of a kernel but the first.

    exp(x) * y, x.sum()      taken: mul | reduce[sum]: fewer bytes through memory, 8,000 saved
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fjit.core.ir import Literal, Var
from fjit.optimize.cost import Scale
from fjit.optimize.decisions import Decision
from fjit.optimize.drafts import Refusal
from fjit.optimize.grouping import Grouping, describe
from fjit.optimize.groups import Graph, Group, Pair

TOO_LONG: Final = "computing values again would take longer than what it saves"


def account(
    grouping: Grouping, groups: Sequence[Group], scale: Scale, otherwise: str = TOO_LONG
) -> tuple[Decision, ...]:
    """All decisions about merges, weighed by `scale`.

    `otherwise` says why two kernels are not one that may be.
    """
    apart = _apart(grouping, groups, scale, otherwise)
    return (*_together(grouping, groups), *apart, *_between(grouping))


def pairs_of(graph: Graph) -> list[Pair]:
    """All pairs of groups that share a value, each once."""
    found: dict[frozenset[int], Pair] = {}
    for group in sorted(graph.groups, key=graph.key):
        for a, b in (*graph.flows(group), *graph.siblings(group)):
            found.setdefault(frozenset((id(a), id(b))), (a, b))
    return list(found.values())


def _together(grouping: Grouping, groups: Sequence[Group]) -> Iterator[Decision]:
    """A decision for each root but the first of a kernel, with one that it shares a value with."""
    singles = {single.roots[0]: single for single in grouping.singles()}
    for group in groups:
        units = [singles[root] for root in group.roots if root in singles]
        graph = grouping.graph(units)
        met = units[:1]
        left = units[1:]
        while left:
            a, b = next(
                ((a, b) for b in left for a in met if _shares(graph, a, b)), (met[0], left[0])
            )
            left.remove(b)
            met.append(b)
            numbers = {"bytes_saved": grouping.shared_bytes(a, b)}
            names = (grouping.name(a), grouping.name(b))
            yield Decision(names, True, "fewer bytes through memory", numbers)


def _shares(graph: Graph, a: Group, b: Group) -> bool:
    """Whether two groups read one value, or one what the other makes."""
    reads = graph.reads(a).keys(), graph.reads(b).keys()
    made = {r.var for r in a.roots}, {r.var for r in b.roots}
    return bool(reads[0] & reads[1] or made[0] & reads[1] or made[1] & reads[0])


def _apart(
    grouping: Grouping, groups: Sequence[Group], scale: Scale, otherwise: str
) -> Iterator[Decision]:
    """A decision for each two kernels that share a value."""
    graph = grouping.graph(list(groups))
    for a, b in pairs_of(graph):
        merged = grouping.merged(graph, a, b)
        numbers = {"bytes_saved": grouping.shared_bytes(a, b)}
        if isinstance(merged, Refusal):
            reason = merged.reason
        else:
            reason = otherwise
            numbers["apart_ns"] = sum(grouping.work(g).ns(scale) for g in (a, b))
            numbers["together_ns"] = grouping.work(merged).ns(scale)
        yield Decision((grouping.name(a), grouping.name(b)), False, reason, numbers)


def _between(grouping: Grouping) -> Iterator[Decision]:
    """What library calls and barriers keep apart: makers of operands from readers of results."""
    readers: dict[Var, list[str]] = {}
    for eqn in grouping.program.eqns:
        for atom in dict.fromkeys(eqn.inputs):
            if not isinstance(atom, Literal):
                readers.setdefault(atom, []).append(describe(eqn))
    for eqn in grouping.program.eqns:
        if eqn.primitive.family not in ("library", "barrier"):
            continue
        made = grouping.producers
        before = [describe(made[a]) for a in eqn.inputs if not isinstance(a, Literal) and a in made]
        after = [name for var in eqn.outputs for name in readers.get(var, ())]
        word = "fjit.barrier" if eqn.primitive.family == "barrier" else eqn.primitive.name
        for pair in dict.fromkeys((b, a) for b in before for a in after):
            yield Decision(pair, False, f"{word} stands between them: nothing fuses across it")
