"""Small functions that autograd's users import."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ... import grad


def subvals(x: Any, ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """A tuple with some entries replaced."""
    result = list(x)
    for i, v in ivs:
        result[i] = v
    return tuple(result)


def subval(x: Any, i: int, v: Any) -> tuple[Any, ...]:
    """A tuple with one entry replaced."""
    return subvals(x, [(i, v)])


def func(f: Any) -> Any:
    """f itself. (Python 2 needed more for the methods of a class.)"""
    return f


def quick_grad_check(
    fun: Any,
    arg0: Any,
    extra_args: Any = (),
    kwargs: Any = None,
    verbose: bool = True,
    eps: float = 1e-4,
    rtol: float = 1e-4,
    atol: float = 1e-6,
    rs: Any = None,
) -> None:
    """Compare the gradient of a scalar function with a difference along one random direction."""
    rs = np.random.RandomState() if rs is None else rs
    options = kwargs or {}
    direction = rs.standard_normal(np.shape(arg0))
    direction = direction / np.sqrt(np.vdot(direction, direction))
    ahead, behind = (fun(arg0 + s * eps / 2 * direction, *extra_args, **options) for s in (1, -1))
    numeric = (ahead - behind) / eps
    exact = np.sum(direction * grad(fun)(arg0, *extra_args, **options))
    if not np.allclose(numeric, exact, rtol, atol):
        raise ValueError(f"the gradient differs: along a random direction it is {exact}, by differences {numeric}")
    if verbose:
        print("Gradient projection OK")
