"""Views as index arithmetic: one step from a view's element to the operand's element.

Takes an equation and the indices of one element of its result, gives where that element is read:

    transpose[perm=(1,0)] a   at (i, j)   reads   a at (j, i)
    pad[low=(1,) ...] a v     at (i,)     reads   a at (i-1,) if 0 <= i-1 < n else v

Invariant: no view moves memory; guards say where an operand may be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Extent, Literal, Primitive, Shape, Sym, Var
from fjit.errors import InternalError
from fjit.optimize import index as ix
from fjit.optimize.index import ZERO, Gathered, Guard, Holds, Index, Indices, Inside, Lockstep


class OutOfStepError(InternalError):
    """A filter's result is asked for an element by its position, which only memory knows."""


class Read(NamedTuple):
    """An element of a value."""

    atom: Atom
    at: Indices


class Choice(NamedTuple):
    """The first option whose guard holds; the last guard is empty."""

    options: tuple[tuple[Guard, Read], ...]


class Position(NamedTuple):
    """The index itself is the value (iota)."""

    inner: Index


Source = Read | Choice | Position


def _operand(eqn: Eqn, k: int = 0) -> Atom:
    return eqn.inputs[k]


def _broadcast(eqn: Eqn, at: Indices) -> Source:
    axes: tuple[int, ...] = eqn.param("axes")  # type: ignore[assignment]
    operand = _operand(eqn)
    indices = tuple(
        ZERO if extent == 1 else at[axis]
        for extent, axis in zip(operand.aval.shape, axes, strict=True)
    )
    return Read(operand, indices)


def _transpose(eqn: Eqn, at: Indices) -> Source:
    perm: tuple[int, ...] = eqn.param("perm")  # type: ignore[assignment]
    indices = [ZERO] * len(perm)
    for k, axis in enumerate(perm):
        indices[axis] = at[k]
    return Read(_operand(eqn), tuple(indices))


def _reshape(eqn: Eqn, at: Indices) -> Source:
    operand = _operand(eqn)
    return Read(operand, reshaped(operand.aval.shape, eqn.output.aval.shape, at))


def reshaped(old: Shape, new: Shape, at: Indices) -> Indices:
    """Indices into shape `old` of the element at `at` of shape `new` (C order)."""
    result: list[Index] = []
    rest = [(e, i) for e, i in zip(new, at, strict=True) if e != 1]
    for group_old, group_new in _groups(old, [e for e, _ in rest]):
        taken, rest = rest[: len(group_new)], rest[len(group_new) :]
        result.extend(_regroup(group_old, taken))
    return tuple(result)


def _groups(old: Shape, new: list[Extent]) -> Iterator[tuple[list[Extent], list[Extent]]]:
    """Smallest runs of axes with equal products; axes of extent 1 of `old` join as they come."""
    k = 0
    group_old: list[Extent] = []
    group_new: list[Extent] = []
    a = b = 1
    for extent in old:
        if isinstance(extent, Sym):
            yield [extent], [extent]
            k += 1
            continue
        group_old.append(extent)
        a *= extent
        while b < a and k < len(new):
            step = new[k]
            if isinstance(step, Sym):
                break
            group_new.append(step)
            b *= step
            k += 1
        if a == b or a == 0:
            yield group_old, group_new
            group_old, group_new, a, b = [], [], 1, 1
    if group_old or group_new:
        yield group_old, group_new


def _regroup(old: list[Extent], taken: list[tuple[Extent, Index]]) -> list[Index]:
    if len(old) == 1 and len(taken) == 1:
        return [taken[0][1]]
    linear = ZERO
    for extent, index in taken:
        assert isinstance(extent, int), "a reshape keeps symbolic extents whole"
        linear = ix.plus(ix.affine(linear, extent, 0), index)
    result: list[Index] = []
    for position, size in enumerate(reversed(old)):
        assert isinstance(size, int), "a reshape keeps symbolic extents whole"
        last = position == len(old) - 1
        if size == 1:
            result.append(ZERO)
            continue
        result.append(linear if last else ix.remainder(linear, size))
        linear = ix.quotient(linear, size)
    return result[::-1]


def _slice(eqn: Eqn, at: Indices) -> Source:
    starts: tuple[int, ...] = eqn.param("starts")  # type: ignore[assignment]
    steps: tuple[int, ...] = eqn.param("steps")  # type: ignore[assignment]
    indices = tuple(ix.affine(i, c, s) for i, s, c in zip(at, starts, steps, strict=True))
    return Read(_operand(eqn), indices)


def _pad(eqn: Eqn, at: Indices) -> Source:
    low: tuple[int, ...] = eqn.param("low")  # type: ignore[assignment]
    operand, guard, indices = _operand(eqn), [], []
    for index, shift, extent in zip(at, low, operand.aval.shape, strict=True):
        inner = ix.affine(index, 1, -shift)
        indices.append(ZERO if extent == 1 else inner)
        if isinstance(extent, int):
            guard.append(ix.inside(inner, 0, extent))
    inside = Read(operand, tuple(indices))
    return _choice(((tuple(guard), inside), ((), Read(_operand(eqn, 1), ()))))


def _choice(options: tuple[tuple[Guard, Read], ...]) -> Source:
    """Drop conditions that always hold and options that never do."""
    kept: list[tuple[Guard, Read]] = []
    for guard, read in options:
        verdicts = [(c, ix.always(c)) for c in guard]
        if any(v is False for _, v in verdicts):
            continue
        left = tuple(c for c, v in verdicts if v is None)
        kept.append((left, read))
        if not left:
            break
    if len(kept) == 1:
        return kept[0][1]
    return Choice(tuple(kept))


def _concatenate(eqn: Eqn, at: Indices) -> Source:
    axis: int = eqn.param("axis")  # type: ignore[assignment]
    options: list[tuple[Guard, Read]] = []
    start = 0
    for operand in eqn.inputs:
        size = operand.aval.shape[axis]
        assert isinstance(size, int)
        inner = ix.affine(at[axis], 1, -start)
        place = ZERO if size == 1 else inner  # the only one there is, whatever the guard says
        read = Read(operand, (*at[:axis], place, *at[axis + 1 :]))
        if size:
            options.append(((ix.inside(inner, 0, size),), read))
        start += size
    if not options:
        return Read(eqn.inputs[0], at)
    options[-1] = ((), options[-1][1])
    return _choice(tuple(options))


def _update(eqn: Eqn, at: Indices) -> Source:
    starts: tuple[int, ...] = eqn.param("starts")  # type: ignore[assignment]
    steps: tuple[int, ...] = eqn.param("steps")  # type: ignore[assignment]
    base, value = eqn.inputs
    guard: list[Inside] = []
    indices: list[Index] = []
    for index, start, step, extent in zip(at, starts, steps, value.aval.shape, strict=True):
        if isinstance(extent, Sym):
            indices.append(index)
            continue
        if step < 0:  # position p = start + i*step; count i from the lowest position upwards
            low, stride = start + (extent - 1) * step, -step
        else:
            low, stride = start, step
        offset = ix.affine(index, 1, -low)
        guard.append(ix.inside(offset, 0, (extent - 1) * stride + 1))
        if stride > 1:
            guard.append(ix.inside(ix.remainder(offset, stride), 0, 1))
            offset = ix.quotient(offset, stride)
        if extent == 1:
            offset = ZERO
        indices.append(ix.affine(offset, -1, extent - 1) if step < 0 else offset)
    region = Read(value, tuple(indices))
    return _choice(((tuple(guard), region), ((), Read(base, at))))


def _diagonal(eqn: Eqn, at: Indices) -> Source:
    offset: int = eqn.param("offset")  # type: ignore[assignment]
    axes = (eqn.param("axis1"), eqn.param("axis2"))
    operand = _operand(eqn)
    position = at[-1]
    along = {
        axes[0]: ix.affine(position, 1, max(-offset, 0)),
        axes[1]: ix.affine(position, 1, max(offset, 0)),
    }
    rest = iter(at[:-1])
    return Read(operand, tuple(along[k] if k in along else next(rest)
                               for k in range(operand.aval.ndim)))  # fmt: skip


def _gather(eqn: Eqn, at: Indices) -> Source:
    axes: tuple[int, ...] = eqn.param("axes")  # type: ignore[assignment]
    operand, *arrays = eqn.inputs
    lead = arrays[0].aval.ndim
    rest = iter(at[lead:])
    indices: list[Index] = []
    for axis, extent in enumerate(operand.aval.shape):
        if axis not in axes:
            indices.append(next(rest))
            continue
        size = extent if isinstance(extent, int) else extent.bound
        indices.append(ix.of(Gathered(arrays[axes.index(axis)], at[:lead], size)))
    return Read(operand, tuple(indices))


def _iota(eqn: Eqn, at: Indices) -> Source:
    axis: int = eqn.param("axis")  # type: ignore[assignment]
    return Position(at[axis])


def _compress(eqn: Eqn, at: Indices) -> Source:
    term = at[0].terms[0][0] if at[0].terms else None
    if not isinstance(term, Lockstep):
        raise OutOfStepError("compress read out of step with its mask")
    return Read(eqn.inputs[1], (*term.at, *at[1:]))


def _expand(eqn: Eqn, at: Indices) -> Source:
    mask, values, base = eqn.inputs
    lead = mask.aval.ndim
    extent = values.aval.shape[0]
    assert isinstance(extent, Sym)
    position = ix.of(Lockstep(extent, at[:lead]))
    inside = Read(values, (position, *at[lead:]))
    return Choice((((Holds(mask, at[:lead]),), inside), ((), Read(base, at))))


STEPS: dict[Primitive, Callable[[Eqn, Indices], Source]] = {
    p.broadcast: _broadcast,
    p.transpose: _transpose,
    p.reshape: _reshape,
    p.slice_: _slice,
    p.pad: _pad,
    p.concat: _concatenate,
    p.update: _update,
    p.diagonal: _diagonal,
    p.gather: _gather,
    p.iota: _iota,
    p.compress: _compress,
    p.expand: _expand,
}
"""Where each view reads; a row a primitive."""


def step(eqn: Eqn, at: Indices) -> Source:
    """One step through a view; a missing row is an InternalError."""
    rule = STEPS.get(eqn.primitive)
    if rule is None:
        raise InternalError(f"{eqn.primitive.name}: no row in optimize/demand.STEPS")
    return rule(eqn, at)


def operand_indices(operand: Atom, at: Indices) -> Indices:
    """Indices of an elementwise operand: rank 0 has none."""
    return at if operand.aval.shape else ()


class Leaf(NamedTuple):
    """A value that the walk stops at: an input, a stored value or a reduction's result."""

    var: Var
    at: Indices
    guarded: bool


Env = Mapping[Var, Eqn]
"""Producers of the values that may be computed in place."""
Places = dict[Indices, None]
"""The indices at which a value is computed, in the order in which they were met."""


def sources(env: Env, atom: Atom, at: Indices) -> list[tuple[Atom, Indices, bool]]:
    """What one element of `atom` is computed from: (value, indices, under a guard)."""
    eqn = env[atom]  # type: ignore[index]
    if eqn.primitive.family == "elementwise":
        return [(a, operand_indices(a, at), False) for a in eqn.inputs]
    source = step(eqn, at)
    if isinstance(source, Position):
        return gathered(at)
    if isinstance(source, Read):
        return [(source.atom, source.at, False), *gathered(source.at)]
    found: list[tuple[Atom, Indices, bool]] = []
    for guard, read in source.options:
        found.append((read.atom, read.at, not in_bounds(read)))
        found.extend(gathered(read.at))
        for condition in guard:
            if isinstance(condition, Holds):
                found.append((condition.atom, condition.at, False))
    return found


def gathered(at: Indices) -> list[tuple[Atom, Indices, bool]]:
    """Index arrays read inside indices."""
    found: list[tuple[Atom, Indices, bool]] = []
    stack = list(at)
    while stack:
        for term, _ in stack.pop().terms:
            if isinstance(term, Gathered):
                found.append((term.atom, term.at, False))
            elif isinstance(term, (ix.Div, ix.Mod)):
                stack.append(term.inner)
    return found


def in_bounds(read: Read) -> bool:
    """Whether the axes' extents prove that an element exists, so that it may be read unguarded."""
    for atom, at, _ in gathered(read.at):
        if not in_bounds(Read(atom, at)):
            return False
    for index, extent in zip(read.at, read.atom.aval.shape, strict=True):
        bounds = ix.span(index)
        size = extent if isinstance(extent, int) else extent.bound
        if bounds is None or bounds[0] < 0 or bounds[1] >= size:
            return False
    return True


def walk(
    env: Env, roots: list[tuple[Atom, Indices]], *, unguarded: bool = False
) -> tuple[list[Leaf], dict[Var, Places]]:
    """All leaves that elements of `roots` read, and the indices at which each value is computed.

    With `unguarded` only what is read whatever the guards say.
    """
    leaves: dict[tuple[Var, Indices], Leaf] = {}
    computed: dict[Var, Places] = {}
    stack: list[tuple[Atom, Indices, bool]] = [(a, at, False) for a, at in roots]
    while stack:
        atom, at, guarded = stack.pop()
        if isinstance(atom, Literal):
            continue
        if atom not in env:
            leaves.setdefault((atom, at), Leaf(atom, at, guarded))
            continue
        seen = computed.setdefault(atom, {})
        if at in seen:
            continue
        seen[at] = None
        for operand, indices, under in sources(env, atom, at):
            if not (unguarded and under):
                stack.append((operand, indices, guarded or under))
    return list(leaves.values()), computed
