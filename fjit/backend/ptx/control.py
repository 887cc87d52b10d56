"""How blocks end: branches, calls, returns, barriers.

Takes a block's last instruction and where it stands, gives its ending: a function that hands the
group's lanes on to the scheduler. Invariant: each lane of the group is handed on exactly once.

    @%p1 bra $L;  ->  lanes with %p1 to the block of $L, the others to the next block
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fjit.backend.ptx.access import reader
from fjit.backend.ptx.lanes import Group, Wave
from fjit.backend.ptx.program import Function, Instruction, Operand, Pack, Sym, Variable
from fjit.backend.ptx.types import PRED, U32
from fjit.errors import EmulatorError


class Scheduler(Protocol):
    """Where endings send lanes; schedule.py has the class."""

    @property
    def wave(self) -> Wave:
        """The wave whose lanes they are."""

    def push(self, block: int, group: Group) -> None:
        """Go on at a block."""

    def push_back(self, block: int, group: Group, spins: bool) -> None:
        """Go back to a block."""

    def exit(self, group: Group) -> None:
        """End."""

    def wait(self, group: Group, number: int, threads: int, following: int | None) -> None:
        """Wait at a barrier, or only count there if nothing follows."""

    def enter(self, name: str, start: int, following: int, group: Group) -> None:
        """Call a function."""

    def leave(self, name: str, group: Group) -> None:
        """Return from a function."""


End = Callable[[Scheduler, Group], None]
Copy = tuple[int, int, int]
"""Offsets of source and target in the frame, and the bytes to copy."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a block stands: its number, its function, and the numbers of what it may go to.

    `returns` collects, by the block that a call returns to, what to copy then. `spins` says that
    the block jumps back over accesses that wait for other threads.
    """

    function: Function
    block: int
    labels: dict[str, int]
    functions: dict[str, Function]
    starts: dict[str, int]
    frame: dict[str, tuple[int, int]]
    returns: dict[int, tuple[Copy, ...]]
    spins: bool


def ending(ins: Instruction | None, site: Site) -> End:
    """The ending of a block whose last instruction is this one, or falls through."""
    following = site.block + 1

    def fall(scheduler: Scheduler, group: Group) -> None:
        scheduler.push(following, group)

    if ins is None:
        return fall
    end = ENDINGS[ins.op](ins, site)
    if ins.guard is None:
        return end
    guard = reader(ins.guard, PRED)

    def guarded(scheduler: Scheduler, group: Group) -> None:
        yes, no = group.split(guard(group))
        if no is not None:
            fall(scheduler, no)
        if yes is not None:
            end(scheduler, yes)

    return guarded


def _target(operand: Operand, site: Site) -> int:
    if not isinstance(operand, Sym) or operand.name not in site.labels:
        raise EmulatorError("the label is not in this function.")
    return site.labels[operand.name]


def _bra(ins: Instruction, site: Site) -> End:
    target = _target(ins.operands[0], site)
    if target > site.block:
        return lambda scheduler, group: scheduler.push(target, group)
    return lambda scheduler, group: scheduler.push_back(target, group, site.spins)


def _brx(ins: Instruction, site: Site) -> End:
    """A branch to one of several labels."""
    table = ins.operands[1]
    names = dict(site.function.tables).get(table.name, ()) if isinstance(table, Sym) else ()
    targets = np.array([_target(Sym(name), site) for name in names])
    index = reader(ins.operands[0], U32)

    def end(scheduler: Scheduler, group: Group) -> None:
        places = group.spread(index(group))
        if int(places.max()) >= len(targets):
            raise group.fault("the branch index is beyond its table", int(places.argmax()))
        goals = targets[places]
        for target in np.unique(goals):
            part = group.where(goals == target)
            assert part is not None
            scheduler.push(int(target), part)

    return end


# Calls


def callee(ins: Instruction) -> str:
    """The name of the function that a call calls."""
    for item in ins.operands:
        if isinstance(item, Sym):
            return item.name
    raise EmulatorError("calls through registers are not handled.")


def _call(ins: Instruction, site: Site) -> End:
    function = site.functions[callee(ins)]
    place = next(k for k, item in enumerate(ins.operands) if isinstance(item, Sym))
    results = ins.operands[:place]
    arguments = ins.operands[place + 1 : place + 2]
    into = _copies(arguments, function.params, site)
    back = _copies(results, function.results, site)
    following = site.block + 1
    site.returns[following] = tuple((target, source, size) for source, target, size in back)
    start, name = site.starts[function.name], function.name

    def end(scheduler: Scheduler, group: Group) -> None:
        for source, target, size in into:
            scheduler.wave.frame.copy(group, source, target, size)
        scheduler.enter(name, start, following, group)

    return end


def _copies(
    actual: tuple[Operand, ...], formal: tuple[Variable, ...], site: Site
) -> tuple[Copy, ...]:
    """From the caller's parameter variables to the function's own."""
    names = actual[0].items if actual and isinstance(actual[0], Pack) else ()
    if len(names) != len(formal):
        raise EmulatorError(f"the function takes {len(formal)} parameters here, not {len(names)}.")
    found: list[Copy] = []
    for operand, variable in zip(names, formal, strict=True):
        if not isinstance(operand, Sym) or operand.name not in site.frame:
            raise EmulatorError("parameters of calls must be .param variables.")
        offset, size = site.frame[variable.name]
        found.append((site.frame[operand.name][0], offset, size))
    return tuple(found)


def _ret(ins: Instruction, site: Site) -> End:
    if site.function.entry:
        return _exit(ins, site)
    name = site.function.name
    return lambda scheduler, group: scheduler.leave(name, group)


def _exit(ins: Instruction, site: Site) -> End:
    return lambda scheduler, group: scheduler.exit(group)


def _trap(ins: Instruction, site: Site) -> End:
    def end(scheduler: Scheduler, group: Group) -> None:
        raise group.fault("the program stopped itself with a trap")

    return end


# Barriers


def _barrier(ins: Instruction, site: Site) -> End:
    """bar.sync waits for all threads of the block or as many as it says; bar.arrive only counts."""
    if ins.has("red") or not ins.has("sync", "arrive"):
        raise EmulatorError("the emulator does not know this kind of barrier.")
    number = reader(ins.operands[0], U32)
    count = reader(ins.operands[1], U32) if len(ins.operands) > 1 else None
    waits, following = ins.has("sync"), site.block + 1

    def end(scheduler: Scheduler, group: Group) -> None:
        numbers = number(group)
        threads = 0 if count is None else int(count(group)[0])
        for value in np.unique(numbers):
            part = group.where(numbers == value)
            assert part is not None
            scheduler.wait(part, int(value), threads, following if waits else None)
            if not waits:
                scheduler.push(following, part)

    return end


ENDINGS: dict[str, Callable[[Instruction, Site], End]] = {
    "bra": _bra,
    "brx": _brx,
    "call": _call,
    "ret": _ret,
    "exit": _exit,
    "trap": _trap,
    "bar": _barrier,
    "barrier": _barrier,
}
