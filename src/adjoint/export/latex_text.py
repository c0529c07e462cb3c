r"""A function and its derivatives in LaTeX, as formulas of finite numbers.

    y &= \sum \left(\sin x \odot x\right)
    \bar{x} &= \sin x + x \odot \cos x

A value that is used once is part of the formula that uses it, unless that becomes long. The body of a loop stands below its
equation as a program of its own. Tests for infinities and nans, with which derivatives protect exact zeros, are left out.
A long program is cut into several `aligned` blocks, so that pages can break between them.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.boundary import boundary
from ..core.op import Op, Structured
from ..core.types import Type, shape_of
from ..ir.edit import bodies, dead_code, renumber
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ops import control
from ..ops import elementwise as ew
from ..ops.broadcast import broadcast_to, cast, reshape, sum_, where
from ..ops.determinant import slogdet
from ..ops.index import gather
from ..ops.linalg import matmul
from ..ops.norm import norm
from ..ops.reduce import prod
from ..ops.solve import inv, solve
from ..staging.stage import Stage
from ..view.notation import APPLY, ATOM, POWER, PRODUCT, Latex, Piece, escape_latex
from ..view.writer import GraphWriter
from .program import Part, parts, write

LINES = 30  # of one block
WIDTH = 60  # of a formula, about
_DOCUMENT = r"""\documentclass{article}
\usepackage{amsmath,amssymb}
\allowdisplaybreaks
\begin{document}
%s
\end{document}
"""


@boundary
def latex(
    f: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    derivatives: Any = (),
    argnums: Any = 0,
    name: str | None = None,
    document: bool = False,
    **kwargs: Any,
) -> str:
    r"""The formulas of f, and of the derivatives asked for, in LaTeX (amsmath).

    `document` makes a whole document of them.

    >>> from adjoint import export
    >>> print(export.latex(lambda x: x * x, 2.0).splitlines()[4])
    y &= x \cdot x
    """
    found = "\n\n".join(
        text for part in parts(f, args, kwargs, derivatives=derivatives, argnums=argnums, name=name) for text in _shown(part)
    )
    return write(path, _DOCUMENT % found if document else f"{found}\n")


def _shown(part: Part) -> Iterator[str]:
    yield rf"\paragraph{{\texttt{{{_plain(part.summary)}}}}}"
    graph = _finite(part.graph)
    inputs = [Piece(_LATEX.variable(name)) for name in graph.input_names]
    yield from _Formulas(graph, inputs, [f"{_LATEX.variable(name)} &=" for name in part.output_names]).blocks()


def _plain(text: str) -> str:
    """Piece outside mathematics."""
    for sign in "_{}#%&$":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("->", r"$\to$")


# -- formulas of finite numbers ---------------------------------------------------------------------------------


class _Finite(Stage):
    """Records a graph without what it does for infinities and nans."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        super().__init__("export")
        self.made: dict[int, Equation] = {}

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if op in (ew.isinf, ew.isnan, ew.isfinite):
            return np.full(shape_of(args[0]), op is ew.isfinite)
        if op is ew.not_equal and isinstance(args[0], Traced) and self._is_cotangent(args[0]) and not isinstance(args[1], Traced):
            return np.full(shape_of(args[0]), True)  # the mask of a product that is 0 in any case
        if op in (ew.logical_and, ew.logical_or):
            for known, other in (args, args[::-1]):
                if isinstance(known, np.ndarray | np.bool_) and np.all(known == np.ravel(known)[:1]):
                    return known if bool(np.ravel(known)[0]) is (op is ew.logical_or) else other
        if op is where:
            chosen = self._chosen(*args)
            if chosen is not None:
                shape = np.broadcast_shapes(*map(shape_of, args))
                return chosen if shape_of(chosen) == shape else broadcast_to(chosen, shape=shape)
        if op is ew.nan_where and not isinstance(args[0], Traced) and not np.any(args[0]):
            return args[1]
        if op in (ew.strong_mul_op, ew.strong_mul_either_op, ew.ieee_mul):
            return ew.mul(*args)
        if isinstance(op, Structured):
            params = {**params, **{name: _finite(body) for name, body in bodies(params).items()}}
        return super().process(op, args, params)

    def _is_cotangent(self, x: Traced) -> bool:
        number = x.aux[0]
        return number < len(self.inputs) and self.names[number].endswith("_bar")

    def note(self, op: Op, inputs: tuple[Operand, ...], params: dict[str, Any], types: tuple[Type, ...]) -> range:
        numbers = super().note(op, inputs, params, types)
        self.made.update(dict.fromkeys(numbers, self.equations[-1]))
        return numbers

    def _chosen(self, condition: Any, a: Any, b: Any) -> Any:
        """The branch that is taken for finite numbers; None if that depends on them."""
        if not isinstance(condition, Traced):
            flat = np.ravel(condition)
            return None if not flat.size or np.any(flat != flat[0]) else a if flat[0] else b
        test, product = (self.made.get(x.aux[0]) if isinstance(x, Traced) else None for x in (condition, a))
        if test is None or product is None or test.op is not ew.not_equal or product.op is not ew.mul:
            return None
        protects = test.inputs[0] in product.inputs and _is_zero(test.inputs[1])  # g·p, or 0 where g is
        return a if protects and not isinstance(b, Traced) and not np.any(b) else None


def _is_zero(o: Operand) -> bool:
    return isinstance(o, Literal) and not np.any(o.value)


def _finite(graph: Graph) -> Graph:
    with _Finite() as stage:
        inside = [stage.input(name, t) for name, t in zip(graph.input_names, graph.input_types, strict=True)]
        results = [y if isinstance(y, Traced) else np.asarray(y) for y in graph.run_flat(inside)]
        return renumber(dead_code(stage.graph(graph.name, results)))


# -- notation ---------------------------------------------------------------------------------------------------

_GREEK = re.compile(
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|upsilon|phi|chi|psi|omega|"
    "Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)


_MULTIPLES = 12  # of pi, and of its fractions, that are written as such


class _Mathematics(Latex):
    """Names and numbers as in print: Greek letters, accents, subscripts, parts of π, unit matrices."""

    one_line = False

    def variable(self, name: str) -> str:
        for end, accent in (("_bar", "bar"), ("_dot", "dot")):
            if name.endswith(end) and name != end:
                return self.accent(accent, self.variable(name.removesuffix(end)))
        if match := re.fullmatch(r"d(2?)([A-Za-z]\w*?)_d(\w+?)(?:_d(\w+))?", name):
            below = r" \, ".join(rf"\partial {self.variable(x)}" for x in match.groups()[2:] if x)
            power = "^{2}" if match[1] else ""
            return rf"\frac{{\partial{power} {self.variable(match[2])}}}{{{below}}}"
        if _GREEK.fullmatch(name):
            return rf"\{name}"
        if name.endswith("_") and len(name) > 1:  # another x
            return self.variable(name[:-1]) + ("" if re.fullmatch(r"[vc]\d+_", name) else "'")
        base, _, rest = name.strip("_").partition("_")
        if rest and base:
            return f"{self.variable(base)}_{{{super().variable(rest)}}}"
        return super().variable(name)

    def apply(self, op: Op | str, args: Sequence[Piece], options: Sequence[str] = ()) -> Piece:
        found = super().apply(op, args, options)
        if found.level == APPLY and not re.match(r"\\(arc)?(sin|cos|tan|ln|log|exp)", found.text):
            return Piece(rf"{self.word(op)}({args[0].text})")  # σ(x) is not a product
        return found

    def product(self, a: Piece, b: Piece) -> Piece:
        if "1" in (a.text, b.text):
            return b if a.text == "1" else a
        right = b if b.level >= PRODUCT and not b.text.startswith("-") else Piece(self.inside(b, POWER))
        return super().product(a, right)

    def add(self, a: Piece, b: Piece) -> Piece:
        return b if a.text == "0" else super().add(a, b)

    def number(self, x: Any) -> str:
        if isinstance(x, (float, np.floating)) and abs(float(x)) < _MULTIPLES * math.pi + 1:
            for below in (1, 2, 3, 4, 6):
                above = round(float(x) * below / math.pi)
                if above and abs(above) <= _MULTIPLES and float(x) == above * math.pi / below:
                    factor = {1: "", -1: "-"}.get(above, str(above))
                    return rf"{factor}\pi" if below == 1 else rf"\frac{{{factor}\pi}}{{{below}}}"
        return super().number(x)

    def array(self, x: Any) -> str:
        a = np.asarray(x)
        if a.size == 1:
            return self.number(a.flat[0])
        if a.ndim and a.size:
            if a.ndim == 2 and a.shape[0] == a.shape[1] and np.array_equal(a, np.eye(len(a))):
                return f"I_{{{len(a)}}}"
            if np.all(a == a.flat[0]) and a.flat[0] in (0, 1):
                return rf"\mathbf{{{int(a.flat[0].real)}}}_{{{self.shape(a.shape)}}}"
        return super().array(x)


class _Elementwise(_Mathematics):
    """The product of two arrays, element by element."""

    times = r" \odot "


_LATEX, _ELEMENTWISE = _Mathematics(), _Elementwise()


#: Of a loop or a branch: how it starts; the first inputs of each body, which do not change; how its results are introduced.
_Layout = tuple[str, dict[str, Sequence[Piece]], dict[str, list[str]]]


class _Formulas(GraphWriter):
    """The lines of a graph, and below them those of the bodies of its loops. `inputs` are the texts of its inputs."""

    def __init__(self, graph: Graph, inputs: Sequence[Piece], results: Sequence[str] = ()) -> None:
        super().__init__(_LATEX, graph)
        self.texts: dict[int, Piece] = dict(enumerate(inputs))
        self.lines: list[str] = []
        self.below: list[str] = []  # bodies of loops
        self.named = 0
        self.results = results  # left sides of the results, with their sign
        uses = Counter(o for e in graph.equations for o in e.inputs if isinstance(o, int))
        uses.update(o for o in graph.outputs if isinstance(o, int))
        self.ends = {o: y for o, y in zip(graph.outputs, results, strict=False) if isinstance(o, int) and uses[o] == 1}
        for equation in graph.equations:
            if isinstance(equation.op, Structured):
                if equation.op is not control.cond or not self._branches(equation):
                    self._loop(equation)
                continue
            if equation.op is slogdet:
                a = self.operand(equation.inputs[0])
                self.texts[equation.outputs[0]] = Piece(rf"\operatorname{{sgn}} \det {_LATEX.inside(a, ATOM)}", APPLY)
                self.texts[equation.outputs[1]] = Piece(rf"\ln \left|\det {_LATEX.inside(a, ATOM)}\right|", APPLY)
                continue
            (number, *more), text = equation.outputs, self.formula(equation)
            short = self.notation.width(text.text) <= WIDTH and r"\begin" not in text.text
            if not more and uses[number] <= 1 and (short or number in self.ends):
                self.texts[number] = text
            else:
                self._line(equation.outputs, text.text)

    def name(self, number: int) -> str:
        return self.texts[number].text

    def operand(self, o: Operand) -> Piece:
        return self.texts[o] if isinstance(o, int) else self.literal(o)

    def formula(self, equation: Equation) -> Piece:
        args = [self.operand(o) for o in equation.inputs]
        types = [self.types[o] if isinstance(o, int) else o.type for o in equation.inputs]
        if equation.op in (reshape, broadcast_to) or (equation.op is cast and equation.types[0].dtype.kind == "f"):
            return args[0]  # the same numbers
        if equation.op in (sum_, prod) and types[0].ndim:
            axes = np.atleast_1d(equation.params["axis"])
            below = "" if len(axes) == types[0].ndim else rf"_{{\text{{axis }}{', '.join(map(str, axes))}}}"
            inner = Piece(args[0].text, 0) if args[0].text.startswith("-") else args[0]
            return Piece(rf"\{equation.op.name}{below} {self.notation.inside(inner, PRODUCT)}", APPLY)
        if equation.op is matmul and all(t.ndim == 1 for t in types):
            return self.notation.matmul(self.notation.transpose(args[0]), args[1])
        if equation.op in (solve, inv):
            inverse = Piece(f"{self.notation.inside(args[0], ATOM)}^{{-1}}", POWER)
            return self.notation.matmul(inverse, args[1]) if equation.op is solve else inverse
        if equation.op is norm and types[0].ndim == 1:
            return Piece(rf"\left\|{args[0].text}\right\|")
        if equation.op is gather and len(args) == 2 and not equation.params["axis"]:
            return Piece(f"{self.notation.inside(args[0], ATOM)}_{{{args[1].text}}}")
        self.notation = _ELEMENTWISE if len(types) == 2 and all(t.ndim for t in types) else _LATEX
        found = self.call(equation.op, args, equation.params, types[0] if types else None)
        self.notation = _LATEX
        return found

    def _line(self, outputs: Sequence[int], right: str) -> None:
        """A separate line, with names for its results."""
        for number in outputs:
            self.named += 1
            self.texts[number] = Piece(self.notation.value(self.named))
        self.lines.append(f"{', '.join(map(self.name, outputs))} &= {right}")

    def _branches(self, equation: Equation) -> bool:
        """A branch as a formula by cases, if each case is a short one."""
        test, *rest = (self.operand(o) for o in equation.inputs)
        ways = [_Formulas(equation.params[way], rest) for way in ("true", "false")]
        if len(equation.outputs) != 1 or any(w.lines for w in ways):
            return False
        yes, no = (w.operand(w.graph.outputs[0]).text for w in ways)
        cases = rf"{yes} & \text{{if }} {test.text} \\ {no} & \text{{otherwise}}"
        formula = rf"\begin{{cases}} {cases} \end{{cases}}"
        if equation.outputs[0] in self.ends:
            self.texts[equation.outputs[0]] = Piece(formula)
        else:
            self._line(equation.outputs, formula)
        return True

    def _loop(self, equation: Equation) -> None:
        """A line that says how a loop or branch starts, and its bodies below it. Constants keep their names from outside."""
        args = [self.operand(o) for o in equation.inputs]
        graphs = bodies(equation.params)
        layout = _LAYOUTS.get(equation.op)
        if layout is not None:
            start, known, ends = layout(self, args, equation.params)
        else:
            start, known, ends = ", ".join(a.text for a in args), {}, {}
        self._line(equation.outputs, rf"\operatorname{{{escape_latex(equation.op.name)}}}({start})")
        names = ", ".join(map(self.name, equation.outputs))
        for key, graph in graphs.items():
            given = known.get(key, ())
            inputs = [*given, *(Piece(_LATEX.variable(name)) for name in graph.input_names[len(given) :])]
            self.below.append(rf"where {key} of ${names}$, \texttt{{{_plain(equation.op.name)}}}, is")
            results = ends.get(key) or [r"\text{result} &="] * len(graph.outputs)
            self.below.extend(_Formulas(graph, inputs, results).blocks())

    def _while(self, args: Sequence[Piece], params: dict[str, Any]) -> _Layout:
        body, asked, fixed = params["body"], params["cond_consts"], params["body_consts"]
        start = self._started(body, args[asked + fixed :], fixed)
        updates = [rf"{_LATEX.variable(name)} &\gets" for name in body.input_names[fixed:]]
        known = {"cond": args[:asked], "body": args[asked : asked + fixed]}
        return start, known, {"cond": [r"\text{go on if } &"], "body": updates}

    def _scan(self, args: Sequence[Piece], params: dict[str, Any]) -> _Layout:
        body, fixed, length = params["body"], params["consts"], params["length"]
        last = fixed + params["carries"]  # behind it, the rows
        start = self._started(body, args[fixed:last], fixed)
        rows = zip(body.input_names[last:], args[last:], strict=True)
        start += "".join(rf", \; {_LATEX.variable(name)} = {_LATEX.inside(x, ATOM)}_{{k}}" for name, x in rows)
        first, final = (length - 1, 0) if params["reverse"] else (0, length - 1)
        start += rf", \; k = {first}, \dots, {final}"
        updates = [rf"{_LATEX.variable(name)} &\gets" for name in body.input_names[fixed:last]]
        updates += [r"\text{row } k &="] * (len(body.outputs) - params["carries"])
        return start, {"body": args[:fixed]}, {"body": updates}

    def _cond(self, args: Sequence[Piece], params: dict[str, Any]) -> _Layout:
        return args[0].text, dict.fromkeys(bodies(params), args[1:]), {}

    @staticmethod
    def _started(body: Graph, args: Sequence[Piece], first: int) -> str:
        names = body.input_names[first : first + len(args)]
        return ", ".join(rf"{_LATEX.variable(name)} \gets {x.text}" for name, x in zip(names, args, strict=True))

    def blocks(self) -> Iterator[str]:
        """The lines, the results last."""
        ends = (f"{left} {self.operand(o).text}" for left, o in zip(self.results, self.graph.outputs, strict=True))
        written = [*self.lines, *ends]
        for at in range(0, len(written), LINES):
            yield "\\[\n\\begin{aligned}\n" + " \\\\\n".join(written[at : at + LINES]) + "\n\\end{aligned}\n\\]"
        yield from self.below


_LAYOUTS: dict[Op, Callable[[_Formulas, Sequence[Piece], dict[str, Any]], _Layout]] = {
    control.while_: _Formulas._while,
    control.scan: _Formulas._scan,
    control.cond: _Formulas._cond,
}

__all__ = ["latex"]
