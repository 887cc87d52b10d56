"""Lists, tuples, dicts, sets and namespaces that the traced function reads from outside.

Takes: a captured container and its path. Gives: what the function sees in its place. Invariant: if
no element needs replacing (no array, function, module or instance of a followed class inside), the
function gets the real object; else a copy of the same type with those elements replaced, and what
the function does to the copy is done to the real object when the trace ends. A container in which
the function leaves a traced value is put back as it was and the trace is refused by name.

    WEIGHTS = {"w": array, "k": 3}      the function sees {"w": traced input, "k": 3}
    guards: global WEIGHTS is that dict of 2 with 'k' 3; global WEIGHTS['w'] is ndarray f64[4]

Followed are lists, dicts, deques, sets and their subclasses (elements of sets as they are),
SimpleNamespace, and tuples including named ones. Only a plain list, deque, dict, OrderedDict,
defaultdict, Counter or namespace is copied; a subclass that would need it is refused. Lists and
dicts are guarded by identity and elements, tuples by their elements.
"""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_
from types import SimpleNamespace
from typing import Any, Final, cast

from .guards import elements_guard, is_scalar, members_guard, tuple_guard
from .hooks import Observes
from .paths import MISSING, Attr, Item, Path

_COPIED: Final = (list, deque, dict, set, OrderedDict, defaultdict, Counter, SimpleNamespace)
Contents = dict[object, object] | list[object] | set[object]


@dataclass(frozen=True, slots=True)
class _Handed:
    """A mutable container that was handed out, and what was in it then."""

    path: Path
    real: object
    given: object
    contents: Contents


class Containers:
    """The captured containers of one trace."""

    def __init__(self, observer: Observes) -> None:
        """Take the observer that sees the elements."""
        self.observer = observer
        self.handed: list[_Handed] = []
        self.open: set[int] = set()

    def follows(self, value: object) -> bool:
        """Tell whether this is a container whose elements are observed."""
        kind = type(value)
        return (
            isinstance(value, list | deque | dict | set)
            or kind in (tuple, SimpleNamespace)
            or (isinstance(value, tuple) and hasattr(kind, "_make"))
        )

    def observe(self, value: object, path: Path, held: object) -> object:
        """Return the container, or a copy with replaced elements, after guarding what is in it."""
        if id(value) in self.open:
            self.observer.refuse(f"{path} contains itself; such containers cannot be traced")
        self.open.add(id(value))
        try:
            if isinstance(value, tuple):
                return self._observe_tuple(value, path, held)
            if isinstance(value, set):
                given: object = self._observe_set(value, path, held)
            else:
                given = self._observe_elements(value, path, held)
        finally:
            self.open.discard(id(value))
        self.handed.append(_Handed(path, value, given, _contents(given)))
        return given

    def _observe_set(self, value: set[object], path: Path, held: object) -> object:
        """Guard a set by identity and members."""
        self.observer.reads.add(members_guard(path, value, held))
        members = {self.observer.observe_key(member, path) for member in value}
        if members == value:
            return value
        return self._copied(value, members, path)

    def _observe_tuple(self, value: tuple[object, ...], path: Path, held: object) -> object:
        """Guard a tuple by its elements; it may be built anew between calls."""
        pairs = list(enumerate(value))
        given, entries = self._elements(pairs, [Item(path, i) for i, _ in pairs], MISSING)
        self.observer.reads.add(tuple_guard(path, value, entries, held))
        if all(map(is_, given, value)):
            return value
        make = getattr(type(value), "_make", tuple)
        return cast(object, make(given))

    def _observe_elements(self, value: object, path: Path, held: object) -> object:
        """Guard a mutable container by identity, length and elements."""
        contents = _contents(value)
        pairs = list(contents.items() if isinstance(contents, dict) else enumerate(contents))
        if type(value) is SimpleNamespace:
            paths: list[Path] = [Attr(path, str(key)) for key, _ in pairs]
        else:
            paths = [Item(path, key) for key, _ in pairs]
        given, entries = self._elements(pairs, paths, value)
        self.observer.reads.add(elements_guard(path, value, entries, held))
        keys = [key for key, _ in pairs]
        if isinstance(value, dict):
            keys = [self.observer.observe_key(key, path) for key in keys]
        same = all(map(is_, given, (item for _, item in pairs)))
        if same and all(map(is_, keys, (key for key, _ in pairs))):
            return value
        named = dict(zip(keys, given, strict=True)) if _is_mapping(value) else given
        return self._copied(value, named, path)

    def _copied(self, value: object, contents: Contents, path: Path) -> object:
        """Return a copy of a container with other contents."""
        if type(value) not in _COPIED:
            self.observer.refuse(
                f"{path} is a {type(value).__qualname__} that holds arrays or functions, and only "
                "plain lists and dicts are looked through; pass it as an argument, or its arrays"
            )
        replaced = copy.copy(value)
        _replace(replaced, contents)
        return replaced

    def _elements(
        self, pairs: Sequence[tuple[object, object]], paths: Sequence[Path], held: object
    ) -> tuple[list[object], list[tuple[object, object, bool]]]:
        """Observe each element; return what is handed out, and the scalars for the guard."""
        given: list[object] = []
        entries: list[tuple[object, object, bool]] = []
        for (key, item), path in zip(pairs, paths, strict=True):
            self.observer.count_leaf(path)
            if not is_scalar(item):
                given.append(self.observer.observe(item, path, held))
                continue
            lifted = self.observer.lift(item, path, held)
            entries.append((key, item, lifted is not NotImplemented))
            given.append(item if lifted is NotImplemented else lifted)
        return given, entries

    def settle(self) -> None:
        """Do to the real containers what the function did to those it saw."""
        for handed in self.handed:
            now = _contents(handed.given)
            if not _same(now, handed.contents):
                self._settle_change(handed, now)

    def _settle_change(self, handed: _Handed, now: Contents) -> None:
        """Write a change back; a traced value that escapes so raises an error when it is used.

        If the function failed, what it left of traced values is taken out again.
        """
        values = now.values() if isinstance(now, dict) else now
        if self.observer.failed and any(map(self.observer.holds_traced, values)):
            _replace(handed.given, handed.contents)
            return
        original = self.observer.outside
        if isinstance(now, dict):
            _replace(handed.real, {original(key): original(item) for key, item in now.items()})
        elif handed.given is not handed.real or isinstance(now, list):
            _replace(handed.real, type(now)(map(original, now)))
        self.observer.reads.add_effect(handed.path, "is changed by the function")


def _is_mapping(value: object) -> bool:
    """Tell whether the contents are a dict."""
    return isinstance(value, dict) or type(value) is SimpleNamespace


def _contents(value: object) -> Contents:
    """Return a plain copy of what is in a container."""
    if type(value) is SimpleNamespace:
        return {name: item for name, item in vars(value).items()}
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, set):
        return set(value)
    return list(cast(list[object], value))


def _replace(value: object, contents: Contents) -> None:
    """Give a container other contents in place."""
    mutable: Any = vars(value) if type(value) is SimpleNamespace else value  # any of the kinds
    mutable.clear()
    if isinstance(contents, list):
        mutable.extend(contents)
    else:
        mutable.update(contents)


def _same(now: Contents, before: Contents) -> bool:
    """Tell whether two contents are the same objects under the same keys in the same order."""
    if len(now) != len(before):
        return False
    if isinstance(now, dict) and isinstance(before, dict):
        return list(now) == list(before) and all(map(is_, now.values(), before.values()))
    if isinstance(now, set):
        return now == before
    return all(map(is_, now, before))
