"""Fastmath: each flag changes the code as it says and stays within its licence; no other does.

A case names a function in which a flag has something to do, and what then shows in the kernels'
code. Without the flag the results are NumPy's, bit for bit; with it, the oracle's bounds hold on
every path, and all paths, fused and not, give the same bits.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import fjit
from fjit.api import FLAGS
from fjit.backend import cpu
from fjit.core import primitives as p
from fjit.core.ir import Eqn
from fjit.errors import FjitValueError
from fjit.optimize import relax
from fjit.optimize.rewrite import Draft, Rewriter
from fjit.oracle.check import FUSED, NATURAL, UNFUSED, check_paths
from fjit.oracle.choose import seeded
from fjit.oracle.programs import build
from fjit.runtime.jit import assembly, cache_key
from fjit.target import CPU_TARGETS
from fjit.testing import check

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(2, 40, 50))
SINGLE = X.astype(np.float32), Y.astype(np.float32)


class Case(NamedTuple):
    """What a flag licenses in a function: a pattern that the code then has more of, or less."""

    flag: str
    function: Callable[..., Any]
    pattern: str
    more: bool
    words: str


CASES = {
    "add": Case("contract", lambda x, y: x * y + 2, r"llvm\.fma", True, "1 multiply-add"),
    "subtract": Case(
        "contract", lambda x, y: (x * y - x, y - x * 3), r"llvm\.fma", True, "2 multiply-adds"
    ),
    "scan": Case(
        "reassoc", lambda x, y: np.cumsum(x * y, 1), r"<32 x (float|double)>", True, "1 running sum"
    ),
    "constants": Case("reassoc", lambda x, y: (x + 0.1) - 0.3, "fadd|fsub", False, "1 add"),
    "sum of sums": Case("reassoc", lambda x, y: x.sum(1).sum(), "fadd", False, "1 sum"),
    "maximum": Case("nnan", np.maximum, "fcmp uno", False, "1 max"),
    "row maxima": Case("nnan", lambda x, y: (x * y).max(1), "fcmp uno", False, "1 max"),
    "column minima": Case("nnan", lambda x, y: (x * y).min(0), "fcmp uno", False, "1 min"),
    "position": Case("nnan", lambda x, y: (x * y).argmax(1), "fcmp uno", False, "1 argmax"),
    "length": Case("ninf", np.hypot, "fcmp oeq", False, "1 hypot"),
    "plus zero": Case("nsz", lambda x, y: x + 0.0, "fadd", False, "1 added zero"),
    "zero minus": Case("nsz", lambda x, y: 0 - x, "fsub", False, "1 negation"),
    "by a constant": Case("arcp", lambda x, y: x / 3, "fdiv", False, "1 reciprocal"),
    "by a number": Case("arcp", lambda x, y: x / y[0, 0], "fmul", True, "1 reciprocal"),
    "by a column": Case("arcp", lambda x, y: x / y[:, :1], "fmul", True, "1 reciprocal"),
    "by one for all": Case(
        "arcp", lambda x, y: (x / y, y[::-1] / y, 2 / y), "fdiv", False, "3 reciprocals"
    ),
    "exp": Case("approx", lambda x, y: np.exp(x), "fjit.approx_exp_guard", True, "1 exp"),
    "sin": Case("approx", lambda x, y: np.sin(x * 9), "fjit.approx_sin_guard", True, "1 sin"),
}


def count(pattern: str, function: Any, *arguments: Any) -> int:
    return len(re.findall(pattern, function.lower(*arguments).llvm_ir))


@pytest.mark.parametrize("name", CASES)
def test_the_code_changes_as_promised(name: str) -> None:
    case = CASES[name]
    before = count(case.pattern, fjit.fuse(case.function), X, Y)
    after = count(case.pattern, fjit.fuse(case.function, fastmath={case.flag}), X, Y)
    assert after > before if case.more else after < before


@pytest.mark.parametrize("name", CASES)
def test_the_report_says_what_was_licensed(name: str) -> None:
    case = CASES[name]
    report = fjit.fuse(case.function, fastmath={case.flag}).explain(X, Y, compile=False)
    assert report.fastmath == ((case.flag, case.words),)
    assert case.words in str(report)
    if case.words != "1 added zero":  # which leaves no trace in a kernel
        assert [f"{case.flag}: {case.words}"] == [w for k in report.kernels for w in k.licensed]


@pytest.mark.parametrize("arguments", [(X, Y), SINGLE], ids=["f64", "f32"])
@pytest.mark.parametrize("name", CASES)
def test_results_stay_within_the_licence_on_every_path(
    name: str, arguments: tuple[Any, ...]
) -> None:
    case = CASES[name]
    fused = fjit.fuse(case.function, fastmath={case.flag})
    if arguments is SINGLE:
        check_paths(fused, arguments, {}, [NATURAL, UNFUSED, *FUSED[::3]])
    else:
        check(fused, *arguments)


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("name", CASES)
def test_other_flags_change_nothing(name: str, flag: str) -> None:
    case = CASES[name]
    if flag != case.flag and (name, flag) != ("length", "approx"):  # which has a form of its own
        plain, other = (fjit.fuse(case.function, fastmath=f) for f in ((), (flag,)))
        assert str(other.lower(X, Y).nests) == str(plain.lower(X, Y).nests)


EXACT_CASES = [n for n, c in CASES.items() if c.flag != "approx" and n not in ("scan", "length")]


@pytest.mark.parametrize("name", [n for n in EXACT_CASES if n != "sum of sums"])
def test_without_the_flag_the_bits_are_numpy_s(name: str) -> None:
    function = CASES[name].function
    got, want = fjit.fuse(function)(X, Y), function(X, Y)
    for g, w in zip(np.atleast_1d(got), np.atleast_1d(want), strict=True):
        assert np.array_equal(g, w) and np.array_equal(np.signbit(g), np.signbit(w))


def test_a_product_that_others_read_is_rounded_once_for_all() -> None:
    """Else the copies would differ, and the largest element of a softmax would not be exp(0)."""

    def f(x: Any, y: Any) -> Any:
        scores = x * y
        return np.exp(scores - scores.max(1, keepdims=True)).max(1)

    fused = fjit.fuse(f, fastmath={"contract"})
    assert fused.explain(X, Y, compile=False).fastmath == (("contract", "nothing"),)
    assert (fused(X, Y) == 1).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("fusion", ["auto", "none"])
def test_isnan_and_isfinite_keep_working(dtype: Any, fusion: str) -> None:
    """Of computed values, too: nothing that is NaN or infinite becomes undefined."""

    def f(x: Any, y: Any) -> Any:
        total = x * y + x / 3
        return np.isnan(total), np.isfinite(total), np.isinf(total), total != total

    numbers = np.array([1.5, -0.0, np.nan, np.inf, -np.inf, 3.0] * 9, dtype)
    x, y = np.meshgrid(numbers, numbers)
    with np.errstate(all="ignore"):
        expected = f(x, y)
    fused = fjit.fuse(f, fusion=fusion, fastmath={"nnan", "ninf"})
    for got, want in zip(fused(x, y), expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_oracle_lets_a_promise_be_broken() -> None:
    """Where an argument is NaN or infinite against the flag, that element may be anything."""
    x, y = X.copy(), Y.copy()
    x[3, 4], y[5, 6] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        check(fjit.fuse(lambda x, y: (np.maximum(x, y), x + y), fastmath={"nnan"}), x, y)
        check(fjit.fuse(lambda x, y: (np.hypot(x, y), x.max(0)), fastmath={"ninf"}), x, y)


def test_the_oracle_catches_a_wrong_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(rw: Rewriter, eqn: Eqn) -> Draft | None:
        made = relax.multiply_add(rw, eqn)
        assert made is None or isinstance(made, Draft)
        return None if made is None else made._replace(inputs=(made.inputs[0], *made.inputs[:2]))

    monkeypatch.setitem(relax.LICENSED, "contract", {p.add: (wrong,)})
    with pytest.raises(AssertionError, match="ulp apart"):
        check(fjit.fuse(lambda x, y: x * y + 2, fastmath={"contract"}), X, Y)


def check_program(seed: int) -> None:
    """A random program under random flags."""
    rng = np.random.default_rng(seed)
    flags = [flag for flag in FLAGS if rng.random() < 0.6]
    program = build(seeded(seed))
    try:
        check(fjit.fuse(program.function, fastmath=flags), *program.arguments)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, {flags}\n{program}\n{error}") from error


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_under_random_flags(seed: int) -> None:
    check_program(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_many_random_programs_under_random_flags(part: int) -> None:
    for seed in range(4 + part * 50, 54 + part * 50):
        check_program(seed)


def test_fused_and_unfused_agree_bit_for_bit() -> None:
    def f(x: Any, y: Any) -> Any:
        scaled = (x * y + 0.5) / y[0]
        return scaled, scaled.max(1), np.tanh(scaled) * x - 1, np.cumsum(scaled + 0.0, axis=1)

    options = {"fastmath": FLAGS}
    fused = fjit.fuse(f, **options)(*SINGLE)
    unfused = fjit.fuse(f, fusion="none", **options)(*SINGLE)
    for a, b in zip(fused, unfused, strict=True):
        np.testing.assert_array_equal(a, b)
    check_paths(fjit.fuse(f, **options), SINGLE, {}, [NATURAL, UNFUSED])


@pytest.mark.parametrize("name", ["avx512", "avx2", "neon"])
def test_every_architecture_gets_the_forms(name: str) -> None:
    fused = fjit.fuse(lambda x: np.exp(x) * x + np.maximum(x, 2), fastmath=FLAGS)
    (nest,) = fused.lower(SINGLE[0]).nests
    code = assembly(cpu.emit(nest, CPU_TARGETS[name]), CPU_TARGETS[name])
    assert re.search(r"vfmadd\d+ps|fmla", code)


# The keyword


@pytest.mark.parametrize("bad", [{"fast"}, "fast", "nsz, nnan", ["contract", "no"], None, 1, True])
def test_a_bad_flag_is_refused_with_the_good_ones(bad: Any) -> None:
    with pytest.raises(FjitValueError, match=re.escape(f"fastmath={bad!r} is not known")) as raised:
        fjit.fuse(fastmath=bad)
    assert all(flag in str(raised.value) for flag in FLAGS)


@pytest.mark.parametrize("good", [{"nsz"}, ["nsz"], ("nsz", "nsz"), frozenset(["nsz"]), "nsz"])
def test_any_collection_of_flags_will_do_and_one_flag_alone(good: Any) -> None:
    fused: Any = fjit.fuse(lambda x: x + 0.0, fastmath=good)
    assert fused.choices.fastmath == {"nsz"}
    assert np.signbit(fused(np.array([-0.0])))


def test_flags_are_part_of_the_code_s_key() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.exp(x) * y + 1

    plain, fast = fjit.fuse(f), fjit.fuse(f, fastmath={"contract", "approx"})
    keys = []
    for fused in (plain, fast):
        lowered = fused.lower(X, Y)
        keys.append([cache_key(str(nest), lowered.target) for nest in lowered.nests])
    assert keys[0] != keys[1]
    first = plain(X, Y)
    assert not np.array_equal(fast(X, Y), first)
    np.testing.assert_array_equal(plain(X, Y), first)


def test_the_outer_function_s_flags_hold_for_those_it_calls() -> None:
    inner = fjit.fuse(lambda x: x + 0.0, fastmath={"nsz"})

    def outer(x: Any) -> Any:
        return inner(x) * 2

    zero = np.array([-0.0])
    assert not np.signbit(fjit.fuse(outer)(zero))
    assert np.signbit(fjit.fuse(outer, fastmath={"nsz"})(zero))


def test_make_program_shows_what_a_flag_made() -> None:
    fused = fjit.fuse(lambda x: np.exp(x) * x + 1, fastmath={"contract", "approx"})
    text = str(fjit.make_program(fused)(np.ones(3)))
    assert "exp[fast=approx] a" in text and "fma b a 1.0:f64" in text


def test_plans_with_and_without_flags_are_compared() -> None:
    both = fjit.explain(lambda x: x / 3, X, compare=["auto", {"fastmath": {"arcp"}}])
    assert [report.fastmath for report in both.reports.values()] == [
        (), (("arcp", "1 reciprocal"),)
    ]  # fmt: skip
