"""Kernels in LLVM IR, as libNVVM compiles them for each architecture, under the emulator."""

from collections.abc import Callable

import numpy as np
import pytest

from fjit.backend import emulator
from tests.backend.emulator.nvvm import compiled, module

ARCHS = (75, 80, 90, 100, 120)
RNG = np.random.default_rng(11)
INTS = np.array([0, 1, -1, 7, -7, 2**31 - 1, -(2**31), 12345, -98765, 40, 100, 255], "i4")
FLOATS = np.array([0.0, -0.0, 1.5, -2.5, 3e9, -3e9, 0.1, 1e-40, np.inf, -np.inf, 7.0, 300.0], "f4")


def elementwise(lines: str, source: str, target: str, arch: int) -> str:
    """A kernel that computes %r from %x, element %i of the first argument, and from %y."""
    body = f"""  %wide = zext i32 %i to i64
  %p = getelementptr {source}, {source}* %a, i64 %wide
  %x = load {source}, {source}* %p
  %pb = getelementptr {source}, {source}* %b, i64 %wide
  %y = load {source}, {source}* %pb
{lines}
  %q = getelementptr {target}, {target}* %out, i64 %wide
  store {target} %r, {target}* %q"""
    params = [f"{source}* %a", f"{source}* %b", f"{target}* %out"]
    return compiled(module(params, body, DECLARE, arch), arch)


def wrapped(x: np.ndarray) -> np.ndarray:
    """As int32."""
    return x.astype("i8").astype("u4").view("i4")


def divided(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    e = np.where(np.where(y == 0, 3, y) == -1, 5, np.where(y == 0, 3, y)).astype("i8")
    quotient = np.trunc(x / e).astype("i8")
    return wrapped(quotient + (x - quotient * e) + (x.view("u4") // 7))


def trailing(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.array([(int(v) & -int(v)).bit_length() - 1 if v else 32 for v in x.view("u4")], "i4")


def unordered(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(~(x >= y) ^ (np.isnan(x) | np.isnan(y)), x, y)


def halves(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    a, b = x.astype("f2"), y.astype("f2")
    return (a * b + a).astype("f4")


Reference = Callable[[np.ndarray, np.ndarray], np.ndarray]
OPERATIONS: dict[str, tuple[str, str, str, Reference]] = {
    # what computes %r from %x and %y; the type of these and of %r
    "popcount": (
        "%r = call i32 @llvm.ctpop.i32(i32 %x)",
        *("i32", "i32", lambda x, y: np.bitwise_count(x.view("u4")).astype("i4")),
    ),
    "leading": (
        "%r = call i32 @llvm.ctlz.i32(i32 %x, i1 false)",
        *("i32", "i32", lambda x, y: np.array([32 - int(v).bit_length() for v in x.view("u4")])),
    ),
    "trailing": ("%r = call i32 @llvm.cttz.i32(i32 %x, i1 false)", "i32", "i32", trailing),
    "mixed": (
        """%m = mul i32 %x, %y
        %s = ashr i32 %m, 3
        %t = xor i32 %s, %y
        %r = sub i32 %t, %x""",
        *("i32", "i32", lambda x, y: ((x * y) >> 3 ^ y) - x),
    ),
    "wide": (
        """%v = sext i32 %x to i64
        %w = sext i32 %y to i64
        %m = mul i64 %v, %w
        %h = ashr i64 %m, 32
        %r = trunc i64 %h to i32""",
        *("i32", "i32", lambda x, y: wrapped((x.astype("i8") * y) >> 32)),
    ),
    "bytes": (
        "%r = call i32 @llvm.bswap.i32(i32 %x)",
        *("i32", "i32", lambda x, y: x.byteswap()),
    ),
    "turned": (
        "%r = call i32 @llvm.fshl.i32(i32 %x, i32 %x, i32 7)",
        *("i32", "i32", lambda x, y: wrapped(x.view("u4") << 7 | x.view("u4") >> 25)),
    ),
    "overflow": (
        """%p0 = call {i32, i1} @llvm.smul.with.overflow.i32(i32 %x, i32 %y)
        %o = extractvalue {i32, i1} %p0, 1
        %r = zext i1 %o to i32""",
        *("i32", "i32", lambda x, y: (x * y != x.astype("i8") * y).astype("i4")),
    ),
    "cases": (
        """switch i32 %x, label %other [ i32 0, label %zero
            i32 1, label %one
            i32 7, label %seven ]
        zero:
          br label %end
        one:
          %triple = mul i32 %y, 3
          br label %end
        seven:
          %flipped = xor i32 %y, 77
          br label %end
        other:
          br label %end
        end:
          %r = phi i32 [ 5, %zero ], [ %triple, %one ], [ %flipped, %seven ], [ 9, %other ]""",
        *("i32", "i32", lambda x, y: np.select([x == 0, x == 1, x == 7], [5, y * 3, y ^ 77], 9)),
    ),
    "division": (
        """%z = icmp eq i32 %y, 0
        %d = select i1 %z, i32 3, i32 %y
        %m = icmp eq i32 %d, -1
        %e = select i1 %m, i32 5, i32 %d
        %q0 = sdiv i32 %x, %e
        %q1 = srem i32 %x, %e
        %q2 = udiv i32 %x, 7
        %s = add i32 %q0, %q1
        %r = add i32 %s, %q2""",
        *("i32", "i32", divided),
    ),
    "narrow": (
        """%t = trunc i32 %x to i8
        %u = trunc i32 %y to i8
        %v = mul i8 %t, %u
        %w = ashr i8 %v, 2
        %r = sext i8 %w to i32""",
        *("i32", "i32", lambda x, y: ((x.astype("i1") * y.astype("i1")) >> 2).astype("i4")),
    ),
    "to int": (
        """%c = fcmp olt float %x, 1000.0
        %d = fcmp ogt float %x, -1000.0
        %e = and i1 %c, %d
        %s = select i1 %e, float %x, float 5.0
        %r = fptosi float %s to i32""",
        *("float", "i32", lambda x, y: np.where(np.abs(x) < 1000, x, 5).astype("i4")),
    ),
    "float": (
        """%s = fmul float %x, %y
        %t = fadd float %s, %x
        %r = fdiv float %t, %y""",
        *("float", "float", lambda x, y: (x * y + x) / y),
    ),
    "half": (
        """%s = fptrunc float %x to half
        %t = fptrunc float %y to half
        %u = fmul half %s, %t
        %v = fadd half %u, %s
        %r = fpext half %v to float""",
        *("float", "float", halves),
    ),
    "unordered": (
        """%c = fcmp ult float %x, %y
        %d = fcmp uno float %x, %y
        %e = xor i1 %c, %d
        %r = select i1 %e, float %x, float %y""",
        *("float", "float", unordered),
    ),
    "double": (
        """%v = fpext float %x to double
        %w = fpext float %y to double
        %m = fmul double %v, %w
        %n = fadd double %m, 1.0e-3
        %r = fptrunc double %n to float""",
        *("float", "float", lambda x, y: (x.astype("f8") * y + 1e-3).astype("f4")),
    ),
}
DECLARE = """declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.ctlz.i32(i32, i1)
declare i32 @llvm.cttz.i32(i32, i1)
declare i32 @llvm.bswap.i32(i32)
declare i32 @llvm.fshl.i32(i32, i32, i32)
declare {i32, i1} @llvm.smul.with.overflow.i32(i32, i32)"""


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str, arch: int) -> None:
    lines, source, target, reference = OPERATIONS[name]
    values = INTS if source == "i32" else FLOATS
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    out = np.zeros(len(x), "i4" if target == "i32" else "f4")
    ptx = elementwise(lines, source, target, arch)
    emulator.launch(ptx, "k", len(x) // 48, 48, [x, y, out])
    with np.errstate(all="ignore"):
        wanted = reference(x, y)
    assert np.array_equal(out, wanted, equal_nan=target == "float")


BLOCK_SUM = """  %wide = zext i32 %i to i64
  %p = getelementptr float, float* %a, i64 %wide
  %x = load float, float* %p
  %s = alloca [4 x float]
  br label %warp
warp:
  %step = phi i32 [ 16, %0 ], [ %half, %warp ]
  %sum = phi float [ %x, %0 ], [ %more, %warp ]
  %bits = bitcast float %sum to i32
  %other = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %bits, i32 %step, i32 31)
  %value = bitcast i32 %other to float
  %more = fadd float %sum, %value
  %half = lshr i32 %step, 1
  %again = icmp ne i32 %half, 0
  br i1 %again, label %warp, label %store
store:
  %w = lshr i32 %tid, 5
  %place = getelementptr [8 x float], [8 x float] addrspace(3)* @part, i32 0, i32 %w
  store float %more, float addrspace(3)* %place
  call void @llvm.nvvm.barrier0()
  %first = icmp eq i32 %tid, 0
  br i1 %first, label %all, label %done
all:
  %k = phi i32 [ 0, %store ], [ %next, %all ]
  %total = phi float [ 0.0, %store ], [ %bigger, %all ]
  %from = getelementptr [8 x float], [8 x float] addrspace(3)* @part, i32 0, i32 %k
  %one = load float, float addrspace(3)* %from
  %bigger = fadd float %total, %one
  %next = add i32 %k, 1
  %on = icmp ult i32 %next, 8
  br i1 %on, label %all, label %write
write:
  %c = zext i32 %cta to i64
  %q = getelementptr float, float* %out, i64 %c
  store float %bigger, float* %q
  br label %done
done:"""
DECLARE_SUM = """@part = internal addrspace(3) global [8 x float] undef, align 4
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare void @llvm.nvvm.barrier0()"""


def opaque(text: str, arch: int) -> str:
    if arch < 100:
        return text
    return text.replace("[8 x float] addrspace(3)*", "ptr addrspace(3)").replace(
        "float addrspace(3)*", "ptr addrspace(3)"
    )


@pytest.mark.parametrize("arch", ARCHS)
def test_sum_of_a_block(arch: int) -> None:
    x, out = RNG.integers(-9, 9, 1024).astype("f4"), np.zeros(4, "f4")
    body = BLOCK_SUM.replace("  %s = alloca [4 x float]\n", "")
    text = module(["float* %a", "float* %out"], opaque(body, arch), opaque(DECLARE_SUM, arch), arch)
    ptx = compiled(text, arch)
    assert "bar.sync" in ptx or "barrier" in ptx
    emulator.launch(ptx, "k", 4, 256, [x, out])
    assert np.array_equal(out, x.reshape(4, 256).sum(1))


@pytest.mark.parametrize("arch", ARCHS)
def test_an_array_of_each_threads_own(arch: int) -> None:
    """An array indexed by a value lives in local memory."""
    body = """  %wide = zext i32 %i to i64
  %p = getelementptr i32, i32* %a, i64 %wide
  %x = load i32, i32* %p
  %own = alloca [8 x i32]
  br label %fill
fill:
  %k = phi i32 [ 0, %0 ], [ %next, %fill ]
  %v = phi i32 [ %x, %0 ], [ %w, %fill ]
  %to = getelementptr [8 x i32], [8 x i32]* %own, i32 0, i32 %k
  store i32 %v, i32* %to
  %w0 = mul i32 %v, 5
  %w = add i32 %w0, %k
  %next = add i32 %k, 1
  %on = icmp ult i32 %next, 8
  br i1 %on, label %fill, label %take
take:
  %at = and i32 %x, 7
  %from = getelementptr [8 x i32], [8 x i32]* %own, i32 0, i32 %at
  %r = load i32, i32* %from
  %q = getelementptr i32, i32* %out, i64 %wide
  store i32 %r, i32* %q"""
    text = module(["i32* %a", "i32* %out"], body, "", arch).replace("[8 x ptr", "[8 x i32*")
    if arch >= 100:
        text = text.replace("[8 x i32]*", "ptr")
    x, out = np.arange(100, dtype="i4"), np.zeros(100, "i4")
    ptx = compiled(text, arch)
    assert ".local" in ptx
    emulator.launch(ptx, "k", 2, 50, [x, out])
    wanted = []
    for value in range(100):
        v = value
        for k in range(value & 7):
            v = v * 5 + k
        wanted.append(v)
    assert np.array_equal(out, np.array(wanted).astype("i4"))
