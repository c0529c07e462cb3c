"""An operation: its name, its NumPy implementation, and the one declaration of its derivative.

The kinds differ in what that declaration is. `derive/` turns it into a JVP, a VJP, a batched form
and a type rule; nothing here computes a derivative.

============  ==================================  ==================================================
kind          declares                            meaning
============  ==================================  ==================================================
Elementwise   `partials(y, *xs)`                  one number in, one number out, per element
Linear        `transpose(g, *xs, **params)`       f(ax + by) = a f(x) + b f(y)
Multilinear   `transpose`, one per argument       linear in each argument by itself
Opaque        `jvp` and `vjp`                     anything else; may return several arrays
Constant      nothing                             piecewise constant: the derivative is zero
Structured    nothing                             a loop or a branch: derived from its graphs
============  ==================================  ==================================================

A composite is a plain function written in other ops, so it needs no class.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import operator
import pkgutil
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .bind import Trace, Traced, bind, is_array
from .errors import UnsupportedError
from .locks import cached

OpRule = Callable[..., Any]  # a function of a declaration: a derivative, a batching rule, a rule of types


class Case(NamedTuple):
    """One sample call of an op: shapes (or ready arrays) of the arguments, and parameters."""

    args: tuple[Any, ...]
    params: dict[str, Any]

    def draw(self, domain: Any, rng: np.random.Generator, dtype: Any = float) -> list[Any]:
        """The arguments: those given by their shape are drawn from the domain, one interval for all or one per argument."""
        intervals = domain if isinstance(domain[0], tuple) else (domain,) * len(self.args)
        return [
            _draw(interval, a, rng, dtype) if isinstance(a, tuple) else a
            for interval, a in zip(intervals, self.args, strict=False)
        ]


def _draw(interval: tuple[float, float], shape: tuple[int, ...], rng: np.random.Generator, dtype: Any) -> Any:
    x = rng.uniform(*interval, size=shape)
    return np.asarray(x + 1j * rng.uniform(0.1, 0.4, size=shape) if np.dtype(dtype).kind == "c" else x, dtype)


def positional_count(function: Callable[..., Any]) -> int:
    """How many arguments a function takes by position."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional for p in inspect.signature(function).parameters.values())


def case(*args: Any, **params: Any) -> Case:
    """A sample call: a tuple of ints is a shape to draw from the op's domain, the rest is used unchanged."""
    return Case(args, params)


class LateCases(Sequence[Case]):
    """Sample calls that are made when they are first read: those of loops have graphs, which take time to parse."""

    def __init__(self, make: Callable[[], Iterable[Case]]) -> None:
        self._make = make

    @functools.cached_property
    def _made(self) -> tuple[Case, ...]:
        return tuple(self._make())

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, i: Any) -> Any:
        return self._made[i]


#: Python's operators, by their functions.
_OPERATORS: dict[Any, str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.neg: "-", operator.pos: "+",
    operator.mod: "%", operator.floordiv: "//", operator.lshift: "<<", operator.rshift: ">>",
    operator.and_: "&", operator.or_: "|", operator.xor: "^",
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip


def _operator(impl: Any) -> str:
    return _OPERATORS.get(impl, "") if isinstance(impl, types.BuiltinFunctionType) else ""  # others need not have a hash


class Op:
    """A named operation. Calling it runs it under whatever interpreters its arguments carry.

    Besides the mathematics, a declaration states the facts below where they differ from the default.
    """

    kind = "op"

    # In vmap: the names of the parameters that are axes; each is one more behind a batch axis. If none is, (), further axes
    # in front are independent examples. None if this is not known: then there is `batch(flags, *args, **params)`, on
    # arguments with a batch axis in front where the flag is true.
    axes: str | tuple[str, ...] | None = None
    batch: OpRule | None = None
    # Samples for the tests: an interval, or one for each argument; whether complex ones are drawn too; whole calls.
    domain: Any = (-2.0, 2.0)
    complex_domain: bool = False
    cases: Iterable[Case] = ()
    doc: str = ""
    many: bool = False  # returns a tuple of arrays
    choice: bool = False  # selects among its elements: a partial of 0 means that one was not selected
    into: OpRule | None = None  # adds the transpose to an array in place, touching only what it must
    no_axes: str = "scalar"  # what NumPy gives as a result without axes: "scalar", "array", or "same" as the first argument
    commutative: bool = False  # op(a, b) is op(b, a)
    parity: str = ""  # "odd" or "even", of a function of one number
    finite: bool = False  # finite wherever its arguments are, unless the result overflows
    silent: bool = False  # NumPy does not tell when it overflows
    may_fail: bool = False  # raises for some numbers: a matrix that is singular, an index out of bounds
    typed_by_value: bool = False  # the result is complex for some numbers, and real for others
    indexed: bool = False  # has a basic index, `spec`, whose integers differ from equation to equation
    # In compiled code: an expression in other ops, or the word of `compiler.lower.scalar` if that is not the name.
    scalar: str | OpRule | None = None
    # In formulas: Python's operator (derived from an implementation that is one), another name, and LaTeX: a name, or a
    # formula in which #1, #2, … stand for the arguments.
    infix: str = ""
    symbol: str = ""
    latex: str = ""
    # In Python source: a name, an expression in which {0}, {1}, … and {parameter} stand for the arguments, or "def" if the
    # implementation needs NumPy alone. Derived from an implementation that is NumPy's or SciPy's.
    python: str = ""

    def __init__(self, name: str, impl: Callable[..., Any], **facts: Any) -> None:
        self.name = name
        self.impl = impl
        for fact, value in facts.items():
            if fact not in _FACTS:
                raise TypeError(f"the op {name!r} is declared with {fact}=, which is not a fact about an op: {', '.join(_FACTS)}")
            setattr(self, fact, value)
        self.axes = (self.axes,) if isinstance(self.axes, str) else self.axes
        self.cases = tuple(self.cases)
        self.infix = self.infix or _operator(impl)
        self.symbol = self.symbol or name
        self.home = ""  # the module that declares it
        self.derived: dict[Any, Any] = {}  # rules derived by derive, by key

    @cached
    def cost(self) -> int:
        """About how long an element takes, in additions, unless declared: of an expression in other ops, as long as they do."""
        if not callable(self.scalar):
            return 1 if _operator(self.impl) else 20  # a function such as exp
        costs: list[int] = []
        Expansion(lambda op, args, params: costs.append(op.cost)).run(self.scalar, range(getattr(self, "arity", None) or 1))
        return sum(costs)

    def __call__(self, *args: Any, **params: Any) -> Any:
        return bind(self, *args, **params)

    def gives_array(self, args: Sequence[Any]) -> bool:
        """Whether a 0-d result is an array; `reshape` gives one, a ufunc gives a scalar."""
        return self.no_axes != "scalar" and (self.no_axes == "array" or is_array(args[0]))

    def __repr__(self) -> str:
        return f"<{self.kind} op {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _lookup, (self.name, self.home)


_FACTS = (*Op.__annotations__, "cost", "terms")


class Elementwise(Op):
    """Applied per element with NumPy broadcasting; `partials(y, *xs)` returns one partial per argument."""

    kind = "elementwise"
    axes = ()

    def __init__(self, name: str, impl: Callable[..., Any], partials: Any, arity: int, **facts: Any) -> None:
        super().__init__(name, impl, **facts)
        self.partials = partials
        self.arity = arity
        self.run: Callable[..., Any] = functools.partial(bind, self)  # may be replaced by a faster recorder

    def __call__(self, *args: Any, **params: Any) -> Any:
        return bind(self, *args, **params) if params else self.run(*args)


class Linear(Op):
    """Linear in the arguments that have a transpose, all together; other arguments are data (an index, a mask).

    `transposes[i](g, *xs, **params)` gets the *types* of the linear arguments and the values of the rest. With
    `together`, one rule returns the cotangents of all arguments, which are all linear (concatenate, stack).
    """

    kind = "linear"
    finite = True
    # What an element of the result is: "moved", one of an argument, or 0; "added", a sum of such, or of products, without signs.
    terms: str = ""

    def __init__(self, name: str, impl: Callable[..., Any], transposes: Any, *, together: bool = False, **facts: Any) -> None:
        super().__init__(name, impl, **facts)
        self.transposes = transposes
        self.together = together


class Multilinear(Linear):
    """Linear in each argument alone. `transposes[i]` gets the type of argument i and the values of the others."""

    kind = "multilinear"


class Limit(NamedTuple):
    """The derivative of a decomposition at repeated eigenvalues, as the limit from a matrix whose eigenvalues differ.

    split(y, **params)          how each result changes with ε, which separates equal eigenvalues: zeros if there are none;
                                None for a result that does not change
    vjp(g, dg, y, *xs, **params)  the cotangents in the limit ε → 0, from those of the results and their derivatives by ε
    rotate(y, *xs, **params)    results with other vectors of the same spaces
    """

    split: OpRule
    vjp: OpRule
    rotate: OpRule


class Opaque(Op):
    """Brings its own `jvp(tangents, y, *xs, **params)` and `vjp(g, y, *xs, **params)`.

    A tangent is None where an argument is constant; a cotangent returned as None contributes nothing. An argument that `vjp`
    does not read in any of the op's `cases` is not saved for it: a rule with branches needs a case for each.
    """

    kind = "opaque"

    def __init__(
        self,
        name: str,
        impl: Callable[..., Any],
        jvp: OpRule | None,
        vjp: OpRule | None,
        limit: Limit | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(name, impl, **facts)
        self.jvp = jvp
        self.vjp = vjp
        self.limit = limit


class Constant(Op):
    """Piecewise constant: comparisons, floor, sign, argmax. The result is a plain value."""

    kind = "constant"
    finite = True
    axes = ()

    @cached
    def arity(self) -> int | None:
        """The number of arguments; None if that is not known."""
        return self.impl.nin if isinstance(self.impl, np.ufunc) else positional_count(self.impl) or None


class Pull:
    """The backward step of a loop or a branch.

    run(cotangents, residuals, masks) gives the cotangents of the wanted arguments, and their masks. The mask of a cotangent tells
    where it is live, an array of bools, or True; elsewhere its zeros are strong (docs/adr/0001-the-zero-of-a-mask-wins.md).
    None stands for the mask of which nothing is known: every zero counts as one of a mask. Without masks at all, products are
    ordinary ones, and the masks of what it gives are not found.
    """

    def __init__(self, run: Callable[[Any, Any, Any], tuple[Any, Any]]) -> None:
        self.run = run

    def __call__(self, cotangents: Any, residuals: Any) -> Any:
        return self.run(cotangents, residuals, [None] * len(cotangents))[0]


class Carry(NamedTuple):
    """Where a carry of a loop stands: its result, its operands, and in each graph its inputs and its output, if it has one."""

    result: int
    operands: tuple[int, ...]
    graphs: dict[str, tuple[tuple[int, ...], int | None]]


class Structured(Op):
    """Has graphs among its parameters: a loop, a branch. `transform/` derives its rules from those graphs.

    types(types, params)     the types of the results
    jvp(xs, ts, params)      (results, their tangents), found together; None for a tangent that is zero. If it
                             `masks_tangents`, it also takes the masks of the tangents, and gives those of the results
    vjp(xs, wanted, params)  (results, residuals, pull): pull(cotangents, residuals) gives those of the wanted arguments; a `Pull`
                             also takes and gives the masks of cotangents

    `returning` names the graphs whose outputs are the results: an unused one can be dropped from both, unless it is among the
    first `lasting(params)`, which the op itself reads. `carries(params)` tells of those carries that can be dropped if nothing
    but their own next iteration reads them, and `shortened(params, dropped)` gives the other parameters without them. The inputs
    of all graphs are the operands from number `given` on, if that is not None: an operand that no graph reads can be dropped.
    """

    kind = "structured"
    many = True

    def __init__(
        self,
        name: str,
        impl: Callable[..., Any],
        types: OpRule,
        returning: Sequence[str],
        lasting: OpRule,
        carries: OpRule,
        shortened: OpRule,
        given: int | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(name, impl, **facts)
        self.given = given
        self.types = types
        self.returning = tuple(returning)
        self.lasting, self.carries, self.shortened = lasting, carries, shortened
        self.masks_tangents = False
        self.jvp: OpRule = functools.partial(_no_rules, name)
        self.vjp: OpRule = functools.partial(_no_rules, name)


def _no_rules(name: str, *args: Any) -> Any:
    raise NotImplementedError(f"the rules of {name!r} are supplied by adjoint.transform, which is not loaded")


_SAMPLE = np.float64(0.5)  # stands for an argument where a dtype is asked for


class Expansion(Trace):
    """Runs the expression that an op is in other ops (`scalar`) on what stands for its arguments: lines of code, texts.

    `apply(op, args, params)` is one op of it; among the args a `Traced` carries such a thing as its `aux`, the rest are numbers.
    """

    __slots__ = ("apply",)
    has_numbers = False

    def __init__(self, apply: Callable[[Op, tuple[Any, ...], dict[str, Any]], Any]) -> None:
        super().__init__("expansion")
        self.apply = apply

    def run(self, expression: Callable[..., Any], operands: Iterable[Any]) -> Any:
        return expression(*[Traced(self, _SAMPLE, x) for x in operands]).aux

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Traced:
        with np.errstate(all="ignore"):
            sample = op.impl(*[a.underlying if isinstance(a, Traced) else a for a in args], **params)
        return Traced(self, sample, self.apply(op, args, params))

    def shape(self, x: Traced) -> tuple[int, ...]:
        return ()

    def is_array(self, x: Traced) -> bool:
        return True  # nothing has to make it one

    def concrete(self, x: Traced, what: str) -> Any:
        raise UnsupportedError(f"the scalar= of an op asks for {what} a value; it is an expression: choose with np.where")


OPS: dict[str, Op] = {}


_DECLARING = frozenset({__name__, "adjoint.ops.declare", "adjoint.ops.lazy", "adjoint.extend"})


def register(op: Op) -> Op:
    """Add an op to the table. Names are unique: a second op of the same name is refused. (`extend` removes the first one
    before.)"""
    if op.name in OPS:
        raise ValueError(f"an op named {op.name!r} exists already")
    OPS[op.name] = op
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _DECLARING:
        frame = frame.f_back
    op.home = frame.f_globals.get("__name__", "")
    return op


def find(name: str) -> Op | None:
    """An op by its name alone, for text. Most of the table is loaded when it is needed; an unknown name loads all of it."""
    if name not in OPS:
        package = importlib.import_module("adjoint.ops")
        for module in pkgutil.iter_modules(package.__path__, "adjoint.ops."):
            importlib.import_module(module.name)
        importlib.import_module("adjoint.scipy.family")
    return OPS.get(name)


def _lookup(name: str, home: str) -> Op:
    """An op by its name, for unpickling; the module that declares it is imported if necessary."""
    if name not in OPS:
        importlib.import_module(home)
    return OPS[name]
