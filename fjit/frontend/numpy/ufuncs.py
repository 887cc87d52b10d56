"""NumPy's ufuncs on traced operands: promotion, broadcasting, `out=`, `where=`, `dtype=`.

Takes whatever a ufunc is called with, gives traced results of NumPy's dtype, shape and K-order. The
loop is found by NumPy itself (`ufunc.resolve_dtypes`) and remembered per ufunc and operand dtypes;
`ufunc_table` says what is recorded for it. Invariant: an operand is converted before, and a result
after, the recorded operations, exactly where NumPy's casting machinery would.

    np.add(i, f, out=o)      records      c = convert[dtype=float64] a; d = add c b
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Literal, Shape
from fjit.core.trace import where as user_line
from fjit.errors import FjitTypeError
from fjit.frontend import operands as ops
from fjit.frontend.layout import c_strides, ordered_strides
from fjit.frontend.numpy.ufunc_table import TABLE, U64, Promotion, Row
from fjit.frontend.operands import Operand
from fjit.frontend.session import current
from fjit.frontend.tracer import UFUNCS, Tracer, fresh

DType = np.dtype[Any]


@lru_cache(maxsize=4096)
def loop_dtypes(
    ufunc: np.ufunc,
    given: tuple[Any, ...],
    casting: str = "same_kind",
    signature: tuple[Any, ...] | None = None,
) -> tuple[DType, ...]:
    """The dtypes of the loop NumPy picks for operands and results `given`.

    An entry is a dtype, `int` or `float` for a Python number, or None for a result that is not
    given. Raises what NumPy raises.
    """
    keywords: dict[str, Any] = {"casting": casting}
    if signature is not None:
        keywords["signature"] = signature
    found = ufunc.resolve_dtypes(given, **keywords)
    return tuple(dtypes.canonical(dtype, f"a result of {ufunc.__name__}") for dtype in found)


def _key(operand: Operand) -> Any:
    weak = operand.weak
    return operand.atom.aval.dtype if weak is None or weak is bool else weak


class Ufunc:
    """A ufunc of NumPy as a function of traced operands; called as the ufunc is."""

    __slots__ = ("build", "n_in", "n_out", "name", "promotion", "ufunc")

    def __init__(self, name: str, row: Row) -> None:
        self.name = name
        self.ufunc: np.ufunc = getattr(np, name)
        self.build = row.build
        self.promotion = row.promotion
        self.n_in = self.ufunc.nin
        self.n_out = self.ufunc.nout

    def __call__(self, *values: Any, **keywords: Any) -> Any:
        """The traced result, a tuple of two for divmod and modf."""
        if keywords or len(values) != self.n_in:
            return self._general(values, **keywords)
        operands = [ops.lift(v) for v in values]
        atoms = self.atoms(operands)
        shape = _shape(operands)
        if self.n_out == 1:
            return ops.finish(self._record(atoms, shape)[0], operands)
        return tuple(ops.finish(atom, operands) for atom in self._record(atoms, shape))

    def _general(
        self,
        values: tuple[Any, ...],
        out: Any = None,
        where: Any = True,
        dtype: Any = None,
        casting: str = "same_kind",
        order: str = "K",
        subok: bool = True,
        signature: Any = None,
        sig: Any = None,
    ) -> Any:
        outs = self._outs(values[self.n_in :], out)
        operands = [ops.lift(v) for v in values[: self.n_in]]
        wanted = signature if signature is not None else sig
        wanted = _signature(self.n_in, self.n_out, wanted, dtype)
        atoms = self.atoms(operands, outs, casting, wanted)
        mask = None if where is True else _mask(where)
        shape = _shape(operands if mask is None else [*operands, mask])
        results = self._record(atoms, shape)
        if mask is not None:
            results = [_masked(mask.atom, r, o, shape) for r, o in zip(results, outs, strict=True)]
        laid = [_place(r, o, operands, order) for r, o in zip(results, outs, strict=True)]
        return laid[0] if self.n_out == 1 else tuple(laid)

    def _outs(self, positional: tuple[Any, ...], out: Any) -> list[Tracer | None]:
        if len(positional) > self.n_out:
            raise FjitTypeError(
                f"{self.name}() takes {self.n_in} to {self.n_in + self.n_out} operands, "
                f"{self.n_in + len(positional)} given at {user_line()}"
            )
        given = out if isinstance(out, tuple) else (out,)
        given = positional or given
        outs = [*given, *[None] * (self.n_out - len(given))]
        for one in outs:
            if one is not None and not isinstance(one, Tracer):
                ops.store(None, one)  # refuses, saying why
        return outs

    def atoms(
        self,
        operands: list[Operand],
        outs: list[Tracer | None] | None = None,
        casting: str = "same_kind",
        signature: tuple[Any, ...] | None = None,
    ) -> list[Atom]:
        """The operands in the dtypes of NumPy's loop."""
        if self.promotion is Promotion.TRUTH:
            return [ops.convert(o.atom, dtypes.BOOL) for o in operands]
        given = [_key(o) for o in operands]
        if self.promotion is Promotion.COMPARE and int in given:
            exact = _exact_comparison(operands)
            if exact is not None:
                return exact
            given = [_key(o) for o in operands]
        results = [None if o is None else o.dtype for o in outs or [None] * self.n_out]
        try:
            loop = loop_dtypes(self.ufunc, (*given, *results), casting, signature)
        except TypeError as error:
            raise FjitTypeError(f"{error} (at {user_line()})") from None
        return [ops.cast(o, d) for o, d in zip(operands, loop, strict=False)]

    def _record(self, atoms: list[Atom], shape: Shape) -> list[Atom]:
        built = self.build(current().trace, *ops.align(atoms, shape))
        results = list(built) if isinstance(built, tuple) else [built]
        return [ops.broadcast_to(r, shape) for r in results]


def _shape(operands: list[Operand]) -> Shape:
    if len(operands) == 1:
        return operands[0].shape
    return ops.broadcast_shapes(*[o.shape for o in operands])


def _signature(n_in: int, n_out: int, signature: Any, dtype: Any) -> tuple[Any, ...] | None:
    """The `signature` argument of resolve_dtypes for the keywords `signature` and `dtype`."""
    if dtype is not None:
        return (None,) * n_in + (np.dtype(dtype),) * n_out
    if signature is None:
        return None
    if isinstance(signature, str):
        signature = tuple(signature.replace("->", ""))
    return tuple(None if one is None else np.dtype(one) for one in signature)


def _mask(where: Any) -> Operand:
    mask = ops.lift(where)
    if mask.dtype != dtypes.BOOL:
        raise FjitTypeError(
            f"Cannot cast array data from {mask.dtype!r} to dtype('bool') according to the rule "
            f"'safe' (where= at {user_line()})"
        )
    return mask


def _masked(mask: Atom, value: Atom, out: Tracer | None, shape: Shape) -> Atom:
    """`value` where the mask holds, else what `out` has; without `out` NumPy leaves garbage: 0."""
    trace = current().trace
    if out is None:
        rest: Atom = trace.literal(0, value.aval.dtype)
    else:
        if out.static_shape != shape:
            shape = ops.broadcast_shapes(out.static_shape, shape)
        value, rest = ops.convert(value, out.dtype), out.atom
    operands = ops.align([mask, value, rest], shape)
    return ops.broadcast_to(trace.emit(p.select, *operands), shape)


def _place(atom: Atom, out: Tracer | None, operands: list[Operand], order: str) -> Tracer:
    if out is not None:
        stored: Tracer = ops.store(fresh(atom), out, "unsafe")  # casting was checked with the loop
        return stored
    shape = atom.aval.shape
    if order == "C":
        return fresh(atom, c_strides(shape))
    if order == "F":
        return fresh(atom, ordered_strides(shape, tuple(reversed(range(len(shape))))))
    return ops.finish(atom, operands)


def _exact_comparison(operands: list[Operand]) -> list[Atom] | None:
    """Operands for the comparison of an integer array with a Python int of any size.

    A known int outside the array's dtype decides the comparison: two literals of the same order
    take its place. A traced int is an int64 that is compared by value (changes `operands`).
    Gives None where the usual promotion does.
    """
    left, right = operands
    if left.weak is not None and right.weak is not None:
        return None
    at, weak, other = (0, left, right) if left.weak is int else (1, right, left)
    if other.dtype.kind not in "biu":
        return None
    value: Any = weak.value
    if value is None and isinstance(weak.atom, Literal):
        value = weak.atom.value
    if value is None:
        operands[at] = weak._replace(weak=None)
        return None
    info = np.iinfo(dtypes.I64 if other.dtype == dtypes.BOOL else other.dtype)
    if info.min <= value <= info.max:
        return None
    trace = current().trace
    pair: list[Atom] = [trace.literal(0, U64), trace.literal(1, U64)]
    return pair if (value > 0) == (at == 1) else pair[::-1]


def call(name: str, *values: Any, **keywords: Any) -> Any:
    """The ufunc `name` of traced values, for compositions in other files."""
    return UFUNCS[name](*values, **keywords)


UFUNCS.update({name: Ufunc(name, row) for name, row in TABLE.items()})
