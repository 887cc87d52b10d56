"""The fake driver as a fixture."""

import gc
from collections.abc import Iterator

import pytest

from tests.gpu.fake_driver import FakeDriver, installed


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """Two fake GPUs; what a test leaves behind is freed before they go."""
    with installed(FakeDriver(), monkeypatch) as driver:
        yield driver
        gc.collect()
        assert not driver.contexts, "a context was left the thread's"
