"""Result arrays whose memory is used again: ordinary NumPy arrays over a bounded native pool.

Takes a shape and a dtype, gives an array that owns its data, made by `np.empty` under a memory
handler of ours (NEP 49). NumPy frees it through that handler, in whichever thread its last
reference goes, and the block waits in the pool for the next array of about that size: the first
touch of fresh pages costs more than most kernels. Invariant: no two arrays share a block; NumPy's
own handler is back in place when a call returns.

    a = empty((4096, 1024), np.dtype("f8"))    ->  32 MiB from the system
    del a                                      ->  held_bytes() == 33554432
    b = empty((4096, 1024), np.dtype("f8"))    ->  the same pages

`FJIT_RESULT_POOL` bounds the pool in bytes (default: 512 MiB or an eighth of the machine's memory,
whichever is less); 0 turns it off. Where NumPy's interface is missing, arrays are plain `np.empty`.
"""

import ctypes
import dataclasses
import math
import os
import platform
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fjit.core.ir import Aval
from fjit.errors import FjitValueError
from fjit.runtime.host import host
from fjit.runtime.jit import Module, compile_module
from fjit.runtime.result_pool_ir import POOLED_BYTES
from fjit.runtime.results_ir import results_ir

DEFAULT_LIMIT = 512 * 1024 * 1024
# numpy/__multiarray_api.h: places in NumPy's table of functions, and the version they hold for.
_ABI_VERSION_AT, _SET_HANDLER_AT = 0, 304
_NUMPY_2_ABI = 0x2000000

Allocate = Callable[..., NDArray[Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Status:
    """Whether results come from the pool, its limit in bytes, and if they do not, why."""

    pooled: bool
    limit: int
    reason: str = ""

    def __str__(self) -> str:
        if self.pooled:
            return f"results are pooled, up to {self.limit / 2**20:g} MiB"
        return f"results are not pooled: {self.reason}"


@dataclasses.dataclass(slots=True)
class _Process:
    """What this process decided at the first use: how large arrays are made, and the code."""

    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    allocate: Allocate | None = None
    status: Status | None = None
    module: Module | None = None


_process = _Process()


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an uninitialised array in C order that owns its data, as `np.empty` does.

    From 256 KiB on its memory comes from the pool. Raises what `np.empty` raises.
    """
    if math.prod(shape) * dtype.itemsize < POOLED_BYTES:
        return np.empty(shape, dtype)
    return pooled(np.empty, shape, dtype)


def pooled(make: Callable[..., NDArray[Any]], *arguments: Any) -> NDArray[Any]:
    """Return `make(*arguments)`, whose new arrays of 256 KiB or more take memory from the pool.

    For the likes of `np.empty_like`, where the caller knows that the array is large: a small one
    would miss NumPy's own cache of little blocks.
    """
    allocate = _process.allocate or _ready()
    return allocate(make, *arguments)


class ResultLayout(NamedTuple):
    """A fresh result: shape (symbolic extents at their bound), strides if not in C order."""

    shape: tuple[int, ...]
    dtype: np.dtype
    strides: tuple[int, ...] | None
    pooled: bool


def result_layout(aval: Aval, strides: tuple[int, ...]) -> ResultLayout:
    """How a result with axes in the order of `strides` is made."""
    shape = tuple(e if isinstance(e, int) else e.bound for e in aval.shape)
    order = sorted(range(len(shape)), key=lambda k: -strides[k])
    large = math.prod(shape) * aval.dtype.itemsize >= POOLED_BYTES
    if order == list(range(len(shape))):
        return ResultLayout(shape, aval.dtype, None, large)
    packed = packed_strides(shape, aval.dtype.itemsize, order)
    return ResultLayout(shape, aval.dtype, packed, large)


def packed_strides(shape: Sequence[int], itemsize: int, order: Sequence[int]) -> tuple[int, ...]:
    """Strides in bytes of a packed array with its axes in memory in `order`, outermost first."""
    strides, step = [0] * len(shape), itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def maker(how: ResultLayout) -> Callable[[], Any]:
    """Makes fresh arrays of one layout."""
    shape, dtype, strides, large = how
    if strides is None:
        return (lambda: pooled(np.empty, shape, dtype)) if large else lambda: np.empty(shape, dtype)
    pattern = np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)
    return (lambda: pooled(np.empty_like, pattern)) if large else lambda: np.empty_like(pattern)


def native_handler() -> tuple[int, int]:
    """Return the addresses of NumPy's `PyDataMem_SetHandler` and our handler's capsule, or zeros.

    For native code that makes large arrays as `pooled` does.
    """
    _ready()
    module = _process.module
    if module is None:
        return 0, 0
    return _word(module.address("fjit_set_handler")), _word(module.address("fjit_capsule"))


def numpy_function(place: int) -> int:
    """Return the address of a function of NumPy's C interface, by its place in the table; or 0."""
    table = _numpy_table()
    return _word(table + 8 * place) if table else 0


def clear() -> None:
    """Give the memory in the pool back to the system; arrays in use keep theirs."""
    if _process.module is not None:
        _function(_process.module, "fjit_results_clear")()


def held_bytes() -> int:
    """Return the bytes in the pool now: freed, and not given back to the system."""
    if _process.module is None:
        return 0
    return int(_function(_process.module, "fjit_results_held", ctypes.c_int64)())


def status() -> Status:
    """Return whether results come from the pool in this process, or why not."""
    _ready()
    assert _process.status is not None
    return _process.status


def _ready() -> Allocate:
    with _process.lock:
        if _process.allocate is None:
            limit = _limit()
            reason = "FJIT_RESULT_POOL=0" if limit == 0 else _missing()
            _process.allocate = _plain if reason else _start(limit)
            _process.status = Status(not reason, 0 if reason else limit, reason)
        return _process.allocate


def _plain(make: Allocate, *arguments: Any) -> NDArray[Any]:
    return make(*arguments)


def _limit() -> int:
    """Return the pool's limit in bytes."""
    text = os.environ.get("FJIT_RESULT_POOL", "").strip()
    if not text:
        return min(DEFAULT_LIMIT, _memory() // 8)
    if not text.isdecimal():
        raise FjitValueError(
            f"FJIT_RESULT_POOL={text!r} is not a number of bytes. Write, for example, "
            "FJIT_RESULT_POOL=268435456 for 256 MiB, or 0 to turn the pool of results off."
        )
    return min(int(text), sys.maxsize)


def _memory() -> int:
    """Return the machine's memory in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 8 * DEFAULT_LIMIT


def _missing() -> str:
    """Return what this process lacks for a pool, or nothing."""
    if platform.system() != "Linux" or sys.maxsize < 2**63 - 1:
        return "they need 64-bit Linux"
    if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "they need CPython with its global lock"
    if not _numpy_table():
        return f"NumPy {np.__version__} does not offer its memory handlers at the known place"
    return ""


def _numpy_table() -> int:
    """Return the address of NumPy's table of C functions, or 0."""
    umath = getattr(getattr(np, "_core", None), "_multiarray_umath", None)
    capsule = getattr(umath, "_ARRAY_API", None)
    if capsule is None:
        return 0
    pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    table = int(pointer(capsule, None) or 0)
    version = ctypes.PYFUNCTYPE(ctypes.c_uint)(_word(table + 8 * _ABI_VERSION_AT))
    return table if version() == _NUMPY_2_ABI else 0


def _start(limit: int) -> Allocate:
    """Load the native part, which stays: arrays may be freed until the process ends."""
    module = compile_module(results_ir(), target=host())
    module.keep_loaded()
    new_capsule = _python("PyCapsule_New", ctypes.py_object, *[ctypes.c_void_p] * 3)
    capsule = new_capsule(module.address("fjit_handler"), module.address("fjit_capsule_name"), None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(capsule))  # the native part refers to it
    huge = os.environ.get("NUMPY_MADVISE_HUGEPAGE", "1") != "0"
    _set_word(module, "fjit_capsule", id(capsule))
    _set_word(module, "fjit_set_handler", _word(_numpy_table() + 8 * _SET_HANDLER_AT))
    _set_word(module, "fjit_limit", limit)
    _set_word(module, "fjit_huge", int(huge))
    _process.module = module
    new_function = _python("PyCFunction_NewEx", ctypes.py_object, *[ctypes.c_void_p] * 3)
    allocate: Allocate = new_function(module.address("fjit_method"), None, None)
    return allocate


def _python(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A function of Python's C interface; ctypes' types are not types for a checker."""
    prototype = ctypes.PYFUNCTYPE(result, *arguments)
    return prototype((name, ctypes.pythonapi))


def _function(module: Module, name: str, result: Any = None) -> Callable[[], Any]:
    return ctypes.CFUNCTYPE(result)(module.address(name))


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _set_word(module: Module, name: str, value: int) -> None:
    ctypes.c_int64.from_address(module.address(name)).value = value


def _after_fork_in_child() -> None:
    """No thread but this one lives on: none holds the lock or has a slot in change."""
    _process.lock = threading.Lock()
    if _process.module is not None:
        _function(_process.module, "fjit_results_forked")()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
