"""A partial that reads an overflowed value is nan; given infinities and saturated functions keep their limits."""

import io
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.scipy.special import expit

FORMS = {
    "reverse": lambda f, x: ad.grad(f)(x),
    "reverse, NumPy scalar": lambda f, x: ad.grad(f)(np.float64(x)),
    "forward": lambda f, x: ad.jvp(f, (x,), (1.0,))[1],
    "reverse over reverse": lambda f, x: ad.grad(ad.grad(f))(x),
    "forward over reverse": lambda f, x: ad.hvp(f)(x, 1.0),
    "forward over forward": lambda f, x: ad.derivative(ad.derivative(f))(x),
    "batched": lambda f, x: ad.vmap(ad.grad(f))(np.array([0.3, x]))[1],
    "array": lambda f, x: ad.grad(lambda x: np.sum(f(x)))(np.array([0.3, x]))[1],
    "large array": lambda f, x: ad.grad(lambda x: np.sum(f(x)))(np.full(1_200_000, x))[7],
    "checkpoint": lambda f, x: ad.grad(ad.checkpoint(f))(x),
    "checkpoint of an array": lambda f, x: ad.grad(ad.checkpoint(lambda x: np.sum(f(x))))(np.array([0.3, x]))[1],
    "compiled": lambda f, x: ad.jit(ad.grad(f))(x),
    "compiled forward": lambda f, x: ad.jit(ad.derivative(f))(x),
    "compiled pullback": lambda f, x: ad.jit(lambda x, g: ad.vjp(f, x)[1](g)[0])(np.float64(x), np.float64(1.0)),
    "compiled second": lambda f, x: ad.jit(ad.grad(ad.grad(f)))(x),
    "compiled forward over reverse": lambda f, x: ad.jit(ad.hvp(f))(x, 1.0),
    "compiled forward over forward": lambda f, x: ad.jit(ad.derivative(ad.derivative(f)))(x),
    "graph, reverse over reverse": lambda f, x: ad.graph(ad.grad(ad.grad(f)))(x)(x),
    "compiled, reverse over reverse over reverse": lambda f, x: ad.jit(ad.grad(ad.grad(ad.grad(f))))(x),
}
FIRST = [name for name in FORMS if " over " not in name and "second" not in name]

LOST = {
    "root of a square": lambda x: np.sqrt(x * x),
    "root of an absolute square": lambda x: np.sqrt(np.abs(x) ** 2),
    "logarithm of a cube": lambda x: np.log(x * x * x),
    "power of a power": lambda x: (x**4) ** 0.25,
    "cube root": lambda x: np.cbrt(x * x * x),
    "divided by its square": lambda x: x * (x / (x * x)),
    "reciprocal": lambda x: np.sqrt(np.reciprocal(x * x) + 1e-320) * 1e300,
    "slow decay": lambda x: np.exp(-0.001 * np.log(x * x)) * x,
    "inverse hyperbolic": lambda x: np.arcsinh(x * x) * x,
    "length": lambda x: np.hypot(x * x, 1.0) ** 0.5,
    "logarithm of a multiple": lambda x: np.log(x * 1e300),
    "root of a multiple": lambda x: np.sqrt(x * 1e300),
    "power of a multiple": lambda x: (x * 1e300) ** -0.5,
    "sum of exponentials": lambda x: np.logaddexp(x * 1e300, x * 2e300) + x * x * x,
    "sum of powers of 2": lambda x: np.logaddexp2(x * 1e300, x * 2e300) + x * x * x,
}


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", LOST)
def test_an_overflow_gives_no_finite_number(name, form):
    assert not np.isfinite(FORMS[form](LOST[name], np.float64(1e300)))


PUSHED = {
    "jvp": lambda f, x, t: ad.jvp(f, (x,), (t,))[1],
    "linearize": lambda f, x, t: ad.linearize(f, x)[1](t),
    "graph": lambda f, x, t: ad.jvp(ad.graph(f)(x), (x,), (t,))[1],
}


@pytest.mark.parametrize("form", PUSHED)
@pytest.mark.parametrize("order", [np.sort, lambda x: np.partition(x, 1)], ids=["sort", "partition"])
def test_tangents_of_infinities_in_order(order, form):
    """Forward mode takes two passes back where a zero meets a nan: here the slope of the sine at the infinities."""

    def f(x):
        y = order(x)
        return y, np.sum(np.sin(y))

    y, total = PUSHED[form](f, np.array([np.inf, 1.0, -np.inf]), np.array([0.0, 0.0, np.inf]))
    assert not np.isfinite(y[0])
    np.testing.assert_array_equal(y[1:], 0)
    assert np.isnan(total)


ORDERS = {
    "sort": lambda x: np.sort(np.stack([x, 2 * x]), axis=0)[0],
    "sort, negative": lambda x: np.sort(np.stack([-x, -2 * x]), axis=0)[1],
    "partition": lambda x: np.partition(np.stack([x, 2 * x, x * 1e-300]), 2, axis=0)[1],
    "median": lambda x: np.median(np.stack([x, 2 * x, 4 * x]), axis=0),
    "maximum": lambda x: np.max(np.stack([x, 2 * x]), axis=0),
}


@pytest.mark.parametrize("form", FIRST)
@pytest.mark.parametrize("name", ORDERS)
def test_two_overflows_have_no_order(name, form):
    assert np.isnan(FORMS[form](lambda x: ORDERS[name](x * 1e300), np.float64(1e160)))


@pytest.mark.parametrize("form", FORMS)
def test_two_overflows_whose_slopes_overflow_have_no_order(form):
    assert not np.isfinite(FORMS[form](lambda x: np.sort(np.stack([x**3, 2 * x * x]), axis=0)[0], np.float64(1e160)))


KEPT = {
    "Gaussian": (lambda x: np.exp(-x * x / 2), 0.0),
    "saturation of an overflow": (lambda x: np.tanh(x * x), 0.0),
    "saturation": (lambda x: np.tanh(x) + expit(x), 0.0),
    "not chosen": (lambda x: np.where(x < 1, np.sqrt(x * x), 3 * x), 3.0),
    "multiplied by zero": (lambda x: 0.0 * np.sqrt(np.abs(x)) * np.sqrt(np.abs(x)) + 2 * x, 2.0),
    "smaller": (lambda x: np.minimum(x * x, 2 * x), 2.0),
    "infinite by itself": (lambda x: 1 / (x + np.inf) + 5 * x, 5.0),
}


@pytest.mark.parametrize("form", FIRST)
@pytest.mark.parametrize("name", KEPT)
def test_values_without_overflow_are_kept(name, form):
    f, expected = KEPT[name]
    found = FORMS[form](f, 1e300)
    if name == "infinite by itself" and "compiled" in form:
        assert found == expected or np.isnan(found)  # a program cannot tell
    else:
        assert found == expected


HIGHER = {
    "rr": lambda f: ad.grad(ad.grad(f)),
    "fr": lambda f: ad.derivative(ad.grad(f)),
    "rf": lambda f: ad.grad(ad.derivative(f)),
    "ff": lambda f: ad.derivative(ad.derivative(f)),
    "rff": lambda f: ad.grad(ad.derivative(ad.derivative(f))),
    "frf": lambda f: ad.derivative(ad.grad(ad.derivative(f))),
    "rrf": lambda f: ad.grad(ad.grad(ad.derivative(f))),
    "ffr": lambda f: ad.derivative(ad.derivative(ad.grad(f))),
    "rrr": lambda f: ad.grad(ad.grad(ad.grad(f))),
}
RUN = {
    "eager": lambda f: f,
    "compiled": ad.jit,
    "graph": lambda f: lambda x: ad.graph(f)(x)(x),
    "compiled, batched": lambda f: lambda x: ad.jit(ad.vmap(f))(np.stack([x, x]))[1],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("run", RUN)
@pytest.mark.parametrize("order", HIGHER)
@pytest.mark.parametrize("lost", LOST)
def test_higher_derivatives_beside_an_overflow_that_is_not_chosen(lost, order, run):
    f = lambda x: np.where(x < 2, LOST[lost](x), x * x * x)
    with np.errstate(all="ignore"):
        found = RUN[run](HIGHER[order](f))(np.float64(1e160))
    assert found == pytest.approx(6e160 if len(order) == 2 else 6.0)


def test_logarithms_of_a_probability_of_zero_are_no_overflow():
    f = lambda x: np.sum(np.exp(np.logaddexp(x - np.inf, x + np.log(0.0)))) + np.sum(x)
    x = np.array([1.0, 2.0])
    with np.errstate(all="ignore"):
        for g in (ad.grad(f), ad.jit(ad.grad(f)), ad.jit(lambda x: ad.jacfwd(f)(x))):
            np.testing.assert_array_equal(g(x), 1)


@pytest.mark.parametrize("x", [2.0, 1e200, np.float64(1e200)])
def test_an_overflow_beside_an_integer_beyond_64_bits(x):
    with np.errstate(all="ignore"):
        for f in (lambda x: x * x / 2**600, lambda x: np.where(x < 1, 0.0, x * x) / 2**600):
            for found in (ad.grad(f)(x), ad.jvp(f, (x,), (1.0,))[1], ad.jit(ad.grad(f))(x)):
                assert found == 2 * x / 2**600


def test_only_overflowed_elements_are_lost():
    x = np.array([2.0, 1e300, -3.0, 1e-5])
    expected = [1.0, np.nan, -1.0, 1.0]
    for f in (
        lambda x: np.sum(np.sqrt(x * x)),
        lambda x: np.sum(np.sqrt((x * x).reshape(2, 2).T)),
        lambda x: np.sum(np.sqrt(x * x)[::-1]),
    ):
        np.testing.assert_allclose(ad.grad(f)(x), expected)
        np.testing.assert_allclose(ad.jit(ad.grad(f))(x), expected)
        np.testing.assert_allclose(ad.jvp(f, (x,), (np.array([1.0, 0.0, 0.0, 1.0]),))[1], 2.0)


def test_masks_of_minus_infinity_stay_zero_beside_an_overflow():
    mask = np.array([0.0, -np.inf, 0.0])

    def f(x):
        e = np.exp(x[:3] + mask)
        return (e / np.sum(e))[0] + 0.0 * np.sum(np.sqrt(x[3] * x[3]))

    g = ad.grad(f)(np.array([1.0, 2.0, 3.0, 1e200]))
    assert np.isfinite(g[:3]).all()
    assert g[1] == 0


def test_a_value_computed_from_a_lost_one_is_lost_for_other_variables():
    f = lambda z, x: z * (1e300 / np.sqrt(x * x))
    by_z, by_x = ad.grad(f, (0, 1))(1.0, np.float64(1e300))
    assert np.isnan(by_z)
    assert np.isnan(by_x)


def test_float32_and_the_imperative_style():
    x = np.array([1.0, 1e30], np.float32)
    g = ad.grad(lambda x: np.sum(np.sqrt(x * x)))(x)
    assert g.dtype == np.float32
    np.testing.assert_array_equal(g, [1.0, np.nan])
    a = ad.array(np.array([1.0, 1e200]), requires_grad=True)
    np.sum(np.sqrt(a * a)).backward()
    np.testing.assert_array_equal(a.grad, [1.0, np.nan])
    b = ad.array(np.array([1.0, np.inf]), requires_grad=True)
    np.sum(1 / (2 * b)).backward()
    np.testing.assert_array_equal(b.grad, [-0.5, 0.0])


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_the_norm_of_numbers_whose_squares_leave_the_range(size):
    f = lambda x: np.linalg.norm(x)
    x = np.array([3.0, 0.0, 4.0]) * size
    for run in (ad.grad(f), ad.jit(ad.grad(f))):
        np.testing.assert_array_equal(run(x), [np.nan, 0.0, np.nan])
    np.testing.assert_array_equal(ad.grad(f)(np.zeros(3)), np.zeros(3))
    assert np.isnan(ad.jvp(f, (x,), (x,))[1])


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_angles_and_inverse_functions_at_any_size(size):
    np.testing.assert_allclose(ad.grad(np.arctan2, (0, 1))(3 * size, 4 * size), (0.16 / size, -0.12 / size))
    np.testing.assert_allclose(ad.grad(np.arcsinh)(-size), 1 / np.hypot(1.0, size))


def test_sums_of_products_that_numpy_does_not_report():
    f = lambda x: np.sqrt(np.einsum("i,i->", x, x))
    assert np.isnan(ad.grad(f)(np.full(3, 1e200))).all()
    assert np.isnan(ad.jvp(f, (np.full(3, 1e200),), (np.ones(3),))[1])


ROOT = lambda x: np.sqrt(x * x)


def test_the_modes_of_the_user_are_obeyed_when_an_overflow_is_heard(capfd):
    x = np.float64(1e300)
    run = lambda: ad.grad(ROOT)(x)
    with np.errstate(over="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(run())
    with np.errstate(over="warn"), pytest.warns(RuntimeWarning, match="overflow") as found:
        assert np.isnan(run())
    assert [(w.filename, w.lineno) for w in found] == [(__file__, ROOT.__code__.co_firstlineno)]
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        run()
    calls = []
    with np.errstate(over="call", call=lambda kind, flag: calls.append(kind)):
        assert np.isnan(run())
    assert calls == ["overflow"]
    log = io.StringIO()
    with np.errstate(over="log", call=log):
        assert np.isnan(run())
        assert np.geterrcall() is log
    assert log.getvalue().count("overflow encountered") == 1
    with np.errstate(over="print"):
        assert np.isnan(run())
        assert np.geterr()["over"] == "print"
    assert capfd.readouterr().err.count("overflow encountered") == 1


def test_a_user_s_errstate_around_other_kinds_does_not_hide_an_overflow():
    def f(x):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sqrt(x * x)

    assert np.isnan(ad.grad(f)(np.float64(1e300)))


def test_loops_and_drop_in_arrays():
    def f(x):
        a = anp.zeros(2)
        a[0] = x * x
        a[1] = 2 * x
        return np.sum(np.sqrt(a))

    assert np.isnan(ad.grad(f)(1e300))

    def g(x):
        y, _ = ad.scan(lambda c, _: (c * x, None), x, None, length=3)
        return np.log(y)

    assert not np.isfinite(ad.grad(g)(1e200))
    assert not np.isfinite(ad.jit(ad.grad(g))(1e200))


FORWARD = {
    "derivative": ad.derivative,
    "jacfwd": ad.jacfwd,
    "second": lambda f: ad.jacfwd(ad.jacfwd(f)),
    "reverse over forward": lambda f: ad.grad(ad.derivative(f)),
}
OVERFLOWING = {
    "root": lambda x: np.sqrt(x * x),
    "logarithm": lambda x: np.log(np.square(x)),
    "transposed": lambda x: anp.sqrt(anp.asarray(x * x).T),
}


@pytest.mark.parametrize("kind", [float, np.float64, np.array])
@pytest.mark.parametrize("transform", FORWARD)
@pytest.mark.parametrize("name", OVERFLOWING)
def test_an_overflow_is_known_in_compiled_forward_mode_whatever_form_its_number_takes(name, transform, kind):
    assert np.isnan(ad.jit(FORWARD[transform](OVERFLOWING[name]))(kind(8.6e212)))


@pytest.mark.parametrize("start", ["pool", "thread"])
@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: ad.grad(f)(x),
        lambda f, x: ad.jvp(f, (x,), (1.0,))[1],
        lambda f, x: ad.vjp(f, x)[1](1.0),
        lambda f, x: ad.grad(lambda x: ad.grad(f)(x))(x),
        lambda f, x: ad.grad(ad.checkpoint(f))(x),
    ],
)
def test_an_overflow_in_a_thread_of_the_function(transform, start):
    """A thread has no context variables of ours, and NumPy's modes of its own, which stay as the user knows them."""
    pool = ThreadPoolExecutor(1)

    def in_thread(f):
        if start == "pool":
            return pool.submit(f).result()
        found = []
        thread = Thread(target=lambda: found.append(f()))
        thread.start()
        thread.join()
        return found[0]

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):  # a thread of the pool serves several calls
            assert np.isnan(transform(lambda x: in_thread(lambda: np.sqrt(x * x)), 1e300))
            assert transform(lambda x: in_thread(lambda: np.sqrt(x * x)), 2.0) == transform(lambda x: np.sqrt(x * x), 2.0)
        assert in_thread(np.geterr) == {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


def test_a_warning_in_a_thread_names_the_line():
    with ThreadPoolExecutor(1) as pool, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ad.grad(lambda x: pool.submit(lambda: np.log(x - 1.0)).result())(1.0)
    (warning,) = caught
    assert warning.filename == __file__
    assert "divide by zero encountered in log" in str(warning.message)
