"""The memory of result arrays as LLVM IR text: NumPy's four data functions over a bounded pool.

Takes nothing, gives text whose `@fjit_handler` is a `PyDataMem_Handler` (NEP 49) and whose
`@fjit_method` is a Python function `(make, *args)` that calls `make(*args)` while that handler is
the current one. Invariant: no function waits for another thread, so that none can hang after a
fork; the blocks in the pool never exceed `@fjit_limit` bytes; every block carries its own size, so
that the size which NumPy passes to `free` is not needed.

A block is data behind 64 bytes of header. Blocks from 256 KiB on have a mapping of their own, and
from 4 MiB on begin at a huge page, which the system is asked for. The pool is a table of slots. A
slot is empty (0 bytes), in change (-1), or holds a block of so many bytes; whoever swaps that
number for -1 owns the slot until it stores the next number.
"""

SLOTS = 32
POOLED_BYTES = 256 * 1024  # smaller blocks come from malloc
HUGE_BYTES = 4 * 1024 * 1024  # as in NumPy: from here on huge pages pay
HANDLER_NAME = "fjit"

# Linux: protection read and write, a private anonymous mapping, and the advice for huge pages.
_STATE = """
%block = type { ptr, i64, i64 }       ; mapping (null: from malloc), its bytes, bytes of data

@fjit_limit = global i64 0            ; most bytes in the pool
@fjit_huge = global i32 1             ; whether to ask for huge pages
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
  %below = add i64 %align, 63         ; the header, then up to the next multiple
  %most = add i64 %address, %below
  %mask = sub i64 0, %align
  %aligned = and i64 %most, %mask
  %offset = sub i64 %aligned, %address
  %data = getelementptr i8, ptr %start, i64 %offset
  call void @head(ptr %data, ptr %start, i64 %length, i64 %room)
  %wanted = load i32, ptr @fjit_huge
  %allowed = icmp ne i32 %wanted, 0
  %advise = and i1 %large, %allowed
  br i1 %advise, label %huge, label %done
huge:
  %advised = call i32 @madvise(ptr %data, i64 %room, i32 14)
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

_DATA_FUNCTIONS = """
define internal ptr @data_malloc(ptr %ctx, i64 %bytes) {
  %large = icmp uge i64 %bytes, POOLED_BYTES
  br i1 %large, label %pool, label %little
pool:
  %quarter = lshr i64 %bytes, 2
  %high = add i64 %bytes, %quarter
  %kept = call ptr @take(i64 %bytes, i64 %high, i1 false)
  %found = icmp ne ptr %kept, null
  br i1 %found, label %done, label %new
done:
  ret ptr %kept
new:
  %data = call ptr @fresh(i64 %bytes)
  ret ptr %data
little:
  %block = call ptr @small(i64 %bytes)
  ret ptr %block
}

define internal ptr @data_calloc(ptr %ctx, i64 %count, i64 %size) {
  %pair = call {i64, i1} @llvm.umul.with.overflow.i64(i64 %count, i64 %size)
  %bytes = extractvalue {i64, i1} %pair, 0
  %overflow = extractvalue {i64, i1} %pair, 1
  br i1 %overflow, label %none, label %sized
sized:
  %large = icmp uge i64 %bytes, POOLED_BYTES
  br i1 %large, label %new, label %little
new:                                  ; fresh pages are zeros
  %data = call ptr @fresh(i64 %bytes)
  ret ptr %data
little:
  %block = call ptr @small(i64 %bytes)
  %failed = icmp eq ptr %block, null
  br i1 %failed, label %none, label %clean
clean:
  call void @llvm.memset.p0.i64(ptr %block, i8 0, i64 %bytes, i1 false)
  ret ptr %block
none:
  ret ptr null
}

; A block stays where it is if it is large enough and at least half of it remains in use.
define internal ptr @data_realloc(ptr %ctx, ptr %data, i64 %bytes) {
entry:
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %new, label %old
new:
  %first = call ptr @data_malloc(ptr %ctx, i64 %bytes)
  ret ptr %first
old:
  %room = call i64 @room(ptr %data)
  %half = lshr i64 %room, 1
  %enough = icmp ule i64 %bytes, %room
  %used = icmp uge i64 %bytes, %half
  %stays = and i1 %enough, %used
  br i1 %stays, label %same, label %move
same:
  ret ptr %data
move:
  %moved = call ptr @data_malloc(ptr %ctx, i64 %bytes)
  %failed = icmp eq ptr %moved, null
  br i1 %failed, label %none, label %copy
copy:
  %common = call i64 @llvm.umin.i64(i64 %room, i64 %bytes)
  call void @llvm.memcpy.p0.p0.i64(ptr %moved, ptr %data, i64 %common, i1 false)
  call void @data_free(ptr %ctx, ptr %data, i64 %room)
  ret ptr %moved
none:
  ret ptr null
}

define internal void @data_free(ptr %ctx, ptr %data, i64 %bytes) {
entry:
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %leave, label %some
some:
  %header = getelementptr i8, ptr %data, i64 -64
  %start = load ptr, ptr %header
  %little = icmp eq ptr %start, null
  br i1 %little, label %plain, label %pool
plain:
  call void @free(ptr %header)
  br label %leave
pool:
  call void @keep(ptr %data)
  br label %leave
leave:
  ret void
}

%handler = type { [127 x i8], i8, ptr, ptr, ptr, ptr, ptr }
@fjit_handler = global %handler { [127 x i8] c"NAME", i8 1, ptr null, ptr @data_malloc,
  ptr @data_calloc, ptr @data_realloc, ptr @data_free }
@fjit_capsule_name = constant [12 x i8] c"mem_handler\\00"
"""

_METHOD = """
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare void @Py_DecRef(ptr)

@fjit_set_handler = global ptr null   ; PyDataMem_SetHandler
@fjit_capsule = global ptr null       ; of @fjit_handler

; The current handler lives in a context variable: other threads and tasks do not see ours.
define internal ptr @with_handler(ptr %self, ptr %args, i64 %count) {
entry:
  %type = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  %set = load ptr, ptr @fjit_set_handler
  %capsule = load ptr, ptr @fjit_capsule
  %before = call ptr %set(ptr %capsule)
  %refused = icmp eq ptr %before, null
  br i1 %refused, label %none, label %call
call:
  %make = load ptr, ptr %args
  %rest = getelementptr ptr, ptr %args, i64 1
  %rest.count = sub i64 %count, 1
  %array = call ptr @PyObject_Vectorcall(ptr %make, ptr %rest, i64 %rest.count, ptr null)
  %raised = icmp eq ptr %array, null
  br i1 %raised, label %hold, label %restore
hold:
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %trace)
  br label %restore
restore:
  %ours = call ptr %set(ptr %before)
  call void @Py_DecRef(ptr %before)
  call void @Py_DecRef(ptr %ours)
  br i1 %raised, label %raise, label %check
raise:
  %t = load ptr, ptr %type
  %v = load ptr, ptr %value
  %b = load ptr, ptr %trace
  call void @PyErr_Restore(ptr %t, ptr %v, ptr %b)
  ret ptr null
check:
  %stuck = icmp eq ptr %ours, null
  br i1 %stuck, label %drop, label %done
drop:
  call void @Py_DecRef(ptr %array)
  ret ptr null
done:
  ret ptr %array
none:
  ret ptr null
}

%method = type { ptr, ptr, i32, ptr }
@method.name = internal constant [13 x i8] c"with_handler\\00"
@fjit_method = global %method { ptr @method.name, ptr @with_handler, i32 128, ptr null }
"""


def results_ir() -> str:
    """Return the whole module's text, for 64-bit Linux and CPython with its lock."""
    text = _STATE + _BLOCKS + _POOL + _DATA_FUNCTIONS + _METHOD
    name = HANDLER_NAME + "\\00" * (127 - len(HANDLER_NAME))
    for word, value in (
        ("SLOTS", str(SLOTS)),
        ("POOLED_BYTES", str(POOLED_BYTES)),
        ("HUGE_BYTES", str(HUGE_BYTES)),
        ("NAME", name),
    ):
        text = text.replace(word, value)
    return text
