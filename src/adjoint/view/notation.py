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
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Value

SUM, PRODUCT, APPLY, POWER, ATOM = range(5)  # operator precedence
COMPARE = -1

DIGITS = 3  # after the point
SHOWN = 4  # elements of an array


class Text(NamedTuple):
    """A piece of a formula, and its precedence."""

    text: str
    level: int = ATOM


_SUBSCRIPTS = str.maketrans("0123456789-", "₀₁₂₃₄₅₆₇₈₉₋")
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_NAMES = {"log": "ln", "arcsin": "arcsin", "expit": "σ", "stop_gradient": "constant"}


class Unicode:
    """Mathematics in Unicode text."""

    times, minus, dots = "·", "−", "…"
    flavour = 0

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

    def word(self, name: str) -> str:
        return _NAMES.get(name, name)

    def power(self, base: Text, exponent: Text) -> Text:
        if re.fullmatch(r"[−-]?\d+", exponent.text):
            return Text(inside(base, ATOM) + exponent.text.replace("−", "-").translate(_SUPERSCRIPTS), POWER)
        return Text(f"{inside(base, ATOM)}^{inside(exponent, ATOM)}", POWER)

    def root(self, x: Text) -> Text:
        return Text(f"√{inside(x, ATOM)}", POWER)

    def fraction(self, a: Text, b: Text) -> Text:
        return Text(f"{inside(a, PRODUCT)}/{inside(b, POWER)}", PRODUCT)

    def magnitude(self, x: Text) -> Text:
        return Text(f"|{x.text}|")

    def apply(self, name: str, args: Sequence[Text], options: Sequence[str] = ()) -> Text:
        """A function of its arguments; a single short one has no parentheses, as in sin v₀."""
        word = self.word(name)
        if len(args) == 1 and not options and args[0].level == ATOM and name in _TRADITIONAL:
            return Text(f"{word} {args[0].text}", APPLY)
        return Text(f"{word}({', '.join([*(a.text for a in args), *options])})")

    def index(self, x: Text, key: str) -> Text:
        return Text(f"{inside(x, ATOM)}[{key}]")

    def matmul(self, a: Text, b: Text) -> Text:
        return Text(f"{inside(a, POWER)} @ {inside(b, POWER)}", PRODUCT)

    def transpose(self, x: Text) -> Text:
        return Text(f"{inside(x, ATOM)}ᵀ")

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

    def product(self, a: Text, b: Text) -> Text:
        right = b.text if b.level >= PRODUCT and not b.text.startswith(self.minus) else f"({b.text})"
        return Text(f"{inside(a, POWER) if a.level != PRODUCT else a.text}{self.times}{right}", PRODUCT)


class Ascii(Unicode):
    """The same in ASCII."""

    times, minus, dots = "*", "-", "..."
    flavour = 1

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

    def word(self, name: str) -> str:
        return {"σ": "expit"}.get(super().word(name), super().word(name))

    def power(self, base: Text, exponent: Text) -> Text:
        return Text(f"{inside(base, ATOM)}^{inside(exponent, ATOM)}", POWER)

    def root(self, x: Text) -> Text:
        return self.apply("sqrt", [x])

    def transpose(self, x: Text) -> Text:
        return Text(f"{inside(x, ATOM)}^T", POWER)

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

    def word(self, name: str) -> str:
        return name

    def power(self, base: Text, exponent: Text) -> Text:
        return Text(f"{inside(base, ATOM)}**{inside(exponent, ATOM)}", POWER)

    def apply(self, name: str, args: Sequence[Text], options: Sequence[str] = ()) -> Text:
        return Text(f"{name}({', '.join([*(a.text for a in args), *options])})")


class Latex(Unicode):
    """LaTeX, for mathematics mode."""

    times, minus, dots = r" \cdot ", "-", r"\dots"
    flavour = 2

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

    def word(self, name: str) -> str:
        if name in ("log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "arcsin", "arccos", "arctan", "max", "min"):
            return rf"\{super().word(name)}"
        return r"\sigma" if name == "expit" else rf"\operatorname{{{escape_latex(super().word(name))}}}"

    def power(self, base: Text, exponent: Text) -> Text:
        return Text(f"{self.brace(base, ATOM)}^{{{exponent.text}}}", POWER)

    def brace(self, x: Text, level: int) -> str:
        return x.text if x.level >= level else rf"\left({x.text}\right)"

    def root(self, x: Text) -> Text:
        return Text(rf"\sqrt{{{x.text}}}")

    def fraction(self, a: Text, b: Text) -> Text:
        return Text(rf"\frac{{{a.text}}}{{{b.text}}}", PRODUCT)

    def magnitude(self, x: Text) -> Text:
        return Text(rf"\left|{x.text}\right|")

    def index(self, x: Text, key: str) -> Text:
        return Text(rf"{self.brace(x, ATOM)}[\mathtt{{{escape_latex(key)}}}]")

    def matmul(self, a: Text, b: Text) -> Text:
        return Text(rf"{self.brace(a, POWER)} \, {self.brace(b, POWER)}", PRODUCT)

    def transpose(self, x: Text) -> Text:
        return Text(rf"{self.brace(x, ATOM)}^{{\top}}", POWER)

    def infinity(self, value: float) -> str:
        return r"\infty" if value > 0 else r"-\infty"

    def number(self, x: Any) -> str:
        text = super().number(x)
        return rf"\mathrm{{{text}}}" if text in ("nan", "True", "False") else text

    def scientific(self, mantissa: str, exponent: int) -> str:
        return rf"{mantissa} \cdot 10^{{{exponent}}}"

    def shape(self, shape: Sequence[int]) -> str:
        return r" \times ".join(map(str, shape))


UNICODE, ASCII, PLAIN, LATEX = Unicode(), Ascii(), Plain(), Latex()

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


def inside(x: Text, level: int) -> str:
    """A text where at least this precedence is needed, in parentheses if necessary."""
    return x.text if x.level >= level else f"({x.text})"


#: Functions whose single argument is written without parentheses.
_TRADITIONAL = frozenset({
    "log", "log2", "log10", "log1p", "exp", "expm1", "exp2", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh",
    "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "sqrt", "cbrt", "sign", "floor", "ceil", "expit",
})  # fmt: skip
