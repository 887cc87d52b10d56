"""The methods of ndarray that are NumPy functions of the array, and those that are refused.

Takes what the methods take, gives what the table of functions gives. `Methods` is the part of the
tracer that knows nothing of buffers and views.

    x.sum(axis=0)      is      FUNCTIONS[np.sum](x, axis=0)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fjit.core.trace import where
from fjit.errors import unsupported_function
from fjit.frontend.tables import FUNCTIONS, Function


def _method(function: Any) -> Function:
    """An ndarray method that is the NumPy function with the array as first argument."""

    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        return FUNCTIONS[function](self, *args, **keywords)

    method.__name__ = getattr(function, "__name__", "method")
    return method


def refused(what: str, instead: str) -> Function:
    """A method that always raises, saying what to write instead."""

    def method(self: Any, *_: Any, **__: Any) -> Any:
        raise unsupported_function(what, instead, where())

    return method


class Methods:
    """See the module's docstring; `self` is a traced array."""

    __slots__ = ()

    # fmt: off
    all, any, argmax, argmin = _method(np.all), _method(np.any), _method(np.argmax), _method(np.argmin)  # noqa: E501
    argpartition, argsort = _method(np.argpartition), _method(np.argsort)
    choose, clip = _method(np.choose), _method(np.clip)
    cumprod, cumsum = _method(np.cumprod), _method(np.cumsum)
    diagonal, dot = _method(np.diagonal), _method(np.dot)
    max, mean, min, nonzero = _method(np.max), _method(np.mean), _method(np.min), _method(np.nonzero)  # noqa: E501
    prod, ravel, repeat = _method(np.prod), _method(np.ravel), _method(np.repeat)
    round, searchsorted, squeeze = _method(np.round), _method(np.searchsorted), _method(np.squeeze)
    std, sum, swapaxes, take = _method(np.std), _method(np.sum), _method(np.swapaxes), _method(np.take)  # noqa: E501
    trace, var = _method(np.trace), _method(np.var)
    # fmt: on

    resize = refused("ndarray.resize, which works in place,", "use y = x.reshape(...) or np.resize")
    byteswap = refused("ndarray.byteswap", "swap the bytes outside, or use x.astype('>f8')")
    dump = dumps = tobytes = tofile = refused(
        "writing out a traced array", "return the array and write it outside"
    )
    setflags = refused("ndarray.setflags", "mark the argument read-only outside")

    def conj(self: Any) -> Any:
        """See ndarray.conj: a real array itself."""
        return self

    conjugate = conj

    def copy(self: Any, order: str = "C") -> Any:
        """See ndarray.copy: C order, where np.copy keeps the layout."""
        return FUNCTIONS[np.copy](self, order=order)

    def compress(self: Any, condition: Any, axis: int | None = None, out: Any = None) -> Any:
        """See np.compress."""
        return FUNCTIONS[np.compress](condition, self, axis=axis, out=out)

    def astype(self: Any, dtype: Any, order: str = "K", casting: str = "unsafe",
               subok: bool = True, copy: bool = True) -> Any:  # fmt: skip
        """See ndarray.astype."""
        return FUNCTIONS[np.astype](self, dtype, copy=copy, order=order, casting=casting)

    def reshape(self: Any, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """See ndarray.reshape."""
        target = shape[0] if len(shape) == 1 else shape
        return FUNCTIONS[np.reshape](self, target, order=order, copy=copy)

    def transpose(self: Any, *axes: Any) -> Any:
        """See ndarray.transpose."""
        if not axes or axes == (None,):
            return FUNCTIONS[np.transpose](self)
        return FUNCTIONS[np.transpose](self, axes[0] if len(axes) == 1 else axes)

    def flatten(self: Any, order: str = "C") -> Any:
        """See ndarray.flatten: always a copy."""
        return FUNCTIONS[np.copy](FUNCTIONS[np.ravel](self, order=order))

    def fill(self: Any, value: Any) -> None:
        """See ndarray.fill."""
        self[...] = value

    def sort(self: Any, axis: int = -1, kind: Any = None, order: Any = None) -> None:
        """See ndarray.sort: in place."""
        self[...] = FUNCTIONS[np.sort](self, axis=axis, kind=kind, order=order)

    def partition(
        self: Any, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None
    ) -> None:
        """See ndarray.partition: in place."""
        self[...] = FUNCTIONS[np.partition](self, kth, axis=axis, kind=kind, order=order)

    def put(self: Any, indices: Any, values: Any, mode: str = "raise") -> None:
        """See np.put."""
        FUNCTIONS[np.put](self, indices, values, mode=mode)
