"""Arrays and devices of CUDA: `DeviceArray`, `devices`, `from_numpy`, `from_dlpack`.

Fused functions take arrays of any library that has `__cuda_array_interface__` or DLPack, and run
where they lie. These few names are for where no such library is at hand.

    x = fjit.cuda.from_numpy(np.ones((1000, 1000), "f4"))
    y = fjit.fuse(np.tanh)(x)        y lies on the GPU
    y.to_numpy()                     a copy in the host's memory
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fjit.core.placed import Placed
from fjit.errors import FjitTypeError
from fjit.frontend.function import input_aval
from fjit.runtime import devices as _devices
from fjit.runtime.device_array import DeviceArray
from fjit.runtime.devices import LEGACY_STREAM
from fjit.runtime.exchange import located

__all__ = ["DeviceArray", "DeviceInfo", "devices", "from_dlpack", "from_numpy", "synchronize"]


class DeviceInfo(NamedTuple):
    """A visible GPU: its number, name, compute capability and memory in bytes."""

    number: int
    name: str
    capability: tuple[int, int]
    memory: int


def devices() -> tuple[DeviceInfo, ...]:
    """Every visible GPU.

    Returns:
        One `DeviceInfo` each, in the order of their numbers; none where the driver sees none.

    Raises:
        DriverError: Where there is no driver, or it does not start.
    """
    return tuple(DeviceInfo(d.number, d.name, d.capability, d.memory) for d in _devices.devices())


def from_numpy(array: Any, device: int = 0) -> DeviceArray:
    """Copy an array to a GPU.

    Args:
        array: A NumPy array, or what `np.asarray` makes one of; any shape and strides.
        device: The number of the GPU.

    Returns:
        A `DeviceArray` of the same shape, dtype and strides.

    Raises:
        UnsupportedError: For a dtype that fused functions do not take.
        DriverError: Where there is no such GPU, or not enough memory on it.
    """
    array = np.asarray(array)
    input_aval(array, "the array")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return DeviceArray(_devices.device(device).upload(array, LEGACY_STREAM))


def from_dlpack(array: Any, /) -> DeviceArray:
    """Show another library's GPU array as a `DeviceArray`, over the same memory.

    Args:
        array: An object with `__cuda_array_interface__` or `__dlpack__`, in the memory of a GPU.

    Returns:
        A `DeviceArray`, which keeps the other array alive.

    Raises:
        FjitTypeError: For anything else; `from_numpy` copies arrays of the host's memory.
    """
    found = located(array)
    if not isinstance(found, Placed):
        raise FjitTypeError(
            f"a {type(array).__name__} is no array in the memory of a GPU: fjit.cuda.from_numpy "
            "copies one there"
        )
    return DeviceArray(found)


def synchronize(device: int = 0) -> None:
    """Wait for all work on a GPU, and raise the errors of its kernels."""
    _devices.device(device).synchronize()
