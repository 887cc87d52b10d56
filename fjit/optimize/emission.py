"""The order in which a kernel computes its values: the one of three that keeps fewest alive.

Takes a kernel's equations, gives them in another order: depth first, least live first, or as the
program has them. Invariant: operands come first; of equals, the order that does not depend on how
the program was written down.

    a = x + y; b = x * y; c = a / y; d = b / x; c - d      a, c, b, d: two values live, not three
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fjit.core import dtypes
from fjit.core.ir import Eqn, Var
from fjit.core.live import Line
from fjit.optimize.canonical import reads_of


def ordered(eqns: Sequence[Eqn], places: Mapping[Eqn, int]) -> tuple[Eqn, ...]:
    """A kernel's equations, which are given in the program's order, as they are emitted."""
    canonical = sorted(eqns, key=places.__getitem__)
    line = _line(canonical)
    number = {eqn: k for k, eqn in enumerate(canonical)}
    orders = [line.depth_first(), line.least_live(_weight), [number[eqn] for eqn in eqns]]
    best = min(orders, key=lambda order: line.most(_weight, order))
    return tuple(canonical[k] for k in best)


def _line(eqns: Sequence[Eqn]) -> Line[Var]:
    """Steps of equations; what a view gives is what it reads, so it is a step as well."""
    return Line([reads_of(eqn) for eqn in eqns], [eqn.outputs[0] for eqn in eqns])


def _weight(var: Var) -> int:
    return int(var.aval.dtype != dtypes.BOOL)
