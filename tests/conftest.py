"""Common ground of the tests: settings of the process, seeds, golden texts, markers."""

import ctypes
import os
import random
import shutil
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from fjit.backend import toolkit

GOLDEN = Path(__file__).parent / "golden"
ADVICE = "run `make golden`, then review the difference like code"

# Times depend on the machine, so no example has a deadline; CI draws the same examples every time.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden-update", action="store_true", help="rewrite tests/golden/*.txt")


def pytest_configure(config: pytest.Config) -> None:
    """Give each test process a kernel cache of its own, before any module reads the setting."""
    os.environ["FJIT_CACHE_DIR"] = tempfile.mkdtemp(prefix="fjit-test-cache-")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(os.environ.pop("FJIT_CACHE_DIR"), ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, by marker and with the reason, what this machine has not the means for."""
    for marker, absent, reason in (
        ("gpu", lambda: not gpu_present(), "no NVIDIA driver with a device"),
        ("nvvm", toolkit.missing, "pip install 'fjit[cuda]' for CUDA's compiler and linker"),
    ):
        marked = [item for item in items if item.get_closest_marker(marker)]
        if marked and absent():
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests measured and put on record with `record_property("figure", text)`."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, text in report.user_properties:
                if name == "figure":
                    terminalreporter.write_line(text)


def gpu_present() -> bool:
    """Whether the CUDA driver starts and counts at least one device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    started = driver.cuInit(0) == 0
    return started and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed made from the test's own name: the same in every run, another for every test."""
    return zlib.crc32(request.node.nodeid.encode())


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def global_seeds() -> None:
    """Start the generators of the process at one place, for code under test that uses them."""
    random.seed(0)
    np.random.seed(0)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares text with tests/golden/<name>.txt, or rewrites the file."""
    update = request.config.getoption("--golden-update")

    def compare(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        text = text.rstrip("\n") + "\n"
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"no golden text {name}.txt: {ADVICE}"
        assert text == path.read_text(encoding="utf-8"), f"{name}.txt differs: {ADVICE}"

    return compare
