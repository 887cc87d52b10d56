"""Guards in the form that the native entry evaluates: one object read and compared by identity.

Takes a guard that holds now, gives checks, each of which implies its part of the guard: a check
that fails may mean that an equal object stands there, and leaves the decision to the guard itself.
Invariant: when all checks of a guard hold, the guard holds.

    global np: is the module seen before      ->    item of the module's globals, "np", numpy
    closure cell c: is 4.0                    ->    cell c, 4.0
    anything else                             ->    a call of the guard in Python, True
"""

from __future__ import annotations

import sys
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

from fjit.frontend.guards import UNKNOWN, Guard
from fjit.frontend.paths import (
    GONE,
    MISSING,
    Attr,
    Builtin,
    Cell,
    Global,
    Module,
    Path,
    builtins_of,
)

_ASSIGNABLE: Final = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: instances may be given another class."""


class Check(NamedTuple):
    """`kind` says how `holder` (and `key`) is read.

    item, cell, code, attribute, type, call or constant.
    """

    kind: str
    holder: Any
    key: Any = None
    value: Any = None


def checks_of(guard: Guard, function: object) -> tuple[Check, ...]:
    """The checks that stand for a guard which holds for `function` now."""
    if isinstance(guard.path, Builtin) and guard.value is UNKNOWN:
        return _builtins(guard.path, function)
    if guard.value is not UNKNOWN and not isinstance(guard.value, MethodType):
        reading = reading_of(guard.path, function)
        if reading is not None and _read(reading) is guard.value:
            same = (*_module_checks(guard.path, function), reading._replace(value=guard.value))
            if isinstance(guard.value, FunctionType):
                return *same, Check("code", guard.value, None, guard.value.__code__)
            if type(guard.value).__flags__ & _ASSIGNABLE or type(guard.value) is ModuleType:
                return *same, Check("type", guard.value, None, type(guard.value))
            return same
    return (Check("call", partial(guard.holds, function), None, True),)


def _module_checks(path: Path, function: object) -> tuple[Check, ...]:
    """A module's entries are its attributes as long as its class is that of modules."""
    if not isinstance(path, Attr):
        return ()
    parent = path.parent.read(function)
    return (Check("type", parent, None, ModuleType),) if type(parent) is ModuleType else ()


def reading_of(path: Path, function: object) -> Check | None:
    """How to read a path, with no value yet; None if only Python can."""
    owner = getattr(path, "owner", None) or function
    if isinstance(path, Global) and isinstance(owner, FunctionType):
        return Check("item", owner.__globals__, path.name)
    if isinstance(path, Cell) and path.index >= 0 and isinstance(owner, FunctionType):
        return Check("cell", (owner.__closure__ or ())[path.index])
    if isinstance(path, Module):
        return Check("item", sys.modules, path.name)
    if isinstance(path, Attr):
        try:
            parent = path.parent.read(function)
        except GONE:
            return None
        if type(parent) is ModuleType and path.name in vars(parent):
            return Check("item", vars(parent), path.name)
        return Check("attribute", parent, path.name)
    return None


def _builtins(path: Builtin, function: object) -> tuple[Check, ...]:
    owner: Any = path.owner or function
    found: list[Check] = []
    for name in path.name.split(", "):
        found.append(Check("item", owner.__globals__, name, MISSING))
        found.append(Check("item", builtins_of(owner), name, builtins_of(owner).get(name, MISSING)))
    return tuple(found)


def _read(check: Check) -> object:
    if check.kind == "item":
        return check.holder.get(check.key, MISSING)
    if check.kind == "cell":
        return check.holder.cell_contents
    return getattr(check.holder, check.key, MISSING)
