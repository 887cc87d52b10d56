"""The command line: what it prints, its exit codes, one-line errors."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fjit import cli
from fjit.report import doctor
from fjit.runtime.cache import default_cache

ROOT = Path(__file__).parents[1]
SOURCE = """
import fjit, numpy as np

def energy(x, scale):
    return (np.exp(x) * scale).sum(1)

def pick(x, mode="sum"):
    return x.sum() if mode == "sum" else x.max()

@fjit.fuse
def fused(x):
    return x + 1

class Group:
    @staticmethod
    def member(x):
        return x * 2

constant = 3
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run(*words)` runs one command in a folder with physics.py: exit code, output, errors."""
    (tmp_path / "physics.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "physics", raising=False)

    def command(*words: str) -> tuple[int, str, str]:
        try:
            code = cli.main(words)
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return command


def test_no_command_prints_help(run: Run) -> None:
    code, out, _ = run()
    assert code == 2 and all(word in out for word in ("doctor", "explain", "cache", "bench"))
    assert run("--help")[0] == 0 and run("nonsense")[0] == 2


def test_explain_prints_the_report(run: Run, tmp_path: Path) -> None:
    code, out, err = run("explain", "physics:energy", "--args", "f64[64,128]", "-0.5")
    assert (code, err) == (0, "")
    assert "fusion report of energy" in out and "physics.py:5 in energy" in out and out.isascii()
    code, out, err = run("explain", "physics.py:fused", "--args", "f32[8]", "--html", "r.html")
    assert code == 0 and "wrote r.html" in err
    assert "<table>" in (tmp_path / "r.html").read_text()


def test_explain_prints_stages(run: Run) -> None:
    words = ("explain", "physics:energy", "--args", "f64[64,128]", "0.5")
    code, out, _ = run(*words, "--program", "--nest", "--llvm", "--asm")
    assert code == 0
    for part in ("{ lambda a:f64[64,128]", "vector ", "define void @phase0", "ret"):
        assert part in out


def test_explain_options(run: Run) -> None:
    words = ("explain", "physics:energy", "--args", "f64[64,128]", "0.5")
    assert "roofline" in run(*words, "--measure")[1]
    assert "1 kernel for" in run(*words, "--no-compile")[1]
    assert "3 kernels for" in run(*words, "--fusion", "none", "--no-compile")[1]
    assert "interpreter" in run(*words, "--target", "interpreter")[1]
    assert "fastmath" in run(*words, "--fastmath", "contract", "nnan", "--no-compile")[1]
    code, out, _ = run(*words, "--compare", "auto", "none", "--no-compile")
    assert code == 0 and "fusion plans compared" in out
    assert run("explain", "physics:Group.member", "--args", "i32[5]")[0] == 0


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (("physics",), "'physics' is not MODULE:FUNCTION", 2),
        (("nowhere:f",), "there is no module nowhere", 2),
        (("nowhere.py:f",), "there is no file nowhere.py", 2),
        (("physics:f",), "physics has no 'f'", 2),
        (("physics:constant",), "is no function but int", 2),
        (("physics:energy", "--args", "q8[3]", "1"), "'q8' is no dtype", 2),
        (("physics:energy", "--args", "f64[3,]", "1"), "lacks an extent", 2),
        (("physics:energy", "--args", "f64[", "1"), "is no argument", 2),
        (("physics:energy", "--args", "f64[3,4]"), "TypeError", 1),
        (("physics:energy", "--args", "f64[3,4]", "f64[5]"), "could not be broadcast", 1),
        (("physics:fused", "--args", "f64[3]", "--compare", "best"), "good values: auto", 1),
        (("physics:fused", "--args", "f64[3]", "--compare", "auto", "--asm"), "leave out", 2),
        (("physics:fused", "--args", "f64[3]", "--html", "no/where.html"), "no/where.html", 1),
        (("physics:fused", "--args", "f64[3]", "--fusion", "best"), "invalid choice", 2),
    ],
)
def test_bad_input_is_one_clear_line(
    run: Run, words: tuple[str, ...], message: str, code: int
) -> None:
    got, _, err = run("explain", *words)
    assert got == code and message in err and "Traceback" not in err
    assert len(err.splitlines()) == 1 or err.startswith("usage:")


def test_arguments() -> None:
    array = cli.argument("f32[2, 3]")
    assert array.dtype == np.float32 and array.shape == (2, 3)
    assert np.array_equal(array, cli.argument("f32[2,3]"))
    assert not np.array_equal(array, cli.argument("f32[2,3]", seed=1))
    assert cli.argument("i64[4]").tolist() == [0, 1, 2, 3]
    assert cli.argument("bool[3]").tolist() == [False, True, False]
    scalar = cli.argument("f64[]")
    assert isinstance(scalar, np.float64) and cli.argument("u8[0]").shape == (0,)
    values: list[Any] = [cli.argument(t) for t in ("3.0", "-2", "True", "'sum'", "(1, 2)", "None")]
    assert values == [3.0, -2, True, "sum", (1, 2), None]


def test_cache_commands(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FJIT_CACHE_DIR", str(tmp_path / "cache"))
    key = "ab" * 32
    default_cache().put(key, b"x" * 2000)
    code, out, _ = run("cache", "list")
    assert code == 0 and key in out and "KiB" in out
    assert "1 entries in" in run("cache", "size")[1]
    assert "removed 1 entries" in run("cache", "clear")[1]
    assert run("cache", "list")[:2] == (0, "")
    assert run("cache", "burn")[0] == 2


def test_an_unusable_cache_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "objects").write_text("in the way")
    monkeypatch.setenv("FJIT_CACHE_DIR", str(tmp_path / "cache"))
    code, _, err = run("cache", "size")
    assert code == 1 and "is not a directory" in err
    row = next(f for f in doctor.findings() if f.what == "kernel cache")
    assert "is not a directory" in row.advice and not row.fatal


def test_doctor_finds_every_part(run: Run) -> None:
    code, out, _ = run("doctor")
    assert code == 0 and out.isascii()
    for part in ("processor", "LLVM", "threads", "OpenMP", "CUDA packages", "CUDA driver",
                 "kernel cache", "extra testing", "what to do"):  # fmt: skip
        assert part in out


def test_doctor_says_what_to_do_without_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor.installed
    monkeypatch.setattr(doctor, "installed", lambda n: None if n == "llvmlite" else real(n))
    found = doctor.findings()
    row = next(f for f in found if f.what == "LLVM")
    assert row.fatal and "pip install" in row.advice
    assert "Broken: LLVM" in str(doctor.blocks(found)[-1])


def test_doctor_reports_bad_settings(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setenv("FJIT_CPU", "pentium")
    code, out, _ = run("doctor")
    assert code == 1 and "Broken: processor" in out and "FJIT_CPU" in out


def test_extras_are_those_the_package_declares() -> None:
    declared = doctor.extras()
    assert declared["cli"] == ("rich", "typer") and "dev" not in declared


def test_bench_is_passed_on_or_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "BENCH_MODULES", ("fjit.no_such_module",))
    code, _, err = run("bench", "--only", "softmax")
    assert code == 2 and "no benchmark" in err and len(err.splitlines()) == 1
    seen: list[list[str]] = []
    module = type(sys)("made_up_bench")
    module.main = seen.append  # type: ignore[attr-defined]
    module.__spec__ = cli.importlib.util.spec_from_loader("made_up_bench", None)
    monkeypatch.setitem(sys.modules, "made_up_bench", module)
    monkeypatch.setattr(cli, "BENCH_MODULES", ("made_up_bench",))
    assert run("bench", "--only", "softmax")[0] == 0 and seen == [["--only", "softmax"]]


def test_python_m_fjit_is_plain_when_piped(tmp_path: Path) -> None:
    (tmp_path / "physics.py").write_text(SOURCE)
    words = [sys.executable, "-m", "fjit", "explain", "physics:energy", "--no-compile"]
    out = subprocess.run(
        [*words, "--args", "f64[64,128]", "2"], cwd=tmp_path, capture_output=True, check=True,
        text=True, env={**os.environ, "PYTHONPATH": str(ROOT), "FORCE_COLOR": "1"},
    ).stdout  # fmt: skip
    assert "k0_" in out and "\x1b" not in out and out.isascii()


def test_a_terminal_gets_rich_tables(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    code, out, _ = run("explain", "physics:energy", "--args", "f64[64,128]", "2", "--no-compile")
    assert code == 0 and "k0_" in out and not out.isascii()
