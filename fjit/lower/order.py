"""The order of a reduction's terms: blocks, groups and lanes, from extents and dtype alone.

Takes extents, dtypes and operations, gives how a reduction is cut up. Invariant: the cut depends
neither on the number of threads nor on what the reduction is fused with (docs/numerics.md).

    sum of 10^6 float32 along the vector axis     blocks of 1024, 64 lanes
    column sums of 1000 rows                      in float64; float32 in groups of 16 rows first
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fjit.core import dtypes
from fjit.core.ir import Eqn
from fjit.core.rules import ORDERED_OPS, PIVOTS
from fjit.lower import merging
from fjit.optimize import index as ix
from fjit.optimize.index import Axis, Indices
from fjit.optimize.schedule import Placed

BLOCK: Final = 1024
"""Elements along the vector axis after which running lanes are added to float64 lanes."""
WALKED_TWICE: Final = 1 << 12
"""Elements along the vector axis that are walked a second time while they are in cache."""

ENDS: Final = ("inner", "outer", "whole")
"""Classes of placed reductions."""


def op_of(eqn: Eqn) -> str:
    """The reduction's operation."""
    return str(eqn.param("op"))


def is_float_sum(placed: Placed) -> bool:
    """Whether a root is a floating sum, whose order shows in the result."""
    eqn = placed.root.eqn
    return eqn is not None and op_of(eqn) == "sum" and eqn.inputs[0].aval.dtype.kind == "f"


def is_ordered(placed: Placed) -> bool:
    """Whether the order of a reduction's terms shows in its result."""
    eqn = placed.root.eqn
    if eqn is None or op_of(eqn) not in ORDERED_OPS:
        return False
    return eqn.inputs[0].aval.dtype.kind == "f"


def in_two_walks(placed: Placed) -> bool:
    """Whether a reduction walks each block twice: for its mean, say, then about it."""
    eqn = placed.root.eqn
    return eqn is not None and eqn.get("op") in PIVOTS


def grouped(placed: Placed) -> bool:
    """Whether a column sum adds groups of rows in its own dtype, narrower than the total's."""
    eqn = placed.root.eqn
    return is_float_sum(placed) and eqn is not None and eqn.inputs[0].aval.dtype != dtypes.F64


def array_dtypes(op: str, dtype: np.dtype) -> tuple[np.dtype, ...]:
    """Dtypes of the running values of a reduction kept in memory, one element per column."""
    if op in PIVOTS:
        return merging.words(op, dtype)
    if op == "sum" and dtype.kind == "f":
        return (dtypes.F64,)
    return (dtype, dtypes.I64) if op.startswith("arg") else (dtype,)


def partial_dtypes(op: str, dtype: np.dtype) -> tuple[np.dtype, ...]:
    """Dtypes of the words of a partial result (a float64 sum carries its rounding error)."""
    if op == "sum" and dtype == dtypes.F64:
        return (dtypes.F64, dtypes.F64)
    return array_dtypes(op, dtype)


def kept_indices(placed: Placed) -> Indices:
    """Indices of a root's own result."""
    eqn = placed.root.eqn
    if eqn is None or eqn.primitive.family != "reduction":
        return placed.at
    axes: tuple[int, ...] = eqn.param("axes")  # type: ignore[assignment]
    return tuple(i for k, i in enumerate(placed.at) if k not in axes)


def place_index(eqn: Eqn, at: Indices) -> ix.Index:
    """C-order position over the reduced axes, for argmax and argmin."""
    axes: tuple[int, ...] = eqn.param("axes")  # type: ignore[assignment]
    shape = eqn.inputs[0].aval.shape
    position = ix.ZERO
    for axis in axes:
        extent = shape[axis]
        size = extent if isinstance(extent, int) else extent.bound
        position = ix.plus(ix.affine(position, size, 0), at[axis])
    return ix.joined(position)


def rises(position: ix.Index, axes: tuple[Axis, ...]) -> bool:
    """Whether an index over some of the loops `axes`, outermost first, rises at every step."""
    steps = dict(position.terms)
    below = 0
    for axis in reversed(axes):
        step = steps.pop(axis, None)
        if step is None:
            continue
        if step <= below:
            return False
        below += step * max(axis.extent - 1, 0)
    return not steps


def column_dtypes(placed: Placed) -> tuple[np.dtype, ...]:
    """Dtypes of the running values of a column reduction, or of a scan along an outer axis."""
    eqn = placed.root.eqn
    assert eqn is not None
    dtype = eqn.inputs[0].aval.dtype
    return (dtype,) if placed.cls == "scan" else array_dtypes(op_of(eqn), dtype)


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to whole cache lines."""
    return -(-nbytes // 64) * 64
