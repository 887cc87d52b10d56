"""The first part of the native entry as LLVM IR text: whether a call's arguments fit a record.

Takes a record and the arguments as CPython hands them over, gives the objects (arguments, and
behind them what is in their containers) and the values of the leaves: an array's address, a
number's bits.
Invariant: nothing is changed and no reference is taken but by `refer`; objects are borrowed.

    call_fits -> objects_of -> leaves_fit -> refer

`{name}` stands for the place of a word in a record, names in capitals for constants of entry_ir.
"""

from typing import Final

ARGUMENTS: Final = """
define internal i1 @same_words(ptr %a, ptr %b, i64 %n) alwaysinline {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %done, label %body
body:
  %x = call i64 @word(ptr %a, i64 %i)
  %y = call i64 @word(ptr %b, i64 %i)
  %next = add i64 %i, 1
  %same = icmp eq i64 %x, %y
  br i1 %same, label %head, label %done
done:
  %all = phi i1 [ true, %head ], [ false, %body ]
  ret i1 %all
}

; dtype, rank, shape, strides and writeability; gives the address of the data, or 0.
define internal i64 @array_fits(ptr %object, ptr %kind) {
entry:
  %type = call ptr @pointer(ptr %object, i64 1)
  %array = load ptr, ptr @fjit_array_type
  %is.array = icmp eq ptr %type, %array
  br i1 %is.array, label %head, label %no
head:
  %dtype = call i64 @word(ptr %object, i64 7)
  %dtype.want = call i64 @word(ptr %kind, i64 1)
  %same.dtype = icmp eq i64 %dtype, %dtype.want
  %ndim.at = getelementptr i8, ptr %object, i64 24
  %ndim.32 = load i32, ptr %ndim.at
  %ndim = zext i32 %ndim.32 to i64
  %ndim.want = call i64 @word(ptr %kind, i64 2)
  %same.ndim = icmp eq i64 %ndim, %ndim.want
  %flags.at = getelementptr i8, ptr %object, i64 64
  %flags = load i32, ptr %flags.at
  %writeable.32 = and i32 %flags, 1024
  %writeable = zext i32 %writeable.32 to i64
  %writeable.want = call i64 @word(ptr %kind, i64 3)
  %equal.flag = icmp eq i64 %writeable, %writeable.want
  %any.flag = icmp slt i64 %writeable.want, 0
  %same.flag = or i1 %equal.flag, %any.flag
  %both = and i1 %same.dtype, %same.ndim
  %all = and i1 %both, %same.flag
  br i1 %all, label %extents, label %no
extents:
  %want = call ptr @pointer(ptr %kind, i64 4)
  %shape = call ptr @pointer(ptr %object, i64 4)
  %same.shape = call i1 @same_words(ptr %shape, ptr %want, i64 %ndim)
  br i1 %same.shape, label %steps, label %no
steps:
  %strides = call ptr @pointer(ptr %object, i64 5)
  %strides.want = getelementptr i64, ptr %want, i64 %ndim
  %same.strides = call i1 @same_words(ptr %strides, ptr %strides.want, i64 %ndim)
  br i1 %same.strides, label %yes, label %no
yes:
  %data = call i64 @word(ptr %object, i64 2)
  ret i64 %data
no:
  ret i64 0
}

; Whether the first array with the same data is the one that it was in the trace.
define internal i1 @shares_as_before(ptr %kinds, ptr %values, i64 %i, i64 %data, i64 %first) {
entry:
  br label %head
head:
  %j = phi i64 [ 0, %entry ], [ %j.next, %next ]
  %end = icmp sge i64 %j, %i
  br i1 %end, label %found, label %body
body:
  %at = mul i64 %j, LEAF_WORDS
  %kind = call i64 @word(ptr %kinds, i64 %at)
  %other = call i64 @word(ptr %values, i64 %j)
  %is.array = icmp eq i64 %kind, ARRAY
  %same = icmp eq i64 %other, %data
  %hit = and i1 %is.array, %same
  br i1 %hit, label %found, label %next
next:
  %j.next = add i64 %j, 1
  br label %head
found:
  %right = icmp eq i64 %j, %first
  ret i1 %right
}

; The number of positional arguments, and the names of the others in their order.
define internal i1 @call_fits(ptr %record, i64 %nargs, ptr %kwnames) {
entry:
  %want = call i64 @word(ptr %record, i64 {nargs})
  %same.count = icmp eq i64 %nargs, %want
  br i1 %same.count, label %names, label %no
names:
  %kwnames.want = call ptr @pointer(ptr %record, i64 {kwnames})
  %same = icmp eq ptr %kwnames, %kwnames.want
  br i1 %same, label %yes, label %both
both:
  %none = icmp eq ptr %kwnames, null
  %none.want = icmp eq ptr %kwnames.want, null
  %either = or i1 %none, %none.want
  br i1 %either, label %no, label %sizes
sizes:
  %n = call i64 @PyTuple_Size(ptr %kwnames)
  %n.want = call i64 @PyTuple_Size(ptr %kwnames.want)
  %same.size = icmp eq i64 %n, %n.want
  br i1 %same.size, label %head, label %no
head:
  %i = phi i64 [ 0, %sizes ], [ %i.next, %body ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %yes, label %body
body:
  %name = call ptr @PyTuple_GetItem(ptr %kwnames, i64 %i)
  %name.want = call ptr @PyTuple_GetItem(ptr %kwnames.want, i64 %i)
  %same.name = icmp eq ptr %name, %name.want
  %i.next = add i64 %i, 1
  br i1 %same.name, label %head, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; The size of a container whose type is known; the item at an index or key, borrowed, or null.
define internal i64 @size_of(i64 %kind, ptr %object) {
  switch i64 %kind, label %tuple [ i64 DICT, label %dict  i64 LIST, label %list ]
dict:
  %entries = call i64 @PyDict_Size(ptr %object)
  ret i64 %entries
list:
  %items = call i64 @PyList_Size(ptr %object)
  ret i64 %items
tuple:
  %parts = call i64 @PyTuple_Size(ptr %object)
  ret i64 %parts
}

define internal ptr @item_of(i64 %kind, ptr %object, i64 %index, ptr %keys) {
  switch i64 %kind, label %tuple [ i64 DICT, label %dict  i64 LIST, label %list ]
dict:
  %key = call ptr @pointer(ptr %keys, i64 %index)
  %entry = call ptr @PyDict_GetItemWithError(ptr %object, ptr %key)
  ret ptr %entry
list:
  %item = call ptr @PyList_GetItem(ptr %object, i64 %index)
  ret ptr %item
tuple:
  %part = call ptr @PyTuple_GetItem(ptr %object, i64 %index)
  ret ptr %part
}

; The arguments, and behind them what is in containers; null if the containers are other ones.
define internal ptr @objects_of(ptr %record, ptr %args, i64 %nargs, ptr %inside) {
entry:
  %n = call i64 @word(ptr %record, i64 {ncontainers})
  %plain = icmp eq i64 %n, 0
  br i1 %plain, label %same, label %copy
same:
  ret ptr %args
copy:
  %list = call ptr @pointer(ptr %record, i64 {containers})
  %first.new = call i64 @word(ptr %list, i64 5)
  %bytes = shl i64 %first.new, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %inside, ptr %args, i64 %bytes, i1 false)
  br label %head
head:
  %i = phi i64 [ 0, %copy ], [ %i.next, %next ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %done, label %body
body:
  %at = mul i64 %i, CONTAINER_WORDS
  %container = getelementptr i64, ptr %list, i64 %at
  %place = call i64 @word(ptr %container, i64 0)
  %kind = call i64 @word(ptr %container, i64 1)
  %type.want = call ptr @pointer(ptr %container, i64 2)
  %size.want = call i64 @word(ptr %container, i64 3)
  %keys = call ptr @pointer(ptr %container, i64 4)
  %first = call i64 @word(ptr %container, i64 5)
  %object = call ptr @pointer(ptr %inside, i64 %place)
  %type = call ptr @pointer(ptr %object, i64 1)
  %same.type = icmp eq ptr %type, %type.want
  br i1 %same.type, label %sized, label %no
sized:
  %size = call i64 @size_of(i64 %kind, ptr %object)
  %same.size = icmp eq i64 %size, %size.want
  br i1 %same.size, label %items, label %no
items:
  %k = phi i64 [ 0, %sized ], [ %k.next, %keep ]
  %items.end = icmp sge i64 %k, %size
  br i1 %items.end, label %next, label %item
item:
  %found = call ptr @item_of(i64 %kind, ptr %object, i64 %k, ptr %keys)
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %no, label %keep
keep:
  %to = add i64 %first, %k
  %slot = getelementptr ptr, ptr %inside, i64 %to
  store ptr %found, ptr %slot
  %k.next = add i64 %k, 1
  br label %items
next:
  %i.next = add i64 %i, 1
  br label %head
done:
  ret ptr %inside
no:
  call void @PyErr_Clear()
  ret ptr null
}

; What is in containers is kept alive while other threads run; arguments are, by the caller.
define internal void @refer(ptr %record, ptr %objects, i1 %more) {
entry:
  %containers = call i64 @word(ptr %record, i64 {ncontainers})
  %n = call i64 @word(ptr %record, i64 {nleaves})
  %leaves = call ptr @pointer(ptr %record, i64 {leaves})
  %change = select i1 %more, ptr @Py_IncRef, ptr @Py_DecRef
  %plain = icmp eq i64 %containers, 0
  br i1 %plain, label %done, label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %done, label %body
body:
  %at = mul i64 %i, LEAF_WORDS
  %place.at = add i64 %at, 8
  %place = call i64 @word(ptr %leaves, i64 %place.at)
  %object = call ptr @pointer(ptr %objects, i64 %place)
  call void %change(ptr %object)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}

define internal i1 @leaves_fit(ptr %record, ptr %objects, ptr %values) {
entry:
  %overflow = alloca i32
  %n = call i64 @word(ptr %record, i64 {nleaves})
  %kinds = call ptr @pointer(ptr %record, i64 {leaves})
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %keep ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %yes, label %body
body:
  %at = mul i64 %i, LEAF_WORDS
  %kind = getelementptr i64, ptr %kinds, i64 %at
  %place = call i64 @word(ptr %kind, i64 8)
  %object = call ptr @pointer(ptr %objects, i64 %place)
  %type = call ptr @pointer(ptr %object, i64 1)
  %which = load i64, ptr %kind
  switch i64 %which, label %no [ i64 ARRAY, label %array  i64 FLOAT, label %float
                                 i64 INT, label %int  i64 BOOL, label %bool ]
array:
  %data = call i64 @array_fits(ptr %object, ptr %kind)
  %fits = icmp ne i64 %data, 0
  br i1 %fits, label %sharing, label %no
sharing:
  %first = call i64 @word(ptr %kind, i64 5)
  %shared = call i1 @shares_as_before(ptr %kinds, ptr %values, i64 %i, i64 %data, i64 %first)
  br i1 %shared, label %keep, label %no
float:
  %float.type = load ptr, ptr @fjit_float_type
  %is.float = icmp eq ptr %type, %float.type
  br i1 %is.float, label %float.value, label %no
float.value:
  %bits = call i64 @word(ptr %object, i64 2)
  br label %keep
int:
  %int.type = load ptr, ptr @fjit_int_type
  %is.int = icmp eq ptr %type, %int.type
  br i1 %is.int, label %int.value, label %no
int.value:
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  %over = load i32, ptr %overflow
  %exact = icmp eq i32 %over, 0
  %low = call i64 @word(ptr %kind, i64 6)
  %high = call i64 @word(ptr %kind, i64 7)
  %above = icmp sge i64 %number, %low
  %below = icmp sle i64 %number, %high
  %between = and i1 %above, %below
  %good = and i1 %between, %exact
  br i1 %good, label %keep, label %no
bool:
  %true = load ptr, ptr @fjit_true
  %false = load ptr, ptr @fjit_false
  %is.true = icmp eq ptr %object, %true
  %is.false = icmp eq ptr %object, %false
  %is.bool = or i1 %is.true, %is.false
  %truth = zext i1 %is.true to i64
  br i1 %is.bool, label %keep, label %no
keep:
  %value = phi i64 [ %data, %sharing ], [ %bits, %float.value ], [ %number, %int.value ],
                   [ %truth, %bool ]
  call void @put(ptr %values, i64 %i, i64 %value)
  %i.next = add i64 %i, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}
"""
