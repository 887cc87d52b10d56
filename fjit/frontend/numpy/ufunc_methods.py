"""Methods of ufuncs on traced arrays: reduce, accumulate, outer, at.

Takes the ufunc and the method's arguments, gives traced results. `reduceat` is refused.

    np.add.at(a, i, v)      records      b = scatter[axes=(0,) op=add] a v i
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.trace import where as user_line
from fjit.errors import FjitTypeError, unsupported_function
from fjit.frontend import operands as ops
from fjit.frontend.numpy import ufuncs
from fjit.frontend.numpy.arrays import array, as_tracer, assigned
from fjit.frontend.numpy.cumulative import accumulate_ufunc
from fjit.frontend.numpy.reduction_core import reduce_ufunc
from fjit.frontend.session import current
from fjit.frontend.tracer import FUNCTIONS, UFUNC_METHODS, Tracer

SCATTER: Final[dict[str, str]] = {
    "add": "add", "multiply": "mul", "maximum": "max", "minimum": "min",
}  # fmt: skip


def outer(ufunc: np.ufunc, a: Any, b: Any, **keywords: Any) -> Any:
    """`ufunc.outer(a, b)`: the ufunc of every pair."""
    x, y = (_array(value) for value in (a, b))
    if x.ndim and y.ndim:
        x = FUNCTIONS[np.reshape](x, x.static_shape + (1,) * y.ndim)
    return ufuncs.call(ufunc.__name__, x, y, **keywords)


def _array(value: Any) -> Tracer:
    """`value` as an array: Python numbers are not weak here, as NumPy has it."""
    x = as_tracer(value)
    return x if x.weak is None else array(x.atom)


def at(ufunc: np.ufunc, a: Any, indices: Any, b: Any = None) -> None:
    """`ufunc.at(a, indices, b)` with integer-array indices of leading axes, in place."""
    op = SCATTER.get(ufunc.__name__)
    if op is None:
        raise unsupported_function(
            f"{ufunc.__name__}.at", "use at with add, multiply, maximum or minimum", user_line()
        )
    if not isinstance(a, Tracer):
        raise FjitTypeError(
            f"{ufunc.__name__}.at writes into an array from outside of the fused function, at "
            f"{user_line()}: pass it as an argument"
        )
    if ufunc is np.add and a.dtype == dtypes.BOOL:
        op = "max"
    places = [as_tracer(i) for i in (indices if isinstance(indices, tuple) else (indices,))]
    if any(i.dtype.kind not in "iu" for i in places):
        raise unsupported_function(
            f"{ufunc.__name__}.at with slices or masks", "index with integer arrays", user_line()
        )
    _scatter(a, places, b, op)


def _scatter(a: Tracer, places: list[Tracer], b: Any, op: str) -> None:
    trace, axes = current().trace, tuple(range(len(places)))
    shape = ops.broadcast_shapes(*[i.static_shape for i in places])
    rest = a.static_shape[len(places) :]
    atoms = []
    for axis, index in enumerate(places):
        extent = ops.lift(a.shape[axis])
        wide = ops.broadcast_to(ops.convert(index.atom, dtypes.I64), shape)
        below = trace.emit(p.lt, wide, trace.literal(0, dtypes.I64))
        atoms.append(trace.emit(p.select, below, trace.emit(p.add, wide, extent.atom), wide))
    values = as_tracer(b)
    if not np.can_cast(values.dtype, a.dtype, "same_kind"):
        raise unsupported_function(
            f"ufunc.at of {values.dtype} values into an array of {a.dtype}",
            "convert the values first, or accumulate in a wider array (NumPy rounds at every step)",
            user_line(),
        )
    spread = ops.broadcast_to(assigned(b, a.dtype), (*shape, *rest))
    a.assign(trace.emit(p.scatter, a.atom, spread, *atoms, axes=axes, op=op))


def reduceat(ufunc: np.ufunc, *_: Any, **__: Any) -> NoReturn:
    """Refused."""
    raise unsupported_function(
        f"{ufunc.__name__}.reduceat", "use np.add.at into an array of zeros", user_line()
    )


UFUNC_METHODS.update(
    {
        "reduce": reduce_ufunc,
        "accumulate": accumulate_ufunc,
        "outer": outer,
        "at": at,
        "reduceat": reduceat,
    }
)
