"""Functions with custom derivatives: autograd's `primitive`, `defvjp` and `defjvp`.

>>> import numpy
>>> @primitive
... def cube(x):
...     return numpy.power(x, 3)
>>> defvjp(cube, lambda ans, x: lambda g: g * 3 * x**2)
>>> cube(2.0)
np.float64(8.0)

A rule given for one mode serves the other too. Under vmap a primitive is called for each example in turn, since it may
be any Python code. In a graph it is one equation, which holds the function as it was staged, and its rule.
"""

from __future__ import annotations

import functools
import itertools
import types
import warnings
import weakref
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import numpy as np

from ... import stop_gradient
from ...api.arguments import name_of, output_leaf
from ...api.custom_call import CustomCall
from ...api.protection import on_own
from ...core.bind import FRESH, Traced, unwrap_fresh
from ...core.errors import UnsupportedError, user_level
from ...core.home import OWN, package_of
from ...core.tree import Structure, flatten, flatten_like, map_leaves
from ...core.types import Value
from ...eager.batch import Batch
from ...eager.tape import Tape
from ...numpy.table import holds_traced
from ...ops.broadcast import fit_tangent
from ...staging.stage import Stage
from .box import Box
from .util import subval
from .vspace import VSpace, vspace

Function = Callable[..., Any]


class Primitive:
    """A function that transforms do not look into. Its rules are entered by `defvjp` and `defjvp`."""

    def __init__(self, fun: Function) -> None:
        if not callable(fun):
            raise TypeError(f"primitive expects a function, got {type(fun).__name__}")
        self.fun = fun
        self.linear: frozenset[int] | None = frozenset()  # arguments whose forward rule is the function itself; None: all
        self.traced = True
        functools.update_wrapper(self, fun)

    @property
    def vjp(self) -> Function | None:
        return primitive_vjps.get(self)

    @property
    def jvp(self) -> Function | None:
        return primitive_jvps.get(self)

    def functions_inside(self) -> list[Any]:
        """What runs when this is called, for those who look at what it reads."""
        return [self.fun, self.vjp, self.jvp]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten(list(args))
        leaves = [unwrap_fresh(x) for x in leaves]
        if not self.traced:
            leaves, kwargs = stop_gradient(leaves), stop_gradient(kwargs)
        top = max((x.by for x in leaves if isinstance(x, Traced)), key=lambda trace: trace.level, default=FRESH)
        if top is FRESH:
            return self.fun(*structure.unflatten(leaves), **kwargs)
        if any(map(holds_traced, kwargs.values())):
            raise UnsupportedError(
                f"a keyword argument of the primitive {name_of(self.fun)} is traced; its rules are for positional arguments, "
                "so pass it by position"
            )
        if isinstance(top, Batch):
            return self._one_by_one(top, leaves, structure, kwargs)
        return _Application(self, top, leaves, structure, kwargs)()

    def _one_by_one(self, batch: Batch, leaves: Sequence[Value], structure: Structure, kwargs: dict[str, Any]) -> Any:
        """Under vmap: a call for each example."""
        call, results = on_own(lambda values: self(*structure.unflatten(values), **kwargs), frozen=True), []
        for k in range(batch.size):
            results.append(call([x.underlying[k] if isinstance(x, Traced) and x.by is batch else x for x in leaves]))
        if not results:
            raise UnsupportedError(f"the primitive {name_of(self.fun)} cannot be batched over no examples")
        return map_leaves(lambda *parts: Traced(batch, np.stack(parts), None), *results)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<primitive {name_of(self.fun)}>"

    def __reduce__(self) -> str:
        return self.fun.__qualname__  # found by name, as a function is


#: The rules: (argnums, ans, args, kwargs) ↦ (g ↦ cotangents of those arguments).
primitive_vjps: MutableMapping[Primitive, Function] = weakref.WeakKeyDictionary()
#: The rules for forward mode: (argnums, tangents, ans, args, kwargs) ↦ tangent of the result.
primitive_jvps: MutableMapping[Primitive, Function] = weakref.WeakKeyDictionary()


class _Application:
    """One call of a primitive on values of one trace."""

    def __init__(
        self, primitive: Primitive, top: Any, leaves: Sequence[Value], structure: Structure, kwargs: dict[str, Any]
    ) -> None:
        self.primitive, self.top, self.leaves, self.structure, self.kwargs = primitive, top, leaves, structure, kwargs
        self.result: Structure | None = None
        ends = list(itertools.accumulate([child.count for _, child in structure.children], initial=0))
        self.places = [slice(a, b) for a, b in itertools.pairwise(ends)]
        owned = [isinstance(x, Traced) and x.by is top for x in leaves]
        self.argnums = tuple(i for i, place in enumerate(self.places) if any(owned[place]))

    def __call__(self) -> Any:
        primitive = self.primitive
        staged = isinstance(self.top.taken or self.top, Stage)
        if primitive.vjp is None and primitive.jvp is None and not staged:
            raise _no_rule(primitive, "the derivative", self.argnums)
        if primitive.vjp is None and isinstance(self.top, Tape):
            # The transpose of a forward rule that calls the function itself would need what it is to find.
            same = [i for i in self.argnums if primitive.linear is None or i in primitive.linear]
            if same:
                raise _no_rule(primitive, "the VJP", same)
        push = self.push if primitive.jvp is not None else None
        forward, pull = (self.forward, self.pull) if primitive.vjp is not None or push is None else (None, None)
        results = CustomCall(name_of(primitive.fun), self.stage if staged else self.run, push, forward, pull)(self.leaves)
        assert self.result is not None
        return self.result.unflatten(results)

    def apply(self, leaves: Sequence[Value]) -> tuple[list[Any], Any, list[Value]]:
        """Arguments, result, and leaves of the result, one level down."""
        ans = on_own(lambda values: self.primitive(*self.structure.unflatten(values), **self.kwargs), frozen=True)([*leaves])
        return self.structure.unflatten(leaves), ans, self.parts(ans)

    def parts(self, ans: Any) -> list[Value]:
        if ans is None:
            output_leaf(None, self.primitive.fun, "primitive")
        parts, self.result = flatten(ans)
        return [output_leaf(y, self.primitive.fun, "primitive") for y in parts]

    def run(self, leaves: Sequence[Value]) -> list[Value]:
        return self.apply(leaves)[2]

    def stage(self, leaves: Sequence[Value]) -> list[Value]:
        """The function itself, on the values of the graph that becomes the body of its equation."""
        return self.parts(self.primitive.fun(*self.structure.unflatten(leaves), **self.kwargs))

    def forward(self, leaves: Sequence[Value]) -> tuple[list[Value], Any]:
        if self.primitive.vjp is None:  # of a graph of a primitive without rules
            raise _no_rule(self.primitive, "the derivative", self.argnums)
        args, ans, results = self.apply(leaves)
        return results, self.primitive.vjp(self.argnums, ans, tuple(args), self.kwargs)

    def pull(self, vjp: Any, gs: Sequence[Value]) -> list[Value | None]:
        assert self.result is not None
        cotangents: list[Value | None] = [None] * len(self.leaves)
        for i, part in zip(self.argnums, vjp(self.result.unflatten(gs)), strict=True):
            if part is not None:
                what = f"the cotangent of argument {i} of {name_of(self.primitive.fun)}"
                cotangents[self.places[i]] = flatten_like(self.structure.children[i][1], part, what)
        return cotangents

    def push(self, primals: Sequence[Value], tangents: Sequence[Value]) -> tuple[list[Value], list[Value | None]]:
        assert self.primitive.jvp is not None
        args, ans, results = self.apply(primals)
        assert self.result is not None
        given = [self.structure.children[i][1].unflatten(tangents[self.places[i]]) for i in self.argnums]
        pushed = self.primitive.jvp(self.argnums, given, ans, tuple(args), self.kwargs)
        if pushed is None:
            return results, [None] * len(results)
        parts = flatten_like(self.result, pushed, f"the tangent of {name_of(self.primitive.fun)}")
        return results, [fit_tangent(t, y) for t, y in zip(parts, results, strict=True)]


def _no_rule(primitive: Primitive, what: str, argnums: Sequence[int]) -> UnsupportedError:
    names = ", ".join(map(str, argnums))
    return UnsupportedError(
        f"{what} of {name_of(primitive.fun)} with respect to argument {names} is not defined; give a rule with "
        "defvjp or defjvp, or None for an argument without influence"
    )


def primitive(f_raw: Function) -> Primitive:
    """A function whose derivative is given by `defvjp` or `defjvp`; it may be any Python code."""
    return Primitive(f_raw)


def notrace_primitive(f_raw: Function) -> Primitive:
    """A function of plain values, whose derivative is zero."""
    result = Primitive(f_raw)
    result.traced = False
    return result


class VJPNode:
    """Stands for reverse mode in `register_notrace`."""


class JVPNode:
    """Stands for forward mode in `register_notrace`."""


def register_notrace(trace_type: Any, primitive_fun: Primitive) -> None:
    """Declare the derivative of a primitive to be zero, in both modes."""
    if _takes_rules(primitive_fun):
        primitive_fun.traced = False


def _takes_rules(fun: Any) -> bool:
    """Whether fun is a primitive. The rule for another Python function is ignored, as in autograd: its code is differentiated."""
    if isinstance(fun, Primitive):
        return True
    wrap = f"wrap it first: f = primitive({name_of(fun)})"
    if not isinstance(fun, types.FunctionType) or package_of(fun.__module__) in (OWN, "numpy", "scipy"):
        raise UnsupportedError(f"rules are for functions made by primitive, but {name_of(fun)} is not one; {wrap}")
    warnings.warn(f"the rule for {name_of(fun)} is ignored: it is not a primitive; {wrap}", stacklevel=user_level())
    return False


# -- rules for reverse mode -------------------------------------------------------------------------------------------


def defvjp_argnums(fun: Primitive, vjpmaker: Function) -> None:
    """vjpmaker(argnums, ans, args, kwargs) returns g ↦ the cotangents of those arguments."""
    if _takes_rules(fun):
        primitive_vjps[fun] = vjpmaker


def defvjp_argnum(fun: Primitive, vjpmaker: Function) -> None:
    """vjpmaker(argnum, ans, args, kwargs) returns g ↦ the cotangent of that argument."""

    def vjp_argnums(argnums: Any, *args: Any) -> Function:
        vjps = [vjpmaker(argnum, *args) for argnum in argnums]
        return lambda g: [vjp(g) for vjp in vjps]

    defvjp_argnums(fun, vjp_argnums)


def defvjp(fun: Primitive, *vjpmakers: Function | None, argnums: Any = None) -> None:
    """One vjpmaker per argument: vjpmaker(ans, *args, **kwargs) returns g ↦ cotangent. None: no influence."""
    makers = dict(zip(itertools.count() if argnums is None else argnums, vjpmakers, strict=False))

    def vjp_argnum(argnum: int, ans: Any, args: Any, kwargs: Any) -> Function:
        if argnum not in makers:
            raise _no_rule(fun, "the VJP", [argnum])
        maker = makers[argnum]
        return (lambda g: None) if maker is None else maker(ans, *args, **kwargs)

    defvjp_argnum(fun, vjp_argnum)


# -- rules for forward mode -------------------------------------------------------------------------------------------


def defjvp_argnums(fun: Primitive, jvpmaker: Function) -> None:
    """jvpmaker(argnums, tangents, ans, args, kwargs) returns the tangent of the result."""
    if _takes_rules(fun):
        primitive_jvps[fun] = jvpmaker
        fun.linear = frozenset()


def defjvp_argnum(fun: Primitive, jvpmaker: Function) -> None:
    """jvpmaker(argnum, tangent, ans, args, kwargs) returns what that argument adds to the tangent of the result."""

    def jvp_argnums(argnums: Any, gs: Any, *args: Any) -> Any:
        terms = [jvpmaker(argnum, g, *args) for argnum, g in zip(argnums, gs, strict=True)]
        terms = [term for term in terms if term is not None]
        return functools.reduce(lambda a, b: map_leaves(lambda x, y: x + y, a, b), terms) if terms else None

    defjvp_argnums(fun, jvp_argnums)


def defjvp(fun: Primitive, *jvpfuns: Any, argnums: Any = None) -> None:
    """One rule per argument: jvpfun(g, ans, *args, **kwargs) returns a tangent.

    None: no influence. 'same': the function is linear in that argument.
    """
    rules = dict(zip(itertools.count() if argnums is None else argnums, jvpfuns, strict=False))

    def jvp_argnum(argnum: int, g: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        if argnum not in rules:
            raise _no_rule(fun, "the JVP", [argnum])
        rule = rules[argnum]
        if rule is None:
            return None
        if isinstance(rule, str):
            return fun(*subval(args, argnum, g), **kwargs)
        return rule(g, ans, *args, **kwargs)

    defjvp_argnum(fun, jvp_argnum)
    if isinstance(fun, Primitive):
        fun.linear = frozenset(i for i, rule in rules.items() if isinstance(rule, str))


def def_linear(fun: Primitive) -> None:
    """Declare a primitive to be linear in each of its arguments."""
    defjvp_argnum(fun, lambda argnum, g, ans, args, kwargs: fun(*subval(args, argnum, g), **kwargs))
    if isinstance(fun, Primitive):
        fun.linear = None


__all__ = [
    "Box",
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
    "notrace_primitive",
    "primitive",
    "register_notrace",
    "vspace",
]
