"""The traced array: a handle on a versioned buffer that behaves like an ndarray.

Takes operators, ndarray methods and NumPy's protocols, gives equations in the current trace. What a
NumPy function does to traced values is registered in `UFUNCS` and `FUNCTIONS` by the files of
`frontend/numpy`. Invariant: a tracer's value is its buffer's value seen through its view steps.

    def f(x): y = x[::2]; y += 1       records       b = slice[...] a;  c = add b 1
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from fjit.core import dtypes
from fjit.core.ir import Atom, Aval, Literal, Shape, Sym
from fjit.core.trace import Trace, where
from fjit.errors import (
    BRANCH_ADVICE,
    INTEGER_ADVICE,
    LENGTH_ADVICE,
    NUMBER_ADVICE,
    OUTSIDE_ADVICE,
    FjitTypeError,
    FjitValueError,
    ReadOnlyError,
    branch_error,
    complex_error,
    unsupported_function,
)
from fjit.frontend import views
from fjit.frontend.foreign import foreign_ufunc, instead_of
from fjit.frontend.layout import Strides, c_strides
from fjit.frontend.methods import Methods
from fjit.frontend.session import Branch, Buffer, current, leaked
from fjit.frontend.tables import FUNCTIONS as FUNCTIONS
from fjit.frontend.tables import GETITEM as GETITEM
from fjit.frontend.tables import OPERATORS as OPERATORS
from fjit.frontend.tables import SETITEM as SETITEM
from fjit.frontend.tables import UFUNC_METHODS as UFUNC_METHODS
from fjit.frontend.tables import UFUNCS as UFUNCS
from fjit.frontend.tables import Function as Function
from fjit.frontend.tables import implements as implements


def _operator(name: str, operand: Tracer) -> Function:
    if operand.weak is not None or name == "power":
        return OPERATORS.get(name) or UFUNCS[name]
    return UFUNCS[name]


def _binary(name: str) -> Function:
    def method(self: Tracer, other: Any) -> Any:
        return _operator(name, self)(self, other)

    return method


def _reflected(name: str) -> Function:
    def method(self: Tracer, other: Any) -> Any:
        return _operator(name, self)(other, self)

    return method


def _inplace(name: str) -> Function:
    def method(self: Tracer, other: Any) -> Any:
        if self.is_scalar:
            return _operator(name, self)(self, other)
        return _operator(name, self)(self, other, out=self)

    return method


def _unary(name: str) -> Function:
    def method(self: Tracer) -> Any:
        return _operator(name, self)(self)

    return method


class Tracer(Methods):
    """A traced array, scalar or Python number.

    `weak` is float, int, bool or None: a Python number follows NEP 50's rules for Python scalars.
    `is_scalar` tells NumPy scalars (immutable, returned as scalars) from 0-d arrays.
    """

    __slots__ = ("_at", "_cached", "_trace", "buffer", "is_scalar", "steps", "weak")
    __array_priority__ = 1000.0

    def __init__(
        self,
        trace: Trace,
        buffer: Buffer,
        steps: tuple[views.Step, ...] = (),
        *,
        weak: type | None = None,
        is_scalar: bool = False,
    ) -> None:
        self._trace = trace
        self.buffer = buffer
        self.steps = steps
        self.weak = weak
        self.is_scalar = is_scalar
        self._cached: Atom | None = None
        self._at = -1

    # ---- value and type -------------------------------------------------------------------
    @property
    def atom(self) -> Atom:
        """The present value: the buffer's, seen through the view steps."""
        if not self._trace.open:
            raise leaked(self._trace, self.buffer.value)
        if not self.steps:
            return self.buffer.value
        if self._at != self.buffer.version or self._cached is None:
            self._cached = views.read(self._trace, self.buffer.value, self.steps)
            self._at = self.buffer.version
        return self._cached

    @property
    def aval(self) -> Aval:
        """Shape and dtype; symbolic extents included."""
        return self.atom.aval

    @property
    def element_strides(self) -> Strides:
        """Strides in elements, as NumPy would lay this array out."""
        return self.steps[-1].strides if self.steps else self.buffer.strides

    def view(self, step_or_dtype: Any = None, **keywords: Any) -> Any:
        """With a view step: the view (internal). With a dtype: ndarray.view, where it has a meaning."""  # noqa: E501
        if isinstance(step_or_dtype, (views.Slice, views.Transpose, views.Reshape,
                                      views.Diagonal, views.Broadcast)):  # fmt: skip
            return Tracer(self._trace, self.buffer, (*self.steps, step_or_dtype))
        if step_or_dtype is None or step_or_dtype is np.ndarray:
            return Tracer(self._trace, self.buffer, self.steps)
        if np.dtype(step_or_dtype) == self.dtype:
            return Tracer(self._trace, self.buffer, self.steps)
        raise unsupported_function(
            "ndarray.view with another dtype", "use x.astype(...), or view outside", where()
        )

    def assign(self, value: Atom) -> None:
        """Set the whole of this array (a view or a base) to `value` of its shape and dtype."""
        if not self._trace.open:
            raise leaked(self._trace, self.buffer.value)
        if not self.buffer.writeable:
            raise ReadOnlyError(
                f"assignment destination is read-only, at {where()}: the argument is marked "
                "read-only; write to x.copy() instead"
            )
        assert value.aval == self.aval, f"{value.aval} into {self.aval}"
        buffer = self.buffer
        buffer.value = views.write(self._trace, buffer.value, self.steps, value)
        buffer.version += 1

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape; a symbolic extent is a traced int."""
        shape = self.aval.shape
        if all(isinstance(e, int) for e in shape):
            return shape
        return tuple(extent_value(self._trace, e) if isinstance(e, Sym) else e for e in shape)

    @shape.setter
    def shape(self, shape: Any) -> NoReturn:
        raise unsupported_function("assigning x.shape", "use y = x.reshape(...)", where())

    @property
    def static_shape(self) -> Shape:
        """The shape with symbols as symbols."""
        return self.aval.shape

    dtype = property(lambda self: self.aval.dtype, doc="NumPy dtype.")
    ndim = property(lambda self: len(self.aval.shape), doc="Number of axes.")
    itemsize = property(lambda self: self.aval.dtype.itemsize, doc="Bytes per element.")
    T = property(lambda self: FUNCTIONS[np.transpose](self), doc="Axes reversed, a view.")  # noqa: PLW0108 - found when used
    mT = property(lambda self: FUNCTIONS[np.matrix_transpose](self), doc="Last two axes swapped.")  # noqa: PLW0108
    device = property(lambda self: "cpu", doc="Where NumPy has its arrays.")
    base = property(lambda self: None, doc="None; views are tracked inside the trace.")

    @property
    def real(self) -> Any:
        """The array itself: complex dtypes come later."""
        return self

    @real.setter
    def real(self, value: Any) -> None:
        self[...] = value

    @property
    def imag(self) -> Any:
        """Zeros of the array's shape, read-only."""
        if self.weak is not None:
            return 0.0 if self.weak is float else 0
        zeros = FUNCTIONS[np.zeros_like](self)
        zeros.buffer.writeable = False
        return zeros[()] if self.is_scalar else zeros

    @property
    def flat(self) -> Any:
        """The elements in C order: writes into it reach the array, reads are copies."""
        extents = self.aval.shape
        size = extents[0] if len(extents) == 1 else math.prod(
            require_static(extent, "x.flat") for extent in extents
        )  # fmt: skip
        return Flat(self._trace, self.buffer, (*self.steps, views.Reshape((size,), (1,))))

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[...] = value

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in bytes, as NumPy would lay this array out."""
        return tuple(int(s * self.dtype.itemsize) for s in self.element_strides)

    @property
    def flags(self) -> Any:
        """The flags of an array with this layout."""
        shape = tuple(e if isinstance(e, int) else e.bound for e in self.aval.shape)
        ghost = np.lib.stride_tricks.as_strided(
            np.empty(1, self.dtype), shape, self.strides, writeable=self.buffer.writeable
        )
        return ghost.flags

    @property
    def size(self) -> Any:
        """Number of elements; a traced int where an extent is symbolic."""
        total: Any = 1
        for extent in self.shape:
            total = total * extent
        return total

    @property
    def nbytes(self) -> Any:
        """Number of bytes of data."""
        return self.size * self.itemsize

    # ---- NumPy's protocols ----------------------------------------------------------------
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        out = keywords.get("out")
        if isinstance(out, tuple) and len(out) == 1:
            keywords["out"] = out[0]
        if method != "__call__":
            return UFUNC_METHODS[method](ufunc, *inputs, **keywords)
        implementation = UFUNCS.get(ufunc.__name__)
        if implementation is None or getattr(np, ufunc.__name__, None) is not ufunc:
            implementation = None if keywords else foreign_ufunc(ufunc)
        if implementation is None:
            raise unsupported_function(f"the ufunc {ufunc.__name__}", instead_of(ufunc), where())
        return implementation(*inputs, **keywords)

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        implementation = FUNCTIONS.get(function)
        if implementation is None:
            name = f"{getattr(function, '__module__', 'numpy')}.{function.__name__}"
            raise unsupported_function(name, instead_of(function), where())
        return implementation(*args, **keywords)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise FjitTypeError(
            f"a traced array {self.aval} cannot become a NumPy array, at {where()}: its value is "
            "not known while the function is traced. A list of traced values in the place of an "
            "array is joined first, with np.stack([a, b]), or fills an array made with np.zeros; "
            "a library that wants NumPy arrays is called outside the fused function."
        )

    # ---- Python's protocols ---------------------------------------------------------------
    def __bool__(self) -> bool:
        return bool(self._decided("bool()", bool))

    def _decided(self, what: str, kind: type) -> Any:
        """The value for the arguments at hand, which from now on guards the trace."""
        atom = self.atom
        session = current()
        if session.evaluate is None or not self.aval.is_static or self.aval.bound != 1:
            advice = INTEGER_ADVICE if kind is int else BRANCH_ADVICE
            raise branch_error(what, str(self.aval), where(), advice)
        if isinstance(atom, Literal):
            return kind(atom.value)
        for branch in session.branches:
            if branch.atom is atom and type(branch.value) is kind:
                return branch.value
        value = kind(session.evaluate(atom))
        session.branches.append(Branch(atom, value, where()))
        return value

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.aval.shape:
            raise FjitTypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self._decided("an index or integer", int))

    def __int__(self) -> int:
        raise branch_error("int()", str(self.aval), where(), INTEGER_ADVICE)

    def __float__(self) -> float:
        raise branch_error("float()", str(self.aval), where(), NUMBER_ADVICE)

    def __complex__(self) -> complex:
        raise complex_error(f"complex() of {self.aval} at {where()}")

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'numpy.ndarray'")

    def __len__(self) -> int:
        if not self.aval.shape:
            raise FjitTypeError("len() of unsized object")
        extent = self.aval.shape[0]
        if isinstance(extent, Sym):
            raise branch_error("len()", str(self.aval), where(), LENGTH_ADVICE)
        return extent

    def __iter__(self) -> Iterator[Any]:
        if not self.aval.shape:
            raise FjitTypeError("iteration over a 0-d array")
        for i in range(len(self)):
            yield self[i]

    def __contains__(self, value: Any) -> Any:
        return bool(FUNCTIONS[np.any](self == value))

    def __repr__(self) -> str:
        return f"Traced<{self.aval}>" if self._trace.open else "Traced<leaked>"

    def __format__(self, spec: str) -> str:
        if spec:
            what = f"format(..., {spec!r})"
            raise branch_error(what, str(self.aval), where(), OUTSIDE_ADVICE)
        return repr(self)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __getitem__(self, index: Any) -> Any:
        return GETITEM[0](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        SETITEM[0](self, index, value)

    def __fjit_float__(self) -> Any:
        return self._as_python(float, dtypes.F64)

    def __fjit_int__(self) -> Any:
        return self._as_python(int, dtypes.I64)

    def __fjit_complex__(self) -> NoReturn:
        raise complex_error(f"complex() at {where()}")

    def __fjit_bool__(self) -> Any:
        return self._as_python(bool, dtypes.BOOL)

    def _as_python(self, kind: type, dtype: np.dtype[Any]) -> Any:
        if self.aval.bound != 1:
            raise FjitTypeError(
                f"only 0-dimensional arrays can be converted to Python scalars, at {where()}: "
                f"this one is {self.aval}"
            )
        scalar = FUNCTIONS[np.reshape](self, ()).astype(dtype)
        return Tracer(self._trace, scalar.buffer, scalar.steps, weak=kind, is_scalar=True)

    def item(self, *index: int) -> Any:
        """The element as a traced Python number."""
        element = self if not index else FUNCTIONS[np.ravel](self)[index[0]] if (
            len(index) == 1
        ) else self[tuple(index)]  # fmt: skip
        kind = {"f": float, "b": bool}.get(self.dtype.kind, int)
        return element._as_python(
            kind, {float: dtypes.F64, bool: dtypes.BOOL, int: dtypes.I64}[kind]
        )

    def tolist(self) -> NoReturn:
        """Refused: nested Python lists need values."""
        raise branch_error("tolist()", str(self.aval), where(), OUTSIDE_ADVICE)

    # ---- operators ------------------------------------------------------------------------
    # fmt: off
    __add__, __radd__, __iadd__ = _binary("add"), _reflected("add"), _inplace("add")
    __sub__, __rsub__, __isub__ = _binary("subtract"), _reflected("subtract"), _inplace("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply"), _reflected("multiply"), _inplace("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _binary("divide"), _reflected("divide"), _inplace("divide")  # noqa: E501
    __floordiv__, __rfloordiv__, __ifloordiv__ = _binary("floor_divide"), _reflected("floor_divide"), _inplace("floor_divide")  # noqa: E501
    __mod__, __rmod__, __imod__ = _binary("remainder"), _reflected("remainder"), _inplace("remainder")  # noqa: E501
    __divmod__, __rdivmod__     = _binary("divmod"), _reflected("divmod")
    __and__, __rand__, __iand__ = _binary("bitwise_and"), _reflected("bitwise_and"), _inplace("bitwise_and")  # noqa: E501
    __or__, __ror__, __ior__    = _binary("bitwise_or"), _reflected("bitwise_or"), _inplace("bitwise_or")  # noqa: E501
    __xor__, __rxor__, __ixor__ = _binary("bitwise_xor"), _reflected("bitwise_xor"), _inplace("bitwise_xor")  # noqa: E501
    __lshift__, __rlshift__, __ilshift__ = _binary("left_shift"), _reflected("left_shift"), _inplace("left_shift")  # noqa: E501
    __rshift__, __rrshift__, __irshift__ = _binary("right_shift"), _reflected("right_shift"), _inplace("right_shift")  # noqa: E501
    __matmul__, __rmatmul__, __imatmul__ = _binary("matmul"), _reflected("matmul"), _inplace("matmul")  # noqa: E501
    __pow__, __rpow__, __ipow__ = _binary("power"), _reflected("power"), _inplace("power")
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __neg__, __pos__ = _unary("negative"), _unary("positive")
    __abs__, __invert__ = _unary("absolute"), _unary("invert")
    # fmt: on

    def __round__(self, digits: int | None = None) -> Any:
        return FUNCTIONS[np.round](self, digits or 0)


class Flat(Tracer):
    """`x.flat` of a traced array."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        found = GETITEM[0](self, index)
        return found if found.is_scalar else from_atom(self._trace, found.atom)


def extent_value(trace: Trace, extent: Sym) -> Tracer:
    """The run-time value of a symbolic extent, as a traced Python int."""
    origin = extent.origin
    if origin.aval.dtype == dtypes.BOOL:
        count = FUNCTIONS[np.count_nonzero](from_atom(trace, origin))
    else:
        count = FUNCTIONS[np.sum](from_atom(trace, origin))
    return Tracer(trace, count.buffer, count.steps, weak=int, is_scalar=True)


def from_atom(
    trace: Trace, atom: Atom, strides: Strides | None = None, *, weak: type | None = None
) -> Tracer:
    """A traced array of its own memory holding `atom`; rank 0 gives a scalar."""
    shape = atom.aval.shape
    buffer = Buffer(atom, c_strides(shape) if strides is None else strides)
    return Tracer(trace, buffer, weak=weak, is_scalar=not shape)


def fresh(atom: Atom, strides: Strides | None = None) -> Tracer:
    """`from_atom` in the current session."""
    return from_atom(current().trace, atom, strides)


def require_static(extent: Any, what: str) -> int:
    """`extent` as an int; raises FjitValueError naming `what` for a symbol."""
    if isinstance(extent, Sym):
        raise FjitValueError(
            f"{what} along an axis whose extent is known only at run time, at {where()}: a boolean "
            "mask or nonzero made it. Reduce it first, or use np.where to keep the full shape."
        )
    return int(extent)
