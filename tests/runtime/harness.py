"""Native phases for the tests of threads: they record which worker ran each task, and with what
control word. Imported by tests and by the processes that tests start."""

import ctypes
import functools

import numpy as np
from numpy.typing import NDArray

from fjit.runtime import llvm, threads
from fjit.runtime.host import host
from fjit.runtime.jit import Module, compile_module
from fjit.runtime.parallel_ir import control_word_ir

READ_WORD = {
    "x86_64": """
define internal i64 @read_word() {
  %slot = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %word = load i32, ptr %slot
  %wide = zext i32 %word to i64
  ret i64 %wide
}
""",
    "aarch64": """
define internal i64 @read_word() {
  %word = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %word
}
""",
}

PHASES = """
define void @mark(ptr %args, i64 %begin, i64 %end, i64 %worker) {
entry:
  %counts = load ptr, ptr %args
  %workers.at = getelementptr ptr, ptr %args, i64 1
  %workers = load ptr, ptr %workers.at
  %words.at = getelementptr ptr, ptr %args, i64 2
  %words = load ptr, ptr %words.at
  %spin.at = getelementptr i64, ptr %args, i64 3
  %spin = load i64, ptr %spin.at
  br label %task
task:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %marked ]
  %count.at = getelementptr i64, ptr %counts, i64 %i
  %before = atomicrmw add ptr %count.at, i64 1 monotonic
  %worker.at = getelementptr i64, ptr %workers, i64 %i
  store i64 %worker, ptr %worker.at
  %word = call i64 @read_word()
  %word.at = getelementptr i64, ptr %words, i64 %i
  store i64 %word, ptr %word.at
  br label %pause
pause:
  %k = phi i64 [ 0, %task ], [ %k.next, %pause ]
  call void @fjit_pause()
  %k.next = add i64 %k, 1
  %again = icmp slt i64 %k.next, %spin
  br i1 %again, label %pause, label %marked
marked:
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %end
  br i1 %more, label %task, label %leave
leave:
  ret void
}

define i64 @with_word(i64 %word, ptr %parallel, ptr %args, i64 %ntasks, i64 %n, i64 %grain) {
  %old = call i64 @fjit_fp_enter()
  call void @fjit_fp_leave(i64 %word)
  call void %parallel(ptr @mark, ptr %args, i64 %ntasks, i64 %n, i64 %grain)
  %after = call i64 @read_word()
  call void @fjit_fp_leave(i64 %old)
  ret i64 %after
}

define void @nested(ptr %args, i64 %begin, i64 %end, i64 %worker) {
  %parallel.at = getelementptr ptr, ptr %args, i64 4
  %parallel = load ptr, ptr %parallel.at
  call void %parallel(ptr @mark, ptr %args, i64 64, i64 4, i64 1)
  ret void
}
"""


def phases() -> Module:
    """Compile once, whichever thread comes first; LLVM's lock is safe across a fork."""
    with llvm.LOCK:
        return _phases()


@functools.cache
def _phases() -> Module:
    target = host()
    text = control_word_ir(target.architecture) + READ_WORD[target.architecture] + PHASES
    return compile_module(text, target=target, cache=False)


class Record:
    """The memory that one parallel loop of `mark` writes."""

    def __init__(self, ntasks: int, spin: int = 0) -> None:
        self.counts: NDArray[np.int64] = np.zeros(ntasks, np.int64)
        self.workers: NDArray[np.int64] = np.full(ntasks, -1, np.int64)
        self.words: NDArray[np.int64] = np.zeros(ntasks, np.int64)
        pointers = [a.ctypes.data for a in (self.counts, self.workers, self.words)]
        self.args = np.array([*pointers, spin, threads.address_of_parallel()], np.int64)


def parallel(record: Record, nthreads: int, grain: int = 1, *, phase: str = "mark") -> Record:
    """Run `fjit_parallel` over the record's tasks; ctypes lets go of the GIL."""
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)
    run = prototype(threads.address_of_parallel())
    address = phases().address(phase)
    ntasks = len(record.counts)
    run(address, record.args.ctypes.data, ntasks, nthreads, grain)
    return record


def complete(record: Record, nthreads: int) -> bool:
    """Whether each task ran once, on a worker below `nthreads`."""
    workers = record.workers
    return bool(
        (record.counts == 1).all() and (workers >= 0).all() and (workers < max(nthreads, 1)).all()
    )


def word_after(record: Record, word: int, nthreads: int) -> int:
    """Return the caller's control word after a loop that it entered with `word`."""
    prototype = ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3
    )
    run = prototype(phases().address("with_word"))
    address = threads.address_of_parallel()
    return int(run(word, address, record.args.ctypes.data, len(record.counts), nthreads, 1))
