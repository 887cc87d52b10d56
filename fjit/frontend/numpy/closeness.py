"""Comparing arrays: isclose, allclose, array_equal, array_equiv.

Takes what NumPy's functions take. isclose gives a traced array of bools; the others give a traced
Python bool, or a plain one where the shapes decide.

    np.allclose(x, y)      records      the test per element, then c = reduce[op=and axes=(0,)] b
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fjit.core import dtypes
from fjit.errors import ShapeError
from fjit.frontend import operands as ops
from fjit.frontend.numpy import ufuncs
from fjit.frontend.numpy.arrays import as_dtype, as_tracer
from fjit.frontend.session import current
from fjit.frontend.tracer import FUNCTIONS, Tracer, implements


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: bool = False) -> Any:
    """See np.isclose: |a - b| <= atol + rtol * |b|, in the steps of NumPy."""
    x = a if isinstance(a, (int, float)) else as_tracer(a)
    y: Any = float(b) if isinstance(b, (int, float)) else as_tracer(b)
    if isinstance(y, Tracer):
        y = as_dtype(y, y.dtype if y.dtype.kind == "f" else dtypes.F64)
    limit = ufuncs.call("add", atol, ufuncs.call("multiply", rtol, _magnitude(y)))
    distance = ufuncs.call("absolute", ufuncs.call("subtract", x, y))
    near = ufuncs.call("less_equal", distance, limit)
    near = ufuncs.call("bitwise_and", near, ufuncs.call("isfinite", y))
    result = ufuncs.call("bitwise_or", near, ufuncs.call("equal", x, y))
    if equal_nan:
        both = ufuncs.call("bitwise_and", ufuncs.call("isnan", x), ufuncs.call("isnan", y))
        result = ufuncs.call("bitwise_or", result, both)
    return result


def _magnitude(y: Any) -> Any:
    return ufuncs.call("absolute", y) if isinstance(y, Tracer) else abs(y)


def _python_bool(truth: Any) -> Tracer:
    """Whether every element holds, as a traced Python bool."""
    result = FUNCTIONS[np.all](truth)
    return Tracer(current().trace, result.buffer, weak=bool, is_scalar=True)


@implements(np.allclose)
def allclose(
    a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: bool = False
) -> Any:
    """See np.allclose."""
    return _python_bool(isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """See np.array_equal."""
    x, y = as_tracer(a1), as_tracer(a2)
    if x.static_shape != y.static_shape:
        return False
    same = ufuncs.call("equal", x, y)
    if equal_nan:
        both = ufuncs.call("bitwise_and", ufuncs.call("isnan", x), ufuncs.call("isnan", y))
        same = ufuncs.call("bitwise_or", same, both)
    return _python_bool(same)


@implements(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> Any:
    """See np.array_equiv."""
    x, y = as_tracer(a1), as_tracer(a2)
    try:
        ops.broadcast_shapes(x.static_shape, y.static_shape)
    except ShapeError:
        return False
    return _python_bool(ufuncs.call("equal", x, y))
