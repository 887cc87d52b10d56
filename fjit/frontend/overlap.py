"""Arguments that share memory: one buffer for all of them; a write through one is seen in all.

Takes the arrays of a call, gives the groups that overlap and, in a trace, their views of one flat
buffer. Only functions that write into an argument need it.

    def f(a, b): a += 1; return b * 2       f(x[:-1], x[1:]) records one input, the elements of x;
                                            a and b are strided views of it
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import Atom
from fjit.core.placed import Placed, placed
from fjit.core.trace import Trace
from fjit.errors import UnsupportedError
from fjit.frontend import views
from fjit.frontend.layout import Strides
from fjit.frontend.paths import Path
from fjit.frontend.session import Session, place_of
from fjit.frontend.tracer import Tracer

Array = np.ndarray[Any, Any]
Groups = tuple[tuple[int, ...], ...]


def groups(leaves: Sequence[Any]) -> Groups:
    """Positions of arrays whose memory ranges meet, by connected component; folded ones alone."""
    arrays = [
        (k, *_bounds(a)) for k, a in enumerate(leaves) if isinstance(a, np.ndarray) and a.size
    ]
    found: list[tuple[int, ...]] = []
    current: list[int] = []
    end = -1
    for position, low, high in sorted(arrays, key=lambda row: row[1]):
        if current and low < end:
            current.append(position)
        else:
            if len(current) > 1:
                found.append(tuple(sorted(current)))
            current = [position]
        end = max(end, high)
    if len(current) > 1:
        found.append(tuple(sorted(current)))
    several = [g for g in found if len({place_of(leaves[k]) for k in g}) > 1]
    within = {k for g in several for k in g}
    folded = [
        (k,)
        for k, _, _ in arrays
        if k not in within and not leaves[k].flags.forc and _folds(leaves[k])
    ]
    return tuple(sorted([*several, *folded]))


def _folds(array: Array) -> bool:
    """Whether two elements of one array share memory (an as_strided window, say)."""
    reach = array.itemsize
    for stride, extent in sorted(
        (abs(s), n) for s, n in zip(array.strides, array.shape, strict=True)
    ):
        if extent > 1 and stride < reach:
            return True
        reach = max(reach, stride * (extent - 1) + reach) if extent > 1 else reach
    return False


def meets(arrays: Sequence[Any], written: Sequence[int], others: Sequence[int]) -> bool:
    """Whether the memory of a written array meets that of another one; both by position."""
    for a in written:
        for b in others:
            if a != b and np.may_share_memory(arrays[a], arrays[b]):
                return True
    return False


def relations(leaves: Sequence[Any], sharing: Groups) -> tuple[Any, ...]:
    """What a trace of overlapping arguments depends on: their distances in memory."""
    return tuple(
        (group, tuple(_bounds(leaves[k])[0] - _base(leaves, group) for k in group))
        for group in sharing
    )


def _bounds(array: Array) -> tuple[int, int]:
    if array.flags.forc:
        start = int(array.__array_interface__["data"][0])
        return start, start + array.nbytes
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(low), int(high)


def _base(leaves: Sequence[Any], group: tuple[int, ...]) -> int:
    return min(_bounds(leaves[k])[0] for k in group)


def flat(arrays: Sequence[Array]) -> Array:
    """All memory from the first to the last element of overlapping arrays, as one vector."""
    low = min(_bounds(a)[0] for a in arrays)
    high = max(_bounds(a)[1] for a in arrays)
    first = arrays[0]
    if isinstance(first, Placed):
        shape = ((high - low) // first.itemsize,)
        return placed(
            first.place, low, shape, first.dtype, holder=first.holder, stream=first.stream
        )
    memory: Any = (ctypes.c_char * (high - low)).from_address(low)
    return np.frombuffer(memory, first.dtype)


@dataclass(frozen=True, slots=True)
class Shared(Path):
    """The memory that some arguments of the call share; positions count all leaves."""

    positions: tuple[int, ...]

    def read(self, function: object, arguments: Sequence[object] = ()) -> object:
        """The flat vector over the arguments of this call."""
        return flat([arguments[k] for k in self.positions])  # type: ignore[misc]

    def __str__(self) -> str:
        """Say which arguments."""
        return "memory shared by arguments " + ", ".join(f"#{k}" for k in self.positions)


@dataclass(frozen=True, slots=True)
class Strided(views.Indexed):
    """View step: argument `leaf` within the shared vector."""

    leaf: int
    offset: int
    shape: tuple[int, ...]
    strides: Strides

    def index(self, trace: Trace) -> Atom:
        """Positions in the shared vector."""
        index: Atom = trace.literal(self.offset, np.dtype(np.int64))
        if not self.shape:
            return index
        for axis, stride in enumerate(self.strides):
            along = trace.emit(p.iota, shape=self.shape, axis=axis)
            step = trace.literal(stride, np.dtype(np.int64))
            index = trace.emit(p.add, trace.emit(p.mul, along, step), index)
        return index

    def read(self, trace: Trace, base: Atom) -> Atom:
        return trace.emit(p.gather, base, self.index(trace), axes=(0,))

    def write(self, trace: Trace, base: Atom, value: Atom) -> Atom:
        return trace.emit(p.scatter, base, value, self.index(trace), axes=(0,), op="set")


def share(
    session: Session,
    leaves: Sequence[Any],
    arguments: list[Tracer],
    sharing: Groups,
    places: Sequence[int],
) -> None:
    """Let the traced arguments of each group be views of one buffer.

    `places` gives the position of each traced leaf among all leaves of the call.
    """
    for group in sharing:
        arrays = [leaves[k] for k in group]
        dtype = arrays[0].dtype
        low = min(_bounds(a)[0] for a in arrays)
        starts = [int(a.__array_interface__["data"][0]) - low for a in arrays]
        steps = [s for a in arrays for s in a.strides]
        if any(a.dtype != dtype for a in arrays) or any(
            n % dtype.itemsize for n in (*starts, *steps)
        ):
            names = ", ".join(f"#{places[k]}" for k in group)
            raise UnsupportedError(
                f"arguments {names} share memory as arrays of different dtypes or alignments, and "
                "the function writes into one of them: pass copies"
            )
        vector = flat(arrays)
        buffer = session.capture(vector, Shared(tuple(places[k] for k in group)))
        buffer.writeable = all(a.flags.writeable for a in arrays)
        for k, array, start in zip(group, arrays, starts, strict=True):
            strides = tuple(s // dtype.itemsize for s in array.strides)
            view = Strided(k, start // dtype.itemsize, array.shape, strides)
            arguments[k] = Tracer(session.trace, buffer, (view,))
