"""autograd.scipy.integrate.odeint, differentiated by solving the adjoint equation backwards in time."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.integrate

from .... import vjp as _vjp
from ....core.tree import flatten as _leaves
from ....core.types import dtype_of, is_inexact, shape_of
from ..extend import defvjp_argnums, primitive
from ..misc.flatten import flatten


def odeint(func: Any, y0: Any, t: Any, args: Any = (), **options: Any) -> Any:
    """scipy.integrate.odeint. Derivatives are with respect to y0, t and args: what func closes over is constant."""
    return _odeint(func, y0, t, tuple(args) if isinstance(args, (tuple, list)) else (args,), **options)


@primitive
def _odeint(func: Any, y0: Any, t: Any, args: tuple[Any, ...], **options: Any) -> Any:
    return scipy.integrate.odeint(func, y0, t, args=args, **options)


def _is_float(x: Any) -> bool:
    return isinstance(x, (float, complex)) or (hasattr(x, "dtype") and is_inexact(dtype_of(x)))


def _split_floats(args: Any) -> tuple[list[Any], Any]:
    """The float leaves of args, and the function that puts other values in their place (and `rest` in that of others)."""
    leaves, structure = _leaves(args)

    def rebuild(values: Any, *rest: Any) -> Any:
        given = iter(values)
        return structure.unflatten([next(given) if _is_float(x) else (rest or (x,))[0] for x in leaves])

    return [x for x in leaves if _is_float(x)], rebuild


def _pull_back(argnums: Any, ys: Any, arguments: Any, options: Any) -> Any:
    """The pullback of a solution: the adjoint equation, from the last time back to the first.

    Between two times it is one initial value problem; at each time the cotangent of the state there is added.
    """
    func, _, t, args = arguments
    floats, rebuild = _split_floats(args)
    vector, unflatten = flatten(floats)
    n, length = shape_of(ys)[1], shape_of(t)[0]

    def slope(y: Any, t: Any, vector: Any) -> Any:
        return np.reshape(func(y, t, *rebuild(unflatten(vector))), (n,))

    def backwards(state: Any, s: Any, vector: Any) -> Any:
        """The equations of (y, λ, cotangent of t, cotangent of args) in s = −t, which grows."""
        y, costate = state[:n], state[n : 2 * n]
        value, pull = _vjp(slope, y, -s, vector)
        on_y, on_t, on_vector = pull(costate)
        return np.concatenate([-value, on_y, np.reshape(on_t, (1,)), on_vector])

    def pull_back(g: Any) -> list[Any]:
        costate = g[-1]
        on_vector = np.zeros(shape_of(vector))
        on_t_start: Any = 0.0
        on_ts = []
        for i in range(length - 1, 0, -1):
            on_t = np.sum(slope(ys[i], t[i], vector) * g[i])
            on_ts.append(on_t)
            state = np.concatenate([ys[i], costate, np.reshape(on_t_start - on_t, (1,)), on_vector])
            times = np.stack([-t[i], -t[i - 1]])
            state = _odeint(backwards, state, times, (vector,), **options)[1]
            costate, on_t_start, on_vector = state[n : 2 * n] + g[i - 1], state[2 * n], state[2 * n + 1 :]
        on_t = np.stack([on_t_start, *reversed(on_ts)]) if on_ts else np.zeros(1)
        cotangents = {1: costate, 2: on_t, 3: rebuild(unflatten(on_vector), 0.0)}
        return [cotangents[i] for i in argnums]

    return pull_back


defvjp_argnums(_odeint, _pull_back)

__all__ = ["odeint"]
