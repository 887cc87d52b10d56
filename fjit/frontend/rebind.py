"""Running the user's own code object with names, closure and callees that a tracer can see through.

Takes: a callable, the tracer's `Hooks` and an empty `Reads`. Gives: a callable that runs the same
code objects with recording globals; helpers that it meets, wherever it meets them, are rebound in
the same way, each once. Invariant: line numbers and tracebacks are the user's, since no code
object is changed or made; every value that comes from outside is in `reads` with the path to find
it again, is one of the documented exceptions (constants of NumPy and the standard library), or is
refused by name.

    def f(x):                              runs as FunctionType(f.__code__, recording globals)
        return helper(np.zeros(3), x) * G  helper rebound, np a stand-in, G guarded

Effects outside happen as without a trace (a global or nonlocal assigned, a list appended to, an
attribute set), and make the trace serve that one call; a traced value that would escape in this
way is refused. Refused, too: coroutines, iterators and generators from outside, generators as the
traced function, and what the hooks refuse. Closure cells with anything but plain scalars are
replaced for the trace and written back at its end; cells with scalars are shared, so that
`nonlocal` acts on the user's own. Our own errors, recorded in `reads.pending_error`, are raised
when the call ends even if the function caught them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import cast

from .functions import ASYNC
from .guards import Reads
from .hooks import Hooks
from .observer import Observer
from .paths import Path, Root


def rebind(function: Callable[..., object], hooks: Hooks, reads: Reads) -> Rebound:
    """Return the function to call with traced arguments, once per trace.

    `function` is a function, a bound method, a partial, or an instance with `__call__`. Raises
    `hooks.error(text)` for a coroutine or generator function.
    """
    observer = Observer(hooks, reads)
    if not isinstance(function, FunctionType):
        return Rebound(observer, observer.observe(function, Root()))
    flags = function.__code__.co_flags
    if flags & ASYNC or flags & inspect.CO_GENERATOR:
        kind = "coroutine" if flags & ASYNC else "generator"
        observer.refuse(
            f"{function.__qualname__} is a {kind} function: calling it returns no arrays; "
            "make it a function that returns them"
        )
    observer.functions.root = function
    return Rebound(observer, observer.rebound(function, Root()))


class Rebound:
    """A rebound callable; `observe` does for an argument what is done for a global."""

    def __init__(self, observer: Observer, function: object) -> None:
        """Take the observer of the trace and the traced form of the function."""
        self.observer = observer
        self.reads = observer.reads
        self.function = cast(Callable[..., object], function)

    def observe(self, value: object, path: Path) -> object:
        """Return what the traced function sees for an argument that is no array."""
        return self.observer.observe(value, path)

    def __call__(self, *args: object, **keywords: object) -> object:
        """Run; raise what our own code refused even if the user's code caught it."""
        try:
            result = self.function(*args, **keywords)
        except BaseException as error:
            pending = self.reads.pending_error
            self.observer.failed = True
            self.observer.settle()
            if isinstance(error, Exception) and pending not in (None, error):
                raise pending from error
            raise
        self.observer.settle()
        if self.reads.pending_error is not None:
            raise self.reads.pending_error
        return self.observer.original(result)
