"""Products in panels: what is joined, why not, in what memory, and that bits stay the same."""

from typing import Any

import numpy as np
import pytest

import fjit
from fjit.optimize.frames import is_frame, product_of
from fjit.optimize.panels import cut_of
from fjit.testing import check

RNG = np.random.default_rng(0)


def arrays(dtype: str, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(RNG.standard_normal(shape).astype(dtype) for shape in shapes)


def relu(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0)


def attention(q: Any, k: Any, v: Any) -> Any:
    s = q @ np.swapaxes(k, -1, -2) / 8
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ v


def normalised(x: Any, w: Any, b: Any) -> Any:
    y = x @ w
    z = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
    return z * b, z.max(-1)


def several_results(x: Any, w: Any, b: Any) -> Any:
    y = x @ w
    return y + b, y * b, y.sum(-1)


def product_kept(x: Any, w: Any, b: Any) -> Any:
    y = x @ w
    return y, y + b


def squares(x: Any, w: Any, b: Any) -> Any:
    y = x @ w
    return y @ np.swapaxes(y, -1, -2)


FUNCTIONS = {
    "relu": relu,
    "normalised": normalised,
    "prologue": lambda x, w, b: np.tanh(x) @ w,
    "row prologue": lambda x, w, b: (x - x.mean(-1, keepdims=True)) @ w,
    "both": lambda x, w, b: np.exp(-((x * 0.5) @ w) - b),
    "several results": several_results,
    "product kept": product_kept,
    "gated": lambda x, w, b: np.tanh(x @ w) * (np.sqrt(np.abs(x)) @ w) @ w.swapaxes(-1, -2),
    "two products": lambda x, w, b: np.tanh(x @ w) * (x @ (w * 2)),
    "transposed": lambda x, w, b: np.abs(np.swapaxes(w, -1, -2) @ np.swapaxes(x, -1, -2)),
    "reversed": lambda x, w, b: x[..., ::-1, :] @ w[..., ::2, :].repeat(2, -2)[..., ::-1, ::-1],
    "columns": lambda x, w, b: (x @ w).sum(-2) + b,
    "squares": squares,
}
SHAPES = {
    "tall": ((300, 40), (40, 70)),
    "low": ((3, 200), (200, 60)),
    "stack": ((3, 20, 40), (3, 40, 50)),
    "shared": ((2, 3, 20, 30), (30, 40)),
    "repeated": ((30, 40), (3, 40, 36)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_panels_give_numpys_results(name: str, shape: str) -> None:
    one, other = SHAPES[shape]
    for dtype in ("f4", "f8"):
        check(FUNCTIONS[name], *arrays(dtype, one, other, other[-1:]))


@pytest.mark.parametrize("layout", ["F", "strided", "swapped", "offset", "mixed", "unaligned"])
def test_layouts_of_operands(layout: str) -> None:
    x, w, b = arrays("f8", (40, 60), (60, 50), (50,))
    wide = np.zeros((80, 180))
    if layout == "strided":
        wide[::2, ::3] = x
        x = wide[::2, ::3]
    elif layout == "offset":
        x, w = x[3:37, 5:45], w[5:45, 2:]
        b = b[2:]
    elif layout == "swapped":
        x, w = x.astype(">f8"), w.astype(">f8")
    elif layout == "unaligned":
        x, w = (np.frombuffer(b"0" + a.tobytes(), "f8", offset=1).reshape(a.shape) for a in (x, w))
    elif layout == "mixed":
        x = x.astype("f4")
    else:
        x, w = np.asfortranarray(x), np.asfortranarray(w)
    check(relu, x, w, b)
    check(lambda x, w, b: (x.T @ x, w @ w.T, x @ w[:, ::-1]), x, w, b)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_nans_and_infinities(dtype: str) -> None:
    x, w, b = arrays(dtype, (40, 50), (50, 60), (60,))
    x[3, 4], x[5, 6], w[7, 8] = np.nan, np.inf, -np.inf
    check(relu, x, w, b)
    check(normalised, x, w, b)


def test_writing_over_operands() -> None:
    def f(x: Any, y: Any) -> Any:
        x[...] = np.tanh(x @ y)
        y[1:] = (y @ x)[:-1]
        return (x @ y).sum(1)

    check(f, *arrays("f8", (40, 40), (40, 40)))
    check(lambda x: np.matmul(x, x, out=x), *arrays("f8", (40, 40)))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_attention(dtype: str) -> None:
    check(attention, *arrays(dtype, (2, 150, 64), (2, 150, 64), (2, 150, 64)))
    check(attention, *arrays(dtype, (150, 64), (200, 64), (200, 40)))


# ---- what is joined -----------------------------------------------------------------------------


def told(function: Any, *arguments: Any, **options: Any) -> list[tuple[bool, str]]:
    report = fjit.fuse(**options)(function).explain(*arguments, compile=False)
    return [(d.taken, d.reason) for d in report.decisions if "matmul" in d.pair]


def test_relu_is_one_step_that_runs_without_python() -> None:
    x, w, b = arrays("f4", (200, 64), (64, 80), (80,))
    fused: Any = fjit.fuse(relu)
    assert len(fused.lower(x, w, b).plan.program.eqns) == 1
    for _ in range(3):
        result = fused(x, w, b)
    assert fused.answered and np.allclose(result, relu(x, w, b), atol=1e-4)
    assert told(relu, x, w, b) == [(True, "on panels of rows, while they are in cache")]


def test_what_is_refused_says_why() -> None:
    x, w, b = arrays("f8", (64, 40), (40, 64), (64,))
    reasons = {
        "another kernel or the caller needs all of the value": FUNCTIONS["product kept"],
        "the kernel does not walk row by row over the product": FUNCTIONS["columns"],
        "the left operand is not read row by row": lambda x, w, b: (x + 1).T @ w.T,
    }
    for reason, function in reasons.items():
        assert (False, reason) in told(function, x, w, b)
    short = (False, "rows of 20 elements: the kernel is faster over all rows as one")
    assert told(relu, *arrays("f8", (400, 40), (40, 20), (20,))) == [short]
    few = arrays("f8", (30, 40), (40, 2000), (2000,))
    assert (False, "a panel is only a part of the rows") in told(relu, *few)
    assert told(relu, x, w, b, fusion="none") == []
    refused = (False, "refused by the fusion function")
    assert told(relu, x, w, b, fusion=lambda d: "matmul" not in d.pair) == [refused]


def test_attention_never_holds_the_scores() -> None:
    q, k, v = arrays("f4", (8, 1024, 64), (8, 1024, 64), (8, 1024, 64))
    fused: Any = fjit.fuse(threads=2)(attention)
    executable = fused.prepare(q, k, v).executable
    scores = 8 * 1024 * 1024 * 4
    assert len(executable.program.eqns) == 1 and executable.arena_bytes == 0
    assert executable.private_from + 2 * executable.per_worker < scores // 10
    assert np.allclose(fused(q, k, v), attention(q, k, v), atol=1e-5)


def test_operands_are_read_where_they_are() -> None:
    x, w = arrays("f8", (64, 40), (64, 40))
    for function in (lambda x, w: x @ w.T, lambda x, w: x.T @ w, lambda x, w: x[5:] @ w[9:49]):
        assert not fjit.fuse(function).lower(x, w).nests


@pytest.mark.parametrize("m", [20, 300, 5000])
@pytest.mark.parametrize(("k", "n"), [(40, 3000), (3000, 40), (2000, 2000), (64, 64)])
def test_panels_cover_the_rows_and_depend_on_extents_alone(m: int, k: int, n: int) -> None:
    x, w = (np.zeros(shape, "f4") for shape in ((m, k), (k, n)))
    cuts = []
    for function in (lambda x, w: x @ w, lambda x, w: np.exp(np.exp(x) @ w)):
        steps = fjit.fuse(function).lower(x, w).plan.steps
        cuts.append(cut_of(next(product_of(e) for e in steps if is_frame(e))))
    cut = cuts[0]
    assert cuts[1] == cut
    assert cut.height * cut.down >= m > cut.height * (cut.down - 1)
    assert cut.width * cut.across >= n > cut.width * (cut.across - 1)
