"""A fused function: finds the trace that fits a call, or makes one, and runs its kernels.

Takes a function and choices, gives a callable. A kind of call is: the tree, dtypes, shapes and
strides of the arguments, the static values, and what was read from outside, which guards watch.
Invariant: an entry is used only while all its guards hold; arguments are changed only as the
function itself would.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MethodType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from fjit.arguments import Arguments, refuse_changed_containers
from fjit.core import tree
from fjit.core.interpreter import interpret
from fjit.core.ir import Program
from fjit.core.trace import current
from fjit.entries import (
    MAX_PATHS,
    Branches,
    CacheInfo,
    Call,
    Choices,
    Entry,
    are_apart,
    check_paths,
    check_ranges,
    kind_of_array,
    memory_of,
    overlapping_captures,
)
from fjit.errors import (
    FjitValueError,
    ReadOnlyError,
    UnsupportedError,
)
from fjit.frontend import overlap
from fjit.frontend.binding import hooks
from fjit.frontend.function import Traced, trace_function
from fjit.frontend.guards import Reads
from fjit.frontend.parts import in_parts
from fjit.frontend.paths import Attr
from fjit.frontend.rebind import Rebound, rebind
from fjit.frontend.session import Session, place_of
from fjit.lower.memory import Memory
from fjit.runtime import entry as native
from fjit.runtime.exchange import by_class, located, refused, restorer
from fjit.runtime.layouts import layout_of
from fjit.runtime.machines import Machine, machine_of
from fjit.runtime.options import Options
from fjit.runtime.outputs import result_of, write_back
from fjit.runtime.records import Record, record_of
from fjit.runtime.refusals import Given

if TYPE_CHECKING:
    from fjit.forms import Forms
    from fjit.planning import Policy
    from fjit.report.lowered import Lowered
    from fjit.report.report import Report

MAX_ENTRIES: Final = 256


class Fused(native.NativeCallable):
    """A fused function; call it like the original. Made by `fuse`."""

    def __init__(self, function: Callable[..., Any], choices: Choices) -> None:
        self.function = function
        self.choices = choices
        self.machine = machine_of(choices.target)
        self._located = located if self.machine.takes_gpus else refused(choices.target)
        self._captured = by_class(self._located)
        self._entries: OrderedDict[tuple[Any, ...], list[Entry]] = OrderedDict()
        self._lock = threading.RLock()
        self._hits = self._misses = self._traces = self._compiles = 0
        self._seconds = 0.0
        self._calls = Arguments(function, choices.static_argnames, self._located)
        self._bound: WeakKeyDictionary[type, dict[str, Fused]] = WeakKeyDictionary()
        functools.update_wrapper(self, function, updated=())
        for name, value in getattr(function, "__dict__", {}).items():
            if not hasattr(self, name):  # the function's own attributes, as far as they are free
                setattr(self, name, value)
        _all.add(self)

    # ---- calling ----------------------------------------------------------------------------
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if current() is not None:
            return self.function(*args, **keywords)
        call = self._calls.take_apart(args, keywords)
        entry, arguments = self._find(call, args, keywords)
        return self._run(entry, arguments)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: fused for each instance, whose attributes are guarded."""
        if instance is None:
            return self
        held = getattr(instance, "__dict__", None)
        if isinstance(instance, type):  # of a classmethod; a class's __dict__ is read-only
            held = self._bound.setdefault(instance, {})
        key = f"_fused_{getattr(self.function, '__name__', id(self))}"
        bound = None if held is None else held.get(key)
        mine = MethodType(self.function, instance)
        if bound is None or bound.function != mine:  # a copy of an instance has its attributes too
            bound = Fused(mine, self.choices)
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

    def _find(
        self, call: Call, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[Entry, list[Any]]:
        found = self._known(call)
        if found is not None:
            self._offer(found[0], call, args, keywords)
            return found
        with self._lock:
            found = self._known(call)
            if found is not None:
                return found
            self._misses += 1
            entry, call = self._make(call)
            if not entry.once:
                known = self._entries.setdefault(call.key, [])
                check_paths(entry, known)
                known.insert(0, entry)
                del known[MAX_PATHS:]
                self._entries.move_to_end(call.key)
                while len(self._entries) > MAX_ENTRIES:
                    self._entries.popitem(last=False)
        return entry, self._all_arguments(entry, call)

    def _known(self, call: Call) -> tuple[Entry, list[Any]] | None:
        """An entry that is valid for the call, and its arguments."""
        for entry in self._entries.get(call.key, ()):
            arguments = self._arguments(entry, call)
            if arguments is not None:
                self._hits += 1
                if len(self._entries) > MAX_ENTRIES // 2:
                    self._used(call.key)
                return entry, arguments
        return None

    def _offer(
        self, entry: Entry, call: Call, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        """Let the native entry answer calls like this one, which came a second time."""
        if entry.record == "":
            with self._lock:
                entry.record = self._record(entry, call, args, keywords)
        if isinstance(entry.record, Record) and not self.knows(entry.record):
            with self._lock:
                self.publish(entry.record)

    def _record(
        self, entry: Entry, call: Call, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Record | str:
        """The record of calls like this one, or why they go through Python."""
        if native.missing():
            return native.missing()
        if entry.executable is None or not entry.machine.is_host:
            return f"the target is {self.choices.target}"
        layout = layout_of(args, keywords, call.leaves)
        if layout is None:
            return "an argument is neither an array, a number nor a plain container of them"
        branches = entry.branches
        return record_of(
            entry.traced, entry.executable, entry.guards, self.function, layout, call.leaves,
            None if branches is None else branches.computed,
            () if branches is None else branches.given,
        )  # fmt: skip

    def _used(self, key: tuple[Any, ...]) -> None:
        """Note a use, so that the entries used least recently are forgotten first."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)

    def _arguments(self, entry: Entry, call: Call) -> list[Any] | None:
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
            if kind_of_array(arguments[position]) != entry.kinds[position]:
                return None
        if entry.watched and not self._same_memory(entry, arguments, call):
            return None
        if entry.branches is not None and not entry.branches.hold(arguments):
            return None
        return arguments

    def _same_memory(self, entry: Entry, arguments: list[Any], call: Call) -> bool:
        """Whether captured arrays share memory with arguments just as they did in the trace."""
        traced = entry.traced
        for path, position in traced.aliases:
            array = self._captured(path.read(self.function, call.values), str(path))
            if not isinstance(array, np.ndarray) or place_of(array) != place_of(
                arguments[position]
            ):
                return False
        return not overlapping_captures(traced, arguments)

    def _all_arguments(self, entry: Entry, call: Call) -> list[Any]:
        arguments = list(call.leaves)
        for position in range(len(arguments), len(entry.traced.program.inputs)):
            capture = entry.traced.captures[position]
            if capture.path is None:
                arguments.append(capture.array)
            else:
                value = capture.path.read(self.function, call.values)
                arguments.append(self._captured(value, str(capture.path)))
        return arguments

    def _run(self, entry: Entry, arguments: list[Any]) -> Any:
        for write in entry.traced.writes:
            if not arguments[write.position].flags.writeable:
                raise ReadOnlyError("assignment destination is read-only")
        if entry.executable is None:
            outputs: Sequence[Any] = interpret(entry.program, *arguments)
        else:
            outputs = entry.executable.run(arguments)[0]
        for write in entry.traced.writes:
            target, value = write.of(arguments[write.position]), outputs[write.output]
            if target is not value and place_of(target) != place_of(value):
                write_back(target, value)
        results = [result_of(r, outputs, arguments) for r in entry.traced.results]
        if entry.machine.device is not None:
            results = list(map(restorer(arguments), results))
        return tree.unflatten(entry.traced.result_tree, results)

    # ---- tracing and compiling --------------------------------------------------------------
    def _trace(self, call: Call, *, follow: bool = True) -> tuple[Traced, Reads]:
        reads = Reads()
        holder: list[Rebound] = []

        def prepare(session: Session) -> None:
            session.refusal = reads.record_error
            adapters: dict[type, Any] = {Fused: _adapt}
            made = hooks(session, adapters, self._captured)
            holder.append(rebind(self.function, made, reads))

        def run(traced: list[Any]) -> Any:
            values = iter(traced)
            leaves = [
                next(values) if dynamic else value
                for dynamic, value in zip(call.dynamic, call.values, strict=True)
            ]
            args, keywords = tree.unflatten(call.spec, leaves)
            result = holder[0](*args, **keywords)
            refuse_changed_containers(call.spec, leaves, (args, keywords))
            return result

        paths = [f"#{k}" for k in range(len(call.leaves))]
        sharing = overlap.groups(call.leaves) if self._calls.written else ()
        places = [k for k, dynamic in enumerate(call.dynamic) if dynamic]
        return trace_function(run, call.leaves, paths, prepare, sharing, places, follow), reads

    def _traced(self, call: Call) -> tuple[Traced, Reads, Call]:
        """The trace of a call; of one that writes into arguments their overlap is in the key."""
        traced, reads = self._trace(call)
        if traced.writes and not self._calls.written:
            self._calls.written = True
            if overlap.groups(call.leaves):
                traced, reads = self._trace(call)
            call = self._calls.take_apart(*tree.unflatten(call.spec, call.values))
        check_ranges(traced, call.leaves)
        self._traces += 1
        return traced, reads, call

    def _make(self, call: Call, *, compile_code: bool = True) -> tuple[Entry, Call]:
        start = time.perf_counter()
        where = self.machine.at if compile_code else self.machine.shown
        where(call.leaves)  # what a target refuses is told before what a trace refuses
        traced, reads, call = self._traced(call)
        positions = range(len(call.leaves), len(traced.program.inputs))
        arguments = [*call.leaves, *(traced.captures[k].array for k in positions)]
        machine = where(arguments)
        if overlapping_captures(traced, arguments):
            raise UnsupportedError(
                "the function writes into an array that shares memory with another one, of which "
                "one is an argument and one captured from outside: pass both as arguments"
            )
        on_gpu = machine.gpu is not None
        memory = tuple(memory_of(a, on_gpu=on_gpu) for a in arguments)
        apart = bool(traced.writes) and are_apart(traced, arguments)
        traced = in_parts(traced) if apart else traced
        executable, made = None, None
        policy = self._policy(machine)
        if compile_code and machine.compiles:
            stages = self._forms.stages(traced, memory, policy.for_code())
            traced, made = stages.traced, stages.planned
            writes = traced.writes if apart else ()
            executable = machine.executable(stages.assembly, self._options(machine), writes)
            self._compiles += executable.compiles
        self._seconds += time.perf_counter() - start
        entry = Entry(
            traced,
            executable,
            reads.guards(inputs=False),
            bool(reads.effects),
            self._branches(traced, memory, machine) if compile_code else None,
            memory,
            policy,
            {k: kind_of_array(c.array) for k, c in traced.captures.items()},
            bool(traced.aliases) or bool(traced.writes and traced.captures),
            made,
            machine,
        )
        return entry, call

    def _branches(
        self, traced: Traced, memory: tuple[Memory, ...], machine: Machine
    ) -> Branches | None:
        """The kernels that decide whether a later call takes the same Python branches."""
        if not traced.branches:
            return None
        inputs = traced.program.inputs
        numbers = {v: k for k, v in enumerate(inputs) if memory[k].scalar}
        given = [Given(numbers[b.atom], b.value) for b in traced.branches if b.atom in numbers]
        others = [b for b in traced.branches if b.atom not in numbers]
        program = Program(inputs, traced.program.eqns, tuple(b.atom for b in others))
        executable = None
        if others and machine.compiles:
            conditions = replace(traced, program=program, results=(), writes=())
            policy = self._policy(machine).for_code()._replace(fusion="auto", fastmath=frozenset())
            stages = self._forms.stages(conditions, memory, policy)
            executable = machine.executable(stages.assembly, self._options(machine))
            self._compiles += executable.compiles
        return Branches(tuple(given), program, executable, tuple(b.value for b in others))

    @functools.cached_property
    def _forms(self) -> Forms:
        """Plans for sizes like those before; the stages behind a trace are loaded for them."""
        from fjit.forms import Forms

        return Forms()

    def _policy(self, machine: Machine) -> Policy:
        from fjit.planning import Policy

        choices = self.choices
        return Policy(
            choices.fusion, choices.fastmath, panels=machine.is_host, gpu=machine.gpu,
            max_registers=choices.max_registers,
        )  # fmt: skip

    def _options(self, machine: Machine) -> Options:
        choices = self.choices
        return machine.options(choices.width, choices.threads, choices.cache)

    # ---- looking inside ---------------------------------------------------------------------
    def prepare(self, *args: Any, **keywords: Any) -> Entry:
        """The compiled entry that a call with these arguments would use; runs nothing."""
        call = self._calls.take_apart(args, keywords)
        return self._find(call, args, keywords)[0]

    def trace(self, *args: Any, **keywords: Any) -> Program:
        """The program of a call with these arguments as it was recorded, nothing simplified."""
        return self._trace(self._calls.take_apart(args, keywords), follow=False)[0].program

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
        from fjit.report import build  # most functions are never explained

        call = self._calls.take_apart(args, keywords)
        on_gpu = self.machine.shown(call.leaves).gpu is not None
        if on_gpu and measure:
            raise _untimed()
        if on_gpu or not (compile or measure):
            entry = self._make(call, compile_code=False)[0]
            return build.report(self._stages(entry, args, keywords), compiled=compile)
        entry, arguments = self._find(call, args, keywords)
        if entry.machine.gpu is not None and measure:  # what the function captures is there
            raise _untimed()
        stages = self._stages(entry, args, keywords)
        if not measure or entry.executable is None:
            return build.report(stages, compiled=True)
        modules = [kernel.module for kernel in entry.executable.kernels]
        return build.report(stages, compiled=True, modules=modules, arguments=arguments)

    def lower(self, *args: Any, **keywords: Any) -> Lowered:
        """The stages of a call with these arguments: program, plan, nests, LLVM IR, assembly.

        Nothing runs; each text is made when it is asked for. See `Lowered`.
        """
        call = self._calls.take_apart(args, keywords)
        return self._stages(self._make(call, compile_code=False)[0], args, keywords)

    def _stages(self, entry: Entry, args: tuple[Any, ...], keywords: dict[str, Any]) -> Lowered:
        from fjit.report import lowered  # most functions are never explained

        def finish() -> Fused:
            self.prepare(*args, **keywords)
            return self

        choices = self.choices
        native = self.machine.compiles
        picked = lowered.Choices(
            native,
            choices.width,
            choices.threads,
            choices.cache,
            choices.fastmath,
            entry.machine.gpu,
        )
        name = getattr(self.function, "__qualname__", repr(self.function))
        return lowered.Lowered(
            name, entry.program, entry.plan, entry.memory, picked, finish, entry.traced.program
        )

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
            self._hits + self.answered, self._misses, self._traces, self._compiles, self._seconds,
            sum(kernels.values()),
        )  # fmt: skip

    def cache_clear(self) -> None:
        """Forget all traces and machine code of this function, and reset the counts."""
        from fjit.runtime.executable import clear_kernels

        with self._lock:
            self.withdraw()
            self._entries.clear()
            self.__dict__.pop("_forms", None)
            self._hits = self._misses = self._traces = self._compiles = 0
            self._seconds = 0.0
            clear_kernels()


_all: WeakSet[Fused] = WeakSet()


def _after_fork_in_child() -> None:
    """No thread but this one lives on, so none holds a lock."""
    for fused in list(_all):
        fused._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _rebuild(function: Callable[..., Any], choices: Choices) -> Fused:
    return Fused(function, choices)


def _untimed() -> FjitValueError:
    return FjitValueError(
        "measure=True times the kernels of this processor, not those of a GPU: leave it out, and "
        "time whole calls, or use NVIDIA's Nsight Systems"
    )


def _adapt(value: object, path: Any, observer: Any) -> object:
    """A fused function met inside a trace is traced through."""
    assert isinstance(value, Fused)
    return observer.observe(value.function, Attr(path, "function"), value)
