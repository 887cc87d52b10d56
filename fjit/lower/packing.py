"""Filters: what a mask keeps is packed behind what it kept before.

Takes placed filters with their values, writes appends and the counter that they share.

    x[x > 0]    count c0 = 0; vector: append b1 c0 x if x > 0; advance c0 if x > 0; count c0 -> cell

Invariant: the filters of a kernel have one mask, so one counter serves all of them.
"""

from __future__ import annotations

from fjit.core.ir import Sym, Var
from fjit.lower.build import Writer
from fjit.lower.memory import Memory
from fjit.lower.nest import Advance, Append, Count, Linear, Value
from fjit.optimize import index as ix
from fjit.optimize.index import Axis, Holds
from fjit.optimize.schedule import Placed


class Packing:
    """The filters of one kernel."""

    def __init__(
        self, writer: Writer, inner: Axis, outputs: dict[Var, Memory], out: dict[Var, int]
    ) -> None:
        self.writer, self.inner, self.outputs, self.out = writer, inner, outputs, out

    def append(self, q: Placed, value: Value, guard: Value | None, *, is_last: bool) -> None:
        """Write a value, or an element of a row that is kept as a whole, if the guard holds."""
        writer, var = self.writer, q.root.var
        assert guard is not None
        dtype = var.aval.dtype
        if not self.keeps_rows(q):
            writer.place(Append(self.out[var], 0, value, dtype, guard), writer.depth)
            if is_last:
                writer.place(Advance(0, guard), writer.depth)
            return
        strides = self.outputs[var].strides
        packed = _packed_axis(var)
        at = (*q.at[:packed], ix.ZERO, *q.at[packed + 1 :])
        rest = writer.address(at, strides, dtype.itemsize, ("store", var))
        row = writer.extent_slot(("row", var), strides[packed])
        address = Linear(rest.offset, (("c0", row), *rest.terms))
        writer.store(self.out[var], address, value, dtype, guard)

    def count(self, filters: list[Placed], *, begin: bool) -> None:
        """Set the counter to 0, or write it to the cell of the filters' extent."""
        var = filters[0].root.var
        sym = var.aval.shape[_packed_axis(var)]
        assert isinstance(sym, Sym)
        self.writer.place(Count(0, self.writer.cell(sym), begin), self.writer.depth)

    def end_row(self, here: list[Placed], loops: tuple[Axis, ...], inside: int) -> None:
        """Advance behind what was kept as a whole, within the first `inside` of the loops.

        That is within the loops over the mask's axes, and behind those over the others.
        """
        kept = next((q for q in here if q.cls == "filter" and self.keeps_rows(q)), None)
        if kept is None:
            return
        holds = [c for c in kept.guard if isinstance(c, Holds)]
        masked = {axis for c in holds for axis in ix.axes_of(c.at)}
        if inside != max((k + 1 for k, axis in enumerate(loops) if axis in masked), default=0):
            return
        guard = self.writer.guard(kept.guard)
        assert guard is not None
        self.writer.place(Advance(0, guard), self.writer.depth)

    def keeps_rows(self, q: Placed) -> bool:
        """Whether a filter keeps whole rows: its mask does not vary along the innermost axis."""
        holds = [c for c in q.guard if isinstance(c, Holds)]
        return not any(self.inner in ix.axes_of(c.at) for c in holds)


def _packed_axis(var: Var) -> int:
    """The axis of a filter's result whose extent the filter decides."""
    return next(k for k, e in enumerate(var.aval.shape) if isinstance(e, Sym))
