"""Questions about arrays: the answer is a plain value. And the functions that are refused, each with its reason."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.op import Constant
from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import reduce as reductions
from ..ops.declare import constant
from .concrete import primal, primals
from .table import FUNCTIONS, UFUNCS, implements, lift, piecewise_constant, refuse

# -- comparisons ------------------------------------------------------------------------------------------------


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Value:
    a, b = ops.stop_gradient(lift(a)), ops.stop_gradient(lift(b))
    if not isinstance(a, Traced) and not isinstance(b, Traced):
        return np.isclose(a, b, primal(rtol), primal(atol), equal_nan)
    near = ops.logical_and(ops.less_equal(np.abs(a - b), lift(atol) + lift(rtol) * np.abs(b)), ops.isfinite(b))
    found = ops.logical_or(near, ops.equal(a, b))
    return ops.logical_or(found, ops.logical_and(ops.isnan(a), ops.isnan(b))) if equal_nan else found


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    return _single(np.all(isclose(a, b, rtol, atol, equal_nan)))


def _single(answer: Value) -> Any:
    """One yes or no; inside vmap, one for each example."""
    return answer if isinstance(answer, Traced) else bool(answer)


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    a, b = lift(a1), lift(a2)
    if shape_of(a) != shape_of(b):
        return False
    same = ops.equal(a, b)
    if equal_nan:
        same = ops.logical_or(same, ops.logical_and(ops.isnan(a), ops.isnan(b)))
    return _single(np.all(same))


@implements(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> Any:
    a, b = lift(a1), lift(a2)
    try:
        np.broadcast_shapes(shape_of(a), shape_of(b))
    except ValueError:
        return False
    return _single(np.all(ops.equal(a, b)))


@implements(np.isneginf)
def isneginf(x: Any, out: Any = None) -> Value:
    return ops.equal(lift(x), -np.inf)


@implements(np.isposinf)
def isposinf(x: Any, out: Any = None) -> Value:
    return ops.equal(lift(x), np.inf)


@implements(np.iscomplex)
def iscomplex(x: Any) -> Value:
    x = lift(x)
    return ops.not_equal(shapes.imag(x) if dtype_of(x).kind == "c" else x * 0, 0)


@implements(np.isreal)
def isreal(x: Any) -> Value:
    return ops.logical_not(iscomplex(x))


@implements(np.real_if_close)
def real_if_close(a: Any, tol: float = 100) -> Value:
    a = lift(a)
    if dtype_of(a).kind != "c":
        return a
    small = np.finfo(dtype_of(a)).eps * tol if tol > 1 else tol
    return shapes.real(a) if np.all(np.abs(primal(a).imag) < small) else a


# -- types and shapes -------------------------------------------------------------------------------------------


def _typed(x: Any) -> Any:
    """Something of the same type, for NumPy's own rules."""
    return np.empty((), dtype_of(x)) if isinstance(x, Traced) else x


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    return dtype_of(lift(x)).kind == "c"


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    return not iscomplexobj(x)


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> Any:
    return np.result_type(*[dtype_of(x) if isinstance(x, Traced) else x for x in arrays_and_dtypes])


@implements(np.common_type)
def common_type(*arrays: Any) -> Any:
    return np.common_type(*map(_typed, arrays))


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(dtype_of(from_) if isinstance(from_, Traced) else from_, to, casting)


@implements(np.min_scalar_type)
def min_scalar_type(a: Any, /) -> Any:
    return dtype_of(a) if ndim_of(a) else np.min_scalar_type(primal(a))


@implements(np.shares_memory)
def shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    return _root(a) is _root(b)


@implements(np.may_share_memory)
def may_share_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    return _root(a) is _root(b)


def _root(x: Any) -> Any:
    """What a view, and a view of a view, is a view of."""
    while getattr(x, "base", None) is not None:
        x = x.base
    return x


@implements(np.diag_indices_from)
def diag_indices_from(arr: Any) -> Any:
    return np.diag_indices_from(np.broadcast_to(False, shape_of(arr)))


@implements(np.tril_indices_from)
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    return np.tril_indices_from(np.broadcast_to(False, shape_of(arr)), k)


@implements(np.triu_indices_from)
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    return np.triu_indices_from(np.broadcast_to(False, shape_of(arr)), k)


@implements(np.einsum_path)
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    shaped = [np.broadcast_to(0.0, shape_of(x)) if isinstance(x, Traced) else x for x in operands]
    return np.einsum_path(*shaped, optimize=optimize)


# -- text -------------------------------------------------------------------------------------------------------


@implements(np.array_repr)
def array_repr(arr: Any, *args: Any, **options: Any) -> str:
    return np.array_repr(np.asarray(primal(arr)), *args, **options)


@implements(np.array_str)
def array_str(a: Any, *args: Any, **options: Any) -> str:
    return np.array_str(np.asarray(primal(a)), *args, **options)


@implements(np.array2string)
def array2string(a: Any, *args: Any, **options: Any) -> str:
    return np.array2string(np.asarray(primal(a)), *primals(args), **options)


# -- whole numbers ----------------------------------------------------------------------------------------------
# Traced integers occur inside vmap only: there each of these runs once for the whole batch.

_N = np.array([6, 4])


def _integer(ufunc: np.ufunc) -> Any:
    return constant(ufunc.__name__, ufunc)


_INTEGER = (np.gcd, np.lcm, np.left_shift, np.right_shift, np.bitwise_count)
