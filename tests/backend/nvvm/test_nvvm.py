"""Compiling and linking for GPUs: what comes out, what is refused and how, from many threads."""

import dataclasses
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

import pytest

from fjit.backend import nvvm, toolkit
from fjit.backend.emitter import F32, I32, I64, Emitter, Val
from fjit.backend.values import GLOBAL
from fjit.errors import InternalError, MissingPackageError
from fjit.target import GPU_TARGETS, GpuTarget
from tests.backend.nvvm import rows

needs_nvvm = pytest.mark.nvvm
archs = pytest.mark.parametrize("arch", (rows.TYPED, rows.OPAQUE), ids=lambda arch: arch.name)


def text(body: str, *more: str, threads: int | None = None) -> str:
    define = f"define void @k(ptr addrspace(1) %p, i64 %n) {{\n{body}\n  ret void\n}}\n"
    return nvvm.module([*more, define], [nvvm.Kernel("k", threads)])


COPY = """  %x = load <4 x float>, ptr addrspace(1) %p, align 16
  %q = getelementptr i8, ptr addrspace(1) %p, i64 %n
  store <4 x float> %x, ptr addrspace(1) %q, align 16"""


def test_a_part_that_stands_twice_is_written_once() -> None:
    helper = "define internal float @h(float %x) {\n  ret float %x\n}\n"
    assert text(COPY, helper, helper) == text(COPY, helper)


@needs_nvvm
@archs
def test_wide_accesses_stay_wide(arch: GpuTarget) -> None:
    ptx = nvvm.compile_ptx(text(COPY), arch)
    assert f".target {arch.name}" in ptx and ".visible .entry k(" in ptx
    assert re.search(r"ld\.global\.(v4\.f32|v2\.b64)", ptx)
    assert re.search(r"st\.global\.(v4\.f32|v2\.b64)", ptx)


@needs_nvvm
@archs
def test_the_linker_tells_what_a_kernel_uses(arch: GpuTarget) -> None:
    em = Emitter(gpu=True)
    thread = em.sext(em.call("llvm.nvvm.read.ptx.sreg.tid.x", I32), I64)
    tile = em.shared_array("tile", F32, 256)
    own = em.mul(thread, em.const(I64, 4))
    em.store(em.load(F32, em.gep(Val(GLOBAL, "%p"), own), 4), em.gep(tile, own), 4)
    em.call("llvm.nvvm.barrier0", None)
    other = em.gep(tile, em.sub(em.const(I64, 1020), own))
    em.store(em.load(F32, other, 4), em.gep(Val(GLOBAL, "%p"), own), 4)
    em.ret()
    module = nvvm.module([em.function("k", [(GLOBAL, "p")])], [nvvm.Kernel("k", threads=256)])
    ptx = nvvm.compile_ptx(module, arch)
    assert "ld.shared" in ptx and ".maxntid 256" in ptx
    linked = nvvm.link(ptx, arch)
    assert linked.cubin[:4] == b"\x7fELF"
    (kernel,) = linked.kernels
    assert kernel.name == "k" and 0 < kernel.registers <= 32 and kernel.shared == 1024
    assert (kernel.spill_stores, kernel.spill_loads, kernel.stack) == (0, 0, 0)


@needs_nvvm
@archs
def test_an_array_on_the_stack_is_counted(arch: GpuTarget) -> None:
    body = """  %a = alloca [32 x float], align 4
  store float 1.0, ptr %a, align 4
  %i = getelementptr [32 x float], ptr %a, i64 0, i64 %n
  store float 2.0, ptr %i, align 4
  %x = load float, ptr %a, align 4
  store float %x, ptr addrspace(1) %p, align 4"""
    linked = nvvm.link(nvvm.compile_ptx(text(body), arch), arch)
    assert linked.kernels[0].stack >= 128


def test_the_account_of_several_kernels_is_read() -> None:
    log = """ptxas info    : 32 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_75'
ptxas info    : Function properties for a
ptxas         .     8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 512 bytes smem, 368 bytes cmem[0], \
8 bytes cmem[2]
ptxas info    : Compiling entry function 'b' for 'sm_75'
ptxas info    : Function properties for helper
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for b
ptxas         .     4 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 6 registers, used 0 barriers
"""
    assert nvvm.kernel_infos(log) == (
        nvvm.KernelInfo("a", 255, 16, 24, shared=512, stack=8, constant=376),
        nvvm.KernelInfo("b", 6, 0, 0, shared=0, stack=4, constant=0),
    )


def test_an_account_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(InternalError, match="account of a cannot be read"):
        nvvm.kernel_infos("ptxas info : Compiling entry function 'a' for 'sm_75'\nnothing more\n")


@needs_nvvm
@archs
def test_refused_text_is_told_with_its_line(arch: GpuTarget) -> None:
    wrong = "  %x = add i32 1, 2\n  %y = plus i32 %x, 1"
    with pytest.raises(InternalError, match=r"libNVVM refuses .*instruction") as error:
        nvvm.compile_ptx(text(wrong), arch)
    assert arch.name in str(error.value) and "%y = plus i32 %x, 1" in str(error.value)


@needs_nvvm
@archs
def test_a_call_of_nothing_does_not_link(arch: GpuTarget) -> None:
    ptx = nvvm.compile_ptx(text("  call void @nobody()", "declare void @nobody()\n"), arch)
    with pytest.raises(InternalError, match="nvJitLink refuses the PTX"):
        nvvm.link(ptx, arch)


@needs_nvvm
@archs
def test_libdevice_comes_with_its_declaration(arch: GpuTarget) -> None:
    body = """  %x = load float, ptr addrspace(1) %p, align 4
  %y = call float @__nv_sinhf(float %x)
  store float %y, ptr addrspace(1) %p, align 4"""
    ptx = nvvm.compile_ptx(text(body, "declare float @__nv_sinhf(float)\n"), arch)
    assert "__nv_sinhf" not in ptx
    assert nvvm.link(ptx, arch).kernels


@needs_nvvm
def test_options_override_the_strict_ones() -> None:
    body = """  %x = load float, ptr addrspace(1) %p, align 4
  %y = fmul float %x, %x
  %z = fadd float %y, %x
  store float %z, ptr addrspace(1) %p, align 4"""
    assert "fma" not in nvvm.compile_ptx(text(body), rows.OPAQUE)
    assert "fma" in nvvm.compile_ptx(text(body), rows.OPAQUE, {"fma": 1})


@needs_nvvm
def test_threads_compile_at_the_same_time() -> None:
    jobs = [(text(COPY.replace("%n", str(16 * k))), arch)
            for k in range(1, 9) for arch in (rows.TYPED, rows.OPAQUE)]  # fmt: skip

    def cubin(job: tuple[str, GpuTarget]) -> bytes:
        return nvvm.link(nvvm.compile_ptx(*job), job[1]).cubin

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(cubin, jobs))
    assert together == [cubin(job) for job in jobs]


# Keys


@needs_nvvm
def test_a_key_covers_what_decides_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    arch = GPU_TARGETS["sm_90"]
    keys = [nvvm.key("a", arch), nvvm.key("b", arch), nvvm.key("a", GPU_TARGETS["sm_80"]),
            nvvm.key("a", arch, {"fma": 1})]  # fmt: skip
    assert len(set(keys)) == len(keys) and all(len(k) == 64 for k in keys)
    assert nvvm.key("a", dataclasses.replace(arch, clock_ghz=1.0)) == keys[0]
    monkeypatch.setattr(toolkit, "versions", lambda: toolkit.Versions("1", "2"))
    nvvm._libraries.cache_clear()
    assert nvvm.key("a", arch) not in keys
    nvvm._libraries.cache_clear()


# What is not installed


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def version(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    doors = (toolkit.nvvm, toolkit.nvjitlink, toolkit.versions, toolkit.libdevice_path,
             toolkit.libdevice)  # fmt: skip
    for name in ("cuda.bindings.nvvm", "cuda.bindings.nvjitlink"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(metadata, "files", version)
    for door in doors:
        door.cache_clear()
    yield
    for door in doors:
        door.cache_clear()


def test_missing_packages_are_named_with_their_command(nothing_installed: None) -> None:
    assert toolkit.missing() == toolkit.PACKAGES
    for door in (toolkit.nvvm, toolkit.nvjitlink, toolkit.versions, toolkit.libdevice):
        with pytest.raises(MissingPackageError, match=r"pip install 'fjit\[cuda\]'") as error:
            door()
        assert isinstance(error.value, ImportError)
        assert all(package in str(error.value) for package in toolkit.PACKAGES)
    with pytest.raises(MissingPackageError):
        nvvm.compile_ptx(text(COPY), rows.OPAQUE)
