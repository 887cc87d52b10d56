"""Programs with Python loops, many arrays, matrix products or very little work, in plain NumPy.

Takes arrays, gives what each name says. Invariant: as in `bandwidth`.

    logistic_map(x)    ==    x = 3.2 * x * (1 - x), a hundred times
"""

from typing import Any

import numpy as np

from fjit.bench.bandwidth import Array, adam


def mandelbrot(real: Array, imaginary: Array) -> Any:
    a, b = real, imaginary
    steps = np.zeros_like(real)
    for _ in range(200):
        a, b = a * a - b * b + real, 2 * a * b + imaginary
        steps = steps + (a * a + b * b <= 4)
    return steps


def logistic_map(x: Array) -> Any:
    for _ in range(100):
        x = 3.2 * x * (1 - x)
    return x


def kuramoto(phase: Array, speed: Array) -> Any:
    pull = np.sin(phase[None, :] - phase[:, None]).mean(axis=1)
    return phase + 0.01 * (speed + 1.5 * pull)


def pairwise(x: Array, y: Array) -> Any:
    return np.exp(-np.abs(x[:, None] - y[None, :])).sum(axis=1)


def accelerations(x: Array, y: Array, z: Array, mass: Array) -> Any:
    dx, dy, dz = (c[None, :] - c[:, None] for c in (x, y, z))
    squared = dx * dx + dy * dy + dz * dz + 0.01
    pull = mass / (squared * np.sqrt(squared))
    return (dx * pull).sum(axis=1), (dy * pull).sum(axis=1), (dz * pull).sum(axis=1)


def adam_over_tensors(
    weights: list[Array], slopes: list[Array], firsts: list[Array], seconds: list[Array]
) -> Any:
    return [adam(w, s, m, v) for w, s, m, v in zip(weights, slopes, firsts, seconds, strict=True)]


def dense_relu(x: Array, w: Array, b: Array) -> Any:
    return np.maximum(x @ w + b, 0)


def attention(q: Array, k: Array, v: Array) -> Any:
    scores = q @ k.swapaxes(-1, -2) * 0.125
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ v


def add(x: Array, y: Array) -> Any:
    return x + y


def multiply_and_tanh(x: Array, y: Array) -> Any:
    return np.tanh(x * y + 1) - y


def chain(x: Array, y: Array, length: int) -> Any:
    """`length` rounds of three cheap operations, whose values stay bounded."""
    for _ in range(length):
        x = (x + y) * 0.5
        y = y - x
    return x


def chain_of_30(x: Array, y: Array) -> Any:
    return chain(x, y, 10)


def chain_of_390(x: Array, y: Array) -> Any:
    return chain(x, y, 130)
