"""CUDA graphs: the launches and library calls of a program, recorded once and launched as one. Loops and branches on a GPU are
conditional nodes, so that no number is read back.

    with recording:                              test; set the condition
        recording.repeat(flag, work)             while condition: work; set the condition        (a graph inside a node)

A condition is set by a kernel of one thread, which calls `cudaGraphSetConditional`. The driver knows that function and links it
when PTX is loaded: no library of the toolkit is needed. Drivers before CUDA 12.4 have no such nodes.

Memory allocated while recording comes from a pool private to the graph, so that its addresses stay valid as long as the graph.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from ...core.errors import DeviceError
from .c_api import driver

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED: memory may be allocated meanwhile
_CONDITIONAL = 13  # CU_GRAPH_NODE_TYPE_CONDITIONAL
_REPLACE = 1  # CU_STREAM_SET_CAPTURE_DEPENDENCIES
_FIRST_DRIVER = 12040

SET_CONDITION = """.version 7.0
.target sm_70
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);

.visible .entry set_condition(.param .u64 handle, .param .u64 flag, .param .u64 flip)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    .reg .pred %p;
    .param .b64 first;
    .param .b32 second;
    ld.param.u64 %rd1, [handle];
    ld.param.u64 %rd2, [flag];
    ld.param.u64 %rd3, [flip];
    cvta.to.global.u64 %rd2, %rd2;
    ld.global.u8 %r1, [%rd2];
    setp.ne.u32 %p, %r1, 0;
    selp.u32 %r2, 1, 0, %p;
    cvt.u32.u64 %r3, %rd3;
    xor.b32 %r2, %r2, %r3;
    st.param.b64 [first], %rd1;
    st.param.b32 [second], %r2;
    call.uni cudaGraphSetConditional, (first, second);
    ret;
}
"""


class ConditionalKind(IntEnum):
    """CUgraphConditionalNodeType."""

    IF = 0
    WHILE = 1


class _Node(ctypes.Structure):
    """CUgraphNodeParams of a conditional node."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("reserved0", ctypes.c_int * 3),
        ("handle", ctypes.c_ulonglong),
        ("kind", ctypes.c_int),
        ("size", ctypes.c_uint),
        ("graphs", ctypes.POINTER(ctypes.c_void_p)),
        ("context", ctypes.c_void_p),
        ("rest", ctypes.c_longlong * 25),
        ("reserved2", ctypes.c_longlong),
    )


@functools.cache
def has_conditions(version: int) -> bool:
    """Whether a driver of this version has conditional nodes."""
    names = ("cuStreamBeginCaptureToGraph", "cuStreamGetCaptureInfo_v3", "cuGraphAddNode_v2", "cuGraphConditionalHandleCreate")
    return version >= _FIRST_DRIVER and all(map(driver().has, names))


class GraphRecording:
    """A graph being recorded, then the finished graph. `set_condition` launches the kernel of that name on the current stream."""

    def __init__(self, xp: Any, set_condition: Any) -> None:
        self.xp, self._set = xp, set_condition
        self.pool = xp.cuda.MemoryPool()
        self.memory: Any = None  # for cuBLAS

    def work_memory(self, size: int) -> Any:
        if self.memory is None:
            self.memory = self.xp.empty(size, "u1")
        return self.memory

    def record(self, run: Callable[[], None]) -> Callable[[int], None]:
        """Record what `run` launches, without executing it. The function returned executes it all, on a stream."""
        graph, made = ctypes.c_void_p(), ctypes.c_void_p()
        stream = self.xp.cuda.Stream(non_blocking=True)  # the default one cannot be captured
        with self.xp.cuda.using_allocator(self.pool.malloc), stream:
            driver()("cuStreamBeginCapture_v2", stream.ptr, _RELAXED)
            try:
                run()
            except BaseException:
                _abandon(stream.ptr)
                raise
            driver()("cuStreamEndCapture", stream.ptr, ctypes.addressof(graph))
        try:
            driver()("cuGraphInstantiateWithFlags", ctypes.addressof(made), graph, 0)
        finally:
            driver()("cuGraphDestroy", graph)
        assert made.value is not None
        return Launchable(made.value, self)

    # -- conditions --

    def repeat(self, flag: int, work: Callable[[], None]) -> None:
        """Repeat `work` while the flag at an address is true; `work` updates the flag."""
        handle = self._handle()
        self._decide(handle, flag)
        with self._inside(handle, ConditionalKind.WHILE):
            work()
            self._decide(handle, flag)

    def choose(self, flag: int, true: Callable[[], None], false: Callable[[], None]) -> None:
        """One of two, by the flag at an address."""
        handles = self._handle(), self._handle()
        for flip, handle in enumerate(handles):
            self._decide(handle, flag, flip)
        for handle, work in zip(handles, (true, false), strict=True):
            with self._inside(handle, ConditionalKind.IF):
                work()

    def _decide(self, handle: int, flag: int, flip: int = 0) -> None:
        self._set((handle, flag, flip))

    def _captured(self) -> tuple[int, Any, int]:
        """The graph that the current stream records into, and the nodes that precede the next one."""
        status, graph, nodes, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        number, edges = ctypes.c_ulonglong(), ctypes.c_void_p()
        found = (ctypes.addressof(x) for x in (status, number, graph, nodes, edges, count))
        driver()("cuStreamGetCaptureInfo_v3", self.xp.cuda.get_current_stream().ptr, *found)
        return graph.value or 0, nodes, count.value

    def _handle(self) -> int:
        handle = ctypes.c_ulonglong()
        driver()("cuGraphConditionalHandleCreate", ctypes.addressof(handle), self._captured()[0], _context(), 0, 0)
        return handle.value

    @contextmanager
    def _inside(self, handle: int, kind: ConditionalKind) -> Iterator[None]:
        """Record into the graph of a new conditional node, which comes after what the current stream has recorded."""
        graph, nodes, count = self._captured()
        asked = _Node(type=_CONDITIONAL, handle=handle, kind=kind, size=1, context=_context())
        node, ended = ctypes.c_void_p(), ctypes.c_void_p()
        driver()("cuGraphAddNode_v2", ctypes.addressof(node), graph, nodes, None, count, ctypes.addressof(asked))
        outer = self.xp.cuda.get_current_stream().ptr
        driver()("cuStreamUpdateCaptureDependencies_v2", outer, ctypes.addressof(node), None, 1, _REPLACE)
        inner = self.xp.cuda.Stream(non_blocking=True)
        with inner:
            driver()("cuStreamBeginCaptureToGraph", inner.ptr, asked.graphs[0], None, None, 0, _RELAXED)
            try:
                yield
            except BaseException:
                _abandon(inner.ptr)
                raise
            driver()("cuStreamEndCapture", inner.ptr, ctypes.addressof(ended))


class Launchable:
    """A graph that can be launched, with the memory that it uses."""

    def __init__(self, number: int, recording: GraphRecording) -> None:
        self.number, self.recording = number, recording
        weakref.finalize(self, driver(), "cuGraphExecDestroy", number).atexit = False

    def __call__(self, stream: int) -> None:
        driver()("cuGraphLaunch", self.number, stream)


def _context() -> int:
    found = ctypes.c_void_p()
    driver()("cuCtxGetCurrent", ctypes.addressof(found))
    return found.value or 0


def _abandon(stream: int) -> None:
    """End a recording that has failed."""
    graph = ctypes.c_void_p()
    try:
        driver()("cuStreamEndCapture", stream, ctypes.addressof(graph))
    except DeviceError:  # the driver reports the failure again; the first error is already being raised
        return
    if graph.value:
        driver()("cuGraphDestroy", graph)
