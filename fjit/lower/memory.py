"""Where arrays lie: what of an operand's memory a nest is made for.

Takes nothing, gives a data class.

    Memory((8,))    ->    float64 elements side by side
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Memory:
    """Where a kernel's input or output lives: byte strides, swapped byte order, a scalar's bits."""

    strides: tuple[int, ...]
    swapped: bool = False
    scalar: bool = False
