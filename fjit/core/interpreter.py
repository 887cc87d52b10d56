"""The reference: runs a program, fused or not, with each primitive's NumPy meaning.

Takes a program and arrays, gives arrays. Invariant: the result does not depend on how equations are
grouped into kernels. Symbols are bound to numbers when the equation that defines them has run.
"""

from typing import Any

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Literal, Program, Sym, Var

Env = dict[Atom, Any]  # values are NumPy arrays or scalars
Bound = dict[Sym, int]


def _resolve(value: object, bound: Bound, env: Env) -> object:
    if isinstance(value, Sym):
        if value not in bound:
            origin = env[value.origin]
            bound[value] = int(np.count_nonzero(origin) if origin.dtype == bool else origin.sum())
        return bound[value]
    if isinstance(value, tuple):
        return tuple(_resolve(v, bound, env) for v in value)
    return value


def _bind(var: Var, value: Any, bound: Bound) -> None:
    for extent, size in zip(var.aval.shape, np.shape(value), strict=True):
        if isinstance(extent, Sym):
            bound.setdefault(extent, size)


def _eval(eqn: Eqn, operands: list[Any], bound: Bound, env: Env) -> tuple[Any, ...]:
    program = eqn.get("program")
    if isinstance(program, Program):
        return _run(program, operands, bound)
    params = {key: _resolve(value, bound, env) for key, value in eqn.meant}
    with np.errstate(all="ignore"):
        result = p.meaning(eqn.primitive)(*operands, **params)
    return (np.asarray(result, dtype=eqn.output.aval.dtype),)


def _run(program: Program, arguments: list[Any], bound: Bound) -> tuple[Any, ...]:
    env: Env = {}
    for var, value in zip(program.inputs, arguments, strict=True):
        env[var] = np.asarray(value, dtype=var.aval.dtype)
        _bind(var, env[var], bound)

    def read(atom: Atom) -> Any:
        return np.asarray(atom.value) if isinstance(atom, Literal) else env[atom]

    for eqn in program.eqns:
        results = _eval(eqn, [read(a) for a in eqn.inputs], bound, env)
        for var, value in zip(eqn.outputs, results, strict=True):
            env[var] = value
            _bind(var, value, bound)
    return tuple(read(a) for a in program.outputs)


def needed(program: Program) -> Program:
    """The program without the equations that its outputs do not depend on."""
    wanted = {a for a in program.outputs if isinstance(a, Var)}
    eqns: list[Eqn] = []
    for eqn in reversed(program.eqns):
        if wanted.isdisjoint(eqn.outputs):
            continue
        eqns.append(eqn)
        wanted.update(a for a in eqn.inputs if isinstance(a, Var))
        wanted.update(e.origin for v in eqn.outputs for e in v.aval.shape if isinstance(e, Sym))
    return Program(program.inputs, tuple(reversed(eqns)), program.outputs)


def interpret(program: Program, *arguments: Any) -> tuple[Any, ...]:
    """Run `program` on arrays; one array per output, each its own memory."""
    return tuple(np.array(a) for a in _run(program, list(arguments), {}))
