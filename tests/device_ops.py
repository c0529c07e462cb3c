"""Every elementwise op that kernels write, with arguments from its domain and special values: for GPUs and the simulator."""

import numpy as np

import adjoint as ad
import adjoint.scipy.special  # its ops are declared when it is loaded
from adjoint.compiler.lower.scalar import has_code
from adjoint.core.op import OPS, Constant, Elementwise
from adjoint.derive.partials import split
from adjoint.numpy.table import load_all

load_all()

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, 1e-300, 5e-324, 1e300, 709.5, -745.2, 1e5, np.inf, -np.inf, np.nan]
_TRUTHS = {"logical_and", "logical_or", "logical_xor", "logical_not"}
_INTEGERS = {"bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"}


def arity(op):
    if op.name == "where":
        return 3
    return (op.arity or 1) if isinstance(op, Elementwise | Constant) else 2


def ops():
    """By number of arguments."""
    found = {1: [], 2: [], 3: []}
    for op in OPS.values():
        if has_code(op) and op.name not in ("cast", "truncate"):
            found[arity(op)].append(op)
    return found


def sampled(op, count, dtype, rng):
    """Arguments in the op's domain, and all special values against each other."""
    domain = op.domain if op.name != "where" else (-2.0, 2.0)
    n = arity(op)
    special = np.array(np.meshgrid(*[SPECIAL] * min(n, 2))).reshape(min(n, 2), -1)
    args = []
    for i in range(n):
        low, high = domain[i] if isinstance(domain[0], tuple) else domain
        drawn = np.concatenate([rng.uniform(low, high, count), rng.normal(size=count) * 10.0 ** rng.integers(-8, 9, count)])
        with np.errstate(all="ignore"):
            args.append(np.concatenate([drawn, special[i % 2]]).astype(dtype))
    if op.name in _TRUTHS:
        args = [a > 0 for a in args]
    elif op.name in _INTEGERS:
        args = [np.clip(np.nan_to_num(a), -1e9, 1e9).astype(np.int64 if dtype == np.float64 else np.int32) for a in args]
    elif op.name == "where":
        args[0] = args[0] > 0
    return tuple(args)


def programs(dtype, count, seed=0, together=12):
    """(ops, a function that applies some ops, its arguments): a few ops in a program, so that there are not too many."""
    rng = np.random.default_rng(seed)
    for group in ops().values():
        for start in range(0, len(group), together):
            some = group[start : start + together]
            args = [sampled(op, count, dtype, rng) for op in some]

            def f(args, some=some):
                return [op(*xs) for op, xs in zip(some, args, strict=True)]

            yield some, f, (args,)


def derivatives(dtype, count, seed=1, together=6):
    """The same for the gradients of differentiable ops, at ordinary points."""
    rng = np.random.default_rng(seed)
    group = [op for n in (1, 2) for op in ops()[n] if isinstance(op, Elementwise) and op.name not in _TRUTHS]
    group = [op for op in group if not any(partial.missing for partial in split(op))]
    for start in range(0, len(group), together):
        some = group[start : start + together]
        args = [tuple(x[:count] for x in sampled(op, count, dtype, rng)) for op in some]

        def f(args, some=some):
            total = 0.0
            for op, xs in zip(some, args, strict=True):
                total = total + np.sum(op(*xs))
            return total

        yield some, ad.grad(f), (args,)
