"""Texts and launches that no device would take: an EmulatorError that says why, no other error."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fjit.backend import emulator
from fjit.errors import EmulatorError
from tests.backend.emulator.kernels import HEAD, kernel

SHARED = "mov.u32 %r1, s; st.shared.u32 [%r1], %r1;"


def refusal(ptx: Any, *, grid: Any = 1, block: Any = 1, args: Any = None, **more: Any) -> str:
    arguments = [np.zeros(64, "u4")] if args is None else args
    with pytest.raises(EmulatorError) as caught:
        emulator.launch(ptx, "k", grid, block, arguments, **more)
    return str(caught.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("ld.global.v3.f32 {%f1, %f2, %f3}, [%rd30];", "of 1 element, or"),
        ("ld.global.v2.f32 {%f1, %f2, %f3, %f4}, [%rd30];", "of 1 element, or"),
        ("ld.global.f32 {%f1, %f2}, [%rd30];", "of 1 element, or"),
        ("L: mov.u32 %r1, 1; L: mov.u32 %r2, 1;", "label L stands twice"),
        ("ld.param.u64 %rd1, [p0+4];", "bytes 4 to 12 of a parameter of 8"),
        ("ld.param.u64 %rd1, [p0+-8];", "of a parameter of 8"),
        ("ld.param.u64 %rd1, [q];", "nothing named q"),
        ("mov.u32 %r1, nowhere;", "nothing named nowhere"),
        ("bra nowhere;", "nothing named nowhere"),
        ("bar.sync 16;", "numbered 0 to 15"),
        ("barrier.sync -1;", "numbered 0 to 15"),
        ("call (%r1), nobody, (%r2);", "nobody"),
        ("add.u32 %r1;", "add.u32 %r1;"),
        ("frobnicate.u32 %r1, %r2;", "frobnicate"),
    ],
)
def test_bodies_that_no_assembler_takes(body: str, words: str) -> None:
    assert words in refusal(kernel(body))


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (".shared .align 4 .b8 s[65536];", "49,152"),
        (".shared .align 4 .b8 s[-4];", "extent of -4"),
        (".shared .align 4 .b8 s[99999999999];", "extent of 99999999999"),
        (".local .align 4 .b8 s[600000];", "524,288"),
        (".reg .b32 %q<-1>;", "registers"),
        (".reg .b32 %q<99999999999>;", "registers"),
    ],
)
def test_declarations_beyond_a_device(declared: str, words: str) -> None:
    body = SHARED if " s[" in declared else ""
    assert words in refusal(kernel(body, declare=declared))


def test_an_end_without_return() -> None:
    text = kernel("mov.u32 %r1, 1;").replace("\nret;\n}", "\n}")
    assert "runs past its end" in refusal(text)
    guarded = kernel("setp.eq.u32 %p1, %r30, 0;").replace("\nret;\n}", "\n@%p1 ret;\n}")
    assert "runs past its end" in refusal(guarded)


@pytest.mark.parametrize(
    "text", ["", "}", "{" * 5000, HEAD, ".entry", HEAD + ".visible .entry k(", "\0"]
)
def test_texts_that_are_none(text: str) -> None:
    assert refusal(text)


def test_deep_nesting() -> None:
    deep = "{" * 100_000 + "}" * 100_000
    assert refusal(kernel("", before=f".global .u32 t[2] = {deep};"))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("grid", 0, "one to three positive"),
        ("grid", (1, 2, 3, 4), "one to three positive"),
        ("grid", (1, 70_000), "at most (2147483647, 65535, 65535)"),
        ("grid", 1 << 31, "at most (2147483647"),
        ("grid", 1.5, "one to three positive"),
        ("grid", "1", "one to three positive"),
        ("grid", None, "one to three positive"),
        ("grid", True, "one to three positive"),
        ("block", (32, 64), "2048 threads"),
        ("block", (1, 1, 65), "at most (1024, 1024, 64)"),
        ("block", 1025, "at most (1024"),
        ("block", -1, "one to three positive"),
        ("shared", -1, "at least 0"),
        ("shared", 1 << 20, "232,448"),
        ("shared", 1.0, "whole number"),
        ("max_steps", 0, "at least 1"),
        ("max_steps", "many", "whole number"),
        ("args", 3, "list of arguments"),
        ("args", None, "list of arguments"),
        ("args", "ab", "list of arguments"),
        ("args", [], "takes 1 arguments"),
        ("args", [object()], "argument 0 is a object"),
        ("args", [1.5j], "argument 0"),
        ("args", [1 << 70], "does not hold"),
    ],
)
def test_launches_that_no_driver_takes(name: str, value: Any, words: str) -> None:
    given = {"grid": 1, "block": 1, "args": [np.zeros(8)], name: value}
    text = kernel("mov.u32 %r1, 1;")
    with pytest.raises(EmulatorError, match=re.escape(words)):
        emulator.launch(text, "k", **given)


@pytest.mark.parametrize(("ptx", "name"), [(None, "k"), (b"x", "k"), (3, "k"), ("", None), ("", 3)])
def test_names_and_texts_are_texts(ptx: Any, name: Any) -> None:
    with pytest.raises(EmulatorError, match="give a text"):
        emulator.launch(ptx, name, 1, 1, [])


SOUND = kernel(
    """mul.wide.u32 %rd1, %r30, 4; add.s64 %rd2, %rd1, %rd30; ld.global.f32 %f1, [%rd2];
    setp.lt.f32 %p1, %f1, 0f3F800000; @%p1 bra L; add.f32 %f1, %f1, 0f3F800000;
    L: mov.u32 %r2, s; shl.b32 %r3, %r30, 2; add.u32 %r2, %r2, %r3; st.shared.f32 [%r2], %f1;
    bar.sync 0; ld.shared.f32 %f2, [%r2]; shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1;
    st.global.f32 [%rd2], %f2;""",
    declare=".shared .align 4 .b8 s[256];\n",
)
TOKENS = re.findall(r"[\w.%$@!]+|[^\w\s]|\n", SOUND)
START = 6  # the head stays, so that errors are the body's


@settings(max_examples=300, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.lists(st.tuples(st.integers(START, len(TOKENS) - 1), st.integers(0, 4),
                          st.integers(0, len(TOKENS) - 1)), min_size=1, max_size=3))  # fmt: skip
def test_broken_texts_give_no_other_error(changes: list[tuple[int, int, int]]) -> None:
    tokens = list(TOKENS)
    for place, kind, other in changes:
        if kind == 0:
            tokens[place] = ""
        elif kind == 1:
            tokens[place] += " " + tokens[place]
        elif kind == 2:
            tokens[place] = TOKENS[other]
        elif kind == 3:
            tokens[place] = tokens[place][:-1]
        else:
            tokens[place], tokens[other] = tokens[other], tokens[place]
    try:
        emulator.launch(" ".join(tokens), "k", 1, 32, [np.zeros(32, "f4")], max_steps=2000)
    except EmulatorError as error:
        assert str(error)
