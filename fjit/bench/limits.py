"""How long one peer may hold the table.

Takes seconds, gives a limit on what a peer may take for one case, compiling included. Invariant:
what a peer is stopped in is left through an exception that no `except Exception` of its own
catches; code that does not come back to Python is stopped as soon as it does.

    limits = Limits(60.0)
    with limits.holding("torch"): call()    ->    OverLimit after 60 s of torch in all
"""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator
from typing import Final

AGAIN: Final = 1.0  # seconds until an alarm that was swallowed (in a destructor) is raised again
FREE: Final = ("numpy", "copy")  # what the others are compared with


class OverLimit(BaseException):
    """A peer has taken its time; no Exception, which a compiler may catch and go on."""


class Limits:
    """The seconds that each peer may take for one case, and those it has taken."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.seconds = seconds
        self._spent: dict[str, float] = {}

    @property
    def note(self) -> str:
        """Why a peer has no time."""
        return f"over the limit of {self.seconds:g} s"

    @contextlib.contextmanager
    def holding(self, name: str) -> Iterator[None]:
        """Count what happens inside to the peer; raises OverLimit once that is too much."""
        if name in FREE or self.seconds == math.inf:
            yield
            return
        left = self.seconds - self._spent.get(name, 0.0)
        if left <= 0:
            raise OverLimit
        start = time.perf_counter()
        try:
            with _alarm(left):
                yield
        finally:
            self._spent[name] = self._spent.get(name, 0.0) + time.perf_counter() - start
        if self._spent[name] > self.seconds:
            raise OverLimit


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise OverLimit inside after so long, where the system and the thread have alarms."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: object) -> None:
        raise OverLimit

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
