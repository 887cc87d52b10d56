"""From a trace to its plan: optimized, products written out or framed, kernels chosen.

Takes a trace, the memory of its inputs and a `Policy`, gives the optimized program and its plan.
Invariant: neither LLVM nor CUDA is asked.

    planned(traced, memory, Policy(fusion="none"))    ->    program, a plan of a kernel an operation
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fjit.backend import registers
from fjit.backend.gpu_registers import gpu_pressure
from fjit.core import primitives as p
from fjit.core.ir import Program, Var
from fjit.frontend.function import Traced
from fjit.lower.assembly import Fit, build_nest
from fjit.lower.memory import Memory
from fjit.optimize import cost, frames
from fjit.optimize.clean import own_outputs
from fjit.optimize.horizontal import with_batches
from fjit.optimize.over import Part, with_parts
from fjit.optimize.pipeline import optimize
from fjit.optimize.plan import Cap, KernelPlan, Plan, plan
from fjit.optimize.products import written_out
from fjit.report import machine
from fjit.runtime.host import host
from fjit.runtime.panels import usable
from fjit.target import GpuTarget

Fusion = str | Callable[[Any], bool]


class Policy(NamedTuple):
    """What planning and lowering depend on besides a trace: keywords, and the machine.

    `panels` says whether matrix products may run in panels of rows, between stages on each. `gpu`
    is the architecture of a GPU that kernels are made for. With `max_registers`, kernels are cut
    that need more.
    """

    fusion: Fusion = "auto"
    fastmath: frozenset[str] = frozenset()
    fit: Fit = Fit()
    panels: bool = True
    gpu: GpuTarget | None = None
    max_registers: int | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether kernels and matrix products are those of a GPU."""
        return self.gpu is not None

    def for_code(self) -> Policy:
        """The policy with what only code depends on, for which LLVM is asked."""
        return self._replace(fit=Fit(host().l3_bytes, self.on_gpu))


def planned(traced: Traced, memory: Sequence[Memory], policy: Policy) -> tuple[Program, Plan]:
    """The optimized program and its plan, in which products may be written out or framed."""
    optimized = own_outputs(optimize(traced.program, policy.fastmath))
    program = written_out(optimized, on_gpu=policy.on_gpu)
    strides = {
        var: tuple(s // var.aval.dtype.itemsize for s in place.strides)
        for var, place in zip(program.inputs, memory, strict=True)
    }
    orders: dict[Var, tuple[int, ...]] = {}
    for result in traced.results:
        if result.output is not None:
            atom = program.outputs[result.output]
            if isinstance(atom, Var):
                orders[atom] = result.order
    for write in traced.writes:
        atom = program.outputs[write.output]
        steps = [-abs(s) for s in memory[write.position].strides]
        if isinstance(atom, Var):
            orders.setdefault(atom, tuple(sorted(range(len(steps)), key=steps.__getitem__)))
    if calls_library(program) and (policy.on_gpu or (policy.panels and usable())):
        places = zip(program.inputs, memory, strict=True)
        readable = {var for var, place in places if _is_readable(var, place)}
        library = frames.GPU if policy.on_gpu else frames.BLAS
        program, orders = frames.framed(program, strides, orders, readable, library)
    parts = [
        Part(w.position, w.output, w.region, _is_readable(program.inputs[w.position], place))
        for w in traced.writes
        if w.region is not None and (place := memory[w.position])
    ]
    cap = _cap(policy, dict(zip(program.inputs, memory, strict=True)))
    made = plan(program, strides, orders, policy.fusion, panels=policy.panels, cap=cap)
    made = with_parts(made, parts, strides)
    if policy.on_gpu:
        return optimized, made  # each kernel is a launch there
    return optimized, with_batches(made, strides, policy.fusion)


def _cap(policy: Policy, inputs: dict[Var, Memory]) -> Cap | None:
    """The cap on registers, if there is one."""
    if policy.max_registers is None:
        return None

    def foreseen(kernel: KernelPlan, layout: cost.Layout) -> int:
        made = {
            v: Memory(tuple(s * v.aval.dtype.itemsize for s in layout(v)))
            for v in (*kernel.eqn.inputs, *kernel.eqn.outputs)
            if isinstance(v, Var) and v not in inputs
        }
        nest, _ = build_nest(kernel, {**inputs, **made}, Fit(on_gpu=policy.on_gpu))
        if policy.gpu is None:
            return registers.pressure(nest, machine.description()).registers
        phases = (gpu_pressure(nest, phase.loop, policy.gpu) for phase in nest.phases)
        return max((phase.registers for phase in phases), default=0)

    return Cap(policy.max_registers, foreseen)


def calls_library(program: Program) -> bool:
    """Whether there is a matrix product that a library makes."""
    return any(eqn.primitive is p.matmul for eqn in program.eqns)


def _is_readable(var: Var, place: Memory) -> bool:
    """Whether a library can read an array's elements where they are."""
    whole = all(s % var.aval.dtype.itemsize == 0 for s in place.strides)
    return whole and not place.swapped and not place.scalar
