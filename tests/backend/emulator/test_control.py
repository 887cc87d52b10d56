"""Branches, loops, calls, barriers, and threads that wait for other blocks."""

import numpy as np
import pytest

from fjit.backend import emulator
from fjit.errors import EmulatorError
from tests.backend.emulator.kernels import HEAD, REGISTERS, run

PLACE = "mul.wide.u32 %rd1, %r30, 4; add.s64 %rd2, %rd1, %rd30;\n"


def collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps += 1
    return steps


def test_loops_of_each_threads_own_length() -> None:
    out = np.zeros(200, "u4")
    body = (
        PLACE
        + """add.u32 %r1, %r30, 1; mov.u32 %r2, 0;
        LOOP: setp.eq.u32 %p1, %r1, 1; @%p1 bra DONE; and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 0;
        @%p2 bra EVEN; mad.lo.u32 %r1, %r1, 3, 1; bra.uni NEXT; EVEN: shr.u32 %r1, %r1, 1;
        NEXT: add.u32 %r2, %r2, 1; bra.uni LOOP; DONE: st.global.u32 [%rd2], %r2;"""
    )
    run(body, out, threads=200)
    assert out.tolist() == [collatz(k + 1) for k in range(200)]


def test_lanes_that_parted_meet_again() -> None:
    """Behind a loop of lanes' own lengths a warp is whole again: a ballot sees all of it."""
    out = np.zeros(32, "u4")
    body = (
        PLACE
        + """mov.u32 %r1, %r30; LOOP: setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE;
        sub.u32 %r1, %r1, 1; bra.uni LOOP; DONE: activemask.b32 %r2; st.global.u32 [%rd2], %r2;"""
    )
    run(body, out, threads=32)
    assert set(out.tolist()) == {0xFFFFFFFF}


def test_nested_conditions_and_predicated_instructions() -> None:
    out = np.zeros(64, "i4")
    body = (
        PLACE
        + """and.b32 %r1, %r30, 1; and.b32 %r2, %r30, 2; setp.ne.u32 %p1, %r1, 0;
        setp.ne.u32 %p2, %r2, 0; mov.u32 %r3, 0; @!%p1 bra A; @%p2 bra B; add.u32 %r3, %r3, 1;
        bra.uni C; B: add.u32 %r3, %r3, 10; C: add.u32 %r3, %r3, 100; bra.uni D; A: @%p2 sub.s32
        %r3, %r3, 7; D: @%p1 add.s32 %r3, %r3, %r30; st.global.u32 [%rd2], %r3;"""
    )
    run(body, out, threads=64)
    wanted = [
        (100 + (10 if k & 2 else 1) + k) if k & 1 else (-7 if k & 2 else 0) for k in range(64)
    ]
    assert out.tolist() == wanted


def test_branch_tables() -> None:
    out = np.zeros(9, "u4")
    body = (
        PLACE
        + """rem.u32 %r1, %r30, 3; TABLE: .branchtargets A, B, C; brx.idx %r1, TABLE;
        A: mov.u32 %r2, 10; bra.uni OUT; B: mov.u32 %r2, 20; bra.uni OUT; C: mov.u32 %r2, 30;
        OUT: st.global.u32 [%rd2], %r2;"""
    )
    run(body, out, threads=9)
    assert out.tolist() == [10, 20, 30] * 3


CALLS = (
    HEAD
    + f"""
.func (.param .b32 result) twice (.param .b32 x);
.func (.param .align 8 .b8 result[16]) both (.param .b32 x, .param .b64 y)
{{ {REGISTERS}
  ld.param.b32 %r1, [x]; ld.param.b64 %rd1, [y];
  setp.lt.u32 %p1, %r1, 3; @%p1 bra SMALL;
  {{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call.uni (b), twice, (a); ld.param.b32
  %r1, [b]; }} SMALL: st.param.b32 [result], %r1; st.param.b64 [result+8], %rd1; ret; }}
.func (.param .b32 result) twice (.param .b32 x)
{{ {REGISTERS} ld.param.b32 %r1, [x]; add.u32 %r1, %r1, %r1; st.param.b32 [result], %r1; ret; }}
.visible .entry k(.param .u64 p)
{{ {REGISTERS}
  ld.param.u64 %rd30, [p]; mov.u32 %r30, %tid.x; and.b32 %r1, %r30, 1; setp.eq.u32 %p1, %r1, 0;
  mul.wide.u32 %rd1, %r30, 8; add.s64 %rd2, %rd1, %rd30; mov.u64 %rd4, 1000; mov.u32 %r5, 1;
  @%p1 bra EVEN;
  {{ .param .b32 a; .param .b64 b; .param .align 8 .b8 c[16]; st.param.b32 [a], %r30;
     st.param.b64 [b], %rd4; call.uni (c), both, (a, b); ld.param.b32 %r5, [c]; ld.param.b64 %rd4,
     [c+8]; }}
  bra.uni OUT;
  EVEN: {{ .param .b32 a; .param .b32 b; st.param.b32 [a+0], %r30; call (b), twice, (a);
     ld.param.b32 %r5, [b+0]; }}
  OUT: cvt.u32.u64 %r6, %rd4; st.global.v2.u32 [%rd2], {{%r5, %r6}}; ret; }}
"""
)


def test_calls_from_several_places() -> None:
    out = np.zeros((16, 2), "u4")
    emulator.launch(CALLS, "k", 1, 16, [out])
    assert out[:, 0].tolist() == [2 * k if k % 2 == 0 or k > 2 else k for k in range(16)]
    assert set(out[:, 1].tolist()) == {1000}


def test_a_function_that_calls_itself_is_refused() -> None:
    ptx = HEAD + """.func f () { call.uni f; ret; } .visible .entry k() { call.uni f; ret; }"""
    with pytest.raises(EmulatorError, match=r"call\.uni f; .*recursion is not handled"):
        emulator.launch(ptx, "k", 1, 1, [])


def test_sum_of_a_block_over_barriers() -> None:
    x, out = np.arange(512, dtype="u4"), np.zeros(2, "u4")
    body = """mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 256, %r30; mul.wide.u32 %rd1, %r2, 4;
        add.s64 %rd1, %rd1, %rd30; ld.global.u32 %r3, [%rd1]; shl.b32 %r4, %r30, 2; mov.u32 %r5, s;
        add.u32 %r5, %r5, %r4; st.shared.u32 [%r5], %r3; mov.u32 %r6, 128;
        LOOP: bar.sync 0; setp.ge.u32 %p1, %r30, %r6; @%p1 bra SKIP; shl.b32 %r7, %r6, 2;
        add.u32 %r8, %r5, %r7; ld.shared.u32 %r9, [%r8]; ld.shared.u32 %r10, [%r5];
        add.u32 %r10, %r10, %r9; st.shared.u32 [%r5], %r10;
        SKIP: shr.u32 %r6, %r6, 1; setp.ne.u32 %p2, %r6, 0; @%p2 bra LOOP;
        setp.ne.u32 %p3, %r30, 0; @%p3 exit; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd2, %rd31;
        st.global.u32 [%rd2], %r10;"""
    run(body, x, out, threads=256, blocks=2, before=".shared .align 4 .b8 s[1024];")
    assert out.tolist() == [x[:256].sum(), x[256:].sum()]


def test_barriers_of_some_threads() -> None:
    """Warps 0 and 1 meet at barrier 1, warp 2 arrives there and does not wait."""
    out = np.zeros(96, "u4")
    body = (
        PLACE
        + """setp.ge.u32 %p1, %r30, 64; @%p1 bra LAST; bar.sync 1, 96; mov.u32 %r1, 1;
        bra.uni OUT; LAST: bar.arrive 1, 96; mov.u32 %r1, 2; OUT: st.global.u32 [%rd2], %r1;"""
    )
    run(body, out, threads=96)
    assert out.tolist() == [1] * 64 + [2] * 32


LOOK_BACK = """mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r30, 0; @%p1 exit;
    mul.wide.u32 %rd1, %r1, 8; add.s64 %rd2, %rd1, %rd30; setp.eq.u32 %p2, %r1, 0; mov.u32 %r2, 0;
    @%p2 bra FIRST;
    SPIN: LOAD.u32 %r3, [%rd2+-8]; setp.eq.u32 %p3, %r3, 0; @%p3 bra SPIN;
    membar.gl; ld.relaxed.gpu.global.u32 %r2, [%rd2+-4];
    FIRST: add.u32 %r2, %r2, %r1; st.relaxed.gpu.global.u32 [%rd2+4], %r2; membar.gl;
    st.release.gpu.global.u32 [%rd2], 1;"""


@pytest.mark.parametrize("load", ["ld.acquire.gpu.global", "ld.volatile.global", "ld.global"])
@pytest.mark.parametrize("wave", [1 << 6, 1 << 16])
def test_blocks_that_wait_for_the_block_before(
    load: str, wave: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulator, "WAVE_THREADS", wave)
    blocks = 40 if load == "ld.global" else 300
    out = np.zeros((blocks, 2), "u4")
    run(LOOK_BACK.replace("LOAD", load), out, threads=2, blocks=blocks)
    assert np.array_equal(out[:, 1], np.cumsum(np.arange(blocks)))


def test_a_lock_within_a_warp_is_passed_on() -> None:
    lock, count = np.zeros(1, "u4"), np.zeros(1, "u4")
    body = """SPIN: atom.global.cas.b32 %r1, [%rd30], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra SPIN;
        ld.volatile.global.u32 %r2, [%rd31]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [%rd31],
        %r2; membar.gl; atom.global.exch.b32 %r3, [%rd30], 0;"""
    run(body, lock, count, threads=32)
    assert count[0] == 32


def test_waves_are_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator, "WAVE_THREADS", 100)
    out = np.zeros(1000, "u4")
    body = """mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 50, %r30; mul.wide.u32 %rd1, %r2, 4;
        add.s64 %rd1, %rd1, %rd30; st.global.u32 [%rd1], %r2;"""
    run(body, out, threads=50, blocks=20)
    assert np.array_equal(out, np.arange(1000))
