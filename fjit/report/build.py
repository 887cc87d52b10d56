"""From a lowered call to its report: what each step moves and costs, foreseen, compiled, measured.

Takes a `Lowered`, and compiled kernels and arguments as far as they are wanted; gives a `Report`.
Invariant: without compilation, neither LLVM nor the machine's clock is asked, and predictions do
not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fjit.backend import registers
from fjit.backend.gpu_registers import gpu_pressure
from fjit.core import dtypes
from fjit.core.ir import Atom, Eqn, Literal, Program, Var, static_shape
from fjit.lower.memory import Memory
from fjit.lower.nest import Nest
from fjit.optimize import cost
from fjit.optimize.frames import is_frame, product_of
from fjit.optimize.panels import cut_of
from fjit.optimize.plan import KernelPlan
from fjit.optimize.relax import licensed
from fjit.report import asm, counts, machine
from fjit.report.batch import merged
from fjit.report.draw import Roof
from fjit.report.graph import Graph, equations, graph_of
from fjit.report.lowered import Lowered
from fjit.report.measure import Times, measure
from fjit.report.report import Call, Kernel, Report
from fjit.runtime import threads
from fjit.runtime.jit import Module


def report(
    lowered: Lowered,
    *,
    compiled: bool,
    modules: Sequence[Module] | None = None,
    arguments: Sequence[Any] | None = None,
) -> Report:
    """The report of a call.

    With `compiled`, registers and spills are read from the kernels' assembly; with their `modules`
    and the program's `arguments`, each step is also timed.
    """
    choices = lowered.choices
    usages: list[asm.Usage | None] = [None] * len(lowered.plan.kernels)
    if compiled and choices.native:
        usages = list(_usages(lowered))
    times = None
    if modules is not None and arguments is not None:
        times = measure(lowered, modules, arguments)
    workers = threads.num_threads(choices.threads)
    apart = [_kernel(lowered, k, usage, times, workers) for k, usage in enumerate(usages)]
    plan = lowered.plan
    kernels = merged(apart, [kernel.eqn for kernel in plan.kernels], plan.batches)
    calls = _calls(lowered, times)
    notes = (*_panels(lowered, calls), *_copied(lowered, calls))
    if not choices.native:
        notes = (*notes, "target=interpreter: nothing is compiled.")
    return Report(
        lowered.name, _machine(lowered, workers), kernels, calls, lowered.plan.decisions,
        optimality_gap=lowered.plan.gap, notes=notes, fastmath=lowered.fastmath,
        graph=_graph(lowered, apart, calls), roof=_roof(lowered, workers),
        vector_registers=machine.description().vector_registers,
    )  # fmt: skip


def _graph(lowered: Lowered, kernels: Sequence[Kernel], calls: tuple[Call, ...]) -> Graph:
    """The picture of a plan; of a batch its first member stands for all."""
    names = dict(zip((k.eqn for k in lowered.plan.kernels), kernels, strict=True))
    counts = {batch[0]: len(batch) for batch in lowered.plan.batches}
    behind = {eqn for batch in lowered.plan.batches for eqn in batch[1:]}
    left = iter(calls)
    steps: list[tuple[str, tuple[Eqn, ...]]] = []
    told: dict[str, str] = {}
    words: dict[Eqn, tuple[str, str]] = {}
    for eqn in lowered.plan.steps:
        kernel = names.get(eqn)
        name = next(left).name if kernel is None else kernel.name
        inner = equations(eqn) if kernel is not None else (product_of(eqn),)
        words.update({e: _hover(e, k, inner) for k, e in enumerate(inner)})
        if eqn in behind:
            continue
        if eqn in counts:
            name = f"{name} and {counts[eqn] - 1} more"
        if kernel is not None:
            told[name] = _schedule(kernel)
        steps.append((name, inner))
    return graph_of(steps, told, words)


def _schedule(kernel: Kernel) -> str:
    """A kernel's schedule in words."""
    loops = " x ".join(map(str, kernel.iteration_space)) or "1"
    return (
        f"{kernel.name}: loops {loops}; reads {kernel.bytes_read:,} bytes, writes "
        f"{kernel.bytes_written:,}; {kernel.flops:,} flops; {kernel.predicted_registers} "
        f"registers, {kernel.predicted_spills} spills; {kernel.estimated_ns:,.0f} ns"
    )


def _hover(eqn: Eqn, number: int, inner: Sequence[Eqn]) -> tuple[str, str]:
    """An equation's box: its name; its words, the user's line, and how long its value lives."""
    done, source = operation(eqn)
    reads = [k for k, e in enumerate(inner) if any(v in e.inputs for v in eqn.outputs)]
    last = f"last read by step {reads[-1]}" if reads else "a result"
    return str(eqn.get("op") or eqn.primitive.name), f"{done}; {source}; step {number}, {last}"


def _roof(lowered: Lowered, workers: int) -> Roof | None:
    """What bounds kernels on this processor; None for a GPU."""
    if lowered.choices.gpu is not None:
        return None
    levels = (("cache", cost.CACHE_NS_PER_BYTE), ("memory", cost.STREAM_NS_PER_BYTE))
    rates = tuple((name, 1e9 / ns) for name, ns in levels)
    return Roof(workers * 1e9 / cost.OPERATION_NS, rates)


def _panels(lowered: Lowered, calls: tuple[Call, ...]) -> tuple[str, ...]:
    """A sentence for each set of steps that share panels."""
    kernels = dict(zip((k.eqn for k in lowered.plan.kernels), lowered.names, strict=True))
    names = iter(calls)
    named = {e: kernels.get(e) or next(names).name for e in lowered.plan.steps}
    found: list[str] = []
    for panels in lowered.plan.panels:
        if len(panels.stages) == 1:
            continue
        height = cut_of(next(product_of(e) for e in panels.stages if is_frame(e))).height
        rows = sum(static_shape(v.aval)[-1] * v.aval.dtype.itemsize for v in panels.private)
        steps = ", ".join(named[e] for e in panels.stages)
        found.append(
            f"{steps}: in panels of {height} rows, with {height * rows:,} bytes of private memory "
            "a thread."
        )
    return tuple(found)


def _usages(lowered: Lowered) -> Iterator[asm.Usage]:
    """What each kernel uses: on a GPU, registers of the phase with the most, spills of all."""
    if lowered.choices.gpu is None:
        yield from map(asm.usage, lowered.kernel_asm)
        return
    for code in lowered.codes:
        phases = code.linked.kernels
        yield asm.Usage(
            max((phase.registers for phase in phases), default=0),
            sum(phase.spills for phase in phases),
        )


def _copied(lowered: Lowered, calls: tuple[Call, ...]) -> tuple[str, ...]:
    """Sentences for what stands between the kernels of a GPU."""
    if lowered.choices.gpu is None:
        return ()
    products = [name for name, _ in lowered.products]
    others = [call.name for call in calls if call.name not in products]
    notes = []
    if products:
        notes.append(f"{', '.join(products)}: made by a kernel of tiles, on the GPU.")
    if others:
        notes.append(
            f"{', '.join(others)}: made by the host, on copies of the operands, so that data "
            "crosses to the host and back between the kernels."
        )
    return tuple(notes)


def _machine(lowered: Lowered, workers: int) -> str:
    gpu = lowered.choices.gpu
    if gpu is not None:
        return (
            f"a GPU of architecture {gpu.name} ({gpu.multiprocessors} multiprocessors with "
            f"{gpu.max_warps} warps, as in the {gpu.part})"
        )
    target = machine.description()
    count = f"{workers} thread" + ("" if workers == 1 else "s")
    return (
        f"an {target.architecture} processor with {target.name} ({count}, "
        f"{target.vector_registers} vector registers of {target.vector_bits} bits)"
    )


def _kernel(
    lowered: Lowered, number: int, usage: asm.Usage | None, times: Times | None, workers: int
) -> Kernel:
    plan: KernelPlan = lowered.plan.kernels[number]
    nest = lowered.nests[number]
    program = plan.eqn.param("program")
    assert isinstance(program, Program)
    read, written = _bytes(plan.eqn, lowered)
    flops = counts.flops(nest)
    foreseen = _foreseen(nest, lowered)
    if usage is not None and lowered.choices.gpu is None:
        used = (usage.registers, usage.spills)
        registers.note(lowered.names[number], machine.description().name, foreseen, *used)
    arithmetic = counts.compute_ns(nest)
    estimated = cost.estimate_ns(arithmetic, read, written, _workers(nest, flops, workers))
    measured = None if times is None else times.kernels[number]
    return Kernel(
        name=lowered.names[number],
        operations=tuple(operation(e) for e in program.eqns),
        iteration_space=tuple(axis.extent for axis in plan.schedule.axes),
        bytes_read=read,
        bytes_written=written,
        flops=flops,
        predicted_registers=foreseen.registers,
        actual_registers=None if usage is None else usage.registers,
        predicted_spills=foreseen.spills,
        actual_spills=None if usage is None else usage.spills,
        estimated_ns=estimated,
        measured_ns=measured,
        licensed=tuple(f"{flag}: {what}" for flag, what in licensed(program).items()),
        scopes=tuple(dict.fromkeys(e.scope for e in program.eqns if e.scope)),
        curve=()
        if lowered.choices.gpu
        else tuple(registers.curve(nest, machine.description(), lowered.choices.width)),
        roofline_fraction=None if not measured else (estimated - cost.LAUNCH_NS) / measured,
    )


def _foreseen(nest: Nest, lowered: Lowered) -> registers.Pressure:
    """Registers and spills as foreseen: on a GPU those of the phase with most, and all spills."""
    gpu = lowered.choices.gpu
    if gpu is None:
        return registers.pressure(nest, machine.description(), lowered.choices.width)
    phases = [gpu_pressure(nest, phase.loop, gpu) for phase in nest.phases]
    most = max((phase.registers for phase in phases), default=0)
    return registers.Pressure(most, sum(phase.spills for phase in phases))


def _workers(nest: Nest, flops: int, workers: int) -> int:
    """Threads that the kernel will use."""
    tasks = max((phase.tasks for phase in nest.phases), default=1)
    return min(tasks, workers) if flops * cost.OPERATION_NS > cost.SERIAL_NS else 1


def _calls(lowered: Lowered, times: Times | None) -> tuple[Call, ...]:
    found: list[Call] = []
    kernels = {k.eqn for k in lowered.plan.kernels}
    position = 0
    behind = {eqn for batch in lowered.plan.batches for eqn in batch[1:]}
    for eqn in lowered.plan.steps:
        if eqn in kernels:
            position += eqn not in behind
            continue
        read, written = _bytes(eqn, lowered)
        taken = None if times is None else times.calls[len(found)]
        name = lowered.call_names[len(found)]
        done = operation(product_of(eqn))
        found.append(Call(name, position, done, read, written, taken))
    return tuple(found)


def _bytes(eqn: Eqn, lowered: Lowered) -> tuple[int, int]:
    """Bytes read, each input array once, and written, each output once; private panels are not."""
    private = lowered.plan.private
    read = sum(_size(a, lowered.memory) for a in dict.fromkeys(eqn.inputs) if a not in private)
    return read, sum(var.aval.nbytes for var in eqn.outputs if var not in private)


def _size(atom: Atom, memory: dict[Var, Memory]) -> int:
    """Bytes of an array in memory: axes along which it repeats count once, numbers nothing."""
    if isinstance(atom, Literal) or memory[atom].scalar:
        return 0
    total = atom.aval.dtype.itemsize
    for extent, stride in zip(atom.aval.shape, memory[atom].strides, strict=True):
        bound = extent if isinstance(extent, int) else extent.bound
        total *= min(bound, 1) if stride == 0 else bound
    return total


def operation(eqn: Eqn) -> tuple[str, str]:
    """An equation in words, and the user's line.

    The words are the operation, its axes and what it gives: "sum over axes 0 to f64[]".
    """
    op = eqn.get("op")
    words = str(op) if op else eqn.primitive.name
    if eqn.primitive.family in ("reduction", "cumulative"):
        axes = eqn.get("axes", eqn.get("axis"))
        listed = axes if isinstance(axes, tuple) else (axes,)
        words += " over axis " + ",".join(map(str, listed))
    if eqn.fast:
        words += f" ({eqn.fast})"
    if eqn.primitive.name == "convert":
        words += f" to {dtypes.name(eqn.outputs[0].aval.dtype)}"
    source = "" if eqn.source is None else str(eqn.source)
    return f"{words} {eqn.outputs[0].aval}", f"{source} [{eqn.scope}]" if eqn.scope else source
