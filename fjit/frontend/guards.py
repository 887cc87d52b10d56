"""What a trace read from outside the function, where it was found, and whether it still holds.

Takes: every value that the rebound function reads, with its path. Gives: one `Guard` per path that
says whether the next call would read the same, and one `Input` per captured array, to be read anew
at each call. Invariant: when all guards hold, tracing again would meet the same values at the same
places, except for the contents of arrays and the lifted scalars, which are inputs of the program
and never part of it.

What a guard compares:

- a scalar, string, `None`, dtype, slice or tuple of those: type and value, floats bit for bit (NaN
  equals itself, -0.0 differs from 0.0), enum members by identity;
- a function: identity of the object and of its `__code__`; a module or class: identity;
- a list, dict, set, namespace or instance: identity, and for a container its length, keys and
  scalar elements; elements that are not scalars have guards of their own. An instance is guarded
  attribute by attribute, for the attributes that the trace read;
- an array: type, dtype and shape. Its values are read by reference: after `table[0] = 7` the next
  call computes with the 7;
- a second path to an object that was read already: that it is still the same object;
- an effect (the trace changed something outside): never holds, so that the effect happens again.

A guard below a container reads from the container itself, not from the root: the guard of the
container has proved that it is the same object. Captured containers and instances therefore stay
alive as long as the trace; captured arrays do not.

    >>> reads = Reads()
    >>> reads.add_value(Global("G", f), 3)
    >>> [str(guard.path) for guard in reads.guards()], reads.holds(f)
    (['global G'], True)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import is_
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any, Final, NoReturn, Protocol, cast

import numpy as np

from .paths import GONE, MISSING, Builtin, Global, Path, Source, builtins_of, source

UNKNOWN: Final = object()
"""The value of a guard that compares more than one object with what it was."""
SIMPLE_TYPES: Final = frozenset(
    {type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented), range}
)
_PACK_DOUBLE = struct.Struct("d").pack


def is_scalar(value: object) -> bool:
    """Tell whether a value is compared by type and value, as a whole."""
    kind = type(value)
    if kind in SIMPLE_TYPES or kind is float or kind is complex:
        return True
    if kind is tuple:
        return all(map(is_scalar, cast(tuple[object, ...], value)))
    if kind is frozenset:
        return all(map(is_scalar, cast(frozenset[object], value)))
    if kind is slice:
        cut = cast(slice, value)
        return is_scalar(cut.start) and is_scalar(cut.stop) and is_scalar(cut.step)
    return isinstance(value, Enum | np.dtype | np.generic)


def same_scalar(a: object, b: object) -> bool:
    """Compare two scalars by type and value; floats bit for bit."""
    kind = type(a)
    if kind is not type(b):
        return False
    if a is b:
        return True
    if kind is float:
        return _PACK_DOUBLE(cast(float, a)) == _PACK_DOUBLE(cast(float, b))
    if kind is complex:
        x, y = cast(complex, a), cast(complex, b)
        return same_scalar(x.real, y.real) and same_scalar(x.imag, y.imag)
    if kind is tuple:
        s, t = cast(tuple[object, ...], a), cast(tuple[object, ...], b)
        return len(s) == len(t) and all(map(same_scalar, s, t))
    if kind is slice:
        u, v = cast(slice, a), cast(slice, b)
        return all(map(same_scalar, (u.start, u.stop, u.step), (v.start, v.stop, v.step)))
    if isinstance(a, np.generic) and isinstance(b, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return False if isinstance(a, Enum) else bool(a == b)


# The scalar elements of a container: key, element, and whether it is an input of the program.
Entries = Sequence[tuple[object, object, bool]]


class Holds(Protocol):
    """Says whether the value at one path is still what the trace saw."""

    def __call__(self, function: object, arguments: Sequence[object] = (), /) -> bool:
        """Compare the value of today with that of the trace."""


class Guard:
    """One condition under which a trace is valid: `guard.holds(f)` checks, `guard.path` names.

    Where the guard holds as long as one object stands at the path, that object is `value`.
    """

    __slots__ = ("holds", "path", "value", "what")

    def __init__(self, path: Path, what: str, holds: Holds, value: object = UNKNOWN) -> None:
        """Keep the check; an exception inside it is for the check itself to turn into False."""
        self.path: Path = path
        self.what: str = what
        self.holds: Holds = holds
        self.value: object = value

    def __repr__(self) -> str:
        """Say what must hold, for reports."""
        return f"{self.path}: {self.what}"


def scalar_guard(path: Path, value: object, held: object = MISSING) -> Guard:
    """Guard type and value."""
    read, kind = source(path, held), type(value)
    owner = path.owner if isinstance(path, Global) else None
    names = cast(FunctionType, owner).__globals__ if owner is not None else None
    if names is not None:
        name, get = cast(Global, path).name, names.get

        def holds_global(f: object, a: Sequence[object] = (), /) -> bool:
            now = get(name, MISSING)
            return now is value or (type(now) is kind and same_scalar(now, value))

        return Guard(path, f"is {value!r}", holds_global, value)

    def holds(f: object, a: Sequence[object] = (), /) -> bool:
        try:
            now = read(f, a)
        except GONE:
            return False
        return now is value or (type(now) is kind and same_scalar(now, value))

    return Guard(path, f"is {value!r}", holds, value)


def identity_guard(path: Path, value: object, held: object = MISSING, what: str = "") -> Guard:
    """Guard identity and class, and for a function its code."""
    read = path.read if value is MISSING else source(path, held)
    what = what or f"is the {type(value).__name__} seen before"
    if isinstance(value, FunctionType):
        function, code = value, value.__code__

        def holds_code(f: object, a: Sequence[object] = (), /) -> bool:
            try:
                return read(f, a) is function and function.__code__ is code
            except GONE:
                return False

        return Guard(path, what, holds_code, value)
    if isinstance(value, MethodType):  # a bound method is a new object at each access
        return Guard(path, what, _equality(read, value))

    kind = type(value)

    def holds(f: object, a: Sequence[object] = (), /) -> bool:
        try:
            return read(f, a) is value and type(value) is kind
        except GONE:
            return False

    return Guard(path, what, holds, value)


def _equality(read: Source, value: object) -> Holds:
    """Return a check by type and `==`, for bound methods."""

    def holds(f: object, a: Sequence[object] = (), /) -> bool:
        try:
            now = read(f, a)
        except GONE:
            return False
        return type(now) is type(value) and now == value

    return holds


def array_guard(path: Path, value: np.ndarray, held: object = MISSING) -> Guard:
    """Guard type, dtype and shape of an array, not its values, and keep no reference to it."""
    read, kind, dtype, shape = source(path, held), type(value), value.dtype, value.shape

    def holds(f: object, a: Sequence[object] = (), /) -> bool:
        try:
            now: Any = read(f, a)  # an array, if the next line says so
        except GONE:
            return False
        if type(now) is not kind:
            return False
        return now.shape == shape and (now.dtype is dtype or now.dtype == dtype)

    return Guard(path, f"is {kind.__name__} {dtype}{list(shape)}", holds)


def type_guard(path: Path, value: object, held: object = MISSING) -> Guard:
    """Guard the type only: the value is an input of the program."""
    read, kind = source(path, held), type(value)

    def holds(f: object, a: Sequence[object] = (), /) -> bool:
        try:
            return type(read(f, a)) is kind
        except GONE:
            return False

    return Guard(path, f"is of type {kind.__name__}", holds)


def alias_guard(path: Path, first: Path) -> Guard:
    """Guard that two paths lead to one object, without keeping it alive."""

    def holds(f: object, a: Sequence[object] = (), /) -> bool:
        try:
            return path.read(f, a) is first.read(f, a)
        except GONE:
            return False

    return Guard(path, f"is {first}", holds)


def never_guard(path: Path, what: str) -> Guard:
    """Return the guard of an effect: the trace serves one call only."""
    return Guard(path, what, lambda f, a=(), /: False)


def elements_guard(path: Path, value: object, entries: Entries, held: object) -> Guard:
    """Guard a mutable container: identity, length, keys, and the elements that are scalars.

    A container of nothing but guarded scalars is compared at the speed of C as long as its elements
    are the same objects.
    """
    read = source(path, held)
    inside = vars(value) if type(value) is SimpleNamespace else cast(dict[object, object], value)
    size, keys = len(inside), list(inside) if isinstance(inside, dict) else None
    whole = len(entries) == size and not any(lifted for _, _, lifted in entries)
    elements = tuple(element for _, element, _ in entries)

    def holds(f: object, a: Sequence[object] = (), /) -> bool:
        try:
            if read(f, a) is not value or len(inside) != size:
                return False
            if keys is not None and list(inside) != keys:
                return False
            if whole and all(map(is_, inside.values() if keys is not None else inside, elements)):
                return True
            return _same_elements(inside, entries)
        except GONE:
            return False

    return Guard(path, f"is the {type(value).__name__} of {size} seen before", holds)


def tuple_guard(path: Path, value: tuple[object, ...], entries: Entries, held: object) -> Guard:
    """Guard a tuple: type, length, and the elements that are scalars; another equal one will do."""
    read, kind, size = source(path, held), type(value), len(value)

    def holds(f: object, a: Sequence[object] = (), /) -> bool:
        try:
            now = read(f, a)
        except GONE:
            return False
        if type(now) is not kind or not isinstance(now, tuple):
            return False
        return len(now) == size and _same_elements(now, entries)

    return Guard(path, f"is a {kind.__name__} of {size}", holds)


def members_guard(path: Path, value: object, held: object) -> Guard:
    """Guard a set: identity and members."""
    read, members = source(path, held), frozenset(cast(set[object], value))

    def holds(f: object, a: Sequence[object] = (), /) -> bool:
        try:
            return read(f, a) is value and value == members
        except GONE:
            return False

    return Guard(path, f"is the set of {len(members)} seen before", holds)


def _same_elements(container: Any, entries: Entries) -> bool:  # a dict or sequence, by subscript
    """Compare the scalars of a container; of the lifted ones only the type."""
    for key, element, lifted in entries:
        now = container[key]
        if now is not element and not (
            type(now) is type(element) if lifted else same_scalar(now, element)
        ):
            return False
    return True


def builtins_guard(owner: FunctionType, names: Mapping[str, object]) -> Guard:
    """Guard the builtins used in one module: the same as before, and not hidden by globals."""
    space, get = owner.__globals__, builtins_of(owner).get
    wanted, values = tuple(names), tuple(names.values())

    def holds(f: object, a: Sequence[object] = (), /) -> bool:
        return space.keys().isdisjoint(wanted) and all(map(is_, map(get, wanted), values))

    return Guard(Builtin(", ".join(wanted), owner), "are Python's own", holds)


# --------------------------------------------------------------------------------------------------
# The record
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Input:
    """A captured array or lifted scalar: what the trace took as an input, and where to find it."""

    path: Path
    traced: object
    read: Source


class Reads:
    """Everything one trace read from outside the function.

    `guards()` and `holds(f)` say whether the trace is valid for a call; `inputs` lists the captured
    arrays and lifted scalars in the order in which they were met, to be read anew at each call
    (`entry.read(f, arguments)`); `opaque` lists objects guarded by identity alone, `effects` what
    the function changed outside; `pending_error` is the first of our own errors, raised again after
    the call even if the user's code caught it.
    """

    def __init__(self) -> None:
        """Start with nothing read."""
        self.inputs: list[Input] = []
        self.opaque: list[Path] = []
        self.effects: list[str] = []
        self.pending_error: BaseException | None = None
        self._guards: dict[Path, Guard] = {}
        self._builtins: dict[int, tuple[FunctionType, dict[str, object]]] = {}

    def __contains__(self, path: object) -> bool:
        """Tell whether a path has been read."""
        return path in self._guards

    def add(self, guard: Guard) -> None:
        """Keep the guard of a path; what was read first counts."""
        self._guards.setdefault(guard.path, guard)

    def add_value(self, path: Path, value: object, held: object = MISSING) -> None:
        """Guard a scalar by type and value, an array by type, dtype and shape, else by identity."""
        if is_scalar(value):
            self.add(scalar_guard(path, value, held))
        elif isinstance(value, np.ndarray):
            self.add(array_guard(path, value, held))
        else:
            self.add(identity_guard(path, value, held))

    def add_builtin(self, name: str, value: object, owner: FunctionType) -> None:
        """Note that a function of this module used a builtin."""
        names = self._builtins.setdefault(id(owner.__globals__), (owner, {}))[1]
        names[name] = value

    def add_input(self, path: Path, traced: object, held: object = MISSING) -> None:
        """Note a captured array or lifted scalar."""
        self.inputs.append(Input(path, traced, source(path, held)))

    def add_effect(self, path: Path, what: str) -> None:
        """Note that the trace changed something outside; it then serves one call only."""
        self.effects.append(f"{path} {what}")
        self._guards[path] = never_guard(path, what)

    def fail(self, error: BaseException) -> NoReturn:
        """Raise one of our own errors, and keep it in case the user's code catches it."""
        self.record_error(error)
        raise error

    def record_error(self, error: BaseException) -> None:
        """Keep the first of our own errors."""
        if self.pending_error is None:
            self.pending_error = error

    def guards(self, inputs: bool = True) -> tuple[Guard, ...]:
        """Return all guards in the order of reading, those of builtins last.

        `inputs=False` leaves out those of captured arrays and lifted scalars, for a caller that
        checks type, dtype and shape of all its inputs anyway.
        """
        skipped = set() if inputs else {entry.path for entry in self.inputs}
        kept = (guard for path, guard in self._guards.items() if path not in skipped)
        builtins = (builtins_guard(owner, names) for owner, names in self._builtins.values())
        return (*kept, *builtins)

    def holds(self, function: object, arguments: Sequence[object] = ()) -> bool:
        """Check all guards; keep `guards()` and loop over it where time matters."""
        return all(guard.holds(function, arguments) for guard in self.guards())
