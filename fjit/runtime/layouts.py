"""Where the arrays and numbers of a call are, for the native entry to find them again.

Takes a call's arguments and the leaves that tracing took from them, gives a `Layout`: the call's
objects are its arguments, then what is in its containers, and each leaf is one of them. Invariant:
a call with the same layout has the same tree of containers, so the same leaves in the same order.

    f([x, y], k=z)    ->    objects [x, y], z, x, y;    leaves 2, 3, 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fjit.runtime import entry_ir


class Container(NamedTuple):
    """A dict, list or tuple among the objects: its number, and that of the first object in it."""

    place: int
    kind: int
    type: type
    keys: tuple[Any, ...]
    size: int
    first: int


class Layout(NamedTuple):
    """Positional arguments, names of the others as they were given, containers, leaves."""

    positional: int
    names: tuple[str, ...]
    containers: tuple[Container, ...]
    places: tuple[int, ...]


class _Walk:
    """The objects met so far, and the leaves among them, in the order of optree."""

    def __init__(self, objects: list[Any]) -> None:
        self.objects = objects
        self.containers: list[Container] = []
        self.places: list[int] = []

    def visit(self, place: int) -> bool:
        """Take an object apart; False if it is an unknown or empty container."""
        value = self.objects[place]
        kind = type(value)
        is_tuple = kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
        if not (is_tuple or kind in (dict, list)):
            self.places.append(place)
            return True
        first = len(self.objects)
        if not value or first + len(value) > entry_ir.MAX_OBJECTS:
            return False
        keys = tuple(value) if kind is dict else ()
        which = entry_ir.TUPLE if is_tuple else entry_ir.DICT if keys else entry_ir.LIST
        self.containers.append(Container(place, which, kind, keys, len(value), first))
        self.objects.extend(value.values() if keys else value)
        order = list(range(len(value)))
        try:
            order.sort(key=keys.__getitem__ if keys else None)
        except TypeError:  # keys without an order
            return False
        return all(self.visit(first + step) for step in order)


def layout_of(
    args: tuple[Any, ...], keywords: dict[str, Any], leaves: Sequence[Any]
) -> Layout | None:
    """Where `leaves` are in a call; None where something else than plain containers holds them."""
    names = tuple(keywords)
    walk = _Walk([*args, *keywords.values()])
    tops = [*range(len(args)), *(len(args) + names.index(name) for name in sorted(names))]
    if not all(walk.visit(top) for top in tops):
        return None
    found = [walk.objects[place] for place in walk.places]
    if len(found) != len(leaves) or any(a is not b for a, b in zip(found, leaves, strict=True)):
        return None
    return Layout(len(args), names, tuple(walk.containers), tuple(walk.places))
