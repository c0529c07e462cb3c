"""One LLVM function as text: fresh names, blocks, branches and loops.

    code = Builder()
    with code.iterations("0", "%n") as i:                      for i = 0, …, n − 1
        code.do(f"call void @f(i64 {i})")
    code.do("ret void")
    code.define("define void @g(i64 %n)")                       define void @g(i64 %n) { … }

`Code` adds the operations of kernels, `InterpreterRoutine` those on Python objects, `vecmath.Body` those of elementary functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import SupportsInt, TypeVar

_Case = TypeVar("_Case", bound=SupportsInt)

#: Attributes of functions with explicit vectors: as long as the machine has them, and without vectorizing their many short loops,
#: which would dominate the compile time.
WRITTEN_AS_VECTORS = 'noimplicitfloat "prefer-vector-width"="512"'
UNOPTIMISED = '"unoptimised"'  # an attribute of functions that `emit` compiles without the optimiser
STRIDED = '"strided"'  # an attribute of functions whose loops load from another cache line in each iteration; see `emit`


class Builder:
    """The lines of a function so far; new ones go to the end of the current block."""

    def __init__(self) -> None:
        self.first: list[str] = []  # lines before all others
        self.lines: list[str] = []
        self.count = 0
        self.marks = 0
        self.block = ""  # the current block

    def fresh(self) -> str:
        """A new name for a value."""
        self.count += 1
        return f"%t{self.count}"

    def let(self, text: str) -> str:
        """Add a line with a value; returns its name."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def define(self, head: str) -> str:
        """The text of the function."""
        return "\n".join([f"{head} {{", *self.first, *self.lines, "}"])

    def variable(self, kind: str) -> str:
        """The address of a number that LLVM keeps in a register, where no code that is called reads it."""
        name = self.fresh()
        self.first.append(f"  {name} = alloca {kind}")
        return name

    # -- blocks --

    def mark(self, what: str) -> str:
        """A new name for a block."""
        self.marks += 1
        return f"{what}{self.marks}"

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")
        self.block = name

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")

    def enter(self, label: str) -> str:
        """Begin a block that continues the current one."""
        self.jump(label)
        self.label(label)
        return label

    def switch(self, number: str, cases: Mapping[_Case, str], otherwise: str) -> None:
        listed = " ".join(f"i64 {int(case)}, label %{label}" for case, label in cases.items())
        self.do(f"switch i64 {number}, label %{otherwise} [ {listed} ]")

    def phi(self, kind: str, values: Sequence[tuple[str, str]]) -> str:
        """One of several values, by the block that comes before."""
        return self.let(_phi(kind, values))

    def need(self, condition: str, otherwise: str) -> None:
        """Continue if the condition holds, else branch to a label."""
        fine = self.mark("fine")
        self.branch(condition, fine, otherwise)
        self.label(fine)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """The block runs if the condition holds."""
        inside, after = self.mark("then"), self.mark("after")
        self.branch(condition, inside, after)
        self.label(inside)
        yield
        self.enter(after)

    # -- loops --

    @contextmanager
    def iterations(self, start: str, stop: str, step: int = 1) -> Iterator[str]:
        """A loop over the numbers from `start` to below `stop`, possibly none."""
        before, head, inside, last, end = map(self.mark, ("from", "test", "inside", "next", "past"))
        index, following = self.fresh(), self.fresh()
        self.enter(before)
        self.enter(head)
        self.do(f"{index} = {_phi('i64', ((start, before), (following, last)))}")
        self.branch(self.let(f"icmp slt i64 {index}, {stop}"), inside, end)
        self.label(inside)
        yield index
        self.enter(last)
        self.do(f"{following} = add nuw nsw i64 {index}, {step}")
        self.jump(head)
        self.label(end)

    def loop(self, count: str) -> AbstractContextManager[str]:
        """A loop of `count` iterations, possibly none."""
        return self.iterations("0", count)

    def repeat(self, starts: Sequence[tuple[str, str]] = (), first: str = "0") -> Repetition:
        """Begin a loop of at least one iteration that carries values: pairs of a type and an initial value."""
        return Repetition(self, starts, first)


class Repetition:
    """A loop of at least one iteration, which carries values. `index` and `values` are those of an iteration."""

    def __init__(self, code: Builder, starts: Sequence[tuple[str, str]], first: str) -> None:
        self.code, self.starts, self.first = code, starts, first
        self.before, self.head = code.enter(code.mark("before")), code.enter(code.mark("loop"))
        self.index, self.following = code.fresh(), code.fresh()
        self.values = [code.fresh() for _ in starts]
        self.place = len(code.lines)

    def close(self, stop: str, nexts: Sequence[str] = (), how: str = "") -> None:
        """Go on below `stop`, with these values; `how` is metadata."""
        code, end = self.code, self.code.mark("end")
        last = code.enter(code.mark("last"))
        code.do(f"{self.following} = add nuw nsw i64 {self.index}, 1")
        more = code.let(f"icmp slt i64 {self.following}, {stop}")
        code.do(f"br i1 {more}, label %{self.head}, label %{end}{how}")
        code.label(end)
        carried = [(self.index, "i64", self.first, self.following)]
        carried += [(name, *given, then) for name, given, then in zip(self.values, self.starts, nexts, strict=True)]
        code.lines[self.place : self.place] = phis(carried, self.before, last)


def phis(carried: Sequence[tuple[str, str, str, str]], before: str, last: str) -> list[str]:
    """The head of a loop: for each value its name, its type, its first value, and that of the next iteration."""
    return [f"  {name} = {_phi(kind, ((first, before), (then, last)))}" for name, kind, first, then in carried]


def _phi(kind: str, values: Sequence[tuple[str, str]]) -> str:
    return f"phi {kind} " + ", ".join(f"[ {value}, %{block} ]" for value, block in values)
