"""Random functions of a float and a small integer, of Python's own statements: nested branches, early returns, loops, unpacking.

    def f(x, n):
        a = x * 0.5
        if 0.12 < a <= x:
            return a - n
        for i in range(n % 3):
            a += np.sin(a) * i
        return a

A function is text, so that one that fails can be read and run by itself. All numbers stay moderate: products go through tanh.
"""

import textwrap

import numpy as np

NUMBERS = (0.5, -0.5, 1.5, -3.0, 0.0, 0.815)
WHOLE = (0, 1, 2, 5)
DEEPEST = 3  # blocks within blocks


class Writer:
    """Writes one function. `names` are the floats in scope."""

    def __init__(self, seed):
        self.rng = np.random.default_rng([92, seed])
        self.count = 0

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    def new(self):
        self.count += 1
        return f"v{self.count}"

    # -- expressions -----------------------------------------------------------------------------------------------

    def number(self):
        return f"{self.rng.uniform(-1.5, 1.5):.3f}"

    def term(self, names):
        return self.pick([self.pick(names), self.pick(names), self.number()])

    def expression(self, names):
        a, b, c, t = self.term(names), self.term(names), self.pick(names), self.number()
        return self.pick(
            [
                f"{c} + {a}", f"{c} - {a} * 0.3", f"{t} - {c}", f"np.tanh({c} * {a})", f"np.sin({c})", f"np.cos({a} + {c})",
                f"{c} / (1.5 + abs({a}))", f"-{c}", f"abs({c})", f"np.tanh({c}) ** 2", f"(abs({c}) + 0.3) ** 0.5",
                f"max({c}, {a})", f"min({c}, {a}, {b})", f"sorted([{c}, {a}, {b}])[1]", f"{c} + n", f"{c} * (n % 3)",
                f"({c} if {self.condition(names)} else {b})", f"[{c}, {a}, {b}][n % 3]", f"{{0: {c}, 1: {a}}}.get(n, {b})",
                f"sum({c} * i for i in range(3) if {self.condition(names)})", f"sum([{a}, {c}, {b}][1:])",
                f"np.where({self.condition(names, chain=False)}, {c}, {a})", f"(lambda u, w={a}: u * 0.5 + w)({c})",
                f"{c} * ({self.condition(names)})", f"np.clip({c}, -0.7, 0.9)", f"np.sum(np.stack([{c}, {c} * 0.5]))",
                f"divmod(n + 1, 2)[1] * {c}", f"{c} * len([i for i in range(n + 1) if i % 2])", f"round(2.6 * n) * 0.1 + {c}",
            ]
        )  # fmt: skip

    def condition(self, names, chain=True):
        a, b, t = self.pick(names), self.term(names), self.number()
        less, more = self.pick(["<", "<="]), self.pick([">", ">=", "!="])
        options = [f"{a} {more} {t}", f"{a} {less} {b}", f"np.sin({a}) {less} {t}"]
        if chain:
            options += [
                f"{t} {less} {a} {less} {b}", f"{a} {more} {t} and {b} {less} 1.01", f"not {a} {less} {t}",
                f"n % 2 == {self.rng.integers(2)}", f"{a} {more} {b} or n > 1", f"any(v > {t} for v in ({a}, {b}))",
                f"all([{a} {less} {t}, n < 3])", f"{a}",
                f"n in (0, 2) and {a} {more} {t}", f"np.isfinite({a}) and {b} {less} {t}",
            ]  # fmt: skip
        return self.pick(options)

    # -- statements: each gives its lines, and adds the names that it binds -----------------------------------------------

    def block(self, names, depth, in_loop=False, length=None):
        """Statements of a block, with the names that it binds kept to itself."""
        own, lines = list(names), []
        for _ in range(length or self.rng.integers(1, 3)):
            lines += self.statement(own, depth, in_loop)
        return textwrap.indent("\n".join(lines), "    ").split("\n")

    def statement(self, names, depth, in_loop=False):
        kinds = [self.bind, self.bind, self.augment, self.augment, self.unpack]
        if depth < DEEPEST:
            kinds += [self.branch, self.branch, self.leave, self.count_up, self.repeat, self.attempt, self.match, self.define]
        if in_loop:
            kinds += [self.jump]
        return self.pick(kinds)(names, depth)

    def changed(self, names):
        return self.pick([name for name in names if name != "x"] or ["x"])

    def bind(self, names, depth):
        name, text = self.new(), self.expression(names)
        names.append(name)
        return [f"{name} = {text}"]

    def augment(self, names, depth):
        by = self.pick([self.number(), f"np.sin({self.pick(names)})"])
        return [f"{self.changed(names)} {self.pick(['+=', '-=', '*='])} {by}"]

    def unpack(self, names, depth):
        a, b, c = self.new(), self.new(), self.new()
        values = [self.expression(names) for _ in range(3)]
        names += [a, b, c]
        return [
            self.pick(
                [
                    f"{a}, {b}, {c} = {', '.join(values)}",
                    f"{a}, ({b}, {c}) = {values[0]}, ({values[1]}, {values[2]})",
                    f"{a}, *{c} = [{', '.join(values)}]\n{c}, {b} = {c}",
                    f"{a} = {b} = {values[0]}\n{c} = ({a} := {values[1]}) + {b}",
                ]
            )
        ]

    def branch(self, names, depth):
        lines = [f"if {self.condition(names)}:", *self.block(names, depth + 1)]
        if self.rng.random() < 0.4:
            lines += [f"elif {self.condition(names)}:", *self.block(names, depth + 1)]
        return lines + (["else:", *self.block(names, depth + 1)] if self.rng.random() < 0.6 else [])

    def leave(self, names, depth):
        return [f"if {self.condition(names)}:", f"    return {self.expression(names)} + 0.0 * x"]  # which is no integer

    def jump(self, names, depth):
        return [f"if {self.condition(names)}:", f"    {self.pick(['break', 'continue'])}"]

    def count_up(self, names, depth):
        i = self.new()
        over = self.pick([f"range({self.rng.integers(4)})", "range(n % 4)", "(0.5, 1.5)", "[x, 0.25]", "reversed(range(3))"])
        lines = [f"for {i} in {over}:", *self.block([*names, i], depth + 1, in_loop=True)]
        return lines + (["else:", *self.block(names, depth + 1)] if self.rng.random() < 0.2 else [])

    def repeat(self, names, depth):
        """A loop whose number of iterations may depend on the numbers."""
        i, v = self.new(), self.changed(names)
        head = [f"{i} = 0", f"while {i} < {self.rng.integers(1, 6)} and ({self.condition(names)}):", f"    {i} += 1"]
        return [*head, f"    {v} = {v} * 0.7 + 0.1", *self.block(names, depth + 1, in_loop=True, length=1)]

    def attempt(self, names, depth):
        v = self.changed(names)
        lines = ["try:", f"    if {self.condition(names)}:", "        raise ValueError('no')", *self.block(names, depth + 1)]
        lines += ["except ValueError:", f"    {v} = {v} - {self.number()}"]
        return lines + (["finally:", f"    {v} += 0.1"] if self.rng.random() < 0.4 else [])

    def match(self, names, depth):
        lines = ["match n % 3:", "    case 0:", *textwrap.indent("\n".join(self.block(names, depth + 1)), "    ").split("\n")]
        lines += [f"    case 1 if {self.condition(names)}:"]
        return lines + textwrap.indent("\n".join(self.block(names, depth + 1)), "    ").split("\n")

    def define(self, names, depth):
        f, v, name, outer = self.new(), self.new(), self.new(), self.changed(names)
        inside = f"    nonlocal {outer}\n    {outer} = {outer} + 0.1\n" if depth == 0 and outer != "x" else ""
        lines = [f"def {f}({v}, scale=0.5):\n{inside}    if {v} > {self.number()}:\n        return {v} * scale"]
        lines += [f"    return {v} + {outer}"]
        lines += [f"{name} = {f}({self.pick(names)}) + {f}({self.pick(names)}, scale={self.number()})"]
        names.append(name)
        return lines

    def function(self):
        names = ["x"]
        lines = ["v0 = x * 1.0"]
        names.append("v0")
        for _ in range(self.rng.integers(3, 7)):
            lines += self.statement(names, 0)
        lines += [f"return {' + '.join(names[-4:])}"]
        return "def f(x, n):\n" + textwrap.indent("\n".join(lines), "    ") + "\n"


def function(seed):
    """The function, and its text."""
    text = Writer(seed).function()
    space = {"np": np}
    exec(compile(text, f"<function {seed}>", "exec"), space)
    return space["f"], text
