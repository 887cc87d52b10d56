"""From a scheduled kernel to its loop nest.

Takes a kernel's program, its schedule and where its operands live; gives a `Nest`. Values are asked
for by element (`Writer.value`), views turn into index arithmetic, and each value is placed in the
outermost loop that knows everything it depends on. Invariant: the nest's text depends on structure
only, never on sizes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fjit.core import dtypes
from fjit.core.ir import Atom, Literal, Sym, Var
from fjit.lower.memory import Memory
from fjit.lower.nest import (
    BACK,
    UNIT,
    Buffer,
    Checked,
    Const,
    Let,
    Linear,
    Load,
    Loop,
    Position,
    Scalar,
    Slot,
    Split,
    Stmt,
    Store,
    Value,
    Within,
)
from fjit.optimize import demand
from fjit.optimize import index as ix
from fjit.optimize.index import Axis, Guard, Holds, Index, Indices

I64 = dtypes.I64
BAD_INDEX, EMPTY_REDUCTION, NEGATIVE_POWER, EMPTY_SEARCH = 1, 2, 4, 8


class _Level(NamedTuple):
    """A loop that is being filled: its statements, and the memo keys to forget at its end."""

    stmts: list[Stmt]
    keys: list[object]


class Writer:
    """Writes statements into nested loops; knows the buffers, slots and values of one kernel."""

    def __init__(self, env: demand.Env, memory: dict[Var, Memory], inputs: tuple[Var, ...]) -> None:
        self.env = env
        self.memory = memory
        self.buffers: list[Buffer] = []
        self.slots: list[int | tuple[str, int]] = []
        self.levels: list[_Level] = [_Level([], [])]
        self.depths: dict[Value, int] = {}
        self.axis_depth: dict[str, int] = {}
        self.memo: dict[object, Value] = {}
        self.held: dict[tuple[Var, Indices], object] = {}
        self.vector_axis: Axis | None = None
        self.tile_axis: Axis | None = None  # the rows of tiles, in which steps of one element show
        self.across: tuple[Axis, ...] = ()  # axes of tasks in which they show, either way
        self.inputs: dict[Var, int] = {}
        self.under: Value | None = None
        self._numbers = 0
        self._axis_slots: dict[object, Slot] = {}
        self.cells: dict[Sym, int] = {}
        for position, var in enumerate(inputs):
            if not memory[var].scalar:
                self.inputs[var] = self.buffer("in", var.aval.dtype, position)
        self.positions = {var: k for k, var in enumerate(inputs)}

    # ---- buffers, slots, values -----------------------------------------------------------
    def buffer(self, kind: str, dtype: np.dtype, number: int | None = None,
               nbytes: int | None = None) -> int:  # fmt: skip
        """A new buffer operand; `nbytes` for private and shared memory."""
        if number is None:
            number = sum(b.kind == kind for b in self.buffers)
        size = None if nbytes is None else self.slot(nbytes)
        self.buffers.append(Buffer(kind, number, dtype, size))
        return len(self.buffers) - 1

    def cell(self, sym: Sym) -> int:
        """The buffer with the run-time extent of a symbol."""
        known = self.cells.get(sym)
        if known is None:
            known = self.cells[sym] = self.buffer("cell", I64)
        return known

    def slot(self, value: int | tuple[str, int]) -> Slot:
        """A new run-time integer."""
        self.slots.append(value)
        return Slot(len(self.slots) - 1)

    def extent_slot(self, key: object, value: int) -> Slot:
        """The run-time integer for one role, shared by all its uses."""
        known = self._axis_slots.get(key)
        if known is None:
            known = self._axis_slots[key] = self.slot(value)
        return known

    def fresh(self, depth: int) -> Value:
        """A new value that lives in the loop at `depth`."""
        value = self._numbers
        self._numbers += 1
        self.depths[value] = depth
        return value

    def place(self, stmt: Stmt, depth: int) -> None:
        """Append a statement to the open loop at `depth`."""
        self.levels[depth].stmts.append(stmt)

    @property
    def depth(self) -> int:
        """Depth of the innermost open loop."""
        return len(self.levels) - 1

    def remember(self, key: object, value: Value) -> Value:
        """Let later requests for `key` find `value` while its loop is open."""
        self.memo[key] = value
        self.levels[self.depths[value]].keys.append(key)
        return value

    # ---- loops ----------------------------------------------------------------------------
    def open(self, loop: Loop, axes: tuple[str, ...]) -> None:
        """Open a loop; `axes` are the loop variables that it defines."""
        self.levels.append(_Level(loop.body, []))
        for axis in axes:
            self.axis_depth[axis] = self.depth

    def close(self, loop: Loop) -> None:
        """Close the innermost loop and put it behind what was hoisted out of it."""
        level = self.levels.pop()
        for key in level.keys:
            self.memo.pop(key, None)
        self.levels[-1].stmts.append(loop)

    # ---- indices --------------------------------------------------------------------------
    def linear(self, index: Index, role: object) -> Linear:
        """An index as a position: constants and odd factors become slots."""
        offset = self.extent_slot((role, "offset"), index.const) if index.const else None
        terms: list[tuple[str, Slot | int]] = []
        for number, (term, coef) in enumerate(index.terms):
            factor: Slot | int = 1 if coef == 1 else -1
            if coef not in (1, -1):
                factor = self.extent_slot((role, number), coef)
            terms.append((self.term(term), factor))
        return Linear(offset, tuple(terms))

    def term(self, term: ix.Term) -> str:
        """A loop axis or a computed value, as text."""
        if isinstance(term, Axis):
            return f"i{term.number}"
        return f"%{self.term_value(term)}"

    def term_value(self, term: ix.Term) -> Value:
        """The value of a quotient, remainder or gathered index."""
        known = self.memo.get(("term", term, None))
        if known is None and self.under is not None:
            known = self.memo.get(("term", term, self.under))
        if known is not None:
            return known
        if isinstance(term, (ix.Div, ix.Mod)):
            inner = self.position(term.inner)
            out = self.fresh(self.depths[inner])
            by = self.extent_slot((term, "by"), term.by)
            self.place(Split(out, term.op, inner, by), self.depths[out])
            return self.remember(("term", term, None), out)
        assert isinstance(term, ix.Gathered), f"{term} has no value of its own"
        under = self.under
        inner = self.value(term.atom, term.at, under)
        depth = self.depths[inner] if under is None else max(self.depths[inner], self.depths[under])
        out = self.fresh(depth)
        extent = self.extent_slot((term, "extent"), term.extent)
        self.place(Checked(out, inner, extent, under, BAD_INDEX), self.depths[out])
        return self.remember(("term", term, under), out)

    def linear_depth(self, linear: Linear) -> int:
        """The loop that knows all terms."""
        depth = 0
        for term, _ in linear.terms:
            if term[0] == "i":
                depth = max(depth, self.axis_depth[term])
            elif term[0] == "%":
                depth = max(depth, self.depths[int(term[1:])])
            else:
                depth = self.depth
        return depth

    def position(self, index: Index) -> Value:
        """An index as an int64 value."""
        key = ("position", index)
        known = self.memo.get(key)
        if known is not None:
            return known
        linear = self.linear(index, key)
        out = self.fresh(self.linear_depth(linear))
        self.place(Position(out, linear), self.depths[out])
        return self.remember(key, out)

    def address(self, at: Indices, strides: tuple[int, ...], itemsize: int, role: object) -> Linear:
        """Byte address of an element: one factor per loop axis, unit strides baked in."""
        const = 0
        totals: dict[ix.Term, int] = {}
        for index, stride in zip(at, strides, strict=True):
            const += index.const * stride
            for term, coef in index.terms:
                totals[term] = totals.get(term, 0) + coef * stride
        const += ix.merge_splits(totals)
        terms: list[tuple[str, Slot | int]] = []
        for number, (term, total) in enumerate(totals.items()):
            if total == 0:
                continue
            if (term == self.vector_axis or term in self.across) and abs(total) == itemsize:
                terms.append((self.term(term), UNIT if total > 0 else BACK))
            elif term == self.tile_axis and total == itemsize:
                terms.append((self.term(term), UNIT))
            else:
                terms.append((self.term(term), self.extent_slot((role, number), total)))
        return Linear(self.extent_slot((role, "offset"), const), tuple(terms))

    # ---- values ---------------------------------------------------------------------------
    def constant(self, number: object, dtype: np.dtype) -> Value:
        """A literal, placed outside all loops."""
        scalar = dtype.type(np.asarray(number).astype(dtype)[()])
        key = ("const", dtype, scalar.tobytes())
        known = self.memo.get(key)
        if known is not None:
            return known
        out = self.fresh(0)
        self.place(Const(out, scalar, dtype), 0)
        return self.remember(key, out)

    def _literal(self, atom: Literal) -> Value:
        """A constant, or a scalar whose bits are a run-time argument."""
        dtype = atom.aval.dtype
        if atom.word is None:
            return self.constant(atom.value, dtype)
        key = ("word", atom)
        known = self.memo.get(key)
        if known is not None:
            return known
        out = self.fresh(0)
        self.place(Scalar(out, self.extent_slot(key, atom.word), dtype), 0)
        return self.remember(key, out)

    def let(self, op: str, args: tuple[Value, ...], types: tuple[np.dtype, ...], dtype: np.dtype,
            fast: str = "") -> Value:  # fmt: skip
        """An elementwise operation, placed where its operands are known."""
        out = self.fresh(max([self.depths[a] for a in args], default=0))
        self.place(Let(out, op, args, types, dtype, fast), self.depths[out])
        return out

    def both(self, a: Value | None, b: Value | None) -> Value | None:
        """The conjunction of two guards."""
        if a is None or b is None or a == b:
            return b if a is None else a
        key = ("and", a, b)
        known = self.memo.get(key)
        if known is None:
            known = self.remember(key, self.let("and", (a, b), (dtypes.BOOL,) * 2, dtypes.BOOL))
        return known

    def negation(self, a: Value) -> Value:
        """The negation of a guard."""
        key = ("not", a)
        known = self.memo.get(key)
        if known is None:
            known = self.remember(key, self.let("not", (a,), (dtypes.BOOL,), dtypes.BOOL))
        return known

    def guard(self, conditions: Guard, under: Value | None = None) -> Value | None:
        """The value of a conjunction of conditions."""
        result: Value | None = None
        for condition in conditions:
            result = self.both(result, self._condition(condition, under))
        return result

    def _condition(self, condition: ix.Condition, under: Value | None) -> Value:
        if isinstance(condition, Holds):
            return self.value(condition.atom, condition.at, under)
        key = ("inside", condition)
        known = self.memo.get(key)
        if known is not None:
            return known
        inner = self.position(condition.inner)
        out = self.fresh(self.depths[inner])
        low = self.extent_slot((key, "low"), condition.low) if condition.low else None
        high = self.extent_slot((key, "high"), condition.high)
        self.place(Within(out, inner, low, high), self.depths[out])
        return self.remember(key, out)

    def value(self, atom: Atom, at: Indices, under: Value | None = None) -> Value:
        """The element `at` of `atom`; loads happen only where `under` holds."""
        if isinstance(atom, Literal):
            return self._literal(atom)
        known = self.memo.get((atom, at, None))
        if known is None and under is not None:
            known = self.memo.get((atom, at, under))
        if known is not None:
            return known
        held = self.held.get((atom, at))
        if held is not None:
            out, under = held(), None  # type: ignore[operator]
        elif atom not in self.env:
            out, under = self._load(atom, at, under)
        else:
            eqn = self.env[atom]
            if eqn.primitive.family == "elementwise":
                operands = tuple(
                    self.value(a, demand.operand_indices(a, at), under) for a in eqn.inputs
                )
                types = tuple(a.aval.dtype for a in eqn.inputs)
                out = self.let(eqn.primitive.name, operands, types, atom.aval.dtype, eqn.fast)
            else:
                out = self._view(demand.step(eqn, at), under)
        return self.remember((atom, at, under), out)

    def _view(self, source: demand.Source, under: Value | None) -> Value:
        if isinstance(source, demand.Position):
            return self.position(source.inner)
        if isinstance(source, demand.Read):
            return self.value(source.atom, source.at, under)
        return self._choose(source.options, under)

    def _choose(self, options: tuple[tuple[Guard, demand.Read], ...], under: Value | None) -> Value:
        picked = self._picked(options, under)
        if picked is not None:
            return picked
        guards: list[Value] = []
        values: list[Value] = []
        rest = under
        for conditions, read in options:
            own = self.guard(conditions, under)
            safe = demand.in_bounds(read)
            here = under if safe else self.both(rest, own)
            values.append(self.value(read.atom, read.at, here))
            if own is not None:
                guards.append(own)
                rest = self.both(rest, self.negation(own)) if not _safe(options) else rest
        dtype = options[0][1].atom.aval.dtype
        result = values[-1]
        for own, value in zip(reversed(guards), reversed(values[:-1]), strict=True):
            result = self.let("select", (own, value, result), (dtypes.BOOL, dtype, dtype), dtype)
        return result

    def _picked(
        self, options: tuple[tuple[Guard, demand.Read], ...], under: Value | None
    ) -> Value | None:
        """One load whose address is chosen, where two rows of memory take turns; else None."""
        if len(options) != 2 or under is not None or options[1][0]:
            return None
        conditions, first = options[0]
        along = set() if self.vector_axis is None else {self.vector_axis}
        if not conditions or any(isinstance(c, Holds) for c in conditions):
            return None
        if any(ix.axes_of((c.inner,)) & along for c in conditions):  # type: ignore[union-attr]
            return None
        leaves = [self._leaf(read) for read in (first, options[1][1])]
        if None in leaves:
            return None
        (a, at_a), (b, at_b) = leaves  # type: ignore[misc]
        one, two = self.memory[a], self.memory[b]
        if one.scalar or two.scalar or one.swapped != two.swapped:
            return None
        size = a.aval.dtype.itemsize
        there = self.address(at_a, one.strides, size, ("load", a, at_a))
        instead = self.address(at_b, two.strides, size, ("load", b, at_b))
        way = _along(there, along)
        if way is None or way != _along(instead, along):
            return None
        own = self.guard(conditions)
        assert own is not None
        depth = max(self.linear_depth(there), self.linear_depth(instead), self.depths[own])
        out = self.fresh(depth)
        self.place(
            Load(out, self.inputs[a], there, a.aval.dtype, None, one.swapped, own,
                 (self.inputs[b], instead)),
            depth,
        )  # fmt: skip
        return out

    def _leaf(self, read: demand.Read) -> tuple[Var, Indices] | None:
        """The element of memory that a read comes down to through views, with no index gathered."""
        atom, at = read.atom, read.at
        while isinstance(atom, Var) and atom in self.env:
            eqn = self.env[atom]
            step = demand.step(eqn, at) if eqn.primitive.family == "view" else None
            if not isinstance(step, demand.Read) or (atom, at) in self.held:
                return None
            atom, at = step.atom, step.at
        if isinstance(atom, Literal) or (atom, at) in self.held or (atom, at, None) in self.memo:
            return None
        if any(not isinstance(t, Axis) for index in at for t, _ in index.terms):
            return None
        return atom, at

    def _load(self, var: Var, at: Indices, under: Value | None) -> tuple[Value, Value | None]:
        memory = self.memory[var]
        if memory.scalar:
            out = self.fresh(0)
            slot = self.extent_slot((var, "bits"), 0)
            self.slots[slot.number] = ("scalar", self.positions[var])
            self.place(Scalar(out, slot, var.aval.dtype), 0)
            return out, None
        role = ("load", var, at)
        before, self.under = self.under, under  # a gathered index is loaded on the way
        address = self.address(at, memory.strides, var.aval.dtype.itemsize, role)
        self.under = before
        depth = self.linear_depth(address)
        if under is not None:
            depth = max(depth, self.depths[under])
        out = self.fresh(depth)
        load = Load(out, self.inputs[var], address, var.aval.dtype, under, memory.swapped)
        self.place(load, depth)
        return out, under

    def store(self, buffer: int, at: Linear, value: Value, dtype: np.dtype,
              guard: Value | None = None, streaming: bool = False,
              more: tuple[Value, ...] = ()) -> None:  # fmt: skip
        """Store in the innermost open loop."""
        self.place(Store(buffer, at, value, dtype, guard, streaming, more), self.depth)

    def prepare(self, roots: list[tuple[Atom, Indices]], stops: set[Var]) -> None:
        """Compute what `roots` need unguarded, in program order: recursion stays shallow."""
        env = {v: e for v, e in self.env.items() if v not in stops} if stops else self.env
        computed = demand.walk(env, roots, unguarded=True)[1]
        if len(computed) < 2:
            return
        for var in self.env:
            for at in computed.get(var, ()):
                self.value(var, at)


def _along(address: Linear, along: set[Axis]) -> tuple[Slot | int, ...] | None:
    """How an address goes along the vector axis: side by side or not at all; None otherwise."""
    names = {f"i{axis.number}" for axis in along}
    factors = tuple(factor for term, factor in address.terms if term in names)
    return factors if factors in ((), (UNIT,)) else None


def _safe(options: tuple[tuple[Guard, demand.Read], ...]) -> bool:
    return all(demand.in_bounds(read) for _, read in options[1:])
