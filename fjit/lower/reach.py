"""Whether a kernel's positions and addresses fit into 32 bits, as a GPU likes them.

Takes a kernel's equation, where its values lie and its run-time integers, gives a bool. Invariant:
where it holds, no extent, stride or distance between two elements of an argument, in bytes,
exceeds `MOST`, so that sums of a few of them do not overflow.

    x f32[1000,1000]                   4 * 10^6 bytes      32 bits
    x f32[100000,100000]               4 * 10^10 bytes     64 bits
    x[::1000] of the latter            4 * 10^10 bytes     64 bits: what it spans counts
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fjit.core.ir import Aval, Eqn, Var
from fjit.lower.memory import Memory
from fjit.lower.nest import Nest, Scalar

MOST: Final = 1 << 29


def is_short(eqn: Eqn, nest: Nest, memory: Mapping[Var, Memory]) -> bool:
    """Whether positions and addresses of a kernel fit into 32 bits."""
    bits = {s.slot.number for s in nest.entry if isinstance(s, Scalar)}
    numbers = (w for k, w in enumerate(nest.slots) if k not in bits and isinstance(w, int))
    if any(abs(number) > MOST for number in numbers):
        return False
    values = [v for v in (*eqn.inputs, *eqn.outputs) if isinstance(v, Var)]
    return all(_span(v.aval, memory[v]) <= MOST for v in values)


def _span(aval: Aval, memory: Memory) -> int:
    """Bytes from the first to the last element, whatever the signs of the strides."""
    extents = [e if isinstance(e, int) else e.bound for e in aval.shape]
    if memory.scalar or len(extents) != len(memory.strides):
        return aval.nbytes
    steps = zip(extents, memory.strides, strict=True)
    return sum(max(int(e) - 1, 0) * abs(s) for e, s in steps) + aval.dtype.itemsize
