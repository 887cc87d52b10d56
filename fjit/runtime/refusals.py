"""Why calls of one kind cannot have a record, so that they go through Python.

Takes what a trace found and the executable made of it, gives a reason or nothing. Invariant: where
no reason is found, the words of a record describe all that the Python path would do.

    np.sort(x) + 1     ->     "there is a library call between the kernels"
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from fjit.core import dtypes
from fjit.frontend import overlap
from fjit.frontend.checks import Check
from fjit.frontend.function import Result, Traced
from fjit.runtime import entry_ir, threads
from fjit.runtime.options import Native
from fjit.runtime.outputs import is_laid_out

if TYPE_CHECKING:
    from fjit.runtime.executable import Executable

MAX_SCRATCH: Final = 1 << 22
"""Bytes of temporaries that a record keeps for itself; larger ones come from the common stock."""
_SCALARS: Final = {float: dtypes.F64, int: dtypes.I64, bool: dtypes.BOOL}


class Computed(NamedTuple):
    """Branches on computed values: the kernels that compute them, and what they gave."""

    executable: Executable
    values: tuple[bool | int, ...]


class Given(NamedTuple):
    """A branch on a number of the call: its position, and what the branch made of it."""

    position: int
    value: bool | int


Captured = Sequence[tuple[Check | None, Any]]


def refusal(
    traced: Traced,
    executable: Executable,
    arguments: Sequence[Any],
    captures: Captured,
    computed: Computed | None,
    given: Sequence[Given],
) -> str:
    """Why a call of this kind cannot have a record, or nothing."""
    return (
        _of_arguments(arguments, captures)
        or of_kernels(executable, arguments)
        or _of_results(traced, executable, arguments)
        or _of_writes(traced, arguments, captures)
        or _of_branches(computed, given, arguments)
    )


def _of_arguments(arguments: Sequence[Any], captures: Captured) -> str:
    if any(type(a) not in (np.ndarray, *_SCALARS) for a in arguments):
        return "an argument is neither an array nor a Python number"
    if len(arguments) + len(captures) > entry_ir.MAX_LEAVES:
        return f"there are more than {entry_ir.MAX_LEAVES} arguments and captured arrays"
    if any(c is None or type(a) is not np.ndarray for c, a in captures):
        return "a captured value is read in Python"
    return ""


def of_kernels(executable: Executable, arguments: Sequence[Any]) -> str:
    """Why the native entry cannot run these kernels, or nothing."""
    if len(executable.steps) > 1 or not all(isinstance(s, Native) for s in executable.steps):
        return "there is a library call between the kernels"
    if not executable.plain:
        return "an output is a constant"
    if len(executable.results) > entry_ir.MAX_RESULTS:
        return f"there are more than {entry_ir.MAX_RESULTS} results"
    if len(executable.symbols) > entry_ir.MAX_SYMBOLS:
        return f"masks select along more than {entry_ir.MAX_SYMBOLS} axes"
    if any(d != _SCALARS.get(type(arguments[k]) if k < len(arguments) else type(None))
           for _, k, d in executable.scalars):  # fmt: skip
        return "a number has another dtype than its Python type"
    team = threads.native_limits()[0] if executable.wide else 1
    if executable.private_from + executable.per_worker * min(team, 1024) > MAX_SCRATCH:
        return "the temporaries are large"
    return ""


def _of_results(traced: Traced, executable: Executable, arguments: Sequence[Any]) -> str:
    results = traced.results
    if len(results) > entry_ir.MAX_RESULTS:
        return f"there are more than {entry_ir.MAX_RESULTS} results"
    if not all(is_made(r) or _is_given(r, len(arguments)) for r in results):
        return "a result is a view of an argument, a captured array or a constant"
    made = [r for r in results if r.output is not None]
    if not all(is_laid_out(r, executable.layouts[r.output]) for r in made):  # type: ignore[index]
        return "a result is copied into another memory order"
    return ""


def is_made(result: Result) -> bool:
    """Whether a result is an output as the kernels leave it, or its only element."""
    return result.output is not None and result.weak is None and not result.swapped


def _is_given(result: Result, arguments: int) -> bool:
    """Whether a result is an argument itself."""
    return result.argument is not None and result.argument < arguments and not result.steps


def _of_writes(traced: Traced, arguments: Sequence[Any], captures: Captured) -> str:
    if not traced.writes:
        return ""
    arrays = [*arguments, *(array for _, array in captures)]
    if overlap.groups(arrays):
        return "the function writes into an array, and arrays share memory"
    if traced.aliases:
        return "an array is an argument and captured from outside, and may be written"
    if not all(arrays[position].flags.writeable for position, *_ in traced.writes):
        return "the function writes into a read-only array"
    return ""


def _of_branches(
    computed: Computed | None, given: Sequence[Given], arguments: Sequence[Any]
) -> str:
    if any(type(value) is int and type(arguments[k]) is not int for k, value in given):
        return "the function makes an int of a number of another type"
    if computed is None:
        return ""
    executable, values = computed
    for value, how in zip(values, executable.layouts, strict=False):
        if how.dtype != (dtypes.BOOL if type(value) is bool else dtypes.I64):
            return "the function branches on a value that is converted first"
    if len(executable.layouts) != len(values):
        return "the function branches on a constant"
    return of_kernels(executable, arguments)
