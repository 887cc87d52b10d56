"""The driver's wrapper: what it hands to cuda.bindings, its errors, forks, no driver at all."""

import inspect
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.backend import toolkit
from fjit.errors import DriverError, MissingPackageError
from fjit.runtime import devices, driver_errors
from fjit.runtime import driver as drivers
from fjit.runtime.driver import Driver
from tests.gpu.fake_driver import FakeDriver

HERE = Path(__file__).parent
COMPILER = shutil.which("cc")
OUT_OF_MEMORY, ILLEGAL_ADDRESS, UNKNOWN = 2, 700, 99_999


class Result(int):
    """A code with a name, as cuda.bindings gives it."""

    @property
    def name(self) -> str:
        return {0: "CUDA_SUCCESS", 2: "CUDA_ERROR_OUT_OF_MEMORY"}[int(self)]


def bindings(**functions: Any) -> Any:
    """A module like cuda.bindings.driver, with these functions."""
    known: dict[str, Any] = {
        "cuInit": lambda flags: (0,),
        "cuDriverGetVersion": lambda: (0, 12040),
        "cuGetErrorString": lambda code: (0, b"because of the test"),
    }
    return types.SimpleNamespace(**{**known, **functions})


def driver_of(monkeypatch: pytest.MonkeyPatch, module: Any) -> Driver:
    monkeypatch.setattr(toolkit, "driver", lambda: module)
    return Driver()


# The fake


def test_the_fake_has_the_drivers_methods() -> None:
    public = [name for name in vars(Driver) if not name.startswith("_")]
    assert len(public) > 20
    for name in public:
        real = inspect.signature(getattr(Driver, name)).parameters
        fake = inspect.signature(getattr(FakeDriver, name)).parameters
        assert list(real) == list(fake), name


# Errors


def test_an_error_says_what_was_done_what_it_means_and_what_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing = bindings(cuMemAlloc=lambda nbytes: (Result(OUT_OF_MEMORY), None))
    driver = driver_of(monkeypatch, failing)
    with pytest.raises(DriverError) as e:
        driver.allocate(5000, 0, 0)
    assert str(e.value).startswith(
        "reserving 5,000 bytes on the GPU failed: because of the test (CUDA_ERROR_OUT_OF_MEMORY). "
        "Free arrays that are no longer needed"
    )


def test_a_code_without_a_name_is_told_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = bindings(
        cuStreamSynchronize=lambda stream: (UNKNOWN,), cuGetErrorString=lambda code: (1, None)
    )
    with pytest.raises(DriverError) as e:
        driver_of(monkeypatch, failing).wait(0)
    assert "no explanation (code 99999)" in str(e.value) and "fjit doctor" in str(e.value)


@pytest.mark.parametrize("code", driver_errors.ADVICE)
def test_every_piece_of_advice_is_given(code: str) -> None:
    text = str(driver_errors.refused(code, "it means this", "doing that"))
    assert text == f"doing that failed: it means this ({code}). {driver_errors.ADVICE[code]}"


@pytest.mark.nvvm
def test_advice_is_for_codes_that_there_are() -> None:
    known = set(toolkit.driver().CUresult.__members__)
    assert sorted(set(driver_errors.ADVICE) - known) == []


def test_errors_are_pickled() -> None:
    import pickle

    error = driver_errors.refused("CUDA_ERROR_OUT_OF_MEMORY", "full", "reserving")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.code == error.code


@pytest.mark.parametrize("kind", [AttributeError, RuntimeError])
def test_a_driver_that_lacks_a_function_is_to_be_updated(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def missing(*arguments: Any) -> Any:
        raise kind("no such function")

    driver = driver_of(monkeypatch, bindings(cuMemPoolTrimTo=missing))
    with pytest.raises(DriverError, match=r"has no cuMemPoolTrimTo; update .* version \(12, 4\)"):
        driver.trim(1)


def test_a_driver_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DriverError, match="does not start: because of the test") as e:
        driver_of(monkeypatch, bindings(cuInit=lambda flags: (Result(OUT_OF_MEMORY),)))
    assert "cuda-emulator" in str(e.value) and "fjit doctor" in str(e.value)


def test_a_machine_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(flags: int) -> Any:
        raise RuntimeError("libcuda is\nnot here")

    with pytest.raises(DriverError, match="was not found: libcuda is not here") as e:
        driver_of(monkeypatch, bindings(cuInit=absent))
    assert "cuda-emulator" in str(e.value) and "fjit doctor" in str(e.value)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    devices_of = fjit.cuda.devices  # fjit.cuda itself is imported when it is first used
    toolkit.driver.cache_clear()
    monkeypatch.setattr(toolkit.importlib, "import_module", missing)
    monkeypatch.setattr(drivers, "_process", drivers._Process())
    with pytest.raises(MissingPackageError, match=r"pip install 'fjit\[cuda\]'") as e:
        devices_of()
    assert "cuda-emulator" in str(e.value) and "fjit doctor" in str(e.value)


def test_a_device_that_is_lost_while_memory_is_freed_is_no_second_error(fake: FakeDriver) -> None:
    x = fjit.cuda.from_numpy(np.ones(3))
    fake.fail["free"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    del x  # an exception here would be an unraisable one, which pytest turns into a failure
    assert len(fake.calls("free")) == 1


def test_the_callers_context_is_back_after_an_error(fake: FakeDriver) -> None:
    fake.contexts.append(7)
    fake.fail["copy_in"] = "CUDA_ERROR_INVALID_VALUE"
    with pytest.raises(DriverError):
        fjit.cuda.from_numpy(np.ones(3))
    assert fake.contexts == [7]
    fake.contexts.clear()


# Forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_told(fake: FakeDriver) -> None:
    x = fjit.cuda.from_numpy(np.ones(3))
    f = fjit.fuse(lambda x: x + 1, target="cuda")
    f(x)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            texts = []
            for call in (
                lambda: f(x), lambda: f(np.ones(3)), fjit.cuda.devices, x.to_numpy,
            ):  # fmt: skip
                try:
                    call()
                    texts.append("nothing")
                except DriverError as error:
                    texts.append(str(error))
            freed = len(fake.calls("free"))
            del x
            texts.append(str(len(fake.calls("free")) - freed))
            os.write(write, "\n".join(texts).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        *texts, freed = pipe.read().split("\n")
    os.waitpid(child, 0)
    assert len(texts) == 4 and all("'spawn'" in text for text in texts), texts
    assert freed == "0"
    np.testing.assert_array_equal(x.to_numpy(), np.ones(3))


def test_devices_are_described(fake: FakeDriver) -> None:
    first, second = fjit.cuda.devices()
    assert first == (0, "Fake 0", (9, 0), 1 << 34) and second.number == 1
    assert repr(devices.device(1)) == "<GPU 1: Fake 1, 16.0 GiB, sm_90>"


# cuda.bindings itself, on a library that stands for the driver

CALLS = """
import numpy as np, fjit
from fjit.errors import DriverError
from fjit.runtime.devices import Block, device
from fjit.runtime.driver import Launch, started

driver, gpu = started(), device(0)
assert driver.version() == (13, 0) and fjit.cuda.devices() == ((0, "Fake GPU", (9, 0), 1 << 34),)
assert gpu.multiprocessors == 132 and gpu.target.name == "sm_90"
x = fjit.cuda.from_numpy(np.arange(6.0).reshape(2, 3)[:, ::-1])
assert x.to_numpy().tolist() == [[2, 1, 0], [5, 4, 3]]
assert driver.device_of(x.__cuda_array_interface__["data"][0]) == 0
copy = fjit.cuda.DeviceArray(gpu.duplicate(x._placed, 0))
assert copy.to_numpy().tolist() == [[2, 1, 0], [5, 4, 3]]
gpu.follow(0, [7])
with gpu.active():
    assert driver.elapsed(driver.event(), driver.event()) == 2.5
    driver.trim(200)
gpu.synchronize()
fjit.fuse(lambda x: np.tanh(x) + 1, target="cuda")(np.ones((3, 4), "f4"))
with gpu.active():
    function = driver.function(driver.load(b"\\177ELF"), "phase0")
    kernels = [Launch(function, (1, 2 + k), (32, 4), np.arange(k, k + 3)) for k in range(3)]
    graph = driver.graph(kernels)
    driver.launch_graph(graph, 0)
    driver.destroy_graph(graph)
for wanted, call in (
    ("CUDA_ERROR_OUT_OF_MEMORY", lambda: Block(gpu, 1 << 40, 0)),
    ("CUDA_ERROR_NOT_FOUND", lambda: driver.function(300, "other")),
):
    try:
        call()
    except DriverError as error:
        assert wanted in str(error) and "as the fake was told" in str(error), error
    else:
        raise AssertionError(wanted)
print("all calls were taken")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda.so.1 that keeps its memory in the host's."""
    folder = tmp_path_factory.mktemp("libcuda")
    command = [str(COMPILER), "-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1"]
    target = ["-o", str(folder / "libcuda.so.1"), str(HERE / "libcuda.c"), "-ldl"]
    subprocess.run([*command, *target], check=True)
    return folder


def run_on(library: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LD_LIBRARY_PATH": str(library), **environment}
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, env=env, text=True, check=False,
        cwd=HERE.parents[1],
    )  # fmt: skip


needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler for the fake")


@pytest.mark.nvvm
@needs_compiler
def test_cuda_bindings_takes_every_call(library: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = run_on(library, CALLS, FJIT_FAKE_LOG=str(log))
    assert done.stdout.strip() == "all calls were taken", done.stderr
    notes = [line.split() for line in log.read_text().splitlines()]
    names = [note[0] for note in notes]
    assert ["pool", "1", "0"] in notes and ["keep", "4", str((1 << 34) // 8)] in notes
    assert ["load", "0", "0"] in notes, "no ELF image was loaded"
    assert names.count("grid") == names.count("words") == 1
    assert [note[1:] for note in notes if note[0] == "node"] == [["2", "1"], ["3", "2"], ["4", "3"]]
    assert ["graph", "3", "0"] in notes


@pytest.mark.nvvm
@needs_compiler
@pytest.mark.parametrize(
    ("code", "name"),
    [(ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"), (719, "CUDA_ERROR_LAUNCH_FAILED")],
)
def test_a_kernels_error_is_raised_where_the_gpu_is_waited_for(
    library: Path, code: int, name: str
) -> None:
    done = run_on(library, CALLS, FJIT_FAKE_WAIT=str(code))
    assert done.returncode
    assert f"waiting for the GPU failed: as the fake was told ({name})" in done.stderr


@pytest.mark.nvvm
@needs_compiler
def test_no_device_is_an_error_at_the_start(library: Path) -> None:
    done = run_on(library, CALLS, FJIT_FAKE_INIT="100")
    assert done.returncode and "it does not start: as the fake was told (CUDA_ERROR_NO_DEVICE)" in (
        done.stderr
    )
