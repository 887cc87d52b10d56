"""Rebinding of functions: the user's code object with other globals, defaults and closure cells.

Takes: a Python function and the path to it. Gives: a function with the same code object that sees
the world through the observer; the same one each time within a trace. Invariant: no code object is
made or changed, so line numbers and tracebacks are the user's.

    def outer(table):                   cell `table` holds an array: a new cell, the lifted input
        k = 3                           cell `k` holds a scalar: the user's own cell
        def f(x): return x * table + k  FunctionType(f.__code__, recording globals, ..., cells)

A function of a module that is not followed keeps its globals; if functions hang in its closure
(`contextlib.contextmanager`, other decorators of the standard library), those are rebound.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from operator import is_
from types import CellType, FunctionType
from typing import Any, Final, cast

from .guards import is_scalar
from .hooks import Observes
from .paths import MISSING, Attr, Cell, Default, KwDefault, Path
from .shadows import real_class
from .spaces import RecordingGlobals
from .standins import Refused

ASYNC: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


@dataclass(frozen=True, slots=True)
class _WatchedCell:
    """A closure cell of the user, the one that stands in for it, and what the latter held first."""

    path: Path
    real: CellType
    given: CellType
    contents: object


class Functions:
    """The rebound functions, their globals and their closure cells of one trace."""

    def __init__(self, observer: Observes, table: dict[str, object]) -> None:
        """Take the observer and the builtins that the functions see."""
        self.observer = observer
        self.table = table
        self.root: FunctionType | None = None
        self.spaces: dict[int, RecordingGlobals] = {}
        self.cells: dict[int, _WatchedCell] = {}
        self.new_cells: dict[int, tuple[CellType, CellType]] = {}
        self.rebound: dict[int, tuple[FunctionType, object]] = {}

    def rebind(self, function: FunctionType, path: Path) -> object:
        """Return the traced form of a function."""
        found = self.rebound.get(id(function))
        if found is not None:
            return found[1]
        if isinstance(function.__globals__, RecordingGlobals):
            return function
        if function.__code__.co_flags & ASYNC:
            text = f"{function.__qualname__} is a coroutine function; a trace cannot wait for it"
            return Refused(function, lambda: self.observer.refuse(text))
        if self._follows(function):
            return self._rebind(function, path)
        if function.__globals__ is vars(functools) and hasattr(function, "dispatch"):
            return self._rebind_dispatcher(function, path)
        return self._rebind_wrapper(function)

    def _follows(self, function: FunctionType) -> bool:
        """Tell whether a function is traced through; those beside the traced one always are."""
        if self.root is not None and function.__globals__ is self.root.__globals__:
            return True
        return self.observer.hooks.follow(str(function.__globals__.get("__name__", "")))

    def _rebind(self, function: FunctionType, path: Path) -> FunctionType:
        """Rebind a function of a followed module; itself first, so that recursion finds it."""
        space = self._space(function)
        space.prepare(function.__code__)
        owner = None if function is self.root else function
        cells = [self._cell(cell) for cell in function.__closure__ or ()]
        rebound = self._copy(function, space, tuple(cells))
        observe = self.observer.observe
        rebound.__defaults__ = function.__defaults__ and tuple(
            observe(value, Default(i, owner)) for i, value in enumerate(function.__defaults__)
        )
        rebound.__kwdefaults__ = function.__kwdefaults__ and {
            name: observe(value, KwDefault(name, owner))
            for name, value in function.__kwdefaults__.items()
        }
        self._fill(function, owner)
        if function.__dict__:
            attributes = observe(function.__dict__, Attr(path, "__dict__"), function)
            rebound.__dict__ = attributes  # type: ignore[assignment]  # a dict, as it was
        return rebound

    def _rebind_wrapper(self, function: FunctionType) -> FunctionType:
        """Rebind what hangs in the closure of a function of another library."""
        cells = [
            self._cell(cell) if isinstance(_contents(cell), FunctionType) else cell
            for cell in function.__closure__ or ()
        ]
        if all(map(is_, cells, function.__closure__ or ())):
            return function
        rebound = self._copy(function, function.__globals__, tuple(cells))
        rebound.__defaults__, rebound.__kwdefaults__ = (
            function.__defaults__,
            function.__kwdefaults__,
        )
        self._fill(function, function)
        return rebound

    def _rebind_dispatcher(self, function: FunctionType, path: Path) -> object:
        """Stand for a `singledispatch` function, whose cache must not get to know rebound ones."""
        single: Any = function  # with `dispatch` and `registry`
        see: Any = self.table["type"]  # the class as the traced code sees it

        def dispatcher(*args: object, **keywords: object) -> object:
            chosen = single.dispatch(real_class(see(args[0])))
            at = Attr(path, f"dispatch({type(args[0]).__name__})")
            return cast(Any, self.observer.rebound(chosen, at))(*args, **keywords)

        functools.update_wrapper(dispatcher, function, updated=())
        self.rebound[id(function)] = function, dispatcher
        return dispatcher

    def _copy(
        self, function: FunctionType, space: dict[str, object], cells: tuple[CellType, ...]
    ) -> FunctionType:
        """Make the function object and remember it."""
        code = function.__code__
        rebound = FunctionType(code, space, function.__name__, None, cells or None)
        rebound.__qualname__, rebound.__module__ = function.__qualname__, function.__module__
        rebound.__doc__, rebound.__annotations__ = function.__doc__, function.__annotations__
        self.rebound[id(function)] = function, rebound
        self.observer.export(rebound, function)
        return rebound

    def _space(self, function: FunctionType) -> RecordingGlobals:
        """Return the recording globals for the module of a function."""
        real = function.__globals__
        space = self.spaces.get(id(real))
        if space is None:
            is_root = self.root is not None and self.root.__globals__ is real
            space = RecordingGlobals(function, is_root, self.observer, self.table)
            self.spaces[id(real)] = space
        return space

    # Cells

    def _cell(self, cell: CellType) -> CellType:
        """Return the cell to run with: the user's own if it is empty or holds a plain scalar."""
        known = self.new_cells.get(id(cell))
        if known is not None:
            return known[1]
        value = _contents(cell)
        lifts = self.observer.hooks.lift_scalar is not None
        shared = value is MISSING or (is_scalar(value) and not lifts)
        given = cell if shared else CellType()
        self.new_cells[id(cell)] = cell, given
        return given

    def _fill(self, function: FunctionType, owner: FunctionType | None) -> None:
        """Observe what the cells hold, after the function itself can be found by recursion."""
        names = function.__code__.co_freevars
        for index, (name, cell) in enumerate(zip(names, function.__closure__ or (), strict=True)):
            if id(cell) not in self.new_cells:
                continue
            given = self.new_cells[id(cell)][1]
            if id(cell) in self.cells:
                continue
            value = _contents(cell)
            if name == "__class__" and value is not MISSING:
                given.cell_contents = value  # `super()` starts behind the real class
                continue
            path = Cell(name, owner, index)
            self.cells[id(cell)] = _WatchedCell(path, cell, given, value)
            contents = self.observer.observe(value, path)
            self.cells[id(cell)] = _WatchedCell(path, cell, given, contents)
            if given is not cell:
                given.cell_contents = contents

    def settle(self) -> None:
        """Do to the user's globals and cells what the traced code did to those it saw."""
        for space in self.spaces.values():
            space.settle()
        for watched in self.cells.values():
            now = _contents(watched.given)
            if now is not watched.contents:
                self._settle_cell(watched, now)

    def _settle_cell(self, watched: _WatchedCell, now: object) -> None:
        """Keep an assignment to a nonlocal, or refuse one of a traced value."""
        if self.observer.holds_traced(now):
            if watched.given is watched.real:
                _set_contents(watched.real, watched.contents)
            self.observer.leak(watched.path)
            return
        _set_contents(watched.real, self.observer.outside(now))
        self.observer.reads.add_effect(watched.path, "is assigned by the function")


def _contents(cell: CellType) -> object:
    """Return what a cell holds; `MISSING` if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _set_contents(cell: CellType, value: object) -> None:
    """Fill a cell, or empty it."""
    if value is MISSING:
        del cell.cell_contents
    else:
        cell.cell_contents = value
