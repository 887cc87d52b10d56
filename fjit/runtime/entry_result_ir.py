"""The end of the native entry as LLVM IR text: what the function returns, and what it writes.

Takes the arrays that the kernels filled, gives the function's result. Invariant: each of the arrays
is returned or dropped; arguments change only here, when nothing can ask for the call to run again.

    trim (results as long as a mask selects) -> write_back (into arguments) -> finish

`{name}` stands for the place of a word in a record, names in capitals for constants of entry_ir.
"""

from typing import Final

RESULT: Final = """
; A result's array cut down to the extents that the kernels found, or null. It takes the array over.
define internal ptr @trimmed(ptr %info, ptr %array, ptr %extents) {
entry:
  %shape = alloca [MAX_DIMS x i64], align 64
  %dims = alloca { ptr, i32 }
  %ndim = call i64 @word(ptr %info, i64 1)
  %bounds = call ptr @pointer(ptr %info, i64 2)
  %symbols = call ptr @pointer(ptr %info, i64 5)
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %sized ]
  %kept = phi i64 [ 1, %entry ], [ %kept.next, %sized ]
  %size = phi i64 [ 1, %entry ], [ %size.next, %sized ]
  %end = icmp sge i64 %i, %ndim
  br i1 %end, label %choose, label %body
body:
  %symbol = call i64 @word(ptr %symbols, i64 %i)
  %bound = call i64 @word(ptr %bounds, i64 %i)
  %fixed = icmp slt i64 %symbol, 0
  br i1 %fixed, label %sized, label %found
found:
  %count = call i64 @word(ptr %extents, i64 %symbol)
  br label %sized
sized:
  %extent = phi i64 [ %bound, %body ], [ %count, %found ]
  call void @put(ptr %shape, i64 %i, i64 %extent)
  %kept.next = mul i64 %kept, %extent
  %size.next = mul i64 %size, %bound
  %next = add i64 %i, 1
  br label %head
choose:
  %is.leading = call i64 @word(ptr %info, i64 6)
  %leading = icmp ne i64 %is.leading, 0
  %half = lshr i64 %size, 1
  %most = icmp sge i64 %kept, %half
  %in.place = and i1 %leading, %most
  %ndim.32 = trunc i64 %ndim to i32
  br i1 %in.place, label %resize, label %copy
resize:
  %dims.length = getelementptr i8, ptr %dims, i64 8
  store ptr %shape, ptr %dims
  store i32 %ndim.32, ptr %dims.length
  %resizer = load ptr, ptr @fjit_resize
  %none = call ptr %resizer(ptr %array, ptr %dims, i32 0, i32 0)
  %stuck = icmp eq ptr %none, null
  br i1 %stuck, label %fail, label %resized
resized:
  call void @Py_DecRef(ptr %none)
  ret ptr %array
copy:
  %dtype = call ptr @pointer(ptr %info, i64 0)
  %data = call ptr @pointer(ptr %array, i64 2)
  %strides = call ptr @pointer(ptr %array, i64 5)
  %type = load ptr, ptr @fjit_array_type
  %new = load ptr, ptr @fjit_new_array
  call void @Py_IncRef(ptr %dtype)
  %view = call ptr %new(ptr %type, ptr %dtype, i32 %ndim.32, ptr %shape, ptr %strides, ptr %data,
                        i32 0, ptr null)
  %no.view = icmp eq ptr %view, null
  br i1 %no.view, label %fail, label %viewed
viewed:
  %copier = load ptr, ptr @fjit_copy_array
  %fresh = call ptr %copier(ptr %view, i32 2)
  call void @Py_DecRef(ptr %view)
  call void @Py_DecRef(ptr %array)
  ret ptr %fresh
fail:
  call void @Py_DecRef(ptr %array)
  ret ptr null
}

; Trims all results; false where one failed, and then none of them is left.
define internal i1 @trim(ptr %record, ptr %results, ptr %extents) {
entry:
  %n = call i64 @word(ptr %record, i64 {nresults})
  %infos = call ptr @pointer(ptr %record, i64 {results})
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %keep ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %done, label %body
body:
  %next = add i64 %i, 1
  %at = mul i64 %i, RESULT_WORDS
  %info = getelementptr i64, ptr %infos, i64 %at
  %symbols = call i64 @word(ptr %info, i64 5)
  %static = icmp eq i64 %symbols, 0
  br i1 %static, label %keep, label %cut
cut:
  %slot = getelementptr ptr, ptr %results, i64 %i
  %array = load ptr, ptr %slot
  %fresh = call ptr @trimmed(ptr %info, ptr %array, ptr %extents)
  store ptr %fresh, ptr %slot
  %failed = icmp eq ptr %fresh, null
  br i1 %failed, label %no, label %keep
keep:
  br label %head
done:
  ret i1 true
no:
  call void @drop(ptr %results, i64 %i)
  %rest = getelementptr ptr, ptr %results, i64 %next
  %left = sub i64 %n, %next
  call void @drop(ptr %rest, i64 %left)
  ret i1 false
}

; New contents into arguments; the arrays that held them go. False where an error is to be raised.
define internal i1 @write_back(ptr %record, ptr %results, ptr %objects, ptr %held) {
entry:
  %n = call i64 @word(ptr %record, i64 {nwrites})
  %list = call ptr @pointer(ptr %record, i64 {writes})
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %gone ]
  %good = phi i1 [ true, %entry ], [ %good.next, %gone ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %done, label %body
body:
  %at = mul i64 %i, WRITE_WORDS
  %write = getelementptr i64, ptr %list, i64 %at
  %place = call i64 @word(ptr %write, i64 1)
  %output = call i64 @word(ptr %write, i64 2)
  %bytes = call i64 @word(ptr %write, i64 3)
  %target = call ptr @object_at(ptr %objects, ptr %held, i64 %place)
  %source = call ptr @pointer(ptr %results, i64 %output)
  %alike = icmp sge i64 %bytes, 0
  br i1 %alike, label %copy, label %convert
copy:
  %to = call ptr @pointer(ptr %target, i64 2)
  %from = call ptr @pointer(ptr %source, i64 2)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  br label %gone
convert:
  %region = call ptr @pointer(ptr %write, i64 4)
  %whole = icmp eq ptr %region, null
  br i1 %whole, label %into, label %part
part:
  %shown = call ptr @part_of(ptr %region, ptr %target)
  %failed = icmp eq ptr %shown, null
  br i1 %failed, label %gone, label %into
into:
  %array = phi ptr [ %target, %convert ], [ %shown, %part ]
  %copier = load ptr, ptr @fjit_copy_into
  %error = call i32 %copier(ptr %array, ptr %source)
  %written = icmp eq i32 %error, 0
  br i1 %whole, label %gone, label %unshow
unshow:
  call void @Py_DecRef(ptr %array)
  br label %gone
gone:
  %right = phi i1 [ true, %copy ], [ false, %part ], [ %written, %into ], [ %written, %unshow ]
  %good.next = and i1 %good, %right
  call void @Py_DecRef(ptr %source)
  %next = add i64 %i, 1
  br label %head
done:
  ret i1 %good
}

; Replaces what `returned` lists by the leaves of the result, each a reference of our own.
define internal void @leaves_of(ptr %record, ptr %results, ptr %objects, ptr %leaves) {
entry:
  %n = call i64 @word(ptr %record, i64 {nreturned})
  %list = call ptr @pointer(ptr %record, i64 {returned})
  %to.scalar = load ptr, ptr @fjit_return_array
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %keep ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %done, label %body
body:
  %at = mul i64 %i, RETURNED_WORDS
  %leaf = getelementptr i64, ptr %list, i64 %at
  %from = call i64 @word(ptr %leaf, i64 0)
  %number = call i64 @word(ptr %leaf, i64 1)
  switch i64 %from, label %output [ i64 SCALAR, label %scalar  i64 GIVEN, label %given ]
output:
  %array = call ptr @pointer(ptr %results, i64 %number)
  br label %keep
scalar:
  %single = call ptr @pointer(ptr %results, i64 %number)
  %picked = call ptr %to.scalar(ptr %single)
  br label %keep
given:
  %object = call ptr @pointer(ptr %objects, i64 %number)
  call void @Py_IncRef(ptr %object)
  br label %keep
keep:
  %value = phi ptr [ %array, %output ], [ %picked, %scalar ], [ %object, %given ]
  %slot = getelementptr ptr, ptr %leaves, i64 %i
  store ptr %value, ptr %slot
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}

; The function's result from its leaves, which it takes over.
define internal ptr @finish(ptr %record, ptr %leaves) {
entry:
  %n = call i64 @word(ptr %record, i64 {nreturned})
  %form = call i64 @word(ptr %record, i64 {form})
  %finisher = call ptr @pointer(ptr %record, i64 {finisher})
  switch i64 %form, label %python [ i64 ALONE, label %one  i64 JOINED, label %tuple
                                    i64 CONSTANT, label %constant ]
one:
  %first = load ptr, ptr %leaves
  ret ptr %first
constant:
  call void @Py_IncRef(ptr %finisher)
  ret ptr %finisher
python:
  %made = call ptr @PyObject_Vectorcall(ptr %finisher, ptr %leaves, i64 %n, ptr null)
  call void @drop(ptr %leaves, i64 %n)
  ret ptr %made
tuple:
  %new = call ptr @PyTuple_New(i64 %n)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %no, label %items
items:
  %k = phi i64 [ 0, %tuple ], [ %k.next, %item ]
  %items.end = icmp sge i64 %k, %n
  br i1 %items.end, label %filled, label %item
item:
  %part = call ptr @pointer(ptr %leaves, i64 %k)
  %error = call i32 @PyTuple_SetItem(ptr %new, i64 %k, ptr %part)
  %k.next = add i64 %k, 1
  br label %items
filled:
  ret ptr %new
no:
  call void @drop(ptr %leaves, i64 %n)
  ret ptr null
}

; The whole of a call: 1 where the kernels met an error, so that Python runs it again.
define internal ptr @run(ptr %record, ptr %values, ptr %objects, ptr %held) {
entry:
  %results = alloca [MAX_RESULTS x ptr], align 64
  %leaves = alloca [MAX_RESULTS x ptr], align 64
  %extents = alloca [MAX_SYMBOLS x i64], align 64
  %status = call i64 @execute(ptr %record, ptr %values, ptr %objects, ptr %held, ptr %results,
                              ptr %extents)
  switch i64 %status, label %no [ i64 0, label %filled  i64 1, label %again ]
again:
  ret ptr inttoptr (i64 1 to ptr)
no:
  ret ptr null
filled:
  %nsymbols = call i64 @word(ptr %record, i64 {nsymbols})
  %static = icmp eq i64 %nsymbols, 0
  br i1 %static, label %sized, label %cut
cut:
  %trimmed = call i1 @trim(ptr %record, ptr %results, ptr %extents)
  br i1 %trimmed, label %sized, label %no
sized:
  %nwrites = call i64 @word(ptr %record, i64 {nwrites})
  %pure = icmp eq i64 %nwrites, 0
  br i1 %pure, label %good, label %write
write:
  %written = call i1 @write_back(ptr %record, ptr %results, ptr %objects, ptr %held)
  call void @leaves_of(ptr %record, ptr %results, ptr %objects, ptr %leaves)
  br i1 %written, label %finishing, label %failed
failed:
  %n = call i64 @word(ptr %record, i64 {nreturned})
  call void @drop(ptr %leaves, i64 %n)
  ret ptr null
good:
  call void @leaves_of(ptr %record, ptr %results, ptr %objects, ptr %leaves)
  br label %finishing
finishing:
  call void @add(ptr %record, i64 {hits}, i64 1)
  %result = call ptr @finish(ptr %record, ptr %leaves)
  ret ptr %result
}
"""
