"""From an operator on functions of one argument to one on functions of many, with `argnum`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.bind import Traced, unwrap_fresh
from ...core.tree import map_leaves
from ...core.types import dtype_of
from .util import subvals

Function = Callable[..., Any]


def _as_float(x: Any) -> Any:
    x = unwrap_fresh(x)
    if type(x) in (int, float) or isinstance(x, np.integer):
        return np.float64(x)
    if type(x) is complex:
        return np.complex128(x)
    if isinstance(x, (np.ndarray, Traced)) and dtype_of(x).kind in "iu":
        return x.astype(float)  # type: ignore[union-attr]
    return x


def as_floats(x: Any) -> Any:
    """An argument to differentiate, with its integers as floats, and Python's numbers as NumPy's, which have a shape."""
    return _as_float(x) if type(x) is np.ndarray or type(x) is float else map_leaves(_as_float, x)


def on_argument(fun: Function, argnum: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Function, Any]:
    """fun as a function of the chosen argument alone (of a tuple, if several are chosen), and that argument."""
    several = isinstance(argnum, (tuple, list))
    chosen = tuple(as_floats(args[i]) for i in argnum) if several else as_floats(args[argnum])

    def unary(x: Any) -> Any:
        return fun(*subvals(args, zip(argnum, x, strict=True) if several else [(argnum, x)]), **kwargs)

    unary.__name__ = get_name(fun)  # which messages give
    return unary, chosen


def unary_to_nary(unary_operator: Function) -> Function:
    """`operator(fun, x, …)` for functions of one argument as `operator(fun, argnum=0, …)(*args, **kwargs)`."""

    @functools.wraps(unary_operator)
    def nary_operator(fun: Function, argnum: Any = 0, *operator_args: Any, **operator_kwargs: Any) -> Function:
        if not callable(fun):
            raise TypeError(f"{unary_operator.__name__} expects a function, got {type(fun).__name__}")

        def nary_f(*args: Any, **kwargs: Any) -> Any:
            unary, x = on_argument(fun, argnum, args, kwargs)
            return unary_operator(unary, x, *operator_args, **operator_kwargs)

        return wraps(fun, f"{unary_operator.__name__}_of_{{fun}}_wrt_argnum_{argnum}")(nary_f)

    return nary_operator


def get_name(f: Any) -> str:
    return getattr(f, "__name__", "[unknown name]")


def wraps(fun: Function, namestr: str = "{fun}", docstr: str = "{doc}", **kwargs: Any) -> Function:
    """As functools.wraps, with a pattern for the name."""

    def decorate(f: Any) -> Any:
        f.__name__ = namestr.format(fun=get_name(fun), **kwargs)
        f.__doc__ = docstr.format(fun=get_name(fun), doc=getattr(fun, "__doc__", None) or "", **kwargs)
        f.__wrapped__ = fun
        return f

    return decorate
