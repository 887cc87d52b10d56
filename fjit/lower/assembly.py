"""A plan lowered: its kernels' nests with their texts, and where every stored value lives.

Takes a plan and the memory of its inputs, gives an `Assembly`: all that machine code is made from
and run with. Invariant: the texts hold no sizes, so that plans for other sizes share them.

    kernel b = exp a     ->     nest "vector i0 < s0: ...", slots (10, ...), b in C order
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fjit.core.ir import Eqn, Program, Sym, Var
from fjit.lower.assemble import Assembler
from fjit.lower.memory import Memory
from fjit.lower.nest import Nest
from fjit.optimize import cost
from fjit.optimize.panels import Panels
from fjit.optimize.plan import KernelPlan, Plan


class Kernel(NamedTuple):
    """One kernel: its equation, its loops and their text, the symbols whose extents cells hold."""

    eqn: Eqn
    nest: Nest
    text: str
    cells: tuple[Sym, ...]


class Assembly(NamedTuple):
    """A fused program, its kernels, the memory of all that it stores, and products in panels."""

    program: Program
    kernels: tuple[Kernel, ...]
    memory: dict[Var, Memory]
    panels: tuple[Panels, ...] = ()
    over: tuple[Var, ...] = ()  # results that lie in the part of an input that they replace
    batches: tuple[tuple[Eqn, ...], ...] = ()  # kernels under one launch, one behind the other

    @property
    def launches(self) -> dict[Eqn, int]:
        """The number of the launch of each equation: members of a batch run at once."""
        last = {eqn: batch[-1] for batch in self.batches for eqn in batch}
        number = {eqn: k for k, eqn in enumerate(self.program.eqns)}
        return {eqn: number[last.get(eqn, eqn)] for eqn in self.program.eqns}


class Fit(NamedTuple):
    """What of a machine nests are fitted to: bytes of its last-level cache, whether it is a GPU."""

    cache_bytes: int = 0
    on_gpu: bool = False


def build_nest(
    kernel: KernelPlan, memory: Mapping[Var, Memory], fit: Fit
) -> tuple[Nest, tuple[Sym, ...]]:
    """The nest of one kernel and the symbols whose extents its cells hold.

    What it stores goes past the last-level cache if that holds too little.
    """
    program = kernel.eqn.param("program")
    assert isinstance(program, Program)
    outputs = {v: memory[v] for v in kernel.eqn.outputs}
    moved = sum(v.aval.nbytes for v in (*program.inputs, *kernel.eqn.outputs))
    streams = cost.outgrows(moved, fit.cache_bytes)
    assembler = Assembler(
        kernel.env,
        program,
        kernel.schedule,
        dict(memory),
        outputs,
        streams,
        by_rows=kernel.by_rows,
        on_gpu=fit.on_gpu,
    )
    nest = assembler.build()
    return nest, tuple(assembler.writer.cells)


def memory_of(plan: Plan, inputs: Sequence[Memory]) -> dict[Var, Memory]:
    """Where each input and each value that a kernel or a call makes lives."""
    memory = dict(zip(plan.program.inputs, inputs, strict=True))
    for var, strides in plan.layouts.items():
        memory[var] = Memory(tuple(s * var.aval.dtype.itemsize for s in strides))
    return memory


def assembled(plan: Plan, inputs: Sequence[Memory], fit: Fit) -> Assembly:
    """The plan's kernels as nests."""
    memory = memory_of(plan, inputs)
    kernels = []
    for kernel in plan.kernels:
        nest, cells = build_nest(kernel, memory, fit)
        kernels.append(Kernel(kernel.eqn, nest, str(nest), cells))
    return Assembly(plan.program, tuple(kernels), memory, plan.panels, plan.over, plan.batches)
