"""The imperative style: requires_grad, backward, grad_fn, no_grad, higher order."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.bind import variables
from adjoint.core.errors import ArgumentError, ShapeError


def leaf(data):
    return ad.array(data, requires_grad=True)


def test_worked_example():
    x, y = leaf(3.0), leaf(4.0)
    f = x**2 * y + y + 2
    assert f.item() == 42
    f.backward()
    assert (x.grad, y.grad) == (24, 10)


def test_gradients_accumulate_until_zeroed():
    x = leaf([1.0, 2.0])
    for expected in (2.0, 4.0):
        np.sum(2 * x).backward()
        np.testing.assert_array_equal(x.grad, [expected, expected])
    x.zero_grad()
    assert x.grad is None
    x.grad = np.ones(2)
    np.sum(x).backward()
    np.testing.assert_array_equal(x.grad, [2, 2])


def test_two_leaves_do_not_share_their_gradient():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    np.sum(x + y).backward()
    x.grad[0] = 100
    np.testing.assert_array_equal(y.grad, [1, 1])


def test_grad_fn_shows_the_operation_and_its_parents():
    x, y = leaf(3.0), leaf(4.0)
    z = x * y - y
    assert repr(z.grad_fn) == "<SubBackward>"
    (product, _), (last, _) = z.grad_fn.next_functions
    assert repr(product) == "<MulBackward>"
    assert repr(last) == "<AccumulateGrad>"
    assert [repr(f) for f, _ in product.next_functions] == ["<AccumulateGrad>", "<AccumulateGrad>"]
    assert product.next_functions[1][0] == last
    assert (z + 1).grad_fn.next_functions[1] == (None, 0)
    assert x.grad_fn is None
    assert x.is_leaf
    assert not z.is_leaf
    assert "grad_fn=<SubBackward>" in repr(z)
    assert repr(x) == "array(3., requires_grad=True)"


def test_cotangent_for_an_array():
    x = leaf([1.0, 2.0, 3.0])
    y = x * x
    y.backward(np.array([1.0, 0.0, 2.0]))
    np.testing.assert_array_equal(x.grad, [2, 0, 12])
    with pytest.raises(ad.AdjointError, match=r"shape \(3,\) needs the cotangent"):
        (x * x).backward()
    with pytest.raises(ad.AdjointError, match=r"shape \(2,\), expected \(3,\)"):
        (x * x).backward(np.ones(2))


def test_second_backward_needs_retain_graph():
    x = leaf([1.0, 2.0])
    y = np.sum(np.sin(x))
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad, 2 * np.cos([1.0, 2.0]))
    with pytest.raises(ad.AdjointError, match="freed by an earlier backward") as error:
        y.backward()
    assert isinstance(error.value, RuntimeError)
    assert "test_imperative.py:" in str(error.value)


def test_create_graph_gives_higher_derivatives():
    x = leaf(2.0)
    (x**4).backward(create_graph=True)
    first = x.grad
    assert first.item() == pytest.approx(32)
    x.grad = None
    first.backward(create_graph=True)
    second = x.grad
    assert second.item() == pytest.approx(48)
    x.grad = None
    second.backward()
    assert x.grad == pytest.approx(48)


def test_create_graph_through_matrices():
    rng = np.random.default_rng(0)
    a, v = rng.standard_normal((3, 3)), rng.standard_normal(3)
    x = leaf(rng.standard_normal(3))
    np.sum(np.tanh(a @ x) ** 2).backward(create_graph=True)
    gradient = x.grad
    x.grad = None
    np.sum(gradient * v).backward()
    f = lambda x: np.sum(np.tanh(a @ x) ** 2)
    np.testing.assert_allclose(x.grad, ad.hvp(f)(x.numpy(), v))


def test_no_grad_records_nothing_and_allows_updates():
    x = leaf([1.0, 2.0])
    with ad.no_grad():
        y = x * x
        x -= 0.5
    assert not y.requires_grad
    assert x.requires_grad
    assert x.is_leaf
    np.testing.assert_array_equal(x.numpy(), [0.5, 1.5])
    np.sum(x).backward()
    np.testing.assert_array_equal(x.grad, [1, 1])
    with pytest.raises(ad.AdjointError, match="requires_grad=True"):
        y.backward()


def test_gradient_descent_loop():
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((50, 3))
    targets = inputs @ np.array([1.0, -2.0, 0.5]) + 0.3
    w, b = leaf(np.zeros(3)), leaf(0.0)
    for _ in range(300):
        loss = np.mean((inputs @ w + b - targets) ** 2)
        w.zero_grad()
        b.zero_grad()
        loss.backward()
        with ad.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad
    np.testing.assert_allclose(w.numpy(), [1, -2, 0.5], atol=1e-6)
    assert b.item() == pytest.approx(0.3)


def test_scalar_parameters_update_in_place_too():
    b = leaf(1.0)
    alias = b
    with ad.no_grad():
        b -= 0.25
    assert alias is b
    assert b.requires_grad
    assert b.item() == 0.75


def test_detach():
    x = leaf([1.0, 2.0])
    y = np.sum(x * x.detach())
    y.backward()
    np.testing.assert_array_equal(x.grad, [1, 2])
    assert not x.detach().requires_grad


def test_loops_and_branches():
    x = leaf(1.5)
    y = x
    while y < 100:
        y = y * y if y > 2 else y + 1
    y.backward()
    # 1.5 → 2.5 → 6.25 → 39.06 → 1525.9: (x + 1)^8
    assert x.grad == pytest.approx(8 * 2.5**7)


def test_writing_to_a_variable_is_refused():
    x = leaf([1.0, 2.0])
    with pytest.raises(ad.AdjointError, match="no_grad") as error:
        x[0] = 5.0
    assert "test_imperative.py:" in str(error.value)
    with pytest.raises(ad.AdjointError, match="no_grad"):
        x += 1
    with pytest.raises(ad.AdjointError, match="no_grad"):
        x[1:][0] = 5.0
    with pytest.raises(ad.AdjointError, match="no_grad"):
        x.reshape(2, 1).T[...] = 5.0


def test_writes_do_not_change_saved_residuals():
    x = leaf([1.0, 2.0])
    y = np.exp(x)
    z = np.sum(y)
    y += 1
    y *= y
    (z + np.sum(y)).backward()
    e = np.exp([1.0, 2.0])
    np.testing.assert_allclose(x.grad, e + 2 * (e + 1) * e)


def test_copies_and_views_are_written_to():
    x = leaf([1.0, 2.0, 3.0])
    b = x.copy()
    b[0] = 9.0
    assert (b.is_leaf, b.requires_grad, x.is_leaf) == (False, True, True)
    u = x * 1.0
    v = u[1:]
    v += x[0]
    (np.sum(b * b) + np.sum(u * u)).backward()
    np.testing.assert_array_equal(x.grad, [2.0 + 14.0, 4.0 + 6.0, 6.0 + 8.0])


def test_new_arrays_take_values():
    gc.collect()
    before = len(variables)
    x = leaf([1.0, 2.0])
    z = anp.zeros(2)
    z[0] = x[1]
    np.sum(z * z).backward()
    np.testing.assert_array_equal(x.grad, [0.0, 4.0])
    del x, z
    gc.collect()
    assert len(variables) == before  # without any, anp.zeros gives plain arrays


def test_a_loss_is_a_number_once_it_is_differentiated():
    x = leaf([1.0, 2.0])
    loss = np.sum(x * x)
    with pytest.raises(ad.AdjointError, match="float"):
        float(loss)
    loss.backward()
    assert (float(loss), int(loss), complex(loss), loss.item(), loss.tolist()) == (5.0, 5, 5.0, 5.0, 5.0)
    assert f"{loss:.1f}" == "5.0"
    assert np.array(loss) == 5.0
    kept = np.sum(x)
    kept.backward(retain_graph=True)
    assert float(kept) == 3.0
    with pytest.raises(ad.AdjointError, match="float"):
        float(x[0])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_a_variable_has_its_own_gradient(copied):
    x = leaf([1.0, 2.0])
    np.sum(x * x).backward()
    y = copied(x)
    assert y.is_leaf
    assert y.requires_grad
    np.testing.assert_array_equal(y.grad, [2.0, 4.0])
    np.sum(3 * y).backward()
    np.testing.assert_array_equal(x.grad, [2.0, 4.0])
    np.testing.assert_array_equal(y.grad, [5.0, 7.0])
    with ad.no_grad():
        y -= 1.0
    np.testing.assert_array_equal(x.numpy(), [1.0, 2.0])


def test_an_array_without_gradient_pickles():
    x = pickle.loads(pickle.dumps(ad.array([1.0, 2.0])))
    np.testing.assert_array_equal(x.numpy(), [1.0, 2.0])


def test_writes_to_unneeded_arrays_are_recorded():
    x = leaf([1.0, 2.0])
    y = x * 2
    y += 1
    y[0] = 7.0
    np.sum(y).backward()
    np.testing.assert_array_equal(x.grad, [0, 2])


def test_the_data_is_copied():
    data = np.array([1.0, 2.0])
    x = leaf(data)
    y = np.sum(x * x)
    data[:] = 100
    y.backward()
    np.testing.assert_array_equal(x.grad, [2, 4])


def test_exact_zero_wins_over_an_infinite_partial():
    x = leaf([0.0, 4.0])
    np.sum(np.where(x < 1, x, np.sqrt(x))).backward()
    np.testing.assert_array_equal(x.grad, [1, 0.25])


def test_mixes_with_the_functional_style():
    w = leaf([1.0, 2.0])
    value, slope = ad.value_and_grad(lambda t: np.sum(t * w * w))(3.0)
    assert value.item() == 15
    slope.backward()
    np.testing.assert_array_equal(w.grad, [2, 4])


def test_unreachable_nodes_are_freed():
    x = leaf(np.ones(10))
    y = np.sin(x)
    node = weakref.ref(y.aux)
    z = np.sum(y)
    del y
    gc.collect()
    assert node() is not None
    del z
    gc.collect()
    assert node() is None


def test_threads_do_not_disturb_each_other():
    x = leaf([1.0, 2.0])
    results = {}

    def work(i):
        mine = leaf([float(i), 1.0])
        for _ in range(50):
            mine.zero_grad()
            np.sum(mine**2 * x.detach()).backward()
            with ad.no_grad():
                assert not (mine * 2).requires_grad
        results[i] = mine.grad

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, g in results.items():
        np.testing.assert_array_equal(g, [2.0 * i, 4.0])


@pytest.mark.parametrize("data", ["text", [1, 2], np.array([1, 2]), object()])
def test_only_floats_require_grad(data):
    with pytest.raises(ad.AdjointError):
        leaf(data)


class TestDualNumbers:
    """(a + bε) as in the textbook, with ε² = 0."""

    def test_arithmetic(self):
        x, y = ad.dual(3.0, 2.0), ad.dual(4.0, 5.0)
        for z, primal, tangent in (
            (x + y, 7, 7),
            (x - y, -1, -3),
            (x * y, 12, 3 * 5 + 2 * 4),
            (x / y, 0.75, (2 * 4 - 3 * 5) / 16),
            (2 * x, 6, 4),
            (x + 1, 4, 2),
            (x**2, 9, 12),
            (-x, -3, -2),
        ):
            assert z.primal == primal
            assert z.tangent == pytest.approx(tangent)

    def test_epsilon_squared_is_zero(self):
        epsilon = ad.dual(0.0, 1.0)
        square = epsilon * epsilon
        assert (square.primal, square.tangent) == (0, 0)

    def test_a_function_of_a_dual_number(self):
        z = np.sin(ad.dual(0.5, 3.0))
        assert z.primal == np.sin(0.5)
        assert z.tangent == 3 * np.cos(0.5)

    def test_worked_example(self):
        f = lambda x, y: x**2 * y + y + 2
        assert repr(f(ad.dual(3.0, 1.0), ad.dual(4.0, 0.0))) == "42.0 + 24.0ε"
        assert repr(f(ad.dual(3.0, 0.0), ad.dual(4.0, 1.0))) == "42.0 + 10.0ε"


def test_numbers_of_traced_values_are_asked_for_as_ever():
    """The imperative style widens float() and int() of traced values; transforms do not notice."""
    ad.array(1.0, requires_grad=True)

    def f(x):
        assert "%.1f" % x == "2.5"  # noqa: UP031
        assert "%d" % x == "2"  # noqa: UP031
        return x ** int(x)

    assert ad.grad(f)(2.5) == 5.0
    with pytest.raises(ad.AdjointError, match="lose its derivative"):
        ad.grad(lambda x: np.zeros(3, int).fill(x))(2.5)


def test_dual_numbers_are_complex_too():
    y = np.exp(ad.dual(1.0 + 2.0j, 1.0))
    np.testing.assert_allclose([y.primal, y.tangent], [np.exp(1 + 2j)] * 2)
    assert (ad.dual(2.0, 1j) * 3).tangent == 3j


@pytest.mark.parametrize("nonsense", ["a", {1.0}, None, np.sin, [None], np.array(["a"])])
def test_dual_numbers_of_nonsense(nonsense):
    with pytest.raises(ArgumentError, match="the primal of a dual number"):
        ad.dual(nonsense)
    with pytest.raises(ArgumentError, match="the tangent of a dual number"):
        ad.dual(1.0, nonsense)
    with pytest.raises(ShapeError, match=r"shape \(3,\), its primal \(2,\)"):
        ad.dual(np.ones(2), np.ones(3))
