"""The memory functions of NumPy arrays as LLVM IR text, over the pool of result_pool_ir.

Takes nothing, gives text whose `@fjit_handler` is a `PyDataMem_Handler` (NEP 49) and whose
`@fjit_method` is a Python function `(make, *args)` that calls `make(*args)` while that handler is
the current one. Invariant: the functions call no Python and need no lock; they do not rely on the
size that NumPy passes to `free`.
"""

from fjit.runtime.result_pool_ir import POOLED_BYTES, result_pool_ir

HANDLER_NAME = "fjit"

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
    name = HANDLER_NAME + "\\00" * (127 - len(HANDLER_NAME))
    functions = _DATA_FUNCTIONS.replace("POOLED_BYTES", str(POOLED_BYTES)).replace("NAME", name)
    return result_pool_ir() + functions + _METHOD
