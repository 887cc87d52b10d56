"""Activation functions of neural networks on traced arrays, as jax.nn names them.

Takes what a NumPy function takes, gives traced results in the floating dtype of the operand:
float16 is computed in float32 and rounded once, integers become float64 (relu keeps them).

    silu(x)      records      b = expit of a; c = max a -800.0; d = mul c b
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from fjit.frontend.numpy.arrays import as_dtype, as_tracer
from fjit.frontend.special import expit, normal_cdf, working

GELU_CUBE: Final = 0.044715  # Hendrycks & Gimpel 2016


def relu(x: Any) -> Any:
    """max(x, 0); NaN stays NaN.

    Args:
        x: Real array or number of any shape.

    Returns:
        An array of x's shape and dtype.

    >>> import numpy as np, fjit.special
    >>> fjit.special.relu(np.array([-1.0, 2.0]))
    array([0., 2.])
    """
    return np.maximum(as_tracer(x), 0)


def gelu(x: Any, approximate: bool = True) -> Any:
    """x times the standard normal distribution function of x.

    Args:
        x: Real array or number of any shape.
        approximate: Whether the distribution function is replaced by its approximation through
            tanh; True, as in jax.nn.

    Returns:
        An array of x's shape and floating dtype (float64 for integers); -0.0 at -inf. With
        approximate=True the error in the far negative tail grows with the size of tanh's argument;
        without, it is one of the distribution function times x where that is subnormal.

    Source: D. Hendrycks and K. Gimpel, arXiv:1606.08415.

    >>> import fjit.special
    >>> fjit.special.gelu(0.0, approximate=False)
    np.float64(0.0)
    """
    x, dtype = working(x)
    if approximate:
        inner = math.sqrt(8 / math.pi) * (x + GELU_CUBE * (x * x * x))
        share = expit(inner)  # (1 + tanh(inner / 2)) / 2
    else:
        share = normal_cdf(x)
    return as_dtype(np.maximum(x, -40) * share, dtype)


def silu(x: Any) -> Any:
    """x times the logistic function of x; also called swish.

    Args:
        x: Real array or number of any shape.

    Returns:
        An array of x's shape and floating dtype (float64 for integers); -0.0 at -inf. Where the
        logistic function is subnormal, the error is one of that times x.

    Source: S. Elfwing et al., arXiv:1702.03118.

    >>> import fjit.special
    >>> fjit.special.silu(0.0)
    np.float64(0.0)
    """
    x, dtype = working(x)
    return as_dtype(np.maximum(x, -800) * expit(x), dtype)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)).

    Args:
        x: Real array or number of any shape.

    Returns:
        An array of x's shape and floating dtype (float64 for integers).

    Source: max(x, 0) + log1p(exp(-|x|)).

    >>> import fjit.special
    >>> fjit.special.softplus(0.0)
    np.float64(0.6931471805599453)
    """
    x, dtype = working(x)
    return as_dtype(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), dtype)
