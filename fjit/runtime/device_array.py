"""An array in a GPU's memory, for where no library of GPU arrays is at hand.

Takes a `Placed` array, gives what other libraries read through `__cuda_array_interface__` and
DLPack, and NumPy through a copy. Invariant: nothing is copied but by `to_numpy`.

    y = fjit.cuda.from_numpy(np.arange(6.0))
    y[::-2]                 <fjit.cuda.DeviceArray float64(3,) on GPU 0>
    y[::-2].to_numpy()      array([5., 3., 1.])
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fjit.core.placed import Array, Placed
from fjit.errors import FjitTypeError, FjitValueError
from fjit.runtime import dlpack
from fjit.runtime.devices import Block, device

LEGACY: Final = 1
"""The number of the default stream in the protocols, where 0 is not allowed."""


class DeviceArray:
    """An array in the memory of a GPU. Pass it to fused functions; `to_numpy` copies it out.

    `torch.from_dlpack`, `cupy.from_dlpack` and `numba.cuda.as_cuda_array` show the same memory.
    """

    __slots__ = ("__weakref__", "_placed")

    def __init__(self, placed: Placed) -> None:
        """Not for users: `fjit.cuda.from_numpy` and fused functions make these."""
        self._placed = placed

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the axes."""
        return tuple(self._placed.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        dtype: np.dtype[Any] = self._placed.dtype
        return dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
        return self._placed.strides

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self._placed.ndim

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self._placed.size

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self._placed.nbytes

    @property
    def device(self) -> int:
        """The number of the GPU."""
        return self._placed.place.number

    @property
    def T(self) -> DeviceArray:
        """A view with the axes in reverse order."""
        return DeviceArray(self._placed.T)

    def __len__(self) -> int:
        """The extent of the first axis."""
        return len(self._placed)

    def __repr__(self) -> str:
        """Type, shape and device; the elements would have to be fetched."""
        return f"<fjit.cuda.DeviceArray {self.dtype}{self.shape} on GPU {self.device}>"

    def __getitem__(self, index: Any) -> DeviceArray:
        """A view: integers, slices, `...` and None; anything else belongs into a fused function."""
        parts = index if isinstance(index, tuple) else (index,)
        if any(isinstance(part, bool) or not _is_basic(part) for part in parts):
            raise FjitTypeError(
                f"a DeviceArray is indexed by integers, slices, ... and None, not by {index!r}: "
                "write the selection in a fused function"
            )
        if not any(part is Ellipsis for part in parts):
            parts = (*parts, Ellipsis)  # so that one element, too, is a view of it
        view: Any = self._placed[parts]  # a subclass's views are of the subclass
        return DeviceArray(view)

    def to_numpy(self) -> Array:
        """A copy in the host's memory, once the work on this array is done."""
        return self._placed.on_host()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Refuse: a copy over the bus is to be seen in the code."""
        raise FjitTypeError(
            f"{self!r} does not become a NumPy array by itself: write .to_numpy() for a copy in "
            "the host's memory"
        )

    # ---- protocols ----------------------------------------------------------------------------
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the protocol: memory, layout, and the stream that the contents are from."""
        placed = self._placed
        address = placed.address if placed.size else 0
        return {
            "shape": placed.shape,
            "typestr": placed.dtype.str,
            "data": (address, not placed.flags.writeable),
            "strides": None if placed.flags.c_contiguous else placed.strides,
            "version": 3,
            "stream": placed.stream or LEGACY,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """A CUDA device, and its number."""
        return dlpack.CUDA, self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule, whose contents are ready for what comes next on the consumer's stream."""
        if dl_device is not None and tuple(map(int, dl_device)) != self.__dlpack_device__():
            raise BufferError(f"{self!r} is not on device {dl_device}: write .to_numpy()")
        placed = self._placed
        if copy:
            raise BufferError("fjit.cuda.DeviceArray makes no copy through DLPack")
        consumer = LEGACY if stream is None else int(stream)
        if consumer == 0:
            raise FjitValueError("stream=0 is ambiguous in DLPack: 1 is the default stream")
        if consumer > 0:  # -1: the consumer takes care itself
            if isinstance(placed.holder, Block):
                placed.holder.users.add(0 if consumer == LEGACY else consumer)
            order = 0 if consumer == LEGACY else consumer
            device(self.device).follow(order, [placed.stream])
        return dlpack.capsule(placed)


def _is_basic(part: Any) -> bool:
    return part is None or part is Ellipsis or isinstance(part, slice | int | np.integer)
