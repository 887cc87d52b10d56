"""Times of several callables, taken in turn, so that a busy moment falls on all of them.

Takes callables, gives seconds a call, one for each round. Invariant: every round times every
callable once, each as a batch of calls long enough for the clock, until it is over its limit.

    interleaved({"numpy": f, "fjit": g}, rounds=15)    ->    f g f g ..., {"numpy": [...], ...}
"""

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from timeit import Timer
from typing import Any, Final

import numpy as np

from fjit.bench.limits import Limits, OverLimit

BATCH: Final = 2e-3  # seconds that a batch takes at least; the clock and the loop cost some 1e-7
FEWEST: Final = 3  # rounds whose median counts where a limit ends them
LARGEST_COPY: Final = (
    1 << 28
)  # bytes each way; beyond any cache, so larger arrays take the same rate


@dataclass(frozen=True, slots=True)
class Effort:
    """How many rounds: `rounds`, or as many as fit in `seconds`, but no fewer than `least`.

    `clock` may be the processor's, which stands still while other processes have their turn.
    `limit` is how many seconds one peer may take for one case, compiling included.
    """

    rounds: int = 15
    least: int = 15
    seconds: float = 60.0
    clock: Callable[[], float] = time.perf_counter
    limit: float = math.inf


QUICK: Final = Effort(15, 5, 0.6)


def interleaved(
    calls: Mapping[str, Callable[[], Any]],
    effort: Effort,
    batch: float = BATCH,
    limits: Limits | None = None,
) -> dict[str, list[float]]:
    """Return the seconds a call of each callable, a list with one for each round.

    A callable that goes over its limit is timed no longer, and left out if it had too few rounds.
    """
    limits = limits or Limits()
    timers = {name: Timer(call, timer=effort.clock) for name, call in calls.items()}
    repeats: dict[str, int] = {}
    for name, timer in timers.items():
        with contextlib.suppress(OverLimit), limits.holding(name):
            repeats[name] = _repeats(timer, batch)
    seconds: dict[str, list[float]] = {name: [] for name in repeats}
    order = list(repeats)
    start = time.perf_counter()
    for done in range(effort.rounds):
        spent = time.perf_counter() - start
        if done >= effort.least and spent + spent / done > effort.seconds:
            break
        for name in tuple(order):
            try:
                with limits.holding(name):
                    spent = timers[name].timeit(repeats[name])
            except OverLimit:
                order.remove(name)
            else:
                seconds[name].append(spent / repeats[name])
        order.append(order.pop(0))
    return {name: values for name, values in seconds.items() if name in order or _is_enough(values)}


def _is_enough(values: list[float]) -> bool:
    return len(values) >= FEWEST


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
