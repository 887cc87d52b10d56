"""What planning decided: the fusions considered, the groups that came of them.

Takes nothing, gives data classes.

    Decision(("exp", "reduce[sum]"), True, "fewer bytes through memory", {"bytes_saved": 8000})
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fjit.optimize.groups import Group


@dataclass(frozen=True, slots=True)
class Decision:
    """One fusion considered: the pair, whether it was taken, the rule that decided, its numbers."""

    pair: tuple[str, str]
    taken: bool
    reason: str
    numbers: dict[str, float] = field(default_factory=dict)


class Found(NamedTuple):
    """Groups, the decisions behind them, and how far they may be from the best: see `Plan.gap`."""

    groups: list[Group]
    decisions: tuple[Decision, ...]
    gap: float | None = None


Choose = Callable[[Any], bool]
"""A user's fusion function: from a candidate Decision to whether to take it."""
