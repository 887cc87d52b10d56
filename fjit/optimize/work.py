"""What a kernel moves and computes, counted from its roots, before there are any loops.

Takes a group's schedule and the equations that it may compute in place, gives a `Work`, and of a
whole program the least that any plan of it has to do. Invariant: sizes are asked for without a
condition (fjit/core/recorded.py), so work decides nothing but which of several right plans is used.

    exp(x).sum(), x float64[1000]     8,000 bytes read, 8 written, 1000 * (20 + 1) operations
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fjit.core.ir import Eqn, Extent, Var
from fjit.core.recorded import plain
from fjit.optimize import cost, demand
from fjit.optimize import index as ix
from fjit.optimize.drafts import root_reads
from fjit.optimize.index import Axis, Indices
from fjit.optimize.schedule import Schedule


class Work(NamedTuple):
    """Bytes read and written, and nanoseconds of arithmetic on one core."""

    read: float = 0.0
    written: float = 0.0
    compute_ns: float = 0.0

    def ns(self, scale: cost.Scale) -> float:
        """The time of a kernel that does this."""
        memory = (self.read + self.written) * scale.rate
        return cost.kernel_ns(memory * scale.factor, self.compute_ns * scale.factor)


class Computed(NamedTuple):
    """A value computed at a place, in some of a kernel's loops, outermost first."""

    var: Var
    place: Indices
    loops: tuple[Axis, ...]

    @property
    def times(self) -> int:
        """How often: in the outermost loop that knows all axes the place depends on."""
        used = ix.axes_of(self.place)
        total, seen = 1, 1
        for axis in self.loops:
            seen *= plain(axis.extent)
            if axis in used:
                total = seen
        return total


def loops_of(schedule: Schedule, level: str) -> tuple[Axis, ...]:
    """The loops around a root of some level, outermost first."""
    inner = () if schedule.inner is None else (schedule.inner,)
    around = {
        "inner": (*schedule.outer, *inner), "row": schedule.outer, "block": (), "column": inner,
    }  # fmt: skip
    return (*schedule.rows, *around[level])


def reads_of(
    env: demand.Env, schedule: Schedule
) -> tuple[dict[tuple[Var, Indices], None], dict[Computed, None]]:
    """What the roots of a schedule read from memory and compute, each once."""
    leaves: dict[tuple[Var, Indices], None] = {}
    found: dict[Computed, None] = {}
    for q in schedule.placed:
        read, computed = demand.walk(env, root_reads(q.root, q.at, q.guard))
        leaves.update(((leaf.var, leaf.at), None) for leaf in read)
        loops = loops_of(schedule, q.level)
        for var, places in computed.items():
            if env[var].primitive.family == "elementwise":
                found.update((Computed(var, place, loops), None) for place in places)
    return leaves, found


def work_of(env: Mapping[Var, Eqn], schedule: Schedule, strides: cost.Layout) -> Work:
    """The work of one kernel; `strides` gives the element strides of what is in memory."""
    leaves, computed = reads_of(env, schedule)
    compute = sum(cost.element_ns(env[c.var]) * c.times for c in computed)
    own = {q.root.var for q in schedule.placed}
    written = 0.0
    for q in schedule.placed:
        if q.root.eqn is None:
            written += plain(q.root.var.aval.nbytes)
        else:
            compute += cost.element_ns(q.root.eqn) * volume(q.at)
    touched: dict[Var, float] = {}
    for var, at in leaves:
        if var not in own:
            touched[var] = touched.get(var, 0.0) + volume(at) * var.aval.dtype.itemsize
    read = sum(min(bytes_of(var, strides(var)), size) for var, size in touched.items())
    return Work(read, written, compute)


def volume(at: Indices) -> int:
    """How many elements there are at some indices while their axes run."""
    return math.prod(plain(axis.extent) for axis in dict.fromkeys(ix.axes_of(at)))


def bytes_of(var: Var, strides: tuple[int, ...]) -> float:
    """Bytes of an array in memory: axes along which it repeats count once."""
    total: float = var.aval.dtype.itemsize
    for extent, stride in zip(var.aval.shape, strides, strict=True):
        total *= min(_size(extent), 1) if stride == 0 else _size(extent)
    return total


def _size(extent: Extent) -> int:
    found: int = plain(extent if isinstance(extent, int) else extent.bound)
    return found


def least(
    works: Iterable[tuple[Mapping[Var, Eqn], Schedule]], stored: Iterable[Var],
    read: Iterable[Var], strides: cost.Layout,
) -> Work:  # fmt: skip
    """The least work of any plan of a program, of which `works` are one's kernels.

    `stored` has to be in memory at the end, `read` is there before; each element of a value is
    computed at least once.
    """
    compute: dict[Var, float] = {}
    touched: dict[Var, float] = {}
    wanted = dict.fromkeys(read)
    for env, schedule in works:
        leaves, computed = reads_of(env, schedule)
        for c in computed:
            elements = min(volume(c.place), plain(c.var.aval.bound))
            least = cost.element_ns(env[c.var]) * elements
            compute[c.var] = max(compute.get(c.var, 0.0), least)
        for q in schedule.placed:
            if q.root.eqn is not None:
                compute[q.root.var] = cost.element_ns(q.root.eqn) * volume(q.at)
        for var, at in leaves:
            if var in wanted:
                size = volume(at) * var.aval.dtype.itemsize
                touched[var] = max(touched.get(var, 0.0), size)
    least_read = sum(min(bytes_of(v, strides(v)), size) for v, size in touched.items())
    written = sum(plain(v.aval.nbytes) for v in stored)
    return Work(least_read, 1.0 * written, sum(compute.values()))
