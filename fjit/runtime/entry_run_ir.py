"""The middle of the native entry as LLVM IR text: results, table, kernels.

Takes a record that fits a call and the values of its arguments, gives filled arrays. Invariant:
each array made here is handed on, or dropped where something fails; the kernels run once, unless
they report an error, which is left to Python to raise: it runs the call again.

    execute(record, values):  make results -> copy and fill the table -> kernels

`{name}` stands for the place of a word in a record, names in capitals for constants of entry_ir.
"""

from typing import Final

RUN: Final = """
define internal i64 @team(i64 %asked) {
entry:
  %limit = load i64, ptr @fjit_limit
  %get = load ptr, ptr @fjit_openmp_limit
  %has = icmp ne ptr %get, null
  br i1 %has, label %ask, label %sized
ask:
  %openmp.32 = call i32 %get()
  %openmp = sext i32 %openmp.32 to i64
  %less = call i64 @llvm.smin.i64(i64 %openmp, i64 %limit)
  br label %sized
sized:
  %most = phi i64 [ %limit, %entry ], [ %less, %ask ]
  %any = icmp eq i64 %asked, 0
  %wanted = select i1 %any, i64 %most, i64 %asked
  %n = call i64 @llvm.smin.i64(i64 %most, i64 %wanted)
  %team = call i64 @llvm.smax.i64(i64 %n, i64 1)
  ret i64 %team
}

; A block of at least so many bytes: the one that the record keeps, or a new one. Its size stands in
; front of it, on a page of its own.
define internal ptr @take_scratch(ptr %record, i64 %bytes) {
entry:
  %fresh = alloca ptr
  %slot = getelementptr i64, ptr %record, i64 {scratch}
  %kept.word = atomicrmw xchg ptr %slot, i64 0 acquire
  %kept = inttoptr i64 %kept.word to ptr
  %none = icmp eq i64 %kept.word, 0
  br i1 %none, label %new, label %check
check:
  %size = load i64, ptr %kept
  %enough = icmp sge i64 %size, %bytes
  br i1 %enough, label %use, label %small
use:
  ret ptr %kept
small:
  call void @free(ptr %kept)
  br label %new
new:
  %with.head = add i64 %bytes, 4096
  %error = call i32 @posix_memalign(ptr %fresh, i64 4096, i64 %with.head)
  %bad = icmp ne i32 %error, 0
  br i1 %bad, label %no, label %made
made:
  %block = load ptr, ptr %fresh
  store i64 %bytes, ptr %block
  ret ptr %block
no:
  ret ptr null
}

define internal void @give_scratch(ptr %record, ptr %block) {
entry:
  %slot = getelementptr i64, ptr %record, i64 {scratch}
  %word = ptrtoint ptr %block to i64
  %other.word = atomicrmw xchg ptr %slot, i64 %word release
  %other = inttoptr i64 %other.word to ptr
  call void @free(ptr %other)
  ret void
}

define internal void @drop(ptr %objects, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %done, label %body
body:
  %object = call ptr @pointer(ptr %objects, i64 %i)
  call void @Py_DecRef(ptr %object)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}

; An argument or, below 0, a captured array.
define internal ptr @object_at(ptr %objects, ptr %held, i64 %place) {
  %captured = icmp slt i64 %place, 0
  %behind = xor i64 %place, -1
  %list = select i1 %captured, ptr %held, ptr %objects
  %index = select i1 %captured, i64 %behind, i64 %place
  %object = call ptr @pointer(ptr %list, i64 %index)
  ret ptr %object
}

define internal ptr @make_plain(ptr %info) {
  %dtype = call ptr @pointer(ptr %info, i64 0)
  %ndim = call i64 @word(ptr %info, i64 1)
  %ndim.32 = trunc i64 %ndim to i32
  %shape = call ptr @pointer(ptr %info, i64 2)
  %strides = call ptr @pointer(ptr %info, i64 3)
  %type = load ptr, ptr @fjit_array_type
  %new = load ptr, ptr @fjit_new_array
  call void @Py_IncRef(ptr %dtype)
  %array = call ptr %new(ptr %type, ptr %dtype, i32 %ndim.32, ptr %shape, ptr %strides, ptr null,
                         i32 0, ptr null)
  ret ptr %array
}

; A region of an array: an array of its own over the same memory, or null.
define internal ptr @part_of(ptr %region, ptr %object) {
  %dtype = call ptr @pointer(ptr %region, i64 0)
  %ndim = call i64 @word(ptr %region, i64 1)
  %ndim.32 = trunc i64 %ndim to i32
  %shape = call ptr @pointer(ptr %region, i64 2)
  %strides = call ptr @pointer(ptr %region, i64 3)
  %offset = call i64 @word(ptr %region, i64 4)
  %data = call ptr @pointer(ptr %object, i64 2)
  %first = getelementptr i8, ptr %data, i64 %offset
  %type = load ptr, ptr @fjit_array_type
  %new = load ptr, ptr @fjit_new_array
  call void @Py_IncRef(ptr %dtype)
  %array = call ptr %new(ptr %type, ptr %dtype, i32 %ndim.32, ptr %shape, ptr %strides, ptr %first,
                         i32 1024, ptr null)
  ret ptr %array
}

; Memory of large results comes from the pool: its handler is NumPy's for this one call. A result
; that lies over an input is the input's array, or shows a region of it.
define internal ptr @make(ptr %info, ptr %objects, ptr %held) {
entry:
  %over = call i64 @word(ptr %info, i64 7)
  %is.over = icmp ne i64 %over, 0
  br i1 %is.over, label %known, label %new
known:
  %place = call i64 @word(ptr %info, i64 8)
  %object = call ptr @object_at(ptr %objects, ptr %held, i64 %place)
  %region = call ptr @pointer(ptr %info, i64 9)
  %whole = icmp eq ptr %region, null
  br i1 %whole, label %itself, label %part
itself:
  call void @Py_IncRef(ptr %object)
  ret ptr %object
part:
  %shown = call ptr @part_of(ptr %region, ptr %object)
  ret ptr %shown
new:
  %pooled = call i64 @word(ptr %info, i64 4)
  %set = load ptr, ptr @fjit_set_data
  %has = icmp ne ptr %set, null
  %wanted = icmp ne i64 %pooled, 0
  %pool = and i1 %has, %wanted
  br i1 %pool, label %switch, label %plain
plain:
  %array.plain = call ptr @make_plain(ptr %info)
  ret ptr %array.plain
switch:
  %handler = load ptr, ptr @fjit_data
  %before = call ptr %set(ptr %handler)
  %refused = icmp eq ptr %before, null
  br i1 %refused, label %no, label %pooling
pooling:
  %array = call ptr @make_plain(ptr %info)
  %ours = call ptr %set(ptr %before)
  call void @Py_DecRef(ptr %before)
  %stuck = icmp eq ptr %ours, null
  br i1 %stuck, label %done, label %back
back:
  call void @Py_DecRef(ptr %ours)
  br label %done
done:
  ret ptr %array
no:
  ret ptr null
}

; Pairs (place, offset): table[place] = offset * scale + base.
define internal void @place(ptr %table, i64 %n, ptr %pairs, i64 %scale, i64 %base) alwaysinline {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %done, label %body
body:
  %two = shl i64 %i, 1
  %one = or i64 %two, 1
  %at = call i64 @word(ptr %pairs, i64 %two)
  %offset = call i64 @word(ptr %pairs, i64 %one)
  %scaled = mul i64 %offset, %scale
  %value = add i64 %scaled, %base
  call void @put(ptr %table, i64 %at, i64 %value)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}

; Pairs (place, number): table[place] = values[number].
define internal void @patch(ptr %table, i64 %n, ptr %pairs, ptr %values) alwaysinline {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %done, label %body
body:
  %two = shl i64 %i, 1
  %one = or i64 %two, 1
  %at = call i64 @word(ptr %pairs, i64 %two)
  %number = call i64 @word(ptr %pairs, i64 %one)
  %value = call i64 @word(ptr %values, i64 %number)
  call void @put(ptr %table, i64 %at, i64 %value)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}

; Addresses of the inputs, results and temporaries, in the order of their numbers.
define internal void @collect(ptr %record, ptr %values, ptr %results, i64 %start, ptr %pointers) {
entry:
  %ninputs = call i64 @word(ptr %record, i64 {ninputs})
  %empty = call ptr @pointer(ptr %record, i64 {empty})
  %pointed = call ptr @pointer(ptr %record, i64 {pointed})
  br label %inputs
inputs:
  %i = phi i64 [ 0, %entry ], [ %i.next, %input ]
  %inputs.end = icmp sge i64 %i, %ninputs
  br i1 %inputs.end, label %second, label %input
input:
  %is.pointed = call i64 @word(ptr %pointed, i64 %i)
  %own = call i64 @word(ptr %values, i64 %i)
  %none = call i64 @word(ptr %empty, i64 %i)
  %use = icmp ne i64 %is.pointed, 0
  %address = select i1 %use, i64 %own, i64 %none
  call void @put(ptr %pointers, i64 %i, i64 %address)
  %i.next = add i64 %i, 1
  br label %inputs
second:
  %nresults = call i64 @word(ptr %record, i64 {nresults})
  %at.results = getelementptr i64, ptr %pointers, i64 %ninputs
  br label %made
made:
  %r = phi i64 [ 0, %second ], [ %r.next, %result ]
  %made.end = icmp sge i64 %r, %nresults
  br i1 %made.end, label %third, label %result
result:
  %array = call ptr @pointer(ptr %results, i64 %r)
  %data = call i64 @word(ptr %array, i64 2)
  call void @put(ptr %at.results, i64 %r, i64 %data)
  %r.next = add i64 %r, 1
  br label %made
third:
  %ntemps = call i64 @word(ptr %record, i64 {ntemps})
  %temps = call ptr @pointer(ptr %record, i64 {temps})
  %at.temps = getelementptr i64, ptr %at.results, i64 %nresults
  br label %temporaries
temporaries:
  %t = phi i64 [ 0, %third ], [ %t.next, %temporary ]
  %temps.end = icmp sge i64 %t, %ntemps
  br i1 %temps.end, label %done, label %temporary
temporary:
  %offset = call i64 @word(ptr %temps, i64 %t)
  %place = add i64 %start, %offset
  call void @put(ptr %at.temps, i64 %t, i64 %place)
  %t.next = add i64 %t, 1
  br label %temporaries
done:
  ret void
}

define internal void @fill(ptr %record, ptr %table, ptr %pointers, ptr %values, i64 %start,
                           i64 %count) {
  %npatches = call i64 @word(ptr %record, i64 {npatches})
  %patches = call ptr @pointer(ptr %record, i64 {patches})
  call void @patch(ptr %table, i64 %npatches, ptr %patches, ptr %pointers)
  %nscalars = call i64 @word(ptr %record, i64 {nscalars})
  %scalars = call ptr @pointer(ptr %record, i64 {scalars})
  call void @patch(ptr %table, i64 %nscalars, ptr %scalars, ptr %values)
  %base = ptrtoint ptr %table to i64
  %ninner = call i64 @word(ptr %record, i64 {ninner})
  %inner = call ptr @pointer(ptr %record, i64 {inner})
  call void @place(ptr %table, i64 %ninner, ptr %inner, i64 1, i64 %base)
  %nshared = call i64 @word(ptr %record, i64 {nshared})
  %shared = call ptr @pointer(ptr %record, i64 {shared})
  call void @place(ptr %table, i64 %nshared, ptr %shared, i64 1, i64 %start)
  %from = call i64 @word(ptr %record, i64 {private_from})
  %own = add i64 %start, %from
  %nprivate = call i64 @word(ptr %record, i64 {nprivate})
  %private = call ptr @pointer(ptr %record, i64 {private})
  call void @place(ptr %table, i64 %nprivate, ptr %private, i64 %count, i64 %own)
  ret void
}

define internal void @kernels(ptr %record, ptr %table, i64 %count) {
  %n = call i64 @word(ptr %record, i64 {nsteps})
  %steps = call ptr @pointer(ptr %record, i64 {steps})
  %run = load ptr, ptr @fjit_run_steps
  call void %run(ptr %table, ptr %steps, i64 %n, i64 %count)
  ret void
}

; Makes the results and fills them: 0, or 1 where the kernels met an error, or 2 if one is raised.
; Then there are no results. Extents that the kernels found are copied out of the table.
define internal i64 @execute(ptr %record, ptr %values, ptr %objects, ptr %held, ptr %results,
                             ptr %extents) {
entry:
  %n = call i64 @word(ptr %record, i64 {nresults})
  %infos = call ptr @pointer(ptr %record, i64 {results})
  %is.wide = call i64 @word(ptr %record, i64 {wide})
  %wide = icmp ne i64 %is.wide, 0
  br i1 %wide, label %parallel, label %making
parallel:
  %asked = call i64 @word(ptr %record, i64 {threads})
  %team = call i64 @team(i64 %asked)
  br label %making
making:
  %count = phi i64 [ 1, %entry ], [ %team, %parallel ]
  br label %head
head:
  %i = phi i64 [ 0, %making ], [ %next, %made ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %memory, label %body
body:
  %at = mul i64 %i, RESULT_WORDS
  %info = getelementptr i64, ptr %infos, i64 %at
  %array = call ptr @make(ptr %info, ptr %objects, ptr %held)
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %unmake, label %made
made:
  %slot = getelementptr ptr, ptr %results, i64 %i
  store ptr %array, ptr %slot
  %next = add i64 %i, 1
  br label %head
unmake:
  call void @drop(ptr %results, i64 %i)
  ret i64 2
memory:
  %each = call i64 @word(ptr %record, i64 {per_worker})
  %private = mul i64 %each, %count
  %shared = call i64 @word(ptr %record, i64 {private_from})
  %bytes = add i64 %private, %shared
  %needs = icmp ne i64 %bytes, 0
  br i1 %needs, label %scratch, label %ready
scratch:
  %block = call ptr @take_scratch(ptr %record, i64 %bytes)
  %no.block = icmp eq ptr %block, null
  br i1 %no.block, label %again, label %ready
ready:
  %own = phi ptr [ null, %memory ], [ %block, %scratch ]
  %own.word = ptrtoint ptr %own to i64
  %start = add i64 %own.word, 4096
  %words = call i64 @word(ptr %record, i64 {words})
  %template = call ptr @pointer(ptr %record, i64 {template})
  %table = alloca i64, i64 %words, align 64
  %table.bytes = shl i64 %words, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %table, ptr %template, i64 %table.bytes, i1 false)
  %ninputs = call i64 @word(ptr %record, i64 {ninputs})
  %ntemps = call i64 @word(ptr %record, i64 {ntemps})
  %outer = add i64 %ninputs, %n
  %all = add i64 %outer, %ntemps
  %pointers = alloca i64, i64 %all, align 64
  call void @collect(ptr %record, ptr %values, ptr %results, i64 %start, ptr %pointers)
  call void @fill(ptr %record, ptr %table, ptr %pointers, ptr %values, i64 %start, i64 %count)
  %is.long = call i64 @word(ptr %record, i64 {unlocked})
  %long = icmp ne i64 %is.long, 0
  br i1 %long, label %unlock, label %locked
unlock:
  %thread = call ptr @PyEval_SaveThread()
  call void @kernels(ptr %record, ptr %table, i64 %count)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %after
locked:
  call void @kernels(ptr %record, ptr %table, i64 %count)
  br label %after
after:
  br i1 %needs, label %give, label %checked
give:
  call void @give_scratch(ptr %record, ptr %own)
  br label %checked
checked:
  %status.at = call i64 @word(ptr %record, i64 {status_at})
  %status = call i64 @word(ptr %table, i64 %status.at)
  %bad = icmp ne i64 %status, 0
  br i1 %bad, label %again, label %good
again:
  call void @drop(ptr %results, i64 %n)
  ret i64 1
good:
  %nsymbols = call i64 @word(ptr %record, i64 {nsymbols})
  %static = icmp eq i64 %nsymbols, 0
  br i1 %static, label %done, label %dynamic
dynamic:
  %cells.at = add i64 %status.at, 1
  %cells = getelementptr i64, ptr %table, i64 %cells.at
  %cells.bytes = shl i64 %nsymbols, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %extents, ptr %cells, i64 %cells.bytes, i1 false)
  br label %done
done:
  ret i64 0
}
"""
