"""Random programs with loops and branches, as source text: what Python runs, and what is staged from the source."""

from __future__ import annotations

import itertools
import linecache
import random
from collections.abc import Callable
from typing import Any

import adjoint.numpy as anp

_names = itertools.count()


def defined(text: str, name: str = "f", **names: Any) -> Callable[..., Any]:
    """The function of a text, whose source can be found."""
    file = f"<program {next(_names)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "program", "np": anp, **names}
    exec(compile(text, file, "exec"), space)
    return space[name]


class Writer:
    """Writes a program of the floats x, y, z, the integers k, m, the array a of `SIZE` floats, the pair p and the matrix q."""

    SIZE = 5

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 0  # of loops
        self.fresh = 0

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def add(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    def number(self) -> str:
        return self.pick("0.5", "1.5", "-0.7", "0.25", "2", "-1")

    def index(self, whole: list[str]) -> str:
        return self.pick(str(self.random.randrange(self.SIZE)), "-1", f"{self.pick(*whole)} % {self.SIZE}")

    def value(self, whole: list[str], deep: int = 0) -> str:
        """An expression that stays bounded."""
        if deep > 2:
            return self.pick("x", "y", "z", self.number())
        inner = self.value(whole, deep + 1)
        other = self.value(whole, deep + 1)
        return self.pick(
            "x",
            "y",
            "z",
            f"np.sin({inner})",
            f"np.tanh({inner} + {other})",
            f"0.3 * ({inner} - {other})",
            f"0.5 * ({inner}) * np.cos({other})",
            f"a[{self.index(whole)}]",
            f"np.sin({self.pick(*whole)} * {inner})",
            f"({inner} if {self.test(whole)} else {other})",
            f"helper({inner}, {self.pick(*whole)})",
            f"np.sum(np.tanh(a * {inner}))",
            f"p[{self.pick(0, 1, -1)}]",
            f"q[{self.pick(0, 1)}][{self.pick(*whole)} % 3]",
            f"min({inner}, {other})",
            f"pair({inner}, {other})[{self.pick(0, 1)}]",
        )

    def test(self, whole: list[str]) -> str:
        return self.pick(
            f"{self.pick('x', 'y', 'z')} > {self.number()}",
            f"{self.pick(*whole)} % {self.pick(2, 3)} == 0",
            f"x < y and {self.pick(*whole)} < 4",
            f"not (z > 0.1) or {self.pick(*whole)} > 2",
            f"-1 < x < {self.number()}",
            f"p[0] >= {self.number()} or x == y",
            f"early(x, {self.pick(*whole)}) < {self.number()}",
        )

    def block(self, indent: int, whole: list[str], in_loop: bool, size: int) -> None:
        for _ in range(self.random.randint(1, size)):
            self.statement(indent, whole, in_loop)

    def statement(self, indent: int, whole: list[str], in_loop: bool) -> None:
        kind = self.random.random()
        target = self.pick("x", "y", "z")
        if kind < 0.30:
            self.add(indent, f"{target} = {self.value(whole)}")
        elif kind < 0.38:
            self.add(indent, f"{target} += 0.1 * {self.value(whole)}")
        elif kind < 0.46:
            self.add(indent, f"a[{self.index(whole)}] {self.pick('=', '+=')} 0.5 * {self.value(whole)}")
        elif kind < 0.50:
            self.add(indent, f"a = {self.pick('np.tanh(a)', 'a * 0.9 + x', 'np.sin(a) + np.cos(y * a)')}")
        elif kind < 0.54:
            self.add(indent, f"k = {self.pick('k + 1', 'm', '(k + 2) % 7')}")
        elif kind < 0.56:
            self.add(indent, f"x, y = y, {self.value(whole)}")
        elif kind < 0.62:
            self.add(indent, self.write(whole))
        elif kind < 0.74 and indent < 5:
            self.add(indent, f"if {self.test(whole)}:")
            self.block(indent + 1, whole, in_loop, 2)
            if in_loop and self.random.random() < 0.25:
                self.add(indent + 1, self.pick("break", "continue"))
            if self.random.random() < 0.5:
                self.add(indent, "else:")
                self.block(indent + 1, whole, in_loop, 2)
        elif self.depth < 2 and indent < 4:
            self.loop(indent, whole)
        else:
            self.add(indent, f"{target} = np.tanh({self.value(whole)})")

    def write(self, whole: list[str]) -> str:
        """A statement on tuples, slices and the matrix q."""
        value = f"0.5 * np.tanh({self.value(whole)})"
        return self.pick(
            f"p = (p[1], {value})",
            f"p = pair({value}, p[0])",
            f"(x, z), k = p, {self.pick('k', 'm')}",
            f"a[{self.pick('1:3', '::2', ':-1', '-2:')}] {self.pick('=', '+=', '-=')} {value}",
            f"a *= {value}",
            f"q[{self.pick(0, 1)}, {self.pick(*whole)} % 3] {self.pick('=', '+=', '*=')} {value}",
            f"q[{self.pick(0, 1)}] = q[{self.pick(0, 1)}] * 0.5 + {value}",
            f"q = q @ q.T @ q * 0.1 if np.sum(q) < {self.number()} else np.tanh(q).T.T",
            f"x **= {self.pick(2, 3)}",
            f"y /= 1.5 + {value}",
        )

    def loop(self, indent: int, whole: list[str]) -> None:
        self.depth += 1
        self.fresh += 1
        i = f"i{self.fresh}"
        head = self.pick("range", "range", "step", "back", "array", "enumerate", "zip", "while")
        inner = [*whole, i]
        if head == "range":
            count = self.pick("n", "n + 2", "9", "3", "len(a)", "2 * n") if self.depth == 1 else self.pick("n", "8", "2")
            self.add(indent, f"for {i} in range({count}):")
        elif head == "step":
            self.add(indent, f"for {i} in range({self.pick(0, 1, 'm')}, {self.pick('n', 17)}, {self.pick(2, 3)}):")
        elif head == "back":
            self.add(indent, f"for {i} in {self.pick('range(n, 0, -1)', 'reversed(range(n))', 'range(20, 2, -2)')}:")
        elif head == "array":
            self.add(indent, f"for v{self.fresh} in {self.pick('b', 'reversed(b)', 'b[2:]')}:")
            self.add(indent + 1, f"x = x * 0.9 + v{self.fresh}")
            inner = whole
        elif head == "enumerate":
            self.add(indent, f"for {i}, v{self.fresh} in enumerate(b):")
            self.add(indent + 1, f"y = y * 0.5 + np.sin(v{self.fresh})")
        elif head == "zip":
            self.add(indent, f"for v{self.fresh}, {i} in zip(b, range({self.pick('n', 12)})):")
            self.add(indent + 1, f"z = 0.5 * z + v{self.fresh}")
        else:
            self.add(indent, f"{i} = 0")
            if self.random.random() < 0.3:
                self.add(indent, "while True:")
                self.add(indent + 1, f"if {i} >= n{self.pick('', ' or abs(x) > 5')}:")
                self.add(indent + 2, "break")
            else:
                self.add(indent, f"while {i} < {self.pick('n', 10)}{self.pick('', ' and abs(x) < 5', ' and z > -3')}:")
            self.add(indent + 1, f"{i} += {self.pick(1, 2)}")
        self.block(indent + 1, inner, True, 3)
        if self.random.random() < 0.15:
            self.add(indent, "else:")
            self.add(indent + 1, f"z = 0.5 * z + {self.value(whole)}")
        self.depth -= 1

    def text(self) -> str:
        self.add(0, "def helper(u, j):")
        if self.random.random() < 0.5:
            self.add(1, "if j > 2:")
            self.add(2, "return u * 0.5")
            self.add(1, f"return {self.pick('np.sin(u)', 'u + 0.1', 'u - 0.01 * j')}")
        else:
            self.add(1, "for t in range(9):")
            self.add(2, "u = np.sin(u) + 0.01 * j")
            self.add(1, "return u")
        self.add(0, "def pair(u, v):")
        self.add(1, f"return {self.pick('v, u', '(0.5 * u, np.sin(v))', '(u, v) if u < v else (v, 0.1 * u)')}")
        self.add(0, "def early(u, j):")
        self.add(1, "if u > 0.7:")
        self.add(2, f"return {self.pick('0.7', 'u', '0.1 * j')}")
        self.add(1, f"if {self.pick('u < -0.5', 'j > 3', 'u > 0 and j > 1')}:")
        self.add(2, "u = u * 0.5")
        self.add(1, "else:")
        self.add(2, "if u > 0.2:")
        self.add(3, "return np.sin(u)")
        self.add(1, "return u + 0.01 * j")
        self.add(0, "def f(x, b, n):")
        self.add(1, f"y = {self.pick('0', '0.0', '0.3', 'x')}")
        self.add(1, f"z = {self.pick('0', '1.0', '0.5 * x')}")
        self.add(1, f"k, m = {self.pick('0, 1', '2, 3')}")
        self.add(1, f"a = np.zeros({self.SIZE}) + 0.1")
        self.add(1, f"p = {self.pick('(x, 0.5)', '(0.1, y)', '(z, z)')}")
        self.add(1, "q = np.zeros((2, 3)) + 0.2")
        for _ in range(self.random.randint(1, 3)):
            self.block(1, ["k", "m"], False, 2)
        if self.random.random() < 0.3:
            self.add(1, f"if {self.test(['k', 'm'])}:")
            self.add(2, f"return {self.value(['k', 'm'])} + np.sum(a)")
        self.loop(1, ["k", "m"])
        if self.random.random() < 0.3:
            self.add(1, f"if {self.test(['k', 'm'])}:")
            self.add(2, "return x * y + p[0]")
        self.add(1, "return x + y + z + np.sum(a) + p[0] * p[1] + np.sum(q * q)")
        return "\n".join(self.lines) + "\n"
