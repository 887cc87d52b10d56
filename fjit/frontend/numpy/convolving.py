"""np.convolve and np.correlate with short kernels, as sums of shifted slices.

Takes traced vectors, gives a copy; the sum over taps is written out, so it fuses:

    np.convolve(x, k, "valid")      records      k[0] * x[1:] + k[1] * x[:-1]    for two taps
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fjit.core.trace import where
from fjit.errors import FjitValueError
from fjit.frontend.numpy import arrays
from fjit.frontend.numpy.arrays import as_tracer, joined_dtype
from fjit.frontend.tracer import FUNCTIONS, UFUNCS, Tracer, implements, require_static

MAX_TAPS: Final = 64
MODES: Final = ("valid", "same", "full")


def _vector(value: Any, name: str) -> tuple[Tracer, int]:
    x = as_tracer(value)
    if not x.static_shape:
        x = arrays.expand_view(x, (0,))
    if x.ndim != 1:
        raise FjitValueError(f"object too deep for desired array, at {where()}: {x.aval}")
    extent = require_static(x.static_shape[0], name)
    if extent == 0:
        raise FjitValueError(f"{name} at {where()}: an operand is empty")
    return x, extent


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Tracer:
    """See np.convolve."""
    return _sliding("np.convolve", a, v, mode, True)


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Tracer:
    """See np.correlate."""
    return _sliding("np.correlate", a, v, mode, False)


def _sliding(name: str, a: Any, v: Any, mode: str, flipped: bool) -> Tracer:
    if mode not in MODES:
        raise FjitValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r}), "
                             f"at {where()}")  # fmt: skip
    (x, n), (kernel, taps) = _vector(a, name), _vector(v, name)
    dtype = joined_dtype((x, kernel))
    swapped = taps > n
    if swapped:
        (x, n), (kernel, taps) = (kernel, taps), (x, n)
    if taps > MAX_TAPS:
        raise FjitValueError(
            f"{name} at {where()} with a kernel of {taps} elements: kernels of up to {MAX_TAPS} "
            "are fused; use scipy.signal.fftconvolve outside, or a matrix product"
        )
    x, kernel = arrays.as_dtype(x, dtype), arrays.as_dtype(kernel, dtype)
    if flipped:
        kernel = FUNCTIONS[np.flip](kernel)
    result = _correlated(x, kernel, n, taps, mode)
    return FUNCTIONS[np.flip](result).copy() if swapped and not flipped else result


def _correlated(x: Tracer, kernel: Tracer, n: int, taps: int, mode: str) -> Tracer:
    """The sum over taps of kernel[j] * x[i + j], each term where `x` has elements."""
    size = {"valid": n - taps + 1, "same": n, "full": n + taps - 1}[mode]
    before = {"valid": 0, "same": taps // 2, "full": taps - 1}[mode]
    total: Any = None
    for j in range(taps):
        first, last = max(0, before - j), min(size, n + before - j)
        part = arrays.slice_axis(x, 0, first + j - before, last - first)
        term = UFUNCS["multiply"](part, kernel[j])
        if last - first < size:
            term = FUNCTIONS[np.pad](term, (first, size - last))
        total = term if total is None else UFUNCS["add"](total, term)
    return arrays.array(total.atom)
