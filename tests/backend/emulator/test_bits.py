"""Bit manipulation against Python's integers."""

import pytest

from fjit.backend.ptx.types import TYPES
from tests.backend.emulator.test_integers import check, parts


@pytest.mark.parametrize("name", ["b16", "b32", "b64"])
def test_logic_and_shifts(name: str) -> None:
    bits = TYPES[name].bits
    check(f"and.{name}", name, (name, name), lambda a, b: a & b)
    check(f"or.{name}", name, (name, name), lambda a, b: a | b)
    check(f"xor.{name}", name, (name, name), lambda a, b: a ^ b)
    check(f"not.{name}", name, (name,), lambda a: ~a)
    check(f"cnot.{name}", name, (name,), lambda a: int(a == 0))
    check(f"shl.{name}", name, (name, "b32"), lambda a, n: a << n if n < bits else 0)
    unsigned, signed = f"u{bits}", f"s{bits}"
    check(f"shr.{unsigned}", name, (unsigned, "b32"), lambda a, n: a >> min(n, bits))
    check(f"shr.{signed}", signed, (signed, "b32"), lambda a, n: a >> min(n, bits))


@pytest.mark.parametrize("wrap", ["wrap", "clamp"])
def test_funnel_shifts(wrap: str) -> None:
    def count(c: int) -> int:
        return c & 31 if wrap == "wrap" else min(c, 32)

    check(
        f"shf.l.{wrap}.b32", "b32", ("b32",) * 3, lambda a, b, c: ((b << 32 | a) << count(c)) >> 32
    )
    check(f"shf.r.{wrap}.b32", "b32", ("b32",) * 3, lambda a, b, c: (b << 32 | a) >> count(c))


def field(a: int, start: int, length: int, bits: int, signed: bool) -> int:
    start, length = start & 255, length & 255
    top = a >> min(start + length - 1, bits - 1) & 1 if signed and length else 0
    found = 0
    for k in range(bits):
        place = start + k
        inside = k < length and place < bits
        found |= ((a >> place & 1) if inside else top) << k
    return found


@pytest.mark.parametrize("name", ["u32", "s32", "u64", "s64"])
def test_fields(name: str) -> None:
    bits, signed = TYPES[name].bits, name[0] == "s"
    check(f"bfe.{name}", name, (name, "u32", "u32"), lambda a, b, c: field(a, b, c, bits, signed))


@pytest.mark.parametrize("name", ["b32", "b64"])
def test_insertion(name: str) -> None:
    bits = TYPES[name].bits

    def inserted(a: int, b: int, start: int, length: int) -> int:
        mask = ((1 << (length & 255)) - 1) << (start & 255)
        return (b & ~mask) | (a << (start & 255) & mask & ((1 << bits) - 1))

    check(f"bfi.{name}", name, (name, name, "u32", "u32"), inserted)


@pytest.mark.parametrize("bits", [32, 64])
def test_counts(bits: int) -> None:
    name = f"b{bits}"
    check(f"popc.{name}", "u32", (name,), lambda a: a.bit_count())
    check(f"clz.{name}", "u32", (name,), lambda a: bits - a.bit_length())
    check(f"brev.{name}", name, (name,), lambda a: int(f"{a:0{bits}b}"[::-1], 2))
    check(f"bfind.u{bits}", "u32", (f"u{bits}",), lambda a: a.bit_length() - 1)
    check(f"bfind.s{bits}", "u32", (f"s{bits}",), lambda a: (~a if a < 0 else a).bit_length() - 1)
    check(
        f"bfind.shiftamt.u{bits}",
        "u32",
        (f"u{bits}",),
        lambda a: bits - a.bit_length() if a else -1,
    )


def test_permutation() -> None:
    def picked(a: int, b: int, c: int) -> int:
        pool, found = parts(a, 8, False) + parts(b, 8, False), 0
        for k in range(4):
            selector = c >> 4 * k & 15
            byte = pool[selector & 7]
            found |= ((0xFF if byte >> 7 else 0) if selector & 8 else byte) << 8 * k
        return found

    check("prmt.b32", "b32", ("b32",) * 3, picked)

    def pool(a: int, b: int) -> list[int]:
        return parts(a, 8, False) + parts(b, 8, False)

    def joined(values: list[int]) -> int:
        return sum(v << 8 * k for k, v in enumerate(values))

    check("prmt.b32.f4e", "b32", ("b32",) * 3, lambda a, b, c: joined(pool(a, b)[c & 3 :][:4]))
    check(
        "prmt.b32.b4e",
        "b32",
        ("b32",) * 3,
        lambda a, b, c: joined([pool(a, b)[(c & 3) - k] for k in range(4)]),
    )
    check("prmt.b32.rc8", "b32", ("b32",) * 3, lambda a, b, c: joined([pool(a, b)[c & 3]] * 4))
    check(
        "prmt.b32.rc16",
        "b32",
        ("b32",) * 3,
        lambda a, b, c: joined(pool(a, b)[2 * (c & 1) :][:2] * 2),
    )
    check(
        "prmt.b32.ecl",
        "b32",
        ("b32",) * 3,
        lambda a, b, c: joined([pool(a, b)[max(k, c & 3)] for k in range(4)]),
    )
    check(
        "prmt.b32.ecr",
        "b32",
        ("b32",) * 3,
        lambda a, b, c: joined([pool(a, b)[min(k, c & 3)] for k in range(4)]),
    )


@pytest.mark.parametrize("table", [0x00, 0x96, 0xE8, 0xCA, 0xFF, 0x3C])
def test_any_logic(table: int) -> None:
    from tests.backend.emulator import test_integers

    def looked_up(a: int, b: int, c: int) -> int:
        rows = [((a >> k & 1) << 2) | ((b >> k & 1) << 1) | (c >> k & 1) for k in range(32)]
        return sum((table >> row & 1) << k for k, row in enumerate(rows))

    import numpy as np

    from tests.backend.emulator.kernels import run

    a, b, c = test_integers.grid("b32", "b32", "b32")
    out = np.zeros(len(a), np.uint32)
    loads = "mul.wide.u32 %rd2, %r30, 4;\n" + "".join(
        f"add.s64 %rd{3 + k}, %rd{30 + k}, %rd2;\n" for k in range(4)
    )
    body = (
        loads
        + "".join(f"ld.global.b32 %r{k}, [%rd{3 + k}];\n" for k in range(3))
        + f"lop3.b32 %r5, %r0, %r1, %r2, {table};\nst.global.b32 [%rd6], %r5;"
    )
    run(body, a, b, c, out, threads=len(a))
    expected = [looked_up(*(int(v) for v in row)) for row in zip(a, b, c, strict=True)]
    assert out.tolist() == expected
