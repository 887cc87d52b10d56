"""What is stored: the values that live in memory between kernels; all others are computed in place.

Takes a program, gives the set of stored values. A value is stored because it is a result, because a
library call reads or makes it, because it is read out of step with the filter that makes it, or
because computing it once costs less than computing it at every use.

    y = exp(x); y[1:] + y[:-1]      y is stored when two exponentials cost more than a round trip
"""

from __future__ import annotations

from collections.abc import Iterator

from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Literal, Program, Var
from fjit.optimize import cost, demand
from fjit.optimize import index as ix
from fjit.optimize.index import Axis, Indices

INLINE = ("elementwise", "view", "filter")
CALLS = ("library", "scatter", "barrier", "kernel")
STRIDED = frozenset((p.broadcast, p.transpose, p.reshape, p.slice_, p.diagonal))
"""Views that NumPy makes without copying."""
OUT_OF_STEP = frozenset(
    (p.argreduce, p.cumulate, p.gather, p.concat, p.pad, p.update, p.slice_, p.diagonal)
)
"""Primitives that need a filtered operand in memory: they count or shift its positions."""

JOINS = frozenset((p.concat, p.pad, p.update, p.expand))
"""Views that read one operand or another."""
MOST_REPEATS = 120
"""Times that one element of a join may need a value again, at another place or guard."""

Stored = dict[Var, None]
"""An ordered set of values."""
Producers = dict[Var, Eqn]


def inline_env(producers: Producers, stored: Stored) -> dict[Var, Eqn]:
    """Producers of the values that kernels compute in place."""
    return {v: e for v, e in producers.items() if e.primitive.family in INLINE and v not in stored}


def required(program: Program, producers: Producers, *, unfused: bool) -> Stored:
    """Values that must be stored: results, operands of calls; with `unfused` all NumPy would."""
    stored: Stored = {}

    def store(*atoms: Atom) -> None:
        for atom in atoms:
            if isinstance(atom, Var) and atom in producers:
                stored[atom] = None

    store(*program.outputs)
    for eqn in program.eqns:
        if eqn.primitive.family in CALLS:
            store(*eqn.inputs, *eqn.outputs)
        elif unfused and eqn.primitive not in STRIDED and eqn.outputs[0].aval.is_static:
            store(*eqn.outputs)  # filtered values stay in step, which fixes the order of their sums
    for var in _out_of_step(program, producers, stored):
        store(var)
    return stored


def _moving(eqn: Eqn) -> list[Var]:
    return [a for a in eqn.inputs if isinstance(a, Var) and not a.aval.is_static]


def _out_of_step(program: Program, producers: Producers, stored: Stored) -> Iterator[Var]:
    """Filtered values that are read by position, and what is combined with those."""
    packed: Stored = {}
    for eqn in program.eqns:
        var, moving = eqn.outputs[0], _moving(eqn)
        needs: list[Var] = []
        if eqn.primitive is p.expand:
            if eqn.inputs[1] in packed or not in_step(producers, eqn.inputs[1], eqn.inputs[0]):
                needs = [a for a in (*eqn.inputs, var) if isinstance(a, Var)]
        elif (
            eqn.primitive in OUT_OF_STEP
            or any(a in packed for a in moving)
            or _keeps_filtered_rows(eqn)
        ):
            needs = moving
        for atom in needs:
            packed[atom] = None
            yield atom
        behind = eqn.primitive in OUT_OF_STEP or eqn.primitive.family in CALLS or needs
        if not var.aval.is_static and (var in stored or (moving and behind)):
            packed[var] = None


def _keeps_filtered_rows(eqn: Eqn) -> bool:
    """Whether a filtered axis stays beside what the equation reduces or filters."""
    if sum(not isinstance(e, int) for e in eqn.outputs[0].aval.shape) > 1:
        return True
    if eqn.primitive.family == "reduction":
        return not eqn.outputs[0].aval.is_static
    if eqn.primitive is not p.compress:
        return False
    mask, operand = eqn.inputs
    return any(not isinstance(e, int) for e in operand.aval.shape[mask.aval.ndim :])


def in_step(producers: Producers, atom: Atom, mask: Atom) -> bool:
    """Whether filtered values can be computed at the positions of their mask."""
    seen: set[Var] = set()
    stack = [atom]
    while stack:
        value = stack.pop()
        if isinstance(value, Literal) or value in seen or value.aval.is_static:
            continue
        seen.add(value)
        eqn = producers.get(value)
        if eqn is None or eqn.primitive.family not in INLINE:
            return False
        if eqn.primitive is p.compress:
            if eqn.inputs[0] is not mask:
                return False
            continue
        if eqn.primitive.family == "view" and eqn.primitive is not p.broadcast:
            return False
        stack.extend(eqn.inputs)
    return True


def crowded(program: Program, producers: Producers, stored: Stored) -> Stored:
    """Joined, padded or updated values whose elements would need the same values too often.

    Every operand of such a view is computed under a guard of its own; where the views follow one
    another, the guards multiply.
    """
    found: Stored = {}
    env = inline_env(producers, stored)
    for eqn in program.eqns:
        value = eqn.outputs[0]
        if eqn.primitive not in JOINS or value not in env or not value.aval.is_static:
            continue
        if _repeats(env, value) > MOST_REPEATS:
            found[value] = None
            del env[value]
    return found


def _repeats(env: dict[Var, Eqn], root: Var) -> int:
    """How often one element needs values again, at another place or under another guard."""
    seen: set[tuple[Atom, Indices, tuple[object, ...]]] = set()
    stack: list[tuple[Atom, Indices, tuple[object, ...]]] = [(root, axes_for(root), ())]
    different: set[Atom] = set()
    while stack and len(seen) - len(different) <= MOST_REPEATS:
        atom, at, under = stack.pop()
        if atom not in env or (atom, at, under) in seen:
            continue
        seen.add((atom, at, under))
        different.add(atom)
        eqn = env[atom]
        if eqn.primitive.family == "elementwise":
            stack.extend((a, demand.operand_indices(a, at), under) for a in eqn.inputs)
            continue
        source = demand.step(eqn, at)
        if isinstance(source, demand.Read):
            stack.append((source.atom, source.at, under))
        elif isinstance(source, demand.Choice):
            rest = under
            for guard, read in source.options:
                here = under if demand.in_bounds(read) else (*rest, guard)
                stack.append((read.atom, read.at, here))
                rest = (*rest, ("not", guard))
    return len(seen) - len(different)


def axes_for(atom: Atom) -> Indices:
    """Fresh axes for every element of a value."""
    shape = atom.aval.shape
    return tuple(
        ix.of(Axis(k + 1, e if isinstance(e, int) else e.bound)) for k, e in enumerate(shape)
    )


def _evaluations(place: Indices, at: Indices) -> int:
    """How often a value is computed: in the outermost loop that knows all axes it depends on."""
    used = ix.axes_of(place)
    total, seen = 1, 1
    for index in at:
        for axis in ix.axes_of((index,)):
            seen *= axis.extent
            if axis in used:
                total = seen
    return total


def _roots(program: Program, producers: Producers, stored: Stored) -> list[Var]:
    """Values whose elements some loop walks over: stored ones, and operands of reductions."""
    roots = [v for v in stored if producers[v].primitive.family in INLINE]
    for eqn in program.eqns:
        if eqn.primitive.family in ("reduction", "cumulative"):
            operand = eqn.inputs[0]
            made = producers.get(operand) if isinstance(operand, Var) else None
            if made is not None and operand not in stored and made.primitive.family in INLINE:
                roots.append(made.outputs[0])
    return [v for v in dict.fromkeys(roots) if v.aval.is_static]


def recomputed(
    program: Program, producers: Producers, stored: Stored, inline: frozenset[Var] = frozenset()
) -> tuple[Var, float] | None:
    """The last value that is cheaper to store than to compute at each use, and how often it is.

    Values in `inline` are computed again, whatever it costs.
    """
    env = inline_env(producers, stored)
    times: dict[Var, int] = {}
    for root in _roots(program, producers, stored):
        at = axes_for(root)
        computed = demand.walk({**env, root: producers[root]}, [(root, at)])[1]
        for value, places in computed.items():
            if value is not root and producers[value].primitive.family == "elementwise":
                work = sum(_evaluations(place, at) for place in places)
                times[value] = max(times.get(value, 0), work)
    for eqn in reversed(program.eqns):
        value = eqn.outputs[0]
        count = times.get(value, 0) / max(value.aval.bound, 1)
        if count <= 1.0 or not value.aval.is_static or value in inline:
            continue
        if cost.worth_storing(closure_flops(producers, env, value), count, value.aval):
            return value, count
    return None


def closure_flops(producers: Producers, env: dict[Var, Eqn], value: Var) -> float:
    """Operations to compute one element from what is stored; a load counts half of one."""
    at = axes_for(value)
    leaves, computed = demand.walk(env, [(value, at)])
    total = 0.5 * len(leaves)
    for inner, places in computed.items():
        if producers[inner].primitive.family == "elementwise":
            total += cost.flops(producers[inner]) * len(places)
    return total


def shared(program: Program, env: dict[Var, Eqn], users: dict[Var, int]) -> list[Var]:
    """Heavy values that several kernels compute, last ones first; what they cover is left out."""
    chosen: list[Var] = []
    covered: set[Var] = set()
    for eqn in reversed(program.eqns):
        value = eqn.outputs[0]
        if users.get(value, 0) < 2 or value in covered or not value.aval.is_static:
            continue
        if cost.is_heavy(eqn):
            chosen.append(value)
            covered |= set(demand.walk(env, [(value, axes_for(value))])[1])
    return chosen
