"""Kernels under one launch as the one kernel that a report shows.

Takes the reports of a batch's members, gives one. Invariant: bytes, operations and times add up,
registers are those of the member with the most.

    k0_mul_add (10 elements), k1_mul_add (300 elements)    ->    2 x k0_mul_add, 310 elements
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from fjit.core.ir import Eqn
from fjit.optimize import cost
from fjit.report.report import Kernel


def merged(
    kernels: Sequence[Kernel], eqns: Sequence[Eqn], batches: Sequence[tuple[Eqn, ...]]
) -> tuple[Kernel, ...]:
    """Kernels, of which `eqns` are the equations, with one in the place of each batch."""
    first = {batch[0]: len(batch) for batch in batches}
    found, k = list[Kernel](), 0
    while k < len(kernels):
        count = first.get(eqns[k], 1)
        found.append(kernels[k] if count == 1 else one_of(kernels[k : k + count]))
        k += count
    return tuple(found)


def one_of(members: Sequence[Kernel]) -> Kernel:
    """The report of members that run under one launch."""
    spills = _known([kernel.actual_spills for kernel in members])
    measured = _known([kernel.measured_ns for kernel in members])
    shortest = min(members, key=lambda kernel: len(kernel.operations))
    return Kernel(
        name=f"{members[0].name}_and_{len(members) - 1}_more",
        operations=tuple(row for kernel in members for row in kernel.operations),
        iteration_space=(sum(prod(kernel.iteration_space) for kernel in members),),
        bytes_read=sum(kernel.bytes_read for kernel in members),
        bytes_written=sum(kernel.bytes_written for kernel in members),
        flops=sum(kernel.flops for kernel in members),
        predicted_registers=max(kernel.predicted_registers for kernel in members),
        actual_registers=max(_known([k.actual_registers for k in members]), default=None),
        predicted_spills=sum(kernel.predicted_spills for kernel in members),
        actual_spills=sum(spills) if spills else None,
        estimated_ns=sum(k.estimated_ns - cost.LAUNCH_NS for k in members) + cost.LAUNCH_NS,
        measured_ns=sum(measured) if measured else None,
        licensed=shortest.licensed,
        members=len(members),
        scopes=tuple(dict.fromkeys(name for kernel in members for name in kernel.scopes)),
        curve=max(members, key=lambda kernel: kernel.predicted_registers).curve,
    )


def _known(values: Sequence[Any]) -> list[Any]:
    """The values if all are there; nothing where one is None."""
    return [] if None in values else list(values)
