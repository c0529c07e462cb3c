"""A specialization for a GPU: launches instead of machine code for this processor."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import DeviceError
from ..core.locks import cached
from ..core.places import described
from ..core.tree import LEAF
from ..core.types import Type
from ..device.arrays import gpu_of
from .specialization import PROFILED_CALLS, PROFILED_SECONDS, Function, Signature, Specialization, Staged, counted

if TYPE_CHECKING:
    from .lower.step import Lowered


class Mirror:
    """The copy on a GPU of an array that a program reads outside its function; renewed when the array has changed."""

    def __init__(self) -> None:
        self.held: tuple[Any, Any] | None = None  # the contents that were copied, and the copy

    def of(self, array: Any, t: Type, device: Any) -> Any:
        held = self.held
        if held is None or not _same_bits(array, held[0]):
            held = self.held = array.copy(), device.adopt(array, t)
            device.wait()  # other streams may read it
        return held[1]


def _same_bits(a: Any, b: Any) -> bool:
    """Whether two contiguous arrays of one type have the same bits."""
    return bool(np.array_equal(*(x.reshape(-1).view(np.uint8) for x in (a, b))))


class GPUSpecialization(Specialization):
    """A program on a GPU. Flat inputs are arrays on that GPU, or host values, which are copied there."""

    def __init__(self, staged: Staged, signature: Signature, began: float, device: Any, precision: str) -> None:
        from .cuda.program import DeviceProgram  # heavy: loads LLVM
        from .runtime.entry import MISS

        assert signature.target is not None
        self.keep(staged, signature)
        self.device, self.precision, self.missed = device, precision, MISS
        self.gives_back, self.donated = signature.target.gives_back, signature.donated
        self.types = self.staged.input_types
        self.mirrors = [Mirror() for _ in self.captured]
        with device.active():
            self.program = DeviceProgram(self.lowered, device, precision, self.donated)
        self.seconds = time.perf_counter() - began

    def converts_halves(self) -> bool:
        return True

    @cached
    def lowered(self) -> Lowered:
        """How: launches, products, calls."""
        from .cuda.lowering import lower  # heavy: loads LLVM

        return lower(self.graph, self.weak, bool(self.guards), self.unread)

    def __repr__(self) -> str:
        return f"<program of {self.staged.name} on a GPU: print it, or look at .graph, .lowered, .text and .ptx>"

    @property
    def text(self) -> str:
        """The kernels as LLVM's text."""
        return self.program.module.for_gpu()

    @property
    def ptx(self) -> str:
        """The kernels as PTX for the GPU."""
        from .cuda.ptx import ptx  # heavy: loads LLVM

        return ptx(self.text, self.device.processor)

    # -- calls --

    def flat(self, *leaves: Any) -> Any:
        """The flat results for flat inputs, or MISS."""
        with self.device.active():
            addresses, given, _alive = self.opened(leaves)
            results = self.program.at(addresses, given)
            if results is self.missed or not self.gives_back:
                return results
            return tuple([y[()] for y in self.device.fetched(results)])

    def opened(self, leaves: Sequence[Any]) -> tuple[list[int], dict[int, Any], Any]:
        """The addresses of the inputs on the GPU, the donated arrays, and the objects that must live through the call."""
        device, types = self.device, self.types
        arrays: dict[int, Any] = {}
        first = len(leaves) - len(self.captured)
        for i, x in enumerate(leaves):
            if i >= first and isinstance(x, np.ndarray):
                arrays[i] = self.mirrors[i - first].of(x, types[i], device)
            elif not isinstance(x, (np.ndarray, np.generic, bool, int, float, complex)):
                arrays[i] = x if device.taken(x, types[i]) else self.adopted(x, i)
        sent = [i for i in range(len(leaves)) if i not in arrays]
        copies, alive = device.sent([leaves[i] for i in sent], [types[i] for i in sent]) if sent else ([], None)
        found = dict(zip(sent, copies, strict=True)) | {i: device.address(x) for i, x in arrays.items()}
        addresses = [found[i] for i in range(len(leaves))]
        given = {i: arrays[i] for i in self.donated if i in arrays and not self.is_shared(i, addresses)}
        return addresses, given, (arrays, alive)

    def is_shared(self, i: int, addresses: Sequence[int]) -> bool:
        """Whether another input shares memory with input i."""
        spans = [(a, a + t.size * t.dtype.itemsize) for a, t in zip(addresses, self.types, strict=True)]
        begin, end = spans[i]
        return any(k != i and start < end and begin < stop for k, (start, stop) in enumerate(spans))

    def adopted(self, x: Any, i: int) -> Any:
        gpu = gpu_of(x)
        if gpu != self.device.number:
            name = self.staged.input_names[i]
            where = "in host memory" if gpu is None else f"on GPU {gpu}"
            raise DeviceError(f"{name} of {self.staged.name} is {where}, and the program runs on GPU {self.device.number}")
        return self.device.adopt(self.device.imported(x), self.types[i])

    def function(self, signature: Signature, name: str, otherwise: Function | None) -> Function | None:
        """The program as a function of arrays on the GPU, one per argument; it passes other calls on."""
        from . import native  # heavy: loads LLVM

        arguments = [child for _, child in signature.structure.children[0][1].children]
        named = signature.structure.children[1][1]
        is_plain = not (signature.static or named.children or self.gives_back or self.weak or self.donated or self.captured)
        if otherwise is None or not is_plain or any(child is not LEAF for child in arguments):
            return None
        device, program, types, count = self.device, self.program, self.types, len(arguments)
        taken, missed, result, active = device.taken, self.missed, self.staged.out_structure, device.is_active
        outside = native.places_check(self.places)

        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs or len(args) != count or not active() or outside() is missed:
                return otherwise(*args, **kwargs)
            addresses = [taken(x, t) for x, t in zip(args, types, strict=True)]
            if 0 in addresses:
                return otherwise(*args)
            results = program.at(addresses, {})
            if results is missed:
                return otherwise(*args)
            return results[0] if result is LEAF else result.unflatten(results)

        return call

    # -- what there is to see --

    def report(self) -> list[str]:
        """Kernels with their registers and memory, guards, loops, and the steps that run on the host."""
        program = self.program
        launched = Counter(kernel.name for kernel in program.kernels)
        how_often = "launches that depend on numbers" if program.launches is None else counted(program.launches, "launch")
        lines = [
            f"{counted(len(self.graph), 'equation')}, {counted(len(launched), 'kernel')}, {how_often}, on {self.device.name} "
            f"{self.device.number}, {self.lowered.arena} bytes of memory, {self.seconds * 1e3:.0f} ms"
        ]
        used = self.device.use(program.functions, program.module)
        for kernel in {k.name: k for k in program.kernels}.values():
            what = f"kernel {kernel.name}: {counted(kernel.blocks, 'block')} of {kernel.threads} threads"
            if kernel.name in used:
                registers, spilled, shared = used[kernel.name]
                what += f", {registers} registers, {spilled} bytes spilled, {shared} bytes of shared memory"
            lines.append(f"{what} ({', '.join(kernel.source.lines)})" if kernel.source.lines else what)
        lines += [f"result {i} takes the memory of {self.staged.input_names[j]}" for i, j in program.reused.items()]
        lines += described(self.places)
        lines += [
            f"copies {self.staged.input_names[len(self.types) - len(self.captured) + i]} to the GPU when it has changed"
            for i, mirror in enumerate(self.mirrors)
            if mirror.held is not None
        ]
        lines += map(str, self.guards)
        lines += map(str, (*self.optimized.loops, *self.optimized.unrolled))
        if program.replays is not None and program.replays.refused:
            lines.append(f"is not captured as a CUDA graph: {program.replays.refused}")
        return lines + list(dict.fromkeys(self.calls_on_host()))

    def calls_on_host(self) -> Iterator[str]:
        """The steps that are computed on the host, with the bytes transferred."""
        for step in self.program.on_host:
            moved = sum(v.buffer.nbytes for v in (*step.reads(), *step.writes()))
            yield f"calls NumPy for {step.op.name} on the host, {moved} bytes there and back ({', '.join(step.lines)})"

    def profile(self, leaves: Sequence[Any]) -> str:
        """How long a call takes on the GPU, and each of its steps, by CUDA events; the longest first."""
        device, program = self.device, self.program
        with device.active():
            addresses, _, _alive = self.opened(leaves)
            program.at(addresses, {})
            device.wait()
            began, calls = time.perf_counter(), 0
            while calls < PROFILED_CALLS and time.perf_counter() - began < PROFILED_SECONDS / 2:
                program.at(addresses, {})
                calls += 1
            device.wait()
            seconds = (time.perf_counter() - began) / max(calls, 1)
            rows = program.timed(addresses)
        total = sum(spent for _, _, spent in rows)
        lines = [f"{seconds * 1e6:.1f} µs a call, {total * 1e6:.1f} µs by kernel and routine:"]
        for what, count, spent in sorted(rows, key=lambda row: -row[2]):
            lines.append(f"  {spent / max(total, 1e-12):6.1%} {spent * 1e6:10.1f} µs  {what}, {counted(count, 'time')}")
        return "\n".join(lines)
