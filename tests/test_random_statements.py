"""Random functions of Python's statements (see `statements.py`): value and derivatives compiled, eager, and as Python has them.

The same ones on every run; ADJOINT_PROGRAMS=10000 draws more, and `python -m fuzz statements` runs any range of seeds.
"""

import warnings

import numpy as np
import pytest
from night import asked
from statements import NUMBERS, WHOLE, function

import adjoint as ad

ASKED = asked(100)
CHUNK = 10


def outcome(f, *args):
    try:
        return f(*args)
    except (ValueError, TypeError, ArithmeticError, LookupError, NameError) as error:
        return type(error)


def same(found, wanted, what):
    if isinstance(wanted, type) or isinstance(found, type):
        assert found is wanted, f"{what}: {found}, not {wanted}"
        return
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9, err_msg=what)


def check(seed):
    f, text = function(seed)
    slope, forward = ad.value_and_grad(f), lambda x, n: ad.jvp(lambda x: f(x, n), (x,), (1.0,))
    second = lambda x, n: ad.grad(ad.grad(f))(x, n)
    transform = (f, slope, forward, slope, second)[seed % 5]
    compiled = ad.jit(transform)
    rng = np.random.default_rng(seed)
    calls = [(NUMBERS[rng.integers(len(NUMBERS))], WHOLE[rng.integers(len(WHOLE))]) for _ in range(4)]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for x, n in (*calls, *calls):
                value = outcome(f, x, n)
                reverse, ahead = outcome(slope, x, n), outcome(forward, x, n)
                same(reverse if isinstance(reverse, type) else reverse[0], value, f"value at {x}, {n}")
                same(ahead, reverse, f"forward and reverse mode at {x}, {n}")
                same(outcome(compiled, x, n), outcome(transform, x, n), f"compiled at {x}, {n}")
    except Exception as error:
        error.add_note(f"# seed {seed}\n{text}")
        raise


@pytest.mark.parametrize("start", range(0, ASKED // 5, CHUNK))
def test_functions(start):
    for seed in range(start, start + CHUNK):
        check(seed)
