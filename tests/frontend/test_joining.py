"""Joins, splits, tiles, rolls and pads agree with NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

X = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
LAYOUTS = {"C": X, "F": np.asfortranarray(X), "S": np.zeros((4, 3, 8))[::2, ::-1, ::2] + 3.5}
V = np.array([3.0, -1.0, 2.0, 0.5, 7.0])
I = np.array([3, -1, 2, 5], np.int32)  # noqa: E741
Function = Callable[[Any], Any]

JOINS: dict[str, Function] = {
    "concatenate": lambda a: np.concatenate([a, a[:1], a], axis=0),
    "concatenate_last": lambda a: np.concatenate((a, a[..., :0], a[..., ::-1]), axis=-1),
    "concatenate_flat": lambda a: np.concatenate([a, a[0, 0, 0], [1.5]], axis=None),
    "concatenate_one": lambda a: np.concatenate([a]),
    "concatenate_rows": np.concatenate,
    "concatenate_dtype": lambda a: np.concatenate([a, a], dtype="f4"),
    "concatenate_mixed": lambda a: np.concatenate([a.astype("i4"), a.astype("f4")]),
    "concat": lambda a: np.concat([a, a], axis=1),
    "stack": lambda a: np.stack([a, a, a]),
    "stack_last": lambda a: np.stack([a, a.astype("f4")], axis=-1),
    "stack_scalars": lambda a: np.stack([a[0, 0, 0], 1, 2.5]),
    "hstack": lambda a: (np.hstack([a, a]), np.hstack([a[0, 0], a[0, 0, 0]])),
    "vstack": lambda a: (np.vstack([a, a]), np.vstack([a[0, 0], a[1]])),
    "dstack": lambda a: (np.dstack([a, a]), np.dstack([a[0], a[1]]), np.dstack([a[0, 0]])),
    "column_stack": lambda a: np.column_stack([a[0, :, 0], a[0], a[1, :, 1]]),
    "append": lambda a: (np.append(a, [1, 2]), np.append(a, a[:, :1], axis=1)),
    "block": lambda a: np.block([[a[0], a[1]], [a[1], np.ones((3, 4))]]),
    "block_mixed": lambda a: np.block([a[0, 0], 1.0, a[1, 1]]),
    "split": lambda a: np.split(a, 2, axis=2),
    "split_at": lambda a: np.split(a, [1, 3], axis=2),
    "split_out_of_range": lambda a: np.split(a, [3, 2, -1, 9], axis=-1),
    "array_split": lambda a: np.array_split(a, 3, axis=2),
    "hsplit": lambda a: (np.hsplit(a, 3), np.hsplit(a[0, 0], 2)),
    "vsplit": lambda a: np.vsplit(a, [1]),
    "dsplit": lambda a: np.dsplit(a, 4),
    "tile": lambda a: (np.tile(a, 2), np.tile(a, (2, 1, 3)), np.tile(a, (2, 1, 1, 1))),
    "tile_vector": lambda a: (np.tile(a[0, 0], 3), np.tile(a[0, 0], (2, 2)), np.tile(a, 1)),
    "tile_none": lambda a: np.tile(a, (0, 1, 1)),
    "repeat": lambda a: (np.repeat(a, 3), np.repeat(a, 2, axis=1), a.repeat(0, axis=0)),
    "repeat_listed": lambda a: np.repeat(a, [2, 0, 1], axis=1),
    "repeat_traced": lambda a: np.repeat(a, a[0, :, 0].astype("i4") % 3, axis=1),
    "roll": lambda a: (np.roll(a, 1, axis=1), np.roll(a, -3, axis=2), np.roll(a, 5)),
    "roll_many": lambda a: (np.roll(a, (1, 2), (0, 2)), np.roll(a, 1, (0, 1))),
    "delete": lambda a: (np.delete(a, 1), np.delete(a, [0, 2], axis=1)),
    "delete_slice": lambda a: np.delete(a, slice(None, None, 2), axis=2),
    "delete_mask": lambda a: np.delete(a, [True, False, True, False], axis=2),
    "insert": lambda a: (np.insert(a, 1, 9.5), np.insert(a, 1, a[:, 0], axis=1)),
    "insert_many": lambda a: np.insert(a, [0, 2, 2], [1, 2, 3], axis=2),
    "rearrange_many": lambda a: np.repeat(np.tile(a[0, 0], 12), [2, 0, 1, 1] * 12),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", JOINS)
def test_joins(same_as_numpy: Any, name: str, layout: str) -> None:
    loose = name in ("block", "block_mixed", "delete", "delete_mask", "roll", "insert")
    same_as_numpy(JOINS[name], LAYOUTS[layout], layout=not loose)


def test_out_and_captured_arrays(same_as_numpy: Any) -> None:
    table = np.arange(8, dtype=np.float32)

    def f(a: Any, out: Any) -> Any:
        np.concatenate([a, a], out=out)
        return np.concatenate([a, table])

    same_as_numpy(f, V, np.zeros(10, np.float32))


def test_splits_are_views(same_as_numpy: Any) -> None:
    def f(a: Any) -> Any:
        left, right = np.split(a, 2, axis=2)
        left += 1
        right[...] = left
        first, second = np.unstack(a)
        second[...] = first
        return a

    same_as_numpy(f, X)


MODES = ["constant", "edge", "wrap", "reflect", "symmetric", "linear_ramp", "maximum", "minimum"]


@pytest.mark.parametrize(
    "width", [0, 1, (2, 1), ((1, 0), (0, 2)), ((9, 4), (0, 1)), {-1: 2}], ids=repr
)
@pytest.mark.parametrize("mode", [*MODES, "mean"])
def test_pad(same_as_numpy: Any, mode: str, width: Any) -> None:
    for x in (V, V.astype("f4"), I):
        if isinstance(width, tuple) and isinstance(width[0], tuple):
            x = np.stack([x, x * 2, x[::-1]])
        bound = {"rtol": 1e-6} if mode in ("mean", "linear_ramp") else {}
        same_as_numpy(lambda a: np.pad(a, width, mode=mode), x, **bound)


def test_pad_options(same_as_numpy: Any) -> None:
    x = X[0]
    same_as_numpy(lambda a: np.pad(a, 2, constant_values=5), x)
    same_as_numpy(lambda a: np.pad(a, 2, constant_values=(1, 2)), x)
    same_as_numpy(lambda a: np.pad(a, ((1, 2), (0, 3)), constant_values=((1, 2), (3, 4))), x)
    same_as_numpy(lambda a: np.pad(a, 1, constant_values=a[0, 1]), x)
    same_as_numpy(lambda a: np.pad(a, 1, constant_values=1.7), I)
    same_as_numpy(lambda a: np.pad(a, 2, "maximum", stat_length=2), x)
    same_as_numpy(lambda a: np.pad(a, (2, 3), "linear_ramp", end_values=(7, -2)), V)
    same_as_numpy(lambda a: np.pad(a, 1), np.asfortranarray(x))
    same_as_numpy(lambda a: np.pad(a, 1), np.zeros((0, 3)))


BAD: dict[str, Function] = {
    "shapes": lambda a: np.concatenate([a, a[:, :2]], axis=0),
    "ranks": lambda a: np.concatenate([a, a[0]]),
    "scalars": lambda a: np.concatenate([a[0, 0, 0], 1.0]),
    "nothing": lambda a: np.concatenate([]) + a,
    "axis": lambda a: np.concatenate([a, a], axis=3),
    "stack": lambda a: np.stack([a, a[0]]),
    "casting": lambda a: np.concatenate([a, a], dtype="i4"),
    "split": lambda a: np.split(a, 3, axis=2),
    "vsplit": lambda a: np.vsplit(a[0, 0], 2),
    "repeat": lambda a: np.repeat(a, [1, 2], axis=1),
    "repeat_negative": lambda a: np.repeat(a, -1),
    "pad_mode": lambda a: np.pad(a, 1, mode="nonsense"),
    "pad_option": lambda a: np.pad(a, 1, mode="edge", constant_values=1),
    "pad_negative": lambda a: np.pad(a, -1),
    "pad_empty": lambda a: np.pad(a[:0], 1, mode="edge"),
    "block": lambda a: np.block([[a], a]),
    "delete": lambda a: np.delete(a, 9, axis=0),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_raise_as_in_numpy(same_as_numpy: Any, name: str) -> None:
    same_as_numpy(BAD[name], X)
