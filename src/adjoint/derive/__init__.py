"""From an op's one declaration to its JVP, VJP, batched form and type rule. The only place that does.

    sin = elementwise("sin", np.sin, partials=lambda y, x: (cos(x),))

    jvp   t ↦ t · cos(x)             push(sin, y, (x,), (t,), {})
    vjp   g ↦ g · cos(x)             plan(sin, 1, 0b1).pull(g, saved, types, {})
    saves x, and not y               plan(sin, 1, 0b1).keep == (DROP, VALUE)

`partials` is traced once per op: each partial becomes a function of its own, so that only those that are wanted
are computed, and it is known which values they need. A tape saves those and no others.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Trace, Traced, bind, numbers
from ..core.errors import AdjointError, ShapeError, UnsupportedError
from ..core.op import Elementwise, Linear, Multilinear, Op, Opaque, Structured
from ..core.types import Type, Value, ndim_of, shape_of
from ..ir.graph import is_repeated
from ..ops.broadcast import align_all, fit, fit_tangent, where, zeros_of
from ..ops.elementwise import (
    absorb,
    absorb_op,
    chain,
    chain_op,
    equal,
    is_finite,
    isinf,
    logical_not,
    logical_or,
    product_of_live,
    times_op,
)
from ..ops.shape import all_batched
from ..ops.zero import zero_wins

DROP, VALUE, TYPE = 0, 1, 2  # what a tape keeps of a value: nothing, the value, its type only


class Partial(NamedTuple):
    """One partial derivative, as a number if it is constant, else as a function of (y, *xs).

    `needs` tells which of y, x0, x1, … it reads. `result` is the expression that computes it, after the assignments in
    `lines`, with the names in `scope`; empty for a rule that could not be traced. A `missing` partial is one that the rule
    gives as None: there is no derivative with respect to that argument (the order of a Bessel function).
    """

    number: float | None
    function: Callable[..., Any]
    needs: tuple[bool, ...]
    lines: tuple[str, ...] = ()
    result: str = ""
    scope: dict[str, Any] = {}  # noqa: RUF012 - never written to
    missing: bool = False


# -- partials: traced once, split per argument ------------------------------------------------------------------


class _Probe(Trace):
    """Records the ops that `partials` applies, to split it into one function per argument."""

    __slots__ = ("equations",)

    def __init__(self) -> None:
        super().__init__("derive")
        self.equations: list[tuple[Op, tuple[Any, ...], dict[str, Any]]] = []

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Traced:
        self.equations.append((op, args, params))
        return Traced(self, None, len(self.equations) - 1)

    def shape(self, x: Traced) -> tuple[int, ...]:
        raise UnsupportedError("partials may not depend on the shape of an argument; declare the op as opaque")

    def dtype(self, x: Traced) -> np.dtype[Any]:
        raise UnsupportedError("a rule asks for the dtype of a value")

    def class_of(self, x: Traced) -> type:
        raise UnsupportedError("a rule asks for the class of a value")

    def concrete(self, x: Traced, what: str) -> Any:
        raise UnsupportedError(f"a rule asks for {what} a value")


#: Ops that a rule writes as Python's own operators, which dispatch on traced values by themselves, as ufuncs do.
#: Division is not among them: of two Python numbers it would raise where a rule wants inf.
_INFIX = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "neg": "-{}"}


def split(op: Elementwise) -> tuple[Partial, ...]:
    """The partials of an op, one by one."""
    if "partials" not in op.derived:
        op.derived["partials"] = _split(op)
    return op.derived["partials"]  # type: ignore[no-any-return]


def _split(op: Elementwise) -> tuple[Partial, ...]:
    rule, count = op.partials, op.arity + 1
    if isinstance(rule, tuple):
        return tuple(Partial(None, part, (True,) * count) for part in rule)
    probe = _Probe()
    inputs = [Traced(probe, None, -1 - i) for i in range(count)]
    try:
        outputs = rule(*inputs)
    except AdjointError:
        # A rule that looks at its values (a branch, a foreign function) is run whole, and may need everything.
        return tuple(Partial(None, _pick(rule, i), (True,) * count) for i in range(op.arity))
    if not isinstance(outputs, tuple) or len(outputs) != op.arity:
        raise UnsupportedError(f"partials of {op.name!r} must return a tuple of {op.arity}, one for each argument")
    return tuple(_emit(probe, output, count) for output in outputs)


def _pick(rule: Callable[..., Any], i: int) -> Callable[..., Any]:
    return lambda *values: rule(*values)[i]


def _emit(probe: _Probe, output: Any, count: int) -> Partial:
    """Write the equations that lead to one output as a Python function."""
    names = argument_names(count)
    if output is None:
        return Partial(None, lambda *values: None, (False,) * count, missing=True)
    if not isinstance(output, Traced):
        number = output if isinstance(output, (int, float)) else None
        return Partial(number, lambda *values: output, (False,) * count)
    uses = _count_uses(probe, output.aux)
    scope: dict[str, Any] = {}
    lines: list[str] = []
    needs = [False] * count
    texts: dict[int, str] = {}

    def text_of(value: Any) -> str:
        if isinstance(value, Traced):
            if value.aux >= 0:
                return texts[value.aux]
            needs[-1 - value.aux] = True
            return names[-1 - value.aux]
        if type(value) in (int, float) and np.isfinite(value):
            return repr(value) if value >= 0 else f"({value!r})"
        key = f"k{id(value)}"
        scope[key] = value
        return key

    for index in sorted(uses):
        op, args, params = probe.equations[index]
        operands = [text_of(a) for a in args]
        if op.name in _INFIX:
            text = f"({_INFIX[op.name].format(*operands)})"
        else:
            scope[f"f{index}"] = op.impl if isinstance(op.impl, np.ufunc) or op.name == "div" else op
            options = [f"{key}={text_of(value)}" for key, value in params.items()]
            text = f"f{index}({', '.join([*operands, *options])})"
        # A value used once stays inside its expression, where NumPy may reuse its memory.
        if uses[index] > 1:
            lines.append(f"v{index} = {text}")
            text = f"v{index}"
        texts[index] = text
    result = text_of(output)
    function = define("partial", names, [*lines, f"return {result}"], dict(scope))
    return Partial(None, function, tuple(needs), tuple(lines), result, scope)


def _count_uses(probe: _Probe, output: int) -> dict[int, int]:
    """The equations that an output depends on, with the number of times each is used."""
    uses = {output: 1} if output >= 0 else {}
    for index in range(len(probe.equations) - 1, -1, -1):
        if index in uses:
            for a in probe.equations[index][1]:
                if isinstance(a, Traced) and a.aux >= 0:
                    uses[a.aux] = uses.get(a.aux, 0) + 1
    return uses


def argument_names(count: int) -> list[str]:
    return ["y", *(f"x{i}" for i in range(count - 1))]


def define(name: str, arguments: Sequence[str], lines: Sequence[str], scope: dict[str, Any]) -> Callable[..., Any]:
    """A Python function from its lines."""
    source = f"def {name}({', '.join(arguments)}):\n" + "".join(f"    {line}\n" for line in lines)
    scope.setdefault("__name__", __name__)  # by which `user_line` knows it for ours
    exec(compile(source, f"<adjoint {name}>", "exec"), scope)
    return scope[name]  # type: ignore[no-any-return]


# -- forward: push tangents -------------------------------------------------------------------------------------


def push(
    op: Op,
    y: Value,
    xs: Sequence[Value],
    ts: Sequence[Value | None],
    params: dict[str, Any],
    product: Callable[[Value, Value], Value] | None = None,
    read: Sequence[Value] | None = None,
) -> Value | None:
    """The tangent of the result; None stands for a tangent that is zero throughout.

    `product` is that of tangent and partial, `read` what partials read instead of (y, *xs).
    """
    if isinstance(op, Elementwise):
        product = product or product_of_tangents(op, xs, ts)
        total = None
        values = read or [y, *xs]
        for i, (t, partial) in enumerate(zip(ts, split(op), strict=True)):
            if t is not None and partial.number != 0:
                if partial.missing:
                    raise _no_partial(op, i)
                term = _times(t, partial, values, params, product)
                total = term if total is None else total + term
        return None if total is None else fit_tangent(total, y)
    if isinstance(op, Multilinear):
        terms = [_term(op, i, t, xs, params) for i, t in enumerate(ts) if t is not None]
        return fit_tangent(_total(terms), y)
    if isinstance(op, Linear):
        rules = _transposes(op, len(xs))
        if not any(t is not None for t in ts):
            return None
        filled = [x if rule is None else _or_zeros(t, x) for rule, t, x in zip(rules, ts, xs, strict=True)]
        return fit_tangent(bind(op, *filled, **params), y)
    if isinstance(op, Opaque):
        if op.jvp is None:
            raise UnsupportedError(f"no forward rule for {op.name!r}; declare jvp=, or use reverse mode")
        return op.jvp(ts, y, *xs, **params)
    if isinstance(op, Structured):
        return op.jvp(xs, ts, params)[1]
    return None


def product_of_tangents(op: Elementwise, xs: Sequence[Value], ts: Sequence[Value | None]) -> Callable[[Value, Value], Value]:
    """Tangent times partial where there are no numbers to look at. The zero of a tangent may be that of a mask, and wins; that
    of a partial wins if it is one: of a choice, a constant factor, or x**0.
    """
    if op.choice or (op.name == "mul" and any(t is None for t in ts)):
        return absorb
    if op.name == "power" and ts[1] is None:
        return absorb if _has_zeros(xs[1]) else chain
    return chain


def _has_zeros(x: Value) -> bool:
    """Whether zeros are known to be among the numbers of a constant."""
    known = numbers(x)
    return known is not None and bool(np.any(np.equal(known, 0)))


def _term(op: Multilinear, i: int, t: Value, xs: Sequence[Value], params: dict[str, Any]) -> Value:
    others = [*xs[:i], *xs[i + 1 :]]
    return zero_wins(lambda t, *others: bind(op, *others[:i], t, *others[i:], **params), t, others)


def _no_partial(op: Elementwise, i: int) -> UnsupportedError:
    name = list(inspect.signature(op.partials).parameters)[i + 1]
    return UnsupportedError(
        f"{op.name!r} has no derivative with respect to its argument {name!r}; pass ad.stop_gradient({name}) if a constant "
        "is meant"
    )


def _or_zeros(t: Value | None, x: Value) -> Value:
    return zeros_of(Type.of(x)) if t is None else t


def _total(terms: Sequence[Value]) -> Value:
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def _times(g: Value, partial: Partial, values: Sequence[Value], params: dict[str, Any], product: Callable[..., Any]) -> Value:
    number = partial.number
    if number is None:
        return product(g, partial.function(*values, **params))
    if number != 1 and isinstance(g, np.ndarray) and is_repeated(g):  # as the cotangent of a sum is
        return np.broadcast_to(g.flat[0] * number, g.shape)
    return g if number == 1 else -g if number == -1 else g * number


# -- reverse: pull cotangents -----------------------------------------------------------------------------------


Pull = Callable[[Any, tuple[Any, ...], Sequence[Any], dict[str, Any]], Sequence[Any]]


class Plan(NamedTuple):
    """What reverse mode does for one op and one choice of differentiated arguments.

    wanted  which arguments are differentiated
    keep    what to save of (y, x0, x1, …): DROP, VALUE or TYPE
    pull    (g, saved, types, params) ↦ the cotangents of the differentiated arguments, in order
    quick   the same for plain arrays, with ordinary products: a zero cotangent times an infinite partial is nan
            there, so whoever calls it looks for nan afterwards; the very same function where no product is taken
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


def plan(op: Op, count: int, mask: int) -> Plan:
    """The plan for an op of `count` arguments, of which those in `mask` (a bit each) are differentiated."""
    key = (count, mask)
    found = op.derived.get(key)
    if found is None:
        found = _plan(op, count, [i for i in range(count) if mask >> i & 1])
        if count <= 4:  # a long concatenation has too many masks to remember
            op.derived[key] = found
    return found  # type: ignore[no-any-return]


def _plan(op: Op, count: int, wanted: list[int]) -> Plan:
    if isinstance(op, Elementwise):
        return _elementwise_plan(op, wanted)
    if isinstance(op, Linear):
        return _linear_plan(op, count, wanted)
    if isinstance(op, Opaque):
        return _opaque_plan(op, count, wanted)
    if isinstance(op, Structured):
        return _structured_plan(op, count, wanted)
    raise UnsupportedError(f"{op.name!r} has no derivative")


def _elementwise_plan(op: Elementwise, wanted: list[int]) -> Plan:
    partials = [split(op)[i] for i in wanted]
    for i, partial in zip(wanted, partials, strict=True):
        if partial.missing:
            raise _no_partial(op, i)
    keep = tuple(map(int, np.any([p.needs for p in partials], axis=0)))
    product = absorb if op.choice else chain

    def pull(g: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        either = absorb if op.choice or (can_mask and _has_zeros(factor(saved, 0))) else chain
        saved = trusted(saved, types)
        return [
            None if partial.number == 0 else fit(_times(g, partial, saved, params, either), t)
            for partial, t in zip(partials, types, strict=True)
        ]

    def careful(g: Any, origin: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        results, read = [], trusted(saved, types)
        for i, (partial, t) in enumerate(zip(partials, types, strict=True)):
            masked = functools.partial(_product, product, origin, functools.partial(factor, saved, i) if can_mask else None)
            results.append(None if partial.number == 0 else fit(_times(g, partial, read, params, masked), t))
        return results

    def trusted(saved: Any, parents: Any) -> Any:
        return doubted(op, saved, wanted, lambda k: _is_computed(parents[wanted.index(k)]))

    def factor(saved: Any, i: int) -> Any:
        """What is zero where the partial is a zero of a mask."""
        if op.choice:
            return partials[i].function(*saved)
        return saved[2 - wanted[0]] if op.name == "mul" else saved[2]  # a constant factor; the exponent of x**0

    def masks(saved: Any, i: int) -> Any:
        return equal(factor(saved, i), 0)

    can_mask = op.choice or (op.name == "mul" and len(wanted) == 1) or (op.name == "power" and wanted == [0])
    traced = all(partial.lines or partial.result or partial.number is not None for partial in partials)
    return Plan(
        tuple(wanted), keep, pull, _quick_pull(op, partials) if traced else pull, None, careful, masks if can_mask else None
    )


def _product(product: Callable[..., Any], origin: Any, factor: Callable[[], Any] | None, g: Value, p: Value) -> Value:
    """Cotangent times partial: a zero wins if it is that of a mask, in the cotangent by its origin, or in a constant factor."""
    a, b = numbers(g), numbers(p)
    if a is None or b is None:  # written down without numbers
        if product is not chain:
            return product(g, p)
        if factor is not None and _has_zeros(factor()):
            return absorb(g, p)
        if origin.mask is None:
            return chain(g, p)
        return g * p if origin.mask is True else where(origin.mask, g * p, 0.0)
    if is_finite(a) and is_finite(b):
        return product(g, p)
    masked, live = None if factor is None else factor(), origin.live_in(g)
    dead = False if live is None else logical_not(live)
    return product_of_live(g, p, dead if masked is None else logical_or(dead, equal(masked, 0)))


def doubted(op: Elementwise, values: Sequence[Any], wanted: Sequence[int], is_computed: Callable[[int], bool]) -> Sequence[Any]:
    """What partials read of (y, x0, …), with nan where an argument was computed and is infinite, if a partial would be 0 there.

    For a program that is written down, where nobody hears of an overflow: an infinity counts as one unless it was given.
    """
    if op.name == "power" and (exponent := numbers(values[2])) is not None and np.all(np.greater_equal(exponent, 1)):
        return values  # its slope grows
    slow = [d for i in wanted for d in decays(op)[i] if not d.fast and d.by in wanted and is_computed(d.by)]
    reads = {r for d in slow for r in d.reads if numbers(values[r]) is None}
    # Only y, of 1/x, is zero there.
    lost = {r: equal(values[r], 0) if r == 0 and op.name == "reciprocal" else isinf(values[r]) for r in reads}
    return [where(lost[r], np.nan, x) if r in lost else x for r, x in enumerate(values)] if lost else values


_MOVES = frozenset({"broadcast_to", "getitem", "reshape", "transpose"})


def _is_computed(node: Any) -> bool:
    """Whether the value of a node is a result of arithmetic, and not elements of an input."""
    if isinstance(node, Type):  # nothing more is known of it
        return False
    while node.op is not None and node.op.name in _MOVES:
        node = node.parents[0]
    return node.op is not None


class Decay(NamedTuple):
    """A partial is 0 where argument `by` is infinite, and the values `reads` of (y, x0, …) are; or 0, as y = 1/x is.

    If `fast`, faster than any power, as the slopes of exp and tanh are: then it is 0 at any large number too.
    """

    by: int
    reads: tuple[int, ...]
    fast: bool


def decays(op: Elementwise) -> tuple[tuple[Decay, ...], ...]:
    """How the partials of an op, one by one, decay at infinity: found by computing them there; not of special functions."""
    if "decays" not in op.derived:
        known = op.home == absorb_op.home and op.name != "ldexp"  # which takes a whole number
        with np.errstate(all="ignore"):
            op.derived["decays"] = tuple(tuple(_decays(op, partial)) if known else () for partial in split(op))
    return op.derived["decays"]  # type: ignore[no-any-return]


def _decays(op: Elementwise, partial: Partial) -> Iterator[Decay]:
    if partial.number is not None or partial.missing:
        return
    for k, size in itertools.product(range(op.arity), (1.0, -1.0)):
        slopes = []
        for x in (1e3 * size, math.inf * size):
            xs = [np.float64(x if i == k else 0.5) for i in range(op.arity)]
            values = (op.impl(*xs), *xs)
            slopes.append(partial.function(*values))
        if slopes[1] == 0:
            reads = [r for r, v in enumerate(values) if partial.needs[r] and (np.isinf(v) or v == 0)]
            yield Decay(k, tuple(reads), bool(abs(slopes[0]) < 1e-100))


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


def _transposes(op: Linear, count: int) -> tuple[Callable[..., Any] | None, ...]:
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


def _linear_plan(op: Linear, count: int, wanted: list[int]) -> Plan:
    rules = _transposes(op, count)
    if op.together:
        return _together_plan(op, count, wanted)
    if op in (chain_op, absorb_op, times_op):
        return _product_plan(op, wanted)
    chosen = [(i, rules[i]) for i in wanted]
    for i, rule in chosen:
        if rule is None:
            raise UnsupportedError(f"{op.name!r} has no derivative with respect to its argument {i}")
    by_itself = isinstance(op, Multilinear)
    keep = [DROP]
    for j in range(count):
        if rules[j] is None or (by_itself and any(i != j for i in wanted)):
            keep.append(VALUE)
        else:
            keep.append(DROP if wanted == [j] else TYPE)  # a lone argument's type comes with the call

    def quick(g: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        result = []
        for (i, rule), t in zip(chosen, types, strict=True):
            operands = list(saved[1:])
            operands[i] = t
            result.append(fit(rule(g, *operands, **params), t))  # type: ignore[misc]
        return result

    def pull(g: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        result = []
        for (i, rule), t in zip(chosen, types, strict=True):
            before, after = saved[1 : i + 1], saved[i + 2 :]
            apply = _filled(rule, t, i, params)  # type: ignore[arg-type]
            result.append(fit(zero_wins(apply, g, [*before, *after]), t))
        return result

    def careful(g: Any, origin: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        result = []
        for (i, rule), t in zip(chosen, types, strict=True):
            apply = _filled(rule, t, i, params)  # type: ignore[arg-type]
            result.append(fit(zero_wins(apply, g, [*saved[1 : i + 1], *saved[i + 2 :]], origin.live_in), t))
        return result

    return Plan(tuple(wanted), tuple(keep), pull if by_itself else quick, quick, op.into, careful if by_itself else None)


def _product_plan(op: Linear, wanted: list[int]) -> Plan:
    """A product of the chain rule, differentiated again: of one factor the derivative is the other."""
    keep = (DROP, VALUE if 1 in wanted else TYPE, VALUE if 0 in wanted else TYPE)

    again = times_op if op is times_op else absorb_op

    def factor(saved: Any, i: int) -> Any:
        # A zero cotangent has ended the product, whichever it was; a zero partial only if it is one of a mask.
        is_mask = op is absorb_op or (op is chain_op and wanted[i] == 1)
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
            fit(_product(again, origin, functools.partial(factor, saved, k), h, saved[2 - i]), t)
            for k, (i, t) in enumerate(zip(wanted, types, strict=True))
        ]

    return Plan(tuple(wanted), keep, pull, quick, None, careful, masks)


def _filled(rule: Callable[..., Any], t: Any, i: int, params: dict[str, Any]) -> Callable[..., Any]:
    return lambda g, *others: rule(g, *others[:i], t, *others[i:], **params)


def _together_plan(op: Linear, count: int, wanted: list[int]) -> Plan:
    def pull(g: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        cotangents = op.transposes(g, *saved[1:], **params)
        return [fit(cotangents[i], t) for i, t in zip(wanted, types, strict=True)]

    return Plan(tuple(wanted), (DROP, *(TYPE,) * count), pull, pull)


def _opaque_plan(op: Opaque, count: int, wanted: list[int]) -> Plan:
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

    return Plan(tuple(wanted), keep, pull, pull)


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
        return shape_of(x.value)

    def concrete(self, x: Traced, what: str) -> Any:
        self.read.add(x.aux)
        return x.value


def _reads(op: Opaque, count: int) -> set[int]:
    """Which of (y, x0, x1, …) the reverse rule reads, found by running it on the op's samples; all if there are none."""
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


def _structured_plan(op: Structured, count: int, wanted: list[int]) -> Plan:
    """For whoever has only the results: the op runs again with its residuals. A tape asks for both at once instead."""
    flags = tuple(i in wanted for i in range(count))

    def pull(gs: Any, saved: Any, types: Any, params: dict[str, Any]) -> Any:
        _, residuals, back = op.vjp(saved[1:], flags, params)
        return back(gs, residuals)

    return Plan(tuple(wanted), (DROP, *(VALUE,) * count), pull, pull)


# -- batched form and type rule ---------------------------------------------------------------------------------


def batched(op: Op, flags: tuple[bool, ...], args: Sequence[Value], params: dict[str, Any]) -> Value:
    """Run an op on values of which some (`flags`) carry a batch axis in front; the result carries one too."""
    if op.batch is not None:
        return op.batch(flags, *args, **params)
    if op.axes is None:
        raise UnsupportedError(f"no batching rule for {op.name!r}; wrap it in ad.map or declare batch= or axes=")
    if op.axes:  # every argument gets the batch axis, and each axis moves on by one
        moved = {name: _moved(params[name]) for name in op.axes}
        return bind(op, *(args if all(flags) else all_batched(flags, tuple(args))), **{**params, **moved})
    ndim = max(ndim_of(x) - flag for x, flag in zip(args, flags, strict=True))
    if any(flag and ndim_of(x) <= ndim for x, flag in zip(args, flags, strict=True)):
        args = align_all(flags, tuple(args))
    return bind(op, *args, **params)


def _moved(axis: Any) -> Any:
    """An axis, or several, once a batch axis stands in front; a negative one counts from the end as before."""
    if isinstance(axis, tuple):
        return tuple(map(_moved, axis))
    return axis + 1 if axis >= 0 else axis


def type_rule(op: Op, types: Sequence[Type], params: dict[str, Any], numbers: Sequence[Any] | None = None) -> Any:
    """The type of the result: a `Type`, or a tuple of them for an op with several results.

    `numbers` holds the Python numbers among the arguments, None elsewhere: they are weak in promotion.
    """
    try:
        key = tuple(types), tuple(map(_weight, numbers or ())), tuple(map(_frozen, params.items()))
    except _NoKeyError:
        return _infer(op, types, params, numbers)
    known = op.derived.get("types")
    if known is None or len(known) > _REMEMBERED:
        known = op.derived["types"] = {}
    found = known.get(key)
    if found is None:
        found = known[key] = _infer(op, types, params, numbers)
    return found


def _infer(op: Op, types: Sequence[Type], params: dict[str, Any], numbers: Sequence[Any] | None) -> Any:
    """Found by running the batched form on a batch of no examples: there is nothing to compute."""
    if isinstance(op, Structured):
        return op.types(types, params)
    numbers = numbers or [None] * len(types)
    flags = tuple(number is None for number in numbers)
    args = [np.empty((0, *t.shape), t.dtype) if n is None else n for t, n in zip(types, numbers, strict=True)]
    if not any(flags):
        flags, args = (True,) * len(types), [np.empty((0, *t.shape), t.dtype) for t in types]
    try:
        result = batched(op, flags, args, params)
    except ValueError as error:  # its words are about arrays with one axis more
        shapes = ", ".join(str(t.shape) for t in types)
        reason = "they do not broadcast" if isinstance(op, Elementwise) else str(error)
        raise ShapeError(f"{op.name} does not take arguments of the shapes {shapes}: {reason}") from error
    if op.many:
        return tuple(Type(shape_of(part)[1:], part.dtype) for part in result)
    return Type(shape_of(result)[1:], result.dtype)


_REMEMBERED = 1 << 12  # types of results, for each op
_PLAIN = frozenset({bool, int, float, complex, str, type(None), type(...)})


class _NoKeyError(Exception):
    """A parameter that is not a plain value."""


def _weight(number: Any) -> Any:
    """What promotion looks at: of a Python integer also its size."""
    return (int, number) if type(number) is int else type(number)


def _frozen(value: Any) -> Any:
    """A parameter as part of a key. Functions, graphs and arrays are not kept alive for it."""
    kind = type(value)
    if kind is tuple:
        return tuple(map(_frozen, value))
    if kind in _PLAIN:
        return kind, value
    if isinstance(value, np.dtype):
        return value
    if kind is slice:
        return slice, _frozen(value.start), _frozen(value.stop), _frozen(value.step)
    raise _NoKeyError


__all__ = [
    "DROP",
    "TYPE",
    "VALUE",
    "Decay",
    "Partial",
    "Plan",
    "batched",
    "decays",
    "doubted",
    "plan",
    "push",
    "split",
    "type_rule",
]
