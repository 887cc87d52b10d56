"""Random well-typed NumPy functions with arguments.

Takes choices, gives a `RandomProgram`: source text, the function compiled from it, and arguments in
random layouts. Invariant: NumPy itself runs the function on the arguments without an error.

    def program(a, b, s):
        v0 = a[::-1] * b
        v1 = np.sum(v0, axis=0)
        return v1
"""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fjit.oracle.choose import Choose, scrambled
from fjit.oracle.memory import LAYOUTS, clone, lay_out
from fjit.oracle.statements import STATEMENTS
from fjit.oracle.strategies import DTYPES, choose_shape, choose_values, strategy
from fjit.oracle.writer import Writer

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

MAX_STATEMENTS: Final = 12
ENDS: Final = (None,)
"""Among the statements to choose from: the end of the program."""
SHOWN: Final = 64
LARGE: Final = ((40_000,), (300, 130), (3, 17_000), (17_000, 3), (20, 30, 67))
"""Shapes that are worth a second thread."""
PLACES: Final = ("C", "C", "C", *LAYOUTS)


class RandomProgram:
    """A function with arguments.

    Attributes:
        source: Python source of the function.
        arguments: Arrays and numbers to call it with.
        function: The function; tracebacks show its lines.
    """

    def __init__(self, source: str, arguments: tuple[Any, ...], shown: tuple[str, ...]) -> None:
        self.source = source
        self.arguments = arguments
        self.function = compile_source(source)
        self._shown = shown

    def __repr__(self) -> str:
        return f"\n{self.source}\nprogram(\n    {f',{chr(10)}    '.join(self._shown)},\n)\n"


def compile_source(source: str) -> Callable[..., Any]:
    """The function `program` of a source text."""
    name = f"<program {hashlib.sha256(source.encode()).hexdigest()[:12]}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np, "__name__": "program"}
    exec(compile(source, name, "exec"), space)
    function: Callable[..., Any] = space["program"]
    return function


def build(choose: Choose) -> RandomProgram:
    """One program made of choices."""
    seed = choose.integer(0, 2**32 - 1)
    arguments, shown = _arguments(scrambled(choose, seed), seed)
    names = tuple("abcs"[k] if k < 3 else "s" for k in range(len(arguments)))
    scalars = tuple(n for n, v in zip(names, arguments, strict=True) if not hasattr(v, "dtype"))
    values = dict(zip(names, clone(arguments), strict=True))
    writer = Writer(choose, values, scalars)
    choose.pick(STATEMENTS)(writer)
    for _ in range(MAX_STATEMENTS - 1):
        statement = choose.pick((*ENDS, *STATEMENTS))
        if statement is None:
            break
        statement(writer)
    lines = [f"    {line}\n" for line in writer.lines]
    source = f"def program({', '.join(names)}):\n{''.join(lines)}    return {_returned(writer)}\n"
    return RandomProgram(source, tuple(arguments), shown)


def _arguments(choose: Choose, seed: int) -> tuple[list[Any], tuple[str, ...]]:
    """One to three arrays of related shapes, and perhaps a Python number; and their texts."""
    shape = choose.pick(LARGE) if choose.chance(20) else choose_shape(choose)
    values: list[Any] = []
    shown = []
    for _ in range(choose.pick((2, 1, 3))):
        dtype, layout = choose.pick(DTYPES), choose.pick(PLACES)
        array = lay_out(choose_values(choose, shape, dtype, seed + len(values)), layout)
        values.append(array)
        shown.append(_text(array, layout))
        shape = _related(choose, shape)
    if choose.chance(3):
        number = choose.pick((2, 1.5, 0.25, 3))
        values.append(number)
        shown.append(repr(number))
    return values, tuple(shown)


def _related(choose: Choose, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that is the same, broadcasts, or is another."""
    how = choose.pick(("same", "same", "last", "ones", "other"))
    if how == "other":
        return choose_shape(choose)
    if how == "last":
        return shape[-1:]
    if how == "ones" and shape:
        return (*shape[:-1], 1)
    return shape


def _text(array: Any, layout: str) -> str:
    size = array.size
    text = repr(array.tolist()) if size <= SHOWN else f"... {size} values ..."
    return f"lay_out(np.array({text}, {array.dtype.name!r}).reshape({array.shape}), {layout!r})"


def _returned(writer: Writer) -> str:
    """The text of the result: the last variable, alone or in a container with others."""
    last = writer.names[-1]
    form = writer.choose.pick(("one", "tuple", "dict", "list", "tuple"))
    if form == "one":
        return last
    others = [last]
    for _ in range(writer.choose.integer(0, 3)):
        others.append(writer.choose.pick(writer.names[::-1]))
    if form == "dict":
        return "{" + ", ".join(f"'{k}': {name}" for k, name in enumerate(others)) + "}"
    inner = ", ".join(others)
    return f"[{inner}]" if form == "list" else f"({inner},)"


def programs() -> SearchStrategy[RandomProgram]:
    """A Hypothesis strategy of random NumPy functions with arguments.

    Returns:
        A strategy of objects with `.function`, `.arguments` and `.source`. Functions are one to a
        dozen lines of element-wise operations, casts, views, joins, reductions, scans, masks,
        gathers, loops and in-place changes over bool, integer and floating arrays in any layout.

    Raises:
        ModuleNotFoundError: If hypothesis is not installed (`pip install fjit[testing]`).

    >>> import fjit.testing
    >>> strategy = fjit.testing.programs()
    """
    return strategy(build)
