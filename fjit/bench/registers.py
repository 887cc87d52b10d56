"""Registers of GPU kernels, foreseen and linked: the table, and the numbers fitted anew.

Takes architectures and a count of random bodies, prints a table. Run by `make registers`; needs the
extra `cuda`, no device.

    sm_90    198 bodies    mean error 3.1    within 8 95 %    spills not foreseen 0
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fjit.api import fuse
from fjit.backend.gpu_registers import FITS, Features, Fit, estimate, features
from fjit.backend.spread import spread_of

OPERANDS: Final = (3, 6, 10, 16, 24, 32)
ARCHITECTURES: Final = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
BODIES: Final = 198
NEAR: Final = 8
CAP: Final = 20.0
"""An error counts no more than this in the fit, so that no odd body rules."""


class Sample(NamedTuple):
    """One kernel: its features, elements a thread, registers and spills of the linker."""

    found: Features
    unit: int
    registers: int
    spills: int


def cheap_body(rng: np.random.Generator, count: int, steps: int) -> Callable[..., Any]:
    """A random function of `count` arrays: cheap operations, of which every value is used."""
    cheap = [np.add, np.multiply, np.subtract, np.maximum]
    plan = [(int(rng.integers(4)), *rng.integers(0, count + k, 2).tolist()) for k in range(steps)]

    def function(*inputs: Any) -> Any:
        values = list(inputs)
        for kind, i, j in plan:
            values.append(cheap[kind](values[i], values[j]))
        used = {i for _, *pair in plan for i in pair}
        out = values[-1]
        for k in range(len(values) - 1):
            if k not in used:
                out = out + values[k]
        return out

    return function


def body(seed: int) -> tuple[Callable[..., Any], list[Any]]:
    """A random function, and its arguments."""
    rng = np.random.default_rng(seed + 1000)
    count = int(rng.choice(OPERANDS))
    inner = cheap_body(rng, count, int(rng.integers(12, 121)))

    def function(*inputs: Any) -> Any:
        out = inner(*inputs)
        if seed % 6 == 4:
            return np.exp(out) * inputs[0] + np.tanh(inputs[1])
        return out.sum(axis=-1) if seed % 6 == 5 else out

    shape = (256, 256) if seed % 6 == 5 else (1 << 16,)
    dtype = ("f4", "f8")[seed % 2]
    return function, [np.ones(shape, dtype) for _ in range(count)]


def samples(name: str, seeds: Sequence[int]) -> Iterator[Sample]:
    """The kernels of some bodies on one architecture."""
    for seed in seeds:
        function, arguments = body(seed)
        fused: Any = fuse(target=f"cuda:{name}", fusion="max")(function)
        lowered = fused.lower(*arguments)
        for nest, code in zip(lowered.nests, lowered.codes, strict=True):
            for phase, info in zip(nest.phases, code.linked.kernels, strict=True):
                unit = spread_of(nest, phase.loop).unit
                yield Sample(features(nest, phase.loop), unit, info.registers, info.spills)


def errors(fit: Fit, known: Sequence[Sample]) -> np.ndarray:
    """How far the formula is off for each kernel."""
    return np.array([abs(estimate(fit, s.found, s.unit) - s.registers) for s in known])


def refitted(fit: Fit, known: Sequence[Sample], rounds: int = 400) -> Fit:
    """Numbers with a smaller mean error, found by steps that shrink."""
    rng = np.random.default_rng(0)
    best, least = fit, _loss(fit, known)
    for number in range(rounds):
        size = 0.3 * (1 - number / rounds) + 0.01
        trial = _shifted(best, rng, size)
        loss = _loss(trial, known)
        if loss < least:
            best, least = trial, loss
    return best


def _loss(fit: Fit, known: Sequence[Sample]) -> float:
    off = errors(fit, known)
    return float(np.minimum(off, CAP).mean() + 1.5 * (off > NEAR).mean())


def _shifted(fit: Fit, rng: np.random.Generator, size: float) -> Fit:
    """One number moved."""
    groups = [list(fit.least), list(fit.branches), list(fit.free)]
    chosen = groups[int(rng.choice(3, p=[5 / 12, 2 / 12, 5 / 12]))]
    k = int(rng.integers(len(chosen)))
    chosen[k] += size * (6.0 if k in (0, 3, 4) else 0.5) * rng.standard_normal()
    least, branches, free = (tuple(round(v, 2) for v in group) for group in groups)
    return Fit(least, branches, free, fit.target)  # type: ignore[arg-type]  # of the same lengths


def main(words: Sequence[str]) -> int:
    """Print the table, and with --fit new numbers."""
    parser = argparse.ArgumentParser(prog="python -m fjit.bench.registers")
    parser.add_argument("--bodies", type=int, default=BODIES)
    parser.add_argument("--fit", action="store_true", help="fit the numbers anew")
    options = parser.parse_args(words)
    print(f"{'target':<8}{'kernels':>8}{'mean error':>12}{'within 8':>10}{'spills missed':>15}")
    for name in ARCHITECTURES:
        known = list(samples(name, range(options.bodies)))
        fit = refitted(FITS[name], known) if options.fit else FITS[name]
        off = errors(fit, known)
        missed = sum(s.spills > 0 and estimate(fit, s.found, s.unit) <= 255 for s in known)
        near = (off <= NEAR).mean()
        print(f"{name:<8}{len(known):>8}{off.mean():>12.2f}{near:>10.1%}{missed:>15}")
        if options.fit:
            print(f'    "{name}": {fit},')
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
