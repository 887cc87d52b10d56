"""One tracing session: the trace, the buffers of its arguments, and the arrays it captured.

Takes argument descriptions, gives traced arguments; at the end it knows the program's outputs, the
write-backs and which array each captured input comes from. One session is current per thread.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from fjit import errors
from fjit.core import dtypes
from fjit.core.ir import Atom, Aval, Var
from fjit.core.trace import Trace, where
from fjit.errors import LeakedTracerError, leaked_error
from fjit.frontend.layout import Strides, c_strides
from fjit.frontend.paths import Path


@dataclass(slots=True, eq=False)
class Buffer:
    """Memory that traced arrays share: its present value, its strides, and who owns it.

    `argument` is the position among the program's inputs for an argument or a captured array;
    `version` grows with every write; strides count elements; `swapped` marks an array that NumPy
    would keep in foreign byte order.
    """

    value: Atom
    strides: Strides
    writeable: bool = True
    argument: int | None = None
    version: int = 0
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class Capture:
    """A program input that is not an argument: an array read from outside the function.

    `array` is the object met while tracing. With `path` the array is fetched anew at every call
    (a global, a closure cell); without it the array was made inside the function and is constant.
    """

    array: np.ndarray[Any, Any]
    path: Path | None


@dataclass(frozen=True, slots=True)
class Branch:
    """A decision that Python code took on a traced scalar: its value in this trace, and where."""

    atom: Atom
    value: bool | int
    where: str


@dataclass(slots=True)
class Session:
    """State of the function being traced.

    `aliases` pairs the path of a captured array with the input that is the same array.
    With `evaluate` (the value of an atom for the arguments at hand) Python code may branch on
    traced scalars; each such decision is one of `branches` and guards the trace.
    """

    trace: Trace
    inputs: list[Buffer] = field(default_factory=list)
    captures: dict[int, Capture] = field(default_factory=dict)
    int_ranges: dict[Var, tuple[int, int]] = field(default_factory=dict)
    branches: list[Branch] = field(default_factory=list)
    evaluate: Callable[[Atom], Any] | None = None
    refusal: Callable[[BaseException], None] | None = None
    constants: dict[Atom, np.ndarray[Any, Any]] = field(default_factory=dict)
    """Arrays written as lists in the function: their contents are known while tracing."""
    aliases: list[tuple[Path, int]] = field(default_factory=list)
    _by_id: dict[int, Buffer] = field(default_factory=dict)
    _arguments: dict[tuple[Any, ...], Buffer] = field(default_factory=dict)

    def add_input(self, aval: Aval, strides: Strides, writeable: bool) -> Buffer:
        """A buffer for the next program input."""
        buffer = Buffer(self.trace.add_input(aval), strides, writeable, len(self.inputs))
        self.inputs.append(buffer)
        return buffer

    def capture(
        self,
        array: np.ndarray[Any, Any],
        path: Path | None = None,
    ) -> Buffer:
        """The buffer of an array met during the trace; the same object gives the same buffer."""
        known = self._by_id.get(id(array)) or self._arguments.get(place_of(array))
        if known is not None:
            if path is not None and known.argument is not None:
                self.aliases.append((path, known.argument))
            return known
        dtype = dtypes.canonical(array.dtype, "a captured array")
        strides = element_strides(array)
        buffer = self.add_input(Aval(array.shape, dtype), strides, array.flags.writeable)
        buffer.swapped = not array.dtype.isnative
        self.captures[len(self.inputs) - 1] = Capture(array, path)
        self._by_id[id(array)] = buffer
        return buffer

    def register_argument(self, array: np.ndarray[Any, Any], buffer: Buffer) -> Buffer:
        """Let later meetings of the same array find the argument's buffer; gives the first one.

        Two arrays are the same if they show the same memory in the same way.
        """
        first = self._arguments.setdefault(place_of(array), buffer) if array.size else buffer
        self._by_id[id(array)] = first
        return first


def place_of(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Which memory an array shows, and how."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def element_strides(array: np.ndarray[Any, Any]) -> Strides:
    """Strides of an array in elements; fractions where a record's field has odd byte strides."""
    if array.flags.c_contiguous:
        return c_strides(array.shape)
    size = array.itemsize
    if all(s % size == 0 for s in array.strides):
        return tuple(s // size for s in array.strides)
    odd: Strides = tuple(Fraction(s, size) for s in array.strides)  # type: ignore[misc]
    return odd  # they are only compared and multiplied, which fractions do as ints do


class _Stack(threading.local):
    def __init__(self) -> None:
        self.sessions: list[Session] = []


_stack = _Stack()


def _record(error: BaseException) -> None:
    if _stack.sessions and _stack.sessions[-1].refusal is not None:
        _stack.sessions[-1].refusal(error)


errors.RECORDERS.append(_record)


def current() -> Session:
    """The current session; raises LeakedTracerError outside of one."""
    if not _stack.sessions:
        raise LeakedTracerError(
            f"a traced array is used at {where()} outside of the function that made it; it leaked "
            "out through a global, closure or attribute. Return it instead."
        )
    return _stack.sessions[-1]


def is_tracing() -> bool:
    """Whether a session is open in this thread."""
    return bool(_stack.sessions)


def leaked(trace: Trace, value: Atom) -> LeakedTracerError:
    """The error for a value that is used after its trace has ended; it names where it was made."""
    for eqn in trace.eqns:
        if value in eqn.outputs and eqn.source is not None:
            return leaked_error(str(eqn.source))
    return leaked_error("the call itself: it is an argument or a captured array")


class open_session:
    """`with open_session(trace) as session:` makes a session current."""

    def __init__(self, trace: Trace) -> None:
        self.session = Session(trace)

    def __enter__(self) -> Session:
        _stack.sessions.append(self.session)
        return self.session

    def __exit__(self, *_: object) -> None:
        _stack.sessions.pop()
