"""The backward pass of a `while` loop, as a separate function.

    i32 @while_vjp(ptr count, ptr consts…, carries…, cotangents…, totals…, finals…, parts…, spare…, ptr env, ptr scratch)

All states are stored; or the iterations are cut into segments: the forward pass stores the state at the start of each (a
checkpoint), and the backward pass recomputes the states of one segment at a time, and pulls the cotangents through them from the
last to the first. The number of iterations is known only at run time, so checkpoints and states are in malloced memory, which is
freed at the single exit of the function.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..lower import polling
from ..lower.kernel import View
from ..lower.step import Lowered, WhileVjp
from ..runtime import signals
from .instruction import MEMORY, Code

OUT_OF_MEMORY = 3  # see `entry.ERRORS`
_LARGEST = 1 << 62  # bytes


def define(name: str, step: WhileVjp, run: str, pull: str) -> tuple[str, set[str]]:
    """The text of the function, with the names of those for its bodies, and what it declares."""
    return _Unwinding(step, run, pull).define(name)


class _Unwinding:
    def __init__(self, step: WhileVjp, run: str, pull: str) -> None:
        self.step, self.run_name, self.pull_name = step, run, pull
        self.code = Code()
        self.offsets, self.record = _layout(step.carries)

    def define(self, name: str) -> tuple[str, set[str]]:
        code, step = self.code, self.step
        groups = ("consts", "carries", "cotangents", "totals", "finals", "parts", "spare")
        self.pointers = {group: [f"%{group}{i}" for i in range(len(getattr(step, group)))] for group in groups}
        written = ("totals", "finals", "parts", "spare")
        parameters = [f"ptr {'noalias ' * (g in written)}{p}" for g in groups for p in self.pointers[g]]
        parameters = ["ptr %count", *parameters, "ptr %env", "ptr %scratch"]
        self.status, self.block, self.flip = (code.let(f"alloca {kind}") for kind in ("i32", "ptr", "i1"))
        code.do(f"store i32 0, ptr {self.status}")
        code.do(f"store ptr null, ptr {self.block}")
        code.do(f"store i1 false, ptr {self.flip}")
        self.work()
        code.enter("out")
        code.do(f"call void @free(ptr {code.let(f'load ptr, ptr {self.block}')})")
        code.do(f"ret i32 {code.let(f'load i32, ptr {self.status}')}")
        declared = code.declared | {
            "declare ptr @malloc(i64) nounwind",
            "declare void @free(ptr) nounwind",
            "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
            "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        }
        return code.define(f"define internal i32 {name}({', '.join(parameters)}) nounwind"), declared

    def work(self) -> None:
        code, step = self.code, self.step
        for pointer, view in zip(self.pointers["totals"], step.totals, strict=True):
            code.do(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {view.buffer.nbytes}, i1 false)")
        for source, target, view in zip(self.pointers["cotangents"], self.pointers["finals"], step.finals, strict=True):
            self.copy(source, target, view.buffer.nbytes)
        iterations = code.let("load i64, ptr %count, align 8")
        self.need(code.let(f"icmp sgt i64 {iterations}, 0"))
        if step.checkpoint is None:
            self.in_one(iterations)
        else:
            self.in_segments(iterations, self.segment_length(iterations))
        self.finish()

    def in_one(self, iterations: str) -> None:
        """All states are stored."""
        self.allocate(iterations, iterations)
        self.states = self.code.let(f"load ptr, ptr {self.block}")
        self.begin(self.states)
        self.go_on(iterations)
        self.go_back(iterations)

    def in_segments(self, iterations: str, length: str) -> None:
        code = self.code
        segments = self.divided(iterations, length)
        self.allocate(iterations, code.let(f"add i64 {segments}, {length}"))
        marks = code.let(f"load ptr, ptr {self.block}")
        self.states = self.at(marks, segments)
        self.begin(marks)
        last = code.let(f"sub i64 {segments}, 1")
        with self.code.iterations("0", last) as k:
            self.fill(self.at(marks, k), length)
            end = self.at(self.states, code.let(f"sub i64 {length}, 1"))
            self.advance(end, self.at(marks, code.let(f"add i64 {k}, 1")))
        with self.code.iterations("0", segments) as passed:
            k = code.let(f"sub i64 {last}, {passed}")
            left = code.let(f"sub i64 {iterations}, {code.let(f'mul i64 {k}, {length}')}")
            count = self.code.smaller(left, length)
            self.fill(self.at(marks, k), count)
            self.go_back(count)

    # -- the parts of the work --

    def segment_length(self, iterations: str) -> str:
        """As `ops.control.segment_length`."""
        code, checkpoint = self.code, self.step.checkpoint
        assert checkpoint is not None
        if checkpoint == "sqrt":  # exact below 2^52 iterations
            root = code.intrinsic("sqrt", "double", code.let(f"sitofp i64 {iterations} to double"))
            return self.divided(iterations, code.let(f"fptosi double {root} to i64"))
        return self.divided(iterations, str(max(int(checkpoint), 1)))

    def allocate(self, iterations: str, records: str) -> None:
        """Allocate room for so many states, at most one more than iterations."""
        code = self.code
        self.need(code.let(f"icmp slt i64 {iterations}, {_LARGEST // self.record}"), OUT_OF_MEMORY)
        block = code.let(f"call ptr @malloc(i64 {code.let(f'mul i64 {records}, {self.record}')})")
        code.do(f"store ptr {block}, ptr {self.block}")
        self.need(code.let(f"icmp ne ptr {block}, null"), OUT_OF_MEMORY)

    def begin(self, state: str) -> None:
        """Store the first state: the initial carries."""
        for pointer, target, view in zip(self.pointers["carries"], self.carries(state), self.step.carries, strict=True):
            self.copy(pointer, target, view.buffer.nbytes)

    def fill(self, mark: str, count: str) -> None:
        """Recompute the states of a segment from its checkpoint."""
        self.copy(mark, self.states, self.record)
        self.go_on(count)

    def go_on(self, count: str) -> None:
        """Compute the states after the first, so many in all."""
        code = self.code
        with self.code.iterations("0", code.let(f"sub i64 {count}, 1")) as i:
            self.advance(self.at(self.states, i), self.at(self.states, code.let(f"add i64 {i}, 1")))
            self.look_for_signals(i, self.step.step)

    def go_back(self, count: str) -> None:
        """Pull the cotangents back through so many iterations, from the last."""
        code = self.code
        with self.code.iterations("0", count) as i:
            j = code.let(f"sub i64 {code.let(f'sub i64 {count}, 1')}, {i}")
            self.pull(self.at(self.states, j))
            self.look_for_signals(i, self.step.pull)

    def advance(self, source: str, target: str) -> None:
        self.call(self.run_name, self.step.step, [*self.pointers["consts"], *self.carries(source), *self.carries(target)])

    def pull(self, state: str) -> None:
        """Pull back one iteration. The cotangents are double-buffered."""
        code = self.code
        flip = code.let(f"load i1, ptr {self.flip}")
        pairs = list(zip(self.pointers["finals"], self.pointers["spare"], strict=True))
        sources = [code.let(f"select i1 {flip}, ptr {b}, ptr {a}") for a, b in pairs]
        targets = [code.let(f"select i1 {flip}, ptr {a}, ptr {b}") for a, b in pairs]
        inputs = [*self.pointers["consts"], *self.carries(state), *sources]
        self.call(self.pull_name, self.step.pull, [*inputs, *self.pointers["parts"], *targets])
        code.do(f"store i1 {code.let(f'xor i1 {flip}, true')}, ptr {self.flip}")
        for total, part, view in zip(self.pointers["totals"], self.pointers["parts"], self.step.totals, strict=True):
            self.add(total, part, view)

    def add(self, total: str, part: str, view: View) -> None:
        code, dtype = self.code, view.dtype
        kind = MEMORY[dtype]

        def add_one(into: str, from_: str) -> None:
            code.store(code.let(f"fadd {kind} {code.load(into, dtype)}, {code.load(from_, dtype)}"), into, dtype)

        if view.buffer.size == 1:
            add_one(total, part)
            return
        with self.code.iterations("0", str(view.buffer.size)) as i:
            add_one(*(code.let(f"getelementptr {kind}, ptr {p}, i64 {i}") for p in (total, part)))

    def finish(self) -> None:
        """After an odd number of iterations, copy the cotangents from the spare buffer."""
        with self.code.when(self.code.let(f"load i1, ptr {self.flip}")):
            for source, target, view in zip(self.pointers["spare"], self.pointers["finals"], self.step.finals, strict=True):
                self.copy(source, target, view.buffer.nbytes)

    # -- code --

    def call(self, name: str, body: Lowered, pointers: Sequence[str]) -> None:
        code = self.code
        status = code.let(f"call i32 {name}({', '.join(f'ptr {p}' for p in (*pointers, '%env', '%scratch'))})")
        if polling.can_stop(body):
            self.go_on_if_zero(status)

    def go_on_if_zero(self, status: str) -> None:
        self.code.do(f"store i32 {status}, ptr {self.status}")
        self.need(self.code.let(f"icmp eq i32 {status}, 0"))

    def look_for_signals(self, index: str, body: Lowered) -> None:
        """Poll for signals every so many iterations."""
        code = self.code
        code.declared.add(signals.DECLARATION)
        last = polling.iterations_between(self.step, body) - 1
        with code.when(code.let(f"icmp eq i64 {code.let(f'and i64 {index}, {last}')}, {last}")):
            self.go_on_if_zero(code.let("call i32 @adjoint_signals()"))

    def need(self, condition: str, status: int | None = None) -> None:
        """Branch to the exit unless a condition holds, with a new status or the current one."""
        code = self.code
        if status is not None:
            code.do(f"store i32 {code.let(f'select i1 {condition}, i32 0, i32 {status}')}, ptr {self.status}")
        code.need(condition, "out")

    def at(self, base: str, i: str) -> str:
        """The address of a state."""
        return self.code.let(f"getelementptr i8, ptr {base}, i64 {self.code.let(f'mul i64 {i}, {self.record}')}")

    def carries(self, state: str) -> list[str]:
        return [self.code.let(f"getelementptr i8, ptr {state}, i64 {offset}") for offset in self.offsets]

    def divided(self, a: str, b: str) -> str:
        """Rounded up; both are positive."""
        code = self.code
        more = code.let(f"sub i64 {b}, 1")
        return code.let(f"sdiv i64 {code.let(f'add i64 {a}, {more}')}, {b}")

    def copy(self, source: str, target: str, size: int) -> None:
        self.code.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")


def _layout(carries: Sequence[View]) -> tuple[list[int], int]:
    """The offsets of the carries in a state, aligned to their elements, and its size in bytes."""
    offsets, end = [], 0
    for view in carries:
        end = -(-end // view.dtype.itemsize) * view.dtype.itemsize
        offsets.append(end)
        end += view.buffer.nbytes
    return offsets, max(16, -(-end // 16) * 16)
