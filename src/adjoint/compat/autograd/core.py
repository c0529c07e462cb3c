"""Derivatives of functions of one argument, and the other names of `autograd.core`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import jvp as _jvp
from ... import vjp as _vjp
from ...core.bind import Traced
from ...core.tree import map_leaves
from ...core.types import dtype_of, shape_of
from .box import getval, isbox
from .extend import (
    JVPNode,
    Primitive,
    VJPNode,
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    primitive_jvps,
    primitive_vjps,
)
from .extend import primitive as _primitive
from .vspace import VSpace, vspace

Function = Callable[..., Any]


def like(given: Any, wanted: Any) -> Any:
    """A tangent or cotangent in the dtype of what it belongs to; autograd does not mind integers there."""

    def convert(g: Any, x: Any) -> Any:
        if isinstance(g, Traced):
            return g if dtype_of(g) == dtype_of(x) else g.astype(dtype_of(x))  # type: ignore[attr-defined]
        g = np.asarray(g)
        if g.dtype.kind == "c" and dtype_of(x).kind != "c":
            g = g.real
        if g.size == 1 and shape_of(x) in ((), (1,)):
            g = g.reshape(shape_of(x))
        return g.astype(dtype_of(x), copy=False)[()]

    return map_leaves(convert, given, wanted)


def make_vjp(fun: Function, x: Any) -> tuple[Function, Any]:
    """The pullback of fun at x, and its value there."""
    ans, pull = _vjp(fun, x)
    return lambda g: pull(like(g, ans))[0], ans


def make_jvp(fun: Function, x: Any) -> Function:
    """The function from a tangent to (value of fun at x, tangent of the value)."""
    return lambda g: _jvp(fun, (x,), (like(g, x),))


# -- rules as methods of a primitive, an older spelling -----------------------------------------------------------------


def primitive(f_raw: Function) -> Primitive:
    """`extend.primitive`, whose result also takes its rules by the methods defvjp, defgrad and defvjp_is_zero."""
    fun = _primitive(f_raw)
    makers: dict[int, Function | None] = {}

    def enter(new: dict[int, Function | None]) -> None:
        makers.update(new)
        defvjp(fun, *makers.values(), argnums=tuple(makers))

    def unstaged(vjp: Function, argnum: int = 0) -> None:
        def maker(ans: Any, *args: Any, **kwargs: Any) -> Function:
            return lambda g: vjp(g, ans, vspace(args[argnum]), vspace(g), *args, **kwargs)

        enter({argnum: maker})

    fun.defvjp = unstaged  # type: ignore[attr-defined]
    fun.defgrad = lambda gradfun, argnum=0: enter({argnum: gradfun})  # type: ignore[attr-defined]
    fun.defvjp_is_zero = lambda argnums=(0,): enter(dict.fromkeys(argnums))  # type: ignore[attr-defined]
    return fun


__all__ = [
    "JVPNode",
    "VJPNode",
    "VSpace",
    "def_linear",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "getval",
    "isbox",
    "like",
    "make_jvp",
    "make_vjp",
    "primitive",
    "primitive_jvps",
    "primitive_vjps",
    "vspace",
]
