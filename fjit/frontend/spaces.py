"""The names that traced code sees: recording globals, the builtins table, modules and imports.

Takes: the real globals of a function, or a module. Gives: a dict subclass to run code objects in,
and module objects, whose reads go through the observer. Invariant: what traced code stores in a
global or sets on a module happens to the real one, at once for a module, at the next read or the
end of the trace for a global; a traced value is refused there by name.

    def f(x): return np.exp(x) * G      LOAD_GLOBAL np -> stand-in of numpy, guard "global np"
                                        LOAD_GLOBAL G  -> 3, guard "global G is 3"

`LOAD_GLOBAL` asks `__getitem__` of a dict subclass, in CPython 3.11 to 3.13, also after it was
specialised for the real globals. Class bodies, `eval` and `exec` look in the dict itself, so the
names that they load are resolved before they run; STORE_GLOBAL and DELETE_GLOBAL write to the dict
itself, so the names that they name are compared. Attributes of modules that are not followed
(NumPy, the standard library) have no guards: they are taken as constant.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator, Mapping
from dis import get_instructions
from functools import lru_cache
from opcode import opmap
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, cast

from .guards import identity_guard
from .hooks import Observes
from .paths import MISSING, Attr, Global, Module, Path

_STORES: Final = ("STORE_GLOBAL", "DELETE_GLOBAL")
_LOADS_BY_NAME: Final = ("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_OPCODES: Final = [opmap[name] for name in (*_STORES, *_LOADS_BY_NAME) if name in opmap]
_BUILTIN_NAMES: Final = {id(value): name for name, value in vars(builtins).items()}
_FUTURE_FLAGS: Final = 0x1FF0000


def _listing(name: str) -> Any:
    """A method of `dict` that sees all names at once: refused to traced code, not to debuggers."""
    plain = getattr(dict, name)

    def method(self: RecordingGlobals, *args: object) -> object:
        caller = sys._getframe(1)
        callers = caller, caller.f_back  # the second for a stand-in, such as that of len
        if any(c is not None and isinstance(c.f_globals, RecordingGlobals) for c in callers):
            self.observer.refuse(
                "a list of the names in globals() is not guarded, so a trace would freeze it; read "
                "the names one by one, globals()[name], or pass the values as an argument"
            )
        return plain(self, *args)

    return method


class RecordingGlobals(dict[str, object]):
    """The globals of a traced function: a copy of the real ones whose reads are observed."""

    def __init__(
        self, owner: FunctionType, is_root: bool, observer: Observes, table: dict[str, object]
    ) -> None:
        """Copy the globals of `owner`; `table` is what its builtins become."""
        super().__init__(owner.__globals__)
        self.real: dict[str, object] = owner.__globals__
        self.owner = owner
        self.is_root = is_root
        self.observer = observer
        self.table = table
        self.seen: dict[str, tuple[object, object]] = {}
        self.stored: dict[str, object] = {}
        dict.__setitem__(self, "__builtins__", table)

    def path(self, name: str) -> Path:
        """Return the path of a name in here."""
        return Global(name, None if self.is_root else self.owner)

    def __getitem__(self, name: str) -> object:
        """Read a global as the traced code sees it, or else a builtin."""
        if name in self.stored:
            self.flush(name)
        value = self.real.get(name, MISSING)
        if value is MISSING:
            return self._builtin(name)
        seen = self.seen.get(name)
        if seen is not None and seen[0] is value:
            return seen[1]
        if name == "__builtins__":
            return self.table
        given = self.observer.observe(value, self.path(name))
        self._keep(name, value, given)
        return given

    def _keep(self, name: str, value: object, given: object) -> None:
        """Remember what a name gave, also for code that looks in the dict itself."""
        self.seen[name] = (value, given)
        dict.__setitem__(self, name, given)
        if name in self.stored:
            self.stored[name] = given

    def _builtin(self, name: str) -> object:
        """Read a builtin; note a name that is nowhere, since the code may catch the NameError."""
        reads = self.observer.reads
        if name not in self.table:
            reads.add(identity_guard(self.path(name), MISSING, what="is not defined"))
            raise KeyError(name)
        reads.add_builtin(name, vars(builtins).get(name, MISSING), self.owner)
        return self.table[name]

    def prepare(self, code: CodeType) -> None:
        """Resolve and watch the names that a code object handles without asking `__getitem__`."""
        stores, loads = names_by_dict(code)
        for name in stores:
            self.stored.setdefault(name, dict.get(self, name, MISSING))
        for name in loads:
            if name in self.real and name != "__builtins__":
                self[name]

    def flush(self, name: str) -> None:
        """Do to the real global what the traced code did to the one in here."""
        now, before = dict.get(self, name, MISSING), self.stored[name]
        if now is before:
            return
        if now is MISSING:
            self.real.pop(name, None)
            self.observer.reads.add_effect(self.path(name), "is deleted by the function")
        elif self.observer.holds_traced(now):
            self.observer.leak(self.path(name))
        else:
            value = self.observer.outside(now)
            self.real[name] = value
            self.seen[name] = (value, now)
            self.observer.reads.add_effect(self.path(name), "is assigned by the function")
        self.stored[name] = now

    def settle(self) -> None:
        """Write back all stores."""
        for name in tuple(self.stored):
            self.flush(name)

    # What `globals()` gives to the user.

    def __setitem__(self, name: str, value: object) -> None:
        """Assign a global through `globals()[name]`."""
        self.stored.setdefault(name, dict.get(self, name, MISSING))
        dict.__setitem__(self, name, value)
        self.flush(name)

    def __delitem__(self, name: str) -> None:
        """Delete a global through `globals()`."""
        self.stored.setdefault(name, dict.get(self, name, MISSING))
        dict.__delitem__(self, name)
        self.flush(name)

    def get(self, name: str, default: Any = None) -> Any:  # as dict.get is typed
        """Read a global through `globals().get`."""
        if name not in self:
            return default
        return self[name]

    def __contains__(self, name: object) -> bool:
        """Look in the real globals; the answer is guarded."""
        found = name in self.real
        if found:
            self[cast(str, name)]
        elif isinstance(name, str):
            self.observer.reads.add(identity_guard(self.path(name), MISSING, what="is not there"))
        return found

    def __bool__(self) -> bool:
        """Be true, as the globals of a function are."""
        return True

    __iter__, __len__, copy = (_listing(name) for name in ("__iter__", "__len__", "copy"))
    keys, values, items = (_listing(name) for name in ("keys", "values", "items"))


@lru_cache(maxsize=1024)
def names_by_dict(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the globals that a code object stores or deletes, and the names it loads by dict."""
    stores: dict[str, None] = {}
    loads: dict[str, None] = {}
    for part in _codes(code):
        opcodes = part.co_code[::2]
        if any(opcode in opcodes for opcode in _OPCODES):
            for instruction in get_instructions(part):
                if instruction.opname in _STORES:
                    stores[instruction.argval] = None
                elif instruction.opname in _LOADS_BY_NAME:
                    loads[instruction.argval] = None
    return tuple(stores), tuple(loads)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Iterate over a code object and those nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


# --------------------------------------------------------------------------------------------------
# Builtins that know of names
# --------------------------------------------------------------------------------------------------


def builtins_table(observer: Observes, replaced: Mapping[str, object]) -> dict[str, object]:
    """Return the builtins of traced code: the real ones, the tracer's, and those that see names."""
    table = dict(vars(builtins))
    hooks = observer.hooks
    known = _BUILTIN_NAMES.keys()
    for key in (known & hooks.refuse.keys()) | (known & hooks.replacements.keys()):
        name = _BUILTIN_NAMES[key]
        table[name] = observer.unguarded(table[name], Attr(Module("builtins"), name))
    table.update(replaced)
    table["__import__"] = importer(observer)
    table["eval"] = _runner(eval)
    table["exec"] = _runner(exec)
    return table


def importer(observer: Observes) -> Callable[..., object]:
    """Return an `__import__` whose modules are observed."""

    def import_(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Any = (),  # as the import statement passes it
        level: int = 0,
    ) -> object:
        space = globals.real if isinstance(globals, RecordingGlobals) else globals
        module = builtins.__import__(name, space, locals, fromlist, level)
        return observer.observe(module, Module(module.__name__))

    return import_


def _copied(names: Any) -> dict[str, object]:
    """The local names of a frame, which at the level of a module are recording globals."""
    return dict.copy(names) if isinstance(names, dict) else dict(names)


def _runner(run: Callable[..., object]) -> Callable[..., object]:
    """Return an `eval` or `exec` that prepares the names of the code in recording globals."""
    mode = run.__name__

    def runner(
        source: Any, globals: Any = None, locals: Any = None, /, **keywords: Any
    ) -> object:  # text, bytes or code; dicts or mappings; exec's `closure`
        frame = sys._getframe(1)
        space = frame.f_globals if globals is None else globals
        scope = locals
        if scope is None:
            scope = _copied(frame.f_locals) if globals is None else space
        if isinstance(space, RecordingGlobals):
            if not isinstance(source, CodeType):
                text = source.lstrip(b" \t" if isinstance(source, bytes) else " \t")
                flags = frame.f_code.co_flags & _FUTURE_FLAGS
                source = compile(text, "<string>", mode, flags, True)
            space.prepare(source)
        return run(source, space, scope, **keywords)

    return runner


# --------------------------------------------------------------------------------------------------
# Modules
# --------------------------------------------------------------------------------------------------


class ModuleStandin(ModuleType):
    """Stands for a module: attributes are replaced, observed or passed on when they are read."""

    def __init__(self, real: ModuleType, path: Path, observer: Observes) -> None:
        """Stand for `real`, found at `path`."""
        super().__init__(real.__name__, real.__doc__)
        names = {k: v for k, v in vars(real).items() if k in ("__spec__", "__package__")}
        vars(self).update(names, __fjit_module__=(real, path, observer))

    def __getattr__(self, name: str) -> object:
        """Read an attribute that was not read before, or of a followed module."""
        real, path, observer = self._parts()
        hooks = observer.hooks
        text = hooks.refuse.get(id(real))
        if text is not None:
            observer.refuse(text)
        given = hooks.module_standins.get(real, {}).get(name, MISSING)
        if given is MISSING:
            value = getattr(real, name)
            if hooks.follow(real.__name__):
                return observer.observe(value, Attr(path, name), real)
            given = observer.unguarded(value, Attr(path, name))
        else:
            observer.export(given, getattr(real, name, given))
        vars(self)[name] = given
        return given

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute of the real module."""
        real, path, observer = self._parts()
        if observer.holds_traced(value):
            observer.leak(Attr(path, name))
            return
        setattr(real, name, observer.outside(value))
        vars(self).pop(name, None)
        observer.reads.add_effect(Attr(path, name), "is assigned by the function")

    def __delattr__(self, name: str) -> None:
        """Delete an attribute of the real module."""
        real, path, observer = self._parts()
        delattr(real, name)
        vars(self).pop(name, None)
        observer.reads.add_effect(Attr(path, name), "is deleted by the function")

    def __dir__(self) -> list[str]:
        """List the names of the real module."""
        return dir(self._parts()[0])

    def __repr__(self) -> str:
        """Print as the real module."""
        return repr(self._parts()[0])

    def _parts(self) -> tuple[ModuleType, Path, Observes]:
        """Return the real module, its path and the observer."""
        return cast(tuple[ModuleType, Path, Observes], vars(self)["__fjit_module__"])
