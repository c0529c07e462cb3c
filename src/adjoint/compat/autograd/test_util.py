"""check_grads in autograd's curried form, and its helpers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import adjoint as ad

from .extend import vspace
from .wrap_util import unary_to_nary

TOL, RTOL, EPS = 1e-6, 1e-6, 1e-6
Function = Callable[..., Any]


@unary_to_nary
def check_grads(f: Function, x: Any, modes: Any = ("fwd", "rev"), order: int = 2) -> None:
    """`check_grads(f, argnum=0, modes=…, order=…)(*args)` compares the derivatives of f with differences."""
    ad.check_grads(f, x, order=order, modes=tuple(modes), eps=EPS)


def check_vjp(f: Function, x: Any) -> None:
    """Compare reverse mode with differences."""
    ad.check_grads(f, x, order=1, modes="rev", eps=EPS)


def check_jvp(f: Function, x: Any) -> None:
    """Compare forward mode with differences."""
    ad.check_grads(f, x, order=1, modes="fwd", eps=EPS)


def check_equivalent(x: Any, y: Any) -> None:
    """Two values of one vector space that are equal up to rounding, along a random direction."""
    space, other = vspace(x), vspace(y)
    assert space == other, f"the values live in different spaces: {space} and {other}"
    v = space.randn()
    assert scalar_close(space.inner_prod(x, v), space.inner_prod(y, v)), f"{x} and {y} differ"


def scalar_close(a: Any, b: Any) -> bool:
    return bool(abs(a - b) < TOL or abs(a - b) / abs(a + b) < RTOL)


def combo_check(fun: Function, *check_args: Any, **check_kwargs: Any) -> Function:
    """check_grads for every combination of the given lists of arguments."""

    def check(*args: Any, **kwargs: Any) -> None:
        names = list(kwargs)
        for chosen in itertools.product(*args):
            for options in itertools.product(*[kwargs[name] for name in names]):
                check_grads(fun, *check_args, **check_kwargs)(*chosen, **dict(zip(names, options, strict=True)))

    return check
