"""An assembly run on a GPU: memory on the device, launches in the order of the caller's stream.

Takes a lowered plan and a `Device`, gives an object with `run`, as executable.py's. NumPy arrays
are copied in and results out; with an array on the device among the arguments, results stay there
and nothing waits, but for run-time extents and errors of values. Invariant: the kernels, their
threads and so their results are those of the emulator.

    run([x])    x a NumPy array: copy in, launch phase0, copy out
                x a Placed array: launch phase0 on x's stream
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fjit.backend.spread import Launch, in_waves
from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Literal, Sym
from fjit.core.placed import Array, Placed, on_host, placed
from fjit.errors import FjitValueError
from fjit.frontend.function import Write
from fjit.lower.assembly import Assembly
from fjit.runtime.alignment import settled
from fjit.runtime.device import DeviceExecutable, KernelLaunch, Launches
from fjit.runtime.devices import LEGACY_STREAM, Block, Device
from fjit.runtime.executable import raise_status
from fjit.runtime.gpu_code import Code
from fjit.runtime.graphs import Kernel, Replay
from fjit.runtime.options import Options

STATUS: Final = re.compile(r"\b(?:atom|red)\.[\w.]*\bor\b")
"""How a kernel notes an error of values: it sets bits of the status word."""


class _Scratch(NamedTuple):
    """Device memory of one call: temporaries, the table's tail (status, extents); its stream."""

    temporaries: Block | None
    tail: Block | None
    stream: int


class CudaExecutable(DeviceExecutable):
    """Runs a lowered plan on a device. See the module's docstring."""

    def __init__(
        self,
        assembly: Assembly,
        options: Options,
        writes: Sequence[Write],
        device: Device,
    ) -> None:
        self.device = device
        super().__init__(assembly, options, writes)
        self.empty = [device.nothing() if address else 0 for address in self.empty]
        self._replays = [
            Replay(device, [self._kernel(launch) for launch in step.launches])
            if isinstance(step, Launches)
            else None
            for step in self.steps
        ]
        self._may_raise = any(STATUS.search(code.ptx) for code in self.codes)

    def _kernel(self, launch: KernelLaunch) -> Kernel:
        function = self.device.function(launch.code.linked.cubin, launch.name)
        return Kernel(function, *launch.shape, launch.first, launch.words)

    def spread_out(self, code: Code, number: int, launch: Launch) -> Launch:
        """No more blocks than some waves of what the device holds, by the linker's registers."""
        assert self.options.gpu is not None
        used = code.linked.kernels[number]
        wide, high = launch.block
        per_processor = self.options.gpu.blocks_per_sm(used.registers, wide * high, used.shared)
        return in_waves(launch, per_processor * self.device.multiprocessors)

    # ---- running ----------------------------------------------------------------------------
    def run(self, arguments: Sequence[Any]) -> tuple[list[Any], dict[Sym, int]]:
        """Run on arrays and numbers, one per program input; gives the outputs' arrays."""
        there = [a for a in arguments if isinstance(a, Placed)]
        stream = there[0].stream if there else LEGACY_STREAM
        with self.device.active():
            self.device.follow(stream, [a.stream for a in there])
            given = self._given(arguments, stream)
            results = [
                given[self.over[k]] if k in self.over else self.device.empty(how, stream)
                for k, how in enumerate(self.layouts)
            ]
            for k, write in self.parts.items():
                results[k] = write.of(given[write.position])
            extents = self._run(given, results, stream)
            for k in self.dynamic:
                results[k] = self._cut(results[k], k, extents, stream)
            outputs = [self._output(kind, k, given, results, stream) for kind, k in self.collected]
            if there:
                for user in {a.stream for a in there} - {stream}:
                    self.device.follow(user, [stream])
                return outputs, extents
            return [on_host(output) for output in outputs], extents

    def _given(self, arguments: Sequence[Any], stream: int) -> list[Any]:
        """The arguments, with arrays on the device."""
        given = list(arguments)
        for k in self.pointed:
            array = given[k] if isinstance(given[k], Placed) else None
            given[k] = settled(given[k]) if array is None else array
            start = 0 if array is None else array.address
            size = given[k].itemsize
            if any(word % size for word in (start, *given[k].strides)):
                raise FjitValueError(
                    f"argument #{k} has elements of {size} bytes at addresses that are no multiples"
                    " of that, which a GPU cannot read: pass a copy"
                )
            given[k] = self.device.upload(given[k], stream) if array is None else array
        return given

    def _run(self, given: list[Any], results: list[Any], stream: int) -> dict[Sym, int]:
        """Run the steps; gives the run-time extents."""
        device, table = self.device, self.template.copy()
        tail = self._tail(stream)
        count = self.workers()
        nbytes = self.private_from + self.per_worker * count
        temporaries = Block(device, nbytes, stream) if nbytes else None
        scratch = _Scratch(temporaries, tail, stream)
        base = (device.nothing() if tail is None else tail.address) - 8 * self.status_at
        start = 0 if temporaries is None else temporaries.address
        cleared = self.zeroed.stop - self.zeroed.start
        if cleared:
            device.driver.clear(start + self.zeroed.start, cleared, stream)
        self._fill(table, base, given, results, start, count)
        self.run_steps(table, base, given, results, scratch, count)
        if tail is not None:
            self._read_tail(table, scratch)
            raise_status(table.item(self.status_at))
        return {s: table.item(self.cells_at + k) for s, k in self.symbols.items()}

    def _tail(self, stream: int) -> Block | None:
        """Zeros for the status and the run-time extents, if a kernel may ever write to them."""
        if not (self._may_raise or self.symbols):
            return None
        tail = Block(self.device, 8 * (1 + len(self.symbols)), stream)
        self.device.driver.clear(tail.address, tail.nbytes, stream)
        return tail

    def run_steps(
        self,
        table: Array,
        base: int,
        arguments: Sequence[Any],
        results: list[Any],
        scratch: Any,
        count: int,
    ) -> None:
        """Queue the steps in order on memory that is in place."""
        for step, replay in zip(self.steps, self._replays, strict=True):
            if replay is None:
                self.call(step.eqn, table, arguments, results, scratch)
            else:
                replay.run(table, scratch.stream)

    # ---- library calls ----------------------------------------------------------------------
    def call(
        self,
        eqn: Eqn,
        table: Array,
        arguments: Sequence[Any],
        results: list[Any],
        scratch: Any,
    ) -> None:
        """A library call, which the host makes on copies."""

        def array(atom: Atom) -> Any:
            return self._array(atom, table, arguments, results, scratch)

        if self.symbols:
            self._read_tail(table, scratch)
        operands = [on_host(array(a)) for a in eqn.inputs]
        params = {k: self._resolved(v, table) for k, v in eqn.params}
        (var,) = eqn.outputs
        with np.errstate(all="ignore"):
            value = np.asarray(p.meaning(eqn.primitive)(*operands, **params))
        fresh = [e for e in var.aval.shape if isinstance(e, Sym)]
        for extent, size in zip(var.aval.shape, value.shape, strict=True):
            if isinstance(extent, Sym):
                table[self.cells_at + self.symbols[extent]] = size
        if fresh:
            self._write_tail(table, scratch)
        self.device.upload_into(array(var), value)

    def _array(
        self,
        atom: Atom,
        table: Array,
        arguments: Sequence[Any],
        results: list[Any],
        scratch: Any,
    ) -> Any:
        if isinstance(atom, Literal):
            return np.asarray(atom.value)
        if atom in self.offsets:
            shape = [
                e if isinstance(e, int) else int(table[self.cells_at + self.symbols[e]])
                for e in atom.aval.shape
            ]
            block = scratch.temporaries
            address = block.address + self.offsets[atom]
            strides = self.memory[atom].strides
            return placed(
                self.device, address, shape, atom.aval.dtype, strides, holder=block,
                stream=scratch.stream,
            )  # fmt: skip
        if atom not in self.results:
            value = arguments[self.program.inputs.index(atom)]
            if isinstance(value, Placed):
                return value
        return super()._array(atom, table, arguments, results, scratch)

    def _read_tail(self, table: Array, scratch: _Scratch) -> None:
        """Fetch the status and the run-time extents; waits for the kernels so far."""
        assert scratch.tail is not None
        tail, driver = table[self.status_at :], self.device.driver
        driver.copy_out(int(tail.ctypes.data), scratch.tail.address, tail.nbytes, scratch.stream)
        driver.wait(scratch.stream)

    def _write_tail(self, table: Array, scratch: _Scratch) -> None:
        assert scratch.tail is not None
        tail, driver = table[self.status_at :], self.device.driver
        driver.copy_in(scratch.tail.address, int(tail.ctypes.data), tail.nbytes, scratch.stream)
        driver.wait(scratch.stream)

    # ---- outputs ----------------------------------------------------------------------------
    def _cut(self, array: Placed, number: int, extents: dict[Sym, int], stream: int) -> Placed:
        """A result cut down to its run-time extents, without the rest's memory if that is more."""
        shape = [e if isinstance(e, int) else extents[e] for e in self.results[number].aval.shape]
        cut: Any = array[tuple(slice(n) for n in shape)]
        if cut.nbytes < array.nbytes // 2 and cut.flags.c_contiguous:
            cut = self.device.duplicate(cut, stream)
        found: Placed = cut
        return found

    def _output(
        self, kind: str, k: Any, given: Sequence[Any], results: list[Any], stream: int
    ) -> Placed:
        """One output: a result, a copy of one that is returned twice, an input or a literal."""
        if kind == "result":
            found: Placed = results[k]
            return found
        value = results[k] if kind == "again" else given[k] if kind == "input" else k.value
        if isinstance(value, Placed):
            return self.device.duplicate(value, stream)
        dtype = self.program.inputs[k].aval.dtype if kind == "input" else None
        return self.device.upload(np.array(value, dtype=dtype), stream)
