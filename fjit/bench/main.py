"""The command `fjit bench`: time cases against every installed peer, print tables, write JSON.

Takes the words after `bench`, gives an exit status. Invariant: tables go to standard output and
progress to standard error; one process times one number of threads, since some peers fix theirs as
they start.

    main(["--only", "softmax", "--threads", "1"])    ->    a table with the two rows of softmax, 0
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from fjit.bench import memory, plot, table
from fjit.bench.cases import GROUPS, MEMORY, select
from fjit.bench.peers import PEERS, Peer, choose, describe
from fjit.bench.runner import DTYPES, Job, Row, jobs, run, too_large
from fjit.bench.timing import QUICK, Effort
from fjit.errors import FjitError, FjitValueError

_LIMITS: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
)


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns 0, 1 when fjit gave a wrong result, or 2 for words it cannot use."""
    words = sys.argv[1:] if argv is None else argv
    options = parser().parse_args(words)
    options.threads = options.threads or ("1" if options.quick else "both")
    try:
        if options.clock == "cpu" and options.threads != "1":
            raise FjitValueError("--clock cpu adds the threads up: give --threads 1 with it")
        old = table.load(options.compare) if options.compare else []
        measure = _in_processes if options.threads == "both" else _measure
        rows = measure(words, options)
    except FjitError as error:
        print(f"fjit bench: {error}", file=sys.stderr)
        return 2
    if not options.silent:
        print(table.render(rows))
        if old:
            print("\n" + table.compare(old, rows))
    if options.json:
        table.save(rows, machine(), options.json)
    for file in options.plot:
        try:
            plot.save(rows, file)
        except FjitError as error:
            print(f"fjit bench: {error}", file=sys.stderr)
            return 2
    return int(any(row.notes.get("fjit", "").startswith("wrong") for row in rows))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="fjit bench",
        description="Time the cases with every installed peer, in turn; the medians are shown.",
        epilog="Columns: x numpy and x best say how many times faster fjit is than NumPy and than "
        "the fastest other peer; GB/s counts each argument and result once; % copy is that rate "
        "in percent of a copy of as many bytes, timed in the same rounds.",
    )
    add = made.add_argument
    add("--only", default="", metavar="PATTERN", help="cases whose name has this in it")
    add("--group", type=_list, default=(), help=f"some of {','.join(GROUPS)}")
    add("--threads", choices=("1", "all", "both"), help="both, or 1 with --quick")
    add("--size", type=_size, default="small", help="small, large, all or a shape as 8000x8000")
    add("--dtype", choices=(*DTYPES, "both"), default="both", help="of the arrays")
    add("--peers", type=_list, default=(), help=f"some of {','.join(PEERS)}; all by default")
    add(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu, on a busy machine, with 1 thread",
    )
    add("--json", type=Path, metavar="FILE", help="write the rows there too")
    add(
        "--plot",
        type=Path,
        metavar="FILE",
        action="append",
        default=[],
        help="draw the rows: .png, .svg, .pdf or .html; may be repeated",
    )
    add("--compare", type=Path, metavar="FILE", help="rows of an earlier --json to compare with")
    add("--quick", action="store_true", help="fewer rounds of the slow cases, one thread")
    add("--silent", action="store_true", help=argparse.SUPPRESS)
    return made


def _list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _size(text: str) -> str:
    if text in ("small", "large", "all") or re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not small, large, all or a shape as 8000x8000")


def _in_processes(words: list[str], options: argparse.Namespace) -> list[Row]:
    """The rows of one process with one thread and of another with all."""
    rows: list[Row] = []
    select(options.group, options.only), choose(options.peers)  # refuse bad words once, here
    with tempfile.TemporaryDirectory() as folder:
        for threads in ("1", "all"):
            file = Path(folder) / f"{threads}.json"
            more = ["--threads", threads, "--silent", "--json", str(file)]
            command = [sys.executable, "-m", "fjit", "bench", *words, *more]
            limits = dict.fromkeys(_LIMITS, "1") if threads == "1" else {}
            status = subprocess.run(command, env={**os.environ, **limits}, check=False).returncode
            if not file.exists():
                raise FjitError(f"timing with {threads} threads ended with status {status}")
            rows += table.load(file)
    return rows


def _measure(words: list[str], options: argparse.Namespace) -> list[Row]:
    threads: str = options.threads
    cases = select(options.group, options.only)
    peers, absent = choose(options.peers)
    dtypes = tuple(DTYPES) if options.dtype == "both" else (options.dtype,)
    todo = list(jobs(cases, options.size, dtypes, threads))
    print(headline(peers, absent, threads), file=sys.stderr)
    peers = _started(peers, threads)
    effort = QUICK if options.quick else Effort()
    if options.clock == "cpu":
        effort = replace(effort, clock=time.process_time)
    rows = []
    for number, job in enumerate(todo, 1):
        start = time.perf_counter()
        reason = too_large(job)
        case = job.case
        if reason:
            row = Row(case.group, case.name, job.shape, job.dtype, threads, notes={"fjit": reason})
        elif case.kind == MEMORY:
            row = memory.row(job, tuple(peer for peer in peers if "steady" in peer.kinds))
        else:
            row = run(job, peers, effort)
        rows.append(row)
        _progress(number, len(todo), job, row, time.perf_counter() - start)
    return rows


def _started(peers: tuple[Peer, ...], threads: str) -> tuple[Peer, ...]:
    """The peers that start here; one that does not is named and left out."""
    ready = []
    for peer in peers:
        try:
            peer.start(1 if threads == "1" else None)
        except Exception as error:  # an installed package may fail to load in any way it likes
            print(f"left out {peer.name}: {describe(error)}", file=sys.stderr)
        else:
            ready.append(peer)
    return tuple(ready)


def _progress(number: int, total: int, job: Job, row: Row, seconds: float) -> None:
    ratio = row.over("numpy")
    outcome = f"{ratio:.2f} x numpy" if ratio else row.notes.get("fjit", "not timed")
    name = f"{job.case.group}: {job.case.name} {table.shape_text(job.shape)} {job.dtype}"
    print(f"[{number}/{total}] {name}: {outcome} ({seconds:.1f} s)", file=sys.stderr, flush=True)


def headline(peers: tuple[Peer, ...], absent: tuple[str, ...], threads: str) -> str:
    """What is timed, and what is not because it is not installed."""
    found = ", ".join(f"{peer.name} {peer.version() or ''}".strip() for peer in peers)
    missing = f"; not installed: {', '.join(absent)}" if absent else ""
    return f"timing {found} with {threads} thread{'s' * (threads != '1')}{missing}"


def machine() -> dict[str, str]:
    """What a reader of the JSON needs to know of where it was made."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"model name\s*:\s*(.+)", info.read_text(encoding="utf-8"))
        model = found.group(1) if found else model
    return {
        "processor": model,
        "processors": str(os.cpu_count()),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
