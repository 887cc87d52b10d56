"""The older dialect: instruction by instruction, and refusals instead of text that means less."""

import pytest

from fjit.backend.dialect import typed
from fjit.errors import InternalError

# Before and after, without the declarations around.
LINES = [
    ("  ret void", "  ret void"),
    ("  %ptr = add i32 %a, 1", "  %ptr = add i32 %a, 1"),
    (
        "  %x = load float, ptr addrspace(1) %p, align 4",
        "  %as.1 = bitcast i8 addrspace(1)* %p to float addrspace(1)*\n"
        "  %x = load float, float addrspace(1)* %as.1, align 4",
    ),
    (
        "  %x = load <4 x float>, ptr %p, align 16, !invariant.load !3",
        "  %as.1 = bitcast i8* %p to <4 x float>*\n"
        "  %x = load <4 x float>, <4 x float>* %as.1, align 16, !invariant.load !3",
    ),
    (
        "  store <2 x i32> <i32 1, i32 %b>, ptr addrspace(3) %p, align 8",
        "  %as.1 = bitcast i8 addrspace(3)* %p to <2 x i32> addrspace(3)*\n"
        "  store <2 x i32> <i32 1, i32 %b>, <2 x i32> addrspace(3)* %as.1, align 8",
    ),
    (
        "  store ptr addrspace(1) %q, ptr %p, align 8",
        "  %as.1 = bitcast i8* %p to i8 addrspace(1)**\n"
        "  store i8 addrspace(1)* %q, i8 addrspace(1)** %as.1, align 8",
    ),
    (
        "  %x = load atomic i32, ptr addrspace(1) %p acquire, align 4",
        "  %as.1 = bitcast i8 addrspace(1)* %p to i32 addrspace(1)*\n"
        "  %x = load atomic i32, i32 addrspace(1)* %as.1 acquire, align 4",
    ),
    (
        "  %old = atomicrmw add ptr addrspace(1) %p, i32 %v monotonic",
        "  %as.1 = bitcast i8 addrspace(1)* %p to i32 addrspace(1)*\n"
        "  %old = atomicrmw add i32 addrspace(1)* %as.1, i32 %v monotonic",
    ),
    (
        "  %old = cmpxchg ptr %p, i64 %a, i64 %b monotonic monotonic",
        "  %as.1 = bitcast i8* %p to i64*\n"
        "  %old = cmpxchg i64* %as.1, i64 %a, i64 %b monotonic monotonic",
    ),
    (
        "  %q = getelementptr i8, ptr addrspace(1) %p, i64 %n",
        "  %q = getelementptr i8, i8 addrspace(1)* %p, i64 %n",
    ),
    (
        "  %q = getelementptr i64, ptr %p, i64 3",
        "  %as.1 = bitcast i8* %p to i64*\n"
        "  %as.2 = getelementptr i64, i64* %as.1, i64 3\n"
        "  %q = bitcast i64* %as.2 to i8*",
    ),
    (
        "  %q = getelementptr [8 x float], ptr %p, i64 0, i64 %k",
        "  %as.1 = bitcast i8* %p to [8 x float]*\n"
        "  %as.2 = getelementptr [8 x float], [8 x float]* %as.1, i64 0, i64 %k\n"
        "  %q = bitcast float* %as.2 to i8*",
    ),
    (
        "  %q = alloca [8 x float], align 16",
        "  %as.1 = alloca [8 x float], align 16\n  %q = bitcast [8 x float]* %as.1 to i8*",
    ),
    ("  %y = fneg float %x", "  %y = fsub float -0.0, %x"),
    ("  %y = fneg <2 x double> %x", "  %y = fsub <2 x double> <double -0.0, double -0.0>, %x"),
    (
        "  %y = fmul <2 x float> %x, splat (float 0x4000000000000000)",
        "  %y = fmul <2 x float> %x, <float 0x4000000000000000, float 0x4000000000000000>",
    ),
    (
        "  %y = insertvalue { float, i32 } poison, float %x, 0",
        "  %y = insertvalue { float, i32 } undef, float %x, 0",
    ),
    (
        "  %y = call i32 @llvm.umin.i32(i32 %a, i32 31)",
        "  %as.1 = icmp ult i32 %a, 31\n  %y = select i1 %as.1, i32 %a, i32 31",
    ),
    (
        "  %y = call <2 x i8> @llvm.smax.v2i8(<2 x i8> %a, <2 x i8> %b)",
        "  %as.1 = icmp sgt <2 x i8> %a, %b\n"
        "  %y = select <2 x i1> %as.1, <2 x i8> %a, <2 x i8> %b",
    ),
    (
        "  %y = select i1 %c, ptr addrspace(1) %p, ptr addrspace(1) null",
        "  %y = select i1 %c, i8 addrspace(1)* %p, i8 addrspace(1)* null",
    ),
    (
        "  %y = addrspacecast ptr addrspace(3) %p to ptr",
        "  %y = addrspacecast i8 addrspace(3)* %p to i8*",
    ),
    ("  %y = call i64 @f(ptr %ptr, i64 1)", "  %y = call i64 @f(i8* %ptr, i64 1)"),
]


@pytest.mark.parametrize(("before", "after"), LINES, ids=[line.strip() for line, _ in LINES])
def test_an_instruction(before: str, after: str) -> None:
    assert typed(before) == after


def test_the_address_of_a_global_is_cast_where_it_stands() -> None:
    text = (
        "@tile = internal addrspace(3) global [64 x float] undef, align 16\n"
        "@table = private unnamed_addr constant [2 x i64] [i64 1, i64 2]\n"
        "  %x = load float, ptr addrspace(3) @tile, align 4\n"
        "  %q = getelementptr i8, ptr @table, i64 8\n"
    )
    tile = "i8 addrspace(3)* bitcast ([64 x float] addrspace(3)* @tile to i8 addrspace(3)*)"
    assert typed(text) == (
        "@tile = internal addrspace(3) global [64 x float] undef, align 16\n"
        "@table = private unnamed_addr constant [2 x i64] [i64 1, i64 2]\n"
        f"  %as.1 = bitcast {tile} to float addrspace(3)*\n"
        "  %x = load float, float addrspace(3)* %as.1, align 4\n"
        "  %q = getelementptr i8, i8* bitcast ([2 x i64]* @table to i8*), i64 8\n"
    )


@pytest.mark.parametrize(
    ("define", "kind"),
    [
        ("define void @k(ptr addrspace(1) %p, i64 %n) nounwind {", "i8 addrspace(1)*, i64"),
        ("define void @k() {", ""),
        (
            "define void @k(ptr addrspace(1) noalias align 16 %p, <2 x i32> %v, float %x) {",
            "i8 addrspace(1)*, <2 x i32>, float",
        ),
    ],
)
def test_a_kernel_is_named_with_its_whole_type(define: str, kind: str) -> None:
    text = f'{define}\n  ret void\n}}\n!1 = !{{ptr @k, !"kernel", i32 1}}'
    assert typed(text).splitlines()[-1] == f'!1 = !{{void ({kind})* @k, !"kernel", i32 1}}'


@pytest.mark.parametrize(
    "line",
    [
        "  %y = freeze i32 %x",
        "  %y = fneg half %x",
        "  %y = call i32 @llvm.abs.i32(i32 %x, i1 false)",
        "  %y = call float @llvm.maximum.f32(float %x, float %y)",
        "  %q = getelementptr { i32, float }, ptr %p, i64 0, i32 1",
        "  %y = call i32 @llvm.umin.i32(i32 %a, i32 31), !tag !4",
    ],
)
def test_what_llvm_7_cannot_say_is_refused(line: str) -> None:
    with pytest.raises(InternalError):
        typed(line)
