"""Loads, stores, state spaces, and arguments."""

import struct

import numpy as np
import pytest

from fjit.backend import emulator
from fjit.errors import EmulatorError
from tests.backend.emulator.kernels import HEAD, kernel, run


@pytest.mark.parametrize("name", ["u8", "s8", "u16", "s16"])
def test_narrow_loads_extend_by_sign(name: str) -> None:
    dtype = np.dtype(name.replace("s", "i")[0] + str(int(name[1:]) // 8))
    x = np.array([0, 1, 2, np.iinfo(dtype).max], dtype) * np.array([1, 1, 255, 1]).astype(dtype)
    out = np.zeros(4, "i4")
    body = f"""mul.wide.u32 %rd1, %r30, {x.itemsize}; add.s64 %rd1, %rd1, %rd30;
        mul.wide.u32 %rd2, %r30, 4; add.s64 %rd2, %rd2, %rd31;
        ld.global.{name} %r1, [%rd1]; st.global.u32 [%rd2], %r1;"""
    run(body, x, out, threads=4)
    assert out.tolist() == x.tolist()


def test_vectors_and_modifiers() -> None:
    x, out = np.arange(32, dtype="f4"), np.zeros(32, "f4")
    body = """mul.wide.u32 %rd1, %r30, 16; add.s64 %rd2, %rd1, %rd30; add.s64 %rd3, %rd1, %rd31;
        ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%f1, %f2, %f3, %f4}, [%rd2];
        st.global.wb.v4.f32 [%rd3], {%f4, %f3, %f2, %f1};"""
    run(body, x, out, threads=8)
    assert np.array_equal(out.reshape(8, 4), x.reshape(8, 4)[:, ::-1])


def test_constants_and_tables_of_addresses() -> None:
    before = """.const .align 4 .u32 numbers[3] = {5, 6, 7};
        .global .align 4 .f32 table[2] = {0f3F800000, 0f40000000};
        .global .align 8 .u64 places[2] = {generic(table), table+4};"""
    out = np.zeros(4, "u4")
    body = """ld.const.u32 %r1, [numbers+8]; mov.u64 %rd1, places; ld.global.u64 %rd2, [%rd1+8];
        ld.global.u32 %r2, [%rd2]; cvta.const.u64 %rd3, numbers; ld.u32 %r3, [%rd3+4];
        st.global.v2.u32 [%rd30], {%r1, %r2}; st.global.u32 [%rd30+8], %r3;"""
    run(body, out, before=before)
    assert out.tolist() == [7, 0x40000000, 6, 0]


def test_shared_memory_of_both_kinds_and_generic_addresses() -> None:
    before = ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 fixed[64];"
    out = np.zeros((2, 16), "u4")
    body = """mov.u32 %r1, %ctaid.x; shl.b32 %r2, %r30, 2; mov.u32 %r3, fixed; add.u32 %r3, %r3,
    %r2;
        mov.u32 %r4, dynamic; add.u32 %r4, %r4, %r2; mad.lo.u32 %r5, %r1, 100, %r30;
        st.shared.u32 [%r3], %r5; cvt.u64.u32 %rd1, %r4; cvta.shared.u64 %rd2, %rd1;
        st.u32 [%rd2], %r30; bar.sync 0; sub.u32 %r6, 15, %r30; shl.b32 %r6, %r6, 2;
        mov.u32 %r7, fixed; add.u32 %r7, %r7, %r6; ld.shared.u32 %r8, [%r7];
        mov.u64 %rd3, dynamic; cvta.shared.u64 %rd3, %rd3; cvt.u64.u32 %rd4, %r6;
        add.s64 %rd3, %rd3, %rd4; ld.u32 %r9, [%rd3]; mad.lo.u32 %r8, %r9, 1000, %r8;
        isspacep.shared %p1, %rd3; isspacep.global %p2, %rd3; @!%p1 trap; @%p2 trap;
        mad.lo.u32 %r10, %r1, 16, %r30; mul.wide.u32 %rd5, %r10, 4; add.s64 %rd5, %rd5, %rd30;
        st.global.u32 [%rd5], %r8;"""
    run(body, out, before=before, threads=16, blocks=2, shared=64)
    back = np.arange(16)[::-1]
    assert np.array_equal(out, [back + 1000 * back, back + 100 + 1000 * back])


def test_local_memory_is_each_threads_own() -> None:
    out = np.zeros(40, "u4")
    declare = ".local .align 8 .b8 __local_depot0[16];\n.reg .b64 %SP;\n.reg .b64 %SPL;\n"
    body = """mov.u64 %SPL, __local_depot0; cvta.local.u64 %SP, %SPL; add.u64 %rd1, %SP, 8;
        add.u64 %rd2, %SPL, 8; st.local.u32 [%rd2], %r30; st.u32 [%rd1+4], 3;
        ld.u32 %r1, [%rd1]; ld.local.u32 %r2, [%rd2+4]; add.u32 %r1, %r1, %r2;
        mul.wide.u32 %rd3, %r30, 4; add.s64 %rd3, %rd3, %rd30; st.global.u32 [%rd3], %r1;"""
    run(body, out, threads=40, declare=declare)
    assert out.tolist() == list(range(3, 43))


def test_lanes_in_different_spaces() -> None:
    x, out = np.arange(100, 116, dtype="u4"), np.zeros(16, "u4")
    declare = ".local .align 4 .b8 l[4];\n"
    body = """rem.u32 %r1, %r30, 3; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 1;
        mul.wide.u32 %rd1, %r30, 4; add.s64 %rd2, %rd1, %rd30; mov.u64 %rd3, s;
        add.s64 %rd3, %rd3, %rd1; cvta.shared.u64 %rd3, %rd3;
        mov.u64 %rd4, l; cvta.local.u64 %rd4, %rd4;
        selp.u64 %rd5, %rd2, %rd3, %p1; selp.u64 %rd5, %rd4, %rd5, %p2; mul.lo.u32 %r2, %r30, 7;
        @!%p1 st.u32 [%rd5], %r2; ld.u32 %r3, [%rd5]; st.u32 [%rd5], 5; add.s64 %rd6, %rd1, %rd31;
        st.global.u32 [%rd6], %r3;"""
    run(body, x, out, threads=16, before=".shared .align 4 .b8 s[64];", declare=declare)
    assert out.tolist() == [100 + k if k % 3 == 0 else 7 * k for k in range(16)]
    assert x.tolist() == [5 if k % 3 == 0 else 100 + k for k in range(16)]


SCALARS = (
    HEAD
    + """
.visible .entry k(.param .u64 out, .param .f32 a, .param .f64 b, .param .u8 c, .param .s16 d,
  .param .b32 e, .param .align 8 .b8 f[16])
{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>; .reg .b16 %h<9>;
  ld.param.u64 %rd1, [out]; ld.param.f32 %f1, [a]; ld.param.f64 %fd1, [b]; ld.param.u8 %h1, [c];
  ld.param.s16 %h2, [d]; ld.param.b32 %f2, [e]; ld.param.f64 %fd2, [f+8]; ld.param.u32 %r3, [f];
  cvt.f64.f32 %fd3, %f1; cvt.rn.f64.u16 %fd4, %h1; cvt.rn.f64.s16 %fd5, %h2; cvt.f64.f32 %fd6, %f2;
  cvt.rn.f64.u32 %fd7, %r3;
  st.global.v2.f64 [%rd1], {%fd3, %fd1}; st.global.v2.f64 [%rd1+16], {%fd4, %fd5};
  st.global.v2.f64 [%rd1+32], {%fd6, %fd2}; st.global.f64 [%rd1+48], %fd7; ret; }
"""
)


def test_numbers_and_structures_as_arguments() -> None:
    out = np.zeros(8)
    structure = struct.pack("<I4xd", 9, 2.5)
    args = [out, 1.5, np.float64(0.1), 200, np.int16(-3), np.float32(0.25), structure]
    emulator.launch(SCALARS, "k", 1, 1, args)
    assert out.tolist() == [1.5, 0.1, 200.0, -3.0, 0.25, 2.5, 9.0, 0.0]


@pytest.mark.parametrize(
    ("place", "value", "text"),
    [
        (3, 256, "argument 3 is 256, which .u8 does not hold"),
        (4, 1.5, "argument 4 is a float, its parameter is .s16"),
        (6, b"12", "argument 6 has 2 bytes, its parameter 16"),
        (1, np.zeros(3), "argument 1 is an array, but its parameter has 4 bytes"),
    ],
)
def test_arguments_that_do_not_fit(place: int, value: object, text: str) -> None:
    args: list[object] = [np.zeros(8), 1.5, 0.1, 200, -3, np.float32(0.25), bytes(16)]
    args[place] = value
    with pytest.raises(EmulatorError, match=text):
        emulator.launch(SCALARS, "k", 1, 1, args)


DOUBLE = """mul.wide.u32 %rd1, %r30, 8; add.s64 %rd2, %rd1, %rd30; ld.global.f64 %fd1, [%rd2];
    add.f64 %fd1, %fd1, %fd1; st.global.f64 [%rd2], %fd1;"""


def test_views_are_used_in_place() -> None:
    whole = np.arange(20.0)
    run(DOUBLE.replace("%r30, 8", "%r30, 16"), whole[1::2], threads=10)
    assert np.array_equal(whole, np.where(np.arange(20) % 2, np.arange(20) * 2.0, np.arange(20.0)))
    whole = np.arange(20.0)
    run(
        DOUBLE.replace("u32 %rd1, %r30, 8", "s32 %rd1, %r30, -8"),
        whole[10::-1],
        threads=11,
    )
    assert np.array_equal(whole[:11], np.arange(11) * 2.0) and whole[11] == 11.0


def test_overlapping_arguments_share_memory() -> None:
    whole = np.zeros(5)
    body = """mov.f64 %fd1, 0d3FF0000000000000; st.global.f64 [%rd30+8], %fd1;
        ld.global.f64 %fd2, [%rd31]; st.global.f64 [%rd31+8], %fd2;"""
    run(body, whole[:4], whole[1:])
    assert whole.tolist() == [0.0, 1.0, 1.0, 0.0, 0.0]


def test_launch_shapes() -> None:
    out = np.zeros((2, 3, 2, 2, 4), "u4")
    body = """mov.u32 %r1, %tid.y; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mov.u32 %r4,
    %tid.z;
        mov.u32 %r5, %nctaid.x; mov.u32 %r6, %ntid.x; mov.u32 %r7, %ntid.y; mov.u32 %r8, %ntid.z;
        mad.lo.u32 %r9, %r3, %r5, %r2; mad.lo.u32 %r9, %r9, %r8, %r4; mad.lo.u32 %r9, %r9, %r7, %r1;
        mad.lo.u32 %r9, %r9, %r6, %r30; mul.wide.u32 %rd1, %r9, 4; add.s64 %rd1, %rd1, %rd30;
        mad.lo.u32 %r10, %r2, 100, %r30; mad.lo.u32 %r10, %r1, 10, %r10; st.global.u32 [%rd1],
        %r10;"""
    emulator.launch(kernel(body), "k", (3, 2), (4, 2, 2), [out])
    x, y, c = np.meshgrid(np.arange(4), np.arange(2), np.arange(3), indexing="ij")
    wanted = (x + 10 * y + 100 * c).transpose(2, 1, 0)[None, :, None]
    assert np.array_equal(out, np.broadcast_to(wanted, out.shape))


@pytest.mark.parametrize(
    ("grid", "block", "limit", "text"),
    [
        (0, 1, "", "grid is 0"),
        (1, (1, 2, 3, 4), "", "one to three"),
        (1, 2048, "", "at most"),
        (1, 64, ".maxntid 32", "allows at most"),
        (1, 64, ".reqntid 32, 1, 1", "requires"),
    ],
)
def test_launches_that_no_device_would_run(grid: int, block: int, limit: str, text: str) -> None:
    ptx = kernel("").replace(")\n{", f") {limit}\n{{")
    with pytest.raises(EmulatorError, match=text):
        emulator.launch(ptx, "k", grid, block, [np.zeros(1)])


def test_arrays_of_no_or_one_element() -> None:
    scalar = np.array(3.0)
    run(DOUBLE, scalar)
    assert scalar == 6.0
    with pytest.raises(EmulatorError, match=r"past the end of argument 0 \(0 bytes"):
        run(DOUBLE, np.zeros(0))
    run("", np.zeros((0, 3)))
