"""A matrix product as a GPU kernel: tiles of the operands in shared memory, results in registers.

Takes a `Form` (what the code depends on), gives LLVM IR of one kernel,

    void product(ptr a, ptr b, ptr c, i64 m, i64 n, i64 k, strides in bytes, ...)

in the order of `words`. A block makes a tile of `tile` x `tile` elements: it walks over k in steps,
in which it copies `depth` columns of a and rows of b into shared memory while it multiplies those
of the step before; a thread has groups of `unit` rows and columns of the tile, one access each.
Invariant: an element is the sum of its products in the order of k, each added by one fused
multiply-add, whatever the tiles: only edges are rounded up, and with zeros.

    c[i, j] = fma(a[i, k - 1], b[k - 1, j], ... fma(a[i, 0], b[0, j], 0))

The first step takes what is left over of k, so that all others are whole; rows and columns beyond
the edge are copies of the last one, of which nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from fjit.backend.casts import memory_type
from fjit.backend.emitter import F32, I32, I64, Emitter, Ty, Val
from fjit.backend.flow import ROLLED_TEXT, Flow
from fjit.backend.values import GLOBAL, SHARED

NAME: Final = "product"
ACCESS: Final = 16
"""Bytes of one access to shared memory."""
GROUP: Final = 8
"""Tiles below one another that run side by side, so that they find their columns in the cache."""
SIZES: Final = ("m", "n", "k")


class Tiling(NamedTuple):
    """Elements along a tile, threads along it, terms of a step, and of those written out.

    With more of them written out, loads far ahead take the registers.
    """

    tile: int
    side: int
    depth: int
    turn: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.side * self.side


SMALL: Final = Tiling(32, 8, 16, 4)
MIDDLE: Final = Tiling(64, 16, 16, 2)
LARGE: Final = Tiling(128, 16, 8, 2)


class Form(NamedTuple):
    """What the code of a product depends on.

    `left` and `right` say whether neighbours in memory lie along k, `batch` is how many axes count
    the matrices of a stack.
    """

    dtype: np.dtype[np.generic]
    tiling: Tiling
    left: bool
    right: bool
    batch: int

    @property
    def resident(self) -> int | None:
        """Blocks that registers are to suffice for, where they do without spills."""
        return 2 if self.tiling == LARGE and not self.batch else None

    @property
    def words(self) -> tuple[str, ...]:
        """The integers that the kernel takes behind its three pointers, by name."""
        axes = range(self.batch)
        extents = tuple(f"e{axis}" for axis in axes)
        steps = tuple(
            f"{operand}{which}"
            for operand, own in (("a", ("m", "k")), ("b", ("n", "k")), ("c", ("m", "n")))
            for which in (*own, *axes)
        )
        return (*SIZES, *extents, "a", "b", *steps)


def emit(form: Form) -> str:
    """The LLVM IR of the kernel."""
    return _Product(form).run()


def held_as(dtype: np.dtype[np.generic]) -> Ty:
    """What elements are multiplied and added as: halves as float32, small integers as 32 bits."""
    if dtype.kind == "f":
        return F32 if dtype.itemsize < 4 else Ty("f", 8 * dtype.itemsize)
    return I64 if dtype.itemsize == 8 else I32


class _Operand(NamedTuple):
    """An operand's way into shared memory: what this thread copies, and where it goes."""

    cursor: Val  # where the address of the first element of the step is kept
    apart: list[Val]  # bytes from each element to the next
    k: Val  # the first element's position in the step
    more: int  # positions from each element to the next
    target: Val  # where the first element goes in shared memory, in the first half
    space: int  # bytes from each element to the next there
    step: Val  # bytes from one position to the next


class _Product(Flow):
    """The kernel under construction."""

    def __init__(self, form: Form) -> None:
        self.form, self.tiling = form, form.tiling
        super().__init__(Emitter(gpu=True))
        self.ty, self.memory = held_as(form.dtype), memory_type(form.dtype)
        self.size = self.ty.bits // 8
        self.unit = ACCESS // self.size
        self.groups = self.tiling.tile // (self.tiling.side * self.unit)
        self.line = (self.tiling.tile + self.unit) * self.size  # padded: fewer bank conflicts
        self.half = self.tiling.depth * self.line
        self.copied = self.tiling.tile * self.tiling.depth // self.tiling.threads

    def run(self) -> str:
        """The text of the kernel."""
        em, body = self.em, list[str]()
        em.lines = body
        for name in ("a", "b"):
            em.shared_array(f"tile_{name}", self.ty, 2 * self.half // self.size)
        self._matrix(self._start())
        em.ret()
        em.lines = ["entry:", *self.entry, "  br label %start", "start:", *body]
        pointers = [(GLOBAL, name) for name in ("pa", "pb", "pc")]
        words = [(I64, f"w.{name}") for name in self.form.words]
        text = em.define(NAME, [*pointers, *words])
        return "\n".join([*em.helpers.values(), text, ROLLED_TEXT, *em.declares.values()]) + "\n"

    # ---- pieces -----------------------------------------------------------------------------
    def _word(self, name: str) -> Val:
        return Val(I64, f"%w.{name}")

    def _register(self, name: str) -> Val:
        return self.em.call(f"llvm.nvvm.read.ptx.sreg.{name}", I32)

    def _place(self, ty: Ty, value: Val) -> Val:
        """A variable with its first value."""
        place = self._alloca(ty)
        self._set(place, value)
        return place

    def _scaled(self, value: Val, by: int) -> Val:
        return self.em.mul(value, self.em.const(value.ty, by))

    # ---- where this block and thread work -----------------------------------------------------
    def _start(self) -> Val:
        """The tile of this block, and the groups of this thread; gives the matrix's number."""
        em, tile = self.em, self.tiling.tile
        self.thread = self._register("tid.x")
        side = em.const(I32, self.tiling.side)
        self.down, self.across = em.udiv(self.thread, side), em.urem(self.thread, side)
        high, wide = (
            em.trunc_int(em.udiv(em.add(self._word(e), em.const(I64, tile - 1)),
                                 em.const(I64, tile)), I32)
            for e in ("m", "n")
        )  # fmt: skip
        block, tiles = self._register("ctaid.x"), em.mul(high, wide)
        number, band = em.urem(block, tiles), self._scaled(wide, GROUP)
        above = self._scaled(em.udiv(number, band), GROUP)
        inside = em.urem(number, band)
        height = self._smaller(em.sub(high, above), em.const(I32, GROUP))
        row = em.add(above, em.urem(inside, height))
        column = em.udiv(inside, height)
        self.row, self.column = (self._scaled(em.zext(at, I64), tile) for at in (row, column))
        return em.zext(em.udiv(block, tiles), I64)

    def _matrix(self, number: Val) -> None:
        """One matrix of the stack."""
        em = self.em
        starts = self._starts(number)
        a = self._operand("a", self.form.left, starts["a"], self.row, "m")
        b = self._operand("b", self.form.right, starts["b"], self.column, "n")
        zero = em.const(self.ty, 0)
        edge = self.groups * self.unit
        sums = [[self._place(self.ty, zero) for _ in range(edge)] for _ in range(edge)]
        depth = em.const(I64, self.tiling.depth)
        steps = em.udiv(em.add(self._word("k"), em.const(I64, self.tiling.depth - 1)), depth)
        left = em.sub(self._word("k"), em.mul(em.sub(steps, em.const(I64, 1)), depth))
        for operand in (a, b):
            self._put(operand, self._first(operand, left), em.const(I64, 0))
        self._barrier()

        def step(now: Val) -> None:
            here = self._scaled(em.and_(now, em.const(I64, 1)), self.half)
            there = em.sub(em.const(I64, self.half), here)
            more = em.icmp("slt", em.add(now, em.const(I64, 1)), steps)
            ahead = [[self._place(self.memory, em.undef(self.memory)) for _ in range(self.copied)]
                     for _ in (a, b)]  # fmt: skip
            self.when(more, lambda: self._fetch((a, b), ahead))
            self._multiply(sums, here)
            self.when(more, lambda: self._keep((a, b), ahead, there))
            self._barrier()

        self.loop(em.const(I64, 0), steps, em.const(I64, 1), step)
        self._finish(sums, starts["c"])

    def _starts(self, number: Val) -> dict[str, Val]:
        """Where the matrices of this number begin."""
        em, rest = self.em, number
        offsets = {"a": self._word("a"), "b": self._word("b"), "c": em.const(I64, 0)}
        for axis in reversed(range(self.form.batch)):
            extent = self._word(f"e{axis}")
            at, rest = em.urem(rest, extent), em.udiv(rest, extent)
            for name, offset in offsets.items():
                offsets[name] = em.add(offset, em.mul(at, self._word(f"{name}{axis}")))
        return {name: em.gep(Val(GLOBAL, f"%p{name}"), at) for name, at in offsets.items()}

    def _barrier(self) -> None:
        self.em.call("llvm.nvvm.barrier0", None)

    # ---- operands into shared memory ----------------------------------------------------------
    def _operand(self, name: str, along: bool, start: Val, origin: Val, axis: str) -> _Operand:
        """What of an operand this thread copies: neighbouring threads copy neighbours."""
        em, tiling = self.em, self.tiling
        fast = tiling.depth if along else tiling.tile
        stride = tiling.threads // fast
        near, far = (op(self.thread, em.const(I32, fast)) for op in (em.urem, em.udiv))
        k, at = (near, far) if along else (far, near)
        last = em.sub(self._word(axis), em.const(I64, 1))
        outer = self._smaller(em.add(origin, em.zext(at, I64)), last)
        step, across = self._word(f"{name}k"), self._word(f"{name}{axis}")
        offset = em.add(em.mul(outer, across), em.mul(em.zext(k, I64), step))
        apart = [self._scaled(step, stride)] * (self.copied - 1)
        if along:
            far_apart, none = self._scaled(across, stride), em.const(I64, 0)
            for number in range(1, self.copied):
                there = em.icmp("sle", em.add(outer, em.const(I64, number * stride)), last)
                apart[number - 1] = em.select(there, far_apart, none)
        place = em.add(self._scaled(k, self.line), self._scaled(at, self.size))
        return _Operand(
            self._place(GLOBAL, em.gep(start, offset)),
            apart,
            em.zext(k, I64),
            0 if along else stride,
            em.gep(Val(SHARED, f"@tile_{name}"), em.zext(place, I64)),
            stride * (self.size if along else self.line),
            step,
        )

    def _elements(self, operand: _Operand) -> Iterator[Val]:
        """The addresses of this thread's elements of the step."""
        at = self.em.load(GLOBAL, operand.cursor, 8)
        yield at
        for bytes_apart in operand.apart:
            at = self.em.gep(at, bytes_apart)
            yield at

    def _advance(self, operand: _Operand, positions: Val) -> None:
        at = self.em.load(GLOBAL, operand.cursor, 8)
        self.em.store(self.em.gep(at, self.em.mul(positions, operand.step)), operand.cursor, 8)

    def _first(self, operand: _Operand, left: Val) -> list[Val]:
        """The elements of the first step, of `left` terms, and zeros for those behind."""
        em, found = self.em, list[Val]()
        for number, at in enumerate(self._elements(operand)):
            place = self._place(self.memory, em.const(self.memory, 0))
            k = em.add(operand.k, em.const(I64, number * operand.more))
            self.when(em.icmp("slt", k, left), partial(self._copy, at, place))
            found.append(em.load(self.memory, place, 8))
        self._advance(operand, left)
        return found

    def _copy(self, at: Val, place: Val) -> None:
        em = self.em
        em.store(em.load(self.memory, at, self.form.dtype.itemsize), place, 8)

    def _fetch(self, operands: tuple[_Operand, ...], ahead: list[list[Val]]) -> None:
        """Load the next step's elements."""
        for operand, places in zip(operands, ahead, strict=True):
            for at, place in zip(self._elements(operand), places, strict=True):
                self._copy(at, place)
            self._advance(operand, self.em.const(I64, self.tiling.depth))

    def _keep(self, operands: tuple[_Operand, ...], ahead: list[list[Val]], half: Val) -> None:
        """Show the next step's elements to the block."""
        for operand, places in zip(operands, ahead, strict=True):
            self._put(operand, [self.em.load(self.memory, p, 8) for p in places], half)

    def _put(self, operand: _Operand, values: list[Val], half: Val) -> None:
        em = self.em
        start = em.gep(operand.target, half)
        for number, value in enumerate(values):
            at = em.gep(start, em.const(I64, number * operand.space))
            em.store(self._widened(value), at, self.size)

    def _widened(self, value: Val) -> Val:
        em = self.em
        if self.form.dtype.kind == "b":
            return em.zext(em.icmp("ne", value, em.const(value.ty, 0)), self.ty)
        return em.fpext(value, self.ty) if value.ty.kind == "f" else em.zext(value, self.ty)

    # ---- arithmetic ---------------------------------------------------------------------------
    def _multiply(self, sums: list[list[Val]], half: Val) -> None:
        """Add the products of one step."""
        em = self.em
        ends = []
        for name, at in (("a", self.down), ("b", self.across)):
            start = em.gep(Val(SHARED, f"@tile_{name}"), half)
            ends.append(em.gep(start, em.zext(self._scaled(at, ACCESS), I64)))

        def turn(first: Val) -> None:
            starts = [em.gep(end, self._scaled(first, self.line)) for end in ends]
            for term in range(self.tiling.turn):
                rows, columns = (self._terms(start, term) for start in starts)
                for line, x in zip(sums, rows, strict=True):
                    for place, y in zip(line, columns, strict=True):
                        em.store(self._added(em.load(self.ty, place, 8), x, y), place, 8)

        depth, terms = (em.const(I64, n) for n in (self.tiling.depth, self.tiling.turn))
        self.loop(em.const(I64, 0), depth, terms, turn)

    def _terms(self, start: Val, term: int) -> list[Val]:
        """What this thread multiplies of one row of a tile in shared memory."""
        em, found = self.em, list[Val]()
        for group in range(self.groups):
            offset = term * self.line + group * self.tiling.side * ACCESS
            many = em.load(self.ty.with_lanes(self.unit), em.gep(start, em.const(I64, offset)), 16)
            found += [em.extract(many, lane) for lane in range(self.unit)]
        return found

    def _added(self, total: Val, x: Val, y: Val) -> Val:
        em = self.em
        if self.form.dtype.kind == "b":
            return em.or_(total, em.and_(x, y))
        return em.fma(x, y, total) if self.ty.kind == "f" else em.add(total, em.mul(x, y))

    # ---- the result -----------------------------------------------------------------------------
    def _finish(self, sums: list[list[Val]], start: Val) -> None:
        """Store what of this thread's elements is inside of the result."""
        em = self.em
        rows = [self._positions(self.row, self.down, k) for k in range(len(sums))]
        columns = [self._positions(self.column, self.across, k) for k in range(len(sums))]
        for line, row in zip(sums, rows, strict=True):

            def store(line: list[Val] = line, row: Val = row) -> None:
                at = em.gep(start, em.mul(row, self._word("cm")))
                for place, column in zip(line, columns, strict=True):
                    self._store_one(em.load(self.ty, place, 8), at, column)

            self.when(em.icmp("slt", row, self._word("m")), store)

    def _positions(self, origin: Val, place: Val, number: int) -> Val:
        """The row or column of this thread's element of a number."""
        em = self.em
        group, lane = divmod(number, self.unit)
        inside = em.add(self._scaled(place, self.unit),
                        em.const(I32, group * self.tiling.side * self.unit + lane))  # fmt: skip
        return em.add(origin, em.zext(inside, I64))

    def _store_one(self, value: Val, row: Val, column: Val) -> None:
        em = self.em
        narrow = em.fptrunc(value, self.memory) if value.ty.kind == "f" else (
            em.trunc_int(value, self.memory))  # fmt: skip

        def store() -> None:
            at = em.gep(row, em.mul(column, self._word("cn")))
            em.store(narrow, at, self.form.dtype.itemsize)

        self.when(em.icmp("slt", column, self._word("n")), store)
