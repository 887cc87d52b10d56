"""The native parallel-for, as LLVM IR text: a team by OpenMP, by an own thread pool, or the caller.

Takes the processor's architecture and the system, gives the text of one module. Invariant: which
thread runs a task never changes the task; the floating-point control word inside a phase is the
default, and the caller finds its own word as it left it.

    void fjit_parallel(ptr phase, ptr args, i64 ntasks, i64 nthreads, i64 grain)

calls `void phase(ptr args, i64 begin, i64 end, i64 worker)` over chunks of `grain` tasks that the
team takes from one atomic counter, with `worker` in [0, nthreads), no two at once with the same.

The pool runs one job at a time. The caller posts a job and one ticket per helper it wants; a helper
that takes a ticket works until the counter is used up. The caller works too, then withdraws the
tickets nobody took and waits only for helpers that took one, so a helper that wakes late costs
nothing. Helpers spin for `@fjit_spin` rounds and then sleep on a condition variable. A pair of
sequentially consistent accesses on either side (generation and sleepers, finished and waiting)
makes sure that a sleeper is woken: of two threads at least one sees what the other wrote.
"""

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

# Mutexes and condition variables get 128 bytes each, more than any system asks for.
_STATE = """
%job = type { ptr, ptr, i64, i64, i64, i64 }   ; phase, args, ntasks, grain, next task, next worker

@fjit_mode = global i32 0                      ; MODE_SERIAL, MODE_OPENMP or MODE_POOL
@fjit_gomp_parallel = global ptr null
@fjit_cpus = global i64 1                      ; processors of this process
@fjit_spin = global i64 0                      ; rounds a thread spins before it sleeps
@fjit_pool_size = global i64 0                 ; helpers made so far

@active = internal global i64 0                ; threads inside parallel regions, callers included
@busy = internal global i32 0                  ; 1 while a job owns the pool
@job = internal global ptr null
@tickets = internal global i64 0, align 64
@generation = internal global i64 0, align 64  ; jobs posted
@sleepers = internal global i64 0
@finished = internal global i64 0, align 64    ; ticket holders that are done
@waiting = internal global i32 0
@mutex = internal global [128 x i8] zeroinitializer, align 64
@work = internal global [128 x i8] zeroinitializer, align 64
@done = internal global [128 x i8] zeroinitializer, align 64

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
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

_POOL = """
; Makes the pool empty: at the start, and in a forked child, where no helper lives on.
define void @fjit_pool_reset(i32 %mode) {
  store i64 0, ptr @fjit_pool_size
  store i64 0, ptr @active
  store i64 0, ptr @tickets
  store i64 0, ptr @generation
  store i64 0, ptr @sleepers
  store i64 0, ptr @finished
  store i32 0, ptr @waiting
  store i32 0, ptr @busy
  call void @llvm.memset.p0.i64(ptr @mutex, i8 0, i64 128, i1 false)
  call void @llvm.memset.p0.i64(ptr @work, i8 0, i64 128, i1 false)
  call void @llvm.memset.p0.i64(ptr @done, i8 0, i64 128, i1 false)
  %m = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %w = call i32 @pthread_cond_init(ptr @work, ptr null)
  %d = call i32 @pthread_cond_init(ptr @done, ptr null)
  store i32 %mode, ptr @fjit_mode
  ret void
}

; Adds helpers until there are `wanted` or the system refuses; they take no signals.
define internal void @fjit_pool_grow(i64 %wanted) {
entry:
  %all = alloca [128 x i8], align 16
  %old = alloca [128 x i8], align 16
  %thread = alloca ptr
  %size.first = load i64, ptr @fjit_pool_size
  %enough.first = icmp sge i64 %size.first, %wanted
  br i1 %enough.first, label %leave, label %mask
mask:
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  %masked = call i32 @pthread_sigmask(i32 SIG_SETMASK, ptr %all, ptr %old)
  br label %check
check:
  %size = load i64, ptr @fjit_pool_size
  %enough = icmp sge i64 %size, %wanted
  br i1 %enough, label %unmask, label %make
make:
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @fjit_helper, ptr null)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %made, label %unmask
made:
  %handle = load ptr, ptr %thread
  %detached = call i32 @pthread_detach(ptr %handle)
  %size.next = add i64 %size, 1
  store i64 %size.next, ptr @fjit_pool_size
  br label %check
unmask:
  %unmasked = call i32 @pthread_sigmask(i32 SIG_SETMASK, ptr %old, ptr null)
  br label %leave
leave:
  ret void
}

define internal void @fjit_pool_run(ptr %job, i64 %n) {
entry:
  %helpers.asked = sub i64 %n, 1
  call void @fjit_pool_grow(i64 %helpers.asked)
  %size = load i64, ptr @fjit_pool_size
  %helpers = call i64 @llvm.smin.i64(i64 %helpers.asked, i64 %size)
  store ptr %job, ptr @job
  store atomic i64 0, ptr @finished monotonic, align 8
  store atomic i64 %helpers, ptr @tickets release, align 8
  %posted = atomicrmw add ptr @generation, i64 1 seq_cst
  %asleep = load atomic i64, ptr @sleepers seq_cst, align 8
  %wake = icmp sgt i64 %asleep, 0
  br i1 %wake, label %signal, label %work
signal:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %single = icmp eq i64 %helpers, 1
  br i1 %single, label %signal.one, label %signal.all
signal.one:
  %woken = call i32 @pthread_cond_signal(ptr @work)
  br label %signalled
signal.all:
  %woken.all = call i32 @pthread_cond_broadcast(ptr @work)
  br label %signalled
signalled:
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %work
work:
  call void @fjit_member(ptr %job)
  %untaken = atomicrmw xchg ptr @tickets, i64 0 acq_rel
  %taken = sub i64 %helpers, %untaken
  %spin.most = load i64, ptr @fjit_spin
  br label %spin
spin:
  %round = phi i64 [ 0, %work ], [ %round.next, %pause ]
  %seen = load atomic i64, ptr @finished acquire, align 8
  %all = icmp sge i64 %seen, %taken
  br i1 %all, label %leave, label %spin.check
spin.check:
  %tired = icmp sge i64 %round, %spin.most
  br i1 %tired, label %sleep, label %pause
pause:
  call void @fjit_pause()
  %round.next = add i64 %round, 1
  br label %spin
sleep:
  %locked.done = call i32 @pthread_mutex_lock(ptr @mutex)
  store atomic i32 1, ptr @waiting seq_cst, align 4
  br label %sleep.check
sleep.check:
  %seen.asleep = load atomic i64, ptr @finished seq_cst, align 8
  %all.asleep = icmp sge i64 %seen.asleep, %taken
  br i1 %all.asleep, label %awake, label %sleep.wait
sleep.wait:
  %waited = call i32 @pthread_cond_wait(ptr @done, ptr @mutex)
  br label %sleep.check
awake:
  store atomic i32 0, ptr @waiting monotonic, align 4
  %unlocked.done = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %leave
leave:
  ret void
}

; Takes one ticket if there is one.
define internal i1 @fjit_ticket() {
entry:
  %first = load atomic i64, ptr @tickets acquire, align 8
  br label %try
try:
  %count = phi i64 [ %first, %entry ], [ %now, %swap ]
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %swap, label %no
swap:
  %less = sub i64 %count, 1
  %pair = cmpxchg ptr @tickets, i64 %count, i64 %less acq_rel acquire
  %now = extractvalue { i64, i1 } %pair, 0
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %yes, label %try
yes:
  ret i1 true
no:
  ret i1 false
}

; A helper's whole life. `seen` is the last job it looked at.
define internal ptr @fjit_helper(ptr %unused) {
entry:
  br label %look
look:
  %seen = phi i64 [ -1, %entry ], [ %next.spin, %finish ], [ %next.spin, %wake.caller ],
                  [ %next.spin, %fresh ]
  %spin.most = load i64, ptr @fjit_spin
  br label %spin
spin:
  %round = phi i64 [ 0, %look ], [ %round.next, %pause ], [ 0, %awake ]
  %next.spin = load atomic i64, ptr @generation seq_cst, align 8
  %news = icmp ne i64 %next.spin, %seen
  br i1 %news, label %fresh, label %spin.check
spin.check:
  %tired = icmp sge i64 %round, %spin.most
  br i1 %tired, label %sleep, label %pause
pause:
  call void @fjit_pause()
  %round.next = add i64 %round, 1
  br label %spin
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex)
  %sleeping = atomicrmw add ptr @sleepers, i64 1 seq_cst
  br label %sleep.check
sleep.check:
  %next.sleep = load atomic i64, ptr @generation seq_cst, align 8
  %news.sleep = icmp ne i64 %next.sleep, %seen
  br i1 %news.sleep, label %awake, label %sleep.wait
sleep.wait:
  %waited = call i32 @pthread_cond_wait(ptr @work, ptr @mutex)
  br label %sleep.check
awake:
  %woken = atomicrmw sub ptr @sleepers, i64 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %spin
fresh:
  %mine = call i1 @fjit_ticket()
  br i1 %mine, label %work, label %look
work:
  %job = load ptr, ptr @job
  call void @fjit_member(ptr %job)
  br label %finish
finish:
  %before = atomicrmw add ptr @finished, i64 1 seq_cst
  %asleep = load atomic i32, ptr @waiting seq_cst, align 4
  %wake = icmp ne i32 %asleep, 0
  br i1 %wake, label %wake.caller, label %look
wake.caller:
  %locked.done = call i32 @pthread_mutex_lock(ptr @mutex)
  %signalled = call i32 @pthread_cond_signal(ptr @done)
  %unlocked.done = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %look
}
"""


def control_word_ir(architecture: str) -> str:
    """Return `i64 @fjit_fp_enter()`, `void @fjit_fp_leave(i64)` and `void @fjit_pause()`.

    `enter` sets the default floating-point control word and gives the old one, for `leave`.
    """
    return {"x86_64": _FP_X86, "aarch64": _FP_ARM, "arm64": _FP_ARM}.get(architecture, _FP_OTHER)


def parallel_ir(architecture: str, system: str) -> str:
    """Return the module's text for `platform.system()` and the first part of the LLVM triple."""
    sig_setmask = "2" if system == "Linux" else "3"
    pool = _POOL.replace("SIG_SETMASK", sig_setmask)
    return control_word_ir(architecture) + _STATE + _TEAM + pool
