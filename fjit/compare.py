"""`fjit.explain`: the report of a call, or several plans of it side by side.

Takes a function, arguments and the plans to compare (keywords of `fuse`), gives a `Report` or a
`Comparison`. Invariant: nothing runs but, with `measure=True`, the kernels by themselves.

    fjit.explain(f, x, compare=["auto", "none"])["none"].kernels
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from fjit.api import FUSIONS, TARGETS, Fused, fuse
from fjit.errors import FjitTypeError, FjitValueError
from fjit.report.report import Comparison, Report


def explain(
    function: Callable[..., Any],
    *args: Any,
    compare: Iterable[str | dict[str, Any]] = (),
    compile: bool = True,
    measure: bool = False,
    **keywords: Any,
) -> Report | Comparison:
    """The report of a call, or the reports of several plans of it side by side.

    Args:
        function: As for `fuse`, or a fused function.
        *args: The call's arguments; they are never changed.
        compare: Plans: a value of `fusion` ("auto", "max", "none"), a value of `target`, or a dict
            of keywords of `fuse`. Empty for the one report of the function as it is.
        compile: Whether to compile and report actual registers and spills.
        measure: Whether to time each kernel by itself.
        **keywords: The call's keyword arguments.

    Returns:
        A `Report`, or with `compare` a `Comparison`: `comparison[label]` is one plan's report.

    Raises:
        FjitTypeError: If `function` is no function.
        FjitValueError: For a plan that is no option of `fuse`.

    >>> import numpy as np, fjit
    >>> plans = fjit.explain(lambda x: (x * 2).sum(), np.ones(9), compare=["auto", "none"])
    >>> [len(report.kernels) for report in plans.reports.values()]
    [1, 2]
    """
    if not callable(function):
        raise FjitTypeError(f"explain takes a function, not {type(function).__name__}")
    reports: dict[str, Report] = {}
    for wanted in (compare,) if isinstance(compare, str) else tuple(compare):
        label, options = _plan(wanted)
        fused = _fused(function, options)
        reports[label] = fused.explain(*args, compile=compile, measure=measure, **keywords)
    if reports:
        return Comparison(reports)
    return _fused(function, {}).explain(*args, compile=compile, measure=measure, **keywords)


def _plan(wanted: str | dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A plan's label and the keywords of `fuse` that it stands for."""
    if isinstance(wanted, dict):
        words = (f"{k}={getattr(v, '__name__', v)}" for k, v in wanted.items())
        return ", ".join(words) or "as it is", wanted
    if wanted in FUSIONS:
        return wanted, {"fusion": wanted}
    if wanted in TARGETS:
        return wanted, {"target": wanted}
    good = ", ".join(dict.fromkeys((*FUSIONS, *TARGETS)))
    raise FjitValueError(
        f"compare={wanted!r} is not known; good values: {good}, or a dict of keywords of fuse"
    )


def _fused(function: Callable[..., Any], options: dict[str, Any]) -> Fused:
    """`function` fused with its own options, but for those given."""
    known = [name for name in inspect.signature(fuse).parameters if name != "function"]
    for name in options:
        if name not in known:
            raise FjitValueError(f"{name!r} is no keyword of fuse; those are {', '.join(known)}")
    if not isinstance(function, Fused):
        fused = fuse(function, **options)
    elif options:
        own = {name: getattr(function.choices, name) for name in known}
        fused = fuse(function.function, **(own | options))
    else:
        fused = function
    assert isinstance(fused, Fused)
    return fused
