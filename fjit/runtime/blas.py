"""The BLAS that matrix products call: where its functions are, and one thread a call.

Takes the libraries of this process, gives the addresses of the functions that multiply matrices, or
a matrix with a vector, and of those that tell and set how many threads the library uses. First
comes the OpenBLAS that NumPy brings with it, whose small products are faster than those of older
ones; then the functions that SciPy exports for Cython code. Invariant: with neither there is no
such BLAS, and products go through NumPy; where the number of threads is lowered, it is set back
(panels_ir).

    NumPy's wheel: scipy_dgemm_64_      SciPy: cython_blas.__pyx_capi__["dgemm"]
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.linalg import _umath_linalg

from fjit.core import dtypes

_LETTERS: Final[dict[np.dtype[Any], str]] = {dtypes.F32: "s", dtypes.F64: "d"}
_EXPORTED: Final = "scipy.linalg.cython_blas"


class Blas(NamedTuple):
    """Whose it is, and addresses; those about threads are 0 where it has no such function.

    `gemm` multiplies matrices, `gemv` a matrix with a vector.
    """

    owner: str
    gemm: dict[np.dtype[Any], int]
    gemv: dict[np.dtype[Any], int]
    get_threads: int
    set_threads: int


@functools.cache
def blas() -> Blas | None:
    """The BLAS of this process, found at the first call; None if NumPy and SciPy show none."""
    return numpys() or scipys()


def numpys() -> Blas | None:
    """The OpenBLAS in NumPy's wheel, through the extension module that is linked with it.

    Its names say that integers have 64 bits; the words that we pass are read right as 32, too.
    """
    try:
        library = ctypes.CDLL(str(_umath_linalg.__file__))
        gemm, gemv = (
            {d: _address(getattr(library, f"scipy_{s}{name}_64_")) for d, s in _LETTERS.items()}
            for name in ("gemm", "gemv")
        )
        return Blas("NumPy", gemm, gemv, *_threads(library, "64_"))
    except (AttributeError, OSError):
        return None


def scipys() -> Blas | None:
    """What SciPy links with, whatever that is; importing it takes 0.15 s."""
    try:
        module = importlib.import_module(_EXPORTED)
        exported = module.__pyx_capi__
        gemm, gemv = (
            {d: _pointer(exported[s + name]) for d, s in _LETTERS.items()}
            for name in ("gemm", "gemv")
        )
        return Blas("SciPy", gemm, gemv, *_threads(ctypes.CDLL(str(module.__file__)), ""))
    except (ImportError, AttributeError, KeyError, OSError):
        return None


def _threads(library: ctypes.CDLL, suffix: str) -> tuple[int, int]:
    """How an OpenBLAS is asked for its threads, and told; zeros for another library."""
    for prefix in ("scipy_openblas", "openblas"):
        names = [f"{prefix}_{verb}_num_threads{suffix}" for verb in ("get", "set")]
        if all(hasattr(library, name) for name in names):
            get, put = (_address(getattr(library, name)) for name in names)
            return get, put
    return 0, 0


def _pointer(capsule: object) -> int:
    """What a capsule holds."""
    api = ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    return int(get(capsule, name(capsule)))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
