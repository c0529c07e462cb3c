"""xarray's DataArray as an argument, and met inside a function: gradients with its dimensions, coordinates and attributes."""

import numpy as np
import pytest

import adjoint as ad

xr = pytest.importorskip("xarray", reason="xarray is not installed: arrays with dimensions are not tested")

A = xr.DataArray(
    np.array([[1.0, 2.0], [3.0, 5.0]]),
    dims=("t", "s"),
    coords={"s": ["a", "b"], "t": [0.0, 1.0]},
    name="q",
    attrs={"unit": "m"},
)
B = xr.DataArray(np.array([2.0, 3.0]), dims=("s",), coords={"s": ["a", "b"]})

OF_ARRAYS = {
    "square": lambda d: (d**2).sum(),
    "mean": lambda d: (d.mean("t") ** 2).sum(),
    "std": lambda d: d.std() + d.var("t").sum(),
    "max": lambda d: d.max("t").sum(),
    "prod": lambda d: d.prod(),
    "median": lambda d: d.median(),
    "np.sin": lambda d: np.sin(d).sum(),
    "np.maximum": lambda d: np.maximum(d, 2.5).sum(),
    "sel": lambda d: (d.sel(s="a") ** 2).sum(),
    "isel": lambda d: (d.isel(t=0) ** 2).sum(),
    "loc": lambda d: (d.loc[:, "a"] ** 2).sum(),
    "index": lambda d: d[0, 1] * d[1, 0],
    "broadcast by name": lambda d: (d * d.isel(t=0, drop=True)).sum(),
    "plain on the left": lambda d: (B * d).sum() + np.sum((B / d).values),
    "values": lambda d: np.sum(d.values**2),
    "to_numpy": lambda d: np.sum(d.to_numpy() ** 2),
    "data": lambda d: np.sum(d.data**2),
    "item": lambda d: d.sum().item() ** 2,
    "dot": lambda d: d.dot(B).sum() + (d @ d).sum(),
    "where": lambda d: d.where(d > 2.5, 0.0).sum() + d.where(d > 2.5).sum(),
    "concat": lambda d: (xr.concat([d, 2 * d], dim="k") ** 2).sum(),
    "cumsum": lambda d: (d.cumsum("t") ** 2).sum(),
    "diff": lambda d: (d.diff("t") ** 2).sum(),
    "transpose": lambda d: (d.T**2).sum(),
    "stack": lambda d: (d.stack(z=("t", "s")) ** 2).sum(),
    "clip": lambda d: d.clip(1.5, 4.0).sum(),
    "weighted": lambda d: d.weighted(B).mean(),
    "apply_ufunc": lambda d: xr.apply_ufunc(np.tanh, d).sum(),
    "integrate": lambda d: d.integrate("t").sum(),
    "values of a function": lambda d: np.sum(np.exp(d).values) + np.sum(np.maximum(d, 2.5).to_numpy()),
    "values of a method": lambda d: np.sum(d.fillna(0.0).values * d.clip(1.5, 4.0).values) + np.sum(d.where(d > 2.5, 0.0).values),
    "values of a type": lambda d: np.sum(d.astype(float).values ** 2) + d.pipe(np.sin)[0, 1].item(),
}
MET_INSIDE = {
    "array * x": lambda x: (A * x).sum(),
    "x * array": lambda x: (x * A).std(),
    "array - array": lambda x: ((A - x * np.ones((2, 2))) ** 2).sum(),
    "new": lambda x: (xr.DataArray(x * np.ones(2), dims="s") * B).sum(),
    "np.exp": lambda x: np.exp(A * x).mean("t").sum(),
    "data": lambda x: np.sum((A * x).data),
}


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_arrays(name):
    f = OF_ARRAYS[name]
    value, g = ad.value_and_grad(f)(A)
    assert type(g) is xr.DataArray
    np.testing.assert_allclose(value, float(f(A)))
    wanted = np.zeros((2, 2))
    for i in np.ndindex(2, 2):
        h = np.zeros((2, 2))
        h[i] = 1e-6
        wanted[i] = (f(A.copy(data=A.values + h)) - f(A.copy(data=A.values - h))) / 2e-6
    np.testing.assert_allclose(g, wanted, atol=1e-6)
    xr.testing.assert_identical(g, A.copy(data=g.values))
    xr.testing.assert_allclose(ad.jit(ad.grad(f))(A), g)


@pytest.mark.parametrize("name", MET_INSIDE)
def test_met_inside(name):
    f = MET_INSIDE[name]
    value, g = ad.value_and_grad(f)(2.1)
    np.testing.assert_allclose(value, float(f(2.1)))
    np.testing.assert_allclose(g, float(f(2.1 + 1e-6) - f(2.1 - 1e-6)) / 2e-6, rtol=1e-6)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(2.1), g)


def test_other_transforms():
    value, tangent = ad.jvp(lambda d: d * d, (A,), (A,))
    xr.testing.assert_identical(value, A.copy(data=A.values**2))
    xr.testing.assert_identical(tangent, A.copy(data=2 * A.values**2))
    np.testing.assert_array_equal(ad.jacobian(lambda b: b * b)(B), np.diag([4.0, 6.0]))
    g = ad.grad(lambda p: (p["w"] ** 2).sum() * p["b"])({"w": A, "b": 2.0})
    xr.testing.assert_identical(g["w"], A.copy(data=4 * A.values))


@pytest.mark.parametrize("f", [lambda d: (A * d.data).values.sum(), lambda d: d.interp(t=0.5).sum()])
def test_the_rest_is_refused_with_the_line(f):
    with pytest.raises(ad.AdjointError) as caught:
        ad.grad(f)(A)
    assert caught.value.line == f"test_xarray_objects.py:{f.__code__.co_firstlineno}"
    assert ".data" in str(caught.value)


def test_other_coordinates_are_another_program():
    f = ad.jit(lambda b: b.sel(s="b") * 2.0)
    assert float(f(B)) == 6.0
    assert float(f(B.assign_coords(s=["b", "a"]))) == 4.0
