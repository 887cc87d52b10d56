"""An order of a program's equations that does not depend on how they were written down.

Takes a program, gives each equation a place: operands before what reads them, and otherwise by what
an equation computes and by who reads it. Invariant: neither names, the order of statements, nor the
order of a commutative operation's operands matters, as far as more than sizes and constants tells
equations apart; those alone do not, for plans are recorded for other sizes, too.

    let b = sin a; c = cos a in (b, c)      cos first, or sin, but the same for both orders
"""

from __future__ import annotations

import heapq
from hashlib import blake2b
from typing import Final

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Literal, Program, Sym, Var
from fjit.core.recorded import EXACT, plain

COMMUTATIVE: Final = frozenset(
    (p.add, p.mul, p.max_, p.min_, p.fmax, p.fmin, p.eq, p.ne, p.and_, p.or_, p.xor)
)

Mark = bytes
"""What distinguishes values: a digest of how they are computed, or of who reads them."""


def places(program: Program) -> dict[Eqn, int]:
    """The place of each equation."""
    made = {var: eqn for eqn in program.eqns for var in eqn.outputs}
    computed = _computed(program)
    read = _read(program, computed)
    reads = {eqn: reads_of(eqn) for eqn in program.eqns}
    depth: dict[Var, int] = {}
    for eqn in program.eqns:
        inner = [depth.get(var, 0) for var in reads[eqn]]
        depth.update(dict.fromkeys(eqn.outputs, 1 + max(inner, default=0)))
    position = {eqn: k for k, eqn in enumerate(program.eqns)}

    def key(eqn: Eqn) -> tuple[int, str, Mark, Mark, int]:
        first = eqn.outputs[0]
        name = eqn.primitive.name
        return depth[first], name, computed[first], read.get(first, b""), position[eqn]

    waiting = {eqn: sum(var in made for var in reads[eqn]) for eqn in program.eqns}
    readers: dict[Var, list[Eqn]] = {}
    for eqn in program.eqns:
        for var in reads[eqn]:
            readers.setdefault(var, []).append(eqn)
    ready = [(key(eqn), eqn) for eqn, count in waiting.items() if not count]
    heapq.heapify(ready)
    found: dict[Eqn, int] = {}
    while ready:
        _, eqn = heapq.heappop(ready)
        found[eqn] = len(found)
        for var in eqn.outputs:
            for reader in readers.get(var, ()):
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(ready, (key(reader), reader))
    return found


def reads_of(eqn: Eqn) -> list[Var]:
    """What has to be there before an equation: its operands, and masks that its extents follow."""
    found = dict.fromkeys(a for a in eqn.inputs if isinstance(a, Var))
    stack: list[object] = [*(v for _, v in eqn.params), *(v.aval.shape for v in eqn.outputs)]
    while stack:
        value = stack.pop()
        if isinstance(value, Sym):
            found.setdefault(value.origin)
        elif isinstance(value, tuple):
            stack.extend(value)
    return [var for var in found if var not in eqn.outputs]


def _computed(program: Program) -> dict[Atom, Mark]:
    """How each value is computed."""
    marks: dict[Atom, Mark] = {v: _digest("input", _aval(v)) for v in program.inputs}
    for eqn in program.eqns:
        operands = [marks[a] if a in marks else _literal(a) for a in eqn.inputs]
        if eqn.primitive in COMMUTATIVE:
            operands.sort()
        text = _digest(eqn.primitive.name, *map(_param, eqn.params), *operands)
        for k, var in enumerate(eqn.outputs):
            marks[var] = _digest(k, text, _aval(var))
    return marks


def _read(program: Program, computed: dict[Atom, Mark]) -> dict[Var, Mark]:
    """Who reads each value, in the end."""
    uses: dict[Var, list[Mark]] = {}
    for atom in program.outputs:
        if isinstance(atom, Var):
            uses.setdefault(atom, []).append(b"result")
    marks: dict[Var, Mark] = {}
    for eqn in reversed(program.eqns):
        for var in eqn.outputs:
            marks[var] = _digest(computed[var], *sorted(uses.get(var, ())))
        for k, atom in enumerate(eqn.inputs):
            if isinstance(atom, Var):
                at = 0 if eqn.primitive in COMMUTATIVE else k
                uses.setdefault(atom, []).append(_digest(at, marks[eqn.outputs[0]]))
    return marks


def _digest(*parts: object) -> Mark:
    return blake2b(repr(parts).encode(), digest_size=8).digest()


def _aval(var: Var) -> str:
    return f"{var.aval.dtype.str}{tuple(map(_text, var.aval.shape))}"


def _literal(atom: Atom) -> Mark:
    assert isinstance(atom, Literal)
    return _digest("literal", atom.aval.dtype.str)


def _param(item: tuple[str, object]) -> Mark:
    name, value = item
    return _digest(name, _text(value))


def _text(value: object) -> object:
    """A parameter or extent without what differs from run to run, or with the sizes alone."""
    if isinstance(value, tuple):
        return tuple(map(_text, value))
    if isinstance(value, np.dtype):
        return value.str
    if isinstance(value, int):
        size = plain(value)
        return size if -EXACT <= size <= EXACT else "n"
    return value if isinstance(value, str | None) else type(value).__name__
