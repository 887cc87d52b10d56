"""CUDA's driver, as the few calls that fjit needs, with plain numbers in and out.

Takes addresses, handles and sizes as ints, gives ints. Handles are those of cuda.bindings as ints,
so that a test can stand in for all of it. Invariant: nothing is called before cuInit succeeded, and
a code other than CUDA_SUCCESS is a `DriverError` that says what was being done.

    driver = started()
    driver.count()          ->    1
    driver.name(0)          ->    "NVIDIA H200"
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from fjit.backend import toolkit
from fjit.errors import DriverError
from fjit.runtime.driver_errors import no_driver, refused

NAME_BYTES: Final = 256
_WORD: Final = 8


class Launch(NamedTuple):
    """A kernel, its blocks, their threads, and the words that it takes."""

    function: int
    grid: tuple[int, int]
    block: tuple[int, int]
    words: np.ndarray[Any, np.dtype[np.int64]]


class Driver:
    """The driver of this process, started. See the module's docstring."""

    def __init__(self) -> None:
        """Start the driver; DriverError if it is not there or does not start."""
        self._cuda: Any = toolkit.driver()  # a module without type information
        try:
            (status,) = self._cuda.cuInit(0)
        except (RuntimeError, OSError) as error:  # its library is not on this machine
            why = " ".join(str(error).split()) or type(error).__name__
            raise no_driver(f"it was not found: {why}") from error
        if int(status):
            meaning = self._meaning(status)
            raise no_driver(f"it does not start: {meaning} ({_name(status)})")

    # ---- asking -----------------------------------------------------------------------------
    def _do(self, doing: str, name: str, *arguments: Any) -> Any:
        """Call a function of the driver; its value, or a tuple of several."""
        try:
            status, *values = getattr(self._cuda, name)(*arguments)
        except (AttributeError, RuntimeError) as error:  # the driver is older than the function
            raise DriverError(
                f"{doing} failed: the driver has no {name}; update NVIDIA's driver (it is "
                f"version {self.version()})"
            ) from error
        if int(status):
            raise refused(_name(status), self._meaning(status), doing)
        return values[0] if len(values) == 1 else tuple(values)

    def _meaning(self, status: Any) -> str:
        """The driver's own sentence about a code."""
        failed, text = self._cuda.cuGetErrorString(status)
        return "" if int(failed) or text is None else _text(text)

    def version(self) -> tuple[int, int]:
        """The newest CUDA version that the driver knows."""
        status, number = self._cuda.cuDriverGetVersion()
        return (0, 0) if int(status) else (number // 1000, number % 1000 // 10)

    def count(self) -> int:
        """How many devices are visible."""
        return int(self._do("counting devices", "cuDeviceGetCount"))

    def name(self, device: int) -> str:
        """A device's name."""
        return _text(self._do("reading a device's name", "cuDeviceGetName", NAME_BYTES, device))

    def memory(self, device: int) -> int:
        """A device's memory in bytes."""
        return int(self._do("reading a device's memory", "cuDeviceTotalMem", device))

    def attribute(self, device: int, name: str) -> int:
        """An attribute of a device, by the end of its name in CUDA: MULTIPROCESSOR_COUNT."""
        which = getattr(self._cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        doing = f"reading {name.lower()} of GPU {device}"
        return int(self._do(doing, "cuDeviceGetAttribute", which, device))

    def device_of(self, address: int) -> int:
        """The device whose memory an address is of."""
        which = self._cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        doing = f"finding the GPU of address {address:#x}"
        return int(self._do(doing, "cuPointerGetAttribute", which, address))

    # ---- contexts ---------------------------------------------------------------------------
    def retain(self, device: int) -> int:
        """The context of a device that all libraries in this process share."""
        doing = f"starting GPU {device}"
        return int(self._do(doing, "cuDevicePrimaryCtxRetain", device))

    def push(self, context: int) -> None:
        """Make a context the calling thread's."""
        self._do("entering a context", "cuCtxPushCurrent", context)

    def pop(self) -> None:
        """Give the calling thread the context that it had before."""
        self._do("leaving a context", "cuCtxPopCurrent")

    # ---- memory -----------------------------------------------------------------------------
    def create_pool(self, device: int, keep: int) -> int:
        """A pool that holds on to `keep` bytes of freed memory."""
        cuda = self._cuda
        how = cuda.CUmemPoolProps()
        how.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        how.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        how.location.id = device
        doing = f"making a pool of memory on GPU {device}"
        pool = self._do(doing, "cuMemPoolCreate", how)
        which = cuda.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self._do(doing, "cuMemPoolSetAttribute", pool, which, cuda.cuuint64_t(keep))
        return int(pool)

    def trim(self, pool: int) -> None:
        """Give a pool's freed memory back to the system."""
        self._do("giving memory back", "cuMemPoolTrimTo", pool, 0)

    def allocate(self, nbytes: int, pool: int, stream: int) -> int:
        """The address of fresh memory, usable in the order of the stream; pool 0 is no pool."""
        doing = f"reserving {nbytes:,} bytes on the GPU"
        if not pool:
            return int(self._do(doing, "cuMemAlloc", nbytes))
        return int(self._do(doing, "cuMemAllocFromPoolAsync", nbytes, pool, stream))

    def free(self, address: int, pool: int, stream: int) -> None:
        """Free memory once the stream's work so far is done."""
        if pool:
            self._do("freeing memory", "cuMemFreeAsync", address, stream)
        else:
            self._do("freeing memory", "cuMemFree", address)

    def copy_in(self, address: int, source: int, nbytes: int, stream: int) -> None:
        """Copy from the host to the device, in the order of the stream."""
        doing = f"copying {nbytes:,} bytes to the GPU"
        self._do(doing, "cuMemcpyHtoDAsync", address, source, nbytes, stream)

    def copy_out(self, target: int, address: int, nbytes: int, stream: int) -> None:
        """Copy from the device to the host, in the order of the stream."""
        doing = f"copying {nbytes:,} bytes from the GPU"
        self._do(doing, "cuMemcpyDtoHAsync", target, address, nbytes, stream)

    def copy(self, target: int, address: int, nbytes: int, stream: int) -> None:
        """Copy within the device."""
        doing = f"copying {nbytes:,} bytes on the GPU"
        self._do(doing, "cuMemcpyDtoDAsync", target, address, nbytes, stream)

    def clear(self, address: int, nbytes: int, stream: int) -> None:
        """Write zeros."""
        self._do(f"clearing {nbytes:,} bytes", "cuMemsetD8Async", address, 0, nbytes, stream)

    # ---- code -------------------------------------------------------------------------------
    def load(self, cubin: bytes) -> int:
        """The module of machine code, in the thread's context."""
        return int(self._do("loading machine code on the GPU", "cuModuleLoadData", cubin))

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        doing = f"finding kernel {name}"
        return int(self._do(doing, "cuModuleGetFunction", module, name.encode()))

    def launch(self, launch: Launch, stream: int) -> None:
        """Start a kernel in the order of the stream."""
        function, grid, block, words = launch
        places = _places(words)
        doing = f"starting a kernel of {grid} blocks of {block} threads"
        self._do(
            doing, "cuLaunchKernel", function, *grid, 1, *block, 1, 0, stream,
            int(places.ctypes.data), 0,
        )  # fmt: skip

    def graph(self, launches: Sequence[Launch]) -> int:
        """A graph that starts these kernels one after the other, with the words of now."""
        doing = f"recording {len(launches)} kernels as a graph"
        graph = self._do(doing, "cuGraphCreate", 0)
        try:
            before: list[Any] = []
            for function, grid, block, words in launches:
                how = self._cuda.CUDA_KERNEL_NODE_PARAMS()
                how.func = self._cuda.CUfunction(function)
                how.gridDimX, how.gridDimY, how.gridDimZ = *grid, 1
                how.blockDimX, how.blockDimY, how.blockDimZ = *block, 1
                places = _places(words)
                how.kernelParams = int(places.ctypes.data)
                node = self._do(doing, "cuGraphAddKernelNode", graph, before, len(before), how)
                before = [node]
            return int(self._do(doing, "cuGraphInstantiate", graph, 0))
        finally:
            self._do("forgetting a graph", "cuGraphDestroy", graph)

    def launch_graph(self, graph: int, stream: int) -> None:
        """Start a graph's kernels in the order of the stream."""
        self._do("starting a graph of kernels", "cuGraphLaunch", graph, stream)

    def destroy_graph(self, graph: int) -> None:
        """Forget a graph; what runs of it ends first."""
        self._do("forgetting a graph", "cuGraphExecDestroy", graph)

    # ---- order ------------------------------------------------------------------------------
    def wait(self, stream: int) -> None:
        """Wait until a stream's work so far is done; errors of its kernels are raised here."""
        self._do("waiting for the GPU", "cuStreamSynchronize", stream)

    def wait_all(self) -> None:
        """Wait for all work in the thread's context."""
        self._do("waiting for the GPU", "cuCtxSynchronize")

    def event(self) -> int:
        """A point in time, to be recorded."""
        return int(self._do("making an event", "cuEventCreate", 0))

    def record(self, event: int, stream: int) -> None:
        """Let an event be when the stream's work so far is done."""
        self._do("recording an event", "cuEventRecord", event, stream)

    def await_event(self, stream: int, event: int) -> None:
        """Let what comes next in a stream wait for an event."""
        self._do("ordering two streams", "cuStreamWaitEvent", stream, event, 0)

    def elapsed(self, start: int, stop: int) -> float:
        """Milliseconds between two events that have happened."""
        return float(self._do("timing", "cuEventElapsedTime", start, stop))

    def destroy_event(self, event: int) -> None:
        """Forget an event."""
        self._do("forgetting an event", "cuEventDestroy", event)


@dataclass(slots=True)
class _Process:
    """The driver of this process, and whether it was started in a parent that forked."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    driver: Driver | None = None
    of_parent: bool = False


_process = _Process()


def started() -> Driver:
    """The driver of this process; DriverError if it cannot be used."""
    if _process.of_parent:
        raise forked()
    with _process.lock:
        if _process.driver is None:
            _process.driver = Driver()
        return _process.driver


def is_usable() -> bool:
    """Whether memory of this process's driver can still be freed: not in a forked child."""
    return _process.driver is not None and not _process.of_parent


def forked() -> DriverError:
    """The error for a forked child of a process that used the GPU."""
    return DriverError(
        "this process was forked from one that had started the GPU's driver, which does not work "
        "in the child: start processes with multiprocessing.get_context('spawn') or 'forkserver', "
        "or use the GPU only after the fork. `fjit doctor` shows the GPUs; target='cuda-emulator' "
        "runs the same kernels without them."
    )


def _places(words: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The addresses of words one behind the other, which is how the driver takes them."""
    return words.ctypes.data + _WORD * np.arange(len(words), dtype=np.int64)


def _name(status: Any) -> str:
    """A code's name; `status` is an enumeration of cuda.bindings, or a number that it lacks."""
    return str(getattr(status, "name", f"code {int(status)}"))


def _text(raw: bytes | str) -> str:
    """Text that a C function wrote into a buffer."""
    return raw if isinstance(raw, str) else raw.split(b"\0")[0].decode(errors="replace")


def _after_fork_in_child() -> None:
    _process.lock = threading.Lock()
    _process.of_parent = _process.driver is not None or _process.of_parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
