"""How an op is declared: one call, one line of mathematics.

    sin = elementwise("sin", np.sin, partials=lambda y, x: (cos(x),))
    sum_ = linear("sum", np.sum, transpose=lambda g, x, *, axis: ...)

Rules are written in ops (or NumPy calls and operators, which reach the same ops), never in raw numbers, so a
derivative can be differentiated again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ..core.op import Case, Constant, Elementwise, Limit, Linear, Multilinear, Opaque, Structured, register

RuleFunction = Callable[..., Any]


def elementwise(
    name: str,
    impl: Callable[..., Any],
    partials: RuleFunction | tuple[RuleFunction, ...],
    *,
    domain: Any = (-2.0, 2.0),
    cases: Iterable[Case] = (),
    complex_domain: bool = False,
    choice: bool = False,
    doc: str = "",
) -> Elementwise:
    """An op applied per element with broadcasting. `partials(y, *xs)` returns ∂y/∂x for every argument.

    A partial of None means that there is no derivative by that argument: tracing it raises.
    """
    rule = partials[0] if isinstance(partials, tuple) else partials
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    arity = sum(p.kind in positional for p in inspect.signature(rule).parameters.values()) - 1
    doc = doc or impl.__doc__ or ""
    op = Elementwise(
        name, impl, partials, arity, choice=choice, domain=domain, cases=cases, complex_domain=complex_domain, doc=doc
    )
    register(op)
    return op


def linear(
    name: str,
    impl: Callable[..., Any],
    transpose: RuleFunction | tuple[RuleFunction | None, ...],
    *,
    batch: RuleFunction | None = None,
    domain: Any = (-2.0, 2.0),
    cases: Iterable[Case] = (),
    doc: str = "",
    into: RuleFunction | None = None,
    together: bool = False,
    no_axes: str = "scalar",
) -> Linear:
    """A linear op. `transpose(g, *xs, **params)`, one per linear argument, None for an argument that is data.

    With `together`, a single function returns the cotangents of all arguments. `no_axes` is the kind of a 0-d result in NumPy: a
    "scalar", an "array", or the "same" as the first argument.
    """
    op = Linear(
        name, impl, transpose, together=together, batch=batch, domain=domain, cases=cases, doc=doc, into=into, no_axes=no_axes
    )
    register(op)
    return op


def multilinear(
    name: str,
    impl: Callable[..., Any],
    transpose: RuleFunction | tuple[RuleFunction | None, ...],
    *,
    batch: RuleFunction | None = None,
    domain: Any = (-2.0, 2.0),
    cases: Iterable[Case] = (),
    doc: str = "",
) -> Multilinear:
    """An op linear in each argument alone, such as a product. `transpose` as for `linear`."""
    op = Multilinear(name, impl, transpose, batch=batch, domain=domain, cases=cases, doc=doc)
    register(op)
    return op


def opaque(
    name: str,
    impl: Callable[..., Any],
    *,
    jvp: RuleFunction | None = None,
    vjp: RuleFunction | None = None,
    batch: RuleFunction | None = None,
    domain: Any = (-2.0, 2.0),
    cases: Iterable[Case] = (),
    many: bool = False,
    complex_domain: bool = False,
    limit: Limit | None = None,
    doc: str = "",
) -> Opaque:
    """An op with its own `jvp(tangents, y, *xs, **params)` and `vjp(g, y, *xs, **params)`."""
    op = Opaque(
        name, impl, jvp, vjp, limit, batch=batch, domain=domain, cases=cases, many=many, complex_domain=complex_domain, doc=doc
    )
    register(op)
    return op


def constant(
    name: str,
    impl: Callable[..., Any],
    *,
    batch: RuleFunction | None = None,
    domain: Any = (-2.0, 2.0),
    cases: Iterable[Case] = (),
) -> Constant:
    """An op whose derivative is zero wherever it has one. `batch=None` means it acts per element."""
    op = Constant(name, impl, batch=batch, domain=domain, cases=cases)
    register(op)
    return op


def structured(
    name: str,
    impl: Callable[..., Any],
    *,
    types: RuleFunction,
    returning: Iterable[str] = (),
    lasting: RuleFunction = lambda params: 0,
    doc: str = "",
) -> Structured:
    """An op with graphs as parameters; `transform/` supplies the rules, derived from these, and the cases."""
    op = Structured(name, impl, types, tuple(returning), lasting, doc=doc)
    register(op)
    return op


def shift(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The same axes with a batch axis in front."""
    return tuple(a + 1 for a in axes)
