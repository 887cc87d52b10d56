"""round, fix, sinc, and functions of real numbers that are trivial without complex ones.

Takes what NumPy's functions take, gives traced results with NumPy's own steps: rounding to decimals
scales by a power of ten, rounds to even, and scales back.

    np.round(x, 2)      records      b = mul a 100.0; c = rint b; d = div c 100.0
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fjit.core import dtypes
from fjit.core.trace import where as user_line
from fjit.errors import FjitTypeError
from fjit.frontend import operands as ops
from fjit.frontend.numpy import ufuncs
from fjit.frontend.numpy.arrays import as_tracer, order_strides, static_int
from fjit.frontend.tracer import FUNCTIONS, Tracer, fresh, implements


@implements(np.round, np.around)
def round_(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    """See np.round: ties go to the even digit of the scaled number, as in NumPy."""
    x = as_tracer(a)
    places = static_int(decimals, "decimals")
    kind = x.dtype.kind
    if kind in "iu" and places >= 0:
        return _as_ordered(ufuncs.call("positive", x, out=out), x, out)
    if places == 0:
        return ufuncs.call("rint", x, out=out)
    if kind == "b":
        raise FjitTypeError(
            f"Cannot cast ufunc 'multiply' output from dtype('float64') to dtype('bool') with "
            f"casting rule 'same_kind' (at {user_line()})"
        )
    scale = 10.0 ** abs(places)
    there, back = ("multiply", "divide") if places > 0 else ("divide", "multiply")
    rounded = ufuncs.call(back, ufuncs.call("rint", ufuncs.call(there, x, scale)), scale)
    strides = order_strides(x.static_shape, x.element_strides, "A")  # unlike ufuncs
    return _as_ordered(ops.store(fresh(ops.convert(rounded.atom, x.dtype), strides), out), x, out)


def _as_ordered(result: Any, x: Tracer, out: Any) -> Any:
    """A result in the byte order of the argument, which NumPy keeps unless it calls rint alone."""
    if out is None and not result.is_scalar:
        result.buffer.swapped = x.buffer.swapped
    return result


@implements(np.fix)
def fix(x: Any, out: Any = None) -> Any:
    """See np.fix: towards zero."""
    return ufuncs.call("trunc", x, out=out)


@implements(np.sinc)
def sinc(x: Any) -> Any:
    """See np.sinc."""
    y = ufuncs.call("multiply", np.pi, x)
    tiny = np.finfo(y.dtype).eps
    y = FUNCTIONS[np.where](y, y, tiny)
    return ufuncs.call("divide", ufuncs.call("sin", y), y)


@implements(np.isposinf)
def isposinf(x: Any, out: Any = None) -> Any:
    """See np.isposinf."""
    positive = ufuncs.call("logical_not", ufuncs.call("signbit", x))
    return ufuncs.call("logical_and", ufuncs.call("isinf", x), positive, out=out)


@implements(np.isneginf)
def isneginf(x: Any, out: Any = None) -> Any:
    """See np.isneginf."""
    return ufuncs.call("logical_and", ufuncs.call("isinf", x), ufuncs.call("signbit", x), out=out)


# ---- real and imaginary parts of real arrays ----------------------------------------------------


@implements(np.real)
def real(val: Any) -> Any:
    """See np.real: the array itself."""
    return as_tracer(val)


@implements(np.real_if_close)
def real_if_close(a: Any, tol: Any = 100) -> Any:
    """See np.real_if_close: the array itself, a number as an array."""
    return FUNCTIONS[np.asanyarray](a)


@implements(np.imag)
def imag(val: Any) -> Any:
    """See np.imag: zeros."""
    return as_tracer(val).imag


@implements(np.isreal)
def isreal(x: Any) -> Any:
    """See np.isreal: True everywhere."""
    return ufuncs.call("equal", imag(x), 0)


@implements(np.iscomplex)
def iscomplex(x: Any) -> Any:
    """See np.iscomplex: False everywhere."""
    return ufuncs.call("not_equal", imag(x), 0)


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    """See np.isrealobj."""
    return True


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    """See np.iscomplexobj."""
    return False


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """See np.angle: 0 for numbers that are not negative, pi for negative ones."""
    result = ufuncs.call("arctan2", 0, z)
    return ufuncs.call("multiply", result, 180 / np.pi) if deg else result


# ---- dtypes -------------------------------------------------------------------------------------


def _dtype_of(value: Any) -> Any:
    """What np.result_type makes of `value`: a Python number type for weak operands."""
    if not isinstance(value, Tracer):
        return value
    return value.dtype if value.weak is None else value.weak(1)


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> Any:
    """See np.result_type."""
    return np.result_type(*map(_dtype_of, arrays_and_dtypes))


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """See np.can_cast."""
    return np.can_cast(_dtype_of(from_), to, casting)


@implements(np.common_type)
def common_type(*arrays: Any) -> Any:
    """See np.common_type."""
    return np.common_type(*[np.empty(0, as_tracer(a).dtype) for a in arrays])


@implements(np.min_scalar_type)
def min_scalar_type(a: Any) -> Any:
    """See np.min_scalar_type: of arrays it is their dtype; the value of a scalar is not known."""
    dtype = as_tracer(a).dtype
    return dtypes.canonical(dtype)
