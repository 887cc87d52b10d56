"""Accumulators in registers: open, update, close, in an order fixed by lanes and blocks.

Takes vectors of values and masks, gives scalars. A floating sum of type T keeps V = 256 bytes / T
running lanes whatever the vector width; every 1024 elements they are added pairwise to 16 (float32)
or 8 (float64) float64 lanes, with the rounding error kept for float64. Invariant: the result is the
same bits for every vector width, unroll and number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fjit.backend import scalar
from fjit.backend.emitter import Emitter, Ty, Val
from fjit.core import dtypes

I64, BOOL, F64 = dtypes.I64, dtypes.BOOL, dtypes.F64
VIRTUAL_BYTES = 256
DOUBLE = Ty("f", 64)
WORD = Ty("i", 64)


def ordered(op: str, dtype: np.dtype) -> bool:
    """Whether the order of the terms shows in the result."""
    return op in ("sum", "prod") and dtype.kind == "f"


def virtual_lanes(dtype: np.dtype) -> int:
    """Running lanes of an ordered reduction."""
    return VIRTUAL_BYTES // dtype.itemsize


class Accumulator:
    """One running reduction of a kernel, in stack slots that LLVM turns into registers."""

    def __init__(
        self,
        em: Emitter,
        entry: list[str],
        op: str,
        dtype: np.dtype,
        lanes: int,
        unroll: int,
        fast: str = "",
        registers: int = 0,
    ) -> None:
        self.em, self.entry, self.fast = em, entry, fast
        self.op, self.dtype, self.lanes = op, dtype, lanes
        self.nans = dtype.kind == "f" and fast != "nnan"  # whether they matter
        self.ordered = ordered(op, dtype)
        self.blocked = self.ordered and op == "sum"
        self.copies = unroll
        self.registers = unroll
        if self.ordered:
            self.registers = registers or max(1, virtual_lanes(dtype) // lanes)
        self.dynamic = unroll % self.registers != 0
        self.start: object = 0
        self.ty = scalar.register_type(dtype, lanes)
        self.slots = self._slots(self.ty, self.registers)
        self.index = WORD.with_lanes(lanes)
        self.places = self._slots(self.index, unroll) if op.startswith("arg") else []
        self.wide: list[list[Val]] = []
        if self.blocked:
            self.target = registers or (16 if dtype != F64 else 8)
            count = max(1, self.target // lanes)
            words = 2 if dtype == F64 else 1
            wide = DOUBLE.with_lanes(min(lanes, self.target))
            self.wide = [self._slots(wide, count) for _ in range(words)]

    def _slots(self, ty: Ty, count: int) -> list[Val]:
        """Stack slots side by side, one vector each."""
        array = self.em.fresh("acc")
        self.entry.append(f"  {array} = alloca [{count} x {ty}], align 64")
        slots = []
        for k in range(count):
            name = self.em.fresh("slot")
            self.entry.append(
                f"  {name} = getelementptr [{count} x {ty}], ptr {array}, i64 0, i64 {k}"
            )
            slots.append(Val(Ty("p", 64), name))
        return slots

    def _fill(self, slots: Sequence[Val], ty: Ty, number: object) -> None:
        value = self.em.const(ty, number)  # type: ignore[arg-type]
        for slot in slots:
            self._put(slot, value)

    def _put(self, slot: Val, value: Val) -> None:
        self.em.store(value, slot, _align(value.ty))

    def _get(self, slot: Val, ty: Ty) -> Val:
        return self.em.load(ty, slot, _align(ty))

    # ---- life ---------------------------------------------------------------------------------
    def open(self, start: object) -> None:
        """Set all lanes to the identity."""
        self.start = start
        self._fill(self.slots, self.ty, start)
        self._fill(self.places, self.index, -1)
        for group in self.wide:
            self._fill(group, group_ty(self), 0.0)

    def _slot(self, copy: int, within: Val | None) -> Val:
        """The register of unrolled copy `copy`, or that of position `within` of a block."""
        if not self.dynamic or within is None:
            return self.slots[copy % self.registers]
        em = self.em
        mask = em.const(WORD, virtual_lanes(self.dtype) - 1)
        element = em.and_(within, mask)
        size = em.const(WORD, max(1, self.ty.element.bits // 8))
        return em.gep(self.slots[0], em.mul(element, size))

    def _wide(self, value: Val) -> Val:
        return self.em.splat(value, self.lanes) if value.ty.lanes != self.lanes else value

    def update(self, value: Val, mask: Val | None, copy: int, within: Val | None) -> None:
        """Fold a vector of values in, where `mask` holds."""
        em = self.em
        value = self._wide(value)
        mask = None if mask is None else self._wide(mask)
        slot = self._slot(copy, within)
        old = self._get(slot, self.ty)
        if mask is not None:
            value = em.select(mask, value, em.const(self.ty, self.start))  # type: ignore[arg-type]
        self._put(slot, self.fold(old, value))

    def fold(self, old: Val, value: Val) -> Val:
        """old op value."""
        name = {"sum": "add", "prod": "mul"}.get(self.op, self.op)
        pair = (self.dtype, self.dtype)
        return scalar.emit(self.em, name, pair, (old, value), self.dtype, self.fast)

    def decided(self) -> Val:
        """Whether no further value changes any (an element holds) or all (one does not)."""
        em = self.em
        registers = [self._get(slot, self.ty) for slot in self.slots]
        if self.op == "and":
            registers = [em.not_(value) for value in registers]
        while len(registers) > 1:
            registers = [em.or_(registers[0], registers[1]), *registers[2:]]
        return em.any_(registers[0])

    def update_place(
        self, value: Val, mask: Val | None, copy: int, position: Val, unsorted: bool
    ) -> None:
        """Fold a vector of values with their positions in, which rise unless `unsorted`."""
        em = self.em
        value, position = self._wide(value), self._wide(position)
        mask = None if mask is None else self._wide(mask)
        old = self._get(self.slots[copy], self.ty)
        held = self._get(self.places[copy], self.index)
        better = self._better(value, old)
        if unsorted:
            earlier = em.icmp("slt", position, held)
            better = em.or_(better, em.and_(self._same(value, old), earlier))
        if mask is not None:
            better = em.and_(better, mask)
        self._put(self.slots[copy], em.select(better, value, old))
        self._put(self.places[copy], em.select(better, position, held))

    def _better(self, new: Val, old: Val) -> Val:
        """Whether a value beats the one held: beyond it, or the first NaN.

        One equal to the identity, which is held first, does not: where nothing does, the position
        stays -1, which stands for the first one.
        """
        em = self.em
        name = "gt" if self.op == "argmax" else "lt"
        if not self.nans:
            return scalar.emit(em, name, (self.dtype, self.dtype), (new, old), BOOL)
        return em.and_(em.fcmp(f"u{name}", new, old), em.fcmp("ord", old, old))

    # ---- sums -------------------------------------------------------------------------------
    def flush(self) -> None:
        """End of a block: add the running lanes to the float64 lanes and restart them."""
        if not self.blocked:
            return
        em = self.em
        registers = [self._get(s, self.ty) for s in self.slots]
        self._fill(self.slots, self.ty, self.start)
        lanes = halve(em, registers, self.target, self.fold)
        ty = group_ty(self)
        for k, value in enumerate(lanes):
            wide = value if self.dtype == F64 else em.fpext(value, ty)
            high = self._get(self.wide[0][k], ty)
            total = em.fadd(high, wide)
            self._put(self.wide[0][k], total)
            if len(self.wide) == 2:
                error = two_sum_error(em, high, wide, total)
                self._put(self.wide[1][k], em.fadd(self._get(self.wide[1][k], ty), error))

    def scan(self, value: Val) -> Val:
        """Running reduction within a vector by doubling steps, then onto the carry in slot 0."""
        em, lanes = self.em, self.lanes
        value = em.splat(value, lanes) if value.ty.lanes != lanes else value
        start = em.const(self.ty, self.start)  # type: ignore[arg-type]
        step = 1
        while step < lanes:
            shifted = em.shuffle(start, value, [lanes + k - step if k >= step else 0
                                                for k in range(lanes)])  # fmt: skip
            value = self.fold(shifted, value)
            step *= 2
        carry = self._get(self.slots[0], self.ty)
        value = self.fold(carry, value)
        last = em.splat(em.extract(value, lanes - 1), lanes) if lanes > 1 else value
        self._put(self.slots[0], last)
        return value

    def close_words(self) -> tuple[Val, ...]:
        """The result as words for a later merge."""
        em = self.em
        if self.places:
            return self._close_place()
        if not self.blocked:
            registers = [self._get(s, self.ty) for s in self.slots]
            return (halve(em, registers, 1, self.fold)[0],)
        ty = group_ty(self)
        high = [self._get(s, ty) for s in self.wide[0]]
        if len(self.wide) == 1:
            return (halve(em, high, 1, em.fadd)[0],)
        low = [self._get(s, ty) for s in self.wide[1]]
        return halve_pairs(em, high, low)

    def close(self) -> Val:
        """The result."""
        words = self.close_words()
        if self.places:
            return self.em.intrinsic("smax", WORD, words[1], self.em.const(WORD, 0))
        if not self.blocked:
            return words[0]
        return finish_sum(self.em, words, self.dtype)

    def merge(self, parts: Sequence[Val]) -> None:
        """Fold a partial result in."""
        em = self.em
        if self.places:
            self._merge_place(parts)
            return
        if not self.blocked:
            lane = self._get(self.slots[0], self.ty)
            first = em.extract(lane, 0) if self.lanes > 1 else lane
            merged = self.fold(first, parts[0])
            self._put(self.slots[0], em.insert(lane, merged, 0) if self.lanes > 1 else merged)
            return
        ty = group_ty(self)
        vector = self._get(self.wide[0][0], ty)
        high = em.extract(vector, 0) if ty.lanes > 1 else vector
        total = em.fadd(high, parts[0])
        self._put(self.wide[0][0], em.insert(vector, total, 0) if ty.lanes > 1 else total)
        if len(self.wide) == 2:
            error = em.fadd(two_sum_error(em, high, parts[0], total), parts[1])
            vector = self._get(self.wide[1][0], ty)
            low = em.fadd(em.extract(vector, 0) if ty.lanes > 1 else vector, error)
            self._put(self.wide[1][0], em.insert(vector, low, 0) if ty.lanes > 1 else low)

    # ---- positions ------------------------------------------------------------------------------
    def _close_place(self) -> tuple[Val, Val]:
        """The best of all registers, then of the halves of the last one."""
        em = self.em
        pairs = [
            (self._get(slot, self.ty), self._get(place, self.index))
            for slot, place in zip(self.slots, self.places, strict=True)
        ]
        while len(pairs) > 1:
            half = len(pairs) // 2
            pairs = [self._first(pairs[k], pairs[k + half]) for k in range(half)]
        value, held = pairs[0]
        while value.ty.lanes > 1:
            half = value.ty.lanes // 2
            low, high = ([*range(first, first + half)] for first in (0, half))
            value, held = self._first(
                (_lanes_of(em, value, low), _lanes_of(em, held, low)),
                (_lanes_of(em, value, high), _lanes_of(em, held, high)),
            )
        return value, held

    def _same(self, a: Val, b: Val) -> Val:
        """Whether two values are equal, or both NaN."""
        em = self.em
        equal = scalar.emit(em, "eq", (self.dtype, self.dtype), (a, b), BOOL)
        if not self.nans:
            return equal
        return em.or_(equal, em.and_(em.fcmp("uno", a, a), em.fcmp("uno", b, b)))

    def _first(self, a: tuple[Val, Val], b: tuple[Val, Val]) -> tuple[Val, Val]:
        """The better of two candidates, per lane; the earlier one among equals (or NaNs)."""
        em = self.em
        wins = self._better(b[0], a[0])
        equal = self._same(a[0], b[0])
        earlier = em.icmp("slt", b[1], a[1])
        wins = em.or_(wins, em.and_(equal, earlier))
        wins = em.and_(wins, em.icmp("sge", b[1], em.const(b[1].ty, 0)))
        return em.select(wins, b[0], a[0]), em.select(wins, b[1], a[1])

    def _merge_place(self, parts: Sequence[Val]) -> None:
        em = self.em
        vector, held = self._get(self.slots[0], self.ty), self._get(self.places[0], self.index)
        if self.lanes == 1:
            value, place = self._first((vector, held), (parts[0], parts[1]))
        else:
            old = (em.extract(vector, 0), em.extract(held, 0))
            best = self._first(old, (parts[0], parts[1]))
            value, place = em.insert(vector, best[0], 0), em.insert(held, best[1], 0)
        self._put(self.slots[0], value)
        self._put(self.places[0], place)


class Lanewise:
    """A running reduction with one value per lane of the vector loop that it is opened in."""

    def __init__(
        self,
        em: Emitter,
        entry: list[str],
        op: str,
        dtype: np.dtype,
        lanes: int,
        copies: int,
        fast: str = "",
    ) -> None:
        del copies  # each copy of the body opens and closes it anew
        self.em, self.op, self.dtype, self.lanes, self.fast = em, op, dtype, lanes, fast
        self.ty = scalar.register_type(dtype, lanes)
        name = em.fresh("acc")
        entry.append(f"  {name} = alloca {self.ty}, align 64")
        self.slot = Val(Ty("p", 64), name)
        self.start: object = 0

    def open(self, start: object) -> None:
        """Set all lanes to the identity."""
        self.start = start
        self._put(self.em.const(self.ty, start))  # type: ignore[arg-type]

    def _put(self, value: Val) -> None:
        self.em.stmt(f"store {value.ty} {value.ref}, ptr {self.slot.ref}, align {_align(value.ty)}")

    def _get(self) -> Val:
        text = f"load {self.ty}, ptr {self.slot.ref}, align {_align(self.ty)}"
        return self.em.inst(self.ty, text)

    def update(self, value: Val, mask: Val | None, copy: int, within: Val | None) -> None:
        """Fold a vector of values in, where `mask` holds."""
        em = self.em
        value = em.splat(value, self.lanes) if value.ty.lanes != self.lanes else value
        if mask is not None:
            mask = em.splat(mask, self.lanes) if mask.ty.lanes != self.lanes else mask
            value = em.select(mask, value, em.const(self.ty, self.start))  # type: ignore[arg-type]
        name = {"sum": "add", "prod": "mul"}.get(self.op, self.op)
        pair = (self.dtype, self.dtype)
        self._put(scalar.emit(em, name, pair, (self._get(), value), self.dtype, self.fast))

    def close(self) -> Val:
        """The lanes' values."""
        return self._get()

    def flush(self) -> None:
        """Lanes have no blocks."""

    def scan(self, value: Val) -> Val:
        """Lanes do not scan."""
        raise AssertionError("a lanewise accumulator does not scan")

    def close_words(self) -> tuple[Val, ...]:
        """Lanes have no partial results."""
        raise AssertionError("a lanewise accumulator has no partial results")

    def merge(self, parts: Sequence[Val]) -> None:
        """Lanes have no partial results."""
        raise AssertionError("a lanewise accumulator has no partial results")


def group_ty(acc: Accumulator) -> Ty:
    """Type of one group of float64 lanes."""
    return DOUBLE.with_lanes(min(acc.lanes, acc.target))


def _lanes_of(em: Emitter, value: Val, lanes: list[int]) -> Val:
    """Some lanes of a vector; one is a scalar."""
    return em.extract(value, lanes[0]) if len(lanes) == 1 else em.shuffle(value, value, lanes)


def _align(ty: Ty) -> int:
    return max(1, min(64, ty.bits * ty.lanes // 8))


def halve(
    em: Emitter, registers: list[Val], target: int, fold: Callable[[Val, Val], Val]
) -> list[Val]:
    """Combine lane k with lane k + n/2 until `target` lanes are left."""
    lanes = registers[0].ty.lanes
    while len(registers) > 1 and len(registers) * lanes > target:
        half = len(registers) // 2
        registers = [fold(registers[k], registers[k + half]) for k in range(half)]
    (first, *rest) = registers
    while not rest and first.ty.lanes > target:
        half = first.ty.lanes // 2
        if half == 1:
            first = fold(em.extract(first, 0), em.extract(first, 1))
        else:
            low = em.shuffle(first, first, list(range(half)))
            high = em.shuffle(first, first, list(range(half, 2 * half)))
            first = fold(low, high)
    return [first, *rest]


def two_sum_error(em: Emitter, a: Val, b: Val, total: Val) -> Val:
    """The rounding error of total = a + b (Knuth's TwoSum)."""
    t = em.fsub(total, a)
    return em.fadd(em.fsub(a, em.fsub(total, t)), em.fsub(b, t))


def halve_pairs(em: Emitter, high: list[Val], low: list[Val]) -> tuple[Val, Val]:
    """Reduce lanes of (sum, error) pairs to one pair."""

    def split(values: list[Val]) -> tuple[list[Val], list[Val]]:
        if len(values) > 1:
            half = len(values) // 2
            return values[:half], values[half:]
        (value,) = values
        half = value.ty.lanes // 2
        if half == 1:
            return [em.extract(value, 0)], [em.extract(value, 1)]
        first = em.shuffle(value, value, list(range(half)))
        return [first], [em.shuffle(value, value, list(range(half, 2 * half)))]

    while len(high) > 1 or high[0].ty.lanes > 1:
        (a, b), (c, d) = split(high), split(low)
        totals = [em.fadd(x, y) for x, y in zip(a, b, strict=True)]
        errors = [two_sum_error(em, x, y, t) for x, y, t in zip(a, b, totals, strict=True)]
        rest = [em.fadd(x, y) for x, y in zip(c, d, strict=True)]
        low = [em.fadd(x, y) for x, y in zip(rest, errors, strict=True)]
        high = totals
    return high[0], low[0]


def finish_sum(em: Emitter, words: Sequence[Val], dtype: np.dtype) -> Val:
    """The sum in its own dtype from the words of a blocked sum."""
    if len(words) == 1:
        return scalar.emit(em, "convert", (F64,), (words[0],), dtype)
    high, low = words
    known = em.fcmp("ord", low, low)
    return em.select(known, em.fadd(high, low), high)
