"""Programs whose time is that of arithmetic and elementary functions, in plain NumPy.

Takes arrays, gives what each name says. Invariant: as in `bandwidth`, `np` and functions of this
file are the only globals, and `special`, which stands for the peer's module of special functions.
NumPy has none, so Black-Scholes takes the normal distribution in the rational approximation of
Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.17.

    softmax(x)    ==    e / e.sum(axis=1, keepdims=True)    where e = np.exp(x - row maximum)
"""

from typing import Any

import numpy as np

from fjit.bench.bandwidth import Array
from fjit.frontend import special


def square_of_difference(x: Array, y: Array) -> Any:
    return x * x + y * y - 2 * x * y + 3


def tanh_exp_sin(x: Array) -> Any:
    return np.tanh(np.exp(np.sin(x)))


def layer_norm(x: Array, gain: Array, offset: Array) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * gain + offset


def rms_norm(x: Array, gain: Array) -> Any:
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * gain


def softmax(x: Array) -> Any:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def gelu(x: Array) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def gelu_exact(x: Array) -> Any:
    return 0.5 * x * (1 + special.erf(x * 0.7071067811865476))


def cross_entropy(x: Array, labels: Array) -> Any:
    top = x.max(axis=1, keepdims=True)
    total = np.log(np.exp(x - top).sum(axis=1)) + top[:, 0]
    return (total - x[np.arange(x.shape[0]), labels]).mean()


def normal_distribution(d: Array) -> Any:
    t = 1 / (1 + 0.2316419 * np.abs(d))
    series = 1.781477937 + t * (-1.821255978 + t * 1.330274429)
    series = t * (0.319381530 + t * (-0.356563782 + t * series))
    tail = 0.3989422804014327 * np.exp(-0.5 * d * d) * series
    return np.where(d > 0, 1 - tail, tail)


def black_scholes(spot: Array, strike: Array, years: Array) -> Any:
    spread = 0.2 * np.sqrt(years)
    upper = (np.log(spot / strike) + (0.02 + 0.5 * 0.2 * 0.2) * years) / spread
    paid = strike * np.exp(-0.02 * years)
    call = spot * normal_distribution(upper) - paid * normal_distribution(upper - spread)
    return call, call - spot + paid


def trigonometry(x: Array, y: Array) -> Any:
    return x * np.cos(y) + y * np.sin(x) + np.hypot(x, y)


def powers(x: Array, y: Array) -> Any:
    return np.abs(x) ** 2.3 + np.abs(y) ** 0.7
