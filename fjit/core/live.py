"""Which values are live where along a line of steps, and orders of the steps that keep few live.

Takes what each step reads and makes, gives counts and orders. Invariant: an order keeps data flow,
and is the same for the same steps; what a value takes up is the caller's weight.

    0: load; 1: load; 2: mul 0 1; 3: add 2 0      live around each: 1 2 2 2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

V = TypeVar("V")


class Line(Generic[V]):
    """Steps in a line: the values that each reads, and the one that it makes, if any."""

    def __init__(self, reads: Sequence[Sequence[V]], makes: Sequence[V | None]) -> None:
        self.reads = [list(dict.fromkeys(read)) for read in reads]
        self.makes = list(makes)
        self.maker = {value: k for k, value in enumerate(self.makes) if value is not None}

    def __len__(self) -> int:
        return len(self.makes)

    def curve(self, weight: Callable[[V], int], order: Sequence[int] | None = None) -> list[int]:
        """What is live around each step, in the given order of steps; values from outside aside."""
        live: set[V] = set()
        held, found = 0, list[int]()
        for k in reversed(range(len(self)) if order is None else order):
            out, peak = self.makes[k], held
            if out is not None:
                if out in live:
                    live.discard(out)
                    held -= weight(out)
                else:
                    peak += weight(out)
            for value in self.reads[k]:
                if value in self.maker and value not in live:
                    live.add(value)
                    held += weight(value)
            found.append(max(peak, held))
        return found[::-1]

    def most(self, weight: Callable[[V], int], order: Sequence[int] | None = None) -> int:
        """What is live at the fullest point."""
        return max(self.curve(weight, order), default=0)

    def depth_first(self) -> list[int]:
        """Each step after its operands, as late as it can be: the longest way down goes first."""
        height = [1] * len(self)
        for k, read in enumerate(self.reads):
            height[k] += max((height[self.maker[v]] for v in read if v in self.maker), default=0)
        wanted = {value for read in self.reads for value in read}
        ends = [k for k, value in enumerate(self.makes) if value is None or value not in wanted]
        done: set[int] = set()
        order: list[int] = []
        for end in ends:
            stack = [end]
            while stack:
                k = stack[-1]
                before = [self.maker[v] for v in self.reads[k] if v in self.maker]
                waiting = [b for b in before if b not in done]
                if waiting and k not in done:
                    stack.append(max(waiting, key=lambda b: (height[b], -b)))
                    continue
                stack.pop()
                if k not in done:
                    done.add(k)
                    order.append(k)
        return order

    def least_live(self, weight: Callable[[V], int]) -> list[int]:
        """At each point the step that leaves least live; of several the first one."""
        waits = [{self.maker[v] for v in read if v in self.maker} for read in self.reads]
        readers: list[list[int]] = [[] for _ in range(len(self))]
        left: dict[V, int] = dict.fromkeys(self.maker, 0)
        for k, read in enumerate(self.reads):
            for value in read:
                if value in left:
                    left[value] += 1
                    readers[self.maker[value]].append(k)
        ready = [k for k, before in enumerate(waits) if not before]
        order: list[int] = []
        while ready:
            best = min(ready, key=lambda k: (self._change(k, left, weight), k))
            ready.remove(best)
            order.append(best)
            for value in self.reads[best]:
                if value in left:
                    left[value] -= 1
            for reader in readers[best]:
                waits[reader].discard(best)
                if not waits[reader]:
                    ready.append(reader)
        return order

    def _change(self, k: int, left: dict[V, int], weight: Callable[[V], int]) -> int:
        """How much more is live after a step than before it."""
        out = self.makes[k]
        freed = sum(weight(v) for v in self.reads[k] if left.get(v) == 1)
        return (weight(out) if out is not None and left[out] else 0) - freed
