"""A slow peer does not hold the table, and an interrupted run keeps what it measured."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fjit.bench import main as command
from fjit.bench import memory, table
from fjit.bench.cases import CASES, Case
from fjit.bench.limits import Limits, OverLimit
from fjit.bench.peers import PEERS, Peer
from fjit.bench.runner import Job, Row, run
from fjit.bench.timing import Effort, interleaved

LIMIT = 0.3
SHORT = Effort(rounds=4, least=4, seconds=0.0, limit=LIMIT)


def case_of(kind: str, name: str) -> Case:
    return next(case for case in CASES if case.kind == kind and case.name == name)


def endless(*arguments: Any) -> Any:
    """A compiler that catches every Exception and goes on."""
    end = time.perf_counter() + 20
    while time.perf_counter() < end:
        try:
            time.sleep(0.01)
        except Exception:
            continue
    return None


def peer(name: str, call: Callable[..., Any], **changes: Any) -> Peer:
    return replace(Peer(name, "numpy", lambda case, threads: call), **changes)


# The limit


def test_what_takes_too_long_is_stopped_and_the_alarm_is_off_afterwards() -> None:
    limits, start = Limits(LIMIT), time.perf_counter()
    with pytest.raises(OverLimit), limits.holding("slow"):
        endless()
    assert time.perf_counter() - start < 5
    before = signal.getsignal(signal.SIGALRM)
    with limits.holding("other"):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before
    assert limits.note == "over the limit of 0.3 s"


def test_the_limit_is_for_all_that_a_peer_does() -> None:
    limits = Limits(LIMIT)
    with pytest.raises(OverLimit):
        for _ in range(100):
            with limits.holding("slow"):
                time.sleep(LIMIT / 10)
    with pytest.raises(OverLimit), limits.holding("slow"):
        raise AssertionError("is not begun")


def test_numpy_has_no_limit_and_none_is_none() -> None:
    with Limits(1e-3).holding("numpy"), Limits().holding("slow"):
        time.sleep(5e-3)


def test_a_stopped_callable_is_left_out_and_one_with_enough_rounds_is_kept() -> None:
    calls = {"fast": lambda: None, "slow": lambda: time.sleep(0.05), "hopeless": endless}
    seconds = interleaved(calls, Effort(40, 40, 0.0), 1e-4, Limits(0.4))
    assert set(seconds) == {"fast", "slow"}
    assert len(seconds["fast"]) == 40 and 3 <= len(seconds["slow"]) < 10


@pytest.mark.parametrize(
    ("kind", "name"), [("steady", "std"), ("shapes", "softmax"), ("first", "layernorm")]
)
def test_a_peer_that_compiles_too_long_is_over_the_limit(kind: str, name: str) -> None:
    forgotten: list[Any] = []
    slow = peer("slow", endless, forget=forgotten.append)
    start = time.perf_counter()
    found = run(Job(case_of(kind, name), (6, 8), "f64", "1"), (PEERS["numpy"], slow), SHORT)
    assert time.perf_counter() - start < 15 and forgotten == [endless]
    assert set(found.times) == {"numpy"}
    assert found.notes == {"slow": "over the limit of 0.3 s"}


@pytest.mark.parametrize(("kind", "name"), [("steady", "std"), ("shapes", "softmax")])
def test_a_peer_whose_calls_are_too_slow_is_over_the_limit(kind: str, name: str) -> None:
    case = case_of(kind, name)

    def slow(*arguments: Any) -> Any:
        time.sleep(LIMIT / 2.5)
        return case.function(*arguments)

    found = run(Job(case, (6, 8), "f64", "1"), (PEERS["numpy"], peer("slow", slow)), SHORT)
    assert set(found.times) == {"numpy"}
    assert found.notes == {"slow": "over the limit of 0.3 s"}


def test_memory_has_the_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(case_of("memory", "softmax"), (8, 8), "f32", "1")
    monkeypatch.setattr(memory, "supported", lambda: True)
    found = memory.row(job, (PEERS["fjit"],), 1e-3)
    assert found.notes == {"fjit": "over the limit of 0.001 s"}


def test_the_table_shows_who_is_over_the_limit() -> None:
    row = Row("loops", "Mandelbrot", (4, 5), "f32", "1", times={"numpy": 3e-3, "fjit": 1e-3},
              notes={"torch": "over the limit of 60 s"})  # fmt: skip
    text = table.render([row])
    assert "3.00     1.00  over limit" in text
    assert "  torch: over the limit of 60 s (Mandelbrot f32)" in text
    assert table.one_line(row) == "numpy 3.00, fjit 1.00, torch over limit ms; 3.00 x numpy"


# Rows as they finish


WORDS = ["--quick", "--only", "std", "--size", "20x30", "--peers", "fjit"]


def test_each_row_is_printed_and_written_as_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, seen = tmp_path / "rows.json", []
    progress = command._progress

    def note(*arguments: Any) -> None:
        progress(*arguments)
        seen.append((len(table.load(file)), capsys.readouterr().err))

    monkeypatch.setattr(command, "_progress", note)
    assert command.main([*WORDS, "--json", str(file)]) == 0
    assert [count for count, _ in seen] == [1, 2]
    assert "[1/2] bandwidth: std 20x30 f32: numpy 0.0" in seen[0][1] and "fjit 0.0" in seen[0][1]
    assert os.listdir(tmp_path) == ["rows.json"]


def test_an_interrupted_run_keeps_and_shows_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, timed = tmp_path / "rows.json", command.run

    def stopped(job: Job, *arguments: Any) -> Row:
        if job.dtype == "f64":
            raise KeyboardInterrupt
        return timed(job, *arguments)

    monkeypatch.setattr(command, "run", stopped)
    assert command.main([*WORDS, "--json", str(file)]) == command.INTERRUPTED
    said = capsys.readouterr()
    assert "interrupted after 1 rows" in said.err and "[bandwidth]" in said.out
    assert [row.dtype for row in table.load(file)] == ["f32"]


@pytest.mark.parametrize("threads", ["1", "both"])
def test_a_run_ended_from_outside_keeps_its_rows(tmp_path: Path, threads: str) -> None:
    file = tmp_path / "rows.json"
    words = ["--group", "bandwidth", "--size", "20x30", "--peers", "fjit", "--json", str(file)]
    process = subprocess.Popen(
        [sys.executable, "-m", "fjit", "bench", *words, "--threads", threads],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    deadline = time.perf_counter() + 60
    while not file.exists() and time.perf_counter() < deadline:
        time.sleep(0.02)
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == command.INTERRUPTED
    assert "[geometric means]" in out and 0 < len(table.load(file)) < 84


def test_the_rows_of_both_processes_are_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    words = [*WORDS[1:], "--dtype", "f32", "--threads", "both", "--json", str(file)]
    assert command.main(words) == 0
    assert [row.threads for row in table.load(file)] == ["1", "all"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.json"
    row = Row("math", "softmax", (4, 5), "f32", "1")
    table.save([row], {}, file)

    def full(self: Path, *arguments: Any, **keywords: Any) -> int:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="disk full"):
        table.save([], {}, file)
    assert table.load(file) == [row] and os.listdir(tmp_path) == ["rows.json"]


def test_bad_limits_and_folders_are_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for limit in ("0", "-3", "nan", "soon"):
        with pytest.raises(SystemExit):
            command.parser().parse_args([f"--limit={limit}"])
        assert "is not a number of seconds above 0" in capsys.readouterr().err
    assert command.main([*WORDS, "--json", str(tmp_path / "none" / "rows.json")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
