"""The own thread pool of the native parallel-for, as LLVM IR text.

Takes the system, gives text that belongs into the module of parallel_ir, which posts jobs by
`@fjit_pool_run(job, n)` while it owns `@busy`. Invariant: a helper touches a job only with a
ticket, and the caller leaves only when every ticket holder is done.

The pool runs one job at a time. The caller posts a job and one ticket per helper it wants; a helper
that takes a ticket works until the counter is used up. The caller works too, then withdraws the
tickets nobody took and waits only for helpers that took one, so a helper that wakes late costs
nothing. Helpers spin for `@fjit_spin` rounds and then sleep on a condition variable. A pair of
sequentially consistent accesses on either side (generation and sleepers, finished and waiting)
makes sure that a sleeper is woken: of two threads at least one sees what the other wrote.

Linux in a virtual machine takes a halted processor for a busy one and wakes a helper on the
processor of the caller, where it waits behind the very thread that it should help (measured: 400 us
for two tasks of 200 us; 280 us once apart). So a helper that went to sleep there is told to keep
off that processor before it is woken.
"""

# Mutexes and condition variables get 128 bytes each, more than any system asks for.
_STATE = """
%helper = type { i64, i32, i32 }               ; thread, processor it slept on, processor it avoids

@fjit_spin = global i64 0                      ; rounds a thread spins before it sleeps
@fjit_pool_size = global i64 0                 ; helpers made so far
@helpers = internal global [256 x %helper] zeroinitializer
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

; Adds helpers until there are `wanted`, 256 or the system refuses; they take no signals.
define internal void @fjit_pool_grow(i64 %asked) {
entry:
  %wanted = call i64 @llvm.smin.i64(i64 %asked, i64 256)
  %all = alloca [128 x i8], align 16
  %old = alloca [128 x i8], align 16
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
  %slot = getelementptr %helper, ptr @helpers, i64 %size
  %slept.at = getelementptr %helper, ptr %slot, i32 0, i32 1
  %away.at = getelementptr %helper, ptr %slot, i32 0, i32 2
  %here = call i32 @fjit_processor()
  store i32 %here, ptr %slept.at
  store i32 -1, ptr %away.at
  %failed = call i32 @pthread_create(ptr %slot, ptr null, ptr @fjit_helper, ptr %slot)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %made, label %unmask
made:
  %handle = load ptr, ptr %slot
  %detached = call i32 @pthread_detach(ptr %handle)
  %size.next = add i64 %size, 1
  store i64 %size.next, ptr @fjit_pool_size
  br label %check
unmask:
  %unmasked = call i32 @pthread_sigmask(i32 SIG_SETMASK, ptr %old, ptr null)
  call void @fjit_spread()
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
  call void @fjit_spread()
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
define internal ptr @fjit_helper(ptr %slot) {
entry:
  %slept.at = getelementptr %helper, ptr %slot, i32 0, i32 1
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
  %here = call i32 @fjit_processor()
  store atomic i32 %here, ptr %slept.at monotonic, align 4
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

_SPREAD_LINUX = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @pthread_setaffinity_np(ptr, i64, ptr)

define internal i32 @fjit_processor() alwaysinline {
  %cpu = call i32 @sched_getcpu()
  ret i32 %cpu
}

; Keeps helpers that slept on the caller's processor off it.
define internal void @fjit_spread() {
entry:
  %mask = alloca [128 x i8], align 16
  %size = load i64, ptr @fjit_pool_size
  %here = call i32 @sched_getcpu()
  %known = icmp ult i32 %here, 1024
  br i1 %known, label %check, label %leave
check:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %look, label %leave
look:
  %slot = getelementptr %helper, ptr @helpers, i64 %i
  %slept.at = getelementptr %helper, ptr %slot, i32 0, i32 1
  %away.at = getelementptr %helper, ptr %slot, i32 0, i32 2
  %slept = load atomic i32, ptr %slept.at monotonic, align 4
  %away = load i32, ptr %away.at
  %together = icmp eq i32 %slept, %here
  %untold = icmp ne i32 %away, %here
  %tell = and i1 %together, %untold
  br i1 %tell, label %read, label %next
read:
  %got = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %failed = icmp slt i32 %got, 0
  br i1 %failed, label %leave, label %move
move:                                          ; an empty mask is refused, and nothing changes
  store i32 %here, ptr %away.at
  %byte.index = lshr i32 %here, 3
  %byte.at = getelementptr i8, ptr %mask, i32 %byte.index
  %byte = load i8, ptr %byte.at
  %bit.index = and i32 %here, 7
  %bit.index.byte = trunc i32 %bit.index to i8
  %bit = shl i8 1, %bit.index.byte
  %others = xor i8 %bit, -1
  %rest = and i8 %byte, %others
  store i8 %rest, ptr %byte.at
  %thread = load ptr, ptr %slot
  %moved = call i32 @pthread_setaffinity_np(ptr %thread, i64 128, ptr %mask)
  br label %next
next:
  %i.next = add i64 %i, 1
  br label %check
leave:
  ret void
}
"""

_SPREAD_OTHER = """
define internal i32 @fjit_processor() alwaysinline {
  ret i32 -1
}

define internal void @fjit_spread() {
  ret void
}
"""


def pool_ir(system: str) -> str:
    """Return the pool's text for `platform.system()`."""
    linux = system == "Linux"
    pool = _POOL.replace("SIG_SETMASK", "2" if linux else "3")
    return _STATE + pool + (_SPREAD_LINUX if linux else _SPREAD_OTHER)
