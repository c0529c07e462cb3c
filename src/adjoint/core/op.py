"""An operation: its name, its NumPy implementation, and the one declaration of its derivative.

The kinds differ in what that declaration is. `derive.py` turns it into a JVP, a VJP, a batched form
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
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .bind import bind, is_array

Rule = Callable[..., Any]


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


def case(*args: Any, **params: Any) -> Case:
    """A sample call: a tuple of ints is a shape to draw from the op's domain, the rest is used unchanged."""
    return Case(args, params)


class Op:
    """A named operation. Calling it runs it under the interpreters of its arguments."""

    kind = "op"

    def __init__(
        self,
        name: str,
        impl: Callable[..., Any],
        *,
        batch: Rule | None = None,
        domain: Any = (-2.0, 2.0),
        cases: Iterable[Case] = (),
        doc: str = "",
        complex_domain: bool = False,
        many: bool = False,
        into: Rule | None = None,
        no_axes: str = "scalar",
    ) -> None:
        self.name = name
        self.impl = impl
        self.batch = batch
        self.domain = domain
        self.cases = tuple(cases)
        self.many = many  # returns a tuple of arrays
        self.into = into  # adds the transpose to an array in place, touching only the elements read
        self.no_axes = no_axes  # the kind of a 0-d result in NumPy: "scalar", "array", or "same" as the first argument
        self.complex_domain = complex_domain  # the tests draw complex samples too
        self.doc = doc
        self.home = ""  # the module that declares it
        self.derived: dict[Any, Any] = {}  # rules derived by derive, by key

    def __call__(self, *args: Any, **params: Any) -> Any:
        return bind(self, *args, **params)

    def gives_array(self, args: Sequence[Any]) -> bool:
        """Whether a 0-d result is an array; `reshape` gives one, a ufunc gives a scalar."""
        return self.no_axes != "scalar" and (self.no_axes == "array" or is_array(args[0]))

    def __repr__(self) -> str:
        return f"<{self.kind} op {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _lookup, (self.name, self.home)


class Elementwise(Op):
    """Applied per element with NumPy broadcasting; `partials(y, *xs)` returns one partial per argument."""

    kind = "elementwise"

    def __init__(
        self, name: str, impl: Callable[..., Any], partials: Any, arity: int, *, choice: bool = False, **options: Any
    ) -> None:
        super().__init__(name, impl, **options)
        self.partials = partials
        self.arity = arity
        self.choice = choice  # selects one of its arguments: a partial of 0 means that it was not selected
        self.run: Callable[..., Any] = functools.partial(bind, self)  # may be replaced by a faster recorder

    def __call__(self, *args: Any, **params: Any) -> Any:
        return bind(self, *args, **params) if params else self.run(*args)


class Linear(Op):
    """Linear in the arguments that have a transpose, all together; other arguments are data (an index, a mask).

    `transposes[i](g, *xs, **params)` gets the *types* of the linear arguments and the values of the rest. With
    `together`, one rule returns the cotangents of all arguments, which are all linear (concatenate, stack).
    """

    kind = "linear"

    def __init__(self, name: str, impl: Callable[..., Any], transposes: Any, *, together: bool = False, **options: Any) -> None:
        super().__init__(name, impl, **options)
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
    """

    split: Rule
    vjp: Rule


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
        jvp: Rule | None,
        vjp: Rule | None,
        limit: Limit | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name, impl, **options)
        self.jvp = jvp
        self.vjp = vjp
        self.limit = limit


class Constant(Op):
    """Piecewise constant: comparisons, floor, sign, argmax. The result is a plain value."""

    kind = "constant"


class Structured(Op):
    """Has graphs among its parameters: a loop, a branch. `transform/` derives its rules from those graphs.

    types(types, params)     the types of the results
    jvp(xs, ts, params)      (results, their tangents), found together; None for a tangent that is zero
    vjp(xs, wanted, params)  (results, residuals, pull): pull(cotangents, residuals) gives those of the wanted arguments

    `returning` names the graphs whose outputs are the results: an unused one can be dropped from both, unless it is among the
    first `lasting(params)`, which the op itself reads.
    """

    kind = "structured"

    def __init__(
        self, name: str, impl: Callable[..., Any], types: Rule, returning: Sequence[str], lasting: Rule, **options: Any
    ) -> None:
        super().__init__(name, impl, many=True, **options)
        self.types = types
        self.returning = tuple(returning)
        self.lasting = lasting
        self.jvp: Rule = functools.partial(_no_rules, name)
        self.vjp: Rule = functools.partial(_no_rules, name)


def _no_rules(name: str, *args: Any) -> Any:
    raise NotImplementedError(f"the rules of {name!r} are supplied by adjoint.transform, which is not loaded")


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


def _lookup(name: str, home: str) -> Op:
    """An op by its name, for unpickling; the module that declares it is imported if necessary."""
    if name not in OPS:
        importlib.import_module(home)
    return OPS[name]
