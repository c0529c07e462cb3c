"""Random programs over mixed dtypes: closures and globals that change between calls, loops, branches, masks, containers, helpers.

They are made as those of `inplace.py` are: text, each statement tried on plain NumPy as the program grows, and left out where
NumPy refuses it. A program is a function `run(x, y)`; x and y are arrays or numbers of any dtype, of which the inexact ones are
differentiated. It reads four names that stand outside: a number `lam`, an array `W`, indices `K`, a mask `M`. `Program.calls` is
what it is called with: other numbers, other outside values, and at last another shape.
"""

import textwrap
import types
import warnings

import inplace
import numpy as np
from inplace import ARGUMENTS, same_layout, table

import adjoint as ad

SHAPES = ((), (1,), (3,), (4,), (2, 3), (3, 3), (1, 4), (2, 1, 3), (0,), (0, 3))
DTYPES = ("float64", "float64", "float64", "float32", "float32", "complex128")
CONSTANTS = ("float64", "float32", "complex128", "int64", "int32", "bool")
LARGEST = 60.0  # magnitude: above it, rounding would be all that is compared
OUTSIDE = ("lam", "W", "K", "M")

# How a program reaches what stands outside: how a name is spelt inside of `run`, and what keeps the names, if it is an object.
FORMS = {
    "global": ("{}", ""),
    "closure": ("{}", ""),
    "attribute": ("box.{}", "box = types.SimpleNamespace()"),
    "item": ("table[{!r}]", "table = {}"),
}

# New values. a and b: values, mask: of a's shape, t: a number, lam, W, K, M: what stands outside.
VALUES = table("""
    {a} + {b} | {a} - {b} | {a} * {b} | {a} / (np.abs({b}) + 1.5) | {a} * {lam} | {lam} - {a} | {a} + {W} | {a} * np.mean({W})
    np.sin({a}) | np.cos({a}) | np.tanh({a}) | np.exp(-np.abs({a})) | np.sqrt(np.abs({a}) + 0.1) | np.log1p(np.abs({a}))
    {a} ** 2 | (np.abs({a}) + 0.3) ** {lam} | np.abs({a}) | -{a} | +{a} | np.square({a}) | np.arctan2(np.real({a}), 1.7)
    np.where({mask}, {a}, {b}) | np.where({mask}, {a}, {t}) | np.where({mask}, {t}, np.sin({a})) | np.where({M}, {lam}, {W})
    np.where({mask}, np.sqrt(np.abs({a})), 0) | {a} * ({mask}) | np.select([{mask}, ~({mask})], [{a}, {b}], {t})
    np.maximum({a}, {b}) | np.minimum({a}, {t}) | np.fmax({a}, {lam}) | np.clip({a}, -0.7, 0.8) | np.hypot(np.real({a}), {t})
    np.sum({a}) | np.sum({a}, axis={axis}) | np.mean({a}, axis={axis}, keepdims=True) | {a}.sum() | {a}.mean() | np.prod({a})
    np.max({a}, axis={axis}) | np.min({a}) | np.var({a}, axis={axis}) | np.std({a}) | np.sum({a}, where={mask})
    np.median({a}) | np.sum({a}, dtype=np.float64) | np.mean({a}, dtype=np.float32) | np.cumsum({a}, axis={axis})
    np.cumprod({a}, axis={axis}) | {a}.astype(np.{dtype}) | {a}.astype({a}.dtype) | np.asarray({a}, dtype=np.float64)
    np.float64(2) * {a} | np.float32(0.5) * {a} | {a} * 2 | 3 - {a} | {a} * True | {a} * 1j | np.real({a})
    np.imag({a} * (1 + 2j)) | np.conj({a}) | {a} / 3 | 1 / ({a} + 70) | {a}[{K}] | np.take({a}, {K}, axis=0)
    {a}[{K} % len({a})] | {a}[{M}] | {a}[{mask}] | {W}[{K} % len({W})] * {a}.sum() | {a}[np.argmax({a})]
    {a}[np.argsort({a})] | np.sort({a}, axis={axis}) | {a}[np.nonzero({mask})] | np.compress({M}, {a}, axis=0) | {a} @ {b}
    np.dot({a}, {b}) | np.outer({a}, {b}) | np.einsum('i,i', {a}, {b}) | np.tensordot({a}, {b}, 1) | np.inner({a}, {b})
    np.concatenate([{a}, {b}]) | np.concatenate([{a}.ravel(), {b}.ravel()]) | np.stack([{a}, {b}]) | np.hstack(({a}, {b}))
    np.array([{a}, {a}]) | np.array([{a}.sum(), {lam}, 1]) | np.append({a}, {lam}) | np.full(3, {a}.sum())
    np.zeros_like({a}) + {b} | np.floor({a} * 4 + 0.0123) | np.sign({a}) | np.round({a}, 1) | ({mask}).sum() * {a}
    np.count_nonzero({mask}) + {a} | {a} % 0.7 | np.interp({a}, [-1, 0, 2], [0.3, 0.1, 0.9]) | np.diff({a}, axis={axis})
    np.roll({a}, 1) | np.flip({a}) | {a}.T | {a}.ravel() | np.linalg.norm({a}) | np.logaddexp(np.real({a}), {t})
    np.nan_to_num({a}) | np.broadcast_to({a}, (2, *{a}.shape)) * 1 | np.pad({a}, 1) | np.tile({a}, 2) | np.repeat({a}, 2)
    np.tril({a}) | np.diag({a}) | np.trace({a}) | np.ptp({a}) | np.average({a})
    {a} if np.sum(np.real({b})) > {t} else {a} * 2 | {a}[::-1] | {a}[..., -1] | {a}[None] * {b} | {a}[0] | {a}[1:] - {a}[:-1]
    np.argmax({a}) | np.searchsorted([0.1, 0.4, 0.9], np.real({a})) | {mask} | np.isfinite({a}) & {M} | np.any({mask})
    {a} > {b} | helper({a}) | helper({b}, times={n}) | recursive({a}, {n}) | (lambda v: v * {lam} + v)({a}) | scaled({a})
    ad.stop_gradient({a}) * {b}
""")

# Statements. v: a value that may be bound anew or written, n: a small count, new: a name.
STATEMENTS = table("""
    for i in range({n}):;     {v} = np.sin({v}) * 0.9 + {t}
    for i in range({n}):;     {v} = {v} * {lam} if i % 2 else {v} + i
    for i, row in enumerate({v}):;     {new} = row * i + {t}
    {new} = 0; for row in {v}:;     {new} = {new} + np.sum(row ** 2)
    {new} = 1.0; for p, q in zip({v}, {v}[::-1]):;     {new} = {new} * 0.5 + p * q
    i = 0; while i < {n}:;     {v} = np.tanh({v});     i += 1
    i = 0; while True:;     i += 1;     if i > {n}:;         break;     if i == 2:;         continue;     {v} = {v} * 0.8
    while np.sum(np.abs({v})) > 1.234:;     {v} = {v} * 0.6
    i = 0; while np.max(np.abs({v})) < 3.21 and i < 7:;     {v} = {v} * 1.5;     i += 1
    for i in range(5):;     if np.sum(np.real({v})) > {t}:;         break;     {v} = {v} + 0.37; else:;     {v} = {v} * 2
    if np.sum(np.real({v})) > {t}:;     {v} = np.sin({v}); else:;     {v} = {v} * {lam}
    if np.all({mask}):;     {new} = {v} * 2; elif np.any({mask}):;     {new} = {v} * 3; else:;     {new} = {v} + 1
    if {t} < np.mean(np.real({v})) <= 0.8:;     {new} = {v} - {t}; else:;     {new} = {v} + {t}
    if not np.sum(np.real({v})) < {t} or {lam} > 1:;     {v} = {v} + {lam}
    {new}, {v} = {v} * 2, {v} + 1
    {new}, *rest = {v}, {t}, {v} * 2; {v} = {v} + rest[1] * rest[0]
    first, *rest = {v}; {new} = first * 2 + len(rest)
    parts = {{'p': {v}, 'q': [{a}, {t}]}}; parts['p'] = parts['p'] * 2; {new} = parts['p'] + parts['q'][1]
    parts = []; for i in range({n}):;     parts.append({v} * i + {t}); {new} = sum(parts)
    parts = [{v}, {v} * 2, {v} + 1]; parts[1] += 1; {new} = np.stack(parts)
    {new} = np.stack([row * (i + 1) for i, row in enumerate({v})])
    {new} = sum(p * q for p, q in zip({v}, {v}))
    {new} = sum([row for row in {v} if np.sum(np.real(row)) > {t}], 0.0)
    {new} = {{k: {v} * k for k in range(3)}}[{n} % 3]
    {new} = max([{v}.sum(), {a}.sum(), {t}]) | {new} = sorted([{v}.sum(), {a}.sum() + 0.01, {t}])[1] | {new} = abs({v}) * 1.5
    m = {mask}; {new} = np.where(m & {M}, {v}, 0); m = ~m; {new} = {new} + m
    m = np.array({mask}); m[...] = ~m; {new} = {v} * m
    {new} = {v} * 1.0; {new}[{new} > {t}] = 0 | {new} = {v} * 1.0; {new}[{mask}] *= {lam} | {new} = {v} + 0.0; {new}[{M}] = {t}
    {new} = np.zeros(4, {v}.dtype); {new}[{K}] += {v}.sum() | {new} = np.zeros((3, *{v}.shape), {v}.dtype); {new}[1] = {v}
    {new} = np.zeros(3); {new}[:] = {v}; {new}[0] = {lam} | {new} = np.empty_like({v}); {new}[...] = {v} * 2
    {new} = {v}.copy(); np.add.at({new}, {K} % len({new}), 0.5) | {new} = {v}.copy(); {new}[{K} % len({new})] = {t}
    {new} = {v}.copy(); view = {new}[::2]; view *= 2; {v} = {v} + {new} | {v} += {t} | {v} *= {lam} | {v} = {v} ** 2; {v} -= 1
    try:;     {new} = {v}[7] * 2; except IndexError:;     {new} = {v} + 1
    try:;     {new} = {v}.sum() / {n}; except ZeroDivisionError:;     {new} = {v} * 1
    with np.errstate(all='ignore'):;     {new} = np.where({mask}, np.log(np.abs({v})), {v})
    n = len({v}) if {v}.ndim else 1; {new} = {v} / n | n = {v}.size; {new} = {v} * n if n > 2 else {v} - n
    n = int(np.sum({mask})); {new} = {v} * n | {new} = {v} * np.arange({v}.size).reshape({v}.shape)
    if {v}.dtype == np.float64:;     {new} = {v} * 2; else:;     {new} = {v} + 1
    if isinstance({v}, np.ndarray) and {v}.ndim:;     {new} = {v} * 2; else:;     {new} = {v} * 5
    def inner(u, factor={lam}):;     return u * factor + {v}; {new} = inner({a})
    total = 0.0; def add(u):;     nonlocal total;     total = total + u; for i in range({n}):;     add({v} * i); {new} = total * 1
    def parts_of(u):;     for i in range(3):;         yield u * i; {new} = sum(parts_of({v}))
    assert np.all(np.isfinite({v})); {new} = {v} * 1.0
    match {v}.ndim:;     case 0:;         {new} = {v} * 2;     case 1:;         {new} = {v} * 3;     case _:;         {new} = {v}
""")

HELPERS = """
def helper(v, times=2, *, shift=0.1):
    if times == 0:
        return v
    for i in range(times):
        v = np.tanh(v) + shift * i
    return v


def recursive(v, n):
    return v if n <= 0 else np.cos(recursive(v, n - 1)) * 0.9


def scaled(v):
    return v * factor() + 1


def factor():
    return {lam} * 0.5
"""


class Maker(inplace.Maker):
    """Draws the arguments, what stands outside, and the statements."""

    values, statements, helpers, family = VALUES, STATEMENTS, HELPERS, 91
    dtypes, constants = DTYPES, CONSTANTS

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng([self.family, seed])
        self.form = self.pick(list(FORMS))
        self.dtype, other = self.pick(self.dtypes), self.pick(self.dtypes if rng.random() < 0.4 else self.constants)
        self.types = [(self.pick(SHAPES), self.dtype), (self.pick(SHAPES), other)]
        if rng.random() < 0.4:  # so that more of the two fits
            self.types[1] = (self.types[0][0], other)
        self.layouts = [self.pick(list(ARGUMENTS)), self.pick(list(ARGUMENTS))]
        length = (self.types[0][0] or (3,))[0]
        self.length = length
        self.arguments, self.outside = self.draw(), self.draw_outside()
        spelling = FORMS[self.form][0]
        self.spelt = {name: spelling.format(name) for name in OUTSIDE}
        self.helpers = self.helpers.replace("{lam}", self.spelt["lam"] if self.form != "closure" else "1.3")
        self.env = scope(np, self.helpers, self.form, self.outside)
        self.env.update(zip("xy", (copied(a) for a in self.arguments), strict=True))
        self.lines, self.names = [], ["x", "y"]

    def draw(self, longer=0):
        """Arguments of the drawn types; `longer` adds to their first axes."""
        made = []
        for (shape, dtype), layout in zip(self.types, self.layouts, strict=True):
            shape = (shape[0] + longer, *shape[1:]) if shape else ()
            a = np.asarray(self.rng.uniform(0.2, 1.5, shape) * self.rng.choice([1, 1, -1], shape))
            kind = np.dtype(dtype).kind
            if kind == "c":
                a = a + 1j * self.rng.uniform(-1.0, 1.0, shape)
            a = np.asarray(a * 2 if kind == "i" else np.abs(a * 2) if kind == "u" else a > 0 if kind == "b" else a).astype(dtype)
            made.append(ARGUMENTS[layout](a) if a.ndim and a.size else a[()] if self.rng.random() < 0.5 else a)
        return made

    def draw_outside(self):
        length = self.length
        return {
            "lam": self.pick([round(float(self.rng.uniform(-1.5, 1.5)), 3), 2, 0.5]),
            "W": self.rng.uniform(-1, 1, length).astype(self.pick(["float64", "float32"])),
            "K": self.rng.integers(0, 1 + (length > 1), 2),
            "M": self.rng.random(length) < 0.6,
        }

    # -- pieces ----------------------------------------------------------------------------------------------------

    def fill(self, template, a):
        b, v = self.pick(self.names), self.env[a]
        fits = [n for n in self.names if np.shape(self.env[n]) == np.shape(v)]
        b = self.pick(fits) if self.rng.random() < 0.6 else b
        comparison = f"np.real({a}) {self.pick(['>', '<', '>=', '!='])} {self.number()}"
        drawn = {
            "a": a, "b": b, "v": a, "t": self.number(), "n": int(self.rng.integers(0, 5)), "new": f"v{len(self.names)}",
            "mask": f"({comparison})", "dtype": self.pick(["float32", "float64", "complex128", "int64"]),
            "axis": self.pick([0, -1, None, 1]), **self.spelt,
        }  # fmt: skip
        return template.format(**drawn | self.more(v))

    def more(self, v):
        """What further templates name, of an array or number."""
        return {}

    # -- lines -----------------------------------------------------------------------------------------------------

    def statement(self):
        """A statement as text, and the name that it binds."""
        a, new = self.pick(self.names), f"v{len(self.names)}"
        draw = self.rng.random()
        real = np.asarray(self.env[a]).dtype == float and np.ndim(self.env[a]) > 0
        if draw < 0.12 and real:
            return f"{new} = {inplace.Maker.fill(self, self.view(inplace.VIEWS, a), a)}"
        if draw < 0.24 and real:
            return inplace.Maker.fill(self, self.view(inplace.WRITES, a), a)
        templates = self.values if draw < 0.65 else self.statements
        if np.asarray(self.env[a]).dtype == bool:  # the power of a bool is int64 as a NumPy scalar, and int8 as an array
            templates = [t for t in templates if "**" not in t]
        text = self.fill(self.pick(templates), a)
        return f"{new} = {text}" if draw < 0.65 else text

    def view(self, tables, a):
        ndim = np.ndim(self.env[a])
        return self.pick([t for least, templates in tables.items() if least <= ndim for t in templates])

    def attempt(self, line):
        """Add a statement if NumPy runs it, to finite numbers of moderate size; otherwise the values are as before."""
        kept = {name: self.env[name] for name in self.names}
        copies = {name: copied(value) for name, value in kept.items()}
        body = textwrap.indent(line, "    ")
        names = ", ".join(dict.fromkeys([*self.names, f"v{len(self.names)}"]))
        wrapped = f"def step({', '.join(self.names)}, v{len(self.names)}=None):\n{body}\n    return {names}\n"
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("error")
                exec(wrapped, self.env)
                found = dict(zip(names.split(", "), self.env["step"](**kept), strict=True))
                good = all(moderate(value) for value in found.values() if value is not None)
        except (ValueError, TypeError, IndexError, AttributeError, AssertionError, Warning, ArithmeticError, NotImplementedError):
            good = False
        if not good:
            for name, value in copies.items():  # a statement may have written before it failed
                if isinstance(value, np.ndarray) and not np.array_equal(kept[name], value) and kept[name].flags.writeable:
                    kept[name][...] = value
            return False
        self.env.update({name: value for name, value in found.items() if value is not None})
        new = f"v{len(self.names)}"
        if found[new] is not None:
            self.names.append(new)
        self.lines += line.split("\n")
        return True

    def make(self, statements):
        for _ in range(3 * statements):
            if len(self.lines) >= 2 * statements or len(self.names) > 9:
                break
            self.attempt(self.statement())
        return self


def moderate(value):
    """Whether it is an array or number of a plain dtype, finite, and neither large in number nor in size."""
    if not isinstance(value, (np.ndarray, np.generic, float, int, complex, bool)):
        return False
    a = np.asarray(value)
    small = a.size <= 40 and a.ndim < 5 and a.dtype.kind in "fciub"
    return small and bool(np.all(np.isfinite(a))) and float(np.max(np.abs(a), initial=0.0)) < LARGEST


def copied(a):
    return same_layout(a) if isinstance(a, np.ndarray) and a.ndim else np.copy(a) if isinstance(a, np.ndarray) else a


def scope(np, text, form, outside):
    """A module's namespace, in which `np` is that NumPy, with what stands outside."""
    space = {"np": np, "ad": ad, "types": types}
    exec(FORMS[form][1], space)
    exec(text, space)
    change(space, form, outside)
    return space


def change(space, form, outside):
    """Bind what stands outside anew."""
    if form == "closure" and "change" in space:
        space["change"](**outside)
    elif form in ("global", "closure"):
        space.update(outside)
    elif form == "attribute":
        vars(space["box"]).update(outside)
    else:
        space["table"].update(outside)


class Program:
    """A drawn program; `under(np)` is an instance of it that has its own namespace."""

    maker = Maker

    def __init__(self, seed, statements=6):
        made = self.maker(seed)
        self.calls = [(made.arguments, made.outside, "first")]
        made.make(statements)
        self.seed, self.form, self.dtype = seed, made.form, made.dtype
        results = ", ".join(made.names)
        result = made.pick([f"[{results}]", f"({results},)", "{" + ", ".join(f"'{n}': {n}" for n in made.names) + "}"])
        body = textwrap.indent("\n".join([*made.lines, f"return {result}"]), "    ")
        run = f"def run(x, y):\n{body}\n"
        if made.form == "closure":
            names = ", ".join(OUTSIDE)
            run = (
                f"def make({names}):\n    def change(**new):\n        nonlocal {names}\n"
                f"        {names} = (new[k] for k in {OUTSIDE})\n\n{textwrap.indent(run, '    ')}    return run, change\n\n\n"
                "run, change = make(None, None, None, None)\n"
            )
        self.text = made.helpers + "\n\n" + run
        # The same outside, other numbers; other outside, the same numbers; written in place; longer arrays.
        self.calls.append((made.draw(), made.outside, "other numbers"))
        self.calls.append((made.arguments, made.draw_outside(), "other names"))
        self.calls.append((made.arguments, made.draw_outside(), "written in place"))
        self.calls.append((made.draw(longer=1), made.outside, "another shape"))

    def under(self, np):
        return Instance(self, np)

    def __repr__(self):
        types = [(np.shape(a), np.asarray(a).dtype.name, type(a).__name__, np.asarray(a).strides) for a in self.calls[0][0]]
        return f"# seed {self.seed}: {types}, outside by {self.form}: {self.calls[0][1]}\n{self.text}"


class Instance:
    """A program in a namespace of its own: `prepare(call)` brings about what stands outside, `run` is the function."""

    def __init__(self, program, np):
        self.program = program
        self.space = scope(np, program.text, program.form, dict.fromkeys(OUTSIDE))
        self.outside = {}
        self.run = self.space["run"]

    def prepare(self, call):
        arguments, outside, how = call
        if how == "written in place":
            for name in ("W", "K", "M"):
                if self.outside[name].dtype == outside[name].dtype:
                    self.outside[name][...] = outside[name]
        else:
            self.outside = {name: copied(value) for name, value in outside.items()}
        change(self.space, self.program.form, self.outside)
        return [copied(a) for a in arguments]
