"""Choosing between values: where, select, choose, piecewise, clip, copyto, nan_to_num.

Takes what NumPy's functions take, gives traced results; everything is a `select` of values computed
for all elements. Invariant: dtypes and NaN behaviour are NumPy's; `copyto`
writes into the traced array it is given.

    np.where(m, x, 0)      records      b = select m x 0.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom
from fjit.core.trace import where as user_line
from fjit.errors import FjitTypeError, FjitValueError, unsupported_function
from fjit.frontend import operands as ops
from fjit.frontend.numpy import ufuncs
from fjit.frontend.numpy.arrays import array, as_tracer, assigned
from fjit.frontend.numpy.ufunc_table import F16
from fjit.frontend.operands import Operand
from fjit.frontend.session import current
from fjit.frontend.tracer import FUNCTIONS, Tracer, fresh, implements

NO_VALUE: Final[Any] = np._NoValue  # NumPy's "argument not given"


@implements(np.where)
def where(condition: Any, x: Any = NO_VALUE, y: Any = NO_VALUE, /) -> Any:
    """See np.where; with one argument it is nonzero. Rank 0 gives a 0-d array, as in NumPy."""
    if x is NO_VALUE and y is NO_VALUE:
        return FUNCTIONS[np.nonzero](condition)
    if x is NO_VALUE or y is NO_VALUE:
        raise FjitValueError(
            f"either both or neither of x and y should be given (at {user_line()})"
        )
    mask, chosen, other = ops.lift(condition), ops.lift(x), ops.lift(y)
    dtype = ops.common_dtype([chosen, other])
    return _selected(mask, chosen, other, dtype)


def _selected(mask: Operand, chosen: Operand, other: Operand, dtype: np.dtype[Any]) -> Tracer:
    operands = [mask, chosen, other]
    shape = ops.broadcast_shapes(*[o.shape for o in operands])
    truth = ops.convert(mask.atom, dtypes.BOOL)
    atoms = ops.align([truth, _wrapped(chosen, dtype), _wrapped(other, dtype)], shape)
    atom = ops.broadcast_to(current().trace.emit(p.select, *atoms), shape)
    result = ops.finish(atom, operands)
    result.is_scalar = False
    return result


def _wrapped(operand: Operand, dtype: np.dtype[Any]) -> Atom:
    """The operand in `dtype`; a Python int is an int64 (uint64) first, so it wraps, as in NumPy."""
    if operand.weak is not int or dtype.kind not in "iu":
        return ops.cast(operand, dtype)
    if operand.value is None:
        return ops.convert(operand.atom, dtype)
    if not -(2**63) <= operand.value < 2**64:
        raise OverflowError(f"Python int too large to convert to C long (at {user_line()})")
    return current().trace.literal(int(np.asarray(operand.value).astype(dtype)), dtype)


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """See np.select: the first condition that holds decides."""
    if len(condlist) != len(choicelist):
        raise FjitValueError(
            f"list of cases must be same length as list of conditions (at {user_line()})"
        )
    if not len(condlist):
        raise FjitValueError(
            f"select with an empty condition list is not possible (at {user_line()})"
        )
    masks = [ops.lift(c) for c in condlist]
    choices = [ops.lift(c) for c in (*choicelist, default)]
    for k, mask in enumerate(masks):
        if mask.dtype != dtypes.BOOL:
            raise FjitTypeError(
                f"invalid entry {k} in condlist: should be boolean ndarray (at {user_line()})"
            )
    dtype = ops.common_dtype(choices)
    shape = ops.broadcast_shapes(*[o.shape for o in (*masks, *choices)])
    trace = current().trace
    atoms = ops.align([_wrapped(c, dtype) for c in choices], shape)
    result = atoms.pop()
    for mask, choice in zip(reversed(masks), reversed(atoms), strict=True):
        (truth,) = ops.align([mask.atom], shape)
        result = trace.emit(p.select, truth, choice, result)
    return array(ops.broadcast_to(result, shape))


@implements(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """See np.choose, for modes clip and wrap; an index out of range cannot raise while traced."""
    index = as_tracer(a)
    if mode == "raise":
        if index.dtype != dtypes.BOOL or len(choices) < 2:
            raise unsupported_function(
                "np.choose with mode='raise'", "pass mode='clip' or mode='wrap'", user_line()
            )
    elif mode == "clip":
        index = clip(index, 0, len(choices) - 1)
    else:
        index = ufuncs.call("remainder", index, len(choices))
    operands = [ops.lift(c) for c in choices]
    dtype = ops.common_dtype(operands)
    shape = ops.broadcast_shapes(index.static_shape, *[o.shape for o in operands])
    trace = current().trace
    atoms = ops.align([_wrapped(o, dtype) for o in operands], shape)
    result = atoms[0]
    for k, choice in enumerate(atoms[1:], 1):
        (is_k,) = ops.align([ufuncs.call("equal", index, k).atom], shape)
        result = trace.emit(p.select, is_k, choice, result)
    return ops.store(fresh(ops.broadcast_to(result, shape)), out, "unsafe")


@implements(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """See np.piecewise: every function sees the whole array, and the last condition decides."""
    source = as_tracer(x)
    masks = [as_tracer(c) for c in _conditions(condlist, source)]
    if len(masks) == len(funclist) - 1:
        anything = masks[0]
        for mask in masks[1:]:
            anything = ufuncs.call("logical_or", anything, mask)
        masks.append(ufuncs.call("logical_not", anything))
    elif len(masks) != len(funclist):
        raise FjitValueError(
            f"with {len(masks)} condition(s), either {len(masks)} or {len(masks) + 1} functions "
            f"are expected (at {user_line()})"
        )
    result = FUNCTIONS[np.zeros_like](source)
    for mask, function in zip(masks, funclist, strict=True):
        value = function(source, *args, **kw) if isinstance(function, Callable) else function  # type: ignore[arg-type]
        copyto(result, value, "unsafe", mask)
    return result


def _conditions(condlist: Any, source: Tracer) -> list[Any]:
    """The conditions of np.piecewise; one that is not in a list is a list of one."""
    if np.isscalar(condlist) or (isinstance(condlist, Tracer) and not condlist.ndim):
        return [condlist]
    first = condlist[0]
    is_array = isinstance(first, (list, np.ndarray)) or (isinstance(first, Tracer) and first.ndim)
    return list(condlist) if is_array or not source.ndim else [condlist]


# ---- clip ---------------------------------------------------------------------------------------


@implements(np.clip)
def clip(
    a: Any,
    a_min: Any = NO_VALUE,
    a_max: Any = NO_VALUE,
    out: Any = None,
    *,
    min: Any = NO_VALUE,
    max: Any = NO_VALUE,
    **keywords: Any,
) -> Any:
    """See np.clip: minimum(maximum(a, low), high), in the dtype of all three."""
    low, high = _bound(a_min, min), _bound(a_max, max)
    x = a if isinstance(a, Tracer) and a.weak is None else as_tracer(a)
    dtype = x.dtype
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low = None if type(low) is int and low <= info.min else low
        high = None if type(high) is int and high >= info.max else high
    if low is None and high is None:
        return ufuncs.call("positive", x, out=out, **keywords)
    if low is None:
        return ufuncs.call("minimum", x, high, out=out, **keywords)
    if high is None:
        return ufuncs.call("maximum", x, low, out=out, **keywords)
    if out is not None or keywords:
        keywords.setdefault("casting", "same_kind")
        return _clipped_into(x, low, high, out, keywords)
    return _clipped(x, low, high)


def _bound(positional: Any, keyword: Any) -> Any:
    if positional is not NO_VALUE and keyword is not NO_VALUE:
        raise FjitValueError(
            "Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is "
            f"forbidden. (at {user_line()})"
        )
    found = keyword if positional is NO_VALUE else positional
    return None if found is NO_VALUE else found


def _clipped(x: Tracer, low: Any, high: Any, dtype: Any = None) -> Tracer:
    """The clip ufunc: a NaN anywhere gives NaN; with low > high the result is high."""
    operands = [ops.lift(v) for v in (x, low, high)]
    wanted = ops.common_dtype(operands) if dtype is None else np.dtype(dtype)
    shape = ops.broadcast_shapes(*[o.shape for o in operands])
    value, least, most = ops.align([ops.cast(o, wanted) for o in operands], shape)
    trace = current().trace
    if wanted != F16 and not (least.aval.shape or most.aval.shape):
        # NumPy's loop for constant bounds keeps a zero that equals a zero bound; max(a, b) gives b
        value = trace.emit(p.min_, most, trace.emit(p.max_, least, value))
    else:
        value = trace.emit(p.min_, trace.emit(p.max_, value, least), most)
    return ops.finish(ops.broadcast_to(value, shape), operands)


def _clipped_into(x: Tracer, low: Any, high: Any, out: Any, keywords: dict[str, Any]) -> Any:
    result = _clipped(x, low, high, keywords.get("dtype"))
    mask = keywords.get("where", True)
    if mask is True:
        return ops.store(result, out, keywords["casting"])
    return ufuncs.call("positive", result, out=out, where=mask, casting=keywords["casting"])


# ---- writing under a mask -----------------------------------------------------------------------


def _target(destination: Any, name: str) -> Tracer:
    if not isinstance(destination, Tracer):
        raise FjitTypeError(
            f"{name} at {user_line()} writes into an array from outside of the fused function: "
            "pass it as an argument"
        )
    return destination


def _write(target: Tracer, mask: Atom, value: Atom) -> None:
    """`target` with `value` where the mask holds; both already fit its shape and dtype."""
    shape = target.static_shape
    operands = ops.align([mask, value, target.atom], shape)
    target.assign(ops.broadcast_to(current().trace.emit(p.select, *operands), shape))


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """See np.copyto."""
    target = _target(dst, "np.copyto")
    operand = ops.lift(src)
    given: Any = operand.weak or operand.dtype
    if operand.weak is None and not np.can_cast(given, target.dtype, casting):  # type: ignore[arg-type]
        raise FjitTypeError(
            f"Cannot cast array data from {operand.dtype!r} to {target.dtype!r} according to the "
            f"rule '{casting}' (at {user_line()})"
        )
    shape = target.static_shape
    mask = ops.lift(where)
    if ops.broadcast_shapes(operand.shape, mask.shape, shape) != shape:
        raise FjitValueError(
            f"could not broadcast input array from shape {operand.shape} into shape {shape} "
            f"(at {user_line()})"
        )
    value = assigned(src, target.dtype)
    if where is True:
        target.assign(ops.broadcast_to(value, shape))
    else:
        _write(target, ops.convert(mask.atom, dtypes.BOOL), value)


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """See np.nan_to_num; copy=False writes into the array."""
    source = as_tracer(x)
    is_target = not copy and not source.is_scalar
    if source.dtype.kind != "f":
        return source if is_target else _copied(source)
    info = np.finfo(source.dtype)
    high = info.max if posinf is None else posinf
    low = info.min if neginf is None else neginf
    positive = ufuncs.call("equal", source, np.inf)
    negative = ufuncs.call("equal", source, -np.inf)
    is_nan = ufuncs.call("isnan", source)
    target = source if is_target else array(source.atom, _k_strides(source))
    for mask, value in ((is_nan, nan), (positive, high), (negative, low)):
        copyto(target, value, "same_kind", mask)
    return target if target.ndim else ops.finish(target.atom, [])


def _k_strides(source: Tracer) -> Any:
    return FUNCTIONS[np.copy](source).element_strides


def _copied(source: Tracer) -> Any:
    return FUNCTIONS[np.copy](source) if source.ndim else ops.finish(source.atom, [])
