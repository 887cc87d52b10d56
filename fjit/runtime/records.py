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
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import optree

from fjit.core import tree
from fjit.frontend.checks import Check, checks_of, reading_of
from fjit.frontend.function import Result, Traced, Write
from fjit.frontend.guards import Guard
from fjit.frontend.paths import MISSING
from fjit.runtime import entry, entry_ir
from fjit.runtime.addresses import address_of
from fjit.runtime.layouts import Container, Layout
from fjit.runtime.options import Native
from fjit.runtime.refusals import Computed, Given, refusal
from fjit.runtime.results import packed_strides

if TYPE_CHECKING:
    from fjit.runtime.executable import Executable

MAX_LOCKED_NS: Final = 20_000.0
"""Kernels estimated to take longer let other Python threads run."""
_KINDS: Final = {np.ndarray: entry_ir.ARRAY, float: entry_ir.FLOAT, int: entry_ir.INT,
                 bool: entry_ir.BOOL}  # fmt: skip
MAX_COPIED: Final = 1 << 15
"""Bytes that are copied into an argument with other Python threads locked out."""
_IGNORED: Final = {float: 1, int: 0, bool: 0}
"""Bits that do not tell whether a number is 0: the sign of a float, shifted out at the left."""
_CHECKS: Final = {
    "item": entry_ir.ITEM, "cell": entry_ir.CELL, "code": entry_ir.CODE,
    "attribute": entry_ir.ATTRIBUTE, "call": entry_ir.CALL, "constant": entry_ir.CONSTANT,
    "type": entry_ir.TYPE,
}  # fmt: skip


class Words:
    """The words that the kernels of one executable need, and all that they point to."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def _finish(
        self, executable: Executable, named: dict[str, int], places: Sequence[int] = ()
    ) -> None:
        """Add what the kernels need; `places` says which of the call's objects the inputs are."""
        results = [self._result(executable, k, places) for k in range(len(executable.layouts))]
        named |= {
            "nresults": len(results),
            "results": self._words([word for words in results for word in words]),
            **self._run_words(executable),
            **self._places(executable),
        }
        self._kept.append(executable)
        self.words = np.array([named.get(name, 0) for name in entry_ir.RECORD], np.int64)
        self.address = address_of(self.words)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending() and hasattr(self, "address"):  # at the end modules lose their contents
            entry.free(self.address)

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
            "nsymbols": len(executable.symbols),
        }

    def _keep(self, value: object) -> int:
        """The address of an object, which lives as long as the record."""
        self._kept.append(value)
        return id(value)

    def _result(self, executable: Executable, number: int, places: Sequence[int]) -> list[int]:
        how, shape = executable.layouts[number], executable.results[number].aval.shape
        strides = 0 if how.strides is None else self._words(how.strides)
        symbols = [-1 if isinstance(e, int) else executable.symbols[e] for e in shape]
        cut = [k for k, symbol in enumerate(symbols) if symbol >= 0]
        at = self._words(symbols) if cut else 0
        leading = int(cut == [0] and not strides)
        extents, dtype = self._words(how.shape), self._keep(how.dtype)
        words = [dtype, len(how.shape), extents, strides, int(how.pooled), at, leading]
        if number in executable.parts:
            write = executable.parts[number]
            whole = executable.memory[executable.program.inputs[write.position]].strides
            return [*words, 1, places[write.position], self._region(write, how.dtype, whole)]
        over = executable.over.get(number)
        return [*words, 0, 0, 0] if over is None else [*words, 1, places[over], 0]

    def _region(self, write: Write, dtype: np.dtype[Any], strides: Sequence[int]) -> int:
        """The address of the words of a written region, or 0."""
        region = write.region
        if region is None:
            return 0
        offset = sum(start * step for start, step in zip(region.starts, strides, strict=True))
        shape, steps = self._words(region.sizes), self._words(region.strides(tuple(strides)))
        return self._words([self._keep(dtype), len(region.sizes), shape, steps, offset])

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


class Conditions(Words):
    """The words of the kernels that compute what a function branches on, and what they gave."""

    def __init__(self, computed: Computed) -> None:
        expected = np.array([[1 if type(v) is bool else 8, int(v)] for v in computed.values])
        super().__init__()
        self._kept.append(expected)
        self._finish(computed.executable, {"expected": address_of(expected)})


class Known(NamedTuple):
    """All that a record says of one kind of call; `leaves` and `captures` are one call's."""

    traced: Traced
    executable: Executable
    layout: Layout
    leaves: Sequence[Any]
    ranges: dict[int, tuple[int, int]]
    checks: Sequence[Check]
    captures: Sequence[tuple[Check, Any]]
    computed: Computed | None
    given: Sequence[Given]

    @property
    def places(self) -> tuple[int, ...]:
        """The number of each input among the call's objects; below 0 for captured arrays."""
        return (*self.layout.places, *(-1 - k for k in range(len(self.captures))))


class Record(Words):
    """The words of one kind of call."""

    def __init__(self, call: Known) -> None:
        super().__init__()
        layout = call.layout
        arrays = [*call.leaves, *(array for _, array in call.captures)]
        conditions = None if call.computed is None else Conditions(call.computed)
        self._kept.append(conditions)
        named = {
            "nargs": layout.positional,
            "kwnames": self._keep(layout.names) if layout.names else 0,
            **self._listed("containers", layout.containers, self._container),
            "nleaves": len(call.leaves),
            "leaves": self._words(self._leaves(call.leaves, layout.places, call.ranges)),
            **self._listed("guards", call.checks, lambda c: self._check(c, self._value(c))),
            **self._listed("captures", call.captures, lambda c: self._capture(c[0], c[1], call)),
            **self._listed("writes", call.traced.writes,
                           lambda w: self._write(w, call, arrays)),
            **self._listed("given", call.given, lambda g: self._given(g, call.leaves)),
            "conditions": 0 if conditions is None else conditions.address,
            **self._shape(call),
        }  # fmt: skip
        self._finish(call.executable, named, call.places)

    @property
    def hits(self) -> int:
        """Calls answered."""
        return int(self.words[entry_ir.RECORD.index("hits")])

    @property
    def busy(self) -> bool:
        """Whether a thread is in a call."""
        return bool(self.words[entry_ir.RECORD.index("busy")])

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
        return [entry_ir.ARRAY, dtype, array.ndim, writeable, extents, first, *_reach(array)]

    def _value(self, check: Check) -> int:
        return 0 if check.value is MISSING else self._keep(check.value)

    def _check(self, check: Check, value: int) -> list[int]:
        key = sys.intern(check.key) if type(check.key) is str else check.key
        return [_CHECKS[check.kind], self._keep(check.holder), self._keep(key), value]

    def _capture(self, check: Check, array: Any, call: Known) -> list[int]:
        positions = [p for p, *_ in call.traced.writes if p >= len(call.leaves)]
        written = any(call.captures[p - len(call.leaves)][1] is array for p in positions)
        return self._check(check, self._words(self._array(array, 1024 if written else -1)))

    def _write(self, write: Write, call: Known, arrays: list[Any]) -> list[int]:
        """How a result gets into an array: as it lies in memory, or by NumPy."""
        position, output, region = write
        array, how = arrays[position], call.executable.layouts[output]
        words = [position, call.places[position], output]
        if output in call.executable.over or output in call.executable.parts:
            return [*words, 0, 0]
        if region is not None:
            return [*words, -1, self._region(write, array.dtype, array.strides)]
        order = how.strides or packed_strides(how.shape, how.dtype.itemsize, range(array.ndim))
        alike = array.dtype == how.dtype and array.strides == order and array.nbytes <= MAX_COPIED
        bytes_alike = array.nbytes if alike else -1
        return [*words, bytes_alike, 0]

    def _given(self, given: Given, leaves: Sequence[Any]) -> list[int]:
        shift = _IGNORED[type(leaves[given.position])] if type(given.value) is bool else -1
        return [given.position, shift, int(given.value)]

    def _shape(self, call: Known) -> dict[str, int]:
        """The leaves of the function's result, and how they are joined."""
        spec, results = call.traced.result_tree, call.traced.results
        form, finisher = entry_ir.MADE, None
        if spec.is_leaf():
            form = entry_ir.ALONE
        elif spec == tree.flatten(None)[1]:
            form = entry_ir.CONSTANT_RESULT
        elif spec == tree.flatten((0,) * len(results))[1]:
            form = entry_ir.JOINED
        else:
            finisher = _finisher(spec)
        joined = {"form": form, "finisher": self._keep(finisher)}
        return self._listed("returned", results, lambda r: _returned(r, call.layout)) | joined


def _reach(array: Any) -> tuple[int, int]:
    """Where an array's memory begins and ends, in bytes from its first element."""
    if not array.size:
        return 0, 0
    steps = [s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + array.itemsize


def _returned(result: Result, layout: Layout) -> list[int]:
    if result.argument is not None:
        return [entry_ir.GIVEN, layout.places[result.argument]]
    assert result.output is not None
    return [entry_ir.SCALAR if result.is_scalar else entry_ir.OUTPUT, result.output]


def _finisher(spec: optree.PyTreeSpec) -> Any:
    return lambda *leaves: tree.unflatten(spec, leaves)


def record_of(
    traced: Traced,
    executable: Executable,
    guards: Iterable[Guard],
    function: object,
    layout: Layout,
    leaves: Sequence[Any],
    computed: Computed | None = None,
    given: Sequence[Given] = (),
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
            captures.append((reading, capture.array if reading is None else
                             capture.path.read(function)))  # fmt: skip
    reason = refusal(traced, executable, leaves, captures, computed, given)
    if reason:
        return reason
    ranges: dict[int, tuple[int, int]] = {}
    for position, low, high in traced.int_ranges:
        known = ranges.get(position, (low, high))
        ranges[position] = max(low, known[0]), min(high, known[1])
    checks = [c for g in guards for c in checks_of(g, function)]
    known_captures = [(c, a) for c, a in captures if c is not None]
    return Record(
        Known(traced, executable, layout, leaves, ranges, checks, known_captures, computed, given)
    )
