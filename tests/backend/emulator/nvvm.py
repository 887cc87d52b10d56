"""LLVM IR to PTX through libNVVM, for tests of what it really writes."""

from pathlib import Path

import pytest

nvvm = pytest.importorskip("cuda.bindings.nvvm", reason="needs cuda-python and nvidia-nvvm")
nvidia = pytest.importorskip("nvidia", reason="needs nvidia-nvvm, which has libdevice")

OPTIONS = ("-fma=0", "-ftz=0", "-prec-div=1", "-prec-sqrt=1")
LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-"
    "v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
)
SREG = "llvm.nvvm.read.ptx.sreg"


def libdevice() -> bytes:
    files = [file for folder in nvidia.__path__ for file in Path(folder).rglob("libdevice*.bc")]
    if not files:
        pytest.skip("needs libdevice, of nvidia-nvvm")
    return files[0].read_bytes()


def compiled(text: str, arch: int) -> str:
    """The PTX of a module's text for compute_<arch>."""
    program = nvvm.create_program()
    try:
        source, library = text.encode(), libdevice()
        nvvm.add_module_to_program(program, source, len(source), "k")
        nvvm.lazy_add_module_to_program(program, library, len(library), "libdevice")
        options = [f"-arch=compute_{arch}", *OPTIONS]
        nvvm.compile_program(program, len(options), options)
        result = bytearray(nvvm.get_compiled_result_size(program))
        nvvm.get_compiled_result(program, result)
        return result.decode().rstrip("\0")
    finally:
        nvvm.destroy_program(program)


def module(params: list[str], body: str, declare: str, arch: int) -> str:
    """A module with kernel @k; `T*` is written `ptr` where the dialect has opaque pointers."""
    opaque = arch >= 100
    kind = f"void ({', '.join(' '.join(p.split()[:-1]) for p in params)})*"
    text = f"""target datalayout = "{LAYOUT}"
target triple = "nvptx64-nvidia-cuda"
declare i32 @{SREG}.tid.x()
declare i32 @{SREG}.ctaid.x()
declare i32 @{SREG}.ntid.x()
{declare}
define void @k({", ".join(params)}) {{
  %tid = call i32 @{SREG}.tid.x()
  %cta = call i32 @{SREG}.ctaid.x()
  %ntid = call i32 @{SREG}.ntid.x()
  %start = mul i32 %cta, %ntid
  %i = add i32 %start, %tid
{body}
  ret void
}}
!nvvm.annotations = !{{!0}}
!0 = !{{{kind} @k, !"kernel", i32 1}}
!nvvmir.version = !{{!1}}
!1 = !{{i32 2, i32 0, i32 3, i32 1}}
"""
    if not opaque:
        return text
    text = text.replace(kind, "ptr")
    for ty in ("float", "double", "half", "i32", "i64", "i8", "i16"):
        text = text.replace(f"{ty}*", "ptr").replace(f"{ty} addrspace(1)*", "ptr addrspace(1)")
    return text


def function_kernel(name: str, ty: str, arity: int, arch: int) -> str:
    """PTX that applies a libdevice function to each element of its arguments."""
    params = [f"{ty}* %a{k}" for k in range(arity)] + [f"{ty}* %out"]
    lines = ["  %wide = zext i32 %i to i64"]
    for k in range(arity):
        lines.append(f"  %p{k} = getelementptr {ty}, {ty}* %a{k}, i64 %wide")
        lines.append(f"  %v{k} = load {ty}, {ty}* %p{k}")
    values = ", ".join(f"{ty} %v{k}" for k in range(arity))
    lines.append(f"  %r = call {ty} @{name}({values})")
    lines.append(f"  %q = getelementptr {ty}, {ty}* %out, i64 %wide")
    lines.append(f"  store {ty} %r, {ty}* %q")
    declare = f"declare {ty} @{name}({', '.join([ty] * arity)})"
    return compiled(module(params, "\n".join(lines), declare, arch), arch)
