"""Which parts of arguments kernels may write where they are, with no memory of the parts' own.

Takes a plan and the writes of its trace, gives the plan with the results that are stored into an
argument. In
`x[2:5] += y` and `x[0] = x[1]` they may, in `x[1:-1] = x[:-2] + x[2:]` not.

    kernel: b = slice[x, 2:5]; c = add b y in (c,)      c goes to x[2:5]
    each element of the region is read where it is written, and before; nothing else reads it

Invariant: results do not change; where a kernel may report an error, nothing is written over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Program, Var
from fjit.core.region import Region
from fjit.optimize import demand
from fjit.optimize import index as ix
from fjit.optimize.drafts import root_reads
from fjit.optimize.index import Index, Indices
from fjit.optimize.plan import KernelPlan, Plan, in_order
from fjit.optimize.regions import is_apart

Strides = tuple[int, ...]


class Part(NamedTuple):
    """An input, the output that is the new contents of a region of it; whether that can hold it."""

    position: int
    output: int
    region: Region
    is_plain: bool


def with_parts(plan: Plan, parts: Sequence[Part], strides: Mapping[Var, Strides]) -> Plan:
    """The plan with the parts that may be written where they are; `strides` are the inputs'."""
    has_products = plan.panels or len(plan.kernels) < len(plan.program.eqns)
    if not parts or has_products or any(_may_report(eqn) for eqn in plan.program.eqns):
        return plan
    plan = _writing_last(plan, {plan.program.outputs[part.output] for part in parts})
    layouts = dict(plan.layouts)
    over: list[Var] = []
    for part in parts:
        source, target = plan.program.inputs[part.position], plan.program.outputs[part.output]
        others = [q.region for q in parts if q.position == part.position and q is not part]
        is_apart = all(_are_apart(part.region, region) for region in others)
        if not (part.is_plain and is_apart and isinstance(target, Var)):
            continue
        if _is_in_step(plan, source, target, part.region):
            layouts[target] = part.region.strides(strides[source])
            over.append(target)
    return replace(plan, layouts=layouts, over=tuple(over))


def _writing_last(plan: Plan, targets: set[Atom]) -> Plan:
    """The plan with kernels that make new contents as late as what reads them allows."""
    program = plan.program
    late = [eqn for eqn in program.eqns if targets.intersection(eqn.outputs)]
    eqns = in_order([*(e for e in program.eqns if e not in late), *late], program.inputs)
    place = {eqn: k for k, eqn in enumerate(eqns)}
    kernels = tuple(sorted(plan.kernels, key=lambda kernel: place[kernel.eqn]))
    return replace(plan, program=Program(program.inputs, eqns, program.outputs), kernels=kernels)


def _may_report(eqn: Eqn) -> bool:
    """Whether an equation may report an error when it runs, or is no kernel."""
    if eqn.primitive is not p.kernel:
        return True
    program = eqn.param("program")
    assert isinstance(program, Program)
    return any(
        e.primitive is p.gather
        or (e.primitive is p.pow_ and e.output.aval.dtype.kind in "iu")
        or not e.outputs[0].aval.is_static
        for e in program.eqns
    )


def _are_apart(a: Region, b: Region) -> bool:
    spans = zip(zip(*a, strict=True), zip(*b, strict=True), strict=True)
    return any(is_apart(one, other) for one, other in spans)


def _is_in_step(plan: Plan, source: Var, target: Var, region: Region) -> bool:
    """Whether the region is read only where it is written, and before."""
    kernels = {kernel.eqn: kernel for kernel in plan.kernels}
    eqns = plan.program.eqns
    maker = next((k for k, eqn in enumerate(eqns) if target in eqn.outputs), None)
    return maker is not None and all(
        _reads_apart(kernels[eqn], source, target, region) for eqn in eqns[maker:]
    )


def _reads_apart(kernel: KernelPlan, source: Var, target: Var, region: Region) -> bool:
    """Whether a kernel reads no element of the region, but for the one that it writes there."""
    for placed in kernel.schedule.placed:
        is_own = placed.root.var is target and placed.root.eqn is None
        written = _written(placed.at, region) if is_own else None
        leaves = demand.walk(kernel.env, root_reads(placed.root, placed.at, placed.guard))[0]
        for leaf in leaves:
            if leaf.var is not source or leaf.at == written:
                continue
            if not any(map(_is_outside, leaf.at, region.starts, region.sizes, region.steps)):
                return False
    return True


def _written(at: Indices, region: Region) -> Indices:
    """Where element `at` of a region is."""
    steps = zip(at, region.steps, region.starts, strict=True)
    return tuple(ix.affine(index, step, start) for index, step, start in steps)


def _is_outside(index: Index, start: int, size: int, step: int) -> bool:
    """Whether an index meets no position of one axis of a region."""
    bounds = ix.span(index)
    if bounds is None:
        return False
    last = start + (size - 1) * step
    if bounds[1] < min(start, last) or bounds[0] > max(start, last):
        return True
    by = [abs(coef) for _, coef in index.terms] + [abs(step)]
    return size > 1 and len(set(by)) == 1 and (index.const - start) % by[0] != 0
