"""One case, checked and timed with every peer: a row of the table.

Takes a case, a shape, a dtype and peers, gives a Row. Invariant: a peer whose result is not NumPy's
or that takes longer than it may is not timed, and its row says so.

    run(Job(case, (2000, 2000), "f32", "1"), peers, effort)    ->    Row(times={"numpy": 1.1e-3})
"""

import itertools
import os
import statistics
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from fjit.bench.cases import SHAPES, STEADY, TRACE, Case, Shape
from fjit.bench.limits import Limits, OverLimit
from fjit.bench.peers import Call, Peer, convert, describe, reference
from fjit.bench.timing import Effort, copier, interleaved
from fjit.core import tree
from fjit.entries import Choices
from fjit.fused import Fused

DTYPES: Final = {"f32": np.float32, "f64": np.float64}
# Largest difference relative to the largest magnitude: sums of millions of terms in another order.
TOLERANCE: Final = {"f32": 1e-4, "f64": 1e-10}
FEW: Final = 5  # rounds of a call that compiles each time


@dataclass(frozen=True, slots=True)
class Job:
    """What to time: a case on arrays of one shape and dtype with 1 or "all" threads."""

    case: Case
    shape: Shape
    dtype: str
    threads: str

    @property
    def count(self) -> int | None:
        return 1 if self.threads == "1" else None


@dataclass(frozen=True, slots=True)
class Row:
    """The median seconds of each peer, and why others have none."""

    group: str
    case: str
    shape: Shape
    dtype: str
    threads: str
    nbytes: int = 0  # of arguments and results, each moved once
    copy_rate: float = 0.0  # bytes a second of a copy that moves as many; 0 when not measured
    times: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        return self.group, self.case, tuple(self.shape), self.dtype, self.threads

    def over(self, peer: str) -> float | None:
        """Times that fjit is faster than a peer."""
        mine, other = self.times.get("fjit"), self.times.get(peer)
        return other / mine if mine and other else None

    @property
    def best(self) -> str | None:
        """The fastest peer besides fjit."""
        others = [name for name in self.times if not name.startswith("fjit")]
        return min(others, key=lambda name: self.times[name]) if others else None


class Wrong(Exception):
    """A peer's result is not NumPy's."""


def run(job: Job, peers: tuple[Peer, ...], effort: Effort) -> Row:
    """Check the case with each peer against NumPy, and time those that agree."""
    arguments, case = make(job), job.case
    if case.kind == TRACE:
        spent = _trace(case, arguments, effort)
        return Row(case.group, case.name, job.shape, job.dtype, job.threads, times={"fjit": spent})
    row = Row(case.group, case.name, job.shape, job.dtype, job.threads)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            expected = reference(case)(*arguments)
        except ImportError as error:  # it may need scipy's special functions
            return replace(row, notes={"numpy": describe(error)})
        nbytes = _nbytes(arguments) + _nbytes(expected)
        limits = Limits(effort.limit)
        calls, notes = _prepare(job, peers, arguments, expected, limits)
        if case.kind == STEADY:
            seconds, rate = _steady(job, calls, arguments, nbytes, effort, limits)
        else:
            seconds, rate = (_shapes if case.kind == SHAPES else _first)(job, calls, limits), 0.0
    notes |= {name: limits.note for name in calls if name not in seconds}
    times = {name: statistics.median(values) for name, values in seconds.items()}
    return replace(row, nbytes=nbytes, copy_rate=rate, times=times, notes=notes)


def make(job: Job) -> tuple[Any, ...]:
    seed = zlib.crc32(f"{job.case.name} {job.shape} {job.dtype}".encode())
    return job.case.make(job.shape, DTYPES[job.dtype], np.random.default_rng(seed))


def _prepare(
    job: Job, peers: tuple[Peer, ...], arguments: tuple[Any, ...], expected: Any, limits: Limits
) -> tuple[dict[str, tuple[Peer, Call]], dict[str, str]]:
    """The peers that give NumPy's result, each with its function; the others' reasons."""
    calls, notes = {}, {}
    for peer in peers:
        if job.case.kind not in peer.kinds:
            continue
        call: Call | None = None
        try:
            with limits.holding(peer.name):
                call = peer.compile(job.case, job.count)
                if call is None:
                    continue
                result = convert(peer.fetch, call(*peer.arguments(arguments)))
            check(result, expected, TOLERANCE[job.dtype] * job.case.tolerance)
        except Wrong as error:
            notes[peer.name] = f"wrong result, {error}"
        except OverLimit:
            notes[peer.name] = limits.note
            if call is not None:
                peer.forget(call)
        except Exception as error:  # a peer may refuse a program in any way it likes
            notes[peer.name] = describe(error)
        else:
            calls[peer.name] = (peer, call)
    return calls, notes


def check(result: Any, expected: Any, tolerance: float) -> None:
    """Raise Wrong unless dtypes (JAX's integers aside), shapes and values are NumPy's."""
    found, wanted = (tree.flatten(_listed(value))[0] for value in (result, expected))
    if len(found) != len(wanted):
        raise Wrong(f"{len(found)} arrays for {len(wanted)}")
    for got, want in zip(map(np.asarray, found), map(np.asarray, wanted), strict=True):
        if got.shape != want.shape or got.dtype.kind != want.dtype.kind:
            raise Wrong(f"{got.dtype}{got.shape} for {want.dtype}{want.shape}")
        if got.dtype.kind == "f" and got.dtype != want.dtype:
            raise Wrong(f"{got.dtype} for {want.dtype}")
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        if same.all():
            continue
        scale = float(np.max(np.abs(want), where=np.isfinite(want), initial=0.0))
        with np.errstate(invalid="ignore"):
            difference = float(np.abs(got - want)[~same].max()) / max(scale, 1e-300)
        if not difference <= tolerance or got.dtype.kind in "iub":
            raise Wrong(f"relative difference {difference:.1e}")


def _listed(value: Any) -> Any:
    """Tuples as lists, since peers differ in which they return."""
    return [_listed(part) for part in value] if isinstance(value, list | tuple) else value


def _nbytes(values: Any) -> int:
    return sum(np.asarray(leaf).nbytes for leaf in tree.flatten(values)[0])


def _steady(
    job: Job,
    calls: dict[str, tuple[Peer, Call]],
    arguments: tuple[Any, ...],
    nbytes: int,
    effort: Effort,
    limits: Limits,
) -> tuple[dict[str, list[float]], float]:
    copy, part = copier(nbytes, job.count or len(os.sched_getaffinity(0)))
    timed: dict[str, Callable[[], Any]] = {
        name: partial(call, *peer.arguments(arguments)) for name, (peer, call) in calls.items()
    }
    seconds = interleaved({**timed, "copy": copy}, effort, limits=limits)
    rate = nbytes * part / statistics.median(seconds.pop("copy"))
    return seconds, rate


def _shapes(
    job: Job, calls: dict[str, tuple[Peer, Call]], limits: Limits
) -> dict[str, list[float]]:
    """Each round makes arrays of a shape not seen before; two rounds go untimed."""
    rows, columns = job.shape
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for step in range(1, FEW + 3):
        shape = (rows + step, columns + 3 * step)
        fresh = make(Job(job.case, shape, job.dtype, job.threads))
        for name in tuple(seconds):
            peer, call = calls[name]
            try:
                with limits.holding(name):
                    spent = _once(call, peer.arguments(fresh))
            except OverLimit:
                del seconds[name]
            else:
                seconds[name] += [spent] * (step > 2)
    return seconds


def _first(job: Job, calls: dict[str, tuple[Peer, Call]], limits: Limits) -> dict[str, list[float]]:
    """Each round compiles anew, after emptying what the peer remembers in this process."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    arguments = make(job)
    for _ in range(FEW):
        for name in tuple(seconds):
            peer, call = calls[name]
            peer.forget(call)
            try:
                with limits.holding(name):
                    call = peer.compile(job.case, job.count) or call
                    spent = _once(call, peer.arguments(arguments))
            except OverLimit:
                del seconds[name]
            else:
                seconds[name].append(spent)
    return seconds


def _trace(case: Case, arguments: tuple[Any, ...], effort: Effort) -> float:
    """Median seconds of tracing for each operation that the trace records."""
    fused = Fused(case.function, Choices())
    operations = len(fused.trace(*arguments).eqns)
    seconds = interleaved({"fjit": lambda: fused.trace(*arguments)}, effort)
    return statistics.median(seconds["fjit"]) / operations


def _once(call: Call, arguments: tuple[Any, ...]) -> float:
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def too_large(job: Job) -> str | None:
    """Why the machine's free memory does not hold the case, or None.

    Six arrays for each argument allow for NumPy's temporaries, results and the peers' copies.
    """
    count = len(make(Job(job.case, tuple(min(n, 4) for n in job.shape), job.dtype, job.threads)))
    itemsize = np.dtype(DTYPES[job.dtype]).itemsize
    need = 6 * max(count, 2) * itemsize * int(np.prod(job.shape))
    free = _free_memory()
    if need <= free or job.case.group == "horizontal":
        return None
    return f"needs some {need >> 30} GiB, of which {free >> 30} are free"


def _free_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 1 << 62
    sizes = {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines}
    return sizes.get("MemAvailable", 1 << 62)


def jobs(
    cases: tuple[Case, ...], sizes: str, dtypes: tuple[str, ...], threads: str
) -> Iterator[Job]:
    """Every job of the cases; `sizes` is "small", "large", "all" or a shape such as "8000x8000"."""
    for case, dtype in itertools.product(cases, dtypes):
        for shape in _shapes_of(case, sizes):
            yield Job(case, shape, dtype, threads)


def _shapes_of(case: Case, sizes: str) -> tuple[Shape, ...]:
    if sizes == "all" or case.group == "small":
        return case.shapes
    if sizes in ("small", "large"):
        return case.shapes[:1] if sizes == "small" else case.shapes[-1:]
    shape = tuple(int(extent) for extent in sizes.split("x"))
    return (shape,) if len(shape) == len(case.shapes[0]) else ()
