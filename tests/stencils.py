"""Random time loops over stencils in plain NumPy, as text: one to three dimensions, edges of every kind, several states.

    def f(u, v, k):
        def step(u, v):
            du = np.pad(0.12 * (u[2:, 1:-1] - 2.0 * u[1:-1, 1:-1] + u[:-2, 1:-1]), 1)
            u, v = u + k * du, u
            v[:1] = 0.25
            return u, v
        (u, v), _ = ad.scan(lambda s, _: (step(*s), None), (u * 1.0, v * 1.0), None, length=17)
        return u, v

The loop is a scan, a fori_loop or a loop of Python, and may be inside another one. The first axis is long enough for time tiles
(see `small_tiles`). All steps are contractions or nearly so: numbers stay moderate.
"""

import linecache
from unittest import mock

import numpy as np

import adjoint as ad
from adjoint.compiler.lower import time_tiles

INDENT = "    "


def small_tiles():
    """Grids of 32 rows have tiles, too."""
    return mock.patch.multiple(time_tiles, LARGE=1, LARGE_OF_SHORT_ROWS=1, _FAST=0, _LONGEST=16)


class Stencil:
    """One function of two states and a coefficient."""

    def __init__(self, seed):
        self.rng = np.random.default_rng([47, seed])
        self.ndim = self.pick([1, 1, 2, 2, 3])
        self.rows = int(self.rng.integers(28, 90))
        self.shape = (self.rows, *(int(n) for n in self.rng.integers(5, 9, size=self.ndim - 1)))
        self.has_two = self.rng.random() < 0.4
        self.count = self.pick([0, 1, 2, 7] if self.rng.random() < 0.1 else [8, 9, 15, 17, 20, 33])
        self.k = self.pick(["number", "number", "points", "row"])
        self.dtype = self.pick([np.float64] * 4 + [np.float32])
        lines = ["def f(u, v, k):", INDENT + "def step(u, v):"]
        lines += [INDENT * 2 + line for line in [*self.step(), "return u, v"]]
        lines += [INDENT + line for line in self.loop()]
        self.text = "\n".join(lines) + "\n"

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    # -- a step ------------------------------------------------------------------------------------------------------

    def step(self):
        lines = ["u, v = u * 1.0, v * 1.0"] if self.rng.random() < 0.4 else []
        for _ in range(self.pick([1, 1, 1, 2])):
            lines += self.update()
        if self.rng.random() < 0.35:
            lines += self.edge("u" if lines[0].startswith("u, v") or any(line.startswith("u = ") for line in lines) else None)
        return lines

    def update(self):
        inside, term = self.inside(), None
        kind = self.pick(["pad", "window", "mixed"] * 3 + ["roll", "where", "concatenate", "other"])
        if kind == "pad":
            mode = self.pick(["constant"] * 6 + ["edge", "wrap", "reflect"])
            term = f"np.pad({self.differences(inside)}, {[(a, -b) for a, b in inside]}, {mode!r})"
        elif kind == "window":
            scale = f"{self.number()} * "
            return ["u = u * 1.0", f"u[{self.spec(inside)}] {self.pick(['+=', '-='])} {scale}({self.differences(inside)})"]
        elif kind == "mixed":
            values = f"{self.number()} * u[{self.spec(inside)}] + {self.differences(inside)}"
            return ["w = u * 0.5", f"w[{self.spec(inside)}] = {values}", "u = w"]
        elif kind == "roll":
            axis, by = int(self.rng.integers(self.ndim)), self.pick([1, -1, 2])
            term = f"{self.number()} * (np.roll(u, {by}, {axis}) - u)"
        elif kind == "where":
            column = (-1, *[1] * (self.ndim - 1))
            rows = f"(np.arange({self.rows}) % 7 != 2).reshape({column})"
            test = self.pick(["u > 0.1", "np.abs(u) < 0.5", rows])
            term = f"np.where({test}, np.pad({self.differences(inside)}, {[(a, -b) for a, b in inside]}), {self.number()})"
        elif kind == "concatenate":
            first, last = inside[0]
            whole = [inside[0], *[(0, 0)] * (self.ndim - 1)]
            term = f"np.concatenate([u[:{first}] * 0.1, {self.differences(whole)}, u[{self.rows + last}:] * -0.1])"
        elif kind == "other":
            term = self.pick(["0.1 * np.sin(u)", "-0.2 * u * k", "0.1 * v", "-0.1 * u / (1.0 + u * u)"])
        new = f"{self.pick(['u', '0.9 * u', 'u'])} + {self.pick(['', '0.5 * ', 'k * '])}{term}"
        if self.has_two:
            return [self.pick([f"u, v = {new}, u", f"u, v = {new} - 0.1 * v, 0.5 * u", f"u, v = {new}, v + 0.1 * u"])]
        return [f"u = {new}"]

    def inside(self):
        """For each axis the rows that are left out at the start and, negative, at the end."""
        found = []
        for axis in range(self.ndim):
            most = 4 if axis == 0 and self.rng.random() < 0.3 else 1
            found.append((int(self.rng.integers(0, most + 1)), -int(self.rng.integers(0, most + 1))))
        if not any(found[0]) and self.rng.random() < 0.8:
            found[0] = (1, -1)
        return found

    def spec(self, inside, moved=None):
        """The index of the inside, moved along each axis."""
        parts = []
        for axis, (a, b) in enumerate(inside):
            by = 0 if moved is None else moved[axis]
            first, last = a + by, b + by
            parts.append(f"{first or ''}:{last or ''}")
        return ", ".join(parts)

    def differences(self, inside):
        """A sum of neighbours."""
        terms = []
        for _ in range(self.pick([1, 2, 3])):
            moved = [int(self.rng.integers(-a, -b + 1)) for a, b in inside]
            whom = "v" if self.has_two and self.rng.random() < 0.2 else "u"
            terms.append(f"{self.number()} * {whom}[{self.spec(inside, moved)}]")
        text = f"{terms[0]}" + "".join(f" {self.pick('+-')} {term}" for term in terms[1:])
        return f"{self.pick(['0.5', '0.3'])} * ({text} - {self.number()} * u[{self.spec(inside)}])"

    def edge(self, whom):
        if whom is None:
            return []
        at = self.pick(["0", "-1", ":1", "-1:", ":2", "3:5", "::7", "..., 0", "..., -1"])
        if self.rng.random() < 0.3 and "..." not in at:
            return [f"u[{at}] {self.pick(['+=', '*='])} {self.number()}"]
        value = self.pick([self.number(), "0.0", f"0.5 * u[{at}]", f"u[{at}]", "0.1 * np.mean(k)"])
        return [f"u[{at}] = {value}"]

    def number(self):
        return str(self.pick([0.1, 0.05, 0.2, 0.125, 0.3]))

    # -- the loop ----------------------------------------------------------------------------------------------------

    def loop(self):
        n, kind = self.count, self.pick(["scan"] * 3 + ["for", "fori", "nested", "checkpoint", "stacked", "state", "state"])
        before, body = "u, v = u * 1.0, v * 1.0", "lambda s, _: (step(*s), None)"
        scan = f"u, v = ad.scan({body}, (u, v), None, length={n})[0]"
        lines = {
            "scan": [scan],
            "for": [f"for _ in range({n}):", INDENT + "u, v = step(u, v)"],
            "fori": [f"u, v = ad.fori_loop(0, {n}, lambda i, s: step(*s), (u, v))"],
            "nested": [
                "def outer(s, scale):",
                INDENT + f"return ad.scan({body}, (s[0] * scale, s[1]), None, length={n})",
                "u, v = ad.scan(outer, (u, v), np.array([0.9, 1.0], u.dtype))[0]",
            ],
            "checkpoint": [scan.replace(")[0]", f", checkpoint={self.pick([2, 3, 'sqrt'])!r})[0]")],
            "stacked": [
                f"(u, v), w = ad.scan(lambda s, _: (step(*s), s[0][1]), (u, v), None, length={n})",
                "v = v + np.sum(w)",
            ],
            "state": [  # one in between is returned, too
                f"first = ad.scan({body}, (u, v), None, length={n})[0]",
                f"u, v = ad.scan({body}, first, None, length=9)[0]",
                "v = v + first[0]",
            ],
        }[kind]
        return [before, *lines, "return u, v"]

    def arguments(self):
        shape = {"number": (), "points": self.shape, "row": self.shape[1:]}[self.k]
        u, v = (self.rng.normal(size=self.shape).astype(self.dtype) for _ in range(2))
        return u, v, np.asarray(self.rng.uniform(0.1, 0.4, size=shape).astype(self.dtype))[()]


def function(seed):
    """A random function, its text and its arguments."""
    made, name = Stencil(seed), f"<stencil {seed}>"
    linecache.cache[name] = (len(made.text), None, made.text.splitlines(True), name)
    namespace = {"np": np, "ad": ad, "__name__": "stencil"}
    exec(compile(made.text, name, "exec"), namespace)
    return namespace["f"], made.text, made.arguments()
