"""Random in-place loop nests in plain NumPy, as text: one to three levels, affine places, moving bounds, slices, two arrays.

    def f(x, y):
        n, a, b, s = 9, x * 1.0, y * 1.0, 0.0
        for i in range(n - 1, -1, -1):
            a[i] = 0.5 * np.tanh(a[n - 1 - i]) + 0.3 * b[i // 2]
            for j in range(i):
                if j % 2 == 0:
                    b[j] -= 0.25 * a[i - j - 1]
            s = s + 0.1 * np.sum(a[:i] * b[:i])
        return s + np.sum(np.cos(a)) + np.sum(b * b)

Counters are Python integers, so that a trace has all iterations one after the other, and the roller finds the loops again. A
statement is kept if NumPy runs it in every iteration. Numbers stay moderate: products are scaled, or go through tanh.
"""

import numpy as np

#: The length of the arrays, by the depth of the nest: a trace has a few thousand equations at most.
LONGEST = {1: 40, 2: 12, 3: 6}


class Nest:
    """One function of two arrays of length n, and a matrix that it makes of them if `has_matrix`."""

    def __init__(self, seed):
        self.rng = np.random.default_rng([93, seed])
        self.depth = self.pick([1, 1, 2, 2, 2, 3])
        self.n = int(self.rng.integers(1, LONGEST[self.depth] + 1))
        self.has_matrix = self.rng.random() < 0.35
        self.lines = []
        for _ in range(self.pick([1, 1, 1, 2])):
            self.loop(0, [])
        if self.rng.random() < 0.3:  # trailing iterations, by hand
            self.lines += ["    " + line for line in self.statement(["n - 1"]).split("\n")]

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    # -- the text ----------------------------------------------------------------------------------------------------

    def loop(self, level, counters):
        name = "ijk"[level]
        over = ["range(n)", "range(n)", "range(n - 1, -1, -1)", "reversed(range(n))", "range(1, n)", "range(n - 1)"]
        over += ["range(0, n, 2)", "range(n - 1, 0, -2)", "range(1, n - 1)", "range(2, n, 3)"]
        if counters:
            outer = self.pick(counters)
            over = [f"range({outer})", f"range({outer} + 1)", f"range({outer}, n)", f"range({outer} + 1, n)", "range(n)"]
            over += [f"range({outer} - 1, -1, -1)", f"range(n - {outer})", f"range(max(0, {outer} - 2), min(n, {outer} + 3))"]
            over += [f"range({outer} % 3)", f"range({outer} // 2, {outer} + 1)", f"range({outer}, n, 2)", "range(3)"]
        head = f"for {name} in {self.pick(over)}:"
        if not counters and self.rng.random() < 0.15:
            head = self.pick([f"for {name}, u in enumerate(b):", f"for {name}, u in zip(range(n), y):"])
        self.lines.append("    " * (level + 1) + head)
        inside = [*counters, name]
        has_inner = level + 1 < self.depth
        before, after = self.rng.integers(0 if has_inner else 1, 3), self.rng.integers(0, 2)
        body = len(self.lines)
        self.block(level + 2, inside, before, "u" if " u in" in head else None)
        if has_inner:
            self.loop(level + 1, inside)
            self.block(level + 2, inside, after)
        if len(self.lines) == body:
            self.lines.append("    " * (level + 2) + self.statement(inside))

    def block(self, indent, counters, count, element=None):
        for _ in range(count):
            text = self.statement(counters, element)
            if self.rng.random() < 0.25:
                text = f"if {self.test(counters)}:\n" + "\n".join("    " + line for line in text.split("\n"))
                if self.rng.random() < 0.4:
                    text += "\nelse:\n    " + self.statement(counters).replace("\n", "\n    ")
            self.lines += ["    " * indent + line for line in text.split("\n")]

    def test(self, counters):
        i, j = self.pick(counters), self.pick(counters)
        tests = [f"{i} % 2 == 0", f"{i} % 3 == 1", f"{i} == 0", f"{i} == n - 1", f"{i} > 0", f"{i} < n // 2", f"{i} <= {j}"]
        return self.pick([*tests, f"({i} + {j}) % 2", f"{i} < n - 1"])

    def place(self, counters):
        """An index of an array of length n: from -n to n - 1 in most iterations."""
        i, j = self.pick(counters), self.pick(counters)
        places = [i, i, i, j, f"{i} - 1", f"{i} - 2", f"n - 1 - {i}", f"-{i} - 1", f"{i} // 2", f"2 * {i} % n"]
        places += [
            f"({i} + {j}) % n",
            f"{i} - {j}",
            f"{j} - {i} - 1",
            f"({i} + 1) % n",
            "0",
            "-1",
            f"min({i} + 1, n - 1)",
            "n // 2",
        ]
        return self.pick(places)

    def element(self, counters):
        p, q = self.place(counters), self.place(counters)
        options = [f"a[{p}]", f"a[{p}]", f"b[{p}]", f"x[{p}]", "s", f"np.sin(a[{p}])", f"a[{p}] * b[{q}]", f"t[{p}]"]
        return self.pick([*options, f"m[{p}, {q}]", f"m[{p}, {q}]"] if self.has_matrix else options)

    def value(self, counters, element=None):
        e, g = element or self.element(counters), self.element(counters)
        forms = [f"0.5 * np.tanh({e}) + 0.3 * {g}", f"0.4 * {e} - 0.25 * np.cos({g})", f"np.maximum({e}, {g}) * 0.5"]
        forms += [f"0.7 * {e}", f"np.where({e} > 0.1, {g}, 0.3 * {e})", f"{e} / (1.5 + {g} ** 2)"]
        forms += [f"np.tanh({e} * {g} + {self.pick(counters)})", f"0.2 * {e} + 0.1 * {self.pick(counters)}"]
        return self.pick([*forms, f"np.sqrt(1.0 + {e} ** 2) * 0.3"])

    def statement(self, counters, element=None):
        array = self.pick(["a", "a", "b"])
        p, value = self.place(counters), self.value(counters, element)
        kind = self.rng.random()
        if kind < 0.45:
            return f"{array}[{p}] {self.pick(['=', '=', '+=', '-=', '*='])} {value}"
        if kind < 0.6:
            return self.pick([f"s = 0.6 * s + {value}", f"s += 0.2 * ({value})", f"s, v = {value}, s\n{array}[{p}] = 0.5 * v"])
        if kind < 0.72 and self.has_matrix:
            q = self.place(counters)
            rows = [f"m[{p}, {q}] = {value}", f"m[{p}] = 0.5 * m[{q}] + a", f"m[:, {p}] *= 0.5", f"m[{p}, :{q}] += 0.1 * s"]
            return self.pick([*rows, f"m[{p}] -= 0.3 * m[{q}, {p}] * b", f"s = 0.5 * s + 0.1 * (m[{p}] @ a)"])
        return self.sliced(array, counters)

    def sliced(self, array, counters):
        i, e = self.pick(counters), self.element(counters)
        a, b = array, "b" if array == "a" else "a"
        return self.pick(
            [
                f"s = 0.5 * s + 0.1 * np.sum({a}[:{i}] * {b}[:{i}])", f"{a}[{i}:] = 0.5 * {a}[{i}:] + 0.2 * {e}",
                f"{a}[:n - {i}] = 0.5 * ({a}[:n - {i}] + {b}[{i}:])", f"{a}[1:{i} + 1] += 0.2 * {b}[:{i}]",
                f"{a}[{i}:{i} + 2] *= 0.5", f"s += 0.1 * ({a}[{i}:] @ {b}[{i}:])", f"{a}[:] = 0.8 * {b} + 0.1 * {e}",
                f"{a}[{i}] = 0.3 * np.sum({b}[:{i} + 1]) + 0.2 * {e}", f"{a}[1:-1] = 0.3 * ({a}[2:] + {a}[:-2])",
                f"{a}[{i}::-1] = 0.5 * {b}[:{i} + 1]", f"{a}[{i}::2] += 0.1 * {e}", f"{a} = 0.6 * {a} + 0.1 * {e}",
                f"{a}[{i}:] = 0.5 * np.tanh({a}[{i}:] - {b}[{i}])", f"v = {a}[{i}:].copy()\n{a}[{i}:] = 0.5 * v[::-1]",
                f"s = s * 0.5 + np.max({a}[:{i} + 1]) * 0.1", f"{a}[{i}] = 0.2 * np.dot({a}[:{i}], {b}[:{i}][::-1]) + {e}",
            ]
        )  # fmt: skip

    def text(self):
        head = ["def f(x, y):", f"    n, a, b, s, t = {self.n}, x * 1.0, y * 1.0, 0.0, np.sin(x)"]
        head += ["    m = 0.5 * np.outer(x, y)"] if self.has_matrix else []
        result = "    return s + np.sum(np.cos(a)) + np.sum(b * b)" + (" + np.sum(np.sin(m))" if self.has_matrix else "")
        return "\n".join([*head, *self.lines, result]) + "\n"

    def arguments(self):
        return self.rng.normal(size=self.n), self.rng.uniform(0.2, 1.2, self.n)


def function(seed):
    """The function, its text, and arguments: the first one of several drafts that NumPy runs."""
    for draft in range(1000):
        nest = Nest(1000 * seed + draft)
        text, args = nest.text(), nest.arguments()
        space = {"np": np}
        exec(compile(text, f"<nest {seed}>", "exec"), space)
        try:
            with np.errstate(all="ignore"):
                value = space["f"](*args)
        except (IndexError, ValueError):  # an index out of bounds; shapes that differ, a maximum of nothing
            continue
        if np.isfinite(value) and abs(value) < 1e6:
            return space["f"], text, args
    raise AssertionError(f"no draft of seed {seed} runs")
