"""What a loop nest does, counted without compiling it: flops, and the most registers live at once.

Takes a `Nest` (and, for registers, a machine), gives integers. Invariant: neither LLVM nor the
process's machine is asked, so predictions are the same before and after compilation.

    vector i0 < s1                         1000 elements: 1000 * (20 + 1) flops
      %0 = load b0[i0*unit] f64
      %1 = exp.f64 %0 f64
      update a0 %1
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from fjit.backend.lanes import lanes_for
from fjit.core import dtypes
from fjit.lower import nest as n
from fjit.lower.uses import uses
from fjit.optimize import cost
from fjit.target import CpuTarget

MAX_COPIES = 4


def flops(nest: n.Nest) -> int:
    """Operations that the loops execute.

    An elementary function counts 20, division and square root 8, anything else 1; values that
    nobody uses and index arithmetic count nothing.
    """
    wanted = _wanted(nest)
    total = sum(_flops(stmt, wanted) for stmt in nest.entry)
    for phase in nest.phases:
        ratios = {axis: Fraction(_number(nest, extent)) for axis, extent in phase.loop.decode}
        walk = _walk(nest, phase.loop, Fraction(phase.tasks), ratios)
        total += sum(_flops(stmt, wanted) * int(times) for stmt, times in walk)
    return total


def _flops(stmt: n.Stmt, wanted: set[n.Value]) -> int:
    if isinstance(stmt, n.Let):
        return cost.FLOPS.get(stmt.op, 1) if stmt.out in wanted else 0
    return int(isinstance(stmt, n.Update | n.Scan))


def _walk(
    nest: n.Nest, loop: n.Loop, times: Fraction, ratios: dict[str, Fraction]
) -> Iterator[tuple[n.Stmt, Fraction]]:
    """Statements below a loop with how often each runs.

    `times` is the loop's own count; `ratios` says how often the loop of each axis around it runs
    per run of what is around that one.
    """
    for stmt in loop.body:
        if isinstance(stmt, n.Loop):
            inside = _trips(nest, stmt, times, ratios)
            ratio = inside / times if times else Fraction(1)
            for term, _ in () if stmt.start is None else stmt.start.terms:
                ratio *= ratios.get(term) or 1  # groups of a chunk count as those of the whole
            yield from _walk(nest, stmt, inside, ratios | {stmt.axis: ratio})
        else:
            yield stmt, times


def _trips(nest: n.Nest, loop: n.Loop, times: Fraction, ratios: dict[str, Fraction]) -> Fraction:
    """How often a loop's body runs; all chunks or groups of an axis together run to its end."""
    if loop.start is None or loop.stop is None:
        return times * _number(nest, loop.extent)
    for term, _ in loop.start.terms:
        times /= ratios.get(term) or 1
    return times * _number(nest, loop.stop)


def _number(nest: n.Nest, slot: n.Slot) -> int:
    value = nest.slots[slot.number]
    assert isinstance(value, int)
    return value


def _wanted(nest: n.Nest) -> set[n.Value]:
    """Values that something uses in the end."""
    statements = [*nest.entry]
    for phase in nest.phases:
        statements += _flat(phase.loop)
    wanted: set[n.Value] = set()
    for stmt in reversed(statements):
        out = getattr(stmt, "out", None)
        if out is None or out in wanted:
            wanted.update(uses(stmt))
    return wanted


def _flat(loop: n.Loop) -> Iterator[n.Stmt]:
    for stmt in loop.body:
        if isinstance(stmt, n.Loop):
            yield from _flat(stmt)
        else:
            yield stmt


# ---- registers ------------------------------------------------------------------------------
class Pressure(NamedTuple):
    """Most vector registers wanted at once in a vector loop, and how many there are too few."""

    registers: int
    spills: int


def pressure(nest: n.Nest, target: CpuTarget, width: int = 0) -> Pressure:
    """MaxLive over the vector loops' bodies in the order of emission.

    Constants, and on x86 plain loads with one use, are memory operands and take no register;
    temporaries inside an elementary function are not counted.
    """
    loops = [loop for phase in nest.phases for loop in _vector_loops(phase.loop)]
    dtypes_of = _dtypes(nest)
    most = max((_Live(nest, loop, target, width, dtypes_of).most() for loop in loops), default=0)
    return Pressure(most, max(0, most - target.vector_registers))


def _vector_loops(loop: n.Loop) -> Iterator[n.Loop]:
    if loop.kind == "vector":
        yield loop
    for stmt in loop.body:
        if isinstance(stmt, n.Loop):
            yield from _vector_loops(stmt)


def _dtypes(nest: n.Nest) -> dict[n.Value, np.dtype | None]:
    """The dtype of every value; None for constants, which are free."""
    accs: dict[int, np.dtype] = {}
    found: dict[n.Value, np.dtype | None] = {}
    statements = [*nest.entry]
    for phase in nest.phases:
        statements += _flat(phase.loop)
    for stmt in statements:
        if isinstance(stmt, n.Open):
            accs[stmt.acc] = stmt.dtype
        elif isinstance(stmt, n.Const):
            found[stmt.out] = None
        elif isinstance(stmt, n.Scan):
            found[stmt.out] = accs[stmt.acc]
        elif isinstance(stmt, n.Within):
            found[stmt.out] = dtypes.BOOL
        elif isinstance(stmt, n.Position | n.Split | n.Checked):
            found[stmt.out] = dtypes.I64
        elif isinstance(stmt, n.Let | n.Load | n.Scalar):
            found[stmt.out] = stmt.dtype
        elif isinstance(stmt, n.Close):
            found.update(dict.fromkeys(stmt.outs, stmt.dtype))
    return found


class _Live:
    """Liveness in the body of one vector loop."""

    def __init__(
        self,
        nest: n.Nest,
        loop: n.Loop,
        target: CpuTarget,
        width: int,
        dtypes_of: dict[n.Value, np.dtype | None],
    ) -> None:
        self.body = [s for s in loop.body if not isinstance(s, n.Loop)]
        self.target = target
        self.lanes = lanes_for(nest, target, width)
        self.dtypes_of = dtypes_of
        self.copies = min(loop.unroll, MAX_COPIES)
        self.opens = {
            s.acc: s for p in nest.phases for s in _flat(p.loop) if isinstance(s, n.Open)
        }  # fmt: skip
        counts: dict[n.Value, int] = {}
        for stmt in self.body:
            for value in uses(stmt):
                counts[value] = counts.get(value, 0) + 1
        self.free = {
            s.out for s in self.body if isinstance(s, n.Load) and self._folds(s, counts)
        }  # fmt: skip

    def _folds(self, load: n.Load, counts: dict[n.Value, int]) -> bool:
        plain = load.guard is None and not load.swapped and load.dtype != dtypes.BOOL
        return plain and counts.get(load.out) == 1 and self.target.architecture == "x86_64"

    def most(self) -> int:
        """Registers at the fullest point, values from outside and accumulators included."""
        defined = {getattr(s, "out", None) for s in self.body}
        outside = {v for s in self.body for v in uses(s)} - defined
        live: set[n.Value] = set()
        peak = 0
        for stmt in reversed(self.body):
            out = getattr(stmt, "out", None)
            peak = max(peak, self._sum(live | ({out} if out is not None else set())))
            live.discard(out)
            live.update(v for v in uses(stmt) if v in defined)
            peak = max(peak, self._sum(live))
        return peak + self._sum(outside) + self._accumulators()

    def _sum(self, values: set[n.Value]) -> int:
        return sum(self._size(self.dtypes_of[v]) for v in values if v not in self.free)

    def _size(self, dtype: np.dtype | None) -> int:
        if dtype is None or (dtype == dtypes.BOOL and self.target.mask_registers):
            return 0
        return max(1, -(-self.lanes * dtype.itemsize * 8 // self.target.vector_bits))

    def _accumulators(self) -> int:
        total = 0
        for acc in dict.fromkeys(s.acc for s in self.body if isinstance(s, n.Update | n.Scan)):
            opened = self.opens.get(acc)
            if opened is None:
                continue
            wide = dtypes.F64 if opened.op == "sum" and opened.dtype.kind == "f" else opened.dtype
            words = 2 if opened.op.startswith("arg") else 1
            total += self.copies * words * self._size(wide)
        return total
