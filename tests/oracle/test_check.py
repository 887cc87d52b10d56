"""The oracle passes what is right and catches what is wrong, whichever path it is wrong on."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fjit import fused, planning
from fjit.backend import cpu
from fjit.core import primitives as p
from fjit.core.ir import Program
from fjit.lower.nest import Nest
from fjit.optimize.plan import Plan
from fjit.oracle import check as oracle
from fjit.oracle.memory import LAYOUTS, lay_out
from fjit.runtime.executable import Executable, clear_kernels
from fjit.target import CpuTarget
from fjit.testing import check

X = np.linspace(-2, 2, 37)


@pytest.fixture(autouse=True)
def fresh_kernels() -> Iterator[None]:
    """No machine code made by a sabotaged back end outlives its test."""
    clear_kernels()
    yield
    clear_kernels()


# What is right passes


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_passes(layout: str) -> None:
    x = lay_out(np.arange(-6.0, 6.0).reshape(3, 4), layout)
    check(lambda a: (np.tanh(a) * 2 + a[::-1], a.sum(0), a.max()), x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(),
        lambda x: {"a": x[x > 0], "b": (np.floor(x).astype("i4"), None)},
        lambda x: np.floor(np.exp(x) * 1e3) % 7,
        lambda x: x,
        lambda x: x[::-2],
        lambda x: (x.var(), x.mean(), np.cumsum(x)),
    ],
)
def test_right_answers_pass(f: Callable[..., Any]) -> None:
    check(f, X)


def test_keywords_scalars_and_trees_pass() -> None:
    def f(tree: Any, *, scale: float) -> Any:
        return [tree["a"] * scale, tree["b"][0] + 1]

    check(f, {"a": np.ones(3, "f4"), "b": (np.arange(4), 2)}, scale=2.0)


def test_changed_arguments_are_compared_and_ours_are_kept() -> None:
    def f(a: Any, b: Any) -> Any:
        a[1:] += b[:-1]
        b[...] = np.exp(a)
        return a

    a, b = X.copy(), np.asfortranarray(X)
    check(f, a, b)
    np.testing.assert_array_equal(a, X)
    np.testing.assert_array_equal(b, X)


def test_the_same_kind_of_error_passes() -> None:
    check(lambda a, b: a + b, np.ones(3), np.ones(4))
    check(lambda a: a.max(), np.ones(0))
    check(lambda a: np.concatenate([a, a], axis=3), np.ones(2))


def test_a_mask_that_rounding_decides_passes() -> None:
    check(lambda x: x[np.exp(x) > 1], np.array([0.0, 1.0, -1.0]))


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize(
    "f",
    [
        np.sum,
        np.mean,
        np.var,
        lambda x, axis: (x * 0.1 + 1).prod(axis=axis),
        np.cumsum,
        lambda x, axis: x - x.sum(axis=axis, keepdims=True),
        lambda x, axis: np.exp(x).sum(axis=axis),
        lambda x, axis: x[:0].sum(axis=axis),
    ],
)
def test_halves_pass_whatever_numpy_adds_them_in(f: Callable[..., Any], axis: int | None) -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 4), (70, 9)):
        for scale in (1, 1e-3, 60):
            check(lambda x: f(x, axis=axis), (scale * rng.standard_normal(shape)).astype("f2"))
    check(lambda x: f(x, axis=axis), np.array([[6e-8, -0.0], [6e4, 6e4], [6e4, -6e4]], "f2"))


def whole(x: Any, y: Any) -> Any:
    x[:] = x @ x.T
    return x, y


def rows(x: Any, y: Any) -> Any:
    part = x[1:]
    x[:] = np.exp(x) @ x.T
    return part * 2, part, y.T


def other(x: Any, y: Any) -> Any:
    y[:] = y @ x
    return x


def product(x: Any, y: Any) -> None:
    np.matmul(x, x.T, out=x)
    y += 1


@pytest.mark.parametrize("f", [whole, rows, other, product])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize(
    "part",
    [
        lambda x: x[1:],
        lambda x: x[::-1],
        lambda x: x[:, ::-1][::2],
        lambda x: x.T,
        lambda x: x,
        lambda x: x[:],
        lambda x: x.copy(),
    ],
)
def test_products_written_to_arguments_that_share_memory_pass(
    f: Callable[..., Any], dtype: str, part: Callable[[Any], Any]
) -> None:
    x = (np.random.default_rng(0).standard_normal((6, 6)) * 2).astype(dtype)
    check(f, x, part(x))


def test_a_wrong_product_in_shared_memory_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    call = fused.Fused.__call__

    def wrong(self: fused.Fused, x: Any, y: Any) -> Any:
        result = call(self, x, y)
        x[3, 3] *= 1 + 1e-12
        return result

    monkeypatch.setattr(fused.Fused, "__call__", wrong)
    x = np.random.default_rng(0).standard_normal((6, 6))
    fails(r"result\[0\]\[3, 3\]", whole, x, x[1:])


# What is wrong does not


def sabotage(monkeypatch: pytest.MonkeyPatch, old: str, new: str, width: int | None = None) -> None:
    """Let the back end emit `new` for the pattern `old`, at one number of lanes or at all."""
    emit = cpu.emit

    def wrong(nest: Nest, target: CpuTarget, lanes: int = 0) -> str:
        text = emit(nest, target, lanes)
        return re.sub(old, new, text) if width in (None, lanes) else text

    monkeypatch.setattr(cpu, "emit", wrong)


def fails(words: str, f: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(AssertionError, match=words) as error:
        check(f, *arguments)
    return str(error.value)


def test_a_wrong_operation_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(monkeypatch, r"\bfsub\b", "fadd")
    text = fails(r"result\[0\] is np.float64", lambda x: x - 1.5, X)
    assert "sub a 1.5:f64" in text and "kernel[program=" in text


@pytest.mark.parametrize("width", oracle.WIDTHS)
def test_a_wrong_number_of_lanes_is_named(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    sabotage(monkeypatch, r"\bfmul\b", "fadd", width)
    fails(f"^{width} lanes, 1 threads, first call: result", lambda x: x * 3, X)


def test_one_unit_between_lanes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the slack against NumPy, and yet not the same bits as the other widths."""
    sabotage(monkeypatch, r"0x3FE62E42F\w+", "0x3FE62E42FEFA0000", 8)
    sabotage(monkeypatch, r"\bfsub\b", "fsub contract", 8)
    try:
        check(lambda x: np.expm1(x) + np.exp(x), X)
    except AssertionError as error:
        assert str(error).startswith("8 lanes")


def test_a_wrong_elementary_function_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(p.MEANINGS, p.tanh, lambda a: np.tanh(a) * (1 + 1e-14))
    fails("interpreter", np.tanh, X)


def test_a_wrong_plan_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planning.plan

    def wrong(*arguments: Any, **keywords: Any) -> Plan:
        made = plan(*arguments, **keywords)
        program = made.program
        outputs = (program.outputs[1], program.outputs[0])
        return Plan(Program(program.inputs, program.eqns, outputs), *list_of(made)[1:])

    def list_of(made: Plan) -> list[Any]:
        return [made.program, made.kernels, made.decisions, made.layouts]

    monkeypatch.setattr(planning, "plan", wrong)
    fails("fused interpreter: output 0", lambda x: (x + 1, x + 2), X)


def test_a_forgotten_write_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "copyto", lambda *arguments, **keywords: None)

    def f(a: Any) -> None:
        a += 1

    with pytest.raises(AssertionError, match="argument #0 afterwards"):
        check(f, X.copy())


def test_a_result_that_lies_elsewhere_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    call = fused.Fused.__call__
    monkeypatch.setattr(fused.Fused, "__call__", lambda self, *a: call(self, *a).copy())
    fails("does not share memory with argument #0", lambda x: x[1:], X)


def test_another_axis_order_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    call = fused.Fused.__call__
    monkeypatch.setattr(fused.Fused, "__call__", lambda self, *a: np.asfortranarray(call(self, *a)))
    fails("has strides", lambda x: x + 1, np.ones((2, 3)))


def test_a_second_call_that_differs_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    call, count = fused.Fused.__call__, iter(range(99))
    monkeypatch.setattr(
        fused.Fused, "__call__", lambda self, *a: call(self, *a) + (next(count) % 2 > 0)
    )
    fails("second call", lambda x: x + 1, X)


def test_an_error_of_our_own_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Executable, *arguments: Any, **keywords: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setattr(Executable, "__init__", broken)
    fails("first call: KeyError", lambda x: x + 1, X)


def test_a_missing_error_is_caught() -> None:
    seen: list[int] = []

    def f(x: Any) -> Any:
        seen.append(1)
        if len(seen) == 1:
            raise ValueError("only NumPy meets this")
        return x + 1

    fails("no error, where NumPy raises ValueError", f, X)
