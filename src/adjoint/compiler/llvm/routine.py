"""LLVM functions that work on Python objects."""

from __future__ import annotations

from ..runtime import cpython as py
from .builder import Builder

Offset = int | str  # in bytes: constant, or the name of an i64


class InterpreterRoutine(Builder):
    """A function, and the functions of the interpreter that it calls."""

    def __init__(self, head: str, called: set[str]) -> None:
        super().__init__()
        self.head = head
        self.called = called
        self.label("start")

    def call(self, function: str, *arguments: str) -> str:
        """Call one of the interpreter's functions, each argument with its type."""
        self.called.add(function)
        result, _ = py.FUNCTIONS[function]
        code = f"call {result} @adjoint_{function}({', '.join(arguments)})"
        if result == "void":
            self.do(code)
            return ""
        return self.let(code)

    # Memory

    def address(self, base: str, offset: Offset) -> str:
        return base if offset == 0 else self.let(f"getelementptr i8, ptr {base}, i64 {offset}")

    def load(self, kind: str, base: str, offset: Offset = 0) -> str:
        return self.let(f"load {kind}, ptr {self.address(base, offset)}")

    def store(self, value: str, base: str, offset: Offset = 0) -> None:
        self.do(f"store {value}, ptr {self.address(base, offset)}")

    # Conditions

    def equal(self, kind: str, a: str, b: str | int) -> str:
        return self.let(f"icmp eq {kind} {a}, {b}")

    def need_equal(self, kind: str, a: str, b: str | int, otherwise: str) -> None:
        self.need(self.equal(kind, a, b), otherwise)

    def need_not_null(self, value: str, otherwise: str) -> None:
        self.need(self.let(f"icmp ne ptr {value}, null"), otherwise)

    def text(self) -> str:
        return f"{self.define(self.head)}\n"
