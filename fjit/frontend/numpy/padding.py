"""np.pad in all its modes, as pads, slices and joins.

Takes a traced array, widths and a mode, gives a copy:

    np.pad(x, 1)               records      b = pad[low=(1,) high=(1,)] a 0.0
    np.pad(x, 1, "edge")       records      slices of the first and last element joined to a

Invariant: axes are padded one after the other, so corners are what NumPy puts there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import Literal
from fjit.core.trace import where
from fjit.errors import FjitTypeError, FjitValueError, unsupported_function
from fjit.frontend.numpy import arrays
from fjit.frontend.numpy.arrays import as_tracer, assigned, axis_of, static_int
from fjit.frontend.numpy.joining import join, rearranged
from fjit.frontend.session import current
from fjit.frontend.tracer import FUNCTIONS, UFUNCS, Tracer, implements, require_static

Widths = list[tuple[int, int]]
Pairs = list[tuple[Any, Any]]
MAPPED: Final = ("edge", "wrap", "reflect", "symmetric")
STATISTICS: Final[dict[str, Any]] = {
    "maximum": np.max,
    "minimum": np.min,
    "mean": np.mean,
    "median": np.median,
}
KEYWORDS: Final[dict[str, tuple[str, ...]]] = {
    "constant": ("constant_values",),
    "empty": (),
    "edge": (),
    "wrap": (),
    "linear_ramp": ("end_values",),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    **{name: ("stat_length",) for name in STATISTICS},
}


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tracer:
    """See np.pad."""
    x = as_tracer(array)
    widths = _widths(pad_width, x.ndim)
    if callable(mode):
        raise unsupported_function("np.pad with a function", "join the parts yourself", where())
    if mode not in KEYWORDS:
        raise FjitValueError(f"mode '{mode}' is not supported, at {where()}")
    unknown = set(kwargs) - set(KEYWORDS[mode])
    if unknown:
        raise FjitValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    for axis, width in enumerate(widths):
        if any(width):
            require_static(x.static_shape[axis], "np.pad")
    fortran = arrays.is_fortran_only(x.static_shape, x.element_strides)
    return arrays.copy(_padded(x, widths, mode, kwargs), "F" if fortran else "C")


def _padded(x: Tracer, widths: Widths, mode: str, options: dict[str, Any]) -> Tracer:
    if mode in ("constant", "empty"):
        return _constant(x, widths, pairs(options.get("constant_values", 0), x.ndim))
    _refuse_empty(x, widths, mode)
    if mode in MAPPED:
        return _mapped(x, widths, mode, options.get("reflect_type", "even"))
    if mode == "linear_ramp":
        ends = pairs(options.get("end_values", 0), x.ndim)
        return _axis_by_axis(x, widths, lambda a, axis, w: _ramps(a, axis, w, ends[axis]))
    lengths = pairs(options.get("stat_length"), x.ndim)
    return _axis_by_axis(x, widths, lambda a, axis, w: _statistics(a, axis, w, mode, lengths[axis]))


def _refuse_empty(x: Tracer, widths: Widths, mode: str) -> None:
    for axis, (extent, width) in enumerate(zip(x.static_shape, widths, strict=True)):
        if extent == 0 and any(width):
            raise FjitValueError(
                f"can't extend empty axis {axis} using modes other than 'constant' or 'empty', "
                f"at {where()}: the mode is '{mode}'"
            )


def _widths(given: Any, ndim: int) -> Widths:
    if isinstance(given, dict):
        found: Widths = [(0, 0)] * ndim
        for axis, width in given.items():
            found[axis_of(axis, ndim)] = _widths(width, 1)[0]
        return found
    found = [
        (static_int(a, "pad_width"), static_int(b, "pad_width")) for a, b in pairs(given, ndim)
    ]
    if any(a < 0 or b < 0 for a, b in found):
        raise FjitValueError(f"index can't contain negative values, at {where()}")
    return found


def pairs(given: Any, ndim: int) -> Pairs:
    """NumPy's forms of per-axis options: one value, (v,), (before, after), or a pair per axis."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, (tuple, list)):
        return [(given, given)] * ndim
    rows = [v if isinstance(v, (tuple, list)) else (v,) for v in map(_plain, given)]
    if all(len(row) == 1 for row in rows):
        flat = [row[0] for row in rows]
        nested = any(isinstance(v, (tuple, list)) for v in given)
        if len(flat) == 1:
            return [(flat[0], flat[0])] * ndim
        if nested and len(flat) == ndim:
            return [(v, v) for v in flat]
        if not nested and len(flat) == 2:
            return [(flat[0], flat[1])] * ndim
    elif all(len(row) == 2 for row in rows):
        if len(rows) == 1:
            return [(rows[0][0], rows[0][1])] * ndim
        if len(rows) == ndim:
            return [(row[0], row[1]) for row in rows]
    raise FjitValueError(
        f"operands could not be broadcast together: np.pad at {where()} takes one value, "
        f"(before, after), or such a pair for each of the {ndim} axes"
    )


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


# ---- modes ------------------------------------------------------------------------------------


def _constant(x: Tracer, widths: Widths, values: Pairs) -> Tracer:
    atoms = [tuple(assigned(v, x.dtype) for v in pair) for pair in values]
    if any(a.aval.shape for pair in atoms for a in pair):
        raise FjitTypeError(f"constant_values at {where()} must be scalars")
    trace = current().trace
    used = {
        a: None for pair, width in zip(atoms, widths, strict=True)
        for a, w in zip(pair, width, strict=True) if w
    }  # fmt: skip
    if len(used) <= 1:
        value = next(iter(used), trace.literal(0, x.dtype))
        low, high = tuple(w[0] for w in widths), tuple(w[1] for w in widths)
        return arrays.array(trace.emit(p.pad, x.atom, value, low=low, high=high))
    for axis, width in enumerate(widths):
        for side in (0, 1):
            if width[side]:
                one = [0] * x.ndim
                one[axis] = width[side]
                none = (0,) * x.ndim
                low, high = (tuple(one), none) if side == 0 else (none, tuple(one))
                atom = trace.emit(p.pad, x.atom, atoms[axis][side], low=low, high=high)
                x = arrays.array(atom)
    return x


def _mapped(x: Tracer, widths: Widths, mode: str, reflect_type: str) -> Tracer:
    """Modes that copy elements: NumPy's own np.pad of the positions says which."""
    if reflect_type != "even":
        raise unsupported_function(
            "np.pad with reflect_type='odd'", "use 'even', or 2 * edge - np.pad(...)", where()
        )
    for axis, width in enumerate(widths):
        if any(width):
            extent = require_static(x.static_shape[axis], "np.pad")
            positions: Any = np.pad(np.arange(extent), width, mode=mode)  # type: ignore[call-overload]
            x = rearranged(x, axis, positions)
    return x


Part = Callable[[Tracer, int, tuple[int, int]], tuple[Tracer | None, Tracer | None]]


def _axis_by_axis(x: Tracer, widths: Widths, sides: Part) -> Tracer:
    for axis, width in enumerate(widths):
        if any(width):
            before, after = sides(x, axis, width)
            x = join([part for part in (before, x, after) if part is not None], axis, x.dtype)
    return x


def _ramps(
    x: Tracer, axis: int, width: tuple[int, int], ends: tuple[Any, Any]
) -> tuple[Tracer | None, Tracer | None]:
    extent = require_static(x.static_shape[axis], "np.pad")
    sides: list[Tracer | None] = []
    for side, at in ((0, 0), (1, extent - 1)):
        if not width[side]:
            sides.append(None)
            continue
        edge = arrays.drop_view(arrays.slice_axis(x, axis, at, 1), (axis,))
        end = ends[side]
        if isinstance(end, Literal):
            end = end.value
        ramp = FUNCTIONS[np.linspace](
            end, edge, num=width[side], endpoint=False, dtype=x.dtype, axis=axis
        )
        sides.append(FUNCTIONS[np.flip](ramp, axis) if side else ramp)
    return sides[0], sides[1]


def _statistics(
    x: Tracer, axis: int, width: tuple[int, int], mode: str, lengths: tuple[Any, Any]
) -> tuple[Tracer | None, Tracer | None]:
    extent = require_static(x.static_shape[axis], "np.pad")
    sides: list[Tracer | None] = []
    for side in (0, 1):
        if not width[side]:
            sides.append(None)
            continue
        length = extent if lengths[side] is None else static_int(lengths[side], "stat_length")
        length = min(length, extent)
        if length == 0 and mode in ("maximum", "minimum"):
            raise FjitValueError(f"stat_length of 0 yields no value for padding, at {where()}")
        chunk = arrays.slice_axis(x, axis, (extent - length) if side else 0, length)
        value = FUNCTIONS[STATISTICS[mode]](chunk, axis=axis, keepdims=True)
        if x.dtype.kind in "iu" and value.dtype.kind == "f":
            value = UFUNCS["rint"](value)
        shape = list(x.static_shape)
        shape[axis] = width[side]
        sides.append(arrays.broadcast_view(arrays.as_dtype(value, x.dtype), tuple(shape)))
    return sides[0], sides[1]
