"""Programs built straight from primitives: by hand with `T`, at random with `random_programs`."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fjit.core import primitives as p
from fjit.core.interpreter import interpret
from fjit.core.ir import Atom, Aval, Primitive, Program, Var
from fjit.core.show import show
from fjit.core.trace import Trace

BOOL, I8, I32, I64 = map(np.dtype, ("?", "i1", "i4", "i8"))
F16, F32, F64 = map(np.dtype, ("f2", "f4", "f8"))


class T:
    """A trace: `t(p.neg, x)` emits, `t.input(F64, 3)` declares, `t.lit` makes a literal."""

    def __init__(self) -> None:
        self.trace = Trace()

    def __call__(self, primitive: Primitive, *inputs: Atom, **params: object) -> Var:
        return self.trace.emit(primitive, *inputs, **params)

    def input(self, dtype: np.dtype, *shape: Any) -> Var:
        return self.trace.add_input(Aval(shape, dtype))

    def lit(self, value: object, dtype: np.dtype = F64) -> Atom:
        return self.trace.literal(value, dtype)

    def full(self, value: object, *shape: int, dtype: np.dtype = F64) -> Var:
        return self(p.broadcast, self.lit(value, dtype), shape=shape, axes=())

    def compress(self, mask: Var, a: Atom) -> Var:
        return self(p.compress, mask, a, extent=self.trace.symbol(mask, mask.aval.bound))

    def slice(self, a: Atom, *rows: tuple[int, int, int]) -> Var:
        starts, sizes, steps = zip(*rows, strict=True)
        return self(p.slice_, a, starts=starts, sizes=sizes, steps=steps)

    def update(self, a: Atom, value: Atom, starts: tuple[int, ...], *steps: int) -> Var:
        return self(p.update, a, value, starts=starts, steps=steps or (1,) * len(starts))


def program(build: Callable[[T], Atom | tuple[Atom, ...]]) -> Program:
    t = T()
    result = build(t)
    return t.trace.program(result if isinstance(result, tuple) else (result,))


def brief(program: Program) -> str:
    """The equations on one line, without avals: `b = neg a; c = exp b in (c,)`."""
    lines = show(program).split("\n")[1:]
    text = "; ".join(line.strip().removeprefix("let ") for line in lines[:-1])
    text = re.sub(r"(\w+):\w+\[[^\]]*\] =", r"\1 =", text)
    return f"{text} {lines[-1].strip(' }')}".strip()


def equal(a: Any, b: Any) -> bool:
    """Equal bits, any NaN for any other."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f":
        return bool((a == b).all())
    bits = np.dtype(f"i{a.dtype.itemsize}")
    return bool(((np.isnan(a) & np.isnan(b)) | (a.view(bits) == b.view(bits))).all())


def assert_same(before: Program, after: Program, arrays: list[Any]) -> None:
    for a, b in zip(interpret(before, *arrays), interpret(after, *arrays), strict=True):
        assert equal(a, b), f"{a!r} became {b!r}\n{show(before)}\n{show(after)}"


# Random programs: operations whose NumPy loops give the same bits for every layout, so that moving
# a view past them may not be excused by NumPy. Floating sums stay along one axis for that reason.
SPECIAL = {
    "b": [False, True],
    "i": [0, 1, -1, 2, 7, -128, 127],
    "f": [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        0.5,
        3.0,
        0.1,
        np.inf,
        -np.inf,
        np.nan,
        1e30,
        1e-30,
        2.0**-126,
    ],
}
SHAPES = [(2, 3), (3, 2), (3,), (1, 3), (1, 1), (1,), ()]
UNARY = {
    "b": (p.not_,),
    "i": (p.neg, p.abs_, p.sign, p.not_),
    "f": (p.neg, p.abs_, p.sqrt, p.floor, p.rint, p.isnan, p.signbit, p.isfinite),
}
COMPARE = (p.eq, p.ne, p.lt, p.ge)
BINARY = {
    "b": (p.and_, p.or_, p.xor, p.add, p.max_, *COMPARE),
    "i": (p.add, p.sub, p.mul, p.floordiv, p.mod, p.max_, p.min_, p.and_, p.xor, p.shl, *COMPARE),
    "f": (p.add, p.sub, p.mul, p.div, p.max_, p.min_, p.copysign, *COMPARE),
}
TARGETS = {"b": (BOOL, I8, I32, F32), "i": (BOOL, I8, I32, I64, F32, F64, F16)}
TARGETS["f"] = (BOOL, I32, F16, F32, F64)
REDUCERS = {"b": ("and", "or", "max"), "i": ("sum", "prod", "max"), "f": ("sum", "prod", "min")}


class _Random:
    """Draws one program; `pool` holds the values made so far."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.t = T()
        self.pool: list[Atom] = []

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def value(self, kind: str) -> Any:
        return self.pick(SPECIAL[kind])

    def array(self, aval: Aval) -> Any:
        size = aval.bound
        values = [self.value(aval.dtype.kind) for _ in range(size)]
        with np.errstate(all="ignore"):
            return np.array(values, F64 if aval.dtype.kind == "f" else None).astype(
                aval.dtype
            ).reshape(aval.shape)  # fmt: skip

    def partner(self, a: Atom) -> Atom:
        """Another operand for an elementwise operation with `a`."""
        alike = [b for b in self.pool if b.aval == a.aval]
        scalars = [b for b in self.pool if b.aval == Aval((), a.aval.dtype)]
        lit = self.t.lit(self.value(a.aval.dtype.kind), a.aval.dtype)
        kind = self.draw(st.integers(0, 3))
        if kind == 0:
            return lit
        if kind == 1 and a.aval.shape:
            return self.t.full(lit.value, *a.aval.shape, dtype=a.aval.dtype)  # type: ignore
        return self.pick([*alike, *scalars])

    def unary(self, a: Atom) -> Atom:
        primitive = self.pick(UNARY[a.aval.dtype.kind])
        made = self.t(primitive, a)
        return self.t(primitive, made) if made.aval == a.aval and self.draw(st.booleans()) else made

    def binary(self, a: Atom) -> Atom:
        primitive = self.pick(BINARY[a.aval.dtype.kind])
        operands = [a, self.partner(a)]
        if self.draw(st.booleans()):
            operands.reverse()
        made = self.t(primitive, *operands)
        is_extremum = primitive in (p.max_, p.min_) and made.aval.dtype.kind == "f"
        return self.unsigned(made) if is_extremum else made

    def unsigned(self, a: Atom) -> Atom:
        """Equal zeros of either sign as 0.0: which one a NumPy extremum gives is not fixed."""
        return self.t(p.add, a, self.t.lit(0.0, a.aval.dtype))

    def select(self, a: Atom) -> Atom:
        masks = [b for b in self.pool if b.aval in (Aval(a.aval.shape, BOOL), Aval((), BOOL))]
        mask = self.pick([*masks, self.t.lit(True, BOOL), self.t.lit(False, BOOL)])
        made = self.t(p.select, mask, a, self.partner(a))
        return made if made.aval.shape == a.aval.shape else a

    def convert(self, a: Atom) -> Atom:
        return self.t(p.convert, a, dtype=self.pick(TARGETS[a.aval.dtype.kind]))

    def broadcast(self, a: Atom) -> Atom:
        shape = tuple(self.pick((2, 3)) if e == 1 else e for e in a.aval.shape)
        axes = tuple(range(len(shape)))
        if len(shape) < 2 and self.draw(st.booleans()):
            shape, axes = (2, *shape), tuple(k + 1 for k in axes)
        return self.t(p.broadcast, a, shape=shape, axes=axes)

    def transpose(self, a: Atom) -> Atom:
        return self.t(p.transpose, a, perm=tuple(self.draw(st.permutations(range(a.aval.ndim)))))

    def reshape(self, a: Atom) -> Atom:
        shape = a.aval.shape
        options = [(a.aval.bound,), shape, (*shape, 1)[:3], (1, a.aval.bound)]
        return self.t(p.reshape, a, shape=self.pick(s for s in options if len(s) < 3))

    def region(self, a: Atom) -> list[tuple[int, int, int]]:
        rows = []
        for extent in a.aval.shape:
            choices = [(0, extent, 1), (0, 1, 1), (extent - 1, 1, 1), (extent - 1, extent, -1)]
            rows.append(self.pick([*choices, (0, (extent + 1) // 2, 2)]))
        return rows

    def slice(self, a: Atom) -> Atom:
        return self.t.slice(a, *self.region(a)) if a.aval.ndim else a

    def window(self, a: Atom) -> Atom:
        """A write, then a read somewhere: of a part, of all, or apart from what was written."""
        return self.slice(self.update(a))

    def twice(self, a: Atom) -> Atom:
        name = self.pick(("convert", "transpose", "reshape", "slice", "reduce", "broadcast"))
        return getattr(self, name)(getattr(self, name)(a))  # type: ignore[no-any-return]

    def pad(self, a: Atom) -> Atom:
        if not a.aval.ndim:
            return a
        sides = [tuple(self.pick((0, 0, 1)) for _ in a.aval.shape) for _ in range(2)]
        if a.aval.bound > 12:
            sides = [(0,) * a.aval.ndim] * 2
        zero = self.t.lit(0, a.aval.dtype)
        return self.t(p.pad, a, zero, low=sides[0], high=sides[1])

    def concatenate(self, a: Atom) -> Atom:
        if not a.aval.ndim or a.aval.bound > 12:
            return a
        others = [b for b in self.pool if b.aval == a.aval]
        return self.t(
            p.concat, a, self.pick(others), axis=self.draw(st.integers(0, a.aval.ndim - 1))
        )

    def update(self, a: Atom) -> Atom:
        if not a.aval.ndim:
            return a
        starts, sizes, steps = zip(*self.region(a), strict=True)
        fits = [b for b in self.pool if b.aval == Aval(sizes, a.aval.dtype)]
        value = self.pick([*fits, self.t.full(1, *sizes, dtype=a.aval.dtype)])
        return self.t(p.update, a, value, starts=starts, steps=steps)

    def columns(self, a: Atom) -> Atom:
        """An array filled along one axis, piece by piece."""
        if a.aval.ndim != 2 or a.aval.bound > 12:
            return a
        rows, columns = a.aval.shape
        out: Atom = self.t.full(0, rows, 2 * columns, dtype=a.aval.dtype)  # type: ignore
        others = [b for b in self.pool if b.aval == a.aval]
        for k in self.draw(st.lists(st.sampled_from((0, columns)), min_size=1, max_size=3)):
            out = self.t.update(out, self.pick(others), (0, k))
        return out

    def masked(self, a: Atom) -> Atom:
        masks = [m for m in self.pool if m.aval == Aval(a.aval.shape[: m.aval.ndim], BOOL)]
        masks = [m for m in masks if isinstance(m, Var) and m.aval.ndim]
        if not masks:
            return a
        mask = self.pick(masks)
        if mask.aval.shape == a.aval.shape and self.draw(st.booleans()):
            a = self.t(p.select, mask, a, self.partner(a))
        values: Atom = self.t.compress(mask, a)
        if self.draw(st.booleans()):
            values = self.t(self.pick(UNARY[a.aval.dtype.kind][:2]), values)
        bases = [b for b in self.pool if b.aval == Aval(a.aval.shape, values.aval.dtype)]
        return self.t(p.expand, mask, values, self.pick(bases)) if bases else a

    def reduce(self, a: Atom) -> Atom:
        op = self.pick(REDUCERS[a.aval.dtype.kind])
        axes = self.axes(a)
        if a.aval.dtype.kind == "f" and op != "min":
            axes = axes[:1]
        made = self.t(p.reduce, a, op=op, axes=axes)
        return self.unsigned(made) if op == "min" else made

    def axes(self, a: Atom) -> tuple[int, ...]:
        return tuple(k for k in range(a.aval.ndim) if self.draw(st.booleans()))

    def argreduce(self, a: Atom) -> Atom:
        return self.t(p.argreduce, a, op="argmax", axes=self.axes(a))

    def cumulate(self, a: Atom) -> Atom:
        if not a.aval.ndim or a.aval.dtype.kind == "b":
            return a
        axis = self.draw(st.integers(0, a.aval.ndim - 1))
        return self.t(p.cumulate, a, op="sum", axis=axis)

    def barrier(self, a: Atom) -> Atom:
        return self.t(p.barrier, a)

    def step(self) -> None:
        a = self.pool[-1] if self.draw(st.booleans()) else self.pick(self.pool)
        name = self.pick(MOVES)
        made = getattr(self, name)(a)
        if made.aval.bound <= 36:
            self.pool.append(made)


MOVES = (
    *("unary", "binary", "binary", "binary", "select", "convert", "broadcast", "broadcast"),
    *("transpose", "reshape", "slice", "slice", "pad", "concatenate", "update", "columns"),
    *("window", "twice", "twice", "twice", "masked", "reduce", "argreduce", "cumulate", "barrier"),
)


@st.composite
def random_programs(draw: Any) -> tuple[Program, list[Any]]:
    """A program and arguments for it."""
    random = _Random(draw)
    for dtype in (BOOL, I32, F32, F64):
        random.pool.append(random.t.input(dtype, *random.pick(SHAPES)))
    arrays = [random.array(a.aval) for a in random.pool]
    for _ in range(draw(st.integers(2, 16))):
        random.step()
    outputs = draw(st.lists(st.sampled_from(random.pool), min_size=1, max_size=3))
    return random.t.trace.program((*outputs, random.pool[-1])), arrays
