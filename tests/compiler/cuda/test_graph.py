"""Programs as CUDA graphs, in the simulator: fixed addresses, loops and branches by flags in memory."""

import contextlib
import ctypes
import subprocess
from types import SimpleNamespace

import pytest
from gpu.test_graphs import *  # noqa: F403
from stand_in_libraries import WithLibraries

from adjoint.compiler.cuda import graph, ptx
from adjoint.core.errors import DeviceError


class Pooled(WithLibraries):
    """Hands out the same memory again, as CuPy's pool does."""

    def results(self, types, arena):
        made = super().results(types, arena)
        held = made.allocate()
        return made._replace(allocate=lambda: held)


@pytest.fixture
def gpu():
    return Pooled()


class Driver:
    """Notes the calls of the driver, and gives numbers for what they make."""

    def __init__(self, failing=""):
        self.calls, self.failing, self.bodies = [], failing, (ctypes.c_void_p * 1)(77)

    def __call__(self, name, *arguments):
        self.calls.append(name)
        if name == self.failing:
            raise DeviceError(f"{name} failed")
        if name in ("cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuCtxGetCurrent", "cuGraphConditionalHandleCreate"):
            place = arguments[1] if name == "cuStreamEndCapture" else arguments[0]
            ctypes.c_void_p.from_address(place).value = 42
        if name == "cuGraphAddNode_v2":
            asked = graph._Node.from_address(arguments[-1])
            assert (asked.type, asked.size, asked.handle, asked.context) == (13, 1, 42, 42)
            asked.graphs = self.bodies
            self.calls[-1] += f" {graph.ConditionalKind(asked.kind).name}"
        if name == "cuStreamBeginCaptureToGraph":
            assert arguments[1] == 77


class Streams:
    """What a recording uses of CuPy."""

    def __init__(self):
        self.current, made = [], self
        self.cuda = SimpleNamespace(
            MemoryPool=lambda: SimpleNamespace(malloc=None),
            using_allocator=lambda malloc: contextlib.nullcontext(),
            get_current_stream=lambda: self.current[-1],
            Stream=lambda non_blocking: Stream(made),
        )


class Stream:
    def __init__(self, streams):
        self.streams, self.ptr = streams, 1 + len(streams.current)

    def __enter__(self):
        self.streams.current.append(self)

    def __exit__(self, *error):
        self.streams.current.pop()


BEGIN, END = "cuStreamBeginCapture_v2", "cuStreamEndCapture"
HANDLE = ["cuStreamGetCaptureInfo_v3", "cuCtxGetCurrent", "cuGraphConditionalHandleCreate"]
NODE = ["cuStreamGetCaptureInfo_v3", "cuCtxGetCurrent"]
INSIDE = ["cuStreamUpdateCaptureDependencies_v2", "cuStreamBeginCaptureToGraph"]
MADE = [END, "cuGraphInstantiateWithFlags", "cuGraphDestroy"]


def recorded(monkeypatch, run, failing=""):
    driver, streams = Driver(failing), Streams()
    monkeypatch.setattr(graph, "driver", lambda: driver)
    recording = graph.GraphRecording(streams, lambda arguments: driver.calls.append(arguments))
    work = lambda what: lambda: driver.calls.append(what)
    launchable = recording.record(lambda: run(recording, work))
    assert not streams.current
    return launchable, driver.calls


def test_a_loop_is_a_node(monkeypatch):
    launchable, calls = recorded(monkeypatch, lambda recording, work: recording.repeat(5, work("body")))
    asked = [*NODE, "cuGraphAddNode_v2 WHILE", *INSIDE]
    assert calls == [BEGIN, *HANDLE, (42, 5, 0), *asked, "body", (42, 5, 0), END, *MADE]
    launchable(9)
    assert calls[-1] == "cuGraphLaunch"


def test_a_branch_is_two_nodes(monkeypatch):
    _, calls = recorded(monkeypatch, lambda recording, work: recording.choose(5, work("true"), work("false")))
    asked = [*NODE, "cuGraphAddNode_v2 IF", *INSIDE]
    assert calls == [BEGIN, *HANDLE * 2, (42, 5, 0), (42, 5, 1), *asked, "true", END, *asked, "false", END, *MADE]


@pytest.mark.parametrize("failing", ["cuGraphAddNode_v2", "cuStreamBeginCaptureToGraph", "cuGraphInstantiateWithFlags"])
def test_a_recording_that_fails_is_ended(monkeypatch, failing):
    driver = []

    def run(recording, work):
        driver.append(graph.driver())
        recording.repeat(5, work("body"))

    with pytest.raises(DeviceError, match=f"{failing} failed"):
        recorded(monkeypatch, run, failing)
    assert driver[0].calls[-1] == "cuGraphDestroy"
    assert END in driver[0].calls


def test_the_kernel_that_sets_a_condition(tmp_path):
    if not ptx.knows("sm_90"):
        pytest.skip("no ptxas")
    source = tmp_path / "set_condition.ptx"
    source.write_text(graph.SET_CONDITION)
    command = [ptx.assembler(), "-c", "-arch=sm_90", str(source), "-o", str(tmp_path / "made")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
