"""From a Python function and its arguments to a traced program with everything a call needs.

Takes a callable and concrete arguments, gives `Traced`: the program, where its inputs come from,
what its outputs become (arrays, scalars, views of arguments, write-backs, static objects) and the
tree of the result. Invariant: the arguments themselves are never read or changed by tracing.

    f(x) = x.sum()      gives      program { lambda a:f64[3] . let b = reduce[...] a in (b,) }
                                   results (Result(output=0, is_scalar=True),)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import optree

from fjit.core import dtypes, tree
from fjit.core.interpreter import interpret, needed
from fjit.core.ir import Atom, Aval, Program
from fjit.core.placed import on_host
from fjit.core.region import Region
from fjit.core.trace import Trace, open_trace
from fjit.errors import UnsupportedError, complex_error, dtype_error
from fjit.frontend import operands, overlap, views
from fjit.frontend.layout import k_order
from fjit.frontend.paths import Path
from fjit.frontend.session import (
    Branch,
    Buffer,
    Capture,
    Session,
    element_strides,
    open_session,
)
from fjit.frontend.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Result:
    """One leaf of the function's result.

    `output` is a program output, laid out with axes in `order` (outermost first); or `argument` a
    program input whose array, seen through `steps`, is the result; or neither, and `static` is it.
    """

    output: int | None = None
    order: tuple[int, ...] = ()
    is_scalar: bool = False
    swapped: bool = False
    weak: type | None = None
    argument: int | None = None
    steps: tuple[views.Step, ...] = ()
    static: Any = None


class Write(NamedTuple):
    """An input, and the output that holds its new contents, or those of a region of it."""

    position: int
    output: int
    region: Region | None = None

    def of(self, array: Any) -> Any:
        """The part of an array that is written."""
        return array if self.region is None else self.region.of(array)


@dataclass(frozen=True, slots=True)
class Traced:
    """A traced function: see the module's docstring.

    `writes` are the inputs that get new contents, and the program outputs that hold them;
    `int_ranges` are the ranges that Python int arguments (by input position) must stay in,
    `branches` the decisions on traced scalars that the trace is valid for, `aliases` the captured
    arrays that are arguments as well (by input position).
    """

    program: Program
    captures: dict[int, Capture]
    results: tuple[Result, ...]
    result_tree: optree.PyTreeSpec
    writes: tuple[Write, ...]
    int_ranges: tuple[tuple[int, int, int], ...]
    branches: tuple[Branch, ...] = ()
    aliases: tuple[tuple[Path, int], ...] = ()


def input_aval(value: Any, what: str) -> tuple[Aval, type | None]:
    """The aval of an argument leaf and its weak Python type; raises UnsupportedError."""
    kind = type(value)
    if kind in operands.DEFAULTS:
        if kind is int and not -(2**63) <= value < 2**63:
            raise UnsupportedError(
                f"{what} is the Python int {value}, outside int64: pass an array of dtype uint64 "
                "or name the argument in static_argnames"
            )
        return Aval((), operands.DEFAULTS[kind]), kind
    if isinstance(value, np.ma.MaskedArray):
        raise dtype_error("masked array", what)
    if isinstance(value, np.matrix):
        raise UnsupportedError(
            f"{what} is a np.matrix, whose * is the matrix product: pass np.asarray(m) and write @"
        )
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.fields is not None:
            raise dtype_error(value.dtype, what)
        return Aval(value.shape, dtypes.canonical(value.dtype, what)), None
    if kind is complex:
        raise complex_error(f"{what} is the number {value}")
    raise UnsupportedError(
        f"{what} is a {kind.__name__}: fused functions take arrays, numbers and containers of "
        "them; name an argument that is none of these in static_argnames"
    )


def make_argument(session: Session, value: Any, what: str) -> Tracer:
    """A traced argument for one concrete leaf."""
    aval, weak = input_aval(value, what)
    is_array = isinstance(value, np.ndarray)
    strides = element_strides(value) if is_array else ()
    buffer = session.add_input(aval, strides, value.flags.writeable if is_array else False)
    if is_array:
        buffer.swapped = not value.dtype.isnative
        buffer = session.register_argument(value, buffer)
    return Tracer(session.trace, buffer, weak=weak, is_scalar=not is_array)


def trace_function(
    call: Callable[[list[Any]], Any],
    leaves: Sequence[Any],
    names: Sequence[str],
    prepare: Callable[[Session], None] = lambda session: None,
    sharing: overlap.Groups = (),
    places: Sequence[int] = (),
    follow: bool = False,
) -> Traced:
    """Trace `call`, which is given one traced value per leaf of the arguments.

    `names` describe the leaves in error messages. `prepare` sees the session when the arguments
    are its inputs (rebinding, which adds captured arrays, hooks in there). `sharing` are groups of
    leaves that share memory, `places` the leaves' positions in the call (see overlap.share). One
    array passed twice is one buffer in any case. With `follow` Python branches on traced scalars
    go the way of the leaves at hand.
    """
    with open_trace() as trace, open_session(trace) as session:
        pairs = zip(leaves, names, strict=True)
        arguments = [make_argument(session, leaf, f"argument {name}") for leaf, name in pairs]
        if follow:
            session.evaluate = lambda atom: _value(trace, session, leaves, atom)
        overlap.share(session, leaves, arguments, sharing, places)
        prepare(session)
        return _finish(trace, session, call(list(arguments)))


def _finish(trace: Trace, session: Session, result: Any) -> Traced:
    leaves, spec = tree.flatten(result)
    outputs: list[Atom] = []
    results = tuple(_result(session, leaf, outputs) for leaf in leaves)
    writes = []
    for position, buffer in enumerate(session.inputs):
        if buffer.version:
            writes.append(Write(position, len(outputs)))
            outputs.append(buffer.value)
    positions = {buffer.value: k for k, buffer in enumerate(session.inputs) if not buffer.version}
    ranges = tuple(
        (positions[var], low, high)
        for var, (low, high) in session.int_ranges.items()
        if var in positions
    )
    program = trace.program(tuple(outputs))
    branches = tuple(session.branches)
    captures = dict(session.captures)
    aliases = tuple(session.aliases)
    return Traced(program, captures, results, spec, tuple(writes), ranges, branches, aliases)


def _value(trace: Trace, session: Session, leaves: Sequence[Any], atom: Atom) -> Any:
    """The value of an atom for the arguments at hand, by the interpreter."""
    arrays = [session.captures[k].array for k in range(len(leaves), len(session.inputs))]
    (value,) = interpret(needed(trace.program((atom,))), *map(on_host, (*leaves, *arrays)))
    return value.reshape(())[()]


def _result(session: Session, leaf: Any, outputs: list[Atom]) -> Result:
    if isinstance(leaf, Tracer):
        return _traced_result(leaf, outputs)
    if isinstance(leaf, np.ndarray):
        buffer = session.capture(leaf)
        return Result(argument=buffer.argument)
    return Result(static=leaf)


def _traced_result(leaf: Tracer, outputs: list[Atom]) -> Result:
    buffer: Buffer = leaf.buffer
    is_picked = any(isinstance(step, views.Pick) for step in leaf.steps)
    if buffer.argument is not None and not is_picked:
        head = leaf.steps[0] if leaf.steps else None
        if isinstance(head, overlap.Strided):
            return Result(argument=head.leaf, steps=leaf.steps[1:])
        return Result(
            argument=buffer.argument, steps=leaf.steps, is_scalar=leaf.is_scalar, weak=leaf.weak
        )
    atom = leaf.atom
    strides = leaf.element_strides
    order = k_order(len(strides), [strides])  # the repeated axes of a broadcast stay in place
    outputs.append(atom)
    return Result(
        len(outputs) - 1,
        order,
        leaf.is_scalar and not atom.aval.shape,
        leaf.buffer.swapped,
        leaf.weak,
    )
