"""The fake driver as a fixture."""

import gc
from collections.abc import Iterator

import pytest

from tests.gpu.fake_driver import FakeDriver, installed


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """Two fake GPUs; what a test leaves behind is freed before they go.

    What earlier tests keep is left out of the search: it would take most of a second.
    """
    with installed(FakeDriver(), monkeypatch) as driver:
        gc.freeze()
        yield driver
        gc.collect()
        gc.unfreeze()
        assert not driver.contexts, "a context was left the thread's"
