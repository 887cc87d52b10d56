"""Products written out: which are, that they fuse, and that they are NumPy's in every layout."""

from typing import Any

import numpy as np
import pytest

import fjit
from fjit.testing import check

RNG = np.random.default_rng(0)
DTYPES = ["f8", "f4", "f2", "i8", "i4", "u1", "?"]

LOOPS = {  # products that are loops of the kernel, whatever the dtype
    "square": ((4, 4), (4, 4)), "points": ((300, 3), (3, 3)), "outer": ((40, 2), (2, 30)),
    "stack": ((2, 5, 8), (2, 8, 6)), "broadcast": ((2, 1, 4, 8), (3, 8, 5)), "dot": ((5,), (5,)),
    "matrix-vector": ((20, 5), (5,)), "vector-matrix": ((5,), (5, 20)),
    "one term": ((3, 1), (1, 3)), "long dot": ((100,), (100,)), "no terms": ((3, 0), (0, 2)),
    "long rows": ((60,), (60, 17)), "few long columns": ((3, 5000), (5000,)),
    "no rows": ((0, 9), (9, 2)),
    "one": ((1, 1), (1, 1)), "sixteen": ((9, 16), (16, 9)), "no stack": ((0, 3, 4), (4, 5)),
}  # fmt: skip


def operands(shapes: Any, dtype: str) -> tuple[Any, ...]:
    return tuple((RNG.standard_normal(shape) * 4).astype(dtype) for shape in shapes)


def left_over(function: Any, *arguments: Any) -> list[str]:
    """What a plan has beside kernels."""
    report = fjit.fuse(function).explain(*arguments, compile=False)
    return [call.name.partition("_")[2] for call in report.calls]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LOOPS)
def test_small_products_and_vectors_are_loops(name: str, dtype: str) -> None:
    a, b = operands(LOOPS[name], dtype)
    assert left_over(np.matmul, a, b) == []
    check(np.matmul, a, b)


@pytest.mark.parametrize("dtype", ["f2", "i2", "u8", "?"])
def test_what_no_library_multiplies_is_a_loop_of_any_size(dtype: str) -> None:
    a, b = operands(((2, 20, 40), (40, 30)), dtype)
    assert left_over(np.matmul, a, b) == []
    check(np.matmul, a, b)


COLUMNS = {
    "columns": ((17, 60), (60,)), "stacked": ((3, 7, 40), (40,)), "tall": ((700, 600), (600,)),
    "matrix": ((30, 50), (50, 1)), "stacks": ((4, 20, 30), (4, 30, 1)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4"])
@pytest.mark.parametrize("name", COLUMNS)
def test_rows_in_memory_times_a_vector(name: str, dtype: str) -> None:
    a, b = operands(COLUMNS[name], dtype)
    assert left_over(np.matmul, a, b) == ["matmul"] * (dtype[0] == "f" and dtype != "f2")
    check(np.matmul, a, b)
    check(lambda x, y: (x[..., ::-1] @ y, np.exp(-np.abs(x @ y[::-1]))), a, b)
    turned = np.ascontiguousarray(a.swapaxes(-1, -2))
    check(lambda x, y: x.swapaxes(-1, -2) @ y + 1, turned, b)
    assert left_over(lambda x, y: np.tanh(x) @ y, a, b) == []


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_large_products_are_left_to_the_library(dtype: str) -> None:
    assert left_over(np.matmul, *operands(((30, 40), (40, 20)), dtype)) == ["matmul"]
    assert left_over(np.matmul, *operands(((9, 20, 16), (16, 20)), dtype)) == ["matmul"]


def test_products_fuse_with_what_surrounds_them() -> None:
    x, m, v = operands(((200, 3), (3, 3), (200,)), "f8")

    def turned(x: Any, m: Any, v: Any) -> Any:
        y = np.sin(x) @ m.T + 1
        return np.sqrt(np.abs(y)) * (x @ y[0])[:, None], v @ x

    check(turned, x, m, v)
    lowered = fjit.fuse(lambda x, m: np.tanh((x * 2) @ m + 1)).lower(x, m)
    assert len(lowered.plan.kernels) == 1


@pytest.mark.parametrize(("count", "cuts"), [(1, 0), (5, 0), (50, 2)])
def test_chains_of_products_are_one_kernel_until_their_text_is_long(count: int, cuts: int) -> None:
    def power(m: Any) -> Any:
        x = m
        for _ in range(count):
            x = x @ m
        return x

    (m,) = operands(((3, 3),), "f8")
    check(power, m / np.linalg.norm(m, 2))
    assert left_over(power, m) == []
    (m,) = operands(((8, 8),), "f8")
    assert len(left_over(power, m)) == cuts


@pytest.mark.parametrize("layout", ["F", "reversed", "strided", "swapped", "read-only", "repeated"])
def test_layouts(layout: str) -> None:
    a, b = operands(((20, 12), (12, 20)), "f8")
    changed = {
        "F": np.asfortranarray, "reversed": lambda x: x[::-1, ::-1],
        "strided": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
        "swapped": lambda x: x.astype(">f8"), "read-only": np.array,
        "repeated": lambda x: np.broadcast_to(x[:1], x.shape),
    }[layout]  # fmt: skip
    a, b = changed(a), changed(b)
    a.flags.writeable = b.flags.writeable = layout not in ("read-only", "repeated")
    for rows in (20, 4):
        check(lambda x, y: x @ y, a[:rows], b)
        check(lambda x, y: (x.T @ x, y[:, 0] @ x, x @ y[:, 0]), a[:rows, :12], b)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
def test_infinities_nans_and_zeros(dtype: str) -> None:
    a = np.array([[np.inf, 1, -0.0], [np.nan, 2, 0.0], [-0.0, -0.0, -0.0]], dtype)
    check(np.matmul, a, np.ones((3, 3), dtype))
    check(np.matmul, a, np.zeros((3, 3), dtype))
    check(np.matmul, a[2:], np.ones((3, 2), dtype))


def test_writing_over_an_operand() -> None:
    def f(x: Any, y: Any) -> Any:
        x[...] = x @ y
        x[1:] = x[:-1] @ y
        return x.sum()

    check(f, *operands(((5, 4), (4, 4)), "f8"))


EINSUMS = [
    ("ij,jk->ik", (30, 3), (3, 3)), ("bij,bjk->bik", (9, 4, 4), (9, 4, 4)),
    ("ij,kj->ik", (9, 5), (7, 5)),
    ("ij,j->i", (40, 3), (3,)), ("i,i", (8,), (8,)), ("ijk,kl->ijl", (4, 5, 3), (3, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("subscripts", "one", "other"), EINSUMS)
def test_einsum(subscripts: str, one: Any, other: Any) -> None:
    f = lambda a, b: np.einsum(subscripts, a, b)
    for dtype in ("f8", "i4"):
        a, b = operands((one, other), dtype)
        assert left_over(f, a, b) == []
        check(f, a, b)
