"""Index expressions: what stands between the brackets of `x[...]`, taken apart.

Takes a traced array and an index, gives a `Selection`: the basic part as a view (slices, integers,
new axes, traced integers), and the advanced part (masks, index arrays) that still has to be applied
to axes of that view. Invariant: `view` has every axis an advanced index selects from, whole.

    x[1, :, idx]      gives      view = x[1] (a view), advanced = idx along axis 1, place = 0
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Extent, Literal, Sym
from fjit.core.trace import where
from fjit.errors import FjitIndexError, UnsupportedError
from fjit.frontend import views
from fjit.frontend.numpy import arrays
from fjit.frontend.operands import array_of, convert
from fjit.frontend.session import current
from fjit.frontend.tracer import Tracer, extent_value, require_static

VALID = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean "
    "arrays are valid indices"
)


@dataclass(frozen=True, slots=True)
class Advanced:
    """A mask or an array of int64 positions, and the axes of the view it selects from."""

    axes: tuple[int, ...]
    atom: Atom
    is_mask: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """An index taken apart.

    `place` is where the axes of the advanced indices go among the other axes of the result.
    `is_scalar`: integers only. `is_copy`: NumPy copies though a view would do; `listed` is then the
    axis a list of positions was turned into a slice of, if any.
    """

    view: Tracer
    advanced: tuple[Advanced, ...] = ()
    place: int = 0
    is_scalar: bool = False
    is_copy: bool = False
    listed: int | None = None


def out_of_bounds(index: int, axis: int, extent: int) -> FjitIndexError:
    """The error for a static index outside its axis."""
    return FjitIndexError(
        f"index {index} is out of bounds for axis {axis} with size {extent}, at {where()}"
    )


def wrapped(index: Atom, extent: Extent) -> Atom:
    """Traced int positions as int64, negative ones counted from the end."""
    trace = current().trace
    signed = index.aval.dtype.kind == "i"
    index = convert(index, dtypes.I64)
    if not signed:
        return index
    if isinstance(extent, Sym):
        size: Atom = extent_value(trace, extent).atom
    else:
        size = trace.literal(extent, dtypes.I64)
    below = trace.emit(p.lt, index, trace.literal(0, dtypes.I64))
    return trace.emit(p.select, below, trace.emit(p.add, index, size), index)


def checked(positions: np.ndarray[Any, Any], axis: int, extent: int) -> np.ndarray[Any, Any]:
    """Known positions as non-negative int64; raises FjitIndexError naming the first bad one."""
    positions = positions.astype(np.int64)
    bad = positions[(positions < -extent) | (positions >= extent)]
    if bad.size:
        raise out_of_bounds(int(bad.flat[0]), axis, extent)
    return np.where(positions < 0, positions + extent, positions)


def progression(positions: np.ndarray[Any, Any]) -> tuple[int, int, int] | None:
    """Start, size and step if known positions are evenly spaced, else None."""
    if positions.ndim != 1 or not positions.size:
        return None
    step = int(positions[1] - positions[0]) if positions.size > 1 else 1
    if step == 0 or (np.diff(positions) != step).any():
        return None
    return int(positions[0]), positions.size, step


# ---- classification ---------------------------------------------------------------------------


class Static:
    """Positions known while tracing: a list written in the index.

    `extent` is the length of the axis that a list of bools was written for.
    """

    __slots__ = ("extent", "positions")

    def __init__(self, positions: np.ndarray[Any, Any], extent: int | None = None) -> None:
        self.positions = positions
        self.extent = extent


def _items(index: Any) -> list[Any]:
    """The parts of an index; every advanced one is a Tracer or Static."""
    parts = index if isinstance(index, tuple) else (index,)
    items: list[Any] = []
    for part in parts:
        kind = type(part)
        if kind is int or kind is slice or part is None or part is Ellipsis:
            items.append(part)
        else:
            items.extend(_classify(part))
    return items


def _classify(part: Any) -> Sequence[Any]:
    if isinstance(part, (list, tuple, range)):
        part = array_of(list(part) if isinstance(part, range) else part)
        if isinstance(part, np.ndarray):
            return _static(part)
    if isinstance(part, (bool, np.bool_)):
        raise _bool_scalar()
    if isinstance(part, np.ndarray):
        part = arrays.as_tracer(part)
    if isinstance(part, Tracer):
        contents = arrays.known(part)
        if contents is not None and contents.dtype.kind in "biu":
            return _static(contents)
        return (_traced(part),)
    if isinstance(part, slice):
        return (part,)
    try:
        return (operator.index(part),)
    except TypeError:
        raise FjitIndexError(f"{VALID}, not {type(part).__name__}, at {where()}") from None


def _static(values: np.ndarray[Any, Any]) -> Sequence[Static]:
    if values.dtype == np.bool_:
        if values.ndim == 0:
            raise _bool_scalar()
        places = zip(np.nonzero(values), values.shape, strict=True)
        return [Static(positions, extent) for positions, extent in places]
    if values.dtype.kind not in "iu":
        if values.size:
            raise _not_integer(values.dtype)
        values = values.astype(np.int64)
    return (Static(values),)


def _traced(part: Tracer) -> Any:
    dtype = part.dtype
    if dtype == dtypes.BOOL:
        if not part.ndim:
            raise _bool_scalar()
        return part
    if dtype.kind not in "iu" or part.weak is float:
        raise _not_integer(dtype)
    atom = part.atom
    if isinstance(atom, Literal) and part.is_scalar:
        return int(atom.value)
    return part


def _not_integer(dtype: np.dtype[Any]) -> FjitIndexError:
    return FjitIndexError(
        f"arrays used as indices must be of integer (or boolean) type, not {dtype}, at {where()}"
    )


def _bool_scalar() -> UnsupportedError:
    return UnsupportedError(
        f"an index that is a single bool at {where()} is not supported in a fused function: it "
        "adds an axis of extent 0 or 1. Use x[None] or np.where(condition, x, other)."
    )


def _consumed(item: Any) -> int:
    """How many axes of the array an item selects from."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Tracer) and item.dtype == dtypes.BOOL:
        return len(item.static_shape)
    return 1


def _filled(items: list[Any], ndim: int) -> list[Any]:
    """The items with the ellipsis spelled out as one `Fill`, which still separates its sides."""
    used = sum(map(_consumed, items))
    if used > ndim:
        raise FjitIndexError(
            f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed, "
            f"at {where()}"
        )
    ellipses = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise FjitIndexError(f"an index can only have a single ellipsis ('...'), at {where()}")
    at = ellipses[0] if ellipses else len(items)
    return [*items[:at], Fill(ndim - used), *items[at + 1 :]]


class Fill:
    """The axes an ellipsis, written or implied, stands for."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


# ---- taking apart -----------------------------------------------------------------------------


class _Parser:
    """Walks over the items of an index and the axes of the array in step."""

    def __init__(self, x: Tracer) -> None:
        self.x = x
        self.shape = x.static_shape
        self.axis = 0
        self.starts = [0] * len(self.shape)
        self.sizes: list[Extent] = list(self.shape)
        self.steps = [1] * len(self.shape)
        self.slots: list[int] = []  # axes of the array the view keeps; -1 for a new axis
        self.picks: list[tuple[int, Atom]] = []  # (slot, position) of traced integers
        self.advanced: list[tuple[int, int, Any]] = []  # (first slot, axes, mask or positions)
        self.is_copy = False
        self.others = 0  # axes of the result that no integer or advanced index makes
        self.place = 0
        self.adjacency = "none"  # then "open", "closed", "apart": NumPy's rule for mixed indices

    def keep(self, count: int = 1) -> None:
        """Keep the next axes in the view."""
        for _ in range(count):
            self.slots.append(self.axis)
            self.axis += 1

    def plain(self, count: int) -> None:
        """Note axes of the result made by a slice, new axis or ellipsis."""
        self.others += count
        if self.adjacency == "open":
            self.adjacency = "closed"

    def fancy(self) -> None:
        """Note an integer or advanced index."""
        if self.adjacency == "none":
            self.adjacency, self.place = "open", self.others
        elif self.adjacency == "closed":
            self.adjacency, self.place = "apart", 0

    def item(self, item: Any) -> None:
        """Take one item of the index."""
        kind = type(item)
        if kind is int:
            self.integer(item)
        elif kind is slice:
            self.slice(item)
        elif item is None:
            self.slots.append(-1)
            self.plain(1)
        elif kind is Fill:
            self.keep(item.count)
            self.plain(item.count)
        elif kind is Static:
            self.static(item)
        elif item.dtype == dtypes.BOOL:
            self.mask(item)
        else:
            self.traced(item)

    def integer(self, index: int) -> None:
        extent, axis = self.shape[self.axis], self.axis
        self.fancy()
        if isinstance(extent, Sym):
            literal = current().trace.literal(index, dtypes.I64)
            self.picks.append((len(self.slots), wrapped(literal, extent)))
            self.keep()
            return
        if not -extent <= index < extent:
            raise out_of_bounds(index, axis, extent)
        self.starts[axis], self.sizes[axis] = index % extent, 1
        self.axis += 1

    def slice(self, item: slice) -> None:
        extent, axis = self.shape[self.axis], self.axis
        bounds = (item.start, item.stop, item.step)
        item = slice(*(operator.index(b) if isinstance(b, Tracer) else b for b in bounds))
        if item.start is not None or item.stop is not None or item.step is not None:
            whole = item.start in (None, 0) and item.stop is None and item.step in (None, 1)
            if not whole:
                start, stop, step = item.indices(require_static(extent, "slicing"))
                size = len(range(start, stop, step))
                self.starts[axis], self.sizes[axis] = start if size else 0, size
                self.steps[axis] = step
        self.keep()
        self.plain(1)

    def static(self, item: Static) -> None:
        extent = require_static(self.shape[self.axis], "indexing with a list")
        if item.extent not in (None, extent):
            raise _mask_misfit(self.axis, extent, item.extent)
        positions = checked(item.positions, self.axis, extent)
        self.advanced.append((len(self.slots), 1, positions))
        self.fancy()
        self.keep()

    def mask(self, item: Tracer) -> None:
        for k, extent in enumerate(item.static_shape):
            own = self.shape[self.axis + k]
            if own != extent:
                raise _mask_misfit(self.axis + k, own, extent)
        self.advanced.append((len(self.slots), item.ndim, item))
        self.fancy()
        self.keep(item.ndim)

    def traced(self, item: Tracer) -> None:
        position = wrapped(item.atom, self.shape[self.axis])
        self.fancy()
        if item.ndim:
            self.advanced.append((len(self.slots), 1, position))
        else:
            self.is_copy |= not item.is_scalar
            self.picks.append((len(self.slots), position))
        self.keep()

    # -- the results --

    def base(self) -> Tracer:
        """The array after slices, integers and new axes; traced integers keep their axis."""
        x = self.x
        if self.sizes != list(self.shape) or any(step != 1 for step in self.steps):
            x = arrays.slice_view(x, tuple(self.starts), tuple(self.sizes), tuple(self.steps))
        if self.slots != list(range(len(self.shape))):
            own, strides = x.static_shape, x.element_strides
            shape = tuple(1 if k < 0 else own[k] for k in self.slots)
            x = arrays.reshape_view(x, shape, tuple(0 if k < 0 else strides[k] for k in self.slots))
        return x

    def listed(self) -> int | None:
        """Turn a lone, evenly spaced list into a slice; gives its axis in the view."""
        if len(self.advanced) != 1 or self.integers():
            return None
        slot, _, positions = self.advanced[0]
        spaced = progression(positions) if isinstance(positions, np.ndarray) else None
        if spaced is None:
            return None
        axis = self.slots[slot]
        self.starts[axis], self.sizes[axis], self.steps[axis] = spaced
        self.advanced.clear()
        return slot

    def integers(self) -> bool:
        """Whether an integer index, known or traced, occurs."""
        return bool(self.picks) or self.axis != sum(k >= 0 for k in self.slots)


def _mask_misfit(axis: int, extent: object, mask_extent: object) -> FjitIndexError:
    return FjitIndexError(
        f"boolean index did not match indexed array along axis {axis}; size of axis is {extent} "
        f"but size of corresponding boolean axis is {mask_extent}, at {where()}"
    )


def parse(x: Tracer, index: Any) -> Selection:
    """Take an index apart; raises FjitIndexError where NumPy raises IndexError."""
    items = _items(index)
    parser = _Parser(x)
    for item in _filled(items, len(parser.shape)):
        parser.item(item)
    listed = parser.listed()
    view = parser.base()
    if parser.picks:
        view = _pick(view, parser.picks)
    scalar = not parser.slots or len(parser.picks) == len(parser.slots)
    if not parser.advanced:
        written = any(item is Ellipsis for item in items)
        return Selection(
            view, is_scalar=scalar and not written, is_copy=parser.is_copy, listed=listed
        )
    return Selection(view, _advanced(parser), parser.place)


def _pick(view: Tracer, picks: list[tuple[int, Atom]]) -> Tracer:
    gone = tuple(slot for slot, _ in picks)
    strides = tuple(s for k, s in enumerate(view.element_strides) if k not in gone)
    step = views.Pick(gone, tuple(position for _, position in picks), strides)
    return Tracer(view._trace, view.buffer, (*view.steps, step))


def _advanced(parser: _Parser) -> tuple[Advanced, ...]:
    """The advanced indices, their axes counted after traced integers took theirs away."""
    found = []
    for slot, count, value in parser.advanced:
        first = slot - sum(gone < slot for gone, _ in parser.picks)
        axes = tuple(range(first, first + count))
        if isinstance(value, Tracer):
            found.append(Advanced(axes, value.atom, True))
        elif isinstance(value, np.ndarray):
            found.append(Advanced(axes, arrays.as_tracer(value).atom, False))
        else:
            found.append(Advanced(axes, value, False))
    return tuple(found)
