"""Memory order as NumPy would choose it: strides of traced values, counted in elements.

Takes shapes and strides, gives strides. A traced value has no memory, but NumPy's choice of view or
copy in reshape, and the K-order of results, depend on the strides it would have. Invariant: the
strides computed here are those NumPy gives the same expression (axes of extent 1 may differ).
"""

from functools import lru_cache

from fjit.core.ir import Extent, Shape

Strides = tuple[int, ...]


def size(extent: Extent) -> int:
    """An extent as a number; a symbol counts with its bound."""
    return extent if isinstance(extent, int) else max(extent.bound, 2)


@lru_cache(maxsize=4096)
def c_strides(shape: Shape) -> Strides:
    """Strides of a C-contiguous array, in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(size(extent), 1)
    return tuple(reversed(strides))


@lru_cache(maxsize=4096)
def ordered_strides(shape: Shape, order: tuple[int, ...]) -> Strides:
    """Strides of a contiguous array whose axes, outermost first, are `order`."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(size(shape[axis]), 1)
    return tuple(strides)


def axis_order(strides: Strides) -> tuple[int, ...]:
    """Axes sorted from largest to smallest stride, C order among equals."""
    return tuple(sorted(range(len(strides)), key=lambda k: -abs(strides[k])))


def k_order(ndim: int, operands: list[Strides]) -> tuple[int, ...]:
    """The axis order NumPy's iterator picks for operands already broadcast to `ndim` axes.

    The operands' strides decide pairwise, the first operand first; on conflict C order wins
    (NumPy C API, NpyIter with NPY_KEEPORDER).
    """
    inner_first: list[int] = []
    for axis in reversed(range(ndim)):
        place = len(inner_first)
        for position in range(len(inner_first) - 1, -1, -1):
            verdict = _swaps(operands, axis, inner_first[position])
            if verdict is None:
                continue
            if not verdict:
                break
            place = position
        inner_first.insert(place, axis)
    return tuple(reversed(inner_first))


def join_order(ndim: int, operands: list[Strides]) -> tuple[int, ...]:
    """The axis order of a join: as `k_order`, but sorted from the outermost axis inwards.

    Where no operand tells, the two sorts put an axis in different places (NumPy,
    PyArray_CreateMultiSortedStridePerm).
    """
    outer_first: list[int] = []
    for axis in range(ndim):
        place = len(outer_first)
        for position in range(len(outer_first) - 1, -1, -1):
            verdict = _swaps(operands, outer_first[position], axis)
            if verdict is None:
                continue
            if not verdict:
                break
            place = position
        outer_first.insert(place, axis)
    return tuple(outer_first)


@lru_cache(maxsize=4096)
def iteration_order(shape: Shape, strides: Strides) -> tuple[int, ...]:
    """The axis order NumPy's iterator picks for one operand: as `k_order`, not as a copy's."""
    spread = (0 if e == 1 else s for e, s in zip(shape, strides, strict=True))
    return k_order(len(shape), [tuple(spread)])


def _swaps(operands: list[Strides], outer: int, inner: int) -> bool | None:
    """Whether `outer` must move inside `inner`; None where no operand tells."""
    verdict: bool | None = None
    for strides in operands:
        a, b = abs(strides[outer]), abs(strides[inner])
        if not a or not b:
            continue
        if b <= a:
            verdict = False
        elif verdict is None:
            verdict = True
    return verdict


@lru_cache(maxsize=4096)
def result_strides(shape: Shape, operands: tuple[tuple[Shape, Strides], ...]) -> Strides:
    """Strides of a fresh elementwise result of `shape` in K-order of its operands."""
    ndim = len(shape)
    c = c_strides(shape)
    plain = ndim < 2 or all(s == c for operand, s in operands if operand == shape)
    if plain and all(operand == shape or len(operand) < 2 for operand, _ in operands):
        return c
    padded = []
    for operand, strides in operands:
        lead = ndim - len(operand)
        row = [0] * lead + [
            0 if extent == 1 else stride for extent, stride in zip(operand, strides, strict=True)
        ]
        padded.append(tuple(row))
    return ordered_strides(shape, k_order(ndim, padded))


def reshape_strides(shape: Shape, strides: Strides, new: Shape) -> Strides | None:
    """Strides of the reshaped view, or None where NumPy has to copy."""
    if any(e == 0 for e in shape):
        return c_strides(new)
    old = [(size(e), s) for e, s in zip(shape, strides, strict=True) if e != 1]
    out: list[int] = [0] * len(new)
    i, k = 0, 0
    while k < len(new) and i < len(old):
        left, right, i0, k0 = old[i][0], size(new[k]), i, k
        while left != right:
            if left < right:
                i += 1
                if i == len(old):
                    return None
                left *= old[i][0]
            else:
                k += 1
                if k == len(new):
                    return None
                right *= size(new[k])
        for j in range(i0, i):
            if old[j][1] != old[j + 1][1] * old[j + 1][0]:
                return None
        step = old[i][1]
        for j in range(k, k0 - 1, -1):
            out[j] = step
            step *= size(new[j])
        i, k = i + 1, k + 1
    for j in range(k, len(new)):
        out[j] = 1
    return tuple(out)
