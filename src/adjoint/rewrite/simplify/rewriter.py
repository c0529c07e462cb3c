"""Applying rules: a graph is copied equation by equation, each brought to its simplest form on the way.

The operands of an equation are simplified before it, so one walk in order reaches a fixed point: equations that a rule builds go
through `emit`, as those that are copied do. The time is linear in the size of the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.op import Elementwise, Linear, Op, Structured
from ...core.types import Type
from ...derive import type_rule
from ...ir.columns import hashable
from ...ir.contents import is_repeated
from ...ir.graph import Equation, Graph, Literal, Operand, weak_numbers
from ...ops.broadcast import broadcast_to, where
from ...ops.elementwise import PRODUCTS, neg
from .pattern import Computed, ConstantHole, Hole, MatchedResult, OpPattern, Parameter, Rule, UnsignedZero, orders

FOLDED = 4096  # elements; a larger constant is computed beforehand only from one that is as large

Bindings = dict[str, Any]

_PER_ELEMENT = (*PRODUCTS, where)


class Zero(Literal):
    """A zero without a sign: the result of a product of the chain rule with an exact zero."""

    __slots__ = ()


class RuleIndex:
    """The rules by the op they replace, and by the kind of one of its arguments: few are tried at each equation."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules: dict[Any, list[tuple[Rule, OpPattern]]] = {}
        for rule in rules:
            for left in orders(rule.left):
                self.rules.setdefault(_key(left), []).append((rule, left))


def _key(left: OpPattern) -> tuple[Any, ...]:
    for i, a in enumerate(left.args):
        if isinstance(a, OpPattern):
            return left.op, i, a.op
        if not isinstance(a, Hole):
            return left.op, i, Literal
    return (left.op,)


class Rewriter:
    """One walk over one graph. `counts` holds how often each rule was applied."""

    def __init__(
        self, graph: Graph, index: RuleIndex, assume: str | None = None, *, fold: bool = True, share: bool = True
    ) -> None:
        self.graph = graph
        self.index = index.rules
        self.assume = assume
        self.fold = fold
        self.share = share
        self.counts: Counter[str] = Counter()
        self.types: dict[int, Type] = dict(enumerate(graph.input_types))
        self.made: dict[int, Equation] = {}  # the equation behind a value
        self.equations: list[Equation] = []
        self.next = len(graph.input_types)
        self.known: dict[Any, tuple[Operand, ...]] = {}
        self.facts: dict[Any, tuple[Literal, Any, int]] = {}
        self.constants: dict[Any, int] = {}
        self.wrapping: list[np.dtype[Any]] = []  # of the integers computed inside a pattern that is being matched

    def run(self) -> Graph:
        values: dict[int, Operand] = {i: i for i in range(len(self.graph.input_types))}

        def read(o: Operand) -> Operand:
            return values[o] if isinstance(o, int) else o

        with np.errstate(all="ignore"):
            for e in self.graph.equations:
                found = self.emit(e.op, tuple([read(o) for o in e.inputs]), e.params, e.types, e.line)
                values.update(zip(e.outputs, found, strict=True))
        return replace(self.graph, equations=tuple(self.equations), outputs=tuple(map(read, self.graph.outputs)))

    def emit(
        self, op: Op, inputs: tuple[Operand, ...], params: dict[str, Any], types: tuple[Type, ...], line: str
    ) -> tuple[Operand, ...]:
        """The results of an equation: existing values, constants, the result of a rule, or new values."""
        if any(isinstance(o, Literal) for o in inputs):
            inputs = self.shrunk(op, inputs, types)
        key = self.key(op, inputs, params) if self.share else None
        if key is not None and key in self.known:
            self.counts["common-subexpression"] += 1
            return self.known[key]
        found = self.folded(op, inputs, params, types) or self.rewritten(op, inputs, params, types, line)
        if found is None:
            numbers = tuple(range(self.next, self.next + len(types)))
            self.next += len(types)
            equation = Equation(op, inputs, params, numbers, types, line)
            self.equations.append(equation)
            for number, type_ in zip(numbers, types, strict=True):
                self.types[number] = type_
                self.made[number] = equation
            found = numbers
        if key is not None:
            self.known[key] = found
        return found

    def type_of(self, o: Operand) -> Type:
        return self.types[o] if isinstance(o, int) else o.type

    # -- common subexpressions ----------------------------------------------------------------------------------

    def key(self, op: Op, inputs: tuple[Operand, ...], params: dict[str, Any]) -> Any:
        operands = [o if isinstance(o, int) else self.fact(o)[2] for o in inputs]
        if op.commutative:
            operands.sort()
        return op, tuple(operands), tuple([(name, hashable(value)) for name, value in params.items()])

    def fact(self, literal: Literal) -> tuple[Literal, Any, int]:
        """(literal, the number that all its elements are, or None, a negative number of its own); found once for each array."""
        place = id(literal.value), type(literal)
        known = self.facts.get(place)
        if known is None:
            number, bits = _number(literal.value), (type(literal), hashable(literal.value))
            mark = self.constants.setdefault(bits, -1 - len(self.constants))
            known = self.facts[place] = literal, number, mark  # holds the array, so that its id stays its own
        return known

    # -- constants ----------------------------------------------------------------------------------------------

    def shrunk(self, op: Op, inputs: tuple[Operand, ...], types: tuple[Type, ...]) -> tuple[Operand, ...]:
        """A constant array of one number as that number, where the other arguments give the result its shape."""
        if not self.fold or not (isinstance(op, Elementwise) or op in _PER_ELEMENT):
            return inputs
        for i, o in enumerate(inputs):
            if isinstance(o, Literal) and not o.is_weak and o.value.ndim and self.fact(o)[1] is not None:
                others = [self.type_of(x).shape for j, x in enumerate(inputs) if j != i]
                if np.broadcast_shapes(*others) == types[0].shape:
                    self.counts["uniform-constant"] += 1
                    inputs = (*inputs[:i], type(o)(np.asarray(o.value.flat[0], o.value.dtype)), *inputs[i + 1 :])
        return inputs

    def folded(
        self, op: Op, inputs: tuple[Operand, ...], params: dict[str, Any], types: tuple[Type, ...]
    ) -> tuple[Literal, ...] | None:
        """The results of an op on constants."""
        if not self.fold or not all(isinstance(o, Literal) for o in inputs) or isinstance(op, Structured):
            return None  # the cost of a loop is unknown
        limit = max([FOLDED, *(o.type.size for o in inputs)])  # type: ignore[union-attr]
        if any(t.size > limit for t in types):
            return None
        if isinstance(op, Linear) and inputs and all(isinstance(o, Zero) for o in inputs):
            self.counts["fold"] += 1
            return tuple(Zero(np.zeros(t.shape, t.dtype)) for t in types)
        try:
            result = op.impl(*[o.value for o in inputs], **params)  # type: ignore[union-attr]
        except Exception:  # it will be raised where the program runs, with the user's line
            return None
        literals = tuple(Literal(np.asarray(y)) for y in (result if op.many else (result,)))
        if tuple(y.type for y in literals) != types:
            return None
        self.counts["fold"] += 1
        return literals

    # -- rules --------------------------------------------------------------------------------------------------

    def rewritten(
        self, op: Op, inputs: tuple[Operand, ...], params: dict[str, Any], types: tuple[Type, ...], line: str
    ) -> tuple[Operand, ...] | None:
        """The replacement by the first rule that applies."""
        groups = []
        for i, o in enumerate(inputs):
            if isinstance(o, Literal):
                groups.append(self.index.get((op, i, Literal)))
            elif o in self.made:
                groups.append(self.index.get((op, i, self.made[o].op)))
        groups.append(self.index.get((op,)))  # those that ask for nothing of their arguments come last
        for group in groups:
            for rule, left in group or ():
                found = self.applied(rule, left, inputs, params, types[0], line)
                if found is not None:
                    self.counts[rule.name] += 1
                    return (found,)
        return None

    def applied(
        self, rule: Rule, left: OpPattern, inputs: tuple[Operand, ...], params: dict[str, Any], type_: Type, line: str
    ) -> Operand | None:
        """The operand that a rule gives; None if it does not apply."""
        bindings: Bindings = {}
        self.wrapping.clear()
        if not self.allowed(rule, type_) or not self.match_call(left, inputs, params, bindings):
            return None
        if any(dtype != type_.dtype for dtype in self.wrapping):
            return None  # -y of a narrow or unsigned y has wrapped around before it is added to a wider x
        if rule.when is not None and not self.compute(rule.when, bindings, type_):
            return None
        if isinstance(rule.right, OpPattern) and rule.right.op is neg and self.type_of(bindings["X"]).dtype.kind == "b":
            return None  # a boolean has no negative
        return self.in_place(self.build(rule.right, bindings, type_, line), type_, line)

    def allowed(self, rule: Rule, type_: Type) -> bool:
        """Integers have no rounding, no signed zeros and nothing infinite; a complex product with 1 has them twice."""
        if self.assume == "finite" or type_.dtype.kind in "iu":
            return True
        return rule.needs != "finite" and not (rule.real and type_.dtype.kind == "c")

    def match_call(self, pattern: OpPattern, inputs: Sequence[Operand], params: dict[str, Any], bindings: Bindings) -> bool:
        if len(inputs) != len(pattern.args):
            return False
        for name, wanted in pattern.params.items():
            value = params[name]
            if isinstance(wanted, Parameter):
                if bindings.setdefault(wanted.name, value) != value:
                    return False
            elif wanted != value:
                return False
        return all(self.match(p, o, bindings) for p, o in zip(pattern.args, inputs, strict=True))

    def match(self, pattern: Any, o: Operand, bindings: Bindings) -> bool:
        if isinstance(pattern, OpPattern):
            equation = self.made.get(o) if isinstance(o, int) else None
            if equation is None or equation.op is not pattern.op:
                return False
            if isinstance(equation.op, Elementwise) and equation.types[0].dtype.kind in "iu":
                self.wrapping.append(equation.types[0].dtype)
            return self.match_call(pattern, equation.inputs, equation.params, bindings)
        if isinstance(pattern, Hole):
            return _same(bindings.setdefault(pattern.name, o), o)
        if not isinstance(o, Literal):
            return False
        if isinstance(pattern, ConstantHole):
            return _same(bindings.setdefault(pattern.name, o), o)
        if isinstance(pattern, UnsignedZero):
            return isinstance(o, Zero)
        number = self.fact(o)[1]
        if number is None or (number != pattern and (number == number or pattern == pattern)):  # nan is nan
            return False
        return type(pattern) is not float or pattern != 0 or (not np.iscomplexobj(number) and _sign(number) == _sign(pattern))

    def build(self, pattern: Any, bindings: Bindings, type_: Type, line: str) -> Operand:
        """The right side of a rule, as equations."""
        if isinstance(pattern, (Hole, ConstantHole)):
            return bindings[pattern.name]  # type: ignore[no-any-return]
        if isinstance(pattern, UnsignedZero):
            return Zero(np.zeros((), type_.dtype))
        if not isinstance(pattern, OpPattern):
            return Literal(self.compute(pattern, bindings, type_))
        inputs = tuple(self.build(a, bindings, type_, str(line)) for a in pattern.args)
        params = {name: self.compute(value, bindings, type_) for name, value in pattern.params.items()}
        numbers = weak_numbers(inputs)
        types = (type_rule(pattern.op, [self.type_of(o) for o in inputs], params, numbers),)
        return self.emit(pattern.op, inputs, params, types, line)[0]

    def compute(self, value: Any, bindings: Bindings, type_: Type) -> Any:
        if isinstance(value, Computed):
            return value.function(*[self.compute(a, bindings, type_) for a in value.args])
        if isinstance(value, Parameter):
            return bindings[value.name]
        if isinstance(value, (Hole, ConstantHole)):
            return self.type_of(bindings[value.name])
        return type_ if isinstance(value, MatchedResult) else value

    def in_place(self, o: Operand, type_: Type, line: str) -> Operand | None:
        """An operand brought to the type of what it replaces; None if that would change its dtype."""
        if isinstance(o, Literal) and o.is_weak:  # in place of a computed value, which is not weak
            o = Literal(np.asarray(o.value, type_.dtype))
        own = self.type_of(o)
        if own == type_:
            return o
        if own.dtype != type_.dtype or not _spreads(own.shape, type_.shape):
            return None
        return self.emit(broadcast_to, (o,), {"shape": type_.shape}, (type_,), line)[0]


def _same(a: Operand, b: Operand) -> bool:
    return a is b or a == b


def _sign(number: Any) -> bool:
    return bool(np.signbit(np.float64(number)))


def _number(value: Any) -> Any:
    """The number that all elements of a constant are, of one sign throughout; None if there is none."""
    if not isinstance(value, np.ndarray):
        return value
    number = value.flat[0] if value.size else None
    if value.size < 2 or is_repeated(value):
        return number
    if value.flat[-1] != number or not (value == number).all():  # most arrays are told by the first and the last element
        return None
    return number if number != 0 or _one_sign(value) else None


def _one_sign(array: Any) -> bool:
    return array.dtype.kind != "f" or bool(np.signbit(array).all() or not np.signbit(array).any())


def _spreads(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Whether a shape broadcasts to another."""
    tail = large[len(large) - len(small) :]
    return len(small) <= len(large) and all(a in (1, b) for a, b in zip(small, tail, strict=True))
