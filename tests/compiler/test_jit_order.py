"""Functions whose results depend on the memory layout of an argument: C order, Fortran order, strided."""

import warnings

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.numpy.layout import own_copy

pytestmark = pytest.mark.filterwarnings("ignore::adjoint.compiler.jit.CompileWarning")


def _written(view):
    """A function that writes to what may be a view of a new array."""

    def f(x):
        y = x.copy(order="K")
        part = view(y)
        part[...] = part * 2.0
        return y

    return f


FUNCTIONS = {
    "ravel K": lambda x: x.ravel(order="K"),
    "ravel A": lambda x: x.ravel(order="A"),
    "flatten K": lambda x: x.flatten("K"),
    "reshape A": lambda x: x.reshape(-1, order="A"),
    "copy A": lambda x: x.T.copy("A").ravel("K"),
    "product": lambda x: (x * 2.0).ravel("K"),
    "sorted": lambda x: np.sort(x, axis=0).ravel("K"),
    "stacked": lambda x: np.stack([x, x]).ravel("K"),
    "taken": lambda x: x[[1, 0]].ravel("K"),
    "ravel, written": _written(lambda y: y.ravel()),
    "reshape, written": _written(lambda y: y.reshape(-1)),
    "transposed reshape, written": _written(lambda y: y.T.reshape(-1)),
    "flags": lambda x: x * 2.0 if x.flags.c_contiguous else x * 3.0,
    "strides": lambda x: x * x.strides[0],
    "base": lambda x: x * 2.0 if x.base is None else x * 3.0,
    "is Fortran": lambda x: x * 2.0 if np.isfortran(x) else x * 3.0,
}
_A = np.arange(1.0, 13.0).reshape(3, 4)
LAYOUTS = {
    "rows": _A.copy(),
    "columns": np.asfortranarray(_A),
    "gaps": np.repeat(_A, 2, axis=1)[:, ::2],
    "transposed": np.ascontiguousarray(_A.T).T,
    "backwards": np.ascontiguousarray(_A[::-1])[::-1],
    "columns backwards": np.asfortranarray(_A[::-1])[::-1],
    "part": np.vstack([_A, _A])[:3],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_layout(name):
    f = FUNCTIONS[name]
    compiled, forwards = ad.jit(f), ad.jit(lambda x: ad.jvp(f, (x,), (x,))[0])
    for x in (*LAYOUTS.values(), *reversed(LAYOUTS.values())):
        np.testing.assert_array_equal(compiled(x), f(x))
        if name not in ("flags", "strides", "base", "is Fortran"):  # which only arrays with memory have
            for found in (ad.vjp(f, x)[0], ad.jvp(f, (x,), (x,))[0], forwards(x)):
                np.testing.assert_array_equal(found, f(x))
        np.testing.assert_array_equal(x, _A)


def test_one_axis_with_gaps():
    f = _written(lambda y: y.ravel())

    def g(x):
        part = x.ravel()
        part[0] = 7.0
        return x * 1.0

    for function in (f, g):
        compiled = ad.jit(function)
        for x in (np.arange(4.0), np.arange(8.0)[::2], np.arange(4.0)[::-1], np.arange(4.0)):
            np.testing.assert_array_equal(compiled(x), function(own_copy(x)))


def test_an_array_outside():
    held = np.asfortranarray(_A)

    @ad.jit
    def f(x):
        return x * (held * 1.0).ravel("K")

    for held in (np.asfortranarray(_A), _A.copy(), np.asfortranarray(_A), LAYOUTS["gaps"], _A.copy()):
        for _ in range(2):
            np.testing.assert_array_equal(f(2.0), 2.0 * held.ravel("K"))


def test_other_functions_are_compiled_for_any_layout():
    f = ad.jit(lambda x: np.sum(np.sin(x) * 2.0, axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in LAYOUTS.values():
            np.testing.assert_allclose(f(x), np.sum(np.sin(_A) * 2.0, axis=0), rtol=1e-13)


_B = np.arange(1.0, 25.0).reshape(2, 3, 4)
THREE = {
    "rows": _B,
    "columns": np.asfortranarray(_B),
    "between": np.ascontiguousarray(_B.transpose(1, 0, 2)).transpose(1, 0, 2),
}
#: New arrays whose order follows from that of their operands, which a program does not hold as NumPy does.
STAGED = {
    "diagonal": lambda a: np.diagonal(a) * 2.0,
    "another diagonal": lambda a: np.diagonal(a, 1, 0, 2) + 1.0,
    "of each matrix": lambda a: np.linalg.diagonal(a) * 2.0,
    "diagonals": lambda a: np.hstack([np.diagonal(a)] * 2),
    "copy": lambda a: np.where(a > 3.0, a, a.copy()),
    "copies": lambda a: np.sin(a.copy()) * np.asfortranarray(np.ones(a.shape)),
    "by columns": lambda a: a + np.asfortranarray(np.ones(a.shape)),
    "accumulated": lambda a: np.maximum.accumulate(a, axis=0),
    "in a chain": lambda a: np.exp(-(a.copy() * 2.0) + a),
}


@pytest.mark.parametrize("name", STAGED)
def test_order_of_staged_arrays(name):
    f = lambda a: STAGED[name](a).ravel("K")
    compiled, forwards = ad.jit(f), ad.jit(lambda a: ad.jvp(f, (a,), (a,))[0])
    for x in THREE.values():
        for found in (compiled(x), forwards(x), ad.vjp(f, x)[0]):
            np.testing.assert_allclose(found, f(x), rtol=1e-13)


@pytest.mark.parametrize("reps", [2.0, (2.0, 1), np.float64(2), [2.5], np.array([2.0, 1.0])], ids=repr)
def test_repetitions_are_integers(reps):
    for run in (np.tile, ad.jit(lambda x, reps=reps: np.tile(x, reps)), lambda x, reps: ad.vjp(lambda x: np.tile(x, reps), x)):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            run(np.ones(2), reps)


def _into(make, write):
    """A function that writes to a new array, and then to a flat view of what is computed from it, if that is a view."""

    def f(x):
        y = make(x)
        write(y, x)
        for z in (y * 1.0, y):
            z.T.reshape(-1)[:1] = 7.0
            x = x + z
        return np.sum(x * np.arange(6.0).reshape(x.shape))

    return f


def _add(y, x):
    y += x


MADE = {
    "zeros_like": np.zeros_like,
    "ones_like": np.ones_like,
    "empty_like": np.empty_like,
    "full_like": lambda x: np.full_like(x, 2.0),
    "Fortran": lambda x: anp.zeros(x.shape, order="F"),
    "copy": lambda x: x.copy("K"),
    "transposed": lambda x: np.zeros_like(x.T).T,
}
WRITTEN = {
    "nothing": lambda y, x: None,
    "everything": lambda y, x: y.__setitem__(..., x),
    "a row": lambda y, x: y.__setitem__(0, x[0]),
    "out": lambda y, x: np.clip(x, -0.5, 0.5, out=y),
    "in place": _add,
    "copyto": lambda y, x: np.copyto(y, x * 2.0),
}


#: An empty array is read only where all of it has been overwritten.
CASES = [(m, w) for m in MADE for w in WRITTEN if m != "empty_like" or w in ("everything", "out", "copyto")]


@pytest.mark.parametrize(("made", "written"), CASES)
def test_arrays_in_another_order_are_overwritten_inside_transforms(made, written):
    f = _into(MADE[made], WRITTEN[written])
    for x in (np.linspace(-1.0, 1.2, 6).reshape(2, 3), np.asfortranarray(np.linspace(-1.0, 1.2, 6).reshape(2, 3))):
        expected = f(own_copy(x))
        for run in (ad.jit(f), ad.jit(lambda x: ad.vjp(f, x)[0]), ad.jit(lambda x: ad.jvp(f, (x,), (x,))[0])):
            np.testing.assert_allclose(run(x), expected)
