"""What the tracer tells `rebind`: how to recognise, lift, replace and refuse values.

Takes: the tracer's functions and tables. Gives: `Hooks`, a frozen record of them, and `Observes`,
what the parts of rebinding (globals, containers, classes, functions) ask of one another. Invariant:
nothing in rebinding knows what a tracer is beyond these hooks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Final, NoReturn, Protocol

import numpy as np

from .guards import Reads
from .paths import MISSING, Path

_NOT_FOLLOWED: Final = frozenset(sys.stdlib_module_names) | {"numpy", "fjit"}


def follow_by_default(module: str) -> bool:
    """Tell whether the functions of a module are traced through.

    Not the standard library, not NumPy, not fjit. Helpers of other packages are plain Python and
    NumPy such as users write, so they are.
    """
    return module.partition(".")[0] not in _NOT_FOLLOWED


@dataclass(frozen=True)
class Hooks:
    """How `rebind` treats what it meets; all tables are keyed by identity, never by name.

    - `is_traced(value)`: is this a traced array?
    - `lift_array(array, path)`: make a captured array an input of the program; called once for each
      array object. `lift_scalar(value, path)` likewise for a number, or NotImplemented to guard its
      value.
    - `locate(value, what)`: the geometry of an array in other memory than the host's, an ndarray;
      anything else as it is.
    - `error(text)`: make the exception for a refusal.
    - `replacements`: `id(original)` to stand-in, for functions and classes such as `np.zeros`. The
      originals must stay alive as long as the table.
    - `module_standins`: module to its replaced names; other names come from the module itself.
    - `builtins`: builtins to replace, by name; see `standins.make_builtins`.
    - `refuse`: `id(callable, class or module)` to the text of the error: a callable raises when it
      is called, a module when an attribute of it is read, a class when an instance of it is read.
    - `adapters`: type to `(value, path, observer) -> stand-in`, for callables that can be traced,
      such as fused functions; NotImplemented leaves the value to the other rules. To trace through
      a wrapper, return `observer.observe(wrapper.function, Attr(path, "function"), wrapper)`.
    - `follow(module_name)`: are the functions and classes of this module traced through?
    - `shadowed(real, shadow)`: called for each class that is shadowed, to register it as a tree.
    - `max_leaves`: how many elements the captured containers of one trace may have.
    """

    is_traced: Callable[[object], bool]
    lift_array: Callable[[np.ndarray, Path], object]
    error: Callable[[str], Exception]
    locate: Callable[[object, str], object] = lambda value, what: value
    lift_scalar: Callable[[object, Path], object] | None = None
    replacements: Mapping[int, object] = field(default_factory=dict)
    module_standins: Mapping[ModuleType, Mapping[str, object]] = field(default_factory=dict)
    builtins: Mapping[str, object] = field(default_factory=dict)
    refuse: Mapping[int, str] = field(default_factory=dict)
    adapters: Mapping[type, Callable[[object, Path, Observes], object]] = field(
        default_factory=dict
    )
    follow: Callable[[str], bool] = follow_by_default
    shadowed: Callable[[type, type], None] | None = None
    max_leaves: int = 10_000


class Observes(Protocol):
    """The part of the observer that globals, containers and classes use."""

    hooks: Hooks
    reads: Reads
    failed: bool

    def observe(self, value: object, path: Path, held: object = MISSING) -> object:
        """Record that a value was read and return what the function gets to see."""

    def lift(self, value: object, path: Path, held: object = MISSING) -> object:
        """Make a scalar an input, or return NotImplemented."""

    def observe_key(self, key: object, path: Path) -> object:
        """Return what stands for a member of a set or a key of a dict."""

    def rebound(self, function: object, path: Path) -> object:
        """Return the traced form of a function without recording a read."""

    def unguarded(self, value: object, path: Path) -> object:
        """Return what stands for a constant of a library."""

    def export(self, given: object, value: object) -> None:
        """Remember the original of what was handed out."""

    def original(self, value: object) -> object:
        """Return the user's object for what was handed out."""

    def outside(self, value: object) -> object:
        """Return what is stored outside for what the function stored."""

    def holds_traced(self, value: object) -> bool:
        """Tell whether a value is or contains a traced value made during the trace."""

    def count_leaf(self, path: Path) -> None:
        """Count an element of a captured container, and refuse too many."""

    def leak(self, path: Path) -> None:
        """Record the error for a traced value that the function stored outside."""

    def refuse(self, text: str) -> NoReturn:
        """Raise one of our own errors, recorded."""
