"""Notations for values, numbers and ops: Unicode mathematics, ASCII, LaTeX, or the names of a printed graph.

unicode   v₋₁    v̄₁        v̇₁        ∂v₄/∂v₁      ln v₋₁
ascii     v[-1]  v[1]_bar  v[1]_dot  dv[4]/dv[1]  ln v[-1]
latex     v_{-1} \\bar{v}_{1} …
plain     x      adj(v3)   dot(v3)   ∂v4/∂v3      log(x)
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core.errors import UnsupportedError
from ..core.op import Constant, Elementwise, Op
from ..core.types import Value
from ..ops.elementwise import absolute, power, reciprocal, sqrt, square

COMPARE, SUM, PRODUCT, APPLY, POWER, ATOM = range(6)  # how tightly a text binds
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})

DIGITS = 3  # after the point
SHOWN = 4  # elements of an array


class Piece(NamedTuple):
    """A piece of a formula, and its precedence."""

    text: str
    level: int = ATOM


_SUBSCRIPTS = str.maketrans("0123456789-", "₀₁₂₃₄₅₆₇₈₉₋")
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


class Unicode:
    """Mathematics in Unicode text."""

    times, minus, dots = "·", "−", "…"
    flavour = 0
    signs: ClassVar[dict[str, str]] = {"!=": "≠", "<=": "≤", ">=": "≥"}  # for Python's, where they differ

    def value(self, index: int) -> str:
        return "v" + str(index).translate(_SUBSCRIPTS)

    def variable(self, name: str) -> str:
        """A user's name: x1 as x₁."""
        match = re.fullmatch(r"([^\W\d_]+)_?(\d+)", name)
        return match[1] + match[2].translate(_SUBSCRIPTS) if match else name

    def bar(self, name: str) -> str:
        return _marked(name, "\u0304") if _is_letter(name) else f"∂/∂{name}"

    def dot(self, name: str) -> str:
        return _marked(name, "\u0307") if _is_letter(name) else f"d({name})"

    def partial(self, above: str, below: str) -> str:
        return f"∂{above}/∂{below}"

    def width(self, text: str) -> int:
        """About how many characters wide a text is, as it is seen."""
        return len(text)

    def word(self, op: Op | str) -> str:
        """The name of an op, or of something else that is written like one."""
        return op if isinstance(op, str) else op.symbol

    def inside(self, x: Piece, level: int) -> str:
        """A text where at least this level is needed: in parentheses if it binds less."""
        return x.text if x.level >= level else f"({x.text})"

    def call(self, op: Op, args: Sequence[Piece], options: Sequence[str] = ()) -> Piece:
        """An op applied to texts."""
        write = _FORMS.get(op) or _SIGNED.get((op.infix, len(args)))
        if write is not None and not options:
            return write(self, *args)
        if op.infix in COMPARISONS and not options:
            return self.infix(self.signs.get(op.infix, op.infix), COMPARE, *args)
        return self.apply(op, args, options)

    def infix(self, sign: str, level: int, a: Piece, b: Piece) -> Piece:
        """Two texts with a sign between them; a right one that begins with a sign, or binds no closer, is in parentheses."""
        right = f"({b.text})" if level == SUM and b.text.startswith(self.minus) else self.inside(b, level + 1)
        return Piece(f"{self.inside(a, max(level, SUM))} {sign} {right}", level)

    def add(self, a: Piece, b: Piece) -> Piece:
        return self.infix("+", SUM, a, b)

    def subtract(self, a: Piece, b: Piece) -> Piece:
        return self.infix(self.minus, SUM, a, b)

    def negative(self, x: Piece) -> Piece:
        return Piece(f"{self.minus}{self.inside(x, PRODUCT)}", PRODUCT)

    def power(self, base: Piece, exponent: Piece) -> Piece:
        if re.fullmatch(r"[−-]?\d+", exponent.text):
            return Piece(self.inside(base, ATOM) + exponent.text.replace("−", "-").translate(_SUPERSCRIPTS), POWER)
        return Piece(f"{self.inside(base, ATOM)}^{self.inside(exponent, ATOM)}", POWER)

    def root(self, x: Piece) -> Piece:
        return Piece(f"√{self.inside(x, ATOM)}", POWER)

    def fraction(self, a: Piece, b: Piece) -> Piece:
        return Piece(f"{self.inside(a, PRODUCT)}/{self.inside(b, POWER)}", PRODUCT)

    def magnitude(self, x: Piece) -> Piece:
        return Piece(f"|{x.text}|")

    def apply(self, op: Op | str, args: Sequence[Piece], options: Sequence[str] = ()) -> Piece:
        """A function of its arguments; a single short one stands without parentheses, as in sin v₀."""
        word = self.word(op)
        if len(args) == 1 and not options and args[0].level == ATOM and _is_traditional(op):
            return Piece(f"{word} {args[0].text}", APPLY)
        return Piece(f"{word}({', '.join([*(a.text for a in args), *options])})")

    def index(self, x: Piece, key: str) -> Piece:
        return Piece(f"{self.inside(x, ATOM)}[{key}]")

    def matmul(self, a: Piece, b: Piece) -> Piece:
        return Piece(f"{self.inside(a, POWER)} @ {self.inside(b, POWER)}", PRODUCT)

    def transpose(self, x: Piece) -> Piece:
        return Piece(f"{self.inside(x, ATOM)}ᵀ")

    # -- numbers ------------------------------------------------------------------------------------------------

    def number(self, x: Any) -> str:
        """A number with three decimals; fewer if it is exact."""
        if isinstance(x, (bool, np.bool_)):
            return str(bool(x))
        if isinstance(x, (complex, np.complexfloating)):
            real, imaginary = self.number(x.real), self.number(abs(x.imag))
            sign = self.minus if x.imag < 0 or (x.imag == 0 and math.copysign(1.0, x.imag) < 0) else "+"
            return f"{real} {sign} {imaginary}i"
        if isinstance(x, (int, np.integer)):
            return self.sign(str(int(x)))
        value = float(x)
        if not math.isfinite(value):
            return "nan" if math.isnan(value) else self.infinity(value)
        if value == 0:
            return "0"
        if not 1e-3 <= abs(value) < 1e6:
            mantissa, _, exponent = f"{value:.{DIGITS}e}".partition("e")
            if float(f"{mantissa}e{exponent}") == value:
                mantissa = mantissa.rstrip("0").rstrip(".")
            return self.scientific(self.sign(mantissa), int(exponent))
        text = f"{value:.{DIGITS}f}"
        return self.sign(text.rstrip("0").rstrip(".") if float(text) == value else text)

    def sign(self, text: str) -> str:
        return text.replace("-", self.minus)

    def infinity(self, value: float) -> str:
        return "∞" if value > 0 else f"{self.minus}∞"

    def scientific(self, mantissa: str, exponent: int) -> str:
        return f"{mantissa}e{exponent}"

    def array(self, x: Value) -> str:
        """A value: a number in full, an array by its first elements and its shape."""
        a = np.asarray(x)
        if not a.ndim:
            return self.number(a[()])
        shown = [self.number(v) for v in a.ravel()[:SHOWN]] + [self.dots] * (a.size > SHOWN)
        shape = "×".join(map(str, a.shape)) if self.flavour == 0 else self.shape(a.shape)
        return f"[{', '.join(shown)}]" + (f" ({shape})" if a.ndim > 1 or not 0 < a.size <= SHOWN else "")

    def shape(self, shape: Sequence[int]) -> str:
        return "x".join(map(str, shape))

    def product(self, a: Piece, b: Piece) -> Piece:
        right = b.text if b.level >= PRODUCT and not b.text.startswith(self.minus) else f"({b.text})"
        return Piece(f"{self.inside(a, POWER) if a.level != PRODUCT else a.text}{self.times}{right}", PRODUCT)


class Ascii(Unicode):
    """The same in ASCII."""

    times, minus, dots = "*", "-", "..."
    flavour = 1
    signs: ClassVar[dict[str, str]] = {}

    def value(self, index: int) -> str:
        return f"v[{index}]"

    def variable(self, name: str) -> str:
        return name.encode("ascii", "backslashreplace").decode()

    def bar(self, name: str) -> str:
        return f"{name}_bar"

    def dot(self, name: str) -> str:
        return f"{name}_dot"

    def partial(self, above: str, below: str) -> str:
        return f"d{above}/d{below}"

    def word(self, op: Op | str) -> str:
        return op if isinstance(op, str) else op.symbol if op.symbol.isascii() else op.name

    def power(self, base: Piece, exponent: Piece) -> Piece:
        return Piece(f"{self.inside(base, ATOM)}^{self.inside(exponent, ATOM)}", POWER)

    def root(self, x: Piece) -> Piece:
        return self.apply(sqrt, [x])

    def transpose(self, x: Piece) -> Piece:
        return Piece(f"{self.inside(x, ATOM)}^T", POWER)

    def infinity(self, value: float) -> str:
        return str(value)


class Plain(Ascii):
    """The names of a printed graph."""

    times, minus, dots = "*", "-", "…"

    def variable(self, name: str) -> str:
        return name

    def bar(self, name: str) -> str:
        return f"adj({name})"

    def dot(self, name: str) -> str:
        return f"dot({name})"

    def partial(self, above: str, below: str) -> str:
        return f"∂{above}/∂{below}"

    def word(self, op: Op | str) -> str:
        return op if isinstance(op, str) else op.name

    def power(self, base: Piece, exponent: Piece) -> Piece:
        return Piece(f"{self.inside(base, ATOM)}**{self.inside(exponent, ATOM)}", POWER)

    def apply(self, op: Op | str, args: Sequence[Piece], options: Sequence[str] = ()) -> Piece:
        return Piece(f"{self.word(op)}({', '.join([*(a.text for a in args), *options])})")


class Python(Plain):
    """Source that runs with `import numpy as np` and `from scipy import special`."""

    def power(self, base: Piece, exponent: Piece) -> Piece:
        return Piece(f"{self.inside(base, ATOM)}**{self.inside(exponent, POWER)}", POWER)

    def magnitude(self, x: Piece) -> Piece:
        return self.apply(absolute, [x])

    def word(self, op: Op | str) -> str:
        found = op if isinstance(op, str) else python_name(op)
        if not found:
            raise UnsupportedError(f"the op {op!r} has no name in NumPy or SciPy")
        return found

    def call(self, op: Op, args: Sequence[Piece], options: Sequence[str] = ()) -> Piece:
        if "{" in op.python:
            text = op.python.format(*(self.inside(a, ATOM) for a in args))
            return Piece(text, ATOM if re.match(r"[\w.]+\(", text) else COMPARE)
        return super().call(op, args, options)


def python_name(op: Op) -> str:
    """The name of the function that an op is in Python: declared, NumPy's, or that of scipy.special; empty if it has none."""
    impl, name = op.impl, getattr(op.impl, "__name__", "")
    if "{" not in op.python and op.python not in ("", "def"):
        return op.python
    if name and getattr(np, name, None) is impl:
        return f"np.{name}"
    return f"special.{impl.name}" if getattr(impl, "module", "") == "scipy.special" else ""  # type: ignore[attr-defined]


class Latex(Unicode):
    """LaTeX, for mathematics mode."""

    times, minus, dots = r" \cdot ", "-", r"\dots"
    flavour = 2
    signs: ClassVar[dict[str, str]] = {"==": r"\equiv", "!=": r"\ne", "<=": r"\le", ">=": r"\ge"}
    one_line = True  # forms of several lines are left out: the text stands in a table

    def value(self, index: int) -> str:
        return f"v_{{{index}}}"

    def variable(self, name: str) -> str:
        match = re.fullmatch(r"([A-Za-z]+)_?(\d+)", name)
        if match:
            return f"{self.variable(match[1])}_{{{match[2]}}}"
        return name if re.fullmatch("[A-Za-z]", name) else rf"\mathrm{{{escape_latex(name)}}}"

    def bar(self, name: str) -> str:
        return self.accent("bar", name)

    def dot(self, name: str) -> str:
        return self.accent("dot", name)

    def accent(self, accent: str, name: str) -> str:
        base, mark, rest = name.partition("_{")
        return rf"\{accent}{{{base}}}{mark}{rest}"

    def partial(self, above: str, below: str) -> str:
        return rf"\frac{{\partial {above}}}{{\partial {below}}}"

    def width(self, text: str) -> int:
        return len(re.sub(r"\\[A-Za-z]+ ?|[{}]", "", text))

    def word(self, op: Op | str) -> str:
        name = super().word(op)
        if not isinstance(op, str) and op.latex and "#" not in op.latex:
            return op.latex
        return rf"\{name}" if name in _LATEX_HAS else rf"\operatorname{{{escape_latex(name)}}}"

    def call(self, op: Op, args: Sequence[Piece], options: Sequence[str] = ()) -> Piece:
        if "#" not in op.latex or options or (self.one_line and r"\\" in op.latex):
            return super().call(op, args, options)
        return Piece(re.sub(r"#(\d)", lambda m: args[int(m[1]) - 1].text, op.latex), POWER if "^{#" in op.latex else ATOM)

    def power(self, base: Piece, exponent: Piece) -> Piece:
        return Piece(f"{self.inside(base, ATOM)}^{{{exponent.text}}}", POWER)

    def inside(self, x: Piece, level: int) -> str:
        return x.text if x.level >= level else rf"\left({x.text}\right)"

    def root(self, x: Piece) -> Piece:
        return Piece(rf"\sqrt{{{x.text}}}")

    def fraction(self, a: Piece, b: Piece) -> Piece:
        return Piece(rf"\frac{{{a.text}}}{{{b.text}}}", PRODUCT)

    def magnitude(self, x: Piece) -> Piece:
        return Piece(rf"\left|{x.text}\right|")

    def index(self, x: Piece, key: str) -> Piece:
        return Piece(rf"{self.inside(x, ATOM)}[\mathtt{{{escape_latex(key)}}}]")

    def matmul(self, a: Piece, b: Piece) -> Piece:
        return Piece(rf"{self.inside(a, POWER)} \, {self.inside(b, POWER)}", PRODUCT)

    def transpose(self, x: Piece) -> Piece:
        return Piece(rf"{self.inside(x, ATOM)}^{{\top}}", POWER)

    def infinity(self, value: float) -> str:
        return r"\infty" if value > 0 else r"-\infty"

    def number(self, x: Any) -> str:
        text = super().number(x)
        return rf"\mathrm{{{text}}}" if text in ("nan", "True", "False") else text

    def scientific(self, mantissa: str, exponent: int) -> str:
        return rf"{mantissa} \cdot 10^{{{exponent}}}"

    def shape(self, shape: Sequence[int]) -> str:
        return r" \times ".join(map(str, shape))


UNICODE, ASCII, PLAIN, PYTHON, LATEX = Unicode(), Ascii(), Plain(), Python(), Latex()

#: The functions that LaTeX has commands for.
_LATEX_HAS = frozenset(
    {"arccos", "arcsin", "arctan", "cos", "cosh", "det", "exp", "ln", "log", "max", "min", "sin", "sinh", "tan", "tanh"}
)
_LATEX_SPECIAL = {"\\": r"\backslash ", "~": r"\sim ", "^": r"\hat{}", "{": r"\{", "}": r"\}"}


def escape_latex(text: str) -> str:
    """User text, escaped for LaTeX."""
    return re.sub(r"[\\~^{}#$%&_]", lambda m: _LATEX_SPECIAL.get(m[0], "\\" + m[0]), text)


def _is_letter(name: str) -> bool:
    """One letter with a subscript or an index, which can carry a bar."""
    return re.fullmatch(r"[^\W\d_]([₀-₉₋]*|[\[.].*)", name) is not None


def _marked(name: str, mark: str) -> str:
    """A mark over the first letter, as one character where Unicode has it."""
    return unicodedata.normalize("NFC", name[0] + mark) + name[1:]


def _is_traditional(op: Op | str) -> bool:
    """Whether a single argument is written without parentheses: NumPy's functions of one number, and what has a symbol."""
    if not isinstance(op, (Elementwise, Constant)):
        return False
    if isinstance(op.impl, np.ufunc):
        return op.impl.nin == 1 and not all(types.endswith("?") for types in op.impl.types)
    return isinstance(op, Elementwise) and op.symbol != op.name


#: Ops that are written in other ways than as functions.
_FORMS: dict[Op, Callable[..., Piece]] = {
    square: lambda n, x: n.power(x, Piece("2")),
    reciprocal: lambda n, x: n.fraction(Piece("1"), x),
    sqrt: lambda n, x: n.root(x),
    absolute: lambda n, x: n.magnitude(x),
    power: lambda n, a, b: a if b.text == "1" else n.power(a, b),
}
#: By Python's operator, and the number of operands.
_SIGNED: dict[tuple[str, int], Callable[..., Piece]] = {
    ("+", 2): lambda n, a, b: n.add(a, b),
    ("-", 2): lambda n, a, b: n.subtract(a, b),
    ("-", 1): lambda n, x: n.negative(x),
    ("*", 2): lambda n, a, b: n.product(a, b),
    ("/", 2): lambda n, a, b: n.fraction(a, b),
    ("@", 2): lambda n, a, b: n.matmul(a, b),
}
