"""One corpus of named programs, as users write them, with small example arguments.

Takes nothing, gives `CORPUS`: name to `Case`. Golden texts, kernel counts and property tests all
read it. Invariant: a program is plain NumPy, and its arguments are the same in every run.

    CORPUS["softmax"].function(*CORPUS["softmax"].arguments())
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[..., Any]  # a program takes and returns arrays and trees of them


@dataclass(frozen=True)
class Case:
    """A program, a maker of arguments, how many kernels it should be, and how close it should be.

    `rtol` is 0 where every operation is exact; library calls are no kernels.
    """

    name: str
    function: Function
    arguments: Callable[[], tuple[Any, ...]]
    kernels: int
    rtol: float


CORPUS: dict[str, Case] = {}


def _arrays(*specs: Any) -> Callable[[], tuple[Any, ...]]:
    """Arguments by description: a shape for standard normal float64, other values as they are."""

    def make() -> tuple[Any, ...]:
        rng = np.random.default_rng(len(specs))
        return tuple(rng.standard_normal(s) if isinstance(s, tuple) else _value(s) for s in specs)

    return make


def _value(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def case(*specs: Any, kernels: int = 1, rtol: float = 1e-12) -> Callable[[Function], Function]:
    """Register the decorated function under its name, with `-` for `_`."""

    def register(function: Function) -> Function:
        name = function.__name__.strip("_").replace("_", "-")
        CORPUS[name] = Case(name, function, _arrays(*specs), kernels, rtol)
        return function

    return register


MATRIX = (12, 37)


@case(MATRIX)
def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@case(MATRIX, (37,), (37,))
def layernorm(x: Any, gain: Any, bias: Any) -> Any:
    mean = x.mean(axis=1, keepdims=True)
    variance = x.var(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + bias


@case(MATRIX, (37,))
def rmsnorm(x: Any, gain: Any) -> Any:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * gain


@case((1000,), (1000,))
def chain(x: Any, y: Any) -> Any:
    for k in range(1, 11):
        x = np.tanh(x * k) + y
    return x


@case(MATRIX)
def stats(x: Any) -> Any:
    return x.sum(), x.max(), x.min(), (x * x).sum()


@case(MATRIX)
def rowcol(x: Any) -> Any:
    return x.sum(axis=0), x.sum(axis=1)


@case((1000,))
def masked_sum(x: Any) -> Any:
    return x[x > 0].sum()


@case((1000,), (1000,))
def filter_(x: Any, y: Any) -> Any:
    keep = x > y
    return x[keep] * 2 + y[keep]


@case((14, 18), rtol=0)
def stencil(x: Any) -> Any:
    return 0.2 * (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])


@case(MATRIX, MATRIX)
def cat_reduce(x: Any, y: Any) -> Any:
    return (np.concatenate([x * 2, y + 1], axis=1) ** 2).sum(axis=1)


@case((20,), (33,))
def outer_broadcast_reduce(x: Any, y: Any) -> Any:
    return np.exp(-np.abs(x[:, None] - y[None, :])).sum(axis=1)


@case(np.linspace(80.0, 120.0, 50), np.linspace(0.1, 2.0, 50), 100.0, 0.03, 0.2, rtol=1e-11)
def black_scholes(spot: Any, years: Any, strike: Any, rate: Any, sigma: Any) -> Any:
    spread = sigma * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * sigma**2) * years) / spread
    d2 = d1 - spread
    discount = strike * np.exp(-rate * years)
    n1 = 0.5 * (1 + np.tanh(0.7988 * d1 * (1 + 0.04417 * d1 * d1)))
    n2 = 0.5 * (1 + np.tanh(0.7988 * d2 * (1 + 0.04417 * d2 * d2)))
    call = spot * n1 - discount * n2
    return call, call - spot + discount


@case((1000,), 0.5, rtol=0)
def threshold(x: Any, limit: Any) -> Any:
    x[x < limit] = 0
    return x * 2


@case((50, 3), np.array([3, 0, 49, -1, 7, 7]), rtol=0)
def gather(table: Any, index: Any) -> Any:
    return table[index] * 2 + 1


@case((8, 40))
def cumulative(x: Any) -> Any:
    return np.cumsum(x * x, axis=1)


@case(MATRIX, rtol=0)
def argmax(x: Any) -> Any:
    return np.argmax(np.abs(x), axis=1)


@case((16, 24), (24, 16), rtol=0)
def transpose_add(x: Any, y: Any) -> Any:
    return x.T * 2 + y


@case((20, 30), (30, 48), (48,))
def matmul_relu(x: Any, weight: Any, bias: Any) -> Any:
    return np.maximum(x @ weight + bias, 0)


@case((30, 3), (3, 3), (3,))
def turn_points(points: Any, turn: Any, shift: Any) -> Any:
    return np.sqrt(np.abs(points @ turn + shift))


@case((1000,), -1.0, 1.0, rtol=0)
def where_clip(x: Any, low: Any, high: Any) -> Any:
    return np.where(np.isnan(x), 0, np.clip(x, low, high))


@case((60, 4), (5, 4), kernels=4)
def kmeans_step(points: Any, centers: Any) -> Any:
    distance = ((points[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
    nearest = distance.argmin(axis=1)
    member = nearest[None, :] == np.arange(centers.shape[0])[:, None]
    count = np.maximum(member.sum(axis=1), 1)
    return nearest, (member[:, :, None] * points).sum(axis=1) / count[:, None]


@case((500,), (500,), (500,), (500,), 3)
def adam(weight: Any, grad: Any, mean: Any, square: Any, step: Any) -> Any:
    mean[...] = 0.9 * mean + 0.1 * grad
    square[...] = 0.999 * np.abs(square) + 0.001 * grad * grad
    size = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    weight -= 1e-3 * size
    return weight


@case((14, 18), rtol=0)
def jacobi(x: Any) -> Any:
    old = x.copy()
    x[1:-1, 1:-1] = 0.25 * (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:])
    return np.abs(x - old).max()


@case((16, 20))
def pad_blur(image: Any) -> Any:
    wide = np.pad(image, 1, mode="edge")
    rows = wide[:-2] + 2 * wide[1:-1] + wide[2:]
    return (rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]) / 16


@case(np.arange(300, dtype=np.uint8).reshape(10, 10, 3), 1.5, rtol=0)
def brighten(image: Any, gain: Any) -> Any:
    return np.clip(image.astype(np.float32) * np.float32(gain), 0, 255).astype(np.uint8)


@case((200,), (200,), (200,))
def distances(x: Any, y: Any, z: Any) -> Any:
    length = np.sqrt(x * x + y * y + z * z)
    return {"length": length, "mean": length.mean(), "unit": (x / length, y / length, z / length)}


@case((40, 6), kernels=2)
def standardize(x: Any) -> Any:
    return (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
