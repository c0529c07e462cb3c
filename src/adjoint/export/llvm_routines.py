"""The templates of `routines` as LLVM functions: a compiler for the few statements that they use.

    for (INT i = 0; i < 3; ++i) x[i] -= v * a[i + 3];

Variables are slots on the stack, which LLVM turns into registers. Sums may be reassociated, so that they vectorize.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..compiler.llvm.instruction import MEMORY, REGISTER, Code, literal
from ..compiler.lower.kernel import Dtype
from .template import Template

_TOKEN = re.compile(r"\s*(\d+\.?\d*(?:e[-+]?\d+)?|\w+|\+\+|[-+*/<>=!]=|&&|\|\||[-+*/<>=!?:;,(){}\[\]])")
_INT, _BOOL = "i64", "i1"
_REAL = ("double", "float")
_COMPARE = {"<": ("olt", "slt"), "<=": ("ole", "sle"), ">": ("ogt", "sgt"), ">=": ("oge", "sge"), "==": ("oeq", "eq")}
_COMPARE["!="] = ("une", "ne")


class Value(NamedTuple):
    kind: str  # an LLVM type
    name: str
    unsigned: bool = False


class LlvmRoutines:
    """Makes functions of templates, as a `Spelling` does, for a module."""

    lanes, copies, blas, lapack = 1, False, False, False
    tile: tuple[int, int] | None = (4, 32)  # 8 vectors of 128 bits, of the 16 that most machines have
    tall = 0

    def __init__(self, function: Callable[[str, str], str], declared: set[str]) -> None:
        self.function, self.declared = function, declared

    def literal(self, value: Any, dtype: Dtype) -> str:
        return repr(float(value))

    def routine(self, name: str, template: Template, dtype: Dtype) -> str:
        compiler = _Compiler(template, dtype)
        text = compiler.define()
        self.declared |= compiler.code.declared
        return self.function(name, text)


class _Compiler:
    def __init__(self, template: Template, dtype: Dtype) -> None:
        self.reads, self.arrays = template.reads, [*template.reads, *template.writes]
        self.dtypes, self.dtype, self.tells = template.dtypes, dtype, template.tells
        self.tokens = _TOKEN.findall(template.text)
        self.at = 0
        self.kind = REGISTER[dtype]
        self.code = Code()
        self.slots: list[str] = []
        self.labels = 0
        self.scope: dict[str, Value] = {}  # the type of a variable, and its slot

    def define(self) -> str:
        while self.at < len(self.tokens):
            self.statement()
        given = ", ".join(f"ptr noalias {'readonly ' * (name in self.reads)}%{name}" for name in self.arrays)
        end = "  unreachable" if self.tells else "  ret void"
        head = f"define internal {'i32' if self.tells else 'void'} @NAME({given}) nounwind noinline {{"
        return "\n".join([head, *self.slots, *self.code.lines, end, "}"])

    # -- statements --

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.tokens[self.at]
        assert not wanted or token == wanted, f"{wanted!r} expected, not {token!r}"
        self.at += 1
        return token

    def label(self, what: str) -> str:
        self.labels += 1
        return f"{what}{self.labels}"

    def go_to(self, label: str) -> None:
        self.code.do(f"br label %{label}")
        self.code.label(label)

    def statement(self) -> None:
        token = self.peek()
        if token == "{":
            self.take()
            known = dict(self.scope)
            while self.peek() != "}":
                self.statement()
            self.take()
            self.scope = known
        elif token == "for":
            self.loop()
        elif token == "while":
            self.repeat()
        elif token == "if":
            self.branch()
        elif token.startswith("ROW"):
            self.row()
        elif token in ("CLEAR_ROW", "LOAD_ROW", "STORE_ROW", "ADD_ROW"):
            self.with_row()
        elif token == "return":
            self.take()
            if self.peek() != ";":
                value = self.expression()
                number = value.name if value.kind != _INT else self.code.let(f"trunc i64 {value.name} to i32")
                self.code.do(f"ret i32 {number}")
            else:
                self.code.do("ret void")
            self.take(";")
            self.code.label(self.label("dead"))
        else:
            self.assignment()
            self.take(";")

    def row(self) -> None:
        """`ROW4 t;`, a vector."""
        kind = f"<{self.take().removeprefix('ROW')} x {self.kind}>"
        self.slots.append(f"  %slot{len(self.slots)} = alloca {kind}")
        self.scope[self.take()] = Value(kind, f"%slot{len(self.slots) - 1}")
        self.take(";")

    def with_row(self) -> None:
        """CLEAR_ROW(t); LOAD_ROW(t, array, at); STORE_ROW(t, array, at); ADD_ROW(t, x, v), which is t += x * v."""
        what = self.take()
        self.take("(")
        kind, slot, _ = self.scope[self.take()]
        if what == "CLEAR_ROW":
            made = "zeroinitializer"
        elif what != "ADD_ROW":
            self.take(",")
            array = self.take()
            self.take(",")
            at = self.code.let(f"getelementptr inbounds {self.kind}, ptr %{array}, i64 {self.expression().name}")
            source, slot = (at, slot) if what == "LOAD_ROW" else (slot, at)
            made = self.code.let(f"load {kind}, ptr {source}, align {self.dtype.itemsize}")
        else:
            self.take(",")
            one = self.code.let(f"insertelement {kind} poison, {self.kind} {self.expression().name}, i64 0")
            every = kind.replace(self.kind, "i32")
            many = self.code.let(f"shufflevector {kind} {one}, {kind} poison, {every} zeroinitializer")
            self.take(",")
            other = self.code.let(f"load {kind}, ptr {self.scope[self.take()].name}")
            product = self.code.let(f"fmul contract {kind} {many}, {other}")
            made = self.code.let(f"fadd contract {kind} {self.code.let(f'load {kind}, ptr {slot}')}, {product}")
        self.code.do(f"store {kind} {made}, ptr {slot}, align {self.dtype.itemsize}")
        self.take(")")
        self.take(";")

    def loop(self) -> None:
        self.take("for")
        self.take("(")
        known = dict(self.scope)
        self.assignment()
        self.take(";")
        head, inside, end = self.label("head"), self.label("inside"), self.label("end")
        self.go_to(head)
        test = self.expression()
        self.take(";")
        self.code.do(f"br i1 {test.name}, label %{inside}, label %{end}")
        self.code.label(inside)
        by = "1"
        if self.peek() == "++":
            self.take()
            index = self.scope[self.take()]
        else:
            index = self.scope[self.take()]
            self.take("+=")
            by = self.take()
        self.take(")")
        self.statement()
        now = self.code.let(f"load i64, ptr {index.name}")
        self.code.do(f"store i64 {self.code.let(f'add nsw i64 {now}, {by}')}, ptr {index.name}")
        self.code.do(f"br label %{head}")
        self.code.label(end)
        self.scope = known

    def repeat(self) -> None:
        self.take("while")
        self.take("(")
        head, inside, end = self.label("head"), self.label("inside"), self.label("end")
        self.go_to(head)
        self.code.do(f"br i1 {self.truth(self.expression())}, label %{inside}, label %{end}")
        self.take(")")
        self.code.label(inside)
        self.statement()
        self.code.do(f"br label %{head}")
        self.code.label(end)

    def branch(self) -> None:
        self.take("if")
        self.take("(")
        test = self.truth(self.expression())
        self.take(")")
        yes, no, end = self.label("yes"), self.label("no"), self.label("end")
        self.code.do(f"br i1 {test}, label %{yes}, label %{no}")
        self.code.label(yes)
        self.statement()
        self.code.do(f"br label %{end}")
        self.code.label(no)
        if self.peek() == "else":
            self.take()
            self.statement()
        self.go_to(end)

    def assignment(self) -> None:
        token = self.take()
        if token in ("INT", "COUNT", "REAL"):
            name, kind = self.take(), self.kind if token == "REAL" else _INT
            if self.peek() == "[":  # an array on the stack
                self.take("[")
                self.slots.append(f"  %{name} = alloca [{int(self.take()) * self.dtype.itemsize} x i8], align 16")
                self.take("]")
                return
            self.slots.append(f"  %slot{len(self.slots)} = alloca {kind}")
            self.take("=")
            value = self.converted(self.expression(), kind)
            unsigned = token == "REAL" and self.dtype.kind == "u"
            self.scope[name] = Value(kind, f"%slot{len(self.slots) - 1}", unsigned)
            self.code.do(f"store {kind} {value}, ptr {self.scope[name].name}")
            return
        if self.peek() == "[":
            dtype, pointer = self.element(token)
            how = self.take()
            made = self.combined(how, lambda: Value(REGISTER[dtype], self.code.load(pointer, dtype)))
            self.code.store(self.converted(made, REGISTER[dtype]), pointer, dtype)
            return
        variable = self.scope[token]
        how = self.take()
        made = self.combined(how, lambda: Value(variable.kind, self.code.let(f"load {variable.kind}, ptr {variable.name}")))
        self.code.do(f"store {variable.kind} {self.converted(made, variable.kind)}, ptr {variable.name}")

    def combined(self, how: str, before: Callable[[], Value]) -> Value:
        """The value to assign: an expression, or one combined with the value before."""
        if how == "=":
            return self.expression()
        old = before()
        return self.arithmetic(how[0], old, self.expression())

    def element(self, name: str) -> tuple[Dtype, str]:
        """The dtype and the address of an element."""
        self.take("[")
        index = self.expression()
        self.take("]")
        dtype = self.dtypes.get(name, self.dtype)
        return dtype, self.code.let(f"getelementptr inbounds {MEMORY[dtype]}, ptr %{name}, i64 {index.name}")

    # -- expressions --

    def expression(self) -> Value:
        test = self.either()
        if self.peek() != "?":
            return test
        self.take("?")
        yes = self.expression()
        self.take(":")
        no = self.expression()
        return Value(yes.kind, self.code.let(f"select i1 {self.truth(test)}, {yes.kind} {yes.name}, {yes.kind} {no.name}"))

    def either(self) -> Value:
        value = self.comparison()
        while self.peek() in ("||", "&&"):
            word = "or" if self.take() == "||" else "and"
            value = Value(_BOOL, self.code.let(f"{word} i1 {self.truth(value)}, {self.truth(self.comparison())}"))
        return value

    def comparison(self) -> Value:
        a = self.sum()
        if self.peek() not in _COMPARE:
            return a
        how = self.take()
        b = self.sum()
        kind = self.kind if self.kind in (a.kind, b.kind) else _INT
        real, whole = _COMPARE[how]
        if a.unsigned and b.unsigned:
            whole = whole.replace("s", "u")
        word = f"fcmp {real}" if kind in _REAL else f"icmp {whole}"
        return Value(_BOOL, self.code.let(f"{word} {kind} {self.converted(a, kind)}, {self.converted(b, kind)}"))

    def sum(self) -> Value:
        value = self.product()
        while self.peek() in ("+", "-"):
            sign = self.take()
            value = self.arithmetic(sign, value, self.product())
        return value

    def product(self) -> Value:
        value = self.unary()
        while self.peek() in ("*", "/"):
            sign = self.take()
            value = self.arithmetic(sign, value, self.unary())
        return value

    def unary(self) -> Value:
        if self.peek() == "-":
            self.take()
            value = self.unary()
            return Value(
                value.kind,
                self.code.let(f"fneg {value.kind} {value.name}" if value.kind in _REAL else f"sub i64 0, {value.name}"),
            )
        if self.peek() == "!":
            self.take()
            return Value(_BOOL, self.code.let(f"xor i1 {self.truth(self.unary())}, true"))
        return self.primary()

    def primary(self) -> Value:
        token = self.take()
        if token == "(":
            value = self.expression()
            self.take(")")
            return value
        numbers = {"ZERO": 0.0, "ONE": 1.0, "NOT_A_NUMBER": np.nan}
        if token in numbers and self.kind in _REAL:
            return Value(self.kind, literal(numbers[token], self.dtype))
        if token[0].isdigit():
            return Value(_INT, token) if token.isdigit() else Value(self.kind, literal(float(token), self.dtype))
        if token == "ROW_AT":
            self.take("(")
            row = self.scope[self.take()]
            self.take(",")
            whole = self.code.let(f"load {row.kind}, ptr {row.name}")
            index = self.expression().name
            self.take(")")
            return Value(self.kind, self.code.let(f"extractelement {row.kind} {whole}, i64 {index}"))
        if token in ("AT", "HALF"):
            self.take("(")
            value = self.expression()
            self.take(")")
            return value if token == "AT" else Value(_INT, self.code.let(f"ashr i64 {value.name}, 1"))
        if token in ("SQRT", "ABS", "INT32"):
            self.take("(")
            value = self.expression()
            self.take(")")
            if token == "INT32":
                return value
            return Value(self.kind, self.code.intrinsic({"SQRT": "sqrt", "ABS": "fabs"}[token], self.kind, value.name))
        if self.peek() == "[":
            dtype, pointer = self.element(token)
            loaded = self.code.load(pointer, dtype)
            if dtype == np.int32:
                return Value(_INT, self.code.let(f"sext i32 {loaded} to i64"))
            return Value(REGISTER[dtype], loaded, dtype.kind == "u")
        variable = self.scope[token]
        return Value(variable.kind, self.code.let(f"load {variable.kind}, ptr {variable.name}"), variable.unsigned)

    def arithmetic(self, sign: str, a: Value, b: Value) -> Value:
        if a.kind == _INT and b.kind == _INT:
            return Value(_INT, self.code.let(f"{ {'+': 'add', '-': 'sub', '*': 'mul'}[sign] } nsw i64 {a.name}, {b.name}"))
        word = {"+": "fadd reassoc contract", "-": "fsub contract", "*": "fmul contract", "/": "fdiv"}[sign]
        return Value(self.kind, self.code.let(f"{word} {self.kind} {a.name}, {b.name}"))

    def truth(self, value: Value) -> str:
        return value.name if value.kind == _BOOL else self.code.let(f"icmp ne i64 {value.name}, 0")

    def converted(self, value: Value, kind: str) -> str:
        if value.kind == kind:
            return value.name
        if value.kind == _INT and kind == "i32":
            return self.code.let(f"trunc i64 {value.name} to i32")
        if kind == _BOOL:
            return self.truth(value)
        raise AssertionError(f"no conversion from {value.kind} to {kind}")
