"""A fused function: finds the trace that fits a call, or makes one, and runs its kernels.

Takes a function and choices, gives a callable. A kind of call is: the tree, dtypes, shapes and
strides of the arguments, the static values, and what was read from outside, which guards watch.
Invariant: an entry is used only while all its guards hold; arguments are changed only as the
function itself would.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import FunctionType, MethodType
from typing import Any, Final, NamedTuple

import numpy as np
import optree

from fjit.core import tree
from fjit.core.interpreter import interpret
from fjit.core.ir import Program, Var
from fjit.core.trace import current
from fjit.errors import (
    BRANCH_ADVICE,
    BranchError,
    FjitError,
    FjitTypeError,
    FjitValueError,
    ReadOnlyError,
    UnsupportedError,
)
from fjit.frontend import overlap
from fjit.frontend.binding import hooks
from fjit.frontend.function import Traced, input_aval, trace_function
from fjit.frontend.guards import Guard, Reads
from fjit.frontend.paths import Attr
from fjit.frontend.rebind import Rebound, rebind
from fjit.frontend.session import Session, place_of
from fjit.lower.build import Memory
from fjit.optimize.pipeline import optimize
from fjit.optimize.plan import Plan, plan
from fjit.report import build, lowered
from fjit.report.report import Report
from fjit.runtime.executable import Executable, Options, address_of, clear_kernels
from fjit.runtime.host import host
from fjit.runtime.outputs import result_of

MAX_ENTRIES: Final = 256
MAX_PATHS: Final = 8
_STATIC: Final = (str, bytes, np.dtype, type, FunctionType, slice, Enum)


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


class _Call(NamedTuple):
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


class Fused:
    """A fused function; call it like the original. Made by `fuse`."""

    def __init__(self, function: Callable[..., Any], choices: Choices) -> None:
        self.function = function
        self.choices = choices
        self._entries: OrderedDict[tuple[Any, ...], list[Entry]] = OrderedDict()
        self._lock = threading.RLock()
        self._hits = self._misses = self._traces = self._compiles = 0
        self._seconds = 0.0
        self._writes = False  # whether arguments are written, so that their overlap matters
        self._positions = _static_positions(function, choices.static_argnames)
        functools.update_wrapper(self, function)

    # ---- calling ----------------------------------------------------------------------------
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if current() is not None:
            return self.function(*args, **keywords)
        call = self._take_apart(args, keywords)
        entry, arguments = self._find(call, args, keywords)
        return self._run(entry, arguments)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: fused for each instance, whose attributes are guarded."""
        if instance is None:
            return self
        held = getattr(instance, "__dict__", None)
        key = f"_fused_{getattr(self.function, '__name__', id(self))}"
        bound = None if held is None else held.get(key)
        if bound is None or bound.function.__func__ is not self.function:
            bound = Fused(MethodType(self.function, instance), self.choices)
            if held is not None:
                held[key] = bound
        return bound

    def __reduce__(self) -> Any:
        name = getattr(self.function, "__qualname__", "")
        module = sys.modules.get(getattr(self.function, "__module__", ""))
        if getattr(module, name, None) is self:
            return name
        return _rebuild, (self.function, self.choices)

    def __repr__(self) -> str:
        return f"<fused {getattr(self.function, '__qualname__', self.function)!s}>"

    def _take_apart(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> _Call:
        leaves, spec = tree.flatten((args, keywords))
        static = self._static_leaves(args, keywords) if self._positions else None
        dynamic: list[bool] = []
        traced: list[Any] = []
        parts: list[Any] = []
        for number, leaf in enumerate(leaves):
            if (static is not None and static[number]) or isinstance(leaf, _STATIC):
                dynamic.append(False)
                parts.append((type(leaf), _hashable(leaf)))
                continue
            dynamic.append(True)
            traced.append(leaf)
            parts.append(_kind(leaf))
        if len(traced) > 1:
            self._note_sharing(traced, parts)
        return _Call(traced, (spec, tuple(parts)), spec, tuple(dynamic), leaves)

    def _note_sharing(self, leaves: list[Any], parts: list[Any]) -> None:
        """Add to the key which arrays are the same and, if that matters, how they overlap."""
        first: dict[int, int] = {}
        for number, leaf in enumerate(leaves):
            if isinstance(leaf, np.ndarray) and first.setdefault(address_of(leaf), number) < number:
                parts.append((number, first[address_of(leaf)]))
        if self._writes:
            parts.append(overlap.relations(leaves, overlap.groups(leaves)))

    def _static_leaves(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[bool]:
        flags: list[bool] = []
        for number, value in enumerate(args):
            count = len(tree.flatten(value)[0])
            flags.extend([number in self._positions] * count)
        for name in sorted(keywords):
            count = len(tree.flatten(keywords[name])[0])
            flags.extend([name in self.choices.static_argnames] * count)
        return flags

    def _find(
        self, call: _Call, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[Entry, list[Any]]:
        found = self._known(call)
        if found is not None:
            return found
        with self._lock:
            found = self._known(call)
            if found is not None:
                return found
            self._misses += 1
            entry, call = self._make(call)
            if not entry.once:
                known = self._entries.setdefault(call.key, [])
                _check_paths(entry, known)
                known.insert(0, entry)
                del known[MAX_PATHS:]
                self._entries.move_to_end(call.key)
                while len(self._entries) > MAX_ENTRIES:
                    self._entries.popitem(last=False)
        return entry, self._all_arguments(entry, call)

    def _known(self, call: _Call) -> tuple[Entry, list[Any]] | None:
        """An entry that is valid for the call, and its arguments."""
        for entry in self._entries.get(call.key, ()):
            arguments = self._arguments(entry, call)
            if arguments is not None:
                self._hits += 1
                if len(self._entries) > MAX_ENTRIES // 2:
                    self._used(call.key)
                return entry, arguments
        return None

    def _used(self, key: tuple[Any, ...]) -> None:
        """Note a use, so that the entries used least recently are forgotten first."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)

    def _arguments(self, entry: Entry, call: _Call) -> list[Any] | None:
        """The program's inputs for this call, or None if the entry is not valid for it."""
        function = self.function
        for guard in entry.guards:
            if not guard.holds(function, call.values):
                return None
        for position, low, high in entry.traced.int_ranges:
            if not low <= call.leaves[position] <= high:
                return None
        arguments = self._all_arguments(entry, call)
        for position in entry.traced.captures:
            if _kind_of_array(arguments[position]) != entry.kinds[position]:
                return None
        if entry.watched and not self._same_memory(entry, arguments, call):
            return None
        if entry.branches is not None and not entry.branches.hold(arguments):
            return None
        return arguments

    def _same_memory(self, entry: Entry, arguments: list[Any], call: _Call) -> bool:
        """Whether captured arrays share memory with arguments just as they did in the trace."""
        traced = entry.traced
        for path, position in traced.aliases:
            array = path.read(self.function, call.values)
            if type(array) is not np.ndarray or place_of(array) != place_of(arguments[position]):
                return False
        return not _overlapping_captures(traced, arguments)

    def _all_arguments(self, entry: Entry, call: _Call) -> list[Any]:
        arguments = list(call.leaves)
        for position in range(len(arguments), len(entry.program.inputs)):
            capture = entry.traced.captures[position]
            if capture.path is None:
                arguments.append(capture.array)
            else:
                arguments.append(capture.path.read(self.function, call.values))
        return arguments

    def _run(self, entry: Entry, arguments: list[Any]) -> Any:
        for position, _ in entry.traced.writes:
            if not arguments[position].flags.writeable:
                raise ReadOnlyError("assignment destination is read-only")
        if entry.executable is None:
            outputs: Sequence[Any] = interpret(entry.program, *arguments)
        else:
            outputs = entry.executable.run(arguments)[0]
        for position, output in entry.traced.writes:
            np.copyto(arguments[position], outputs[output])
        results = [result_of(r, outputs, arguments) for r in entry.traced.results]
        return tree.unflatten(entry.traced.result_tree, results)

    # ---- tracing and compiling --------------------------------------------------------------
    def _trace(self, call: _Call, *, follow: bool = True) -> tuple[Traced, Reads]:
        reads = Reads()
        holder: list[Rebound] = []

        def prepare(session: Session) -> None:
            session.refusal = reads.record_error
            adapters: dict[type, Any] = {Fused: _adapt}
            holder.append(rebind(self.function, hooks(session, adapters), reads))

        def run(traced: list[Any]) -> Any:
            values = iter(traced)
            leaves = [
                next(values) if dynamic else value
                for dynamic, value in zip(call.dynamic, call.values, strict=True)
            ]
            args, keywords = tree.unflatten(call.spec, leaves)
            result = holder[0](*args, **keywords)
            _refuse_changed_containers(call.spec, leaves, (args, keywords))
            return result

        paths = [f"#{k}" for k in range(len(call.leaves))]
        sharing = overlap.groups(call.leaves) if self._writes else ()
        places = [k for k, dynamic in enumerate(call.dynamic) if dynamic]
        return trace_function(run, call.leaves, paths, prepare, sharing, places, follow), reads

    def _make(self, call: _Call, *, compile_code: bool = True) -> tuple[Entry, _Call]:
        start = time.perf_counter()
        traced, reads = self._trace(call)
        if traced.writes and not self._writes:
            self._writes = True
            if overlap.groups(call.leaves):
                traced, reads = self._trace(call)
            call = self._take_apart(*tree.unflatten(call.spec, call.values))
        _check_ranges(traced, call.leaves)
        self._traces += 1
        program = optimize(traced.program)
        arguments = list(call.leaves)
        for position in range(len(arguments), len(program.inputs)):
            arguments.append(traced.captures[position].array)
        if _overlapping_captures(traced, arguments):
            raise UnsupportedError(
                "the function writes into an array that shares memory with another one, of which "
                "one is an argument and one captured from outside: pass both as arguments"
            )
        memory = tuple(_memory(a) for a in arguments)
        planned = _plan(program, traced, arguments, self.choices.fusion)
        executable = None
        if compile_code and self.choices.target != "interpreter":
            executable = Executable(planned, memory, self._options())
            self._compiles += executable.compiles
        self._seconds += time.perf_counter() - start
        entry = Entry(
            traced,
            program,
            planned,
            executable,
            reads.guards(inputs=False),
            bool(reads.effects),
            self._branches(traced, arguments, memory) if compile_code else None,
            memory,
            {k: _kind_of_array(c.array) for k, c in traced.captures.items()},
            bool(traced.aliases) or bool(traced.writes and traced.captures),
        )
        return entry, call

    def _branches(
        self, traced: Traced, arguments: list[Any], memory: tuple[Memory, ...]
    ) -> Branches | None:
        """The kernels that decide whether a later call takes the same Python branches."""
        if not traced.branches:
            return None
        atoms = tuple(b.atom for b in traced.branches)
        program = optimize(Program(traced.program.inputs, traced.program.eqns, atoms))
        planned = _plan(program, replace(traced, results=(), writes=()), arguments, "auto")
        executable = None
        if self.choices.target != "interpreter":
            executable = Executable(planned, memory, self._options())
            self._compiles += executable.compiles
        return Branches(program, executable, tuple(b.value for b in traced.branches))

    def _options(self) -> Options:
        choices = self.choices
        return Options(host(), choices.width, choices.threads, choices.cache)

    # ---- looking inside ---------------------------------------------------------------------
    def prepare(self, *args: Any, **keywords: Any) -> Entry:
        """The compiled entry that a call with these arguments would use; runs nothing."""
        call = self._take_apart(args, keywords)
        return self._find(call, args, keywords)[0]

    def explain(
        self, *args: Any, compile: bool = True, measure: bool = False, **keywords: Any
    ) -> Report:
        """Every kernel, library call and fusion decision of a call with these arguments.

        Args:
            *args: The call's arguments, and its keyword arguments; they are never changed.
            compile: Whether to compile, for actual registers and spills; else no LLVM is loaded.
            measure: Whether to time each kernel by itself, on these arguments.
            **keywords: See `args`.

        Returns:
            A `Report`: data, readable with `str`, shown as tables in a notebook.
        """
        call = self._take_apart(args, keywords)
        if not compile and not measure:
            entry = self._make(call, compile_code=False)[0]
            return build.report(self._stages(entry, args, keywords), compiled=False)
        entry, arguments = self._find(call, args, keywords)
        stages = self._stages(entry, args, keywords)
        if not measure or entry.executable is None:
            return build.report(stages, compiled=True)
        modules = [kernel.module for kernel in entry.executable.kernels]
        return build.report(stages, compiled=True, modules=modules, arguments=arguments)

    def lower(self, *args: Any, **keywords: Any) -> lowered.Lowered:
        """The stages of a call with these arguments: program, plan, nests, LLVM IR, assembly.

        Nothing runs; each text is made when it is asked for. See `Lowered`.
        """
        call = self._take_apart(args, keywords)
        return self._stages(self._make(call, compile_code=False)[0], args, keywords)

    def _stages(
        self, entry: Entry, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> lowered.Lowered:
        def finish() -> Fused:
            self.prepare(*args, **keywords)
            return self

        choices = self.choices
        native = choices.target != "interpreter"
        picked = lowered.Choices(native, choices.width, choices.threads, choices.cache)
        name = getattr(self.function, "__qualname__", repr(self.function))
        return lowered.Lowered(name, entry.program, entry.plan, entry.memory, picked, finish)

    def cache_info(self) -> CacheInfo:
        """Counts and costs so far; see CacheInfo."""
        kernels = {
            id(k.module): len(k.module.object_bytes)
            for entries in self._entries.values()
            for e in entries
            if e.executable is not None
            for k in e.executable.kernels
        }
        return CacheInfo(
            self._hits, self._misses, self._traces, self._compiles, self._seconds,
            sum(kernels.values()),
        )  # fmt: skip

    def cache_clear(self) -> None:
        """Forget all traces and machine code of this function, and reset the counts."""
        with self._lock:
            self._entries.clear()
            self._hits = self._misses = self._traces = self._compiles = 0
            self._seconds = 0.0
            clear_kernels()


def _rebuild(function: Callable[..., Any], choices: Choices) -> Fused:
    return Fused(function, choices)


def _adapt(value: object, path: Any, observer: Any) -> object:
    """A fused function met inside a trace is traced through."""
    assert isinstance(value, Fused)
    return observer.observe(value.function, Attr(path, "function"), value)


def _static_positions(function: Callable[..., Any], names: tuple[str, ...]) -> frozenset[Any]:
    if not names:
        return frozenset()
    parameters = inspect.signature(function).parameters
    known = list(parameters)
    variadic = any(q.kind is inspect.Parameter.VAR_KEYWORD for q in parameters.values())
    for name in names:
        if name not in known and not variadic:
            raise FjitValueError(
                f"static_argnames names {name!r}, which is no parameter of the function; its "
                f"parameters are {', '.join(known)}"
            )
    return frozenset({k for k, name in enumerate(known) if name in names} | {*names})


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        raise FjitTypeError(
            f"a static argument must be hashable, and {type(value).__name__} is not; pass arrays "
            "as ordinary arguments"
        ) from None
    return value


def _kind(leaf: Any) -> tuple[Any, ...]:
    """What of an argument a trace and its machine code depend on."""
    if type(leaf) is np.ndarray:
        return (leaf.dtype, leaf.shape, leaf.strides, leaf.flags.writeable)
    aval, weak = input_aval(leaf, "an argument")
    if isinstance(leaf, np.ndarray):
        return (leaf.dtype, leaf.shape, leaf.strides, leaf.flags.writeable, type(leaf))
    return (weak or aval.dtype, "scalar")


def _overlapping_captures(traced: Traced, arguments: list[Any]) -> bool:
    """Whether a written array meets the memory of a captured one that the trace took as another."""
    written = [position for position, _ in traced.writes]
    captured = [k for k, c in traced.captures.items() if not isinstance(c.path, overlap.Shared)]
    if not written or not captured:
        return False
    arrays = [k for k, a in enumerate(arguments) if isinstance(a, np.ndarray)]
    others = captured if not set(written) <= set(captured) else arrays
    own = [k for k in written if k in arrays]
    return overlap.meets(arguments, own, others)


def _check_paths(entry: Entry, known: list[Entry]) -> None:
    """Refuse the ninth way through the branches of one function for one kind of arguments."""
    computed = [b for b in entry.traced.branches if b.atom not in entry.traced.program.inputs]
    if computed and len(known) >= MAX_PATHS:
        raise BranchError(
            f"the branch at {computed[-1].where} led to {MAX_PATHS} different traces for one kind "
            f"of arguments. {BRANCH_ADVICE}"
        )


def _refuse_changed_containers(
    spec: optree.PyTreeSpec, leaves: list[Any], arguments: tuple[Any, ...]
) -> None:
    """The containers of the arguments are rebuilt for the trace: changes to them would be lost."""
    after, now = tree.flatten(arguments)
    if now == spec and all(a is b for a, b in zip(leaves, after, strict=True)):
        return
    raise UnsupportedError(
        "the function assigns into a container that it was given (a list, dict or dataclass "
        "argument), which a fused function does not do to its caller: return the new values, or "
        "change the arrays themselves in place, as in p.x[...] = value"
    )


def _kind_of_array(value: Any) -> tuple[Any, ...]:
    """What machine code depends on of an array; of anything else, what equals no array's."""
    if type(value) is not np.ndarray:
        return (type(value),)
    return (value.dtype, value.shape, value.strides)


def _check_ranges(traced: Traced, leaves: list[Any]) -> None:
    """Python ints must fit the integer dtypes that they meet, as in NumPy."""
    for position, low, high in traced.int_ranges:
        if not low <= leaves[position] <= high:
            dtype = np.min_scalar_type(low) if low else np.min_scalar_type(high)
            raise OverflowError(f"Python integer {leaves[position]} out of bounds for {dtype}")


def _memory(value: Any) -> Memory:
    if isinstance(value, np.ndarray):
        return Memory(value.strides, not value.dtype.isnative)
    return Memory((), False, True)


def _plan(
    program: Program, traced: Traced, arguments: list[Any], fusion: str | Callable[[Any], bool]
) -> Plan:
    strides = {
        var: tuple(s // a.itemsize for s in a.strides) if isinstance(a, np.ndarray) else ()
        for var, a in zip(program.inputs, arguments, strict=True)
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
    return plan(program, strides, orders, fusion)
