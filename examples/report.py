"""Reading a report: what was fused, what was refused and why, and what that saves.

    python examples/report.py [folder]

With a folder the report is written there as a page.
"""

import sys
from pathlib import Path

import numpy as np

import fjit


def standardise(x, weights):
    """A prologue, a matrix product, an epilogue: the product is a library call."""
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    return np.tanh(z @ weights).sum(axis=1)


def main():
    rng = np.random.default_rng(0)
    args = rng.normal(size=(20_000, 64)), rng.normal(size=(64, 32))

    fused = fjit.fuse(standardise)
    report = fused.explain(*args)
    print(report)

    print("The same as data:")
    for kernel in report.kernels:
        words = [words.split()[0] for words, _ in kernel.operations]
        print(f"  {kernel.name}: {' '.join(words)}; {kernel.flops} flops")
    for call in report.calls:
        print(f"  {call.name}: a library call after {call.position} kernels")

    print("\nThree ways to plan it:")
    for fusion in ("none", "auto", lambda candidate: "reduce" not in "".join(candidate.pair)):
        plan = fjit.fuse(standardise, fusion=fusion).explain(*args, compile=False)
        moved = (plan.bytes_read + plan.bytes_written) / 1e6
        name = fusion if isinstance(fusion, str) else "no reductions with others"
        print(f"  {name}: {len(plan.kernels)} kernels, {moved:.1f} MB through memory")

    if len(sys.argv) > 1:
        report.save(Path(sys.argv[1]) / "report.html")


if __name__ == "__main__":
    main()
