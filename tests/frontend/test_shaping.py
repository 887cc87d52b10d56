"""Shapes and axes agree with NumPy; views share memory with their base, copies do not."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.frontend.conftest import run_traced

X = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
LAYOUTS = {
    "C": X,
    "F": np.asfortranarray(X),
    "T": np.arange(24, dtype=np.float64).reshape(4, 2, 3).transpose(1, 2, 0),
    "S": np.arange(96, dtype=np.float64).reshape(4, 3, 8)[::2, ::-1, ::2],
}

Function = Callable[[Any], Any]
VIEWS: dict[str, Function] = {
    "reshape": lambda a: a.reshape(6, 4),
    "reshape_hole": lambda a: np.reshape(a, (3, -1)),
    "reshape_f": lambda a: a.reshape((4, -1), order="F"),
    "reshape_a": lambda a: np.reshape(a, (4, 6), order="A"),
    "reshape_copy": lambda a: np.reshape(a, (4, 6), copy=True),
    "reshape_same": lambda a: a.reshape(2, 3, 4),
    "reshape_ones": lambda a: a.reshape(1, 2, 1, 3, 4, 1),
    "reshape_split": lambda a: a.reshape(2, 3, 2, 2),
    "ravel": lambda a: a.ravel(),
    "ravel_f": lambda a: a.ravel("F"),
    "ravel_k": lambda a: np.ravel(a, "K"),
    "flatten": lambda a: a.flatten(),
    "transpose": lambda a: a.T,
    "transpose_axes": lambda a: a.transpose(1, 2, 0),
    "permute_dims": lambda a: np.permute_dims(a, (0, 2, 1)),
    "matrix_transpose": np.matrix_transpose,
    "mT": lambda a: a.mT,
    "swapaxes": lambda a: np.swapaxes(a, 0, -1),
    "moveaxis": lambda a: np.moveaxis(a, (0, 1), (-1, -2)),
    "rollaxis": lambda a: np.rollaxis(a, 2, 1),
    "expand_dims": lambda a: np.expand_dims(a, (0, -1)),
    "squeeze": lambda a: np.squeeze(a[:1, :, None]),
    "squeeze_axis": lambda a: np.squeeze(a[:1], axis=0),
    "flip": np.flip,
    "flip_axis": lambda a: np.flip(a, (0, 2)),
    "flipud": np.flipud,
    "fliplr": np.fliplr,
    "rot90": lambda a: np.rot90(a, 1),
    "rot90_2": lambda a: np.rot90(a, 2, (1, 2)),
    "rot90_3": lambda a: np.rot90(a, -1, (2, 0)),
    "slice": lambda a: a[:, ::-2, 1:],
    "row": lambda a: a[1],
    "new": lambda a: a[:, None, 0],
    "astype": lambda a: a.astype("f4"),
    "astype_same": lambda a: a.astype("f8", copy=False),
    "unstack": lambda a: np.unstack(a, axis=1)[2],
    "copy": lambda a: a[...].astype("f8"),
}
READ_ONLY: dict[str, Function] = {
    "diagonal": np.diagonal,
    "diagonal_axes": lambda a: a.diagonal(1, 2, 0),
    "broadcast_to": lambda a: np.broadcast_to(a, (5, 2, 3, 4)),
    "broadcast_ones": lambda a: np.broadcast_to(a[:, :1], (2, 3, 4)),
}
COPIES: dict[str, Function] = {
    "resize": lambda a: np.resize(a, (5, 7)),
    "resize_less": lambda a: np.resize(a, 5),
    "trace": np.trace,
    "broadcast_arrays": lambda a: np.broadcast_arrays(a[0], a[:, :1, :1]),
    "shape": lambda a: (np.shape(a), np.ndim(a), np.size(a), np.size(a, 1), a.shape),
    "linalg_diagonal": lambda a: np.linalg.diagonal(a, offset=-1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", [*VIEWS, *READ_ONLY, *COPIES])
def test_values_and_layout(same_as_numpy: Any, name: str, layout: str) -> None:
    f = {**VIEWS, **READ_ONLY, **COPIES}[name]
    same_as_numpy(f, LAYOUTS[layout])
    same_as_numpy(lambda a: np.ravel(f(a), "K"), LAYOUTS[layout]) if name in VIEWS else None


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", VIEWS)
def test_writes_reach_the_base_as_in_numpy(same_as_numpy: Any, name: str, layout: str) -> None:
    def f(a: Any) -> Any:
        view = VIEWS[name](a)
        view[...] = 5
        return view, a

    def of_a_local(a: Any) -> Any:
        local = a.astype("f8")
        view = VIEWS[name](local)
        view[..., ::2] = 7
        local[0, 1] = -1
        return np.ravel(view), np.ravel(local)

    same_as_numpy(f, LAYOUTS[layout])
    same_as_numpy(of_a_local, LAYOUTS[layout])


@pytest.mark.parametrize("name", READ_ONLY)
def test_read_only_views_refuse_writes(same_as_numpy: Any, name: str) -> None:
    def f(a: Any) -> Any:
        READ_ONLY[name](a)[...] = 1
        return a

    same_as_numpy(f, X)


BAD: dict[str, Function] = {
    "reshape": lambda a: a.reshape(5, 5),
    "reshape_holes": lambda a: a.reshape(-1, -1),
    "reshape_nocopy": lambda a: np.reshape(a.T, (24,), copy=False),
    "reshape_order": lambda a: a.reshape((24,), order="Q"),
    "transpose": lambda a: a.transpose(0, 1),
    "transpose_twice": lambda a: a.transpose(0, 1, 1),
    "axis": lambda a: np.swapaxes(a, 0, 3),
    "squeeze": lambda a: np.squeeze(a, 1),
    "broadcast": lambda a: np.broadcast_to(a, (3, 3, 4)),
    "moveaxis": lambda a: np.moveaxis(a, (0, 1), (0,)),
    "diagonal": lambda a: np.diagonal(a[0, 0]),
    "fliplr": lambda a: np.fliplr(a[0, 0]),
    "astype": lambda a: a.astype("i4", casting="safe"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_raise_as_in_numpy(same_as_numpy: Any, name: str) -> None:
    same_as_numpy(BAD[name], X)


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 0, 4)])
def test_small_and_empty(same_as_numpy: Any, shape: tuple[int, ...]) -> None:
    x = np.ones(shape)
    same_as_numpy(lambda a: (a.ravel(), a.T, np.flip(a), a.reshape(-1) if a.size else a), x)
    same_as_numpy(lambda a: (a[None], np.squeeze(a[..., None]), a.astype("i8")), x)


@pytest.mark.parametrize("flipped", [(1, 1, 1), (1, -1, 1), (-1, 1, -1)])
@pytest.mark.parametrize("repeated", [None, 0, 1, 2, 3])
def test_ravel_in_order_of_memory(repeated, flipped, same_as_numpy):
    x = np.arange(24).reshape(2, 3, 4)[tuple(slice(None, None, s) for s in flipped)]
    for perm in itertools.permutations(range(3)):
        y = x.transpose(perm)
        if repeated is not None:
            wide = (*y.shape[:repeated], 5, *y.shape[repeated:])
            y = np.broadcast_to(np.expand_dims(y, repeated), wide)
        for f in (lambda a: a.ravel("K"), lambda a: a.flatten("K"), lambda a: a[..., 0].ravel("K")):
            got, _ = run_traced(f, (y,))
            np.testing.assert_array_equal(got, f(y))
