"""What a hostile tester found in the native entry and around it; each stays right."""

import copy
import os
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.fused import Fused
from fjit.runtime import entry
from fjit.testing import assert_same
from tests.runtime.test_entry import X, Y, answers, warm

pytestmark = pytest.mark.skipif(bool(entry.missing()), reason=entry.missing() or "native")


class Config:
    pass


CONFIG = Config()


def test_an_attribute_that_is_missing_and_then_there() -> None:
    f = warm(lambda a: a * getattr(CONFIG, "scale", 3.0) + hasattr(CONFIG, "more"), X)
    CONFIG.scale = 5.0
    try:
        assert not answers(f, X)
    finally:
        del CONFIG.scale
    assert answers(f, X)


def test_an_exception_in_a_guard_is_raised() -> None:
    class Stop(BaseException):
        pass

    settings = {f"k{n}": float(n) for n in range(50)}
    f = fjit.fuse(lambda a: a * settings["k3"])
    for _ in range(3):
        f(X)
    assert f.answered

    def interrupt(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.endswith("guards.py"):
            sys.setprofile(None)
            raise Stop

    sys.setprofile(interrupt)
    try:
        with pytest.raises(Stop):
            f(X)
    finally:
        sys.setprofile(None)
    assert answers(f, X)


def test_very_many_arguments_by_mistake() -> None:
    """They do not go on the stack, here one of 256 KiB."""
    f = warm(lambda a: a + 1, X)
    met: list[str] = []

    def call(count: int) -> None:
        try:
            f(*([X] * count))
        except TypeError as error:
            met.append(str(error))

    size = threading.stack_size(256 * 1024)
    try:
        for count in (2, 600, 60_000):
            worker = threading.Thread(target=call, args=(count,))
            worker.start()
            worker.join()
    finally:
        threading.stack_size(size)
    assert len(met) == 3 and all("positional argument" in text for text in met)


def test_a_record_that_is_pushed_out_lives_on_while_a_thread_is_inside() -> None:
    f = fjit.fuse(lambda a: np.sin(np.cos(np.exp(-a * a))) + 1, threads=1)
    large = np.ones(3_000_000)
    for _ in range(3):
        f(large)
    others = [np.ones(k) for k in range(1, 3 * entry.MAX_RECORDS)]
    results: list[Any] = []
    worker = threading.Thread(target=lambda: results.append(f(large)))
    worker.start()
    for _ in range(3):
        for x in others:
            f(x)
    worker.join()
    assert np.array_equal(results[0], f(large))


def test_a_call_of_a_subclass_is_its_own() -> None:
    class Tagged(Fused):
        def __call__(self, *args: Any) -> Any:
            return "mine", super().__call__(*args)

    plain = fjit.fuse(lambda a: a + 1)
    tagged = Tagged(plain.function, plain.choices)
    assert [tagged(X)[0] for _ in range(4)] == ["mine"] * 4
    plain(X), plain(X)
    assert answers(plain, X)


def test_a_class_that_is_assigned() -> None:
    module = types.ModuleType("module_of_a_test")
    module.k = 2.0  # type: ignore[attr-defined]
    f = warm(lambda a: a * module.k, X)
    module.__class__ = type("Lazy", (types.ModuleType,), {"k": property(lambda self: 99.0)})
    assert not answers(f, X)

    class Other:
        pass

    it = Config()
    g = warm(lambda a: a * (2.0 if isinstance(it, Config) else 3.0), X)
    it.__class__ = Other  # type: ignore[assignment]
    assert not answers(g, X)


def test_an_inherited_attribute_that_the_heir_gets() -> None:
    class Base:
        k = 3.0

        def scale(self, a: Any) -> Any:
            return a * 2

    class Heir(Base):
        pass

    heir = Heir()
    f = warm(lambda a: heir.scale(a) * Heir.k, X)
    Heir.k = 6.0
    assert not answers(f, X)
    Heir.scale = lambda self, a: a * 5  # type: ignore[method-assign]
    assert not answers(f, X)


def test_methods_of_copies_and_of_classes() -> None:
    class Model:
        k = 2.0

        def __init__(self, k: float) -> None:
            self.k = k

        @fjit.fuse
        def apply(self, a: Any) -> Any:
            return a * self.k

        of_class = classmethod(fjit.fuse(lambda cls, a: a * cls.k))

    one = Model(2.0)
    one.apply(X)
    two = copy.copy(one)
    two.k = 7.0
    for _ in range(3):
        assert_same(two.apply(X), X * 7.0)
        assert_same(one.apply(X), X * 2.0)
        assert_same(Model.of_class(X), X * 2.0)
    assert Model.of_class is Model.of_class


def test_attributes_of_the_function_do_not_hide_those_of_the_fused_one() -> None:
    def f(a: Any) -> Any:
        return a + 1

    f.function, f.choices, f.note = 3, 4, "mine"  # type: ignore[attr-defined]
    fused: Any = fjit.fuse(f)
    assert_same(fused(X), X + 1)
    assert fused.note == "mine"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_while_another_thread_traces() -> None:
    started, finish = threading.Event(), threading.Event()

    def slow(a: Any) -> Any:
        started.set()
        finish.wait(20)
        return a + 1

    f = fjit.fuse(slow)
    worker = threading.Thread(target=f, args=(X,))
    worker.start()
    started.wait()
    child = os.fork()
    if not child:
        finish.set()
        os._exit(0 if np.array_equal(f(Y), Y + 1) else 1)
    finish.set()
    worker.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
