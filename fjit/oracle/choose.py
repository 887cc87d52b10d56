"""The choices behind random arrays and programs, by whatever makes them.

Takes a function from a range to an integer in it, gives picks. Invariant: the first option of every
pick is the simplest, so that Hypothesis, which shrinks integers towards their lower end, shrinks
programs; a seeded generator can drive the same code without Hypothesis.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choose:
    """Picks, each made of one integer from `integer(low, high)`, both ends included."""

    def __init__(self, integer: Callable[[int, int], int]) -> None:
        self.integer = integer

    def pick(self, options: Sequence[T]) -> T:
        """One of `options`."""
        return options[self.integer(0, len(options) - 1) if len(options) > 1 else 0]

    def chance(self, out_of: int) -> bool:
        """True once in `out_of` times."""
        return self.integer(0, out_of - 1) == out_of - 1


def scrambled(choose: Choose, seed: int) -> Choose:
    """Choices moved around by a generator started at `seed`; as they are where it is 0.

    Hypothesis repeats much of an earlier example; with another seed it becomes another one.
    """
    if not seed:
        return choose
    rng = random.Random(seed)

    def integer(low: int, high: int) -> int:
        span = high - low + 1
        return low + (choose.integer(low, high) - low + rng.randrange(span)) % span

    return Choose(integer)


def seeded(seed: int) -> Choose:
    """Choices of a generator started at `seed`."""
    return Choose(random.Random(seed).randint)
