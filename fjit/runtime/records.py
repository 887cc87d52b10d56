"""Records of known calls, for the native entry of a fused function.

Takes an executable with what its trace found (arguments, guards, results), gives a `Record`: words
that the code of entry_ir reads. Invariant: a record describes exactly the calls for which the
Python path would run the same kernels on the same arrays; what it cannot describe has no record,
and `refusal` says why.

    f(x, 2.0), x float64[10]    ->    array of float64 (10,) strides (8,); float; one result, ...
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import optree

from fjit.core import dtypes, tree
from fjit.frontend.checks import Check, checks_of, reading_of
from fjit.frontend.function import Traced
from fjit.frontend.guards import Guard
from fjit.frontend.paths import MISSING
from fjit.runtime import entry, entry_ir, threads
from fjit.runtime.executable import Executable, Native, address_of
from fjit.runtime.layouts import Container, Layout
from fjit.runtime.outputs import is_laid_out

MAX_SCRATCH: Final = 1 << 22
"""Bytes of temporaries that a record keeps for itself; larger ones come from the common stock."""
MAX_LOCKED_NS: Final = 20_000.0
"""Kernels estimated to take longer let other Python threads run."""
_KINDS: Final = {np.ndarray: entry_ir.ARRAY, float: entry_ir.FLOAT, int: entry_ir.INT,
                 bool: entry_ir.BOOL}  # fmt: skip
_SCALARS: Final = {float: dtypes.F64, int: dtypes.I64, bool: dtypes.BOOL}
_CHECKS: Final = {
    "item": entry_ir.ITEM, "cell": entry_ir.CELL, "code": entry_ir.CODE,
    "attribute": entry_ir.ATTRIBUTE, "call": entry_ir.CALL, "constant": entry_ir.CONSTANT,
    "type": entry_ir.TYPE,
}  # fmt: skip


class Shape(NamedTuple):
    """What of a call's result the record must know: which are scalars, and how to join several.

    `finisher` makes the result from the outputs; None for a tuple of them.
    """

    scalars: tuple[bool, ...]
    single: bool
    finisher: Any


class Record:
    """The words of one kind of call, and all that they point to."""

    def __init__(
        self,
        executable: Executable,
        layout: Layout,
        arguments: Sequence[Any],
        ranges: dict[int, tuple[int, int]],
        checks: Sequence[Check],
        captures: Sequence[tuple[Check, Any]],
        shape: Shape,
    ) -> None:
        self._kept: list[Any] = [executable]
        named = {
            "nargs": layout.positional,
            "kwnames": self._keep(layout.names) if layout.names else 0,
            **self._listed("containers", layout.containers, self._container),
            "nleaves": len(arguments),
            "leaves": self._words(self._leaves(arguments, layout.places, ranges)),
            **self._listed("guards", checks, lambda c: self._check(c, self._value(c))),
            **self._listed("captures", captures, lambda pair: self._capture(*pair)),
            "nresults": len(executable.layouts),
            "results": self._words(self._results(executable, shape)),
            "finisher": 0 if shape.finisher is None else self._keep(shape.finisher),
            "single": int(shape.single),
            **self._run_words(executable),
            **self._places(executable),
        }
        self.words = np.array([named.get(name, 0) for name in entry_ir.RECORD], np.int64)
        self.address = address_of(self.words)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending() and hasattr(self, "address"):  # at the end modules lose their contents
            entry.free(self.address)

    @property
    def hits(self) -> int:
        """Calls answered."""
        return int(self.words[entry_ir.RECORD.index("hits")])

    @property
    def busy(self) -> bool:
        """Whether a thread is in a call."""
        return bool(self.words[entry_ir.RECORD.index("busy")])

    # ---- words ----------------------------------------------------------------------------
    def _words(self, numbers: Sequence[int]) -> int:
        """The address of a list of words."""
        words = np.array(numbers, np.int64)
        self._kept.append(words)
        return address_of(words)

    def _listed(
        self, name: str, items: Sequence[Any], words_of: Callable[[Any], list[int]]
    ) -> dict[str, int]:
        """A list's length and address, by their names in a record."""
        return {"n" + name: len(items), name: self._words([w for i in items for w in words_of(i)])}

    def _run_words(self, executable: Executable) -> dict[str, int]:
        """What running needs whatever the arguments: memory, the table's template, steps."""
        steps = [s for s in executable.steps if isinstance(s, Native)]
        pointed = [int(k in executable.pointed) for k in range(len(executable.program.inputs))]
        return {
            "ninputs": len(pointed),
            "empty": self._words(executable.empty),
            "pointed": self._words(pointed),
            "ntemps": len(executable.temporaries),
            "temps": self._words(executable.temporaries),
            "private_from": executable.private_from,
            "per_worker": executable.per_worker,
            "words": len(executable.template),
            "template": address_of(executable.template),
            "status_at": executable.status_at,
            "nsteps": len(steps[0].steps) if steps else 0,
            "steps": steps[0].address if steps else 0,
            "wide": int(executable.wide),
            "threads": executable.options.threads or 0,
            "unlocked": int(executable.estimated_ns > MAX_LOCKED_NS),
        }

    def _keep(self, value: object) -> int:
        """The address of an object, which lives as long as the record."""
        self._kept.append(value)
        return id(value)

    def _container(self, c: Container) -> list[int]:
        keys = self._words([self._keep(key) for key in c.keys])
        return [c.place, c.kind, self._keep(c.type), c.size, keys, c.first]

    def _leaves(
        self,
        leaves: Sequence[Any],
        places: Sequence[int],
        ranges: dict[int, tuple[int, int]],
    ) -> list[int]:
        words: list[int] = []
        first: dict[int, int] = {}
        for number, (value, place) in enumerate(zip(leaves, places, strict=True)):
            if type(value) is np.ndarray:
                same = first.setdefault(address_of(value), number)
                words += [*self._array(value, 1024 * value.flags.writeable, same), place]
            else:
                low, high = ranges.get(number, (-(2**63), 2**63 - 1))
                low, high = max(low, -(2**63)), min(high, 2**63 - 1)
                words += [_KINDS[type(value)], 0, 0, 0, 0, 0, low, high, place]
        return words

    def _array(self, array: Any, writeable: int, first: int = 0) -> list[int]:
        extents = self._words([*array.shape, *array.strides])
        dtype = self._keep(array.dtype)
        return [entry_ir.ARRAY, dtype, array.ndim, writeable, extents, first, 0, 0]

    def _value(self, check: Check) -> int:
        return 0 if check.value is MISSING else self._keep(check.value)

    def _check(self, check: Check, value: int) -> list[int]:
        key = sys.intern(check.key) if type(check.key) is str else check.key
        return [_CHECKS[check.kind], self._keep(check.holder), self._keep(key), value]

    def _capture(self, check: Check, array: Any) -> list[int]:
        return self._check(check, self._words(self._array(array, -1)))

    def _results(self, executable: Executable, shape: Shape) -> list[int]:
        words: list[int] = []
        for how, scalar in zip(executable.layouts, shape.scalars, strict=True):
            strides = 0 if how.strides is None else self._words(how.strides)
            extents = self._words(how.shape)
            dtype = self._keep(how.dtype)
            words += [dtype, len(how.shape), extents, strides, int(how.pooled), int(scalar)]
        return words

    def _places(self, executable: Executable) -> dict[str, int]:
        """Lists of pairs: a place in the kernels' table, and what to put there."""
        pairs = {
            "patches": zip(executable.patch_at, executable.patch_from, strict=True),
            "inner": zip(executable.inner_at, executable.inner_offset, strict=True),
            "scalars": [(at, k) for at, k, _ in executable.scalars],
            "shared": executable.shared,
            "private": [(at, offset) for at, offset, _ in executable.private],
        }
        named: dict[str, int] = {}
        for name, listed in pairs.items():
            named |= self._listed(name, list(listed), lambda pair: [int(w) for w in pair])
        return named


def record_of(
    traced: Traced,
    executable: Executable,
    guards: Iterable[Guard],
    function: object,
    layout: Layout,
    leaves: Sequence[Any],
) -> Record | str:
    """The record of calls of one trace like this one with `leaves`, or why there is none.

    The guards hold now; the leaves are all traced.
    """
    captures: list[tuple[Check | None, Any]] = []
    for position in range(len(leaves), len(executable.program.inputs)):
        capture = traced.captures[position]
        if capture.path is None:
            captures.append((Check("constant", capture.array), capture.array))
        else:
            reading = reading_of(capture.path, function)
            captures.append((reading, capture.path.read(function)))
    reason = refusal(traced, executable, leaves, captures)
    if reason:
        return reason
    ranges: dict[int, tuple[int, int]] = {}
    for position, low, high in traced.int_ranges:
        known = ranges.get(position, (low, high))
        ranges[position] = max(low, known[0]), min(high, known[1])
    checks = [c for g in guards for c in checks_of(g, function)]
    known_captures = [(c, a) for c, a in captures if c is not None]
    return Record(executable, layout, leaves, ranges, checks, known_captures, _shape(traced))


def _shape(traced: Traced) -> Shape:
    spec, count = traced.result_tree, len(traced.results)
    scalars = tuple(r.is_scalar for r in traced.results)
    if spec.is_leaf():
        return Shape(scalars, True, None)
    if spec == tree.flatten((0,) * count)[1]:
        return Shape(scalars, False, None)
    return Shape(scalars, False, _finisher(spec))


def _finisher(spec: optree.PyTreeSpec) -> Any:
    return lambda *leaves: tree.unflatten(spec, leaves)


def refusal(
    traced: Traced,
    executable: Executable,
    arguments: Sequence[Any],
    captures: Sequence[tuple[Check | None, Any]],
) -> str:
    """Why a call of this kind cannot have a record, or nothing."""
    if traced.writes or traced.branches:
        return "the function writes into an argument or branches on a traced value"
    if not all(_is_plain(r, k) for k, r in enumerate(traced.results)):
        return "a result is an argument, a constant, or returned twice"
    if any(type(a) not in _KINDS for a in arguments):
        return "an argument is neither an array nor a Python number"
    if len(arguments) + len(captures) > entry_ir.MAX_LEAVES:
        return f"there are more than {entry_ir.MAX_LEAVES} arguments and captured arrays"
    if any(c is None or type(a) is not np.ndarray for c, a in captures):
        return "a captured value is read in Python"
    if len(executable.steps) > 1 or not all(isinstance(s, Native) for s in executable.steps):
        return "there is a library call between the kernels"
    if executable.dynamic:
        return "a result has as many elements as a mask selects"
    if not executable.plain or len(executable.results) != len(traced.results):
        return "a result is an argument, a constant, or returned twice"
    if not 0 < len(executable.results) <= entry_ir.MAX_RESULTS:
        return f"there are more than {entry_ir.MAX_RESULTS} results, or none"
    pairs = zip(traced.results, executable.layouts, strict=True)
    if not all(is_laid_out(r, how) for r, how in pairs):
        return "a result is copied into another memory order"
    if any(d != _SCALARS.get(type(arguments[k]) if k < len(arguments) else type(None))
           for _, k, d in executable.scalars):  # fmt: skip
        return "a number has another dtype than its Python type"
    team = threads.native_limits()[0] if executable.wide else 1
    if executable.private_from + executable.per_worker * min(team, 1024) > MAX_SCRATCH:
        return "the temporaries are large"
    return ""


def _is_plain(result: Any, number: int) -> bool:
    """Whether a result is the program's output of that number as it is, or its only element."""
    plain = result.argument is None and result.output == number
    return plain and result.weak is None and not result.swapped
