"""docs/semantics.md, promise by promise: each test checks one sentence."""

import asyncio
import copy
import functools
import os
import pickle
import threading

import numpy as np
import pytest
from promises import close, equal

import adjoint as ad
from adjoint.core.tree import flatten

# -- dtypes -------------------------------------------------------------------------------------------------------

FLOATS = [np.float16, np.float32, np.float64, np.longdouble]


@pytest.mark.parametrize("dtype", FLOATS)
def test_dtype_in_is_dtype_out(dtype):
    x = np.array([0.5, 1.5, 2.0], dtype)
    program = lambda x: 2.0 * np.sin(x) ** 2 + x / 3 - np.where(x > 1, x, 0.0) + np.maximum(x, 1.0) * np.exp(-x) + abs(x) ** 1.5
    total = lambda x: np.sum(program(x)) * 0.5
    v = np.ones(3, dtype)
    results = {
        "plain": program(x),
        "grad": ad.grad(total)(x),
        "value_and_grad": ad.value_and_grad(total)(x),
        "jvp": ad.jvp(program, (x,), (v,)),
        "vjp": ad.vjp(program, x)[1](v),
        "linearize": (ad.linearize(program, x)[0], ad.linearize(program, x)[1](v)),
        "jacfwd": ad.jacfwd(program)(x),
        "jacrev": ad.jacrev(program)(x),
        "jacobian": ad.jacobian(program)(x),
        "hessian": ad.hessian(total)(x),
        "hvp": ad.hvp(total)(x, v),
        "elementwise_grad": ad.elementwise_grad(program)(x),
        "derivative": ad.derivative(program)(x[0]),
        "vmap": ad.vmap(program)(x),
        "vmap grad": ad.vmap(ad.grad(program))(x),
        "grad grad": ad.grad(lambda x: np.sum(ad.grad(total)(x)))(x),
        "third": ad.derivative(ad.derivative(ad.grad(program)))(x[0]),
    }
    for name, result in results.items():
        for leaf in flatten(result)[0]:
            assert leaf.dtype == dtype, name


def test_mixed_dtypes_follow_each_argument():
    a, b = np.ones(3, np.float32), np.ones(3, np.float64)
    f = lambda a, b: np.sum(a * b)
    ga, gb = ad.grad(f, (0, 1))(a, b)
    assert (ga.dtype, gb.dtype) == (np.float32, np.float64)
    value, t = ad.jvp(f, (a, b), (a, b))
    assert (value.dtype, t.dtype) == (np.float64, np.float64)
    ja, jb = ad.jacrev(lambda a, b: a * b, (0, 1))(a, b)
    assert (ja.dtype, jb.dtype) == (np.float32, np.float64)
    assert ad.grad(lambda a: np.sum(a.astype(np.float64)))(a).dtype == np.float32


def test_python_floats_are_weak():
    a = np.ones(3, np.float32)
    f = lambda a, s: np.sum(a * s + 0.1)
    value, (ga, gs) = ad.value_and_grad(f, (0, 1))(a, 2.0)
    assert (value.dtype, ga.dtype, gs.dtype) == (np.float32, np.float32, np.float64)
    assert gs == 3.0
    out, t = ad.jvp(lambda a, s: a * s, (a, 2.0), (a, 1.0))
    assert (out.dtype, t.dtype) == (np.float32, np.float32)
    assert ad.vmap(lambda a: a * 2.0)(a).dtype == np.float32
    assert ad.vmap(lambda a, s: a * s, in_axes=(0, None))(a, 2.0).dtype == np.float32
    with np.errstate(all="ignore"):
        assert ad.grad(lambda a: np.sum(a / 0.0))(a).dtype == np.float32


def test_unsigned_and_boolean_exponents():
    assert ad.grad(lambda x: np.sum(x ** np.arange(3, dtype=np.uint8)))(20.0) == 41.0
    assert ad.grad(lambda x: np.sum(x ** np.array([True, False])))(20.0) == 1.0


# -- complex ------------------------------------------------------------------------------------------------------

Z = 0.6 - 0.8j


@pytest.mark.parametrize(
    "f, expected",
    [
        (lambda z: np.abs(z), np.conj(Z)),
        (lambda z: np.abs(z) ** 2, 2 * np.conj(Z)),
        (lambda z: np.real(z), 1.0),
        (lambda z: z.real, 1.0),
        (lambda z: np.imag(z), -1j),
        (lambda z: np.imag(np.conj(z)), 1j),
        (lambda z: np.real(z * np.conj(z)), 2 * np.conj(Z)),
        (lambda z: np.real(z**2), 2 * Z),
        (lambda z: np.real(np.exp(z)), np.exp(Z)),
        (lambda z: np.imag(np.exp(z)), -1j * np.exp(Z)),
        (lambda z: np.real((2 + 1j) * z), 2 + 1j),
        (lambda z: np.angle(z), -1j / Z),
        (lambda z: np.real(1 / z), -1 / Z**2),
        (lambda z: np.real(np.sqrt(z)), 0.5 / np.sqrt(Z)),
    ],
)
def test_gradient_of_a_real_function_of_a_complex_number(f, expected):
    for z in (Z, np.complex128(Z)):
        g = ad.grad(f)(z)
        close(g, expected)
        assert g.dtype == np.complex128
    h = 1e-6
    re, im = (f(Z + h) - f(Z - h)) / (2 * h), (f(Z + 1j * h) - f(Z - 1j * h)) / (2 * h)
    close(ad.grad(f)(np.array([Z]).sum()), re - 1j * im, 1e-8)
    # and forward mode agrees: df = Re(g·dz)
    v = np.complex128(0.3 + 0.4j)
    close(ad.jvp(f, (np.complex128(Z),), (v,))[1], np.real(expected * v))
    assert ad.grad(lambda z: f(z[0]))(np.array([Z], np.complex64)).dtype == np.complex64


def test_modulus_has_zero_slope_at_zero():
    assert ad.grad(np.abs)(0j) == 0
    assert ad.jvp(np.abs, (0j,), (1 + 1j,))[1] == 0


@pytest.mark.parametrize(
    "f, df", [(np.sin, np.cos), (lambda z: z**3, lambda z: 3 * z**2), (np.exp, np.exp), (lambda z: 1 / z, lambda z: -1 / z**2)]
)
def test_holomorphic(f, df):
    close(ad.grad(f, holomorphic=True)(Z), df(Z))
    close(ad.value_and_grad(f, holomorphic=True)(Z)[1], df(Z))
    close(ad.jacfwd(f, holomorphic=True)(np.array([Z, 1j])), np.diag(df(np.array([Z, 1j]))))
    close(ad.jacrev(f, holomorphic=True)(np.array([Z, 1j])), np.diag(df(np.array([Z, 1j]))))
    close(ad.grad(ad.grad(f, holomorphic=True), holomorphic=True)(Z), ad.jvp(df, (np.complex128(Z),), (np.complex128(1),))[1])


def test_mixed_real_and_complex():
    f = lambda r, z: np.real(np.sum(r * z**2))
    r, z = np.array([1.0, 2.0]), np.array([Z, 2j])
    gr, gz = ad.grad(f, (0, 1))(r, z)
    close(gr, np.real(z**2))
    close(gz, 2 * r * z)
    assert gr.dtype == float
    close(ad.grad(lambda x: np.abs(np.exp(1j * x) + 1))(0.5), -np.sin(0.25))


def test_jacobian_of_a_complex_result_of_a_real_argument():
    f = lambda x: x * (1 + 2j)
    expected = np.eye(2) * (1 + 2j)
    equal(ad.jacfwd(f)(np.ones(2)), expected)
    equal(ad.jacobian(f)(np.ones(2)), expected)
    with pytest.raises(TypeError, match="jacfwd"):
        ad.jacrev(f)(np.ones(2))
    with pytest.raises(TypeError, match="real"):
        ad.elementwise_grad(f)(np.ones(2))


# -- shapes and memory layouts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_zero_size_arrays(shape):
    x = np.zeros(shape)
    f = lambda x: np.sum(np.exp(x) * x)
    equal(ad.grad(f)(x), np.zeros(shape))
    assert ad.jvp(f, (x,), (x,))[1] == 0.0
    assert ad.jacfwd(np.sin)(x).shape == shape * 2
    assert ad.jacrev(np.sin)(x).shape == shape * 2
    assert ad.jacobian(np.sin)(x).shape == shape * 2
    assert ad.hessian(f)(x).shape == shape * 2
    assert ad.elementwise_grad(np.sin)(x).shape == shape
    assert ad.vmap(np.sin)(x).shape == shape
    if shape[0] == 0:
        assert ad.vmap(ad.grad(lambda x: np.sum(x**2)))(x).shape == shape


def test_zero_d_arrays():
    x = np.array(3.0)
    for f in (lambda x: x, lambda x: x * x / x, np.sum, lambda x: x.reshape(1)[0], lambda x: x[()], lambda x: x[None][0]):
        g = ad.grad(f)(x)
        assert g == 1.0
        assert np.shape(g) == ()
        assert ad.jvp(f, (x,), (np.array(1.0),))[1] == 1.0
        assert ad.jacfwd(f)(x) == ad.jacrev(f)(x) == 1.0
    assert ad.grad(lambda x: 0.0)(x) == 0.0


LAYOUTS = {
    "C": lambda a: a,
    "Fortran": np.asfortranarray,
    "reversed": lambda a: np.array(a[::-1])[::-1],
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "transposed": lambda a: np.array(a.T).T,
    "read-only": lambda a: np.broadcast_to(a, a.shape),
    "byte-swapped base": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(3, 4), (70, 80)])
def test_memory_layout_does_not_matter(layout, shape):
    rng = np.random.default_rng(1)
    a = rng.normal(size=shape)
    x = LAYOUTS[layout](a)
    equal(x, a)
    f = lambda x: (
        np.sum(np.sin(x @ x.T) * np.cumsum(x, axis=0)[0, 0])
        + np.sum(x[1:, ::-2] ** 2)
        + np.sum(x.reshape(-1)[:5] * x.T.ravel()[:5])
    )
    close(ad.grad(f)(x), ad.grad(f)(a), 1e-9, 1e-9)
    v = LAYOUTS[layout](rng.normal(size=shape))
    close(ad.jvp(f, (x,), (v,))[1], np.sum(ad.grad(f)(a) * v), 1e-9)
    close(ad.vmap(np.sum)(x), a.sum(1))
    close(ad.vmap(np.sum, in_axes=1)(x), a.sum(0))
    close(ad.elementwise_grad(np.tanh)(x), 1 - np.tanh(a) ** 2)


SHAPES = [
    ((), (3,)),
    ((3,), ()),
    ((1,), (3,)),
    ((3, 1), (4,)),
    ((2, 1, 3), (4, 1)),
    ((1, 1), (2, 3)),
    ((0,), (1,)),
    ((2, 3), (2, 3)),
    ((80, 1), (1, 70)),
]


@pytest.mark.parametrize("a, b", SHAPES)
@pytest.mark.parametrize(
    "op",
    [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.power, np.arctan2, np.hypot, lambda a, b: np.where(True, a, b)],
)
def test_broadcasting(op, a, b):
    rng = np.random.default_rng(2)
    x, y = rng.uniform(0.5, 2, a), rng.uniform(0.5, 2, b)
    u = rng.normal(size=np.broadcast_shapes(a, b))
    gx, gy = ad.grad(lambda x, y: np.sum(op(x, y) * u), (0, 1))(x, y)
    assert (np.shape(gx), np.shape(gy)) == (a, b)
    vx, vy = rng.normal(size=a), rng.normal(size=b)
    t = ad.jvp(op, (x, y), (vx, vy))[1]
    assert np.shape(t) == u.shape
    close(np.sum(t * u), np.sum(gx * vx) + np.sum(gy * vy), 1e-9, 1e-9)


# -- control flow -------------------------------------------------------------------------------------------------


def test_control_flow(capsys):
    def f(x, n=3):
        assert x > 0, f"x must be positive, got {x:.2f}"
        print("x is", x)
        if x > 10:
            return x * 0.0
        total = x
        while total < 50:
            total = total * x
        for _ in range(n):
            total = total + x
        label = f"{total:.1f} {x} {x!r}"
        assert "8" in label
        return total

    def recursive(x, n):
        return x if n == 0 else x * recursive(x, n - 1)

    assert ad.grad(f)(8.0) == 2 * 8 + 3
    assert ad.derivative(f)(8.0) == 2 * 8 + 3
    assert ad.grad(f)(11.0) == 0.0
    assert "x is 8.0" in capsys.readouterr().out
    assert ad.grad(recursive)(2.0, 4) == 5 * 16.0
    with pytest.raises(AssertionError, match=r"positive, got -1\.00"):
        ad.grad(f)(-1.0)
    g = ad.grad(lambda x: np.sum(x[x > 1] ** 2) if (x > 1).any() else np.sum(x))
    equal(g(np.array([0.0, 2.0])), [0.0, 4.0])
    equal(g(np.array([0.0, 0.5])), [1.0, 1.0])
    assert ad.grad(lambda x: max(x, 2.0) + min(x, 2.0, 5.0) + sum([x, x]) + abs(x))(3.0) == 4.0
    assert ad.grad(lambda x: sorted([x, -x, 2 * x])[0])(3.0) == -1.0
    assert ad.grad(lambda x: x * [1.0, 3.0].index(x) * int(x) * round(2.6))(3.0) == 9.0


def test_nested_control_flow_sees_the_numbers():
    f = lambda x: x * x if x > 1 else x**3
    assert ad.grad(ad.grad(f))(3.0) == 2.0
    assert ad.grad(ad.derivative(f))(0.5) == 3.0
    assert f"{ad.grad(lambda x: x * len(f'{x:.3f}'))(1.5)}" == "5.0"


# -- threads, tasks, pickles --------------------------------------------------------------------------------------


def _work(k):
    x = np.linspace(0.1, 1, 5) + k
    a = ad.grad(lambda x: np.sum(np.sin(x) * x))(x)
    b = ad.jvp(lambda x: np.sin(x) * x, (x,), (np.ones(5),))[1]
    c = ad.vmap(ad.grad(lambda x: np.sin(x) * x))(x)
    d = ad.hessian(lambda x: np.sum(np.sin(x) * x))(x).sum(0)
    leaf = ad.array(x, requires_grad=True)
    with ad.no_grad():
        _ = leaf * 2
    (np.sin(leaf) * leaf).sum().backward()
    e = leaf.grad
    exact = np.cos(x) * x + np.sin(x)
    for found in (a, b, c, e):
        close(found, exact)
    close(d, 2 * np.cos(x) - np.sin(x) * x)


def test_many_threads_at_once():
    errors = []

    def run(k):
        try:
            for _ in range(15):
                _work(k)
        except BaseException as error:  # handed to the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[0]


def test_threads_started_inside_a_transform():
    found = []

    def f(x):
        thread = threading.Thread(target=lambda: found.append(ad.grad(lambda y: y**3)(2.0)))
        thread.start()
        thread.join()
        return x**2

    assert ad.grad(f)(3.0) == 6.0
    assert found == [12.0]


def test_async_tasks():
    async def task(k):
        leaf = ad.array(float(k), requires_grad=True)
        with ad.no_grad():
            await asyncio.sleep(0)
            constant = leaf * 2
            assert constant == 2 * k
        y = leaf * leaf
        await asyncio.sleep(0)
        y.backward()
        assert leaf.grad == 2 * k
        _work(k)
        return k

    async def main():
        return await asyncio.gather(*(task(k) for k in range(6)))

    assert asyncio.run(main()) == list(range(6))


def cube_sum(x):
    return np.sum(x**3)


def cube(x):
    return x**3


PICKLED = [
    (ad.grad(cube_sum), np.ones(2)),
    (ad.value_and_grad(cube_sum, argnums=(0,)), np.ones(2)),
    (ad.vmap(ad.grad(cube)), np.ones(3)),
    (ad.hessian(cube_sum), np.ones(2)),
    (ad.jacobian(cube), np.ones(2)),
    (ad.jacfwd(ad.jacrev(cube)), np.ones(2)),
    (ad.elementwise_grad(cube), np.ones(2)),
    (ad.derivative(ad.derivative(cube)), 2.0),
    (ad.vmap(cube, in_axes=0, out_axes=0, chunk_size=2), np.ones(3)),
    (ad.grad(functools.partial(cube_sum)), np.ones(2)),
]


@pytest.mark.parametrize("g, x", PICKLED)
def test_transformed_functions_pickle_and_copy(g, x):
    expected = g(x)
    for again in (pickle.loads(pickle.dumps(g)), copy.copy(g), copy.deepcopy(g)):
        for a, b in zip(flatten(again(x))[0], flatten(expected)[0], strict=True):
            equal(a, b)


def test_traced_values_copy():
    f = lambda x: np.sum(copy.deepcopy(x) * copy.copy(x) + copy.deepcopy({"x": [x]})["x"][0])
    equal(ad.grad(f)(np.array([1.0, 2.0])), [3.0, 5.0])

    def writes_to_a_copy(x):
        y = copy.deepcopy(x)
        y[0] = 5.0
        return np.sum(x * y)

    equal(ad.grad(writes_to_a_copy)(np.array([1.0, 2.0])), [5.0, 4.0])


# -- depth --------------------------------------------------------------------------------------------------------


def test_a_long_chain_needs_no_recursion():
    def chain(x):
        for _ in range(20_000):
            x = x * 0.999999 + 1e-9
        return x

    close(ad.grad(chain)(1.0), 0.999999**20_000)
    close(ad.derivative(chain)(1.0), 0.999999**20_000)
    close(ad.grad(lambda x: np.sum(chain(x)))(np.ones(2)), np.full(2, 0.999999**20_000))


@pytest.mark.parametrize("n", [30, 1500])  # deeper than the limit of recursion
def test_views_of_views_of_views(n):
    def f(x):
        v = x
        for _ in range(n):
            v = v[::-1]
        v[0] = 5.0
        v += x
        return np.sum(x * v)

    equal(ad.grad(f)(np.array([1.0, 2.0, 3.0])), [0.0, 16.0, 24.0])  # (2x)² but for the element that was overwritten


@pytest.mark.parametrize("power", [2, 1, 3, 0.5, -1])
def test_a_power_of_a_python_number_is_weak(power):
    x = np.array([1.5], np.float32)
    f = lambda x, c: np.sum(x * c**power)
    assert ad.vjp(f, x, 2.0)[0].dtype == np.float32
    assert ad.jvp(f, (x, 2.0), (x, 1.0))[0].dtype == np.float32


def _around(x):
    return np.eye(len(x)) * 1.5 + np.outer(x, x)


WITH_ZEROS = {
    "solve": lambda x: np.sum(np.linalg.solve(_around(x), x)),
    "inv": lambda x: np.sum(np.linalg.inv(_around(x)) @ x),
    "slogdet": lambda x: np.linalg.slogdet(_around(x))[1],
    "det": lambda x: np.linalg.det(_around(x)),
    "cholesky": lambda x: np.sum(np.linalg.cholesky(_around(x)) ** 2 * np.arange(4.0)),
    "eigh": lambda x: np.sum(np.linalg.eigvalsh(_around(x) + np.diag(np.arange(4.0))) ** 3),
    "svd": lambda x: np.sum(np.linalg.svd(_around(x) + np.diag(np.arange(4.0)), compute_uv=False) ** 3),
    "pinv": lambda x: np.sum(np.linalg.pinv(_around(x)) * np.arange(4.0)),
    "norm": lambda x: np.linalg.norm(_around(x)),
    "prod": lambda x: np.prod(x + 1.0) + np.prod(x),
    "cumprod": lambda x: np.sum(np.cumprod(x) * np.arange(4.0)),
    "convolve": lambda x: np.sum(np.convolve(x, x) * np.arange(7.0)),
    "fft": lambda x: np.sum(np.abs(np.fft.fft(np.array([1.0, 2.0, 0.0, 3.0]) + x * x)) ** 2),
    "einsum": lambda x: np.einsum("i,j,k,ijk->", x, x, x, np.arange(64.0).reshape(4, 4, 4)),
    "power": lambda x: np.sum(x**3 + x**2 * x[::-1]),
    "loop": lambda x: ad.fori_loop(0, 3, lambda i, s: s * x[i] + np.sum(x * x), 1.0),
    "checkpoint": lambda x: ad.checkpoint(lambda x: np.sum(np.outer(x, x) @ x))(x),
}


@pytest.mark.parametrize("name", WITH_ZEROS)
def test_second_derivatives_where_cotangents_are_zero(name):
    """A cotangent that happens to be 0 at a point depends on the arguments all the same, eagerly and compiled."""
    f, x, step = WITH_ZEROS[name], np.array([0.5, 0.0, -0.7, 0.0]), 1e-5
    gradient = ad.grad(f)
    expected = np.stack([(gradient(x + step * e) - gradient(x - step * e)) / (2 * step) for e in np.eye(4)])
    for second in (ad.hessian(f), ad.jacrev(gradient), ad.jit(ad.hessian(f)), ad.jit(ad.jacrev(gradient))):
        np.testing.assert_allclose(second(x), expected, rtol=1e-6, atol=1e-6)


def _together(count, work):
    """The results of work(0), work(1), …, each in a thread of its own, begun at once."""
    barrier, results, errors = threading.Barrier(count), [None] * count, []

    def run(k):
        barrier.wait()
        try:
            results[k] = work(k)
        except BaseException as error:  # handed to the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return results


def test_threads_share_compiled_functions():
    """At the first call, with several types and branches, with closures and attributes that change between calls."""

    class Model:
        weight = 1.0

    model = Model()
    for trial in range(3 * int(os.environ.get("ADJOINT_PROGRAMS", "1"))):
        model.weight = float(trial)
        first = ad.jit(ad.grad(lambda x, c=trial: np.sum(np.sin(x) ** 2) * c))
        typed = ad.jit(lambda x: np.cumsum(x) * model.weight)
        branch = ad.jit(lambda y: y * 2 if y > 0 else -y)
        inner = ad.jit(lambda z: np.exp(np.sin(z)))
        x = np.linspace(0.1, 1, 4)

        def work(k, trial=trial, first=first, typed=typed, branch=branch, inner=inner, x=x):
            close(first(x + k), trial * np.sin(2 * (x + k)))
            y = np.arange(1.0, 4).astype([float, np.float32][k % 2])
            close(typed(y), np.cumsum(y) * trial)
            assert [branch(float(q)) for q in (k - 3, 3 - k)] == [abs(q) * (1 + (q > 0)) for q in (k - 3, 3 - k)]
            close(ad.grad(inner)(0.1 * k), np.exp(np.sin(0.1 * k)) * np.cos(0.1 * k))
            own = ad.jit(lambda y, s=float(k): y * s + model.weight)
            close(ad.vmap(own)(x), x * k + trial)

        _together(6, work)
        model.weight = trial + 0.5
        assert _together(4, lambda k, typed=typed: float(typed(np.ones(3))[1])) == [2 * trial + 1.0] * 4
