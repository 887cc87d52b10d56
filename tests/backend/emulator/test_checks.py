"""What the emulator reports, with the instruction, the line, the thread and the address."""

import numpy as np
import pytest

from fjit.backend import emulator
from fjit.errors import EmulatorError, FjitError
from tests.backend.emulator.kernels import HEAD, kernel, run

PLACE = "mul.wide.u32 %rd1, %r30, 4; add.s64 %rd2, %rd1, %rd30;\n"
SHARED = ".shared .align 8 .b8 s[256];"
OWN = "shl.b32 %r1, %r30, 2; mov.u32 %r2, s; add.u32 %r2, %r2, %r1;\n"


def message(body: str, *arrays: np.ndarray, **more: object) -> str:
    with pytest.raises(EmulatorError) as caught:
        run(body, *(arrays or (np.zeros(64, "u4"),)), **more)  # type: ignore[arg-type]
    assert isinstance(caught.value, FjitError) and isinstance(caught.value, RuntimeError)
    return str(caught.value)


def test_out_of_bounds_names_everything() -> None:
    text = message(PLACE + "ld.global.u32 %r1, [%rd2+4];", np.zeros(16, "u4"), threads=16)
    assert text.startswith("ld.global.u32 %r1, [%rd2+4]; (PTX line ")
    assert "thread (15, 0, 0) of block (0, 0, 0): out of bounds: 4 bytes at 0x" in text
    assert "0 bytes past the end of argument 0 (64 bytes at 0x" in text


@pytest.mark.parametrize(
    ("access", "where"),
    [
        ("ld.global.u32 %r1, [%rd30+-4];", "4 bytes before argument 0"),
        ("st.global.u32 [%rd30+256], %r30;", "0 bytes past the end of argument 0"),
        ("ld.global.u64 %rd1, [%rd30+252];", "4 bytes before the end of argument 0"),
        ("ld.global.u32 %r1, [%rd30+1000000];", "999744 bytes past the end of argument 0"),
        ("mov.u64 %rd2, 8; ld.u32 %r1, [%rd2];", "bytes before argument 0"),
        ("atom.global.add.u32 %r1, [%rd30+256], 1;", "0 bytes past the end of argument 0"),
    ],
)
def test_out_of_bounds(access: str, where: str) -> None:
    text = message(access)
    assert "out of bounds" in text and where in text and access.split("; ")[-1] in text


def test_between_two_arguments() -> None:
    a, b = np.zeros(8), np.zeros(8)
    text = message(
        "sub.s64 %rd1, %rd31, %rd30; shr.s64 %rd1, %rd1, 1; and.b64 %rd1, %rd1, -16;"
        "add.s64 %rd1, %rd1, %rd30; ld.global.u32 %r1, [%rd1];",
        a,
        b,
    )
    assert "out of bounds" in text


def test_some_lanes_in_one_argument_and_some_in_another_are_fine() -> None:
    a, b, out = np.arange(8, dtype="u4"), np.arange(8, dtype="u4") + 100, np.zeros(8, "u4")
    body = """mul.wide.u32 %rd1, %r30, 4; and.b32 %r1, %r30, 1; setp.eq.u32 %p1, %r1, 0;
        selp.u64 %rd2, %rd30, %rd31, %p1; add.s64 %rd2, %rd2, %rd1; ld.global.u32 %r2, [%rd2];
        add.s64 %rd3, %rd32, %rd1; st.global.u32 [%rd3], %r2;"""
    run(body, a, b, out, threads=8)
    assert out.tolist() == [0, 101, 2, 103, 4, 105, 6, 107]


@pytest.mark.parametrize(
    "access",
    [
        "ld.global.u32 %r1, [%rd30+2];",
        "ld.global.v2.u32 {%r1, %r2}, [%rd30+4];",
        "st.global.u64 [%rd30+4], %rd30;",
        "st.shared.u32 [s+2], %r30;",
    ],
)
def test_misaligned(access: str) -> None:
    text = message(access, before=SHARED)
    assert access in text and "misaligned" in text and "is not a multiple of" in text


def test_an_argument_keeps_its_alignment() -> None:
    x = np.zeros(65, "u4")
    assert "misaligned" in message("ld.global.u64 %rd1, [%rd30];", x[1 - x.ctypes.data % 8 // 4 :])


def test_read_only_arguments_are_not_written() -> None:
    x = np.zeros(4, "u4")
    x.flags.writeable = False
    assert "argument 0 is read-only" in message("st.global.u32 [%rd30], 1;", x)
    text = message("mov.u64 %rd1, c; st.u32 [%rd1], 1;", before=".const .align 4 .u32 c = 3;")
    assert "c is read-only" in text


def test_uninitialised_shared_memory() -> None:
    assert "shared memory is read before" in message("ld.shared.u32 %r1, [s];", before=SHARED)
    text = message(OWN + "st.shared.u32 [%r2], 1; ld.shared.u32 %r3, [s+8];", before=SHARED)
    assert "uninitialised" in text and "thread (0, 0, 0)" in text
    text = message(
        "st.shared.u8 [s], 1; st.shared.u8 [s+1], 1; ld.shared.u32 %r1, [s];", before=SHARED
    )
    assert "uninitialised" in text, "two of four bytes are not enough"


def test_uninitialised_local_memory() -> None:
    declare = ".local .align 4 .b8 l[16];\n"
    text = message("st.local.u32 [l], 1; ld.local.u32 %r1, [l+4];", declare=declare)
    assert "local memory is read before it was written" in text
    text = message("ld.local.u32 %r1, [l+16];", declare=declare)
    assert "out of bounds: 4 bytes at 0x10 of 16 bytes of local memory" in text


def test_uninitialised_registers() -> None:
    text = message("add.u32 %r1, %r2, 1;")
    assert "add.u32 %r1, %r2, 1;" in text and "register %r2 is read before it was written" in text
    body = "setp.lt.u32 %p1, %r30, 5; @%p1 mov.u32 %r1, 1; add.u32 %r2, %r1, 1;"
    assert "thread (5, 0, 0)" in message(body, threads=8)


def test_registers_that_the_compiler_left_undefined_are_fine() -> None:
    out = np.ones(1, "u4")
    run("// implicit-def: %r2\nmov.u32 %r1, %r2; st.global.u32 [%rd30], 3;", out)
    assert out[0] == 3


# Races

READ_NEXT = "xor.b32 %r3, %r1, 4; mov.u32 %r4, s; add.u32 %r4, %r4, %r3; ld.shared.u32 %r5, [%r4];"
READ_FAR = READ_NEXT.replace("xor.b32 %r3, %r1, 4", "xor.b32 %r3, %r1, 128")


@pytest.mark.parametrize("between", ["", "bar.warp.sync -1;"])
def test_a_read_that_races_with_a_write(between: str) -> None:
    text = message(
        OWN + "st.shared.u32 [%r2], %r30;" + between + READ_FAR, threads=64, before=SHARED
    )
    assert "ld.shared.u32 %r5, [%r4];" in text and "a race in shared memory" in text
    assert "thread (0, 0, 0) of block (0, 0, 0): a race" in text
    assert "thread (32, 0, 0) of block (0, 0, 0) wrote" in text


def test_lock_step_is_no_excuse_within_a_warp() -> None:
    text = message(OWN + "st.shared.u32 [%r2], %r30;" + READ_NEXT, threads=32, before=SHARED)
    assert "a race in shared memory" in text


@pytest.mark.parametrize(
    "between", ["bar.sync 0;", "bar.warp.sync -1;", "shfl.sync.idx.b32 %r6, %r1, 0, 31, -1;"]
)
def test_barriers_of_a_warp_order_its_threads(between: str) -> None:
    run(
        OWN
        + "st.shared.u32 [%r2], %r30;"
        + between
        + READ_NEXT
        + between
        + "st.shared.u32 [%r2], 9;",
        np.zeros(1),
        threads=32,
        before=SHARED,
    )


def test_a_write_that_races_with_a_read() -> None:
    body = OWN + "st.shared.u32 [%r2], %r30; bar.sync 0;" + READ_FAR + "st.shared.u32 [%r2], 77;"
    text = message(body, threads=64, before=SHARED)
    assert "st.shared.u32 [%r2], 77;" in text and "read with no barrier between" in text
    run(
        body.replace("st.shared.u32 [%r2], 77", "bar.sync 0; st.shared.u32 [%r2], 77"),
        np.zeros(1),
        threads=64,
        before=SHARED,
    )


def test_two_writes_race_if_they_differ() -> None:
    text = message("st.shared.u32 [s], %r30;", threads=64, before=SHARED)
    assert "a race in shared memory" in text and "different values" in text
    run("st.shared.u32 [s], 5;", np.zeros(1), threads=64, before=SHARED)
    text = message(
        "setp.lt.u32 %p1, %r30, 1; @%p1 st.shared.u32 [s], 1; @!%p1 st.shared.u32 [s], 2;",
        threads=2,
        before=SHARED,
    )
    assert "overwrites what thread (0, 0, 0) of block (0, 0, 0) wrote" in text


def test_many_readers_are_remembered() -> None:
    """The last reader is the writer itself; an earlier one of another warp still counts."""
    body = (
        OWN
        + """setp.eq.u32 %p1, %r30, 0; @%p1 st.shared.u32 [s], 1; bar.sync 0;
        setp.ge.u32 %p2, %r30, 32; @%p2 ld.shared.u32 %r5, [s]; @%p1 ld.shared.u32 %r5, [s];
        @%p1 st.shared.u32 [s], 2;"""
    )
    assert "read with no barrier between" in message(body, threads=64, before=SHARED)


def test_atomics_do_not_race_with_each_other_but_with_plain_reads() -> None:
    start = "setp.eq.u32 %p1, %r30, 0; @%p1 st.shared.u32 [s], 0; bar.sync 0;"
    add = "atom.shared.add.u32 %r1, [s], 1;"
    run(start + add + add, np.zeros(1), threads=64, before=SHARED)
    text = message(start + add + "ld.shared.u32 %r2, [s];", threads=64, before=SHARED)
    assert "a race in shared memory" in text


def test_blocks_do_not_race_with_each_other() -> None:
    run(
        OWN + "st.shared.u32 [%r2], %r30; bar.sync 0;" + READ_FAR,
        np.zeros(1),
        threads=64,
        blocks=3,
        before=SHARED,
    )


def test_without_checks_only_bounds_are_reported() -> None:
    body = (
        OWN
        + "st.shared.u32 [%r2], %r30;"
        + READ_FAR
        + "add.u32 %r7, %r8, 1; ld.shared.u32 %r9, [s+252];"
    )
    run(body, np.zeros(1), threads=32, before=SHARED, checks=False)
    assert "out of bounds" in message("ld.global.u32 %r1, [%rd30+256];", checks=False)


# Barriers and ends


def test_a_barrier_that_some_threads_never_reach() -> None:
    text = message("setp.eq.u32 %p1, %r30, 3; @%p1 exit; bar.sync 0;", threads=64)
    assert text.startswith("bar.sync 0;") and "deadlock" in text
    assert "barrier 0, to which 63 threads" in text and "thread (3, 0, 0)" in text


def test_threads_at_two_barriers() -> None:
    body = "setp.lt.u32 %p1, %r30, 32; @%p1 bra A; bar.sync 1; bra.uni B; A: bar.sync 2; B:"
    text = message(body, threads=64)
    assert "bar.sync" in text and "deadlock" in text and "the others wait elsewhere" in text


@pytest.mark.parametrize(
    "loop", ["L: bra.uni L;", "L: ld.volatile.global.u32 %r1, [%rd30]; bra.uni L;"]
)
def test_programs_that_do_not_end(loop: str) -> None:
    text = message(loop, max_steps=1000)
    assert "still running after 1000 steps" in text and "max_steps" in text and "bra.uni L;" in text


def test_a_trap_is_an_error() -> None:
    text = message("setp.eq.u32 %p1, %r30, 7; @%p1 trap;", threads=9)
    assert text.startswith("@%p1 trap;") and "(7, 0, 0)" in text and "trap" in text


# Loads that promise constant memory


def test_constant_loads_of_memory_that_is_written() -> None:
    x = np.zeros(64, "u4")
    body = PLACE + "ld.global.nc.u32 %r1, [%rd2]; st.global.u32 [%rd2], 1;"
    text = message(body, x, threads=64)
    assert "st.global.u32" in text and "ld.global.nc" in text
    body = PLACE + "st.global.u32 [%rd2], 1; ld.global.nc.u32 %r1, [%rd2];"
    assert message(body, x, threads=64).startswith("ld.global.nc.u32")
    other = "add.s64 %rd3, %rd1, %rd31; st.global.u32 [%rd3], 1; ld.global.nc.u32 %r1, [%rd2];"
    assert "written by the same kernel" in message(PLACE + other, x[:40], x[20:60], threads=20 + 1)
    run(PLACE + other, x[:20], x[20:40], threads=20)


# What is not known


@pytest.mark.parametrize(
    "line",
    [
        "wmma.load.a.sync.aligned.row.m16n16k16.f16 %r1, [%rd30];",
        "frobnicate.u32 %r1, %r2;",
        "add.u32 %r1, %r2;",
        "mov.u32 %r1, %nothing;",
        "cvt.rn.e4m3x2.f32 %h1, %f1, %f2;",
        "add.f32 %f1, %rd1, %h1;",
        "bar.red.popc.u32 %r1, 0, %p1;",
    ],
)
def test_unknown_instructions_are_named(line: str) -> None:
    text = message(line)
    assert line in text and "PTX line" in text


def test_what_is_missing_is_named() -> None:
    with pytest.raises(EmulatorError, match="no entry 'other', only: k"):
        emulator.launch(kernel(""), "other", 1, 1, [])
    with pytest.raises(EmulatorError, match="takes 1 arguments, not 0"):
        emulator.launch(kernel(""), "k", 1, 1, [])
    called = ".extern .func f ();\n"
    assert "no function f is defined" in message("call.uni f;", before=called)
    with pytest.raises(EmulatorError, match="PTX line 4: expected a directive"):
        emulator.launch(HEAD + ".nonsense x;", "k", 1, 1, [])
    with pytest.raises(EmulatorError, match="PTX line 4: cannot read"):
        emulator.launch(HEAD + "§", "k", 1, 1, [])


# Blocks that overwrite each other


def test_blocks_that_write_different_values_to_one_place() -> None:
    both = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r30;\n"
    text = message(both + "st.global.u32 [%rd30], %r1;", threads=4, blocks=2)
    assert "st.global.u32 [%rd30], %r1;" in text and "block number 1" in text
    assert "writes another value to argument 0" in text
    later = (
        both
        + """setp.eq.u32 %p1, %r1, 0; @%p1 st.global.v2.u32 [%rd30+8], {%r1, %r1};
        @!%p1 st.global.v2.u32 [%rd30+8], {%r1, %r1};"""
    )
    assert "block number 0" in message(later, blocks=2)


def test_blocks_may_write_one_value_or_talk_by_strong_accesses() -> None:
    start = "mov.u32 %r1, %ctaid.x;"
    run(start + "st.global.u32 [%rd30], 7;", np.zeros(4, "u4"), threads=4, blocks=5)
    run(start + "st.relaxed.gpu.global.u32 [%rd30], %r1;", np.zeros(4, "u4"), blocks=5)
    run(start + "atom.global.exch.b32 %r2, [%rd30], %r1;", np.zeros(4, "u4"), blocks=5)
    own = "mul.wide.u32 %rd1, %r1, 4; add.s64 %rd1, %rd1, %rd30; st.global.u32 [%rd1], 1;"
    run(start + own + "st.global.u32 [%rd1], 2;", np.zeros(5, "u4"), threads=9, blocks=5)
