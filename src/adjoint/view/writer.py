"""Equations and their derivatives, written in a notation: v₂ = v₋₁·v₀, v̄₀ = v̄₂·v₋₁, ∂v₁/∂x = cos(x)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.op import Linear, Multilinear, Op
from ..core.types import Type
from ..ir.evaluation import DerivativeRule
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ir.text import show_value
from ..ops.broadcast import broadcast_to, cast, reshape, sum_, transpose
from ..ops.elementwise import div, reciprocal
from ..ops.index import getitem, place, put
from .notation import ATOM, PRODUCT, SUM, Latex, Piece, Plain, Unicode, escape_latex

_DEFAULTS: dict[str, Any] = {"keepdims": False, "axis": None}


class GraphWriter:
    """Writes the equations of one graph, and their derivatives, in one notation."""

    def __init__(self, notation: Unicode, graph: Graph) -> None:
        self.notation, self.graph = notation, graph
        self.types = graph.types

    def name(self, number: int) -> str:
        """The name of a value: inputs are v₁₋ₙ … v₀, the rest v₁, v₂, …; in plain notation as the graph prints."""
        count = len(self.graph.input_names)
        if isinstance(self.notation, Plain):
            return self.graph.input_names[number] if number < count else f"v{number}"
        return self.notation.value(number - count + 1)

    def literal(self, o: Literal) -> Piece:
        text = self.notation.array(o.value)
        if np.iscomplexobj(o.value) and not np.ndim(o.value):
            return Piece(text, SUM)
        return Piece(text, PRODUCT if text.startswith(self.notation.minus) else ATOM)

    def operand(self, o: Operand) -> Piece:
        return Piece(self.name(o)) if isinstance(o, int) else self.literal(o)

    def expression(self, equation: Equation) -> str:
        """The right side of an equation."""
        return self.call(
            equation.op, [self.operand(o) for o in equation.inputs], equation.params, self.operand_type(equation)
        ).text

    def operand_type(self, equation: Equation, types: Mapping[int, Type] | None = None) -> Type | None:
        """The type of the first operand."""
        if not equation.inputs:
            return None
        first = equation.inputs[0]
        return (self.types if types is None else types)[first] if isinstance(first, int) else first.type

    def call(self, op: Op, args: Sequence[Piece], params: dict[str, Any], first: Type | None) -> Piece:
        """An op applied to texts."""
        notation = self.notation
        is_plain = isinstance(notation, Plain)
        if op is getitem and len(args) == 1:
            return notation.index(args[0], _show_index(params["spec"]))
        if op in (place, put) and not is_plain:
            return notation.apply(op, args, self.options([f"[{_show_index(params['spec'])}]"]))
        if op is cast and not is_plain:
            return notation.apply(op, args, self.options([params["dtype"].name]))
        if op in (broadcast_to, reshape) and not is_plain:
            return notation.apply(op.name.removesuffix("_to"), args)  # to the shape that the result shows
        if op is transpose and first is not None and params == {"axes": tuple(range(first.ndim))[::-1]}:
            return notation.transpose(args[0])
        options = [
            f"{key}={show_value(value)}"
            for key, value in params.items()
            if not isinstance(value, Graph)  # the body of a loop or a branch
            and not (key in _DEFAULTS and value == _DEFAULTS[key])
            and not (key == "axis" and first is not None and value == tuple(range(first.ndim)))
        ]
        if op.name.startswith("custom."):
            return notation.apply(op.name.removeprefix("custom."), args, self.options(options))
        return notation.call(op, args, self.options(options))

    def options(self, options: list[str]) -> list[str]:
        return [rf"\mathtt{{{escape_latex(o)}}}" for o in options] if isinstance(self.notation, Latex) else options

    # -- derivatives --------------------------------------------------------------------------------------------

    def rule_text(self, rule: DerivativeRule, equation: Equation, marked: Callable[[str], str] | None = None) -> Piece:
        """The output of a rule's graph, written out. `marked` is the notation of an adjoint."""
        known: dict[int, Piece] = {}
        for number, name in enumerate(rule.graph.input_names):
            kind, place = name[0], int(name[1:])
            if kind == "x":
                known[number] = self.operand(equation.inputs[place])
            else:
                result = self.name(equation.outputs[place])
                known[number] = Piece(result if kind == "y" else (marked or self.notation.bar)(result))
        types = rule.graph.types

        def text(o: Operand) -> Piece:
            return known[o] if isinstance(o, int) else self.literal(o)

        reshaped: dict[int, Piece] = {}
        for inner in rule.graph.equations:
            args = [text(o) for o in inner.inputs]
            if inner.op is reshape:
                reshaped[inner.outputs[0]] = args[0]
            elif inner.op is broadcast_to and isinstance(o := inner.inputs[0], int) and o in reshaped:
                args = [reshaped[o]]  # new axes of size one are part of the broadcast
            written = self.call(inner.op, args, inner.params, self.operand_type(inner, types))
            known.update((n, written) for n in inner.outputs)
        return text(rule.graph.outputs[0])

    def reciprocal_of(self, rule: DerivativeRule, equation: Equation) -> Piece | None:
        """The x of a partial of the form 1/x."""
        if not rule.graph.equations or rule.graph.outputs != rule.graph.equations[-1].outputs:
            return None
        last = rule.graph.equations[-1]
        names = rule.graph.input_names
        below: Operand
        if last.op is reciprocal:
            (below,) = last.inputs
        elif last.op is div and isinstance(last.inputs[0], Literal) and last.inputs[0].value == 1:
            below = last.inputs[1]
        else:
            return None
        if not isinstance(below, int) or below >= len(names):
            return None
        place = int(names[below][1:])
        return self.operand(equation.inputs[place]) if names[below][0] == "x" else Piece(self.name(equation.outputs[place]))

    def scaled(self, factor: str, rule: DerivativeRule, equation: Equation) -> Piece:
        """An adjoint or tangent times a partial."""
        below = self.reciprocal_of(rule, equation)
        if below is not None:
            return self.notation.fraction(Piece(factor), below)
        return self.notation.product(Piece(factor), self.rule_text(rule, equation))

    def handed_on(self, rule: DerivativeRule, equation: Equation, target: Operand) -> Piece:
        """The contribution of an equation to an operand in the reverse sweep."""
        if rule.is_partial:
            written = self.scaled(self.notation.bar(self.name(equation.outputs[0])), rule, equation)
            is_spread = isinstance(target, int) and self.types[target].shape != equation.types[0].shape
            return self.notation.apply(sum_, [written]) if is_spread else written  # over the axes that were broadcast
        return self.rule_text(rule, equation)

    def pushed(self, equation: Equation, rules: Mapping[int, DerivativeRule | None], places: Sequence[int]) -> Piece | None:
        """The tangent of an equation's result from those of the operands in `places`; None if it has no notation."""
        moved = {p: self.notation.dot(self.name(o)) for p in places if isinstance(o := equation.inputs[p], int)}
        if isinstance(equation.op, Linear):
            return self.pushed_linear(equation, moved, places)
        total: Piece | None = None
        for p in places:
            rule = rules.get(p)
            if rule is None or not rule.is_partial:
                return None
            factor = rule.graph.outputs[0]
            unit = factor.value if isinstance(factor, Literal) and abs(factor.value) == 1 else None
            term = Piece(moved[p]) if unit is not None else self.scaled(moved[p], rule, equation)
            if total is None:
                total = self.notation.negative(term) if unit == -1 else term
            else:
                total = (self.notation.subtract if unit == -1 else self.notation.add)(total, term)
        return total

    def pushed_linear(self, equation: Equation, moved: Mapping[int, str], places: Sequence[int]) -> Piece:
        """The same for a linear op: the op of the tangents; for a multilinear one, a term for each."""
        groups = [[p] for p in places] if isinstance(equation.op, Multilinear) else [list(places)]
        terms = []
        for group in groups:
            args = [Piece(moved[p]) if p in group else self.operand(o) for p, o in enumerate(equation.inputs)]
            terms.append(self.call(equation.op, args, equation.params, self.operand_type(equation)))
        return functools.reduce(self.notation.add, terms)

    def partials(self, equation: Equation, rules: Mapping[int, DerivativeRule | None]) -> tuple[str, ...]:
        """One line for each operand that has a derivative."""
        lines = []
        for at, rule in rules.items():
            o = equation.inputs[at]
            assert isinstance(o, int)
            below = self.name(o)
            above = [self.name(n) for n in equation.outputs]
            if rule is not None and rule.is_partial:
                lines.append(f"{self.notation.partial(above[0], below)} = {self.rule_text(rule, equation).text}")
            elif rule is not None:
                lines.append(f"{self.notation.bar(below)} += {self.rule_text(rule, equation).text}")
            else:
                lines.append(f"{self.notation.bar(below)} += the pullback of {equation.op.name}")
        return tuple(dict.fromkeys(lines))


def _show_index(index: Any) -> str:
    parts = index if isinstance(index, tuple) else (index,)
    return ", ".join(map(_show_key, parts)) if parts else "..."


def _show_key(key: Any) -> str:
    if isinstance(key, slice):
        ends = [show_value(end) if end is not None else "" for end in (key.start, key.stop, key.step)]
        return ":".join(ends[:2]) + (f":{ends[2]}" if ends[2] else "")
    return show_value(key)
