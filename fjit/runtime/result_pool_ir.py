"""A bounded pool of memory blocks as LLVM IR text: what `results_ir` takes its memory from.

Takes nothing, gives the text of `@take`, `@fresh`, `@small` and `@keep`, and of three functions for
Python: `@fjit_results_clear`, `@fjit_results_held` and `@fjit_results_forked`. Invariant: no
function waits for another thread, so that none can hang after a fork; the blocks in the pool never
exceed `@fjit_limit` bytes; every block carries its own size.

A block is data behind 64 bytes of header. Blocks from 256 KiB on have a mapping of their own, and
from 4 MiB on begin in the first lines of a huge page, which the system is asked for. Blocks begin
at different lines of a page, since arrays that are read side by side would otherwise compete for
the same sets of the cache. The pool is a table of slots. A slot is empty (0 bytes), in change (-1),
or holds a block of so many bytes; whoever swaps that number for -1 owns the slot until it stores
the next number.
"""

SLOTS = 32
POOLED_BYTES = 256 * 1024  # smaller blocks come from malloc
HUGE_BYTES = 4 * 1024 * 1024  # as in NumPy: from here on huge pages pay

# Linux: protection read and write, a private anonymous mapping, and the advice for huge pages.
_STATE = """
%block = type { ptr, i64, i64 }       ; mapping (null: from malloc), its bytes, bytes of data

@fjit_limit = global i64 0            ; most bytes in the pool
@fjit_huge = global i64 1             ; whether to ask for huge pages
@held = internal global i64 0, align 64
@clock = internal global i64 0
@slot.bytes = internal global [SLOTS x i64] zeroinitializer, align 64
@slot.data = internal global [SLOTS x ptr] zeroinitializer, align 64
@slot.time = internal global [SLOTS x i64] zeroinitializer, align 64

declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
"""

_BLOCKS = """
; A fresh block of zeros, or null.
define internal ptr @map(i64 %bytes) {
entry:
  %over = add i64 %bytes, 4095
  %room = and i64 %over, -4096
  %large = icmp uge i64 %room, HUGE_BYTES
  %align = select i1 %large, i64 2097152, i64 64
  %pad = select i1 %large, i64 2097152, i64 4096
  %length = add i64 %room, %pad
  %start = call ptr @mmap(ptr null, i64 %length, i32 3, i32 34, i32 -1, i64 0)
  %address = ptrtoint ptr %start to i64
  %failed = icmp eq i64 %address, -1
  br i1 %failed, label %none, label %place
place:
  %below = sub i64 %align, 1
  %most = add i64 %address, %below
  %mask = sub i64 0, %align
  %aligned = and i64 %most, %mask
  %ticket = atomicrmw add ptr @clock, i64 1 monotonic
  %colour = urem i64 %ticket, 12
  %lines = mul i64 %colour, 320
  %offset = add i64 %lines, 64        ; room for the header
  %from = sub i64 %aligned, %address
  %page = getelementptr i8, ptr %start, i64 %from
  %data = getelementptr i8, ptr %page, i64 %offset
  call void @head(ptr %data, ptr %start, i64 %length, i64 %room)
  %wanted = load i64, ptr @fjit_huge
  %allowed = icmp ne i64 %wanted, 0
  %advise = and i1 %large, %allowed
  br i1 %advise, label %huge, label %done
huge:
  %advised = call i32 @madvise(ptr %page, i64 %room, i32 14)
  br label %done
done:
  ret ptr %data
none:
  ret ptr null
}

; A fresh block; if there is no memory, once more without the pool.
define internal ptr @fresh(i64 %bytes) {
  %first = call ptr @map(i64 %bytes)
  %failed = icmp eq ptr %first, null
  br i1 %failed, label %again, label %done
again:
  call void @fjit_results_clear()
  %second = call ptr @map(i64 %bytes)
  ret ptr %second
done:
  ret ptr %first
}

define internal ptr @small(i64 %bytes) {
  %length = add i64 %bytes, 64
  %start = call ptr @malloc(i64 %length)
  %failed = icmp eq ptr %start, null
  br i1 %failed, label %none, label %place
place:
  %data = getelementptr i8, ptr %start, i64 64
  call void @head(ptr %data, ptr null, i64 %length, i64 %bytes)
  ret ptr %data
none:
  ret ptr null
}

define internal void @head(ptr %data, ptr %start, i64 %length, i64 %room) alwaysinline {
  %header = getelementptr i8, ptr %data, i64 -64
  %length.at = getelementptr %block, ptr %header, i32 0, i32 1
  %room.at = getelementptr %block, ptr %header, i32 0, i32 2
  store ptr %start, ptr %header
  store i64 %length, ptr %length.at
  store i64 %room, ptr %room.at
  ret void
}

define internal i64 @room(ptr %data) alwaysinline {
  %header = getelementptr i8, ptr %data, i64 -64
  %room.at = getelementptr %block, ptr %header, i32 0, i32 2
  %room = load i64, ptr %room.at
  ret i64 %room
}

define internal void @unmap(ptr %data) {
  %header = getelementptr i8, ptr %data, i64 -64
  %length.at = getelementptr %block, ptr %header, i32 0, i32 1
  %start = load ptr, ptr %header
  %length = load i64, ptr %length.at
  %failed = call i32 @munmap(ptr %start, i64 %length)
  ret void
}
"""

_POOL = """
; Empties a slot that holds `bytes`: its block, or null if another thread was first.
define internal ptr @claim(i64 %i, i64 %bytes) {
  %at = getelementptr [SLOTS x i64], ptr @slot.bytes, i64 0, i64 %i
  %pair = cmpxchg ptr %at, i64 %bytes, i64 -1 acquire monotonic
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %mine, label %lost
mine:
  %data.at = getelementptr [SLOTS x ptr], ptr @slot.data, i64 0, i64 %i
  %data = load ptr, ptr %data.at
  store atomic i64 0, ptr %at release, align 8
  %before = atomicrmw sub ptr @held, i64 %bytes monotonic
  ret ptr %data
lost:
  ret ptr null
}

; The slot that a request for `low` to `high` bytes takes, -1 for none: of the smallest blocks the
; one freed last, which may still be in the cache. With `oldest`, the one freed first of all.
define internal i64 @choose(i64 %low, i64 %high, i1 %oldest) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %chosen = phi i64 [ -1, %entry ], [ %chosen.next, %next ]
  %least = phi i64 [ -1, %entry ], [ %least.next, %next ]
  %when = phi i64 [ 0, %entry ], [ %when.next, %next ]
  %at = getelementptr [SLOTS x i64], ptr @slot.bytes, i64 0, i64 %i
  %time.at = getelementptr [SLOTS x i64], ptr @slot.time, i64 0, i64 %i
  %bytes = load atomic i64, ptr %at monotonic, align 8
  %time = load atomic i64, ptr %time.at monotonic, align 8
  %enough = icmp uge i64 %bytes, %low
  %close = icmp ule i64 %bytes, %high
  %fits = and i1 %enough, %close
  %size = select i1 %oldest, i64 %time, i64 %bytes
  %less = icmp ult i64 %size, %least
  %same = icmp eq i64 %size, %least
  %later = icmp ugt i64 %time, %when
  %tie = and i1 %same, %later
  %better = or i1 %less, %tie
  %take = and i1 %fits, %better
  %chosen.next = select i1 %take, i64 %i, i64 %chosen
  %least.next = select i1 %take, i64 %size, i64 %least
  %when.next = select i1 %take, i64 %time, i64 %when
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, SLOTS
  br i1 %more, label %next, label %done
done:
  ret i64 %chosen.next
}

; Takes a block of `low` to `high` bytes out of the pool, or null. A retry means that another
; thread got on.
define internal ptr @take(i64 %low, i64 %high, i1 %oldest) {
entry:
  br label %look
look:
  %i = call i64 @choose(i64 %low, i64 %high, i1 %oldest)
  %none = icmp slt i64 %i, 0
  br i1 %none, label %leave, label %try
try:
  %at = getelementptr [SLOTS x i64], ptr @slot.bytes, i64 0, i64 %i
  %bytes = load atomic i64, ptr %at monotonic, align 8
  %enough = icmp uge i64 %bytes, %low
  %close = icmp ule i64 %bytes, %high
  %still = and i1 %enough, %close
  br i1 %still, label %swap, label %look
swap:
  %data = call ptr @claim(i64 %i, i64 %bytes)
  %lost = icmp eq ptr %data, null
  br i1 %lost, label %look, label %leave
leave:
  %result = phi ptr [ null, %look ], [ %data, %swap ]
  ret ptr %result
}

; Puts a block into an empty slot; false if there is none.
define internal i1 @put(ptr %data, i64 %bytes) {
entry:
  br label %try
try:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %at = getelementptr [SLOTS x i64], ptr @slot.bytes, i64 0, i64 %i
  %pair = cmpxchg ptr %at, i64 0, i64 -1 acquire monotonic
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %mine, label %next
mine:
  %data.at = getelementptr [SLOTS x ptr], ptr @slot.data, i64 0, i64 %i
  %time.at = getelementptr [SLOTS x i64], ptr @slot.time, i64 0, i64 %i
  %now = atomicrmw add ptr @clock, i64 1 monotonic
  store ptr %data, ptr %data.at
  store atomic i64 %now, ptr %time.at monotonic, align 8
  store atomic i64 %bytes, ptr %at release, align 8
  ret i1 true
next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, SLOTS
  br i1 %more, label %try, label %full
full:
  ret i1 false
}

; Keeps a freed block if the limit allows it, at the cost of those freed longest ago.
define internal void @keep(ptr %data) {
entry:
  %bytes = call i64 @room(ptr %data)
  %limit = load i64, ptr @fjit_limit
  %never = icmp ugt i64 %bytes, %limit
  br i1 %never, label %drop, label %reserve
reserve:
  %before = atomicrmw add ptr @held, i64 %bytes monotonic
  %after = add i64 %before, %bytes
  %over = icmp ugt i64 %after, %limit
  br i1 %over, label %release, label %place
place:
  %placed = call i1 @put(ptr %data, i64 %bytes)
  br i1 %placed, label %leave, label %release
release:
  %undone = atomicrmw sub ptr @held, i64 %bytes monotonic
  %old = call ptr @take(i64 1, i64 -2, i1 true)
  %nothing = icmp eq ptr %old, null
  br i1 %nothing, label %drop, label %evict
evict:
  call void @unmap(ptr %old)
  br label %reserve
drop:
  call void @unmap(ptr %data)
  br label %leave
leave:
  ret void
}

; Gives all that the pool holds back to the system.
define void @fjit_results_clear() {
entry:
  br label %next
next:
  %old = call ptr @take(i64 1, i64 -2, i1 true)
  %nothing = icmp eq ptr %old, null
  br i1 %nothing, label %leave, label %drop
drop:
  call void @unmap(ptr %old)
  br label %next
leave:
  ret void
}

define i64 @fjit_results_held() {
  %bytes = load atomic i64, ptr @held monotonic, align 8
  ret i64 %bytes
}

; In a forked child: frees the slots that threads of the parent had in change, and counts anew.
define void @fjit_results_forked() {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %next ]
  %at = getelementptr [SLOTS x i64], ptr @slot.bytes, i64 0, i64 %i
  %bytes = load i64, ptr %at
  %changing = icmp eq i64 %bytes, -1
  %settled = select i1 %changing, i64 0, i64 %bytes
  store i64 %settled, ptr %at
  %sum.next = add i64 %sum, %settled
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, SLOTS
  br i1 %more, label %next, label %done
done:
  store i64 %sum.next, ptr @held
  ret void
}
"""


def result_pool_ir() -> str:
    """Return the pool's text, for 64-bit Linux."""
    text = _STATE + _BLOCKS + _POOL
    return text.replace("SLOTS", str(SLOTS)).replace("HUGE_BYTES", str(HUGE_BYTES))
