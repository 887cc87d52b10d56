"""Times of several callables, taken in turn, so that a busy moment falls on all of them.

Takes callables, gives seconds a call, one for each round. Invariant: every round times every
callable once, each as a batch of calls long enough for the clock.

    interleaved({"numpy": f, "fjit": g}, rounds=15)    ->    f g f g ..., {"numpy": [...], ...}
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from timeit import Timer
from typing import Any, Final

import numpy as np

BATCH: Final = 2e-3  # seconds that a batch takes at least; the clock and the loop cost some 1e-7
LARGEST_COPY: Final = (
    1 << 28
)  # bytes each way; beyond any cache, so larger arrays take the same rate


@dataclass(frozen=True, slots=True)
class Effort:
    """How many rounds: `rounds`, or as many as fit in `seconds`, but no fewer than `least`.

    `clock` may be the processor's, which stands still while other processes have their turn.
    """

    rounds: int = 15
    least: int = 15
    seconds: float = 60.0
    clock: Callable[[], float] = time.perf_counter


QUICK: Final = Effort(15, 5, 0.6)


def interleaved(
    calls: Mapping[str, Callable[[], Any]], effort: Effort, batch: float = BATCH
) -> dict[str, list[float]]:
    """Return the seconds a call of each callable, a list with one for each round."""
    timers = {name: Timer(call, timer=effort.clock) for name, call in calls.items()}
    repeats = {name: _repeats(timer, batch) for name, timer in timers.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    start = time.perf_counter()
    for done in range(effort.rounds):
        spent = time.perf_counter() - start
        if done >= effort.least and spent + spent / done > effort.seconds:
            break
        for name in order:
            seconds[name].append(timers[name].timeit(repeats[name]) / repeats[name])
        order.append(order.pop(0))
    return seconds


def _repeats(timer: Timer, batch: float) -> int:
    """Calls that take `batch` seconds together; the first, cold ones do not count."""
    number = 1
    timer.timeit(1)
    while True:
        spent = timer.timeit(number)
        if spent >= batch / 2:
            return max(1, round(number * batch / spent))
        number = max(2 * number, min(100 * number, int(number * batch / max(spent, 1e-9))))


def copier(nbytes: int, threads: int) -> tuple[Callable[[], None], float]:
    """Return a call that copies, and the part of `nbytes` that it moves, reads and writes together.

    Both arrays are in memory already; each thread copies a piece of its own.
    """
    each = max(64, min(nbytes // 2, LARGEST_COPY))
    source, target = np.ones(each, np.uint8), np.zeros(each, np.uint8)
    if threads == 1:
        return partial(np.copyto, target, source), 2 * each / nbytes
    pool = ThreadPoolExecutor(threads)
    pieces = list(
        zip(np.array_split(target, threads), np.array_split(source, threads), strict=True)
    )

    def copy() -> None:
        for _ in pool.map(lambda pair: np.copyto(*pair), pieces):
            pass

    return copy, 2 * each / nbytes
