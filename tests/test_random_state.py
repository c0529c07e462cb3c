"""Random functions that read outside state and catch errors (see `stateful.py`): compiled, they answer as they would.

The same ones on every run; ADJOINT_PROGRAMS=10000 draws more, and `python -m fuzz stateful` runs any range of seeds.
"""

import warnings

import numpy as np
import pytest
from night import asked
from stateful import Program

import adjoint as ad
from adjoint.core.errors import AdjointError

ASKED = asked(60)
CHUNK = 10


def outcome(f, x):
    """The value, or the class of the error; all of ours are one."""
    try:
        return f(x)
    except AdjointError:
        return AdjointError
    except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        return type(error)


def same(found, wanted, what, rtol=1e-9):
    if isinstance(wanted, type) or isinstance(found, type):
        assert found is wanted, f"{what}: {found}, not {wanted}"
        return
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol, err_msg=what)


def slope_between(f, x):
    """The slope by differences; None next to a kink or a jump."""
    near, far = ((f(x + h) - f(x - h)) / (2 * h) for h in (1e-6, 3e-6))
    return near if abs(near - far) < 1e-5 else None


def check(seed):
    program = Program(seed)
    f = program.f
    slope = ad.value_and_grad(f)
    forward = lambda x: ad.jvp(f, (x,), (1.0,))
    batch = lambda x: ad.vmap(f)(np.array([x, x]))[1]
    compiled, compiled_slope = ad.jit(f), ad.jit(slope)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for step in range(6):
                x = float(np.round(program.rng.uniform(-0.8, 0.8), 3))
                value, reverse, at = outcome(f, x), outcome(slope, x), f"step {step}, at {x}"
                same(outcome(compiled, x), value, f"compiled, {at}")
                same(outcome(compiled_slope, x), reverse, f"compiled derivative, {at}")
                for other in (outcome(forward, x), reverse):
                    if other is AdjointError:
                        continue  # refused
                    same(other, reverse, f"forward and reverse mode, {at}") if reverse is not AdjointError else None
                    same(other if isinstance(other, type) else other[0], value, f"value, {at}")
                rows = outcome(batch, x)
                if rows is not AdjointError:
                    same(rows, outcome(f, np.float64(x)), f"batch, {at}")
                if not isinstance(reverse, type):
                    expected = slope_between(f, x)
                    same(reverse[1], reverse[1] if expected is None else expected, f"derivative, {at}", 1e-4)
                program.change()
    except Exception as error:
        error.add_note(f"# seed {seed}\n{program.text}# {program.changes}")
        raise


@pytest.mark.parametrize("start", range(0, ASKED, CHUNK))
def test_functions(start):
    for seed in range(start, start + CHUNK):
        check(seed)
