"""Comparing results: distance in units in the last place, and trees of arrays that must agree.

Takes what was got and what was wanted, gives a number or an AssertionError that shows the first
place where they differ. Invariant: a distance of 0 means equal values, signs of zero included; any
NaN equals any NaN and nothing else.

    ulp(np.float32(1.0000001), np.float32(1))  ==  1.0
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fjit.core import tree

Array = Any  # NumPy arrays of any dtype


def distances(got: Array, want: Array) -> Array:
    """Elementwise distance of two arrays of one shape, in units in the last place of `want`."""
    got, want = np.asarray(got), np.asarray(want)
    if want.dtype.kind == "c":
        return np.maximum(distances(got.real, want.real), distances(got.imag, want.imag))
    with np.errstate(all="ignore"):
        if want.dtype.kind != "f":
            far = np.abs(got.astype(np.longdouble) - want.astype(np.longdouble))
            return np.where(got == want, 0.0, far).astype(np.float64)
        unit = np.spacing(np.abs(want)).astype(np.longdouble)
        gap = np.abs(got.astype(np.longdouble) - want.astype(np.longdouble)) / unit
        is_same = (got == want) & (np.signbit(got) == np.signbit(want))
        is_far = ~np.isfinite(got) | ~np.isfinite(want) | ((got == want) & (want == 0))
        out = np.where(is_far, np.inf, gap)
        return np.where(is_same | (np.isnan(got) & np.isnan(want)), 0.0, out).astype(np.float64)


def ulp(got: Array, want: Array) -> float:
    """The largest distance between two arrays, in units in the last place of `want`'s dtype.

    Args:
        got: Array or number.
        want: Array or number of the same shape; its dtype sets the unit. Integers and bools are
            compared in units of one.

    Returns:
        0.0 for equal values; inf where one side only is NaN or infinite, or zeros differ in sign.

    Raises:
        ValueError: If the shapes differ.

    >>> import numpy as np, fjit.testing
    >>> fjit.testing.ulp(np.float64(1 + 2**-52), np.float64(1))
    1.0
    """
    if np.shape(got) != np.shape(want):
        raise ValueError(f"shapes differ: {np.shape(got)} and {np.shape(want)}")
    return float(np.max(distances(got, want), initial=0.0))


def assert_same(
    got: Any, want: Any, *, ulp: float = 0, rtol: float | None = None, order: bool = False
) -> None:
    """Two trees of arrays agree: structure, types, dtypes, shapes and values.

    Args:
        got: Tree of arrays, numbers and other objects.
        want: The tree it should equal.
        ulp: Largest distance of floating values, in units in the last place.
        rtol: Where given, floating values may instead differ by `rtol` times the larger of their
            own size and the largest finite size in the array.
        order: Whether axes of arrays that own their memory must lie in the same order.

    Raises:
        AssertionError: Naming the leaf, the first differing index, both values and their distance.

    >>> import numpy as np, fjit.testing
    >>> fjit.testing.assert_same((np.ones(2), 3), (np.ones(2), 3))
    """
    got_leaves, got_tree = tree.flatten(got)
    want_leaves, want_tree = tree.flatten(want)
    if got_tree != want_tree:
        raise AssertionError(f"the results are a {got_tree}, expected {want_tree}")
    for path, g, w in zip(tree.paths(want), got_leaves, want_leaves, strict=True):
        allowed = None if rtol is None else _relative(w, rtol)
        assert_leaf(g, w, path or "the result", ulp=ulp, allowed=allowed, order=order)


def assert_leaf(
    got: Any,
    want: Any,
    name: str,
    *,
    ulp: float = 0,
    allowed: Array | None = None,
    order: bool = False,
) -> None:
    """Two leaves agree; `allowed` is an absolute difference per element that is also fine."""
    if type(got) is not type(want):
        raise AssertionError(f"{name} is a {_type(got)}, expected {_type(want)}")
    if not isinstance(want, np.ndarray | np.generic | bool | int | float | complex):
        if not (got is want or got == want):
            raise AssertionError(f"{name} is {got!r}, expected {want!r}")
        return
    g, w = np.asarray(got), np.asarray(want)
    if g.dtype != w.dtype:
        raise AssertionError(f"{name} has dtype {g.dtype}, expected {w.dtype}")
    if g.shape != w.shape:
        raise AssertionError(f"{name} has shape {g.shape}, expected {w.shape}")
    if order and isinstance(want, np.ndarray) and not _same_order(got, want):
        raise AssertionError(f"{name} has strides {got.strides}, expected {want.strides}")
    off = distances(g, w)
    bad = off > ulp
    if allowed is not None:
        bad &= ~_within(g, w, allowed)
    if bad.any():
        raise AssertionError(_difference(name, g, w, off, bad, ulp, allowed))


def _relative(want: Any, rtol: float) -> Array | None:
    w = np.asarray(want)
    if w.dtype.kind not in "fc":
        return None
    size = np.abs(w)
    largest = np.max(size, initial=0, where=np.isfinite(size))
    return rtol * np.maximum(np.where(np.isfinite(size), size, 0), largest)


def _within(got: Array, want: Array, allowed: Array) -> Array:
    """Whether values differ by no more than allowed; inf allows everything, NaN included."""
    with np.errstate(all="ignore"):
        if want.dtype.kind in "fc":
            gap = np.abs(got.astype(np.longdouble) - want.astype(np.longdouble))
            top = np.finfo(want.dtype).max
            beyond = np.isinf(got) & (np.abs(want) + allowed > top) & ~np.isinf(want)
            return (allowed > 0) & ((gap <= allowed) | np.isinf(allowed) | beyond)
        return np.isinf(allowed)


def _same_order(got: Array, want: Array) -> bool:
    """Whether arrays that own their memory have their axes (longer than one) in one order."""
    if not want.flags.owndata or not want.size:
        return True
    wide = [k for k in range(want.ndim) if want.shape[k] > 1]
    return [got.strides[k] for k in wide] == [want.strides[k] for k in wide]


def _type(value: Any) -> str:
    return type(value).__name__


def _difference(
    name: str, got: Array, want: Array, off: Array, bad: Array, ulp: float, allowed: Array | None
) -> str:
    first = tuple(int(k) for k in np.argwhere(bad)[0]) if bad.ndim else ()
    where = f"{name}[{', '.join(map(str, first))}]" if first else name
    text = f"{where} is {got[first]!r}, expected {want[first]!r}: {off[first]:g} ulp apart"
    bound = f"bound {ulp:g} ulp"
    if allowed is not None:
        bound += f" or {np.broadcast_to(allowed, want.shape)[first]:g}"
    return f"{text} ({bound}); {int(bad.sum())} of {bad.size} values of {want.dtype} differ"
