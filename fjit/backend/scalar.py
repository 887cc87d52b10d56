"""Every elementwise primitive as LLVM instructions, a row a line.

Takes the name of a primitive, the dtypes of its operands and their register values (one lane, or
the same number of lanes), gives the value of the result. Invariant: values are NumPy's bit for bit
(transcendental functions to their stated bound), vector and scalar alike; nothing traps and nothing
is poison.

    emit(em, "maximum" of f32, a, b)   ->   fcmp ogt ; select ; fcmp uno ; select

A column holds what the primitive is for bool, for integers (told the dtype, for its sign), and for
floats. `wide` marks float operations that float16 does in float32, rounding the result once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fjit.backend import casts, floats, integers, libdevice
from fjit.backend.casts import memory_type as memory_type
from fjit.backend.casts import register_type as register_type
from fjit.backend.emitter import Emitter, Val
from fjit.backend.math.table import APPROXIMATE, FINITE, MATH
from fjit.errors import InternalError

Emit = Callable[..., Val]  # (em, dtype, *values) -> value
TABLE_FILE = "backend/scalar.ROWS"


@dataclass(frozen=True, slots=True)
class Row:
    """How one primitive is emitted for bool, integers and floats; None where it is refused."""

    bools: Emit | None
    ints: Emit | None
    floats: Emit | None


def _plain(method: Callable[..., Val]) -> Emit:
    """An operation of the emitter that needs no dtype."""
    return lambda em, dtype, *vals: method(em, *vals)


def _compare(pred: str) -> Emit:
    """An integer comparison; `pred` without its sign: eq, ne, lt, ..."""

    def emit_compare(em: Emitter, dtype: np.dtype, a: Val, b: Val) -> Val:
        signed = pred if pred in ("eq", "ne") else integers.prefixed(dtype, pred)
        return em.icmp(signed, a, b)

    return emit_compare


def _wide_compare(pred: str) -> Emit:
    return lambda em, dtype, a, b: em.fcmp(pred, casts.widen(em, a), casts.widen(em, b))


def _wide(function: Callable[..., Val]) -> Emit:
    """float16 operands are computed in float32 and the result is rounded once."""

    def emit_wide(em: Emitter, dtype: np.dtype, *vals: Val) -> Val:
        if dtype.itemsize > 2:
            return function(em, *vals)
        return casts.round_half(em, function(em, *[casts.extend_half(em, v) for v in vals]))

    return emit_wide


def _math(name: str) -> Emit:
    return _wide(MATH[name])


def _itself(em: Emitter, dtype: np.dtype, value: Val) -> Val:
    return value


E = Emitter
_p, _w, _m, _c, _wc = _plain, _wide, _math, _compare, _wide_compare
_i, _f = integers, floats
_and, _or, _xor, _not = _p(E.and_), _p(E.or_), _p(E.xor), _p(E.not_)

# fmt: off
ROWS: dict[str, Row] = {
    # name            bool          integers        floats
    "copy":       Row(_itself,      _itself,        _itself),
    "neg":        Row(None,         _i.neg,         _p(_f.neg)),
    "abs":        Row(None,         _i.absolute,    _p(_f.absolute)),
    "sign":       Row(None,         _i.sign,        _p(_f.sign)),
    "not":        Row(_not,         _not,           None),
    "reciprocal": Row(None,         _i.reciprocal,  None),
    "sqrt":       Row(None,         None,           _w(E.sqrt)),
    "floor":      Row(None,         None,           _w(E.floor)),
    "ceil":       Row(None,         None,           _w(E.ceil)),
    "trunc":      Row(None,         None,           _w(E.trunc)),
    "rint":       Row(None,         None,           _w(E.rint)),
    "isnan":      Row(None,         None,           _p(_f.isnan)),
    "isinf":      Row(None,         None,           _p(_f.isinf)),
    "isfinite":   Row(None,         None,           _p(_f.isfinite)),
    "signbit":    Row(None,         None,           _p(_f.signbit)),
    "exp":        Row(None,         None,           _m("exp")),
    "exp2":       Row(None,         None,           _m("exp2")),
    "expm1":      Row(None,         None,           _m("expm1")),
    "log":        Row(None,         None,           _m("log")),
    "log2":       Row(None,         None,           _m("log2")),
    "log10":      Row(None,         None,           _m("log10")),
    "log1p":      Row(None,         None,           _m("log1p")),
    "sin":        Row(None,         None,           _m("sin")),
    "cos":        Row(None,         None,           _m("cos")),
    "tan":        Row(None,         None,           _m("tan")),
    "asin":       Row(None,         None,           _m("asin")),
    "acos":       Row(None,         None,           _m("acos")),
    "atan":       Row(None,         None,           _m("atan")),
    "sinh":       Row(None,         None,           _m("sinh")),
    "cosh":       Row(None,         None,           _m("cosh")),
    "tanh":       Row(None,         None,           _m("tanh")),
    "asinh":      Row(None,         None,           _m("asinh")),
    "acosh":      Row(None,         None,           _m("acosh")),
    "atanh":      Row(None,         None,           _m("atanh")),
    "cbrt":       Row(None,         None,           _m("cbrt")),
    "erf":        Row(None,         None,           _m("erf")),
    "erfc":       Row(None,         None,           _m("erfc")),
    "gammaln":    Row(None,         None,           _m("gammaln")),
    "digamma":    Row(None,         None,           _m("digamma")),
    "add":        Row(_or,          _p(E.add),      _w(E.fadd)),
    "sub":        Row(None,         _p(E.sub),      _w(E.fsub)),
    "mul":        Row(_and,         _p(E.mul),      _w(E.fmul)),
    "div":        Row(None,         None,           _w(E.fdiv)),
    "floordiv":   Row(None,         _i.floordiv,    _w(_f.floordiv)),
    "mod":        Row(None,         _i.mod,         _w(_f.mod)),
    "fmod":       Row(None,         _i.fmod,        _w(_f.fmod)),
    "pow":        Row(None,         _i.power,       _m("pow")),
    "max":        Row(_or,          _i.maximum,     _p(_f.maximum)),
    "min":        Row(_and,         _i.minimum,     _p(_f.minimum)),
    "fmax":       Row(None,         None,           _p(_f.fmax)),
    "fmin":       Row(None,         None,           _p(_f.fmin)),
    "eq":         Row(_c("eq"),     _c("eq"),       _wc("oeq")),
    "ne":         Row(_c("ne"),     _c("ne"),       _wc("une")),
    "lt":         Row(_c("lt"),     _c("lt"),       _wc("olt")),
    "le":         Row(_c("le"),     _c("le"),       _wc("ole")),
    "gt":         Row(_c("gt"),     _c("gt"),       _wc("ogt")),
    "ge":         Row(_c("ge"),     _c("ge"),       _wc("oge")),
    "and":        Row(_and,         _and,           None),
    "or":         Row(_or,          _or,            None),
    "xor":        Row(_xor,         _xor,           None),
    "shl":        Row(None,         _i.shl,         None),
    "shr":        Row(None,         _i.shr,         None),
    "atan2":      Row(None,         None,           _m("atan2")),
    "hypot":      Row(None,         None,           _m("hypot")),
    "copysign":   Row(None,         None,           _p(_f.copysign)),
    "nextafter":  Row(None,         None,           _p(_f.nextafter)),
    "logaddexp":  Row(None,         None,           _m("logaddexp")),
    "logaddexp2": Row(None,         None,           _m("logaddexp2")),
    "fma":        Row(None,         None,           _w(E.fma)),
    "select":     Row(_p(E.select), _p(E.select),   _p(E.select)),
}

# What a fastmath flag makes of a float operation; what has no row here is as it is without.
FORMS: dict[tuple[str, str], Emit] = {
    # name      flag
    ("max",     "nnan"): _p(_f.larger),
    ("min",     "nnan"): _p(_f.smaller),
    ("fmax",    "nnan"): _p(_f.larger),
    ("fmin",    "nnan"): _p(_f.smaller),
    **{(name, "ninf"): _w(function) for name, function in FINITE.items()},
    **{(name, "approx"): _w(function) for name, function in APPROXIMATE.items()},
}
# fmt: on


def emit(
    em: Emitter,
    op: str,
    dtypes: tuple[np.dtype, ...],
    args: tuple[Val, ...],
    result: np.dtype,
    fast: str = "",
) -> Val:
    """Append the instructions of elementwise primitive `op` and return its value.

    `dtypes` are those of the operands and `result` that of the value. Scalars beside vectors are
    splatted; all scalars give a scalar. A fastmath flag in `fast` picks the form it has in FORMS.
    A missing row is an InternalError.
    """
    lanes = max([arg.ty.lanes for arg in args])
    vals = [em.splat(arg, lanes) for arg in args] if lanes > 1 else list(args)
    if op == "convert":
        return casts.convert(em, dtypes[0], vals[0], result)
    return _function(em.gpu, op, dtypes[-1], fast)(em, dtypes[-1], *vals)


def _function(gpu: bool, op: str, dtype: np.dtype[Any], fast: str) -> Emit:
    if gpu and dtype.kind == "f":
        return _device_function(op, dtype, fast)
    return _own_function(op, dtype, fast)


def _device_function(op: str, dtype: np.dtype[Any], fast: str) -> Emit:
    """What a GPU runs: libdevice's function where it is the better one."""
    choose = libdevice.approximate if fast == "approx" else libdevice.exact
    name = choose(op, max(8 * dtype.itemsize, 32))
    if name is not None:
        return _wide(lambda em, *vals: em.call(name, vals[0].ty, *vals))
    longer = fast == "approx" and op not in libdevice.SHORTER_APPROXIMATE
    return _own_function(op, dtype, "" if longer else fast)


def _own_function(op: str, dtype: np.dtype[Any], fast: str) -> Emit:
    form = FORMS.get((op, fast)) if dtype.kind == "f" else None
    if form is not None:
        return form
    row = ROWS.get(op)
    if row is None:
        raise InternalError(f"{op}: no row in {TABLE_FILE}")
    column = {"b": row.bools, "f": row.floats}.get(dtype.kind, row.ints)
    if column is None or dtype.kind not in "biuf":
        raise InternalError(f"{op} of {dtype}: its row in {TABLE_FILE} has nothing for this kind")
    return column
