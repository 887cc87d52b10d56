"""Writes into parts of arguments: the regions written and their values, for the whole new contents.

Takes a trace, gives one whose outputs hold only what a write changes, with the region of the
argument that each of them goes to:

    let b = add[...] ...; c = update[starts=(2,) steps=(1,)] x b in (c,)      writes x <- c
    becomes
    let b = add[...] ... in (b,)                                             writes x[2:5] <- b

Invariant: writing the regions in their order gives the argument the contents that it had before.
Updates of a view of an argument count as updates of the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from fjit.core import primitives as p
from fjit.core.interpreter import needed
from fjit.core.ir import Atom, Aval, Eqn, Program, Var
from fjit.core.region import Region
from fjit.frontend.function import Traced, Write

MOST_REGIONS: Final = 8
"""Regions of one argument; where more are written, it is written whole."""
MOST_READ: Final = 4
"""An argument that is read after it was written is written whole, with what reads it, unless its
regions are smaller by this factor."""

Changes = tuple["_Change", ...]
Before = Callable[[Atom], bool]
"""Whether a value is what a view of an argument showed before a write through it."""


class _Change(NamedTuple):
    """A region of an array, and the value that is written there."""

    region: Region
    value: Atom


def in_parts(traced: Traced) -> Traced:
    """`traced` with writes of regions for writes of whole arguments, where that is less."""
    if not traced.writes:
        return traced
    finder = _Finder(traced.program)
    outputs = list(traced.program.outputs)
    writes: list[Write] = []
    for write in traced.writes:
        changes = finder.worthwhile(traced.program.inputs[write.position], outputs[write.output])
        if not changes:
            writes.append(write)
            continue
        # the place of the whole contents goes to the first region, so that no output is left over
        places = [write.output, *range(len(outputs), len(outputs) + len(changes) - 1)]
        outputs.extend(changes[0].value for _ in changes[1:])
        for place, change in zip(places, changes, strict=True):
            outputs[place] = finder.shaped(change.value, change.region.sizes)
            writes.append(Write(write.position, place, change.region))
    if all(write.region is None for write in writes):
        return traced
    program = Program(traced.program.inputs, tuple(finder.eqns), tuple(outputs))
    program = program if traced.branches else needed(program)
    return replace(traced, program=program, writes=tuple(writes))


class _Finder:
    """Finds what the writes of one program change."""

    def __init__(self, program: Program) -> None:
        self.eqns = list(program.eqns)
        self.producers: dict[Atom, Eqn] = {v: e for e in program.eqns for v in e.outputs}
        self.uses: dict[Atom, int] = {}
        for atom in (*program.outputs, *(a for e in program.eqns for a in e.inputs)):
            self.uses[atom] = self.uses.get(atom, 0) + 1

    def worthwhile(self, before: Var, after: Atom) -> Changes:
        """What turns `before` into `after`; nothing if writing the whole costs no more."""
        if not before.aval.is_static or not before.aval.shape:
            return ()
        found = self._changes(after, lambda atom: atom is before)
        if not found:
            return ()
        last: dict[Region, _Change] = {}
        for change in found:  # what is written twice is written last
            last.pop(change.region, None)
            last[change.region] = change
        changes = tuple(last.values())
        many = len(changes) > MOST_REGIONS
        written = sum(change.region.elements for change in changes)
        is_read = self.uses[after] > 1
        most = before.aval.bound if len(changes) > 1 else before.aval.bound + 1
        most = before.aval.bound // MOST_READ if is_read else most
        return () if many or written >= most else changes

    def shaped(self, value: Atom, shape: tuple[int, ...]) -> Atom:
        """`value` in the shape of its region."""
        if value.aval.shape == shape:
            return value
        output = Var(Aval(shape, value.aval.dtype))
        self.eqns.append(Eqn(p.reshape, (value,), (("shape", shape),), (output,)))
        return output

    def _changes(self, after: Atom, before: Before) -> Changes | None:
        """The changes, in order, from a view's old contents to `after`; None if it is all new."""
        later: list[Changes] = []
        while not before(after):
            eqn = self.producers.get(after)
            if eqn is None or eqn.primitive is not p.update or not eqn.output.aval.is_static:
                return None
            after, value = eqn.inputs
            later.append(self._inside(after, value, _region(eqn, value.aval.shape)))
        return tuple(change for changes in reversed(later) for change in changes)

    def _inside(self, base: Atom, value: Atom, region: Region) -> Changes:
        """What an update of `region` of `base` to `value` changes: all, or parts of the region."""

        def sliced(atom: Atom) -> bool:
            eqn = self.producers.get(atom)
            return (
                eqn is not None
                and eqn.primitive is p.slice_
                and eqn.inputs[0] is base
                and _region(eqn, atom.aval.shape) == region
            )

        inner = self._changes(value, sliced)
        if inner is not None:
            return tuple(_Change(region.within(c.region), c.value) for c in inner)
        squeezed = self.producers.get(value)
        if squeezed is None or squeezed.primitive is not p.reshape:
            return (_Change(region, value),)
        axes = _kept(region.sizes, squeezed.inputs[0].aval.shape)
        if axes is None:
            return (_Change(region, value),)
        inner = self._changes(squeezed.inputs[0], lambda atom: self._squeezes(atom, sliced))
        if inner is None:
            return (_Change(region, value),)
        return tuple(_Change(region.within(c.region.spread(axes)), c.value) for c in inner)

    def _squeezes(self, atom: Atom, sliced: Before) -> bool:
        """Whether `atom` is a slice without some axes of extent 1."""
        eqn = self.producers.get(atom)
        return eqn is not None and eqn.primitive is p.reshape and sliced(eqn.inputs[0])


def _region(eqn: Eqn, sizes: Any) -> Region:
    """The region of a slice or update; its shapes are static and its parameters tuples of ints."""
    starts: Any = eqn.param("starts")
    steps: Any = eqn.param("steps")
    return Region(
        starts, sizes, tuple(1 if n == 1 else s for n, s in zip(sizes, steps, strict=True))
    )


def _kept(sizes: tuple[int, ...], shape: Any) -> tuple[int | None, ...] | None:
    """For each axis of `sizes` its place in `shape`, if that only leaves out axes of extent 1."""
    kept = [k for k, n in enumerate(sizes) if n != 1]
    if tuple(sizes[k] for k in kept) != tuple(shape):
        return None
    return tuple(kept.index(k) if k in kept else None for k in range(len(sizes)))
