"""Reductions in two walks: what the second walk over a block adds up, and how blocks are merged.

Takes values of a nest, gives values: a block's sum of squared deviations from its own mean, and
those of two stretches as that of both (T. F. Chan, G. H. Golub, R. J. LeVeque, 1979):

    squares = squares_a + squares_b + (mean_b - mean_a)^2 * n_a n_b / (n_a + n_b)

or a block's sum of exponentials less its own maximum, rescaled where a larger one comes (M.
Milakov, N. Gimelshein, 2018). Invariant: merging is in float64, and the same whether an element
stands for a row, for one of many columns, or for a chunk of either.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple, Protocol

import numpy as np

from fjit.core import dtypes
from fjit.lower.build import Writer
from fjit.lower.nest import Value

BOOL, F64 = dtypes.BOOL, dtypes.F64
Values = tuple[Value, ...]


class Lengths(NamedTuple):
    """Of the stretch merged next and of both, and what Chan's formula takes of them."""

    number: Value
    both: Value
    share: Value
    weight: Value


class Merging(Protocol):
    """The arithmetic of one kind of reduction in two walks."""

    starts: tuple[float, ...]  # the words of nothing, all float64
    terms: int  # sums of the second walk

    def pivot(self, first: Value, number: Value) -> Values:
        """What the second walk is about, in the operand's dtype, and the block's first word."""

    def term(self, value: Value, pivot: Value) -> Values:
        """What the second walk adds for an element."""

    def block(self, pivot: Value, first: Value, sums: Values, number: Value) -> Values:
        """The words of a block, from its sums about the pivot."""

    def merge(self, old: Values, new: Values, lengths: Lengths) -> Values:
        """The words of two stretches together; `new` may lack the last ones."""

    def finish(self, words: Values) -> Value:
        """The result in the operand's dtype."""


class _Writing:
    """Float64 arithmetic in a nest."""

    def __init__(self, writer: Writer, dtype: np.dtype) -> None:
        self.writer, self.dtype = writer, dtype

    def op(self, name: str, *args: Value) -> Value:
        return self.writer.let(name, args, (F64,) * len(args), F64)

    def test(self, name: str, *args: Value) -> Value:
        return self.writer.let(name, args, (F64,) * len(args), BOOL)

    def choose(self, condition: Value, yes: Value, no: Value) -> Value:
        return self.writer.let("select", (condition, yes, no), (BOOL, F64, F64), F64)

    def number(self, value: float) -> Value:
        return self.writer.constant(value, F64)

    def narrow(self, value: Value) -> Value:
        """In the operand's dtype."""
        if self.dtype == F64:
            return value
        return self.writer.let("convert", (value,), (F64,), self.dtype)

    def wide(self, value: Value) -> Value:
        if self.dtype == F64:
            return value
        return self.writer.let("convert", (value,), (self.dtype,), F64)


class Deviations(_Writing):
    """The mean, the squares about it, and in float64 what rounding took from the squares.

    A block's first walk gives a mean that is rounded to the operand's dtype, coarsely far from
    zero; the second adds up the deviations from it, too, and their sum corrects both words.
    """

    terms = 2

    def __init__(self, writer: Writer, dtype: np.dtype) -> None:
        super().__init__(writer, dtype)
        self.starts: tuple[float, ...] = (0.0,) * (3 if dtype == F64 else 2)

    def pivot(self, first: Value, number: Value) -> Values:
        """The mean."""
        mean = self.op("div", first, number)
        return self.narrow(mean), mean

    def term(self, value: Value, pivot: Value) -> Values:
        """The deviation and its square."""
        pair = (self.dtype, self.dtype)
        apart = self.writer.let("sub", (value, pivot), pair, self.dtype)
        return apart, self.writer.let("mul", (apart, apart), pair, self.dtype)

    def block(self, pivot: Value, first: Value, sums: Values, number: Value) -> Values:
        """The mean, and the squares about it: none below zero, infinite ones as they are."""
        del first
        apart, squares = sums
        shift = self.op("div", apart, number)
        fewer = self.op("sub", squares, self.op("mul", apart, shift))
        zero = self.number(0.0)
        fewer = self.choose(self.test("lt", fewer, zero), zero, fewer)
        within = self.choose(self.test("isinf", squares), squares, fewer)
        return self.op("add", self.wide(pivot), shift), within

    def merge(self, old: Values, new: Values, lengths: Lengths) -> Values:
        """Chan's formula.

        Once the squares are infinite they stay so, as NumPy's do, whatever the means have become.
        """
        step = self.op("sub", new[0], old[0])
        mean = self.op("add", old[0], self.op("mul", step, lengths.share))
        between = self.op("mul", self.op("mul", step, lengths.weight), step)
        within = self.op("add", old[1], new[1])
        both = self.op("add", within, between)
        total = self.choose(self.test("isinf", within), within, both)
        if len(old) == 2:
            return mean, total
        lost = self._lost(old[1], new[1], within)
        for earlier in (self._lost(within, between, both), old[2], *new[2:]):
            lost = self.op("add", lost, earlier)
        return mean, total, lost

    def _lost(self, a: Value, b: Value, total: Value) -> Value:
        """The rounding error of total = a + b (Knuth's TwoSum)."""
        t = self.op("sub", total, a)
        first = self.op("sub", a, self.op("sub", total, t))
        return self.op("add", first, self.op("sub", b, t))

    def finish(self, words: Values) -> Value:
        """The squares."""
        total = words[1]
        if len(words) == 3:
            known = self.test("eq", words[2], words[2])
            total = self.choose(known, self.op("add", total, words[2]), total)
        return self.narrow(total)


class ExpSum(_Writing):
    """The maximum, how often it occurs, and the sum of the other exponentials less it."""

    starts: tuple[float, ...] = (-math.inf, 0.0, 0.0)
    terms = 2

    def pivot(self, first: Value, number: Value) -> Values:
        """The maximum, or 0 where that is not finite."""
        del number
        wide = self.wide(first)
        return self.narrow(self._finite(wide)), wide

    def _finite(self, largest: Value) -> Value:
        return self.choose(self.test("isfinite", largest), largest, self.number(0.0))

    def term(self, value: Value, pivot: Value) -> Values:
        """1 and 0 for the maximum, 0 and the exponential for the rest."""
        let, dtype = self.writer.let, self.dtype
        same = let("eq", (value, pivot), (dtype, dtype), BOOL)
        power = let("exp", (let("sub", (value, pivot), (dtype, dtype), dtype),), (dtype,), dtype)
        zero = self.writer.constant(0.0, dtype)
        rest = let("select", (same, zero, power), (BOOL, dtype, dtype), dtype)
        return let("convert", (same,), (BOOL,), dtype), rest

    def block(self, pivot: Value, first: Value, sums: Values, number: Value) -> Values:
        """The maximum, and the sums as they are."""
        del pivot, number
        return (first, *sums)

    def merge(self, old: Values, new: Values, lengths: Lengths) -> Values:
        """Both sums less the larger maximum: the other one's is scaled, ones and all."""
        del lengths
        gap = self.op("sub", self._finite(old[0]), self._finite(new[0]))
        scale = self.op("exp", self.op("neg", self.op("abs", gap)))
        ones, rest = self._scaled(old, self.test("lt", old[0], new[0]), scale)
        more_ones, more_rest = self._scaled(new, self.test("lt", new[0], old[0]), scale)
        largest = self.op("max", old[0], new[0])
        return largest, self.op("add", ones, more_ones), self.op("add", rest, more_rest)

    def _scaled(self, words: Values, smaller: Value, scale: Value) -> tuple[Value, Value]:
        """Ones and rest of a stretch, whose maximum may be the smaller one."""
        total = self.op("mul", self.op("add", words[1], words[2]), scale)
        zero = self.number(0.0)
        return self.choose(smaller, zero, words[1]), self.choose(smaller, total, words[2])

    def finish(self, words: Values) -> Value:
        """The sum; NaN where the maximum is not finite, as NumPy's inf - inf."""
        known = self.test("isfinite", words[0])
        total = self.op("add", words[1], words[2])
        return self.narrow(self.choose(known, total, self.number(math.nan)))


class LogExpSum(ExpSum):
    """The same, of which the logarithm is wanted, for a maximum that is not finite less 0."""

    def finish(self, words: Values) -> Value:
        """log(ones + rest), to the last digit also where the rest is small."""
        ones, rest = words[1], words[2]
        share = self.op("div", rest, self.op("max", ones, self.number(1.0)))
        near = self.op("add", self.op("log1p", share), self.op("log", ones))
        counted = self.test("gt", ones, self.number(0.0))
        return self.narrow(self.choose(counted, near, self.op("log", rest)))


MERGINGS: Final[dict[str, type[Deviations | ExpSum]]] = {
    "deviations": Deviations, "expsum": ExpSum, "logexpsum": LogExpSum,
}  # fmt: skip


def merging_of(writer: Writer, op: str, dtype: np.dtype) -> Merging:
    """The arithmetic of the reduction `op` of operands of `dtype`."""
    return MERGINGS[op](writer, dtype)


def words(op: str, dtype: np.dtype) -> tuple[np.dtype, ...]:
    """Dtypes of what is kept of a stretch beside its length."""
    return (F64,) * (3 if op != "deviations" or dtype == F64 else 2)


def lengths_of(writer: Writer, before: Value, number: Value) -> Lengths:
    """The lengths of a stretch so far and the one merged next."""

    def op(name: str, a: Value, b: Value) -> Value:
        return writer.let(name, (a, b), (F64, F64), F64)

    both = op("add", before, number)
    share = op("div", number, both)
    return Lengths(number, both, share, op("mul", before, share))
