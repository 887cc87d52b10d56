"""The native parallel-for, as LLVM IR text: a team by OpenMP, by an own thread pool, or the caller.

Takes the processor's architecture and the system, gives the text of one module. Invariant: which
thread runs a task never changes the task; the floating-point control word inside a phase is the
default, and the caller finds its own word as it left it.

    void fjit_parallel(ptr phase, ptr args, i64 ntasks, i64 nthreads, i64 grain)

calls `void phase(ptr args, i64 begin, i64 end, i64 worker)` over chunks of `grain` tasks that the
team takes from one atomic counter, with `worker` in [0, nthreads), no two at once with the same.

The pool itself is in pool_ir.
"""

from fjit.runtime.pool_ir import pool_ir

MODE_SERIAL, MODE_OPENMP, MODE_POOL = 0, 1, 2

# Default control words: round to nearest, all exceptions masked, denormals kept.
_FP_X86 = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal i64 @fjit_fp_enter() {
  %slot = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %old = load i32, ptr %slot
  store i32 8064, ptr %slot                              ; 0x1F80
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  %wide = zext i32 %old to i64
  ret i64 %wide
}

define internal void @fjit_fp_leave(i64 %word) {
  %slot = alloca i32
  %old = trunc i64 %word to i32
  store i32 %old, ptr %slot
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  ret void
}

declare void @llvm.x86.sse2.pause()

define internal void @fjit_pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}
"""

_FP_ARM = """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal i64 @fjit_fp_enter() {
  %old = call i64 @llvm.aarch64.get.fpcr()
  call void @llvm.aarch64.set.fpcr(i64 0)
  ret i64 %old
}

define internal void @fjit_fp_leave(i64 %word) {
  call void @llvm.aarch64.set.fpcr(i64 %word)
  ret void
}

declare void @llvm.aarch64.hint(i32)

define internal void @fjit_pause() alwaysinline {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}
"""

_FP_OTHER = """
define internal i64 @fjit_fp_enter() {
  ret i64 0
}

define internal void @fjit_fp_leave(i64 %word) {
  ret void
}

define internal void @fjit_pause() alwaysinline {
  ret void
}
"""

_STATE = """
%job = type { ptr, ptr, i64, i64, i64, i64 }   ; phase, args, ntasks, grain, next task, next worker

@fjit_mode = global i32 0                      ; MODE_SERIAL, MODE_OPENMP or MODE_POOL
@fjit_gomp_parallel = global ptr null
@fjit_cpus = global i64 1                      ; processors of this process

@active = internal global i64 0                ; threads inside parallel regions, callers included

declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
"""

_TEAM = """
; What every member of a team runs: OpenMP's thread function too.
define internal void @fjit_member(ptr %job) {
entry:
  %word = call i64 @fjit_fp_enter()
  %phase.at = getelementptr %job, ptr %job, i32 0, i32 0
  %args.at = getelementptr %job, ptr %job, i32 0, i32 1
  %ntasks.at = getelementptr %job, ptr %job, i32 0, i32 2
  %grain.at = getelementptr %job, ptr %job, i32 0, i32 3
  %next.at = getelementptr %job, ptr %job, i32 0, i32 4
  %worker.at = getelementptr %job, ptr %job, i32 0, i32 5
  %phase = load ptr, ptr %phase.at
  %args = load ptr, ptr %args.at
  %ntasks = load i64, ptr %ntasks.at
  %grain = load i64, ptr %grain.at
  %worker = atomicrmw add ptr %worker.at, i64 1 monotonic
  br label %take
take:
  %begin = atomicrmw add ptr %next.at, i64 %grain monotonic
  %some = icmp slt i64 %begin, %ntasks
  br i1 %some, label %run, label %leave
run:
  %left = sub i64 %ntasks, %begin
  %count = call i64 @llvm.smin.i64(i64 %left, i64 %grain)
  %end = add i64 %begin, %count
  call void %phase(ptr %args, i64 %begin, i64 %end, i64 %worker)
  br label %take
leave:
  call void @fjit_fp_leave(i64 %word)
  ret void
}

define internal void @fjit_serial(ptr %phase, ptr %args, i64 %ntasks) {
  %word = call i64 @fjit_fp_enter()
  call void %phase(ptr %args, i64 0, i64 %ntasks, i64 0)
  call void @fjit_fp_leave(i64 %word)
  ret void
}

define void @fjit_parallel(ptr %phase, ptr %args, i64 %ntasks, i64 %nthreads, i64 %grain.asked) {
entry:
  %job = alloca %job, align 64
  %none = icmp slt i64 %ntasks, 1
  br i1 %none, label %leave, label %sized
sized:
  %grain = call i64 @llvm.smax.i64(i64 %grain.asked, i64 1)
  %one = icmp sle i64 %nthreads, 1
  %small = icmp sle i64 %ntasks, %grain
  %alone = or i1 %one, %small
  br i1 %alone, label %serial, label %team
serial:
  call void @fjit_serial(ptr %phase, ptr %args, i64 %ntasks)
  br label %leave
team:                                          ; no more threads than chunks or free processors
  %more = sub i64 %ntasks, 1
  %chunks.less = sdiv i64 %more, %grain
  %chunks = add i64 %chunks.less, 1
  %wanted = call i64 @llvm.smin.i64(i64 %nthreads, i64 %chunks)
  %cpus = load i64, ptr @fjit_cpus
  %most = call i64 @llvm.smax.i64(i64 %cpus, i64 %nthreads)
  %active = load atomic i64, ptr @active monotonic, align 8
  %room = sub i64 %most, %active
  %n = call i64 @llvm.smin.i64(i64 %wanted, i64 %room)
  %enough = icmp sgt i64 %n, 1
  %mode = load atomic i32, ptr @fjit_mode monotonic, align 4
  %mode.used = select i1 %enough, i32 %mode, i32 0
  store ptr %phase, ptr %job
  %args.at = getelementptr %job, ptr %job, i32 0, i32 1
  store ptr %args, ptr %args.at
  %ntasks.at = getelementptr %job, ptr %job, i32 0, i32 2
  store i64 %ntasks, ptr %ntasks.at
  %grain.at = getelementptr %job, ptr %job, i32 0, i32 3
  store i64 %grain, ptr %grain.at
  %next.at = getelementptr %job, ptr %job, i32 0, i32 4
  store i64 0, ptr %next.at
  %worker.at = getelementptr %job, ptr %job, i32 0, i32 5
  store i64 0, ptr %worker.at
  switch i32 %mode.used, label %serial [ i32 1, label %openmp  i32 2, label %pool ]
openmp:
  %gomp = load ptr, ptr @fjit_gomp_parallel
  %n32 = trunc i64 %n to i32
  %entered = atomicrmw add ptr @active, i64 %n monotonic
  call void %gomp(ptr @fjit_member, ptr %job, i32 %n32, i32 0)
  %left.openmp = atomicrmw sub ptr @active, i64 %n monotonic
  br label %leave
pool:
  %was = atomicrmw xchg ptr @busy, i32 1 acquire
  %taken = icmp ne i32 %was, 0
  br i1 %taken, label %serial, label %own
own:
  %entered.pool = atomicrmw add ptr @active, i64 %n monotonic
  call void @fjit_pool_run(ptr %job, i64 %n)
  %left.pool = atomicrmw sub ptr @active, i64 %n monotonic
  store atomic i32 0, ptr @busy release, align 4
  br label %leave
leave:
  ret void
}

; Steps one after the other, each five words: phase, offset of its arguments in the table, tasks,
; grain, and whether several threads take it.
define void @fjit_run(ptr %table, ptr %steps, i64 %count, i64 %threads) {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %body, label %exit
body:
  %row = mul i64 %k, 40
  %at = getelementptr i8, ptr %steps, i64 %row
  %phase = load ptr, ptr %at
  %at1 = getelementptr i8, ptr %at, i64 8
  %offset = load i64, ptr %at1
  %at2 = getelementptr i8, ptr %at, i64 16
  %tasks = load i64, ptr %at2
  %at3 = getelementptr i8, ptr %at, i64 24
  %grain = load i64, ptr %at3
  %at4 = getelementptr i8, ptr %at, i64 32
  %wide = load i64, ptr %at4
  %serial = icmp eq i64 %wide, 0
  %n = select i1 %serial, i64 1, i64 %threads
  %args = getelementptr i8, ptr %table, i64 %offset
  call void @fjit_parallel(ptr %phase, ptr %args, i64 %tasks, i64 %n, i64 %grain)
  %next = add i64 %k, 1
  br label %head
exit:
  ret void
}

; A phase of units that belong to several members. Its arguments are words of the table: their own
; offset, the number of members, and for each its first unit, phase, offset of arguments, tasks and
; tasks a unit. Members come in the order of their units.
define void @fjit_batch(ptr %args, i64 %begin, i64 %end, i64 %worker) {
entry:
  %own = load i64, ptr %args
  %back = sub i64 0, %own
  %table = getelementptr i8, ptr %args, i64 %back
  %count.at = getelementptr i8, ptr %args, i64 8
  %count = load i64, ptr %count.at
  %members = getelementptr i8, ptr %args, i64 16
  br label %unit
unit:
  %u = phi i64 [ %begin, %entry ], [ %u.next, %found ]
  %more = icmp slt i64 %u, %end
  br i1 %more, label %search, label %leave
search:                                        ; the last member whose first unit is not beyond
  %low = phi i64 [ 0, %unit ], [ %low.next, %halve ]
  %high = phi i64 [ %count, %unit ], [ %high.next, %halve ]
  %span = sub i64 %high, %low
  %wide = icmp sgt i64 %span, 1
  br i1 %wide, label %halve, label %found
halve:
  %sum = add i64 %low, %high
  %middle = lshr i64 %sum, 1
  %middle.row = mul i64 %middle, 40
  %middle.at = getelementptr i8, ptr %members, i64 %middle.row
  %middle.first = load i64, ptr %middle.at
  %beyond = icmp sgt i64 %middle.first, %u
  %low.next = select i1 %beyond, i64 %low, i64 %middle
  %high.next = select i1 %beyond, i64 %middle, i64 %high
  br label %search
found:
  %row = mul i64 %low, 40
  %at = getelementptr i8, ptr %members, i64 %row
  %first = load i64, ptr %at
  %at1 = getelementptr i8, ptr %at, i64 8
  %phase = load ptr, ptr %at1
  %at2 = getelementptr i8, ptr %at, i64 16
  %offset = load i64, ptr %at2
  %at3 = getelementptr i8, ptr %at, i64 24
  %tasks = load i64, ptr %at3
  %at4 = getelementptr i8, ptr %at, i64 32
  %grain = load i64, ptr %at4
  %chunk = sub i64 %u, %first
  %from = mul i64 %chunk, %grain
  %to.full = add i64 %from, %grain
  %to = call i64 @llvm.smin.i64(i64 %to.full, i64 %tasks)
  %member.args = getelementptr i8, ptr %table, i64 %offset
  call void %phase(ptr %member.args, i64 %from, i64 %to, i64 %worker)
  %u.next = add i64 %u, 1
  br label %unit
leave:
  ret void
}

; For measuring the cost of a fork and join from outside of Python: each task pauses for the number
; of rounds that `args` points to.
define internal void @fjit_idle(ptr %args, i64 %begin, i64 %end, i64 %worker) {
entry:
  %each = load i64, ptr %args
  %tasks = sub i64 %end, %begin
  %rounds = mul i64 %tasks, %each
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %i.next, %again ]
  call void @fjit_pause()
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %rounds
  br i1 %more, label %again, label %leave
leave:
  ret void
}

define void @fjit_fork_join(i64 %ntasks, i64 %nthreads, i64 %rounds, i64 %times) {
entry:
  %args = alloca i64
  store i64 %rounds, ptr %args
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %i.next, %again ]
  call void @fjit_parallel(ptr @fjit_idle, ptr %args, i64 %ntasks, i64 %nthreads, i64 1)
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %times
  br i1 %more, label %again, label %leave
leave:
  ret void
}
"""


def control_word_ir(architecture: str) -> str:
    """Return `i64 @fjit_fp_enter()`, `void @fjit_fp_leave(i64)` and `void @fjit_pause()`.

    `enter` sets the default floating-point control word and gives the old one, for `leave`.
    """
    return {"x86_64": _FP_X86, "aarch64": _FP_ARM, "arm64": _FP_ARM}.get(architecture, _FP_OTHER)


def parallel_ir(architecture: str, system: str) -> str:
    """Return the module's text for `platform.system()` and the first part of the LLVM triple."""
    return control_word_ir(architecture) + _STATE + _TEAM + pool_ir(system)
