"""Memory for temporaries: an arena planned by liveness, and scratch buffers that are used again.

Takes sizes and lifetimes, gives offsets into one allocation. Invariant: two buffers that live in a
common step never overlap; the plan depends on the lifetimes alone, not on any hash or address.

    bytes first last        offset
      256     0    1             0
      256     1    2    ->     256
      128     2    3             0
"""

import threading
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
PAGE = 4096


def plan_arena(lifetimes: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, ...], int]:
    """Place buffers (bytes, first step, last step; both included) in one arena.

    Returns each buffer's offset, a multiple of 64, and the arena's size in bytes. Several orders
    of placing are tried, each buffer into the tightest gap that fits; the smallest plan wins.
    After Y. Pisarchyk and J. Lee, Efficient Memory Management for Deep Neural Net Inference (2020).
    """
    sizes = [_aligned(nbytes) for nbytes, _, _ in lifetimes]
    needed = [index for index, size in enumerate(sizes) if size]
    optimum = lower_bound(lifetimes)
    best: tuple[list[int], int] | None = None
    for order in _orders(lifetimes, sizes, needed):
        offsets, total = _place(order, lifetimes, sizes)
        if best is None or total < best[1]:
            best = offsets, total
        if total == optimum:
            break
    if best is None:
        return (0,) * len(sizes), 0
    return tuple(best[0]), best[1]


def lower_bound(lifetimes: Sequence[tuple[int, int, int]]) -> int:
    """Return the most bytes that live in one step: no plan needs less."""
    changes: dict[int, int] = {}
    for nbytes, first, last in lifetimes:
        if first > last or nbytes < 0:
            raise AssertionError(f"a lifetime of {nbytes} bytes from step {first} to {last}")
        changes[first] = changes.get(first, 0) + _aligned(nbytes)
        changes[last + 1] = changes.get(last + 1, 0) - _aligned(nbytes)
    live = most = 0
    for step in sorted(changes):
        live += changes[step]
        most = max(most, live)
    return most


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _orders(
    lifetimes: Sequence[tuple[int, int, int]], sizes: Sequence[int], needed: Sequence[int]
) -> Iterable[list[int]]:
    """Orders of placing: largest first, longest-lived first, by area, by first step."""

    def span(index: int) -> int:
        return lifetimes[index][2] - lifetimes[index][1] + 1

    yield sorted(needed, key=lambda i: (-sizes[i], -span(i), lifetimes[i][1], i))
    yield sorted(needed, key=lambda i: (lifetimes[i][1], -span(i), -sizes[i], i))
    yield sorted(needed, key=lambda i: (-span(i), -sizes[i], lifetimes[i][1], i))
    yield sorted(needed, key=lambda i: (-span(i) * sizes[i], lifetimes[i][1], i))


def _place(
    order: Sequence[int], lifetimes: Sequence[tuple[int, int, int]], sizes: Sequence[int]
) -> tuple[list[int], int]:
    offsets = [0] * len(sizes)
    placed: list[int] = []
    total = 0
    for index in order:
        _, first, last = lifetimes[index]
        taken = sorted(
            (offsets[other], offsets[other] + sizes[other])
            for other in placed
            if lifetimes[other][1] <= last and first <= lifetimes[other][2]
        )
        offsets[index] = _tightest_gap(taken, sizes[index])
        placed.append(index)
        total = max(total, offsets[index] + sizes[index])
    return offsets, total


def _tightest_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Return the start of the smallest gap of at least `size`, or the end of what is taken."""
    best, best_room, end = -1, -1, 0
    for start, stop in taken:
        room = start - end
        if room >= size and (best < 0 or room < best_room):
            best, best_room = end, room
        end = max(end, stop)
    return end if best < 0 else best


class ScratchPool:
    """A bounded stock of page-aligned byte buffers, used again because fresh pages are slow.

    Any thread may take and give. Buffers given back beyond `max_bytes` are dropped, oldest first.
    """

    def __init__(self, max_bytes: int = 256 * 1024 * 1024) -> None:
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._stock: list[NDArray[np.uint8]] = []
        self._held = 0

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """Return a page-aligned buffer of at least `nbytes`; its bytes are whatever they were.

        A buffer from the stock is used if it is at most twice as large as asked for.
        """
        size = max(-(-nbytes // PAGE), 1) * PAGE
        with self._lock:
            fits = [buffer for buffer in self._stock if size <= buffer.nbytes <= 2 * size]
            if fits:
                chosen = min(fits, key=lambda buffer: buffer.nbytes)
                self._forget(chosen)
                return chosen
        return aligned_bytes(size)

    def give(self, buffer: NDArray[np.uint8]) -> None:
        """Put a buffer from `take` back into the stock; the caller must not touch it again."""
        with self._lock:
            self._stock.append(buffer)
            self._held += buffer.nbytes
            while self._held > self.max_bytes:
                self._forget(self._stock[0])

    def held_bytes(self) -> int:
        """Return the bytes in stock now."""
        with self._lock:
            return self._held

    def clear(self) -> None:
        """Drop every buffer in stock."""
        with self._lock:
            self._stock.clear()
            self._held = 0

    def _forget(self, buffer: NDArray[np.uint8]) -> None:
        self._stock = [other for other in self._stock if other is not buffer]
        self._held -= buffer.nbytes


def aligned_bytes(nbytes: int, alignment: int = PAGE) -> NDArray[np.uint8]:
    """Return an uninitialised array of `nbytes` bytes at a multiple of `alignment`."""
    raw = np.empty(nbytes + alignment, dtype=np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + nbytes]
