"""Queries that a traced value cannot answer by itself: `type(x)`, which ignores `__class__`, and `x is y`.

Whether a function uses them is determined from its code and that of the functions it can reach. The staged copy has a replaced
`type`, which knows traced values; but not all code can be copied. So a function that calls `type` also runs eagerly at its first
call, and the results are compared: a decision by type is the same at every call with such arguments, so a wrong branch shows at
once. At special points, such as zeros, both branches may give the same: the results next to them are compared, too. A function
that compares values by identity is compiled for the set of arguments and outside arrays that are the same object; one that asks
whether a value `is True` is not compiled for Python's bools.
"""

from __future__ import annotations

import dis
import functools
import itertools
import os
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.tree import flatten
from .reach import is_users, reached

_IS_OP = dis.opmap["IS_OP"]
_TOLERANCE = 1e-6  # rounding of another order of operations; a wrong branch differs more
_STEP = 1e-3


def line_of_type(f: Any) -> str | None:
    """The line on which a function, or one that it can reach, calls `type`."""
    return _first_line(f, _calls_type)


def line_of_bool(f: Any) -> str | None:
    """The line on which a function, or one that it can reach, compares with True or False by identity."""
    return _first_line(f, _compares_bools)


def _first_line(f: Any, find: Callable[[types.CodeType], int | None]) -> str | None:
    for code, _ in _codes(f):
        line = find(code)
        if line is not None:
            return f"{os.path.basename(code.co_filename)}:{line}"
    return None


def compares_identity(f: Any) -> bool:
    """Whether a function, or one that it can reach, may ask whether two arrays, numbers or containers are one object."""
    return any(_compares(code) or _is_shared_among(_compared_globals(code), names) for code, names in _codes(f))


def asks_for_sharing(f: Any) -> bool:
    """Whether a function, or one that it can reach, asks whether arrays share memory."""
    return any(not _SHARING.isdisjoint(code.co_names) for code, _ in _codes(f))


def _codes(f: Any) -> Iterator[tuple[types.CodeType, dict[str, Any]]]:
    """The code of a function, of those inside it and of those that it can reach, except for Python's, NumPy's and our own.

    With each the globals that it reads.
    """
    for x in reached(f):
        members = vars(x).values() if isinstance(x, type) else (x,)
        for function in [m for m in members if isinstance(m, types.FunctionType) and is_users(m)]:
            waiting = [function.__code__]
            while waiting:
                code = waiting.pop()
                yield code, function.__globals__
                waiting += [c for c in code.co_consts if isinstance(c, types.CodeType)]


def _may_compare(code: types.CodeType) -> bool:
    """False for most code without `is`: found at once, where reading the instructions of a long function takes a second."""
    return _IS_OP in code.co_code[::2]


@functools.lru_cache(1 << 10)
def _calls_type(code: types.CodeType) -> int | None:
    if "type" not in code.co_names:
        return None
    for instruction in dis.get_instructions(code):
        if instruction.argval == "type" and instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") and instruction.positions:
            return instruction.positions.lineno
    return None


@functools.lru_cache(1 << 10)
def _compares_bools(code: types.CodeType) -> int | None:
    """The line of `x is True`, or of `case True:`."""
    if not _may_compare(code) or not any(constant is True or constant is False for constant in code.co_consts):
        return None
    before: list[dis.Instruction] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IS_OP" and any(i.opname == "LOAD_CONST" and type(i.argval) is bool for i in before[-2:]):
            return instruction.positions.lineno if instruction.positions else code.co_firstlineno
        before.append(instruction)
    return None


#: Loads of what is no traced value. Python 3.14 compiles `all(… for …)` with a comparison of `all` and the builtin function.
_KNOWN = ("LOAD_CONST", "LOAD_GLOBAL", "LOAD_COMMON_CONSTANT")


@functools.lru_cache(1 << 10)
def _compares(code: types.CodeType) -> bool:
    """Whether code compares anything by identity, except with a constant or a global: `x is None` asks nothing of the kind."""
    if not _SAME.isdisjoint(code.co_names):
        return True
    if not _may_compare(code):
        return False
    names = [i.opname for i in dis.get_instructions(code) if i.opname != "CACHE"]
    return any(name == "IS_OP" and names[k - 1] not in _KNOWN for k, name in enumerate(names))


@functools.lru_cache(1 << 10)
def _compared_globals(code: types.CodeType) -> tuple[str, ...]:
    """The globals on the right of an `is`: sentinels, mostly."""
    if not _may_compare(code):
        return ()
    found = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
    return tuple(a.argval for a, b in itertools.pairwise(found) if b.opname == "IS_OP" and a.opname == "LOAD_GLOBAL")


def _is_shared_among(names: Iterable[str], values: dict[str, Any]) -> bool:
    """Whether a global is one that a program does not hold fixed: an array or a container."""
    return any(isinstance(values.get(name), (np.ndarray, list, dict, set)) for name in names)


#: Functions that tell whether two arguments are one array, or share memory.
_SHARING = frozenset({"shares_memory", "may_share_memory"})
_SAME = frozenset({"id", "is_", "is_not", *_SHARING})


def same_objects(leaves: Sequence[Any]) -> tuple[int, ...]:
    """For each leaf, the first that is the same object."""
    first: dict[int, int] = {}
    return tuple([first.setdefault(id(x), i) for i, x in enumerate(leaves)])


def agree(found: Any, expected: Any, on_the_way: Callable[[], Iterable[Any]], tolerance: float = _TOLERANCE) -> bool:
    """Whether a program and the function give the same results, up to rounding relative to the largest.

    Where terms cancel, all of a result may be rounding: of the values on the way to it.
    """
    (some, structure), (others, other) = flatten(found), flatten(expected)
    if structure != other:
        return False
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(some, others, strict=True)]
    size = _largest(b for _, b in pairs)
    if all(_close(a, b, size, tolerance) for a, b in pairs):
        return True
    size = _largest(on_the_way())
    return all(_differ_by_rounding(a, b, size, tolerance) for a, b in pairs)


def nearby(x: Any, number: int) -> Any:
    """A value close to the number-th argument x, of its class; no two elements are moved alike. Integers stay."""
    if np.result_type(x).kind not in "fc":
        return x
    direction = _STEP * np.sin(1.0 + number + np.arange(np.size(x)).reshape(np.shape(x)))
    moved = x + direction * (1 + np.abs(x))
    return moved.astype(x.dtype) if isinstance(x, np.ndarray) else type(x)(moved)


def _largest(values: Iterable[Any]) -> float:
    arrays = [v for v in map(np.asarray, values) if v.dtype.kind in "fc"]
    with np.errstate(all="ignore"):
        return max((float(np.max(np.abs(v), initial=0, where=np.isfinite(v))) for v in arrays), default=0.0)


def _differ_by_rounding(a: Any, b: Any, size: float, tolerance: float) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b)) and a.dtype == b.dtype
    return bool(np.allclose(a, b, rtol=tolerance, atol=64 * float(np.finfo(a.dtype).eps) * size, equal_nan=True))


def _close(a: Any, b: Any, size: float, tolerance: float) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    tolerance = max(tolerance, 64 * float(np.finfo(a.dtype).eps))
    with np.errstate(all="ignore"):
        return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * size, equal_nan=True))
