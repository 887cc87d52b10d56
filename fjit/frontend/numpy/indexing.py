"""Reading by index: `x[...]` with integers, slices, new axes, masks and index arrays.

Takes a traced array and an index, gives a view for basic indices, a copy for advanced ones:

    f(x) = x[x > 0]      records      c = gt a 0.0;  d:f64[n<=8] = compress[extent=n] c a

Invariant: equal masks share one symbol, so results selected by one mask fit each other.
"""

from __future__ import annotations

from typing import Any

from fjit.core import primitives as p
from fjit.core.ir import Atom, Shape, Sym, Var
from fjit.core.trace import where
from fjit.errors import FjitIndexError, FjitTypeError, ShapeError, shape_text
from fjit.frontend.layout import Strides, axis_order, ordered_strides
from fjit.frontend.numpy import arrays
from fjit.frontend.numpy.indices import Advanced, Selection, parse
from fjit.frontend.operands import broadcast_shapes, broadcast_to
from fjit.frontend.session import current
from fjit.frontend.tracer import GETITEM, Tracer, fresh


def getitem(x: Tracer, index: Any) -> Any:
    """`x[index]`."""
    if x.weak is not None:
        raise FjitTypeError(f"'{x.weak.__name__}' object is not subscriptable, at {where()}")
    selection = parse(x, index)
    view = selection.view
    if selection.advanced:
        return _select(selection)
    if selection.is_scalar:
        return fresh(view.atom)
    if selection.listed is not None:
        return arrays.array(view.atom, _listed_strides(view, selection.listed))
    if selection.is_copy or x.is_scalar:
        return arrays.copy(view)
    return view


GETITEM.append(getitem)


def _listed_strides(view: Tracer, axis: int) -> Strides:
    """NumPy lays out the indexed axis first, then the others in their own order."""
    order = axis_order(view.element_strides)
    return ordered_strides(view.static_shape, (axis, *[k for k in order if k != axis]))


def _select(selection: Selection) -> Tracer:
    view = selection.view
    lone = selection.advanced[0]
    if len(selection.advanced) == 1 and lone.is_mask:
        axes = lone.axes
        picked = compress(lone.atom, moved_to_front(view.atom, axes))
        count = 1
    else:
        axes, positions = index_arrays(selection.advanced)
        picked = current().trace.emit(p.gather, view.atom, *positions, axes=axes)
        count = positions[0].aval.ndim
    if not picked.aval.shape:
        return fresh(picked)
    strides = _advanced_strides(view, axes, picked.aval.shape, count)
    return arrays.array(*_placed(picked, strides, count, selection.place))


def _advanced_strides(view: Tracer, axes: tuple[int, ...], shape: Shape, count: int) -> Strides:
    """Indexed axes outermost in C order, the rest as the array has them."""
    own = view.element_strides
    rest = axis_order(tuple(s for k, s in enumerate(own) if k not in axes))
    return ordered_strides(shape, (*range(count), *[count + k for k in rest]))


def _placed(atom: Atom, strides: Strides, count: int, place: int) -> tuple[Atom, Strides]:
    """Move the first `count` axes to `place` among the others."""
    if not place:
        return atom, strides
    perm = placement(atom.aval.ndim, count, place)
    return current().trace.emit(p.transpose, atom, perm=perm), tuple(strides[k] for k in perm)


def placement(ndim: int, count: int, place: int) -> tuple[int, ...]:
    """The permutation that moves the first `count` axes behind `place` of the others."""
    rest = range(count, ndim)
    return (*rest[:place], *range(count), *rest[place:])


def moved_to_front(atom: Atom, axes: tuple[int, ...]) -> Atom:
    """`atom` with the given axes first."""
    rest = tuple(k for k in range(atom.aval.ndim) if k not in axes)
    perm = (*axes, *rest)
    if perm == tuple(range(len(perm))):
        return atom
    return current().trace.emit(p.transpose, atom, perm=perm)


def mask_symbol(mask: Atom) -> Sym:
    """The number of true elements of a mask; the same symbol for the same mask."""
    assert isinstance(mask, Var), "masks have at least one axis"
    return current().trace.symbol(mask, mask.aval.bound)


def compress(mask: Atom, atom: Atom) -> Atom:
    """The elements of `atom` under a mask over its leading axes."""
    return current().trace.emit(p.compress, mask, atom, extent=mask_symbol(mask))


def mask_positions(mask: Atom) -> list[Atom]:
    """np.nonzero of a traced mask: one array of positions per axis."""
    shape, trace = mask.aval.shape, current().trace
    return [
        compress(mask, trace.emit(p.iota, shape=shape, axis=axis)) for axis in range(len(shape))
    ]


def index_arrays(advanced: tuple[Advanced, ...]) -> tuple[tuple[int, ...], list[Atom]]:
    """The indexed axes and, for each, its positions, broadcast to one shape."""
    axes: list[int] = []
    positions: list[Atom] = []
    for entry in advanced:
        axes.extend(entry.axes)
        positions.extend(mask_positions(entry.atom) if entry.is_mask else [entry.atom])
    shapes = [a.aval.shape for a in positions]
    try:
        shape = broadcast_shapes(*shapes)
    except ShapeError:
        raise _index_mismatch(shapes) from None
    return tuple(axes), [broadcast_to(a, shape) for a in positions]


def _index_mismatch(shapes: list[Shape]) -> FjitIndexError:
    text = " ".join(map(shape_text, shapes))
    masked = any(isinstance(e, Sym) for shape in shapes for e in shape)
    advice = (
        ". The number of true elements of a mask is known only at run time: combine masks with &, "
        "or index in two steps, x[m][:, other]"
    )
    return FjitIndexError(
        "shape mismatch: indexing arrays could not be broadcast together with shapes "
        f"{text}, at {where()}{advice if masked else ''}"
    )
