"""A stand-in for the driver: memory that the host cannot touch, kernels run by the CPU's code.

Addresses of the fake device are far from any of this process, so that whoever reads one on the host
crashes, as with a GPU. Copies check that each side is where it should be and inside one allocation.
A launch takes the words that the kernel would take, and runs the same nest's CPU code on them.
"""

import bisect
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from fjit.backend import simt
from fjit.backend.nvvm import KernelInfo, Linked
from fjit.backend.tiled_product import Form
from fjit.lower.starts import starts
from fjit.runtime import devices, gpu_code, threads
from fjit.runtime import driver as drivers
from fjit.runtime.driver import Launch
from fjit.runtime.driver_errors import refused
from fjit.runtime.executable import compile_kernel
from fjit.runtime.host import host
from fjit.runtime.options import Options

BASE = 1 << 44
BETWEEN = 1 << 36
REGISTERS = 40


class FakeDriver:
    """The methods of `Driver`, for `gpus` devices of compute capability 9.0."""

    def __init__(self, gpus: int = 2, pools: bool = True) -> None:
        self.gpus, self.pools = gpus, pools
        self.blocks: dict[int, np.ndarray[Any, Any]] = {}
        self.next = [BASE + k * BETWEEN for k in range(gpus)]
        self.contexts: list[int] = []
        self.log: list[tuple[Any, ...]] = []
        self.capability = (9, 0)
        self.fail: dict[str, str] = {}  # a method's name, and the code that it gives
        self.codes: dict[int, gpu_code.Code] = {}
        self.spare: dict[tuple[int, int], list[int]] = {}
        self.graphs: dict[int, list[Launch]] = {}
        self.next_graph = 0
        self.functions: dict[int, tuple[gpu_code.Code, int]] = {}

    def _note(self, name: str, *details: Any) -> None:
        self.log.append((name, *details))
        code = self.fail.get(name)
        if code is not None:
            raise refused(code, "the fake says so", f"calling {name}")

    def calls(self, name: str) -> list[tuple[Any, ...]]:
        return [entry[1:] for entry in self.log if entry[0] == name]

    # ---- asking
    def version(self) -> tuple[int, int]:
        return (13, 0)

    def count(self) -> int:
        return self.gpus

    def name(self, device: int) -> str:
        return f"Fake {device}"

    def memory(self, device: int) -> int:
        return 1 << 34

    def attribute(self, device: int, name: str) -> int:
        major, minor = self.capability
        return {
            "COMPUTE_CAPABILITY_MAJOR": major,
            "COMPUTE_CAPABILITY_MINOR": minor,
            "MULTIPROCESSOR_COUNT": 4,
            "MEMORY_POOLS_SUPPORTED": int(self.pools),
        }[name]

    def device_of(self, address: int) -> int:
        self.real(address, 1)
        return (address - BASE) // BETWEEN

    # ---- contexts
    def retain(self, device: int) -> int:
        self._note("retain", device)
        return 100 + device

    def push(self, context: int) -> None:
        self.contexts.append(context)

    def pop(self) -> None:
        self.contexts.pop()

    def _entered(self, address: int | None = None) -> None:
        assert self.contexts, "no context is the thread's"
        if address is not None:
            assert self.contexts[-1] == 100 + (address - BASE) // BETWEEN, "another GPU's context"

    # ---- memory
    def create_pool(self, device: int, keep: int) -> int:
        self._note("create_pool", device, keep)
        return 200 + device

    def trim(self, pool: int) -> None:
        self._note("trim", pool)

    def allocate(self, nbytes: int, pool: int, stream: int) -> int:
        self._entered()
        self._note("allocate", nbytes, stream)
        assert bool(pool) is self.pools
        device = self.contexts[-1] - 100
        spare = self.spare.setdefault((device, nbytes), [])
        address = spare.pop() if spare else self.next[device]
        if address == self.next[device]:
            self.next[device] += -(-nbytes // 256) * 256 + 256
        block = np.full(nbytes + 64, 0xA5, np.uint8)
        start = -int(block.ctypes.data) % 64
        self.blocks[address] = block[start : start + nbytes]
        return address

    def free(self, address: int, pool: int, stream: int) -> None:
        self._entered(address)
        self._note("free", address, stream)
        size = len(self.blocks.pop(address))
        self.spare.setdefault(((address - BASE) // BETWEEN, size), []).append(address)

    def real(self, address: int, nbytes: int) -> int:
        """Where the fake keeps what is at a device address."""
        starts = sorted(tuple(self.blocks))  # a copy, as other threads add blocks
        at = bisect.bisect_right(starts, address) - 1
        assert at >= 0, f"{address:#x} is no device memory"
        block = self.blocks[starts[at]]
        offset = address - starts[at]
        assert offset + nbytes <= len(block), f"{nbytes} bytes at {offset} of {len(block)}"
        return int(block.ctypes.data) + offset

    def _bytes(self, address: int, nbytes: int) -> np.ndarray[Any, Any]:
        real = self.real(address, nbytes)
        block = next(
            b for b in list(self.blocks.values()) if b.ctypes.data <= real < b.ctypes.data + len(b)
        )
        start = real - int(block.ctypes.data)
        return block[start : start + nbytes]

    def copy_in(self, address: int, source: int, nbytes: int, stream: int) -> None:
        self._entered(address)
        self._note("copy_in", nbytes, stream)
        assert source < BASE or source >= BASE + self.gpus * BETWEEN
        self._bytes(address, nbytes)[:] = _host(source, nbytes)

    def copy_out(self, target: int, address: int, nbytes: int, stream: int) -> None:
        self._entered(address)
        self._note("copy_out", nbytes, stream)
        assert target < BASE or target >= BASE + self.gpus * BETWEEN
        _host(target, nbytes)[:] = self._bytes(address, nbytes)

    def copy(self, target: int, address: int, nbytes: int, stream: int) -> None:
        self._entered(address)
        self._note("copy", nbytes, stream)
        self._bytes(target, nbytes)[:] = self._bytes(address, nbytes)

    def clear(self, address: int, nbytes: int, stream: int) -> None:
        self._entered(address)
        self._note("clear", nbytes, stream)
        self._bytes(address, nbytes)[:] = 0

    # ---- code
    def load(self, cubin: bytes) -> int:
        self._entered()
        self._note("load")
        found = [c for c in list(gpu_code._codes.values()) if c.linked.cubin == cubin]
        self.codes[len(self.codes) + 1] = found[0]
        return len(self.codes)

    def function(self, module: int, name: str) -> int:
        self._entered()
        code = self.codes[module]
        self.functions[len(self.functions) + 1] = (code, code.names.index(name))
        return len(self.functions)

    def launch(self, launch: Launch, stream: int) -> None:
        self._entered()
        function, grid, block, words = launch
        code, number = self.functions[function]
        self._note("launch", grid, block, tuple(words.tolist()), stream)
        assert grid[1] <= 65_535 and 0 < block[0] * block[1] <= 1024
        if isinstance(code, gpu_code.ProductCode):
            self._multiply(code.form, words)
            return
        assert isinstance(code, gpu_code.NestCode)
        nest = code.nest
        pointers = 1 + len(nest.buffers)
        carries = code.spreads[number].carries
        assert len(words) == pointers + len(nest.slots) + bool(carries)
        if carries:
            assert not _host(self.real(int(words[-1]), 8), 8).any(), "the state is zeroed"
        table = words.copy()
        for buffer, slot in starts(nest).items():  # which the processor's code adds by itself
            table[1 + buffer] -= words[pointers + slot.number]
        table[:pointers] = [self.real(w, 1) if w else 0 for w in table[:pointers].tolist()]
        phase = nest.phases[number]
        tasks = int(words[pointers + phase.loop.extent.number])
        compiled = compile_kernel(nest, code.text, Options(host()))
        address = compiled.module.address(f"phase{number}")
        steps = np.array([[address, 0, tasks, min(phase.grain, tasks), 0]], np.int64)
        threads.run(int(table.ctypes.data), int(steps.ctypes.data), 1, 1)

    def _multiply(self, form: Form, words: np.ndarray[Any, Any]) -> None:
        """A matrix product on the memory that the words describe, by NumPy."""
        named = dict(zip(form.words, words[3:].tolist(), strict=True))
        stack = tuple(named[f"e{axis}"] for axis in range(form.batch))

        def matrices(pointer: int, name: str, rows: str, columns: str) -> np.ndarray[Any, Any]:
            shape = (*stack, named[rows], named[columns])
            steps = (*(named[f"{name}{which}"] for which in (*range(form.batch), rows, columns)),)
            spans = [step * (extent - 1) for step, extent in zip(steps, shape, strict=True)]
            low, high = (sum(f(0, s) for s in spans) for f in (min, max))
            address = pointer + named.get(name, 0)
            memory = _host(
                self.real(address + low, high - low + form.dtype.itemsize),
                high - low + form.dtype.itemsize,
            )
            return np.ndarray(shape, form.dtype, memory, -low, steps)

        pointers = words[:3].tolist()
        a, b = matrices(pointers[0], "a", "m", "k"), matrices(pointers[1], "b", "k", "n")
        matrices(pointers[2], "c", "m", "n")[...] = np.matmul(a, b)

    def graph(self, launches: Sequence[Launch]) -> int:
        self._entered()
        self._note("graph", len(launches))
        copies = [launch._replace(words=launch.words.copy()) for launch in launches]
        self.next_graph += 1
        self.graphs[self.next_graph] = copies
        return self.next_graph

    def launch_graph(self, graph: int, stream: int) -> None:
        self._note("launch_graph", graph, stream)
        for launch in self.graphs[graph]:
            self.launch(launch, stream)

    def destroy_graph(self, graph: int) -> None:
        self._entered()
        self._note("destroy_graph", graph)
        del self.graphs[graph]

    # ---- order
    def wait(self, stream: int) -> None:
        self._entered()
        self._note("wait", stream)

    def wait_all(self) -> None:
        self._entered()
        self._note("wait_all")

    def event(self) -> int:
        self._note("event")
        return 1

    def record(self, event: int, stream: int) -> None:
        self._note("record", stream)

    def await_event(self, stream: int, event: int) -> None:
        self._note("await_event", stream)

    def elapsed(self, start: int, stop: int) -> float:
        return 1.0

    def destroy_event(self, event: int) -> None:
        self._note("destroy_event")


def _host(address: int, nbytes: int) -> np.ndarray[Any, Any]:
    import ctypes

    memory: Any = (ctypes.c_char * nbytes).from_address(address)
    return np.frombuffer(memory, np.uint8)


class _FakeLinked:
    """In place of Code.ptx and Code.linked: no compiler of CUDA's is needed."""

    @staticmethod
    def ptx(code: gpu_code.Code) -> str:
        if not isinstance(code, gpu_code.NestCode):
            return ""
        raises = "atomicrmw or" in simt.emit(code.nest, short=code.short)[0]
        return "atom.global.or.b64" if raises else ""

    @staticmethod
    def linked(code: gpu_code.Code) -> Linked:
        cubin = hashlib.sha256(code.text.encode()).digest() + code.arch.name.encode()
        infos = (KernelInfo(name, REGISTERS, 0, 0, 0, 0, 0) for name in code.names)
        return Linked(cubin, tuple(infos))


@contextmanager
def installed(fake: FakeDriver, patch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """Let the fake be the driver of this process."""
    patch.setattr(drivers, "_process", drivers._Process(driver=fake))  # type: ignore[arg-type]
    patch.setattr(devices, "_devices", {})
    patch.setattr(gpu_code, "_codes", {})
    patch.setattr(gpu_code.Code, "ptx", property(_FakeLinked.ptx))
    patch.setattr(gpu_code.Code, "linked", property(_FakeLinked.linked))
    yield fake
