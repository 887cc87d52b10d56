"""An assembly made executable: compiled kernels, steps, memory.

Takes a lowered plan, gives an object that runs it on addresses. All kernels
between two library calls run in one native call. Invariant: results are the same for any number of
threads; nothing in here looks at values but the run-time extents of filters.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Aval, Eqn, Literal, Program, Sym, Var
from fjit.errors import FjitIndexError, FjitValueError
from fjit.frontend.function import Write
from fjit.lower.assembly import Assembly, Kernel
from fjit.lower.build import BAD_INDEX, EMPTY_REDUCTION, EMPTY_SEARCH, NEGATIVE_POWER
from fjit.lower.in_place import in_place, parts_of
from fjit.lower.nest import Nest
from fjit.optimize import cost
from fjit.runtime import threads
from fjit.runtime.addresses import NOTHING, address_of
from fjit.runtime.buffers import ScratchPool, plan_arena
from fjit.runtime.jit import Module, compile_module
from fjit.runtime.options import Native, Options
from fjit.runtime.panels import Builder, Stage
from fjit.runtime.results import maker, result_layout
from fjit.runtime.rows import Row, batch_words
from fjit.runtime.table import Table
from fjit.target import CpuTarget

_pool = ScratchPool()
_kernels: dict[tuple[str, CpuTarget, int], Module] = {}
_lock = threading.Lock()


def _renew_lock() -> None:
    """In a forked child no thread holds the lock, whoever held it in the parent."""
    global _lock  # noqa: PLW0603 - the child's own lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class Compiled(NamedTuple):
    """A kernel's nest and machine code; `fresh` if this request compiled it."""

    nest: Nest
    text: str
    module: Module
    fresh: bool


def compile_kernel(nest: Nest, text: str, options: Options) -> Compiled:
    """The machine code of a nest; equal texts share it."""
    key = (text, options.target, options.width)
    with _lock:
        module = _kernels.get(key)
        if module is not None:
            return Compiled(nest, text, module, False)
        module = compile_module(
            lambda: _emitted(nest, options),
            target=options.target,
            key=f"{options.width}\n{text}",
            cache=options.cache,
        )
        _kernels[key] = module
        return Compiled(nest, text, module, not module.from_cache)


def _emitted(nest: Nest, options: Options) -> str:
    """The LLVM IR of a nest."""
    from fjit.backend import cpu  # code from the disk cache needs no generator

    return cpu.emit(nest, options.target, options.width)


def clear_kernels() -> None:
    """Forget all machine code."""
    with _lock:
        _kernels.clear()


@dataclass(slots=True)
class _Call:
    """A library call between kernels, or a barrier."""

    eqn: Eqn


class Executable:
    """Runs a lowered plan. See the module's docstring."""

    def __init__(self, assembly: Assembly, options: Options, writes: Sequence[Write] = ()) -> None:
        """`writes` are inputs with their new contents, whose memory is apart from all else."""
        self.assembly = assembly
        whole = [(write.position, write.output) for write in writes if write.region is None]
        self._over = in_place(assembly, whole)
        self._parts = parts_of(assembly, writes)
        self.options = options
        self.program = assembly.program
        self.memory = assembly.memory
        self.outputs = [a for a in self.program.outputs if isinstance(a, Var)]
        self.kernels: list[Compiled] = []
        self.compiles = 0
        self.estimated_ns = 0.0
        self._symbols: dict[Sym, int] = {}
        self._place_memory()
        self.build()

    # ---- memory ---------------------------------------------------------------------------
    def _place_memory(self) -> None:
        """Where each stored value lives: inputs, fresh results, or the arena."""
        made = [v for e in self.program.eqns for v in e.outputs]
        results = dict.fromkeys(v for v in self.outputs if v in made)
        temporaries = [v for v in made if v not in results]
        launches = self.assembly.launches
        first = {v: launches[e] for e in self.program.eqns for v in e.outputs}
        last = dict(first)
        for eqn in self.program.eqns:
            for atom in eqn.inputs:
                if atom in first:
                    last[atom] = max(last[atom], launches[eqn])
        lifetimes = [(max(v.aval.nbytes, 1), first[v], last[v]) for v in temporaries]
        offsets, total = plan_arena(lifetimes)
        self.arena_bytes = total
        self.offsets = dict(zip(temporaries, offsets, strict=True))
        self.results = list(results)
        slots: list[Var] = [*self.program.inputs, *self.results, *temporaries]
        self.pointer_index = {v: k for k, v in enumerate(slots)}

    # ---- code -----------------------------------------------------------------------------
    def build(self) -> None:
        """Compile all kernels and lay out the table that they read."""
        table = Table()
        self.steps: list[Any] = []
        rows: list[list[int]] = []
        by_eqn = {k.eqn: k for k in self.assembly.kernels}
        in_panels = {panels.eqn: panels for panels in self.assembly.panels}
        batches = {eqn: batch for batch in self.assembly.batches for eqn in batch}
        members: list[list[Row]] = []
        builder = Builder(table, self.memory, lambda eqn: self._stage(by_eqn[eqn]))
        for eqn in self.program.eqns:
            kernel = by_eqn.get(eqn)
            if eqn in in_panels:
                built = builder.build(in_panels[eqn])
                rows.extend(built.rows)
                self.estimated_ns += built.estimated_ns
            elif kernel is None:
                self.build_call(eqn, table, rows)
            elif eqn in batches:
                members.append(self.build_kernel(kernel, table))
                if eqn is batches[eqn][-1]:
                    rows.extend(self.together(members, table))
                    members = []
            else:
                rows.extend(row.words for row in self.build_kernel(kernel, table))
        self.flush(rows)
        self._finish_table(table)

    def build_call(self, eqn: Eqn, table: Table, rows: list[list[int]]) -> None:
        """A library call between what was built before and what follows."""
        self.flush(rows)
        self.steps.append(_Call(eqn))
        for var in eqn.outputs:
            self._symbol_of(var)

    def _stage(self, kernel: Kernel) -> Stage:
        """A kernel that runs as a stage of panels."""
        compiled = self._compiled(kernel)
        assert not kernel.cells, "rows of panels are known while tracing"
        return Stage(kernel.nest, compiled.module.address("phase0"), _work(kernel.eqn))

    def _compiled(self, kernel: Kernel) -> Compiled:
        """A kernel's machine code."""
        compiled = compile_kernel(kernel.nest, kernel.text, self.options)
        self.kernels.append(compiled)
        self.compiles += compiled.fresh
        return compiled

    def together(self, members: list[list[Row]], table: Table) -> list[list[int]]:
        """Rows for kernels that run at once: one for each phase, if there is work for threads."""
        if sum(row.ns for rows in members for row in rows) <= cost.SERIAL_NS:
            return [row.words for rows in members for row in rows]
        found = []
        for number in range(max(map(len, members))):
            phases = [rows[number] for rows in members if number < len(rows)]
            phases.sort(key=lambda row: -row.ns)  # the longest first, so that none ends last
            words, units = batch_words(phases)
            offset = table.append_own(words)
            found.append([threads.address_of_batch(), offset, units, 1, 1])
        return found

    def build_kernel(self, kernel: Kernel, table: Table) -> list[Row]:
        """Compile a kernel and give it a place in the table; a row for each of its phases."""
        eqn, nest, _, cells = kernel
        compiled = self._compiled(kernel)
        offset = table.append(eqn, nest, cells)
        for _, sym in table.cells:
            self.symbol(sym)
        work = _work(eqn)
        rows = []
        for number, phase in enumerate(nest.phases):
            address = compiled.module.address(f"phase{number}")
            spent = _estimate_ns(phase.elements, work)
            self.estimated_ns += spent
            wide = int(phase.tasks > phase.grain and spent > cost.SERIAL_NS)
            rows.append(Row(address, offset, phase.tasks, phase.grain, wide, spent))
        return rows

    def flush(self, rows: list[list[int]]) -> None:
        """Make the rows since the last library call one step."""
        if rows:
            steps = np.array(rows, np.int64)
            self.steps.append(Native(steps, steps.ctypes.data))
            rows.clear()

    def symbol(self, sym: Sym) -> int:
        """The number of a run-time extent."""
        return self._symbols.setdefault(sym, len(self._symbols))

    def _symbol_of(self, var: Var) -> None:
        for extent in var.aval.shape:
            if isinstance(extent, Sym):
                self.symbol(extent)

    def _finish_table(self, table: Table) -> None:
        """Lay out the tail of the table (status, cells) and the scratch memory."""
        cells = [(at, self.symbol(sym)) for at, sym in table.cells]
        status = table.status
        self.status_at = len(table.words)
        self.cells_at = self.status_at + 1
        self.template = np.array([*table.words, *[0] * (1 + len(self._symbols))], np.int64)
        self.patch_at = np.array([at for at, _ in table.pointers], np.intp)
        self.patch_from = np.array([self.pointer_index[v] for _, v in table.pointers], np.intp)
        position = {v: k for k, v in enumerate(self.program.inputs)}
        self.scalar_patches = [(at, position[v]) for at, v in table.scalars]
        self.inner_at = np.array([*status, *[a for a, _ in cells]], np.intp)
        self.inner_offset = np.array(
            [8 * self.status_at] * len(status) + [8 * (self.cells_at + c) for _, c in cells],
            np.int64,
        )
        self.shared, self.private = [], []
        total = _aligned(self.arena_bytes)
        for at, nbytes in (*table.zeroed, *table.shared):
            self.shared.append((at, total))
            total += _aligned(nbytes)
        cleared = _aligned(self.arena_bytes)
        self.zeroed = slice(cleared, cleared + sum(_aligned(n) for _, n in table.zeroed))
        self.private_from = total
        per_worker = 0
        for at, nbytes in table.privates:
            self.private.append((at, per_worker, nbytes))
            per_worker += nbytes
        self.per_worker = per_worker
        self.symbols = self._symbols
        self._prepare()

    # ---- running --------------------------------------------------------------------------
    def _prepare(self) -> None:
        """What each call needs again, worked out once."""
        inputs = self.program.inputs
        self.empty = [0 if v.aval.bound else address_of(NOTHING) for v in inputs]
        self.layouts = [result_layout(v.aval, self.memory[v].strides) for v in self.results]
        self.makers = [maker(how) for how in self.layouts]
        self.over = {
            k: inputs.index(self._over[v]) for k, v in enumerate(self.results) if v in self._over
        }
        self.parts = {k: self._parts[v] for k, v in enumerate(self.results) if v in self._parts}
        self.pointed = [
            k for k, v in enumerate(inputs) if not self.memory[v].scalar and v.aval.bound
        ]
        self.scalars = [(at, k, inputs[k].aval.dtype) for at, k in self.scalar_patches]
        self.temporaries = list(self.offsets.values())
        self.wide = any(isinstance(s, Native) and s.steps[:, 4].any() for s in self.steps)
        self.dynamic = [k for k, v in enumerate(self.results) if not v.aval.is_static]
        place = {v: k for k, v in enumerate(self.results)}
        taken: set[int] = set()
        self.collected: list[tuple[str, Any]] = []
        for atom in self.program.outputs:
            if isinstance(atom, Literal):
                self.collected.append(("literal", atom))
            elif atom in place:
                kind = "again" if place[atom] in taken else "result"
                taken.add(place[atom])
                self.collected.append((kind, place[atom]))
            else:
                self.collected.append(("input", inputs.index(atom)))
        self.plain = [k for _, k in self.collected] == list(range(len(self.results))) and all(
            kind == "result" for kind, _ in self.collected
        )

    def workers(self) -> int:
        """How many tasks run at once: private memory is as many."""
        return threads.num_threads(self.options.threads) if self.wide else 1

    def run(self, arguments: Sequence[Any]) -> tuple[list[Any], dict[Sym, int]]:
        """Run on arrays and numbers, one per program input; gives the outputs' arrays."""
        count = self.workers()
        makers = enumerate(self.makers)
        over = self.over
        results = [arguments[over[k]] if k in over else make() for k, make in makers]
        for k, write in self.parts.items():
            results[k] = write.of(arguments[write.position])
        table = self.template.copy()
        base = address_of(table)
        scratch_bytes = self.private_from + self.per_worker * count
        scratch = _pool.take(scratch_bytes) if scratch_bytes else None
        try:
            start = address_of(scratch) if scratch is not None else 0
            self._fill(table, base, arguments, results, start, count)
            self.run_steps(table, base, arguments, results, scratch, count)
        finally:
            if scratch is not None:
                _pool.give(scratch)
        raise_status(table.item(self.status_at))
        extents = {s: table.item(self.cells_at + k) for s, k in self.symbols.items()}
        for k in self.dynamic:
            results[k] = _trim(results[k], self.results[k].aval, extents)
        if self.plain:
            return results, extents
        return [self._collect(kind, k, arguments, results) for kind, k in self.collected], extents

    def _fill(
        self,
        table: np.ndarray[Any, Any],
        base: int,
        arguments: Sequence[Any],
        results: list[Any],
        start: int,
        count: int,
    ) -> None:
        pointers = list(self.empty)
        for k in self.pointed:
            pointers[k] = address_of(arguments[k])
        pointers += [address_of(r) for r in results]
        if self.temporaries:
            pointers += [start + offset for offset in self.temporaries]
        if len(self.patch_at):
            table[self.patch_at] = np.array(pointers, np.int64)[self.patch_from]
        if len(self.inner_at):
            table[self.inner_at] = self.inner_offset + base
        for at, position, dtype in self.scalars:
            table[at] = dtypes.word(arguments[position], dtype)
        for at, offset in self.shared:
            table[at] = start + offset
        for at, offset, _ in self.private:
            table[at] = start + self.private_from + offset * count

    def run_steps(
        self,
        table: np.ndarray[Any, Any],
        base: int,
        arguments: Sequence[Any],
        results: list[Any],
        scratch: Any,
        count: int,
    ) -> None:
        """Run the steps in order on memory that is in place."""
        for step in self.steps:
            if isinstance(step, Native):
                threads.run(base, step.address, len(step.steps), count)
            else:
                self.call(step.eqn, table, arguments, results, scratch)

    def call(
        self,
        eqn: Eqn,
        table: np.ndarray[Any, Any],
        arguments: Sequence[Any],
        results: list[Any],
        scratch: Any,
    ) -> None:
        """A library call: NumPy's meaning of the primitive on views of the stored values."""

        def array(atom: Atom) -> Any:
            return self._array(atom, table, arguments, results, scratch)

        operands = [array(a) for a in eqn.inputs]
        params = {k: self._resolved(v, table) for k, v in eqn.params}
        var = eqn.outputs[0]
        if eqn.primitive is p.matmul:
            np.matmul(operands[0], operands[1], out=array(var))
            return
        with np.errstate(all="ignore"):
            value = p.meaning(eqn.primitive)(*operands, **params)
        for extent, size in zip(var.aval.shape, np.shape(value), strict=True):
            if isinstance(extent, Sym):
                table[self.cells_at + self.symbols[extent]] = size
        np.copyto(array(var), value)

    def _resolved(self, value: object, table: np.ndarray[Any, Any]) -> object:
        if isinstance(value, Sym):
            return int(table[self.cells_at + self.symbols[value]]) if value in self.symbols else 0
        if isinstance(value, tuple):
            return tuple(self._resolved(v, table) for v in value)
        return value

    def _array(
        self,
        atom: Atom,
        table: np.ndarray[Any, Any],
        arguments: Sequence[Any],
        results: list[Any],
        scratch: Any,
    ) -> Any:
        if isinstance(atom, Literal):
            return np.asarray(atom.value)
        shape = tuple(
            e if isinstance(e, int) else int(table[self.cells_at + self.symbols[e]])
            for e in atom.aval.shape
        )
        if atom in self.offsets:
            return np.ndarray(
                shape, atom.aval.dtype, scratch, self.offsets[atom], self.memory[atom].strides
            )
        if atom in self.results:
            whole = results[self.results.index(atom)]
            return whole[tuple(slice(n) for n in shape)] if shape else whole
        value = arguments[self.program.inputs.index(atom)]
        return np.asarray(value, dtype=atom.aval.dtype)

    def _collect(self, kind: str, k: Any, arguments: Sequence[Any], results: list[Any]) -> Any:
        """One output: a result, a copy of one that is returned twice, an input or a literal."""
        if kind == "result":
            return results[k]
        if kind == "again":
            return results[k].copy(order="K")
        if kind == "literal":
            return np.array(k.value)
        return np.array(arguments[k], dtype=self.program.inputs[k].aval.dtype)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 64) * 64


def _work(eqn: Eqn) -> int:
    program = eqn.param("program")
    assert isinstance(program, Program)
    return sum(cost.flops(e) for e in program.eqns if e.primitive.family == "elementwise") + 1


def _estimate_ns(elements: int, work: int) -> float:
    return elements * (work * cost.OPERATION_NS + 0.1)


def _trim(array: Any, aval: Aval, extents: dict[Sym, int]) -> Any:
    """A result cut down to its run-time extents, in place where its first axis is cut."""
    if aval.is_static:
        return array
    shape = tuple(e if isinstance(e, int) else extents[e] for e in aval.shape)
    leading = array.flags.c_contiguous and all(isinstance(e, int) for e in aval.shape[1:])
    if not leading or math.prod(shape) < array.size // 2:
        return array[tuple(slice(n) for n in shape)].copy(order="K")
    array.resize(shape, refcheck=False)
    return array


def raise_status(status: int) -> None:
    if not status:
        return
    if status & BAD_INDEX:
        raise FjitIndexError("index is out of bounds for the axis that it selects from")
    if status & NEGATIVE_POWER:
        raise FjitValueError("Integers to negative integer powers are not allowed.")
    if status & EMPTY_SEARCH:
        raise FjitValueError("attempt to get argmax of an empty sequence (a mask selected nothing)")
    if status & EMPTY_REDUCTION:
        raise FjitValueError(
            "zero-size array to reduction operation which has no identity (a mask selected nothing)"
        )
