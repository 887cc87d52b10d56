"""What statements of a nest mean on every machine, and the control flow around them.

Takes statements, writes them on registers that a subclass keeps: how a loop is spread over lanes or
threads, how memory is reached and how reductions end is left to it. Invariant: values are those of
backend/scalar.py, whatever the machine.

    %2 = add.f32,f32 %0 %1      values[2] = scalar.emit(em, "add", ..., values[0], values[1])
"""

from __future__ import annotations

from fjit.backend import scalar
from fjit.backend.accumulate import Accumulator, Lanewise
from fjit.backend.emitter import I1, I64, Emitter, Ty, Val
from fjit.backend.faults import faults
from fjit.backend.flow import Flow
from fjit.core import dtypes
from fjit.lower import nest as n
from fjit.lower.build import NEGATIVE_POWER

WORD = I64  # sizes, positions and addresses in memory and in tables
FLAG = I1  # conditions
BYTE = Ty("i", 8)


class Statements(Flow):
    """A function under construction: its registers, and where the loops around them are.

    `word` is what it counts loops and addresses in; positions among values are 64 bits always.
    """

    word: Ty = WORD

    def __init__(self, nest: n.Nest, em: Emitter) -> None:
        super().__init__(em)
        self.nest = nest
        self.values: dict[int, Val] = {}
        self.axes: dict[str, Val] = {}
        self.accs: dict[int, Accumulator | Lanewise] = {}
        self.granted: frozenset[n.Value] = frozenset()  # conditions that are known to hold

    # ---- what a machine says --------------------------------------------------------------------
    def slot(self, slot: n.Slot) -> Val:
        """A run-time integer."""
        raise NotImplementedError

    def pointer(self, buffer: int) -> Val:
        """A buffer's address."""
        raise NotImplementedError

    def flag(self, bad: Val, code: int) -> None:
        """Set bits of the status word if any wanted lane is bad."""
        raise NotImplementedError

    def linear(self, linear: n.Linear, itemsize: int = 1) -> tuple[Val, Val | None]:
        """A position or address as a scalar and a vector part."""
        raise NotImplementedError

    def full(self, slot: n.Slot) -> Val:
        """A run-time integer in 64 bits."""
        return self.slot(slot)

    def count_in(self, cell: int) -> Val:
        """A run-time extent."""
        return self.em.load(WORD, self.pointer(cell))

    # ---- statements -----------------------------------------------------------------------------
    def statement(self, stmt: n.Stmt) -> None:
        """Emit one statement; a missing row is a KeyError naming its class."""
        getattr(self, f"_on_{type(stmt).__name__.lower()}")(stmt)

    def _on_const(self, stmt: n.Const) -> None:
        ty = scalar.register_type(stmt.dtype, 1)
        self.values[stmt.out] = self.em.const(ty, stmt.value.item())

    def _on_let(self, stmt: n.Let) -> None:
        args = tuple(self.values[a] for a in stmt.args)
        if stmt.op == "select" and stmt.args[0] in self.granted:
            self.values[stmt.out] = args[1]
            return
        if stmt.op == "pow" and stmt.dtype.kind == "i":
            self._note_negative_powers(stmt, args)
        self.values[stmt.out] = scalar.emit(
            self.em, stmt.op, stmt.operand_dtypes, args, stmt.dtype, stmt.fast
        )

    def _note_negative_powers(self, stmt: n.Let, args: tuple[Val, ...]) -> None:
        """Integers to negative powers are an error in NumPy."""
        for name, mask in faults(self.em, stmt.op, stmt.operand_dtypes, args):
            if name == "negative_power":
                self.flag(mask, NEGATIVE_POWER)

    def _on_scalar(self, stmt: n.Scalar) -> None:
        """A scalar argument's bits."""
        em = self.em
        bits = self.full(stmt.slot)
        ty = scalar.register_type(stmt.dtype, 1)
        if ty.bits < 64:
            bits = em.trunc_int(bits, Ty("i", ty.bits))
        self.values[stmt.out] = em.bitcast(bits, ty) if ty.kind == "f" else bits

    def _on_split(self, stmt: n.Split) -> None:
        value, by = self.values[stmt.value], self.slot(stmt.by)
        if value.ty.lanes > 1:
            by = self.em.splat(by, value.ty.lanes)
        self.values[stmt.out] = (
            self.em.udiv(value, by) if stmt.op == "div" else self.em.urem(value, by)
        )

    def _on_checked(self, stmt: n.Checked) -> None:
        em, value = self.em, self.values[stmt.value]
        good = em.icmp("ult", value, like(em, self.full(stmt.extent), value))
        bad = em.not_(good)
        if stmt.guard is not None:
            bad = em.and_(bad, self.values[stmt.guard])
        self.flag(bad, stmt.code)
        self.values[stmt.out] = em.select(good, value, em.const(value.ty, 0))

    # ---- reductions -----------------------------------------------------------------------------
    def _on_merge(self, stmt: n.Merge) -> None:
        self.accs[stmt.acc].merge([self.values[v] for v in stmt.parts])

    def _on_close(self, stmt: n.Close) -> None:
        acc = self.accs[stmt.acc]
        if not stmt.partial:
            self.values[stmt.outs[0]] = acc.close()
            return
        for out, word in zip(stmt.outs, acc.close_words(), strict=True):
            self.values[out] = word

    # ---- numbers and memory ---------------------------------------------------------------------
    def _times(self, value: Val, factor: n.Slot | int, itemsize: int) -> Val:
        em = self.em
        if isinstance(factor, n.Slot):
            return em.mul(value, like(em, self.slot(factor), value))
        if factor in (n.UNIT, n.BACK):
            size = itemsize if factor == n.UNIT else -itemsize
            return value if size == 1 else em.mul(value, em.const(value.ty, size))
        return value if factor == 1 else em.neg(value)

    def _from_memory(self, value: Val, stmt: n.Load) -> Val:
        em = self.em
        if stmt.swapped and value.ty.bits > 8:
            value = em.intrinsic("bswap", value.ty, value)
        ty = scalar.register_type(stmt.dtype, value.ty.lanes)
        if stmt.dtype == dtypes.BOOL:
            return em.icmp("ne", value, em.const(value.ty, 0))
        return em.bitcast(value, ty) if value.ty != ty else value

    def _to_memory(self, value: Val, dtype: object) -> Val:
        if dtype == dtypes.BOOL:
            return self.em.zext(value, BYTE.with_lanes(value.ty.lanes))
        return value

    # ---- loops ------------------------------------------------------------------------------
    def _bounds(self, loop: n.Loop) -> tuple[Val, Val]:
        em = self.em
        start, stop = em.const(self.word, 0), self.slot(loop.extent)
        if loop.start is not None:
            assert loop.stop is not None
            start = self.linear(loop.start)[0]
            stop = self._smaller(em.add(start, stop), self.slot(loop.stop))
            if loop.start.offset is not None:  # a chunk may begin before a part of its axis
                start = self._larger(start, em.const(self.word, 0))
        if loop.cell is not None:
            stop = self._smaller(stop, self.count_in(loop.cell))
        return start, stop

    def _decoded(self, loop: n.Loop, task: Val) -> dict[str, Val]:
        """The axes of a task."""
        em, axes, rest = self.em, dict[str, Val](), task
        for axis, extent in reversed(loop.decode[1:]):
            size = self._larger(self.slot(extent), em.const(self.word, 1))  # of no tasks
            axes[axis] = em.urem(rest, size)
            rest = em.udiv(rest, size)
        return axes | {axis: rest for axis, _ in loop.decode[:1]}


def like(em: Emitter, value: Val, other: Val) -> Val:
    """A scalar with as many lanes as another value."""
    return em.splat(value, other.ty.lanes) if other.ty.lanes > 1 else value


def raw(ty: Ty, swapped: bool) -> Ty:
    """The type that is loaded: bytes in the other order are swapped as integers."""
    return ty.as_int if swapped and ty.kind == "f" else ty
