"""The memory order of every value of a program, from the program alone.

Takes a program's producers, the strides of its inputs and the orders that results must have; gives
for each value the strides by which it walks over what it is computed from, and the layout it has if
it is stored. Invariant: nothing here depends on what a plan stores or fuses, so neither does the
order in which a sum adds its terms (docs/numerics.md).

    a: f64[2,3] strides (3, 1)      b = transpose a      c = b + b
    rows(c) = {(1, 3)}              layout(c) = (1, 2): axis 0 is the inner one
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping

from fjit.core.ir import Eqn, Var
from fjit.frontend.layout import k_order
from fjit.optimize import cost, demand, store
from fjit.optimize import index as ix
from fjit.optimize.index import Axis, Indices

Strides = tuple[int, ...]


def axis_strides(at: Indices, own: Strides, axes: tuple[Axis, ...]) -> Strides:
    """Element strides of an access along each loop axis (0 where it stays or is irregular)."""
    total = dict.fromkeys(axes, 0)
    for index, stride in zip(at, own, strict=True):
        for term, coef in index.terms:
            if isinstance(term, Axis) and term in total:
                total[term] += coef * stride
    return tuple(total[a] for a in axes)


class Orders:
    """Memory orders of one program's values. See the module's docstring."""

    def __init__(
        self,
        producers: Mapping[Var, Eqn],
        inputs: Mapping[Var, Strides],
        results: Mapping[Var, tuple[int, ...]],
    ) -> None:
        self.producers = producers
        self.inputs = inputs
        self.results = results
        self._layouts: dict[Var, Strides] = dict(inputs)
        self._rows: dict[Var, tuple[Strides, ...]] = {}
        self.filtered = {
            v: e for v, e in producers.items()
            if e.primitive.family in store.INLINE and not v.aval.is_static
        }  # fmt: skip

    def layout(self, var: Var) -> Strides:
        """Element strides of an input, or of a value if it is stored."""
        known = self._layouts.get(var)
        if known is None:
            order = self.results.get(var)
            if order is None:
                rows = list(self.rows(var)) if self._is_computed(var) else []
                order = k_order(var.aval.ndim, rows)
            known = self._layouts[var] = cost.ordered_strides(var.aval, order)
        return known

    def rows(self, var: Var) -> tuple[Strides, ...]:
        """Strides of the inputs and results that a value is computed from, along its own axes.

        0 where a source stays or is read irregularly. Not those of the layout: a result may have to
        be stored in another order than NumPy walks.
        """
        pending = [var]
        while pending:
            last = pending[-1]
            sources = self._sources(last)
            missing = [leaf.var for leaf in sources if leaf.var not in self._rows]
            if missing and last not in self._rows:
                pending.extend(missing)
                continue
            pending.pop()
            if last not in self._rows:
                self._rows[last] = self._own_rows(last, sources)
        return self._rows[var]

    def _is_computed(self, var: Var) -> bool:
        eqn = self.producers.get(var)
        return eqn is not None and eqn.primitive.family in store.INLINE and var.aval.is_static

    def _sources(self, var: Var) -> list[demand.Leaf]:
        if not self._is_computed(var):
            return []
        env = ChainMap({var: self.producers[var]}, self.filtered)
        try:
            return demand.walk(env, [(var, store.axes_for(var))])[0]
        except demand.OutOfStepError:  # filtered values put back: their order is that of the mask
            return []

    def _own_rows(self, var: Var, sources: list[demand.Leaf]) -> tuple[Strides, ...]:
        if not self._is_computed(var):
            return (self.layout(var),)
        axes = tuple(a for i in store.axes_for(var) if (a := ix.bare_axis(i)) is not None)
        found: dict[Strides, None] = {}
        for leaf in sources:
            for row in self._rows[leaf.var]:
                found[axis_strides(leaf.at, row, axes)] = None
        return tuple(found)
