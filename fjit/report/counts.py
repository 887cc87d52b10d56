"""What a loop nest does, counted without compiling it: the operations that its loops execute.

Takes a `Nest`, gives integers. Invariant: neither LLVM nor the process's machine is asked.

    vector i0 < s1                         1000 elements: 1000 * (20 + 1) flops
      %0 = load b0[i0*unit] f64
      %1 = exp.f64 %0 f64
      update a0 %1
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from fjit.backend.liveness import flat
from fjit.lower import nest as n
from fjit.lower.uses import uses
from fjit.optimize import cost


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


def compute_ns(nest: n.Nest) -> float:
    """Nanoseconds that the loops' arithmetic takes on one core."""
    wanted = _wanted(nest)
    total = 0.0
    for phase in nest.phases:
        ratios = {axis: Fraction(_number(nest, extent)) for axis, extent in phase.loop.decode}
        walk = _walk(nest, phase.loop, Fraction(phase.tasks), ratios)
        total += sum(_ns(stmt, wanted) * int(times) for stmt, times in walk)
    return total


def _ns(stmt: n.Stmt, wanted: set[n.Value]) -> float:
    if isinstance(stmt, n.Let):
        wide = max(t.itemsize for t in (*stmt.operand_dtypes, stmt.dtype))
        return cost.operation_ns(stmt.op, wide) if stmt.out in wanted else 0.0
    return cost.OPERATION_NS if isinstance(stmt, n.Update | n.Scan) else 0.0


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
        statements += flat(phase.loop)
    wanted: set[n.Value] = set()
    for stmt in reversed(statements):
        out = getattr(stmt, "out", None)
        if out is None or out in wanted:
            wanted.update(uses(stmt))
    return wanted
