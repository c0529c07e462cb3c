"""Symbolic differentiation with readable results.

>>> e = symbolic("x**2*y + y + 2", "x y")
>>> print(e.diff("x"))
2*x*y
>>> print(e.diff("y"))
x**2 + 1
>>> e.diff("x")(3.0, 4.0)
np.float64(24.0)

The derivative is that of the graph, by the rules of all transforms, in canonical form. It holds at generic points: those where no
denominator vanishes and no two values are equal by chance.
"""

from __future__ import annotations

import inspect
import keyword
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..api.building import graph_of
from ..api.grad import grad
from ..api.graph import Program, graph
from ..core.bind import Traced, unwrap_fresh
from ..core.boundary import boundary
from ..core.code import signature_of
from ..core.errors import ArgumentError, ShapeError
from ..ir.graph import Graph
from . import parse as parsing
from . import sympy as sympy_
from .convert import evaluate, evaluate_staged, from_graph, numbers_of
from .terms import ZERO, Term, number, post_order, symbol
from .tidy import tidy
from .write import Infix, LatexTerms, PythonTerms


@boundary
def symbolic(f: Any, names: str | Iterable[str] | None = None) -> Expression:
    """The expression that f computes, over scalars of the given names: "x y" or ["x", "y"].

    f is a function of scalars, text such as "x**2*y + sin(x)", a node built from `ad.symbols`, a graph of scalars, or a SymPy
    expression. Without names, a function's parameters, a node's symbols in the order of their declaration, a graph's inputs
    and a SymPy expression's symbols in alphabetical order are taken.

    >>> import adjoint as ad
    >>> e = ad.symbolic(lambda x, y: x**2 * y + y + 2)
    >>> print(e.diff("x"), "and", e.diff("y"))
    2*x*y and x**2 + 1
    """
    if isinstance(f, Expression):
        return f if names is None else Expression(f.term, _names(names), f.name)
    if isinstance(f, str):
        if names is None:
            raise ArgumentError('symbolic(text) needs the names of its variables: symbolic("x*y", "x y")')
        chosen = _names(names)
        return Expression(parsing.parse(f, {n: symbol(n) for n in chosen}), chosen)
    if isinstance(f, Traced):
        return _from_node(f, names)
    if isinstance(f, Graph):
        return _from_graph(f, _names(f.input_names if names is None else names))
    if type(f).__module__.partition(".")[0] == "sympy":
        return Expression.from_sympy(f, names)
    if not callable(f):
        raise ArgumentError(f"symbolic expects a function, text, a symbol, a graph or a SymPy expression, got {type(f).__name__}")
    chosen = _names(_parameters(f) if names is None else names)
    return _from_graph(graph(f)(*[1.0] * len(chosen)), chosen)


def _from_node(node: Traced, names: str | Iterable[Any] | None) -> Expression:
    """The expression of a node of an explicit graph in its symbols; `names` gives their order, and may have more."""
    owner = graph_of(node, "the argument of symbolic")
    program = owner.program(None, node, name="f")
    found = _from_graph(program, program.input_names)
    return found if names is None else Expression(found.term, _names(names), found.name)


def _parameters(f: Callable[..., Any]) -> list[str]:
    try:
        parameters = signature_of(f).parameters.values()
    except (TypeError, ValueError):
        raise ArgumentError('symbolic cannot see the parameters of f; name them: symbolic(f, "x y")') from None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in positional and p.default is p.empty]


def _names(names: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(names, Iterable) or (isinstance(names, np.ndarray) and not names.ndim):
        raise ArgumentError(f'the names of variables are text, "x y", or a list of names, not {type(names).__name__}')
    chosen = tuple(re.split(r"[\s,]+", names.strip())) if isinstance(names, str) else tuple(map(_name, names))
    for name in chosen:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ArgumentError(f'{name!r} is not a name for a variable; names are written as in Python, "x y"')
    if len(set(chosen)) < len(chosen):
        raise ArgumentError(f"the names of an expression must differ: {' '.join(chosen)}")
    return chosen


def _name(given: Any) -> Any:
    """The name of a variable, which may be given by its symbol."""
    if isinstance(given, Traced):
        return graph_of(given, "a variable of an expression").label(given)
    return given


def _from_graph(program: Graph, names: tuple[str, ...]) -> Expression:
    if len(program.input_types) != len(names):
        raise ArgumentError(f"{program.name} takes {len(program.input_types)} inputs, but {len(names)} names are given")
    for name, type_ in zip(names, program.input_types, strict=True):
        if type_.shape:
            raise ShapeError(
                f"input {name!r} of {program.name} has shape {type_.shape}; expressions are over scalars, use ad.graph"
            )
    if len(program.outputs) != 1 or program.output_types[0].shape:
        shapes = ", ".join(str(t.shape) for t in program.output_types)
        raise ShapeError(
            f"{program.name} must return one scalar, but its results have the shapes {shapes}; use ad.graph for arrays"
        )
    return Expression(from_graph(program, [symbol(n) for n in names]), names, program.name)


class Expression:
    """A formula over named scalars. It prints, differentiates, and can be called (elementwise on arrays)."""

    __slots__ = ("name", "names", "term")

    def __init__(self, term: Term, names: tuple[str, ...], name: str = "f") -> None:
        self.term, self.names = term, names
        self.name = name if name.isidentifier() and not keyword.iskeyword(name) else "f"
        unknown = sorted(self.symbols - set(names))
        if unknown:
            raise ArgumentError(f"the expression has symbols that are not among its names: {', '.join(unknown)}")

    @property
    def symbols(self) -> set[str]:
        """The names that occur in it."""
        return {t.head for t in post_order(self.term) if t.kind == "symbol"}

    @boundary
    def diff(self, name: Any, order: int = 1) -> Expression:
        """The derivative by the variable of that name, or by that symbol, `order` times."""
        name = _name(name)
        if not isinstance(name, str) or name not in self.names:
            raise ArgumentError(f"{name!r} is not a variable of the expression ({', '.join(self.names)})")
        try:
            count = operator.index(order)
        except TypeError:
            raise ArgumentError(f"the order of a derivative is an integer, not {order!r}") from None
        if count < 0:
            raise ArgumentError(f"the order of a derivative must not be negative, got {order}")
        result = self
        for _ in range(count):
            result = Expression(tidy(result._differentiated(name)), self.names, self.name)
        return result

    def _differentiated(self, name: str) -> Term:
        used = [n for n in self.names if n in self.symbols]
        if name not in used:
            return ZERO

        numbers = numbers_of(self.term)  # staged like inputs, so that 0.1 · 3 is 0.3

        def run(*values: Any) -> Any:
            constants = dict(zip(numbers, values[len(used) :], strict=True))
            return evaluate_staged(self.term, dict(zip(used, values, strict=False)), constants)

        inputs = [*map(symbol, used), *map(number, numbers)]
        return from_graph(graph(grad(run, used.index(name)))(*[1.0] * len(inputs)), inputs)

    def simplify(self) -> Expression:
        """A shorter form if there is one: common factors and denominators taken out."""
        return Expression(tidy(self.term), self.names, self.name)

    # -- running ------------------------------------------------------------------------------------------------

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The value at the given arguments, by position or by name."""
        if len(args) > len(self.names):
            raise ArgumentError(f"the expression takes {len(self.names)} arguments ({', '.join(self.names)}), got {len(args)}")
        values = dict(zip(self.names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self.names or name in values:
                why = "given twice" if name in values else f"not a variable of the expression ({', '.join(self.names)})"
                raise ArgumentError(f"{name!r} is {why}")
            values[name] = value
        missing = [n for n in self.names if n not in values]
        if missing:
            raise ArgumentError(f"the expression needs a value for {', '.join(missing)}")
        return evaluate(self.term, {n: _input(n, v) for n, v in values.items()})

    def function(self) -> Callable[..., Any]:
        """The source of `python()`, compiled."""
        source = self.python()
        text = source if source.startswith("def ") else f"{self.name} = {source}\n"
        from scipy import special  # heavy, and needed only here

        scope: dict[str, Any] = {"np": np, "special": special}
        exec(compile(text, f"<adjoint expression {self.name}>", "exec"), scope)  # generated text: names and numbers only
        made: Callable[..., Any] = scope[self.name]
        made.__doc__ = source
        return made

    def graph(self) -> Program:
        """The expression as a graph of scalars."""
        return graph(self.__call__)(*[1.0] * len(self.names))  # type: ignore[no-any-return]

    # -- writing ------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        names, result = Infix().write(self.term, self.names)
        definitions = "\n        ".join(f"{name} = {text}" for name, text in names)
        return f"{result}\n  where {definitions}" if names else result

    def __repr__(self) -> str:
        return str(self)

    def latex(self) -> str:
        """LaTeX for mathematics mode; named sub-terms follow in a list."""
        names, result = LatexTerms().write(self.term, self.names)
        lines = [result, *(f"{name} = {text}" for name, text in names)]
        if not names:
            return result
        return (
            "\\begin{aligned}\n& "
            + lines[0]
            + r" \quad\text{where}"
            + "".join(f" \\\\\n& {x}" for x in lines[1:])
            + "\n\\end{aligned}"
        )

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex()}$"

    def python(self) -> str:
        """Source: a lambda, or a def with the sub-terms as assignments. `np` is NumPy, `special` is scipy.special."""
        names, result = PythonTerms().write(self.term, self.names)
        arguments = ", ".join(self.names)
        if not names:
            return f"lambda {arguments}: {result}" if arguments else f"lambda: {result}"
        lines = [f"def {self.name}({arguments}):", *(f"    {name} = {text}" for name, text in names), f"    return {result}"]
        return "\n".join(lines) + "\n"

    # -- SymPy --------------------------------------------------------------------------------------------------

    @boundary
    def sympy(self) -> Any:
        """The same expression in SymPy."""
        return sympy_.to_sympy(self.term)

    @classmethod
    @boundary
    def from_sympy(cls, expression: Any, names: str | Iterable[str] | None = None) -> Expression:
        """From SymPy, over the given names or its free symbols in alphabetical order."""
        if names is None:
            names = sorted(s.name for s in sympy_.load().sympify(expression).free_symbols)
        chosen = _names(names)
        return cls(sympy_.from_sympy(expression, {n: symbol(n) for n in chosen}), chosen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and (self.term, self.names) == (other.term, other.names)

    def __hash__(self) -> int:
        return hash((self.term, self.names))


def _input(name: str, value: Any) -> Any:
    value = unwrap_fresh(value)
    if isinstance(value, Traced):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise ArgumentError(f"{name} of the expression must be a real number, got {array.dtype}")
    return np.asarray(array, np.float64)[()] if array.dtype.kind != "f" else array[()]


__all__: Sequence[str] = ["Expression", "symbolic"]
