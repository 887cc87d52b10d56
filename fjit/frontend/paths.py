"""Access paths: where outside the function a value was found.

Takes: nothing; `rebind` builds paths as it hands out values. Gives: small immutable objects that
can be read again, against the function and the arguments of a later call, and printed for reports.
Invariant: a path never holds the value it leads to. `owner` is None for the variables of the
traced function itself, so that its path can be read against another closure of the same code; a
helper's variables name the helper, whose identity has a guard of its own.

    global G                    Global("G")
    closure cell table[0]       Item(Cell("table"), 0)
    self.k                      Attr(Attr(Root(), "__self__"), "k")
    global cfg.params['w']      Item(Attr(Global("cfg"), "params"), "w")
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final, cast


class Missing:
    """The value of a name that is not there."""

    def __repr__(self) -> str:
        """Read well in reports."""
        return "<missing>"


MISSING: Final = Missing()

# What reading a path raises when an object on the way has changed its type or contents.
GONE: Final = (AttributeError, LookupError, TypeError, ValueError)

# A callable as the user passed it; `object` because functions, methods and partials all occur.
Source = Callable[[object, Sequence[object]], object]


class Path:
    """Where a value was found: an immutable access path that can be read again and printed."""

    __slots__ = ()

    def read(self, function: object, arguments: Sequence[object] = ()) -> object:
        """Read the value of today, starting at the function or at the arguments of its call."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Global(Path):
    """A global variable of the traced function, or of `owner`, a helper that it calls."""

    name: str
    owner: object = None

    def read(self, function: object, arguments: Sequence[object] = ()) -> object:
        """Read the name in the module of the function; `MISSING` if it is not there."""
        return _owner(self.owner, function).__globals__.get(self.name, MISSING)

    def __str__(self) -> str:
        """Name it, with its module when it is not the function's own."""
        return f"global {_module_prefix(self.owner)}{self.name}"


@dataclass(frozen=True, slots=True)
class Builtin(Path):
    """A name found in the builtins."""

    name: str
    owner: object = None

    def read(self, function: object, arguments: Sequence[object] = ()) -> object:
        """Read the builtin, or the global variable that hides it by now."""
        owner = _owner(self.owner, function)
        found = owner.__globals__.get(self.name, MISSING)
        return builtins_of(owner).get(self.name, MISSING) if found is MISSING else found

    def __str__(self) -> str:
        """Name it."""
        return f"builtin {self.name}"


@dataclass(frozen=True, slots=True)
class Cell(Path):
    """A variable of an enclosing function; `index` is its place in the closure, if known."""

    name: str
    owner: object = None
    index: int = -1

    def read(self, function: object, arguments: Sequence[object] = ()) -> object:
        """Read the cell; `MISSING` if it is still empty."""
        owner, index = _owner(self.owner, function), self.index
        try:
            if index < 0:
                index = owner.__code__.co_freevars.index(self.name)
            return (owner.__closure__ or ())[index].cell_contents
        except ValueError:
            return MISSING

    def __str__(self) -> str:
        """Name it."""
        return f"closure cell {self.name}"


@dataclass(frozen=True, slots=True)
class Default(Path):
    """The default of a positional parameter; `index` counts the parameters that have one."""

    index: int
    owner: object = None

    def read(self, function: object, arguments: Sequence[object] = ()) -> object:
        """Read the default."""
        return (_owner(self.owner, function).__defaults__ or ())[self.index]

    def __str__(self) -> str:
        """Name the parameter where the function is known."""
        if self.owner is None:
            return f"default {self.index}"
        owner = cast(FunctionType, self.owner)
        code, defaults = owner.__code__, owner.__defaults__ or ()
        first = code.co_argcount - len(defaults)
        return f"default of {code.co_varnames[first + self.index]}"


@dataclass(frozen=True, slots=True)
class KwDefault(Path):
    """The default of the keyword-only parameter `name`."""

    name: str
    owner: object = None

    def read(self, function: object, arguments: Sequence[object] = ()) -> object:
        """Read the default."""
        return (_owner(self.owner, function).__kwdefaults__ or {})[self.name]

    def __str__(self) -> str:
        """Name the parameter."""
        return f"default of {self.name}"


@dataclass(frozen=True, slots=True)
class Root(Path):
    """The traced callable itself: a function, a bound method, a partial or a callable instance."""

    def read(self, function: object, arguments: Sequence[object] = ()) -> object:
        """Return the function."""
        return function

    def __str__(self) -> str:
        """Stand for it."""
        return "function"


@dataclass(frozen=True, slots=True)
class Argument(Path):
    """An argument of the call that is no array: an instance or function whose parts are read."""

    index: int
    name: str

    def read(self, function: object, arguments: Sequence[object] = ()) -> object:
        """Read the argument."""
        return arguments[self.index]

    def __str__(self) -> str:
        """Name it; `self` alone reads best for methods."""
        return self.name if self.name == "self" else f"argument {self.name}"


@dataclass(frozen=True, slots=True)
class Module(Path):
    """A module that the function imports by itself."""

    name: str

    def read(self, function: object, arguments: Sequence[object] = ()) -> object:
        """Look the module up."""
        return sys.modules.get(self.name, MISSING)

    def __str__(self) -> str:
        """Name it."""
        return f"module {self.name}"


@dataclass(frozen=True, slots=True)
class Attr(Path):
    """An attribute of an object that was read."""

    parent: Path
    name: str

    def read(self, function: object, arguments: Sequence[object] = ()) -> object:
        """Read the attribute; `MISSING` if it is not there."""
        return getattr(self.parent.read(function, arguments), self.name, MISSING)

    def __str__(self) -> str:
        """Write as Python does."""
        if isinstance(self.parent, Root) and self.name == "__self__":
            return "self"
        return f"{self.parent}.{self.name}"


@dataclass(frozen=True, slots=True)
class Item(Path):
    """An element of a list, tuple or dict that was read."""

    parent: Path
    key: object

    def read(self, function: object, arguments: Sequence[object] = ()) -> object:
        """Read the element; `MISSING` if it is not there."""
        container = cast(dict[object, object], self.parent.read(function, arguments))
        try:
            return container[self.key]
        except GONE:
            return MISSING

    def __str__(self) -> str:
        """Write as Python does."""
        return f"{self.parent}[{self.key!r}]"


def _owner(owner: object, function: object) -> FunctionType:
    """Return the helper whose variable is meant, or else the traced function."""
    return cast(FunctionType, function if owner is None else owner)


def builtins_of(owner: FunctionType) -> dict[str, object]:
    """Return the builtins that a function sees (the type stubs don't know the attribute)."""
    return cast(dict[str, object], cast(Any, owner).__builtins__)


def _module_prefix(owner: object) -> str:
    """Return `module.` for a helper of another module than the main one."""
    if owner is None:
        return ""
    return f"{cast(FunctionType, owner).__globals__.get('__name__', '?')}."


def source(path: Path, held: object = MISSING) -> Source:
    """Return the fastest reader of a path; `held` is the parent when its identity is guarded."""
    name = getattr(path, "name", "")
    if isinstance(path, Global):
        if path.owner is None:
            return lambda f, _: cast(FunctionType, f).__globals__.get(name, MISSING)
        get = cast(FunctionType, path.owner).__globals__.get
        return lambda f, _: get(name, MISSING)
    if isinstance(path, Cell) and path.index >= 0:
        return _cell_source(path)
    if held is MISSING:
        return path.read
    if isinstance(path, Attr):
        return lambda f, _: getattr(held, name, MISSING)
    if isinstance(path, Item):
        container, key = cast(dict[object, object], held), path.key
        if type(held) is dict:
            return lambda f, _: container.get(key, MISSING)
        return lambda f, _: container[key]
    return path.read


def _cell_source(path: Cell) -> Source:
    """Return the reader of a cell; an empty cell raises ValueError."""
    index = path.index
    if path.owner is None:
        return lambda f, _: cast(Any, f).__closure__[index].cell_contents  # f has this closure
    cell = (cast(FunctionType, path.owner).__closure__ or ())[index]
    return lambda f, _: cell.cell_contents
