"""The cost model's numbers, one table, each with its source, and the questions the planner asks it.

Takes equations and avals, gives nanoseconds or verdicts. Sources: measured on AMD Zen 4 at 2.6 GHz,
AVX-512, two cores (elementary functions: ns per float64 element on one core; bandwidths: copy).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from fjit.core.ir import Aval, Eqn, Var
from fjit.core.recorded import plain

Layout = Callable[[Var], tuple[int, ...]]
"""Element strides of a value in memory."""

FLOPS: Final[dict[str, int]] = {
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log10", "log1p"), 20),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan", "atan2"), 20),
    **dict.fromkeys(("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"), 20),
    **dict.fromkeys(("cbrt", "hypot", "pow", "logaddexp", "logaddexp2"), 20),
    **dict.fromkeys(("erf", "erfc", "gammaln", "digamma"), 20),
    **dict.fromkeys(("div", "sqrt", "mod", "fmod", "floordiv"), 8),
    "fma": 2,
}
"""Floating operations an element counts for in reports; all others count 1."""

OPERATION_NS: Final = 0.03
"""Nanoseconds of one float64 flop on one core; of narrower items by their size."""
# fmt: off
FUNCTION_NS: Final[dict[str, tuple[float, float]]] = {
    "exp":  (0.12, 0.45), "exp2":  (0.11, 0.40), "expm1": (0.36, 1.0), "log":   (0.45, 1.3),
    "log2": (0.48, 1.4),  "log10": (0.53, 1.5),  "log1p": (0.60, 1.6), "sin":   (0.36, 0.90),
    "cos":  (0.33, 0.85), "tan":   (0.57, 1.3),  "asin":  (0.39, 1.3), "acos":  (0.51, 1.6),
    "atan": (0.42, 1.4),  "sinh":  (0.46, 1.1),  "cosh":  (0.45, 1.1), "tanh":  (0.37, 1.3),
    "asinh": (0.76, 2.5), "acosh": (0.75, 2.2),  "atanh": (0.70, 1.9), "cbrt":  (0.49, 1.25),
    "sqrt": (0.08, 0.40), "div":   (0.03, 0.18), "pow":   (1.2, 2.0),  "atan2": (0.60, 1.45),
    "hypot": (0.49, 0.90), "mod":  (0.86, 2.0),  "fmod":  (0.86, 2.0), "floordiv": (0.86, 2.0),
    "erf":  (0.60, 1.65), "erfc":  (1.4, 4.5),   "gammaln": (10.0, 9.5), "digamma": (6.7, 7.0),
    "logaddexp": (0.90, 2.5), "logaddexp2": (0.90, 2.5),
}
# fmt: on
"""Nanoseconds of an element of float32 and float64: a loop in the second-level cache less a sum."""
STREAM_NS_PER_BYTE: Final = 0.032
"""Copy bandwidth 31 GB/s: write and read of a buffer in memory."""
CACHE_NS_PER_BYTE: Final = 0.02
"""Copy bandwidth within the last-level cache, 50 GB/s."""
CACHE_BYTES: Final = 16 << 20
NEAR_BYTES: Final = 1 << 19
"""What a kernel may move within the second-level cache."""


class Rates(NamedTuple):
    """Nanoseconds of a byte that is read and of one that is written, and what two threads gain."""

    read: float
    write: float
    shared: float


NEAR: Final = Rates(0.008, 0.012, 1.9)
CACHE: Final = Rates(0.0156, 0.0244, 1.8)
STREAM: Final = Rates(0.026, 0.038, 1.3)
"""Second-level cache 125 GB/s read; last-level cache 64 GB/s, memory 38 GB/s; means of both are the
copies above."""
PRODUCT_NS: Final = {4: 0.016, 8: 0.033}
"""A multiplication and addition in a large matrix product on one core, by bytes of an element."""
VECTOR_NS_PER_BYTE: Final = 0.01
"""A matrix times a vector reads the matrix once: 41 us for 4 MB in the last-level cache."""
LAUNCH_NS: Final = 100.0
FORK_JOIN_NS: Final = 8000.0
SERIAL_NS: Final = 20000.0
"""Work estimated below this runs on the calling thread."""


def outgrows(moved: int, cache: int) -> bool:
    """Whether a kernel that moves so many bytes had better write past the last-level cache.

    x * 2 in 32 MiB, ms without and with: 18 MB 0.16 0.23; 24 MB 0.29 0.30; 30 MB 0.57 0.38; 48 MB
    1.12 0.85. Who reads the result at once pays a part of it back (x * y + 1 and a sum of it, 48
    MB: 1.21 1.48).
    """
    return 4 * moved > 3 * cache


def flops(eqn: Eqn) -> int:
    """Operations per element of an elementwise primitive."""
    return FLOPS.get(eqn.primitive.name, 1)


def is_heavy(eqn: Eqn) -> bool:
    """Whether an element costs more than writing it to cache and reading it back."""
    return eqn.primitive.family == "elementwise" and flops(eqn) >= 8


def is_elementary(eqn: Eqn) -> bool:
    """Whether an element takes an elementary function's time."""
    return flops(eqn) >= FLOPS["exp"]


def product_ns(dtype: np.dtype, columns: int) -> float:
    """Nanoseconds of a multiplication and addition through BLAS; with one column, of a load."""
    return PRODUCT_NS[dtype.itemsize] if columns > 1 else dtype.itemsize * VECTOR_NS_PER_BYTE


def element_ns(eqn: Eqn) -> float:
    """Nanoseconds of one element of an elementwise operation, a reduction or a scan on one core."""
    wide = max([a.aval.dtype.itemsize for a in eqn.inputs] + [eqn.outputs[0].aval.dtype.itemsize])
    return operation_ns(eqn.primitive.name, wide)


def operation_ns(name: str, itemsize: int) -> float:
    """Nanoseconds of one element of an operation, by the widest item it takes part in."""
    known = FUNCTION_NS.get(name)
    if known is None:
        return OPERATION_NS * itemsize / 8
    return known[itemsize > 4]


class Scale(NamedTuple):
    """How work is weighed in a program: nanoseconds a byte, and the factor to its class's size.

    One rate for the whole program, so that what is saved adds up: no plan pays for a kernel that
    just outgrows a cache.
    """

    rate: float
    factor: float


SIZES: Final = ((1 << 15, 1 << 14), (1 << 20, 1 << 18), (CACHE_BYTES, 1 << 22))
"""Classes of programs by the bytes of their inputs and results: up to where, weighed as which."""
LARGE: Final = 1 << 28


def scale_of(nbytes: int) -> Scale:
    """The scale for a program whose inputs and results have so many bytes.

    Sizes of one class are weighed alike, so that a plan serves them all.
    """
    size = next((usual for most, usual in SIZES if nbytes < most), LARGE)
    rate = CACHE_NS_PER_BYTE if size < CACHE_BYTES else STREAM_NS_PER_BYTE
    return Scale(rate, size / max(plain(nbytes), 1))


def kernel_ns(memory_ns: float, compute_ns: float) -> float:
    """The slower of memory and arithmetic, 5 % of the other, and the launch."""
    long, short = max(memory_ns, compute_ns), min(memory_ns, compute_ns)
    return long + 0.05 * short + LAUNCH_NS


def worth_storing(operations: float, times: float, aval: Aval) -> bool:
    """Whether a value of so many operations, computed `times` times, is better kept in memory."""
    again = (times - 1.0) * operations * OPERATION_NS
    per_byte = CACHE_NS_PER_BYTE if aval.nbytes < CACHE_BYTES else STREAM_NS_PER_BYTE
    once = 2 * aval.dtype.itemsize * per_byte + LAUNCH_NS / max(aval.bound, 1)
    return again > once


def ordered_strides(aval: Aval, order: tuple[int, ...]) -> tuple[int, ...]:
    """Element strides of a contiguous array of `aval` whose axes, outermost first, are `order`."""
    strides, step = [0] * aval.ndim, 1
    for axis in reversed(order):
        strides[axis] = step
        extent = aval.shape[axis]
        step *= max(extent if isinstance(extent, int) else extent.bound, 1)
    return tuple(strides)


def estimate_ns(compute_ns: float, read: int, written: int, threads: int = 1) -> float:
    """Time of a kernel: `compute_ns` of arithmetic on one core, bytes read and written."""
    moved = read + written
    rates = NEAR if moved < NEAR_BYTES else CACHE if moved < 2 * CACHE_BYTES else STREAM
    memory = read * rates.read + written * rates.write
    if threads > 1:
        memory, compute_ns = memory / rates.shared, compute_ns / threads
    return kernel_ns(memory, compute_ns)
