"""The oracle: one function through every path fjit has, compared with NumPy and with each other.

Takes a function and arguments, gives nothing or an AssertionError that names the path, the first
difference, and shows the program and its plan. Invariant: the compiled paths agree in every bit,
whatever the number of lanes and threads, fused or not, but for what the sign of a NaN decides
(`fjit.oracle.signs`); each agrees with NumPy within the slack that `fjit.oracle.bounds` derives
from docs/numerics.md (none, for a program of exact operations).

    check(lambda x: np.exp(x).sum(), np.ones(3))
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import optree

from fjit.core import tree
from fjit.core.interpreter import interpret
from fjit.core.ir import Aval, Program
from fjit.core.trace import Trace
from fjit.core.verify import verify
from fjit.entries import Choices, Entry
from fjit.frontend import overlap, views
from fjit.frontend.function import Result, Write
from fjit.frontend.session import place_of
from fjit.fused import Fused
from fjit.optimize.clean import own_outputs
from fjit.optimize.pipeline import optimize
from fjit.oracle.bounds import bounded
from fjit.oracle.compare import assert_leaf
from fjit.oracle.memory import clone
from fjit.oracle.signs import sign_slack
from fjit.oracle.walk import Undetermined

Array = Any  # NumPy arrays of any dtype
KINDS: Final = (IndexError, OverflowError, ZeroDivisionError, TypeError, ValueError, Exception)


class Path(NamedTuple):
    """One way through fjit; `same_bits` if it agrees in every bit with the first compiled one."""

    name: str
    choices: Choices
    same_bits: bool = True


WIDTHS: Final = (1, 4, 8, 16)
THREADS: Final = (1, 2)
NATIVE: Final = "native call"
CALLS: Final = ("first call", "second call", NATIVE)
INTERPRETER: Final = Path("interpreter", Choices(target="interpreter", cache=False))
UNFUSED: Final = Path("unfused", Choices(fusion="none", cache=False))
FUSED: Final = tuple(
    Path(f"{width} lanes, {threads} threads", Choices(width=width, threads=threads, cache=False))
    for width in WIDTHS
    for threads in THREADS
)
NATURAL: Final = Path("lanes as the machine's", Choices(cache=False))
PATHS: Final = (INTERPRETER, *FUSED, NATURAL, UNFUSED)
EMULATED: Final = tuple(
    Path(f"emulated {arch}", Choices(target=f"cuda-emulator:{arch}", cache=False), same_bits=False)
    for arch in ("sm_75", "sm_90", "sm_100")
)


class Outcome(NamedTuple):
    """What a call left behind: its result, the argument leaves afterwards, or its error."""

    result: Any
    leaves: list[Any]
    error: Exception | None


class Bounds(NamedTuple):
    """Slack of each leaf of the result and of each argument; lists may end early: exact."""

    results: Sequence[Array | None]
    leaves: Sequence[Array | None]


def check(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Compare `f(*args, **kwargs)` of NumPy with every path of fjit.

    The paths are the interpreter on the program and on its fused plan, and compiled kernels:
    unfused, and fused at 1, 4, 8, 16 and the machine's own lanes on 1 and 2 threads; each called
    twice, and a third time where the native entry then answers, on equal copies of the arguments
    that have the same layout. Results and arguments afterwards are
    compared: structure, types, dtypes, shapes, axis order, values. Where NumPy raises an error,
    every path must raise one of the same kind. `f` may change its arguments and nothing else.

    Args:
        f: A function written with plain NumPy; or a fused one, whose fastmath flags then hold on
            every path, and whose licence widens the bounds.
        *args: Its arguments; they are not changed.
        **kwargs: Its keyword arguments.

    Raises:
        AssertionError: Naming the path, the first difference and its size, and the program.

    >>> import numpy as np, fjit.testing
    >>> fjit.testing.check(lambda x: np.tanh(x[::-1]) * 2, np.arange(3.0))
    """
    check_paths(f, args, kwargs, PATHS)


def check_emulated(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Compare `f(*args, **kwargs)` of NumPy with the GPU's code, which the emulator runs.

    The code is that of one architecture of each LLVM dialect and size of block: sm_75, sm_90 and
    sm_100. Arguments, comparisons and errors are those of `check`, which leaves the emulator out
    since it takes seconds where a call takes microseconds. Needs `pip install fjit[cuda]`.

    >>> import numpy as np, fjit.testing
    >>> fjit.testing.check_emulated(lambda x: np.tanh(x[::-1]) * 2, np.arange(3.0))
    """
    check_paths(f, args, kwargs, EMULATED)


def check_paths(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], paths: Sequence[Path]
) -> None:
    """`check` along the given paths."""
    if isinstance(f, Fused):
        chosen = f.choices
        f, paths = f.function, [_as_chosen(path, chosen) for path in paths]
    given, spec = tree.flatten((tuple(args), kwargs))
    want = _outcome(f, given, spec)
    if want.error is not None:
        _check_errors(f, given, spec, paths, want.error)
        return
    fastmath = paths[0].choices.fastmath
    entry = _prepared(f, given, spec, paths[0].choices)
    try:
        bounds, between = _analysed(entry, given, fastmath)
        compiled: Outcome | None = None
        for path in paths:
            fused = Fused(f, path.choices)
            for call in CALLS:
                if call == NATIVE and not fused.records:
                    break
                name = f"{path.name}, {call}"
                got = _outcome(fused, given, spec)
                if got.error is not None:
                    raise AssertionError(f"{name}: {got.error!r}") from got.error
                _compare(name, got, want, bounds)
                if path.choices.target != "interpreter" and path.same_bits:
                    compiled = compiled or got
                    _compare(f"{name}, beside the first compiled path", got, compiled, between)
                if call == NATIVE and not fused.answered:
                    raise AssertionError(f"{name}: the record of this call does not fit it")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{_texts(entry)}") from error.__cause__


def _as_chosen(path: Path, chosen: Choices) -> Path:
    """A path with what a fused function chose of its meaning."""
    choices = replace(
        path.choices, static_argnames=chosen.static_argnames, fastmath=chosen.fastmath
    )
    return path._replace(choices=choices)


def _outcome(f: Callable[..., Any], given: list[Any], spec: optree.PyTreeSpec) -> Outcome:
    leaves = clone(given)
    args, kwargs = tree.unflatten(spec, leaves)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return Outcome(f(*args, **kwargs), leaves, None)
        except Exception as error:
            return Outcome(None, leaves, error)


def _check_errors(
    f: Callable[..., Any],
    given: list[Any],
    spec: optree.PyTreeSpec,
    paths: Sequence[Path],
    error: Exception,
) -> None:
    kind = next(k for k in KINDS if isinstance(error, k))
    for path in paths:
        got = _outcome(Fused(f, path.choices), given, spec)
        if not isinstance(got.error, kind):
            said = "no error" if got.error is None else repr(got.error)
            raise AssertionError(f"{path.name}: {said}, where NumPy raises {error!r}")


def _prepared(
    f: Callable[..., Any], given: list[Any], spec: optree.PyTreeSpec, choices: Choices
) -> Entry:
    """The trace and the plan, without machine code."""
    args, kwargs = tree.unflatten(spec, clone(given))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interpreted = replace(choices, target="interpreter", fusion="auto", cache=False)
        return Fused(f, interpreted).prepare(*args, **kwargs)


def _texts(entry: Entry) -> str:
    return f"program\n{entry.program}\nplan\n{entry.plan.program}"


# ---- what may differ ----------------------------------------------------------------------------


def _analysed(
    entry: Entry, given: list[Any], fastmath: frozenset[str]
) -> tuple[Bounds | None, Bounds | None]:
    """The slack to NumPy and between compiled paths; the fused program is interpreted on the way.

    None where a shape is not certain. Compiled paths agree exactly, but for what the sign of a NaN
    decides, and where a flag's promise was broken.
    """
    exact = own_outputs(optimize(entry.traced.program)) if fastmath else entry.program
    leaves = clone(given)
    inputs = [*leaves, *_captured(entry, leaves)]
    verify(entry.program)
    verify(entry.plan.program)
    fused = interpret(entry.plan.program, *inputs)
    try:
        signs = sign_slack(exact, inputs)
    except Undetermined:
        return None, None
    try:
        outputs = bounded(exact, inputs, fastmath)
    except Undetermined:
        return None, None if fastmath else _bounds(entry, signs, leaves)
    for number, (got, want) in enumerate(zip(fused, outputs, strict=True)):
        name = f"fused interpreter: output {number}"
        assert_leaf(got, np.array(want.value), name, allowed=want.slack)
    slacks = [output.slack for output in outputs]
    between = [_undefined(slack) for slack in slacks] if fastmath else signs
    return _bounds(entry, slacks, leaves), _bounds(entry, between, leaves)


def _undefined(slack: Array | None) -> Array | None:
    return None if slack is None else np.where(np.isinf(slack), np.inf, 0.0)


def _captured(entry: Entry, leaves: list[Any]) -> list[Any]:
    """The captured arrays; memory that arguments share is that of `leaves`."""
    captures = [entry.traced.captures[k] for k in range(len(leaves), len(entry.program.inputs))]
    return [
        c.path.read(None, leaves) if isinstance(c.path, overlap.Shared) else c.array
        for c in captures
    ]


def _bounds(entry: Entry, slacks: Sequence[Array | None], leaves: list[Any]) -> Bounds:
    """The slack of results and arguments, from that of the program's outputs."""
    written: dict[int, Array | None] = {}
    for write in entry.traced.writes:
        position, slack = write.position, slacks[write.output]
        capture = entry.traced.captures.get(position)
        if capture is not None and isinstance(capture.path, overlap.Shared):
            shared = [(k, leaves[k]) for k in capture.path.positions]
            written.update(_parts(slack, shared))
        else:
            argument = leaves[position] if capture is None else capture.array
            written[position] = _written_slack(write, slack, written.get(position), argument)
    first = {place_of(leaves[k]): k for k in reversed(range(len(leaves))) if _is_array(leaves[k])}
    for position, leaf in enumerate(leaves):  # an array passed twice is one input, the first
        if _is_array(leaf) and first[place_of(leaf)] in written:
            written.setdefault(position, written[first[place_of(leaf)]])
    return Bounds(
        [_result_slack(r, slacks, written) for r in entry.traced.results],
        [written.get(k) for k in range(len(leaves))],
    )


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray)


def _parts(
    slack: Array | None, arrays: Sequence[tuple[int, Array]]
) -> Iterator[tuple[int, Array | None]]:
    """The slack of arrays from that of the memory they share, from its first element on."""
    base = min(np.lib.array_utils.byte_bounds(array)[0] for _, array in arrays)
    whole = None if slack is None else np.ascontiguousarray(slack)
    for position, array in arrays:
        if whole is None:
            yield position, None
            continue
        start = (array.__array_interface__["data"][0] - base) // array.itemsize
        strides = [s // array.itemsize * whole.itemsize for s in array.strides]
        yield position, np.lib.stride_tricks.as_strided(whole[start:], array.shape, strides)


def _written_slack(
    write: Write, slack: Array | None, before: Array | None, argument: Array
) -> Array | None:
    """The slack of an argument after a write into it, from that before and that of the value."""
    if write.region is None or (slack is None and before is None):
        return slack
    whole = np.zeros(argument.shape) if before is None else before
    write.of(whole)[...] = 0.0 if slack is None else slack
    return whole


def _result_slack(
    result: Result, slacks: Sequence[Array | None], written: dict[int, Array | None]
) -> Array | None:
    if result.output is not None:
        return slacks[result.output]
    if result.argument is None or written.get(result.argument) is None:
        return None
    slack = np.ascontiguousarray(written[result.argument])
    return _through(slack, result.steps)


def _through(array: Array, steps: tuple[views.Step, ...]) -> Array:
    """An array seen through view steps."""
    trace = Trace()
    var = trace.add_input(Aval(array.shape, array.dtype))
    program: Program = trace.program((views.read(trace, var, steps),))
    return interpret(program, array)[0]


# ---- comparing ----------------------------------------------------------------------------------


def _compare(name: str, got: Outcome, want: Outcome, bounds: Bounds | None) -> None:
    """Results, arguments and their aliasing agree; without bounds, only the structure."""
    got_leaves, got_tree = tree.flatten(got.result)
    want_leaves, want_tree = tree.flatten(want.result)
    if got_tree != want_tree:
        raise AssertionError(f"{name}: the result is a {got_tree}, expected {want_tree}")
    paths = tree.paths(want.result)
    if bounds is None:
        return
    leaves = zip(paths, got_leaves, want_leaves, strict=True)
    for (path, g, w), slack in itertools.zip_longest(leaves, bounds.results):
        leaf = f"{name}: result{path}"
        assert_leaf(g, w, leaf, allowed=slack, order=True)
        _check_aliases(leaf, g, got.leaves, w, want.leaves)
    pairs = enumerate(zip(got.leaves, want.leaves, strict=True))
    for (number, (g, w)), slack in itertools.zip_longest(pairs, bounds.leaves):
        assert_leaf(g, w, f"{name}: argument #{number} afterwards", allowed=slack)


def _check_aliases(
    name: str, got: Any, got_leaves: list[Any], want: Any, want_leaves: list[Any]
) -> None:
    """A result shares memory with the arguments that NumPy's result shares memory with."""
    if not isinstance(want, np.ndarray) or not want.size:
        return
    for number, (g, w) in enumerate(zip(got_leaves, want_leaves, strict=True)):
        if isinstance(w, np.ndarray):
            seen, expected = (np.may_share_memory(*pair) for pair in ((got, g), (want, w)))
            if seen != expected:
                verb = "shares" if seen else "does not share"
                raise AssertionError(f"{name} {verb} memory with argument #{number}")
