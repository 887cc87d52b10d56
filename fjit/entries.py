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
from typing import Any, Final, NamedTuple

import numpy as np
import optree

from fjit.core import primitives as p
from fjit.core.interpreter import interpret
from fjit.core.ir import Program, Var
from fjit.errors import BRANCH_ADVICE, BranchError, FjitError, FjitTypeError
from fjit.frontend import overlap
from fjit.frontend.function import Traced, input_aval
from fjit.frontend.guards import Guard
from fjit.lower.build import Memory
from fjit.optimize.frames import framed
from fjit.optimize.plan import Plan, plan
from fjit.optimize.products import written_out
from fjit.runtime.executable import Executable
from fjit.runtime.panels import usable
from fjit.runtime.records import Record

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


class Call(NamedTuple):
    """A call taken apart: traced leaves, their key, how to rebuild the arguments."""

    leaves: list[Any]
    key: tuple[Any, ...]
    spec: optree.PyTreeSpec
    dynamic: tuple[bool, ...]
    values: list[Any]


@dataclass(frozen=True, slots=True)
class Branches:
    """The Python branches of a trace: a program for their conditions, and the values they had."""

    program: Program
    executable: Executable | None
    values: tuple[bool | int, ...]

    def hold(self, arguments: list[Any]) -> bool:
        """Whether the arguments lead through the same branches."""
        if self.executable is None:
            found: Sequence[Any] = interpret(self.program, *arguments)
        else:
            try:
                found = self.executable.run(arguments)[0]
            except FjitError:  # an error on another path than these arguments take
                return False
        pairs = zip(found, self.values, strict=True)
        return all(type(v)(a.reshape(())[()]) == v for a, v in pairs)


@dataclass(slots=True, eq=False)
class Entry:
    """One trace with its guards, compiled for one kind of arguments."""

    traced: Traced
    program: Program
    plan: Plan
    executable: Executable | None
    guards: tuple[Guard, ...]
    once: bool
    branches: Branches | None
    memory: tuple[Memory, ...]
    kinds: dict[int, tuple[Any, ...]]
    watched: bool  # whether captured arrays may share memory with arguments in a way that matters
    record: Record | str = ""  # for the native entry; or why there is none, once that is known


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
    if isinstance(leaf, np.ndarray):
        return (leaf.dtype, leaf.shape, leaf.strides, leaf.flags.writeable, type(leaf))
    return (weak or aval.dtype, "scalar")


def overlapping_captures(traced: Traced, arguments: list[Any]) -> bool:
    """Whether a written array meets the memory of a captured one that the trace took as another."""
    written = [position for position, _ in traced.writes]
    captured = [k for k, c in traced.captures.items() if not isinstance(c.path, overlap.Shared)]
    if not written or not captured:
        return False
    arrays = [k for k, a in enumerate(arguments) if isinstance(a, np.ndarray)]
    others = captured if not set(written) <= set(captured) else arrays
    own = [k for k in written if k in arrays]
    return overlap.meets(arguments, own, others)


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
    if type(value) is not np.ndarray:
        return (type(value),)
    return (value.dtype, value.shape, value.strides)


def check_ranges(traced: Traced, leaves: list[Any]) -> None:
    """Python ints must fit the integer dtypes that they meet, as in NumPy."""
    for position, low, high in traced.int_ranges:
        if not low <= leaves[position] <= high:
            dtype = np.min_scalar_type(low) if low else np.min_scalar_type(high)
            raise OverflowError(f"Python integer {leaves[position]} out of bounds for {dtype}")


def memory_of(value: Any) -> Memory:
    if isinstance(value, np.ndarray):
        return Memory(value.strides, not value.dtype.isnative)
    return Memory((), False, True)


def plan_for(
    program: Program, traced: Traced, arguments: list[Any], fusion: str | Callable[[Any], bool]
) -> Plan:
    program = written_out(program)
    pairs = list(zip(program.inputs, arguments, strict=True))
    strides = {
        var: tuple(s // a.itemsize for s in a.strides) if isinstance(a, np.ndarray) else ()
        for var, a in pairs
    }
    orders: dict[Var, tuple[int, ...]] = {}
    for result in traced.results:
        if result.output is not None:
            atom = program.outputs[result.output]
            if isinstance(atom, Var):
                orders[atom] = result.order
    for position, output in traced.writes:
        atom = program.outputs[output]
        array = arguments[position]
        if isinstance(atom, Var):
            steps = [-abs(s) for s in array.strides]
            order = sorted(range(array.ndim), key=steps.__getitem__)
            orders.setdefault(atom, tuple(order))
    if any(eqn.primitive is p.matmul for eqn in program.eqns) and usable():
        readable = {var for var, a in pairs if isinstance(a, np.ndarray) and _is_readable(a)}
        program, orders = framed(program, strides, orders, readable)
    return plan(program, strides, orders, fusion)


def _is_readable(array: np.ndarray[Any, Any]) -> bool:
    """Whether a library can read an array's elements where they are."""
    whole = all(s % array.itemsize == 0 for s in array.strides)
    return array.dtype.isnative and whole
