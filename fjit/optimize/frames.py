"""Matrix products as the library multiplies them: framed with the views of their operands.

Takes a program, gives an equal one in which each product that the library has is a kernel equation
whose program is the views of its operands and the product:

    b = transpose[perm=(1,0)] a; c = matmul b d
    becomes
    c = kernel[program={ lambda a d . let b = transpose[perm=(1,0)] a; c = matmul b d in (c,) }] a d

Invariant: the operands of a frame are matrices as the library takes them (BLAS: with one axis
contiguous), and nothing of them is copied; other operands are first copied in C order by a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Program, Var, static_shape
from fjit.optimize import demand, store
from fjit.optimize.index import Axis, Term, merge_splits
from fjit.optimize.orders import Orders

LARGEST: Final = 1 << 31
"""What the integers of many a BLAS do not hold."""

StridesOf = Callable[[Var], tuple[int, ...]]


class Library(NamedTuple):
    """What multiplies matrices: the dtypes that it has, and whether it takes any strides."""

    dtypes: frozenset[np.dtype[Any]]
    any_strides: bool


BLAS: Final = Library(frozenset((dtypes.F32, dtypes.F64)), any_strides=False)
GPU: Final = Library(dtypes.COMPILED, any_strides=True)


class Matrix(NamedTuple):
    """A stack of matrices in memory: elements `offset + sum(index * stride)` of a stored value."""

    var: Var
    offset: int
    strides: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def form(self) -> tuple[int, bool] | None:
        """The leading dimension and whether BLAS sees it transposed; None if it cannot see it."""
        (m, k), (down, across) = self.shape[-2:], self.strides[-2:]
        if max(m, k, down, across) >= LARGEST:
            return None
        if (across == 1 or k == 1) and down >= max(k, 1):
            return down, False
        if m == 1 and across == 1:
            return max(k, 1), False
        if down == 1 and across >= max(m, 1):
            return across, True
        return None

    @property
    def is_plain(self) -> bool:
        """Whether it is all of the stored value, one row after the other."""
        step = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != step:
                return False
            step *= extent
        return self.offset == 0 and self.shape == self.var.aval.shape


def matrix_of(producers: Mapping[Var, Eqn], atom: Var, strides_of: StridesOf) -> Matrix | None:
    """Where the elements of `atom` are, if views of one value lead to them at even distances."""
    env = {v: e for v, e in producers.items() if e.primitive in store.STRIDED}
    at = store.axes_for(atom)
    leaves = demand.walk(env, [(atom, at)])[0]
    if len(leaves) != 1 or leaves[0].guarded:
        return None
    (leaf,) = leaves
    offset, steps = 0, dict[Term, int]()
    for index, stride in zip(leaf.at, strides_of(leaf.var), strict=True):
        offset += index.const * stride
        for term, coef in index.terms:
            steps[term] = steps.get(term, 0) + coef * stride
    offset += merge_splits(steps)
    if any(not isinstance(term, Axis) for term in steps):
        return None
    shape = static_shape(atom.aval)
    return Matrix(
        leaf.var, offset, tuple(steps.get(Axis(k + 1, e), 0) for k, e in enumerate(shape)), shape
    )


class Frame(NamedTuple):
    """A product with its operands' places in memory."""

    eqn: Eqn
    left: Matrix
    right: Matrix


def frame_of(eqn: Eqn, strides_of: StridesOf) -> Frame:
    """The product of a frame's equation."""
    program = eqn.param("program")
    assert isinstance(program, Program)
    product = program.eqns[-1]
    producers = {v: e for e in program.eqns for v in e.outputs}
    left, right = (matrix_of(producers, a, strides_of) for a in product.inputs)  # type: ignore[arg-type]
    assert left is not None and right is not None
    return Frame(product, left, right)


def product_of(eqn: Eqn) -> Eqn:
    """The product in a frame's equation; any other equation as it is."""
    program = eqn.get("program")
    return program.eqns[-1] if isinstance(program, Program) and is_frame(eqn) else eqn


def is_frame(eqn: Eqn) -> bool:
    """Whether an equation is a frame: the only kernels before planning."""
    program = eqn.get("program")
    return isinstance(program, Program) and program.eqns[-1].primitive is p.matmul


def framed(
    program: Program,
    strides: dict[Var, tuple[int, ...]],
    orders: dict[Var, tuple[int, ...]],
    readable: set[Var],
    library: Library = BLAS,
) -> tuple[Program, dict[Var, tuple[int, ...]]]:
    """`program` with products framed for a library, and `orders` with those of needed copies.

    `readable` are the inputs in native byte order and at whole elements.
    """
    if not any(e.primitive is p.matmul for e in program.eqns):
        return program, orders
    walk = _Framing(program, strides, orders, readable, library)
    for eqn in program.eqns:
        walk.add(eqn)
    return Program(program.inputs, tuple(walk.eqns), program.outputs), walk.wanted


class _Framing:
    """The walk that frames products."""

    def __init__(
        self,
        program: Program,
        strides: dict[Var, tuple[int, ...]],
        orders: dict[Var, tuple[int, ...]],
        readable: set[Var],
        library: Library,
    ) -> None:
        self.library = library
        self.producers: dict[Var, Eqn] = {v: e for e in program.eqns for v in e.outputs}
        self.orders = Orders(self.producers, strides, orders)
        self.wanted = dict(orders)
        self.unreadable = set(program.inputs) - readable
        self.eqns: list[Eqn] = []

    def add(self, eqn: Eqn) -> None:
        """The equation as it is, or a frame with what it needs."""
        out = eqn.outputs[0]
        library = self.library
        row_major = self.wanted.get(out, ()) in ((), tuple(range(out.aval.ndim)))
        fits = out.aval.dtype in library.dtypes and (row_major or library.any_strides)
        static = all(a.aval.is_static and isinstance(a, Var) for a in eqn.inputs)
        if eqn.primitive is not p.matmul or not (fits and static):
            self.eqns.append(eqn)
            return
        operands = [self._operand(a) for a in eqn.inputs]
        views = {e: None for a in operands for e in self._views(a)}
        product = Eqn(p.matmul, tuple(operands), (), eqn.outputs, eqn.source, eqn.scope)
        made = {v for e in views for v in e.outputs}
        inner = (*views, product)
        inputs = tuple(dict.fromkeys(a for e in inner for a in e.inputs if a not in made))
        sub = Program(inputs, inner, eqn.outputs)  # type: ignore[arg-type]
        params = (("program", sub),)
        self.eqns.append(Eqn(p.kernel, inputs, params, eqn.outputs, eqn.source, eqn.scope))

    def _operand(self, atom: Atom) -> Var:
        """The operand, or a copy of it in C order where the library cannot read it."""
        assert isinstance(atom, Var)
        matrix = matrix_of(self.producers, atom, self.orders.layout)
        takes = matrix is not None and (self.library.any_strides or matrix.form is not None)
        if matrix is not None and takes and matrix.var not in self.unreadable:
            return atom
        copied = Var(atom.aval)
        copy = Eqn(p.copy, (atom,), (), (copied,))
        self.eqns.append(copy)
        self.producers[copied] = copy
        self.wanted[copied] = tuple(range(atom.aval.ndim))
        self.orders = Orders(self.producers, self.orders.inputs, self.wanted)
        return copied

    def _views(self, atom: Var) -> list[Eqn]:
        """The views between an operand and the value that it is a view of, in order."""
        found: list[Eqn] = []
        while (eqn := self.producers.get(atom)) is not None and eqn.primitive in store.STRIDED:
            found.insert(0, eqn)
            (atom,) = eqn.inputs  # type: ignore[assignment]
        return found
