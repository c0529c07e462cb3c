"""Reverse mode: which values an op saves, and how it computes cotangents. `plan` runs once per op and set of differentiated
arguments."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Trace, Traced, bind
from ..core.errors import UnsupportedError
from ..core.op import Elementwise, Linear, Multilinear, Op, Opaque, Structured
from ..core.types import Value, shape_of
from ..ops.broadcast import fit
from ..ops.elementwise import (
    equal,
    ieee_mul,
    mul,
    power,
    strong_mul,
    strong_mul_either,
    strong_mul_either_op,
    strong_mul_op,
    zero_won,
)
from ..ops.zero import zero_wins
from .coupling import is_declared
from .partials import Partial, argument_names, define, no_partial, split
from .products import doubted, has_zeros, is_computed, masked_product, times, zero_power

DROP, VALUE, TYPE = 0, 1, 2  # what a tape keeps of a value: nothing, the value, its type only


Pull = Callable[[Any, tuple[Any, ...], Sequence[Any], dict[str, Any]], Sequence[Any]]


class ReversePlan(NamedTuple):
    """How reverse mode handles one op, for one set of differentiated arguments.

    wanted  which arguments are differentiated
    keep    what to save of (y, x0, x1, …): DROP, VALUE or TYPE
    pull    (g, saved, types, params) ↦ the cotangents of the differentiated arguments, in order
    quick   the same for plain arrays, with ordinary products: a zero cotangent times an infinite partial is nan
            there, so the caller checks for nan afterwards; the same function where no product is taken
    into    (total, g, *xs, **params): adds the cotangent of the only argument to an array in place
    careful (g, origin, saved, types, params): as `pull`, where it is known which zeros of g are those of a mask
    masks   (saved, i): where the partial by differentiated argument i is a zero of a mask; None if it never is
    """

    wanted: tuple[int, ...]
    keep: tuple[int, ...]
    pull: Pull
    quick: Pull
    into: Callable[..., None] | None = None
    careful: Callable[..., Sequence[Any]] | None = None
    masks: Callable[..., Any] | None = None


def plan(op: Op, count: int, mask: int) -> ReversePlan:
    """The plan for an op of `count` arguments, of which those in `mask` (a bit each) are differentiated."""
    key = (count, mask)
    found = op.derived.get(key)
    if found is None:
        found = _plan(op, count, [i for i in range(count) if mask >> i & 1])
        if count <= 4:  # a long concatenation has too many masks to remember
            op.derived[key] = found
    return found  # type: ignore[no-any-return]


def _plan(op: Op, count: int, wanted: list[int]) -> ReversePlan:
    if isinstance(op, Elementwise):
        return _elementwise_plan(op, wanted)
    if isinstance(op, Linear):
        return _linear_plan(op, count, wanted)
    if isinstance(op, Opaque):
        return _opaque_plan(op, count, wanted)
    if isinstance(op, Structured):
        return _structured_plan(op, count, wanted)
    raise UnsupportedError(f"{op.name!r} has no derivative")


def _elementwise_plan(op: Elementwise, wanted: list[int]) -> ReversePlan:
    partials = [split(op)[i] for i in wanted]
    for i, partial in zip(wanted, partials, strict=True):
        if partial.missing:
            raise no_partial(op, i)
    keep = tuple(map(int, np.any([p.needs for p in partials], axis=0)))
    step = _ElementwiseStep(op, wanted, partials)
    traced = all(partial.lines or partial.result or partial.number is not None for partial in partials)
    quick = _quick_pull(op, partials) if traced else step.pull
    return ReversePlan(tuple(wanted), keep, step.pull, quick, None, step.careful, step.masks if step.can_mask else None)


class _ElementwiseStep:
    """The backward step of an elementwise op: cotangent times partial, for each differentiated argument."""

    def __init__(self, op: Elementwise, wanted: list[int], partials: Sequence[Partial]) -> None:
        self.op, self.wanted, self.partials = op, wanted, partials
        self.product: Callable[[Any, Any], Any] = strong_mul_either if op.choice else strong_mul
        #: Whether a partial may be a zero of a mask: that of a choice, of a product with a constant, of x**0.
        self.can_mask = op.choice or (op is mul and len(wanted) == 1) or (op is power and wanted == [0])

    def pull(self, g: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        product = self.product
        if self.can_mask and not self.op.choice and has_zeros(self.factor(saved, 0)):
            product = zero_power(saved[2]) if self.op is power else strong_mul_either
        return self.cotangents(g, [product] * len(types), saved, types, params)

    def careful(self, g: Any, origin: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        factors = [functools.partial(self.factor, saved, i) if self.can_mask else None for i in range(len(types))]
        products = [functools.partial(masked_product, self.product, origin, factor) for factor in factors]
        return self.cotangents(g, products, saved, types, params)

    def cotangents(self, g: Any, products: Sequence[Any], saved: Any, types: Any, params: dict[str, Any]) -> Any:
        values = doubted(self.op, saved, self.wanted, lambda k: is_computed(types[self.wanted.index(k)]))
        return [
            None if partial.number == 0 else fit(times(g, partial, values, params, product), t)
            for partial, product, t in zip(self.partials, products, types, strict=True)
        ]

    def masks(self, saved: Any, i: int) -> Any:
        return equal(self.factor(saved, i), 0)

    def factor(self, saved: Any, i: int) -> Any:
        """What is zero where the partial is a zero of a mask."""
        if self.op.choice:
            return self.partials[i].function(*saved)
        return saved[2 - self.wanted[0]] if self.op is mul else saved[2]  # a constant factor; the exponent of x**0


def _quick_pull(op: Elementwise, partials: Sequence[Partial]) -> Pull:
    """The pull of an elementwise op as one straight piece of Python: no dispatch, no calls but NumPy's.

    For `mul`: c0 = g * x1; c1 = g * x0; each is summed or cast by `fit` if its type is not that of its argument.
    """
    lines = [f"{', '.join(argument_names(op.arity + 1))} = saved"]
    scope: dict[str, Any] = {"fit": fit}
    for i, partial in enumerate(partials):
        if partial.number == 0:
            lines.append(f"c{i} = None")
            continue
        product, scale = "g", None
        if partial.number is None:
            # Partials of one op share their equations' names: an equation of both is computed twice, harmlessly.
            lines.extend(line for line in partial.lines if line not in lines)
            scope.update(partial.scope)
            product = f"g * {partial.result}"
        elif partial.number != 1:
            scale = f"c{i} = " + (f"-c{i}" if partial.number == -1 else f"c{i} * {partial.number!r}")
        lines += [f"c{i} = {product}", f"t = types[{i}]"]
        shapes = f"c{i}.shape != t.shape or " if op.arity > 1 else ""  # a single argument has the shape of the result
        lines.append(f"if {shapes}c{i}.dtype is not t.dtype: c{i} = fit(c{i}, t)")
        if scale is not None:  # after the sum over broadcast axes, which leaves less to scale
            lines.append(scale)
    results = ", ".join(f"c{i}" for i in range(len(partials)))
    return define("pull", ["g", "saved", "types", "params"], [*lines, f"return ({results},)"], scope)


def transposes(op: Linear, count: int) -> tuple[Callable[..., Any] | None, ...]:
    rule = op.transposes
    if op.together:
        return (rule,) * count
    if isinstance(rule, tuple):
        # The last entry serves all further arguments (an index with any number of arrays).
        return rule[:count] + (rule[-1],) * (count - len(rule))
    if count == 1:
        return (rule,)
    return tuple(_indexed(rule, i) for i in range(count))


def _indexed(rule: Callable[..., Any], i: int) -> Callable[..., Any]:
    return lambda *args, **params: rule(*args, index=i, **params)


def _linear_plan(op: Linear, count: int, wanted: list[int]) -> ReversePlan:
    rules = transposes(op, count)
    if op.together:
        return _together_plan(op, count, wanted)
    if op in (strong_mul_op, strong_mul_either_op, ieee_mul):
        return _product_plan(op, wanted)
    chosen = [(i, rules[i]) for i in wanted]
    for i, rule in chosen:
        if rule is None:
            raise UnsupportedError(f"{op.name!r} has no derivative with respect to its argument {i}")

    def quick(g: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        result = []
        for (i, rule), t in zip(chosen, types, strict=True):
            operands = list(saved[1:])
            operands[i] = t
            result.append(fit(rule(g, *operands, **params), t))  # type: ignore[misc]
        return result

    keep = (DROP, *(_kept(op, j, rules[j] is None, wanted) for j in range(count)))
    if not isinstance(op, Multilinear):
        return ReversePlan(tuple(wanted), keep, quick, quick, op.into, None)

    def with_zeros(g: Any, live_in: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        result = []
        for (i, rule), t in zip(chosen, types, strict=True):
            apply = _filled(rule, t, i, params)  # type: ignore[arg-type]
            result.append(fit(zero_wins(apply, g, [*saved[1 : i + 1], *saved[i + 2 :]], live_in), t))
        return result

    def pull(g: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        return with_zeros(g, None, saved, types, params)

    def careful(g: Any, origin: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        return with_zeros(g, origin.live_in, saved, types, params)

    return ReversePlan(tuple(wanted), keep, pull, quick, op.into, careful)


def _kept(op: Linear, j: int, is_constant: bool, wanted: list[int]) -> int:
    """What the backward step needs of argument j: its value, its type, or nothing."""
    if is_constant or (isinstance(op, Multilinear) and any(i != j for i in wanted)):
        return VALUE
    return DROP if wanted == [j] else TYPE  # a lone argument's type comes with the call


def _product_plan(op: Linear, wanted: list[int]) -> ReversePlan:
    """A product of the chain rule, differentiated again: of one factor the derivative is the other."""
    keep = (DROP, VALUE if 1 in wanted else TYPE, VALUE if 0 in wanted else TYPE)

    again = ieee_mul if op is ieee_mul else strong_mul_either_op

    def factor(saved: Any, i: int) -> Any:
        # A zero cotangent has ended the product, whichever it was; a zero partial only if it is one of a mask.
        is_mask = op is strong_mul_either_op or (op is strong_mul_op and wanted[i] == 1)
        return saved[2 - wanted[i]] if is_mask else None

    def masks(saved: Any, i: int) -> Any:
        x = factor(saved, i)
        return None if x is None else equal(x, 0)

    def quick(h: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        return [fit(h * saved[2 - i], t) for i, t in zip(wanted, types, strict=True)]

    def pull(h: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        return [fit(again(h, saved[2 - i]), t) for i, t in zip(wanted, types, strict=True)]

    def careful(h: Any, origin: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        return [
            fit(masked_product(again, origin, functools.partial(factor, saved, k), h, saved[2 - i]), t)
            for k, (i, t) in enumerate(zip(wanted, types, strict=True))
        ]

    return ReversePlan(tuple(wanted), keep, pull, quick, None, careful, masks)


def _filled(rule: Callable[..., Any], t: Any, i: int, params: dict[str, Any]) -> Callable[..., Any]:
    return lambda g, *others: rule(g, *others[:i], t, *others[i:], **params)


def _together_plan(op: Linear, count: int, wanted: list[int]) -> ReversePlan:
    def pull(g: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        cotangents = op.transposes(g, *saved[1:], **params)
        return [fit(cotangents[i], t) for i, t in zip(wanted, types, strict=True)]

    return ReversePlan(tuple(wanted), (DROP, *(TYPE,) * count), pull, pull)


def _opaque_plan(op: Opaque, count: int, wanted: list[int]) -> ReversePlan:
    rule = op.vjp
    if rule is None:
        raise UnsupportedError(f"no reverse rule for {op.name!r}; declare vjp=, or use forward mode")
    if "reads" not in op.derived:
        op.derived["reads"] = _reads(op, count)
    needed = op.derived["reads"]
    keep = tuple(VALUE if i in needed else DROP if i == 0 else TYPE for i in range(count + 1))

    def pull(g: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        cotangents = rule(g, *saved, **params)
        chosen = [cotangents[i] for i in wanted]
        return [c if c is None else fit(c, t) for c, t in zip(chosen, types, strict=True)]

    def quick(g: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        parts, met = watched(lambda: pull(g, saved, types, params))
        return [c if c is None else c * np.nan for c in parts] if met else parts

    return ReversePlan(tuple(wanted), keep, pull, quick if is_declared(op) else pull)


def watched(rule: Callable[[], Any]) -> tuple[Any, bool]:
    """What a rule gives for numbers, and whether a zero met an infinity or nan in one of its products, and won."""
    met: list[bool] = []
    token = zero_won.set(met)
    try:
        return rule(), bool(met)
    finally:
        zero_won.reset(token)


class _Marks(Trace):
    """Notes which of its values (`aux`: their numbers) a rule reads. To ask for a shape or a dtype is not to read."""

    __slots__ = ("read",)

    def __init__(self) -> None:
        super().__init__("derive")
        self.read: set[int] = set()

    def mark(self, value: Value, number: int) -> Traced:
        return Traced(self, value, number)

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        return bind(op, *[self.concrete(a, "") if isinstance(a, Traced) and a.by is self else a for a in args], **params)

    def shape(self, x: Traced) -> tuple[int, ...]:
        return shape_of(x.underlying)

    def concrete(self, x: Traced, what: str) -> Any:
        self.read.add(x.aux)
        return x.underlying


def _reads(op: Opaque, count: int) -> set[int]:
    """Which of (y, x0, x1, …) the reverse rule reads, found by running it on the op's samples; all of them without samples."""
    rng = np.random.default_rng(0)
    cases = [case for case in op.cases if len(case.args) == count]
    if not cases:
        return set(range(count + 1))
    marks = _Marks()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in cases:
            for dtype in (float, complex) if op.complex_domain else (float,):
                xs = case.draw(op.domain, rng, dtype)
                y = op.impl(*xs, **case.params)
                g = tuple(map(np.ones_like, y)) if op.many else np.ones_like(y)
                marked = tuple(marks.mark(part, 0) for part in y) if op.many else marks.mark(y, 0)
                op.vjp(g, marked, *map(marks.mark, xs, range(1, count + 1)), **case.params)  # type: ignore[misc]
    return marks.read


def _structured_plan(op: Structured, count: int, wanted: list[int]) -> ReversePlan:
    """If only the results are available: the op runs again with its residuals. A tape asks for both at once instead."""
    flags = tuple(i in wanted for i in range(count))

    def pull(gs: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        _, residuals, back = op.vjp(saved[1:], flags, params)
        return back(gs, residuals)

    return ReversePlan(tuple(wanted), (DROP, *(VALUE,) * count), pull, pull)
