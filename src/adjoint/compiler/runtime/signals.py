"""Ctrl-C in compiled programs: `adjoint_signals()` is polled, and returns -1 with a Python exception set to interrupt.

    for start in range(0, n, 512):                   a loop as it is compiled
        for i in range(start, min(start + 512, n)):  for about 20 µs, by an estimate of the work
            …
        if adjoint_signals():
            leave

Python runs signal handlers in the main thread only, which must hold the GIL. So the main thread checks the clock, and ten times a
second the signals. A thread that holds the GIL releases it briefly as often, so that other threads run. A worker of the pool has
no Python thread state: it stops when the main thread, whose job it runs, was interrupted.

A single kernel, and a call of BLAS or LAPACK, are not interrupted.
"""

from __future__ import annotations

import sys
import time

FAILED = -1  # a Python exception is set
INTERVAL = 100_000_000  # nanoseconds between two checks for signals
#: It accesses no memory of the program, so LLVM may keep values in registers across the call.
DECLARATION = "declare i32 @adjoint_signals() nounwind cold memory(inaccessiblemem: readwrite)"

# A coarse clock, if there is one: it may lag by some milliseconds.
_CLOCK = {"linux": 6, "darwin": 5}.get(sys.platform, getattr(time, "CLOCK_MONOTONIC", 0))
_NOW = f"""
declare i32 @clock_gettime(i32, ptr)
define internal i64 @signals.now() {{
  %time = alloca {{ i64, i64 }}
  call i32 @clock_gettime(i32 {_CLOCK}, ptr %time)
  %seconds = load i64, ptr %time
  %place = getelementptr {{ i64, i64 }}, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %place
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %rest
  ret i64 %all
}}"""
_NOW_WINDOWS = """
declare i64 @GetTickCount64()
define internal i64 @signals.now() {
  %short = call i64 @GetTickCount64()
  %all = mul i64 %short, 1000000
  ret i64 %all
}"""

TEXT = f"""
@signals.main = global i64 0
@signals.job = global i64 0
@signals.stop = global i32 0
@signals.looked = internal global i64 0
@signals.rested = internal global i64 0

declare i64 @PyThread_get_thread_ident()
declare ptr @PyGILState_GetThisThreadState()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyGILState_Check()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_CheckSignals()
{_NOW_WINDOWS if sys.platform == "win32" else _NOW}

define i32 @signals() {{
  %thread = call i64 @PyThread_get_thread_ident()
  %main = load i64, ptr @signals.main
  %mine = icmp eq i64 %thread, %main
  br i1 %mine, label %clock, label %other
other:
  %stop = load atomic i32, ptr @signals.stop monotonic, align 4
  %asked = icmp ne i32 %stop, 0
  br i1 %asked, label %whose, label %clock
whose:
  %state = call ptr @PyGILState_GetThisThreadState()
  %worker = icmp eq ptr %state, null
  br i1 %worker, label %leave, label %clock
leave:
  ret i32 {FAILED}
clock:
  %last = select i1 %mine, ptr @signals.looked, ptr @signals.rested
  %now = call i64 @signals.now()
  %before = load i64, ptr %last
  %since = sub i64 %now, %before
  %early = icmp ult i64 %since, {INTERVAL}
  br i1 %early, label %go_on, label %due
due:
  store i64 %now, ptr %last
  br i1 %mine, label %look, label %rest
look:
  %status = call i32 @signals.look()
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %rest, label %stopped
stopped:
  ret i32 %status
rest:
  call void @signals.let_go()
  br label %go_on
go_on:
  ret i32 0
}}

; A thread that holds the GIL releases it briefly, so that other threads run.
define internal void @signals.let_go() {{
  %held = call i32 @PyGILState_Check()
  %holds = icmp ne i32 %held, 0
  br i1 %holds, label %release, label %end
release:
  %own = call ptr @PyEval_SaveThread()
  call void @PyEval_RestoreThread(ptr %own)
  br label %end
end:
  ret void
}}

; Run the handlers of signals that have arrived, in the main thread.
define internal i32 @signals.look() {{
  %main = load i64, ptr @signals.main
  %thread = call i64 @PyThread_get_thread_ident()
  %mine = icmp eq i64 %thread, %main
  br i1 %mine, label %ask, label %no
ask:
  %lock = call i32 @PyGILState_Ensure()
  %pending = call ptr @PyErr_Occurred()
  %new = icmp eq ptr %pending, null
  br i1 %new, label %handle, label %stop
handle:
  %raised = call i32 @PyErr_CheckSignals()
  %quiet = icmp eq i32 %raised, 0
  br i1 %quiet, label %release, label %stop
stop:
  %job = load i64, ptr @signals.job
  %ours = icmp eq i64 %job, %main
  %word = zext i1 %ours to i32
  store atomic i32 %word, ptr @signals.stop monotonic, align 4
  br label %release
release:
  %status = phi i32 [ 0, %handle ], [ {FAILED}, %stop ]
  call void @PyGILState_Release(i32 %lock)
  ret i32 %status
no:
  ret i32 0
}}
"""
