"""Products in machine code: threads of the BLAS, processes, and what is done without one."""

import ctypes
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.report import doctor
from fjit.runtime import blas, panels
from fjit.testing import check

RNG = np.random.default_rng(0)
X, W, B = RNG.standard_normal((300, 64)), RNG.standard_normal((64, 80)), RNG.standard_normal(80)


def relu(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0)


def library() -> blas.Blas:
    found = blas.blas()
    assert found is not None
    return found


def blas_threads() -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int32)(library().get_threads)())


def set_blas_threads(count: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_int32)(library().set_threads)(count)


@pytest.mark.parametrize("count", [1, 2])
def test_the_library_keeps_its_threads(count: int) -> None:
    before = blas_threads()
    fused = fjit.fuse(threads=2)(relu)
    try:
        set_blas_threads(count)
        for _ in range(3):
            fused(X, W, B)
        assert blas_threads() == count
    finally:
        set_blas_threads(before)


def test_the_library_keeps_its_threads_with_callers_side_by_side() -> None:
    before = blas_threads()
    fused = fjit.fuse(threads=2)(relu)
    want, wrong = fused(X, W, B), []

    def work() -> None:
        for _ in range(100):
            if not np.array_equal(fused(X, W, B), want):
                wrong.append(1)

    callers = [threading.Thread(target=work) for _ in range(4)]
    try:
        set_blas_threads(2)
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert blas_threads() == 2 and not wrong
    finally:
        set_blas_threads(before)


def test_scipys_functions_multiply_as_well() -> None:
    found = blas.scipys()
    assert found is not None and found.owner == "SciPy" and found.set_threads
    for dtype in ("f4", "f8"):
        a, b, c = (np.ones((3, 3), dtype) * k for k in (2, 3, 0))
        size, one, zero = np.array([3], "i8"), np.ones(1, dtype), np.zeros(1, dtype)
        letter = ctypes.c_char_p(b"N")
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(found.gemm[np.dtype(dtype)])
        n, p = size.ctypes.data, one.ctypes.data
        call(letter, letter, n, n, n, p, a.ctypes.data, n, b.ctypes.data, n, zero.ctypes.data,
             c.ctypes.data, n)  # fmt: skip
        assert (c == 18).all()


def test_without_a_library_products_go_through_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fjit.planning.usable", lambda: False)
    check(relu, X, W, B)
    fused: Any = fjit.fuse(relu)
    assert fused.prepare(X, W, B).executable.steps[0].eqn.primitive.name == "matmul"
    for _ in range(3):
        fused(X, W, B)
    assert fused.prepare(X, W, B).record == "there is a library call between the kernels"


def test_doctor_says_who_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    found = next(f for f in doctor.findings() if f.what == "BLAS")
    assert "machine code" in found.found and not found.advice
    monkeypatch.setattr(doctor, "blas", lambda: None)
    found = next(f for f in doctor.findings() if f.what == "BLAS")
    assert "from Python" in found.found and "scipy" in found.advice


@pytest.mark.parametrize("broken", ["numpys", "both"])
def test_a_library_that_is_not_there(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_umath_linalg", np)  # a file that is linked with nothing
    monkeypatch.setattr(blas, "_EXPORTED", blas._EXPORTED if broken == "numpys" else "scipy.none")
    found = blas.blas.__wrapped__()
    assert (found is None) if broken == "both" else (found is not None and found.owner == "SciPy")


FORKED = """
import os, sys
import numpy as np, fjit
from tests.runtime.test_panels import X, W, B, relu, blas_threads, set_blas_threads
fused = fjit.fuse(threads=2)(relu)
want = fused(X, W, B)
set_blas_threads(2)
for _ in range(3):
    child = os.fork()
    if not child:
        os._exit(int(not np.array_equal(fused(X, W, B), want) or blas_threads() != 2))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("well")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.parametrize("backend", ["pool", "auto", "none"])
def test_forked_children_multiply(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FJIT_THREADING", backend)
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "well\n", done.stderr


def test_there_is_one_module_however_many_threads_ask_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(panels, "_modules", {})
    found: list[int] = []
    barrier = threading.Barrier(4)

    def ask() -> None:
        barrier.wait()
        found.append(panels._module().address("fjit_panels"))

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(found) == 4 and len(set(found)) == 1


def test_every_thread_count_gives_the_same_bits() -> None:
    x, w = (RNG.standard_normal(s).astype("f4") for s in ((700, 300), (300, 500)))
    results = [fjit.fuse(threads=n)(lambda x, w: np.exp(x @ w * 0.01))(x, w) for n in (1, 2, 3)]
    assert all(np.array_equal(r, results[0]) for r in results)
    assert panels.usable()


def test_constants_that_vary_with_shapes_compile_once_more_beside_a_product():
    function = fjit.fuse(lambda x, w: (x @ w) / len(x))
    w = np.ones((40, 42), np.float32)
    for n in range(100, 400, 31):
        x = np.ones((n, 40), np.float32)
        np.testing.assert_allclose(function(x, w), (x @ w) / n, rtol=1e-6)
    assert function.cache_info().compiles <= 2
