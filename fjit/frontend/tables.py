"""The tables of what NumPy's functions do to traced values, and how a file of numpy/ fills them.

Takes traced versions of NumPy's functions, gives them to the tracer's protocols. Invariant: a key
is registered once; the tables are complete when all files of `frontend/numpy` are imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
Function = Callable[..., Any]  # user-facing functions take and return anything NumPy does
UFUNCS: Final[dict[str, Function]] = {}
"""Ufunc name -> function(*operands, out=None, where=True, dtype=None, casting='same_kind', ...)."""
OPERATORS: Final[dict[str, Function]] = {}
"""Ufunc name -> what the operator means where it is not the ufunc: between Python numbers, `**`."""
UFUNC_METHODS: Final[dict[str, Function]] = {}
"""Method name (reduce, accumulate, outer, reduceat, at) -> function(ufunc, *operands, **keywords)."""  # noqa: E501
FUNCTIONS: Final[dict[Any, Function]] = {}
"""NumPy function object -> function with the same signature for traced operands."""
GETITEM: Final[list[Function]] = []
SETITEM: Final[list[Function]] = []
"""Indexing, registered by frontend/numpy/indexing.py and assigning.py."""


def implements(*numpy_functions: Any) -> Callable[[F], F]:
    """Register the decorated function as the traced meaning of NumPy functions."""

    def register(function: F) -> F:
        for numpy_function in numpy_functions:
            assert numpy_function not in FUNCTIONS, numpy_function
            FUNCTIONS[numpy_function] = function
        return function

    return register
