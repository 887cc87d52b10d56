"""A GPU in NumPy: runs the PTX of a kernel without a device, and reports what a device would hide.

Takes PTX text and arguments, changes the arguments' arrays. Invariant: results are those of a
device of the PTX's architecture, whatever the order of threads was, or there is an error that names
the instruction, the thread and the address.

    launch(ptx, "add", grid=4, block=256, args=[x, y, out, np.int32(1000)])

All threads of a wave of blocks run as lanes of NumPy arrays (fjit/backend/ptx). Reported are
accesses outside of an argument's memory or misaligned, reads of shared or local memory or registers
that nobody wrote, races in shared memory, blocks that overwrite each other's results, barriers that
not all threads reach, `.nc` loads of memory that the kernel writes, and programs that do not end.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from fjit.backend.ptx.arguments import Pointer, pack
from fjit.backend.ptx.buffers import Memory
from fjit.backend.ptx.code import MALFORMED, Code, code
from fjit.backend.ptx.program import Variable
from fjit.backend.ptx.schedule import Scheduler
from fjit.backend.ptx.shape import Shape
from fjit.backend.ptx.traffic import Traffic
from fjit.backend.ptx.validity import (
    MAX_BLOCK,
    MAX_GRID,
    MAX_THREADS,
    check_memory,
    extents,
    whole,
)
from fjit.backend.ptx.wave import Launch, Wave
from fjit.errors import EmulatorError

__all__ = ["Pointer", "Traffic", "counting", "launch"]

WAVE_THREADS = 1 << 15
"""Threads that run at a time: more pay for caches, fewer for instructions."""
WAVE_BYTES = 1 << 29
"""Most bytes of registers of a wave."""
MAX_STEPS = 10_000_000

Extent = int | Sequence[int]
_counted: ContextVar[Traffic | None] = ContextVar("_counted", default=None)


def launch(
    ptx: str,
    name: str,
    grid: Extent,
    block: Extent,
    args: Sequence[object],
    *,
    shared: int = 0,
    checks: bool = True,
    max_steps: int = MAX_STEPS,
) -> None:
    """Run the entry `name` of a PTX text to its end.

    `grid` and `block` are one to three extents. An argument is a NumPy array, passed as the address
    of its first element and written in place (the memory between its lowest and highest byte is
    what the kernel may touch; arrays that overlap do so in the kernel), a `Pointer` into one, a
    Python or NumPy number, or the bytes of a structure. `shared` is the size of dynamic shared
    memory in bytes. Without `checks` only accesses outside of memory or misaligned, deadlocks and
    endless programs are reported. Module variables start anew. A wave of blocks ends before the
    next begins: a block may wait for earlier blocks, never for later ones. `max_steps` bounds the
    instructions of a wave, each counted once for all threads that execute it together. Raises
    EmulatorError.
    """
    for what, text in (("ptx", ptx), ("name", name)):
        if not isinstance(text, str):
            raise EmulatorError(f"{what} is {text!r}: give a text.")
    if not isinstance(args, Sequence) or isinstance(args, str | bytes):
        raise EmulatorError(f"args is {args!r}: give a list of arguments.")
    max_steps = whole("max_steps", max_steps, 1)
    ready = code(ptx, name)
    shape = _shape(ready, grid, block, shared)
    _check_limits(ready, shape)
    memory = Memory()
    symbols = _symbols(ready, args, memory)
    if checks and ready.reads_constants:
        memory.watch_constants(ready.global_cell)
    if checks and shape.blocks > 1:
        memory.watch_blocks()
    everything = Launch(ready, shape, memory, symbols, checks, _counted.get())
    per_wave = _blocks_per_wave(ready, shape)
    with np.errstate(all="ignore"), _kept_to():
        for first in range(0, shape.blocks, per_wave):
            blocks = min(per_wave, shape.blocks - first)
            Scheduler(Wave(everything, first, blocks), max_steps).run()


@contextmanager
def counting() -> Iterator[Traffic]:
    """Count how well the accesses of all launches inside the block coalesce.

    Gives a `Traffic`, whose `ratio` is 1 where warps ask for whole sectors of global memory, and
    whose `conflicts` is 0 where no two lanes of a warp want different words of one bank of shared
    memory. Counts of the thread that opened it.
    """
    traffic = Traffic()
    token = _counted.set(traffic)
    try:
        yield traffic
    finally:
        _counted.reset(token)


@contextmanager
def _kept_to() -> Iterator[None]:
    """What a kernel of nonsense runs into is an EmulatorError."""
    try:
        yield
    except MALFORMED as error:
        raise EmulatorError(f"the kernel cannot be run: {error!r}.") from error


def _shape(ready: Code, grid: Extent, block: Extent, dynamic: int) -> Shape:
    dynamic = whole("shared", dynamic, 0)
    total = ready.shared.size + dynamic
    check_memory(ready.shared.size, dynamic, ready.local.size)
    return Shape(
        extents("grid", grid, MAX_GRID), extents("block", block, MAX_BLOCK), dynamic, total
    )


def _check_limits(ready: Code, shape: Shape) -> None:
    """Refuse blocks that a device would not launch."""
    if shape.threads > MAX_THREADS:
        raise EmulatorError(f"a block of {shape.threads} threads: at most {MAX_THREADS} run.")
    for limit, values in ready.entry.limits:
        extents = (*values, 1, 1)[:3]
        if limit == ".reqntid" and extents != shape.block:
            raise EmulatorError(f"block is {shape.block}, the kernel requires {extents}.")
        if limit == ".maxntid" and shape.threads > int(np.prod(extents)):
            raise EmulatorError(f"block is {shape.block}, the kernel allows at most {extents}.")


def _blocks_per_wave(ready: Code, shape: Shape) -> int:
    registers = max(1, len(ready.module.registers))
    threads = min(WAVE_THREADS, WAVE_BYTES // (8 * registers))
    return max(1, threads // shape.threads)


def _symbols(ready: Code, args: Sequence[object], memory: Memory) -> dict[str, int]:
    """Put arguments, parameters and module variables into memory; give all variables' addresses."""
    data, offsets = pack(ready.entry.params, args, memory)
    base = memory.add("the parameters", data, writable=False).base
    found = {p.name: base + k for p, k in zip(ready.entry.params, offsets, strict=True)}
    for layout in (ready.shared, ready.local, ready.frame):
        found.update({name: offset for name, (offset, _) in layout.places.items()})
    places: list[tuple[Variable, np.ndarray]] = []
    for variable in ready.globals:
        array = np.zeros(variable.size, np.uint8)
        array[:] = np.frombuffer(variable.initial or bytes(variable.size), np.uint8)
        constant = variable.space == "const"
        found[variable.name] = memory.add(variable.name, array, writable=not constant).base
        places.append((variable, array))
    for variable, array in places:
        for place, symbol in variable.addresses:
            size = variable.type.size
            address = found[symbol.name] + symbol.offset
            array[place : place + size] = np.frombuffer(address.to_bytes(size, "little"), np.uint8)
    return found
