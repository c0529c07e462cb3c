"""Terms as text: infix, Python source, LaTeX.

Common subexpressions that are not short get a name, so that the text grows with the number of distinct terms and not with the
expanded tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np

from ..core.errors import UnsupportedError
from ..core.op import OPS, Op
from ..ops.broadcast import where
from ..ops.elementwise import stop_gradient
from ..view import notation
from ..view.notation import ATOM, POWER, PRODUCT, SUM, Piece, python_name
from .terms import HALF, ONE, PI, Number, Term, is_decimal, post_order

_SHORT = 72  # an expression of this length is written in one piece
_WORTH_A_NAME = 10
_TOO_LONG = 240
_TOO_DEEP = 24


class WrittenTerms(NamedTuple):
    """The named sub-terms in order, and the result."""

    names: list[tuple[str, str]]
    result: str


class _Plain(notation.Python):
    """Python's operators, our names."""

    def word(self, op: Op | str) -> str:
        return op if isinstance(op, str) else op.name

    def call(self, op: Op, args: Sequence[Piece], options: Sequence[str] = ()) -> Piece:
        return notation.Plain.call(self, op, args, options)


class _Source(_Plain):
    """Names of NumPy and of scipy.special, of arrays too."""

    def word(self, op: Op | str) -> str:
        if isinstance(op, str):
            return op
        if op is stop_gradient:
            return ""
        name = "round" if op.name == "round" else python_name(op)
        if name or isinstance(getattr(np, op.name, None), np.ufunc) or op is where:
            return name if "." in name else f"np.{op.name}"
        from scipy import special  # heavy, and needed for its functions only

        if hasattr(special, op.name):
            return f"special.{op.name}"
        raise UnsupportedError(f"{op.name!r} has no name in NumPy or SciPy; call the expression instead of writing its source")


class _Latex(notation.Latex):
    """Factors stand side by side, the arguments of functions in parentheses."""

    times, one_line = " ", False
    signs: ClassVar[dict[str, str]] = {**notation.Latex.signs, "==": "="}

    def word(self, op: Op | str) -> str:
        return super().word(op.name if isinstance(op, Op) and op.symbol != op.name else op)  # names that can be read back

    def apply(self, op: Op | str, args: Sequence[Piece], options: Sequence[str] = ()) -> Piece:
        return Piece(rf"{self.word(op)}\left({', '.join(a.text for a in args)}\right)")


class Infix:
    """Python's operators, plain function names."""

    notation: notation.Unicode = _Plain()
    pi = "pi"

    def write(self, root: Term, variables: Iterable[str]) -> WrittenTerms:
        prefix = _free_prefix(variables)
        named = _choose(root)
        written: dict[Term, Piece] = {}
        names: list[tuple[str, str]] = []
        for term in post_order(root):
            text = self.term(term, written)
            if term in named:
                names.append((self.symbol(f"{prefix}{len(names) + 1}"), text.text))
                text = Piece(names[-1][0], ATOM)
            written[term] = text
        return WrittenTerms(names, written[root].text)

    # -- one term, its parts written already --------------------------------------------------------------------

    def term(self, term: Term, written: dict[Term, Piece]) -> Piece:
        if term.kind == "number":
            return self.number(term.head)
        if term.kind == "symbol":
            return Piece(self.symbol(term.head), ATOM)
        if term.kind == "sum":
            return self.sum(term, written)
        if term.kind == "product":
            return self.product(term, written)
        return self.call(term, [written[t] for t in term.parts])

    def number(self, value: Number) -> Piece:
        above, below = _ratio(_magnitude(value))
        text = self.digits(above)
        if below != 1:
            text = self.fraction(Piece(text, ATOM), [Piece(self.digits(below), ATOM)]).text
        sign = "-" if value < 0 else ""
        return Piece(sign + text, PRODUCT if below != 1 or sign else ATOM)

    def digits(self, value: Number) -> str:
        return _digits(value)

    def symbol(self, name: str) -> str:
        return name

    def call(self, term: Term, args: list[Piece]) -> Piece:
        return Piece(self.pi) if term == PI else self.notation.call(OPS[term.head], args)

    def sum(self, term: Term, written: dict[Term, Piece]) -> Piece:
        items: list[tuple[bool, str]] = []
        for coefficient, t in term.parts:
            body = self.scaled(_magnitude(coefficient), t, written)
            items.append((coefficient < 0, self.notation.inside(body, SUM if coefficient > 0 else PRODUCT)))
        if term.head != 0:
            items.append((term.head < 0, self.number(_magnitude(term.head)).text))
        first = next((i for i, (is_negative, _) in enumerate(items) if not is_negative), 0)
        is_split = first < len(term.parts) and self.is_split(term.parts[first][1])
        items.insert(0, items.pop(first))  # 1 - x rather than -x + 1
        text = f"-({items[0][1]})" if items[0][0] and is_split else ("-" if items[0][0] else "") + items[0][1]
        return Piece(text + "".join((" - " if minus else " + ") + body for minus, body in items[1:]), SUM)

    def scaled(self, coefficient: Number, term: Term, written: dict[Term, Piece]) -> Piece:
        """A positive coefficient times a term of a sum."""
        text = written[term]
        if coefficient == 1:
            return text
        if text.level == ATOM or term.kind != "product":  # a name, or a single factor
            return self.quotient(coefficient, [text], [])
        return self.factors(coefficient, term, written)

    def product(self, term: Term, written: dict[Term, Piece]) -> Piece:
        body = self.factors(_magnitude(term.head), term, written)
        level = POWER if self.is_split(term) else PRODUCT
        return Piece("-" + self.notation.inside(body, level), PRODUCT) if term.head < 0 else body

    def is_split(self, term: Term, has_denominator: bool = False) -> bool:
        """Whether a number in front of a product, when it is read, would go into a choice and not be that of the product.

        `-(where(c, a, b)/x)`, since `-where(c, a, b)/x` is `where(c, -a, -b)/x`; so with a denominator, `1/where(c, a, b)/2`.
        """
        if term.kind != "product":
            return False
        if has_denominator and any(b.is_call("where") and e.is_number and e.head == -1 for b, e in term.parts):
            return True
        base, exponent = next(((b, e) for b, e in term.parts if not (e.is_number and e.head < 0)), term.parts[0])
        return len(term.parts) > 1 and base.is_call("where") and exponent == ONE

    def factors(self, coefficient: Number, term: Term, written: dict[Term, Piece]) -> Piece:
        above: list[Piece] = []
        below: list[Piece] = []
        for base, exponent in term.parts:
            if exponent.is_number and exponent.head < 0:
                below.append(self.power(written[base], _magnitude(exponent.head), None))
            elif exponent.is_number:
                above.append(self.power(written[base], exponent.head, None))
            else:
                above.append(self.power(written[base], None, written[exponent]))
        if coefficient != 1 and self.is_split(term, _ratio(coefficient)[1] != 1):
            return self.quotient(coefficient, [self.quotient(1, above, below)], [])
        return self.quotient(coefficient, above, below)

    def power(self, base: Piece, exponent: Number | None, text: Piece | None) -> Piece:
        if exponent == 1:
            return base
        if exponent == HALF.head:
            return self.notation.root(base)
        return self.notation.power(base, self.number(exponent) if text is None else text)  # type: ignore[arg-type]

    def quotient(self, coefficient: Number, above: list[Piece], below: list[Piece]) -> Piece:
        numerator, denominator = _ratio(coefficient)
        if numerator != 1 or not above:
            above = [self.number(numerator), *above]
        if denominator != 1:
            below = [self.number(denominator), *below]
        if not below:
            return self.joined(above)
        return self.fraction(self.joined(above), below)

    def joined(self, factors: list[Piece]) -> Piece:
        if len(factors) == 1:
            return factors[0]
        return Piece(self.notation.times.join(self.notation.inside(f, POWER) for f in factors), PRODUCT)

    def fraction(self, above: Piece, below: list[Piece]) -> Piece:
        return self.notation.fraction(above, self.joined(below))


def _choose(root: Term) -> set[Term]:
    """The terms that get a name: shared and not short, or too long or too deep to be inlined.

    The lengths are those of the infix text, so that all notations name the same terms.
    """
    infix = Infix()
    order = post_order(root)
    if root.size <= _SHORT:
        written: dict[Term, Piece] = {}
        for term in order:
            written[term] = infix.term(term, written)
        if len(written[root].text) <= _SHORT:
            return set()
    uses: dict[Term, int] = {}
    for term in order:
        for t in term.children():
            uses[t] = uses.get(t, 0) + 1
    named: set[Term] = set()
    depth: dict[Term, int] = {}
    written = {}
    for term in order[:-1]:
        children = list(term.children())
        text = infix.term(term, written)
        depth[term] = 1 + max((depth[t] for t in children), default=0)
        is_shared = uses[term] > 1 and len(text.text) >= _WORTH_A_NAME
        if children and (is_shared or len(text.text) > _TOO_LONG or depth[term] > _TOO_DEEP):
            named.add(term)
            text, depth[term] = Piece("t1", ATOM), 1
        written[term] = text
    return named


class PythonTerms(Infix):
    """Source that runs with `import numpy as np` and `from scipy import special`."""

    notation = _Source()
    pi = "np.pi"

    def number(self, value: Number) -> Piece:
        if isinstance(value, float) and not np.isfinite(value):
            return Piece(f"{'-' if value < 0 else ''}np.{abs(value)}", PRODUCT if value < 0 else ATOM)
        return super().number(value)


class LatexTerms(Infix):
    """LaTeX, for mathematics mode."""

    notation = _Latex()
    pi = r"\pi"

    def is_split(self, term: Term, has_denominator: bool = False) -> bool:
        return False  # nothing reads it back

    def symbol(self, name: str) -> str:
        return latex_name(name)

    def number(self, value: Number) -> Piece:
        text = super().number(value)
        return Piece(text.text, PRODUCT if value < 0 else POWER if text.level == PRODUCT else ATOM)

    def digits(self, value: Number) -> str:
        mantissa, _, exponent = _digits(value).partition("e")
        if not mantissa[0].isdigit():
            return {"inf": r"\infty"}.get(mantissa, rf"\mathrm{{{mantissa}}}")
        return mantissa if not exponent else rf"{mantissa} \cdot 10^{{{int(exponent)}}}"

    def joined(self, factors: list[Piece]) -> Piece:
        if len(factors) == 1:
            return factors[0]
        text = self.notation.inside(factors[0], POWER)
        for factor in factors[1:]:
            body = self.notation.inside(factor, POWER)
            text += (r" \cdot " if body[0].isdigit() else " ") + body
        return Piece(text, PRODUCT)


_GREEK = re.compile(
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|upsilon|phi|chi|psi|omega|"
    "Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)


def _escape(name: str) -> str:
    return name.replace("_", r"\_")


def latex_name(name: str) -> str:
    """w1 as w_{1}, alpha as \\alpha, x_max as x_{\\mathrm{max}}."""
    match = re.fullmatch(r"([^\W\d_]+)_?(\w*)", name)
    if match is None:
        return rf"\mathrm{{{_escape(name)}}}"
    return _word(match[1]) + (f"_{{{_word(match[2])}}}" if match[2] else "")


def _word(word: str) -> str:
    if _GREEK.fullmatch(word):
        return rf"\{word}"
    return word if len(word) == 1 or word.isdigit() else rf"\mathrm{{{_escape(word)}}}"


def _digits(value: Number) -> str:
    return str(value.numerator) if isinstance(value, Fraction) and value.denominator == 1 else repr(float(value))


def _magnitude(value: Number) -> Number:
    return -value if value < 0 else value


def _ratio(value: Number) -> tuple[Number, Number]:
    """Numerator and denominator as written: 0.3 is a decimal, 1/3, 2/5 and 3/4 are fractions."""
    if isinstance(value, float) or (value.denominator > 9 and value.denominator % 5 == 0 and is_decimal(value)):
        return value, Fraction(1)
    return Fraction(value.numerator), Fraction(value.denominator)


def _free_prefix(variables: Iterable[str]) -> str:
    """A letter that no variable with a number begins with."""
    taken = {re.sub(r"\d+$", "", v) for v in variables if re.search(r"\d$", v)}
    prefix = next((p for p in "tsu" if p not in taken), "t_")
    while prefix in taken:
        prefix += "_"
    return prefix
