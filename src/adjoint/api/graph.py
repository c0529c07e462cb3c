"""Functions as graphs: `ad.graph(f)(*args)` stages f for the types of its arguments.

>>> import numpy as np
>>> print(graph(lambda x: np.sum(np.sin(x) * 2.0))(np.ones(3)))  # doctest: +ELLIPSIS
graph lambda(x: float64[3]) {
  v1: float64[3] = sin x  # ...
  v2: float64[3] = mul v1, 2.0  # ...
  v3: float64[] = sum v2 {axis=(0,), keepdims=False}  # ...
  return v3
}

The graph of a derivative is the graph of the transformed function: `ad.graph(ad.grad(f))(x)`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import transform as structured  # noqa: F401 - the rules of loops and branches
from ..core.bind import Traced, called_from_outside
from ..core.boundary import boundary
from ..core.errors import ArgumentError, ShapeError, TableError, runs_inside
from ..core.tree import final, flatten, flatten_like, leaf_names, map_leaves
from ..core.types import Type, is_inexact
from ..derive import type_rule
from ..eager.on_gpu import on_host
from ..ir import check as checking
from ..ir import dataflow, text
from ..ir.graph import Equation, Graph, weak_numbers
from ..numpy.tables import traced_tables
from ..rewrite.loops import drop_idle_carries
from ..rewrite.simplify import simplify
from ..source.body import WholeFunction
from ..source.running import transformed
from ..staging.purity import pure
from ..staging.reads import Reads
from ..staging.type_queries import nearby
from ..transform.textbook import derivative
from .arguments import PLAIN, callee, check_callable, input_names, name_of, output_leaf, without_class
from .caught import Caught
from .protection import run_protected
from .transformed import Transformed

Function = Callable[..., Any]
LARGEST_PICTURE = 1000  # equations that a notebook draws automatically


def graph(f: Function, *, source: bool = False) -> Transformed:
    """The function that stages f: called with arguments like those of f, it returns the graph of f for their types.

    With `source=True`, `for`, `while` and `if` in the source of f become loops and branches of the graph, as for `jit`.

    >>> import adjoint as ad
    >>> staged = ad.graph(lambda x: np.sin(x) * x)(1.0)
    >>> print(staged)  # doctest: +ELLIPSIS
    graph lambda(x: float64[]) {
      v1: float64[] = sin x  # ...
      v2: float64[] = mul v1, x  # ...
      return v2
    }
    >>> staged(0.0), ad.grad(staged)(0.0)
    (np.float64(0.0), np.float64(0.0))
    """
    check_callable(f, "graph")
    return Transformed("graph", _run_graph, f, source=bool(source))


def _run_graph(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any], transform: str, source: bool) -> Program:
    args, kwargs = map_leaves(on_host, (args, kwargs))
    leaves, structure = flatten((args, kwargs))
    names = input_names(f, leaf_names("", structure))
    for x, name in zip(leaves, names, strict=True):
        if not isinstance(x, PLAIN):
            raise ArgumentError(f"{name} of graph is {type(x).__name__}; only arrays can be staged, close over the rest")
        without_class(x, f"{name} of graph")

    def stage_once() -> Program:
        stage = WholeFunction("graph", tables=False)
        try:
            return record(stage, callee(f))
        except Exception:  # the function may have replaced our error
            if not stage.asks_for_tables:
                raise
        reads = Reads(traced=traced_tables)
        stage = WholeFunction("graph")
        with reads.noting(stage):
            made = record(stage, reads.fixed(f))
            reads.check()
        return made

    @runs_inside
    def record(stage: WholeFunction, staged: Function) -> Program:
        """Run the function on inputs of the stage, and make a program of its equations and results."""
        caught = Caught(f, transform)
        with stage:
            inside = [stage.input(name, Type.of(x)) for name, x in zip(names, leaves, strict=True)]
            positional, named = structure.unflatten(inside)
            result = final(called_from_outside(transformed(staged) if source else staged)(*positional, **named))
            if stage.asks_for_tables:  # and has caught our error
                raise TableError("a plain array is read at a traced index")
            caught.refuse()
            parts, out_structure = flatten(result)
            if not parts:
                raise ArgumentError(f"{name_of(f)} returned {result!r}, but graph needs a value; is a return statement missing?")
            outputs = stage.restricted([output_leaf(y, f, transform) for y in parts])
            g = stage.graph(re.sub(r"\W", "", name_of(f)) or "f", outputs)
        made = SourceProgram if source else Program
        return made(g.name, g.input_names, g.input_types, g.equations, g.outputs, structure, out_structure)

    caught = Caught(f, transform)
    made = pure(f, stage_once)
    if caught.decision:
        for given in leaves, [nearby(x, i) for i, x in enumerate(leaves)]:
            positional, named = structure.unflatten(given)
            caught.compare(given, partial(made, *positional, **named), partial(run_protected, f, positional, named))
    return made


class Program(Graph):
    """A graph that runs: call it like the function it was made from."""

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate with arguments in the structure of the staged call."""
        if self.in_structure is None:
            return self.run(*args)
        return self.out_structure.unflatten(self._evaluate(self._leaves(args, kwargs)))

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The flat inputs of a call."""
        if self.in_structure is None:
            return args
        (_, positional), (_, named) = self.in_structure.children
        names = [key[2:-2] for key, _ in named.children]
        if len(args) != len(positional.children) or set(kwargs) != set(names):
            wanted = f"{len(positional.children)} arguments by position" + f" and {', '.join(names)} by name" * bool(names)
            got = f"{len(args)}" + f" and {', '.join(kwargs)} by name" * bool(kwargs)
            raise ShapeError(f"the graph {self.name!r} ({', '.join(self.input_names)}) takes {wanted}, got {got}")
        leaves: list[Any] = []
        for i, (_, child) in enumerate(positional.children):
            leaves += flatten_like(child, args[i], f"argument {i} of the graph {self.name!r}")
        for name, (_, child) in zip(names, named.children, strict=True):
            leaves += flatten_like(child, kwargs[name], f"argument {name!r} of the graph {self.name!r}")
        return leaves

    @boundary
    def run(self, *inputs: Any, workers: int | None = None) -> Any:
        """Evaluate on the flat inputs; one result, or a tuple of several.

        With `workers`, independent equations run at the same time, on that many threads.
        """
        results = self._evaluate(inputs, workers)
        return results[0] if len(results) == 1 else tuple(results)

    def _evaluate(self, leaves: Sequence[Any], workers: int | None = None) -> list[Any]:
        count = dataflow.check_workers(workers)
        values = self.bind_inputs([without_class(x, f"an input of the graph {self.name!r}") for x in leaves])
        with np.errstate(all="ignore"):  # a derivative may divide by zero in unused elements
            if count == 1 or any(isinstance(x, Traced) for x in values):  # recording is done in order
                return self.run_flat(values)
            return dataflow.run(self, values, count)

    def levels(self) -> tuple[tuple[int, ...], ...]:
        """The sets of equations that can run in parallel, as indices: each set depends only on those before it."""
        return dataflow.levels(self)

    @boundary
    def profile(self, *args: Any, **kwargs: Any) -> dataflow.Profile:
        """Time each equation on arguments as for a call; print it to see the critical path."""
        values = self.bind_inputs(self._leaves(args, kwargs))
        with np.errstate(all="ignore"):
            return dataflow.profile(self, values)

    @boundary
    def simplify(self, assume: str | None = None, counts: dict[str, int] | None = None) -> Program:
        """A smaller graph of the same values; `counts` is filled with how often each rule was applied.

        By default infinities, nan and signed zeros are preserved. With `assume="finite"`, all values are assumed finite, and
        results may differ by rounding.
        """
        simpler, applied = simplify(self, assume)
        if counts is not None:
            counts.update(applied)
        return simpler

    @boundary
    def derivative(self, by: str) -> Program:
        """The graph of the derivative by one scalar input, as done by hand: with its zeros and ones.

        For 5 + xy by x it is 0 + (0·x + y·1); `simplify` prunes it to y. To compute, stage a transform instead:
        `ad.graph(ad.grad(f))` leaves the zeros out.
        """
        if by not in self.input_names:
            raise ArgumentError(f"the graph {self.name!r} has no input {by!r}; it has {', '.join(self.input_names) or 'none'}")
        place = self.input_names.index(by)
        type_ = self.input_types[place]
        if type_.shape or not is_inexact(type_.dtype):
            raise ArgumentError(f"derivative needs a scalar float, but {by!r} is {type_!r}; stage ad.grad or ad.jacobian instead")
        made = derivative(self, place)
        return replace(self, name=made.name, equations=made.equations, outputs=made.outputs)

    def check(self) -> None:
        """Raise if the graph is invalid, naming the equation."""
        checking.check(self, infer_types)

    def latex(self) -> str:
        """The equations as aligned lines of LaTeX, for mathematics mode."""
        from ..view.latex import latex  # what draws and writes is loaded when it is asked for

        return latex(self)

    @boundary
    def python(self) -> str:
        """The source of a function of the flat inputs that needs only NumPy. Ops without an equivalent are refused by name.

        A program that was staged from source is written as a person would write it: loops stay loops, a variable keeps its name
        x, and its cotangent is x_bar; comments name the lines of the source.
        """
        from ..view import python

        return self._written_by(python)

    def _written_by(self, python: Any) -> str:
        """The Python source; `python` is the module `view.python`."""
        return python.source(self)

    def svg(self) -> str:
        """A picture of the graph, as the text of an SVG file: boxes coloured by the kind of op, edges with types."""
        from ..view.svg import picture

        return picture(self)

    @boundary
    def html(self, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Path:
        """Write a page in which to explore this graph and its simplified form; one self-contained file.

        With arguments as for a call, the page shows the values and the adjoints of that call too.
        """
        from ..view import explorer
        from .evaluation import evaluate_graph

        simpler = self.simplify()
        if args or kwargs or not self.input_types:
            inputs = self._leaves(args, kwargs)
            page = explorer.page(evaluate_graph(self, inputs), evaluate_graph(simpler, inputs))
        else:
            page = explorer.page(self, simpler)
        file = Path(path)
        file.write_text(page, encoding="utf-8")
        return file

    def _repr_html_(self) -> str | None:
        """The picture, for notebooks; a graph too large to be read as one is shown as text."""
        return f'<div style="overflow:auto;max-height:80vh">{self.svg()}</div>' if len(self) <= LARGEST_PICTURE else None

    def __str__(self) -> str:
        return text.show(self)

    def __repr__(self) -> str:
        return f"<graph {self.name}: {len(self.input_types)} inputs, {len(self)} equations, {len(self.outputs)} outputs>"


class SourceProgram(Program):
    """A graph staged from the source of a function: its loops are the user's, and so are the names of its variables."""

    def _written_by(self, python: Any) -> str:
        from ..view.finite import ordinary

        smaller = drop_idle_carries(self.simplify(), final=False)
        return python.module([(drop_idle_carries(ordinary(smaller), final=False), None)], readable=True)


def infer_types(equation: Equation, operands: list[Type]) -> tuple[Type, ...]:
    """The types that an equation's op gives."""
    numbers = weak_numbers(equation.inputs)
    result = type_rule(equation.op, operands, equation.params, numbers)
    return tuple(result) if equation.op.many else (result,)


def parse(source: str) -> Program:
    """A graph from its text, checked.

    >>> import adjoint as ad
    >>> square = ad.parse('''graph square(x: float64[]) {
    ...   v1: float64[] = mul x, x
    ...   return v1
    ... }''')
    >>> square(np.float64(3.0))
    np.float64(9.0)
    """
    g = text.parse(source, lambda found: checking.check(found, infer_types))
    return Program(g.name, g.input_names, g.input_types, g.equations, g.outputs)
