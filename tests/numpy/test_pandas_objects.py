"""pandas' Series and DataFrame as arguments, and met inside a function: pandas' values, and gradients with its labels."""

import numpy as np
import pytest

import adjoint as ad

pd = pytest.importorskip("pandas", reason="pandas is not installed: objects with labels are not tested")

# pandas changes the filters of warnings while it computes. Where they raise, as in all other tests, jit runs such code eagerly.
pytestmark = pytest.mark.filterwarnings("default::RuntimeWarning")

S = pd.Series([1.0, 2.0, 4.0], index=list("abc"), name="w")
P = pd.Series([0.5, 0.3, 0.2], index=list("abc"), name="p")
D = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.5, 1.5, -1.0]}, index=[10, 20, 30])
W = pd.Series([2.0, 3.0], index=["a", "b"])


def set_column(d):
    d = d.copy()
    d["c"] = d["a"] * d["b"]
    return d["c"].sum() + d["a"].sum()


OF_SERIES = {
    "square": lambda s: (s**2).sum(),
    "mean": lambda s: (s * P).mean(),
    "std divides by n - 1": lambda s: s.std(),
    "var": lambda s: (2 * s).var(),
    "sem": lambda s: s.sem(),
    "median": lambda s: s.median(),
    "max": lambda s: s.max(),
    "prod": lambda s: s.prod(),
    "np.sin": lambda s: np.sin(s).sum(),
    "np.exp": lambda s: np.exp(s - s.max()).sum(),
    "np.sum": lambda s: np.sum(s * s),
    "np.dot": lambda s: np.dot(s, P),
    "np.where": lambda s: np.sum(np.where(s > 1.5, s, 0.0)),
    "np.maximum": lambda s: np.maximum(s, 1.5).sum(),
    "np.concatenate": lambda s: np.sum(np.concatenate([s, P]) ** 2),
    "to_numpy": lambda s: np.sum(s.to_numpy() ** 2),
    "values": lambda s: np.sum(s.values**2),
    "items by label": lambda s: s["a"] * s.iloc[2],
    "loc": lambda s: (s.loc[["a", "c"]] ** 2).sum(),
    "slice": lambda s: (s.iloc[1:] ** 2).sum(),
    "mask": lambda s: (s[s > 1.5] ** 2).sum(),
    "other order": lambda s: (s * P.iloc[::-1]).sum(),
    "partly the same labels": lambda s: (s.iloc[1:] * s.iloc[:2]).sum(),
    "plain on the left": lambda s: (P / s).sum(),
    "number on the left": lambda s: (1.0 / s - 3).sum() + (2.0**s).sum(),
    "dot": lambda s: s.dot(P) + P.dot(s) + s @ s,
    "cumsum": lambda s: (s.cumsum() ** 2).sum(),
    "shift": lambda s: (s * s.shift(1)).sum(),
    "diff": lambda s: (s.diff() ** 2).sum(),
    "pct_change": lambda s: s.pct_change().sum(),
    "abs": lambda s: (-s).abs().sum(),
    "map": lambda s: s.map(lambda v: v * v).sum(),
    "apply": lambda s: s.apply(lambda v: v * v).sum(),
    "concat": lambda s: (pd.concat([s, P]) ** 2).sum(),
    "iteration": lambda s: sum(v * len(k) for k, v in s.items()) + sum(v * v for v in s),
    "clip": lambda s: s.clip(1.5, 3.0).sum(),
    "where": lambda s: s.where(s > 1.5, 0.0).sum(),
    "fillna": lambda s: (s.shift(1).fillna(0.5) * s).sum(),
    "reindex": lambda s: (s.reindex(list("cba")) * np.arange(3.0)).sum(),
    "sort_values": lambda s: (s.sort_values() * np.arange(3.0)).sum(),
    "groupby": lambda s: (s.groupby([0, 0, 1]).sum() ** 2).sum(),
    "to_frame": lambda s: (s.to_frame().to_numpy() ** 2).sum(),
    "add with fill": lambda s: s.add(P.iloc[:2], fill_value=0.0).mul(s).sum(),
    "astype": lambda s: (s.astype(float) ** 2).sum(),
    "divmod": lambda s: (divmod(s, 0.7)[1] * divmod(9.1, s)[1]).sum(),
    "interpolate": lambda s: (s.interpolate() ** 2).sum(),
    "any and all": lambda s: s.any() * s.all() * s.sum(),
}
OF_FRAMES = {
    "square": lambda d: (d**2).sum().sum(),
    "to_numpy": lambda d: np.sum(d.to_numpy() ** 2),
    "values": lambda d: (d.values**2).sum(),
    "columns": lambda d: (d["a"] * d.b).sum(),
    "mean": lambda d: d.mean().prod(),
    "std": lambda d: d.std().sum(),
    "rows": lambda d: (d.sum(axis=1) ** 2).sum(),
    "columns by name of the axis": lambda d: (d.mean(axis="columns") ** 2).sum(),
    "matmul": lambda d: (d @ W).sum(),
    "dot": lambda d: (d.dot(W) ** 2).sum(),
    "series along the columns": lambda d: ((d * W) ** 2).sum().sum(),
    "less the mean": lambda d: ((d - d.mean()) ** 2).sum().sum(),
    "divided by rows": lambda d: d.div(d.sum(axis=1), axis=0).iloc[0, 0],
    "plain on the left": lambda d: (D * d).sum().sum(),
    "number on the left": lambda d: (1.1 - d).abs().sum().sum(),
    "np.exp": lambda d: np.exp(d).sum().sum(),
    "np.maximum": lambda d: np.maximum(d, 1.2).sum().sum(),
    "item": lambda d: d.loc[20, "a"] * d.iloc[0, 1],
    "mask": lambda d: (d[d["a"] > 1.5] ** 2).sum().sum(),
    "transpose": lambda d: (d.T.to_numpy() @ d.to_numpy()).sum(),
    "apply": lambda d: d.apply(lambda c: (c**2).sum()).sum() + d.apply(lambda r: r["a"] * r["b"], axis=1).sum(),
    "apply, giving columns": lambda d: (d.apply(lambda c: c * c.sum()) ** 2).sum().sum(),
    "assign": lambda d: d.assign(c=d.a * d.b)["c"].sum(),
    "set a column": set_column,
    "items": lambda d: sum((c**2).sum() for _, c in d.items()),
    "iterrows": lambda d: sum((r**2).sum() for _, r in d.iterrows()),
    "groupby": lambda d: (d.groupby([0, 0, 1]).sum() ** 2).sum().sum(),
    "shift": lambda d: (d * d.shift(1)).sum().sum(),
    "map": lambda d: d.map(lambda v: v * v).sum().sum(),
    "select_dtypes": lambda d: (d.select_dtypes("float") ** 2).sum().sum() + (d.select_dtypes("number") ** 3).sum().sum(),
    "groups by plain numbers": lambda d: (d.groupby(D["a"] > 1.5).mean() ** 2).sum().sum(),
}
MET_INSIDE = {
    "series * x": lambda x: (S * x).sum(),
    "x * series": lambda x: (x * S).std(),
    "frame * x": lambda x: (D * x).std().sum(),
    "x ** frame": lambda x: (x**D).mean().sum(),
    "frame - array": lambda x: ((D - x * np.ones(2)) ** 2).sum().sum(),
    "array @ frame": lambda x: ((x * np.ones(3)) @ D).sum(),
    "series > x": lambda x: x * (x < S).sum(),
    "np.multiply": lambda x: np.multiply(S, x).sum(),
    "column": lambda x: D.assign(q=lambda d: d.a * x)["q"].sum(),
    "to_numpy": lambda x: np.sum(S.to_numpy() * x),
    "method": lambda x: S.mul(x).sum(),
}


def differences(f, x):
    """The gradient by differences, as an array."""
    values = x.to_numpy()
    g = np.zeros_like(values)
    for i in np.ndindex(values.shape):
        ends = []
        for h in (1e-6, -1e-6):
            moved = values.copy()
            moved[i] += h
            ends.append(f(type(x)(moved, *x.axes)))
        g[i] = (ends[0] - ends[1]) / 2e-6
    return g


def check(f, x):
    value, g = ad.value_and_grad(f)(x)
    assert type(g) is type(x)
    np.testing.assert_allclose(value, f(x))
    np.testing.assert_allclose(g.to_numpy(), differences(f, x), atol=1e-6)
    assert all(a.identical(b) for a, b in zip(g.axes, x.axes, strict=True))
    compiled = ad.jit(ad.grad(f))(x)
    assert type(compiled) is type(x)
    np.testing.assert_allclose(compiled.to_numpy(), g.to_numpy())


@pytest.mark.parametrize("name", OF_SERIES)
def test_series(name):
    check(OF_SERIES[name], S)


@pytest.mark.parametrize("name", OF_FRAMES)
def test_frames(name):
    check(OF_FRAMES[name], D)


@pytest.mark.parametrize("name", MET_INSIDE)
def test_met_inside(name):
    f = MET_INSIDE[name]
    value, g = ad.value_and_grad(f)(1.7)
    np.testing.assert_allclose(value, f(1.7))
    np.testing.assert_allclose(g, (f(1.7 + 1e-6) - f(1.7 - 1e-6)) / 2e-6, rtol=1e-6)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(1.7), g)


def test_labels_are_kept():
    g = ad.grad(lambda s: (s**2).sum())(S)
    pd.testing.assert_series_equal(g, 2 * S)
    value, tangent = ad.jvp(lambda s: s * s, (S,), (S,))
    pd.testing.assert_series_equal(value, S * S)
    pd.testing.assert_series_equal(tangent, 2 * S * S)
    pd.testing.assert_series_equal(ad.vjp(lambda s: s * s, S)[1](S)[0], 2 * S * S)
    pd.testing.assert_series_equal(ad.jit(lambda s: s * 2)(S), S * 2)
    pd.testing.assert_frame_equal(ad.grad(lambda d: (d**2).sum().sum())(D), 2 * D)
    dates = pd.Series([1.0, 2.0], index=pd.date_range("2024-01-01", periods=2, freq="D"), name=("two", "names"))
    pd.testing.assert_series_equal(ad.grad(lambda s: (s**2).sum())(dates), 2 * dates)


def test_within_containers():
    g = ad.grad(lambda p: (p["w"] ** 2).sum() * p["b"])({"w": S, "b": 2.0})
    pd.testing.assert_series_equal(g["w"], 4 * S)
    assert g["b"] == 21.0


def test_columns_that_are_not_floats_stay():
    mixed = D.assign(name=["x", "y", "z"], n=[1, 2, 3])
    for transform in (ad.grad, lambda f: ad.jit(ad.grad(f))):
        g = transform(lambda d: (d.a * d.n).sum() if d.name.iloc[0] == "x" else 0.0)(mixed)
        assert g.a.tolist() == [1.0, 2.0, 3.0]
        assert g.b.tolist() == [0.0, 0.0, 0.0]
        assert g.name.tolist() == ["x", "y", "z"]
        assert list(g.columns) == list(mixed.columns)


def test_derivatives_with_other_axes_are_arrays():
    np.testing.assert_array_equal(ad.jacobian(lambda s: s * s)(S), np.diag(2 * S))
    np.testing.assert_array_equal(ad.hessian(lambda s: (s**3).sum())(S), np.diag(6 * S))


def test_missing_values_are_skipped():
    missing = pd.Series([1.0, np.nan, 3.0])
    for f in (lambda s: (s**2).sum(), lambda s: (s**2).mean(), lambda s: s.std()):
        value, g = ad.value_and_grad(f)(missing)
        np.testing.assert_allclose(value, f(missing))
        assert g[1] == 0.0
    assert np.isnan(ad.value_and_grad(lambda s: s.sum(skipna=False))(missing)[0])


def test_other_labels_are_another_program():
    f = ad.jit(lambda s: s["b"] * 2.0)
    assert f(S) == 4.0
    assert f(S.iloc[::-1]) == 4.0
    assert f(pd.Series([1.0, 2.0, 4.0], index=list("bca"), name="w")) == 2.0


REFUSED = {
    "rolling": lambda s: s.rolling(2).mean().sum(),
    "quantile": lambda s: s.quantile(0.3),
    "ewm": lambda s: s.ewm(0.5).mean().sum(),
    "np.asarray": lambda s: np.asarray(s).sum(),
    "frame @ x": lambda s: (D @ s.to_numpy()[:2]).sum(),
    "unique": lambda s: s.unique().sum(),
    "nunique": lambda s: s.nunique() * s.sum(),
    "value_counts": lambda s: s.value_counts().sum(),
    "drop_duplicates": lambda s: s.drop_duplicates().sum(),
    "factorize": lambda s: s.factorize()[1].sum(),
    "mode": lambda s: s.mode().sum(),
    "groupby by the numbers": lambda s: (s * 2).to_frame().assign(k=1.0).groupby("w").sum()["k"].sum(),
    "merge by the numbers": lambda s: s.to_frame().merge(s.to_frame()).sum().sum(),
    "merge by traced and plain numbers": lambda s: s.to_frame("a").merge(D, how="outer").sum().sum(),
    "set_index": lambda s: s.to_frame().assign(k=s).set_index("w").sum().sum(),
    "pivot by the numbers": lambda s: s.to_frame().assign(k=1.0).pivot_table("k", "w").sum().sum(),
    "DataFrame of an array": lambda s: pd.DataFrame(s.to_numpy()[:, None]).sum().sum(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_is_refused_with_the_line(name):
    f = REFUSED[name]
    with pytest.raises(ad.AdjointError) as caught:
        ad.grad(f)(S)
    assert caught.value.line == f"test_pandas_objects.py:{f.__code__.co_firstlineno}"


@pytest.mark.parametrize("wanted", [np.float32, np.float64])
def test_precision(wanted):
    """astype converts the numbers; a column keeps the precision of its array, and select_dtypes tells them apart."""
    seen = []

    def f(s):
        made = s.astype(wanted)
        frame = made.to_frame("x").assign(y=s.astype(np.float64))
        both = pd.concat([made, s])
        seen.append((made.dtype.numpy, list(frame.select_dtypes(wanted)), frame.iloc[0].to_numpy().dtype, both.dtype.numpy))
        return (made**2).sum()

    s = pd.Series([0.1, 0.7])
    value, _ = ad.value_and_grad(f)(s)
    assert value == (s.astype(wanted) ** 2).sum()
    names = ["x"] if wanted == np.float32 else ["x", "y"]
    assert seen == [(np.dtype(wanted), names, np.dtype(float), np.dtype(float))]


def test_round():
    value, g = ad.value_and_grad(lambda s: (s * s.round(1)).sum())(pd.Series([1.23, 4.56]))
    assert value == 1.23 * 1.2 + 4.56 * 4.6
    assert list(g) == [1.2, 4.6]


def test_arguments_without_floats():
    with pytest.raises(ad.AdjointError, match="argument 0 is int64"):
        ad.grad(lambda s: s.sum())(pd.Series([1, 2]))
    with pytest.raises(ad.AdjointError, match="needs floats"):
        ad.grad(lambda s: 1.0)(pd.Series(["a"]))


def test_printing(capsys):
    ad.grad(lambda s: (print(s), s.sum())[1])(S)
    assert "2.0" in capsys.readouterr().out


def test_loops():
    last, sums = ad.scan(lambda s, x: (0.5 * s + x, s.sum()), S, np.arange(3.0))
    pd.testing.assert_series_equal(last, S / 8 + 2.5)
    np.testing.assert_allclose(sums, [7.0, 3.5, 4.75])
