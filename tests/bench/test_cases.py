"""The cases run fused at small sizes, and the rest of the benchmark works; no time is asserted."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fjit.bench import plot, table
from fjit.bench.cases import CASES, FIRST, GROUPS, Case, select
from fjit.bench.main import main, parser
from fjit.bench.peers import PEERS, choose, rebound, reference
from fjit.bench.runner import DTYPES, TOLERANCE, Job, Row, Wrong, check, jobs, make, run, too_large
from fjit.bench.timing import QUICK, Effort, copier, interleaved
from fjit.errors import FjitValueError

SHORT = Effort(rounds=2, least=1, seconds=0.0)
TINY = {1: (7,), 2: (6, 9), 3: (2, 5, 4)}
SQUARE = ("x.T + y", "relu(x @ w + b)")


def tiny(case: Case) -> tuple[int, ...]:
    if case.name in SQUARE:
        return (6, 6)
    return (3, 120) if case.group == "horizontal" else TINY[len(case.shapes[0])]


def case_named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def row(**changes: Any) -> Row:
    base: dict[str, Any] = {
        "group": "math", "case": "softmax", "shape": (4, 5), "dtype": "f32", "threads": "1",
        "nbytes": 1_000_000, "copy_rate": 2e9,
        "times": {"numpy": 3e-3, "fjit": 1e-3, "jax": 2e-3},
        "notes": {"numba": "wrong result, f64 for f32", "torch": "TypeError: no"},
    }  # fmt: skip
    return Row(**{**base, **changes})


# The cases


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.group}: {case.name}")
def test_case_runs_fused_and_agrees_with_numpy(case: Case, dtype: str) -> None:
    if case.name == "chain of 390" and dtype == "f64":
        pytest.skip("long to compile; float32 shows the same program")
    job = Job(case, tiny(case), dtype, "1")
    arguments = make(job)
    with np.errstate(all="ignore"):
        expected = reference(case)(*arguments)
    fused = PEERS["fjit"].compile(case, 1)
    assert fused is not None
    check(fused(*arguments), expected, TOLERANCE[dtype] * case.tolerance)


def test_arguments_are_the_same_every_time_and_of_the_dtype() -> None:
    job = Job(case_named("Black-Scholes"), (3, 4), "f32", "1")
    for first, second in zip(make(job), make(job), strict=True):
        assert first.dtype == np.float32
        np.testing.assert_array_equal(first, second)


def test_the_groups_are_those_of_the_targets() -> None:
    assert set(GROUPS) == {
        "bandwidth", "math", "loops", "horizontal", "matmul", "small", "shapes", "first", "tracing",
        "memory",
    }  # fmt: skip
    assert len(select(("bandwidth",))) == 21
    assert len({(case.group, case.name) for case in CASES}) == len(CASES)


def test_selection_by_part_of_a_name_and_by_wildcards() -> None:
    assert [case.name for case in select(("math",), "SOFT")] == ["softmax"]
    assert [case.name for case in select(("bandwidth",), "sum axis ?")] == [
        "sum axis 0",
        "sum axis 1",
    ]


def test_jobs_follow_the_size() -> None:
    cases = select((), "std")
    assert [job.shape for job in jobs(cases, "all", ("f32",), "1")] == [(2000, 2000), (8000, 8000)]
    assert [job.shape for job in jobs(cases, "large", ("f32",), "1")] == [(8000, 8000)]
    assert [job.shape for job in jobs(cases, "30x40", ("f32", "f64"), "1")] == [(30, 40)] * 2
    assert list(jobs(cases, "30", ("f32",), "1")) == []


def test_what_memory_does_not_hold_is_said() -> None:
    job = Job(case_named("Adam step"), (1 << 22, 1 << 22), "f64", "1")
    assert "GiB" in str(too_large(job))
    assert too_large(Job(job.case, (20, 20), "f64", "1")) is None


# Peers


def test_numpy_and_fjit_are_always_peers() -> None:
    here, absent = choose(("numba",))
    assert [peer.name for peer in here][:2] == ["numpy", "fjit"]
    assert set(absent) <= {"numba"}


def test_rebinding_reaches_the_functions_that_are_called() -> None:
    class Loud:
        def __getattr__(self, name: str) -> Any:
            raise LookupError(name)

    case = case_named("chain of 30")
    assert rebound(case.function, {})(1.0, 2.0) == case.function(1.0, 2.0)
    with pytest.raises(LookupError, match="sqrt"):
        rebound(case_named("Black-Scholes").function, {"np": Loud()})(1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (np.zeros(3, np.float64), "float64"),
        (np.zeros(4, np.float32), "(4,)"),
        (np.full(3, 0.5, np.float32), "difference"),
        (np.full(3, np.nan, np.float32), "difference"),
        ((np.ones(3, np.float32), 1), "2 arrays"),
    ],
)
def test_a_wrong_result_is_seen(result: Any, text: str) -> None:
    with pytest.raises(Wrong) as caught:
        check(result, np.ones(3, np.float32), 1e-4)
    assert text in str(caught.value)


def test_a_right_result_passes() -> None:
    expected = np.array([1.0, np.nan, np.inf])
    check([expected + 1e-13], (expected,), 1e-10)
    check(np.int32(3), np.int64(3), 0.0)
    with pytest.raises(Wrong):
        check(np.int64(4), np.int64(3), 1.0)


def test_a_peer_with_a_wrong_result_is_not_timed() -> None:
    liar = type(PEERS["jax"])("liar", "numpy", lambda case, threads: lambda *arrays: 0.0)
    broken = type(liar)("broken", "numpy", lambda case, threads: 1 / 0)
    silent = type(liar)("silent", "numpy", lambda case, threads: None)
    job = Job(case_named("std"), (20, 30), "f64", "1")
    found = run(job, (PEERS["numpy"], PEERS["fjit"], liar, broken, silent), SHORT)
    assert set(found.times) == {"numpy", "fjit"} and set(found.notes) == {"liar", "broken"}
    assert found.notes["liar"].startswith("wrong result")
    assert found.notes["broken"].startswith("ZeroDivisionError")
    assert found.nbytes == 20 * 30 * 8 + 8 and found.copy_rate > 0


@pytest.mark.parametrize("name", ["softmax", "chain of 30"])
def test_new_shapes_and_first_calls_are_timed(name: str) -> None:
    case = next(c for c in CASES if c.name == name and c.group in ("shapes", "first"))
    peers, _ = choose(("fjit",))
    found = run(Job(case, (8, 12), "f32", "1"), peers, SHORT)
    assert not found.notes and {"numpy", "fjit"} <= set(found.times)
    assert ("fjit disk" in found.times) == (case.kind == FIRST)


# Timing


def test_callables_are_timed_in_turn() -> None:
    calls: list[str] = []

    def slow(name: str) -> None:
        calls.append(name)
        time.sleep(2e-3)

    timed = {"a": lambda: slow("a"), "b": lambda: slow("b")}
    seconds = interleaved(timed, Effort(4, 4, 60.0), batch=1e-3)
    assert {name: len(values) for name, values in seconds.items()} == {"a": 4, "b": 4}
    assert calls[-8:] == list("abbaabba")


def test_a_quick_run_keeps_its_least_rounds() -> None:
    seconds = interleaved({"a": lambda: None}, Effort(15, 3, 0.0), batch=1e-5)
    assert len(seconds["a"]) == 3
    assert QUICK.least < Effort().least == 15


@pytest.mark.parametrize("threads", [1, 2])
def test_the_copy_moves_what_it_says(threads: int) -> None:
    copy, part = copier(100_000, threads)
    copy()
    assert part == 1.0


# Tables and files


def test_table_shows_times_ratios_and_reasons() -> None:
    text = table.render([row(), row(dtype="f64", copy_rate=0.0)])
    lines = text.splitlines()
    assert lines[0] == "[math]"
    assert " ".join(lines[1].split()) == (
        "case shape dtype threads numpy ms fjit ms jax ms numba ms torch ms "
        "x numpy x best GB/s % copy"
    )
    cells = "softmax 4x5 f32 1 3.00 1.00 2.00 wrong refused 3.00 2.00 1.0 50"
    assert lines[2].split() == cells.split()
    assert lines[3].split()[-2:] == ["-", "-"]
    assert "  torch: TypeError: no (softmax f32; softmax f64)" in lines
    assert lines[-1].split() == ["math", "1", "2", "of", "2", "3.00", "3.00", "2.00", "2.00"]


def test_a_row_without_fjit_still_prints() -> None:
    text = table.render([row(times={"numpy": 1e-3}, notes={"fjit": "FjitTypeError: no"})])
    assert "refused" in text and "0 of 1" in text


@pytest.mark.parametrize(
    ("value", "text"), [(0.01234, "0.0123"), (1.2345, "1.23"), (123.4, "123"), (0.0, "0")]
)
def test_three_digits(value: float, text: str) -> None:
    assert table.significant(value) == text


def test_rows_survive_json(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    rows = [row(), row(dtype="f64")]
    table.save(rows, {"processor": "one"}, file)
    assert table.load(file) == rows
    assert json.loads(file.read_text())["machine"] == {"processor": "one"}


@pytest.mark.parametrize("text", ["", "[]", '{"format": 0}', '{"format": 1, "rows": [{}]}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(FjitValueError, match="does not hold rows"):
        table.load(file)


def test_comparison_is_of_ratios() -> None:
    new = row(times={"numpy": 6e-3, "fjit": 1e-3})
    text = table.compare([row()], [new, row(case="other")])
    assert text.splitlines()[2].split() == ["softmax", "4x5", "f32", "1", "3.00", "6.00", "2.00"]
    assert "other" not in text and "geometric mean of new/old: 2.00" in text
    assert "no case is in both" in table.compare([], [new])


# The command


def test_command_prints_writes_and_compares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.json"
    words = ["--quick", "--only", "std", "--size", "20x30", "--peers", "fjit", "--json", str(file)]
    assert main(words) == 0
    first = capsys.readouterr()
    assert "[bandwidth]" in first.out and "[2/2] bandwidth: std 20x30 f64" in first.err
    assert len(table.load(file)) == 2
    assert main([*words, "--compare", str(file)]) == 0
    assert "[against the earlier run]" in capsys.readouterr().out


@pytest.mark.parametrize("kind", plot.KINDS)
def test_rows_are_drawn(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"bench{kind}"
    plot.save([row(), row(case="GELU", times={"fjit": 1e-3, "torch": 4e-4}), row(times={})], file)
    data = file.read_bytes()
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".html": b"<!DOCTYPE html>"}
    assert data.startswith(starts[kind])
    if kind == ".html":
        assert b"<svg" in data and b"softmax" in data and b"wrong result, f64 for f32" in data
        assert b"http" not in data.split(b"</svg>")[1]


def test_what_cannot_be_drawn_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FjitValueError, match=r"does not end in \.png, \.svg, \.pdf, \.html"):
        plot.save([row()], tmp_path / "bench.bmp")
    with pytest.raises(FjitValueError, match="nothing to draw"):
        plot.save([row(times={"fjit": 1.0})], tmp_path / "bench.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(FjitValueError, match=r"pip install 'fjit\[viz\]'"):
        plot.save([row()], tmp_path / "bench.png")


def test_command_times_one_thread_and_all_in_processes(
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = ["--only", "std", "--size", "20x30", "--dtype", "f32", "--peers", "fjit"]
    assert main(words) == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert [line[3] for line in lines if line[:1] == ["std"]] == ["1", "all"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--group", "maths"], "no group of cases is called maths; the groups are bandwidth, math"),
        (["--only", "xyz"], "matches 'xyz'; the cases are 'sum axis 0'"),
        (["--peers", "julia"], "no peer is called julia; the peers are numpy, fjit"),
        (["--clock", "cpu", "--threads", "all"], "--threads 1"),
        (["--compare", "absent.json"], "absent.json does not hold rows"),
    ],
)
def test_bad_words_are_answered(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["--quick"]):
        assert main(words + more) == 2
        assert text in capsys.readouterr().err


@pytest.mark.parametrize("size", ["0x3", "big", "3x", "-1"])
def test_bad_sizes_are_answered(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args([f"--size={size}"])
    assert "is not small, large, all or a shape" in capsys.readouterr().err
