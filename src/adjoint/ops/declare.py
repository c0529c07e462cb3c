"""How an op is declared: one call, one line of mathematics, and the facts that differ from the default (see `core.op.Op`).

    sin = elementwise("sin", np.sin, partials=lambda y, x: (cos(x),), parity="odd")
    cumsum = linear("cumsum", np.cumsum, transpose=lambda g, x, *, axis: ..., axes="axis")

Rules are written in ops (or NumPy calls and operators, which reach the same ops), never in raw numbers, so a
derivative can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..core.op import (
    Constant,
    Elementwise,
    Limit,
    Linear,
    Multilinear,
    Op,
    Opaque,
    OpRule,
    Structured,
    positional_count,
    register,
)

_Op = TypeVar("_Op", bound=Op)


def elementwise(name: str, impl: Callable[..., Any], partials: OpRule | tuple[OpRule, ...], **facts: Any) -> Elementwise:
    """An op applied per element with broadcasting. `partials(y, *xs)` returns ∂y/∂x for every argument.

    A partial that is None says that there is no derivative by that argument: tracing it raises.
    """
    rule = partials[0] if isinstance(partials, tuple) else partials
    facts["doc"] = facts.get("doc") or impl.__doc__ or ""
    return _entered(Elementwise(name, impl, partials, positional_count(rule) - 1, **facts))


def linear(
    name: str, impl: Callable[..., Any], transpose: OpRule | tuple[OpRule | None, ...], *, together: bool = False, **facts: Any
) -> Linear:
    """A linear op. `transpose(g, *xs, **params)`, one per linear argument, None for an argument that is data.

    With `together`, a single function returns the cotangents of all arguments, however many.
    """
    return _entered(Linear(name, impl, transpose, together=together, **facts))


def multilinear(name: str, impl: Callable[..., Any], transpose: OpRule | tuple[OpRule | None, ...], **facts: Any) -> Multilinear:
    """An op linear in each argument alone, such as a product. `transpose` as for `linear`."""
    return _entered(Multilinear(name, impl, transpose, **facts))


def opaque(
    name: str,
    impl: Callable[..., Any],
    *,
    jvp: OpRule | None = None,
    vjp: OpRule | None = None,
    limit: Limit | None = None,
    **facts: Any,
) -> Opaque:
    """An op with its own `jvp(tangents, y, *xs, **params)` and `vjp(g, y, *xs, **params)`."""
    return _entered(Opaque(name, impl, jvp, vjp, limit, **facts))


def constant(name: str, impl: Callable[..., Any], **facts: Any) -> Constant:
    """An op whose derivative is zero wherever it has one. It acts per element unless `axes` or `batch` says otherwise."""
    return _entered(Constant(name, impl, **facts))


def structured(
    name: str,
    impl: Callable[..., Any],
    *,
    types: OpRule,
    returning: Iterable[str] = (),
    lasting: OpRule = lambda params: 0,
    carries: OpRule = lambda params: (),
    shortened: OpRule = lambda params, dropped: params,
    **facts: Any,
) -> Structured:
    """An op that holds graphs as parameters; `transform/` supplies the rules that it derives from them, and the cases."""
    return _entered(Structured(name, impl, types, tuple(returning), lasting, carries, shortened, **facts))


def _entered(op: _Op) -> _Op:
    register(op)
    return op


def shift(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The same axes with a batch axis in front."""
    return tuple(a + 1 for a in axes)
