"""The GPUs of this process: memory, copies and kernels of each, in the order of a stream.

Takes a device's number, gives its `Device`, one a process. Invariant: the calling thread's context
is as before when a call returns; memory is freed after all work that was queued before on its
stream, and never in a forked child.

    gpu = device(0)
    x = gpu.upload(np.ones(3), stream=0)     a Placed array
    gpu.download(x)                          ->    array([1., 1., 1.])
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from typing import Final

import numpy as np

from fjit.core.placed import Array, Placed, placed, span
from fjit.errors import DriverError
from fjit.runtime import driver as drivers
from fjit.runtime.driver import Driver
from fjit.runtime.driver_errors import ELSEWHERE, CudaError
from fjit.runtime.result_pool_ir import POOLED_BYTES
from fjit.runtime.results import ResultLayout, maker, packed_strides
from fjit.target import GPU_TARGETS, GpuTarget

LEGACY_STREAM: Final = 0
NOTHING_BYTES: Final = 256
KEPT_SHARE: Final = 8
"""The pool holds on to at most this part of the device's memory."""


class Block:
    """Memory on a device, freed with the last reference to it."""

    def __init__(self, device: Device, nbytes: int, stream: int) -> None:
        self.device, self.nbytes, self.stream = device, nbytes, stream
        self.users: set[int] = set()  # other streams that work on it
        self.address = 0
        self.address = device.reserve(max(nbytes, 1), stream)

    def __del__(self) -> None:
        """Give the memory back; a process that ends or was forked leaves that to the system."""
        if self.address and drivers.is_usable():
            with contextlib.suppress(DriverError):  # the device is lost, and its memory with it
                self.device.release(self.address, self.stream, bool(self.users - {self.stream}))


class _Entered(threading.local):
    """The context that this thread entered last, with nothing else of ours since; 0 for none."""

    context = 0


_entered = _Entered()


class _Active:
    """A with-block in which a context is the thread's; within itself there is nothing to do."""

    __slots__ = ("before", "context", "driver")

    def __init__(self, driver: Driver, context: int) -> None:
        self.driver, self.context, self.before = driver, context, _entered.context

    def __enter__(self) -> None:
        """Enter, unless this thread is inside already."""
        if self.before != self.context:
            self.driver.push(self.context)
            _entered.context = self.context

    def __exit__(self, *_: object) -> None:
        """Leave for what was before."""
        if self.before != self.context:
            _entered.context = self.before
            self.driver.pop()


class Device:
    """One GPU. See the module's docstring."""

    def __init__(self, driver: Driver, number: int) -> None:
        self.driver, self.number = driver, number
        self.name = driver.name(number)
        self.memory = driver.memory(number)
        self.capability = (
            driver.attribute(number, "COMPUTE_CAPABILITY_MAJOR"),
            driver.attribute(number, "COMPUTE_CAPABILITY_MINOR"),
        )
        self.multiprocessors = driver.attribute(number, "MULTIPROCESSOR_COUNT")
        self._lock = threading.Lock()
        self._context = self._pool = 0
        self._modules: dict[bytes, int] = {}
        self._nothing: Block | None = None

    def __repr__(self) -> str:
        major, minor = self.capability
        memory = f"{self.memory / 2**30:.1f} GiB"
        return f"<GPU {self.number}: {self.name}, {memory}, sm_{major}{minor}>"

    @property
    def target(self) -> GpuTarget:
        """The newest architecture that code for runs here; DriverError if there is none."""
        major, minor = self.capability
        fits = [t for t in GPU_TARGETS.values() if runs_on(t, self.capability)]
        if not fits:
            raise DriverError(
                f"GPU {self.number}, {self.name}, has architecture sm_{major}{minor}, for which "
                f"fjit makes no code: it needs one of {', '.join(GPU_TARGETS)}. {ELSEWHERE}"
            )
        return max(fits, key=lambda t: t.capability)

    def active(self) -> _Active:
        """Make the device's context the thread's, for as long as a with-block runs."""
        if not drivers.is_usable():
            raise drivers.forked()
        if not self._context:
            self._start()
        return _Active(self.driver, self._context)

    def _start(self) -> None:
        """Retain the context, and make the pool."""
        with self._lock:
            if self._context:
                return
            context = self.driver.retain(self.number)
            if self.driver.attribute(self.number, "MEMORY_POOLS_SUPPORTED"):
                self._pool = self.driver.create_pool(self.number, self.memory // KEPT_SHARE)
            self._context = context

    # ---- memory -----------------------------------------------------------------------------
    def reserve(self, nbytes: int, stream: int) -> int:
        """The address of fresh memory; what the pool holds is given up before this fails."""
        with self.active():
            try:
                return self.driver.allocate(nbytes, self._pool, stream)
            except CudaError as error:
                if error.code != "CUDA_ERROR_OUT_OF_MEMORY" or not self._pool:
                    raise
                self.driver.wait_all()
                self.driver.trim(self._pool)
                return self.driver.allocate(nbytes, self._pool, stream)

    def release(self, address: int, stream: int, shared: bool) -> None:
        """Free memory; if other streams work on it too, once all of them are done."""
        with self.active():
            if shared:
                self.driver.wait_all()
            self.driver.free(address, self._pool, stream)

    def nothing(self) -> int:
        """The address of memory that no loop needs, for empty arrays: loads may be hoisted."""
        if self._nothing is None:
            block = Block(self, NOTHING_BYTES, LEGACY_STREAM)
            with self.active():
                self.driver.wait(LEGACY_STREAM)
            self._nothing = block
        return self._nothing.address

    def empty(self, how: ResultLayout, stream: int) -> Placed:
        """An uninitialised array."""
        nbytes = int(np.prod(how.shape, dtype=np.int64)) * how.dtype.itemsize
        block = Block(self, nbytes, stream)
        return placed(
            self, block.address, how.shape, how.dtype, how.strides, holder=block, stream=stream
        )

    # ---- copies -----------------------------------------------------------------------------
    def upload(self, array: Array, stream: int) -> Placed:
        """A copy of the memory that an array spans, so that its strides stay as they are."""
        low, high = span(array)
        block = Block(self, high - low, stream)
        if high > low:
            with self.active():
                self.driver.copy_in(block.address, low, high - low, stream)
                self.driver.wait(stream)
        start = int(array.__array_interface__["data"][0])
        address = block.address + start - low
        return placed(
            self, address, array.shape, array.dtype, array.strides, holder=block, stream=stream
        )

    def download(self, array: Placed) -> Array:
        """A copy in the host's memory, with the axes in the same order."""
        order = sorted(range(array.ndim), key=lambda k: -abs(array.strides[k]))
        packed = packed_strides(array.shape, array.itemsize, order)
        large = array.nbytes >= POOLED_BYTES
        fresh: Array = maker(ResultLayout(array.shape, array.dtype, packed, large))()
        low, high = span(array)
        if high == low:
            return fresh
        dense = array.strides == packed
        memory = fresh if dense else np.empty(high - low, np.uint8)
        with self.active():
            self.driver.copy_out(int(memory.ctypes.data), low, high - low, array.stream)
            self.driver.wait(array.stream)
        if not dense:
            start = array.address - low
            np.copyto(fresh, np.ndarray(array.shape, array.dtype, memory, start, array.strides))
        return fresh

    def upload_into(self, array: Placed, values: Array) -> None:
        """Write values into an array; what lies between its elements stays as it is."""
        low, high = span(array)
        if high == low:
            return
        memory = np.empty(high - low, np.uint8)
        address = int(memory.ctypes.data)
        with self.active():
            if array.nbytes < high - low:
                self.driver.copy_out(address, low, high - low, array.stream)
                self.driver.wait(array.stream)
            view = np.ndarray(array.shape, array.dtype, memory, array.address - low, array.strides)
            np.copyto(view, values)
            self.driver.copy_in(low, address, high - low, array.stream)
            self.driver.wait(array.stream)

    def duplicate(self, array: Placed, stream: int) -> Placed:
        """A copy on the device of the memory that an array spans."""
        low, high = span(array)
        block = Block(self, high - low, stream)
        if high > low:
            with self.active():
                self.driver.copy(block.address, low, high - low, stream)
        address = block.address + array.address - low
        return placed(
            self, address, array.shape, array.dtype, array.strides, holder=block, stream=stream
        )

    # ---- code and order ---------------------------------------------------------------------
    def function(self, cubin: bytes, name: str) -> int:
        """A kernel of machine code, which is loaded once."""
        with self.active(), self._lock:
            module = self._modules.get(cubin)
            if module is None:
                module = self._modules[cubin] = self.driver.load(cubin)
            return self.driver.function(module, name)

    def follow(self, stream: int, others: Sequence[int]) -> None:
        """Let a stream wait for the work so far of other ones."""
        for other in dict.fromkeys(others):
            if other == stream:
                continue
            with self.active():
                event = self.driver.event()
                self.driver.record(event, other)
                self.driver.await_event(stream, event)
                self.driver.destroy_event(event)

    def synchronize(self) -> None:
        """Wait for all work on this GPU."""
        with self.active():
            self.driver.wait_all()


def runs_on(target: GpuTarget, capability: tuple[int, int]) -> bool:
    """Whether machine code for an architecture runs on a device: same major version, no newer."""
    return target.capability[0] == capability[0] and target.capability[1] <= capability[1]


_devices: dict[int, Device] = {}
_lock = threading.Lock()


def device(number: int) -> Device:
    """A GPU by its number among the visible ones; DriverError if there is none."""
    driver = drivers.started()
    with _lock:
        found = _devices.get(number)
        if found is None or found.driver is not driver:
            count = driver.count()
            if not 0 <= number < count:
                raise DriverError(
                    f"GPU {number} was asked for, and {count} visible (CUDA_VISIBLE_DEVICES "
                    f"decides which are). {ELSEWHERE}"
                )
            found = _devices[number] = Device(driver, number)
        return found


def devices() -> tuple[Device, ...]:
    """All visible GPUs; DriverError if the driver does not start."""
    return tuple(device(k) for k in range(drivers.started().count()))


def _after_fork_in_child() -> None:
    global _lock  # noqa: PLW0603 - the child's own lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
