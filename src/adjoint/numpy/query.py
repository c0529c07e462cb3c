"""Queries about arrays, which give plain values, and the functions that are refused, each with its reason."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.op import Constant
from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops import integer
from .concrete import primal, primals
from .shape import astype, real
from .table import FUNCTIONS, UFUNCS, implements, lift, piecewise_constant, refuse, unbatched
from .ufunc import deliver
from .ways import as_array, kind_of

# -- comparisons ------------------------------------------------------------------------------------------------


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Value:
    a, b = ops.stop_gradient(lift(a)), ops.stop_gradient(lift(b))
    if not isinstance(a, Traced) and not isinstance(b, Traced):
        return np.isclose(a, b, primal(rtol), primal(atol), equal_nan)
    if dtype_of(b).kind not in "fc":
        b = float(b) if isinstance(b, int) else astype(b, np.result_type(dtype_of(b), 1.0))  # so that nothing wraps around
    near = ops.logical_and(ops.less_equal(np.abs(a - b), lift(atol) + lift(rtol) * np.abs(b)), ops.isfinite(b))
    found = ops.logical_or(near, ops.equal(a, b))
    return ops.logical_or(found, ops.logical_and(ops.isnan(a), ops.isnan(b))) if equal_nan else found


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    return _single(np.all(isclose(a, b, rtol, atol, equal_nan)))


def _single(answer: Value) -> Any:
    """One bool; inside vmap, one for each example."""
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
    return deliver(ops.equal(_ordered(x), -np.inf), out)


@implements(np.isposinf)
def isposinf(x: Any, out: Any = None) -> Value:
    return deliver(ops.equal(_ordered(x), np.inf), out)


def _ordered(x: Any) -> Value:
    x = lift(x)
    if dtype_of(x).kind == "c":
        raise TypeError(f"This operation is not supported for {dtype_of(x)} values because it would be ambiguous.")
    return x


@implements(np.iscomplex)
def iscomplex(x: Any) -> Value:
    x = lift(x)
    return ops.not_equal(shapes.imag(x), 0) if dtype_of(x).kind == "c" else ops.less(x, x)  # all False


@implements(np.isreal)
def isreal(x: Any) -> Value:
    return ops.logical_not(iscomplex(x))


@implements(np.real_if_close)
def real_if_close(a: Any, tol: float = 100) -> Value:
    a = as_array(lift(a))
    if dtype_of(a).kind != "c":
        return a
    small = np.finfo(dtype_of(a)).eps * tol if tol > 1 else tol
    return real(a) if np.all(np.abs(primal(a).imag) < small) else a


# -- types and shapes -------------------------------------------------------------------------------------------


def _typed(x: Any) -> Any:
    """A dummy of the same type, to apply NumPy's rules to."""
    return np.empty((), dtype_of(x)) if isinstance(x, Traced) else x


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    return dtype_of(lift(x)).kind == "c"


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    return not iscomplexobj(x)


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> Any:
    return np.result_type(*[kind_of(x) if isinstance(x, Traced) else x for x in arrays_and_dtypes])


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
    """The base at the end of a chain of views."""
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


# -- what is constant almost everywhere -------------------------------------------------------------------------

UFUNCS.update(
    {
        np.gcd: integer.gcd,
        np.lcm: integer.lcm,
        np.left_shift: integer.left_shift,
        np.right_shift: integer.right_shift,
        np.bitwise_count: integer.bitwise_count,
    }
)

piecewise_constant(*[ufunc for ufunc, function in UFUNCS.items() if isinstance(function, Constant)], np.heaviside)
piecewise_constant(
    *(np.all, np.any, np.argmax, np.argmin, np.argpartition, np.argsort, np.argwhere, np.count_nonzero, np.digitize),
    *(np.flatnonzero, np.isin, np.ix_, np.lexsort, np.nanargmax, np.nanargmin, np.nonzero, np.searchsorted),
    *(np.around, np.round, np.fix, np.unravel_index, np.ravel_multi_index, np.diag_indices_from, np.tril_indices_from),
    *(np.triu_indices_from, np.empty_like, np.ones_like, np.zeros_like, np.shape, np.ndim, np.size),
    *(np.isclose, np.allclose, np.array_equal, np.array_equiv, np.isneginf, np.isposinf, np.iscomplex, np.isreal),
    *(np.iscomplexobj, np.isrealobj, np.result_type, np.common_type, np.can_cast, np.min_scalar_type, np.shares_memory),
    *(np.may_share_memory, np.einsum_path, np.array_repr, np.array_str, np.array2string),
)

# Functions without array arguments that could be traced: sizes, names, types, files, settings.
piecewise_constant(
    *(np.arange, np.bartlett, np.blackman, np.hamming, np.hanning, np.diag_indices, np.tril_indices, np.triu_indices),
    *(np.mask_indices, np.indices, np.tri, np.eye, np.identity, np.empty, np.ones, np.zeros, np.broadcast_shapes),
    *(np.base_repr, np.binary_repr, np.format_float_positional, np.format_float_scientific, np.iterable, np.isscalar),
    *(np.isdtype, np.issubdtype, np.isfortran, np.mintypecode, np.promote_types, np.typename, np.datetime_data),
    *(np.from_dlpack, np.frombuffer, np.fromfile, np.fromregex, np.fromstring, np.genfromtxt, np.load, np.loadtxt),
    *(np.get_include, np.get_printoptions, np.getbufsize, np.geterr, np.geterrcall, np.info, np.printoptions),
    *(np.set_printoptions, np.setbufsize, np.seterr, np.seterrcall, np.show_config, np.show_runtime, np.test),
)

# Names that newer versions of NumPy have removed.
for _old, _new in (("row_stack", "vstack"), ("in1d", "isin"), ("trapz", "trapezoid")):
    if hasattr(np, _old):
        implements(getattr(np, _old))(FUNCTIONS[getattr(np, _new)])

# -- what is refused --------------------------------------------------------------------------------------------

refuse("a file holds plain numbers; return the value from the function and save the result",
       np.save, np.savetxt, np.savez, np.savez_compressed)  # fmt: skip
refuse(
    "dates are not numbers with a derivative", np.busday_count, np.busday_offset, np.is_busday, np.datetime_as_string, np.isnat
)
refuse("bits are not numbers with a derivative", np.packbits, np.unpackbits)
refuse("it counts, so it is constant almost everywhere; use np.histogram with weights=, or a kernel density that is smooth",
       np.histogram2d, np.histogramdd)  # fmt: skip
refuse("np.matrix is not supported; use arrays and @", np.asmatrix, np.bmat)
refuse("it makes arrays of Python objects; write the function with NumPy operations, or use adjoint.numpy.vectorize",
       np.frompyfunc)  # fmt: skip
refuse("it walks over the memory of arrays; write a loop over elements, or NumPy operations", np.nested_iters)

unbatched(
    *(np.extract, np.trim_zeros, np.roots, np.polydiv, np.real_if_close, np.histogram, np.bincount),
    *(np.unique, np.unique_all, np.unique_counts, np.unique_inverse, np.unique_values),
    *(np.intersect1d, np.setdiff1d, np.setxor1d, np.union1d),
)
