"""What changes from call to call without the arguments knowing is refused, never frozen."""

import io
import os
import random
import secrets
import time
from collections.abc import Callable
from os import environ, getenv
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.errors import UnsupportedError

X = np.ones(2)


def read(x: Any, opener: Any) -> Any:
    with opener(__file__) as file:
        return x + len(file.read())


NAMES = {"WANTED": 1}
SOURCES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "environ": (lambda x: x + float(os.environ["SOURCE"]), r"os\.environ"),
    "environ by name": (lambda x: x + float(environ["SOURCE"]), r"os\.environ"),
    "environ.get": (lambda x: x + float(os.environ.get("SOURCE", "1")), r"os\.environ"),
    "in environ": (lambda x: x + ("SOURCE" in os.environ), r"os\.environ"),
    "list of environ": (lambda x: x + len(list(os.environ)), r"os\.environ"),
    "set environ": (lambda x: os.environ.__setitem__("SOURCE", "2"), r"os\.environ"),
    "truth of environ": (lambda x: x if os.environ else -x, r"os\.environ"),
    "getenv": (lambda x: x + float(os.getenv("SOURCE", "1")), r"os\.getenv"),
    "getenv by name": (lambda x: x + float(getenv("SOURCE", "1")), r"os\.getenv"),
    "urandom": (lambda x: x + os.urandom(1)[0], r"os\.urandom"),
    "open": (lambda x: read(x, open), "open reads"),
    "io.open": (lambda x: read(x, io.open), "open reads"),
    "np.loadtxt": (lambda x: x + np.loadtxt("numbers.txt"), r"np\.loadtxt"),
    "np.load": (lambda x: x + np.load("numbers.npy"), r"np\.load"),
    "time_ns": (lambda x: x + time.time_ns(), r"time\.time_ns"),
    "localtime": (lambda x: x + time.localtime().tm_sec, r"time\.localtime"),
    "getrandbits": (lambda x: x + random.getrandbits(3), r"random\.getrandbits"),
    "shuffle": (lambda x: random.shuffle([1, 2]), r"random\.shuffle"),
    "secrets": (lambda x: x + secrets.randbelow(9), r"secrets\.randbelow"),
    "names": (lambda x: x + len(globals()), r"globals\(\)"),
    "filtered names": (lambda x: x + sum(n.islower() for n in globals()), r"globals\(\)"),
    "values": (lambda x: x + len(list(globals().values())), r"globals\(\)"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_is_refused(name: str) -> None:
    function, named = SOURCES[name]
    with pytest.raises(UnsupportedError, match=named):
        fjit.fuse(function)(X)


def test_naming_a_source_is_no_reading() -> None:
    clocks = {"wall": time.time}

    def f(x: Any) -> Any:
        return x + 1 if time.time and clocks["wall"] is not None else x

    np.testing.assert_array_equal(fjit.fuse(f)(X), f(X))


def test_a_library_may_read_the_environment() -> None:
    def f(x: Any) -> Any:
        return x * len(os.path.expanduser("~") or "-")

    np.testing.assert_array_equal(fjit.fuse(f)(X), f(X))


def test_a_name_that_comes_and_goes_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    f = fjit.fuse(lambda x: x + ("ARRIVED" in globals()) + globals().get("ARRIVED", 10))
    np.testing.assert_array_equal(f(X), X + 10)
    monkeypatch.setitem(globals(), "ARRIVED", 5)
    np.testing.assert_array_equal(f(X), X + 6)
    monkeypatch.setitem(globals(), "ARRIVED", 7)
    np.testing.assert_array_equal(f(X), X + 8)
    monkeypatch.delitem(globals(), "ARRIVED")
    np.testing.assert_array_equal(f(X), X + 10)


def test_code_run_in_globals_sees_its_names() -> None:
    def f(x: Any) -> Any:
        scope = dict(NAMES)
        exec("FOUND = eval('WANTED') + 1", globals(), scope)
        return x + scope["FOUND"] + eval("NAMES['WANTED']", globals())

    np.testing.assert_array_equal(fjit.fuse(f)(X), X + 3)
