"""Reuse of memory for large results: faulting in a fresh page costs more than writing to it.

NumPy asks an allocator for the data of an array, and gives it back when the array goes (NEP 49). Ours keeps freed blocks, up to a
limit, and returns one of about the requested size. It is used for large results of compiled programs only; otherwise the arrays
are ordinary.

A block begins with its capacity. A thread that finds the free list in use by another bypasses it: no thread waits, and the child
of a fork cannot deadlock.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

LARGE = 1 << 17  # bytes; malloc handles smaller blocks well
SHELVES = 16
LARGEST_KEPT = 1 << 26  # bytes, of a block
KEPT = 1 << 27  # bytes, in all
_HEAD = 64  # bytes before the data, so that it stays aligned for vectors
_HUGE = 1 << 22  # bytes from which huge pages are requested, as in NumPy
_MADV_HUGEPAGE = 14
_LINUX = sys.platform == "linux"

_SLOT = "{ ptr, i64 }"

# blocks.take(context, size) and its kin have the signatures of PyDataMemAllocator.
TEXT = f"""
@blocks.shelves = internal global [{SHELVES} x {_SLOT}] zeroinitializer, align 64
@blocks.kept = global i64 0
@blocks.hand = internal global i64 0
@blocks.lock = global i32 0

declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
{"declare i32 @madvise(ptr, i64, i32)" if _LINUX else "define internal i32 @madvise(ptr %0, i64 %1, i32 %2) {{ ret i32 0 }}"}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i1 @blocks.try() {{
  %before = atomicrmw xchg ptr @blocks.lock, i32 1 acquire
  %free = icmp eq i32 %before, 0
  ret i1 %free
}}

define internal void @blocks.leave() {{
  store atomic i32 0, ptr @blocks.lock release, align 4
  ret void
}}

define internal ptr @blocks.new(i64 %size) {{
  %all = add i64 %size, {_HEAD + 63}
  %over = icmp ult i64 %all, %size
  br i1 %over, label %none, label %ask
ask:
  %whole = and i64 %all, -64
  %block = call ptr @aligned_alloc(i64 64, i64 %whole)
  %full = icmp eq ptr %block, null
  br i1 %full, label %none, label %made
made:
  store i64 %size, ptr %block
  %data = getelementptr i8, ptr %block, i64 {_HEAD}
  %huge = icmp uge i64 %size, {_HUGE}
  br i1 %huge, label %advise, label %done
advise:
  %number = ptrtoint ptr %data to i64
  %raised = add i64 %number, 4095
  %first = and i64 %raised, -4096
  %skipped = sub i64 %first, %number
  %rest = sub i64 %size, %skipped
  %page = inttoptr i64 %first to ptr
  call i32 @madvise(ptr %page, i64 %rest, i32 {_MADV_HUGEPAGE})
  br label %done
done:
  ret ptr %data
none:
  ret ptr null
}}

define ptr @blocks.take(ptr %context, i64 %size) {{
  %mine = call i1 @blocks.try()
  br i1 %mine, label %search, label %new
search:
  %i = phi i64 [ 0, %0 ], [ %next, %other ]
  %slot = getelementptr {_SLOT}, ptr @blocks.shelves, i64 %i
  %place = getelementptr {_SLOT}, ptr %slot, i64 0, i32 1
  %data = load ptr, ptr %slot
  %capacity = load i64, ptr %place
  %there = icmp ne ptr %data, null
  %enough = icmp uge i64 %capacity, %size
  %eighth = lshr i64 %size, 3
  %most = add i64 %size, %eighth
  %tight = icmp ule i64 %capacity, %most
  %fits = and i1 %enough, %tight
  %good = and i1 %there, %fits
  br i1 %good, label %found, label %other
other:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {SHELVES}
  br i1 %more, label %search, label %nothing
found:
  store ptr null, ptr %slot
  %kept = load i64, ptr @blocks.kept
  %left = sub i64 %kept, %capacity
  store i64 %left, ptr @blocks.kept
  call void @blocks.leave()
  ret ptr %data
nothing:
  call void @blocks.leave()
  br label %new
new:
  %fresh = call ptr @blocks.new(i64 %size)
  ret ptr %fresh
}}

; Frees the block that the hand points to, and moves the hand on; gives the slot.
define internal ptr @blocks.drop() {{
  %hand = load i64, ptr @blocks.hand
  %slot = getelementptr {_SLOT}, ptr @blocks.shelves, i64 %hand
  %next = add i64 %hand, 1
  %turn = urem i64 %next, {SHELVES}
  store i64 %turn, ptr @blocks.hand
  %data = load ptr, ptr %slot
  %empty = icmp eq ptr %data, null
  br i1 %empty, label %done, label %old
old:
  %place = getelementptr {_SLOT}, ptr %slot, i64 0, i32 1
  %capacity = load i64, ptr %place
  %kept = load i64, ptr @blocks.kept
  %left = sub i64 %kept, %capacity
  store i64 %left, ptr @blocks.kept
  %block = getelementptr i8, ptr %data, i64 -{_HEAD}
  call void @free(ptr %block)
  store ptr null, ptr %slot
  br label %done
done:
  ret ptr %slot
}}

define void @blocks.give(ptr %context, ptr %data, i64 %size) {{
  %none = icmp eq ptr %data, null
  br i1 %none, label %done, label %look
look:
  %block = getelementptr i8, ptr %data, i64 -{_HEAD}
  %capacity = load i64, ptr %block
  %large = icmp uge i64 %capacity, {LARGE}
  %small = icmp ule i64 %capacity, {LARGEST_KEPT}
  %worth = and i1 %large, %small
  br i1 %worth, label %try, label %away
try:
  %mine = call i1 @blocks.try()
  br i1 %mine, label %search, label %away
search:
  %i = phi i64 [ 0, %try ], [ %next, %other ]
  %slot = getelementptr {_SLOT}, ptr @blocks.shelves, i64 %i
  %held = load ptr, ptr %slot
  %empty = icmp eq ptr %held, null
  br i1 %empty, label %put, label %other
other:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {SHELVES}
  br i1 %more, label %search, label %evict
evict:
  %freed = call ptr @blocks.drop()
  br label %put
put:
  %target = phi ptr [ %slot, %search ], [ %freed, %evict ]
  %place = getelementptr {_SLOT}, ptr %target, i64 0, i32 1
  store ptr %data, ptr %target
  store i64 %capacity, ptr %place
  %kept = load i64, ptr @blocks.kept
  %sum = add i64 %kept, %capacity
  store i64 %sum, ptr @blocks.kept
  br label %limit
limit:
  %now = load i64, ptr @blocks.kept
  %over = icmp ugt i64 %now, {KEPT}
  br i1 %over, label %shrink, label %leave
shrink:
  %any = call ptr @blocks.drop()
  br label %limit
leave:
  call void @blocks.leave()
  br label %done
away:
  call void @free(ptr %block)
  br label %done
done:
  ret void
}}

define ptr @blocks.zeros(ptr %context, i64 %count, i64 %each) {{
  %product = call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 %count, i64 %each)
  %size = extractvalue {{ i64, i1 }} %product, 0
  %over = extractvalue {{ i64, i1 }} %product, 1
  br i1 %over, label %none, label %ask
ask:
  %data = call ptr @blocks.take(ptr %context, i64 %size)
  %full = icmp eq ptr %data, null
  br i1 %full, label %none, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %size, i1 false)
  ret ptr %data
none:
  ret ptr null
}}
declare {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64, i64)

define ptr @blocks.resize(ptr %context, ptr %data, i64 %size) {{
  %new = call ptr @blocks.take(ptr %context, i64 %size)
  %full = icmp eq ptr %new, null
  %first = icmp eq ptr %data, null
  %done = or i1 %full, %first
  br i1 %done, label %end, label %copy
copy:
  %block = getelementptr i8, ptr %data, i64 -{_HEAD}
  %capacity = load i64, ptr %block
  %less = icmp ult i64 %capacity, %size
  %count = select i1 %less, i64 %capacity, i64 %size
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %data, i64 %count, i1 false)
  call void @blocks.give(ptr %context, ptr %data, i64 0)
  br label %end
end:
  ret ptr %new
}}
"""


class _Handler(ctypes.Structure):
    """PyDataMem_Handler of NumPy's C interface, version 1."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in ("malloc", "calloc", "realloc", "free")),
    )


def handler(engine: Any) -> Any:
    """The allocator in the capsule that NumPy takes. The engine holds the machine code of TEXT."""
    addresses = [engine.get_function_address(f"blocks.{name}") for name in ("take", "zeros", "resize", "give")]
    made = _Handler(b"adjoint", 1, None, *addresses)
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule = new(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(made), _NAME, None)
    for kept in (engine, made, capsule):  # arrays alive at interpreter exit still free their memory
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return capsule


_NAME = b"mem_handler"
