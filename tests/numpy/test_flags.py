"""The flags of traced arrays are those of NumPy's."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import UnsupportedError

MADE = {
    "itself": lambda x: x,
    "transposed": lambda x: x.T,
    "a column": lambda x: x[:, 0],
    "a row": lambda x: x[1],
    "backwards": lambda x: x[::-1],
    "a copy": lambda x: x.T.copy(),
    "a number": lambda x: np.sum(x, keepdims=True)[0, 0:1],
    "broadcast": lambda x: np.broadcast_to(x, (2, *x.shape)),
    "new": lambda x: x * 2,
}
NAMES = ("c_contiguous", "f_contiguous", "contiguous", "forc", "fnc", "writeable", "aligned")


TRANSFORMS = {
    "grad": lambda f, x: ad.vjp(f, x)[0],
    "jvp": lambda f, x: ad.jvp(f, (x,), (x,))[0],
    "jit": lambda f, x: ad.jit(f)(x),
    "vmap": lambda f, x: ad.vmap(f)(x[None])[0],
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_flags_are_those_of_numpy(name, order, transform):
    x = np.array(np.arange(6.0).reshape(2, 3), order=order)

    def f(x):
        flags = MADE[name](x).flags
        return x[0, 0] + np.array([*[getattr(flags, n) for n in NAMES], flags["C_CONTIGUOUS"], flags["W"]], float)

    if transform == "vmap" and order == "F":
        pytest.skip("an example of a batch is dense, with the batch axis in front")
    np.testing.assert_array_equal(TRANSFORMS[transform](f, x), f(x))


def test_flags_cannot_be_changed():
    def f(x):
        x.flags.writeable = False
        return np.sum(x)

    with pytest.raises(UnsupportedError, match="cannot be changed"):
        ad.grad(f)(np.ones(3))
