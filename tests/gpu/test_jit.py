"""`ad.jit` with arrays on a GPU: as on the CPU, and the results stay on the GPU."""

import pickle
import threading

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, DeviceError
from adjoint.core.tree import flatten, map_leaves

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(6, 4)), RNG.normal(size=(4, 3))


class OnGPU:
    """CuPy's arrays, for tests that also run with the stand-in."""

    def __init__(self):
        from adjoint.compiler.cuda.gpu import current
        from adjoint.device.gpu import cupy

        try:
            self.xp, self.device = cupy(), current()
        except DeviceError as error:
            pytest.skip(str(error))

    def put(self, x):
        """A container with its arrays on the GPU."""
        return map_leaves(lambda a: self.xp.asarray(a) if isinstance(a, np.ndarray) else a, x)

    def is_on_gpu(self, y):
        return type(y) is self.xp.ndarray

    def get(self, y):
        return y.get()

    def view(self, x, index):
        """x[index] of an array on the GPU, without a copy."""
        return self.xp.asarray(x)[index]


@pytest.fixture
def gpu():
    return OnGPU()


def check(gpu, f, *args, rtol=1e-12):
    """The results of a program on the GPU, as host arrays: those of the CPU, up to rounding."""
    compiled = ad.jit(f)
    for _ in range(3):  # compiled, found again, and again
        found, structure = flatten(compiled(*gpu.put(args)))
        assert all(map(gpu.is_on_gpu, found))
        wanted, same = flatten(ad.jit(f)(*args))
        assert structure == same
        for a, b in zip(map(gpu.get, found), wanted, strict=True):
            assert (a.shape, a.dtype) == (np.shape(b), np.asarray(b).dtype)
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * (1 + np.max(np.abs(b), initial=0).astype(float)))
    return compiled


def loss(w, x):
    return np.sum(np.logaddexp(0.0, x @ w) ** 2)


COMPOSED = {
    "grad": ad.grad(loss),
    "value_and_grad": ad.value_and_grad(loss, (0, 1)),
    "jacobian": ad.jacobian(lambda w, x: np.tanh(x @ w)),
    "jacfwd": ad.jacfwd(lambda w, x: np.tanh(x @ w)),
    "hessian": ad.hessian(loss),
    "vmap": lambda w, x: ad.vmap(lambda row: np.sin(row) @ w)(x),
    "vmap of grad": lambda w, x: ad.vmap(lambda row: ad.grad(lambda w: np.sum(np.sin(row @ w)))(w))(x),
    "vjp": lambda w, x: ad.vjp(lambda w: np.exp(x @ w), w)[1](np.ones((6, 3))),
    "jvp": lambda w, x: ad.jvp(lambda w: np.exp(x @ w), (w,), (np.ones((4, 3)),)),
    "jit inside": lambda w, x: ad.jit(loss)(w, x) * 2,
}


@pytest.mark.parametrize("name", COMPOSED)
def test_transforms_inside(gpu, name):
    check(gpu, COMPOSED[name], W, X)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "c16", "i8", "i4", "i1", "u1", "?"])
def test_dtypes(gpu, dtype):
    x = (RNG.normal(size=(5, 7)) * 3).astype(dtype)
    rtol = {"f4": 1e-5, "f2": 1e-2}.get(dtype, 1e-12)
    check(gpu, lambda x: (x * x + x, np.sum(x, axis=0), x.T, np.concatenate([x, x])), x, rtol=rtol)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (0, 3), (1, 1), (257,), (2, 3, 4)])
def test_shapes(gpu, shape):
    check(gpu, lambda x: (np.sin(x) + 1, np.sum(x), np.sum(x * x, axis=tuple(range(x.ndim))[:1])), RNG.normal(size=shape))


INDICES = [np.s_[::2], np.s_[::-1], np.s_[:, 1:], np.s_[1:, 2], np.s_[3:3], np.s_[:, ::-2], np.s_[None, 2:5]]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_views(gpu, index):
    """With gaps, backwards, at addresses that wide accesses cannot use."""
    f = lambda x: np.cos(x) * 2
    np.testing.assert_allclose(gpu.get(ad.jit(f)(gpu.view(X, index))), f(X[index]), rtol=1e-14)


def test_containers_numbers_and_small_arrays_of_the_host(gpu):
    f = lambda p, x, scale, shift, *, bias: {"y": [x @ p["w"] * scale + shift], "s": (np.sum(p["b"]) + bias, scale)}
    args = ({"w": W, "b": X}, X, 2.5, np.float32(3))
    compiled = ad.jit(f)
    wanted = flatten(f(*args, bias=np.ones(3)))[0]
    on_gpu = gpu.put(args)
    for mixed in (on_gpu, ({"w": on_gpu[0]["w"], "b": X}, *on_gpu[1:])):  # an array of the host among them
        found = flatten(compiled(*mixed, bias=np.ones(3)))[0]
        assert all(map(gpu.is_on_gpu, found))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(gpu.get(a), b, rtol=1e-13)
    assert len(compiled.specializations) == 1


def test_python_numbers_change_without_compiling_again(gpu):
    f = ad.jit(lambda x, k, n: k * x + n)
    for k, n in [(1.0, 2), (3.0, -7), (-0.5, 0)]:
        np.testing.assert_array_equal(gpu.get(f(*gpu.put((X, k, n)))), k * X + n)
    assert len(f.specializations) == 1


def test_static_arguments(gpu):
    f = ad.jit(lambda x, axis: np.sum(x, axis=axis), static_argnums=1)
    for axis in (0, 1, 0):
        np.testing.assert_allclose(gpu.get(f(*gpu.put((X,)), axis)), np.sum(X, axis=axis))
    assert len(f.specializations) == 2


def test_guards(gpu):
    def f(x):
        if x[0, 0] > 0:
            return np.sin(x)
        n = int(x[0, 1])
        return x * n

    compiled = ad.jit(f)
    for first, second in [(1.0, 2.0), (-1.0, 2.0), (-1.0, 3.0), (2.0, 9.0), (-4.0, 2.5)]:
        x = X.copy()
        x[0, :2] = first, second
        np.testing.assert_allclose(gpu.get(compiled(*gpu.put((x,)))), f(x), rtol=1e-14)
    assert [len(paths) for paths in compiled.specializations.values()] == [3]


def test_numpy_arrays_go_there_and_back(gpu):
    f = lambda x, k: (np.sum(np.sin(x)) * k, x + k, np.sum(x > 0))
    for x in (X, np.asfortranarray(X), X[::2], np.ones((600, 700))):
        compiled = ad.jit(f, device="cuda")
        found, wanted = compiled(x, 2.0), f(x, 2.0)
        assert [type(y) for y in found] == [np.float64, np.ndarray, np.int64]
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    assert gpu.is_on_gpu(compiled(*gpu.put((X, 2.0)))[1])
    assert not gpu.is_on_gpu(compiled(X, 2.0)[1])


def test_arrays_read_outside(gpu):
    data, on_gpu, k = X.copy(), gpu.put(W), 2.0
    f = ad.jit(lambda w: k * np.sum((data @ (w + on_gpu)) ** 2))
    here = lambda w: k * np.sum((data @ (w + W)) ** 2)
    for _ in range(2):
        np.testing.assert_allclose(gpu.get(f(*gpu.put((W,)))), here(W), rtol=1e-12)
        data[1, 2] += 3.0  # in place
        np.testing.assert_allclose(gpu.get(f(*gpu.put((W,)))), here(W), rtol=1e-12)
        data = RNG.normal(size=X.shape)  # another array
        np.testing.assert_allclose(gpu.get(f(*gpu.put((W,)))), here(W), rtol=1e-12)
        k += 1.0
    with pytest.raises(DeviceError, match="reads on_gpu on GPU 0, but its arguments are in host memory"):
        f(W)


def test_failures_are_those_of_the_function(gpu):
    take = ad.jit(lambda x, i: x[i] * 2)
    x, i = gpu.put((np.arange(5.0), np.array([0, 4])))
    np.testing.assert_array_equal(gpu.get(take(x, i)), [0, 8])
    for _ in range(2):
        with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 5"):
            take(*gpu.put((np.arange(5.0), np.array([1, 7]))))
    np.testing.assert_array_equal(gpu.get(take(x, i)), [0, 8])

    def safe(a):
        try:
            return np.linalg.cholesky(a)
        except np.linalg.LinAlgError:
            return a * 0

    compiled = ad.jit(safe)
    for a in (np.eye(3) * 4, -np.eye(3), np.eye(3) * 9):
        np.testing.assert_allclose(gpu.get(compiled(*gpu.put((a,)))), safe(a))


def test_donated(gpu):
    f = ad.jit(lambda p, g: {k: p[k] - 0.1 * g[k] for k in p}, donate_argnums=0)
    p, g = {"a": X, "b": W}, {"a": X + 1, "b": W - 1}
    for _ in range(3):
        there = gpu.put(p)
        y = f(there, gpu.put(g))
        for k in p:
            np.testing.assert_allclose(gpu.get(y[k]), p[k] - 0.1 * g[k], rtol=1e-14)
            assert y[k].data.ptr == there[k].data.ptr
    same = gpu.put(X)
    twice = ad.jit(lambda x, y: x - 0.1 * y, donate_argnums=0)
    np.testing.assert_allclose(gpu.get(twice(same, same)), 0.9 * X, rtol=1e-14)
    np.testing.assert_array_equal(gpu.get(same), X)  # the other argument is not donated


@pytest.mark.parametrize("checkpoint", [None, "sqrt", 3])
@pytest.mark.parametrize("limit", [-1e9, 3.0, 1e3])  # no iteration, a few, many
def test_gradient_of_while(gpu, checkpoint, limit):
    def f(x, k):
        y, n = ad.while_loop(lambda c: np.sum(c[0] * c[0]) < limit, lambda c: (c[0] * k + np.cos(c[0]) ** 2, c[1] + 1), (x, 0),
                             checkpoint=checkpoint)  # fmt: skip
        return np.sum(y * y) + 0.0 * n

    check(gpu, ad.value_and_grad(f, (0, 1)), np.abs(X), np.array(1.05), rtol=1e-9)


def test_cond_and_its_gradient(gpu):
    f = ad.value_and_grad(lambda x: np.sum(ad.cond(np.sum(x) > 0, np.sin, lambda x: x * x, x)))
    check(gpu, f, np.abs(X))
    check(gpu, f, -np.abs(X))


def stencil(u):
    def step(u, _):
        inside = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        return np.concatenate([u[:1], inside, u[-1:]]), np.sum(u)

    return ad.scan(step, u, None, 30)


def test_loops_of_many_launches(gpu):
    """Which are captured in a graph, for addresses that come again, and are right for those that do not."""
    f, g = ad.jit(stencil), ad.jit(ad.grad(lambda u: np.sum(stencil(u)[0] ** 2) + np.sum(stencil(u)[1])))
    inputs = [RNG.normal(size=500) for _ in range(3)]
    held = [gpu.put(u) for u in inputs]
    for _ in range(4):
        for u, there in zip(inputs, held, strict=True):
            for found, wanted in zip(flatten((f(there), g(there)))[0], flatten((stencil(u), g.f(u)))[0], strict=True):
                np.testing.assert_allclose(gpu.get(found), wanted, rtol=1e-11, atol=1e-12)
    assert f.lower(held[0]).program.replays is not None


def test_threads(gpu):
    f = ad.jit(ad.grad(lambda x: np.sum(np.sin(x) ** 3)))
    wrong = []

    def work(k):
        x = np.linspace(0, k, 100 + k % 2)
        for _ in range(20):
            if not np.allclose(gpu.get(f(gpu.put(x))), 3 * np.sin(x) ** 2 * np.cos(x), rtol=1e-12):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_report_profile_and_text(gpu):
    f = ad.jit(ad.grad(lambda x: np.sum(np.exp(x) / np.sum(np.exp(x)) ** 2)))
    x = gpu.put(np.ones(1000))
    f(x)
    report, profile, path = f.report(), f.profile(x), f.lower(x)
    assert "on GPU 0" in report
    assert "kernel k1: " in report
    assert " launches" in report
    assert "µs a call" in profile
    assert "kernel k1 (" in profile
    assert "define ptx_kernel void @k1" in path.text
    assert ".visible .entry k1" in path.ptx
    assert "kernel over" in str(path)


def test_host_calls_are_in_the_report(gpu):
    f = check(gpu, lambda a: np.sort(np.linalg.eigvals(a).real), X @ X.T, rtol=1e-9)
    assert "on the host, " in f.report()


def test_bad_options():
    with pytest.raises(ArgumentError, match="device of jit is 'cuda'"):
        ad.jit(np.sin, device="tpu")
    with pytest.raises(ArgumentError, match="precision of jit is 'highest' or 'tf32'"):
        ad.jit(np.sin, precision="low")
    with pytest.raises(ArgumentError, match="no static argument"):
        ad.jit(lambda x, n: x * n, static_argnums=1, donate_argnums=1)


def test_a_gpu_that_is_not_there(gpu):
    with pytest.raises(DeviceError, match="there is no GPU 77"):
        ad.jit(np.sin, device="cuda:77")(X)


def test_large_arrays_of_the_host_are_not_copied_unasked(gpu):
    f = lambda x, data: np.sum(x) + np.sum(data)
    large = np.ones(200_000)
    with pytest.raises(DeviceError, match=r"x on GPU 0, and data in host memory.*cupy\.asarray"):
        ad.jit(f)(gpu.put(X), large)
    np.testing.assert_allclose(gpu.get(ad.jit(f, device="cuda")(gpu.put(X), large)), f(X, large))


def test_options_are_pickled():
    f = pickle.loads(pickle.dumps(ad.jit(np.sin, device="cuda", precision="tf32", donate_argnums=0)))
    assert f.options == ad.jit(np.sin, device="cuda", precision="tf32", donate_argnums=(0,)).options
