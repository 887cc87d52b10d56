"""The one tracer's record: equations are appended while the user's function runs.

A `Trace` is the only mutable builder of programs. Equal equations (same primitive, operands and
parameters) are recorded once, so `x[m] + y[m]` meets one symbol for both filters. Invariant: `emit`
checks every equation with its type rule before it is recorded.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, Final

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Aval, Eqn, Literal, Params, Primitive, Program, Source, Sym, Var
from fjit.errors import FjitError, FjitValueError

MAX_EQUATIONS: Final = 200_000
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NUMPY: Final = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_internal: dict[CodeType, bool] = {}


def _is_internal(code: CodeType) -> bool:
    known = _internal.get(code)
    if known is None:
        file = code.co_filename
        known = file.startswith((_PACKAGE, _NUMPY)) or file.startswith("<frozen")
        _internal[code] = known
    return known


def user_frame() -> FrameType | None:
    """The innermost frame that belongs neither to fjit nor to NumPy."""
    frame: FrameType | None = sys._getframe(1)
    known = _internal.get
    while frame is not None and (known(frame.f_code) or _is_internal(frame.f_code)):
        frame = frame.f_back
    return frame


def user_source() -> Source | None:
    """File, line and function of the user's code that runs now."""
    frame = user_frame()
    if frame is None:
        return None
    return _source(frame.f_code, frame.f_lineno)


@lru_cache(maxsize=4096)
def _source(code: CodeType, line: int) -> Source:
    return Source(code.co_filename, line, code.co_name)


def where() -> str:
    """The user's position as text, for error messages."""
    source = user_source()
    return "an unknown place" if source is None else str(source)


class Trace:
    """The equations recorded so far, the inputs, and the symbols by origin."""

    __slots__ = ("_known", "_literals", "eqns", "inputs", "open", "scope", "symbols")

    def __init__(self) -> None:
        self.inputs: list[Var] = []
        self.eqns: list[Eqn] = []
        self.symbols: dict[Var, Sym] = {}
        self.open = True
        self.scope = ""
        self._known: dict[tuple[object, ...], tuple[Var, ...]] = {}
        self._literals: dict[tuple[object, ...], Literal] = {}

    def add_input(self, aval: Aval) -> Var:
        """A new program input."""
        var = Var(aval)
        self.inputs.append(var)
        return var

    def literal(self, value: object, dtype: np.dtype, *, varies: bool = False) -> Literal:
        """The literal `value` of `dtype`; equal values (bitwise) share one object.

        One that `varies` with the shapes of arguments is a run-time argument of the code.
        """
        quick = None
        if type(value) in (int, float) and value:
            quick = (dtype, type(value), value, varies)
        if quick is not None and quick in self._literals:
            return self._literals[quick]
        with np.errstate(all="ignore"):
            scalar: Any = np.asarray(value).astype(dtype)[()]
        key = (dtype, scalar.tobytes(), varies)
        known = self._literals.get(key)
        if known is None:
            word = dtypes.word(scalar, dtype) if varies else None
            known = self._literals[key] = Literal(scalar, Aval((), dtype), word)
        if quick is not None:
            self._literals[quick] = known
        return known

    def symbol(self, origin: Var, bound: int) -> Sym:
        """The symbol for the number of elements that `origin` (a mask or counts) selects."""
        known = self.symbols.get(origin)
        if known is None:
            known = self.symbols[origin] = Sym(bound, origin)
        return known

    def emit(self, primitive: Primitive, *inputs: Atom, **params: object) -> Var:
        """Append `primitive[params] inputs`, or find it recorded already; gives its output."""
        items: Params = tuple(params.items())
        if len(items) > 1:
            items = tuple(sorted(items))
        key = (primitive, inputs, items)
        known = self._known.get(key)
        if known is not None:
            return known[0]
        source = user_source()
        try:
            aval = p.TYPE_RULES[primitive](*[a.aval for a in inputs], **params)
        except FjitError as error:
            raise type(error)(f"{error} (at {source})") from None
        if len(self.eqns) >= MAX_EQUATIONS:
            raise FjitValueError(
                f"the trace passed {MAX_EQUATIONS} equations at {source}: a Python loop is being "
                "unrolled. Use whole-array operations, fjit.fori_loop or fjit.scan."
            )
        outputs = (Var(aval),)
        self.eqns.append(Eqn(primitive, inputs, items, outputs, source, self.scope))
        self._known[key] = outputs
        return outputs[0]

    def program(self, outputs: tuple[Atom, ...]) -> Program:
        """The finished program; dead equations are left to the optimizer."""
        return Program(tuple(self.inputs), tuple(self.eqns), outputs)

    def inline(self, program: Program, inputs: tuple[Atom, ...]) -> tuple[Atom, ...]:
        """Record a program's equations here with `inputs` in place of its own."""
        env: dict[Atom, Atom] = dict(zip(program.inputs, inputs, strict=True))
        for eqn in program.eqns:
            outputs = self.emit(
                eqn.primitive, *[env.get(a, a) for a in eqn.inputs], **dict(eqn.params)
            )
            env[eqn.output] = outputs
        return tuple(env.get(a, a) for a in program.outputs)


class _Stack(threading.local):
    """The traces that are open in this thread, innermost last."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []


_stack = _Stack()
_lock = threading.Lock()
OPEN: Final = ctypes.c_int64(0)
"""How many traces are open in all threads: native code does not look into Python's thread data."""


def _after_fork_in_child() -> None:
    """No other thread lives on, nor does its trace."""
    global _lock  # noqa: PLW0603 - the child's own lock
    _lock = threading.Lock()
    OPEN.value = len(_stack.traces)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def current() -> Trace | None:
    """The innermost open trace of this thread."""
    return _stack.traces[-1] if _stack.traces else None


class open_trace:
    """`with open_trace() as trace:` makes a trace current and closes it at the end."""

    def __enter__(self) -> Trace:
        self.trace = Trace()
        with _lock:
            OPEN.value += 1
        _stack.traces.append(self.trace)
        return self.trace

    def __exit__(self, *_: object) -> None:
        _stack.traces.pop()
        with _lock:
            OPEN.value -= 1
        self.trace.open = False
