"""LLVM vector values, which LLVM splits into the vectors of the machine."""

from __future__ import annotations

from typing import NamedTuple

from .instruction import Code


class Vector(NamedTuple):
    """An LLVM vector, or a single number."""

    code: Code
    kind: str
    lanes: int
    size: int  # bytes of a number
    stored: int = 0  # if not 0, only so many of the lanes are in memory

    @property
    def type(self) -> str:
        return self.kind if self.lanes == 1 else f"<{self.lanes} x {self.kind}>"

    @property
    def suffix(self) -> str:
        return f"{f'v{self.lanes}' if self.lanes > 1 else ''}f{8 * self.size}"

    def slot(self) -> str:
        return self.code.let(f"alloca {self.type}")

    def load(self, pointer: str) -> str:
        if self.stored:
            kinds = f"ptr, i32, <{self.lanes} x i1>, {self.type}"
            self.code.declared.add(f"declare {self.type} @llvm.masked.load.{self.suffix}.p0({kinds})")
            args = f"ptr {pointer}, i32 {self.size}, {self._mask()}, {self.type} zeroinitializer"
            return self.code.let(f"call {self.type} @llvm.masked.load.{self.suffix}.p0({args})")
        return self.code.let(f"load {self.type}, ptr {pointer}, align {self.size}")

    def store(self, value: str, pointer: str) -> None:
        if self.stored:
            kinds = f"{self.type}, ptr, i32, <{self.lanes} x i1>"
            self.code.declared.add(f"declare void @llvm.masked.store.{self.suffix}.p0({kinds})")
            args = f"{self.type} {value}, ptr {pointer}, i32 {self.size}, {self._mask()}"
            self.code.do(f"call void @llvm.masked.store.{self.suffix}.p0({args})")
            return
        self.code.do(f"store {self.type} {value}, ptr {pointer}, align {self.size}")

    def _mask(self) -> str:
        bits = ", ".join(f"i1 {'true' if lane < self.stored else 'false'}" for lane in range(self.lanes))
        return f"<{self.lanes} x i1> <{bits}>"

    def repeated(self, number: str) -> str:
        if self.lanes == 1:
            return number
        single = self.code.let(f"insertelement {self.type} poison, {self.kind} {number}, i64 0")
        return self.code.let(f"shufflevector {self.type} {single}, {self.type} poison, <{self.lanes} x i32> zeroinitializer")

    def add_product(self, place: str, a: str, b: str) -> None:
        """Add a product to the value at an address."""
        self.store(self.call("fmuladd", a, b, self.load(place)), place)

    def call(self, name: str, *args: str) -> str:
        """An intrinsic whose arguments and result are such values."""
        full = f"@llvm.{name}.{self.suffix}"
        self.code.declared.add(f"declare {self.type} {full}({', '.join([self.type] * len(args))})")
        return self.code.let(f"call {self.type} {full}({', '.join(f'{self.type} {a}' for a in args)})")

    def enlarge(self, place: str, value: str) -> None:
        """The larger of a value and the value at an address, lane by lane; nan propagates."""
        self.store(self.call("maximum", self.load(place), value), place)

    def largest(self, value: str) -> str:
        if self.lanes == 1:
            return value
        name = f"@llvm.vector.reduce.fmaximum.{self.suffix}"
        self.code.declared.add(f"declare {self.kind} {name}({self.type})")
        return self.code.let(f"call {self.kind} {name}({self.type} {value})")
