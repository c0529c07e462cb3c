"""Random programs that write in place: views and copies of every kind, written to through each other.

A program is text, so that one that fails can be read and run by itself. Each line is tried on plain NumPy while the program is
made; what NumPy refuses is left out, except writes to read-only views, which everybody has to refuse.
"""

import warnings

import numpy as np

SHAPES = ((6,), (4,), (2, 3), (3, 2), (3, 3), (2, 2, 3), (1, 4), (2, 1, 3), (0, 3), ())
ARGUMENTS = {
    "rows": lambda a: a,
    "columns": lambda a: np.asfortranarray(a),
    "gaps": lambda a: np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a,
    "backwards": lambda a: a[::-1].copy()[::-1] if a.ndim else a,
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
}


class Maker:
    """Makes the lines of one program, and runs them on NumPy as it goes."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        rng = self.rng
        shape = SHAPES[rng.integers(len(SHAPES) - 2)]  # an argument that has elements and axes
        self.x = ARGUMENTS[rng.choice(list(ARGUMENTS))](rng.uniform(0.2, 1.5, shape))
        self.env = {"np": np, "x": self.x.copy(order="K") if self.x.flags.forc else self._strided(self.x)}
        self.lines = []
        self.names = ["x"]

    @staticmethod
    def _strided(x):
        """A copy with the same strides."""
        low = sum(min(0, (n - 1) * s) for n, s in zip(x.shape, x.strides, strict=True))
        high = sum(max(0, (n - 1) * s) for n, s in zip(x.shape, x.strides, strict=True))
        y = np.ndarray(x.shape, x.dtype, np.zeros((high - low) // 8 + 1), -low, x.strides)
        y[...] = x
        return y

    # -- pieces ------------------------------------------------------------------------------------------------

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def array(self, ndim=None):
        names = [n for n in self.names if ndim is None or self.env[n].ndim >= ndim]
        return self.pick(*names) if names else None

    def number(self):
        return f"{self.rng.uniform(-1.5, 1.5):.3f}"

    def slice_of(self, n):
        return self.pick(
            ":", "1:", ":-1", "::2", "::-1", "-2:", f"{self.rng.integers(0, max(n, 1))}:", "1::2", "::-2", ":0" if n > 3 else ":"
        )

    def basic(self, shape, scalar=False):
        """A basic index, as text."""
        parts = []
        for n in shape[: self.rng.integers(1, len(shape) + 1)] if shape else ():
            kind = self.rng.integers(4)
            parts.append(f"{self.rng.integers(-n, n)}" if kind == 0 and n else self.slice_of(n))
        if scalar:
            parts = [f"{self.rng.integers(-n, n)}" for n in shape if n]
        if self.rng.random() < 0.15:
            parts.insert(self.rng.integers(len(parts) + 1), "None")
        if self.rng.random() < 0.15:
            parts.insert(self.rng.integers(len(parts) + 1), "...")
        return ", ".join(parts) or "..."

    def fancy(self, name):
        shape = self.env[name].shape
        if not shape or 0 in shape:
            return "..."
        n = shape[0]
        some = [int(i) for i in self.rng.integers(-n, n, self.rng.integers(1, 4))]
        options = [f"{some}", f"{name} > {self.number()}", f"np.array({some})", f"{some}, ..."]
        if len(shape) > 1:
            m = shape[1]
            other = [int(i) for i in self.rng.integers(-m, m, len(some))]
            options += [f":, {other}", f"{some}, {other}", f"{self.slice_of(n)}, {other}", f"..., {some[:1]}, 0", f"None, {some}"]
            options += [f"np.array({[i % 2 == 0 for i in range(n)]})"]
        return self.pick(*options)

    def views(self, a):
        """Expressions that NumPy makes views of, or copies, or gives back as they are."""
        v = self.env[a]
        shape, n = v.shape, v.ndim
        size = v.size
        order = self.pick("C", "F", "A", "K")
        o2 = self.pick("C", "F", "A")
        axis = self.rng.integers(-n, n) if n else 0
        other = self.rng.integers(-n, n) if n else 0
        split = [(size,), (1, size), (-1,)] + [(d, size // d) for d in (2, 3) if size % d == 0 and size]
        new = self.pick(*split)
        common = [
            f"{a}[{self.basic(shape)}]", f"{a}[{self.basic(shape)}]", f"{a}[{self.fancy(a)}]",
            f"{a}.T", f"np.transpose({a})", f"{a}.reshape({new}, order='{o2}')", f"np.reshape({a}, {new}, order='{o2}')",
            f"{a}.reshape({new})", f"{a}.T.reshape({new})",
            f"{a}.ravel('{order}')", f"{a}.ravel()", f"np.ravel({a}, '{order}')", f"{a}.flatten('{order}')",
            f"{a}.copy()", f"{a}.copy('{order}')", f"np.copy({a})", f"np.copy({a}, '{order}')", f"np.array({a})",
            f"np.array({a}, copy=None)", f"np.array({a}, order='{order}')", f"np.array({a}, copy=None, order='{order}')",
            f"np.array({a}, ndmin={n + 1})", f"np.array({a}, copy=None, ndmin={n + 1})",
            f"np.asarray({a})", f"np.asarray({a}, order='{order}')", f"np.asanyarray({a})",
            f"np.ascontiguousarray({a})", f"np.asfortranarray({a})", f"np.ascontiguousarray({a}.T)",
            f"np.require({a}, requirements='{self.pick('C', 'F', 'W', 'A', 'O')}')", f"np.require({a}, None, ['{self.pick('C', 'F')}', 'W'])",
            f"{a}.astype(float, copy=False)", f"{a}.astype(float)", f"{a}.astype(float, order='{order}', copy=False)",
            f"np.nan_to_num({a}, copy=False)", f"np.nan_to_num({a})",
            f"{a}.squeeze()", f"np.squeeze({a})", f"np.expand_dims({a}, {self.rng.integers(0, n + 1)})",
            f"np.broadcast_to({a}, {(2, *shape)})", f"np.broadcast_to({a}, {shape})", f"np.broadcast_arrays({a}, 1.0)[0]",
            f"np.real({a})", f"{a}.real", f"{a}.conj()", f"np.conj({a})", f"np.real_if_close({a})",
            f"np.atleast_1d({a})", f"np.atleast_2d({a})", f"np.atleast_3d({a})",
            f"{a}.view()", f"{a}[...]", f"{a}[()]", f"{a}[None]", f"np.positive({a})", f"np.flip({a})",
            f"np.zeros_like({a})", f"np.full_like({a}, {self.number()})", f"np.zeros({shape})",
            f"np.full({shape}, {a}.sum())", f"np.asarray_chkfinite({a})",
        ]  # fmt: skip
        if n:
            common += [
                f"np.swapaxes({a}, {axis}, {other})", f"{a}.swapaxes({axis}, {other})", f"np.moveaxis({a}, {axis}, {other})",
                f"np.rollaxis({a}, {axis})", f"np.flip({a}, {axis})", f"np.flipud({a})",
                f"np.array_split({a}, 2, axis={axis})[{self.rng.integers(2)}]", f"np.split({a}, [1], axis={axis})[{self.rng.integers(2)}]",
                f"{a}[0]", f"list({a})[-1]", f"np.unstack({a}, axis={axis})[0]", f"np.take({a}, [0], axis={axis})",
                f"np.sort({a}, axis={axis})", f"np.roll({a}, 1, axis={axis})", f"np.cumsum({a}, axis={axis})", f"np.sum({a}, axis={axis}, keepdims=True)",
                f"np.repeat({a}, 2, axis={axis})", f"np.concatenate([{a}, {a}], axis={axis})", f"np.stack([{a}, {a}], axis={axis})",
                f"np.lib.stride_tricks.sliding_window_view({a}, 1, axis={axis})", f"np.trim_zeros({a}.ravel())", f"np.tile({a}, 2)",
                f"np.compress([True], {a}, axis={axis})", f"np.where({a} > 0.4, {a}, 0.0)", f"np.clip({a}, -1.0, 1.0)",
                f"np.delete({a}, 0, axis={axis})", f"np.insert({a}, 0, 1.0, axis={axis})", f"np.append({a}, 1.0)", f"np.pad({a}, 1)",
                f"np.mean({a}, axis={axis})", f"np.diff({a}, axis={axis})", f"np.resize({a}, {(2, 2)})", f"np.einsum('...i->i...', {a})",
                f"np.max({a}, axis={axis}, keepdims=True)", f"np.prod({a}, axis={axis})", f"np.cumprod({a}, axis={axis})",
            ]  # fmt: skip
        if n >= 2:
            common += [
                f"np.diagonal({a})", f"{a}.diagonal()", f"np.rot90({a}, {self.rng.integers(4)})", f"np.fliplr({a})", f"np.matrix_transpose({a})",
                f"{a}.mT", f"np.hsplit({a}, [1])[0]", f"np.vsplit({a}, [1])[1]", f"np.tril({a})", f"np.triu({a})", f"np.linalg.matrix_transpose({a})",
                f"{a}.transpose({', '.join(map(str, self.rng.permutation(n)))})", f"np.permute_dims({a}, {tuple(map(int, self.rng.permutation(n)))})",
                f"np.einsum('i...->...i', {a})", f"np.vstack([{a}, {a}])", f"np.hstack([{a}, {a}])", f"np.block([[{a}, {a}]])",
                f"{a} @ np.swapaxes({a}, -1, -2)", f"np.kron({a}, np.ones({(2,) * n}))", f"np.linalg.diagonal({a})",
            ]  # fmt: skip
        if n == 2:
            common += [f"np.diag({a})", f"np.einsum('ij->ji', {a})"] + ([f"np.einsum('ii->i', {a})"] if shape[0] == shape[1] else [])
        if n == 1:
            common += [
                f"np.diag({a})",
                f"np.meshgrid({a}, {a}, sparse=True, copy=False)[{self.rng.integers(2)}]",
                f"np.meshgrid({a}, {a})[{self.rng.integers(2)}]",
                f"np.ix_({a}, {a})[0]",
                f"np.outer({a}, {a})",
            ]
        return self.pick(*common)

    def value(self, shape):
        """Something to be written where this shape is."""
        fits = [n for n in self.names if self.env[n].shape == shape]
        more = [n for n in self.names if n not in fits and _broadcasts(self.env[n].shape, shape)]
        options = [self.number(), f"{self.number()} * x.sum()"]
        options += [self.pick(*fits), f"np.sin({self.pick(*fits)})", f"{self.pick(*fits)}[...] * 0.5"] if fits else []
        options += [self.pick(*more), f"{self.pick(*more)} * 0.7"] if more else []
        if shape:
            options.append(f"np.linspace(-1.0, 1.0, {int(np.prod(shape))}).reshape({shape})")
        return self.pick(*options)

    def write(self, a):
        """A statement that writes to an array."""
        v = self.env[a]
        index = self.pick(self.basic(v.shape), self.basic(v.shape), self.basic(v.shape, scalar=True), self.fancy(a), "...")
        try:
            part = eval(f"{a}[{index}]", self.env)
        except IndexError:
            return None
        w, whole = self.value(np.shape(part)), self.value(v.shape)
        op = self.pick("+=", "*=", "-=", "/=")
        if op == "/=":
            w, whole = "2.0", "2.0"
        ufunc = self.pick("add", "multiply", "subtract", "maximum")
        mask = f"{a} > {self.number()}"
        options = [
            f"{a}[{index}] = {w}", f"{a}[{index}] = {w}", f"{a}[{index}] {op} {w}", f"{a}[{index}] {op} {w}", f"{a} {op} {whole}",
            f"{a} *= {a}", f"{a}[...] = {whole}", f"{a}.fill({self.number()})", f"{a}.flat[::2] = {self.number()}", f"{a}.flat = {self.number()}",
            f"np.{ufunc}({a}, {whole}, out={a})", f"np.sin({a}, out={a})", f"np.{ufunc}({a}, {whole}, out={a}, where={mask})",
            f"np.copyto({a}, {whole} * 1.0)", f"np.copyto({a}, {whole} * 1.0, where={mask})", f"np.putmask({a}, {mask}, {self.number()})",
            f"np.place({a}, {mask}, [{self.number()}, x.sum()])", f"np.put({a}, [0, -1], [{self.number()}, x.sum()])",
            f"{a}.put([0], {self.number()})", f"{a}.real = {self.number()}", f"{a}[{mask}] {self.pick('=', '+=', '*=')} {self.number()}",
            f"np.nan_to_num({a}, copy=False)", f"np.clip({a}, -0.9, 0.9, out={a})", f"np.cumsum({a}.ravel(), out={a}.reshape(-1))",
        ]  # fmt: skip
        if v.ndim:
            axis = self.rng.integers(-v.ndim, v.ndim)
            options += [
                f"{a}.sort(axis={axis})", f"{a}.partition(0, axis={axis})", f"{a}[1:] {op} {a}[:-1]" if op != "/=" else f"{a}[1:] = {a}[:-1]",
                f"{a}[::-1] = {a}", *([f"np.{ufunc}.at({a}, [0, 0], {self.number()})"] if v.flags.writeable else []),
                f"{a}[0], {a}[-1] = {a}[-1] * 1.0, {a}[0] * 1.0",
                f"for row in {a}:\n    row *= 1.5" if v.ndim > 1 else f"for i in range(len({a})):\n    {a}[i] = {a}[i - 1] * 0.9",
                f"np.sum({a}, axis=0, out={a}[0])" if v.ndim > 1 else f"np.cumsum({a}, out={a})",
            ]  # fmt: skip
        if v.ndim >= 2:
            options += [f"np.fill_diagonal({a}, {self.number()})", f"np.put_along_axis({a}, np.zeros({(1,) * v.ndim}, int), {self.number()}, axis=0)"]
        return self.pick(*options)

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
            a = self.array()
            if self.rng.random() < 0.55 and len(self.names) < 7:
                name = f"v{len(self.names)}"
                text = self.views(a) if self.rng.random() < 0.85 else f"{self.value(self.env[a].shape)} + {a}"
                before = len(self.lines)
                if self.attempt(f"{name} = {text}"):
                    made = self.env[name]
                    if isinstance(made, np.ndarray) and made.dtype == float and made.size <= 40:
                        self.names.append(name)
                    else:
                        del self.lines[before:]
            elif (line := self.write(a)) is not None:
                self.attempt(line)
        return self


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
        return self.x.copy(order="K") if self.x.flags.forc else Maker._strided(self.x)

    def __repr__(self):
        return f"# seed {self.seed}: x of shape {self.x.shape}, strides {self.x.strides}\n{self.text}"
