"""The NVIDIA GPUs that the CUDA driver of this machine knows, asked through ctypes.

Takes the library's name, gives a `Driver`. Invariant: no CUDA package is needed or imported, no
context is made on a device, and a driver that is missing or does not start is an answer, not an
error.

    driver().devices   ->   (Device("NVIDIA H100 80GB HBM3", (9, 0)),)
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from fjit.target import GPU_TARGETS

LIBRARY = "libcuda.so.1"
_NAME_BYTES = 256


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU: its name and its compute capability."""

    name: str
    capability: tuple[int, int]

    @property
    def target(self) -> str | None:
        """The newest architecture of GPU_TARGETS whose code runs on it, or None.

        A cubin runs on its own compute capability and on later ones of the same major version.
        """
        fitting = [row for row in GPU_TARGETS.values() if row.capability[0] == self.capability[0]]
        older = [row.name for row in fitting if row.capability <= self.capability]
        return older[-1] if older else None


@dataclass(frozen=True, slots=True)
class Driver:
    """What the driver says: its CUDA version and devices, or why there is nothing to say."""

    version: tuple[int, int] | None
    devices: tuple[Device, ...]
    found: bool = True
    status: int = 0


def driver(library: str = LIBRARY) -> Driver:
    """Ask the CUDA driver for its version and its devices."""
    try:
        cuda = ctypes.CDLL(library)
    except OSError:
        return Driver(None, (), found=False)
    status = cuda.cuInit(0)
    if status != 0:
        return Driver(None, (), status=status)
    version = _number(cuda.cuDriverGetVersion)
    devices = tuple(_device(cuda, index) for index in range(_number(cuda.cuDeviceGetCount)))
    return Driver((version // 1000, version % 1000 // 10), devices)


def _device(cuda: ctypes.CDLL, index: int) -> Device:
    handle = _number(cuda.cuDeviceGet, index)
    name = ctypes.create_string_buffer(_NAME_BYTES)
    cuda.cuDeviceGetName(name, _NAME_BYTES, handle)
    major, minor = ctypes.c_int(0), ctypes.c_int(0)
    cuda.cuDeviceComputeCapability(ctypes.byref(major), ctypes.byref(minor), handle)
    return Device(name.value.decode(errors="replace"), (major.value, minor.value))


def _number(function: Callable[..., int], *arguments: int) -> int:
    """What a driver function writes through its first argument; 0 where it fails."""
    number = ctypes.c_int(0)
    return number.value if function(ctypes.byref(number), *arguments) == 0 else 0
