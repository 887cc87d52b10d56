"""The grammar of random programs, a kind of statement a function.

Each takes the writer, chooses operands and an operation, and says whether it added a statement.
Invariant: every operation is one that fjit means to handle on dtypes from bool to float64, and
NumPy runs nearly every statement that is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fjit.oracle.writer import Writer

Statement = Callable[[Writer], bool]
Array = Any  # NumPy arrays and scalars
SQUARE: Final = 60  # largest extent for results of its square

ARITHMETIC: Final = ("{a} + {b}", "{a} * {b}", "{a} - {b}", "np.maximum({a}, {b})",
                     "np.minimum({a}, {b})", "{a} // {b}", "{a} % {b}", "{a} / {b}")  # fmt: skip
COMPARE: Final = ("{a} < {b}", "{a} >= {b}", "{a} == {b}", "{a} != {b}")
BITS: Final = ("{a} & {b}", "{a} | {b}", "{a} ^ {b}")
FLOATS: Final = ("np.arctan2({a}, {b})", "np.hypot({a}, {b})", "np.copysign({a}, {b})",
                 "np.fmod({a}, {b})", "np.fmax({a}, {b})", "np.logaddexp({a}, {b})")  # fmt: skip
BINARY: Final[dict[str, tuple[str, ...]]] = {
    "f": (*ARITHMETIC, *COMPARE, *FLOATS),
    "i": (*ARITHMETIC, *COMPARE, *BITS, "{a} << ({b} & 7)", "{a} >> ({b} & 7)"),
    "u": (*ARITHMETIC, *COMPARE, *BITS, "{a} << ({b} & 7)", "{a} >> ({b} & 7)"),
    "b": (*BITS, "{a} + {b}", "{a} * {b}", "{a} == {b}", "{a} > {b}", "np.logical_and({a}, {b})"),
}

ANY: Final = ("np.abs({a})", "np.square({a})", "np.logical_not({a})", "{a} ** 2")
ROUND: Final = ("-{a}", "np.sign({a})", "np.floor({a})", "np.ceil({a})", "np.trunc({a})",
                "np.rint({a})")  # fmt: skip
ELEMENTARY: Final = ("np.exp(-np.abs({a}))", "np.tanh({a})", "np.sin({a})", "np.sqrt(np.abs({a}))",
                     "np.log1p(np.abs({a}))", "np.cos({a})", "np.arctan({a})",
                     "np.expm1(np.minimum({a}, 5))", "np.log({a})", "np.cbrt({a})",
                     "np.exp2(np.clip({a}, -8, 8))", "np.sqrt({a})")  # fmt: skip
UNARY: Final[dict[str, tuple[str, ...]]] = {
    "f": (*ANY, *ROUND, *ELEMENTARY, "np.isnan({a})", "np.isfinite({a})", "np.signbit({a})",
          "{a} ** 3", "{a} ** 0.5"),
    "i": (*ANY, "-{a}", "np.sign({a})", "~{a}", "{a} ** 3"),
    "u": (*ANY, "~{a}", "{a} ** 3"),
    "b": ("~{a}", "np.logical_not({a})"),
}  # fmt: skip
CASTS: Final = ("np.float32", "np.int32", "np.float64", "np.int64", "np.uint8", "bool", "np.int8",
                "np.uint32")  # fmt: skip
SLICES: Final = ("1:", "::-1", ":-1", "::2", "-2:", "1:-1", "::-2", ":0")
AXIS_CALLS: Final = ("np.flip({a}, {k})", "np.roll({a}, 2, {k})", "np.roll({a}, -1, {k})",
                     "np.repeat({a}, 2, axis={k})", "np.expand_dims({a}, {k})",
                     "np.moveaxis({a}, {k}, 0)", "np.diff({a}, axis={k})",
                     "np.concatenate([{a}, {a}], axis={k})",
                     "np.split({a}, [1], {k})[1]")  # fmt: skip
VIEW_CALLS: Final = ("{a}.T", "{a}.ravel()", "{a}.reshape(-1)", "{a}[None]", "{a}[..., None]",
                     "np.pad({a}, 1)", "np.pad({a}, 2, mode='edge')", "{a}.copy()",
                     "{a}.reshape({half}, -1)", "np.tile({a}, 2)", "np.squeeze({a})",
                     "np.atleast_2d({a})")  # fmt: skip
PLAIN: Final = ("sum", "mean", "any", "all", "prod", "var", "count_nonzero")
PICKING: Final = ("max", "min", "argmax", "argmin", "ptp")


def _kind(value: Array) -> str:
    kind: str = value.dtype.kind
    return kind


def _wider(a: str, b: str) -> str:
    return max(a, b, key="buif".index)


def _is_float(value: Array) -> bool:
    return _kind(value) == "f"


def _has_axis(value: Array) -> bool:
    return bool(value.ndim > 0)


def _axis(w: Writer, value: Array) -> int:
    ndim: int = value.ndim
    return w.choose.integer(0, ndim - 1) - w.choose.pick((0, ndim))


def binary(w: Writer) -> bool:
    """Arithmetic, comparison or a bit operation of two operands."""
    a = w.array()
    if a is None:
        return False
    value = w.values[a]
    kind, other = _kind(value), None
    if not w.choose.chance(3):
        other = w.partner(value.shape)
    if other is None:
        other = w.number(value.dtype)
    else:
        kind = _wider(kind, _kind(w.values[other]))
    form = w.choose.pick(BINARY[kind])
    if w.choose.chance(4):
        a, other = other, a
    return w.let(form.format(a=a, b=other)) is not None


def unary(w: Writer) -> bool:
    """A function of one operand."""
    a = w.array()
    if a is None:
        return False
    return w.let(w.choose.pick(UNARY[_kind(w.values[a])]).format(a=a)) is not None


def elementary(w: Writer) -> bool:
    """An elementary function of a floating operand."""
    a = w.array(_is_float)
    return a is not None and w.let(w.choose.pick(ELEMENTARY).format(a=a)) is not None


def cast(w: Writer) -> bool:
    """A change of dtype."""
    a = w.array()
    return a is not None and w.let(f"{a}.astype({w.choose.pick(CASTS)})") is not None


def select(w: Writer) -> bool:
    """A choice per element."""
    a = w.array()
    if a is None:
        return False
    value = w.values[a]
    low, high = w.number(value.dtype), w.number(value.dtype)
    other = w.partner(value.shape) or low
    forms = (
        f"np.where({a} > {low}, {a}, {other})",
        f"np.clip({a}, {low}, {high})",
        f"np.where({other}, {a}, {high})",
        f"np.select([{a} > 2, {a} == {other}], [{a}, {other}], {low})",
    )
    return w.let(w.choose.pick(forms)) is not None


def _index(w: Writer, value: Array) -> str:
    parts = []
    for extent in value.shape[: w.choose.integer(1, value.ndim)]:
        choices = (*SLICES, ":", *(("0", "-1") if extent else ()))
        parts.append(w.choose.pick(choices))
    return ", ".join(parts)


def view(w: Writer) -> bool:
    """A slice, or another rearrangement."""
    a = w.array(_has_axis)
    if a is None:
        return False
    value = w.values[a]
    form = w.choose.pick(("slice", "axis", "call", "broadcast", "transpose"))
    if form == "slice":
        return w.let(f"{a}[{_index(w, value)}]") is not None
    if form == "axis":
        return w.let(w.choose.pick(AXIS_CALLS).format(a=a, k=_axis(w, value))) is not None
    if form == "broadcast":
        return w.let(f"np.broadcast_to({a}, {(2, *value.shape)})") is not None
    if form == "transpose" and value.ndim > 1:
        turn = w.choose.integer(1, value.ndim - 1)
        order = (*range(turn, value.ndim), *range(turn))
        return w.let(f"{a}.transpose({', '.join(map(str, order))})") is not None
    half = value.shape[0] // 2 if value.shape[0] % 2 == 0 and value.size else 1
    return w.let(w.choose.pick(VIEW_CALLS).format(a=a, half=half)) is not None


def join(w: Writer) -> bool:
    """Arrays put side by side."""
    a = w.array(_has_axis)
    if a is None:
        return False
    value = w.values[a]
    b = w.array(lambda v: v.shape == value.shape) or a
    c = w.array(lambda v: v.shape == value.shape) or a
    axis = _axis(w, value)
    forms = (
        f"np.concatenate([{a}, {b}], axis={axis})",
        f"np.stack([{a}, {b}, {c}], axis={axis})",
        f"np.concatenate([{a}, {b} * 2, {c}], axis={axis})",
        f"np.hstack([{a}, {b}])",
        f"np.outer({a}, {b})" if value.size**2 <= w.limit else f"np.vstack([{a}, {b}])",
    )
    return w.let(w.choose.pick(forms)) is not None


def reduction(w: Writer) -> bool:
    """A reduction over one axis, two axes or all."""
    a = w.array()
    if a is None:
        return False
    value = w.values[a]
    options: list[Any] = [None, *range(value.ndim), *([-1, (0, -1)] if value.ndim > 1 else [])]
    axis = w.choose.pick(options)
    name = w.choose.pick((*PLAIN, *(PICKING if value.size else ())))
    if name.startswith("arg") and isinstance(axis, tuple):
        axis = axis[-1]
    if _kind(value) == "b" and name == "ptp":
        name = "max"
    keep = ", keepdims=True" if w.choose.chance(3) else ""
    return w.let(f"np.{name}({a}, axis={axis}{keep})") is not None


def cumulative(w: Writer) -> bool:
    """A running sum or product."""
    a = w.array(_has_axis)
    if a is None:
        return False
    name = w.choose.pick(("cumsum", "cumsum", "cumprod"))
    return w.let(f"np.{name}({a}, axis={_axis(w, w.values[a])})") is not None


def row_chain(w: Writer) -> bool:
    """Reduce, broadcast, reduce again: softmax, layer normalisation and their like."""
    a = w.array(lambda v: _is_float(v) and v.ndim > 0 and v.size > 0)
    if a is None:
        return False
    axis = _axis(w, w.values[a])
    over = f"axis={axis}, keepdims=True"
    forms = (
        f"np.exp({a} - {a}.max({over}))",
        f"({a} - {a}.mean({over})) / np.sqrt({a}.var({over}) + 1e-5)",
        f"{a} / np.sqrt(np.sum({a} * {a}, {over}))",
        f"{a} - {a}.min({over})",
    )
    first = w.let(w.choose.pick(forms))
    return first is not None and w.let(f"{first} / {first}.sum({over})") is not None


def take(w: Writer) -> bool:
    """Elements by position: lists of integers, and positions computed from another array."""
    a = w.array(lambda v: v.ndim > 0 and v.size > 0)
    if a is None:
        return False
    value = w.values[a]
    axis = _axis(w, value)
    extent = value.shape[axis]
    where = w.array(lambda v: _kind(v) in "iu" and v.size <= 64)
    spots = [0, extent - 1, extent // 2, -1]
    forms = [
        f"np.take({a}, {spots}, axis={axis})",
        f"{a}[{spots[:2]}]" if axis in (0, -value.ndim) else f"np.take({a}, [0], axis={axis})",
        f"np.take({a}, np.arange({extent})[::-1], axis={axis})",
        f"{a}[np.arange({value.shape[0]}) // 2]",
    ]
    if where is not None:
        forms.append(f"np.take({a}, ({where} % {extent}).astype(np.int64), axis={axis})")
    return w.let(w.choose.pick(forms)) is not None


def masked(w: Writer) -> bool:
    """Elements or parts where a mask holds, work on them, and what they add up to or replace."""
    a = w.array(lambda v: isinstance(v, np.ndarray) and v.ndim > 0)
    if a is None:
        return False
    mask = _mask(w, a)
    if mask is None:
        return False
    key = (mask, w.epoch)
    part = w.let(f"{a}[{mask}]", key)
    if part is None:
        return False
    for _ in range(w.choose.integer(0, 2)):
        part = _filtered(w, part, key) or part
    if w.choose.chance(3):
        return True
    if w.choose.chance(4) and w.values[a].flags.writeable:
        return w.change(f"{a}[{mask}] = {part}")
    forms = ("np.sum({a}{k})", "np.any({a}{k})", "np.mean({a}{k})", "np.max({a}{k}, initial=1)",
             "np.count_nonzero({a}{k})", "np.prod({a}{k})")  # fmt: skip
    axis = w.choose.pick(("", *(f", axis={k}" for k in range(w.values[part].ndim))))
    left = key if axis not in ("", ", axis=0") else None  # as long as the mask selects
    return w.let(w.choose.pick(forms).format(a=part, k=axis), left) is not None


def _mask(w: Writer, a: str) -> str | None:
    """A mask over all axes of an array, or over some leading ones."""
    value = w.values[a]
    number = w.number(value.dtype)
    axes = value.ndim if w.choose.chance(2) else w.choose.integer(1, value.ndim)
    shape = value.shape[:axes]
    mask = w.array(lambda v: _kind(v) == "b" and v.shape == shape)
    if mask is not None and not w.choose.chance(2):
        return mask
    if axes == value.ndim:
        return w.let(f"{a} > {number}")
    rest = f"axis={tuple(range(axes, value.ndim))}"
    first = f"{a}[{', '.join([':'] * axes + ['0'] * (value.ndim - axes))}]"
    forms = (
        f"{first} > {number}",
        f"np.any({a} > {number}, {rest})",
        f"np.arange({value.shape[0]}) % 3 > 0" if axes == 1 else f"{first} == {first}",
        f"np.max({a}, {rest}) > {number}",
    )
    return w.let(w.choose.pick(forms))


def _filtered(w: Writer, part: str, key: tuple[str, int]) -> str | None:
    """One more operation on elements selected by a mask."""
    value = w.values[part]
    same = [n for n, mask in w.dynamic.items() if mask == key]
    along = w.choose.integer(0, value.ndim - 1)
    forms = [
        f"{part} * {w.number(value.dtype)}",
        f"{part} + {w.choose.pick(same)}",
        w.choose.pick(UNARY[_kind(value)]).format(a=part),
        f"{part}.astype({w.choose.pick(CASTS)})",
        f"np.where({part} > {w.number(value.dtype)}, {part}, {w.number(value.dtype)})",
        f"np.cumsum({part}, axis={along})",
    ]
    return w.let(w.choose.pick(forms), key)


def create(w: Writer) -> bool:
    """A new array, filled from others where their shapes allow."""
    a = w.array(_has_axis)
    if a is None:
        return False
    value = w.values[a]
    dtype = w.choose.pick(CASTS)
    forms = (
        f"np.zeros({value.shape}, {dtype})",
        f"np.full({value.shape}, 3, {dtype})",
        f"np.ones_like({a})",
        f"np.arange({value.shape[-1]})",
        f"np.linspace(0, 1, {value.shape[0]})",
        f"np.eye({value.shape[-1]})" if value.shape[-1] <= SQUARE else "np.eye(3, 5)",
    )
    made = w.let(w.choose.pick(forms))
    if made is None:
        return False
    other = w.fitting(w.values[made].shape)
    return other is None or _assigned(w, made, other)


def _assigned(w: Writer, target: str, other: str) -> bool:
    text = w.choose.pick((f"{target}[...] = {other}", f"{target}[1:] = {other}[1:]"))
    return w.change(text) or True


def in_place(w: Writer) -> bool:
    """A change of an array: whole, a slice, masked, by position, or through `out=`."""
    a = w.array(lambda v: isinstance(v, np.ndarray) and v.flags.writeable)
    if a is None:
        return False
    value = w.values[a]
    number = w.number(value.dtype)
    if not value.ndim or not value.size:
        return w.change(f"{a}[...] = {number}")
    other = w.fitting(value.shape) or number
    index = _index(w, value)
    op = w.choose.pick(("+", "*", "-")) if _kind(value) != "b" else w.choose.pick(("|", "&", "^"))
    forms = (
        f"{a} {op}= {number}",
        f"{a}[{index}] {op}= {number}",
        f"{a}[{index}] = {number}",
        f"{a} {op}= {other}",
        f"{a}[1:] {op}= {a}[:-1]",
        f"{a}[:] = {a}[::-1]",
        f"{a}[{a} > {number}] = {number}",
        f"{a}[{a} == {other}] {op}= {number}",
        f"{a}[np.arange({value.shape[0]}) % 2 == 0] {op}= {number}",
        f"{a}[[0, -1]] = {number}",
        f"np.maximum({a}, {other}, out={a})",
        f"{a}[...] = {other}",
    )
    return w.change(w.choose.pick(forms))


def loop(w: Writer) -> bool:
    """A Python loop, unrolled by the trace."""
    a = w.array(lambda v: _is_float(v) and v.ndim > 0 and v.shape[0] > 0)
    if a is None:
        return False
    first = w.let(f"{a} * 2")
    if first is None:
        return False
    forms = (
        f"for k in range(3):\n    {first} = {first} * 0.5 + k",
        f"for k in range({min(w.values[a].shape[0], 4)}):\n    {first} = {first} + {a}[k]",
    )
    return w.change(w.choose.pick(forms))


def library(w: Writer) -> bool:
    """A sort."""
    a = w.array(_has_axis)
    return a is not None and w.let(f"np.sort({a}, axis={_axis(w, w.values[a])})") is not None


def product(w: Writer) -> bool:
    """A matrix product with itself, transposed, stacked, or between other operations."""
    a = w.array(lambda v: v.ndim == 2 and max(v.shape) <= SQUARE)
    if a is None:
        b = w.array(lambda v: v.ndim == 1)
        return b is not None and w.let(f"np.dot({b}, {b})") is not None
    number = w.number(w.values[a].dtype)
    forms = (
        f"{a} @ {a}.T",
        f"{a}.T @ {a}",
        f"{a} @ {a}[0]",
        f"({a} * {number}) @ {a}.T + {number}",
        f"np.maximum({a}.T @ {a}, {number})",
        f"{a}[:, ::-1] @ {a}[::2].T",
        f"np.stack([{a}, {a} * {number}]) @ {a}.T",
        f"np.einsum('ij,kj->ki', {a}, {a})",
        f"({a} @ {a}.T) @ {a}",
    )
    return w.let(w.choose.pick(forms)) is not None


STATEMENTS: Final[tuple[Statement, ...]] = (
    binary, unary, reduction, view, elementary, in_place, select, masked, binary, cast, take, join,
    row_chain, create, cumulative, view, reduction, in_place, unary, loop, binary, elementary,
    library, masked, product,
)  # fmt: skip
"""Kinds of statements, repeated by weight, simple ones first."""
