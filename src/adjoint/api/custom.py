"""Functions with a custom derivative: custom_jvp, custom_vjp, checkpoint. What a call of one does is in `custom_call.py`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Traced, unwrap_fresh
from ..core.errors import ArgumentError, ShapeError
from ..core.floating import quiet
from ..core.tree import Structure, flatten, flatten_tangent, leaf_names
from ..core.types import Type, Value, shape_of
from ..eager.backward import Pass
from ..eager.origin import Given, Origin
from ..eager.tape import Tape
from .arguments import NUMBERS, callee, check_callable, name_of, output_leaf
from .control import checkpointed
from .custom_call import CustomCall
from .rerun import Again, recorded

Function = Callable[..., Any]


class _Custom:
    """The base of custom_jvp and custom_vjp: a function, and arguments that are not differentiated."""

    transform = "custom"

    def __init__(self, f: Function, nondiff_argnums: Any = ()) -> None:
        check_callable(f, self.transform)
        self.f = f
        self.nondiff = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        functools.update_wrapper(self, f)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self.transform} {name_of(self.f)}>"

    def __reduce__(self) -> Any:
        """A decorated function is found by name, as a function is; another one is made again from its parts."""
        name: str = getattr(self.f, "__qualname__", "")
        found: Any = sys.modules.get(self.__module__)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return name
        parts = {key: value for key, value in vars(self).items() if key not in functools.WRAPPER_ASSIGNMENTS}
        return _remade, (type(self), self.f, parts)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def split(self, args: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
        """(arguments that are not differentiated, the others)."""
        return [args[i] for i in self.nondiff], [a for i, a in enumerate(args) if i not in self.nondiff]

    def merge(self, fixed: Sequence[Any], rest: Sequence[Any]) -> list[Any]:
        merged = list(rest)
        for i, value in sorted(zip(self.nondiff, fixed, strict=True)):
            merged.insert(i, value)
        return merged

    def plain(self, fixed: Sequence[Any], structure: Structure, found: dict[str, Structure], kwargs: dict[str, Any]) -> Function:
        """The function on leaves."""

        def f(leaves: Sequence[Value]) -> list[Value]:
            return self.results(self.f(*self.merge(fixed, structure.unflatten(leaves)), **kwargs), found)

        return f

    def results(self, out: Any, found: dict[str, Structure]) -> list[Value]:
        if out is None:
            output_leaf(None, self.f, self.transform)
        parts, found["out"] = flatten(out)
        return [output_leaf(y, self.f, self.transform) for y in parts]


def _remade(cls: type[_Custom], f: Function, parts: dict[str, Any]) -> _Custom:
    made = cls(f)
    vars(made).update(parts)
    return made


class custom_jvp(_Custom):  # noqa: N801 - used as a decorator
    """A function with a custom forward rule; reverse mode follows from it.

    >>> @custom_jvp
    ... def log1pexp(x):
    ...     return np.log(1 + np.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t * (1 - 1 / (1 + np.exp(x)))
    """

    transform = "custom_jvp"

    def __init__(self, f: Function, nondiff_argnums: Any = ()) -> None:
        super().__init__(f, nondiff_argnums)
        self.rule: Function | None = None

    def defjvp(self, rule: Function) -> Function:
        """rule(primals, tangents) returns (result, tangent of the result)."""
        check_rule(rule, f"{name_of(self.f)}.defjvp")
        self.rule = rule
        return rule

    def defjvps(self, *rules: Function | None) -> None:
        """One rule per argument, rule(t, ans, *primals), summed; None for an argument without effect."""

        def rule(primals: Any, tangents: Any) -> Any:
            ans = self(*primals)
            terms = [r(t, ans, *primals) for r, t in zip(rules, tangents, strict=True) if r is not None]
            return ans, functools.reduce(lambda a, b: a + b, terms) if terms else 0.0 * ans

        self.rule = rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.rule is None:
            raise ArgumentError(
                f"no rule for the custom_jvp function {name_of(self.f)}; give one with {name_of(self.f)}.defjvp(rule)"
            )
        fixed, rest = self.split(args)
        leaves, structure = flatten(rest)
        found: dict[str, Structure] = {}
        rule = self.rule

        def push(primals: Sequence[Value], tangents: Sequence[Value]) -> tuple[list[Value], list[Value]]:
            result = rule(*fixed, tuple(structure.unflatten(primals)), tuple(structure.unflatten(tangents)), **kwargs)
            if not isinstance(result, tuple) or len(result) != 2:
                raise ArgumentError(f"the custom_jvp rule of {name_of(self.f)} must return (result, tangent of the result)")
            ys = self.results(result[0], found)
            return ys, flatten_tangent(found["out"], result[1], "the tangent of the result")

        call = CustomCall(name_of(self.f), self.plain(fixed, structure, found, kwargs), push, None, None)
        results = call(leaves)
        return found["out"].unflatten(results)


class custom_vjp(_Custom):  # noqa: N801 - used as a decorator
    """A function with a custom reverse rule; forward mode follows from it.

    >>> @custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda res, g: (np.clip(g, -1.0, 1.0),))
    """

    transform = "custom_vjp"

    def __init__(self, f: Function, nondiff_argnums: Any = ()) -> None:
        super().__init__(f, nondiff_argnums)
        self.fwd: Function | None = None
        self.bwd: Function | None = None

    def defvjp(self, fwd: Function, bwd: Function) -> None:
        """fwd(*args) returns (result, residuals); bwd(residuals, g) returns a cotangent for each argument."""
        check_rule(fwd, f"{name_of(self.f)}.defvjp")
        check_rule(bwd, f"{name_of(self.f)}.defvjp")
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise ArgumentError(
                f"no rule for the custom_vjp function {name_of(self.f)}; give one with {name_of(self.f)}.defvjp(fwd, bwd)"
            )
        fixed, rest = self.split(args)
        leaves, structure = flatten(rest)
        found: dict[str, Structure] = {}
        fwd, bwd = self.fwd, self.bwd

        def forward(values: Sequence[Value]) -> tuple[list[Value], Any]:
            pair = fwd(*self.merge(fixed, structure.unflatten(values)), **kwargs)
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ArgumentError(f"the forward rule of {name_of(self.f)} must return (result, residuals)")
            # The types of the arguments travel with the residuals, to check what bwd returns.
            types = [Type.of(x) if isinstance(x, NUMBERS) else None for x in values]
            return self.results(pair[0], found), _Residuals(pair[1], _Static(types))

        def pull(residuals: Any, gs: Sequence[Value]) -> list[Value | None]:
            cotangents = bwd(*fixed, residuals.content, found["out"].unflatten(gs))
            return self.checked(cotangents, structure, residuals.static.value)

        call = CustomCall(name_of(self.f), self.plain(fixed, structure, found, kwargs), None, forward, pull)
        results = call(leaves)
        return found["out"].unflatten(results)

    def checked(self, cotangents: Any, structure: Structure, types: Sequence[Any]) -> list[Value | None]:
        """The cotangents that bwd returned, one per leaf."""
        count = len(structure.children)
        if not isinstance(cotangents, (tuple, list)) or len(cotangents) != count:
            got = len(cotangents) if isinstance(cotangents, (tuple, list)) else type(cotangents).__name__
            raise ShapeError(
                f"the backward rule of {name_of(self.f)} must return a tuple of {count} cotangents, one per argument; got {got}"
            )
        result: list[Value | None] = []
        for i, (part, (_, child)) in enumerate(zip(cotangents, structure.children, strict=True)):
            if part is None:
                result.extend([None] * child.count)
            else:
                result.extend(flatten_tangent(child, part, f"the cotangent of argument {i} of {name_of(self.f)}"))
        names = leaf_names("", structure)
        for g, t, name in zip(result, types, names, strict=True):
            if g is not None and not isinstance(g, NUMBERS):
                raise ArgumentError(
                    f"the backward rule of {name_of(self.f)} returned {type(g).__name__} for argument {name}, "
                    "expected a number or an array"
                )
            if g is not None and t is not None and shape_of(g) != t.shape:
                raise ShapeError(
                    f"the backward rule of {name_of(self.f)} returned shape {shape_of(g)} for argument {name}, expected {t.shape}"
                )
        return result


def check_rule(rule: Any, where: str) -> None:
    if not callable(rule):
        raise ArgumentError(f"{where} expects a function, got {type(rule).__name__}")


class _Residuals(NamedTuple):
    """Residuals with the types of the arguments: a container, so that vmap flattens it like any other."""

    content: Any
    static: _Static


class _Static:
    """A leaf that is not an array."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _on_tapes_only(x: Value) -> bool:
    """Whether there are only tapes between a value and its number."""
    while isinstance(x, Traced):
        if not isinstance(x.by, Tape):
            return False
        x = x.underlying
    return True


def checkpoint(f: Function) -> Function:
    """The same function, which saves only its arguments and is run again in the backward pass.

    Less memory for more time. Forward mode and plain calls are not affected. In a graph it is one equation. Its results are new
    arrays. For the second run, variables, arrays and random generators are restored, and the results must be the same; a function
    that writes to its arguments or to outside arrays is refused.

    >>> import adjoint as ad
    >>> @ad.checkpoint
    ... def block(x):
    ...     return np.sin(np.exp(x))
    >>> bool(np.isclose(ad.grad(block)(0.5), np.cos(np.exp(0.5)) * np.exp(0.5)))
    True
    """
    check_callable(f, "checkpoint")
    return _Checkpoint(f)


def _pull_again(
    run: Callable[[Sequence[Value]], Sequence[Value]],
    values: Sequence[Value],
    gs: Sequence[Value | None],
    known: dict[int, Origin],
) -> tuple[list[Value | None], list[Origin | None]]:
    """Record the run of a function, and pull the cotangents of its results back: those of the values, and their origins."""
    with Tape("checkpoint") as inner:
        inside = recorded(inner, values)
        floats = [i for i, x in enumerate(inside) if inner.node(x) is not None]
        nodes = [inside[i].aux for i in floats]
        results = run(inside)
    reverse, seeds, origins = Pass(nodes), [], []
    for i, (y, g) in enumerate(zip(results, gs, strict=True)):
        node = inner.node(y)
        if node is not None and g is not None:
            seeds.append((node, g))
            origins.append(known.get(i) or Given(g))
    cotangents: list[Value | None] = [None] * len(values)
    found: list[Origin | None] = [None] * len(values)
    with quiet():
        for i, node, g in zip(floats, nodes, reverse.run(seeds, origins), strict=True):
            cotangents[i], found[i] = g, reverse.origins.get(node.serial)
    return cotangents, found


class _Checkpoint(_Custom):
    transform = "checkpoint"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((list(args), kwargs))
        traced = [x for x in map(unwrap_fresh, leaves) if isinstance(x, Traced)]
        if not traced:
            return self.f(*args, **kwargs)
        if not all(map(_on_tapes_only, traced)):
            return checkpointed(self.f, args, kwargs)
        found: dict[str, Structure] = {}
        tape = max((x.by for x in traced if isinstance(x.by, Tape)), key=lambda trace: trace.level)
        again = Again(self.f, tape.watch, tape.lasting)

        def run(f: Function, values: Sequence[Value]) -> list[Value]:
            positional, named = structure.unflatten(values)
            return self.results(callee(f)(*positional, **named), found)

        def forward(values: Sequence[Value]) -> tuple[list[Value], Any]:
            kept = [
                tape.secure(x) if type(x) is np.ndarray and type(y) is np.ndarray else x
                for x, y in zip(values, leaves, strict=True)
            ]
            return again.first(run, values), kept

        def pull(values: Sequence[Value], gs: Sequence[Value | None], known: dict[int, Origin]) -> Any:
            return _pull_again(functools.partial(again.second, run), values, gs, known)

        first = lambda values: again.first(run, values)
        results = CustomCall(name_of(self.f), first, None, forward, pull, follows=True, may_write=False)(leaves)
        return found["out"].unflatten(results)
