"""Lines of LLVM IR for functions that work on Python objects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..runtime import cpython as py

Offset = int | str  # in bytes: constant, or the name of an i64


class InterpreterRoutine:
    """One LLVM function with fresh names, and the interpreter's functions that it calls."""

    def __init__(self, head: str, called: set[str]) -> None:
        self.head = head
        self.lines: list[str] = []
        self.called = called
        self.names = 0
        self.label("start")

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def do(self, code: str) -> None:
        self.lines.append(f"  {code}")

    def value(self, code: str) -> str:
        name = self.name("%v")
        self.do(f"{name} = {code}")
        return name

    def call(self, function: str, *arguments: str) -> str:
        """Call one of the interpreter's functions, each argument with its type."""
        self.called.add(function)
        result, _ = py.FUNCTIONS[function]
        code = f"call {result} @adjoint_{function}({', '.join(arguments)})"
        if result == "void":
            self.do(code)
            return ""
        return self.value(code)

    # Memory

    def address(self, base: str, offset: Offset) -> str:
        return base if offset == 0 else self.value(f"getelementptr i8, ptr {base}, i64 {offset}")

    def load(self, kind: str, base: str, offset: Offset = 0) -> str:
        return self.value(f"load {kind}, ptr {self.address(base, offset)}")

    def store(self, value: str, base: str, offset: Offset = 0) -> None:
        self.do(f"store {value}, ptr {self.address(base, offset)}")

    # Control

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")

    def need(self, condition: str, otherwise: str) -> None:
        """Continue if the condition holds, else branch to a label."""
        name = self.name("ok")
        self.branch(condition, name, otherwise)
        self.label(name)

    def equal(self, kind: str, a: str, b: str | int) -> str:
        return self.value(f"icmp eq {kind} {a}, {b}")

    def need_equal(self, kind: str, a: str, b: str | int, otherwise: str) -> None:
        self.need(self.equal(kind, a, b), otherwise)

    def need_not_null(self, value: str, otherwise: str) -> None:
        self.need(self.value(f"icmp ne ptr {value}, null"), otherwise)

    @contextmanager
    def loop(self, count: str) -> Iterator[str]:
        """The block runs for i = 0, …, count − 1 and gets the name of i."""
        before, start, body, done = self.block, self.name("loop"), self.name("body"), self.name("done")
        i, following, last = self.name("%i"), self.name("%next"), self.name("last")
        self.jump(start)
        self.label(start)
        self.do(f"{i} = phi i64 [0, %{before}], [{following}, %{last}]")
        self.branch(self.value(f"icmp ult i64 {i}, {count}"), body, done)
        self.label(body)
        yield i
        self.jump(last)
        self.label(last)
        self.do(f"{following} = add i64 {i}, 1")
        self.jump(start)
        self.label(done)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """The block runs if the condition holds."""
        yes, after = self.name("when"), self.name("after")
        self.branch(condition, yes, after)
        self.label(yes)
        yield
        self.jump(after)
        self.label(after)

    def define(self) -> str:
        return "\n".join([f"{self.head} {{", *self.lines, "}", ""])
