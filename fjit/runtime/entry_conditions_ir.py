"""What a call must pass last as LLVM IR text: memory stays apart, branches go the same way.

Takes a record and the values of its inputs, gives 1 (run), 0 (another record) or 2 (an error is
raised). Invariant: nothing is changed; the conditions of branches are computed by kernels of their
own, before any argument is written.

    if np.any(x < 0): ...     given ()     conditions: kernels of any(x < 0), expected (1 byte, 0)
    if flag: ...              given (input 1, shift 0, 1)

`{name}` stands for the place of a word in a record, names in capitals for constants of entry_ir.
"""

from typing import Final

CONDITIONS: Final = """
; The words of an input: of an argument, or of a captured array.
define internal ptr @kind_of(ptr %record, i64 %number) {
entry:
  %nleaves = call i64 @word(ptr %record, i64 {nleaves})
  %is.leaf = icmp slt i64 %number, %nleaves
  br i1 %is.leaf, label %leaf, label %capture
leaf:
  %leaves = call ptr @pointer(ptr %record, i64 {leaves})
  %at = mul i64 %number, LEAF_WORDS
  %kind = getelementptr i64, ptr %leaves, i64 %at
  ret ptr %kind
capture:
  %captures = call ptr @pointer(ptr %record, i64 {captures})
  %behind = sub i64 %number, %nleaves
  %place = mul i64 %behind, GUARD_WORDS
  %words = getelementptr i64, ptr %captures, i64 %place
  %of.capture = call ptr @pointer(ptr %words, i64 3)
  ret ptr %of.capture
}

; Whether two inputs have no byte in common, or are one argument given twice, as in the trace.
define internal i1 @are_apart(ptr %record, ptr %values, i64 %a, i64 %b) {
entry:
  %nleaves = call i64 @word(ptr %record, i64 {nleaves})
  %kind.a = call ptr @kind_of(ptr %record, i64 %a)
  %kind.b = call ptr @kind_of(ptr %record, i64 %b)
  %which = load i64, ptr %kind.b
  %is.array = icmp eq i64 %which, ARRAY
  br i1 %is.array, label %arrays, label %yes
arrays:
  %at.a = call i64 @word(ptr %values, i64 %a)
  %at.b = call i64 @word(ptr %values, i64 %b)
  %same = icmp eq i64 %at.a, %at.b
  %last = call i64 @llvm.smax.i64(i64 %a, i64 %b)
  %leaves = icmp slt i64 %last, %nleaves
  %twice = and i1 %same, %leaves
  br i1 %twice, label %yes, label %ranges
ranges:
  %low.a = call i64 @word(ptr %kind.a, i64 6)
  %high.a = call i64 @word(ptr %kind.a, i64 7)
  %low.b = call i64 @word(ptr %kind.b, i64 6)
  %high.b = call i64 @word(ptr %kind.b, i64 7)
  %begin.a = add i64 %at.a, %low.a
  %end.a = add i64 %at.a, %high.a
  %begin.b = add i64 %at.b, %low.b
  %end.b = add i64 %at.b, %high.b
  %before = icmp ule i64 %end.a, %begin.b
  %behind = icmp ule i64 %end.b, %begin.a
  %apart = or i1 %before, %behind
  ret i1 %apart
yes:
  ret i1 true
}

; Whether what is written shares no memory with anything else.
define internal i1 @all_apart(ptr %record, ptr %values) {
entry:
  %n = call i64 @word(ptr %record, i64 {nwrites})
  %writes = call ptr @pointer(ptr %record, i64 {writes})
  %nleaves = call i64 @word(ptr %record, i64 {nleaves})
  %ncaptures = call i64 @word(ptr %record, i64 {ncaptures})
  %all = add i64 %nleaves, %ncaptures
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %yes, label %written
written:
  %at = mul i64 %i, WRITE_WORDS
  %write = getelementptr i64, ptr %writes, i64 %at
  %a = call i64 @word(ptr %write, i64 0)
  br label %others
others:
  %b = phi i64 [ 0, %written ], [ %b.next, %other ]
  %done = icmp sge i64 %b, %all
  br i1 %done, label %next, label %body
body:
  %itself = icmp eq i64 %a, %b
  br i1 %itself, label %other, label %compare
compare:
  %apart = call i1 @are_apart(ptr %record, ptr %values, i64 %a, i64 %b)
  br i1 %apart, label %other, label %no
other:
  %b.next = add i64 %b, 1
  br label %others
next:
  %i.next = add i64 %i, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether numbers of the call that the function branches on decide as they did.
define internal i1 @given_hold(ptr %record, ptr %values) {
entry:
  %n = call i64 @word(ptr %record, i64 {ngiven})
  %list = call ptr @pointer(ptr %record, i64 {given})
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %yes, label %body
body:
  %at = mul i64 %i, GIVEN_WORDS
  %given = getelementptr i64, ptr %list, i64 %at
  %number = call i64 @word(ptr %given, i64 0)
  %shift = call i64 @word(ptr %given, i64 1)
  %want = call i64 @word(ptr %given, i64 2)
  %value = call i64 @word(ptr %values, i64 %number)
  %exact = icmp slt i64 %shift, 0
  %by = select i1 %exact, i64 0, i64 %shift
  %bits = shl i64 %value, %by
  %some = icmp ne i64 %bits, 0
  %truth = zext i1 %some to i64
  %found = select i1 %exact, i64 %value, i64 %truth
  %same = icmp eq i64 %found, %want
  %next = add i64 %i, 1
  br i1 %same, label %head, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether the kernels of `conditions` find what they found in the trace.
define internal i64 @computed_hold(ptr %conditions, ptr %values) {
entry:
  %results = alloca [MAX_RESULTS x ptr], align 64
  %extents = alloca [MAX_SYMBOLS x i64], align 64
  %status = call i64 @execute(ptr %conditions, ptr %values, ptr null, ptr null, ptr %results,
                              ptr %extents)
  switch i64 %status, label %raise [ i64 0, label %found  i64 1, label %no ]
found:
  %n = call i64 @word(ptr %conditions, i64 {nresults})
  %list = call ptr @pointer(ptr %conditions, i64 {expected})
  br label %head
head:
  %i = phi i64 [ 0, %found ], [ %next, %compare ]
  %all = phi i1 [ true, %found ], [ %all.next, %compare ]
  %end = icmp sge i64 %i, %n
  br i1 %end, label %done, label %body
body:
  %at = mul i64 %i, EXPECTED_WORDS
  %expected = getelementptr i64, ptr %list, i64 %at
  %size = call i64 @word(ptr %expected, i64 0)
  %want = call i64 @word(ptr %expected, i64 1)
  %array = call ptr @pointer(ptr %results, i64 %i)
  %data = call ptr @pointer(ptr %array, i64 2)
  %is.byte = icmp eq i64 %size, 1
  br i1 %is.byte, label %byte, label %wide
byte:
  %small = load i8, ptr %data
  %widened = zext i8 %small to i64
  br label %compare
wide:
  %large = load i64, ptr %data
  br label %compare
compare:
  %value = phi i64 [ %widened, %byte ], [ %large, %wide ]
  %same = icmp eq i64 %value, %want
  %all.next = and i1 %all, %same
  %next = add i64 %i, 1
  br label %head
done:
  call void @drop(ptr %results, i64 %n)
  %verdict = zext i1 %all to i64
  ret i64 %verdict
no:
  ret i64 0
raise:
  ret i64 2
}

define internal i64 @conditions_hold(ptr %record, ptr %values) {
entry:
  %apart = call i1 @all_apart(ptr %record, ptr %values)
  br i1 %apart, label %numbers, label %no
numbers:
  %given = call i1 @given_hold(ptr %record, ptr %values)
  br i1 %given, label %branches, label %no
branches:
  %conditions = call ptr @pointer(ptr %record, i64 {conditions})
  %none = icmp eq ptr %conditions, null
  br i1 %none, label %yes, label %compute
compute:
  %verdict = call i64 @computed_hold(ptr %conditions, ptr %values)
  ret i64 %verdict
yes:
  ret i64 1
no:
  ret i64 0
}
"""
