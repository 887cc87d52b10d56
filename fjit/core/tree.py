"""Nested containers of arrays, through optree.

Takes nested tuples, lists, dicts, named tuples, None and registered dataclasses; gives flat leaves
and a structure that rebuilds them. Invariant: unflatten(flatten(x)) has the types and order of x.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any, TypeVar

import optree

from fjit.errors import FjitTypeError

NAMESPACE = "fjit"
C = TypeVar("C", bound=type)


def flatten(tree: Any) -> tuple[list[Any], optree.PyTreeSpec]:
    """Leaves in order, and the structure. None is part of the structure."""
    leaves, spec = optree.tree_flatten(tree, none_is_leaf=False, namespace=NAMESPACE)
    return leaves, spec


def unflatten(spec: optree.PyTreeSpec, leaves: Iterable[Any]) -> Any:
    """The tree with `leaves` in place."""
    return optree.tree_unflatten(spec, leaves)


def paths(tree: Any) -> list[str]:
    """A printable path for each leaf, such as `[0]['w']`."""
    accessors = optree.tree_accessors(tree, none_is_leaf=False, namespace=NAMESPACE)
    return [accessor.codify("") for accessor in accessors]


def register_dataclass(
    cls: C | None = None, *, data_fields: tuple[str, ...] = (), meta_fields: tuple[str, ...] = ()
) -> Any:
    """Let instances of a dataclass be taken apart like a dict of its fields.

    `data_fields` hold arrays (all fields by default, less `meta_fields`); `meta_fields` are static
    and compared by value. Usable as a decorator. Raises FjitTypeError if `cls` is no dataclass.

    >>> from dataclasses import dataclass
    >>> import fjit
    >>> @fjit.register_dataclass
    ... @dataclass
    ... class Point:
    ...     x: object
    ...     y: object
    """
    if cls is None:
        return lambda c: register_dataclass(c, data_fields=data_fields, meta_fields=meta_fields)
    if not dataclasses.is_dataclass(cls):
        raise FjitTypeError(f"register_dataclass: {cls!r} is not a dataclass")
    names = [f.name for f in dataclasses.fields(cls)]
    data = tuple(data_fields) or tuple(n for n in names if n not in meta_fields)
    meta = tuple(meta_fields) or tuple(n for n in names if n not in data)

    def take_apart(value: Any) -> tuple[Any, ...]:
        statics = tuple(getattr(value, n) for n in meta)
        return [getattr(value, n) for n in data], statics, data

    def build(statics: tuple[Any, ...], children: Iterable[Any]) -> Any:
        instance = object.__new__(cls)
        fields = [*zip(data, children, strict=True), *zip(meta, statics, strict=True)]
        for name, value in fields:
            object.__setattr__(instance, name, value)
        return instance

    node: Any = cls  # optree's own annotations ask for a collection
    rebuild: Any = build
    optree.register_pytree_node(node, take_apart, rebuild, namespace=NAMESPACE)
    return cls
