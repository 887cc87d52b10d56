"""The native entry of a fused function as LLVM IR text: one vectorcall function, driven by records.

Takes the layout of a record, gives the text of one module. A record is a table of 64-bit words that
describes one kind of call: its arguments, its guards, its results and its kernels. The entry finds
the record that fits a call, makes the results, fills in the kernels' table and runs them.
Invariant: a call that no record fits, whatever the reason, goes to the callable's own `__call__`,
with nothing changed; so nothing is compiled for a new kind of call, and only a record is added.

    ptr fjit_entry(ptr callable, ptr args, i64 nargsf, ptr kwnames)        the vectorcall convention

Object layouts are NumPy's and Python's public ones (numpy/ndarraytypes.h, floatobject.h); `entry`
proves them on objects of this process before it uses this code.
"""

from __future__ import annotations

import re
from typing import Final

from fjit.runtime.entry_arguments_ir import ARGUMENTS
from fjit.runtime.entry_conditions_ir import CONDITIONS
from fjit.runtime.entry_result_ir import RESULT
from fjit.runtime.entry_run_ir import RUN

STATE_OFFSET: Final = 24
"""Where a callable holds the address of its state: behind its head and the entry's address."""
MAX_LEAVES: Final = 1024
"""Most arrays and numbers of a call, captured arrays included."""
MAX_OBJECTS: Final = 2048
"""Most arguments, containers and what is in them."""
MAX_RESULTS: Final = 1024
"""Most arrays that kernels make, and most leaves of a result."""
MAX_SYMBOLS: Final = 16
"""Most extents that are known only when kernels have run."""
MAX_DIMS: Final = 64
MANY_ARGUMENTS: Final = 512
"""More are handed on in memory from the heap, not on the stack."""

RECORD: Final = (
    "busy", "hits", "nargs", "kwnames", "ncontainers", "containers", "nleaves", "leaves",
    "nguards", "guards", "ncaptures", "captures", "ninputs", "empty", "pointed", "nresults",
    "results", "ntemps", "temps", "npatches", "patches", "ninner", "inner", "nscalars",
    "scalars", "nshared", "shared", "nprivate", "private", "private_from", "per_worker",
    "words", "template", "status_at", "nsteps", "steps", "wide", "threads", "unlocked",
    "scratch", "nsymbols", "nreturned", "returned", "form", "finisher", "nwrites", "writes",
    "ngiven", "given", "conditions", "expected",
)  # fmt: skip
"""Words of a record; a plural after its count is the address of a list."""

ARRAY, FLOAT, INT, BOOL = range(4)
LEAF_WORDS: Final = 9
"""kind, dtype, ndim, writeable (-1: either), address of shape and strides, first leaf with the same
data, low, high, number of the object. Of a number low and high bound its value, of an array they
are where its memory begins and ends, seen from its data.
"""
DICT, LIST, TUPLE = range(3)
CONTAINER_WORDS: Final = 6
"""number of the object, kind, type, size, address of the keys, number of the first object in it."""
ITEM, CELL, CODE, ATTRIBUTE, CALL, TYPE, CONSTANT = range(7)
GUARD_WORDS: Final = 4
"""kind, container, key, value; a value of 0 in a dict is that of a missing name. Of a captured
array the value is the address of the words of an argument.
"""
REGION_WORDS: Final = 5
"""dtype, ndim, address of the shape, address of the strides, bytes from the array's start."""
RESULT_WORDS: Final = 10
"""dtype, ndim, address of the shape, address of the strides or 0, pooled; address of the symbols of
its axes (-1: none) or 0, whether it is cut along its first axis in C order; whether it lies over an
input, the number of that object (below 0: of a captured array), address of its region there or 0.
"""
OUTPUT, SCALAR, GIVEN = range(3)
RETURNED_WORDS: Final = 2
"""a result's array, its only element, or an object of the call; its number."""
ALONE, JOINED, CONSTANT_RESULT, MADE = range(4)
"""Forms of a result: its leaf, a tuple of its leaves, always `finisher`, or what that makes."""
WRITE_WORDS: Final = 5
"""number of the input, of the object (below 0: of a captured array), of the result; bytes to copy,
or -1 where NumPy has to copy, then into the region whose address follows, or the whole if it is 0.
"""
GIVEN_WORDS: Final = 3
"""number of the input, what to shift out of its bits before they are 0 or not (-1: compare them),
value.
"""
EXPECTED_WORDS: Final = 2
"""bytes of a condition's result, value."""

_HEAD = """
@fjit_array_type = global ptr null
@fjit_float_type = global ptr null
@fjit_int_type = global ptr null
@fjit_true = global ptr null
@fjit_false = global ptr null
@fjit_gone = global ptr null            ; the exceptions that a guard takes as a no
@fjit_call_name = global ptr null       ; the str "__call__"
@fjit_tracing = global ptr null         ; address of the number of open traces
@fjit_new_array = global ptr null       ; PyArray_NewFromDescr
@fjit_return_array = global ptr null    ; PyArray_Return
@fjit_resize = global ptr null          ; PyArray_Resize
@fjit_copy_array = global ptr null      ; PyArray_NewCopy
@fjit_copy_into = global ptr null       ; PyArray_CopyInto
@fjit_set_data = global ptr null        ; PyDataMem_SetHandler, or null where results are not pooled
@fjit_data = global ptr null            ; the pool's handler
@fjit_run_steps = global ptr null       ; fjit_run
@fjit_limit = global i64 1              ; threads
@fjit_openmp_limit = global ptr null    ; omp_get_max_threads

declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyCell_Get(ptr)
declare ptr @PyFunction_GetCode(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i64 @PyDict_Size(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare ptr @PyErr_NoMemory()
declare i32 @PyErr_ExceptionMatches(ptr)
declare ptr @malloc(i64)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

define internal i64 @word(ptr %base, i64 %index) alwaysinline {
  %at = getelementptr i64, ptr %base, i64 %index
  %value = load i64, ptr %at
  ret i64 %value
}

define internal ptr @pointer(ptr %base, i64 %index) alwaysinline {
  %at = getelementptr ptr, ptr %base, i64 %index
  %value = load ptr, ptr %at
  ret ptr %value
}

define internal void @put(ptr %base, i64 %index, i64 %value) alwaysinline {
  %at = getelementptr i64, ptr %base, i64 %index
  store i64 %value, ptr %at
  ret void
}

define internal void @add(ptr %base, i64 %index, i64 %more) alwaysinline {
  %at = getelementptr i64, ptr %base, i64 %index
  %old = load i64, ptr %at
  %new = add i64 %old, %more
  store i64 %new, ptr %at
  ret void
}
"""

_ENTRY = """
; Memory that a record kept, when it goes.
define void @fjit_entry_free(ptr %record) {
  %slot = getelementptr i64, ptr %record, i64 {scratch}
  %kept.word = atomicrmw xchg ptr %slot, i64 0 acquire
  %kept = inttoptr i64 %kept.word to ptr
  call void @free(ptr %kept)
  ret void
}

; Anything unusual: the callable's own __call__, in Python.
define internal ptr @in_python(ptr %self, ptr %args, i64 %nargs, ptr %kwnames) noinline {
entry:
  %plain = icmp eq ptr %kwnames, null
  br i1 %plain, label %copy, label %named
named:
  %extra = call i64 @PyTuple_Size(ptr %kwnames)
  br label %copy
copy:
  %more = phi i64 [ 0, %entry ], [ %extra, %named ]
  %values = add i64 %nargs, %more
  %all = add i64 %values, 1
  %all.bytes = shl i64 %all, 3
  %many = icmp sgt i64 %values, MANY_ARGUMENTS
  br i1 %many, label %heap, label %stack
heap:
  %from.heap = call ptr @malloc(i64 %all.bytes)
  %full = icmp eq ptr %from.heap, null
  br i1 %full, label %no.memory, label %call
stack:
  %from.stack = alloca ptr, i64 %all
  br label %call
no.memory:
  %error = call ptr @PyErr_NoMemory()
  ret ptr null
call:
  %with = phi ptr [ %from.heap, %heap ], [ %from.stack, %stack ]
  store ptr %self, ptr %with
  %rest = getelementptr ptr, ptr %with, i64 1
  %bytes = shl i64 %values, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %args, i64 %bytes, i1 false)
  %positional = add i64 %nargs, 1
  %name = load ptr, ptr @fjit_call_name
  %r = call ptr @PyObject_VectorcallMethod(ptr %name, ptr %with, i64 %positional, ptr %kwnames)
  br i1 %many, label %free, label %leave
free:
  call void @free(ptr %with)
  br label %leave
leave:
  ret ptr %r
}

define ptr @fjit_entry(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames) {
entry:
  %values = alloca [MAX_LEAVES x i64], align 64
  %held = alloca [MAX_LEAVES x ptr], align 64
  %inside = alloca [MAX_OBJECTS x ptr], align 64
  %nargs = and i64 %nargsf, 9223372036854775807
  %open.at = load ptr, ptr @fjit_tracing
  %open = load i64, ptr %open.at
  %quiet = icmp eq i64 %open, 0
  %state.at = getelementptr i8, ptr %self, i64 STATE_OFFSET
  %state = load ptr, ptr %state.at
  %some = icmp ne ptr %state, null
  %go = and i1 %quiet, %some
  br i1 %go, label %head, label %python
head:
  %k = phi i64 [ 1, %entry ], [ %k.next, %next ]
  %count = call i64 @word(ptr %state, i64 0)
  %more = icmp sle i64 %k, %count
  br i1 %more, label %try, label %python
try:
  %record = call ptr @pointer(ptr %state, i64 %k)
  %called.alike = call i1 @call_fits(ptr %record, i64 %nargs, ptr %kwnames)
  br i1 %called.alike, label %taking, label %next
taking:
  %objects = call ptr @objects_of(ptr %record, ptr %args, i64 %nargs, ptr %inside)
  %taken = icmp ne ptr %objects, null
  br i1 %taken, label %comparing, label %next
comparing:
  %same = call i1 @leaves_fit(ptr %record, ptr %objects, ptr %values)
  br i1 %same, label %guards, label %next
guards:
  call void @refer(ptr %record, ptr %objects, i1 true)
  call void @add(ptr %record, i64 {busy}, i64 1)
  %holds = call i64 @guards_hold(ptr %record)
  switch i64 %holds, label %raise [ i64 0, label %leave  i64 1, label %outside ]
outside:
  %captured = call i64 @captures_fit(ptr %record, ptr %values, ptr %held)
  switch i64 %captured, label %raise [ i64 0, label %leave  i64 1, label %last ]
last:
  %ncaptures = call i64 @word(ptr %record, i64 {ncaptures})
  %agreed = call i64 @conditions_hold(ptr %record, ptr %values)
  switch i64 %agreed, label %stop [ i64 0, label %unlike  i64 1, label %run ]
unlike:
  call void @drop(ptr %held, i64 %ncaptures)
  br label %leave
stop:
  call void @drop(ptr %held, i64 %ncaptures)
  br label %raise
leave:
  call void @add(ptr %record, i64 {busy}, i64 -1)
  call void @refer(ptr %record, ptr %objects, i1 false)
  br label %next
raise:
  call void @add(ptr %record, i64 {busy}, i64 -1)
  call void @refer(ptr %record, ptr %objects, i1 false)
  ret ptr null
next:
  %k.next = add i64 %k, 1
  br label %head
run:
  %result = call ptr @run(ptr %record, ptr %values, ptr %objects, ptr %held)
  call void @drop(ptr %held, i64 %ncaptures)
  call void @refer(ptr %record, ptr %objects, i1 false)
  call void @add(ptr %record, i64 {busy}, i64 -1)
  %failed = icmp eq ptr %result, inttoptr (i64 1 to ptr)
  br i1 %failed, label %python, label %done
done:
  ret ptr %result
python:
  %r = call ptr @in_python(ptr %self, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %r
}
"""

_GUARDS = """
; What a guard or a captured array reads now, as a reference of our own; null if it is not there.
define internal ptr @read(ptr %guard) {
entry:
  %which = load i64, ptr %guard
  %holder = call ptr @pointer(ptr %guard, i64 1)
  %key = call ptr @pointer(ptr %guard, i64 2)
  switch i64 %which, label %constant [ i64 ITEM, label %item  i64 CELL, label %cell
                                       i64 CODE, label %code  i64 ATTRIBUTE, label %attribute
                                       i64 CALL, label %call  i64 TYPE, label %type ]
item:
  %found = call ptr @PyDict_GetItemWithError(ptr %holder, ptr %key)
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %none, label %own
code:
  %now = call ptr @PyFunction_GetCode(ptr %holder)
  br label %own
type:
  %kind = call ptr @pointer(ptr %holder, i64 1)
  br label %own
constant:
  br label %own
own:
  %value = phi ptr [ %found, %item ], [ %now, %code ], [ %kind, %type ],
                   [ %holder, %constant ]
  call void @Py_IncRef(ptr %value)
  ret ptr %value
cell:
  %content = call ptr @PyCell_Get(ptr %holder)
  ret ptr %content
attribute:
  %field = call ptr @PyObject_GetAttr(ptr %holder, ptr %key)
  ret ptr %field
call:
  %verdict = call ptr @PyObject_Vectorcall(ptr %holder, ptr null, i64 0, ptr null)
  ret ptr %verdict
none:
  ret ptr null
}

; After a read that gave null: whether an error is to be raised, as the Python path would.
define internal i1 @raises() {
entry:
  %error = call ptr @PyErr_Occurred()
  %none = icmp eq ptr %error, null
  br i1 %none, label %no, label %some
some:
  %gone = load ptr, ptr @fjit_gone
  %expected = call i32 @PyErr_ExceptionMatches(ptr %gone)
  %is.expected = icmp ne i32 %expected, 0
  br i1 %is.expected, label %clear, label %yes
clear:
  call void @PyErr_Clear()
  br label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; 1 if all hold, 0 if not, 2 if an error is to be raised.
define internal i64 @guards_hold(ptr %record) {
entry:
  %n = call i64 @word(ptr %record, i64 {nguards})
  %list = call ptr @pointer(ptr %record, i64 {guards})
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %keep ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %yes, label %body
body:
  %at = mul i64 %i, GUARD_WORDS
  %guard = getelementptr i64, ptr %list, i64 %at
  %want = call ptr @pointer(ptr %guard, i64 3)
  %value = call ptr @read(ptr %guard)
  %missing = icmp eq ptr %value, null
  br i1 %missing, label %check, label %compare
check:
  %raised = call i1 @raises()
  br i1 %raised, label %raise, label %compare
compare:
  %same = icmp eq ptr %value, %want
  call void @Py_DecRef(ptr %value)
  br i1 %same, label %keep, label %no
keep:
  %i.next = add i64 %i, 1
  br label %head
yes:
  ret i64 1
no:
  ret i64 0
raise:
  ret i64 2
}

; Reads the captured arrays anew, each held until the call is over, and puts their addresses behind
; those of the arguments.
define internal i64 @captures_fit(ptr %record, ptr %values, ptr %held) {
entry:
  %n = call i64 @word(ptr %record, i64 {ncaptures})
  %list = call ptr @pointer(ptr %record, i64 {captures})
  %nleaves = call i64 @word(ptr %record, i64 {nleaves})
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %keep ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %yes, label %body
body:
  %at = mul i64 %i, GUARD_WORDS
  %capture = getelementptr i64, ptr %list, i64 %at
  %kind = call ptr @pointer(ptr %capture, i64 3)
  %object = call ptr @read(ptr %capture)
  %slot = getelementptr ptr, ptr %held, i64 %i
  store ptr %object, ptr %slot
  %some = icmp ne ptr %object, null
  br i1 %some, label %check, label %gone
gone:
  %raised = call i1 @raises()
  %verdict = select i1 %raised, i64 2, i64 0
  br label %no
check:
  %data = call i64 @array_fits(ptr %object, ptr %kind)
  %fits = icmp ne i64 %data, 0
  br i1 %fits, label %keep, label %drop
keep:
  %place = add i64 %nleaves, %i
  call void @put(ptr %values, i64 %place, i64 %data)
  %i.next = add i64 %i, 1
  br label %head
yes:
  ret i64 1
drop:
  call void @Py_DecRef(ptr %object)
  br label %no
no:
  %result = phi i64 [ 0, %drop ], [ %verdict, %gone ]
  call void @drop(ptr %held, i64 %i)
  ret i64 %result
}
"""

_NAMES = {
    "STATE_OFFSET": STATE_OFFSET, "MAX_LEAVES": MAX_LEAVES, "MAX_RESULTS": MAX_RESULTS,
    "LEAF_WORDS": LEAF_WORDS, "CONTAINER_WORDS": CONTAINER_WORDS, "MAX_OBJECTS": MAX_OBJECTS,
    "DICT": DICT, "LIST": LIST, "TUPLE": TUPLE,
    "GUARD_WORDS": GUARD_WORDS, "RESULT_WORDS": RESULT_WORDS,
    "ARRAY": ARRAY, "FLOAT": FLOAT, "INT": INT, "BOOL": BOOL,
    "ITEM": ITEM, "CELL": CELL, "CODE": CODE, "ATTRIBUTE": ATTRIBUTE, "CALL": CALL,
    "TYPE": TYPE, "MANY_ARGUMENTS": MANY_ARGUMENTS,
    "MAX_SYMBOLS": MAX_SYMBOLS, "MAX_DIMS": MAX_DIMS, "RETURNED_WORDS": RETURNED_WORDS,
    "SCALAR": SCALAR, "GIVEN": GIVEN, "ALONE": ALONE, "JOINED": JOINED,
    "CONSTANT": CONSTANT_RESULT, "WRITE_WORDS": WRITE_WORDS, "GIVEN_WORDS": GIVEN_WORDS,
    "EXPECTED_WORDS": EXPECTED_WORDS,
}  # fmt: skip
_WORD = re.compile(r"\b(" + "|".join(_NAMES) + r")\b|\{(\w+)\}")


def entry_ir() -> str:
    """Return the whole module's text, for CPython with its lock on a 64-bit machine."""
    text = _HEAD + ARGUMENTS + _GUARDS + RUN + RESULT + CONDITIONS + _ENTRY
    return _WORD.sub(lambda m: str(_NAMES[m[1]] if m[1] else RECORD.index(m[2])), text)
