"""Threads: every task once, under every backend, limit, control word, and after fork."""

import os
import platform
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from fjit.runtime import threads
from tests.runtime.harness import Record, complete, parallel, word_after

ROOT = Path(__file__).parents[2]
HAS_LIBGOMP = threads.openmp_path() is not None

needs_linux = pytest.mark.skipif(platform.system() != "Linux", reason="fork and /proc are Linux's")
needs_openmp = pytest.mark.skipif(not HAS_LIBGOMP, reason="no OpenMP runtime on this machine")
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="MXCSR is x86's control word")


def run_script(script: str, **environment: str) -> str:
    """Run Python source in a process of its own, with settings; give what it printed."""
    settings = {"OMP_NUM_THREADS", "FJIT_NUM_THREADS", "FJIT_THREADING"}
    inherited = {name: value for name, value in os.environ.items() if name not in settings}
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(script)],
        env=inherited | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("nthreads", [0, 1, 2, 3, 8])
@pytest.mark.parametrize(("ntasks", "grain"), [(1, 1), (2, 1), (7, 3), (1000, 1), (1000, 64)])
def test_every_task_runs_once(ntasks: int, grain: int, nthreads: int) -> None:
    assert complete(parallel(Record(ntasks), nthreads, grain), nthreads)


def test_no_tasks_is_no_call() -> None:
    assert parallel(Record(0), 4).counts.size == 0


def test_few_tasks_stay_with_the_caller() -> None:
    record = parallel(Record(64), 4, grain=64)
    assert complete(record, 1)


def test_a_grain_below_one_is_one() -> None:
    assert complete(parallel(Record(50), 4, grain=0), 4)


def test_nested_loops_run_in_the_worker() -> None:
    record = parallel(Record(64), 4, phase="nested")
    assert (record.counts == 64).all()


# Another process may keep the other processors busy, so help is waited for.
BACKEND_SCRIPT = """
    import time
    from fjit.runtime import threads
    from tests.runtime.harness import Record, complete, parallel
    helped, rounds, end = False, 0, time.monotonic() + 10
    while rounds < 50 or (threads.backend() != "none" and not helped and time.monotonic() < end):
        record = parallel(Record(500, spin=20), 3)
        assert complete(record, 3)
        helped, rounds = helped or int(record.workers.max()) > 0, rounds + 1
    print(threads.backend(), helped, threads.num_threads() >= 1)
"""


@pytest.mark.parametrize("backend", ["openmp", "pool", "none"])
def test_backends_by_environment(backend: str) -> None:
    if backend == "openmp" and not HAS_LIBGOMP:
        pytest.skip("no OpenMP runtime on this machine")
    helped = str(backend != "none")
    assert run_script(BACKEND_SCRIPT, FJIT_THREADING=backend) == f"{backend} {helped} True"


def test_an_unknown_backend_is_refused() -> None:
    script = """
        from fjit.errors import FjitValueError
        from fjit.runtime import threads
        try:
            threads.backend()
        except FjitValueError as error:
            print(error)
    """
    text = run_script(script, FJIT_THREADING="tbb")
    assert "FJIT_THREADING='tbb'" in text and "auto, openmp, pool, none" in text


COUNT = "from fjit.runtime import threads; print(threads.num_threads(), threads.num_threads(2))"


@pytest.mark.parametrize("backend", ["auto", "pool"])
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"OMP_NUM_THREADS": "1"}, "1 1"),
        ({"OMP_NUM_THREADS": "3"}, "3 2"),
        ({"OMP_NUM_THREADS": "5,2"}, "5 2"),
        ({"OMP_NUM_THREADS": "4", "FJIT_NUM_THREADS": "3"}, "3 2"),
        ({"FJIT_NUM_THREADS": "1"}, "1 1"),
    ],
)
def test_limits_by_environment(settings: dict[str, str], expected: str, backend: str) -> None:
    assert run_script(COUNT, FJIT_THREADING=backend, **settings) == expected


def test_without_limits_the_processors_count() -> None:
    count = threads.processors()
    assert run_script(COUNT, FJIT_THREADING="pool") == f"{count} {min(count, 2)}"


@needs_linux
def test_affinity_is_honoured() -> None:
    script = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" + COUNT
    assert run_script(script) == "1 1"


def test_file_names_of_openmp_runtimes() -> None:
    names = ["libgomp.so.1.0.0", "libgomp-a34b3233.so.1.0.0", "libomp.so.5", "libiomp5.so"]
    assert all(threads._OPENMP_NAME.match(name) for name in names)
    others = ["libomptarget.so", "libgompx.so", "libopenblas.so.0", "libgomp.spec"]
    assert not any(threads._OPENMP_NAME.match(name) for name in others)
    assert sorted(names, key=threads._preference)[0].startswith("libgomp")


@needs_linux
@needs_openmp
def test_a_runtime_that_is_loaded_already_is_used() -> None:
    script = """
        import sklearn.cluster
        from fjit.runtime import threads
        print(len(threads.loaded_openmp()), threads.openmp_path() in threads.loaded_openmp())
    """
    pytest.importorskip("sklearn")
    assert run_script(script) == "1 True"


@needs_openmp
def test_threadpoolctl_limits_act_at_once() -> None:
    script = """
        from threadpoolctl import threadpool_limits
        from fjit.runtime import threads
        print(threads.num_threads())
        with threadpool_limits(limits=1):
            print(threads.num_threads(), threads.num_threads(8))
        print(threads.num_threads())
    """
    assert run_script(script, OMP_NUM_THREADS="3").split() == ["3", "1", "1", "3"]


def test_asking_for_threads_is_cheap() -> None:
    threads.num_threads()
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(200):
            threads.num_threads()
        best = min(best, (time.perf_counter() - start) / 200)
    assert best < 2e-6


@pytest.mark.parametrize("backend", ["auto", "pool"])
def test_eight_python_threads_at_once(backend: str) -> None:
    script = """
        import threading
        from tests.runtime.harness import Record, complete, parallel
        failures = []
        start = threading.Barrier(8)
        def work():
            start.wait()
            for _ in range(100):
                if not complete(parallel(Record(64, spin=10), 2), 2):
                    failures.append(1)
        team = [threading.Thread(target=work) for _ in range(8)]
        for thread in team: thread.start()
        for thread in team: thread.join()
        print(len(failures))
    """
    assert run_script(script, FJIT_THREADING=backend) == "0"


def test_first_use_by_many_threads() -> None:
    script = """
        import threading
        from fjit.runtime import threads
        found = []
        start = threading.Barrier(8)
        def work():
            start.wait()
            found.append(threads.address_of_parallel())
        team = [threading.Thread(target=work) for _ in range(8)]
        for thread in team: thread.start()
        for thread in team: thread.join()
        print(len(found), len(set(found)))
    """
    assert run_script(script) == "8 1"


FORK = """
    import os, signal
    from fjit.runtime import threads
    from tests.runtime.harness import Record, complete, parallel
    before = threads.backend()
    assert complete(parallel(Record(200, spin=50), 4), 4)
    child = os.fork()
    if child == 0:
        signal.alarm(15)
        good = all(complete(parallel(Record(200, spin=50), 4), 4) for _ in range(20))
        os._exit(0 if good and threads.backend() == "pool" and threads.num_threads() >= 1 else 3)
    assert complete(parallel(Record(200, spin=50), 4), 4)
    _, status = os.waitpid(child, 0)
    print(before, threads.backend(), os.waitstatus_to_exitcode(status))
"""


@needs_linux
@pytest.mark.parametrize("backend", ["openmp", "pool"])
def test_a_child_made_by_fork_runs(backend: str) -> None:
    if backend == "openmp" and not HAS_LIBGOMP:
        pytest.skip("no OpenMP runtime on this machine")
    assert run_script(FORK, FJIT_THREADING=backend) == f"{backend} {backend} 0"


@needs_linux
@needs_openmp
def test_first_use_in_a_child_made_by_fork() -> None:
    """The parent used OpenMP without fjit; the child imports fjit and must keep out of it."""
    script = """
        import ctypes, os, signal
        gomp = ctypes.CDLL("libgomp.so.1")
        task = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: None)
        gomp.GOMP_parallel(task, None, 2, 0)
        child = os.fork()
        if child == 0:
            signal.alarm(15)
            from fjit.runtime import threads
            from tests.runtime.harness import Record, complete, parallel
            good = complete(parallel(Record(100, spin=50), 4), 4)
            os._exit(0 if good and threads.backend() == "pool" else 3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run_script(script) == "0"


@needs_linux
def test_fork_while_other_threads_are_at_work() -> None:
    script = """
        import os, signal, threading
        from tests.runtime.harness import Record, complete, parallel
        stop = threading.Event()
        def work():
            while not stop.is_set():
                parallel(Record(100, spin=50), 4)
        team = [threading.Thread(target=work) for _ in range(3)]
        for thread in team: thread.start()
        codes = []
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(10)
                os._exit(0 if complete(parallel(Record(100, spin=50), 4), 4) else 3)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.set()
        for thread in team: thread.join()
        print(codes)
    """
    assert run_script(script, FJIT_THREADING="pool") == "[0, 0, 0, 0, 0]"


@x86
@pytest.mark.parametrize("nthreads", [1, 4])
def test_control_word_is_default_inside_and_kept_outside(nthreads: int) -> None:
    flush_and_round_up = 0x1F80 | 0x8040 | 0x4000
    record = Record(200, spin=100)
    assert word_after(record, flush_and_round_up, nthreads) == flush_and_round_up
    assert complete(record, nthreads)
    assert {int(word) & ~0x3F for word in np.unique(record.words)} == {0x1F80}


@x86
def test_pool_workers_have_the_default_word() -> None:
    script = """
        import numpy as np
        from tests.runtime.harness import Record, complete, parallel, word_after
        for _ in range(20):
            record = Record(200, spin=100)
            assert word_after(record, 0x9FC0, 4) == 0x9FC0 and complete(record, 4)
            assert {int(word) & ~0x3F for word in np.unique(record.words)} == {0x1F80}
        print("kept")
    """
    assert run_script(script, FJIT_THREADING="pool") == "kept"


def test_helpers_take_no_signals() -> None:
    script = """
        import os, signal, time
        from tests.runtime.harness import Record, complete, parallel
        seen = []
        signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
        parallel(Record(400, spin=50), 4)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert complete(parallel(Record(400, spin=50), 4), 4)
        print(len(seen))
    """
    assert run_script(script, FJIT_THREADING="pool") == "1"


def test_fork_join_cost_is_a_small_number() -> None:
    alone = threads.measure_fork_join(1, task_us=20.0)
    assert 0.0 <= alone < 1e6


def test_sleeping_helpers_are_woken() -> None:
    """Long pauses between loops put helpers to sleep; each loop must still get their help."""
    script = """
        import time
        from tests.runtime.harness import Record, complete, parallel
        helped, end = 0, time.monotonic() + 10
        while helped < 5 and time.monotonic() < end:
            time.sleep(0.005)
            record = parallel(Record(40, spin=2000), 2)
            assert complete(record, 2)
            helped += int(record.workers.max()) > 0
        print(helped)
    """
    assert run_script(script, FJIT_THREADING="pool") == "5"


def test_loops_from_many_threads_in_this_process() -> None:
    records: list[Record] = []
    team = [
        threading.Thread(target=lambda: records.append(parallel(Record(300, spin=5), 2)))
        for _ in range(8)
    ]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    assert len(records) == 8 and all(complete(record, 2) for record in records)
