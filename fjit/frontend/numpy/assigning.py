"""Writing by index: `x[...] = value` with everything `x[...]` can read.

Takes a traced array, an index and a value, gives a new version of the array's buffer:

    x[1:] = 0        records      b = broadcast[...] 0.0;  c = update[starts=(1,)] a b
    x[x < 0] = 0     records      b = lt a 0.0;            c = select b 0.0 a

Invariant: the array keeps its shape and dtype; values are cast as NumPy's assignment casts them.
"""

from __future__ import annotations

from typing import Any

from fjit.core import primitives as p
from fjit.core.ir import Atom, Shape, Sym
from fjit.core.trace import where
from fjit.errors import FjitTypeError, FjitValueError, ShapeError, shape_text
from fjit.frontend.numpy.arrays import assigned
from fjit.frontend.numpy.indexing import (
    index_arrays,
    mask_symbol,
    moved_to_front,
    placement,
)
from fjit.frontend.numpy.indices import Advanced, Selection, parse
from fjit.frontend.operands import broadcast_to
from fjit.frontend.session import current
from fjit.frontend.tracer import SETITEM, Tracer


def setitem(x: Tracer, index: Any, value: Any) -> None:
    """`x[index] = value`."""
    if x.is_scalar:
        name = x.weak.__name__ if x.weak else f"numpy.{x.dtype.name}"
        raise FjitTypeError(f"'{name}' object does not support item assignment, at {where()}")
    selection = parse(x, index)
    view = selection.view
    atom = assigned(value, view.dtype)
    if not selection.advanced:
        view.assign(fitted(atom, view.static_shape))
        return
    lone = selection.advanced[0]
    if len(selection.advanced) == 1 and lone.is_mask:
        view.assign(_masked(view, lone, selection.place, atom))
    else:
        view.assign(_scattered(selection, atom))


SETITEM.append(setitem)


def fitted(atom: Atom, shape: Shape) -> Atom:
    """A value broadcast to the shape it is written to; leading axes of extent 1 may go."""
    own = atom.aval.shape
    if own == shape:
        return atom
    atom = _without_leading_ones(atom, len(shape))
    extents = zip(reversed(atom.aval.shape), reversed(shape), strict=False)
    if atom.aval.ndim > len(shape) or any(e != 1 and e != t for e, t in extents):
        raise misfit(own, shape)
    return broadcast_to(atom, shape)


def _without_leading_ones(atom: Atom, ndim: int) -> Atom:
    shape = atom.aval.shape
    while len(shape) > ndim and shape[0] == 1:
        shape = shape[1:]
    if shape == atom.aval.shape:
        return atom
    return current().trace.emit(p.reshape, atom, shape=shape)


def misfit(own: Shape, shape: Shape) -> ShapeError:
    """The error for a value that does not broadcast to the place it is written to."""
    return ShapeError(
        f"could not broadcast input array from shape {shape_text(own)} into shape "
        f"{shape_text(shape)}, at {where()}"
    )


# ---- masks ------------------------------------------------------------------------------------


def _masked(view: Tracer, entry: Advanced, place: int, value: Atom) -> Atom:
    """The view with `value` where the mask holds."""
    base, mask, axes = view.atom, entry.atom, entry.axes
    shape = base.aval.shape
    rest = tuple(k for k in range(len(shape)) if k not in axes)
    kept = tuple(shape[k] for k in rest)
    symbol = mask_symbol(mask)
    target = (*kept[:place], symbol, *kept[place:])
    value = _without_leading_ones(value, len(target))
    at = place - len(target) + value.aval.ndim
    along = value.aval.shape[at] if at >= 0 else 1
    if along is symbol:
        return _expanded(base, mask, axes, place, fitted(value, target))
    if along != 1:
        raise _mask_length(value.aval.shape, along)
    if at >= 0:
        own = value.aval.shape
        value = current().trace.emit(p.reshape, value, shape=(*own[:at], *own[at + 1 :]))
    return replaced(base, mask, axes, value if not value.aval.shape else fitted(value, kept))


def replaced(base: Atom, mask: Atom, axes: tuple[int, ...], value: Atom) -> Atom:
    """`base` with `value` (rank 0, or over the other axes) where a mask over `axes` holds."""
    trace, shape = current().trace, base.aval.shape
    rest = tuple(k for k in range(len(shape)) if k not in axes)
    if mask.aval.shape != shape:
        mask = trace.emit(p.broadcast, mask, shape=shape, axes=axes)
    if value.aval.shape and value.aval.shape != shape:
        value = trace.emit(p.broadcast, value, shape=shape, axes=rest)
    return trace.emit(p.select, mask, value, base)


def _expanded(base: Atom, mask: Atom, axes: tuple[int, ...], place: int, value: Atom) -> Atom:
    """`base` with the k-th row of `value` at the k-th true element of the mask."""
    trace = current().trace
    value = moved_to_front(value, (place,))
    moved = moved_to_front(base, axes)
    out = trace.emit(p.expand, mask, value, moved)
    return _moved_back(out, axes)


def _moved_back(atom: Atom, axes: tuple[int, ...]) -> Atom:
    """Undo `moved_to_front`."""
    order = (*axes, *[k for k in range(atom.aval.ndim) if k not in axes])
    if order == tuple(range(len(order))):
        return atom
    perm = tuple(order.index(k) for k in range(len(order)))
    return current().trace.emit(p.transpose, atom, perm=perm)


def _mask_length(shape: Shape, extent: object) -> FjitValueError:
    if isinstance(extent, Sym):
        seen = "was selected with another mask"
    else:
        seen = f"has {extent} elements along the masked axis"
    return FjitValueError(
        f"assigning an array of shape {shape_text(shape)} under a boolean mask, at {where()}: the "
        f"value {seen}, and whether that is the number of true elements is known only at run "
        "time. Assign a scalar, a row, or a value selected with the same mask (x[m] = f(y[m])); "
        "np.place(x, m, values) repeats values as needed."
    )


# ---- index arrays -----------------------------------------------------------------------------


def _scattered(selection: Selection, value: Atom) -> Atom:
    """The view with `value` at the indexed positions; later ones win."""
    trace, base = current().trace, selection.view.atom
    axes, positions = index_arrays(selection.advanced)
    indexed = positions[0].aval.shape
    rest = tuple(e for k, e in enumerate(base.aval.shape) if k not in axes)
    place, count = selection.place, len(indexed)
    value = fitted(value, (*rest[:place], *indexed, *rest[place:]))
    if place:
        perm = placement(value.aval.ndim, count, place)
        back = tuple(perm.index(k) for k in range(len(perm)))
        value = trace.emit(p.transpose, value, perm=back)
    return trace.emit(p.scatter, base, value, *positions, axes=axes, op="set")


def check_writeable(x: Any, name: str) -> Tracer:
    """The traced array that np.put and its kin write into; others are refused by name."""
    if isinstance(x, Tracer) and not x.is_scalar:
        return x
    raise FjitTypeError(
        f"{name} at {where()} writes into its first argument, which must be an array of the "
        f"fused function, not {type(x).__name__}"
    )
