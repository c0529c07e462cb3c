"""Random time loops over stencils (see `stencils.py`): the same bits with time tiles and without, and what eager mode has.

The same ones on every run; ADJOINT_PROGRAMS=1000 draws more, and `python -m fuzz stencils` runs any range of seeds.
"""

import warnings

import numpy as np
import pytest
from night import asked
from stencils import function, small_tiles

import adjoint as ad
from adjoint.compiler.lower.step import TimeTiles
from adjoint.compiler.switches import Switch, without
from adjoint.core.tree import flatten

CHUNK = 10
ASKED = asked(20, at_night=300)


def loss(f):
    return lambda u, v, k: sum(np.sum(np.cos(result) * result) for result in f(u, v, k))


def gradient(f):
    return ad.grad(loss(f), (0, 1, 2))


def curvature(f):
    slope = ad.grad(loss(f), (0, 2))
    return lambda u, v, k: ad.jvp(slope, (u, v, k), (np.cos(u), v, 0.0 * k + 0.3))


MODES = (lambda f: f, gradient, curvature, lambda f: f, gradient)


def check(seed):
    """Compare a program with eager mode; returns how many of its loops run in time tiles."""
    f, text, args = function(seed)
    transform = MODES[seed % len(MODES)](f)
    single = args[0].dtype == np.float32
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wanted = flatten(transform(*args))[0]
            with small_tiles():
                compiled = ad.jit(transform)
                tiled = sum(isinstance(step, TimeTiles) for step in compiled.lower(*args).lowered.steps)
                found = [flatten(compiled(*args))[0] for _ in range(2)]
            with without(Switch.TIME_TILES):
                plain = flatten(ad.jit(lambda *args: transform(*args))(*args))[0]
        for a, b, c, d in zip(*found, plain, wanted, strict=True):
            np.testing.assert_array_equal(a, b, err_msg="a second call")
            np.testing.assert_array_equal(a, c, err_msg="without time tiles")
            near = 1e-4 if single else 1e-12
            np.testing.assert_allclose(a, d, rtol=near, atol=near * np.max(np.abs(d), initial=1.0), err_msg="eager mode")
            assert np.asarray(a).dtype == np.asarray(d).dtype
    except Exception as error:
        error.add_note(f"# seed {seed}\n{text}")
        raise
    return tiled


@pytest.mark.parametrize("start", range(0, ASKED, CHUNK))
def test_stencils(start):
    assert sum(map(check, range(start, start + CHUNK)))  # some of them are in tiles
