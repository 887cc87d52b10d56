"""`axis=` of every function that has one: bools, numbers and arrays without axes, repeated axes."""

from functools import partial

import numpy as np
import pytest

REDUCTIONS = ["sum", "prod", "min", "max", "all", "any", "ptp", "count_nonzero", "mean", "var",
              "std", "argmin", "argmax", "average", "nansum", "nanprod", "nanmin", "nanmax",
              "nanmean", "nanvar", "nanstd", "nanargmin", "nanargmax"]  # fmt: skip
RUNNING = ["cumsum", "cumprod", "nancumsum", "nancumprod", "cumulative_sum", "cumulative_prod"]
ORDERED = ["sort", "argsort"]
WITH_MORE = {
    "take": lambda a, axis: np.take(a, 0, axis=axis),
    "take of several": lambda a, axis: np.take(a, [0, 0], axis=axis),
    "repeat": lambda a, axis: np.repeat(a, 2, axis=axis),
    "compress": lambda a, axis: np.compress([True], a, axis=axis),
    "concatenate": lambda a, axis: np.concatenate([a, a], axis=axis),
    "append": lambda a, axis: np.append(a, a, axis=axis),
    "squeeze": lambda a, axis: np.squeeze(a[..., :1, :1] if a.ndim else a, axis=axis),
    "expand_dims": lambda a, axis: np.expand_dims(a, axis=axis),
    "argpartition": lambda a, axis: np.argpartition(a, 0, axis=axis),
    "flip": lambda a, axis: np.flip(a, axis=axis),
    "roll": lambda a, axis: np.roll(a, 1, axis=axis),
    "vecdot": lambda a, axis: np.linalg.vecdot(a, a, axis=axis),
    "add.reduce": lambda a, axis: np.add.reduce(a, axis=axis),
    "maximum.reduce": lambda a, axis: np.maximum.reduce(a, axis=axis),
    "add.accumulate": lambda a, axis: np.add.accumulate(a, axis=axis),
    "gradient": lambda a, axis: np.gradient(a, axis=axis),
    "diff": lambda a, axis: np.diff(a, axis=axis),
    "stack": lambda a, axis: np.stack([a, a], axis=axis),
}
FUNCTIONS = {
    **{name: getattr(np, name) for name in (*REDUCTIONS, *RUNNING, *ORDERED)},
    **WITH_MORE,
}
SQUARE = np.array([[0.0, 3.0], [2.0, 1.0]])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_bool_is_an_axis_only_where_numpy_says_so(name, same_as_numpy):
    same_as_numpy(partial(FUNCTIONS[name], axis=True), SQUARE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_integer_of_numpy_is_an_axis(name, same_as_numpy):
    same_as_numpy(partial(FUNCTIONS[name], axis=np.int64(1)), SQUARE)


@pytest.mark.parametrize("axis", [0, -1, np.int64(0), (0,), 1, -2])
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("concatenate", "append")])
def test_a_number_has_one_axis_where_numpy_says_so(name, axis, same_as_numpy):
    if name.startswith(("nanarg", "add.acc")) and isinstance(axis, tuple):
        pytest.skip("both raise: NumPy its AxisError first, we the TypeError")
    for x in (np.array(3.0), np.float64(3.0), np.array(3)):
        same_as_numpy(partial(FUNCTIONS[name], axis=axis), x)


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "all", "any", "nansum", "nanmax"])
def test_a_number_reduced_with_keywords(name, same_as_numpy):
    f, masked = FUNCTIONS[name], {"initial": 0} if name not in ("all", "any") else {}
    for x in (np.array(3.0), np.float64(7.0)):
        same_as_numpy(partial(f, axis=0, keepdims=True), x)
        same_as_numpy(lambda a: f(a, axis=-1, where=a > 5, **masked), x)


@pytest.mark.parametrize("axis", [(0, 0), (0, -2), [0, 1], (1,), (), 2, (0, 2)])
def test_axes_of_gradient(axis, same_as_numpy):
    same_as_numpy(lambda a: np.gradient(a, axis=axis), np.arange(12.0).reshape(3, 4) ** 2)


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0,), (0, 0), (2, 3)])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_average_of_nothing(shape, axis, same_as_numpy):
    for x in (np.ones(shape), np.ones(shape, "i4")):
        same_as_numpy(lambda a: np.average(a, axis=axis), x)
        same_as_numpy(lambda a, w: np.average(a, axis=axis, weights=w), x, np.ones(shape))
