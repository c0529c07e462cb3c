"""Checks of an error: its class, the user's line, and the words of its message."""

import contextlib
import os
import traceback

import numpy as np
import pytest

import adjoint as ad

PACKAGE = os.path.dirname(os.path.abspath(ad.__file__))
X = np.array([1.0, 2.0, 3.0])


@contextlib.contextmanager
def complaint(kind, *words, clean=True):
    """The block must raise an AdjointError of this kind that names the innermost line of a test, and these words."""
    with pytest.raises(ad.AdjointError) as caught:
        yield
    error = caught.value
    assert isinstance(error, kind), type(error)
    frames = traceback.extract_tb(error.__traceback__)
    names = [(os.path.basename(f.filename), f.lineno) for f in frames]
    name, line = next(at for at in reversed(names) if at[0].startswith(("test_", "complaints")))  # where `TRANSFORMS` are called
    message = str(error)
    assert f"({name}:{line})" in message, (line, message)
    for word in words:
        assert word in message, message
    if clean:
        ours = our_frames(error)
        assert ours in ([], ["entry"]), ours


def our_frames(error):
    """Names of our functions in a traceback. Python itself adds the one that the error leaves us by."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f.name for f in frames if f.filename.startswith((PACKAGE, "<adjoint"))]


TRANSFORMS = {
    "grad": lambda f: ad.grad(f)(2.0),
    "value_and_grad": lambda f: ad.value_and_grad(f)(2.0),
    "jvp": lambda f: ad.jvp(f, (2.0,), (1.0,)),
    "vjp": lambda f: ad.vjp(f, 2.0),
    "linearize": lambda f: ad.linearize(f, 2.0),
    "jacfwd": lambda f: ad.jacfwd(f)(2.0),
    "jacrev": lambda f: ad.jacrev(f)(2.0),
    "jacobian": lambda f: ad.jacobian(f)(2.0),
    "hessian": lambda f: ad.hessian(f)(2.0),
    "hvp": lambda f: ad.hvp(f)(2.0, 1.0),
    "elementwise_grad": lambda f: ad.elementwise_grad(f)(2.0),
    "derivative": lambda f: ad.derivative(f)(2.0),
    "vmap": lambda f: ad.vmap(f)(X),
}
every_transform = pytest.mark.parametrize("transform", TRANSFORMS)
