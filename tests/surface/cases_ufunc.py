"""Calls of ufuncs, made from the domains and cases that their ops declare; those that are no single op are listed."""

import numpy as np
import scipy.special
from surface.calls import Data, F, O, X, call, entry

import adjoint.scipy.special  # noqa: F401 - enters its ufuncs in the table
from adjoint.core.op import Constant, Elementwise, Op
from adjoint.derive import split
from adjoint.numpy.table import CONSTANT, REFUSED, UFUNCS, load_all

load_all()

SHAPES = {
    1: [((),), ((3,),), ((2, 3),), ((0, 2),)],
    2: [((), ()), ((3,), (3,)), ((2, 1), (3,)), ((), (2,)), ((0,), (1,))],
}
_SCALED = "scaled by exp(−|·|) it is not analytic: refused at complex numbers"
_TRIGAMMA = "SciPy has no trigamma of complex numbers: refused"
#: Checks that a ufunc cannot pass, each with the reason.
WITHOUT = {
    **{f: {"complex": _SCALED} for f in (scipy.special.ive, scipy.special.jve, scipy.special.yve)},
    **{f: {"complex_second": _TRIGAMMA} for f in (scipy.special.gamma, scipy.special.loggamma, scipy.special.rgamma)},
    scipy.special.digamma: {"complex": _TRIGAMMA},
}
WHERE = np.array([True, False, True])


def from_op(ufunc, op, masked):
    """Calls over the op's own cases, and with the options of a ufunc."""
    cases = [c.args for c in op.cases] or SHAPES[op.arity]
    domains = op.domain if isinstance(op.domain[0], tuple) else (op.domain,) * len(cases[0])
    missing = [p.missing for p in split(op)] if isinstance(op, Elementwise) else [False] * len(cases[0])

    def argument(given, domain, fixed):
        low, high = domain
        if isinstance(given, tuple):
            return (Data if fixed else F)(*given, low=low, high=high)
        return X(given) if not fixed and np.asarray(given).dtype.kind == "f" and np.ndim(given) else given

    def one(given, **options):
        return call(*map(argument, given, domains, missing), **options)

    calls = [one(given) for given in cases]
    row, wide = ([shape if isinstance(given, tuple) else np.ravel(given)[0] for given in cases[0]] for shape in ((3,), (1, 2)))
    calls += [one(wide)]
    if ufunc.nout == 1:
        out = O(3, dtype=complex if all(t[-1] in "FDG" for t in ufunc.types) else None)
        calls += [one(row, out=out), *([one(row, out=out, where=WHERE)] if masked else [])]
    return entry(*calls, **WITHOUT.get(ufunc, {}))


def table(module, masked):
    found = {}
    for name in sorted(set(dir(module))):
        ufunc = getattr(module, name)
        if isinstance(ufunc, np.ufunc) and ufunc not in CONSTANT and ufunc not in REFUSED:
            op = UFUNCS.get(ufunc)
            if isinstance(op, Op) and not isinstance(op, Constant) and ufunc not in found.values():
                found[name] = ufunc
    return {name: from_op(ufunc, UFUNCS[ufunc], masked) for name, ufunc in found.items()}


def pairs(*shapes, low=0.5, high=2.0, **options):
    """The calls of a ufunc of two arguments between `low` and `high`."""
    f = lambda *s: F(*s, low=low, high=high)
    calls = [call(f(), f()), call(f(3), f(3)), call(f(2, 1), f(3)), call(f(0, 2), f(2)), call(f(3), f(3), out=O(3))]
    return entry(*calls, call(f(3), f(3), where=WHERE, out=O(3)), **options)


MATRICES = [call(F(2, 3), F(3, 2)), call(F(3), F(3)), call(F(3), F(3, 2)), call(F(2, 3), F(3)), call(F(2, 2, 3), F(1, 3, 2))]

NUMPY = table(np, masked=True) | {
    "absolute": entry(call(F()), call(F(3)), call(F(2, 3)), call(F(0, 2)), call(F(3), out=O(3))),
    "fabs": entry(call(F()), call(F(3)), call(F(2, 3)), call(F(0)), call(F(3), out=O(3)), call(F(3), where=WHERE, out=O(3))),
    "copysign": pairs(low=-2.0),
    "float_power": pairs(),
    "power": [*pairs(), call(F(3), 2), call(F(3), 3.0), call(F(3), np.array([0, 1, 2])), call(2.0, F(3)), call(X([0.0, 1.0]), 2)],
    "nextafter": pairs(),
    "divmod": entry(call(F(), F(low=0.5)), call(F(3), F(3, low=0.5)), call(F(2, 3), 1.5), call(F(0), F(1, low=0.5))),
    "modf": entry(call(F()), call(F(3)), call(F(2, 3)), call(F(0, 2)), call(F(3), out=(O(3), O(3)))),
    "frexp": entry(call(F(low=0.3)), call(F(3)), call(F(2, 3)), call(F(0, 2))),
    "ldexp": entry(call(F(), 2), call(F(3), np.array([1, 0, -2])), call(F(2, 3), 1), call(F(0), 1), call(F(3), 2, out=O(3))),
    "sign": entry(
        call(F()), call(F(3)), call(F(2, 3)),
        take=lambda y: y * 1.0,
    ),
    "matmul": entry(*MATRICES, call(F(0, 2), F(2, 3)), call(F(2, 3), F(3, 2), out=O(2, 2))),
    "matvec": entry(call(F(2, 3), F(3)), call(F(2, 2, 3), F(3)), call(F(2, 3), F(4, 3)), call(F(0, 2), F(2)),
                    call(F(2, 3), F(3), out=O(2))),
    "vecmat": entry(call(F(3), F(3, 2)), call(F(2, 3), F(3, 2)), call(F(3), F(2, 3, 2)), call(F(2), F(2, 0)),
                    call(F(3), F(3, 2), out=O(2))),
    "vecdot": entry(call(F(3), F(3)), call(F(2, 3), F(3)), call(F(2, 3), F(2, 3), axis=0), call(F(2, 3), F(2, 3), axis=-1),
                    call(F(0), F(0)), call(F(2, 3), F(2, 3), axes=[0, 0, ()]), call(F(2, 3), F(3), out=O(2))),
}  # fmt: skip

# Without where=: SciPy's own loops write beside their arrays then.
SPECIAL = table(scipy.special, masked=False) | {
    "kelvin": entry(call(F(low=0.5)), call(F(3, low=0.5)), call(F(2, 2, low=0.5))),
    **{
        name: entry(
            call(0.5, F(low=0.2)),
            call(1.5, F(3, low=0.2)),
            call(np.array([[0.5], [1.5]]), F(2, low=0.2)),
            call(0.5, F(2, 2, low=0.2)),
        )
        for name in ("pbdv", "pbvv", "pbwa")
    },
}
