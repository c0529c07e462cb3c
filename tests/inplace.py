"""Random programs that write in place: views and copies of every kind, written to through each other.

A program is text, so that one that fails can be read and run by itself. Each line is tried on plain NumPy while the program is
made; what NumPy refuses is left out, except writes to read-only views, which everybody has to refuse.
"""

import warnings

import numpy as np

SHAPES = ((6,), (4,), (2, 3), (3, 2), (3, 3), (2, 2, 3), (1, 4), (2, 1, 3))
ARGUMENTS = {
    "rows": lambda a: a,
    "columns": lambda a: np.asfortranarray(a),
    "gaps": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
}


def table(text):
    """Expressions or statements, separated by bars; a semicolon begins a new line of one."""
    return [part.strip().replace("; ", "\n") for line in text.strip().splitlines() for part in line.split(" | ")]


# What NumPy makes views of, or copies, or gives back as it is; by the least number of axes.
# a: an array, basic and fancy: an index of it, new: another shape, axis and other: axes, number: a number.
VIEWS = {
    0: table("""
        {a}[{basic}] | {a}[{basic}] | {a}[{fancy}] | {a}[...] | {a}[()] | {a}[None] | {a}.T | np.transpose({a}) | {a}.view()
        {a}.reshape({new}) | {a}.T.reshape({new}) | {a}.reshape({new}, order={cfa}) | np.reshape({a}, {new}, order={cfa})
        {a}.ravel() | {a}.ravel({order}) | np.ravel({a}, {order}) | {a}.flatten({order}) | {a}.squeeze() | np.squeeze({a})
        {a}.copy() | {a}.copy({order}) | np.copy({a}) | np.copy({a}, {order}) | np.array({a}) | np.array({a}, copy=None)
        np.array({a}, order={order}) | np.array({a}, copy=None, order={order}) | np.array({a}, ndmin=3)
        np.array({a}, copy=None, ndmin=3) | np.asarray({a}) | np.asarray({a}, order={order}) | np.asanyarray({a})
        np.ascontiguousarray({a}) | np.asfortranarray({a}) | np.ascontiguousarray({a}.T) | np.asarray_chkfinite({a})
        np.require({a}, requirements={need}) | np.require({a}, None, [{need}, 'W']) | {a}.astype(float)
        {a}.astype(float, copy=False) | {a}.astype(float, order={order}, copy=False) | np.nan_to_num({a}, copy=False)
        np.nan_to_num({a}) | np.expand_dims({a}, 0) | np.expand_dims({a}, -1) | np.broadcast_to({a}, {wider})
        np.broadcast_to({a}, {a}.shape) | np.broadcast_arrays({a}, 1.0)[0] | np.real({a}) | {a}.real | {a}.conj() | np.conj({a})
        np.real_if_close({a}) | np.atleast_1d({a}) | np.atleast_2d({a}) | np.atleast_3d({a}) | np.positive({a}) | np.flip({a})
        np.zeros_like({a}) | np.full_like({a}, {number}) | np.zeros({a}.shape) | np.full({a}.shape, {a}.sum())
    """),
    1: table("""
        np.swapaxes({a}, {axis}, {other}) | {a}.swapaxes({axis}, {other}) | np.moveaxis({a}, {axis}, {other})
        np.rollaxis({a}, {axis}) | np.flip({a}, {axis}) | np.flipud({a}) | np.array_split({a}, 2, axis={axis})[{bit}]
        np.split({a}, [1], axis={axis})[{bit}] | {a}[0] | list({a})[-1] | np.unstack({a}, axis={axis})[0]
        np.take({a}, [0], axis={axis}) | np.sort({a}, axis={axis}) | np.roll({a}, 1, axis={axis}) | np.cumsum({a}, axis={axis})
        np.sum({a}, axis={axis}, keepdims=True) | np.repeat({a}, 2, axis={axis}) | np.concatenate([{a}, {a}], axis={axis})
        np.stack([{a}, {a}], axis={axis}) | np.lib.stride_tricks.sliding_window_view({a}, 1, axis={axis})
        np.trim_zeros({a}.ravel()) | np.tile({a}, 2) | np.compress([True], {a}, axis={axis}) | np.where({a} > 0.4, {a}, 0.0)
        np.clip({a}, -1.0, 1.0) | np.delete({a}, 0, axis={axis}) | np.insert({a}, 0, 1.0, axis={axis}) | np.append({a}, 1.0)
        np.pad({a}, 1) | np.mean({a}, axis={axis}) | np.diff({a}, axis={axis}) | np.resize({a}, (2, 2))
        np.einsum('...i->i...', {a}) | np.max({a}, axis={axis}, keepdims=True) | np.prod({a}, axis={axis})
        np.cumprod({a}, axis={axis}) | np.outer({a}, {a}) | np.meshgrid({a}, {a}, sparse=True, copy=False)[{bit}]
        np.meshgrid({a}, {a})[{bit}] | np.ix_({a}, {a})[0] | np.diag({a}.ravel())
    """),
    2: table("""
        np.diagonal({a}) | {a}.diagonal() | np.linalg.diagonal({a}) | np.diag({a}) | np.rot90({a}, {turns}) | np.fliplr({a})
        np.matrix_transpose({a}) | np.linalg.matrix_transpose({a}) | {a}.mT | np.hsplit({a}, [1])[0] | np.vsplit({a}, [1])[1]
        np.tril({a}) | np.triu({a}) | {a}.transpose({axes}) | np.permute_dims({a}, {axes}) | np.einsum('i...->...i', {a})
        np.einsum('ij->ji', {a}) | (np.einsum('ii->i', {a}[:2, :2]) if {a}.size else {a}) | np.vstack([{a}, {a}])
        np.hstack([{a}, {a}])
        np.block([[{a}, {a}]]) | {a} @ np.swapaxes({a}, -1, -2) | np.kron({a}, np.ones((2, 2)))
    """),
}

# What writes to an array. index: an index of it, w: a value for that part, whole: one for all of it, mask: some of its elements.
WRITES = {
    0: table("""
        {a}[{index}] = {w} | {a}[{index}] = {w} | {a}[{index}] {op} {w} | {a}[{index}] {op} {w} | {a} {op} {whole} | {a} *= {a}
        {a}[{index}] /= 2.0 | {a}[...] = {whole} | {a}.fill({number}) | {a}.flat[::2] = {number} | {a}.flat = {number}
        np.{ufunc}({a}, {whole}, out={a}) | np.sin({a}, out={a}) | np.{ufunc}({a}, {whole}, out={a}, where={mask})
        np.copyto({a}, {whole} * 1.0) | np.copyto({a}, {whole} * 1.0, where={mask}) | np.putmask({a}, {mask}, {number})
        np.place({a}, {mask}, [{number}, x.sum()]) | np.put({a}, [0, -1], [{number}, x.sum()]) | {a}.put([0], {number})
        {a}.real = {number} | {a}[{mask}] = {number} | {a}[{mask}] {op} {number} | np.nan_to_num({a}, copy=False)
        np.clip({a}, -0.9, 0.9, out={a}) | np.cumsum({a}.ravel(), out={a}.reshape(-1))
    """),
    1: table("""
        {a}.sort(axis={axis}) | {a}.partition(0, axis={axis}) | {a}[1:] {op} {a}[:-1] | {a}[1:] = {a}[:-1] | {a}[::-1] = {a}
        {a}[0], {a}[-1] = {a}[-1] * 1.0, {a}[0] * 1.0 | np.cumsum({a}, axis=0, out={a})
        for i in range(len({a})):;     {a}[i] = {a}[i - 1] * 0.9 | for row in {a}[None]:;     row *= 1.5
    """),
    2: table("""
        np.fill_diagonal({a}, {number}) | np.put_along_axis({a}, np.zeros((1, 1), int), {number}, axis=0)
        np.sum({a}, axis=0, out={a}[0]) | for row in {a}:;     row *= 1.5
    """),
}


class Maker:
    """Makes the lines of one program, and runs them on NumPy as it goes."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        shape = SHAPES[rng.integers(len(SHAPES))]
        self.x = ARGUMENTS[rng.choice(list(ARGUMENTS))](rng.uniform(0.2, 1.5, shape))
        self.env = {"np": np, "x": same_layout(self.x)}
        self.lines = []
        self.names = ["x"]

    # -- pieces ------------------------------------------------------------------------------------------------

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    def number(self):
        return f"{self.rng.uniform(-1.5, 1.5):.3f}"

    def basic(self, shape, scalar=False):
        """A basic index, as text."""
        count = self.rng.integers(1, len(shape) + 1) if shape else 0
        slices = (":", "1:", ":-1", "::2", "::-1", "-2:", "1::2", "::-2", ":0")
        parts = [
            f"{self.rng.integers(-n, n)}" if n and (scalar or self.rng.random() < 0.25) else self.pick(slices)
            for n in (shape if scalar else shape[:count])
        ]
        for extra in ("None", "..."):
            if self.rng.random() < 0.15:
                parts.insert(self.rng.integers(len(parts) + 1), extra)
        return ", ".join(parts) or "..."

    def fancy(self, a):
        """An index by lists, arrays or masks."""
        shape = self.env[a].shape
        if not shape or 0 in shape:
            return "..."
        rows = [int(i) for i in self.rng.integers(-shape[0], shape[0], self.rng.integers(1, 4))]
        options = [f"{rows}", f"{a} > {self.number()}", f"np.array({rows})", f"{rows}, ..."]
        if len(shape) > 1:
            columns = [int(i) for i in self.rng.integers(-shape[1], shape[1], len(rows))]
            options += [f":, {columns}", f"{rows}, {columns}", f"::-1, {columns}", f"..., {columns[:1]}, 0", f"None, {rows}"]
            options += [f"np.array({[i % 2 == 0 for i in range(shape[0])]})"]
        return self.pick(options)

    def value(self, shape):
        """Something to be written where this shape is."""
        fits = [n for n in self.names if np.shape(self.env[n]) == shape]
        more = [n for n in self.names if n not in fits and _broadcasts(np.shape(self.env[n]), shape)]
        options = [self.number(), f"{self.number()} * x.sum()"]
        options += [self.pick(fits), f"np.sin({self.pick(fits)})", f"{self.pick(fits)}[...] * 0.5"] if fits else []
        options += [self.pick(more), f"{self.pick(more)} * 0.7"] if more else []
        options += [f"np.linspace(-1.0, 1.0, {int(np.prod(shape))}).reshape({shape})"] if shape else []
        return self.pick(options)

    def fill(self, template, a):
        """A template with everything drawn that it names."""
        v = self.env[a]
        size, n = v.size, v.ndim
        axis = lambda: self.rng.integers(-n, n) if n else 0
        shapes = [(size,), (1, size), (-1,), *((d, size // d) for d in (2, 3) if size and size % d == 0)]
        index = self.pick([self.basic(v.shape), self.basic(v.shape), self.basic(v.shape, scalar=True), self.fancy(a), "..."])
        drawn = {
            "a": a, "basic": self.basic(v.shape), "fancy": self.fancy(a), "new": self.pick(shapes), "wider": (2, *v.shape),
            "order": repr(self.pick("CFAK")), "cfa": repr(self.pick("CFA")), "need": repr(self.pick("CFWA")),
            "axis": axis(), "other": axis(), "axes": tuple(map(int, self.rng.permutation(n))), "turns": self.rng.integers(4),
            "bit": self.rng.integers(2), "number": self.number(), "index": index, "whole": self.value(v.shape),
            "mask": f"{a} > {self.number()}", "op": self.pick(["+=", "-=", "*="]),
            "ufunc": self.pick(["add", "multiply", "subtract", "maximum"]),
        }  # fmt: skip
        if "{w}" in template:
            try:
                drawn["w"] = self.value(np.shape(eval(f"{a}[{index}]", self.env)))
            except IndexError:
                drawn["w"] = self.number()
        return template.format(**drawn)

    def expression(self, tables, a):
        """One of the templates that an array has enough axes for."""
        ndim = self.env[a].ndim
        return self.fill(self.pick([t for least, templates in tables.items() if least <= ndim for t in templates]), a)

    # -- lines ---------------------------------------------------------------------------------------------------

    def attempt(self, line):
        """Add a line if NumPy runs it, to finite numbers; a refused write to a read-only view stays as such."""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("error")
                exec(line, self.env)
        except ValueError as error:
            if "read-only" in str(error):
                self.lines += ["try:", *(f"    {part}" for part in line.split("\n")), "except ValueError:", "    pass", "else:"]
                self.lines += ["    raise AssertionError('written to a read-only view')"]
            return False
        except (TypeError, IndexError, AttributeError, DeprecationWarning, RuntimeWarning, ZeroDivisionError):
            return False
        self.lines += line.split("\n")
        return True

    def make(self, statements):
        for _ in range(statements):
            a = self.pick(self.names)
            if self.rng.random() < 0.55 and len(self.names) < 7:
                name = f"v{len(self.names)}"
                text = self.expression(VIEWS, a) if self.rng.random() < 0.85 else f"{self.value(self.env[a].shape)} + {a}"
                before = len(self.lines)
                if self.attempt(f"{name} = {text}"):
                    made = self.env[name]
                    if isinstance(made, np.ndarray) and made.dtype == float and made.size <= 40:
                        self.names.append(name)
                    else:
                        del self.lines[before:]
            else:
                self.attempt(self.expression(WRITES, a))
        return self


def same_layout(x):
    """A copy with the same strides."""
    ends = [(n - 1) * s for n, s in zip(x.shape, x.strides, strict=True)]
    low, high = sum(e for e in ends if e < 0), sum(e for e in ends if e > 0)
    if x.flags.forc:
        return x.copy(order="K")
    y = np.ndarray(x.shape, x.dtype, np.zeros(high - low + x.itemsize, np.uint8), -low, x.strides)
    y[...] = x
    return y


def _broadcasts(shape, to):
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


class Program:
    """`run(np, x)` gives all arrays of the program, at its end."""

    def __init__(self, seed, statements=9):
        made = Maker(seed).make(statements)
        self.seed, self.x = seed, made.x
        body = "".join(f"    {line}\n" for line in made.lines)
        self.text = f"def run(np, x):\n{body}    return [{', '.join(made.names)}]\n"
        scope = {}
        exec(self.text, scope)
        self.run = scope["run"]

    def argument(self):
        """The argument, in memory of its own."""
        return same_layout(self.x)

    def __repr__(self):
        return f"# seed {self.seed}: x of shape {self.x.shape}, strides {self.x.strides}\n{self.text}"
