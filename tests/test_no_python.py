"""The warm call runs machine code: no frame of the user's function, tracer or interpreter."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.core.trace import current
from tests.corpus import CORPUS

PACKAGE = Path(fjit.__file__).parent
CORPUS_FILE = str(Path(__file__).parent / "corpus.py")
OUT_OF_BOUNDS = ("core/interpreter.py", "core/trace.py", "frontend/tracer.py", "frontend/numpy/",
                 "optimize/", "lower/", "backend/")  # fmt: skip
NESTED = ("distances",)  # results in containers other than a tuple
JOINING = 4  # Python functions that put them there


def codes_of(call: Callable[[], Any]) -> list[CodeType]:
    """The Python functions that run during a call."""
    ran: list[CodeType] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            ran.append(frame.f_code)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return ran


def trespassers(codes: list[CodeType]) -> list[str]:
    """What ran that may not: the user's functions, tracing and planning.

    Asking whether a trace is open is how a fused function knows that it is to be inlined.
    """
    places = [(c.co_filename, c.co_name) for c in codes if c is not current.__code__]
    beyond = tuple(str(PACKAGE / part) for part in OUT_OF_BOUNDS)
    return [f"{f}:{n}" for f, n in places if f == CORPUS_FILE or f.startswith(beyond)]


def test_the_check_can_fail() -> None:
    case = CORPUS["softmax"]
    assert trespassers(codes_of(lambda: fjit.fuse(case.function)(*case.arguments())))
    slow = fjit.fuse(target="interpreter")(case.function)
    slow(*case.arguments())
    assert trespassers(codes_of(lambda: slow(*case.arguments())))


@pytest.mark.parametrize("name", CORPUS)
def test_a_warm_call_runs_no_python_of_the_user(name: str) -> None:
    case = CORPUS[name]
    fused = fjit.fuse(case.function)
    fused(*case.arguments())
    arguments = case.arguments()
    ran = trespassers(codes_of(lambda: fused(*arguments)))
    assert ran == []


@pytest.mark.parametrize("name", CORPUS)
def test_the_number_of_python_calls_does_not_grow_with_the_program(name: str) -> None:
    """A warm call of a one-kernel program runs none, where a record describes it, or a handful."""
    case = CORPUS[name]
    fused = fjit.fuse(case.function)
    arguments = case.arguments()
    for _ in range(2):
        fused(*arguments)
    record = fused.prepare(*arguments).record
    ran = codes_of(lambda: fused(*arguments))
    limit = 80 if isinstance(record, str) else 1 + JOINING * (name in NESTED)
    assert len(ran) <= limit, record  # the lambda itself is one


def test_new_values_run_no_python_either() -> None:
    fused = fjit.fuse(CORPUS["where-clip"].function)
    fused(np.ones(50), -1.0, 1.0)
    assert trespassers(codes_of(lambda: fused(np.zeros(50), -3.0, 2.5))) == []
