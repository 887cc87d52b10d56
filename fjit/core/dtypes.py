"""The dtypes programs are made of, their short names, and NumPy's promotion between them.

Takes NumPy dtypes, gives native-byte-order NumPy dtypes. Invariant: every dtype inside a program is
a key of `NAMES`; byte order and alignment belong to buffers, not to programs.
"""

from functools import cache
from typing import Any, Final

import numpy as np

from fjit.errors import dtype_error

BOOL: Final = np.dtype(np.bool_)
I64: Final = np.dtype(np.int64)
F64: Final = np.dtype(np.float64)
F32: Final = np.dtype(np.float32)

NAMES: Final[dict[np.dtype, str]] = {
    np.dtype(np.bool_): "bool",
    np.dtype(np.int8): "i8",
    np.dtype(np.int16): "i16",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(np.uint8): "u8",
    np.dtype(np.uint16): "u16",
    np.dtype(np.uint32): "u32",
    np.dtype(np.uint64): "u64",
    np.dtype(np.float16): "f16",
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.complex64): "c64",
    np.dtype(np.complex128): "c128",
}
BY_NAME: Final[dict[str, np.dtype]] = {name: dtype for dtype, name in NAMES.items()}
COMPILED: Final[frozenset[np.dtype]] = frozenset(
    d for d in NAMES if d.kind in "biu" or d in (F32, F64) or d == np.dtype(np.float16)
)
"""Dtypes the code generators handle; the others only have a name and a meaning so far."""


@cache
def canonical(dtype: np.dtype, what: str = "an array") -> np.dtype:
    """`dtype` in native byte order; raises UnsupportedError for one that programs cannot hold.

    It is NumPy's own instance: with an equal one, such as `newbyteorder` makes, NumPy's functions
    take other, slower ways (`np.add.at` one fifty times as slow).
    """
    native = dtype.newbyteorder("=")
    if native.kind in "biuf":
        native = np.dtype(f"{native.kind}{native.itemsize}")
    if native not in COMPILED:
        raise dtype_error(dtype, what)
    return native


def name(dtype: np.dtype) -> str:
    """The short name printed in programs, such as `f32`."""
    return NAMES[dtype]


@cache
def unify(*dtypes: np.dtype) -> np.dtype:
    """NumPy's common dtype of arrays of `dtypes` (none of them weak Python scalars)."""
    return np.result_type(*dtypes)


@cache
def unify_weak(dtype: np.dtype, kind: type) -> np.dtype:
    """NEP 50: the dtype of an operation between an array of `dtype` and a Python `kind` scalar."""
    return np.result_type(dtype, kind(1))


def is_float(dtype: np.dtype) -> bool:
    """Whether `dtype` is a real floating-point dtype."""
    return dtype.kind == "f"


def is_integer(dtype: np.dtype) -> bool:
    """Whether `dtype` is a signed or unsigned integer dtype (not bool)."""
    return dtype.kind in "iu"


def word(value: object, dtype: np.dtype) -> int:
    """The bits of a number in `dtype` as a signed 64-bit integer."""
    data = np.asarray(value, dtype=dtype).tobytes().ljust(8, b"\0")
    return int.from_bytes(data, "little", signed=True)


def from_word(bits: int, dtype: np.dtype) -> Any:
    """The number in `dtype` that `word` gives these bits."""
    return np.frombuffer(bits.to_bytes(8, "little", signed=True), dtype, 1)[0]
