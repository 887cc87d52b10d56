"""The command `fjit bench`: time cases against every installed peer, print tables, write JSON.

Takes the words after `bench`, gives an exit status. Invariant: tables go to standard output and
each row, as it is done, to standard error and to the JSON, so that an interrupted run keeps what it
measured; one process times one number of threads, since some peers fix theirs as they start.

    main(["--only", "softmax", "--threads", "1"])    ->    a table with the two rows of softmax, 0
"""

import argparse
import contextlib
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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

INTERRUPTED: Final = 130  # the exit status that shells give to a command ended by Ctrl-C
_LIMITS: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
)


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    Returns 0, 1 when fjit gave a wrong result, 2 for words it cannot use, or INTERRUPTED.
    """
    words = sys.argv[1:] if argv is None else argv
    options = parser().parse_args(words)
    options.threads = options.threads or ("1" if options.quick else "both")
    rows: list[Row] = []
    old: list[Row] = []
    interrupted = False
    try:
        if options.clock == "cpu" and options.threads != "1":
            raise FjitValueError("--clock cpu adds the threads up: give --threads 1 with it")
        if options.json and not options.json.absolute().parent.is_dir():
            raise FjitValueError(f"--json {options.json}: there is no such folder")
        old = table.load(options.compare) if options.compare else []
        with _stoppable():
            (_in_processes if options.threads == "both" else _measure)(words, options, rows)
    except FjitError as error:
        print(f"fjit bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        interrupted = True
        if not options.silent:
            print(f"fjit bench: interrupted after {len(rows)} rows", file=sys.stderr)
    status = _show(rows, old, options)
    return INTERRUPTED if interrupted else status


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """A request to end the process, as `timeout` sends it, is an interruption from the keyboard."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _show(rows: list[Row], old: list[Row], options: argparse.Namespace) -> int:
    """Print the tables and draw the pictures; the exit status."""
    if rows and not options.silent:
        print(table.render(rows))
        if old:
            print("\n" + table.compare(old, rows))
    for file in options.plot if rows else ():
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
    add(
        "--limit",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="that a peer may take for one case, compiling included; 60",
    )
    add("--json", type=Path, metavar="FILE", help="write the rows there too, each as it is done")
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
    add("--onto", type=Path, help=argparse.SUPPRESS)  # rows of another process that come first
    return made


def _list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if value > 0:  # so NaN is none either
        return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")


def _size(text: str) -> str:
    if text in ("small", "large", "all") or re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not small, large, all or a shape as 8000x8000")


def _in_processes(words: list[str], options: argparse.Namespace, rows: list[Row]) -> None:
    """Add the rows of one process with one thread and of another with all."""
    select(options.group, options.only), choose(options.peers)  # refuse bad words once, here
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        table.save(rows, {}, file)
        for threads in ("1", "all"):
            more = ["--threads", threads, "--silent", "--onto", str(file)]
            command = [sys.executable, "-m", "fjit", "bench", *words, *more]
            limits = dict.fromkeys(_LIMITS, "1") if threads == "1" else {}
            try:
                status = subprocess.run(
                    command, env={**os.environ, **limits}, check=False
                ).returncode
            finally:  # an interruption, too, leaves what was measured
                rows[:] = table.load(file)
            if status == INTERRUPTED:
                raise KeyboardInterrupt
            if not any(row.threads == threads for row in rows):
                raise FjitError(f"timing with {threads} threads ended with status {status}")


def _measure(words: list[str], options: argparse.Namespace, rows: list[Row]) -> None:
    """Add the rows of this process, and write all there are after each."""
    threads: str = options.threads
    cases = select(options.group, options.only)
    peers, absent = choose(options.peers)
    dtypes = tuple(DTYPES) if options.dtype == "both" else (options.dtype,)
    todo = list(jobs(cases, options.size, dtypes, threads))
    print(headline(peers, absent, threads), file=sys.stderr)
    peers = _started(peers, threads)
    effort = replace(QUICK if options.quick else Effort(), limit=options.limit)
    if options.clock == "cpu":
        effort = replace(effort, clock=time.process_time)
    earlier = table.load(options.onto) if options.onto else []
    for number, job in enumerate(todo, 1):
        start = time.perf_counter()
        row = _row(job, peers, effort)
        rows.append(row)
        for file in filter(None, (options.onto, options.json)):
            table.save([*earlier, *rows], machine(), file)
        _progress(number, len(todo), job, row, time.perf_counter() - start)


def _row(job: Job, peers: tuple[Peer, ...], effort: Effort) -> Row:
    reason, case = too_large(job), job.case
    if reason:
        notes = {"fjit": reason}
        return Row(case.group, case.name, job.shape, job.dtype, job.threads, notes=notes)
    if case.kind == MEMORY:
        steady = tuple(peer for peer in peers if "steady" in peer.kinds)
        return memory.row(job, steady, effort.limit)
    return run(job, peers, effort)


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
    outcome = table.one_line(row) if row.times else row.notes.get("fjit", "not timed")
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
