"""The loop IR: a tree of loops over one iteration space, with explicit loads, stores, accumulators.

Takes nothing, gives data classes and their printed text, which is the key of compiled code: sizes,
strides, offsets and scalars are run-time slots (`s0`, `s1`, ...), never numbers, so a new shape has
the same text. Values are numbered; whether one is a vector follows from the loops it depends on.

    a.sum() over 8 floats         parallel task < s0
                                    open a0 sum f64
                                    vector i0 < s1 unroll 4
                                      %0 = load b0[i0*unit] f64
                                      update a0 %0
                                    %1 = close a0
                                    store b1[] %1 f64
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fjit.core import dtypes

BACK = 2  # stride of one element backwards, known at compile time
UNIT = 0  # stride of one element, known at compile time
Value = int  # number of a value


class Slot(NamedTuple):
    """A run-time int64 argument of the kernel."""

    number: int

    def __str__(self) -> str:
        return f"s{self.number}"


class Linear(NamedTuple):
    """offset + sum(term * factor), in bytes for addresses, in elements for positions.

    A term is a loop axis ("i3") or a value ("%5"); a factor is a slot, 1, -1, UNIT or BACK.
    """

    offset: Slot | None
    terms: tuple[tuple[str, Slot | int], ...] = ()

    def __str__(self) -> str:
        parts = [] if self.offset is None else [str(self.offset)]
        names: dict[Slot | int, str] = {UNIT: "unit", BACK: "-unit"}
        parts += [f"{t}*{names.get(f, f)}" for t, f in self.terms]
        return " + ".join(parts)


class Const(NamedTuple):
    """out = a literal."""

    out: Value
    value: np.generic
    dtype: np.dtype

    def __str__(self) -> str:
        return f"%{self.out} = const {self.value!r} {dtypes.name(self.dtype)}"


class Let(NamedTuple):
    """out = op(args), an elementwise primitive on operands of dtypes `dtypes`.

    `fast` is the fastmath flag that lets it take a cheaper form.
    """

    out: Value
    op: str
    args: tuple[Value, ...]
    operand_dtypes: tuple[np.dtype, ...]
    dtype: np.dtype
    fast: str = ""

    def __str__(self) -> str:
        args = " ".join(f"%{a}" for a in self.args)
        types = ",".join(map(dtypes.name, self.operand_dtypes))
        fast = f"[{self.fast}]" if self.fast else ""
        return f"%{self.out} = {self.op}.{types}{fast} {args} {dtypes.name(self.dtype)}"


class Position(NamedTuple):
    """out = an index, int64."""

    out: Value
    linear: Linear

    def __str__(self) -> str:
        return f"%{self.out} = index [{self.linear}]"


class Split(NamedTuple):
    """out = value div by, or value mod by (value >= 0)."""

    out: Value
    op: str
    value: Value
    by: Slot

    def __str__(self) -> str:
        return f"%{self.out} = {self.op} %{self.value} {self.by}"


class Within(NamedTuple):
    """out = low <= value < high, a condition."""

    out: Value
    value: Value
    low: Slot | None
    high: Slot

    def __str__(self) -> str:
        return f"%{self.out} = {self.low or 0} <= %{self.value} < {self.high}"


class Checked(NamedTuple):
    """out = value if 0 <= value < extent, else 0 with the error flag `code` set (under guard)."""

    out: Value
    value: Value
    extent: Slot
    guard: Value | None
    code: int

    def __str__(self) -> str:
        return f"%{self.out} = check %{self.value} < {self.extent}{_when(self.guard)} #{self.code}"


class Scalar(NamedTuple):
    """out = a scalar argument, whose bits are in a slot."""

    out: Value
    slot: Slot
    dtype: np.dtype

    def __str__(self) -> str:
        return f"%{self.out} = scalar {self.slot} {dtypes.name(self.dtype)}"


class Load(NamedTuple):
    """out = an element of a buffer; zero where the guard does not hold.

    With `other` (a buffer and an address of the same form) that element where `choose`, a condition
    that is the same for all lanes, does not hold.
    """

    out: Value
    buffer: int
    at: Linear
    dtype: np.dtype
    guard: Value | None = None
    swapped: bool = False
    choose: Value | None = None
    other: tuple[int, Linear] | None = None

    def __str__(self) -> str:
        swap = " swapped" if self.swapped else ""
        place = f"b{self.buffer}[{self.at}]"
        if self.other is not None:
            place += f" if %{self.choose} else b{self.other[0]}[{self.other[1]}]"
        kind = f"{dtypes.name(self.dtype)}{swap}"
        return f"%{self.out} = load {place} {kind}{_when(self.guard)}"


class Prefetch(NamedTuple):
    """Ask for a cache line of a buffer that is loaded soon; beyond the buffer's end of nothing."""

    buffer: int
    at: Linear
    dtype: np.dtype

    def __str__(self) -> str:
        return f"prefetch b{self.buffer}[{self.at}] {dtypes.name(self.dtype)}"


class Store(NamedTuple):
    """Write an element of a buffer where the guard holds; the values `more` lie behind it."""

    buffer: int
    at: Linear
    value: Value
    dtype: np.dtype
    guard: Value | None = None
    streaming: bool = False
    more: tuple[Value, ...] = ()

    def __str__(self) -> str:
        values = " ".join(f"%{v}" for v in (self.value, *self.more))
        stream = " streaming" if self.streaming else ""
        return (
            f"store b{self.buffer}[{self.at}] {values} {dtypes.name(self.dtype)}{stream}"
            f"{_when(self.guard)}"
        )


class Open(NamedTuple):
    """Start an accumulator: sum prod max min and or argmax argmin.

    A `lanewise` one keeps one running value per lane of the vector loop that it is opened in;
    `fast` is the fastmath flag that lets it take a cheaper form.
    """

    acc: int
    op: str
    dtype: np.dtype
    lanewise: bool = False
    fast: str = ""

    def __str__(self) -> str:
        lanes = " lanewise" if self.lanewise else ""
        fast = f" {self.fast}" if self.fast else ""
        return f"open a{self.acc} {self.op} {dtypes.name(self.dtype)}{lanes}{fast}"


class Update(NamedTuple):
    """Fold a value into an accumulator where the guard holds; `position` for argmax and argmin.

    `unsorted` if positions do not rise along the loops, so that equal values must compare them.
    """

    acc: int
    value: Value
    guard: Value | None = None
    position: Value | None = None
    unsorted: bool = False

    def __str__(self) -> str:
        at = "" if self.position is None else f" at %{self.position}" + " unsorted" * self.unsorted
        return f"update a{self.acc} %{self.value}{at}{_when(self.guard)}"


class Merge(NamedTuple):
    """Fold a stored partial result (its `parts` words, one value each) into an accumulator."""

    acc: int
    parts: tuple[Value, ...]

    def __str__(self) -> str:
        return f"merge a{self.acc} " + " ".join(f"%{v}" for v in self.parts)


class Close(NamedTuple):
    """outs = the accumulator's result, or with `partial` its words for a later Merge."""

    outs: tuple[Value, ...]
    acc: int
    dtype: np.dtype
    partial: bool = False

    def __str__(self) -> str:
        outs = " ".join(f"%{v}" for v in self.outs)
        word = "partial" if self.partial else "close"
        return f"{outs} = {word} a{self.acc} {dtypes.name(self.dtype)}"


class Scan(NamedTuple):
    """out = running reduction along the vector loop, up to and including this element."""

    out: Value
    acc: int
    value: Value

    def __str__(self) -> str:
        return f"%{self.out} = scan a{self.acc} %{self.value}"


class Append(NamedTuple):
    """Write a value to a buffer at the counter where the guard holds, packed (compress-store)."""

    buffer: int
    counter: int
    value: Value
    dtype: np.dtype
    guard: Value

    def __str__(self) -> str:
        return (
            f"append b{self.buffer} c{self.counter} %{self.value} {dtypes.name(self.dtype)}"
            f"{_when(self.guard)}"
        )


class Advance(NamedTuple):
    """Move the counter on by the number of elements where the guard holds."""

    counter: int
    guard: Value

    def __str__(self) -> str:
        return f"advance c{self.counter}{_when(self.guard)}"


class Count(NamedTuple):
    """Set the counter to 0 (`begin`) or write it to its cell (a buffer)."""

    counter: int
    cell: int
    begin: bool

    def __str__(self) -> str:
        return f"count c{self.counter} " + ("= 0" if self.begin else f"-> b{self.cell}")


@dataclass(slots=True)
class Loop:
    """A loop over one axis. kind: parallel, sequential or vector.

    It runs from `start` (0), or from 0 if that lies before it, to min(start + extent, stop). A
    parallel loop runs over tasks, which `decode` turns into axes, outermost first. A vector loop is
    unrolled `unroll` times, restarts accumulators' blocks every `block` elements, and ends early
    where the accumulators `until`, of any and all, are decided, or the word `flag` of shared memory
    says so, which it sets. `most` bounds the extent of a short one: 4, 8 or 16; 0 is no bound.
    """

    axis: str
    extent: Slot
    kind: str
    body: list[Stmt] = field(default_factory=list)
    unroll: int = 1
    block: int = 0
    decode: tuple[tuple[str, Slot], ...] = ()
    start: Linear | None = None
    stop: Slot | None = None
    cell: int | None = None  # buffer with the run-time extent, at most `extent`
    most: int = 0
    until: tuple[int, ...] = ()
    flag: int | None = None

    def header(self) -> str:
        """The loop's own line."""
        text = f"{self.kind} {self.axis} < {self.extent}"
        if self.start is not None:
            text += f" from {self.start} to {self.stop}"
        if self.decode:
            text += " as " + " ".join(f"{a}<{s}" for a, s in self.decode)
        if self.kind == "vector" or self.unroll > 1:
            text += f" unroll {self.unroll}" + (f" block {self.block}" if self.block else "")
        text += f" of {self.most} at most" if self.most else ""
        text += f" cell b{self.cell}" if self.cell is not None else ""
        text += " until" + "".join(f" a{acc}" for acc in self.until) if self.until else ""
        return text + (f" flag b{self.flag}" if self.flag is not None else "")


Stmt = (
    Const | Let | Position | Split | Within | Checked | Scalar | Load | Prefetch | Store | Open
    | Update | Merge | Close | Scan | Append | Advance | Count | Loop
)  # fmt: skip


class Buffer(NamedTuple):
    """A memory operand. kind: in, out, cell (a run-time extent), private (per worker), shared.

    `number` counts within the kind; `size` holds the bytes of private and shared memory.
    """

    kind: str
    number: int
    dtype: np.dtype
    size: Slot | None = None

    def __str__(self) -> str:
        size = "" if self.size is None else f"({self.size})"
        return f"{self.kind}{self.number}{size}:{dtypes.name(self.dtype)}"


@dataclass(frozen=True, slots=True)
class Phase:
    """One parallel loop over tasks; phases of a kernel run one after the other.

    `tasks` is how many there are, `grain` how many a worker takes at a time, `elements` how many
    elements all tasks walk over, for the decision whether threads pay.
    """

    loop: Loop
    tasks: int
    grain: int
    elements: int


@dataclass(frozen=True, slots=True)
class Nest:
    """A kernel's loops: statements before them, phases, buffers, and the slots' values.

    A slot's value is a number, or ("scalar", k) for the bits of kernel input k. `width` is the
    widest item in bytes, which decides the number of lanes.
    """

    entry: tuple[Stmt, ...]
    phases: tuple[Phase, ...]
    buffers: tuple[Buffer, ...]
    slots: tuple[int | tuple[str, int], ...]
    width: int

    def __str__(self) -> str:
        lines = ["buffers " + " ".join(f"b{k}={b}" for k, b in enumerate(self.buffers))]
        lines.append(f"width {self.width}")
        for stmt in self.entry:
            _print(stmt, "", lines)
        for phase in self.phases:
            _print(phase.loop, "", lines)
        return "\n".join(lines) + "\n"


def short(extent: int) -> int:
    """The bound of a vector loop that is written without a loop; 0 for a longer one."""
    return next((most for most in (4, 8, 16) if extent <= most), 0)


def _when(guard: Value | None) -> str:
    return "" if guard is None else f" if %{guard}"


def _print(stmt: Stmt, indent: str, lines: list[str]) -> None:
    if isinstance(stmt, Loop):
        lines.append(indent + stmt.header())
        for inner in stmt.body:
            _print(inner, indent + "  ", lines)
    else:
        lines.append(indent + str(stmt))
