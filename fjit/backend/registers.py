"""How many registers a kernel will want, foreseen from its loops, without a compiler.

Takes a nest and a machine's description, gives a `Pressure`. Invariant: neither LLVM, CUDA nor the
process's machine is asked, so predictions are the same before and after compilation.

    x * y + x * z over float64, AVX-512: 3 registers of 32, no spills
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

import numpy as np

from fjit.backend.lanes import lanes_for
from fjit.backend.liveness import Body, Dtypes, dtypes_of, flat, vector_loops
from fjit.core import dtypes
from fjit.lower import nest as n
from fjit.target import CpuTarget

MAX_COPIES = 4
COMPARING: Final = frozenset(("max", "min", "fmax", "fmin"))
PICKED: Final = 4
"""Registers that a maximum which hands NaN on takes beside its operands without mask registers."""
LOG: Final = logging.getLogger("fjit.registers")
"""Where every compilation of a GPU kernel, and of a CPU kernel that is explained, says what its
registers came to."""


class Pressure(NamedTuple):
    """Most registers wanted at once, and how many there are too few."""

    registers: int
    spills: int


def pressure(nest: n.Nest, target: CpuTarget, width: int = 0) -> Pressure:
    """MaxLive over the vector loops' bodies in the order of emission.

    Constants, and on x86 plain loads with one use, are memory operands and take no register;
    temporaries inside an elementary function are not counted.
    """
    most = max((body.most() for body in _bodies(nest, target, width)), default=0)
    return Pressure(most, max(0, most - target.vector_registers))


def note(kernel: str, target: str, foreseen: Pressure, registers: int, spills: int) -> None:
    """Log what a compiled kernel needed beside what was foreseen, at level DEBUG."""
    LOG.debug(
        "%s on %s: registers %d foreseen, %d used; spills %d foreseen, %d made",
        kernel, target, foreseen.registers, registers, foreseen.spills, spills,
    )  # fmt: skip


def curve(nest: n.Nest, target: CpuTarget, width: int = 0) -> list[tuple[str, int]]:
    """The statements of the vector loop with the most live values, and registers around each."""
    bodies = _bodies(nest, target, width)
    if not bodies:
        return []
    fullest = max(bodies, key=_Live.most)
    return list(zip(map(str, fullest.body.stmts), fullest.curve(), strict=True))


def _bodies(nest: n.Nest, target: CpuTarget, width: int) -> list[_Live]:
    loops = [loop for phase in nest.phases for loop in vector_loops(phase.loop)]
    of = dtypes_of(nest)
    return [_Live(nest, loop, target, width, of) for loop in loops]


class _Live:
    """Liveness in the body of one vector loop on a CPU."""

    def __init__(
        self, nest: n.Nest, loop: n.Loop, target: CpuTarget, width: int, of: Dtypes
    ) -> None:
        self.body, self.target, self.of = Body(loop), target, of
        self.lanes = lanes_for(nest, target, width)
        self.copies = min(loop.unroll, MAX_COPIES)
        self.opens = {
            s.acc: s for p in nest.phases for s in flat(p.loop) if isinstance(s, n.Open)
        }  # fmt: skip
        self.free = {
            s.out for s in self.body.stmts if isinstance(s, n.Load) and self._folds(s)
        }  # fmt: skip
        outside = sum(map(self.weight, self.body.outside))
        self.always = outside + self._accumulators()

    def _folds(self, load: n.Load) -> bool:
        plain = load.guard is None and not load.swapped and load.dtype != dtypes.BOOL
        once = self.body.counts.get(load.out) == 1
        return plain and once and self.target.architecture == "x86_64"

    def most(self) -> int:
        """Registers at the fullest point, values from outside and accumulators included."""
        return max(self.curve(), default=0)

    def curve(self) -> list[int]:
        """Registers around each statement, with what it needs while it works."""
        live = self.body.line.curve(self.weight)
        steps = zip(live, self.body.stmts, strict=True)
        return [count + self._own(stmt) + self.always for count, stmt in steps]

    def _own(self, stmt: n.Stmt) -> int:
        """Registers for a comparison's outcome, where there are no others for that."""
        picks = isinstance(stmt, n.Let) and stmt.op in COMPARING and stmt.dtype.kind == "f"
        return PICKED if picks and not self.target.mask_registers else 0

    def weight(self, value: n.Value) -> int:
        """Registers that a value takes."""
        return 0 if value in self.free else self._size(self.of[value])

    def _size(self, dtype: np.dtype | None) -> int:
        if dtype is None or (dtype == dtypes.BOOL and self.target.mask_registers):
            return 0
        return max(1, -(-self.lanes * dtype.itemsize * 8 // self.target.vector_bits))

    def _accumulators(self) -> int:
        total = 0
        stmts = self.body.stmts
        for acc in dict.fromkeys(s.acc for s in stmts if isinstance(s, n.Update | n.Scan)):
            opened = self.opens.get(acc)
            if opened is None:
                continue
            wide = dtypes.F64 if opened.op == "sum" and opened.dtype.kind == "f" else opened.dtype
            words = 2 if opened.op.startswith("arg") else 1
            total += self.copies * words * self._size(wide)
        return total
