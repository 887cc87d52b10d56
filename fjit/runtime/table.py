"""The table of words that kernels read their arguments from, while it is laid out.

Per kernel: a word for its status, one per buffer, one per slot. What is known at build time stands
in the template; the rest is noted as a place to patch before or during each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fjit.core.ir import Eqn, Sym, Var
from fjit.lower.nest import Buffer, Nest

__all__ = ["Table"]


@dataclass(slots=True)
class Table:
    """Words and the places among them that are filled in later."""

    words: list[int] = field(default_factory=list)
    status: list[int] = field(default_factory=list)
    pointers: list[tuple[int, Var]] = field(default_factory=list)
    cells: list[tuple[int, Sym]] = field(default_factory=list)
    privates: list[tuple[int, int]] = field(default_factory=list)  # place, bytes per worker
    shared: list[tuple[int, int]] = field(default_factory=list)  # place, bytes
    zeroed: list[tuple[int, int]] = field(default_factory=list)  # the same, zeros before each call
    scalars: list[tuple[int, Var]] = field(default_factory=list)

    def append(self, eqn: Eqn, nest: Nest, cells: tuple[Sym, ...]) -> int:
        """Add a kernel's words; gives the offset of the first in bytes."""
        base = self._word()
        self.status.append(base)
        for buffer in nest.buffers:
            self._append_buffer(buffer, eqn, nest, cells)
        for value in nest.slots:
            if isinstance(value, tuple):
                operand = eqn.inputs[value[1]]
                assert isinstance(operand, Var)
                self.scalars.append((self._word(), operand))
            else:
                self._word(value)
        return base * 8

    def append_state(self, nbytes: int) -> None:
        """Add the word of memory that a kernel wants to find zeroed, behind its others."""
        self.zeroed.append((self._word(), nbytes))

    def append_words(self, pointers: Sequence[Var], numbers: Sequence[int]) -> int:
        """Add the addresses of values, then plain words; gives the offset of the first in bytes."""
        base = len(self.words) * 8
        for var in pointers:
            self.pointers.append((self._word(), var))
        for number in numbers:
            self._word(number)
        return base

    def append_own(self, numbers: Sequence[int]) -> int:
        """Add plain words, with the offset of the first in front; gives that in bytes."""
        base = len(self.words) * 8
        self.words += [base, *numbers]
        return base

    def _append_buffer(self, buffer: Buffer, eqn: Eqn, nest: Nest, cells: tuple[Sym, ...]) -> None:
        at = self._word()
        if buffer.kind in ("in", "out"):
            group = eqn.inputs if buffer.kind == "in" else eqn.outputs
            operand = group[buffer.number]
            assert isinstance(operand, Var)
            self.pointers.append((at, operand))
        elif buffer.kind == "cell":
            self.cells.append((at, cells[buffer.number]))
        else:
            assert buffer.size is not None
            nbytes = nest.slots[buffer.size.number]
            assert isinstance(nbytes, int)
            (self.privates if buffer.kind == "private" else self.shared).append((at, nbytes))

    def _word(self, value: int = 0) -> int:
        self.words.append(value)
        return len(self.words) - 1
