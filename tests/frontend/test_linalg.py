"""Products, einsum and norms agree with NumPy within the bound of a sum of products."""

from typing import Any

import numpy as np
import pytest

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 4))
B = RNG.standard_normal((4, 5))
V = RNG.standard_normal(4)
W = RNG.standard_normal(3)
S = RNG.standard_normal((2, 3, 4))
R = RNG.standard_normal((2, 4, 5))
CLOSE = {"rtol": 1e-11}

PAIRS = {
    "mm": (A, B), "mv": (A, V), "vm": (V, B), "vv": (V, V), "bm": (S, B), "bb": (S, R),
    "mb": (A, R), "bv": (S, V), "vb": (V, R), "bc": (S[:, None], R), "one": (A[:1], B[:, :1]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1", "?", "i8"])
@pytest.mark.parametrize("pair", PAIRS)
def test_matmul(same_as_numpy: Any, pair: str, dtype: str) -> None:
    a, b = ((x * 4).astype(dtype) for x in PAIRS[pair])
    bound = {"rtol": 1e-4 if dtype == "f4" else 1e-11} if dtype[0] == "f" else {}
    same_as_numpy(lambda x, y: x @ y, a, b, **bound)
    same_as_numpy(np.matmul, a, b, **bound)


def test_matmul_layouts_dtypes_and_out(same_as_numpy: Any) -> None:
    same_as_numpy(lambda x, y: x.T @ y[::-1], np.asfortranarray(A.T), B, **CLOSE)
    same_as_numpy(lambda x, y: x @ y, A.astype("f4"), B, **CLOSE)
    same_as_numpy(lambda x, y: x @ y, A.astype("i4"), B.astype("f4"), rtol=1e-4)
    same_as_numpy(lambda x, y, o: np.matmul(x, y, out=o), A, B, np.zeros((3, 5)), **CLOSE)
    same_as_numpy(lambda x, y: x @ y, np.zeros((3, 0)), np.zeros((0, 2)))


PRODUCTS: dict[str, Any] = {
    "dot": lambda a, b, v, w, s: (np.dot(a, b), a.dot(v), np.dot(v, v), np.dot(a, 2), np.dot(s, v)),
    "dot_3d": lambda a, b, v, w, s: np.dot(s, b),
    "vdot": lambda a, b, v, w, s: np.vdot(a, a * 2),
    "inner": lambda a, b, v, w, s: (np.inner(v, v), np.inner(a, a), np.inner(s, a), np.inner(v, 2)),
    "outer": lambda a, b, v, w, s: (np.outer(v, w), np.outer(a, v), np.linalg.outer(v, w)),
    "tensordot": lambda a, b, v, w, s: (
        np.tensordot(a, b, 1), np.tensordot(s, a), np.tensordot(v, w, 0),
        np.tensordot(s, a, axes=([1, 2], [0, 1])), np.tensordot(s, s, ((0, 2), (0, 2))),
        np.tensordot(v, v, 1)),
    "kron": lambda a, b, v, w, s: (np.kron(a, b), np.kron(v, w), np.kron(v, a)),
    "vecdot": lambda a, b, v, w, s: (np.linalg.vecdot(a, v), np.vecdot(s, a)),
    "cross": lambda a, b, v, w, s: (np.cross(w, w * [1, 2, 3]), np.cross(a.T, w),
                                    np.cross(a, a[:, ::-1], axis=0), np.linalg.cross(w, w)),
    "trace": lambda a, b, v, w, s: (np.trace(a), np.trace(s, 1, 1, 2), np.linalg.trace(s)),
    "matvec": lambda a, b, v, w, s: (np.matvec(s, v), np.vecmat(w, a), np.vecmat(w, s)),
    "operators": lambda a, b, v, w, s: (a @ b, w @ a, np.linalg.matmul(s, b)),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(same_as_numpy: Any, name: str) -> None:
    loose = name in ("kron", "cross")
    same_as_numpy(PRODUCTS[name], A, B, V, W, S, layout=not loose, rtol=1e-11)


EINSUMS: list[tuple[str, tuple[Any, ...]]] = [
    ("ijk,ijk->i", (S, S)), ("ij->ji", (A,)), ("ii->i", (A[:, :3],)), ("ii", (A[:, :3],)),
    ("i,j->ij", (V, W)), ("ij->", (A,)), ("ij", (A,)), ("ba", (A,)), ("ij,jk", (A, B)),
    ("ij,jk->ik", (A, B)), ("ij,jk->ki", (A, B)), ("bij,bjk->bik", (S, R)), ("ij,j", (A, V)),
    ("i,i", (V, V)), ("i,i->i", (V, V)), ("...ij,...jk->...ik", (S, R)), ("...i->...", (S,)),
    ("i...->...", (S,)), ("...,...", (S, A)), ("ij,kj->ik", (A, A)), ("bij,jk->bik", (S, B)),
    ("ij,jk,k->i", (A, B, B[0])), ("i,ij,j", (W, A, V)), ("ij,ij,ij->j", (A, A, A)),
    ("ijj->i", (S[:, :, :3],)), ("ij,ji->", (A, A.T)), ("bij,bkj->bki", (S, S)),
    ("abc,cd->abd", (S, B)), ("abc,bd->acd", (S, A)), (" i j , j k -> i k ", (A, B)),
    ("i,->i", (V, np.float64(2))), ("iij->ij", (R[:, :2, :],)), ("ij,k->ijk", (A, W)),
    ("ij,ij->ij", (A, A[:1])), ("ijk->kji", (S,)), ("ij,jk->", (A, B)),
]  # fmt: skip


@pytest.mark.parametrize(("subscripts", "operands"), EINSUMS, ids=[e[0] for e in EINSUMS])
def test_einsum(same_as_numpy: Any, subscripts: str, operands: tuple[Any, ...]) -> None:
    loose = subscripts.count(",") > 0 and "->" in subscripts
    f = lambda *xs: np.einsum(subscripts, *xs)
    same_as_numpy(f, *operands, rtol=1e-11, layout=not loose)
    integers = [(x * 3).astype("i4") for x in operands]
    same_as_numpy(f, *integers, layout=False)


def test_einsum_forms(same_as_numpy: Any) -> None:
    same_as_numpy(lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [0, 2]), A, B, **CLOSE)
    same_as_numpy(lambda a, b: np.einsum(a, [0, 1], b, [1, 2]), A, B, **CLOSE)
    same_as_numpy(lambda a: np.einsum("ij->j", a, dtype="f8"), A.astype("f4"), **CLOSE)
    same_as_numpy(lambda a, o: np.einsum("ij->j", a, out=o), A, np.zeros(4), **CLOSE)
    same_as_numpy(lambda a, b: np.einsum("ij,jk", a, b, optimize=True), A, B, rtol=1e-11)


def test_python_numbers_count_as_float64(same_as_numpy: Any) -> None:
    def f(v: Any, s: float) -> Any:
        return np.dot(v, 2.0), np.inner(v, s), np.outer(v, s), np.kron(v, 2), np.tensordot(v, s, 0)

    same_as_numpy(f, V.astype("f4"), 3.0)
    same_as_numpy(lambda v, s: np.einsum("i,->i", v, s), V.astype("f4"), 3.0)


def test_einsum_transpose_is_a_view(same_as_numpy: Any) -> None:
    def f(a: Any) -> Any:
        np.einsum("ij->ji", a)[0] = 9
        return a

    same_as_numpy(f, A)


@pytest.mark.parametrize(
    ("subscripts", "operand"),
    [("ijk,ijk->i", S), ("ijk,jk->i", A), ("ijk,ijk->", S), ("ijk,i->ijk", S[:, 0, 0])],
)
def test_elementwise_einsum_needs_no_matrix_product(
    same_as_numpy: Any, subscripts: str, operand: Any
) -> None:
    f = lambda a, b: np.einsum(subscripts, a, b)
    traced = same_as_numpy(f, S, operand, rtol=1e-11, layout=False)
    assert "matmul" not in [e.primitive.name for e in traced.program.eqns]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
def test_matrix_norms(same_as_numpy: Any, dtype: str) -> None:
    a = (A * 5).astype(dtype)
    bound = {"rtol": 1e-5 if dtype == "f4" else 1e-12}
    norm = np.linalg.norm
    same_as_numpy(lambda x: (norm(x), norm(x, axis=0), norm(x, axis=(0, 1))), a, **bound)
    same_as_numpy(lambda x: (norm(x, "fro"), norm(x, 1), norm(x, np.inf), norm(x, -1)), a, **bound)
    same_as_numpy(lambda x: np.linalg.matrix_norm(x, ord=1, keepdims=True), a, **bound)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize("order", [None, 2, 1, np.inf, -np.inf, 0, 3])
def test_vector_norms(same_as_numpy: Any, order: Any, dtype: str) -> None:
    a, v = (A * 5).astype(dtype), (V * 5).astype(dtype)
    bound = {"rtol": 1e-5 if dtype == "f4" else 1e-12}
    same_as_numpy(lambda x: np.linalg.norm(x, order), v, **bound)
    same_as_numpy(lambda x: np.linalg.norm(x, order, axis=1, keepdims=True), a, **bound)
    if order is not None:
        vector_norm = np.linalg.vector_norm
        same_as_numpy(lambda x: vector_norm(x, ord=order), a, **bound)
        same_as_numpy(lambda x: vector_norm(x, ord=order, axis=(1, 0), keepdims=True), a, **bound)


BAD: dict[str, Any] = {
    "inner": lambda a, b: a @ a,
    "scalar": lambda a, b: np.matmul(a, 2),
    "batch": lambda a, b: np.matmul(np.ones((2, 3, 4)), np.broadcast_to(b, (3, 4, 5))) + a[0, 0],
    "dot": lambda a, b: np.dot(a, a),
    "tensordot": lambda a, b: np.tensordot(a, a, 1),
    "einsum_count": lambda a, b: np.einsum("ij,jk->ik", a),
    "einsum_rank": lambda a, b: np.einsum("ijk", a),
    "einsum_extent": lambda a, b: np.einsum("ij,ij", a, b),
    "einsum_output": lambda a, b: np.einsum("ij->ik", a),
    "einsum_letter": lambda a, b: np.einsum("i1->i", a),
    "cross": lambda a, b: np.cross(a, a),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_operands_raise_as_in_numpy(same_as_numpy: Any, name: str) -> None:
    same_as_numpy(BAD[name], A, B)
