"""Number sequences and grids: arange, linspace, logspace, geomspace, indices, meshgrid, ix_.

Takes what NumPy's functions take (lengths are concrete), gives traced arrays that are arithmetic of
positions: nothing is loaded, and the bits are those of NumPy's own fill loops.

    np.arange(3.0, 9.0, 2.0)      records      b = iota[shape=(3,) axis=0]
                                               c = convert[dtype=float64] b
                                               d = mul c 2.0; e = add d 3.0
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom
from fjit.core.trace import where as user_line
from fjit.errors import FjitTypeError, FjitValueError
from fjit.frontend import operands as ops
from fjit.frontend.numpy.arrays import array, as_tracer, static_int
from fjit.frontend.numpy.creation import creates, positions, program_dtype
from fjit.frontend.numpy.ufunc_table import F16
from fjit.frontend.session import current
from fjit.frontend.tracer import FUNCTIONS, Tracer, implements

DType = np.dtype[Any]


@creates(np.arange)
def arange(
    *args: Any, dtype: Any = None, device: Any = None, like: Any = None, **named: Any
) -> Any:
    """See np.arange; start, stop and step decide the length, so they must be concrete."""
    start, stop, step, dtype = _arange_arguments(args, named, dtype)
    for value in (start, stop, step):
        if isinstance(value, Tracer):
            raise FjitTypeError(
                f"np.arange at {user_line()} of the traced value {value.aval}: its length must be "
                "known while the function is traced. Pass Python numbers (static_argnames), or "
                "write start + step * np.arange(n)"
            )
    if dtype is None:
        dtype = np.result_type(*[np.asarray(v).dtype for v in (start, stop, step)])
    wanted = program_dtype(dtype)
    if wanted is None or wanted.kind == "b":
        return np.arange(start, stop, step, dtype=dtype)
    size = _length(start, stop, step)
    return array(_progression(size, start, start + step, wanted))


def _arange_arguments(
    args: tuple[Any, ...], named: dict[str, Any], dtype: Any
) -> tuple[Any, Any, Any, Any]:
    """start, stop, step and dtype, however they were passed."""
    names = ("start", "stop", "step", "dtype")
    given = dict(zip(names, args, strict=False)) | named
    if "stop" not in given or given["stop"] is None:
        given = {**given, "stop": given.get("start"), "start": 0}
    if given["stop"] is None:
        raise FjitTypeError(f"arange() requires stop to be specified. (at {user_line()})")
    step = given.get("step")
    return (
        given.get("start") or 0,
        given["stop"],
        1 if step is None else step,
        given.get("dtype", dtype),
    )


def _length(start: Any, stop: Any, step: Any) -> int:
    """ceil((stop - start) / step), as NumPy counts."""
    if step == 0:
        raise ZeroDivisionError("division by zero")
    count = float((stop - start) / step)
    if not math.isfinite(count):
        raise FjitValueError(f"arange: cannot compute length (at {user_line()})")
    return max(math.ceil(count), 0)


def _progression(size: int, first: Any, second: Any, dtype: DType) -> Atom:
    """first, second and so on in equal steps, with the roundings of NumPy's fill loops.

    The step is the difference of the first two numbers in `dtype`; float16 counts in float32.
    """
    trace = current().trace
    wide = dtypes.F32 if dtype == F16 else dtype
    with np.errstate(all="ignore"):
        exact = np.array([first, second]).astype(dtype)
        start, after = exact.astype(wide)
        step = after - start
        made = (start + np.arange(2).astype(wide) * step).astype(dtype)
    count = positions((size,), 0)
    value = ops.convert(count, wide)
    if step != 1:
        value = trace.emit(p.mul, value, trace.literal(step, wide))
    if start != 0:
        value = trace.emit(p.add, value, trace.literal(start, wide))
    value = ops.convert(value, dtype)
    for k in (0, 1):  # NumPy stores these two, and fills from the third on
        if made[k].tobytes() != exact[k].tobytes() and size > k:
            is_k = trace.emit(p.eq, count, trace.literal(k, dtypes.I64))
            value = trace.emit(p.select, is_k, trace.literal(exact[k], dtype), value)
    return value


@creates(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: Any = 0,
    *,
    device: Any = None,
) -> Any:
    """See np.linspace; the steps of numpy/_core/function_base.py."""
    count = _samples(num)
    start, stop = ops.array_of(start), ops.array_of(stop)
    division = count - 1 if endpoint else count
    working = _inexact_dtype(start, stop)
    wanted = working if dtype is None else np.dtype(dtype)
    delta = np.subtract(stop, start, dtype=working)
    count_up = array(ops.convert(positions((count,), 0), working))
    y: Any = FUNCTIONS[np.reshape](count_up, (-1,) + (1,) * np.ndim(delta))
    step: Any = math.nan
    if division > 0:
        step = delta / division
        y = _scaled(y, delta, step, division)
    else:
        y = y * delta
    y = np.add(y, start, dtype=working)
    if endpoint and count > 1:
        y = _with_last(y, stop, count - 1)
    if axis != 0:
        y = FUNCTIONS[np.moveaxis](y, 0, axis)
    if wanted.kind in "iu":
        y = np.floor(y)
    result = FUNCTIONS[np.astype](y, wanted, copy=False)
    return (result, step) if retstep else result


def _samples(num: Any) -> int:
    count = static_int(num, "the number of samples")
    if count < 0:
        raise FjitValueError(
            f"Number of samples, {count}, must be non-negative. (at {user_line()})"
        )
    return count


def _inexact_dtype(*values: Any) -> DType:
    return ops.common_dtype([*[ops.lift(v) for v in values], ops.lift(1.0)])


def _scaled(y: Any, delta: Any, step: Any, division: int) -> Any:
    """`y * step`, and `y / division * delta` where the step underflows to zero."""
    if not isinstance(step, Tracer):
        return y / division * delta if np.any(step == 0) else y * step
    return FUNCTIONS[np.where](np.any(step == 0), y / division * delta, y * step)


def _with_last(y: Tracer, value: Any, last: int) -> Tracer:
    """`y` with its last row replaced by `value`."""
    trace, shape = current().trace, y.static_shape
    is_last = trace.emit(p.eq, positions(shape, 0), trace.literal(last, dtypes.I64))
    rest = ops.broadcast_to(ops.convert(ops.lift(value).atom, y.dtype), shape)
    return array(trace.emit(p.select, is_last, rest, y.atom))


@creates(np.logspace)
def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: Any = 0,
) -> Any:
    """See np.logspace."""
    exponent = linspace(start, stop, num, endpoint, axis=axis)
    power = np.power(base, exponent)
    return power if dtype is None else FUNCTIONS[np.astype](power, np.dtype(dtype), copy=False)


@creates(np.geomspace)
def geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: Any = 0
) -> Any:
    """See np.geomspace; a traced start or stop of zero gives NaN, where NumPy raises."""
    for value in (start, stop):
        if not isinstance(value, Tracer) and np.any(np.equal(value, 0)):
            raise FjitValueError(f"Geometric sequence cannot include zero (at {user_line()})")
    count = _samples(num)
    working = _inexact_dtype(np.asarray(0.0), ops.array_of(start), ops.array_of(stop))
    sign = np.sign(np.multiply(start, 1, dtype=working))
    start = np.divide(start, sign, dtype=working)
    stop = np.divide(stop, sign, dtype=working)
    result = logspace(np.log10(start), np.log10(stop), count, endpoint, 10.0, working)
    if count:
        result = FUNCTIONS[np.copy](result)
        result = _with_last(result, start, 0)
        if count > 1 and endpoint:
            result = _with_last(result, stop, count - 1)
    result = result * sign
    if axis != 0:
        result = FUNCTIONS[np.moveaxis](result, 0, axis)
    wanted = working if dtype is None else np.dtype(dtype)
    return FUNCTIONS[np.astype](result, wanted, copy=False)


# ---- grids --------------------------------------------------------------------------------------


@creates(np.indices)
def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """See np.indices."""
    shape = tuple(static_int(extent, "an extent of the grid") for extent in dimensions)
    wanted, ndim = np.dtype(dtype), len(shape)
    if sparse:
        thin = [(1,) * k + (n,) + (1,) * (ndim - k - 1) for k, n in enumerate(shape)]
        return tuple(array(ops.convert(positions(s, k), wanted)) for k, s in enumerate(thin))
    if not shape:
        return FUNCTIONS[np.empty]((0,), wanted)
    layers = [array(ops.convert(positions(shape, k), wanted)) for k in range(ndim)]
    return FUNCTIONS[np.stack](layers)


@creates(np.fromfunction)
def fromfunction(
    function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **keywords: Any
) -> Any:
    """See np.fromfunction."""
    grid = indices(shape, dtype)
    return function(*[grid[k] for k in range(len(tuple(shape)))], **keywords)


@creates(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """See np.meshgrid."""
    if indexing not in ("xy", "ij"):
        raise FjitValueError(f"Valid values for `indexing` are 'xy' and 'ij'. (at {user_line()})")
    ndim, grids = len(xi), []
    for k, x in enumerate(xi):
        place = 1 - k if indexing == "xy" and ndim > 1 and k < 2 else k
        shape = (1,) * place + (-1,) + (1,) * (ndim - place - 1)
        grids.append(FUNCTIONS[np.reshape](as_tracer(x), shape))
    if not sparse:
        grids = list(FUNCTIONS[np.broadcast_arrays](*grids))
    return tuple(FUNCTIONS[np.copy](g, order="C") if copy else g for g in grids)


@implements(np.ix_)
def ix_(*args: Any) -> Any:
    """See np.ix_; a boolean sequence gives the positions of its true elements."""
    out = []
    for k, value in enumerate(args):
        x = as_tracer(value)
        if x.ndim != 1:
            raise FjitValueError(f"Cross index must be 1 dimensional (at {user_line()})")
        if x.dtype == dtypes.BOOL:
            (x,) = FUNCTIONS[np.nonzero](x)
        index = (None,) * k + (slice(None),) + (None,) * (len(args) - k - 1)
        out.append(x[index])
    return tuple(out)
