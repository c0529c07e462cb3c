"""Functions that SciPy writes in Python, on traced values: statistics of samples."""

import ast
import builtins
import importlib
import inspect

import numpy as np
import pytest
import scipy.stats

import adjoint as ad
from adjoint.scipy import stats
from adjoint.scipy.copied import copied, is_copied

X = np.random.default_rng(0).standard_normal(12) + 3
Y = np.random.default_rng(1).standard_normal(12)

CASES = {
    "zscore": lambda s, v: s.zscore(v)[2],
    "skew": lambda s, v: s.skew(v),
    "kurtosis": lambda s, v: s.kurtosis(v, bias=False),
    "moment": lambda s, v: s.moment(v, 3),
    "describe": lambda s, v: s.describe(v).variance,
    "sem": lambda s, v: s.sem(v),
    "variation": lambda s, v: s.variation(v),
    "gmean": lambda s, v: s.gmean(v),
    "hmean": lambda s, v: s.hmean(v),
    "pmean": lambda s, v: s.pmean(v, 2.5),
    "gstd": lambda s, v: s.gstd(v),
    "iqr": lambda s, v: s.iqr(v),
    "median_abs_deviation": lambda s, v: s.median_abs_deviation(v),
    "tmean": lambda s, v: s.tmean(v, (2, 4)),
    "trim_mean": lambda s, v: s.trim_mean(v, 0.1),
    "sigmaclip": lambda s, v: s.sigmaclip(v, 2.0, 2.0)[0].sum(),
    "entropy": lambda s, v: s.entropy(v, np.abs(Y)),
    "circmean": lambda s, v: s.circmean(v),
    "pearsonr": lambda s, v: s.pearsonr(v, Y)[0],
    "its p-value": lambda s, v: s.pearsonr(Y, v)[1],
    "linregress": lambda s, v: s.linregress(Y, v).slope,
    "ttest_ind": lambda s, v: s.ttest_ind(v, Y)[0],
    "its p value": lambda s, v: s.ttest_ind(v, Y)[1],
    "ttest_1samp": lambda s, v: s.ttest_1samp(v, 1.0)[0],
    "f_oneway": lambda s, v: s.f_oneway(v, Y)[0],
    "bartlett": lambda s, v: s.bartlett(v, Y)[0],
    "normaltest": lambda s, v: s.normaltest(v)[0],
    "jarque_bera": lambda s, v: s.jarque_bera(v)[0],
    "boxcox_llf": lambda s, v: s.boxcox_llf(0.3, v),
    "wasserstein_distance": lambda s, v: s.wasserstein_distance(v, Y),
    "energy_distance": lambda s, v: s.energy_distance(v, Y),
}
#: Ranks are constant almost everywhere; they are found by compiled code, so that jit runs them eagerly.
RANKS = {
    "theilslopes": lambda s, v: s.theilslopes(v, Y)[0],  # which of the slopes is the median
    "rankdata": lambda s, v: (s.rankdata(v) * v).sum(),
    "spearmanr": lambda s, v: s.spearmanr(v, Y)[0] * v[0],
    "kendalltau": lambda s, v: s.kendalltau(v, Y)[0] * v[0],
}


@pytest.mark.filterwarnings("ignore:invalid value|divide by zero:RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_statistics(name):
    f = CASES[name]
    wanted = ad.finite_difference(lambda v: f(scipy.stats, v), X)
    assert f(stats, X) == f(scipy.stats, X)
    value, slope = ad.value_and_grad(lambda v: f(stats, v))(X)
    np.testing.assert_allclose(value, f(scipy.stats, X), rtol=1e-12)
    np.testing.assert_allclose(slope, wanted, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(ad.jit(ad.grad(lambda v: f(stats, v)))(X), slope, rtol=1e-9, atol=1e-12)
    _, along = ad.jvp(lambda v: f(stats, v), (X,), (Y,))
    np.testing.assert_allclose(along, slope @ Y, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["skew", "pmean", "pearsonr", "ttest_ind", "entropy"])
def test_statistics_of_second_order(name):
    slope = ad.grad(lambda v: CASES[name](stats, v))
    _, found = ad.jvp(slope, (X,), (Y,))
    np.testing.assert_allclose(found, (slope(X + 1e-6 * Y) - slope(X - 1e-6 * Y)) / 2e-6, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["skew", "gmean", "zscore", "linregress"])
def test_statistics_of_several_samples(name):
    """SciPy's code asks whether numbers are missing: where that differs across a batch, the samples are taken one by one."""
    rows = np.stack([X, X[::-1], X + 0.1 * Y])
    slope = ad.grad(lambda v: CASES[name](stats, v))
    np.testing.assert_allclose(ad.map(slope, rows), [slope(row) for row in rows], rtol=1e-9)
    try:
        found = ad.vmap(slope)(rows)
    except ad.AdjointError as error:  # SciPy 1.18 writes to the elements that a mask chooses
        assert name == "linregress"
        assert "batch" in str(error) or "vmap" in str(error)  # noqa: PT017
    else:
        np.testing.assert_allclose(found, [slope(row) for row in rows], rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*runs eagerly")
@pytest.mark.parametrize("name", RANKS)
@pytest.mark.parametrize("mode", [ad.grad, lambda f: ad.jit(ad.grad(f))])
def test_ranks_are_constant(name, mode):
    wanted = ad.finite_difference(lambda v: RANKS[name](scipy.stats, v), X)
    np.testing.assert_allclose(mode(lambda v: RANKS[name](stats, v))(X), wanted, rtol=1e-6, atol=1e-8)


def test_plain_numbers_go_to_scipy():
    calls = []

    def original(x):
        calls.append(x.__class__)
        return x

    ours = copied(original, lambda x: 2 * x)
    assert ours(X) is X
    assert ad.grad(lambda x: ours(x))(2.0) == 2.0
    assert calls == [np.ndarray]
    assert is_copied(scipy.stats.skew)
    assert not is_copied(scipy.stats.norm)


def test_axes_and_policies():
    table = np.stack([X, X + Y, 2 * X])
    for options in ({"axis": 1}, {"axis": None}, {"axis": 0, "keepdims": True}):
        found = ad.jvp(lambda t, options=options: stats.skew(t, **options), (table,), (table,))[0]
        np.testing.assert_allclose(found, scipy.stats.skew(table, **options), rtol=1e-9, atol=1e-12)
    holes = np.where(np.arange(12) == 3, np.nan, X)
    slope = ad.grad(lambda v: stats.gmean(v, nan_policy="omit"))(holes)
    np.testing.assert_allclose(np.delete(slope, 3), ad.grad(stats.gmean)(np.delete(X, 3)), rtol=1e-9)


FACES = ["fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "special", "stats"]


@pytest.mark.parametrize("name", FACES)
def test_a_name_of_scipy_does_not_hide_a_builtin_that_the_module_uses(name):
    """`scipy.ndimage.sum` becomes a global of our module when it is first asked for."""
    module, real = (importlib.import_module(f"{package}.{name}") for package in ("adjoint.scipy", "scipy"))
    tree = ast.parse(inspect.getsource(module))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and hasattr(builtins, node.id)}
    assert not {n for n in used if not n.startswith("_") and n in dir(real)}
