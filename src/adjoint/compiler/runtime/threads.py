"""Threads for the pieces of a kernel: `adjoint_parallel(function, table, pieces)` calls function(table, i) for each i < pieces.

`adjoint_parallel_group(function, table, members, gain)` does the same for the members of a parallel group, which may differ in
length: it measures their times, and uses threads only if the gain, the time of all members but the longest, is large enough.
`gain` is that time in nanoseconds at the last call, or an estimate. The result is 0, or -1 if a signal has set a Python
exception (`signals`).

The calling thread takes part. The number of threads is limited by the pieces; further while BLAS is set to fewer than it had at
first, as by `threadpoolctl`: such a limit is meant for both. Workers wait for a job, spin briefly before they sleep, and take one
piece after the other. The caller wakes two workers, each of these two more: the caller soon begins its own pieces, and no more
workers wake than there are pieces. One job runs at a time: a concurrent call from another thread runs its pieces by itself. The
child of a fork has none of the workers, and starts its own (`restart`).
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from typing import Any

from . import blas, signals
from .blas import Library
from .signals import INTERVAL

_GAIN = 30_000  # nanoseconds from which to wake the threads, which takes about as long
_SPIN = 30_000  # polls for a job, or for its end, before a thread sleeps: about ten microseconds
MOST_THREADS = 256

# The memory of a mutex and of a condition differs from system to system; 128 bytes are enough for all.
_TEXT = f"""
%worker = type {{ [128 x i8], [128 x i8], i32, [60 x i8] }} ; its lock, its condition, whether it sleeps

@threads = global i64 1
@asked = global ptr null
@usual = global i64 0
@started = internal global i64 0
@owner = internal global i32 0
@busy = global i32 0
@lock = internal global [128 x i8] zeroinitializer, align 64
@rest = internal global [128 x i8] zeroinitializer, align 64
@waiting = internal global i32 0, align 64
@generation = internal global i64 0, align 64
@wanted = internal global i64 0
@open = internal global i32 0, align 64
@active = internal global i64 0, align 64
@next = internal global i64 0, align 64
@function = internal global ptr null
@table = internal global ptr null
@pieces = internal global i64 0
@workers = internal global [{MOST_THREADS} x %worker] zeroinitializer, align 64

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_timedwait(ptr, ptr, ptr)
declare i32 @getpid()

define internal void @work(ptr %function, ptr %table, i64 %pieces) {{
  br label %look
look:
  %i = atomicrmw add ptr @next, i64 1 acq_rel
  %mine = icmp slt i64 %i, %pieces
  br i1 %mine, label %run, label %end
run:
  call void %function(ptr %table, i64 %i)
  br label %look
end:
  ret void
}}

; A worker that is wanted wakes the next two and joins the job. It is counted as active before it looks whether the job is
; open, and the caller closes the job before it looks whether a worker is active: no worker reads a job that has ended.
define internal ptr @worker(ptr %argument) {{
  %number = ptrtoint ptr %argument to i64
  %lock = getelementptr %worker, ptr @workers, i64 %number, i32 0
  %wake = getelementptr %worker, ptr @workers, i64 %number, i32 1
  %asleep = getelementptr %worker, ptr @workers, i64 %number, i32 2
  %twice = mul i64 %number, 2
  %left = add i64 %twice, 2
  %right = add i64 %twice, 3
  br label %idle
idle:
  %seen = phi i64 [ 0, %0 ], [ %now, %look ], [ %now, %quit ], [ %now, %tell ]
  br label %spin
spin:
  %spins = phi i64 [ 0, %idle ], [ %spun, %spinning ]
  %glance = load atomic i64, ptr @generation acquire, align 64
  %new = icmp ne i64 %glance, %seen
  br i1 %new, label %look, label %spinning
spinning:
  %spun = add i64 %spins, 1
  %patient = icmp slt i64 %spun, {_SPIN}
  br i1 %patient, label %spin, label %doze
doze:
  call i32 @pthread_mutex_lock(ptr %lock)
  store atomic i32 1, ptr %asleep seq_cst, align 64
  br label %check
check:
  %found = load atomic i64, ptr @generation seq_cst, align 64
  %same = icmp eq i64 %found, %seen
  br i1 %same, label %sleep, label %awake
sleep:
  call i32 @pthread_cond_wait(ptr %wake, ptr %lock)
  br label %check
awake:
  store atomic i32 0, ptr %asleep monotonic, align 64
  call i32 @pthread_mutex_unlock(ptr %lock)
  br label %look
look:
  %now = phi i64 [ %glance, %spin ], [ %found, %awake ]
  %wanted = load atomic i64, ptr @wanted monotonic, align 8
  %is_wanted = icmp slt i64 %number, %wanted
  br i1 %is_wanted, label %join, label %idle
join:
  call void @wake(i64 %left, i64 %wanted)
  call void @wake(i64 %right, i64 %wanted)
  atomicrmw add ptr @active, i64 1 seq_cst
  %is_open = load atomic i32, ptr @open seq_cst, align 64
  %opened = icmp ne i32 %is_open, 0
  br i1 %opened, label %take, label %quit
take:
  %function = load ptr, ptr @function
  %table = load ptr, ptr @table
  %pieces = load i64, ptr @pieces
  call void @work(ptr %function, ptr %table, i64 %pieces)
  br label %quit
quit:
  %before = atomicrmw sub ptr @active, i64 1 seq_cst
  %last = icmp eq i64 %before, 1
  %waiting = load atomic i32, ptr @waiting seq_cst, align 64
  %awaited = icmp ne i32 %waiting, 0
  %end = and i1 %last, %awaited
  br i1 %end, label %tell, label %idle
tell:
  call i32 @pthread_mutex_lock(ptr @lock)
  call i32 @pthread_cond_signal(ptr @rest)
  call i32 @pthread_mutex_unlock(ptr @lock)
  br label %idle
}}

; Wake a worker that is wanted, if it sleeps.
define internal void @wake(i64 %number, i64 %wanted) {{
  %is_wanted = icmp slt i64 %number, %wanted
  br i1 %is_wanted, label %look, label %end
look:
  %place = getelementptr %worker, ptr @workers, i64 %number, i32 2
  %asleep = load atomic i32, ptr %place seq_cst, align 64
  %sleeps = icmp ne i32 %asleep, 0
  br i1 %sleeps, label %call, label %end
call:
  %lock = getelementptr %worker, ptr @workers, i64 %number, i32 0
  %wake = getelementptr %worker, ptr @workers, i64 %number, i32 1
  call i32 @pthread_mutex_lock(ptr %lock)
  call i32 @pthread_cond_signal(ptr %wake)
  call i32 @pthread_mutex_unlock(ptr %lock)
  br label %end
end:
  ret void
}}

; Start workers until there are as many as wanted, or as many as the system allows.
define internal i64 @start(i64 %wanted) {{
  %thread = alloca i64
  %pid = call i32 @getpid()
  %owner = load i32, ptr @owner
  %same = icmp eq i32 %pid, %owner
  br i1 %same, label %more, label %anew
anew:
  store i32 %pid, ptr @owner
  store i64 0, ptr @started
  store atomic i64 0, ptr @active seq_cst, align 64
  store atomic i32 0, ptr @waiting seq_cst, align 64
  store atomic i64 0, ptr @generation seq_cst, align 64
  call i32 @pthread_mutex_init(ptr @lock, ptr null)
  call i32 @pthread_cond_init(ptr @rest, ptr null)
  br label %more
more:
  %started = load i64, ptr @started
  %enough = icmp sge i64 %started, %wanted
  br i1 %enough, label %all, label %create
create:
  %lock = getelementptr %worker, ptr @workers, i64 %started, i32 0
  %wake = getelementptr %worker, ptr @workers, i64 %started, i32 1
  %asleep = getelementptr %worker, ptr @workers, i64 %started, i32 2
  call i32 @pthread_mutex_init(ptr %lock, ptr null)
  call i32 @pthread_cond_init(ptr %wake, ptr null)
  store atomic i32 0, ptr %asleep seq_cst, align 64
  %argument = inttoptr i64 %started to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %argument)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %fewer, label %created
created:
  %id = load i64, ptr %thread
  call i32 @pthread_detach(i64 %id)
  %count = add i64 %started, 1
  store i64 %count, ptr @started
  br label %more
all:
  ret i64 %wanted
fewer:
  ret i64 %started
}}

; How many threads may work now.
define internal i64 @limit() {{
  %most = load i64, ptr @threads
  %asked = load ptr, ptr @asked
  %deaf = icmp eq ptr %asked, null
  br i1 %deaf, label %as_set, label %ask
ask:
  %short = call i32 %asked()
  %count = sext i32 %short to i64
  %usual = load i64, ptr @usual
  %fewer = icmp slt i64 %count, %usual
  %less = icmp slt i64 %count, %most
  %limited = and i1 %fewer, %less
  br i1 %limited, label %as_asked, label %as_set
as_asked:
  ret i64 %count
as_set:
  ret i64 %most
}}

define void @parallel(ptr %function, ptr %table, i64 %pieces) {{
  call i32 @share(ptr %function, ptr %table, i64 %pieces, i1 false)
  ret void
}}

; As `parallel`. One that is `watched` looks for signals while it waits for the workers, and gives -1 if an exception is set.
define internal i32 @share(ptr %function, ptr %table, i64 %pieces, i1 %watched) {{
  %status = alloca i32
  %until = alloca {{ i64, i64 }}
  store i32 0, ptr %status
  %threads = call i64 @limit()
  %alone = icmp slt i64 %threads, 2
  br i1 %alone, label %serial, label %try
try:
  %taken = cmpxchg ptr @busy, i32 0, i32 1 acq_rel monotonic
  %free = extractvalue {{ i32, i1 }} %taken, 1
  br i1 %free, label %share, label %serial
serial:
  br label %each
each:
  %i = phi i64 [ 0, %serial ], [ %j, %each ]
  call void %function(ptr %table, i64 %i)
  %j = add i64 %i, 1
  %again = icmp slt i64 %j, %pieces
  br i1 %again, label %each, label %end
share:
  %few = icmp slt i64 %pieces, %threads
  %most = select i1 %few, i64 %pieces, i64 %threads
  %others = sub i64 %most, 1
  %wanted = call i64 @start(i64 %others)
  store ptr %function, ptr @function
  store ptr %table, ptr @table
  store i64 %pieces, ptr @pieces
  store atomic i64 0, ptr @next release, align 64
  %caller = call i64 @PyThread_get_thread_ident()
  store atomic i32 0, ptr @signals.stop monotonic, align 4
  store i64 %caller, ptr @signals.job
  store atomic i64 %wanted, ptr @wanted monotonic, align 8
  store atomic i32 1, ptr @open seq_cst, align 64
  atomicrmw add ptr @generation, i64 1 seq_cst
  call void @wake(i64 0, i64 %wanted)
  call void @wake(i64 1, i64 %wanted)
  call void @work(ptr %function, ptr %table, i64 %pieces)
  store atomic i32 0, ptr @open seq_cst, align 64
  br label %spin
spin:
  %spins = phi i64 [ 0, %share ], [ %spun, %spinning ]
  %workers = load atomic i64, ptr @active seq_cst, align 64
  %none = icmp eq i64 %workers, 0
  br i1 %none, label %close, label %spinning
spinning:
  %spun = add i64 %spins, 1
  %patient = icmp slt i64 %spun, {_SPIN}
  br i1 %patient, label %spin, label %wait_locked
wait_locked:
  call i32 @pthread_mutex_lock(ptr @lock)
  store atomic i32 1, ptr @waiting seq_cst, align 64
  br label %check
check:
  %a = load atomic i64, ptr @active seq_cst, align 64
  %quiet = icmp eq i64 %a, 0
  br i1 %quiet, label %leave, label %wait
wait:
  br i1 %watched, label %sleep, label %rest
rest:
  call i32 @pthread_cond_wait(ptr @rest, ptr @lock)
  br label %check
sleep:
  call void @later(ptr %until)
  call i32 @pthread_cond_timedwait(ptr @rest, ptr @lock, ptr %until)
  call i32 @pthread_mutex_unlock(ptr @lock)
  %found = call i32 @signals.look()
  call void @signals.let_go()
  %known = load i32, ptr %status
  %both = or i32 %known, %found
  store i32 %both, ptr %status
  call i32 @pthread_mutex_lock(ptr @lock)
  br label %check
leave:
  store atomic i32 0, ptr @waiting seq_cst, align 64
  call i32 @pthread_mutex_unlock(ptr @lock)
  br label %close
close:
  store i64 0, ptr @signals.job
  store atomic i32 0, ptr @busy release, align 4
  br label %end
end:
  %result = load i32, ptr %status
  ret i32 %result
}}

; The time until which a thread sleeps at most.
define internal void @later(ptr %time) {{
  call i32 @clock_gettime(i32 0, ptr %time)
  %seconds = load i64, ptr %time
  %place = getelementptr {{ i64, i64 }}, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %place
  %sum = add i64 %rest, {INTERVAL}
  %over = icmp sge i64 %sum, 1000000000
  %carry = zext i1 %over to i64
  %taken = mul i64 %carry, 1000000000
  %left = sub i64 %sum, %taken
  %whole = add i64 %seconds, %carry
  store i64 %whole, ptr %time
  store i64 %left, ptr %place
  ret void
}}

define internal i64 @now() {{
  %time = alloca {{ i64, i64 }}
  call i32 @clock_gettime(i32 {getattr(time, "CLOCK_MONOTONIC", 0)}, ptr %time)
  %whole = load i64, ptr %time
  %place = getelementptr {{ i64, i64 }}, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %place
  %long = mul i64 %whole, 1000000000
  %all = add i64 %long, %rest
  ret i64 %all
}}

; The job of a group: its function, its table, and a word for the time of each member.
define internal void @timed(ptr %job, i64 %i) {{
  %function = load ptr, ptr %job
  %second = getelementptr ptr, ptr %job, i64 1
  %table = load ptr, ptr %second
  %times = getelementptr ptr, ptr %job, i64 2
  %place = getelementptr i64, ptr %times, i64 %i
  %began = call i64 @now()
  call void %function(ptr %table, i64 %i)
  %ended = call i64 @now()
  %took = sub i64 %ended, %began
  store i64 %took, ptr %place
  ret void
}}

define i32 @parallel_group(ptr %function, ptr %table, i64 %members, ptr %gain) {{
  %words = add i64 %members, 2
  %job = alloca i64, i64 %words
  store ptr %function, ptr %job
  %second = getelementptr ptr, ptr %job, i64 1
  store ptr %table, ptr %second
  %times = getelementptr ptr, ptr %job, i64 2
  %before = load atomic i64, ptr %gain monotonic, align 8
  %worth = icmp sge i64 %before, {_GAIN}
  br i1 %worth, label %share, label %alone
share:
  %status = call i32 @share(ptr @timed, ptr %job, i64 %members, i1 true)
  br label %count
alone:
  %i = phi i64 [ 0, %0 ], [ %j, %alone ]
  call void @timed(ptr %job, i64 %i)
  %j = add i64 %i, 1
  %again = icmp slt i64 %j, %members
  br i1 %again, label %alone, label %count
count:
  %result = phi i32 [ %status, %share ], [ 0, %alone ], [ %result, %count ]
  %k = phi i64 [ 0, %share ], [ 0, %alone ], [ %l, %count ]
  %total = phi i64 [ 0, %share ], [ 0, %alone ], [ %sum, %count ]
  %longest = phi i64 [ 0, %share ], [ 0, %alone ], [ %most, %count ]
  %place = getelementptr i64, ptr %times, i64 %k
  %took = load i64, ptr %place
  %sum = add i64 %total, %took
  %longer = icmp sgt i64 %took, %longest
  %most = select i1 %longer, i64 %took, i64 %longest
  %l = add i64 %k, 1
  %more = icmp slt i64 %l, %members
  br i1 %more, label %count, label %keep
keep:
  %gained = sub i64 %sum, %most
  store atomic i64 %gained, ptr %gain monotonic, align 8
  ret i32 %result
}}
"""

_SERIAL = """
@busy = global i32 0
@threads = global i64 1
@asked = global ptr null
@usual = global i64 0
define void @parallel(ptr %function, ptr %table, i64 %pieces) {
  br label %each
each:
  %i = phi i64 [ 0, %0 ], [ %j, %each ]
  call void %function(ptr %table, i64 %i)
  %j = add i64 %i, 1
  %again = icmp slt i64 %j, %pieces
  br i1 %again, label %each, label %end
end:
  ret void
}
define i32 @parallel_group(ptr %function, ptr %table, i64 %members, ptr %gain) {
  call void @parallel(ptr %function, ptr %table, i64 %members)
  ret i32 0
}
"""


TEXT = signals.TEXT + blas.TEXT + (_TEXT if os.name == "posix" else _SERIAL)


class Pool:
    """The machine code of the pool, and how many threads it may use. The engine holds the code of TEXT."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.address = engine.get_function_address("parallel")
        self.parallel_group = engine.get_function_address("parallel_group")
        self.signals = engine.get_function_address("signals")
        self.one_thread = engine.get_function_address("one_thread")
        self.usual_threads = engine.get_function_address("usual_threads")
        self._limited: Library | None = None
        self._threads = self._word("threads", ctypes.c_int64)
        self._usual = self._word("usual", ctypes.c_int64)
        self.threads = default_threads()
        self.restart()

    def _word(self, name: str, kind: Any) -> Any:
        return kind.from_address(self.engine.get_global_value_address(name))

    def restart(self) -> None:
        """Reset, at first and in the child of a fork, where jobs of other threads do not continue; workers start on demand."""
        self._word("signals.main", ctypes.c_int64).value = threading.main_thread().ident or 0
        if self._word("blas.calls", ctypes.c_int32).value and self._limited is not None:
            self._limited.set_threads(self._word("blas.before", ctypes.c_int32).value)
        for name in ("busy", "signals.stop", "blas.lock", "blas.calls"):
            self._word(name, ctypes.c_int32).value = 0

    def follow(self, library: Library | None) -> None:
        """Use no more threads than this BLAS, when it is set to fewer than it has now."""
        if library is not None:
            self.usual = library.threads()
            self._word("asked", ctypes.c_void_p).value = ctypes.cast(library.threads, ctypes.c_void_p).value

    def limit(self, library: Library | None) -> None:
        """Let short calls of this BLAS have one thread."""
        if library is not None:
            self._limited = library
            for name, function in (("blas.read", library.threads), ("blas.write", library.set_threads)):
                self._word(name, ctypes.c_void_p).value = ctypes.cast(function, ctypes.c_void_p).value

    @property
    def usual(self) -> int:
        """The number of BLAS threads from which it is not considered limited."""
        return int(self._usual.value)

    @usual.setter
    def usual(self, count: int) -> None:
        self._usual.value = count

    @property
    def threads(self) -> int:
        return int(self._threads.value)

    @threads.setter
    def threads(self, count: int) -> None:
        self._threads.value = count


def default_threads() -> int:
    """The number of cores of this process, or OMP_NUM_THREADS."""
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if asked.isdecimal() and int(asked) > 0:
        return min(int(asked), MOST_THREADS)
    cores = len(os.sched_getaffinity(0)) if sys.platform.startswith("linux") else os.cpu_count() or 1
    return min(cores, MOST_THREADS)
