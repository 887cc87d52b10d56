"""Two building blocks of a transformer: each becomes one kernel that keeps a row in cache.

python examples/softmax_layernorm.py [rows]
"""

import sys

import numpy as np

import fjit


@fjit.fuse
def layernorm(x, gain, bias):
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + bias


@fjit.fuse
def softmax(x, temperature):
    e = np.exp((x - x.max(axis=-1, keepdims=True)) / temperature)
    return e / e.sum(axis=-1, keepdims=True)


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 768)).astype(np.float32)
    gain, bias = rng.normal(size=(2, 768)).astype(np.float32)

    for function, args in ((layernorm, (x, gain, bias)), (softmax, (x, 0.5))):
        expected = function.__wrapped__(*args)
        error = np.abs(function(*args) - expected).max()
        kernels = function.explain(*args).kernels
        moved = sum(k.bytes_read + k.bytes_written for k in kernels)
        print(
            f"{function.__name__}: {len(kernels)} kernel, {moved / x.nbytes:.1f} passes over x, "
            f"largest difference to NumPy {error:.1e}"
        )

    compiled = softmax.cache_info().compiles
    for temperature in (0.1, 1.0, 10.0):  # a scalar is an argument of the kernel, not part of it
        top = softmax(x, temperature).max(axis=-1).mean()
        print(
            f"temperature {temperature:4}: the largest probability of a row is {top:.3f} on average"
        )
    softmax(x[: rows // 2], 1.0)  # neither are sizes
    print(f"compiled again for new scalars and sizes: {softmax.cache_info().compiles - compiled}")


if __name__ == "__main__":
    main()
