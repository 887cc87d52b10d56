"""A walk through a traced program that computes every value, and a note on it.

Takes a program, arguments and two rules, gives the outputs with their notes. `fjit.oracle.bounds`
notes how far a value may lie from NumPy's, `fjit.oracle.signs` what the sign of a NaN decides.

    b = neg a; c = add a b      calls rule(neg, [start(a)]), then rule(add, [start(a), <b>])

Invariant: equations are taken in order, once each; extents that arise on the way are known to the
parameters that name them. `Undetermined` is raised where nothing that follows can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import Eqn, Literal, Primitive, Program, Sym

Array = Any  # NumPy arrays of any dtype

MOVED: Final[dict[Primitive, tuple[int, ...] | None]] = {
    p.broadcast: None, p.transpose: None, p.reshape: None, p.slice_: None, p.pad: None,
    p.concat: None, p.update: None, p.diagonal: None, p.barrier: None, p.gather: (0,),
    p.expand: (1, 2), p.compress: (1,), p.repeat: (0,), p.iota: (),
}  # fmt: skip
"""Primitives that only move values, and which operands hold these (None: all)."""


class Undetermined(Exception):
    """A value that is not certain decides a shape or an index."""


class Valued(Protocol):
    """A value with a note."""

    @property
    def value(self) -> Array:
        """The value."""


T = TypeVar("T", bound=Valued)
Rule = Callable[[Eqn, list[T], dict[str, Any], Array], T]


def walk(
    program: Program, arguments: Sequence[Any], start: Callable[[Array], T], rule: Rule[T]
) -> list[T]:
    """The outputs of `program` with their notes.

    `start` makes the note of an input or literal, `rule` that of an equation's result, from the
    equation, its operands, its parameters with extents known, and the result's value.
    """
    env: dict[Any, T] = {}
    extents: dict[Sym, int] = {}

    def read(atom: Any) -> T:
        return start(np.asarray(atom.value)) if isinstance(atom, Literal) else env[atom]

    for var, value in zip(program.inputs, arguments, strict=True):
        env[var] = start(np.asarray(value, var.aval.dtype))
    with np.errstate(all="ignore"):
        for eqn in program.eqns:
            operands = [read(a) for a in eqn.inputs]
            params = {key: _resolved(value, extents) for key, value in eqn.meant}
            made = p.meaning(eqn.primitive)(*(o.value for o in operands), **params)
            result = rule(eqn, operands, params, np.asarray(made, eqn.output.aval.dtype))
            env[eqn.output] = result
            for extent, size in zip(eqn.output.aval.shape, result.value.shape, strict=True):
                if isinstance(extent, Sym):
                    extents.setdefault(extent, size)
    return [read(a) for a in program.outputs]


def _resolved(value: object, extents: dict[Sym, int]) -> object:
    if isinstance(value, Sym):
        return extents.get(value, value.bound)
    return tuple(_resolved(v, extents) for v in value) if isinstance(value, tuple) else value


def moved(
    primitive: Primitive,
    values: Sequence[Array],
    notes: Sequence[Array],
    loose: Sequence[bool],
    params: dict[str, Any],
) -> Array:
    """The notes of what `primitive` moves, moved as the values are.

    `loose` says which operands are not certain; Undetermined where one of those is an index or a
    mask.
    """
    data = MOVED[primitive]
    held = range(len(values)) if data is None else data
    if any(is_loose for k, is_loose in enumerate(loose) if k not in held):
        raise Undetermined(f"an index or a mask of {primitive} is not certain")
    given = [notes[k] if k in held else values[k] for k in range(len(values))]
    result: Array = p.meaning(primitive)(*given, **params)
    return result
