"""Cut a vector loop where the conditions of padded and joined operands change.

Takes the placed roots of a loop, gives the parts of its axis; in most parts every condition is
decided, so that the body has neither masks nor selects:

    concatenate([x, y]) * 2 over i < n + m     vector i < n: x[i] * 2     vector j < m: y[j] * 2

Invariant: the parts of a loop with a floating sum start at whole blocks, so that the order of its
terms is that of the uncut loop.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from fjit.lower import order
from fjit.optimize import demand
from fjit.optimize.drafts import root_reads
from fjit.optimize.index import Axis, Holds
from fjit.optimize.schedule import Placed

MOST_CUTS: Final = 8
MOST_STATEMENTS: Final = 400
"""Copies of a body cost code; a loop that would have more statements is not cut."""


def cuts(env: demand.Env, here: list[Placed], axis: Axis) -> list[tuple[int, int]]:
    """Parts (start, extent) of `axis`; a single one where a cut is not possible or worth it."""
    whole = [(0, axis.extent)]
    if axis.sym is not None or any(q.cls not in ("store", "inner", "whole") for q in here):
        return whole
    roots = [r for q in here for r in root_reads(q.root, q.at, q.guard)]
    computed = demand.walk(env, roots)[1]
    size = sum(len(places) for places in computed.values())
    bounds: set[int] = set()
    for var, places in computed.items():
        if env[var].primitive.family != "view":
            continue
        for at in places:
            bounds |= _changes(demand.step(env[var], at), axis)
    if any(order.is_ordered(q) for q in here):
        bounds = {b for at in bounds for b in _block_around(at)}
    inside = sorted(b for b in bounds if 0 < b < axis.extent)
    if not inside or len(inside) > MOST_CUTS or size * (len(inside) + 1) > MOST_STATEMENTS:
        return whole
    return [(a, b - a) for a, b in pairwise([0, *inside, axis.extent])]


def _changes(source: demand.Source, axis: Axis) -> set[int]:
    """Positions along `axis` where a condition that depends on it alone changes."""
    found: set[int] = set()
    if not isinstance(source, demand.Choice):
        return found
    for guard, _ in source.options:
        for condition in guard:
            if isinstance(condition, Holds) or len(condition.inner.terms) != 1:
                continue
            term, coef = condition.inner.terms[0]
            shift = condition.inner.const
            if term == axis and coef == 1:
                found |= {condition.low - shift, condition.high - shift}
            elif term == axis and coef == -1:
                found |= {shift - condition.low + 1, shift - condition.high + 1}
    return found


def _block_around(at: int) -> tuple[int, int]:
    low = at // order.BLOCK * order.BLOCK
    return low, low if low == at else low + order.BLOCK
