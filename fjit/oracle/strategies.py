"""Hypothesis strategies: arrays of every dtype, shape, value and memory layout.

Takes what to choose from, gives strategies. Invariant: hypothesis is loaded by the first call, not
by the import.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from fjit.oracle.choose import Choose
from fjit.oracle.memory import LAYOUTS, lay_out

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Array = Any  # NumPy arrays of any dtype
T = TypeVar("T")

DTYPES: Final = ("float64", "float32", "int64", "int32", "uint8", "int8", "uint32", "bool")
VALUES: Final = ("small", "spread", "special")
NDIMS: Final = (1, 2, 2, 1, 3, 0, 4)
EXTENTS: Final = (3, 2, 4, 1, 5, 8, 7, 17, 33)
MAX_SIZE: Final = 600

SPECIAL: Final = (
    0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, 0.5, -2.5, 1e-310, -5e-324, 1e-42,
    2.0**-126, 3.4028234e38, -3.4028234e38, 1.7e308, 88.8, -104.0, 710.0, 1e10, 4294967296.0,
)  # fmt: skip


def strategy(build: Callable[[Choose], T]) -> SearchStrategy[T]:
    """A Hypothesis strategy of what `build` makes of its choices."""
    from hypothesis import strategies as st

    def draw_one(draw: Callable[[SearchStrategy[int]], int]) -> T:
        return build(Choose(lambda low, high: draw(st.integers(low, high))))

    return st.composite(draw_one)()


def choose_shape(choose: Choose) -> tuple[int, ...]:
    """A shape of 0 to 4 axes and at most `MAX_SIZE` elements; extents 0 and 1 among them."""
    ndim = choose.pick(NDIMS)
    few = EXTENTS if ndim < 3 else EXTENTS[:5]
    shape = [choose.pick(few) for _ in range(ndim)]
    if shape and choose.chance(16):
        shape[choose.integer(0, ndim - 1)] = 0
    while math.prod(shape) > MAX_SIZE:
        shape[shape.index(max(shape))] = 3
    return tuple(shape)


def choose_values(
    choose: Choose, shape: tuple[int, ...], dtype: Any, seed: int | None = None
) -> Array:
    """An array in C order: small numbers, spread ones, or spread ones with special values."""
    dtype = np.dtype(dtype)
    kind = choose.pick(VALUES)
    rng = np.random.default_rng(choose.integer(0, 2**16) if seed is None else seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return _integers(rng, shape, dtype, kind)
    if kind == "small":
        return (rng.integers(-6, 7, shape) / 2).astype(dtype)
    values = rng.standard_normal(shape) * 3
    if kind == "special":
        values = np.where(rng.random(shape) < 0.4, rng.choice(SPECIAL, shape), values)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype)


def _integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, kind: str) -> Array:
    info = np.iinfo(dtype)
    low = max(-4, info.min)
    if kind == "small":
        return rng.integers(low, low + 10, shape).astype(dtype)
    if kind == "spread":
        return rng.integers(max(-120, info.min), 121, shape).astype(dtype)
    ends = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1], dtype)
    wide = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return np.where(rng.random(shape) < 0.5, rng.choice(ends, shape), wide)


def choose_array(
    choose: Choose,
    dtypes: Sequence[Any] = DTYPES,
    shapes: Sequence[tuple[int, ...]] | None = None,
    layouts: Sequence[str] = LAYOUTS,
) -> Array:
    """An array with one of the dtypes, shapes (any if None) and layouts."""
    dtype = choose.pick(dtypes)
    shape = choose_shape(choose) if shapes is None else choose.pick(shapes)
    return lay_out(choose_values(choose, shape, dtype), choose.pick(layouts))


def arrays(
    dtypes: Sequence[Any] = DTYPES,
    shapes: Sequence[tuple[int, ...]] | None = None,
    layouts: Sequence[str] = LAYOUTS,
) -> SearchStrategy[Array]:
    """A Hypothesis strategy of NumPy arrays as users bring them.

    Args:
        dtypes: Dtypes to choose from: bool, integers, float32 and float64.
        shapes: Shapes to choose from; None for any of 0 to 4 axes, empty and size-1 axes included.
        layouts: Layouts to choose from: "C", "F", "strided", "negative", "zero-stride",
            "unaligned", "big-endian", "read-only".

    Returns:
        A strategy. Values include NaN, infinities, -0.0, subnormals and the ends of integer types.

    Raises:
        ModuleNotFoundError: If hypothesis is not installed (`pip install fjit[testing]`).
        ValueError: While drawing, for a layout that is not known.

    >>> import numpy as np, fjit.testing
    >>> floats = fjit.testing.arrays(dtypes=["float32"], layouts=["C", "F"])
    """
    return strategy(lambda choose: choose_array(choose, dtypes, shapes, layouts))
