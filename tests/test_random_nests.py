"""Random in-place loop nests (see `nests.py`), rolled up again: values, derivatives and batches, as eager mode has them.

The same ones on every run; ADJOINT_PROGRAMS=10000 draws more, and `python -m fuzz nests` runs any range of seeds.
"""

import functools
import warnings
from unittest import mock

import numpy as np
import pytest
from nests import function
from night import asked

import adjoint as ad
from adjoint.api.graph import infer_types
from adjoint.core.tree import flatten
from adjoint.ir.check import check as check_graph
from adjoint.rewrite import pipeline
from adjoint.rewrite.loops import Rolled, roll

ASKED = asked(12, at_night=180)
CHUNK = 6
EAGER = functools.partial(roll, saving=24)  # rolls up much shorter loops than compiled functions do
SHARE = 20  # of as many programs, four are compiled: with the roller of compiled functions, with the eager one, with none
LARGE = 2000  # equations of a program that is not compiled as it is


def gradient(f):
    return ad.value_and_grad(f, (0, 1))


def curvature(f):
    """The tangent of the gradient."""
    slope = ad.grad(f, (0, 1))
    return lambda x, y: ad.jvp(slope, (x, y), (np.cos(x), np.sin(1 + y)))


def batch(f):
    return lambda x, y: ad.vmap(f)(*(np.stack([v, 0.75 * v]) for v in (x, y)))


def gradients_of_batch(f):
    return lambda x, y: ad.vmap(ad.grad(f, (0, 1)))(*(np.stack([v, 0.75 * v]) for v in (x, y)))


MODES = (lambda f: f, gradient, gradient, curvature, batch, gradients_of_batch)


def rolled_by(run):
    return mock.patch.dict(pipeline.PASSES, {"roll": run})


def same(found, wanted, what):
    for a, b in zip(flatten(found)[0], flatten(wanted)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10, err_msg=what)


def check(seed):
    f, text, args = function(seed)
    transform = MODES[seed % len(MODES)](f)
    copies = lambda: [np.copy(a) for a in args]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wanted = transform(*copies())
            if transform is not f and seed % len(MODES) < 3:
                same(wanted[0], f(*copies()), "value under grad")
            graph = ad.graph(transform)(*copies())
            found = EAGER(graph)
            check_graph(found.graph, infer_types)
            same(found.graph.run_flat(copies()), flatten(wanted)[0], "rolled graph")
            rollers = {0: roll, 5: EAGER, 10: EAGER, 15: lambda graph, weak: Rolled(graph, (), ())}
            if (roller := rollers.get(seed % SHARE)) is not None and (roller is roll or len(graph) < LARGE):
                with rolled_by(roller):
                    same(ad.jit(transform)(*copies()), wanted, "compiled")
    except Exception as error:
        error.add_note(f"# seed {seed}\n{text}")
        raise


@pytest.mark.parametrize("start", range(0, ASKED, CHUNK))
def test_nests(start):
    for seed in range(start, start + CHUNK):
        check(seed)
