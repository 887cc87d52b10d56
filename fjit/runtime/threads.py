"""Threads: which backend runs a parallel loop, how many threads it may use, and its address.

Takes `FJIT_THREADING` (auto, openmp, pool or none) and the limits in force, gives the address of
the native `fjit_parallel` (see parallel_ir) and a number of threads. Invariant: no more threads run
than OMP_NUM_THREADS, threadpoolctl, FJIT_NUM_THREADS and the processors of this process allow, and
a process made by fork never enters an OpenMP runtime that its parent may have used.

    FJIT_THREADING=auto:    OpenMP already in the process -> libgomp if found -> own pool
    in a forked child:      own pool
"""

import contextlib
import ctypes
import dataclasses
import os
import platform
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fjit.errors import FjitValueError
from fjit.runtime import parallel_ir
from fjit.runtime.host import host
from fjit.runtime.jit import Module, compile_module

BACKENDS = ("auto", "openmp", "pool", "none")
_MODES = {
    "none": parallel_ir.MODE_SERIAL,
    "openmp": parallel_ir.MODE_OPENMP,
    "pool": parallel_ir.MODE_POOL,
}
# What FJIT_THREADING=auto takes: the first that this process can have.
_AUTO_ORDER = ("pool", "none")
_POOL_SYSTEMS = ("Linux", "Darwin")
# Rounds of the processor's pause instruction, some tens of microseconds in all.
_SPIN_ROUNDS = 1000
_OPENMP_NAME = re.compile(r"^lib(gomp|iomp5|omp5?)\b.*\.so[.\d]*$")
_OPENMP_ORDER = ("libgomp", "libiomp", "libomp")
_PF_FORKNOEXEC = 0x40  # linux/sched.h: forked, and no exec since


@dataclasses.dataclass(frozen=True, slots=True)
class OpenMP:
    """An OpenMP runtime of this process that has GCC's entry point."""

    path: str
    library: ctypes.CDLL

    def parallel_address(self) -> int:
        """Return the address of `GOMP_parallel(fn, data, num_threads, flags)`."""
        return ctypes.cast(self.library.GOMP_parallel, ctypes.c_void_p).value or 0


@dataclasses.dataclass(slots=True)
class _State:
    """What was decided at the first use; `backend` changes once more in a forked child."""

    backend: str
    openmp: OpenMP | None
    limit: int  # processors and FJIT_NUM_THREADS; with no OpenMP runtime, OMP_NUM_THREADS
    module: Module | None = None
    run: Callable[[int, int, int, int], None] | None = None


@dataclasses.dataclass(slots=True)
class _Process:
    """The running process: what it decided, and whether it came about by fork."""

    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    forked: bool = False
    state: _State | None = None


_process = _Process()


def address_of_parallel() -> int:
    """Return the address of `void fjit_parallel(phase, args, ntasks, nthreads, grain)`."""
    return _module(_process.state or _ready()).address("fjit_parallel")


def address_of_run() -> int:
    """Return the address of `void fjit_run(table, steps, count, nthreads)`, for native callers."""
    return _module(_process.state or _ready()).address("fjit_run")


def address_of_batch() -> int:
    """Return the address of the phase that runs several kernels' phases: see parallel_ir."""
    return _module(_process.state or _ready()).address("fjit_batch")


def run(table: int, steps: int, count: int, team: int) -> None:
    """Run `count` steps (see parallel_ir) at an address with up to `team` threads."""
    state = _process.state or _ready()
    if state.run is None:
        word = ctypes.c_int64
        state.run = ctypes.CFUNCTYPE(None, word, word, word, word)(address_of_run())
    state.run(table, steps, count, team)


def backend() -> str:
    """Return what runs parallel loops in this process now: "openmp", "pool" or "none"."""
    return _ready().backend


def openmp_path() -> str | None:
    """Return the file of the OpenMP runtime whose limits hold here, or None."""
    openmp = _ready().openmp
    return openmp.path if openmp else None


def num_threads(requested: int | None = None) -> int:
    """Return how many threads a call may use now: at least 1, at most `requested`.

    With an OpenMP runtime in the process its `omp_get_max_threads` is asked on every call, so that
    limits set by threadpoolctl act at once.
    """
    state = _process.state or _ready()
    if state.backend == "none":
        return 1
    most = state.limit
    if state.openmp is not None:
        most = min(most, state.openmp.library.omp_get_max_threads())
    if requested is not None:
        most = min(most, requested)
    return max(most, 1)


def native_limits() -> tuple[int, int]:
    """Return the fixed limit of threads, and the address of `omp_get_max_threads` or 0.

    What `num_threads` asks, for native code that asks it on every call.
    """
    state = _process.state or _ready()
    if state.backend == "none":
        return 1, 0
    if state.openmp is None:
        return state.limit, 0
    get = state.openmp.library.omp_get_max_threads
    return state.limit, ctypes.cast(get, ctypes.c_void_p).value or 0


def measure_fork_join(threads: int | None = None, *, task_us: float = 100.0) -> float:
    """Return nanoseconds lost to starting and joining a team of `threads` (`num_threads()`).

    That is the time of a loop with one task per thread less the time of one task, at best. A task
    lasts `task_us` microseconds, so that a helper that must wake from sleep counts as late.
    """
    team = num_threads() if threads is None else threads
    once = 1000
    rounds = max(1, round(once * task_us * 1000 / _fork_join_ns(1, 1, once)))
    return max(_fork_join_ns(team, team, rounds) - _fork_join_ns(1, 1, rounds), 0.0)


def _fork_join_ns(ntasks: int, nthreads: int, rounds: int) -> float:
    """Time one parallel loop of idle tasks: the best of a few batches."""
    batches, times = 6, 10
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
    run = prototype(_module(_ready()).address("fjit_fork_join"))
    best = float("inf")
    for _ in range(batches):
        start = time.perf_counter_ns()
        run(ntasks, nthreads, rounds, times)
        best = min(best, (time.perf_counter_ns() - start) / times)
    return best


def _ready() -> _State:
    with _process.lock:
        if _process.state is None:
            forked = _process.forked or _is_fork()
            _process.state = _decide(os.environ.get("FJIT_THREADING", "auto"), forked=forked)
        return _process.state


def _decide(wanted: str, *, forked: bool) -> _State:
    if wanted not in BACKENDS:
        raise FjitValueError(
            f"FJIT_THREADING={wanted!r} is not one of {', '.join(BACKENDS)}. Unset it, or write "
            "FJIT_THREADING=auto to let fjit choose."
        )
    order = _AUTO_ORDER if wanted == "auto" else (wanted,)
    load = order[0] == "openmp" and not forked
    openmp = None if wanted == "none" else _find_openmp(load=load)
    if wanted == "openmp" and openmp is None:
        raise FjitValueError(
            "FJIT_THREADING=openmp, but no OpenMP runtime is loaded and libgomp was not found. "
            "Install libgomp, or write FJIT_THREADING=pool."
        )
    has = {"openmp": openmp is not None, "pool": platform.system() in _POOL_SYSTEMS, "none": True}
    chosen = next((backend for backend in order if has[backend]), "none")
    if chosen == "openmp" and forked:
        chosen = "pool"
    return _State(chosen, openmp, _limit(openmp))


def _limit(openmp: OpenMP | None) -> int:
    """The part of the limit that does not change while the process runs."""
    own = _positive("FJIT_NUM_THREADS")
    shared = None if openmp else _positive("OMP_NUM_THREADS")
    # A count in OMP_NUM_THREADS may exceed the processors, as it may with OpenMP.
    general = shared or (2**31 if openmp else processors())
    return min(own or general, general)


def _positive(variable: str) -> int | None:
    """Return a positive count from the environment; OpenMP allows a list, whose first counts."""
    first = os.environ.get(variable, "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def processors() -> int:
    """Return the number of processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _module(state: _State) -> Module:
    """Compile and start the native part once; it stays loaded, since its helpers never end."""
    with _process.lock:
        if state.module is None:
            target = host()
            text = parallel_ir.parallel_ir(target.architecture, platform.system())
            module = compile_module(text, target=target)
            cpus = processors()
            _store(module, "fjit_cpus", cpus)
            _store(module, "fjit_spin", _SPIN_ROUNDS if cpus > 1 else 0)
            if state.openmp is not None:
                _store(module, "fjit_gomp_parallel", state.openmp.parallel_address())
            _reset(module, state.backend)
            module.keep_loaded()
            state.module = module
        return state.module


def _store(module: Module, name: str, value: int) -> None:
    ctypes.c_int64.from_address(module.address(name)).value = value


def _reset(module: Module, backend: str) -> None:
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int32)
    prototype(module.address("fjit_pool_reset"))(_MODES[backend])


def _find_openmp(*, load: bool) -> OpenMP | None:
    for path in loaded_openmp():
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(path)
            if hasattr(library, "GOMP_parallel") and hasattr(library, "omp_get_max_threads"):
                return OpenMP(path, library)
    return _load_libgomp() if load else None


def loaded_openmp() -> list[str]:
    """Return the files of the OpenMP runtimes that this process has loaded, GCC's first."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    paths = {line[line.index("/") :] for line in maps.splitlines() if ".so" in line and "/" in line}
    found = [path for path in paths if _OPENMP_NAME.match(path.rpartition("/")[2])]
    return sorted(found, key=_preference)


def _preference(path: str) -> tuple[int, str]:
    name = path.rpartition("/")[2]
    ranks = [rank for rank, start in enumerate(_OPENMP_ORDER) if name.startswith(start)]
    return ranks[0] if ranks else len(_OPENMP_ORDER), path


def _load_libgomp() -> OpenMP | None:
    if platform.system() != "Linux":
        return None
    with contextlib.suppress(OSError):
        library = ctypes.CDLL("libgomp.so.1")
        paths = loaded_openmp()
        return OpenMP(paths[0] if paths else "libgomp.so.1", library)
    return None


def _is_fork() -> bool:
    """Whether this process was made by fork with no exec since, as Linux remembers."""
    try:
        status = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        return bool(int(status.rpartition(")")[2].split()[6]) & _PF_FORKNOEXEC)
    except (OSError, ValueError, IndexError):
        return False


def _after_fork_in_child() -> None:
    """No thread but this one lives on: forget the pool's, and keep out of OpenMP."""
    _process.lock = threading.Lock()
    _process.forked = True
    state = _process.state
    if state is None:
        return
    if state.backend == "openmp":
        state.backend = "pool"
    if state.module is not None:
        _reset(state.module, state.backend)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
