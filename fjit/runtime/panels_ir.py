"""Matrix products in panels, as LLVM IR text: a task multiplies and runs kernels on some rows.

Takes nothing, gives the text of one module. Invariant: which thread runs a task never changes what
the task computes, and the BLAS runs each of its calls on the calling thread.

    void fjit_panels(ptr args, i64 begin, i64 end, i64 worker)

is a phase (parallel_ir) whose task is a panel: rows [row, row + height) and columns
[column, column + width) of one matrix of a stack. Its arguments are words:

    HEAD    stages, rows, height, panels of rows, width, panels of columns, private memory, its
            bytes per worker, axes of the stack, then their extents
    product length, 0 or 1 (float32, float64), k, n, then the left, right and resulting matrix
    kernel  length, 2, phase, distance of its arguments from HEAD in bytes, their number,
            place of a copy of them in private memory, panels to patch, then for each
            the argument, the place in private memory and the bytes of a row

A matrix is: address or place in private memory, whether it is private, offset in bytes, bytes to
the next row, bytes to the next column, leading dimension, whether it is transposed for BLAS, and
bytes to the next matrix along each axis of the stack. Kernels walk over rows of all the stack, so
the address they see of a private panel is that of the row 0 that it would have.

`fjit_blas_enter` and `fjit_blas_leave` are phases around products: the first to enter lowers the
BLAS's own threads to one, the last to leave sets them back.
"""

from typing import Final

HEAD: Final = 9
"""Words before the extents of the stack."""
MATRIX: Final = 7
"""Words of a matrix before its strides over the stack."""
FLOAT32, FLOAT64, KERNEL = 0, 1, 2

PANELS: Final = """
@fjit_sgemm = global ptr null
@fjit_dgemm = global ptr null
@fjit_sgemv = global ptr null
@fjit_dgemv = global ptr null
@fjit_blas_get = global ptr null               ; i32 (), or null
@fjit_blas_set = global ptr null               ; void (i32), or null
@fjit_blas_inside = global i64 0               ; products under way
@fjit_blas_threads = global i32 0              ; threads of the BLAS before the first of them
@lock = internal global i32 0

@one.32 = internal constant float 1.0
@zero.32 = internal constant float 0.0
@one.64 = internal constant double 1.0
@zero.64 = internal constant double 0.0

declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal i64 @word(ptr %at, i64 %k) alwaysinline {
  %slot = getelementptr i64, ptr %at, i64 %k
  %value = load i64, ptr %slot
  ret i64 %value
}

define internal void @take() {
entry:
  br label %again
again:
  %was = atomicrmw xchg ptr @lock, i32 1 acquire
  %taken = icmp ne i32 %was, 0
  br i1 %taken, label %again, label %done
done:
  ret void
}

define internal void @give() {
  store atomic i32 0, ptr @lock release, align 4
  ret void
}

define void @fjit_blas_enter(ptr %args, i64 %begin, i64 %end, i64 %worker) {
entry:
  %set = load ptr, ptr @fjit_blas_set
  %none = icmp eq ptr %set, null
  br i1 %none, label %done, label %count
count:
  call void @take()
  %inside = load i64, ptr @fjit_blas_inside
  %more = add i64 %inside, 1
  store i64 %more, ptr @fjit_blas_inside
  %first = icmp eq i64 %inside, 0
  br i1 %first, label %lower, label %unlock
lower:
  %get = load ptr, ptr @fjit_blas_get
  %threads = call i32 %get()
  store i32 %threads, ptr @fjit_blas_threads
  %many = icmp sgt i32 %threads, 1
  br i1 %many, label %one, label %unlock
one:
  call void %set(i32 1)
  br label %unlock
unlock:
  call void @give()
  br label %done
done:
  ret void
}

define void @fjit_blas_leave(ptr %args, i64 %begin, i64 %end, i64 %worker) {
entry:
  %set = load ptr, ptr @fjit_blas_set
  %none = icmp eq ptr %set, null
  br i1 %none, label %done, label %count
count:
  call void @take()
  %inside = load i64, ptr @fjit_blas_inside
  %less = sub i64 %inside, 1
  store i64 %less, ptr @fjit_blas_inside
  %last = icmp eq i64 %less, 0
  %threads = load i32, ptr @fjit_blas_threads
  %many = icmp sgt i32 %threads, 1
  %back = and i1 %last, %many
  br i1 %back, label %raise, label %unlock
raise:
  call void %set(i32 %threads)
  br label %unlock
unlock:
  call void @give()
  br label %done
done:
  ret void
}

; In a forked child no product is under way: the other threads are not there to leave.
define void @fjit_blas_forked() {
entry:
  store i32 0, ptr @lock
  %inside = load i64, ptr @fjit_blas_inside
  store i64 0, ptr @fjit_blas_inside
  %some = icmp ne i64 %inside, 0
  %threads = load i32, ptr @fjit_blas_threads
  %many = icmp sgt i32 %threads, 1
  %back = and i1 %some, %many
  br i1 %back, label %raise, label %done
raise:
  %set = load ptr, ptr @fjit_blas_set
  call void %set(i32 %threads)
  br label %done
done:
  ret void
}

; Bytes from the first matrix of a stack to number `batch`, by strides over the stack's axes. What
; the inner axes leave is the place along the outermost one: a division saved for small products.
define internal i64 @over_stack(ptr %args, i64 %batch, ptr %strides) {
entry:
  %axes = call i64 @word(ptr %args, i64 8)
  %none = icmp eq i64 %axes, 0
  br i1 %none, label %flat, label %head
flat:
  ret i64 0
head:
  %k = phi i64 [ %axes, %entry ], [ %axis, %body ]
  %left = phi i64 [ %batch, %entry ], [ %rest, %body ]
  %sum = phi i64 [ 0, %entry ], [ %total, %body ]
  %more = icmp sgt i64 %k, 1
  br i1 %more, label %body, label %outermost
body:
  %axis = sub i64 %k, 1
  %place = add i64 %axis, 9
  %extent = call i64 @word(ptr %args, i64 %place)
  %at = srem i64 %left, %extent
  %rest = sdiv i64 %left, %extent
  %stride = call i64 @word(ptr %strides, i64 %axis)
  %bytes = mul i64 %at, %stride
  %total = add i64 %sum, %bytes
  br label %head
outermost:
  %first = call i64 @word(ptr %strides, i64 0)
  %outer = mul i64 %left, %first
  %all = add i64 %sum, %outer
  ret i64 %all
}

; The quotient of `a` by `b`, which is often 1.
define internal i64 @over(i64 %a, i64 %b) alwaysinline {
entry:
  %one = icmp eq i64 %b, 1
  br i1 %one, label %same, label %divide
same:
  ret i64 %a
divide:
  %q = sdiv i64 %a, %b
  ret i64 %q
}

; The address of a matrix's first element in this panel.
define internal ptr @matrix(ptr %args, ptr %it, i64 %own, i64 %batch, i64 %row, i64 %column) {
  %base = call i64 @word(ptr %it, i64 0)
  %private = call i64 @word(ptr %it, i64 1)
  %offset = call i64 @word(ptr %it, i64 2)
  %by.row = call i64 @word(ptr %it, i64 3)
  %by.column = call i64 @word(ptr %it, i64 4)
  %strides = getelementptr i64, ptr %it, i64 7
  %stack = call i64 @over_stack(ptr %args, i64 %batch, ptr %strides)
  %down = mul i64 %row, %by.row
  %across = mul i64 %column, %by.column
  %is.private = icmp ne i64 %private, 0
  %memory = select i1 %is.private, i64 %own, i64 0
  %a = add i64 %base, %memory
  %b = add i64 %a, %offset
  %c = add i64 %b, %stack
  %d = add i64 %c, %down
  %e = add i64 %d, %across
  %address = inttoptr i64 %e to ptr
  ret ptr %address
}

; Rows of C = A B are columns of C' = B' A', which is what Fortran sees: the operands change places.
define internal void @product(ptr %args, ptr %stage, i64 %own, i64 %batch, i64 %row, i64 %rows,
                              i64 %column) {
entry:
  %ta = alloca i8
  %tb = alloca i8
  %m = alloca i64
  %n = alloca i64
  %k = alloca i64
  %lda = alloca i64
  %ldb = alloca i64
  %ldc = alloca i64
  %kind = call i64 @word(ptr %stage, i64 1)
  %terms = call i64 @word(ptr %stage, i64 2)
  %columns.all = call i64 @word(ptr %stage, i64 3)
  %width = call i64 @word(ptr %args, i64 4)
  %columns.left = sub i64 %columns.all, %column
  %columns = call i64 @llvm.smin.i64(i64 %width, i64 %columns.left)
  %axes = call i64 @word(ptr %args, i64 8)
  %size = add i64 %axes, 7
  %a.it = getelementptr i64, ptr %stage, i64 4
  %b.it = getelementptr i64, ptr %a.it, i64 %size
  %c.it = getelementptr i64, ptr %b.it, i64 %size
  %a = call ptr @matrix(ptr %args, ptr %a.it, i64 %own, i64 %batch, i64 %row, i64 0)
  %b = call ptr @matrix(ptr %args, ptr %b.it, i64 %own, i64 %batch, i64 0, i64 %column)
  %c = call ptr @matrix(ptr %args, ptr %c.it, i64 %own, i64 %batch, i64 %row, i64 %column)
  call void @letter(ptr %a.it, ptr %ta)
  call void @letter(ptr %b.it, ptr %tb)
  call void @leading(ptr %a.it, ptr %lda)
  call void @leading(ptr %b.it, ptr %ldb)
  call void @leading(ptr %c.it, ptr %ldc)
  store i64 %columns, ptr %m
  store i64 %rows, ptr %n
  store i64 %terms, ptr %k
  %is.double = icmp eq i64 %kind, 1
  %one = select i1 %is.double, ptr @one.64, ptr @one.32
  %zero = select i1 %is.double, ptr @zero.64, ptr @zero.32
  %vector = icmp eq i64 %columns.all, 1
  br i1 %vector, label %column.only, label %matrices
column.only:                                   ; the leading dimensions of columns are their steps
  %sgemv = load ptr, ptr @fjit_sgemv
  %dgemv = load ptr, ptr @fjit_dgemv
  %gemv = select i1 %is.double, ptr %dgemv, ptr %sgemv
  %as.rows = call i64 @word(ptr %a.it, i64 6)
  %turned = icmp ne i64 %as.rows, 0
  %letter = select i1 %turned, i8 78, i8 84    ; N or T
  store i8 %letter, ptr %ta
  %high = select i1 %turned, ptr %n, ptr %k
  %wide = select i1 %turned, ptr %k, ptr %n
  call void %gemv(ptr %ta, ptr %high, ptr %wide, ptr %one, ptr %a, ptr %lda, ptr %b, ptr %ldb,
                  ptr %zero, ptr %c, ptr %ldc)
  ret void
matrices:
  %single = load ptr, ptr @fjit_sgemm
  %double = load ptr, ptr @fjit_dgemm
  %gemm = select i1 %is.double, ptr %double, ptr %single
  call void %gemm(ptr %tb, ptr %ta, ptr %m, ptr %n, ptr %k, ptr %one, ptr %b, ptr %ldb, ptr %a,
                  ptr %lda, ptr %zero, ptr %c, ptr %ldc)
  ret void
}

define internal void @letter(ptr %it, ptr %slot) alwaysinline {
  %transposed = call i64 @word(ptr %it, i64 6)
  %is = icmp ne i64 %transposed, 0
  %letter = select i1 %is, i8 84, i8 78         ; T or N
  store i8 %letter, ptr %slot
  ret void
}

define internal void @leading(ptr %it, ptr %slot) alwaysinline {
  %dimension = call i64 @word(ptr %it, i64 5)
  store i64 %dimension, ptr %slot
  ret void
}

; A kernel on the panel's rows, with a copy of its arguments that points into private memory.
define internal void @kernel(ptr %args, ptr %stage, i64 %own, i64 %batch, i64 %row, i64 %rows,
                             i64 %worker) {
entry:
  %phase = call i64 @word(ptr %stage, i64 2)
  %phase.at = inttoptr i64 %phase to ptr
  %distance = call i64 @word(ptr %stage, i64 3)
  %given = getelementptr i8, ptr %args, i64 %distance
  %count = call i64 @word(ptr %stage, i64 4)
  %place = call i64 @word(ptr %stage, i64 5)
  %patches = call i64 @word(ptr %stage, i64 6)
  %at = add i64 %own, %place
  %copy = inttoptr i64 %at to ptr
  %bytes = shl i64 %count, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %copy, ptr %given, i64 %bytes, i1 false)
  %height = call i64 @word(ptr %args, i64 1)
  %above = mul i64 %batch, %height
  %begin = add i64 %above, %row
  %end = add i64 %begin, %rows
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %patches
  br i1 %more, label %body, label %run
body:
  %three = mul i64 %i, 3
  %from = add i64 %three, 7
  %patch = getelementptr i64, ptr %stage, i64 %from
  %number = call i64 @word(ptr %patch, i64 0)
  %panel = call i64 @word(ptr %patch, i64 1)
  %by.row = call i64 @word(ptr %patch, i64 2)
  %back = mul i64 %begin, %by.row
  %start = add i64 %own, %panel
  %address = sub i64 %start, %back
  %slot = getelementptr i64, ptr %copy, i64 %number
  store i64 %address, ptr %slot
  %next = add i64 %i, 1
  br label %head
run:
  call void %phase.at(ptr %copy, i64 %begin, i64 %end, i64 %worker)
  ret void
}

define internal void @panel(ptr %args, i64 %task, i64 %worker) {
entry:
  %stages = call i64 @word(ptr %args, i64 0)
  %rows.all = call i64 @word(ptr %args, i64 1)
  %height = call i64 @word(ptr %args, i64 2)
  %down = call i64 @word(ptr %args, i64 3)
  %width = call i64 @word(ptr %args, i64 4)
  %across = call i64 @word(ptr %args, i64 5)
  %private = call i64 @word(ptr %args, i64 6)
  %bytes = call i64 @word(ptr %args, i64 7)
  %axes = call i64 @word(ptr %args, i64 8)
  %mine = mul i64 %worker, %bytes
  %own = add i64 %private, %mine
  %rest = call i64 @over(i64 %task, i64 %across)
  %whole = mul i64 %rest, %across
  %j = sub i64 %task, %whole
  %batch = call i64 @over(i64 %rest, i64 %down)
  %above = mul i64 %batch, %down
  %i = sub i64 %rest, %above
  %row = mul i64 %i, %height
  %column = mul i64 %j, %width
  %rows.left = sub i64 %rows.all, %row
  %rows = call i64 @llvm.smin.i64(i64 %height, i64 %rows.left)
  %after.head = add i64 %axes, 9
  %first = getelementptr i64, ptr %args, i64 %after.head
  br label %head
head:
  %s = phi i64 [ 0, %entry ], [ %next, %step ]
  %stage = phi ptr [ %first, %entry ], [ %following, %step ]
  %more = icmp slt i64 %s, %stages
  br i1 %more, label %body, label %done
body:
  %kind = call i64 @word(ptr %stage, i64 1)
  %is.kernel = icmp eq i64 %kind, 2
  br i1 %is.kernel, label %walk, label %multiply
multiply:
  call void @product(ptr %args, ptr %stage, i64 %own, i64 %batch, i64 %row, i64 %rows,
                     i64 %column)
  br label %step
walk:
  call void @kernel(ptr %args, ptr %stage, i64 %own, i64 %batch, i64 %row, i64 %rows, i64 %worker)
  br label %step
step:
  %length = call i64 @word(ptr %stage, i64 0)
  %following = getelementptr i64, ptr %stage, i64 %length
  %next = add i64 %s, 1
  br label %head
done:
  ret void
}

define void @fjit_panels(ptr %args, i64 %begin, i64 %end, i64 %worker) {
entry:
  br label %head
head:
  %task = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %task, %end
  br i1 %more, label %body, label %done
body:
  call void @panel(ptr %args, i64 %task, i64 %worker)
  %next = add i64 %task, 1
  br label %head
done:
  ret void
}
"""
