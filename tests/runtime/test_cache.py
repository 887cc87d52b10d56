"""The cache on disk: what is put is got, damage is noticed, limits and owners are kept."""

import os
import stat
import threading
import time
from pathlib import Path

import pytest

from fjit.runtime import cache
from fjit.runtime.cache import DiskCache

posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")


def key(number: int) -> str:
    return f"{number:064x}"


@pytest.fixture
def store(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "objects")


def test_what_is_put_is_got(store: DiskCache) -> None:
    assert store.get(key(1)) is None
    for payload in (b"", b"\0\n" * 5000):
        assert store.put(key(1), payload)
        assert store.get(key(1)) == payload
    stats = store.stats()
    assert (stats.hits, stats.misses, stats.writes, stats.corrupt) == (2, 1, 2, 0)
    assert stats.problem is None


@pytest.mark.parametrize("bad", ["", "../" * 21 + "x", "A" * 64, key(1) + "0"])
def test_a_key_is_64_hex_digits(store: DiskCache, bad: str) -> None:
    with pytest.raises(ValueError, match="64 hex digits"):
        store.get(bad)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other", "longer"])
def test_a_damaged_entry_is_deleted(store: DiskCache, damage: str) -> None:
    store.put(key(1), b"payload" * 100)
    (path,) = store.directory.iterdir()
    raw = path.read_bytes()
    damaged = {
        "flip": raw[:-1] + bytes([raw[-1] ^ 1]),
        "cut": raw[:-10],
        "empty": b"",
        "other": b"something else\n" * 20,
        "longer": raw + b"x",
    }
    path.write_bytes(damaged[damage])
    assert store.get(key(1)) is None
    assert not path.exists() and store.stats().corrupt == 1
    assert store.put(key(1), b"new") and store.get(key(1)) == b"new"


@posix
def test_only_the_owner_can_read_or_write(store: DiskCache) -> None:
    store.put(key(1), b"payload")
    (path,) = store.directory.iterdir()
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@posix
def test_a_directory_others_can_write_is_refused(store: DiskCache) -> None:
    store.put(key(1), b"payload")
    store.directory.chmod(0o777)
    assert store.get(key(1)) is None and not store.put(key(2), b"payload")
    assert "chmod 700" in (store.stats().problem or "")


@posix
def test_a_directory_of_another_user_is_refused(
    store: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(key(1), b"payload")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert store.get(key(1)) is None and not store.put(key(2), b"payload")
    assert "belongs to another user" in (store.stats().problem or "")


@posix
def test_a_link_in_place_of_an_entry_is_not_followed(store: DiskCache, tmp_path: Path) -> None:
    other = DiskCache(tmp_path / "other")
    other.put(key(1), b"planted")
    store.put(key(2), b"own")
    (planted,) = other.directory.iterdir()
    (store.directory / planted.name).symlink_to(planted)
    assert store.get(key(1)) is None


def test_a_path_that_is_no_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "objects"):
        store = DiskCache(directory)
        assert store.get(key(1)) is None and not store.put(key(1), b"payload")
        assert store.stats().problem and store.entries() == [] and store.clear() == 0


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_directory_is_read_and_reported(store: DiskCache) -> None:
    store.put(key(1), b"payload")
    store.directory.chmod(0o500)
    assert store.get(key(1)) == b"payload" and not store.put(key(2), b"payload")
    assert "cannot be written" in (store.stats().problem or "")
    store.directory.chmod(0o700)


def test_a_full_disk_is_reported_and_leaves_nothing(
    store: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        path.write_bytes(data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "_write", full)
    assert not store.put(key(1), b"payload")
    assert "No space left" in (store.stats().problem or "")
    assert list(store.directory.iterdir()) == []
    monkeypatch.undo()
    assert store.put(key(1), b"payload") and store.stats().problem is None


def test_the_least_recently_used_go(tmp_path: Path) -> None:
    store = DiskCache(tmp_path / "objects", max_bytes=10_000)
    for number in range(9):
        store.put(key(number), b"x" * 1000)
        os.utime(store.directory / (key(number) + ".entry"), (number, number))
    assert store.get(key(0)) is not None
    store.put(key(9), b"x" * 1000)
    kept = {int(entry.key, 16) for entry in store.entries()}
    assert store.size() <= 7_500
    assert {0, 9} <= kept and kept.isdisjoint({1, 2})


def test_listing_and_clearing(store: DiskCache) -> None:
    for number in (3, 1, 2):
        store.put(key(number), bytes(number))
    left_over = store.directory / ".1-dead.tmp"
    left_over.write_bytes(b"half")
    assert {entry.key for entry in store.entries()} == {key(1), key(2), key(3)}
    assert store.size() == sum(entry.nbytes for entry in store.entries())
    assert store.clear() == 3
    assert store.entries() == [] and store.size() == 0 and not left_over.exists()


def test_threads_that_write_one_key(store: DiskCache) -> None:
    payload = b"the same" * 1000
    seen: list[bytes | None] = []

    def work() -> None:
        for _ in range(20):
            store.put(key(1), payload)
            seen.append(store.get(key(1)))

    team = [threading.Thread(target=work) for _ in range(6)]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    assert set(seen) == {payload}
    assert len(list(store.directory.iterdir())) == 1


def test_where_entries_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FJIT_CACHE_DIR", str(tmp_path))
    assert cache.default_directory() == tmp_path / "objects"
    assert cache.default_cache() is cache.default_cache()
    monkeypatch.delenv("FJIT_CACHE_DIR")
    assert cache.default_directory().parts[-2:] == ("fjit", "objects")


def test_reading_marks_an_entry_as_used(store: DiskCache) -> None:
    store.put(key(1), b"payload")
    os.utime(store.directory / (key(1) + ".entry"), (1, 1))
    store.get(key(1))
    assert store.entries()[0].used > time.time() - 60


def test_the_digest_of_the_sources_is_stable() -> None:
    first = cache.sources_digest()
    cache.sources_digest.cache_clear()
    assert len(first) == 64 and cache.sources_digest() == first


def test_a_directory_in_the_place_of_an_entry_is_a_miss(tmp_path: Path) -> None:
    store, key = cache.DiskCache(tmp_path), "ab" * 32
    assert store.put(key, b"payload")
    (entry,) = [f for f in tmp_path.iterdir() if key in f.name]
    entry.unlink()
    entry.mkdir()
    assert store.get(key) is None
