"""Facts about ops that programs rely on, against the implementation: `finite`, `terms`."""

import itertools

import numpy as np
import op_samples
import pytest
from op_samples import OPS

from adjoint.core.op import Elementwise, Linear

FINITE = sorted(name for name in op_samples.names() if OPS[name].finite and isinstance(OPS[name], Elementwise))
LINEAR = [name for name in op_samples.names() if isinstance(OPS[name], Linear)]
POINTS = (-50.0, -3.0, -1.0, -0.5, -0.0, 0.0, 1e-200, 0.5, 1.0, 2.0, 3.0, 50.0)


@pytest.mark.parametrize("name", FINITE)
def test_finite_ops_are_finite_at_every_point(name):
    op = OPS[name]
    xs = np.array(list(itertools.product(POINTS, repeat=op.arity))).T
    with np.errstate(all="ignore"):
        assert np.all(np.isfinite(op.impl(*xs)))


def moving(op, rng):
    """Calls of a linear op: its arguments, those in which it is linear replaced by distinct powers of two, and its parameters."""
    for args, params in op_samples.samples(op, rng):
        rules = op.transposes if isinstance(op.transposes, tuple) else (op.transposes,)
        rules = rules + (rules[-1],) * (len(args) - len(rules))
        sizes = [np.size(a) if rule is not None else 0 for rule, a in zip(rules, args, strict=False)]
        starts = np.cumsum([0, *sizes])
        numbered = [
            a if rule is None else 2.0 ** np.arange(starts[i], starts[i] + sizes[i]).reshape(np.shape(a))
            for i, (rule, a) in enumerate(zip(rules, args, strict=False))
        ]
        yield numbered, params


@pytest.mark.parametrize("name", [name for name in LINEAR if OPS[name].terms == "moved"])
def test_moved_elements_are_those_of_the_arguments(name, rng):
    for args, params in moving(OPS[name], rng):
        known = np.concatenate([np.ravel(a).astype(float) for a in args])
        assert np.all(np.isin(OPS[name].impl(*args, **params), [*known, 0.0]))


@pytest.mark.parametrize("name", [name for name in LINEAR if OPS[name].terms == "added"])
def test_added_terms_have_no_signs(name, rng):
    for args, params in moving(OPS[name], rng):
        assert np.all(OPS[name].impl(*args, **params) >= 0)


def test_terms_are_known_words():
    assert {OPS[name].terms for name in LINEAR} == {"", "moved", "added"}
