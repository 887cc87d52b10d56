"""np.einsum: subscripts taken apart, then products that fuse or matrix products.

Takes subscripts and traced arrays, gives a copy. Two operands become one matrix product where a sum
over common labels leaves labels on both sides; everything else is a broadcast product and a sum:

    einsum("ijk,ijk->i", a, b)      records      c = mul a b;  d = reduce[op=sum axes=(1, 2)] c
    einsum("ij,jk->ik", a, b)       records      c = matmul a b

Invariant: more than two operands are multiplied from left to right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Extent
from fjit.core.trace import where
from fjit.errors import FjitTypeError, FjitValueError, ShapeError
from fjit.frontend.layout import k_order, ordered_strides
from fjit.frontend.numpy import arrays
from fjit.frontend.numpy.arrays import as_tracer, static_int
from fjit.frontend.operands import convert, store
from fjit.frontend.session import current
from fjit.frontend.tracer import Tracer, fresh, implements

Label = str  # one letter; axes of an ellipsis get letters outside ASCII


@dataclass(frozen=True, slots=True)
class Term:
    """An operand and the label of each of its axes."""

    atom: Atom
    labels: tuple[Label, ...]

    def extent(self, label: Label) -> Extent:
        """The extent of the axis called `label`."""
        return self.atom.aval.shape[self.labels.index(label)]


@implements(np.einsum)
def einsum(
    *operands: Any,
    out: Any = None,
    optimize: Any = False,
    dtype: Any = None,
    order: str = "K",
    casting: str = "safe",
) -> Any:
    """See np.einsum; the order of more than two operands is left to right."""
    subscripts, values = _given(operands)
    many = [as_tracer(v) for v in values]
    inputs, output = parse(subscripts, [x.ndim for x in many])
    wanted = arrays.joined_dtype(many, dtype)
    if len(many) == 1 and set(inputs[0]) == set(output) and wanted == many[0].dtype:
        return store(_view(many[0], inputs[0], output), out, casting)
    extents = _extents(many, inputs)
    terms = [
        _diagonal(Term(convert(x.atom, wanted), labels))
        for x, labels in zip(many, inputs, strict=True)
    ]
    term = _sum_out(terms[0], _needed(terms[1:], output))
    for k, other in enumerate(terms[1:], 1):
        kept = _needed(terms[k + 1 :], output)
        term = _contract(term, _sum_out(other, {*term.labels, *kept}), kept, extents)
    atom = _arranged(term, output, extents)
    if not output:
        return store(fresh(atom), out, casting)
    return store(arrays.array(atom, _strides(atom, many, inputs, output)), out, casting)


def _view(x: Tracer, labels: tuple[Label, ...], output: tuple[Label, ...]) -> Tracer:
    """One operand whose axes are only permuted or merged into diagonals: a view."""
    left = list(labels)
    for label in dict.fromkeys(labels):
        while left.count(label) > 1:
            first = left.index(label)
            second = left.index(label, first + 1)
            _check_diagonal(x.static_shape[first], x.static_shape[second], label)
            x = arrays.diagonal_view(x, 0, first, second)
            del left[second], left[first]
            left.append(label)
    return arrays.transpose_view(x, tuple(left.index(label) for label in output))


def _strides(
    atom: Atom, many: list[Tracer], inputs: list[tuple[Label, ...]], output: tuple[Label, ...]
) -> tuple[int, ...]:
    """The result in the order in which NumPy's iterator walks over the operands."""
    rows = [
        tuple(
            sum(s for s, own in zip(x.element_strides, labels, strict=True) if own == label)
            for label in output
        )
        for x, labels in zip(many, inputs, strict=True)
    ]
    return ordered_strides(atom.aval.shape, k_order(len(output), rows))


def _given(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """The subscripts as text, from either of NumPy's two calling forms."""
    if not operands:
        raise FjitValueError(f"einsum at {where()} needs subscripts and operands")
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), list(operands[1:])
    values, lists = list(operands[0::2]), list(operands[1::2])
    output = "->" + _letters(values.pop()) if len(values) > len(lists) else ""
    return ",".join(map(_letters, lists)) + output, values


def _letters(numbers: Any) -> str:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    return "".join("..." if n is Ellipsis else alphabet[n] for n in numbers)


# ---- subscripts -------------------------------------------------------------------------------


def parse(subscripts: str, ranks: list[int]) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
    """Labels of each operand's axes and of the result's."""
    left, arrow, right = subscripts.partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise FjitValueError(
            f"einsum '{subscripts}' at {where()} names {len(parts)} operands, but {len(ranks)} "
            "were given"
        )
    spread = [n - len(part.replace("...", "")) for part, n in zip(parts, ranks, strict=True)]
    for part, extra, rank in zip(parts, spread, ranks, strict=True):
        if extra < 0 or (extra and "..." not in part):
            raise FjitValueError(
                f"einsum at {where()}: the operand '{part}' of '{subscripts}' has {rank} axes"
            )
    widest = max(n if "..." in part else 0 for part, n in zip(parts, spread, strict=True))
    ellipsis = "".join(chr(0x100 + k) for k in range(widest))
    inputs = [
        _labels(part, ellipsis[widest - extra :], subscripts)
        for part, extra in zip(parts, spread, strict=True)
    ]
    output = _labels(right, ellipsis, subscripts) if arrow else _implicit(inputs, ellipsis)
    _check_output(output, inputs, subscripts)
    return inputs, output


def _labels(part: str, ellipsis: str, subscripts: str) -> tuple[Label, ...]:
    text = part.replace("...", "\0")
    for letter in text:
        if letter != "\0" and not (letter.isascii() and letter.isalpha()):
            raise FjitValueError(
                f"invalid subscript '{letter}' in einstein sum subscripts string '{subscripts}', "
                f"at {where()}: subscripts must be letters"
            )
    return tuple(text.replace("\0", ellipsis))


def _implicit(inputs: list[tuple[Label, ...]], ellipsis: str) -> tuple[Label, ...]:
    every = [label for labels in inputs for label in labels if label not in ellipsis]
    once = sorted(label for label in set(every) if every.count(label) == 1)
    return (*ellipsis, *once)


def _check_output(
    output: tuple[Label, ...], inputs: list[tuple[Label, ...]], subscripts: str
) -> None:
    known = {label for labels in inputs for label in labels}
    for label in output:
        if output.count(label) > 1 or label not in known:
            raise FjitValueError(
                f"einstein sum subscripts string '{subscripts}' at {where()} includes the output "
                f"subscript '{label}' more than once, or without an operand that has it"
            )


def _extents(many: list[Tracer], inputs: list[tuple[Label, ...]]) -> dict[Label, Extent]:
    extents: dict[Label, Extent] = {}
    for x, labels in zip(many, inputs, strict=True):
        for label, extent in zip(labels, x.static_shape, strict=True):
            known = extents.get(label, 1)
            if known == 1:
                extents[label] = extent
            elif extent not in (1, known):
                raise ShapeError(
                    f"einsum at {where()}: operands could not be broadcast together, the axis "
                    f"'{label}' has extents {known} and {extent}"
                )
    return extents


# ---- contraction ------------------------------------------------------------------------------


def _needed(terms: list[Term], output: tuple[Label, ...]) -> set[Label]:
    return {*output, *[label for term in terms for label in term.labels]}


def _diagonal(term: Term) -> Term:
    """Repeated labels of one operand become one axis."""
    trace, atom, labels = current().trace, term.atom, list(term.labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            _check_diagonal(atom.aval.shape[first], atom.aval.shape[second], label)
            atom = trace.emit(p.diagonal, atom, offset=0, axis1=first, axis2=second)
            del labels[second], labels[first]
            labels.append(label)
    return Term(atom, tuple(labels))


def _check_diagonal(first: Extent, second: Extent, label: Label) -> None:
    if first != second:
        raise ShapeError(
            f"einsum at {where()}: dimensions in operand for collapsing index '{label}' don't "
            f"match ({first} and {second})"
        )


def _sum_out(term: Term, kept: set[Label]) -> Term:
    """Sum over labels that nothing else needs."""
    axes = tuple(k for k, label in enumerate(term.labels) if label not in kept)
    if not axes:
        return term
    labels = tuple(label for label in term.labels if label in kept)
    return Term(_sum(term.atom, axes), labels)


def _sum(atom: Atom, axes: tuple[int, ...]) -> Atom:
    op = "or" if atom.aval.dtype == dtypes.BOOL else "sum"
    return current().trace.emit(p.reduce, atom, op=op, axes=axes)


def _contract(a: Term, b: Term, kept: set[Label], extents: dict[Label, Extent]) -> Term:
    """The product of two terms, summed over labels that are not kept."""
    summed = [
        label for label in a.labels
        if label not in kept and label in b.labels and a.extent(label) == b.extent(label)
    ]  # fmt: skip
    batch = [label for label in a.labels if label in b.labels and label in kept]
    rows = [label for label in a.labels if label not in b.labels]
    columns = [label for label in b.labels if label not in a.labels]
    shared = [label for label in a.labels if label in b.labels]
    whole = len(summed) + len(batch) == len(shared)
    same = all(a.extent(label) == b.extent(label) for label in batch)
    if summed and rows and columns and whole and same:
        return _as_matmul(a, b, batch, rows, columns, summed)
    labels = (*a.labels, *columns)
    product = current().trace.emit(
        p.mul, _aligned(a, labels, extents), _aligned(b, labels, extents)
    )
    return _sum_out(Term(product, labels), kept)


def _as_matmul(
    a: Term, b: Term, batch: list[Label], rows: list[Label], columns: list[Label],
    summed: list[Label],
) -> Term:  # fmt: skip
    trace = current().trace
    outer = tuple(static_int(a.extent(label), "an extent of einsum") for label in batch)
    m, n, k = _count(a, rows), _count(b, columns), _count(a, summed)
    left = _grouped(a, [*batch, *rows, *summed], (*outer, m, k))
    right = _grouped(b, [*batch, *summed, *columns], (*outer, k, n))
    product = trace.emit(p.matmul, left, right)
    labels = (*batch, *rows, *columns)
    shape = (*outer, *[a.extent(r) for r in rows], *[b.extent(c) for c in columns])
    if shape != product.aval.shape:
        product = trace.emit(p.reshape, product, shape=shape)
    return Term(product, labels)


def _count(term: Term, labels: list[Label]) -> int:
    total = 1
    for label in labels:
        total *= static_int(term.extent(label), "an extent of einsum")
    return total


def _grouped(term: Term, labels: list[Label], shape: tuple[int, ...]) -> Atom:
    trace, atom = current().trace, term.atom
    perm = tuple(term.labels.index(label) for label in labels)
    if perm != tuple(range(len(perm))):
        atom = trace.emit(p.transpose, atom, perm=perm)
    if atom.aval.shape != shape:
        atom = trace.emit(p.reshape, atom, shape=shape)
    return atom


def _aligned(term: Term, labels: tuple[Label, ...], extents: dict[Label, Extent]) -> Atom:
    """The term's atom over all `labels`, in their order."""
    trace, atom = current().trace, term.atom
    if not term.labels:
        return atom
    present = [label for label in labels if label in term.labels]
    perm = tuple(term.labels.index(label) for label in present)
    if perm != tuple(range(len(perm))):
        atom = trace.emit(p.transpose, atom, perm=perm)
    shape = tuple(extents[label] for label in labels)
    if atom.aval.shape == shape:
        return atom
    axes = tuple(k for k, label in enumerate(labels) if label in term.labels)
    return trace.emit(p.broadcast, atom, shape=shape, axes=axes)


def _arranged(term: Term, output: tuple[Label, ...], extents: dict[Label, Extent]) -> Atom:
    if set(term.labels) != set(output):
        raise FjitTypeError(f"einsum at {where()} left axes {term.labels} for {output}")
    return _aligned(term, output, extents)
