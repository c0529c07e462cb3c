"""Which values of a graph are finite wherever its inputs are: products with them need no strong zero.

    where(g != 0, g * p, 0)  →  g * p          if p is finite

Generated source for people to read uses this. Overflow is not considered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from ..core.op import Constant, Linear, Multilinear, Op
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ops import control
from ..ops.broadcast import where
from ..ops.elementwise import ieee_mul, mul, strong_mul_either_op, strong_mul_op

_STRUCTURED: frozenset[Op] = frozenset({control.scan, control.while_, control.while_vjp, control.cond, control.checkpoint})
#: Functions that are finite wherever their arguments are; exp and products may overflow, which is not considered.
_FINITE = frozenset({
    "abs", "add", "arcsinh", "arctan", "arctan2", "cbrt", "copysign", "cos", "cosh", "cumprod", "dawsn", "deg2rad", "erf", "erfc",
    "exp", "exp2", "expit", "expm1", "fabs", "fmax", "fmin", "heaviside", "hypot", "huber", "i0e", "i1e", "j0", "j1", "log_expit",
    "logaddexp", "logsumexp", "max", "maximum", "min", "minimum", "mul", "ndtr", "neg", "norm", "pos", "prod", "pseudo_huber",
    "rad2deg", "sin", "sinc", "sinh", "square", "sub", "tanh",
})  # fmt: skip


def is_tame(o: Operand, tame: set[int]) -> bool:
    return o in tame if isinstance(o, int) else bool(np.all(np.isfinite(o.value)))


def finite(graph: Graph, inputs: Iterable[int] | None = None) -> set[int]:
    """The values that are finite if those inputs are, all of them by default, and nothing overflows."""
    tame = set(range(len(graph.input_types)) if inputs is None else inputs)
    for equation in graph.equations:
        op = equation.op
        if op in _STRUCTURED:
            tame.update(_finite_results(equation, tame))
            continue
        known = isinstance(op, (Linear, Multilinear, Constant)) and op.name != "floor_divide"
        if (known or op.name in _FINITE) and all(is_tame(o, tame) for o in equation.inputs):
            tame.update(equation.outputs)
    return tame


def ordinary_products(graph: Graph, tame: set[int]) -> Graph:
    """Without a strong zero where that is the same: no factor that a zero would have to win over is infinite or nan."""
    made: dict[int, Equation] = {}
    for equation in graph.equations:
        ordinary = _ordinary(equation, made, tame)
        made |= dict.fromkeys(equation.outputs, ordinary)
    needed, kept = {o for o in graph.outputs if isinstance(o, int)}, list[Equation]()
    for equation in reversed([made[e.outputs[0]] if e.outputs else e for e in graph.equations]):
        if not needed.isdisjoint(equation.outputs):
            needed.update(o for o in equation.inputs if isinstance(o, int))
            kept.append(equation)
    return replace(graph, equations=tuple(kept[::-1]))


def ordinary(graph: Graph, tame: set[int] | None = None) -> Graph:
    """A graph whose products are ordinary ones where no factor can be infinite or nan for finite arguments, in loops too."""
    tame = finite(graph) if tame is None else tame
    equations = []
    for equation in ordinary_products(graph, tame).equations:
        bodies = {key: ordinary(body, known) for key, (body, known) in _bodies(equation, tame).items()}
        equations.append(replace(equation, params={**equation.params, **bodies}) if bodies else equation)
    return replace(graph, equations=tuple(equations))


def _bodies(equation: Equation, tame: set[int]) -> dict[str, tuple[Graph, set[int]]]:
    """The graphs of a loop or a branch, each with its finite values."""
    params, inputs = equation.params, equation.inputs
    if equation.op is control.cond:
        known = {i for i, o in enumerate(inputs[1:]) if is_tame(o, tame)}
        return {key: (params[key], finite(params[key], known)) for key in ("true", "false")}
    if equation.op is control.checkpoint:
        return {"body": (params["body"], finite(params["body"], {i for i, o in enumerate(inputs) if is_tame(o, tame)}))}
    if equation.op is control.scan:
        return {"body": (params["body"], loop_tame(params["body"], equation, tame, params["consts"], params["carries"]))}
    if equation.op is control.while_:
        inner = replace(equation, inputs=inputs[params["cond_consts"] :])
        return {"body": (params["body"], loop_tame(params["body"], inner, tame, params["body_consts"], len(equation.outputs)))}
    return {}


def _ordinary(equation: Equation, made: dict[int, Equation], tame: set[int]) -> Equation:
    op, inputs = equation.op, equation.inputs
    factors = inputs[1:] if op is strong_mul_op else inputs  # those whose infinities a zero would win over
    if op in (strong_mul_op, strong_mul_either_op) and all(is_tame(o, tame) for o in factors):
        return replace(equation, op=mul)
    if op is where and _is_zero(inputs[2]):  # where(g != 0, g * p, 0)
        test, product = (made.get(o) if isinstance(o, int) else None for o in inputs[:2])
        if test is None or product is None or test.op.name != "not_equal" or product.op not in (mul, ieee_mul):
            return equation
        g, *others = test.inputs[0], *product.inputs
        if _is_zero(test.inputs[1]) and g in others and product.types == equation.types:
            others.remove(g)
            return replace(product, outputs=equation.outputs) if is_tame(others[0], tame) else equation
    return equation


def _is_zero(o: Operand) -> bool:
    return isinstance(o, Literal) and not np.any(o.value)


def _finite_results(equation: Equation, tame: set[int]) -> Iterator[int]:
    """The finite results of a loop or a branch."""
    if equation.op is control.while_vjp:
        return  # sums over a number of iterations that is not known
    bodies = _bodies(equation, tame).values()
    for i, n in enumerate(equation.outputs):
        if all(is_tame(body.outputs[i], found) for body, found in bodies):
            yield n


def loop_tame(body: Graph, equation: Equation, tame: set[int], consts: int, carries: int) -> set[int]:
    """The finite values of a body: a carry is one if it starts so and every iteration keeps it so."""
    known = {i for i, o in enumerate(equation.inputs) if is_tame(o, tame)}
    while True:
        found = finite(body, known)
        lost = {consts + i for i, o in enumerate(body.outputs[:carries]) if not is_tame(o, found)} & known
        if not lost:
            return found
        known -= lost
