# ruff: noqa: PLW0108  (a lambda puts this file into the message)
"""What a user reads when something cannot work: text, line, remedy; arguments stay untouched."""

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.core import trace as core_trace
from fjit.errors import (
    BranchError,
    FjitError,
    FjitIndexError,
    FjitTypeError,
    FjitValueError,
    LeakedTracerError,
    ReadOnlyError,
    ShapeError,
    UnsupportedError,
)

THIS = __file__
X = np.arange(6.0)


def error_of(function: Callable[..., Any], *arguments: Any, **options: Any) -> Exception:
    """The error of calling the fused function; the arguments must be as they were."""
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    with pytest.raises(Exception) as caught:
        fjit.fuse(**options)(function)(*arguments)
    for old, new in zip(before, arguments, strict=True):
        if isinstance(old, np.ndarray) and old.dtype != object:
            np.testing.assert_array_equal(old, new)
    assert isinstance(caught.value, FjitError), repr(caught.value)
    return caught.value


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, start = inspect.getsourcelines(function)
    return start + next(k for k, line in enumerate(lines) if text in line)


def names_line(error: Exception, function: Callable[..., Any], text: str) -> bool:
    return f"{THIS}:{line_of(function, text)} in {function.__name__}" in str(error)


# Branching and conversion


def branch(x: Any) -> Any:
    y = x * 2
    if y > 0:  # here
        return y
    return -y


def loop(x: Any) -> Any:
    while (x > 3).all() and x[0]:  # here
        x = x / 2
    return x


def chained(x: Any) -> Any:
    return np.sqrt(x) if 0 < x < 1 else x  # here


def negated(x: Any) -> Any:
    return x if not x > 0 else -x  # here


def asserted(x: Any) -> Any:
    assert (x > 0) | (x < 1)  # here
    return x


@pytest.mark.parametrize("function", [branch, chained, negated, asserted])
def test_a_branch_on_an_array_names_line_and_remedy(function: Any) -> None:
    error = error_of(function, X)
    assert isinstance(error, BranchError) and isinstance(error, TypeError | ValueError)
    assert names_line(error, function, "# here"), error
    for words in ("bool() of a traced array", "bool[6]", "np.where", "static_argnames"):
        assert words in str(error)


def test_a_branch_on_a_scalar_follows_it_or_names_the_line() -> None:
    """A guard may follow the value (DESIGN decision 6); until then it is the error above."""
    for x in (X, X + 5, X):
        try:
            np.testing.assert_array_equal(fjit.fuse(loop)(x.copy()), loop(x.copy()))
        except BranchError as error:
            assert names_line(error, loop, "# here")


def as_number(x: Any) -> Any:
    return [0.0] * math.floor(x[0])  # here


def in_math(x: Any) -> Any:
    return math.sin(x[0])  # here


def as_list(x: Any) -> Any:
    return x.tolist()  # here


def formatted(x: Any) -> Any:
    return f"{x.sum():.2f}"  # here


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (as_number, "float()"),
        (in_math, "float()"),
        (as_list, "tolist()"),
        (formatted, "format("),
    ],
)
def test_conversions_that_need_a_value(function: Any, what: str) -> None:
    error = error_of(function, X)
    assert isinstance(error, BranchError) and what in str(error)
    assert "branch" not in str(error)
    assert f"{THIS}:{line_of(function, '# here')}" in str(error)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: math.sqrt(float(x.sum())) * x,
        lambda x: math.sqrt(x.sum()) * x,
        lambda x: x if math.exp(x[0]) > 1 else -x,
        lambda x: math.hypot(x[0], x[1]),
    ],
)
def test_functions_of_python_numbers_name_the_function_of_arrays(function: Any) -> None:
    error = error_of(function, X)
    assert isinstance(error, BranchError)
    for words in ("float() of a traced array f64[]", "A function of Python numbers", "np.sqrt(x)"):
        assert words in str(error)


@pytest.mark.parametrize("function", [lambda x: x[: int(x[0])], lambda x: list(range(int(x[0])))])
def test_python_integers_where_no_value_is_known_name_a_mask(function: Any) -> None:
    with pytest.raises(BranchError, match="used as a Python integer") as raised:
        fjit.make_program(function)(X)
    assert "np.where(np.arange(len(x)) < n, x, 0)" in str(raised.value)


def test_the_length_of_a_selection_names_how_to_count_it() -> None:
    error = error_of(lambda x: x[x > 0].__len__(), X)
    assert isinstance(error, BranchError) and "np.count_nonzero(mask)" in str(error)


@pytest.mark.parametrize("function", [lambda x: np.sum([x[0], x[1]]), lambda x: np.exp([x[0], 1])])
def test_a_list_of_traced_values_in_the_place_of_an_array_names_stack(function: Any) -> None:
    error = error_of(function, X)
    assert isinstance(error, FjitTypeError) and "list of traced values" in str(error)
    assert "np.stack([a, b])" in str(error)


def test_a_number_of_many_elements() -> None:
    error = error_of(lambda x: float(x), X)
    assert isinstance(error, FjitTypeError) and isinstance(error, TypeError)
    assert "only 0-dimensional arrays can be converted" in str(error) and "f64[6]" in str(error)


@pytest.mark.parametrize(
    ("function", "arguments", "what"),
    [
        (lambda x: complex(x.sum()), (X,), "complex() at"),
        (lambda x: x * 1j, (X,), "the number 1j at"),
        (lambda x: np.exp(1j * x), (X,), "the number 1j at"),
        (lambda x: x.astype(complex), (X,), "astype at"),
        (lambda x: x * np.complex64(2), (X,), "complex64"),
        (lambda x, z: x * z, (X, 2j), "an argument is the number 2j"),
        (lambda z: z * 2, (X + 1j,), "argument #0 has dtype complex128"),
        (lambda z: z * 2, ((X + 1j).astype(">c16"),), "argument #0 has dtype >c16"),
    ],
)
def test_complex_numbers_are_named(function: Any, arguments: Any, what: str) -> None:
    error = error_of(function, *arguments)
    assert isinstance(error, UnsupportedError) and what in str(error)
    assert "complex numbers are not fused yet" in str(error) and "z.real and z.imag" in str(error)


def test_an_ndarray_made_by_another_library_is_refused() -> None:
    """np.array in the function itself is a stand-in; elsewhere the protocol is asked."""
    error = error_of(lambda x: x.__array__(), X)
    assert "cannot become a NumPy array" in str(error) and "np.stack" in str(error)
    assert THIS in str(error)


def test_the_users_except_does_not_hide_our_error() -> None:
    def careful(x: Any) -> Any:
        try:
            return x if x > 0 else -x
        except (TypeError, ValueError):
            return x

    assert isinstance(error_of(careful, X), BranchError)


# Leaks


def test_a_leaked_value_names_where_it_was_made() -> None:
    kept: list[Any] = []

    def leaky(x: Any) -> Any:
        kept.append(x * 2)  # here
        return x

    fjit.fuse(leaky)(X)
    for use in (lambda v: v + 1, np.sum, bool, lambda v: v.__setitem__(0, 1)):
        with pytest.raises(LeakedTracerError, match="leaked out of the fused function") as caught:
            use(kept[0])
        assert names_line(caught.value, leaky, "# here")
    assert isinstance(error_of(lambda x: x + kept[0], X), LeakedTracerError)


class Holder:
    """An object that outlives the call."""


HOLDER = Holder()


def test_storing_in_an_attribute_is_refused() -> None:
    def store(x: Any) -> Any:
        HOLDER.value = x * 2  # type: ignore[attr-defined]
        return x

    error = error_of(store, X)
    assert "HOLDER.value" in str(error) and "return" in str(error)
    assert not hasattr(HOLDER, "value")


# Dtypes and functions

STRANGE = {
    "object": np.array([object()]),
    "str": np.array(["a"]),
    "bytes": np.array([b"a"]),
    "datetime64": np.zeros(2, "M8[s]"),
    "timedelta64": np.zeros(2, "m8[s]"),
    "structured": np.zeros(2, [("a", "f4")]),
    "float128": np.zeros(2, np.longdouble),
    "masked array": np.ma.masked_array([1.0, 2.0], [True, False]),
}
SHOWN = {"str": "<U1", "bytes": "|S1", "structured": "('a', '<f4')"}


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_dtype_is_refused_as_argument(name: str) -> None:
    error = error_of(lambda x: x, STRANGE[name])
    assert isinstance(error, UnsupportedError) and isinstance(error, TypeError)
    assert SHOWN.get(name, name) in str(error)
    assert "use bool, a fixed-width integer or a float dtype" in str(error)


CAPTURED = np.zeros(2, "c16")


def test_a_strange_dtype_is_refused_as_captured_array() -> None:
    assert "complex128" in str(error_of(lambda x: x * CAPTURED, np.zeros(2)))


@pytest.mark.parametrize("value", [{1, 2}, object(), range(3)])
def test_an_argument_of_another_type_is_named(value: Any) -> None:
    error = error_of(lambda x: x, value)
    assert isinstance(error, UnsupportedError)
    assert type(value).__name__ in str(error) and "static_argnames" in str(error)


def test_a_large_python_int_is_refused() -> None:
    assert "outside int64" in str(error_of(lambda x: x, 2**70))


@pytest.mark.parametrize(
    ("function", "name", "instead"),
    [
        (lambda x: np.median(x), "numpy.median", "s = np.sort(x, axis=None)"),
        (lambda x: np.unique(x), "numpy.unique", "np.sort"),
        (lambda x: np.histogram(x), "numpy.histogram", "np.bincount"),
        (lambda x: np.linalg.inv(x.reshape(2, 3)), "numpy.linalg.inv", "outside"),
        (lambda x: np.fft.fft(x), "numpy.fft.fft", "outside"),
        (lambda x: np.frexp(x), "the ufunc frexp", "np.log2"),
        (lambda x: np.gcd(x.astype(int), 2), "the ufunc gcd", "outside"),
        (lambda x: x.view(np.int64), "ndarray.view", "astype"),
    ],
)
def test_an_unsupported_function_names_itself_and_what_to_use(
    function: Any, name: str, instead: str
) -> None:
    error = error_of(function, X)
    assert isinstance(error, UnsupportedError) and isinstance(error, TypeError)
    assert name in str(error) and instead in str(error) and THIS in str(error)


def test_sources_of_fresh_values_are_refused() -> None:
    error = error_of(lambda x: x + np.random.rand(6), X)
    assert "np.random.rand" in str(error) and "pass the value as an argument" in str(error)


# Shapes


@pytest.mark.parametrize(
    ("function", "shapes", "shown"),
    [
        (lambda x, y: x + y, ((3,), (4,)), ("(3,)", "(4,)")),
        (lambda x, y: np.where(x > 0, x, y), ((2, 3), (2, 4)), ("(2,3)", "(2,4)")),
        (lambda x, y: x @ y, ((2, 3), (2, 3)), ("(2,3)", "(2,3)")),
        (lambda x, y: x.__setitem__(slice(None), y), ((5,), (4,)), ("(5,)", "(4,)")),
        (lambda x, y: x.__iadd__(y), ((5,), (4,)), ("(5,)", "(4,)")),
        (lambda x, y: x.reshape(3, 2) + y, ((4,), (2,)), ("(4,)", "(3,2)")),
        (lambda x, y: np.concatenate([x, y], axis=1), ((2, 3), (4, 3)), ("size 2", "size 4")),
    ],
)
def test_a_mismatch_shows_both_shapes(function: Any, shapes: Any, shown: tuple[str, str]) -> None:
    error = error_of(function, *[np.ones(s) for s in shapes])
    assert isinstance(error, ShapeError) and isinstance(error, ValueError)
    assert all(text in str(error) for text in shown), error
    assert re.search(rf"{re.escape(THIS)}:\d+ in ", str(error))


def test_values_under_different_masks_do_not_mix() -> None:
    error = error_of(lambda x: x[x > 0] + x[x < 3], X)
    assert isinstance(error, ShapeError) and "n<=6" in str(error) and "one mask" in str(error)


# Writes


def test_a_read_only_argument_is_not_written() -> None:
    def write(x: Any) -> Any:
        x[0] = 1  # here
        return x

    frozen = np.zeros(3)
    frozen.flags.writeable = False
    for argument in (frozen, np.broadcast_to(np.ones(1), (3,))):
        error = error_of(write, argument)
        assert isinstance(error, ReadOnlyError) and isinstance(error, ValueError)
        assert "read-only" in str(error) and "x.copy()" in str(error)
        assert names_line(error, write, "# here")


def test_an_array_that_turned_read_only_is_not_written() -> None:
    def add(x: Any) -> Any:
        x += 1
        return x

    fused, x = fjit.fuse(add), np.zeros(3)
    fused(x)
    x.flags.writeable = False
    with pytest.raises(ReadOnlyError):
        fused(x)
    np.testing.assert_array_equal(x, 1)


def test_overlapping_arguments_are_right_or_refused() -> None:
    def shift(x: Any, y: Any) -> Any:
        x += 1
        return x.sum() + y.sum()

    x = np.zeros(8)
    try:
        got = fjit.fuse(shift)(x, x[2:4])
    except FjitValueError as error:
        assert "shares memory" in str(error) and "copies" in str(error)
        np.testing.assert_array_equal(x, 0)
    else:
        assert got == shift(np.zeros(8), np.ones(2))


# Indices


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: x[7], "index 7 is out of bounds for axis 0 with size 6"),
        (lambda x: x[-8], "index -8 is out of bounds for axis 0 with size 6"),
        (lambda x: x[[0, 9]], "index 9 is out of bounds for axis 0 with size 6"),
        (lambda x: x[0, 0], "too many indices for array"),
    ],
)
def test_an_index_known_in_the_trace(function: Any, text: str) -> None:
    error = error_of(function, X)
    assert isinstance(error, FjitIndexError) and isinstance(error, IndexError)
    assert text in str(error) and THIS in str(error)


@pytest.mark.parametrize("bad", [6, -7, 2**40])
def test_an_index_known_at_run_time(bad: int) -> None:
    index = np.array([0, bad, 2])
    for function in (lambda x, i: x[i] * 2, lambda x, i: np.take(x, i), lambda x, i: x[i[1]]):
        error = error_of(function, X.copy(), index)
        assert isinstance(error, IndexError) and "out of bounds" in str(error)
    good = fjit.fuse(lambda x, i: x[i])
    np.testing.assert_array_equal(good(X, index % 6), X[index % 6])
    with pytest.raises(IndexError):
        good(X, index)
    np.testing.assert_array_equal(good(X, index % 6), X[index % 6])


def test_a_write_at_a_bad_run_time_index_leaves_the_argument() -> None:
    def write(x: Any, i: Any) -> Any:
        x *= 2
        x[i] = 1
        return x

    x = X.copy()
    with pytest.raises(IndexError, match="out of bounds"):
        fjit.fuse(write)(x, np.array([0, 9]))
    np.testing.assert_array_equal(x, X)


# Reductions


@pytest.mark.parametrize("name", ["min", "max", "argmin", "argmax"])
def test_an_empty_axis_has_no_extreme(name: str) -> None:
    with pytest.raises(ValueError) as wanted:
        getattr(np, name)(np.zeros(0))
    error = error_of(lambda x: getattr(x, name)(), np.zeros(0))
    assert isinstance(error, FjitValueError)
    assert str(wanted.value).split(" which")[0] in str(error) and THIS in str(error)


@pytest.mark.parametrize("name", ["min", "max"])
def test_a_mask_that_selects_nothing_has_no_extreme(name: str) -> None:
    function = lambda x: getattr(x[x > 99], name)()
    assert "which has no identity" in str(error_of(function, X))
    assert fjit.fuse(function)(X + 99) in (100.0, 104.0)


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_a_mask_that_selects_nothing_has_no_extreme_position(name: str) -> None:
    assert "empty sequence" in str(error_of(lambda x: getattr(x[x > 99], name)(), X))


def test_an_axis_that_is_not_there() -> None:
    with pytest.raises(np.exceptions.AxisError, match="axis 3 is out of bounds"):
        fjit.fuse(lambda x: x.sum(3))(X)


# NumPy's own errors


def test_numbers_outside_of_the_dtype() -> None:
    small = np.arange(3, dtype=np.uint8)
    with pytest.raises(OverflowError, match="Python integer 300 out of bounds for uint8"):
        fjit.fuse(lambda x: x + 300)(small)


def test_python_arguments_outside_of_the_dtype() -> None:
    fused = fjit.fuse(lambda x, s: x + s)
    small = np.arange(3, dtype=np.uint8)
    for _ in range(2):
        with pytest.raises(OverflowError, match="Python integer 300 out of bounds for uint8"):
            fused(small, 300)
        np.testing.assert_array_equal(fused(small, 3), small + 3)


def test_negative_powers_of_integers() -> None:
    error = error_of(lambda x: x**-1, np.arange(3))
    assert "Integers to negative integer powers are not allowed" in str(error)


def test_differences_of_bools() -> None:
    assert "boolean subtract" in str(error_of(lambda x: x - x, np.ones(3, bool)))


# Options and limits


@pytest.mark.parametrize(
    ("options", "good"),
    [
        ({"target": "gpu"}, "auto, cpu, cuda, cuda-emulator, interpreter"),
        ({"fusion": "most"}, "auto, max, none"),
        ({"threads": 0}, "None or an int >= 1"),
        ({"threads": 1.5}, "None or an int >= 1"),
        ({"static_argnames": "z"}, "its parameters are x, y"),
    ],
)
def test_a_bad_option_is_refused_with_the_good_ones(options: dict[str, Any], good: str) -> None:
    with pytest.raises(FjitValueError) as caught:
        fjit.fuse(**options)(lambda x, y: x)
    assert good in str(caught.value)
    assert repr(next(iter(options.values()))) in str(caught.value)


def test_fuse_takes_a_function() -> None:
    with pytest.raises(FjitTypeError, match="fuse takes a function, not int"):
        fjit.fuse(3)  # type: ignore[call-overload]


def test_a_static_argument_must_be_hashable() -> None:
    error = error_of(lambda x: x, X, static_argnames="x")
    assert "hashable" in str(error) and "ordinary arguments" in str(error)


def test_an_unrolled_loop_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_trace, "MAX_EQUATIONS", 1000)

    def unrolled(x: Any) -> Any:
        for k in range(10**6):
            x = x * k + 1
        return x

    error = error_of(unrolled, X)
    assert isinstance(error, FjitValueError)
    for words in ("1000 equations", THIS, "whole-array operations", "fjit.fori_loop"):
        assert words in str(error)


def test_coroutines_and_generators_are_refused() -> None:
    async def later(x: Any) -> Any:
        return x

    def generate(x: Any) -> Any:
        yield x

    assert "coroutine function" in str(error_of(later, X))
    assert "generator function" in str(error_of(generate, X))


def test_the_function_works_after_an_error() -> None:
    fused = fjit.fuse(lambda x, y: x + y)
    for _ in range(2):
        with pytest.raises(ShapeError):
            fused(np.ones(3), np.ones(4))
        np.testing.assert_array_equal(fused(np.ones(3), np.ones(3)), 2)
