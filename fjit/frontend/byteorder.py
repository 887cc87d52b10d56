"""Byte order of results: NumPy's copying functions keep a foreign one, its computing ones do not.

Programs hold native values only; a traced buffer remembers that its array is byte-swapped, and the
functions below pass that on, so that `a.copy()` of a `>f8` argument is returned as `>f8`.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from fjit.frontend.numpy.creation import CREATION
from fjit.frontend.tracer import FUNCTIONS, GETITEM, Function, Tracer

KEEPS: Final = (
    np.copy, np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.take, np.repeat, np.pad,
    np.sort, np.ravel, np.reshape, np.roll, np.tile, np.compress, np.delete, np.insert, np.diag,
    np.triu, np.tril, np.partition, np.array, np.asarray, np.ascontiguousarray,
)  # fmt: skip
"""Functions whose result has the byte order of their first argument, unless `dtype` is given."""


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


def install() -> None:
    """Wrap the registered functions; called once, after all of them are registered."""
    for numpy_function in KEEPS:
        known = FUNCTIONS.get(numpy_function)
        if known is None:
            continue
        FUNCTIONS[numpy_function] = keeping(known)
        if numpy_function in CREATION:
            CREATION[numpy_function] = FUNCTIONS[numpy_function]
    GETITEM[0] = keeping(GETITEM[0])
