"""PTX text into modules."""

import pytest

from fjit.backend.ptx.parse import parse
from fjit.backend.ptx.program import Address, Imm, Instruction, Label, Pack, Reg, Sink, Special, Sym
from fjit.errors import EmulatorError
from tests.backend.emulator.kernels import HEAD


def body(text: str) -> list[Instruction | Label]:
    module = parse(f"{HEAD}.visible .entry k(.param .u64 p) {{ {text} ret; }}")
    return list(module.functions[0].body)[:-1]


def one(text: str) -> Instruction:
    found = body(".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;" + text)[-1]
    assert isinstance(found, Instruction)
    return found


def test_an_instruction_has_parts() -> None:
    ins = one("@!%p1 ld.global.nc.L1::evict_last.v2.f32 {%f1, _}, [%rd1+-16];")
    assert (ins.op, ins.flags) == ("ld", ("global", "nc", "L1::evict_last", "v2"))
    assert [ty.name for ty in ins.types] == ["f32"]
    assert ins.guard is not None and ins.guard.name == "%p1" and ins.guard.negated
    pack, address = ins.operands
    assert isinstance(pack, Pack) and isinstance(pack.items[1], Sink)
    assert isinstance(address, Address) and isinstance(address.base, Reg) and address.offset == -16
    assert ins.text == "@!%p1 ld.global.nc.L1::evict_last.v2.f32 {%f1, _}, [%rd1+-16];"


@pytest.mark.parametrize(
    ("text", "value", "bits"),
    [
        *[("7", 7, 0), ("-7", -7, 0), ("0x1F", 31, 0), ("0x1fU", 31, 0), ("0b101", 5, 0)],
        *[("017", 15, 0), ("0f3F800000", 0x3F800000, 32), ("-0f3F800000", 0xBF800000, 32)],
        *[("0d3FF0000000000000", 0x3FF << 52, 64), ("1.0", 0x3FF << 52, 64), ("WARP_SZ", 32, 0)],
    ],
)
def test_constants(text: str, value: int, bits: int) -> None:
    assert one(f"mov.b32 %r1, {text};").operands[1] == Imm(value, bits)


def test_symbols_and_special_registers() -> None:
    assert one("mov.u32 %r1, %tid.x;").operands[1] == Special("%tid.x")
    assert one("mov.u64 %rd1, thing+8;").operands[1] == Sym("thing", 8)
    assert one("ld.global.u32 %r1, [thing+8];").operands[1] == Address(Sym("thing"), 8)
    assert one("ld.global.u32 %r1, [4096];").operands[1] == Address(Imm(4096), 0)


def test_names_of_an_inner_block_hide_outer_ones() -> None:
    found = [
        ins.operands[0]
        for ins in body(
            ".reg .b32 x; mov.b32 x, 1; { .reg .b64 x; mov.b64 x, 2; { mov.b64 x, 3; } }"
            "mov.b32 x, 4;"
        )
        if isinstance(ins, Instruction)
    ]
    slots = [reg.slot for reg in found if isinstance(reg, Reg)]
    assert slots[0] == slots[3] and slots[1] == slots[2] and slots[0] != slots[1]


def test_registers_of_two_functions_are_not_the_same() -> None:
    text = "{ .reg .b32 %r<3>; mov.b32 %r1, 1; ret; }"
    module = parse(f"{HEAD}.func f() {text} .entry k() {text}")
    assert [reg.name for reg in module.registers[1:]] == ["%r1", "%r1"]


def test_what_debuggers_read_is_left_out() -> None:
    text = f"""{HEAD}.file 1 "a.py"\n.visible .entry k()\n.maxntid 128, 1, 1 .minnctapersm 2
    {{ /* a comment */ .loc 1 5 3, function_name $L__info, inlined_at 1 2 3
    .pragma "nounroll"; $L: // a label\n ret; }}
    .section .debug_str {{ $L__info: .b8 102\n.b8 0 }}"""
    (function,) = parse(text).functions
    assert [type(item).__name__ for item in function.body] == ["Label", "Instruction"]
    assert function.limits == ((".maxntid", (128, 1, 1)), (".minnctapersm", (2,)))


def test_variables() -> None:
    text = """.global .align 8 .b8 a[3] = {1, 2, 255}; .const .f32 b[2][2] = {{0f3F800000}, {}};
    .weak .global .u64 c = generic(a)+2; .extern .shared .align 16 .b8 d[]; .global .v4 .f32 e;"""
    a, b, c, d, e = parse(HEAD + text.replace("generic(a)+2", "a+2")).variables
    assert (a.align, a.size, a.initial) == (8, 3, b"\1\2\xff")
    assert (b.size, b.initial) == (16, b"\0\0\x80\x3f" + bytes(12))
    assert c.addresses == ((0, Sym("a", 2)),) and c.size == 8
    assert (d.space, d.size, d.align) == ("shared", 0, 16)
    assert (e.size, e.align, e.initial) == (16, 16, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".entry k() { .reg .b32 %r1; mov.b32 %r1 5; }", "PTX line 4: expected ',', found '5'"),
        (".entry k() { .reg .b32 %r1; ", "expected '}' at the end of a function, found 'the end"),
        (".entry k() { .reg .b128 %q1; }", r"registers of type .b128 are not handled"),
        (".func f(.reg .u32 x) { ret; }", r"expected a .param .*found '.reg'"),
        (".global .nothing x;", "a variable's .nothing is not handled"),
    ],
)
def test_errors_name_the_line(text: str, message: str) -> None:
    with pytest.raises(EmulatorError, match=message):
        parse(HEAD + text)
