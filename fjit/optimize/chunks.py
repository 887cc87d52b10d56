"""Chunks: the parts of an axis that threads work on, from extents alone.

Takes the axes that a reduction walks over, gives the number and length of its chunks. Invariant: a
floating sum has the same chunks whatever shares its loops; the schedule refuses to share others.

    sum of 10^6 elements               15 chunks of 69,632
    column sums of 1000 rows of 1000   8 chunks of 128 rows
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from fjit.optimize.index import Axis

CHUNK: Final = 1 << 16
"""Elements that a chunk has at least."""
BLOCKS: Final = 1 << 12
"""Chunks of a row hold whole blocks of so many elements."""
GROUP: Final = 16
"""Chunks of columns hold whole groups of so many rows."""


class Most(NamedTuple):
    """Most chunks of a row, of columns, whose partial results are as wide as a row, and of rows
    without reductions.
    """

    of_row: int
    of_columns: int
    of_elements: int


CPU: Final = Most(32, 8, 128)
GPU: Final = Most(512, 64, 1)
"""Each chunk of a reduction is a block's; what is not reduced is spread over blocks as it is."""


def of_row(inner: Axis, most: Most = CPU) -> tuple[int, int]:
    """How many chunks the innermost axis has, and their length."""
    return _chunks(inner.extent, inner.extent, BLOCKS, most.of_row)


def of_elements(inner: Axis, most: Most = CPU) -> tuple[int, int]:
    """The same where nothing is reduced: finer, so that threads end at one time."""
    return _chunks(4 * inner.extent, inner.extent, BLOCKS, most.of_elements)


def of_columns(outer: tuple[Axis, ...], inner: Axis, most: Most = CPU) -> tuple[int, int]:
    """How many chunks the outermost one of several reduced axes has, and their length."""
    total = math.prod(a.extent for a in (*outer, inner))
    return _chunks(total, outer[0].extent, GROUP, most.of_columns)


def _chunks(total: int, extent: int, multiple: int, most: int) -> tuple[int, int]:
    count = max(1, min(total // CHUNK, most, extent))
    if count == 1:
        return 1, max(extent, 1)
    length = -(-extent // count)
    length = -(-length // multiple) * multiple
    return -(-extent // length), length
