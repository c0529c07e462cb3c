"""What ops are in terms of other ops, for targets that do not have them: one table for all exporters.

    norm(x)      = sqrt(sum(x²))
    roll(x)      = concatenate(x[-k:], x[:-k])
    gammaln(x)   = Stirling's series, from a shifted argument

An expansion has the signature of the op's implementation and is written in our own ops, which may have expansions themselves. A
target declares which ops it writes; another op is expanded until only those are left (`normal.py` for ONNX, StableHLO and JAX,
`lowering.py` for C, object code, JavaScript and WebAssembly), or refused by name. An expression that the declaration of an op
states with `scalar=` is its expansion.

Results agree with NumPy's and SciPy's to about 10⁻¹⁴, and infinities and nans are theirs, except where SciPy overflows or loses
its digits. An expansion that holds for some types only returns `NotImplemented` for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ...core.bind import Traced
from ...core.op import Elementwise, Op
from ...core.types import Type, dtype_of
from ...ops import elementwise as ew
from ...ops.broadcast import broadcast_to, cast
from ...ops.matrix_functions import permutation
from ...ops.reduce import cumprod, cumsum
from ...ops.special import xlog1py, xlogy
from . import (
    arrays,
    bessel,
    distributions,
    elementwise,
    elliptic,
    error,
    gamma,
    integrals,
    jacobi,
    loops,
    matrices,
    matrix_functions,
    polynomials,
    special,
)
from .numerics import Expansion

_ARRAYS = (elementwise, arrays, matrices, jacobi, matrix_functions, loops)
_FUNCTIONS = (special, gamma, error, bessel, elliptic, distributions, integrals, polynomials)
EXPANSIONS: dict[Op, Expansion] = {op: f for module in (*_ARRAYS, *_FUNCTIONS) for op, f in module.EXPANSIONS.items()}

#: Functions of one number, or of several, whose expansions hold for complex numbers too.
OF_COMPLEX = frozenset({
    ew.exp2, ew.expit, ew.expm1, ew.fmax, ew.fmin, ew.ieee_mul, ew.isfinite, ew.isinf, ew.isnan, ew.log10, ew.log1p, ew.log2,
    ew.maximum, ew.minimum, ew.pos, ew.reciprocal, ew.root, ew.sinc, ew.square, ew.stop_gradient, ew.strong_mul_either_op,
    ew.strong_mul_op, ew.tan, xlog1py, xlogy,
})  # fmt: skip
NONE: Mapping[Op, Expansion] = MappingProxyType({})
#: Functions of matrices, which NumPy computes in float64 for integers.
_OF_MATRICES = frozenset(op for module in (matrices, jacobi, matrix_functions) for op in module.EXPANSIONS) - {permutation}
#: Functions whose operands keep their dtypes: an integer order is not a real one.
UNPROMOTED = frozenset({ew.ldexp, *bessel.WHOLE, *polynomials.EXPANSIONS})


def expanded(
    op: Op, args: Sequence[Any], params: dict[str, Any], results: Sequence[Type], first: Mapping[Op, Expansion] = NONE
) -> tuple[Any, ...] | None:
    """The results of an op, computed in other ops; None if it has no expansion for these operands. The table `first` wins."""
    if not any(t.size for t in results):  # nothing to compute
        return tuple(np.zeros(t.shape, t.dtype) for t in results)
    if args and not any(np.size(x) for x in args):  # nothing to compute from: the results are constants
        made = op.impl(*(np.zeros(np.shape(x), dtype_of(x)) for x in args), **params)
        return tuple(_of_type(y, t) for y, t in zip(made if op.many else [made], results, strict=True))
    expansion = _expansion(op, args, first)
    made = NotImplemented if expansion is None else expansion(*_promoted(op, args, results), **params)
    if made is NotImplemented:
        return None
    made = made if op.many else (made,)
    if any(t.dtype.kind == "c" and dtype_of(y).kind != "c" for y, t in zip(made, results, strict=True)):
        return None  # such as the root of a negative number
    return tuple(_of_type(y, t) for y, t in zip(made, results, strict=True))


def _expansion(op: Op, args: Sequence[Any], first: Mapping[Op, Expansion]) -> Expansion | None:
    """The expansion of an op for such operands. Those of functions of numbers hold for real ones, others are in `OF_COMPLEX`."""
    found = first.get(op) or EXPANSIONS.get(op) or (op.scalar if callable(op.scalar) else None)
    is_of_numbers = isinstance(op, Elementwise) or found is op.scalar
    if is_of_numbers and op not in OF_COMPLEX and any(dtype_of(x).kind == "c" for x in args):
        return None
    return found


def _promoted(op: Op, args: Sequence[Any], results: Sequence[Type]) -> Sequence[Any]:
    """The operands with the dtypes in which NumPy computes."""
    if op in _OF_MATRICES:
        return [cast_to(x, np.dtype(np.float64)) if dtype_of(x).kind in "biu" else x for x in args]
    if op in (cumsum, cumprod):  # of few bits, in more
        return [cast_to(x, results[0].dtype) for x in args]
    if op is ew.ldexp:
        return [cast_to(args[0], results[0].dtype), args[1]]
    return args


def _of_type(y: Any, type_: Type) -> Any:
    y = cast_to(y, type_.dtype)
    return y if np.shape(y) == type_.shape else broadcast_to(y, shape=type_.shape)


def cast_to(x: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(x, Traced):
        return x if dtype_of(x) == dtype else cast(x, dtype=dtype)
    return cast(np.asarray(x), dtype=dtype) if np.asarray(x).dtype.kind == "c" else np.asarray(x).astype(dtype)


__all__ = ["EXPANSIONS", "OF_COMPLEX", "UNPROMOTED", "Expansion", "cast_to", "expanded"]
