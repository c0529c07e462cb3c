"""checkpoint of functions that write, draw, count, or read what changes: as without it, or refused."""

# ruff: noqa: B023 - variables that change are the subject

import functools
import random

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import adjoint as ad
import adjoint.numpy as anp

X = np.array([0.3, 0.6, 0.9])
W = np.array([1.0, 2.0, 3.0])
FACTOR = 1.0
plain = lambda f: f


def both(program, x=X):
    """The gradient of a program that is given `checkpoint`, and of the same without it; random numbers start alike."""
    results = []
    for checkpoint in (plain, ad.checkpoint):
        np.random.seed(1)
        random.seed(1)
        results.append((ad.grad(lambda x, c=checkpoint: program(c, x))(x), np.random.rand(), random.random()))
    (a, *drawn), (b, *again) = results
    np.testing.assert_allclose(b, a, rtol=1e-13)
    assert drawn == again  # the streams go on alike


def loop_variable(checkpoint, x):
    for i in range(3):
        x = checkpoint(lambda v: np.sin(v) * (i + 1.0) * W[i])(x)
    return np.sum(x)


def global_variable(checkpoint, x):
    global FACTOR
    for FACTOR in (1.0, 2.0, 3.0):
        x = checkpoint(lambda v: np.sin(v) * FACTOR)(x)
    return np.sum(x)


def default_and_partial(checkpoint, x):
    for i in range(3):
        x = checkpoint(functools.partial(lambda a, v, b=2.0: np.sin(v) * a * b * i, 0.5))(x)
    return np.sum(x)


def helper_with_a_closure(checkpoint, x):
    for i in range(3):
        scale = lambda v: v * (i + 1.0)
        x = checkpoint(lambda v: np.sin(scale(v)))(x)
    return np.sum(x)


def recursive(checkpoint, x):
    for n in range(3):
        power = lambda v, k: v if k == 0 else v * power(v, k - 1)
        x = checkpoint(lambda v: power(v, n))(x)
    return np.sum(x)


def array_that_changes(checkpoint, x):
    for n in (3, 300):
        c = np.full(n, 2.0)
        x = x * np.mean(checkpoint(lambda v: np.sum(v) * c)(x))
        c[:] = 100.0
    return np.sum(x)


def argument_that_changes(checkpoint, x):
    c = np.full(3, 2.0)
    y = checkpoint(lambda v, c: np.sin(v) * c)(x, c)
    c[:] = 100.0
    return np.sum(y)


def legacy_draws(checkpoint, x):
    x = checkpoint(lambda v: v * np.random.rand(3) * random.random())(x)
    return np.sum(checkpoint(lambda v: v * np.random.rand(3))(x))


def generator(checkpoint, x):
    rng, old = np.random.default_rng(0), np.random.RandomState(0)
    x = checkpoint(lambda v: v * rng.normal(size=3) * old.rand(3))(x)
    x = checkpoint(lambda v, rng: v * rng.normal(size=3))(x, rng)
    return np.sum(x) * rng.normal()


class Layer:
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def dropout(self, v):
        return v * self.rng.normal(size=3)


def generator_of_an_object(checkpoint, x):
    layer = Layer()
    for _ in range(2):
        x = checkpoint(layer.dropout)(x)
    return np.sum(x) * layer.rng.normal()


def counter_in_a_closure(checkpoint, x):
    count = np.zeros(1)

    def f(v):
        count[0] += 1
        return v * count[0]

    x = checkpoint(f)(checkpoint(f)(x))
    assert count[0] == 2
    return np.sum(x)


def own_buffers(checkpoint, x):
    def f(v):
        out = anp.zeros(3)
        out[0] = v[1] * v[2]
        part = out[:2]
        part += v[0]
        v = v.copy()
        v *= v
        return out, out[1:] * 2.0, v

    out, part, v = checkpoint(f)(x)
    out += 1.0
    return np.sum(np.sin(out)) + np.sum(part * part) + np.sum(v)


class Solver:
    """An object that is in a cycle with its own function, as those of solve_ivp are."""

    def __init__(self, v):
        self.state = anp.zeros(3)
        self.step = lambda k: self.write(k, v)

    def write(self, k, v):
        self.state[k] = v[k] * self.state[k - 1] + v[0]


def cyclic_garbage(checkpoint, x):
    def f(v):
        solver = Solver(v)
        for k in range(3):
            solver.step(k)
        return np.sum(solver.state)

    return checkpoint(f)(x) + checkpoint(f)(x * 2.0)


def solver_of_scipy(checkpoint, x):
    def f(v):
        return solve_ivp(lambda t, y: v[0] - y * v[1], (0.0, 1.0), [1.5]).y[0, -1]

    return checkpoint(f)(x)


@pytest.mark.parametrize(
    "program",
    [
        *(
            cyclic_garbage,
            solver_of_scipy,
            loop_variable,
            global_variable,
            default_and_partial,
            helper_with_a_closure,
            recursive,
            array_that_changes,
        ),
        *(argument_that_changes, legacy_draws, generator, generator_of_an_object, counter_in_a_closure, own_buffers),
    ],
    ids=lambda f: f.__name__,
)
def test_as_without_it(program):
    both(program)


def writes_to_its_argument(checkpoint, x):
    def f(y):
        y += 1.0
        return np.sum(y * y)

    return checkpoint(f)(x * 1.0)


def writes_through_a_view(checkpoint, x):
    def f(y):
        y.reshape(3, 1)[1:] = 0.0
        return np.sum(y * y)

    return checkpoint(f)(x * 1.0)


def writes_to_an_array_from_outside(checkpoint, x):
    kept = anp.zeros(3)

    def f(v):
        kept[0] = np.sum(v)
        return v * 2

    return np.sum(checkpoint(f)(x)) + kept[0]


def writes_to_a_plain_array_from_outside(checkpoint, x):
    kept = np.zeros(300)

    def f(v):
        kept[0] += 1.0
        return v * kept[0]

    return np.sum(checkpoint(f)(x))


def counts(checkpoint, x):
    def f(v):
        Layer.calls = getattr(Layer, "calls", 0) + 1
        return v * Layer.calls

    return np.sum(checkpoint(f)(x))


def reads_what_is_gone(checkpoint, x):
    numbers = iter([1.0, 2.0, 3.0])
    return np.sum(checkpoint(lambda v: v * next(numbers))(x))


@pytest.mark.parametrize(
    "program, words",
    [
        (writes_to_its_argument, "writes to its argument"),
        (writes_through_a_view, "writes to its argument"),
        (writes_to_an_array_from_outside, "writes to an outside array"),
        (writes_to_a_plain_array_from_outside, "writes to an outside NumPy array"),
        (counts, "gave other results"),
        (reads_what_is_gone, "gave other results"),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_refused(program, words):
    with pytest.raises(ad.AdjointError, match=words):
        ad.grad(lambda x: program(ad.checkpoint, x))(X)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: ad.jvp(f, (X,), (X,)),
        lambda f: ad.vmap(f)(np.stack([X, X])),
        lambda f: ad.grad(lambda x: ad.jvp(f, (x,), (x,))[1])(X),
    ],
)
def test_a_write_to_the_argument_is_refused_in_every_mode(transform):
    with pytest.raises(ad.AdjointError, match="writes to its argument"):
        transform(lambda x: writes_to_its_argument(ad.checkpoint, x))


def kept_in_a_list(v, keep):
    keep.append(v * v)


def kept_in_a_dict(v, keep):
    keep[0:1] = [{"square": v * v}["square"]]


def kept_in_a_nest(v, keep):
    keep.append([ad.checkpoint(lambda u: u * u)(v)][0])


def kept_in_a_view(v, keep):
    keep.append((v * v).reshape(-1, 1)[:, 0])


MODES = {
    "grad": lambda f: ad.grad(f)(X),
    "grad of float32": lambda f: ad.grad(f)(X.astype(np.float32)),
    "vjp of a number": lambda f: ad.vjp(lambda a: f(a * X), 0.5)[1](1.0),
    "grad of grad": lambda f: ad.grad(lambda x: np.sum(ad.grad(f)(x)))(X),
    "jvp": lambda f: ad.jvp(f, (X,), (X,)),
    "vmap of grad": lambda f: ad.vmap(ad.grad(f))(np.stack([X, X])),
    "backward": lambda f: f(ad.array(X, requires_grad=True)).backward(),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keeps", [kept_in_a_list, kept_in_a_dict, kept_in_a_nest, kept_in_a_view])
def test_a_value_that_leaves_in_another_way_than_as_a_result_is_refused(keeps, mode):
    """It has no derivative: the node of the checkpoint knows the results only."""

    def f(x):
        keep = []

        def block(v):
            keeps(v, keep)
            return np.sin(v)

        y = ad.checkpoint(block)(x)
        return np.sum(y) + np.sum(keep[0])

    with pytest.raises(ad.AdjointError, match="traced by checkpoint was used after"):
        MODES[mode](f)


@pytest.mark.parametrize("mode", ["grad", "jvp", "backward"])
def test_a_value_that_is_kept_and_not_used_is_no_error(mode):
    kept = []

    def block(v):
        kept.append(v * v)
        return np.sin(v)

    MODES[mode](lambda x: np.sum(ad.checkpoint(block)(x)))
    assert kept


def test_second_derivatives():
    rng = np.random.default_rng(0)
    f = lambda c: lambda x: np.sum(c(lambda v: np.sin(v) ** 3 * rng.normal(size=3))(x))
    found = []
    for c in (plain, ad.checkpoint):
        rng.bit_generator.state = np.random.default_rng(0).bit_generator.state
        found.append(ad.grad(lambda x, c=c: ad.grad(f(c))(x) @ X)(X))
    np.testing.assert_allclose(*found, rtol=1e-12)
