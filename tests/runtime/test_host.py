"""The host's description, what `FJIT_CPU` may ask for, and cache sizes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fjit.errors import FjitValueError
from fjit.runtime import jit
from fjit.runtime.host import cache_sizes, host
from fjit.target import CPU_TARGETS


@pytest.fixture(autouse=True)
def whole_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FJIT_CPU", raising=False)


def test_the_host_has_a_name_features_and_caches() -> None:
    found = host()
    assert found.name in CPU_TARGETS and found.cpu and found.l1_bytes > 0
    assert host() is found


def usable() -> list[str]:
    rows = [row for row in CPU_TARGETS.values() if row.architecture == host().architecture]
    return [row.name for row in rows if row.vector_bits <= host().vector_bits]


@pytest.mark.parametrize("name", list(CPU_TARGETS))
def test_a_smaller_processor_can_be_asked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name not in usable():
        pytest.skip("the host lacks these features")
    monkeypatch.setenv("FJIT_CPU", name)
    found = host()
    assert found.name == name and found.cpu == CPU_TARGETS[name].level and found.features == ""
    module = jit.compile_module("define i64 @f() { ret i64 7 }", target=found, cache=False)
    assert module.address("f")


@pytest.mark.parametrize("name", ["pentium", *(set(CPU_TARGETS) - {"avx512", "avx2", "sse"})])
def test_what_the_host_lacks_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in usable():
        pytest.skip("the host has it")
    monkeypatch.setenv("FJIT_CPU", name)
    with pytest.raises(FjitValueError, match=f"FJIT_CPU='{name}' cannot be used on this machine"):
        host()


def test_cache_sizes_are_read_as_linux_writes_them(tmp_path: Path) -> None:
    rows = [
        ("Data", "1", "48K"),
        ("Instruction", "1", "32K"),
        ("Unified", "2", "2M"),
        ("x", "", ""),
    ]
    for index, row in enumerate(rows):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for leaf, text in zip(("type", "level", "size"), row, strict=True):
            (folder / leaf).write_text(text + "\n")
    assert cache_sizes(tmp_path) == {1: 48 * 1024, 2: 2 * 1024 * 1024}
    assert cache_sizes(tmp_path / "absent") == {}


def test_importing_the_runtime_loads_no_llvm() -> None:
    script = (
        "import sys, fjit.target, fjit.runtime.host, fjit.runtime.jit, fjit.runtime.threads\n"
        "print('llvmlite' in sys.modules)"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"
