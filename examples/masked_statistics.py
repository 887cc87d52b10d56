"""Statistics of what a mask selects: the mask, the selection and the sums are one pass.

    python examples/masked_statistics.py [readings]

`x[mask]` has an extent that only run time knows. fjit keeps it as a symbol, so that what is
computed from the selection fuses with the mask, and the selection itself is never stored.
"""

import sys

import numpy as np

import fjit


@fjit.fuse
def statistics(reading, low, high):
    """How many readings are valid, their mean, and their root mean square."""
    valid = np.isfinite(reading) & (reading > low) & (reading < high)
    kept = reading[valid]
    return valid.sum(), kept.mean(), np.sqrt((kept * kept).mean())


@fjit.fuse
def repair(reading, low, high):
    """Readings outside the limits are set to the nearest limit, missing ones to zero; in place."""
    missing = np.isnan(reading)
    reading[missing] = 0.0
    reading[reading > high] = high
    reading[reading < low] = low
    return missing.sum()


def main():
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    rng = np.random.default_rng(0)
    reading = rng.normal(20.0, 5.0, size)
    reading[rng.random(size) < 0.01] = np.nan
    reading[rng.random(size) < 0.001] = 1e6

    count, mean, rms = statistics(reading, 0.0, 60.0)
    expected = statistics.__wrapped__(reading, 0.0, 60.0)
    error = max(abs(a - b) for a, b in zip((count, mean, rms), expected, strict=True))
    print(f"{count} of {size} readings are valid: mean {mean:.4f}, root mean square {rms:.4f}")
    print(f"largest difference to NumPy: {error:.1e}")
    report = statistics.explain(reading, 0.0, 60.0)
    written = sum(kernel.bytes_written for kernel in report.kernels)
    print(f"{len(report.kernels)} kernel(s), {written} bytes written")

    missing = repair(reading, 0.0, 60.0)
    print(
        f"repaired in place: {missing} missing, now from {reading.min():.1f} to {reading.max():.1f}"
    )


if __name__ == "__main__":
    main()
