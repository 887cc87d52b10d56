"""One trace with its guards and kernels, and what of a call it depends on.

Takes a call's leaves, gives kinds: hashable descriptions that are equal where one trace serves
both. Invariant: everything that a program, a plan or machine code depends on, of an argument or a
captured array, is part of its kind.

    kind_of(np.ones((2, 3)))    ->    (float64, (2, 3), (24, 8), True)
    kind_of(2.5)                ->    (float, "scalar")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import optree

from fjit.core.interpreter import interpret
from fjit.core.ir import Program
from fjit.core.placed import Placed, on_host
from fjit.errors import BRANCH_ADVICE, BranchError, FjitError, FjitTypeError
from fjit.frontend import overlap
from fjit.frontend.function import Traced, input_aval
from fjit.frontend.guards import Guard
from fjit.lower.memory import Memory
from fjit.runtime.alignment import settled_strides
from fjit.runtime.machines import Machine
from fjit.runtime.records import Record
from fjit.runtime.refusals import Computed, Given

if TYPE_CHECKING:
    from fjit.optimize.plan import Plan
    from fjit.planning import Policy
    from fjit.runtime.executable import Executable

MAX_PATHS: Final = 8


class CacheInfo(NamedTuple):
    """Calls answered by a known trace, calls that traced, traces, kernels compiled, seconds spent
    on tracing and compiling, and bytes of machine code.
    """

    hits: int
    misses: int
    traces: int
    compiles: int
    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Choices:
    """What the keywords of `fuse` chose."""

    target: str = "auto"
    static_argnames: tuple[str, ...] = ()
    fusion: str | Callable[[Any], bool] = "auto"
    threads: int | None = None
    cache: bool = True
    width: int = 0
    fastmath: frozenset[str] = frozenset()
    max_registers: int | None = None


class Call(NamedTuple):
    """A call taken apart: traced leaves, their key, how to rebuild the arguments."""

    leaves: list[Any]
    key: tuple[Any, ...]
    spec: optree.PyTreeSpec
    dynamic: tuple[bool, ...]
    values: list[Any]


@dataclass(frozen=True, slots=True)
class Branches:
    """The Python branches of a trace, and which way they went: on numbers of the call, on others.

    `program` computes the others, of which `values` are what they were.
    """

    given: tuple[Given, ...]
    program: Program
    executable: Executable | None
    values: tuple[bool | int, ...]

    @property
    def computed(self) -> Computed | None:
        """The kernels of the computed ones."""
        return None if self.executable is None else Computed(self.executable, self.values)

    def hold(self, arguments: list[Any]) -> bool:
        """Whether the arguments lead through the same branches."""
        if any(type(value)(arguments[k]) != value for k, value in self.given):
            return False
        if not self.values:
            return True
        if self.executable is None:
            found: Sequence[Any] = interpret(self.program, *map(on_host, arguments))
        else:
            try:
                found = self.executable.run(arguments)[0]
            except FjitError:  # an error on another path than these arguments take
                return False
        pairs = zip(found, self.values, strict=True)
        return all(type(v)(on_host(a).reshape(())[()]) == v for a, v in pairs)


@dataclass(slots=True, eq=False)
class Entry:
    """One trace with its guards, compiled for one kind of arguments."""

    traced: Traced
    executable: Executable | None
    guards: tuple[Guard, ...]
    once: bool
    branches: Branches | None
    memory: tuple[Memory, ...]
    policy: Policy
    kinds: dict[int, tuple[Any, ...]]
    watched: bool  # whether captured arrays may share memory with arguments in a way that matters
    planned: tuple[Program, Plan] | None  # None until somebody looks, if a form was at hand
    machine: Machine  # what runs it
    record: Record | str = ""  # for the native entry; or why there is none, once that is known

    @property
    def program(self) -> Program:
        """The optimized program."""
        return self._planned()[0]

    @property
    def plan(self) -> Plan:
        """Its plan."""
        return self._planned()[1]

    def _planned(self) -> tuple[Program, Plan]:
        if self.planned is None:
            from fjit.planning import planned  # loaded by then, if anything was compiled

            self.planned = planned(self.traced, self.memory, self.policy)
        return self.planned


def hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        raise FjitTypeError(
            f"a static argument must be hashable, and {type(value).__name__} is not; pass arrays "
            "as ordinary arguments"
        ) from None
    return value


def kind_of(leaf: Any) -> tuple[Any, ...]:
    """What of an argument a trace and its machine code depend on."""
    if type(leaf) is np.ndarray:
        return (leaf.dtype, leaf.shape, leaf.strides, leaf.flags.writeable)
    aval, weak = input_aval(leaf, "an argument")
    if isinstance(leaf, Placed):
        return (leaf.dtype, leaf.shape, leaf.strides, leaf.flags.writeable, leaf.place.number)
    if isinstance(leaf, np.ndarray):
        return (leaf.dtype, leaf.shape, leaf.strides, leaf.flags.writeable, type(leaf))
    return (weak or aval.dtype, "scalar")


def overlapping_captures(traced: Traced, arguments: list[Any]) -> bool:
    """Whether a written array meets the memory of a captured one that the trace took as another."""
    written = [write.position for write in traced.writes]
    captured = [k for k, c in traced.captures.items() if not isinstance(c.path, overlap.Shared)]
    if not written or not captured:
        return False
    arrays = [k for k, a in enumerate(arguments) if isinstance(a, np.ndarray)]
    return any(
        overlap.meets(arguments, [k], arrays if k in captured else captured)
        for k in written
        if k in arrays
    )


def are_apart(traced: Traced, arguments: list[Any]) -> bool:
    """Whether no input of a trace that writes shares memory with another one."""
    return not traced.aliases and not overlap.groups(arguments)


def check_paths(entry: Entry, known: list[Entry]) -> None:
    """Refuse the ninth way through the branches of one function for one kind of arguments."""
    computed = [b for b in entry.traced.branches if b.atom not in entry.traced.program.inputs]
    if computed and len(known) >= MAX_PATHS:
        raise BranchError(
            f"the branch at {computed[-1].where} led to {MAX_PATHS} different traces for one kind "
            f"of arguments. {BRANCH_ADVICE}"
        )


def kind_of_array(value: Any) -> tuple[Any, ...]:
    """What machine code depends on of an array; of anything else, what equals no array's."""
    if isinstance(value, Placed):
        return kind_of(value)
    if type(value) is not np.ndarray:
        return (type(value),)
    return (value.dtype, value.shape, value.strides)


def check_ranges(traced: Traced, leaves: list[Any]) -> None:
    """Python ints must fit the integer dtypes that they meet, as in NumPy."""
    for position, low, high in traced.int_ranges:
        if not low <= leaves[position] <= high:
            dtype = np.min_scalar_type(low) if low else np.min_scalar_type(high)
            raise OverflowError(f"Python integer {leaves[position]} out of bounds for {dtype}")


def memory_of(value: Any, *, on_gpu: bool = False) -> Memory:
    if isinstance(value, np.ndarray):
        strides = settled_strides(value) if on_gpu else value.strides
        # what no element needs may still be loaded, ahead of loops over none: always from one place
        strides = strides if value.size else (0,) * value.ndim
        return Memory(strides, not value.dtype.isnative)
    return Memory((), False, True)
