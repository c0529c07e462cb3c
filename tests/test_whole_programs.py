"""Random programs of whole numbers (see `whole.py`): NumPy's values and dtypes, compiled and in a batch, or its error.

The same ones on every run; ADJOINT_PROGRAMS=10000 draws more, and `python -m fuzz whole` runs any range of seeds.
"""

import warnings

import numpy as np
import pytest
from night import asked
from whole import Program

import adjoint as ad

ASKED = asked(60)
CHUNK = 20


def batched(f):
    return lambda *args: tuple(y[1] for y in ad.vmap(f)(*[np.stack([x, x]) for x in args]))


def check(seed):
    program = Program(seed)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = outcome(program.f, program.args)
        if "astype" in program.text and isinstance(expected, tuple) and any(np.asarray(y).dtype.kind == "f" for y in expected):
            return  # int64 with uint64 is float64; what a cast of a large float to integers gives is not defined
        for name, run in {"jit": ad.jit(program.f), "vmap": batched(program.f)}.items():
            same(outcome(run, program.args), expected, f"{name}, seed {seed}\n{program.text}{program.args}")


def outcome(f, args):
    """The results, or the class of the error."""
    try:
        return f(*[x.copy() for x in args])
    except (TypeError, ValueError, OverflowError, IndexError) as error:
        return type(error)


def same(found, expected, what):
    if isinstance(expected, type):
        assert isinstance(found, type), what
        assert issubclass(found, expected), what
        return
    assert not isinstance(found, type), f"{found}: {what}"
    for a, b in zip(found, expected, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype, what
        np.testing.assert_array_equal(a, b, err_msg=what)


@pytest.mark.parametrize("first", range(0, ASKED, CHUNK))
def test_whole_numbers_are_those_of_numpy(first):
    for seed in range(first, min(first + CHUNK, ASKED)):
        check(seed)
