"""Byte order of results: NumPy's copying functions keep a foreign one, its computing ones do not.

Programs hold native values only; a traced buffer remembers that its array is byte-swapped, and the
functions below pass that on: `a.copy()` of a `>f8` argument is returned as `>f8`, and so are
`x.astype(">f8")` and `np.zeros(3, ">f8")`.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Final

import numpy as np

from fjit.frontend.numpy import arrays
from fjit.frontend.numpy.creation import CREATION, program_dtype
from fjit.frontend.tracer import FUNCTIONS, GETITEM, Function, Tracer

KEEPS: Final[tuple[Any, ...]] = (
    np.copy, np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.take, np.repeat, np.pad,
    np.sort, np.ravel, np.reshape, np.roll, np.tile, np.compress, np.delete, np.insert, np.diag,
    np.nan_to_num, np.partition, np.array, np.asarray, np.asanyarray, np.ascontiguousarray,
    np.asfortranarray,
)  # fmt: skip
"""Functions whose result has the byte order of their first argument, unless `dtype` is given."""
ASKED: Final[tuple[Any, ...]] = (
    np.astype, np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray,
    np.zeros, np.ones, np.empty, np.full, np.zeros_like, np.ones_like, np.empty_like, np.full_like,
    np.arange, np.linspace, np.logspace, np.geomspace, np.eye, np.identity, np.tri, np.indices,
    np.fromfunction, np.concatenate, np.stack, np.vstack, np.hstack,
)  # fmt: skip
"""Functions whose result has the byte order of their argument `dtype`."""
NOWHERE: Final = 99
"""The place of a `dtype` that is given by name only."""


def keeping(function: Function) -> Function:
    """`function` with its fresh result marked as swapped if its first argument is."""

    @functools.wraps(function)
    def wrapped(*args: Any, **keywords: Any) -> Any:
        result = function(*args, **keywords)
        source = args[0] if args else None
        if isinstance(source, Tracer) and source.buffer.swapped and isinstance(result, Tracer):
            same = keywords.get("dtype") is None and result.aval.dtype == source.aval.dtype
            if same and not result.is_scalar:
                result.buffer.swapped = True
        return result

    return wrapped


def asked(function: Function, otherwise: Function) -> Function:
    """`function`, called with a native dtype, with its results in the byte order asked for.

    Without `dtype` it is `otherwise`. An argument in another byte order is not returned as it is.
    """
    parameters = list(inspect.signature(function).parameters.values())
    kinds = [parameter.kind for parameter in parameters if parameter.name == "dtype"]
    names = [parameter.name for parameter in parameters]
    place = NOWHERE if kinds == [inspect.Parameter.KEYWORD_ONLY] else names.index("dtype")

    @functools.wraps(function)
    def wrapped(*args: Any, **keywords: Any) -> Any:
        is_placed = len(args) > place
        dtype = args[place] if is_placed else keywords.get("dtype")
        if dtype is None:
            return otherwise(*args, **keywords)
        native = program_dtype(dtype)
        if native is None:
            return function(*args, **keywords)
        swapped = not np.dtype(dtype).isnative
        if swapped and is_placed:
            args = (*args[:place], native, *args[place + 1 :])
        elif swapped:
            keywords["dtype"] = native
        result = function(*args, **keywords)
        source = args[0] if args else None
        if isinstance(result, (tuple, list)):
            return type(result)(_in_order(one, source, swapped) for one in result)
        return _in_order(result, source, swapped)

    return wrapped


def _in_order(result: Any, source: Any, swapped: bool) -> Any:
    """The result with its buffer marked; a copy of the source if that is in another byte order."""
    if not isinstance(result, Tracer) or result.is_scalar or result.buffer.swapped == swapped:
        return result
    is_own = isinstance(source, Tracer) and result.buffer is source.buffer
    if is_own or result.buffer.argument is not None:
        result = arrays.copy(result)
    result.buffer.swapped = swapped
    return result


def install() -> None:
    """Wrap the registered functions; called once, after all of them are registered."""
    for numpy_function in {*KEEPS, *ASKED}:
        plain = known = FUNCTIONS[numpy_function]
        if numpy_function in KEEPS:
            known = keeping(plain)
        if numpy_function in ASKED:
            known = asked(plain, known)
        FUNCTIONS[numpy_function] = known
        if numpy_function in CREATION:
            CREATION[numpy_function] = known
    GETITEM[0] = keeping(GETITEM[0])
