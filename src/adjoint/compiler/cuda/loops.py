"""A loop inside a thread: see `lower.sweep`. The carries of a point are in registers; the row pointers advance with the
iteration."""

from __future__ import annotations

from collections.abc import Sequence

from ..llvm.instruction import MEMORY
from ..lower.kernel import View
from ..lower.sweep import Place, Sweep
from .launch import Launch
from .threads import Threads


class Looping(Threads):
    """Writes the one phase of a sweep, over the buffers of the body: a carry has one where it begins and one where it ends."""

    def __init__(self, sweep: Sweep) -> None:
        assert isinstance(sweep.kernel, Launch)
        super().__init__(sweep.kernel)
        self.sweep, scan = sweep, sweep.scan
        first, rest = len(scan.consts), len(scan.consts) + len(scan.carries)
        self.begins = scan.body.inputs[first:rest]
        self.ends = [view.buffer for view in scan.body.outputs[: len(scan.carries)]]
        self.carried = {b: j for buffers in (self.begins, self.ends) for j, b in enumerate(buffers)}
        self.rows = {*scan.body.inputs[rest:], *(view.buffer for view in scan.body.outputs[len(scan.carries) :])}
        self.buffers = list(dict.fromkeys([*self.buffers, *self.begins, *self.ends]))
        self.registers: dict[Place, str] = {}
        self.iteration = "0"

    def first(self) -> None:
        code, scan = self.code, self.sweep.scan
        point, _, _ = self.place()
        views = {place: self.view_at(place) for place in self.sweep.places}
        self.registers = {place: code.let(f"alloca {MEMORY[view.dtype]}") for place, view in views.items()}
        with code.when(code.let(f"icmp ult i64 {point}, {self.layout.results}")):
            self.at(point)
            for place, view in views.items():
                start = self.pointer(self.begins[place[0]], view.offset, self.moves(view))
                code.store(code.load(start, view.dtype), self.registers[place], view.dtype)
            with code.iterations("0", str(scan.length)) as i:
                self.iteration = code.let(f"sub nsw i64 {scan.length - 1}, {i}") if scan.reverse else i
                self.point([])
            for place, view in views.items():
                end = self.pointer(self.ends[place[0]], view.offset, self.moves(view))
                code.store(code.load(self.registers[place], view.dtype), end, view.dtype)

    def view_at(self, place: Place) -> View:
        """The view through which the body stores a part of a carry."""
        for store in self.kernel.stores:
            view = store.view
            if self.carried.get(view.buffer, -1) == place[0] and (view.strides, view.offset) == place[1:]:
                return view
        raise AssertionError("a carry of a sweep must be stored by its kernel")

    def moves(self, view: View) -> list[tuple[str, int]]:
        return list(zip(self.indices, self.strides[id(view)], strict=True))

    def address(self, view: View, moved: Sequence[tuple[str, int]] = ()) -> str:
        buffer = view.buffer
        if buffer in self.carried:
            return self.registers[self.carried[buffer], view.strides, view.offset]
        if buffer in self.rows:
            return self.pointer(buffer, view.offset, [*self.moves(view), (self.iteration, buffer.size), *moved])
        return super().address(view, moved)
