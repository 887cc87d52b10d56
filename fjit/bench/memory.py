"""The most memory that calls of a case take beyond their arguments, in a process of its own.

Takes a case's place in the table, shape, dtype, peer and threads, gives bytes. Invariant: what the
library keeps from call to call counts, and so does machine code; what it loads before does not.

    peak(Job(case, (4000, 4000), "f32", "1"), "numpy")    ->    192000000
"""

import contextlib
import math
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from fjit.bench.cases import CASES
from fjit.bench.limits import Limits, OverLimit
from fjit.bench.peers import PEERS, Peer, describe
from fjit.bench.runner import Job, Row, make
from fjit.errors import FjitError

CALLS: Final = 3
_STATUS: Final = Path("/proc/self/status")
_RESET: Final = Path("/proc/self/clear_refs")  # "5" sets the peak to what is resident now


def supported() -> bool:
    """Whether the system tells a process its peak and lets it start over."""
    return _RESET.exists() and _STATUS.exists()


def peak(job: Job, peer: str, seconds: float = math.inf) -> int:
    """Return the bytes; raises FjitError with the peer's own words where it refuses the case.

    Raises OverLimit where its process takes longer than `seconds`.
    """
    place = str(CASES.index(job.case))
    shape = "x".join(map(str, job.shape))
    words = [sys.executable, "-m", "fjit.bench.memory", place, shape, job.dtype, peer, job.threads]
    limit = None if seconds == math.inf else seconds
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        raise OverLimit from None
    if done.returncode:
        raise FjitError((done.stderr.strip().splitlines() or ["no memory"])[-1])
    return int(done.stdout.split()[-1])


def row(job: Job, peers: tuple[Peer, ...], limit: float = math.inf) -> Row:
    """A row of the table with bytes in the place of seconds; `limit` holds for each peer."""
    case = job.case
    found = Row(case.group, case.name, job.shape, job.dtype, job.threads)
    if not supported():
        return replace(found, notes={"fjit": "this system does not tell a process its peak"})
    for peer in peers:
        try:
            found.times[peer.name] = peak(job, peer.name, limit)
        except FjitError as error:
            found.notes[peer.name] = describe(error)
        except OverLimit:
            found.notes[peer.name] = Limits(limit).note
    return found


def _resident(name: str) -> int:
    lines = _STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def _measure(job: Job, name: str) -> int:
    peer = PEERS[name]
    peer.start(job.count)
    call = peer.compile(job.case, job.count)
    if call is None:
        raise FjitError("nothing is written for this case")
    small = make(Job(job.case, tuple(min(n, 16) for n in job.shape), job.dtype, job.threads))
    call(*peer.arguments(small))  # loads the compiler and what it needs
    arguments = peer.arguments(make(job))
    _RESET.write_text("5", encoding="ascii")
    before = _resident("VmRSS")
    for _ in range(CALLS):
        call(*arguments)
    return _resident("VmHWM") - before


def _main(words: list[str]) -> None:
    place, shape, dtype, name, threads = words
    job = Job(CASES[int(place)], tuple(map(int, shape.split("x"))), dtype, threads)
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.suppress(BrokenPipeError):
        warnings.simplefilter("ignore")
        print(_measure(job, name))


if __name__ == "__main__":
    _main(sys.argv[1:])
