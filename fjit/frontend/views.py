"""View steps: how a view reads its base, and how a write through it changes the base.

A traced array is a handle on a versioned buffer plus a chain of steps. Takes the base's atom, gives
the view's atom (`read`) or, given a new value of the view, the base's new atom (`write`):

    v = a[::2]; v += 1     becomes     b = slice[...] a;  c = add b 1;  d = update[...] a c

Invariant: read(write(base, value)) == value for every step but broadcast, which is never written.
"""

from dataclasses import dataclass
from typing import Protocol

from fjit.core import primitives as p
from fjit.core.ir import Atom, Shape
from fjit.core.trace import Trace
from fjit.errors import ReadOnlyError
from fjit.frontend.layout import Strides


class Step(Protocol):
    """One basic view operation."""

    @property
    def strides(self) -> Strides:
        """Strides of the view, in elements of the base."""

    def read(self, trace: Trace, base: Atom) -> Atom:
        """The view of `base`."""

    def write(self, trace: Trace, base: Atom, value: Atom) -> Atom:
        """The base after the view was set to `value`."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A strided region; full slices are allowed."""

    starts: tuple[int, ...]
    sizes: Shape
    steps: tuple[int, ...]
    strides: Strides

    def read(self, trace: Trace, base: Atom) -> Atom:
        return trace.emit(p.slice_, base, starts=self.starts, sizes=self.sizes, steps=self.steps)

    def write(self, trace: Trace, base: Atom, value: Atom) -> Atom:
        if any(extent == 0 for extent in self.sizes):
            return base
        if self.sizes == base.aval.shape:  # all of it, perhaps backwards
            return value if all(step == 1 for step in self.steps) else self.read(trace, value)
        return trace.emit(p.update, base, value, starts=self.starts, steps=self.steps)


@dataclass(frozen=True, slots=True)
class Transpose:
    """A permutation of axes."""

    perm: tuple[int, ...]
    strides: Strides

    def read(self, trace: Trace, base: Atom) -> Atom:
        return trace.emit(p.transpose, base, perm=self.perm)

    def write(self, trace: Trace, base: Atom, value: Atom) -> Atom:
        inverse = tuple(self.perm.index(k) for k in range(len(self.perm)))
        return trace.emit(p.transpose, value, perm=inverse)


@dataclass(frozen=True, slots=True)
class Reshape:
    """A reshape that NumPy does without copying, new axes and squeezes included."""

    shape: Shape
    strides: Strides

    def read(self, trace: Trace, base: Atom) -> Atom:
        return trace.emit(p.reshape, base, shape=self.shape)

    def write(self, trace: Trace, base: Atom, value: Atom) -> Atom:
        return trace.emit(p.reshape, value, shape=base.aval.shape)


@dataclass(frozen=True, slots=True)
class Diagonal:
    """A diagonal of two axes; NumPy's own `diagonal` is read-only, einsum views are not."""

    offset: int
    axis1: int
    axis2: int
    strides: Strides

    def read(self, trace: Trace, base: Atom) -> Atom:
        return trace.emit(p.diagonal, base, offset=self.offset, axis1=self.axis1, axis2=self.axis2)

    def write(self, trace: Trace, base: Atom, value: Atom) -> Atom:
        raise ReadOnlyError("assignment destination is read-only (np.diagonal returns such a view)")


@dataclass(frozen=True, slots=True)
class Broadcast:
    """np.broadcast_to: a read-only view with zero strides."""

    shape: Shape
    axes: tuple[int, ...]
    strides: Strides

    def read(self, trace: Trace, base: Atom) -> Atom:
        return trace.emit(p.broadcast, base, shape=self.shape, axes=self.axes)

    def write(self, trace: Trace, base: Atom, value: Atom) -> Atom:
        raise ReadOnlyError("assignment destination is read-only (a broadcast view)")


@dataclass(frozen=True, slots=True)
class Pick:
    """Traced integer positions along some axes, which go: `x[i]` where i is a traced int."""

    axes: tuple[int, ...]
    positions: tuple[Atom, ...]
    strides: Strides

    def read(self, trace: Trace, base: Atom) -> Atom:
        return trace.emit(p.gather, base, *self.positions, axes=self.axes)

    def write(self, trace: Trace, base: Atom, value: Atom) -> Atom:
        return trace.emit(p.scatter, base, value, *self.positions, axes=self.axes, op="set")


class Indexed:
    """Base of steps that show elements of a vector at given positions, some maybe twice."""

    __slots__ = ()

    def index(self, trace: Trace) -> Atom:
        """The positions, int64, in the shape of the view."""
        raise NotImplementedError


def read(trace: Trace, base: Atom, steps: tuple[Step, ...]) -> Atom:
    """The value of a view: `steps` applied to `base`."""
    for step in steps:
        base = step.read(trace, base)
    return base


def write(trace: Trace, base: Atom, steps: tuple[Step, ...], value: Atom) -> Atom:
    """The new base after the view at the end of `steps` was set to `value`."""
    if not steps:
        return value
    head, rest = steps[0], steps[1:]
    if isinstance(head, Indexed):  # several elements may be one, so only those written are set
        index = read(trace, head.index(trace), rest)
        return trace.emit(p.scatter, base, value, index, axes=(0,), op="set")
    if rest:
        value = write(trace, head.read(trace, base), rest, value)
    return head.write(trace, base, value)
