"""The examples run, on small sizes, and print what they promise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
QUICK = {
    "softmax_layernorm": ["64"],
    "inplace_stencil": ["40"],
    "masked_statistics": ["10000"],
    "image_pipeline": ["{out}/after.png"],
    "report": ["{out}"],
    "tour": ["--quick", "--out", "{out}"],
}
SAYS = {
    "softmax_layernorm": "compiled again for new scalars and sizes: 0",
    "inplace_stencil": "the same bits as NumPy after 201 steps: True",
    "masked_statistics": "1 kernel(s), 24 bytes written",
    "image_pipeline": "largest difference to NumPy: ",
    "report": "a library call after ",
    "tour": "fusion report of develop",
}
WRITES = {
    "image_pipeline": ["after.png"],
    "report": ["report.html"],
    "tour": ["index.html", "before.png", "after.png", "photograph.html", "k-means-step.html"],
}


def run(name: str, out: Path) -> str:
    """What an example prints, run as a user runs it, with every warning an error."""
    arguments = [argument.format(out=out) for argument in QUICK[name]]
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        cwd=out,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(QUICK)


@pytest.mark.parametrize("name", sorted(QUICK))
def test_example(name: str, tmp_path: Path) -> None:
    assert SAYS[name] in run(name, tmp_path)
    for file in WRITES.get(name, []):
        assert (tmp_path / file).stat().st_size > 0


@pytest.mark.parametrize("name", sorted(set(QUICK) - {"tour"}))
def test_short_examples_are_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 60
