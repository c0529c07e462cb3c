"""Declare custom ops: you supply the derivative, `check_grads` checks it.

>>> softplus = elementwise("softplus", lambda x: np.log1p(np.exp(x)), partials=lambda y, x: (1 / (1 + np.exp(-x)),))
>>> softplus(0.0) == np.log(2)
np.True_

An op declared here works in every mode, at every order and under vmap, like those of `adjoint.ops`. Declaring one
name again replaces the op, as when a notebook cell is run twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..api.arguments import check_callable
from ..api.custom import custom_vjp
from ..api.custom_call import transpose
from ..core.errors import ArgumentError
from ..core.op import OPS, Elementwise, Linear, Multilinear, Opaque
from ..core.types import Type, Value, dtype_of, is_inexact, shape_of
from ..eager.record import quicken
from ..ops import declare

Function = Callable[..., Any]
_BUILT_IN = frozenset(OPS)


def _make_room(name: str, impl: Any) -> None:
    """Check a new op's name and function; remove an earlier custom op of that name."""
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"an op needs a name, got {name!r}")
    check_callable(impl, "extend")
    if name in _BUILT_IN:
        raise ArgumentError(f"{name!r} is the name of an op of adjoint; choose another")
    OPS.pop(name, None)


def elementwise(name: str, impl: Function, partials: Any, **options: Any) -> Elementwise:
    """An op per element. `partials(y, *xs)` returns a tuple: the derivative by each argument."""
    _make_room(name, impl)
    op = declare.elementwise(name, impl, partials, **options)
    quicken(op)
    return op


def linear(name: str, impl: Function, transpose: Any, **options: Any) -> Linear:
    """A linear op. `transpose(g, *xs, **params)` gets the types (shape, dtype) of its arguments.

    For vmap say with `axes=` which parameters are axes, () if none is and further axes in front are examples; or give
    `batch=`, a function of (flags, *args, **params): arguments with a true flag carry a batch axis in front, and the
    result must too.
    """
    _make_room(name, impl)
    return declare.linear(name, impl, transpose, **options)


def multilinear(name: str, impl: Function, transpose: Any, **options: Any) -> Multilinear:
    """An op linear in each argument alone. `transpose` is a tuple with one rule per argument."""
    _make_room(name, impl)
    return declare.multilinear(name, impl, transpose, **options)


def opaque(name: str, impl: Function, *, jvp: Function | None = None, vjp: Function | None = None, **options: Any) -> Opaque:
    """An op with a rule for `jvp(tangents, y, *xs, **params)`, for `vjp(g, y, *xs, **params)`, or both.

    The missing one is the transpose of the other. A tangent is None where an argument is constant.
    """
    if jvp is None and vjp is None:
        raise ArgumentError(f"the op {name!r} needs jvp= or vjp=")
    _make_room(name, impl)
    many = options.get("many", False)
    return declare.opaque(name, impl, jvp=jvp or _jvp_from(vjp, many), vjp=vjp or _vjp_from(jvp, many), **options)


def _vjp_from(jvp: Any, many: bool) -> Function:
    def vjp(g: Any, y: Any, *xs: Any, **params: Any) -> list[Any]:
        floats = [i for i, x in enumerate(xs) if is_inexact(dtype_of(x))]

        def push(ts: Any) -> Any:
            tangents: list[Any] = [None] * len(xs)
            for i, t in zip(floats, ts, strict=True):
                tangents[i] = t
            out = jvp(tangents, y, *xs, **params)
            return out if many else [out]

        pulled = transpose(push, [Type.of(xs[i]) for i in floats], g if many else [g])
        result: list[Any] = [None] * len(xs)
        for i, part in zip(floats, pulled, strict=True):
            result[i] = part
        return result

    return vjp


def _jvp_from(vjp: Any, many: bool) -> Function:
    def jvp(tangents: Any, y: Any, *xs: Any, **params: Any) -> Any:
        def pull(gs: Any) -> Any:
            return vjp(gs if many else gs[0], y, *xs, **params)

        ys = y if many else [y]
        pushed = transpose(pull, [Type.of(part) for part in ys], tangents)
        return tuple(pushed) if many else pushed[0]

    return jvp


def numerical(f: Function, *, step: float | None = None) -> custom_vjp:
    """A function differentiated by central differences: the last resort for code that cannot be traced.

    f takes float arrays and returns one float array. The derivative costs two calls for each input element and has
    about ten good digits; it cannot be differentiated again.
    """
    check_callable(f, "extend.numerical")

    @functools.wraps(f)
    def plain(*args: Any) -> Any:
        y = np.asarray(f(*[a.copy() if type(a) is np.ndarray else a for a in args]), dtype=float)  # it may write to them
        return y[()]

    wrapped = custom_vjp(plain)

    def backward(args: tuple[Any, ...], g: Value) -> tuple[Any, ...]:
        return tuple(_differences(plain, args, i, g, step) if is_inexact(dtype_of(x)) else None for i, x in enumerate(args))

    wrapped.defvjp(lambda *args: (plain(*args), args), backward)
    return wrapped


def _differences(f: Function, args: tuple[Any, ...], i: int, g: Value, step: float | None) -> Value:
    """Σ g·∂f/∂x for each element x of argument i."""
    x = np.array(args[i], dtype=float)
    rows = []
    for index in np.ndindex(x.shape):
        h = step or np.cbrt(np.finfo(float).eps) * max(1.0, abs(float(x[index])))
        hi, lo = x.copy(), x.copy()
        hi[index] += h
        lo[index] -= h
        high, low = (f(*args[:i], moved[()], *args[i + 1 :]) for moved in (hi, lo))
        slope = (high - low) / (hi[index] - lo[index])
        rows.append(np.sum(g * slope))
    return np.reshape(np.stack(rows), shape_of(args[i])) if rows else np.zeros(shape_of(args[i]))


__all__ = ["elementwise", "linear", "multilinear", "numerical", "opaque"]
