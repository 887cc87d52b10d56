"""Operands: whatever a NumPy call was given, lifted into the trace, promoted and broadcast.

Takes tracers, arrays, NumPy scalars, Python numbers and nested lists; gives atoms. Promotion is
NEP 50: Python numbers are weak, everything else keeps its dtype. Invariant: after `promote` and
`align` all operands of an elementwise primitive have one dtype, and one shape or rank 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Literal, Shape, Sym
from fjit.core.trace import where
from fjit.errors import FjitTypeError, broadcast_error, complex_error, dtype_error
from fjit.frontend.layout import Strides, result_strides
from fjit.frontend.session import Session, current
from fjit.frontend.tracer import FUNCTIONS, Tracer, from_atom

DType = np.dtype[Any]
DEFAULTS: dict[type, DType] = {bool: dtypes.BOOL, int: dtypes.I64, float: dtypes.F64}


class Operand(NamedTuple):
    """An atom, the Python number type it follows if weak, and its strides in elements.

    `value` is the Python number itself where it is known while tracing.
    """

    atom: Atom
    weak: type | None
    strides: Strides
    value: Any = None

    @property
    def dtype(self) -> DType:
        """The operand's own dtype (a weak operand's default dtype)."""
        return self.atom.aval.dtype

    @property
    def shape(self) -> Shape:
        """The operand's shape."""
        return self.atom.aval.shape


def lift(value: Any) -> Operand:
    """`value` as an operand of the current trace."""
    if isinstance(value, Tracer):
        return Operand(value.atom, value.weak, value.element_strides)
    session = current()
    kind = type(value)
    if kind in DEFAULTS:
        return Operand(_python_number(session, value), kind, (), value)
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise dtype_error("masked array", f"an operand at {where()}")
        buffer = session.capture(value)
        return Operand(buffer.value, None, buffer.strides)
    if isinstance(value, np.generic):
        dtype = dtypes.canonical(value.dtype, f"an operand at {where()}")
        return Operand(session.trace.literal(value, dtype), None, ())
    if isinstance(value, (list, tuple)):
        return lift(array_of(value))
    if isinstance(value, (bool, int, float)):
        return lift(next(k for k in (bool, int, float) if isinstance(value, k))(value))
    if isinstance(value, complex):
        raise complex_error(f"the number {value} at {where()}")
    if hasattr(kind, "__dlpack__") or hasattr(kind, "__cuda_array_interface__"):
        raise FjitTypeError(
            f"{kind.__name__} at {where()} is an array of another library, which the function "
            "reads from outside: pass it as an argument"
        )
    raise FjitTypeError(
        f"{kind.__name__} at {where()} is no array: traced operations take arrays, numbers and "
        "nested lists of them; name an argument that is none of these in static_argnames"
    )


def _python_number(session: Session, value: Any) -> Literal:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        if 0 <= value < 2**64:
            return session.trace.literal(value, np.dtype(np.uint64))
        return session.trace.literal(float(value), dtypes.F64)
    return session.trace.literal(value, DEFAULTS[type(value)])


def array_of(value: Any) -> Any:
    """np.asarray for nested lists that may hold traced values."""
    if isinstance(value, (Tracer, np.ndarray)):
        return value
    if isinstance(value, (list, tuple)) and holds_tracer(value):
        return FUNCTIONS[np.stack]([array_of(v) for v in value])
    return np.asarray(value)


def holds_tracer(value: Any) -> bool:
    """Whether a value or an element of nested lists is traced."""
    if isinstance(value, (list, tuple)):
        return any(holds_tracer(v) for v in value)
    return isinstance(value, Tracer)


def common_dtype(operands: list[Operand]) -> DType:
    """NEP 50's common dtype."""
    strong = [o.dtype for o in operands if o.weak is None]
    weak = [o.weak for o in operands if o.weak is not None]
    if not strong:
        return dtypes.unify(*[o.dtype for o in operands])
    dtype = dtypes.unify(*strong)
    for kind in weak:
        dtype = dtypes.unify_weak(dtype, kind)
    return dtype


def cast(operand: Operand, dtype: DType) -> Atom:
    """The operand's atom in `dtype`; a Python int out of range is an OverflowError as in NumPy."""
    atom = operand.atom
    if operand.weak is int and dtype.kind in "iu":
        _check_range(operand, dtype)
    if atom.aval.dtype == dtype:
        return atom
    trace = current().trace
    if isinstance(atom, Literal):
        value = atom.value if operand.value is None else operand.value
        return trace.literal(float(value) if dtype.kind == "f" else value, dtype)
    return trace.emit(p.convert, atom, dtype=dtype)


def _check_range(operand: Operand, dtype: DType) -> None:
    info = np.iinfo(dtype)
    if operand.value is not None:
        if not info.min <= operand.value <= info.max:
            raise OverflowError(f"Python integer {operand.value} out of bounds for {dtype}")
    elif dtype != dtypes.I64 and not isinstance(operand.atom, Literal):
        current().int_ranges[operand.atom] = (int(info.min), int(info.max))


def convert(atom: Atom, dtype: DType) -> Atom:
    """`atom` in `dtype`."""
    if atom.aval.dtype == dtype:
        return atom
    trace = current().trace
    if isinstance(atom, Literal):
        return trace.literal(atom.value, dtype)
    return trace.emit(p.convert, atom, dtype=dtype)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's broadcast shape; symbols must be the same symbol. Raises ShapeError."""
    first = shapes[0]
    if shapes.count(first) == len(shapes):
        return first
    ndim = max(map(len, shapes))
    out: list[Any] = [1] * ndim
    for shape in shapes:
        for k, extent in enumerate(shape, ndim - len(shape)):
            if out[k] == 1:
                out[k] = extent
            elif extent != 1 and extent != out[k]:
                raise _mismatch(shapes, extent, out[k])
    return tuple(out)


def _mismatch(shapes: tuple[Shape, ...], a: Any, b: Any) -> Exception:
    if isinstance(a, Sym) or isinstance(b, Sym):
        return broadcast_error(
            shapes,
            where() + " (the extents of different boolean masks are known only at run time; "
            "select with one mask, or use np.where)",
        )
    return broadcast_error(shapes, where())


def broadcast_to(atom: Atom, shape: Shape) -> Atom:
    """`atom` repeated to `shape` by NumPy's rules; the shape is already known to fit."""
    own = atom.aval.shape
    if own == shape:
        return atom
    lead = len(shape) - len(own)
    axes = tuple(range(lead, len(shape)))
    return current().trace.emit(p.broadcast, atom, shape=shape, axes=axes)


def align(atoms: list[Atom], shape: Shape) -> list[Atom]:
    """Operands of one elementwise primitive: broadcast to `shape` unless rank 0."""
    return [a if not a.aval.shape else broadcast_to(a, shape) for a in atoms]


def finish(atom: Atom, operands: list[Operand]) -> Tracer:
    """The result of an elementwise operation, laid out in K-order of its operands."""
    shape = atom.aval.shape
    trace = current().trace
    if not shape:
        return from_atom(trace, atom)
    strides = result_strides(shape, tuple([(o.shape, o.strides) for o in operands if o.shape]))
    return from_atom(trace, atom, strides)


def store(result: Any, out: Any, casting: str = "same_kind") -> Any:
    """Write a result into the `out=` array of a NumPy call, with NumPy's casting check."""
    if out is None:
        return result
    if isinstance(out, tuple):
        (out,) = out
    if not isinstance(out, Tracer):
        raise FjitTypeError(
            f"out= at {where()} must be an argument or an array made in the fused function; "
            "writing into an array from outside is refused: pass it as an argument"
        )
    operand = lift(result)
    if not np.can_cast(operand.dtype, out.dtype, casting):  # type: ignore[arg-type]
        raise FjitTypeError(
            f"Cannot cast ufunc output from {operand.dtype!r} to {out.dtype!r} with casting rule "
            f"'{casting}', at {where()}"
        )
    if broadcast_shapes(operand.shape, out.static_shape) != out.static_shape:
        raise broadcast_error((operand.shape, out.static_shape), where())
    value = convert(operand.atom, out.dtype)
    out.assign(broadcast_to(value, out.static_shape))
    return out
