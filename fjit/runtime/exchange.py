"""Arrays of other libraries: in, as `Placed`, and results out, as that library's arrays.

Takes what a user passed, gives what tracing and running see, and back. Invariant: nothing is
copied; the caller's own object comes back where NumPy would return the argument itself.

    located(a CuPy array)    ->    a Placed array over its memory, ready on its stream
    located(np.ones(3))      ->    the same
    restored(result, like)   ->    a CuPy array over the result's memory
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fjit.core.placed import Placed, placed
from fjit.errors import FjitValueError, UnsupportedError
from fjit.runtime import dlpack
from fjit.runtime.device_array import LEGACY, DeviceArray
from fjit.runtime.devices import LEGACY_STREAM, device
from fjit.runtime.driver import started

Find = Callable[..., Any]
"""From a value, and words for where it was met, to its geometry or itself."""

_HOST: Final = frozenset({np.ndarray, bool, int, float, complex, str, bytes, type(None), Placed})


def located(value: Any, what: str = "an argument") -> Any:
    """The geometry of an array in GPU memory; anything else as it is."""
    if type(value) in _HOST or isinstance(value, np.ndarray | np.generic | type):
        return value
    if isinstance(value, DeviceArray):
        found = value._placed.view()
    else:
        interface = getattr(value, "__cuda_array_interface__", None)
        if interface is not None:
            found = _by_interface(value, interface)
        elif _dlpack_device(value) == dlpack.CUDA:
            found = _by_dlpack(value)
        else:
            return value
    found.origin = value
    return found


def by_class(find: Find) -> Find:
    """The same for what a function reads from outside: no `__getattr__` of a user's is asked."""

    def found(value: Any, what: str = "an argument") -> Any:
        return find(value, what) if _is_array(type(value)) else value

    return found


def refused(target: str) -> Find:
    """In place of `located` where kernels run in the host's memory; no driver is asked."""

    def checked(value: Any, what: str = "an argument") -> Any:
        if not is_on_gpu(value):
            return value
        raise FjitValueError(
            f"target={target!r} runs in the host's memory, and {what} is an array in the memory of "
            f"{_named(value)}: leave the target out (or 'auto', 'cuda'), or pass a copy "
            "(fjit.cuda.DeviceArray and others have .to_numpy(), .get() or .cpu())"
        )

    return checked


def is_on_gpu(value: Any) -> bool:
    """Whether an object says that it is an array in a GPU's memory."""
    if type(value) in _HOST or isinstance(value, np.ndarray | np.generic | type):
        return isinstance(value, Placed)
    interface = getattr(value, "__cuda_array_interface__", None)
    return isinstance(interface, dict) or _dlpack_device(value) == dlpack.CUDA


def _is_array(kind: type) -> bool:
    return hasattr(kind, "__cuda_array_interface__") or hasattr(kind, "__dlpack_device__")


def _named(value: Any) -> str:
    """The GPU and the type of an array, with its dtype and shape where it has them."""
    kind, tells = type(value), callable(getattr(value, "__dlpack_device__", None))
    place = f"GPU {_number(value)}" if tells else "a GPU"
    dtype, shape = getattr(value, "dtype", ""), getattr(value, "shape", None)
    size = "" if shape is None else f" of {dtype}{list(shape)}"
    return f"{place}, a {kind.__module__}.{kind.__qualname__}{size}"


def _by_interface(value: Any, interface: dict[str, Any]) -> Placed:
    if interface.get("mask") is not None:
        raise UnsupportedError("a masked array in GPU memory stays outside fused functions")
    dtype = np.dtype(interface["typestr"])
    if not dtype.isnative:
        raise UnsupportedError(f"an array in GPU memory has the byte order of {dtype.str}")
    address, read_only = interface["data"]
    number = started().device_of(address) if address else _number(value)
    array = placed(
        device(number), address or 0, interface["shape"], dtype, interface.get("strides"),
        holder=value, stream=_stream(value, interface, number),
    )  # fmt: skip
    array.setflags(write=not read_only)
    return array


def _stream(value: Any, interface: dict[str, Any], number: int) -> int:
    """The stream that an array's contents are ready on; PyTorch's is that of its thread."""
    stream = interface.get("stream")
    if stream is None and library(value) == "torch":
        stream = sys.modules["torch"].cuda.current_stream(number).cuda_stream
    return LEGACY_STREAM if stream in (None, LEGACY) else int(stream)


def _by_dlpack(value: Any) -> Placed:
    capsule = value.__dlpack__(stream=LEGACY)
    return dlpack.placed_of(capsule, device(_number(value)), LEGACY_STREAM)


def _dlpack_device(value: Any) -> int:
    """The kind of device in DLPack, or 0."""
    ask = getattr(value, "__dlpack_device__", None)
    return int(ask()[0]) if callable(ask) and hasattr(value, "__dlpack__") else 0


def _number(value: Any) -> int:
    """The number of an array's device; of an empty one that does not tell, 0."""
    ask = getattr(value, "__dlpack_device__", None)
    return int(ask()[1]) if callable(ask) else 0


def library(value: Any) -> str:
    """The package that an object's type is of."""
    return type(value).__module__.partition(".")[0]


def restorer(arguments: Sequence[Any]) -> Callable[[Any], Any]:
    """Makes results on the device arrays of the library that the first such argument is of."""
    origins = (a.origin for a in arguments if isinstance(a, Placed) and a.origin is not None)
    package = library(next(origins, None))
    read = sys.modules[package].from_dlpack if package in ("torch", "cupy") else None

    def restored(value: Any) -> Any:
        if not isinstance(value, Placed):
            return value
        if value.origin is not None:
            return value.origin
        array = DeviceArray(value)
        return array if read is None else read(array)

    return restored
