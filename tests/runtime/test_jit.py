"""Compiling IR text: results, errors, lifetimes, the cache between processes, cross-compilation."""

import ctypes
import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from fjit.errors import InternalError
from fjit.runtime import jit
from fjit.runtime.cache import default_cache
from fjit.runtime.host import host
from fjit.target import CPU_TARGETS

ROOT = Path(__file__).parents[2]

TWICE = """
define i64 @twice(i64 %x) {
  %y = shl i64 %x, 1
  ret i64 %y
}
"""


def call(module: jit.Module, name: str, argument: int) -> int:
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    return int(prototype(module.address(name))(argument))


def chain(operations: int) -> str:
    """A vector loop of so many operations."""
    lines = [f"  %v{i + 1} = fadd <16 x float> %v{i}, %v0" for i in range(operations)]
    body = "\n".join(lines)
    return f"""
define void @chain(ptr %x, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr %x, i64 %i
  %v0 = load <16 x float>, ptr %p, align 4
{body}
  store <16 x float> %v{operations}, ptr %p, align 4
  %next = add i64 %i, 16
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %leave
leave:
  ret void
}}
"""


def test_code_runs() -> None:
    module = jit.compile_module(TWICE, target=host(), cache=False)
    assert call(module, "twice", 21) == 42
    assert module.exports == ("twice",) and not module.from_cache
    assert module.object_bytes.startswith((b"\x7fELF", b"\xcf\xfa\xed\xfe"))


def test_a_name_that_is_not_exported_is_a_key_error() -> None:
    module = jit.compile_module(
        TWICE + "define internal void @hidden() { ret void }", target=host(), cache=False
    )
    with pytest.raises(KeyError, match="hidden"):
        module.address("hidden")


def test_globals_have_addresses_and_hold_their_values() -> None:
    text = """
@counter = global i64 5
define i64 @bump(i64 %by) {
  %old = load i64, ptr @counter
  %new = add i64 %old, %by
  store i64 %new, ptr @counter
  ret i64 %new
}
"""
    module = jit.compile_module(text, target=host(), cache=False)
    assert call(module, "bump", 3) == 8
    assert ctypes.c_int64.from_address(module.address("counter")).value == 8


def test_process_symbols_are_found() -> None:
    text = "declare i64 @labs(i64) define i64 @f(i64 %x) { %y = call i64 @labs(i64 %x) ret i64 %y }"
    assert call(jit.compile_module(text, target=host(), cache=False), "f", -9) == 9


def test_two_modules_may_use_the_same_name() -> None:
    one = jit.compile_module(TWICE, target=host(), cache=False)
    other = jit.compile_module(TWICE.replace("%x, 1", "%x, 3"), target=host(), cache=False)
    assert (call(one, "twice", 1), call(other, "twice", 1)) == (2, 8)


def test_a_parse_error_shows_the_line() -> None:
    text = "define i64 @f(i64 %x) {\n  %y = ad i64 %x, 1\n  ret i64 %y\n}"
    with pytest.raises(jit.LlvmError, match="expected instruction opcode") as caught:
        jit.compile_module(text, target=host())
    assert "line 2" in str(caught.value) and "  %y = ad i64 %x, 1" in str(caught.value)
    assert isinstance(caught.value, InternalError) and isinstance(caught.value, RuntimeError)


def test_a_verifier_error_is_raised() -> None:
    text = "define i64 @f(i1 %c) {\n  br label %b\nb:\n  %p = phi i64 [ 1, %b ]\n  ret i64 %p\n}"
    with pytest.raises(jit.LlvmError, match="PHI"):
        jit.compile_module(text, target=host())


def test_an_unknown_symbol_is_an_error_and_no_crash(capfd: pytest.CaptureFixture[str]) -> None:
    text = "declare void @fjit_no_such() define void @f() { call void @fjit_no_such() ret void }"
    with pytest.raises(jit.LlvmError, match="cannot load"):
        jit.compile_module(text, target=host(), cache=False)
    assert "fjit_no_such" in capfd.readouterr().err


def test_code_is_unloaded_with_its_module() -> None:
    module = jit.compile_module(TWICE, target=host(), cache=False)
    watch = weakref.ref(module)
    del module
    gc.collect()
    assert watch() is None
    assert call(jit.compile_module(TWICE, target=host(), cache=False), "twice", 2) == 4


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_compiling_does_not_eat_memory() -> None:
    def pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    for _ in range(20):
        jit.compile_module(TWICE, target=host(), cache=False)
    before = pages()
    for _ in range(200):
        jit.compile_module(TWICE, target=host(), cache=False)
    assert (pages() - before) * 4096 / 200 < 30 * 1024


def test_the_cache_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FJIT_CACHE_DIR", str(tmp_path))
    fresh = jit.compile_module(TWICE, target=host())
    again = jit.compile_module(TWICE, target=host())
    assert (fresh.from_cache, again.from_cache) == (False, True)
    assert fresh.object_bytes == again.object_bytes and fresh.exports == again.exports
    assert call(again, "twice", 5) == 10


def test_a_key_stands_for_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FJIT_CACHE_DIR", str(tmp_path))
    emitted = []

    def emit() -> str:
        emitted.append(1)
        return TWICE

    assert call(jit.compile_module(emit, target=host(), key="nest 1"), "twice", 1) == 2
    assert jit.compile_module(emit, target=host(), key="nest 1").from_cache
    assert len(emitted) == 1
    assert not jit.compile_module(emit, target=host(), key="nest 2").from_cache


def test_without_the_cache_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FJIT_CACHE_DIR", str(tmp_path / "fresh"))
    jit.compile_module(TWICE, target=host(), cache=False)
    assert not (tmp_path / "fresh").exists()


def test_a_corrupt_entry_is_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FJIT_CACHE_DIR", str(tmp_path))
    jit.compile_module(TWICE, target=host())
    (file,) = (tmp_path / "objects").iterdir()
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    again = jit.compile_module(TWICE, target=host())
    assert not again.from_cache and call(again, "twice", 3) == 6
    assert default_cache().stats().corrupt == 1
    assert jit.compile_module(TWICE, target=host()).from_cache


def test_a_directory_that_cannot_be_written_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("FJIT_CACHE_DIR", str(tmp_path / "file"))
    module = jit.compile_module(TWICE, target=host())
    assert call(module, "twice", 4) == 8 and not module.from_cache
    assert "cannot be used" in (default_cache().stats().problem or "")


def test_the_key_depends_on_text_and_processor() -> None:
    keys = {jit.cache_key(text, row) for text in ("a", "b") for row in CPU_TARGETS.values()}
    assert len(keys) == 2 * len(CPU_TARGETS)


PROCESS = f"""
import ctypes, sys
from fjit.runtime import jit
from fjit.runtime.host import host
text = {TWICE!r}
for number in range(10):
    module = jit.compile_module(text.replace("twice", f"twice{{number}}"), target=host())
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(module.address(f"twice{{number}}"))
    assert function(3) == 6
print("ran")
"""


def test_processes_that_write_the_same_keys(tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT), "FJIT_CACHE_DIR": str(tmp_path)}
    team = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS], env=env, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    assert [process.communicate(timeout=30)[0].strip() for process in team] == ["ran"] * 3
    files = list((tmp_path / "objects").iterdir())
    assert len(files) == 10 and all(file.suffix == ".entry" for file in files)


def test_eight_threads_compile_at_once() -> None:
    results: list[int] = []

    def work(number: int) -> None:
        for round_ in range(3):
            text = TWICE.replace("%x, 1", f"%x, {number + round_}")
            results.append(call(jit.compile_module(text, target=host(), cache=False), "twice", 1))

    team = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    assert sorted(results) == sorted(1 << (n + r) for n in range(8) for r in range(3))


def test_thirty_operations_compile_quickly() -> None:
    def seconds() -> float:
        return jit.compile_module(chain(30), target=host(), cache=False).seconds

    assert min(seconds() for _ in range(5)) < 0.025


def test_optimised_ir_keeps_our_vectors_and_folds_the_rest() -> None:
    text = "define i64 @f(i64 %x) {\n  %y = add i64 %x, 0\n  ret i64 %y\n}"
    assert "add i64" not in jit.optimized_ir(text, host())
    assert "fadd <16 x float>" in jit.optimized_ir(chain(3), CPU_TARGETS["neon"])


def test_scalar_loops_stay_scalar() -> None:
    text = chain(3).replace("<16 x float>", "float").replace("i64 %i, 16", "i64 %i, 1")
    assert "x float>" not in jit.optimized_ir(text, CPU_TARGETS["avx512"])


def test_contraction_is_left_alone() -> None:
    text = """
define float @f(float %a, float %b, float %c) {
  %p = fmul float %a, %b
  %s = fadd float %p, %c
  ret float %s
}
"""
    assert "fma" not in jit.assembly(text, CPU_TARGETS["avx2"])
    assert "fmadd" not in jit.assembly(text, CPU_TARGETS["neon"])


def test_assembly_without_optimisation() -> None:
    text = "define i64 @f(i64 %x) {\n  %y = mul i64 %x, 8\n  %z = sub i64 %y, %y\n  ret i64 %z\n}"
    assert "xorl" in jit.assembly(text, CPU_TARGETS["sse"])
    assert jit.assembly(text, CPU_TARGETS["sse"], optimise=False).count("\n") > 3
