"""Steps for products in panels: the words of panels_ir, and the module that reads them.

Takes panels of a plan (optimize/panels.py) and where values live, gives rows of steps for
`fjit_run`. Invariant: the words are those that panels_ir describes; all that is allocated at run
time is private memory, which has a place for each worker.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from math import prod
from typing import Final, NamedTuple

from fjit.core import dtypes
from fjit.core.ir import Eqn, Var, static_shape
from fjit.lower.memory import Memory
from fjit.lower.nest import Nest
from fjit.optimize import cost
from fjit.optimize.frames import Frame, Matrix, frame_of, is_frame
from fjit.optimize.panels import Panels, cut_of
from fjit.runtime import panels_ir
from fjit.runtime.blas import blas
from fjit.runtime.host import host
from fjit.runtime.jit import Module, compile_module
from fjit.runtime.table import Table

CALL_NS: Final = 100.0
"""What a call of the library takes beside the arithmetic."""
CROWDED_NS: Final = 500.0
"""Tasks shorter than this are slower on two threads: OpenBLAS takes a lock in each call. A thousand
products of 16x16 float32 take 0.16 ms on one thread and 0.37 on two, of 32x32 0.79 and 0.62."""


class Stage(NamedTuple):
    """A kernel of panels: its loops, the address of its phase, its operations per element."""

    nest: Nest
    address: int
    work: int


class Built(NamedTuple):
    """Rows of steps, and the estimated time of them all."""

    rows: list[list[int]]
    estimated_ns: float


_modules: dict[str, Module] = {}


def _module() -> Module:
    """The one compiled module, which counts the products under way: of two made at once, the first.

    No lock is held, which a fork could leave locked in the child.
    """
    return _modules.get("panels") or _kept(_made())


def _made() -> Module:
    """The module, told where the BLAS is."""
    library = blas()
    assert library is not None, "a plan with products in panels, but no BLAS"
    module = compile_module(panels_ir.PANELS, target=host())
    words = {
        "fjit_sgemm": library.gemm[dtypes.F32],
        "fjit_dgemm": library.gemm[dtypes.F64],
        "fjit_sgemv": library.gemv[dtypes.F32],
        "fjit_dgemv": library.gemv[dtypes.F64],
        "fjit_blas_get": library.get_threads,
        "fjit_blas_set": library.set_threads,
    }
    for name, value in words.items():
        ctypes.c_int64.from_address(module.address(name)).value = value
    return module


def _kept(made: Module) -> Module:
    """The module that all use from now on; it stays loaded, since a fork handler calls it."""
    module = _modules.setdefault("panels", made)
    if module is made:
        module.keep_loaded()
        forked = ctypes.CFUNCTYPE(None)(module.address("fjit_blas_forked"))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=forked)
    return module


class Builder:
    """Puts panels into a table. `stage` compiles a kernel, `memory` says where values live."""

    def __init__(
        self, table: Table, memory: dict[Var, Memory], stage: Callable[[Eqn], Stage]
    ) -> None:
        self.table = table
        self.memory = memory
        self.stage = stage

    def build(self, panels: Panels) -> Built:
        """The steps of panels: products between entering and leaving the BLAS."""
        layout = _Layout(self, panels)
        offset = layout.write()
        tasks, each = layout.tasks, layout.task_ns()
        total = tasks * each
        grain = max(1, int(cost.SERIAL_NS // each))
        wide = int(tasks > grain and total > cost.SERIAL_NS and each > CROWDED_NS)
        module = _module()
        rows = [
            [module.address("fjit_blas_enter"), 0, 1, 1, 0],
            [module.address("fjit_panels"), offset, tasks, grain, wide],
            [module.address("fjit_blas_leave"), 0, 1, 1, 0],
        ]
        return Built(rows, total)


class _Arguments(NamedTuple):
    """A kernel's arguments: offset in bytes, words, place of the copy, those that are private."""

    stage: Stage
    offset: int
    words: int
    copy: int
    own: list[tuple[int, Var]]


class _Layout:
    """One set of panels while its words are written."""

    def __init__(self, builder: Builder, panels: Panels) -> None:
        self.builder, self.table, self.panels = builder, builder.table, panels
        self.kernels: dict[Eqn, _Arguments] = {}
        self.frames: dict[Eqn, Frame] = {}
        self.places: dict[Var, int] = {}
        self.bytes = 0
        for eqn in panels.stages:
            if is_frame(eqn):
                self.frames[eqn] = frame_of(eqn, self._elements)
        frame = next(iter(self.frames.values()))
        self.cut = cut_of(frame.eqn)
        shape = static_shape(frame.eqn.output.aval)
        self.stack, self.rows = shape[:-2], shape[-2]
        self.tasks = prod(self.stack) * self.cut.down * self.cut.across
        for var in panels.private:
            self.places[var] = self._reserve(self.cut.height * self._row_bytes(var))

    def _elements(self, var: Var) -> tuple[int, ...]:
        size = var.aval.dtype.itemsize
        return tuple(s // size for s in self.builder.memory[var].strides)

    def _row_bytes(self, var: Var) -> int:
        return static_shape(var.aval)[-1] * var.aval.dtype.itemsize

    def _reserve(self, nbytes: int) -> int:
        place = self.bytes
        self.bytes += -(-nbytes // 64) * 64
        return place

    def write(self) -> int:
        """Write kernels' arguments, then the words of the panels; the offset of these in bytes."""
        for eqn in self.panels.stages:
            if eqn not in self.frames:
                self._kernel(eqn)
        base = len(self.table.words)
        cut = self.cut
        head = [len(self.panels.stages), self.rows, cut.height, cut.down]
        head += [cut.width if cut.across > 1 else 1 << 62, cut.across, 0, self.bytes]
        words = self.table.words
        words += [*head, len(self.stack), *self.stack]
        if self.bytes:
            self.table.privates.append((base + 6, self.bytes))
        for eqn in self.panels.stages:
            start = len(words)
            words.append(0)
            if eqn in self.frames:
                self._product(self.frames[eqn])
            else:
                self._call(eqn, base)
            words[start] = len(words) - start
        return base * 8

    def _kernel(self, eqn: Eqn) -> None:
        """A kernel's own arguments; those that are private panels are patched for every task."""
        stage, table = self.builder.stage(eqn), self.table
        before = len(table.pointers)
        offset = table.append(eqn, stage.nest, ())
        base = offset // 8
        own = [(at - base, var) for at, var in table.pointers[before:] if var in self.places]
        table.pointers[before:] = [e for e in table.pointers[before:] if e[1] not in self.places]
        count = len(table.words) - base
        self.kernels[eqn] = _Arguments(stage, offset, count, self._reserve(8 * count), own)

    def _call(self, eqn: Eqn, base: int) -> None:
        known, words = self.kernels[eqn], self.table.words
        words += [panels_ir.KERNEL, known.stage.address, known.offset - 8 * base]
        words += [known.words, known.copy, len(known.own)]
        for number, var in known.own:
            words += [number, self.places[var], self._row_bytes(var)]

    def _product(self, frame: Frame) -> None:
        out = frame.eqn.output
        shape = static_shape(out.aval)
        kind = panels_ir.FLOAT64 if out.aval.dtype == dtypes.F64 else panels_ir.FLOAT32
        self.table.words += [kind, frame.left.shape[-1], shape[-1]]
        self._matrix(frame.left, by_row=True, by_column=False)
        self._matrix(frame.right, by_row=False, by_column=True)
        self._matrix(Matrix(out, 0, self._elements(out), shape), by_row=True, by_column=True)

    def _matrix(self, matrix: Matrix, *, by_row: bool, by_column: bool) -> None:
        """Its words; an axis that panels do not cut has no step."""
        var, size = matrix.var, matrix.var.aval.dtype.itemsize
        form = matrix.form
        assert form is not None, f"{matrix} is no operand of BLAS"
        leading, transposed = form
        *stack, down, across = (s * size for s in matrix.strides)
        words = self.table.words
        private = var in self.places
        if not private:
            self.table.pointers.append((len(words), var))
        words += [self.places.get(var, 0), int(private), matrix.offset * size]
        words += [down * by_row * (not private), across * by_column, leading, int(transposed)]
        words += [0] * len(stack) if private else stack

    def task_ns(self) -> float:
        """The estimated time of one panel."""
        total = 0.0
        for eqn in self.panels.stages:
            if eqn in self.frames:
                frame = self.frames[eqn]
                terms, columns = frame.right.shape[-2:]
                work = self.cut.height * terms * columns / self.cut.across
                total += CALL_NS + work * cost.product_ns(frame.eqn.output.aval.dtype, columns)
            else:
                stage = self.kernels[eqn].stage
                elements = stage.nest.phases[0].elements / self.tasks
                total += elements * (stage.work * cost.OPERATION_NS + 0.1)
        return total


def usable() -> bool:
    """Whether products can run in panels here."""
    return blas() is not None
