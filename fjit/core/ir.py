"""What a program is: avals, variables, literals, equations, programs.

A program is a flat list of equations in single-assignment form. Objects are frozen and compared by
identity; values have no names (`show` gives them names in first-use order):

    f(x) = np.exp(x).sum()      becomes      { lambda a:f64[8] .
                                               let b:f64[8] = exp a
                                                   c:f64[] = reduce[op=sum axes=(0,)] b
                                               in (c,) }

Invariant: an equation's inputs are program inputs, literals or outputs of earlier equations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from fjit.core import dtypes


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """An operation of the closed set in `core/primitives.py`.

    `family` decides how it is planned and lowered: elementwise, view, reduction, cumulative,
    filter, scatter, library, barrier or kernel.
    """

    name: str
    family: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Sym:
    """An extent known only at run time: the number of true elements of a mask.

    `bound` is its largest possible value; `origin` the variable that determines it (a bool mask, or
    an integer array of counts), which also identifies it: one symbol per origin and trace.
    """

    bound: int
    origin: Var

    def __repr__(self) -> str:
        return f"n<={self.bound}"


Extent = int | Sym
Shape = tuple[Extent, ...]


@dataclass(frozen=True, slots=True)
class Aval:
    """Abstract value: shape (ints or symbols) and dtype of an array."""

    shape: Shape
    dtype: np.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def bound(self) -> int:
        """Largest number of elements the array can have."""
        total = 1
        for extent in self.shape:
            total *= extent if isinstance(extent, int) else extent.bound
        return total

    @property
    def nbytes(self) -> int:
        """Largest number of bytes of data."""
        return self.bound * self.dtype.itemsize

    @property
    def is_static(self) -> bool:
        """Whether every extent is known while tracing."""
        return all(isinstance(extent, int) for extent in self.shape)

    def __str__(self) -> str:
        inner = ",".join(str(e) if isinstance(e, int) else repr(e) for e in self.shape)
        return f"{dtypes.name(self.dtype)}[{inner}]"


@dataclass(frozen=True, slots=True, eq=False)
class Var:
    """A value: a program input or an equation's output. Compared by identity."""

    aval: Aval


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A scalar constant of a fixed dtype, part of the program's text.

    With a `word`, its bits as an int64, code takes it at run time: nothing may look at the value.
    """

    value: np.generic
    aval: Aval
    word: int | None = None


Atom = Var | Literal


class Source(NamedTuple):
    """Where in the user's code an equation came from."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


Params = tuple[tuple[str, object], ...]

FAST: Final = "fast"
"""The parameter that names the fastmath flag which lets an equation take a cheaper form.

It is no part of the equation's meaning: the interpreter passes over it.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Eqn:
    """One equation: `outputs = primitive[params] inputs`."""

    primitive: Primitive
    inputs: tuple[Atom, ...]
    params: Params
    outputs: tuple[Var, ...]
    source: Source | None = None
    scope: str = ""

    def param(self, key: str) -> object:
        """The parameter called `key`; raises KeyError with the primitive's name if absent."""
        for name, value in self.params:
            if name == key:
                return value
        raise KeyError(f"{self.primitive.name} has no parameter {key!r}")

    def get(self, key: str, default: object = None) -> object:
        """The parameter called `key`, or `default`."""
        return next((value for name, value in self.params if name == key), default)

    @property
    def fast(self) -> str:
        """The fastmath flag that lets this equation take a cheaper form, or nothing."""
        return str(self.get(FAST, ""))

    @property
    def meant(self) -> Params:
        """The parameters that the primitive's meaning takes."""
        return tuple(item for item in self.params if item[0] != FAST)

    @property
    def output(self) -> Var:
        """The single output."""
        (var,) = self.outputs
        return var


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Inputs, equations in order, and outputs."""

    inputs: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    outputs: tuple[Atom, ...]


def literal(value: object, dtype: np.dtype) -> Literal:
    """A literal holding `value` converted to `dtype`."""
    with np.errstate(all="ignore"):
        return Literal(dtype.type(np.asarray(value).astype(dtype)[()]), Aval((), dtype))


def static_shape(aval: Aval) -> tuple[int, ...]:
    """The shape as ints; an assertion fails on a symbolic extent."""
    assert aval.is_static, f"symbolic extent in {aval}"
    return tuple(e for e in aval.shape if isinstance(e, int))
