"""Reductions in two walks: what the second walk over a block adds up, and how blocks are merged.

Takes values of a nest, gives values: a block's sum of squared deviations from its own mean, and
those of two stretches as that of both (T. F. Chan, G. H. Golub, R. J. LeVeque, 1979):

    squares = squares_a + squares_b + (mean_b - mean_a)^2 * n_a n_b / (n_a + n_b)

Invariant: merging is in float64, and the same whether an element stands for a row, for one of many
columns, or for a chunk of either.
"""

from __future__ import annotations

import numpy as np

from fjit.core import dtypes
from fjit.lower.build import Writer
from fjit.lower.nest import Value

BOOL, F64 = dtypes.BOOL, dtypes.F64
Values = tuple[Value, ...]


def words(op: str, dtype: np.dtype) -> tuple[np.dtype, ...]:
    """Dtypes of what is kept of a stretch beside its length.

    For `deviations` the mean, the squares, and in float64 what rounding took from the squares.
    """
    return (F64, F64, F64) if dtype == F64 else (F64, F64)


class Merging:
    """Writes the arithmetic of reductions in two walks."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def _op(self, name: str, *args: Value) -> Value:
        return self.writer.let(name, args, (F64,) * len(args), F64)

    def _convert(self, value: Value, old: np.dtype, new: np.dtype) -> Value:
        return value if old == new else self.writer.let("convert", (value,), (old,), new)

    # ---- one block --------------------------------------------------------------------------
    def pivot(self, total: Value, count: Value, dtype: np.dtype) -> tuple[Value, Value]:
        """A block's mean in `dtype` and in float64, from its sum and length in float64."""
        mean = self._op("div", total, count)
        return self._convert(mean, F64, dtype), mean

    def term(self, value: Value, pivot: Value, dtype: np.dtype) -> Value:
        """What the second walk adds for an element."""
        pair = (dtype, dtype)
        apart = self.writer.let("sub", (value, pivot), pair, dtype)
        return self.writer.let("mul", (apart, apart), pair, dtype)

    # ---- two stretches ----------------------------------------------------------------------
    def share(self, before: Value, count: Value) -> tuple[Value, Value, Value]:
        """The length of both stretches, the second's share of it, and n_a n_b / (n_a + n_b)."""
        both = self._op("add", before, count)
        share = self._op("div", count, both)
        return both, share, self._op("mul", before, share)

    def merge(self, old: Values, new: Values, share: Value, weight: Value) -> Values:
        """Both stretches' words; `new` may lack the last one, what rounding took.

        Once the squares are infinite they stay so, as NumPy's do, whatever the means have become.
        """
        step = self._op("sub", new[0], old[0])
        mean = self._op("add", old[0], self._op("mul", step, share))
        between = self._op("mul", self._op("mul", step, weight), step)
        within = self._op("add", old[1], new[1])
        both = self._op("add", within, between)
        infinite = self.writer.let("isinf", (within,), (F64,), BOOL)
        total = self.writer.let("select", (infinite, within, both), (BOOL, F64, F64), F64)
        if len(old) == 2:
            return mean, total
        lost = self._lost(old[1], new[1], within)
        for earlier in (self._lost(within, between, both), old[2], *new[2:]):
            lost = self._op("add", lost, earlier)
        return mean, total, lost

    def _lost(self, a: Value, b: Value, total: Value) -> Value:
        """The rounding error of total = a + b (Knuth's TwoSum)."""
        t = self._op("sub", total, a)
        first = self._op("sub", a, self._op("sub", total, t))
        return self._op("add", first, self._op("sub", b, t))

    def finish(self, words: Values, dtype: np.dtype) -> Value:
        """The squares in the result's dtype."""
        total = words[1]
        if len(words) == 3:
            known = self.writer.let("eq", (words[2], words[2]), (F64, F64), BOOL)
            whole = self._op("add", total, words[2])
            total = self.writer.let("select", (known, whole, total), (BOOL, F64, F64), F64)
        return self._convert(total, F64, dtype)
