"""The native entry: calls of a fused function that CPython answers without entering Python.

Takes the addresses of records (see records), gives a base class for fused functions. Its instances
have room for two addresses: that of the entry, through which CPython calls them by the vectorcall
convention, and that of the list of records. While the first is 0, CPython calls `__call__`.
Invariant: whatever no record describes ends in `__call__`, with the arguments untouched.

`FJIT_DISPATCH` chooses: auto (native where this process allows it), native (or an error) or python.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
import sysconfig
from typing import Any, Final, Protocol

import numpy as np

from fjit.core.trace import OPEN
from fjit.errors import FjitValueError
from fjit.frontend.paths import GONE
from fjit.runtime import entry_ir, results, threads
from fjit.runtime.addresses import address_of
from fjit.runtime.host import host
from fjit.runtime.jit import Module, compile_module

DISPATCH: Final = ("auto", "native", "python")
MAX_RECORDS: Final = 16
"""Kinds of calls that the entry looks through; more are told apart in Python."""
_ENTRY_AT: Final = 16  # of an instance: behind the head of a Python object
_VECTORCALL_OFFSET_AT, _FLAGS_AT, _HAVE_VECTORCALL = 56, 168, 1 << 11  # cpython/object.h
# numpy/__multiarray_api.h: places in NumPy's table of functions
_NEW_FROM_DESCR, _RETURN, _RESIZE, _NEW_COPY, _COPY_INTO = 94, 76, 80, 85, 50


class Record(Protocol):
    """The words of one kind of call: where they are, calls answered, whether a thread is inside."""

    @property
    def address(self) -> int: ...
    @property
    def hits(self) -> int: ...
    @property
    def busy(self) -> bool: ...


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("value", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.c_void_p),
    )


def _layout_is_known() -> bool:
    """Whether objects of this interpreter are laid out as the native entry reads them."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if sys.maxsize < 2**63 - 1 or platform.system() not in ("Linux", "Darwin"):
        return False
    number, array = 1.5, np.zeros((2, 3), order="F")
    array.flags.writeable = False
    address = id(array)
    as_read = (
        _word(id(number) + 8) == id(float),
        ctypes.c_double.from_address(id(number) + 16).value == number,
        _word(address + 8) == id(np.ndarray),
        _word(address + 16) == array.__array_interface__["data"][0],
        ctypes.c_int32.from_address(address + 24).value == array.ndim,
        [_word(_word(address + 32) + 8 * k) for k in range(2)] == list(array.shape),
        [_word(_word(address + 40) + 8 * k) for k in range(2)] == list(array.strides),
        _word(address + 56) == id(array.dtype),
        ctypes.c_int32.from_address(address + 64).value == array.flags.num,
        _word(id(int) + 32) == int.__basicsize__,
        _word(id(int) + _FLAGS_AT) == int.__flags__,
    )
    return all(as_read)


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _base() -> type:
    """A type whose instances have room for the entry's and the state's address."""
    slots = (_Slot * 1)(_Slot(0, None))
    default, base = 0, 1 << 10  # Py_TPFLAGS_BASETYPE
    spec = _Spec(_NAME, entry_ir.STATE_OFFSET + 8, 0, default | base, ctypes.addressof(slots))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(
        ("PyType_FromSpec", ctypes.pythonapi)
    )
    made: type = make(ctypes.addressof(spec))
    return made


_NAME: Final = b"fjit.runtime.entry.Base"  # a type may keep the pointer
LAYOUT_IS_KNOWN: Final = _layout_is_known()
_Base: Any = _base() if LAYOUT_IS_KNOWN else object


class NativeCallable(_Base):  # type: ignore[misc]  # made at run time
    """Base of fused functions: calls that a record describes never enter Python."""

    _state: np.ndarray[Any, np.dtype[np.int64]] | None = None
    _records: tuple[Record, ...] = ()
    _retired: tuple[Record, ...] = ()
    _answered = 0

    def __init_subclass__(cls) -> None:
        """Let CPython look for the entry's address in each instance; 0 there means `__call__`.

        Not where a class further down has a `__call__` of its own.
        """
        super().__init_subclass__()
        first = next(c for c in cls.__mro__ if "__call__" in vars(c))
        if LAYOUT_IS_KNOWN and NativeCallable in first.__bases__:
            ctypes.c_int64.from_address(id(cls) + _VECTORCALL_OFFSET_AT).value = _ENTRY_AT
            flags = ctypes.c_uint64.from_address(id(cls) + _FLAGS_AT)
            flags.value |= _HAVE_VECTORCALL

    @property
    def records(self) -> tuple[Record, ...]:
        """The kinds of calls that are answered natively, the latest first."""
        return self._records

    def knows(self, record: Record) -> bool:
        """Whether calls that `record` describes are answered natively."""
        return record in self._records

    def publish(self, record: Record) -> None:
        """Answer calls that `record` describes natively, from now on; before all others."""
        others = tuple(r for r in self._records if r is not record)
        kept = (record, *others)[:MAX_RECORDS]
        if self._state is None:
            self._state = np.zeros(1 + MAX_RECORDS, np.int64)
            entry = _loaded().address("fjit_entry")
            ctypes.c_int64.from_address(id(self) + entry_ir.STATE_OFFSET).value = address_of(
                self._state
            )
            ctypes.c_int64.from_address(id(self) + _ENTRY_AT).value = entry
        self._state[1 : 1 + len(kept)] = [r.address for r in kept]
        self._state[0] = len(kept)  # from here on no call enters one that is left out
        self._records = kept
        self._retire(others[len(kept) - 1 :])

    def withdraw(self) -> None:
        """Forget all records, and the calls that they answered."""
        if self._state is not None:
            self._state[0] = 0
        self._retire(self._records)
        self._records, self._answered = (), 0

    def _retire(self, records: tuple[Record, ...]) -> None:
        """Keep records alive until no thread is inside."""
        self._answered += sum(r.hits for r in records)
        self._retired = tuple(r for r in (*self._retired, *records) if r.busy)

    @property
    def answered(self) -> int:
        """Calls that were answered natively since the last `withdraw`."""
        return self._answered + sum(r.hits for r in self._records)


class _Process:
    module: Module | None = None


_process = _Process()


@functools.cache
def missing() -> str:
    """Why this process has no native entry, or nothing."""
    wanted = os.environ.get("FJIT_DISPATCH", "auto")
    if wanted not in DISPATCH:
        raise FjitValueError(
            f"FJIT_DISPATCH={wanted!r} is not one of {', '.join(DISPATCH)}. Unset it, or write "
            "FJIT_DISPATCH=auto to let fjit choose."
        )
    lack = ""
    if not LAYOUT_IS_KNOWN:
        lack = "it needs CPython with its global lock on 64-bit Linux or macOS"
    elif not results.numpy_function(_NEW_FROM_DESCR):
        lack = f"NumPy {np.__version__} does not offer its C interface at the known place"
    if wanted == "native" and lack:
        raise FjitValueError(f"FJIT_DISPATCH=native, but {lack}. Write FJIT_DISPATCH=python.")
    return "FJIT_DISPATCH=python" if wanted == "python" else lack


def _loaded() -> Module:
    """The native part, loaded once; it stays, since callables point to it."""
    if _process.module is None:
        module = compile_module(entry_ir.entry_ir(), target=host())
        module.keep_loaded()
        set_handler, handler = results.native_handler()
        limit, openmp_limit = threads.native_limits()
        values = {
            "array_type": id(np.ndarray), "float_type": id(float), "int_type": id(int),
            "gone": id(GONE), "true": id(True), "false": id(False), "call_name": id(_CALL),
            "tracing": ctypes.addressof(OPEN),
            "new_array": results.numpy_function(_NEW_FROM_DESCR),
            "return_array": results.numpy_function(_RETURN),
            "resize": results.numpy_function(_RESIZE),
            "copy_array": results.numpy_function(_NEW_COPY),
            "copy_into": results.numpy_function(_COPY_INTO),
            "set_data": set_handler, "data": handler,
            "run_steps": threads.address_of_run(),
            "limit": limit, "openmp_limit": openmp_limit,
        }  # fmt: skip
        for name, value in values.items():
            ctypes.c_int64.from_address(module.address(f"fjit_{name}")).value = value
        _process.module = module
    return _process.module


_CALL: Final = sys.intern("__call__")


def free(address: int) -> None:
    """Free the memory that the record at `address` keeps for its temporaries."""
    if _process.module is not None:
        release = ctypes.CFUNCTYPE(None, ctypes.c_int64)
        release(_process.module.address("fjit_entry_free"))(address)
