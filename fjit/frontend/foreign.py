"""Functions beyond NumPy's supported ones: scipy.special's ufuncs, and what to write instead.

Takes a function that was called on a traced array, gives its traced meaning or advice for the
error. Invariant: scipy is never imported here; its ufuncs are known only if the user did it.

    scipy.special.erf(x)      records      b = erf a
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

SCIPY_SPECIAL: Final[dict[str, Callable[..., Any]]] = {}
"""Name in scipy.special -> function of traced operands; filled by frontend/special.py."""

INSTEAD: Final[dict[str, str]] = {
    "median": "use s = np.sort(x, axis=None) and the mean of s[(n - 1) // 2] and s[n // 2]",
    "nanmedian": "use s = np.sort(x, axis=None), which puts NaN last, and count the others",
    "nanpercentile": "fill with np.where(np.isnan(x), ...) and use np.percentile",
    "nanquantile": "fill with np.where(np.isnan(x), ...) and use np.quantile",
    "unique": "its size depends on values: use np.sort and compare neighbours, or call it outside",
    "histogram": "use np.searchsorted(edges, x) and np.bincount",
    "cov": "use d = x - x.mean(axis=1, keepdims=True) and d @ d.T / (n - 1)",
    "corrcoef": "use d = x - x.mean(axis=1, keepdims=True), d @ d.T and its diagonal",
    "polyval": "write Horner's rule: y = y * x + c for each coefficient c",
    "frexp": "use np.floor(np.log2(np.abs(x))) for the exponent",
    "ldexp": "use x * np.exp2(n)",
    "apply_along_axis": "use the function's own axis argument",
    "vectorize": "write the function with whole-array operations",
    "array2string": "format the result outside",
    "save": "return the array and save it outside",
    "savetxt": "return the array and save it outside",
}
OUTSIDE: Final = "call it outside, on arrays, or write it with supported functions (fjit.numpy)"


def instead_of(function: Any) -> str:
    """What to write instead of a NumPy function."""
    return INSTEAD.get(getattr(function, "__name__", ""), OUTSIDE)


def foreign_ufunc(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """The traced meaning of a ufunc of scipy.special, if it is one that fjit.special has."""
    module = sys.modules.get("scipy.special")
    if module is None or getattr(module, ufunc.__name__, None) is not ufunc:
        return None
    return SCIPY_SPECIAL.get(ufunc.__name__)
