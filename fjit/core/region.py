"""A rectangular part of an array, strided perhaps: start, size and step along each axis.

Takes an array, gives the view of it. Invariant: all positions are within the array; the step along
an axis of one element is 1, so that equal parts are equal.

    Region((2,), (3,), (1,)).of(x)      is      x[2:5]
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

Ints = tuple[int, ...]


class Region(NamedTuple):
    """See the module's docstring."""

    starts: Ints
    sizes: Ints
    steps: Ints

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.sizes)

    def of(self, array: Any) -> Any:
        """The part of an array, as a view."""
        index = []
        for start, size, step in zip(self.starts, self.sizes, self.steps, strict=True):
            stop = start + size * step
            index.append(slice(start, None if stop < 0 else stop, step))
        return array[tuple(index)]

    def within(self, inner: Region) -> Region:
        """The region of an array that is `inner` of this part of it."""
        starts = zip(self.starts, self.steps, inner.starts, strict=True)
        steps = zip(self.steps, inner.steps, inner.sizes, strict=True)
        return Region(
            tuple(start + step * at for start, step, at in starts),
            inner.sizes,
            tuple(1 if size == 1 else step * by for step, by, size in steps),
        )

    def spread(self, axes: tuple[int | None, ...]) -> Region:
        """The region with more axes, of extent 1: each of `axes` is one that it has, or None."""
        return Region(
            tuple(0 if k is None else self.starts[k] for k in axes),
            tuple(1 if k is None else self.sizes[k] for k in axes),
            tuple(1 if k is None else self.steps[k] for k in axes),
        )

    def strides(self, whole: Ints) -> Ints:
        """The strides of the part, from those of the array."""
        return tuple(stride * step for stride, step in zip(whole, self.steps, strict=True))
