"""Object code kept on disk between processes: digest-checked, owner-only, bounded in size.

Takes bytes under a key (64 hex digits), gives them back or nothing. Invariant: `get` returns
exactly what some process of this user once `put` under that key, or None; no failure of the disk
reaches the caller, it only shows in `stats()`. Entries are data, never unpickled.

An entry is one file: a magic line, the sha256 of the payload in hex and a newline, the payload.
"""

import contextlib
import dataclasses
import functools
import hashlib
import os
import secrets
import stat
import threading
import time
from pathlib import Path

import platformdirs

_MAGIC = b"fjit cache entry, version 1\n"
_SUFFIX = ".entry"
_STALE_SECONDS = 3600.0
DEFAULT_MAX_BYTES = 512 * 1024 * 1024

_PACKAGE = Path(__file__).resolve().parent.parent
# The sources that decide what machine code a key stands for.
_SOURCES = ("lower", "backend", "runtime", "target.py")


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One file of the cache: its key, its size in bytes and when it was last used."""

    key: str
    nbytes: int
    used: float


@dataclasses.dataclass(frozen=True, slots=True)
class CacheStats:
    """What one process did with the cache; `problem` says why entries are not kept, if so."""

    directory: str
    hits: int
    misses: int
    writes: int
    corrupt: int
    problem: str | None


class DiskCache:
    """A directory of digest-checked entries, shared by all processes of one user.

    Reads and writes are atomic (a rename), so processes need no lock. When the entries grow past
    `max_bytes`, the least recently used go until three quarters of it remain.
    """

    def __init__(self, directory: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.directory = directory
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("hits", "misses", "writes", "corrupt"), 0)
        self._problem: str | None = None
        self._known_bytes: int | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """Return the payload stored under `key`, or None; a damaged entry is deleted."""
        path = self._path(key)
        raw = self._read(path) if self._refusal() is None else None
        if raw is None:
            self._count("misses")
            return None
        payload = _payload(raw)
        if payload is None:
            self._count("corrupt")
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        self._count("hits")
        with contextlib.suppress(OSError):
            os.utime(path)
        return payload

    def put(self, key: str, payload: bytes) -> bool:
        """Store `payload` under `key`; return whether it was kept. Never raises for the disk."""
        path = self._path(key)
        refusal = self._refusal(create=True)
        if refusal is not None:
            self._problem = refusal
            return False
        temporary = path.with_name(f".{os.getpid()}-{secrets.token_hex(8)}.tmp")
        try:
            _write(temporary, _MAGIC + _digest(payload) + b"\n" + payload)
            temporary.replace(path)
        except OSError as error:
            self._problem = f"{self.directory} cannot be written: {error.strerror or error}"
            with contextlib.suppress(OSError):
                temporary.unlink()
            return False
        self._problem = None
        self._count("writes")
        self._bound(len(payload))
        return True

    def entries(self) -> list[Entry]:
        """Return the entries, least recently used first."""
        found: list[Entry] = []
        with contextlib.suppress(OSError), os.scandir(self.directory) as files:
            for file in files:
                if not file.name.endswith(_SUFFIX):
                    continue
                with contextlib.suppress(OSError):
                    status = file.stat(follow_symlinks=False)
                    key = file.name.removesuffix(_SUFFIX)
                    found.append(Entry(key, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: (entry.used, entry.key))

    def size(self) -> int:
        """Return the bytes of all entries together."""
        return sum(entry.nbytes for entry in self.entries())

    def clear(self) -> int:
        """Delete every entry and left-over; return how many entries went."""
        removed = 0
        for entry in self.entries():
            removed += self._remove(entry.key)
        self._sweep(older_than=0.0)
        with self._lock:
            self._known_bytes = 0
        return removed

    def stats(self) -> CacheStats:
        """Return counts of this process and why nothing is kept, if that is so."""
        problem = self._problem or self._refusal()
        with self._lock:
            return CacheStats(directory=str(self.directory), problem=problem, **self._counts)

    def _path(self, key: str) -> Path:
        if len(key) != 64 or not set(key) <= set("0123456789abcdef"):
            raise ValueError(f"a cache key is 64 hex digits, not {key!r}")
        return self.directory / (key + _SUFFIX)

    def _refusal(self, *, create: bool = False) -> str | None:
        """Return why the directory must not be used, or None: code is run from what it holds."""
        try:
            if create:
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.directory.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"{self.directory} cannot be used: {error.strerror or error}"
        if not stat.S_ISDIR(status.st_mode):
            return f"{self.directory} is not a directory"
        if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
            return f"{self.directory} belongs to another user"
        if os.name == "posix" and status.st_mode & 0o022:
            return f"{self.directory} can be written by other users: chmod 700 it"
        return None

    def _read(self, path: Path) -> bytes | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._problem = f"{path} cannot be read: {error.strerror or error}"
            return None
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            self._problem = f"{path} is not a file"
            return None
        with os.fdopen(descriptor, "rb") as file:
            if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
                self._problem = f"{path} belongs to another user"
                return None
            try:
                return file.read()
            except OSError as error:
                self._problem = f"{path} cannot be read: {error.strerror or error}"
                return None

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _bound(self, added: int) -> None:
        """Keep the total under `max_bytes`; the directory is listed only when it may be over."""
        with self._lock:
            known = self._known_bytes
            self._known_bytes = known = None if known is None else known + added
        if known is not None and known <= self.max_bytes:
            return
        entries = self.entries()
        total = sum(entry.nbytes for entry in entries)
        goal = self.max_bytes if total <= self.max_bytes else self.max_bytes * 3 // 4
        for entry in entries:
            if total <= goal:
                break
            self._remove(entry.key)
            total -= entry.nbytes
        self._sweep(older_than=_STALE_SECONDS)
        with self._lock:
            self._known_bytes = total

    def _remove(self, key: str) -> bool:
        try:
            self._path(key).unlink()
        except (OSError, ValueError):
            return False
        return True

    def _sweep(self, older_than: float) -> None:
        """Delete the temporary files of processes that died while writing."""
        limit = time.time() - older_than
        for path in self.directory.glob(".*.tmp"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime <= limit:
                    path.unlink()


def default_directory() -> Path:
    """Return where entries are kept: below `FJIT_CACHE_DIR`, else the user's cache directory."""
    chosen = os.environ.get("FJIT_CACHE_DIR")
    base = Path(chosen) if chosen else Path(platformdirs.user_cache_dir("fjit"))
    return base / "objects"


def default_cache() -> DiskCache:
    """Return this process's cache in `default_directory()`."""
    return _cache_in(default_directory())


@functools.cache
def _cache_in(directory: Path) -> DiskCache:
    return DiskCache(directory)


@functools.cache
def sources_digest() -> str:
    """Return a digest of fjit's lowering, back-end and runtime sources, read once."""
    digest = hashlib.sha256()
    for part in _SOURCES:
        path = _PACKAGE / part
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            text = source.read_bytes()
            name = source.relative_to(_PACKAGE).as_posix()
            digest.update(f"{name} {len(text)}\n".encode())
            digest.update(text)
    return digest.hexdigest()


def _digest(payload: bytes) -> bytes:
    return hashlib.sha256(payload).hexdigest().encode()


def _payload(raw: bytes) -> bytes | None:
    start = len(_MAGIC) + 65
    if len(raw) < start or not raw.startswith(_MAGIC):
        return None
    payload = raw[start:]
    return payload if raw[len(_MAGIC) : start] == _digest(payload) + b"\n" else None


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
