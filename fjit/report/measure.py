"""The time of each kernel and library call by itself, on the call's own arguments.

Takes a lowered call, its compiled kernels and arguments, gives nanoseconds. Kernels run natively,
one at a time, into fresh buffers. Invariant: the arguments are only read, and a kernel sees the
values that it sees in the real call.

    k0: in0 -> t0    matmul: t0 in1 -> t1    k1: t1 -> out0         [k0, matmul, k1] in ns
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fjit.core import primitives as p
from fjit.core.interpreter import interpret
from fjit.core.ir import Atom, Eqn, Literal, Program, Sym, Var
from fjit.lower.nest import Buffer, Nest
from fjit.optimize import cost
from fjit.optimize.frames import product_of
from fjit.report import counts
from fjit.report.lowered import Lowered
from fjit.runtime import threads
from fjit.runtime.jit import Module

LEAST_RUNS = 10
SECONDS = 0.03


class Times(NamedTuple):
    """Nanoseconds of the kernels and of the library calls, each in the plan's order."""

    kernels: tuple[float, ...]
    calls: tuple[float, ...]


def measure(lowered: Lowered, modules: Sequence[Module], arguments: Sequence[Any]) -> Times:
    """Time every step; `modules` are the kernels' code, `arguments` the program's inputs."""
    bench = _Bench(lowered, arguments)
    kernels: list[float] = []
    calls: list[float] = []
    numbers = {kernel.eqn: k for k, kernel in enumerate(lowered.plan.kernels)}
    for eqn in lowered.plan.steps:
        number = numbers.get(eqn)
        if number is None:
            calls.append(bench.call(eqn))
        else:
            kernels.append(bench.kernel(eqn, number, modules[number]))
    return Times(tuple(kernels), tuple(calls))


def best_ns(run: Callable[[], object]) -> float:
    """The shortest of several runs, after one that is not counted."""
    run()
    best, spent, runs = float("inf"), 0.0, 0
    while runs < LEAST_RUNS or (spent < SECONDS and runs < 1000):
        start = time.perf_counter_ns()
        run()
        taken = time.perf_counter_ns() - start
        best, spent, runs = min(best, taken), spent + taken * 1e-9, runs + 1
    return float(best)


class _Bench:
    """The values of a program while its steps are timed."""

    def __init__(self, lowered: Lowered, arguments: Sequence[Any]) -> None:
        self.lowered = lowered
        self.threads = threads.num_threads(lowered.choices.threads)
        self.values: dict[Var, Any] = dict(zip(lowered.plan.program.inputs, arguments, strict=True))
        self.extents: dict[Sym, np.ndarray[Any, np.dtype[np.int64]]] = {}
        word = ctypes.c_int64
        self.run = ctypes.CFUNCTYPE(None, *[word] * 5)(threads.address_of_parallel())

    def kernel(self, eqn: Eqn, number: int, module: Module) -> float:
        nest, cells = self.lowered.built[number]
        for var in eqn.outputs:
            self.values[var] = self._empty(var)
        table, keep = self._table(eqn, nest, cells)
        steps = [
            (module.address(f"phase{k}"), table.ctypes.data, phase.tasks,
             self.threads if _is_wide(nest, phase.tasks, phase.grain) else 1, phase.grain)
            for k, phase in enumerate(nest.phases)
        ]  # fmt: skip

        def run() -> None:
            for step in steps:
                self.run(*step)

        taken = best_ns(run)
        del keep
        for var in eqn.outputs:
            self.values[var] = self._trimmed(var)
        return taken

    def _table(
        self, eqn: Eqn, nest: Nest, cells: tuple[Sym, ...]
    ) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[Any]]:
        """The argument table, and the buffers that must outlive the run."""
        keep: list[Any] = [np.zeros(1, np.int64)]
        for buffer in nest.buffers:
            keep.append(self._buffer(eqn, nest, cells, buffer))
        words = [_address(value) for value in keep]
        for slot in nest.slots:
            if isinstance(slot, tuple):
                atom = eqn.inputs[slot[1]]
                words.append(_bits(self._value(atom), atom.aval.dtype))
            else:
                words.append(slot)
        return np.array(words, np.int64), keep

    def _buffer(self, eqn: Eqn, nest: Nest, cells: tuple[Sym, ...], buffer: Buffer) -> Any:
        if buffer.kind == "in":
            return self._value(eqn.inputs[buffer.number])
        if buffer.kind == "out":
            return self.values[eqn.outputs[buffer.number]]
        if buffer.kind == "cell":
            return self.extents.setdefault(cells[buffer.number], np.zeros(1, np.int64))
        assert buffer.size is not None
        size = nest.slots[buffer.size.number]
        assert isinstance(size, int)
        return np.empty(size * (self.threads if buffer.kind == "private" else 1) + 64, np.uint8)

    def call(self, eqn: Eqn) -> float:
        operands = [self._value(a) for a in eqn.inputs]
        eqn, operands = _behind_views(eqn, operands)
        params = {name: self._resolved(value) for name, value in eqn.params}
        meaning = p.meaning(eqn.primitive)

        def run() -> Any:
            with np.errstate(all="ignore"):
                return meaning(*operands, **params)

        value = np.asarray(run())
        for var in eqn.outputs:
            for extent, size in zip(var.aval.shape, value.shape, strict=True):
                if isinstance(extent, Sym):
                    self.extents[extent] = np.array([size], np.int64)
            self.values[var] = self._empty(var)
            self.values[var] = self._trimmed(var)
            np.copyto(self.values[var], value)
        return best_ns(run)

    def _value(self, atom: Atom) -> Any:
        return np.asarray(atom.value) if isinstance(atom, Literal) else self.values[atom]

    def _empty(self, var: Var) -> Any:
        """A fresh array with the planned strides; its outermost axis only as long as known."""
        strides = self.lowered.memory[var].strides
        shape = [e if isinstance(e, int) else e.bound for e in var.aval.shape]
        order = sorted(range(len(shape)), key=lambda k: -strides[k])
        if order:
            shape[order[0]] = self._extent(var.aval.shape[order[0]])
        whole = np.empty(tuple(shape[k] for k in order), var.aval.dtype)
        return whole.transpose(tuple(order.index(k) for k in range(len(shape))))

    def _trimmed(self, var: Var) -> Any:
        """A stored value cut to its extents, once these are known."""
        return self.values[var][tuple(slice(self._extent(e)) for e in var.aval.shape)]

    def _extent(self, extent: int | Sym) -> int:
        if isinstance(extent, int):
            return extent
        known = self.extents.get(extent)
        return extent.bound if known is None else int(known[0])

    def _resolved(self, value: object) -> object:
        if isinstance(value, Sym):
            return self._extent(value)
        if isinstance(value, tuple):
            return tuple(map(self._resolved, value))
        return value


def _behind_views(eqn: Eqn, operands: list[Any]) -> tuple[Eqn, list[Any]]:
    """The product of a frame with its operands seen through the views, or what was given."""
    program = eqn.get("program")
    if not isinstance(program, Program):
        return eqn, operands
    product = product_of(eqn)
    views = Program(program.inputs, program.eqns[:-1], product.inputs)
    return product, list(interpret(views, *operands))


def _is_wide(nest: Nest, tasks: int, grain: int) -> bool:
    return tasks > grain and counts.flops(nest) * cost.OPERATION_NS > cost.SERIAL_NS


def _address(value: Any) -> int:
    return int(np.asarray(value).__array_interface__["data"][0])


def _bits(value: Any, dtype: np.dtype) -> int:
    data = np.asarray(value, dtype=dtype).tobytes().ljust(8, b"\0")
    return int(struct.unpack("<q", data)[0])
