"""Classes and instances of the user's own modules, as the traced function sees them.

Takes: a class or an instance read from outside. Gives: a shadow class, a subclass whose methods are
rebound as they are looked up, and a view, an instance of it that shares the attributes of the real
one and observes the reads. Invariant: `isinstance`, `super()`, `type(x) is C`, `==` and writes to
attributes mean what they mean without the trace; instances made during the trace are instances of
the real class when it ends, and views become the real instance when they are returned.

    class Model:                         self.k        -> Attr(self, "k") guarded, 3 handed out
        def step(self, x):               self.w        -> Attr(self, "w") lifted to an input
            return np.exp(x) * self.w    self.step(x)  -> the code of Model.step, rebound

A class is shadowed if its module is followed, its metaclass is Python's or the user's, and it
inherits from such classes only: no exceptions, enums, named tuples or subclasses of builtin types,
which are handed out as they are. Attributes that the trace read are guarded one by one; a traced
value left in an attribute of a real instance is taken out again and refused by name.
"""

from __future__ import annotations

import functools
import threading
from abc import ABC, ABCMeta
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType, MemberDescriptorType
from typing import Any, Final, Generic, Protocol, cast

from .guards import Guard, identity_guard
from .hooks import Observes
from .paths import MISSING, Attr, Path

_PLAIN_BASES: Final = (object, Generic, Protocol, ABC)
CACHED: Final = type(functools.lru_cache(len))
_METACLASSES: Final = (type, ABCMeta, type(Protocol))
_OWN_NAMES: Final = frozenset(
    {"__dict__", "__weakref__", "__slots__", "__init_subclass__", "__class_getitem__", "__del__"}
)


def can_shadow(cls: type, follow: Callable[[str], bool]) -> bool:
    """Tell whether a class is plain Python of a followed module."""
    return (
        cls not in _PLAIN_BASES
        and all(
            base in _PLAIN_BASES
            or (_is_python(base) and follow(base.__module__) and _is_plain_meta(type(base), follow))
            for base in cls.__mro__
        )
        and "__getattribute__" not in {name for base in cls.__mro__[:-1] for name in vars(base)}
    )


def _is_python(cls: type) -> bool:
    """Tell whether a class was made by a class statement: builtin layouts have no `__module__`."""
    return isinstance(vars(cls).get("__module__"), str) and bool(cls.__flags__ & 1 << 9)


def _is_plain_meta(meta: Any, follow: Callable[[str], bool]) -> bool:  # any class of a class
    """Tell whether a metaclass is one of Python's for plain classes, or the user's own."""
    bases = [base for base in meta.__mro__ if base not in (object, *_METACLASSES)]
    return meta in _METACLASSES or all(
        _is_python(base)
        and follow(base.__module__)
        and not {"mro", "__getattribute__"} & vars(base).keys()
        for base in bases
    )


class ShadowMeta(type):
    """The metaclass of shadow classes: compares as the real class and keeps track of instances.

    `fjit_real`, `fjit_made` and `fjit_mro` are entries of a shadow class; a class that the traced
    code derives from one has none of its own and is an ordinary class.
    """

    fjit_made: Callable[[object], None]

    def mro(cls) -> list[type]:
        """Put the shadows of the bases before the bases, for `super()`."""
        tail = vars(cls).get("fjit_mro")
        return super().mro() if tail is None else [cls, *tail]

    def __call__(cls, *args: Any, **keywords: Any) -> object:  # as the class takes them
        """Make an instance, which becomes one of the real class when the trace ends."""
        made: object = super().__call__(*args, **keywords)
        cls.fjit_made(made)
        return made

    def __instancecheck__(cls, value: object) -> bool:
        """Answer for the real class."""
        real = real_class(cls)
        return super().__instancecheck__(value) if real is cls else isinstance(value, real)

    def __subclasscheck__(cls, kind: type) -> bool:
        """Answer for the real class."""
        real = real_class(cls)
        return super().__subclasscheck__(kind) if real is cls else issubclass(kind, real)

    def __eq__(cls, other: object) -> bool:
        """Equal the real class."""
        return True if other is cls or other is real_class(cls) else NotImplemented

    def __hash__(cls) -> int:
        """Hash as the real class."""
        real = real_class(cls)
        return super().__hash__() if real is cls else hash(real)

    def __repr__(cls) -> str:
        """Print as the real class."""
        real = real_class(cls)
        return super().__repr__() if real is cls else repr(real)


def real_class(cls: type) -> type:
    """Return the class that a shadow class stands for, or the class itself."""
    return cast(type, vars(cls).get("fjit_real", cls))


def make_real(made: object) -> None:
    """Give an instance of a shadow class the real class."""
    if real_class(type(made)) is not type(made):
        object.__setattr__(made, "__class__", real_class(type(made)))


class _Quiet:
    """First in line after a shadow: keeps `__init_subclass__` of the user from seeing shadows."""

    __slots__ = ()

    def __init_subclass__(cls, **keywords: Any) -> None:  # as the class statement has them
        """Pass on for classes of the traced code only."""
        if real_class(cls) is cls:
            super().__init_subclass__(**keywords)


class _ShadowABCMeta(ShadowMeta, ABCMeta):
    """The same for abstract base classes, which ask their subclasses, shadows among them, back."""

    def __subclasscheck__(cls, kind: type) -> bool:
        """Answer for the real class, unless it is the one that asks."""
        question = (id(cls), id(kind))
        if question in _ASKED.questions:
            return type.__subclasscheck__(cls, kind)
        _ASKED.questions.add(question)
        try:
            return super().__subclasscheck__(kind)
        finally:
            _ASKED.questions.discard(question)


class _Asked(threading.local):
    """The questions whether one class is a subclass of another that are being answered."""

    def __init__(self) -> None:
        """Start with none in each thread."""
        self.questions: set[tuple[int, int]] = set()


_ASKED: Final = _Asked()


@dataclass(slots=True)
class _View:
    """A view of a real instance, and what its attributes were."""

    path: Path
    real: object
    view: object
    before: dict[str, object]
    seen: dict[str, tuple[object, object]] = field(default_factory=dict)


class _Member:
    """A method of a shadow class: rebound when it is looked up, then bound as Python does."""

    def __init__(
        self, real: object, find: Callable[[], object], inherit: Callable[[type | None], None]
    ) -> None:
        """Take the entry of the real class, what makes the traced one, and what notes its heirs."""
        self.real = real
        self.find = find
        self.inherit = inherit

    def __get__(self, instance: object, owner: type | None = None) -> object:
        """Bind."""
        self.inherit(owner)
        found: Any = self.find()  # a function, staticmethod, classmethod or property
        return found.__get__(instance, owner)


class _ClassValue(_Member):
    """A plain value of a class: observed when it is read."""

    def __get__(self, instance: object, owner: type | None = None) -> object:
        """Observe."""
        self.inherit(owner)
        return self.find()


class Shadows:
    """The shadow classes and views of one trace."""

    def __init__(self, observer: Observes) -> None:
        """Start with none."""
        self.observer = observer
        self.classes: dict[type, type] = {}
        self.view_classes: dict[type, type] = {}
        self.views: dict[int, _View] = {}
        self.made: list[object] = []

    # Classes

    def shadow(self, cls: type, path: Path) -> type:
        """Return the shadow of a class, with shadows of its bases behind it for `super()`."""
        found = self.classes.get(cls)
        if found is not None:
            return found
        follow = self.observer.hooks.follow
        tail: list[type] = [cls]
        for base in cls.__mro__[1:]:
            shadowed = can_shadow(base, follow)
            tail += [self.shadow(base, Attr(path, "__base__")), base] if shadowed else [base]
        space: dict[str, object] = {
            name: self._member(cls, name, entry, path)
            for name, entry in vars(cls).items()
            if name not in _OWN_NAMES and self._is_shadowed(name, entry)
        }
        if "__hash__" in vars(cls):
            space["__hash__"] = vars(cls)["__hash__"]
        space |= {"fjit_real": cls, "fjit_made": self._note_instance}
        shadow = _subclass(cls, cls, tail, space)
        self.classes[cls] = shadow
        if self.observer.hooks.shadowed is not None:
            self.observer.hooks.shadowed(cls, shadow)
        return shadow

    def _note_instance(self, made: object) -> None:
        """Keep an instance made during the trace."""
        if real_class(type(made)) is not type(made):
            self.made.append(made)

    def _is_shadowed(self, name: str, entry: object) -> bool:
        """Tell whether an entry of a class is a method, property or plain value to observe."""
        if isinstance(entry, FunctionType | staticmethod | classmethod | property):
            return True
        if isinstance(entry, functools.cached_property | CACHED):
            return True
        return not name.startswith("__") and not hasattr(type(entry), "__get__")

    def _member(self, cls: type, name: str, entry: Any, path: Path) -> object:  # any class entry
        """Return the entry of the shadow class."""
        rebound, at = self.observer.rebound, Attr(path, name)

        def method(inner: Any) -> Any:  # a function, in and out
            self.observer.reads.add(identity_guard(at, getattr(cls, name), cls))
            return rebound(inner, at)

        def inherit(owner: type | None) -> None:
            heir = cls if owner is None else real_class(owner)
            if heir is not cls:
                self._guard_heir(heir, name, at)

        if isinstance(entry, FunctionType):
            return _Member(entry, lambda: method(entry), inherit)
        if isinstance(entry, CACHED):  # the user's cache must not get to know traced values
            return _Member(entry, lambda: method(cast(Any, entry).__wrapped__), inherit)
        if isinstance(entry, staticmethod | classmethod):
            kind, inner = type(entry), entry.__func__
            return _Member(entry, lambda: kind(method(inner)), inherit)
        if isinstance(entry, property):
            parts = [part and _deferred(method, part) for part in _parts(entry)]
            return property(*cast(Any, parts))  # getter, setter, deleter
        if isinstance(entry, functools.cached_property):
            return _Member(entry, lambda: property(method(entry.func)), inherit)
        observe = self.observer.observe
        return _ClassValue(entry, lambda: observe(getattr(cls, name), at, cls), inherit)

    def _guard_heir(self, heir: type, name: str, at: Path) -> None:
        """Guard that a class has not got an entry of its own for what it inherits."""
        entries = [name in vars(c) for c in heir.__mro__]
        count = entries.index(True) if True in entries else len(entries)
        before = heir.__mro__[:count]

        def holds(f: object, a: Sequence[object] = (), /) -> bool:
            return heir.__mro__[:count] == before and not any(name in vars(c) for c in before)

        label = Attr(at, f"of {heir.__qualname__}")
        self.observer.reads.add(Guard(label, "is inherited", holds))

    def seen(self, cls: object) -> object:
        """Return the class that traced code sees for one it may have got from elsewhere."""
        if not isinstance(cls, type):
            return cls
        return self.classes.get(real_class(cls), cls)

    # Instances

    def view(self, real: object, path: Path) -> object:
        """Return a view of an instance: the same attributes, read under observation."""
        cls = type(real)
        shadow = self.shadow(cls, Attr(path, "__class__"))
        view_class = self.view_classes.get(cls)
        if view_class is None:
            view_class = self.view_classes[cls] = self._view_class(cls, shadow)
        view: object = object.__new__(view_class)
        if hasattr(real, "__dict__"):
            object.__setattr__(view, "__dict__", vars(real))
        self.views[id(view)] = _View(path, real, view, _attributes(real))
        return view

    def _view_class(self, cls: type, shadow: type) -> type:
        """Return the class of views: a shadow that observes reads of instance attributes."""
        views = self.views

        def getattribute(self: object, name: str) -> object:
            entry = views.get(id(self))
            if entry is None or (name.startswith("__") and name != "__dict__"):
                return object.__getattribute__(self, name)
            return _read_attribute(entry, name, observer)

        def self_copy(entry: _View) -> tuple[object, ...]:
            if hasattr(cls, "__setstate__"):
                return self._new_instance, (shadow,), cast(Any, entry.view).__getstate__()
            names = _attributes(entry.real)
            state = {name: _read_attribute(entry, name, observer) for name in names}
            return self._new_instance, (shadow,), (None, state) if _slots(cls) else state

        observer = self.observer
        space: dict[str, object] = {
            "__getattribute__": getattribute,
            "__class__": property(lambda self: shadow),
            "__del__": lambda self: None,
            "fjit_real": cls,
            "fjit_made": self._note_instance,
        }
        space |= {name: _slot(slot, views) for name, slot in _slots(cls).items()}
        if _class_entry(cls, "__eq__") is vars(object)["__eq__"]:
            space["__eq__"] = lambda self, other: _same_instance(views[id(self)].real, other, views)
            space["__hash__"] = lambda self: hash(views[id(self)].real)
        if all(_class_entry(cls, n) is vars(object)[n] for n in ("__reduce__", "__reduce_ex__")):
            space["__reduce_ex__"] = lambda self, protocol: self_copy(views[id(self)])
        return _subclass(cls, shadow, shadow.__mro__, space)

    def _new_instance(self, shadow: type) -> object:
        """Make an empty instance, for a copy of a view."""
        made: object = object.__new__(shadow)
        self._note_instance(made)
        return made

    # The end of the trace

    def settle(self) -> None:
        """Give instances their real class, and check what was left in attributes of views."""
        for view in self.views.values():
            self._settle_view(view)
        for made in self.made:
            make_real(made)
            for name, value in _attributes(made).items():
                original = self.observer.outside(value)
                if original is not value:
                    _set_attribute(made, name, original)
        self.made.clear()

    def _settle_view(self, view: _View) -> None:
        """Keep what the function assigned to attributes, or refuse traced values."""
        now = _attributes(view.real)
        names = [n for n in (*now, *view.before) if now.get(n, MISSING) is not _get(view.before, n)]
        for name in dict.fromkeys(names):
            value = now.get(name, MISSING)
            if self.observer.holds_traced(value):
                for changed in names:
                    _set_attribute(view.real, changed, _get(view.before, changed))
                self.observer.leak(Attr(view.path, name))
                return
            if value is not MISSING:
                _set_attribute(view.real, name, self.observer.outside(value))
            what = "is deleted" if value is MISSING else "is assigned"
            self.observer.reads.add_effect(Attr(view.path, name), f"{what} by the function")


# --------------------------------------------------------------------------------------------------
# Attributes
# --------------------------------------------------------------------------------------------------


def _read_attribute(entry: _View, name: str, observer: Observes) -> object:
    """Read an attribute of a view as Python would, and observe what came from the instance."""
    path = Attr(entry.path, name)
    try:
        value = object.__getattribute__(entry.view, name)
    except AttributeError:
        if not hasattr(type(entry.real), "__getattr__"):
            observer.reads.add(identity_guard(path, MISSING, entry.real, "is not there"))
        raise
    if name == "__dict__":
        return observer.observe(vars(entry.real), path, entry.real)
    in_class = _class_entry(type(entry.view), name)
    if isinstance(in_class, _ClassValue) and name not in entry.before:
        value = getattr(entry.real, name)
    elif in_class is MISSING or isinstance(in_class, _ClassValue | _Slot):
        if entry.before.get(name, MISSING) is not value:
            return value  # assigned during the trace
    else:
        return value  # a method, or what a property gave
    seen = entry.seen.get(name)
    if seen is not None and seen[0] is value:
        return seen[1]
    given = observer.observe(value, path, entry.real)
    entry.seen[name] = (value, given)
    return given


def _same_instance(real: object, other: object, views: dict[int, _View]) -> object:
    """Compare by identity with a real instance or a view."""
    entry = views.get(id(other))
    return True if real is (other if entry is None else entry.real) else NotImplemented


def _class_entry(cls: type, name: str) -> object:
    """Look a name up in a class without binding."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), MISSING)


def _attributes(real: object) -> dict[str, object]:
    """Return the attributes that an instance itself holds, in its dict or in slots."""
    found = dict(vars(real)) if hasattr(real, "__dict__") else {}
    for name, slot in _slots(type(real)).items():
        try:
            found[name] = slot.__get__(real)
        except AttributeError:
            continue
    return found


def _slots(cls: type) -> dict[str, MemberDescriptorType]:
    """Return the slots of a class and its bases."""
    return {
        name: entry
        for base in reversed(cls.__mro__)
        for name, entry in vars(base).items()
        if isinstance(entry, MemberDescriptorType)
    }


class _Slot(property):
    """Reaches a slot of the real instance from a view."""


def _slot(slot: MemberDescriptorType, views: dict[int, _View]) -> _Slot:
    """Return the property for one slot."""
    return _Slot(
        lambda self: slot.__get__(views[id(self)].real),
        lambda self, value: slot.__set__(views[id(self)].real, value),
        lambda self: slot.__delete__(views[id(self)].real),
    )


def _set_attribute(real: object, name: str, value: object) -> None:
    """Set or delete an attribute as if the class had no `__setattr__` of its own."""
    if value is MISSING:
        object.__delattr__(real, name)
    else:
        object.__setattr__(real, name, value)


def _get(attributes: dict[str, object], name: str) -> object:
    """Read an attribute of before."""
    return attributes.get(name, MISSING)


# --------------------------------------------------------------------------------------------------
# Making classes
# --------------------------------------------------------------------------------------------------


def _subclass(cls: type, base: type, tail: Sequence[type], space: dict[str, object]) -> type:
    """Make a subclass that looks like `cls` and adds nothing to the layout of its instances."""
    space |= {
        "__slots__": (),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "fjit_mro": (_Quiet, *tail),
    }
    meta, maker = _shadow_meta(type(cls)), ABCMeta if isinstance(cls, ABCMeta) else type
    made: type = maker.__new__(meta, cls.__name__, (base,), space)  # not the metaclass's own
    return made


@functools.lru_cache(maxsize=64)
def _shadow_meta(meta: type) -> type[ShadowMeta]:
    """Return the metaclass of the shadows of classes with a certain metaclass."""
    base = _ShadowABCMeta if issubclass(meta, ABCMeta) else ShadowMeta
    return base if meta in _METACLASSES else type(f"Shadow{meta.__name__}", (base, meta), {})


def _parts(entry: property) -> tuple[object, object, object]:
    """Return getter, setter and deleter of a property."""
    return entry.fget, entry.fset, entry.fdel


def _deferred(method: Callable[[object], Any], part: object) -> Callable[..., object]:
    """Return an accessor of a property that is rebound when it is first used."""

    def accessor(*args: object) -> object:
        return cast(object, method(part)(*args))

    return accessor
