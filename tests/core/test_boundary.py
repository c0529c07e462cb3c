"""Errors leave a public entry point without our frames, and in our words where other code has replaced them."""

import traceback

import numpy as np
import pytest
import scipy.optimize
from complaints import TRANSFORMS, X, every_transform, our_frames

import adjoint as ad
import adjoint.numpy as anp


class MineError(Exception):
    pass


def raises_mine(x):
    raise MineError("from the user")


@every_transform
def test_errors_of_the_users_own_come_without_our_frames(transform):
    with pytest.raises(MineError) as caught:
        TRANSFORMS[transform](raises_mine)
    assert our_frames(caught.value) == ["entry"]
    assert caught.value.__cause__ is None
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "raises_mine"


def test_nested_transforms_are_clean_too():
    with pytest.raises(MineError) as caught:
        ad.grad(ad.vmap(ad.jacfwd(raises_mine)))(X)
    assert our_frames(caught.value) == ["entry"]


def test_the_full_traceback_can_be_had(monkeypatch):
    monkeypatch.setenv("ADJOINT_FULL_TRACEBACK", "1")
    with pytest.raises(MineError) as caught:
        ad.grad(raises_mine)(1.0)
    assert len(our_frames(caught.value)) > 1


def test_a_failed_call_leaves_nothing_behind():
    for transform in TRANSFORMS.values():
        with pytest.raises(MineError):
            transform(raises_mine)
    from adjoint.core.bind import depth

    assert depth.get() == 0
    assert type(anp.zeros(3)) is np.ndarray
    assert ad.grad(np.sin)(0.0) == 1.0


class Solver:
    """Its attribute is SciPy's function: transforms replace names of modules only."""

    brentq = staticmethod(scipy.optimize.brentq)


def test_an_error_that_c_code_has_buried_is_dug_out():
    with pytest.raises(
        ad.AdjointError,
        match=r"scipy.optimize.brentq, would lose its derivative.*use adjoint.scipy.optimize.brentq.*test_boundary.py:\d+",
    ):
        ad.grad(lambda x: Solver.brentq(lambda t: t - x, -10, 10))(0.5)


@pytest.mark.parametrize("error", [AttributeError, SystemError, ValueError, ZeroDivisionError])
def test_c_code_that_calls_python_again_with_our_error_set(error):
    """SciPy's root finders do. What fails then is whatever Python does next."""

    def difference(t, x):
        if t > 0:
            raise error("some operation failed")
        return t - x

    with pytest.raises(ad.AdjointError, match=r"scipy\.optimize\.brentq, would lose its derivative"):
        ad.grad(lambda x: Solver.brentq(difference, -10, 10, args=(x,)))(0.5)


def test_an_error_of_an_earlier_call_is_not_taken_for_this_one():
    """A refusal that the function has caught is remembered by its frame, and a later frame may have the same identity."""

    def reads(x, first):
        return (float if first else {}.__getitem__)(x)

    def caught(x):
        try:
            return reads(x, True)
        except TypeError:
            return x

    for _ in range(20):
        ad.grad(caught)(1.0)
        with pytest.raises(KeyError):
            ad.grad(lambda x: reads(x, False))(1.0)
