"""Stand-ins for builtins and NumPy scalar types, which let traced values through.

Takes: a `Protocol` (what is a traced value, how to select between two). Gives: a table of builtins
to put in `Hooks.builtins`, and `scalar_type` for `np.float64` and its kin. Invariant: for plain
values a stand-in returns what the real thing returns, of the real type, and it answers
`isinstance`, `issubclass`, `==`, `hash` and `dtype=` as the real thing does.

A traced value is asked through small methods:

    __fjit_float__()  __fjit_int__()  __fjit_complex__()  __fjit_bool__()   the number of a scalar
    __fjit_type__()         optional: what `type(x)` is, else `Protocol.array_type`
    __fjit_sum__(start)     optional: `sum(x, start)`, element by element

`abs round divmod pow len range sorted enumerate zip` have no stand-in: Python asks `__abs__`,
`__round__`, `__divmod__`, `__pow__`, `__len__`, `__index__` and `__iter__` of the value already,
and takes what they return (`__len__` and `__index__` must give a plain int).

    def f(x): return max(float(x[0]), 0.0)

traced with these runs `__fjit_float__` of `x[0]` and `select(0.0 > x0, 0.0, x0)`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np


@dataclass(frozen=True)
class Protocol:
    """What the stand-ins must know of traced values.

    `select(condition, a, b)` is `a if condition else b` for a traced scalar condition.
    """

    is_traced: Callable[[object], bool]
    select: Callable[[object, object, object], object]
    array_type: type = np.ndarray


def make_builtins(protocol: Protocol) -> dict[str, object]:
    """Return the stand-ins by the name of the builtin: what `Hooks.builtins` takes."""
    types: dict[type, object] = {
        kind: scalar_type(kind, protocol.is_traced, f"__fjit_{kind.__name__}__")
        for kind in (float, int, complex)
    }
    types[bool] = BoolStandin(protocol.is_traced)
    types[type] = TypeStandin(protocol, types)
    return {
        **{kind.__name__: standin for kind, standin in types.items()},
        "isinstance": _isinstance(protocol),
        "min": _extremum(protocol, builtins.min, lambda a, b: a < b),
        "max": _extremum(protocol, builtins.max, lambda a, b: a > b),
        "sum": _sum(protocol),
        "any": _truth(protocol, builtins.any, "any"),
        "all": _truth(protocol, builtins.all, "all"),
    }


# --------------------------------------------------------------------------------------------------
# Types
# --------------------------------------------------------------------------------------------------


class _ScalarMeta(type):
    """The class of stand-ins for number types: calls convert, comparisons see the real type."""

    real_type: Any  # called with whatever the user passes
    convert_traced: Callable[[object], object]

    def __call__(cls, *args: Any, **keywords: Any) -> object:  # as the real type takes them
        """Convert a traced value through its protocol; make a plain value of the real type."""
        if args:
            converted = cls.convert_traced(args[0])
            if converted is not NotImplemented:
                return converted
        return cls.real_type(*args, **keywords)

    def __instancecheck__(cls, value: object) -> bool:
        """Answer for the real type."""
        return isinstance(value, cls.real_type)

    def __subclasscheck__(cls, kind: type) -> bool:
        """Answer for the real type."""
        return issubclass(kind, cls.real_type)

    def __eq__(cls, other: object) -> bool:
        """Equal the real type; let a dtype decide for itself."""
        return True if other is cls or other is cls.real_type else NotImplemented

    def __hash__(cls) -> int:
        """Hash as the real type."""
        return hash(cls.real_type)

    def __repr__(cls) -> str:
        """Print as the real type."""
        return repr(cls.real_type)


def scalar_type(
    real: type, is_traced: Callable[[object], bool], convert: str | Callable[[object], object]
) -> type:
    """Return a stand-in for `float`, `int`, `complex` or a NumPy scalar type such as `np.float64`.

    `convert` is the conversion of a traced value, a function or the name of a method of the value.
    The stand-in subclasses the real type; `dtype=standin`, `x.dtype == standin`, `standin(3.0)`,
    `isinstance(3.0, standin)` and a dict keyed by the real type work as with the real one.
    """

    def convert_traced(value: object) -> object:
        if not is_traced(value):
            return NotImplemented
        return getattr(value, convert)() if isinstance(convert, str) else convert(value)

    space: dict[str, object] = {
        "__doc__": real.__doc__,
        "__module__": real.__module__,
        "__slots__": (),
        "real_type": real,
        "convert_traced": staticmethod(convert_traced),
        "dtype": np.dtype(real),
    }
    return _ScalarMeta(real.__name__, (real,), space)


class _TypeObject:
    """A stand-in for a type that cannot be subclassed usefully; answers for the real one."""

    def __init__(self, real: type) -> None:
        """Stand for `real`."""
        self.real_type = real

    @property  # type: ignore[misc]  # read-only here
    def __class__(self) -> type:
        """Pass for a type in `isinstance(bool, type)`."""
        return type

    def __instancecheck__(self, value: object) -> bool:
        """Answer for the real type."""
        return isinstance(value, self.real_type)

    def __subclasscheck__(self, kind: type) -> bool:
        """Answer for the real type."""
        return issubclass(kind, self.real_type)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        """Stand back when used as a base class."""
        return (self.real_type,)

    def __or__(self, other: object) -> object:
        """Build the union type of an annotation."""
        return cast(Any, self.real_type) | other  # unions take any type form

    def __ror__(self, other: object) -> object:
        """Build the union type of an annotation."""
        return cast(Any, other) | self.real_type  # unions take any type form

    def __getattr__(self, name: str) -> Any:  # whatever the real type has
        """Read an attribute of the real type."""
        return getattr(self.real_type, name)

    def __eq__(self, other: object) -> bool:
        """Equal the real type; let a dtype decide for itself."""
        return True if other is self or other is self.real_type else NotImplemented

    def __hash__(self) -> int:
        """Hash as the real type."""
        return hash(self.real_type)

    def __repr__(self) -> str:
        """Print as the real type."""
        return repr(self.real_type)


class BoolStandin(_TypeObject):
    """Stands for `bool`: a traced value stays traced through `__fjit_bool__`."""

    def __init__(self, is_traced: Callable[[object], bool]) -> None:
        """Take what tells traced values."""
        super().__init__(bool)
        self.is_traced = is_traced
        self.dtype = np.dtype(bool)

    def __call__(self, value: object = False, /) -> object:
        """Convert."""
        if self.is_traced(value):
            return cast(Any, value).__fjit_bool__()  # the tracer's protocol
        return bool(value)


class TypeStandin(_TypeObject):
    """Stands for `type`: a traced value is an ndarray, a plain number has the type in sight.

    Inside the trace the name `float` means the stand-in, so `type(3.0) is float` needs it, too.
    """

    def __init__(self, protocol: Protocol, types: dict[type, object]) -> None:
        """Take the stand-ins of the other types."""
        super().__init__(type)
        self.protocol = protocol
        self.types = types

    def __call__(self, value: object, *rest: Any, **keywords: Any) -> object:  # the 3-argument form
        """Return the type of a value, or make a class."""
        if rest or keywords:
            return cast(Any, type)(value, *rest, **keywords)  # type's own overloads
        if self.protocol.is_traced(value):
            return _type_of(self.protocol, value)
        kind = type(value)
        return self.types.get(kind, kind)


class SeenType(_TypeObject):
    """Stands for `type` in one trace: maps the class that `inner` finds to the one to be seen."""

    def __init__(self, inner: Callable[..., object], see: Callable[[object], object]) -> None:
        """Take the tracer's `type`, or Python's, and the map."""
        super().__init__(type)
        self.inner = inner
        self.see = see

    def __call__(self, value: object, *rest: Any, **keywords: Any) -> object:  # type's two forms
        """Return the type of a value, or make a class."""
        found = self.inner(value, *rest, **keywords)
        return found if rest else self.see(found)


def _type_of(protocol: Protocol, value: object) -> type:
    """Return the type a traced value stands for."""
    ask = getattr(value, "__fjit_type__", None)
    return cast(type, ask()) if ask is not None else protocol.array_type


# --------------------------------------------------------------------------------------------------
# Functions
# --------------------------------------------------------------------------------------------------


def _isinstance(protocol: Protocol) -> Callable[[object, Any], bool]:
    """Return an `isinstance` for which a traced value is an array."""

    def isinstance_(value: object, kinds: Any, /) -> bool:  # a type, a union, a tuple of them
        if protocol.is_traced(value):
            return issubclass(_type_of(protocol, value), kinds)
        return isinstance(value, kinds)

    return isinstance_


def _extremum(
    protocol: Protocol, plain: Callable[..., object], better: Callable[[Any, Any], object]
) -> Callable[..., object]:
    """Return a `min` or `max` with Python's order: a later item replaces the best if it is better.

    `min(a, b)` is `b if b < a else a`, NaN included; with a traced condition that is a select.
    """

    def extremum(*args: Any, key: Any = None, **default: Any) -> object:  # as the builtin takes
        if len(args) > 1 and key is None and not any(map(protocol.is_traced, args)):
            return plain(*args, **default)
        items = list(args[0] if len(args) == 1 else args)
        if not items or (key is None and not any(map(protocol.is_traced, items))):
            return plain(items, **default)
        best, best_key = items[0], items[0] if key is None else key(items[0])
        for item in items[1:]:
            item_key = item if key is None else key(item)
            wins = better(item_key, best_key)
            if protocol.is_traced(wins):
                best = protocol.select(wins, item, best)
                best_key = best if key is None else protocol.select(wins, item_key, best_key)
            elif wins:
                best, best_key = item, item_key
        return best

    return extremum


def _sum(protocol: Protocol) -> Callable[..., object]:
    """Return a `sum` that lets a traced array add its elements by itself."""

    def sum_(values: Iterable[Any], /, start: Any = 0) -> object:  # whatever adds
        if protocol.is_traced(values) and hasattr(values, "__fjit_sum__"):
            return cast(Any, values).__fjit_sum__(start)  # the tracer's protocol
        return builtins.sum(values, start)

    return sum_


def _truth(
    protocol: Protocol, plain: Callable[[Iterable[object]], bool], name: str
) -> Callable[[Iterable[object]], object]:
    """Return an `any` or `all` that reduces a traced vector as an array.

    Over other iterables it stops at the first item that decides, as Python does; the truth of a
    traced item is then asked one by one.
    """

    def truth(values: Iterable[object], /) -> object:
        if protocol.is_traced(values) and getattr(values, "ndim", None) == 1:
            return getattr(values, name)().__fjit_bool__()
        return plain(values)

    return truth


# --------------------------------------------------------------------------------------------------
# Refused callables
# --------------------------------------------------------------------------------------------------


class Refused:
    """Stands for a callable that a trace would freeze: raises when called, not when named."""

    def __init__(self, real: object, refuse: Callable[[], object]) -> None:
        """Stand for `real`; `refuse` raises."""
        self.real = real
        self.refuse = refuse

    def __call__(self, *args: object, **keywords: object) -> object:
        """Refuse."""
        return self.refuse()

    def __getattr__(self, name: str) -> object:
        """Read an attribute; methods of a refused class are refused, too."""
        value = getattr(self.real, name)
        return Refused(value, self.refuse) if callable(value) else value

    def _refused(self, *_: object) -> Any:  # stands for methods of several types
        """Refuse what is asked of a refused mapping, such as os.environ."""
        self.refuse()

    __getitem__ = __setitem__ = __delitem__ = __contains__ = __iter__ = __len__ = _refused

    def __bool__(self) -> bool:
        """A callable is true, a mapping is asked for its length."""
        return not hasattr(self.real, "__len__") or bool(len(self))

    def __instancecheck__(self, value: object) -> bool:
        """Let `isinstance` work with a refused class."""
        return isinstance(value, cast(type, self.real))

    def __repr__(self) -> str:
        """Print as the real thing."""
        return repr(self.real)
