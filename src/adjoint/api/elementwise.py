"""Derivatives of functions of one number: `derivative`, and `elementwise_grad` for each element of an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.errors import ArgumentError, DtypeError, ShapeError
from ..core.types import dtype_of, shape_of
from .arguments import check_callable, differentiable, name_of, positions
from .forward import run_jvp
from .grad import Recording, choice
from .protection import run_protected
from .transformed import Transformed

Function = Callable[..., Any]


def _run_elementwise_grad(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any, transform: str) -> Any:
    recording = Recording(f, args, kwargs, argnums, False, transform)
    seeds = [np.ones(shape_of(y), dtype_of(y))[()] for y in recording.outputs]
    for y in recording.outputs:
        if dtype_of(y).kind not in "fc":
            raise DtypeError(f"elementwise_grad needs a float result, but {name_of(f)} returned {dtype_of(y)}")
        if dtype_of(y).kind == "c" and any(dtype_of(x).kind != "c" for x in recording.inputs):
            raise DtypeError(
                f"elementwise_grad of real arguments needs a real result, but {name_of(f)} returned a complex one; "
                "take its real and imaginary parts one by one"
            )
    return recording.hand_out(recording.pull_once(seeds))


def elementwise_grad(f: Function, argnums: Any = 0, *, argnum: Any = None) -> Transformed:
    """The derivative of a function that acts per element, such as a scalar function applied to an array.

    >>> elementwise_grad(np.tanh)(np.zeros(2))
    array([1., 1.])
    """
    check_callable(f, "elementwise_grad")
    return Transformed("elementwise_grad", _run_elementwise_grad, f, argnums=choice(argnums, argnum))


def _run_derivative(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any, transform: str) -> Any:
    indices, single = positions(argnums, len(args), transform)
    if not single:
        raise ArgumentError("derivative is taken with respect to one scalar argument; use grad or jacobian for several")
    (i,) = indices
    x = differentiable(args[i], f"argument {i}", transform)
    if shape_of(x) != ():
        raise ShapeError(
            f"derivative needs a scalar argument, but argument {i} has shape {shape_of(x)}; use elementwise_grad or jacobian"
        )

    def of_one(part: Any) -> Any:
        return run_protected(f, [*args[:i], part, *args[i + 1 :]], kwargs)

    of_one.__name__ = name_of(f)
    one = np.ones((), dtype_of(x))[()]
    return run_jvp(of_one, (x,), (one,), False, transform)[1]


def derivative(f: Function, argnums: int = 0, *, argnum: Any = None) -> Transformed:
    """f′ of a function of one scalar, by forward mode; nest it for higher orders.

    >>> derivative(derivative(np.sin))(0.5) == -np.sin(0.5)
    np.True_
    """
    check_callable(f, "derivative")
    return Transformed("derivative", _run_derivative, f, argnums=choice(argnums, argnum))
