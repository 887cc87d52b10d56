"""The heat equation with in-place updates: slices are written, views see it, the argument changes.

python examples/inplace_stencil.py [size]
"""

import sys

import numpy as np

import fjit


@fjit.fuse
def advance(plate, k):
    """One explicit step; the border row at the top is kept hot, the others cold."""
    inner = plate[1:-1, 1:-1]  # a view: writing to it writes to the plate
    laplacian = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:] - 4 * inner
    inner += k * laplacian
    plate[0, :] = 100.0
    plate[-1, :] = plate[:, 0] = plate[:, -1] = 0.0
    return np.abs(laplacian).max()


def main():
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    plate, same = np.zeros((2, size, size))
    for step in range(201):
        change = advance(plate, 0.24)
        advance.__wrapped__(same, 0.24)
        if step % 50 == 0:
            print(
                f"step {step:3}: mean temperature {plate.mean():.4f}, largest change {change:.4f}"
            )
    print(f"the same bits as NumPy after 201 steps: {np.array_equal(plate, same)}")
    kernels = advance.explain(plate, 0.24).kernels
    print(f"traced {advance.cache_info().traces} time, {len(kernels)} kernels a step")


if __name__ == "__main__":
    main()
