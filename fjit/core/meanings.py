"""What each structural primitive means, written in plain NumPy.

Takes arrays and the equation's parameters (symbols already replaced by numbers), gives an array.
Invariant: these functions are the reference; they favour clarity over speed.
"""

import math
from typing import Any

import numpy as np

Array = Any  # NumPy arrays of any dtype; NumPy's own annotations add nothing here


def convert(a: Array, *, dtype: np.dtype) -> Array:
    """astype; out-of-range floats give what NumPy gives on x86-64."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(a).astype(dtype)


def broadcast(a: Array, *, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """See rules.broadcast."""
    a = np.asarray(a)
    full = [1] * len(shape)
    for extent, axis in zip(a.shape, axes, strict=True):
        full[axis] = extent
    return np.broadcast_to(a.reshape(full), shape)


def transpose(a: Array, *, perm: tuple[int, ...]) -> Array:
    """See rules.transpose."""
    return np.transpose(a, perm)


def reshape(a: Array, *, shape: tuple[int, ...]) -> Array:
    """See rules.reshape."""
    return np.reshape(a, shape)


def _index(
    starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
) -> tuple[Any, ...]:
    index = []
    for start, size, step in zip(starts, sizes, steps, strict=True):
        stop: int | None = start + size * step
        if size == 0:
            start, stop = 0, 0
        elif stop is not None and stop < 0:
            stop = None
        index.append(slice(start, stop, step))
    return tuple(index)


def slice_(
    a: Array, *, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
) -> Array:
    """See rules.slice_."""
    return a[_index(starts, sizes, steps)]


def pad(a: Array, value: Array, *, low: tuple[int, ...], high: tuple[int, ...]) -> Array:
    """See rules.pad."""
    return np.pad(a, tuple(zip(low, high, strict=True)), constant_values=value)


def concatenate(*arrays: Array, axis: int) -> Array:
    """See rules.concatenate."""
    return np.concatenate(arrays, axis)


def update(a: Array, value: Array, *, starts: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    """See rules.update."""
    out = np.array(a)
    out[_index(starts, value.shape, steps)] = value
    return out


def diagonal(a: Array, *, offset: int, axis1: int, axis2: int) -> Array:
    """See rules.diagonal."""
    return np.diagonal(a, offset, axis1, axis2)


def gather(a: Array, *indices: Array, axes: tuple[int, ...]) -> Array:
    """See rules.gather; an index out of range raises IndexError."""
    moved = np.moveaxis(a, axes, range(len(axes)))
    _check_counted(indices)
    return moved[tuple(indices)]


def _check_counted(indices: tuple[Array, ...]) -> None:
    """Indices are counted from the start by now: NumPy must not count from the end once more."""
    if any(np.asarray(index).dtype.kind == "i" and np.any(index < 0) for index in indices):
        raise IndexError("index is out of bounds for the axis that it selects from")


def iota(*, shape: tuple[int, ...], axis: int) -> Array:
    """See rules.iota."""
    column = [1] * len(shape)
    column[axis] = shape[axis]
    return np.broadcast_to(np.arange(shape[axis], dtype=np.int64).reshape(column), shape)


def expand(mask: Array, values: Array, base: Array) -> Array:
    """See rules.expand."""
    out = np.array(base)
    out[mask] = values
    return out


_REDUCERS = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.logical_and,
    "or": np.logical_or,
}


def start_value(op: str, dtype: np.dtype) -> object:
    """The start value of a reduction: never visible in results but of unchecked extrema."""
    if op in ("sum", "or"):
        return 0
    if op in ("prod", "and"):
        return 1
    lowest = op in ("max", "argmax")
    if dtype.kind == "f":
        return -math.inf if lowest else math.inf
    if dtype.kind == "b":
        return not lowest
    info = np.iinfo(dtype)
    return info.min if lowest else info.max


def deviations(a: Array, axes: tuple[int, ...]) -> Array:
    """Sum of the squared deviations from the mean, as np.var forms it."""
    apart = a - np.mean(a, axis=axes, keepdims=True)
    return np.add.reduce(apart * apart, axis=axes)


def expsum(a: Array, axes: tuple[int, ...]) -> Array:
    """Sum of the exponentials less the maximum, as scipy.special.softmax forms it."""
    return np.add.reduce(np.exp(a - np.max(a, axis=axes, keepdims=True)), axis=axes)


def logexpsum(a: Array, axes: tuple[int, ...]) -> Array:
    """Logarithm of that sum, as scipy.special.logsumexp forms it: the maximum is counted."""
    largest = np.max(a, axis=axes, keepdims=True)
    shifted = a - np.where(np.isfinite(largest), largest, 0)
    ones = np.add.reduce(shifted == 0, axis=axes, dtype=a.dtype)
    rest = np.add.reduce(np.where(shifted == 0, 0, np.exp(shifted)), axis=axes)
    near = np.log1p(rest / np.maximum(ones, 1)) + np.log(ones)
    return np.where(ones > 0, near, np.log(rest))


_IN_TWO_WALKS = {"deviations": deviations, "expsum": expsum, "logexpsum": logexpsum}


def reduce(a: Array, *, op: str, axes: tuple[int, ...], checked: bool = True) -> Array:
    """See rules.reduce."""
    if op in _IN_TWO_WALKS:
        return _IN_TWO_WALKS[op](a, axes)
    if not checked:
        start = start_value(op, a.dtype)
        return _REDUCERS[op].reduce(a, axis=axes, dtype=a.dtype, initial=start)
    return _REDUCERS[op].reduce(a, axis=axes, dtype=a.dtype)


def argreduce(a: Array, *, op: str, axes: tuple[int, ...]) -> Array:
    """See rules.argreduce."""
    kept = [k for k in range(a.ndim) if k not in axes]
    shape = [a.shape[k] for k in kept]
    count = math.prod(a.shape[k] for k in axes)
    flat = np.transpose(a, (*kept, *axes)).reshape((*shape, count))
    return (np.argmax if op == "argmax" else np.argmin)(flat, axis=-1)


def cumulate(a: Array, *, op: str, axis: int) -> Array:
    """See rules.cumulate."""
    return _REDUCERS[op].accumulate(a, axis=axis, dtype=a.dtype)


def compress(mask: Array, a: Array, *, extent: int) -> Array:
    """See rules.compress."""
    return a[mask]


_SCATTERS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scatter(a: Array, values: Array, *indices: Array, axes: tuple[int, ...], op: str) -> Array:
    """See rules.scatter."""
    out = np.array(a)
    moved = np.moveaxis(out, axes, range(len(axes)))
    _check_counted(indices)
    if op == "set":
        moved[tuple(indices)] = values
    else:
        _SCATTERS[op].at(moved, tuple(indices), values)
    return out


def repeat(a: Array, counts: Array, *, axis: int, extent: int) -> Array:
    """See rules.repeat."""
    return np.repeat(a, counts, axis=axis)


BY_DIGITS = 24
"""Bytes of a row from which sorting by digits pays: NumPy counts all 256 of each row anew."""


def sort(a: Array, *, axis: int, stable: bool) -> Array:
    """See rules.sort. Bytes are sorted by their digits, which takes a tenth of the time."""
    by_digits = a.dtype.itemsize == 1 and a.shape[axis] >= BY_DIGITS
    return np.sort(a, axis=axis, kind="stable" if stable or by_digits else None)


def argsort(a: Array, *, axis: int, stable: bool) -> Array:
    """See rules.argsort."""
    return np.argsort(a, axis=axis, kind="stable" if stable else None)


def searchsorted(a: Array, v: Array, *, side: str) -> Array:
    """See rules.searchsorted."""
    return np.searchsorted(a, v, side=side)  # type: ignore[call-overload]


def matmul(a: Array, b: Array) -> Array:
    """See rules.matmul."""
    return np.matmul(a, b)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once in compiled code and twice here: either is right."""
    return a * b + c


def copy(a: Array) -> Array:
    """The operand in memory of its own."""
    return np.array(a, order="K")


def identity(a: Array) -> Array:
    """The operand."""
    return a


def kernel(*arrays: Array, **_: object) -> Array:
    """The interpreter runs a kernel's sub-program itself."""
    raise AssertionError("kernel equations are run by the interpreter")


def _elementwise(scalar: Any) -> Any:
    def apply(a: Array) -> Array:
        a = np.asarray(a)
        out = np.array([scalar(float(v)) for v in a.ravel()], np.float64)
        return out.reshape(a.shape).astype(a.dtype)

    return apply


def _gammaln(v: float) -> float:
    if math.isinf(v) or (v <= 0 and v == math.floor(v)):
        return math.inf
    return math.nan if math.isnan(v) else math.lgamma(v)


def _digamma(v: float) -> float:
    """Reflection, recurrence up to 20, then the asymptotic series (Abramowitz & Stegun 6.3)."""
    if math.isnan(v) or v == -math.inf:
        return math.nan
    if v == 0:
        return math.copysign(math.inf, -v)
    if v < 0:
        if v == math.floor(v):
            return math.nan
        return _digamma(1 - v) - math.pi / math.tan(math.pi * v)
    shift = 0.0
    while v < 20:
        shift -= 1 / v
        v += 1
    if math.isinf(v):
        return v
    w = 1 / (v * v)
    series = w * (1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240 - w / 132))))
    return shift + math.log(v) - 0.5 / v - series


erf = _elementwise(math.erf)
erfc = _elementwise(math.erfc)
gammaln = _elementwise(_gammaln)
digamma = _elementwise(_digamma)
