"""Type rules: from the avals of operands and the parameters to the aval of the result.

Takes avals, gives an aval or raises FjitTypeError / ShapeError. Invariant: a rule never converts or
broadcasts; it only checks (rank-0 operands of elementwise primitives are the one exception).
"""

from collections.abc import Callable

import numpy as np

from fjit.core import dtypes
from fjit.core.ir import Aval, Extent, Program, Shape, Sym
from fjit.errors import FjitTypeError, FjitValueError, ShapeError

PIVOTS = {"deviations": "sum", "expsum": "max", "logexpsum": "max"}
"""Reductions that walk each block twice, by the reduction that gives what the second is about."""
REDUCE_OPS = ("sum", "prod", "max", "min", "and", "or", *PIVOTS)
ORDERED_OPS = ("sum", "prod", *PIVOTS)
"""Reductions of floats whose result shows the order of the terms."""
ARG_OPS = ("argmax", "argmin")
CUMULATIVE_OPS = ("sum", "prod", "max", "min")
SCATTER_OPS = ("set", "add", "mul", "max", "min")


def _refuse(text: str) -> FjitTypeError:
    return FjitTypeError(text)


def common_shape(avals: tuple[Aval, ...]) -> Shape:
    """The one shape shared by all operands that are not rank 0."""
    shape: Shape = ()
    for aval in avals:
        if aval.shape == shape or not aval.shape:
            continue
        if shape:
            raise ShapeError(f"elementwise operands of shapes {shape} and {aval.shape}")
        shape = aval.shape
    return shape


def elementwise(kinds: str, arity: int, result: np.dtype | None) -> Callable[..., Aval]:
    """A rule for `arity` operands of one dtype whose kind is in `kinds`.

    `fast`, here and below, names the fastmath flag that lets the equation take a cheaper form.
    """

    def rule(*avals: Aval, fast: str = "") -> Aval:
        if len(avals) != arity:
            raise _refuse(f"{len(avals)} operands, expected {arity}")
        dtype = avals[0].dtype
        for aval in avals[1:]:
            if aval.dtype != dtype:
                raise _refuse(f"operands of dtypes {dtype} and {aval.dtype}; convert first")
        if dtype.kind not in kinds:
            raise _refuse(f"dtype {dtype} is not of kind {kinds}")
        return Aval(common_shape(avals), result or dtype)

    return rule


def select(condition: Aval, a: Aval, b: Aval) -> Aval:
    """`condition ? a : b`, elementwise."""
    if condition.dtype != dtypes.BOOL or a.dtype != b.dtype:
        raise _refuse(f"select of {condition}, {a}, {b}")
    return Aval(common_shape((condition, a, b)), a.dtype)


def convert(a: Aval, *, dtype: np.dtype) -> Aval:
    """Cast with NumPy's astype meaning."""
    return Aval(a.shape, dtype)


def broadcast(a: Aval, *, shape: Shape, axes: tuple[int, ...]) -> Aval:
    """Axis i of `a` becomes axis axes[i] of the result; the others are repeated."""
    if len(axes) != a.ndim or list(axes) != sorted(set(axes)):
        raise _refuse(f"broadcast of {a} along axes {axes}")
    for extent, axis in zip(a.shape, axes, strict=True):
        if extent not in (1, shape[axis]):
            raise ShapeError(f"broadcast of {a} to shape {shape} along axes {axes}")
    return Aval(shape, a.dtype)


def transpose(a: Aval, *, perm: tuple[int, ...]) -> Aval:
    """Axis i of the result is axis perm[i] of `a`."""
    if sorted(perm) != list(range(a.ndim)):
        raise FjitValueError(f"axes {perm} do not permute {a.ndim} axes")
    return Aval(tuple(a.shape[p] for p in perm), a.dtype)


def reshape(a: Aval, *, shape: Shape) -> Aval:
    """Same elements in C order; symbolic extents stay whole."""
    if element_key(a.shape) != element_key(shape):
        raise ShapeError(f"cannot reshape array of shape {a.shape} into shape {shape}")
    return Aval(shape, a.dtype)


def element_key(shape: Shape) -> tuple[int, tuple[Sym, ...]]:
    """The static part of the element count and the symbolic factors."""
    count = 1
    symbols: list[Sym] = []
    for extent in shape:
        if isinstance(extent, int):
            count *= extent
        else:
            symbols.append(extent)
    return count, tuple(symbols)


def slice_(a: Aval, *, starts: tuple[int, ...], sizes: Shape, steps: tuple[int, ...]) -> Aval:
    """Element i of axis k is element starts[k] + i * steps[k] of `a`; a step may be negative."""
    for extent, start, size, step in zip(a.shape, starts, sizes, steps, strict=True):
        if isinstance(extent, Sym) or isinstance(size, Sym):
            if extent is not size or start != 0 or step != 1:
                raise _refuse(f"slice along a symbolic extent of {a}")
            continue
        last = start + (size - 1) * step
        if size and not (0 <= start < extent and 0 <= last < extent):
            raise ShapeError(f"slice {start}, {size}, {step} outside extent {extent}")
    return Aval(tuple(sizes), a.dtype)


def pad(a: Aval, value: Aval, *, low: tuple[int, ...], high: tuple[int, ...]) -> Aval:
    """`low` and `high` copies of the scalar `value` before and after each axis."""
    if value.shape or value.dtype != a.dtype:
        raise _refuse(f"pad of {a} with {value}")
    shape: list[Extent] = []
    for extent, lo, hi in zip(a.shape, low, high, strict=True):
        if isinstance(extent, Sym):
            if lo or hi:
                raise _refuse("padding a symbolic extent")
            shape.append(extent)
        else:
            shape.append(lo + extent + hi)
    return Aval(tuple(shape), a.dtype)


def concatenate(*avals: Aval, axis: int) -> Aval:
    """Operands joined along `axis`."""
    first, total = avals[0], 0
    for aval in avals:
        rest = aval.shape[:axis] + aval.shape[axis + 1 :]
        if rest != first.shape[:axis] + first.shape[axis + 1 :] or aval.dtype != first.dtype:
            raise ShapeError(f"concatenate of {first} and {aval} along axis {axis}")
        extent = aval.shape[axis]
        if isinstance(extent, Sym):
            raise _refuse("concatenate along a symbolic extent")
        total += extent
    return Aval((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


def update(a: Aval, value: Aval, *, starts: tuple[int, ...], steps: tuple[int, ...]) -> Aval:
    """`a` with the strided region that starts at `starts` replaced by `value`."""
    if value.ndim != a.ndim or value.dtype != a.dtype:
        raise _refuse(f"update of {a} with {value}")
    slice_(a, starts=starts, sizes=value.shape, steps=steps)
    return a


def diagonal(a: Aval, *, offset: int, axis1: int, axis2: int) -> Aval:
    """Diagonal of two axes, appended as the last axis, as np.diagonal."""
    rows, cols = a.shape[axis1], a.shape[axis2]
    if isinstance(rows, Sym) or isinstance(cols, Sym):
        raise _refuse("diagonal of a symbolic extent")
    size = max(0, min(rows + min(offset, 0), cols - max(offset, 0)))
    rest = tuple(e for i, e in enumerate(a.shape) if i not in (axis1, axis2))
    return Aval((*rest, size), a.dtype)


def gather(a: Aval, *indices: Aval, axes: tuple[int, ...]) -> Aval:
    """Result has the indices' shape, then the axes of `a` that are not indexed."""
    if len(indices) != len(axes) or any(i.dtype != dtypes.I64 for i in indices):
        raise _refuse(f"gather of {a} along {axes} with {indices}")
    shape = indices[0].shape
    if any(i.shape != shape for i in indices):
        raise ShapeError("gather indices of different shapes")
    rest = tuple(e for k, e in enumerate(a.shape) if k not in axes)
    return Aval((*shape, *rest), a.dtype)


def iota(*, shape: Shape, axis: int) -> Aval:
    """Position along `axis`, int64."""
    return Aval(shape, dtypes.I64)


def expand(mask: Aval, values: Aval, base: Aval) -> Aval:
    """`base` with values[k] at the k-th true element of `mask` (inverse of compress)."""
    if mask.dtype != dtypes.BOOL or base.shape[: mask.ndim] != mask.shape:
        raise _refuse(f"expand by {mask} into {base}")
    if values.dtype != base.dtype or values.shape[1:] != base.shape[mask.ndim :]:
        raise _refuse(f"expand of {values} into {base}")
    return base


def reduced_shape(a: Aval, axes: tuple[int, ...]) -> tuple[Extent, ...]:
    """Shape after `axes` are removed."""
    if list(axes) != sorted(set(axes)) or any(not 0 <= k < a.ndim for k in axes):
        raise FjitValueError(f"axes {axes} of an array with {a.ndim} axes")
    return tuple(e for k, e in enumerate(a.shape) if k not in axes)


def reduce(
    a: Aval, *, op: str, axes: tuple[int, ...], checked: bool = True, fast: str = ""
) -> Aval:
    """Reduction over `axes`; floating sums use the fixed tree of docs/numerics.md.

    `deviations` is the sum of the squared deviations from the mean, `expsum` that of exp(a - max),
    and `logexpsum` its logarithm, where a maximum that is not finite is not subtracted. Unchecked,
    the extremum of nothing is the operation's identity instead of an error.
    """
    if op not in REDUCE_OPS or (op in ("and", "or") and a.dtype != dtypes.BOOL):
        raise _refuse(f"reduce[{op}] of {a}")
    if op in PIVOTS and a.dtype not in (dtypes.F32, dtypes.F64):
        raise _refuse(f"reduce[{op}] of {a}: of float32 and float64 alone")
    if checked and op in ("max", "min") and any(a.shape[k] == 0 for k in axes):
        raise FjitValueError(
            f"zero-size array to reduction operation {op}imum which has no identity"
        )
    return Aval(reduced_shape(a, axes), a.dtype)


def argreduce(a: Aval, *, op: str, axes: tuple[int, ...], fast: str = "") -> Aval:
    """First position of the extremum over `axes`, counted in C order over them; int64."""
    if op not in ARG_OPS:
        raise _refuse(f"argreduce[{op}]")
    if any(a.shape[k] == 0 for k in axes):
        raise FjitValueError(f"attempt to get {op} of an empty sequence")
    return Aval(reduced_shape(a, axes), dtypes.I64)


def cumulate(a: Aval, *, op: str, axis: int, fast: str = "") -> Aval:
    """Running reduction along `axis`."""
    if op not in CUMULATIVE_OPS or not 0 <= axis < a.ndim:
        raise _refuse(f"cumulate[{op}] of {a} along {axis}")
    return a


def compress(mask: Aval, a: Aval, *, extent: Sym) -> Aval:
    """Elements of `a` (leading axes = mask's) where `mask` holds, in C order."""
    if mask.dtype != dtypes.BOOL or a.shape[: mask.ndim] != mask.shape:
        raise ShapeError(f"compress of {a} by {mask}")
    return Aval((extent, *a.shape[mask.ndim :]), a.dtype)


def scatter(a: Aval, values: Aval, *indices: Aval, axes: tuple[int, ...], op: str) -> Aval:
    """`a` with values combined into the indexed positions, in C order of the indices."""
    if op not in SCATTER_OPS or values.dtype != a.dtype:
        raise _refuse(f"scatter[{op}] of {values} into {a}")
    target = gather(a, *indices, axes=axes)
    if target.shape != values.shape:
        raise ShapeError(f"scatter of {values} into positions of shape {target.shape}")
    return a


def repeat(a: Aval, counts: Aval, *, axis: int, extent: Sym) -> Aval:
    """Row i of `axis` repeated counts[i] times."""
    if counts.dtype != dtypes.I64 or counts.shape != (a.shape[axis],):
        raise ShapeError(f"repeat of {a} along {axis} by {counts}")
    return Aval((*a.shape[:axis], extent, *a.shape[axis + 1 :]), a.dtype)


def sort(a: Aval, *, axis: int, stable: bool) -> Aval:
    """Sorted along `axis`."""
    return a


def argsort(a: Aval, *, axis: int, stable: bool) -> Aval:
    """Indices that sort along `axis`."""
    return Aval(a.shape, dtypes.I64)


def searchsorted(a: Aval, v: Aval, *, side: str) -> Aval:
    """Insertion points of `v` into the sorted vector `a`."""
    if a.ndim != 1 or a.dtype != v.dtype:
        raise _refuse(f"searchsorted of {v} in {a}")
    return Aval(v.shape, dtypes.I64)


def matmul(a: Aval, b: Aval) -> Aval:
    """Batched matrix product of (..., m, k) and (..., k, n) with equal batch shapes."""
    if a.ndim < 2 or b.ndim < 2 or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"matmul of {a} and {b}: the inner extents differ")
    if a.dtype != b.dtype:
        raise _refuse(f"matmul of {a} and {b}")
    return Aval((*a.shape[:-1], b.shape[-1]), a.dtype)


def identity(a: Aval) -> Aval:
    """The operand's own aval."""
    return a


def kernel(*avals: Aval, program: Program, **_: object) -> tuple[Aval, ...]:
    """The avals of the sub-program's outputs."""
    for aval, var in zip(avals, program.inputs, strict=True):
        if aval.dtype != var.aval.dtype or aval.ndim != var.aval.ndim:
            raise _refuse(f"kernel input {aval}, expected {var.aval}")
    return tuple(out.aval for out in program.outputs)
