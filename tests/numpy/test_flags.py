"""The flags of traced arrays are those of NumPy's."""

import gc

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.numpy import views

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


def by_attribute(x):
    x.flags.writeable = False


def by_item(x):
    x.flags["WRITEABLE"] = False


def write_all(x):
    x[...] = 1.0


def write_in_place(x):
    x += 1.0


PROTECT = {"attribute": by_attribute, "item": by_item, "setflags": lambda x: x.setflags(write=False)}
WRITES = {
    "item": write_all,
    "in place": write_in_place,
    "view": lambda x: write_all(x[1:]),
    "copyto": lambda x: np.copyto(x, 1.0),
    "sort": lambda x: x.sort(),
    "out": lambda x: np.sin(x, out=x),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("protect", PROTECT)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_arrays_are_declared_read_only(transform, protect, write):
    def f(x):
        y = x * 2.0
        WRITES[write](y)  # not yet protected
        PROTECT[protect](y)
        assert not y.flags.writeable
        with pytest.raises(ValueError):
            WRITES[write](y)
        WRITES[write](y.copy())
        return y[0] * x[1]

    x = np.array([2.0, 3.0, 1.0])
    np.testing.assert_allclose(TRANSFORMS[transform](f, x), f(x))


def test_writeable_again():
    def f(x):
        y = x * 2.0
        y.setflags(write=False, align=True, uic=False)
        with pytest.raises(ValueError):
            y[:2].flags.writeable = True
        y.flags.writeable = True
        y[0] = 5.0
        return np.sum(y * x)

    assert f(np.ones(3)) == 9.0
    np.testing.assert_array_equal(ad.grad(f)(np.ones(3)), [5.0, 4.0, 4.0])


def test_a_protected_array_is_not_kept():
    def f(x):
        for _ in range(50):
            y = x * 2.0
            y.setflags(write=False)
        return np.sum(y)

    ad.grad(f)(np.ones(3))
    gc.collect()
    assert not views._protected


def test_flags_of_memory_cannot_be_changed():
    def f(x):
        x.flags.aligned = False
        return np.sum(x)

    with pytest.raises(UnsupportedError, match="cannot be changed"):
        ad.grad(f)(np.ones(3))
