"""What an instruction computes, apart from where its operands are.

Takes an instruction's types and flags, gives an Operation: types of sources and result, and a
function of NumPy arrays. Invariant: `compute` works element by element, accepts arrays of one
element beside longer ones, and never changes an operand.

    add.s32  ->  Operation(s32, (s32, s32), np.add)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fjit.backend.ptx.program import Instruction
from fjit.backend.ptx.types import Type

Compute = Callable[..., Any]
"""Arrays to an array, or to two (result, carry); ufuncs and plain functions alike, hence Any."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A pure instruction; carries come and go through the thread's condition code register."""

    result: Type
    sources: tuple[Type, ...]
    compute: Compute
    reads_carry: bool = False
    writes_carry: bool = False


Rule = Callable[[Instruction], Operation | None]
"""None: the opcode is known, but not with these types and flags."""


def same(ty: Type, count: int, compute: Compute) -> Operation:
    """An operation whose operands and result have one type."""
    return Operation(ty, (ty,) * count, compute)


def where(mask: np.ndarray, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    """np.where without the promotion of one-element arrays' types."""
    return np.where(mask, yes, no).astype(yes.dtype, copy=False)
