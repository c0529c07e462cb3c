"""A program for every op of the table: one call of it, on arguments from its declaration."""

import warnings

import numpy as np
import scipy.special

import adjoint as ad
import adjoint.scipy.linalg
import adjoint.scipy.special
import adjoint.scipy.stats  # its ops are declared when it is loaded
from adjoint.core.op import OPS, Elementwise, find
from adjoint.numpy.table import load_all

load_all()
find("")  # loads the whole table

INTEGERS = {"gcd", "lcm", "left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_count", "invert"}

#: Loops and branches, whose graphs come from functions.
STRUCTURED = {
    "scan": (lambda x: ad.scan(lambda c, v: (np.sin(c) * v, c), x, np.linspace(0, 1, 5)), (0.5,)),
    "while": (lambda x: ad.while_loop(lambda u: u < 5.0, lambda u: u * 1.5 + x, x), (0.7,)),
    "while_vjp": (ad.grad(lambda x: ad.while_loop(lambda u: u < 5.0, lambda u: u * 1.5 + x, x)), (0.7,)),
    "cond": (lambda x: ad.cond(x > 1.0, lambda u: u + 2.0, lambda u: u * 3.0, x), (0.7,)),
    "checkpoint": (ad.checkpoint(lambda x: np.sin(x) * x), (0.7,)),
}


def samples(op, rng):
    """Arguments and parameters, from the op's declared cases or from its arity."""
    cases = [(c.args, c.params) for c in op.cases]
    if not cases:
        arity = (
            op.arity if isinstance(op, Elementwise) else getattr(op.impl, "nin", None) or (1 if op.name == "stop_gradient" else 2)
        )
        cases = [([(2, 3)] * arity, {}), ([(), *[(3,)] * (arity - 1)], {})]
    for args, params in cases:
        domains = op.domain if isinstance(op.domain[0], tuple) else [op.domain] * len(args)
        drawn = [rng.uniform(*d, a) if isinstance(a, tuple) else a for a, d in zip(args, domains, strict=False)]
        yield [np.asarray(a).astype(np.int64) % 5 for a in drawn] if op.name in INTEGERS else drawn, params


def whole_numbers(name, dtype, seed=0):
    """A program that computes integers or truths from integers of a dtype, the least and the largest among them, with its
    arguments; None if the op has none.
    """
    args, params = next(samples(OPS[name], np.random.default_rng(seed)))
    rng, limits = np.random.default_rng(seed), np.iinfo(dtype)
    some = np.array([n for n in (-5, -3, -1, 0, 1, 2, 3, 7, limits.min, limits.max) if n >= limits.min], dtype)
    if name == "reciprocal":
        some = some[some != 0]  # infinity as an integer is the processor's

    def drawn(a):
        if np.asarray(a).dtype.kind != "f" and name not in INTEGERS:
            return a  # an index
        if isinstance(OPS[name], Elementwise):
            return rng.choice(some, np.shape(a))
        rounded = np.rint(4 * np.asarray(a))  # a matrix stays what it is
        return (rounded if dtype.kind == "i" else np.abs(rounded)).astype(dtype)

    args = tuple(drawn(a) for a in args)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = ad.graph(lambda *xs, op=OPS[name]: op(*xs, **params))(*args)
            if any(t.dtype.kind not in "biu" for t in program.output_types):
                return None
            program.run(*args)
            return program, args
    except (TypeError, ValueError, ArithmeticError, np.linalg.LinAlgError):
        return None


#: Kinds of operands besides float64 and integers: other numbers, and arrays without elements.
#: Those of derivatives are made from floats, and functions of matrices convert bools before.
REAL = {"as_complex", "cofactor_slope", "hermitian", "lstsq", "norm", "cholesky_pullback", "eig"}
#: Infinity as an integer is the processor's; the quantile of 0 is inf in SciPy, whose limit is −inf.
NOT_OF_TRUTHS = {"reciprocal", "stdtrit"}
if scipy.special.spherical_kn(1, True) != scipy.special.spherical_kn(1, 1.0):  # SciPy 1.18 computes bools in single precision
    NOT_OF_TRUTHS.add("spherical_kn")
SIZED = {"add_along", "einsum", "matmul"}  # which relate the sizes of operands or parameters
KINDS = ("float32", "complex128", "complex64", "bool", "empty")


def converted(name, kind, seed=0):
    """A program of an op on operands of a kind, with its arguments; None if NumPy, or the op, has none."""
    if (
        name in STRUCTURED
        or (kind == "empty" and name in SIZED)
        or (kind in ("bool", "complex64", "complex128") and name in REAL)
    ):
        return None
    if kind == "bool" and name in NOT_OF_TRUTHS:
        return None
    args, params = next(samples(OPS[name], np.random.default_rng(seed)))

    def changed(a):
        a = np.asarray(a)
        if kind == "empty":
            return np.zeros((0, *a.shape[1:]), a.dtype) if a.ndim else a
        if a.dtype.kind != "f":
            return a  # an index
        if kind.startswith("complex"):
            return (a + 0.25j * (a[::-1] if a.ndim else 1)).astype(kind)
        return a > np.median(a) if kind == "bool" else a.astype(kind)

    args = tuple(map(changed, args))
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = ad.graph(lambda *xs, op=OPS[name]: op(*xs, **params))(*args)
            program.run(*args)
            return program, args
    except (TypeError, ValueError, ArithmeticError, IndexError, np.linalg.LinAlgError):
        return None


def names():
    return sorted(name for name, op in OPS.items() if op.home.startswith("adjoint."))


def ends(op):
    """Arguments of a function of numbers: all combinations of 0, 1, ±infinity, nan and a number inside of its domain.

    Degrees and counts are small ones, and a negative one.
    """
    inside, _ = next(samples(op, np.random.default_rng(0)))
    whole = (0, 1, 2, 3, 6, *([-1] if op.name not in ("eval_jacobi", "eval_sh_jacobi") else []))  # negative: no polynomials
    lines = [whole if np.asarray(x).dtype.kind in "iu" else (0.0, 1.0, np.inf, -np.inf, np.nan, np.ravel(x)[-1]) for x in inside]
    return [x.ravel() for x in np.meshgrid(*lines)]


def programs(name, seed=0):
    """The programs that test an op, with their arguments."""
    if name in STRUCTURED:
        f, args = STRUCTURED[name]
        return [(ad.graph(f)(*args), args)]
    found = []
    for args, params in samples(OPS[name], np.random.default_rng(seed)):
        with np.errstate(all="ignore"):
            found.append((ad.graph(lambda *xs, op=OPS[name], params=params: op(*xs, **params))(*args), tuple(args)))
    return found
