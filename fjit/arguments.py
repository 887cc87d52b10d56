"""The arguments of a call taken apart: leaves, what of them is static by value, and their kind.

Takes a call's arguments, gives a `Call`. Invariant: calls of one key may share a trace, as far as
their arguments go.

    f(x, mode="wrap")    ->    leaves [x], key (tree, (kind of x, (str, "wrap")))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from types import FunctionType
from typing import Any, Final

import numpy as np
import optree

from fjit.core import tree
from fjit.entries import Call, hashable, kind_of
from fjit.errors import FjitValueError, UnsupportedError
from fjit.frontend import overlap
from fjit.runtime.addresses import address_of

_STATIC: Final = (str, bytes, np.dtype, type, FunctionType, slice, Enum)


class Arguments:
    """How calls of one function are taken apart.

    `locate` gives the geometry of an array in other memory than the host's. `written` says whether
    the function writes into arguments, so that their overlap matters.
    """

    def __init__(
        self, function: Callable[..., Any], names: tuple[str, ...], locate: Callable[[Any], Any]
    ) -> None:
        self.names, self.locate = names, locate
        self.written = False
        self._positions = _positions_of(function, names)

    def take_apart(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Call:
        """The leaves of a call, those that are traced, and their kind."""
        leaves, spec = tree.flatten((args, keywords))
        static = self._static_leaves(args, keywords) if self._positions else None
        dynamic: list[bool] = []
        traced: list[Any] = []
        parts: list[Any] = []
        for number, leaf in enumerate(leaves):
            leaf = leaves[number] = self.locate(leaf)
            if (static is not None and static[number]) or isinstance(leaf, _STATIC):
                dynamic.append(False)
                parts.append((type(leaf), hashable(leaf)))
                continue
            dynamic.append(True)
            traced.append(leaf)
            parts.append(kind_of(leaf))
        if len(traced) > 1:
            self._note_sharing(traced, parts)
        return Call(traced, (spec, tuple(parts)), spec, tuple(dynamic), leaves)

    def _note_sharing(self, leaves: list[Any], parts: list[Any]) -> None:
        """Add to the key which arrays are the same and, if that matters, how they overlap."""
        first: dict[int, int] = {}
        for number, leaf in enumerate(leaves):
            if isinstance(leaf, np.ndarray) and first.setdefault(address_of(leaf), number) < number:
                parts.append((number, first[address_of(leaf)]))
        if self.written:
            parts.append(overlap.relations(leaves, overlap.groups(leaves)))

    def _static_leaves(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[bool]:
        flags: list[bool] = []
        for number, value in enumerate(args):
            count = len(tree.flatten(value)[0])
            flags.extend([number in self._positions] * count)
        for name in sorted(keywords):
            count = len(tree.flatten(keywords[name])[0])
            flags.extend([name in self.names] * count)
        return flags


def _positions_of(function: Callable[..., Any], names: tuple[str, ...]) -> frozenset[Any]:
    if not names:
        return frozenset()
    parameters = inspect.signature(function).parameters
    known = list(parameters)
    variadic = any(q.kind is inspect.Parameter.VAR_KEYWORD for q in parameters.values())
    for name in names:
        if name not in known and not variadic:
            raise FjitValueError(
                f"static_argnames names {name!r}, which is no parameter of the function; its "
                f"parameters are {', '.join(known)}"
            )
    return frozenset({k for k, name in enumerate(known) if name in names} | {*names})


def refuse_changed_containers(
    spec: optree.PyTreeSpec, leaves: list[Any], arguments: tuple[Any, ...]
) -> None:
    """The containers of the arguments are rebuilt for the trace: changes to them would be lost."""
    after, now = tree.flatten(arguments)
    if now == spec and all(a is b for a, b in zip(leaves, after, strict=True)):
        return
    raise UnsupportedError(
        "the function assigns into a container that it was given (a list, dict or dataclass "
        "argument), which a fused function does not do to its caller: return the new values, or "
        "change the arrays themselves in place, as in p.x[...] = value"
    )
