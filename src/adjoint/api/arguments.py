"""Arguments and results of transforms: checks of what may be differentiated, and names for errors."""

from __future__ import annotations

import functools
import operator
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.bind import Trace, Traced, rounded, snapshot, unwrap_fresh
from ..core.code import signature_of
from ..core.counterparts import leads_there
from ..core.errors import ArgumentError, DtypeError, ShapeError, user_level
from ..core.memory import is_writeable
from ..core.tree import LEAF, Structure, flatten, leaf_names
from ..core.types import Type, Value, dtype_of, is_inexact, is_masked, shape_of
from ..device.arrays import gpu_of
from ..eager.on_gpu import lift

PLAIN = (np.ndarray, np.generic, float, int, complex)
NUMBERS = (*PLAIN, Traced)  # what may be an argument or a result


def name_of(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", None) or type(f).__name__


def warn_if_rounded(trace: Trace, f: Callable[..., Any]) -> None:
    """Warn that a result does not depend on the arguments because it was rounded to some decimals, as for print."""
    level, line, decimals = rounded.get() or (0.0, "", 0)
    if level == trace.level:
        warnings.warn(
            f"the result of {name_of(f)} is a constant to {trace.name}, with derivative 0: it was rounded to {decimals} decimals "
            f"({line}). Differentiate a function that does not round",
            RuntimeWarning,
            stacklevel=user_level(),
        )


def input_names(f: Callable[..., Any], paths: Sequence[str]) -> list[str]:
    """Names of the leaves of (args, kwargs) from the function's own parameters and the paths of leaves in containers."""
    try:
        signature = list(signature_of(f).parameters.values())
    except (TypeError, ValueError):
        signature = []
    parameters = [p.name for p in signature if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    spread = next((p.name for p in signature if p.kind is p.VAR_POSITIONAL), None)

    def positional(index: int) -> str:
        if index < len(parameters):
            return parameters[index]
        return f"x{index}" if spread is None else f"{spread}{index - len(parameters)}"

    names: list[str] = []
    for path in paths:
        match = re.match(r"\[0\]\[(\d+)\](.*)", path)
        if match:
            base = positional(int(match[1])) + match[2]
        else:
            base = path[3:]
        name = re.sub(r"\W+", "_", base).strip("_") or "x"
        while name in names or re.fullmatch(r"[vc]\d+", name) or name in ("nan", "inf"):
            name += "_"
        names.append(name)
    return names


def adopted(f: Callable[..., Any]) -> Callable[..., Any]:
    """`ad.adopt(f)`, for the options of transforms."""
    from ..adopt import adopt  # heavy: loads the replacements of modules

    return adopt(f)


def check_callable(f: Any, transform: str) -> None:
    if not callable(f):
        raise ArgumentError(
            f"{transform} expects a function, got {type(f).__name__}; write {transform}(f)(x), not {transform}(f(x))"
        )


def callee(f: Callable[..., Any]) -> Callable[..., Any]:
    """What a transform runs in place of the user's function.

    It has no `functools.cache`: traced values are all distinct, and none may outlive its transform. Where it names a function of
    SciPy that takes plain arrays only, it calls ours, and `type(x)` is the class of the underlying value (adopt/plain.py).
    """
    while isinstance(f, functools._lru_cache_wrapper):
        f = f.__wrapped__
    if leads_there(f):
        from ..adopt.plain import with_ours  # heavy: loads the replacements of modules

        return with_ours(f)  # type: ignore[no-any-return]
    return f


def positions(argnums: Any, count: int, transform: str) -> tuple[tuple[int, ...], bool]:
    """Which arguments to differentiate, as indices, and whether a single one was asked for."""
    if type(argnums) is int and 0 <= argnums < count:
        return (argnums,), True
    single = not isinstance(argnums, (tuple, list))
    try:
        indices = tuple(operator.index(i) for i in ([argnums] if single else argnums))
    except TypeError:
        raise ArgumentError(f"argnums of {transform} is an integer or a tuple of integers, not {argnums!r}") from None
    if not indices:
        raise ArgumentError(f"argnums of {transform} is empty: name at least one argument")
    for i in indices:
        if not -count <= i < count:
            raise ArgumentError(
                f"argnums={argnums!r} of {transform} is out of range: the function was called with {count} positional "
                f"argument{'s' * (count != 1)}. A keyword argument cannot be differentiated; pass it by position"
            )
    wrapped = tuple(i % count for i in indices)
    if len(set(wrapped)) != len(wrapped):
        raise ArgumentError(f"argnums={argnums!r} of {transform} names an argument twice")
    return wrapped, single


def without_class(x: Any, name: str) -> Any:
    """A leaf as it is, or as a plain array if it is of a subclass with NumPy's arithmetic, such as a memory map."""
    if type(x) is np.ndarray or not isinstance(x, np.ndarray):
        return x
    if is_masked(x):
        raise ArgumentError(f"{name} is a masked array; pass x.filled(0.0) and the mask separately")
    if isinstance(x, np.matrix):
        raise ArgumentError(f"{name} is a np.matrix, which redefines the product; pass np.asarray(x), and write @")
    return np.asarray(x)


def differentiable(x: Any, name: str, transform: str) -> Value:
    """A leaf that can carry a derivative, checked."""
    if type(x) is float or (type(x) is np.ndarray and x.dtype.kind in "fc"):
        return x
    x = unwrap_fresh(x)
    if isinstance(x, Traced):
        if x.by.ended:
            raise x.by.leaked()
        given, x = x, snapshot(x)
        x.memory_layout = given.noted_strides  # needed if something is written in place
    x = without_class(x, f"{name} of {transform}")
    whole = isinstance(x, (bool, int, np.bool_, np.integer)) and not isinstance(x, np.timedelta64)  # an integer to NumPy
    if whole or (isinstance(x, (np.ndarray, Traced)) and dtype_of(x).kind in "biu"):
        fix = f"write {float(x)!r}" if isinstance(x, (int, np.integer)) else "pass x.astype(float)"
        kind = type(x).__name__ if isinstance(x, (bool, int)) else dtype_of(x).name
        raise DtypeError(f"{transform} needs floats, but {name} is {kind}; {fix}, or leave it out of argnums")
    if not isinstance(x, NUMBERS) or not is_inexact(dtype_of(x)):
        if gpu_of(x) is not None:
            raise ArgumentError(f"{name} of {transform} is on a GPU, and {transform} works on the host; pass x.get(), a copy")
        what = f"an array of dtype {x.dtype}" if isinstance(x, np.ndarray) else f"{type(x).__name__} {x!r:.40}"
        raise ArgumentError(f"{transform} needs floats, but {name} is {what}")
    return x


def open_arguments(args: Sequence[Any], indices: Sequence[int], transform: str) -> tuple[list[Value], list[Structure]]:
    """The differentiable leaves of the chosen arguments, and their structures."""
    leaves: list[Value] = []
    structures: list[Structure] = []
    for i in indices:
        parts, structure = flatten(args[i])
        structures.append(structure)
        if structure is LEAF:
            leaves.append(differentiable(parts[0], f"argument {i}", transform))
            continue
        if not parts and structure.has_static():
            raise ArgumentError(f"{transform} needs floats, but argument {i} has none in its fields: {structure}")
        labels = leaf_names(f"argument {i}", structure)
        leaves.extend(differentiable(x, label, transform) for x, label in zip(parts, labels, strict=True))
    return leaves, structures


def replace(args: Sequence[Any], indices: Sequence[int], structures: Sequence[Structure], leaves: Sequence[Any]) -> list[Any]:
    """The arguments with the chosen ones rebuilt from new leaves."""
    result = list(args)
    for i, part in zip(indices, regroup(structures, leaves), strict=True):
        result[i] = part
    return result


def regroup(structures: Sequence[Structure], leaves: Sequence[Any]) -> list[Any]:
    """Leaves put back into their structures, one after the other."""
    if all(structure is LEAF for structure in structures):
        return list(leaves)
    result = []
    start = 0
    for structure in structures:
        result.append(structure.unflatten(leaves[start : start + structure.count]))
        start += structure.count
    return result


def check_alive(x: Any, trace: Trace | None = None) -> Any:
    """A result leaving `trace`, which has just ended; a value of any other ended trace is a leak."""
    if isinstance(x, Traced) and x.by.ended and x.by is not trace:
        raise x.by.leaked()
    return unwrap_fresh(x)


def output_leaf(y: Any, f: Callable[..., Any], transform: str, label: str = "", trace: Trace | None = None) -> Value:
    """A leaf of the function's result, checked to be a number or an array of floats."""
    y = check_alive(y, trace)
    if isinstance(y, Traced):
        return y
    y = lift(y)
    if isinstance(y, Traced):  # on a GPU
        return y
    where = f"{name_of(f)} returned{' in ' + label if label else ''}"
    if y is None:
        raise ArgumentError(f"{where} None, but {transform} needs a value; is a return statement missing?")
    if not isinstance(y, NUMBERS):
        raise ArgumentError(
            f"{where} {type(y).__name__}, but {transform} needs numbers or arrays (use has_aux=True for other results)"
        )
    if isinstance(y, np.ndarray) and y.dtype.kind == "O":
        raise ArgumentError(f"{where} an array of objects; build it with np.stack, or with adjoint.numpy.array")
    if isinstance(y, (np.ndarray, np.generic)) and y.dtype.kind not in "biufc":
        raise ArgumentError(f"{where} {y.dtype}, but {transform} needs numbers (use has_aux=True for other results)")
    return y


def match_type(t: Any, wanted: Type, what: str) -> Value:
    """A tangent or cotangent given by the user, which must have the type of its primal."""
    t = without_class(unwrap_fresh(t), what)
    if isinstance(t, (list, tuple)) or not isinstance(t, NUMBERS):
        raise ArgumentError(f"{what} is {type(t).__name__}, expected an array of type {wanted!r}")
    if shape_of(t) != wanted.shape:
        raise ShapeError(f"{what} has shape {shape_of(t)}, expected {wanted.shape}")
    dtype = dtype_of(t)
    if dtype != wanted.dtype:
        if type(t) in (float, complex) and (wanted.dtype.kind == "c" or type(t) is float):
            return wanted.dtype.type(t)
        raise DtypeError(f"{what} has dtype {dtype}, expected {wanted.dtype}; convert it with astype({wanted.dtype})")
    return np.float64(t) if type(t) is float else t


class Results:
    """Derivatives as returned to the user: arrays that share no memory."""

    def __init__(self, *shared: Any) -> None:
        self.seen = {id(x) for x in shared}

    def own(self, g: Any) -> Any:
        """An array that shares no memory; a number as a NumPy scalar."""
        if type(g) is float:
            return np.float64(g)
        if isinstance(g, np.ndarray):
            if not g.ndim:
                return g[()]
            if g.base is not None or not is_writeable(g) or id(g) in self.seen:
                g = np.array(g)
            self.seen.add(id(g))
        return snapshot(g)

    def of(self, g: Value | None, x: Value) -> Any:
        """The derivative for x, zeros if it has no contribution: an array for an array, a number for a number."""
        if g is None:
            g = np.zeros(shape_of(x), dtype_of(x))
        if isinstance(g, Traced):
            return g
        return np.array(g) if isinstance(x, np.ndarray) and not x.ndim else self.own(g)
