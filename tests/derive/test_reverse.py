"""What a backward pass saves, found from the rules themselves."""

import itertools

import numpy as np
import pytest

import adjoint as ad
import adjoint.scipy.linalg
import adjoint.scipy.special
from adjoint.core.op import OPS, Opaque, case
from adjoint.core.types import Type
from adjoint.derive import DROP, TYPE, VALUE, plan
from adjoint.numpy.table import load_all

load_all()

#: Opaque ops with what is saved of (y, x0, …) when all arguments are differentiated.
SAVED = {
    "max": (VALUE, VALUE),
    "inv": (VALUE, TYPE),
    "det": (TYPE, VALUE),
    "svd": (VALUE, TYPE),
    "solve": (VALUE, VALUE, TYPE),
    "logsumexp": (VALUE, VALUE),
}


@pytest.mark.parametrize("name", SAVED)
def test_what_is_saved(name):
    kept = plan(OPS[name], len(SAVED[name]) - 1, 2 ** (len(SAVED[name]) - 1) - 1).keep
    assert tuple(TYPE if what == DROP else what for what in kept) == tuple(SAVED[name])


OPAQUE = [op for op in OPS.values() if isinstance(op, Opaque) and not op.name.startswith("test_")]
CASES = [pytest.param(op, one, id=f"{op.name}-{i}") for op in OPAQUE for i, one in enumerate(op.cases)]


@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")  # in single precision
@pytest.mark.parametrize("op, one", CASES)
def test_unsaved_values_are_not_read(op, one):
    """Every choice of differentiated arguments and of results that a cotangent comes to, in every precision."""
    args = one.draw(op.domain, np.random.default_rng(1))
    dtypes = [np.float32, np.float64, *([np.complex64, np.complex128] if op.complex_domain else [])]
    for dtype in dtypes:
        xs = [np.asarray(x, dtype) if np.asarray(x).dtype.kind == "f" else x for x in args]
        floats = [i for i, x in enumerate(xs) if np.asarray(x).dtype.kind in "fc"]
        try:
            y = op.impl(*xs, **one.params)
        except (TypeError, ValueError):
            assert dtype != np.float64  # a function of SciPy's without this precision
            continue
        for mask in {sum(1 << i for i in some) for n in range(1, 3) for some in itertools.combinations(floats, n)}:
            step = plan(op, len(xs), mask)
            saved = [None if k == DROP else v if k == VALUE else Type.of(v) for k, v in zip(step.keep, (y, *xs), strict=True)]
            for g in cotangents(y, op.many):
                with np.errstate(all="ignore"):
                    got = step.pull(g, tuple(saved), [Type.of(xs[i]) for i in step.wanted], one.params)
                assert [c is None or np.shape(c) == np.shape(xs[i]) for c, i in zip(got, step.wanted, strict=True)]


def cotangents(y, many):
    if not many:
        return [np.ones_like(y)]
    floats = [i for i, part in enumerate(y) if np.asarray(part).dtype.kind in "fc"]
    choices = [floats, *([i] for i in floats)]
    return [[np.ones_like(part) if i in chosen else None for i, part in enumerate(y)] for chosen in choices]


def test_ops_without_samples_save_everything():
    op = ad.extend.opaque("test_cube_rule", lambda x: x**3, vjp=lambda g, y, x: (3 * g * x**2,))
    assert plan(op, 1, 1).keep == (VALUE, VALUE)
    assert ad.grad(op)(2.0) == 12.0
    op = ad.extend.opaque("test_cube_rule", lambda x: x**3, vjp=lambda g, y, x: (3 * g * x**2,), cases=[case((3,))])
    assert plan(op, 1, 1).keep == (DROP, VALUE)
    assert ad.grad(op)(2.0) == 12.0


def test_a_rule_that_looks_at_a_number():
    """The number decides what the rule does: it is read, whatever the cotangents are computed from."""

    def vjp(g, y, x):
        return (g if y > 0 else -g,)

    op = ad.extend.opaque("test_absolute_rule", abs, vjp=vjp, cases=[case(())])
    assert plan(op, 1, 1).keep == (VALUE, TYPE)
    assert ad.grad(op)(2.0) == 1.0
