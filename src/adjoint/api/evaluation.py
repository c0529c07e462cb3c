"""The record of one run of a function: every value, adjoint and tangent.

>>> run = evaluate(lambda x, y: x * y, (3.0, 4.0))
>>> float(run.values[2]), float(run.adjoints[0]), float(run.adjoints[1])
(12.0, 4.0, 3.0)

The function is staged as a graph while it runs on its numbers, so the graph shows the path of this call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.bind import Traced, numbers
from ..core.boundary import boundary
from ..core.errors import AdjointError, ArgumentError, DtypeError, UnsupportedError
from ..core.op import Constant, Elementwise, Op, Structured
from ..core.tree import final, flatten, flatten_like, leaf_names
from ..core.types import Type, Value, dtype_of, is_inexact
from ..derive import plan, push, split
from ..eager.on_gpu import on_host
from ..eager.tape import save
from ..ir.edit import dependents, values_in
from ..ir.evaluation import DerivativeRule, Evaluation, SweepStep
from ..ir.graph import Equation, Graph, weak_numbers
from ..rewrite.simplify import simplify
from ..staging.concrete import Concrete
from ..staging.stage import Stage
from ..transform.build import passes_derivative
from ..view.notation import PLAIN
from ..view.trace import EvaluationTrace
from ..view.writer import GraphWriter
from .arguments import callee, check_callable, differentiable, input_names, match_type, name_of, output_leaf
from .caught import Caught
from .protection import run_protected
from .transformed import Transformed

Function = Callable[..., Any]

LONG = 12  # equations; a longer rule is named, not shown


def trace(f: Function, *, seed: Any = None, tangents: Any = None) -> Transformed:
    """The function that runs f and returns its evaluation trace, to be printed: values, adjoints and tangents, step by step.

    `seed` is the cotangent of the result, in its structure: ones unless given, so that the adjoints are those of the sum of
    all results. `tangents` is a tuple with one tangent per positional argument, None for zero: ones for the first
    argument and zeros for the others unless given. Arguments that are not floats are passed on unchanged.

    >>> import adjoint as ad
    >>> print(ad.trace(lambda x: np.sin(x) * x)(0.0).text(modes="forward"))
    Forward primal trace ↓ │ Forward tangent trace ↓
    ───────────────────────┼────────────────────────
    v₀ = x = 0             │ v̇₀ = ẋ = 1
    ───────────────────────┼────────────────────────
    v₁ = sin v₀ = 0        │ v̇₁ = v̇₀·cos v₀ = 1
    v₂ = v₁·v₀ = 0         │ v̇₂ = v̇₁·v₀ + v̇₀·v₁ = 0
    ───────────────────────┼────────────────────────
    y = v₂ = 0             │ ẏ = v̇₂ = 0
    """
    check_callable(f, "trace")
    return Transformed("trace", _run_trace, f, seed=seed, tangents=tangents)


def _run_trace(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any], transform: str, **options: Any) -> EvaluationTrace:
    run = evaluate(f, args, kwargs, **options)
    return EvaluationTrace(run, lambda: _simplified(run))


def _simplified(run: Evaluation) -> Evaluation:
    """The same run of the simplified graph: the same inputs, seeds and directions."""
    graph, _ = simplify(run.graph)
    count = len(graph.input_types)
    return evaluate_graph(graph, [run.values[i] for i in range(count)], run.seeds, [run.tangents.get(i) for i in range(count)])


@boundary
def evaluate(
    f: Function, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, seed: Any = None, tangents: Any = None
) -> Evaluation:
    """Run f on numbers and record the values, the adjoints and the tangents of all that it computes; see `trace`."""
    leaves, structure = flatten((tuple(args), dict(kwargs or {})))
    leaves = [on_host(x) for x in leaves]
    paths = leaf_names("", structure)
    chosen = _float_places(leaves, input_names(f, paths))
    names = input_names(f, [paths[i] for i in chosen])
    with np.errstate(all="ignore"):  # non-finite numbers are shown
        caught = Caught(f, "trace")
        with Concrete("trace") as stage:
            inside = list(leaves)
            for i, name in zip(chosen, names, strict=True):
                inside[i] = stage.input_like(name, _own(differentiable(leaves[i], name, "trace")))
            positional, named = structure.unflatten(inside)
            result = callee(f)(*positional, **named)
            if result is None:
                output_leaf(None, f, "trace")  # raises
            parts, out_structure = flatten(final(result))
            outputs = [output_leaf(y, f, "trace") for y in parts]
            staged = stage.graph(re.sub(r"\W", "", name_of(f)) or "f", outputs)
        caught.compare(
            [], lambda: out_structure.unflatten(list(map(numbers, outputs))), lambda: run_protected(f, args, dict(kwargs or {}))
        )
        whole = structure if len(chosen) == len(leaves) else None  # else some arguments are constants of the graph
        graph = Graph(staged.name, staged.input_names, staged.input_types, staged.equations, staged.outputs, whole, out_structure)
        seeds = _seeds(graph, seed)
        return _record(graph, dict(enumerate(stage.values)), seeds, _directions(leaves, chosen, args, tangents, graph))


@boundary
def evaluate_graph(
    graph: Graph,
    inputs: Sequence[Any],
    seeds: Sequence[Value | None] | None = None,
    directions: Sequence[Value | None] | None = None,
) -> Evaluation:
    """The same for an existing graph, on its flat inputs; its equations and their lines are unchanged.

    The seeds are ones, and the directions ones for the first float and zeros for the others, where none are given.
    """
    given = graph.bind_inputs(inputs)
    if any(isinstance(x, Traced) for x in given):
        raise UnsupportedError(
            f"the evaluation of {graph.name!r} shows numbers, and does not work on traced values; call it outside"
        )
    with np.errstate(all="ignore"):
        return _record(
            graph,
            graph.evaluate(given, keep=True),
            _seeds(graph, None) if seeds is None else seeds,
            _first_direction(graph) if directions is None else directions,
        )


def _first_direction(graph: Graph) -> list[Value | None]:
    floats = [i for i, t in enumerate(graph.input_types) if is_inexact(t.dtype)]
    directions: list[Value | None] = [None] * len(graph.input_types)
    for i in floats:
        t = graph.input_types[i]
        directions[i] = np.full(t.shape, 1.0 if i == floats[0] else 0.0, t.dtype)[()]
    return directions


def _record(
    graph: Graph, values: dict[int, Value], seeds: Sequence[Value | None], directions: Sequence[Value | None]
) -> Evaluation:
    """Both sweeps over known values, and the rules they follow."""
    sweep = _Sweep(graph, values)
    refusals = {}
    runs: dict[str, Callable[[], None]] = {
        "adjoint": lambda: sweep.backward(seeds),
        "tangent": lambda: sweep.forward(directions),
    }
    for what, run in runs.items():
        try:
            run()
        except UnsupportedError as error:
            refusals[what] = str(error)
    rules = tuple(sweep.rules_of(equation) for equation in graph.equations)
    writer = GraphWriter(PLAIN, graph)
    texts = tuple(writer.partials(equation, rule) for equation, rule in zip(graph.equations, rules, strict=True))
    return Evaluation(
        graph, sweep.values, sweep.adjoints, sweep.tangents, tuple(seeds), tuple(sweep.steps), rules, texts, refusals
    )


def _float_places(leaves: Sequence[Any], names: Sequence[str]) -> list[int]:
    """Which leaves of the arguments are inputs of the graph: those with a derivative."""
    for x in leaves:
        if isinstance(x, Traced):
            raise UnsupportedError(f"trace shows numbers, and does not work on a value inside {x.by.name}; call it outside")
    numbers = (np.ndarray, np.generic, float, complex)
    places = [i for i, x in enumerate(leaves) if isinstance(x, numbers) and is_inexact(dtype_of(x))]
    if leaves and not places:
        x = leaves[0]
        fix = f"write {float(x)!r}" if isinstance(x, (int, np.integer)) else "pass an array of floats"
        raise DtypeError(f"trace needs a float among the arguments, but {names[0]} is {type(x).__name__}; {fix}")
    return places


def _own(x: Value) -> Value:
    return np.array(x) if isinstance(x, np.ndarray) else x


def _seeds(graph: Graph, seed: Any) -> list[Value | None]:
    """The cotangent of each output: ones where none is given."""
    types = graph.output_types
    if seed is None:
        return [np.ones(t.shape, t.dtype)[()] if is_inexact(t.dtype) else None for t in types]
    given = flatten_like(graph.out_structure, seed, "the seed of trace")
    return [
        match_type(_as_float(g), t, "the seed of trace") if is_inexact(t.dtype) else None
        for g, t in zip(given, types, strict=True)
    ]


def _as_float(t: Any) -> Any:
    return float(t) if type(t) is int else t


def _directions(leaves: Sequence[Any], chosen: Sequence[int], args: Sequence[Any], tangents: Any, graph: Graph) -> list[Value]:
    """The tangent of each input: ones for the first and zeros for the others where none is given."""
    zeros = [np.zeros(t.shape, t.dtype)[()] for t in graph.input_types]
    if tangents is None:
        return [z + 1 if i == 0 else z for i, z in enumerate(zeros)]
    given = tangents if isinstance(tangents, (tuple, list)) else (tangents,)
    if len(given) != len(args):
        raise ArgumentError(f"tangents of trace has {len(given)} entries for {len(args)} positional arguments")
    found: dict[int, Any] = {}
    start = 0
    for n, (arg, tangent) in enumerate(zip(args, given, strict=True)):
        parts, structure = flatten(arg)
        if tangent is not None:
            found.update(enumerate(flatten_like(structure, tangent, f"tangents[{n}] of trace"), start))
        start += len(parts)
    return [
        match_type(_as_float(found[i]), t, f"the tangent of {name} in trace") if i in found else z
        for i, t, name, z in zip(chosen, graph.input_types, graph.input_names, zeros, strict=True)
    ]


class _Sweep:
    """The two derivative sweeps over a graph whose values are known, by the rules of `derive`, one equation at a time."""

    def __init__(self, graph: Graph, values: dict[int, Value]) -> None:
        self.graph, self.values = graph, values
        self.adjoints: dict[int, Value] = {}
        self.tangents: dict[int, Value] = {}
        self.steps: list[SweepStep] = []
        self.active = self.depending()
        self.rules: dict[Any, DerivativeRule | None] = {}

    def depending(self) -> set[int]:
        """The values that have a derivative with respect to some input."""
        floats = [i for i, t in enumerate(self.graph.input_types) if is_inexact(t.dtype)]
        return dependents(self.graph.equations, floats, passes_derivative)

    def places(self, equation: Equation, active: set[int]) -> list[int]:
        """The operands of an equation that are differentiated."""
        if isinstance(equation.op, Constant):
            return []
        return [i for i, o in enumerate(equation.inputs) if isinstance(o, int) and o in active]

    def operands(self, equation: Equation) -> tuple[Any, list[Value]]:
        """Result (a tuple for several) and operands of an equation."""
        ys = tuple(self.values[n] for n in equation.outputs)
        return ys if equation.op.many else ys[0], [self.values[o] if isinstance(o, int) else o.value for o in equation.inputs]

    def backward(self, seeds: Sequence[Value | None]) -> None:
        for output, seed in reversed(list(zip(self.graph.outputs, seeds, strict=True))):
            if isinstance(output, int) and seed is not None:
                self.adjoints[output] = self.adjoints[output] + seed if output in self.adjoints else seed
        for index in range(len(self.graph.equations) - 1, -1, -1):
            equation = self.graph.equations[index]
            gs = [self.adjoints.get(n) for n in equation.outputs]
            places = self.places(equation, self.active)
            if not places or all(g is None for g in gs):
                continue
            try:
                parts = self.pull(equation, places, gs)
            except Exception as error:
                self.graph.explain(error, equation)
                raise
            self.hand_on(index, equation, dict(zip(places, parts, strict=True)))

    def pull(self, equation: Equation, places: Sequence[int], gs: Sequence[Value | None]) -> Sequence[Value | None]:
        y, xs = self.operands(equation)
        step = plan(equation.op, len(xs), sum(1 << i for i in places))
        types = [Type.of(xs[i]) for i in places]
        return step.pull(list(gs) if equation.op.many else gs[0], save(step.keep, y, xs), types, equation.params)

    def hand_on(self, index: int, equation: Equation, parts: dict[int, Value | None]) -> None:
        """Add the contributions of an equation to the adjoints of its operands; an operand read twice gets both at once."""
        for target in dict.fromkeys(values_in(equation.inputs)):
            places = tuple(i for i, part in parts.items() if equation.inputs[i] == target and part is not None)
            if not places:
                continue
            contribution: Value = parts[places[0]]
            for i in places[1:]:
                contribution = contribution + parts[i]
            before = self.adjoints.get(target)
            total = self.adjoints[target] = contribution if before is None else before + contribution
            self.steps.append(SweepStep(index, target, places, contribution, total, before is None))

    def forward(self, directions: Sequence[Value | None]) -> None:
        self.tangents.update((i, t) for i, t in enumerate(directions) if t is not None)
        for equation in self.graph.equations:
            ts = [self.tangents.get(o) if isinstance(o, int) else None for o in equation.inputs]
            if isinstance(equation.op, Constant) or all(t is None for t in ts):
                continue
            y, xs = self.operands(equation)
            try:
                pushed: Any = push(equation.op, y, xs, ts, equation.params)
            except Exception as error:
                self.graph.explain(error, equation)
                raise
            found = pushed if equation.op.many else (pushed,)
            self.tangents.update((n, t) for n, t in zip(equation.outputs, found or (), strict=False) if t is not None)

    # -- rules, written down ------------------------------------------------------------------------------------

    def rules_of(self, equation: Equation) -> dict[int, DerivativeRule | None]:
        """The derivative rule for each operand that has one."""
        return {place: self.rule(equation, place) for place in self.places(equation, self.active)}

    def rule(self, equation: Equation, place: int) -> DerivativeRule | None:
        types = tuple(Type.of(x) for x in self.operands(equation)[1])
        numbers = weak_numbers(equation.inputs)
        key = (equation.op, place, types, equation.types, repr(numbers), repr(equation.params))
        if key not in self.rules:
            self.rules[key] = _write_rule(equation.op, place, equation.types, types, numbers, equation.params)
        return self.rules[key]


def _write_rule(
    op: Op, place: int, results: Sequence[Type], types: Sequence[Type], numbers: Sequence[Any], params: dict[str, Any]
) -> DerivativeRule | None:
    """The rule as a graph; None if it branches on numbers, raises, or is too long to read."""
    if isinstance(op, Structured):  # a loop: its pullback is a program, not a formula
        return None
    is_partial = isinstance(op, Elementwise)
    if is_partial:  # per element
        results, types = ([Type((), t.dtype) for t in some] for some in (results, types))
    with Stage("rule") as stage:
        gs = [stage.input(f"g{i}", t) for i, t in enumerate(results)]
        ys = [stage.input(f"y{i}", t) for i, t in enumerate(results)]
        inside = [stage.input(f"x{i}", t) for i, t in enumerate(types)]
        # A Python number stays a number, so that the derivative of x**2 reads 2·x and not 2·x**(2 − 1).
        xs = [x if number is None else number for x, number in zip(inside, numbers, strict=True)]
        try:
            result = _partial(op, place, ys[0], xs, params) if is_partial else _pulled(op, place, gs, ys, xs, types, params)
        except AdjointError:
            return None
        if result is None:
            return None
        written, _ = simplify(stage.graph("rule", [result]), "finite")  # for display only
    return None if len(written) > LONG else DerivativeRule(written, is_partial)


def _partial(op: Op, place: int, y: Value, xs: Sequence[Value], params: dict[str, Any]) -> Value:
    assert isinstance(op, Elementwise)
    partial = split(op)[place]
    return partial.number if partial.number is not None else partial.function(y, *xs, **params)


def _pulled(
    op: Op,
    place: int,
    gs: Sequence[Value],
    ys: Sequence[Value],
    xs: list[Value],
    types: Sequence[Type],
    params: dict[str, Any],
) -> Value | None:
    """The cotangent of one operand."""
    step = plan(op, len(xs), 1 << place)
    saved = save(step.keep, tuple(ys) if op.many else ys[0], xs)
    (result,) = step.quick(gs if op.many else gs[0], saved, [types[place]], params)
    return result


__all__ = ["DerivativeRule", "Evaluation", "SweepStep", "evaluate", "evaluate_graph", "trace"]
