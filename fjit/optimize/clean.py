"""Cleaning: equations nobody reads are dropped, equal equations are computed once.

Takes a program, gives a program; both passes keep the order of what stays and give the same object
back when nothing changed.

    let b = exp a; c = exp a; d = neg a; e = add b c in (e,)
    becomes
    let b = exp a; c = add b b in (c,)

Invariant: a variable that is the origin of a symbolic extent is never replaced, and a symbol that
is still named keeps the equation that determines it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fjit.core import primitives as p
from fjit.core.ir import Atom, Aval, Eqn, Literal, Program, Sym, Var

Key = tuple[object, ...]


def symbols(aval: Aval) -> Iterator[Sym]:
    """The symbolic extents of an aval."""
    return (extent for extent in aval.shape if isinstance(extent, Sym))


def origins(program: Program) -> set[Var]:
    """The variables that determine a symbolic extent somewhere in `program`."""
    found: set[Var] = set()
    for var in program.inputs:
        found.update(s.origin for s in symbols(var.aval))
    for eqn in program.eqns:
        for var in eqn.outputs:
            found.update(s.origin for s in symbols(var.aval))
    return found


def with_inputs(eqn: Eqn, inputs: tuple[Atom, ...]) -> Eqn:
    """`eqn` reading other operands of the same avals."""
    return Eqn(eqn.primitive, inputs, eqn.params, eqn.outputs, eqn.source, eqn.scope)


# ---- dead code ----------------------------------------------------------------------------------
def remove_dead(program: Program) -> Program:
    """`program` without equations whose outputs nobody reads."""
    live = {a for a in program.outputs if isinstance(a, Var)}
    binders = _binders(program)
    pending: set[Eqn] = set()
    kept: list[Eqn] = []
    for var in live:
        pending.update(binders[s] for s in symbols(var.aval) if s in binders)
    for eqn in reversed(program.eqns):
        if eqn not in pending and live.isdisjoint(eqn.outputs):
            continue
        kept.append(eqn)
        live.update(a for a in eqn.inputs if isinstance(a, Var))
        if binders:
            for var in eqn.outputs:
                pending.update(binders[s] for s in symbols(var.aval) if s in binders)
    if len(kept) == len(program.eqns):
        return program
    return Program(program.inputs, tuple(reversed(kept)), program.outputs)


def _binders(program: Program) -> dict[Sym, Eqn]:
    """The first equation that determines each symbolic extent."""
    found: dict[Sym, Eqn] = {}
    for eqn in program.eqns:
        if eqn.primitive.family in ("filter", "library"):
            extent = eqn.get("extent")
            if isinstance(extent, Sym):
                found.setdefault(extent, eqn)
    return found


# ---- common subexpressions ----------------------------------------------------------------------
def merge_common(program: Program) -> Program:
    """`program` with equal equations (primitive, operands, parameters) computed once."""
    known: dict[Key, tuple[Var, ...]] = {}
    renamed: dict[Atom, Atom] = {}
    pinned = origins(program)
    kept: list[Eqn] = []
    for eqn in program.eqns:
        if renamed and any(a in renamed for a in eqn.inputs):
            eqn = with_inputs(eqn, tuple(renamed.get(a, a) for a in eqn.inputs))
        if eqn.primitive.family != "barrier":
            key = (eqn.primitive, tuple(map(_atom_key, eqn.inputs)), eqn.params)
            first = known.setdefault(key, eqn.outputs)
            if first is not eqn.outputs and pinned.isdisjoint(eqn.outputs):
                renamed.update(zip(eqn.outputs, first, strict=True))
                continue
        kept.append(eqn)
    if not renamed:
        return program
    outputs = tuple(renamed.get(a, a) for a in program.outputs)
    return Program(program.inputs, tuple(kept), outputs)


# ---- outputs ------------------------------------------------------------------------------------
def own_outputs(program: Program) -> Program:
    """`program` with outputs that are inputs, or that it has already, as copies of them."""
    seen: set[Atom] = set(program.inputs)
    copies: list[Eqn] = []
    outputs: list[Atom] = []
    for atom in program.outputs:
        if atom in seen and isinstance(atom, Var):
            copied = Var(atom.aval)
            copies.append(Eqn(p.copy, (atom,), (), (copied,)))
            atom = copied
        seen.add(atom)
        outputs.append(atom)
    if not copies:
        return program
    return Program(program.inputs, (*program.eqns, *copies), tuple(outputs))


def _atom_key(atom: Atom) -> object:
    """Variables by identity, literals by dtype and bits: -0.0 is not 0.0 and NaN is itself."""
    if isinstance(atom, Literal) and atom.word is None:
        return (atom.aval.dtype, atom.value.tobytes())
    return atom
