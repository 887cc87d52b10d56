"""Matrix products written out, where loops of our own beat a library call.

Takes a program, gives an equal one in which a product of few terms is a sum of products of slices,
and one of a vector, or of a dtype that no BLAS has, a broadcast product and a reduction:

    c = matmul a:f64[9,2] b:f64[2,5]
    becomes
    d = slice a (9,1); e = slice b (1,5); f = mul d e; ...; c = add f g

Invariant: what a program writes out depends on its text alone, shapes and dtypes included; what is
left are products of float32 and float64 that the library multiplies: matrices, and rows of an input
with a vector.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Program, Shape, Var, literal, static_shape
from fjit.optimize.pipeline import optimize
from fjit.optimize.rewrite import Draft, Rewriter, Rule
from fjit.optimize.store import STRIDED

MOST_TERMS: Final = 16
"""Longer sums are loops, not text."""
FEW_TERMS: Final = 4
"""With so few terms memory decides: (4000, 2) @ (2, 16) takes 7 us, through BLAS 10."""
LITTLE: Final = 512
"""Multiplications of one matrix of a stack: a thousand 8x8 take 47 us, through BLAS 61."""
ALONE: Final = 4096
"""Those of a product that is no stack: 16x16 takes 0.4 us, a call of NumPy's 1.0."""
FEW_COLUMNS: Final = 8
"""Terms of a column's elements that are gathered: (1000, 6) @ (6,) takes 1.3 us, through BLAS 2.3,
(1000, 16) @ (16,) 2.8 and 2.1."""
SHORT_ROWS: Final = 4096
"""Rows of so many elements take a reduction up to twice as long as BLAS; of longer ones few threads
could share the work, were they not cut."""
MOST_OPERATIONS: Final = 2000
"""Operations of products that feed one another, written out in one kernel: compiled in 0.15 s."""
LONG: Final = 4096
"""Terms of sums that a GPU cuts into parts of a quarter and more where the result is small."""
TILE: Final = 32
FEW_TILES: Final = 64
"""Tiles of a result that leave most multiprocessors of a GPU without work."""
HALF: Final = np.dtype(np.float16)


def written_out(program: Program, *, on_gpu: bool = False) -> Program:
    """`program` with the products written out that gain by it, or itself if there are none.

    A GPU's kernel has every dtype, and a vector is no tile of it: all of these are reductions.
    """
    if not any(eqn.primitive is p.matmul for eqn in program.eqns):
        return program
    small = _chosen(program)
    rules: tuple[Rule, ...] = (nothing, lambda rw, e: terms(rw, e, small))
    rules += (any_vectors, in_parts) if on_gpu else (vectors, without_library)
    after = Rewriter(program, {p.matmul: rules}).run()
    return program if after is program else optimize(after)


class _Sizes:
    """The extents of a product: a stack of (m, k) by (k, n)."""

    def __init__(self, eqn: Eqn) -> None:
        a, b = (static_shape(x.aval) for x in eqn.inputs)
        self.batch, self.m, self.k, self.n = a[:-2], a[-2], a[-1], b[-1]
        self.stack = int(np.prod(self.batch))

    @property
    def each(self) -> int:
        """Multiplications of one matrix."""
        return self.m * self.n * self.k


def _chosen(program: Program) -> dict[Var, None]:
    """Results of products that are written out term by term."""
    chosen: dict[Var, None] = {}
    work: dict[Atom, int] = {}  # operations of products behind a value since the last stored one
    for eqn in program.eqns:
        behind = sum(work.get(a, 0) for a in dict.fromkeys(eqn.inputs))
        if eqn.primitive is p.matmul:
            behind = _work(eqn, behind, bool(work.get(eqn.inputs[1])))
            if behind:
                chosen[eqn.output] = None
        elif eqn.primitive.family not in ("elementwise", "view"):
            behind = 0
        work.update(dict.fromkeys(eqn.outputs, behind))
    return chosen


def _work(eqn: Eqn, behind: int, is_nested: bool) -> int:
    """Operations in one body if a product is written out behind others; 0 if it shall not be."""
    if not _is_static(eqn) or 0 in eqn.inputs[0].aval.shape:
        return 0
    size = _Sizes(eqn)
    few = size.k <= (FEW_COLUMNS if size.n == 1 else FEW_TERMS) or size.each <= LITTLE
    few = few or size.m == 1
    few = few or (size.stack == 1 and size.each <= ALONE)
    own = 2 * size.k * (size.k if behind else 1) * (size.k if is_nested else 1)
    fits = few and size.k <= MOST_TERMS and behind + own <= MOST_OPERATIONS
    return behind + own if fits else 0


def _is_static(eqn: Eqn) -> bool:
    return all(a.aval.is_static for a in eqn.inputs)


# ---- rules --------------------------------------------------------------------------------------
def nothing(_: Rewriter, eqn: Eqn) -> Draft | None:
    """A sum of no terms, or no sums: zeros."""
    a, b = eqn.inputs
    if not _is_static(eqn) or (a.aval.bound and b.aval.bound):
        return None
    zero = literal(0, a.aval.dtype)
    return Draft(p.broadcast, (zero,), {"shape": eqn.output.aval.shape, "axes": ()})


def terms(rw: Rewriter, eqn: Eqn, small: dict[Var, None]) -> Draft | None:
    """Few terms: a sum of products of columns and rows."""
    if eqn.output not in small:
        return None
    a, b = (_widened(rw, x) for x in eqn.inputs)
    size = _Sizes(eqn)
    shape = (*size.batch, size.m, size.n)
    total: Atom | None = None
    for term in range(size.k):
        left = _spread(rw, _part(rw, a, a.aval.ndim - 1, term), shape)
        right = _spread(rw, _part(rw, b, b.aval.ndim - 2, term), shape)
        product = _times(rw, left, right)
        if total is None and dtypes.is_float(a.aval.dtype):
            total = literal(0.0, a.aval.dtype)  # a sum starts at 0.0, so that none of -0.0 is -0.0
        total = product if total is None else rw.emit(p.add, total, product)
    assert total is not None
    return Draft(p.convert, (total,), {"dtype": eqn.output.aval.dtype})


def vectors(rw: Rewriter, eqn: Eqn) -> Draft | None:
    """A row or a column: its elements are read once, so a reduction is as fast as any library.

    It fuses with what is before and behind. Only short rows that are in memory are the library's.
    """
    if not _is_static(eqn) or 1 not in eqn.output.aval.shape[-2:]:
        return None
    size = _Sizes(eqn)
    if size.n == 1 and FEW_COLUMNS < size.k <= SHORT_ROWS and _is_in_memory(rw, eqn):
        return None
    return any_vectors(rw, eqn)


def any_vectors(rw: Rewriter, eqn: Eqn) -> Draft | None:
    """A row or a column, wherever its elements are."""
    if not _is_static(eqn) or 1 not in eqn.output.aval.shape[-2:]:
        return None
    size = _Sizes(eqn)
    axes = tuple(range(len(size.batch)))
    a, b = (_widened(rw, x) for x in eqn.inputs)
    last = len(size.batch)
    if size.n == 1:
        column = rw.emit(p.reshape, b, shape=(*size.batch, size.k))
        shape: Shape = (*size.batch, size.m, size.k)
        wide = rw.emit(p.broadcast, column, shape=shape, axes=(*axes, last + 1))
        total = _sum(rw, _times(rw, a, wide), last + 1)
    else:
        row = rw.emit(p.reshape, a, shape=(*size.batch, size.k))
        shape = (*size.batch, size.k, size.n)
        wide = rw.emit(p.broadcast, row, shape=shape, axes=(*axes, last))
        total = _sum(rw, _times(rw, wide, b), last)
    total = _narrowed(rw, total, eqn)
    return Draft(p.reshape, (total,), {"shape": eqn.output.aval.shape})


def in_parts(rw: Rewriter, eqn: Eqn) -> Draft | None:
    """Long sums of few elements, on a GPU: a stack of products, and a sum over it."""
    if not _is_static(eqn) or eqn.output.aval.dtype == HALF:
        return None
    size = _Sizes(eqn)
    tiles = size.stack * -(-size.m // TILE) * -(-size.n // TILE)
    if size.k < LONG or tiles >= FEW_TILES:
        return None
    parts = min(size.k // (LONG // 4), -(-2 * FEW_TILES // tiles))
    chunk, last = size.k // parts, len(size.batch)
    whole, (a, b) = parts * chunk, eqn.inputs
    left = _between(rw, a, last + 1, 0, whole)
    left = rw.emit(p.reshape, left, shape=(*size.batch, size.m, parts, chunk))
    left = rw.emit(p.transpose, left, perm=(*range(last), last + 1, last, last + 2))
    right = _between(rw, b, last, 0, whole)
    right = rw.emit(p.reshape, right, shape=(*size.batch, parts, chunk, size.n))
    total = _sum(rw, rw.emit(p.matmul, left, right), last)
    if whole < size.k:
        ends = _between(rw, a, last + 1, whole, size.k), _between(rw, b, last, whole, size.k)
        rest = rw.emit(p.matmul, *ends)
        total = rw.emit(p.or_ if total.aval.dtype == dtypes.BOOL else p.add, total, rest)
    return Draft(p.convert, (total,), {"dtype": eqn.output.aval.dtype})


def without_library(rw: Rewriter, eqn: Eqn) -> Draft | None:
    """Integers, bools and halves, which BLAS does not multiply: column accumulators."""
    dtype = eqn.output.aval.dtype
    if not _is_static(eqn) or dtype in (dtypes.F32, dtypes.F64):
        return None
    a, b = (_widened(rw, x) for x in eqn.inputs)
    size = _Sizes(eqn)
    shape = (*size.batch, size.m, size.k, size.n)
    axes, last = tuple(range(len(size.batch))), len(size.batch)
    left = rw.emit(p.broadcast, a, shape=shape, axes=(*axes, last, last + 1))
    right = rw.emit(p.broadcast, b, shape=shape, axes=(*axes, last + 1, last + 2))
    total = _sum(rw, _times(rw, left, right), last + 1)
    return Draft(p.convert, (total,), {"dtype": dtype})


def _is_in_memory(rw: Rewriter, eqn: Eqn) -> bool:
    """Whether the rows are an input's, and many enough for a call, of a dtype that BLAS has."""
    (a, _), dtype = eqn.inputs, eqn.output.aval.dtype
    while (made := rw.producers.get(a)) is not None and made.primitive in STRIDED:
        (a,) = made.inputs
    return a not in rw.producers and a.aval.ndim > 1 and dtype in (dtypes.F32, dtypes.F64)


# ---- pieces -------------------------------------------------------------------------------------
def _widened(rw: Rewriter, a: Atom) -> Atom:
    """Halves are multiplied and added as float32, and rounded once."""
    return rw.emit(p.convert, a, dtype=dtypes.F32) if a.aval.dtype == HALF else a


def _narrowed(rw: Rewriter, a: Atom, eqn: Eqn) -> Atom:
    dtype = eqn.output.aval.dtype
    return a if a.aval.dtype == dtype else rw.emit(p.convert, a, dtype=dtype)


def _times(rw: Rewriter, a: Atom, b: Atom) -> Atom:
    return rw.emit(p.mul, a, b)


def _sum(rw: Rewriter, a: Atom, axis: int) -> Atom:
    op = "or" if a.aval.dtype == dtypes.BOOL else "sum"
    return rw.emit(p.reduce, a, op=op, axes=(axis,))


def _between(rw: Rewriter, a: Atom, axis: int, start: int, stop: int) -> Atom:
    """Positions `start` to `stop` of one axis."""
    sizes = tuple(stop - start if k == axis else e for k, e in enumerate(a.aval.shape))
    starts = tuple(start if k == axis else 0 for k in range(a.aval.ndim))
    return rw.emit(p.slice_, a, starts=starts, sizes=sizes, steps=(1,) * a.aval.ndim)


def _part(rw: Rewriter, a: Atom, axis: int, at: int) -> Atom:
    """Position `at` of one axis, which stays with extent 1."""
    return _between(rw, a, axis, at, at + 1)


def _spread(rw: Rewriter, a: Atom, shape: Shape) -> Atom:
    return rw.emit(p.broadcast, a, shape=shape, axes=tuple(range(len(shape))))
