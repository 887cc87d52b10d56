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
from typing import Any, NamedTuple

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


class Check(NamedTuple):
    """`kind` is item, cell, code, attribute, call or constant: how `holder` (and `key`) is read."""

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
            same = reading._replace(value=guard.value)
            if isinstance(guard.value, FunctionType):
                return same, Check("code", guard.value, None, guard.value.__code__)
            return (same,)
    return (Check("call", partial(guard.holds, function), None, True),)


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
