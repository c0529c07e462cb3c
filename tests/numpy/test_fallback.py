"""`adjoint.numpy` takes lists of traced values where NumPy's protocols do not look, and passes for NumPy all the same."""

import pickle

import numpy as np
import pytest
from harness import check

import adjoint as ad
import adjoint.numpy as anp

X = np.array([0.5, 1.5, 2.5])

LISTS = {
    "sin": lambda np, x: np.sin([x[0], x[1]]),
    "nested": lambda np, x: np.exp([[x[0], 1.0], [2.0, x[1]]]),
    "add": lambda np, x: np.add([x[0], x[1]], 1.0),
    "hypot": lambda np, x: np.hypot(2.0, (x[0], x[1])),
    "matmul": lambda np, x: np.matmul([x, 2 * x], x),
    "modf": lambda np, x: np.modf([x[0], x[1]])[0],
    "out": lambda np, x: np.multiply([x[0], x[1]], 2.0, out=np.zeros(2)),
    "dtype": lambda np, x: np.add([x[0], x[1]], 1.0, dtype=float),
    "reduce": lambda np, x: np.maximum.reduce([x, x[::-1] * 0.9]),
    "accumulate": lambda np, x: np.add.accumulate([x[0], x[1], x[2]]),
    "outer": lambda np, x: np.multiply.outer([x[0], x[1]], x),
    "reduceat": lambda np, x: np.add.reduceat([x[0], x[1], x[2]], [0, 1]),
    "sum": lambda np, x: np.sum([x[0], x[1]]),
    "solve": lambda np, x: np.linalg.solve([[x[0], 1.0], [2.0, -x[1]]], [1.0, x[2]]),
    "sort": lambda np, x: np.sort([x[2], x[0]]),
    "diff": lambda np, x: np.diff([x[2], x[0]], prepend=[x[1]]),
    "r_": lambda np, x: np.r_[x, 1.0, x[0], 0:2, [x[1], 3.0]],
    "r_ of rows": lambda np, x: np.r_["0,2", x, 2 * x],
    "r_ of columns": lambda np, x: np.r_["1,2,0", x, 2 * x],
    "r_ of blocks": lambda np, x: np.r_["-1", np.diag(x), np.diag(x)],
    "r_ of deep blocks": lambda np, x: np.r_["0,3,1", np.diag(x), np.diag(2 * x)],
    "c_": lambda np, x: np.c_[x, [1, 2, 3], 0:3],
    "c_ of a matrix": lambda np, x: np.c_[np.diag(x), x],
    "ndenumerate": lambda np, x: sum(v * (i[0] + 1) for i, v in np.ndenumerate(x)),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_traced_values(name):
    np.testing.assert_allclose(LISTS[name](anp, X), LISTS[name](np, X))
    check(lambda x: LISTS[name](anp, x), X)


def test_a_ufunc_passes_for_numpys():
    assert isinstance(anp.add, np.ufunc)
    assert anp.add == np.add
    assert np.add == anp.add
    assert {np.add: 1}[anp.add] == 1
    assert (anp.add.nin, anp.add.identity, anp.add.__name__) == (2, 0, "add")
    assert pickle.loads(pickle.dumps(anp.add)) == np.add
    assert repr(anp.add) == repr(np.add)
    a = np.zeros(3)
    anp.add.at(a, [0, 0], 1.0)
    assert a.tolist() == [2, 0, 0]
    assert anp.add.reduce([1, 2, 3]) == 6
    assert ad.grad(anp.tanh)(0.0) == 1.0
    with pytest.raises(TypeError):
        anp.add(1.0)


def test_ops_without_a_derivative_raise():
    for f in (lambda x: anp.bmat(x), lambda x: anp.bmat([[x]]), lambda x: anp.asmatrix(x)):
        with pytest.raises(ad.AdjointError, match="use arrays and @"):
            ad.grad(f)(X)
    with pytest.raises(ad.AdjointError, match=r"np.r_\['r'\]"):
        ad.grad(lambda x: anp.r_["r", x])(X)
    assert anp.isscalar(3.0)


@pytest.mark.parametrize(
    ("ours", "numpys"), [(anp, np), (anp.linalg, np.linalg), (anp.fft, np.fft)], ids=["numpy", "linalg", "fft"]
)
def test_functions_pickle_as_in_numpy(ours, numpys):
    for name in numpys.__all__:
        if callable(getattr(numpys, name)):
            function = getattr(ours, name)
            assert type(pickle.loads(pickle.dumps(function))) is type(function), name


def test_second_names_are_the_same_function():
    assert anp.concat is anp.concatenate
    assert anp.permute_dims is anp.transpose


def test_a_transformed_function_of_the_drop_in_pickles():
    slope = pickle.loads(pickle.dumps(ad.grad(anp.sum)))
    assert slope(np.ones(2)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: anp.sum([x, 2 * x]),
        lambda x: anp.concatenate(((x,), (3 * x,)))[1] if np.ndim(x) == 0 else x,
        lambda x: anp.log([x, 2 * x]).sum(),
        lambda x: anp.maximum.reduce([x, 2 * x]),
        lambda x: anp.mean([[x, 1.0], [2.0, x]]),
        lambda x: anp.hypot([x, 1.0], [2.0, x])[1],
    ],
)
@pytest.mark.parametrize("place", ["with", "try"])
def test_lists_of_traced_values_where_errors_may_be_caught(f, place):
    """NumPy is asked first, and refuses: that is not an error which the function around catches."""

    def inside_with(x):
        with np.errstate(divide="ignore"):
            return f(x) * 1.0

    def inside_try(x):
        try:
            return f(x) * 1.0
        except TypeError:
            return 0.0

    g = inside_with if place == "with" else inside_try
    compiled = ad.jit(ad.grad(g))
    assert np.isclose(compiled(0.3), ad.grad(f)(0.3), rtol=1e-12)
    assert ad.grad(g)(0.3) == ad.grad(f)(0.3)
    assert "eagerly" not in str(compiled.report())
