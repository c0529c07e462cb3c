"""Complex values as pairs of real ones: compiled programs against eager ones, over dtypes, shapes, views, loops and branches."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
import adjoint.numpy as anp
from adjoint.ir.check import check
from adjoint.rewrite.complex import has_complex, split_complex
from adjoint.rewrite.pipeline import COMPLEX_PARTS, optimize

RNG = np.random.default_rng(0)


def draw(dtype, *shape):
    x = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.normal(size=shape)
    return (x * (3 if np.dtype(dtype).kind == "i" else 1)).astype(dtype)


def leaves(x):
    return [y for part in x for y in leaves(part)] if isinstance(x, tuple) else [x]


def tolerance(y):
    return 3e-4 if np.asarray(y).dtype.itemsize <= 4 * (1 + np.iscomplexobj(y)) else 1e-10


def agree(got, want, narrowest=None):
    for a, b in zip(leaves(got), leaves(want), strict=True):
        assert (type(a), np.asarray(a).dtype, np.shape(a)) == (type(b), np.asarray(b).dtype, np.shape(b))
        near = max(tolerance(b), 0.0 if narrowest is None else tolerance(narrowest))
        np.testing.assert_allclose(a, b, rtol=near, atol=near)


def loss_of(f):
    """A real function of all parts of all results."""

    def loss(*args):
        return sum(np.sum(np.abs(y + 0.3j) ** 2) + np.sum(np.real((0.5 - 0.2j) * y)) for y in leaves(f(*args)))

    return loss


def same_compiled(f, *args, calls=(), differentiable=True):
    """Values, and derivatives in both modes, as without the compiler; natively, but for some ops."""
    compiled = ad.jit(f)
    agree(compiled(*args), f(*args))
    agree(compiled(*args), f(*args))
    called = {line.split()[3] for line in str(compiled.report()).splitlines() if "calls NumPy for" in line}
    assert called == set(calls)
    if differentiable and np.asarray(args[0]).dtype.kind in "fc":
        loss = loss_of(f)
        agree(ad.jit(ad.grad(loss))(*args), ad.grad(loss)(*args))
        push = lambda x, t: ad.jvp(lambda x: loss(x, *args[1:]), (x,), (t,))[1]
        t = draw(np.asarray(args[0]).dtype, *np.shape(args[0]))
        agree(np.asarray(ad.jit(push)(args[0], t)), np.asarray(push(args[0], t)))


DTYPES = st.sampled_from([np.complex128, np.complex64, np.float64, np.float32, np.int64, np.bool_])
OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / (b + 3),
    "where": lambda a, b: np.where(np.real(a) > 0, a, b),
    "equal": lambda a, b: (a == b) | (a != a.T) if np.ndim(a) == np.ndim(b) == 0 else a == b,
}


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.sampled_from(sorted(OPERATIONS)),
    st.tuples(DTYPES, DTYPES),
    st.sampled_from([((3,), (3,)), ((), (2, 3)), ((2, 1), (3,)), ((0, 2), (2,)), ((2, 3), ()), ((1,), (1, 1))]),
)
def test_promotion_and_broadcasting(name, dtypes, shapes):
    a, b = (draw(d, *s) for d, s in zip(dtypes, shapes, strict=True))
    if np.result_type(a, b).kind != "c":
        a = a.astype(np.result_type(a, np.complex64))
    f = OPERATIONS[name]
    compiled = ad.jit(f)
    agree(compiled(a, b), f(a, b))
    assert "calls NumPy" not in str(compiled.report())


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.float64, np.complex128])
@pytest.mark.parametrize("number", [2, 2.5, 1.5 - 1j])
def test_python_numbers_are_weak(dtype, number):
    x = draw(dtype, 3)
    f = lambda x, c: (x * 1j + c, c - x, (x + 0j) / c, x * 1j == c)
    compiled = ad.jit(f)
    agree(compiled(x, number), f(x, number))
    agree(ad.jit(lambda x: f(x, number))(x), f(x, number))
    assert "calls NumPy" not in str(compiled.report())


C, R = np.complex128, np.float64
PROGRAMS = {
    "views": (lambda a: (a[::2, 1:].T.reshape(-1) * 2, a[0], a[::-1], a[None, 1, :]), (C, 4, 5)),
    "identity": (lambda a: (a, a.T, np.conj(a)), (C, 2, 3)),
    "constants": (lambda a: (a * np.array([1 + 2j, 3]), a + 1j * np.array([[1.0], [np.float32(2)]])), (R, 2)),
    "sums": (lambda a: (np.sum(a), np.mean(a, axis=0), np.sum(a, axis=1, keepdims=True), np.cumsum(a, axis=1)), (C, 4, 5)),
    "products": (lambda a: (np.prod(a, axis=0), np.prod(a)), (C, 3, 5)),
    "matmul": (lambda a, b: (a @ b, a @ b[:, 0], np.outer(a[0], b[0]), np.vdot(a, a)), (C, 3, 4), (C, 4, 5)),
    "matmul with a real matrix": (lambda a, b: (a @ b, b.T @ a.T), (C, 3, 4), (R, 4, 5)),
    "large matmul": (lambda a, b: a @ b, (C, 30, 40), (C, 40, 20)),
    "stacked matmul": (lambda a, b: a @ b, (C, 3, 2, 4), (C, 4, 5)),
    "einsum": (lambda a, b: np.einsum("ij,kj->ik", a, b), (C, 3, 4), (C, 5, 4)),
    "gather": (
        lambda a: (a[np.array([0, 2, 2])], a[:, np.array([1, -1])], np.take_along_axis(a, np.array([[1], [0], [1]]), 1)),
        (C, 3, 2),
    ),
    "joined": (
        lambda a, b: (np.concatenate([a, b]), np.stack([b, a], 1), np.pad(a, 2), np.roll(a, 2), np.diff(a)),
        (C, 5),
        (R, 5),
    ),
    "parts": (lambda a: (a.real * a.imag, np.abs(a), np.angle(a), np.linalg.norm(a)), (C, 5)),
    "euler": (lambda t: (np.exp(1j * t), np.cos(t) + 1j * np.sin(t)), (R, 5)),
    "of a single": (lambda a: np.exp(a) * 2j + a.real, (np.complex64, 5)),
    "casts": (lambda a: (a.astype(np.complex64), a.real.astype(complex), a.real.astype(np.complex64) * 2), (C, 4)),
    "scalars": (lambda a: (a * a + 1j, np.sqrt(a), abs(a)), (C,)),
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs(name):
    f, *given = PROGRAMS[name]
    same_compiled(f, *[draw(*g) for g in given])


CALLS = {
    "inv": (lambda a: 2 * np.linalg.inv(a) @ a, {"inv"}),
    "eigvals": (lambda a: np.linalg.eigvals(1j * a), {"eig"}),
    "svd": (lambda a: np.linalg.svd(a, compute_uv=False), {"svd"}),
    "cumprod": (lambda a: np.cumprod(a[0]) * 1j, {"cumprod"}),
    "arcsin": (lambda a: np.arcsin(a[0]) + np.arctan(a[1] * 2), {"arcsin", "arctan"}),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_ops_without_a_formula_stay_calls(name):
    f, calls = CALLS[name]
    same_compiled(f, draw(C, 3, 3), calls=calls)


@pytest.mark.parametrize("layout", ["reversed", "transposed", "strided", "big-endian", "fortran", "unaligned"])
def test_layouts_of_arguments(layout):
    z = draw(C, 6, 4)
    packed = np.zeros(z.nbytes + 4, np.uint8)[4:].view(C).reshape(z.shape)
    packed[...] = z
    given = {
        "reversed": z[::-1],
        "transposed": z.T,
        "strided": z[::2, 1::2],
        "big-endian": z.astype(">c16"),
        "fortran": np.asfortranarray(z),
        "unaligned": packed,
    }[layout]
    np.testing.assert_allclose(ad.jit(lambda z: z * z + 1j)(given), given * given + 1j, rtol=1e-14)


def test_results_are_the_callers_own():
    z = draw(C, 3)
    f = ad.jit(lambda z: (z, z, z[::-1], np.conj(z), np.array([1j, 2])))
    before = [y.copy() for y in f(z)]
    for y in f(z):
        y[...] = 7
    for y, b in zip(f(z), before, strict=True):
        np.testing.assert_array_equal(y, b)


# -- loops and branches -----------------------------------------------------------------------------------------


def rolled(z, w):
    for i in range(40):
        z = z * w[i] + 1 / (z + 2j)
    return z


def mandelbrot(z, w):
    y = 0 * z
    for _ in range(20):
        y = np.where(np.abs(y) < 2, y * y + z, y)
    return y


def in_place(z, w):
    a = anp.zeros(40, z.dtype)
    a[0] = z[0]
    for i in range(1, 40):
        a[i] = a[i - 1] * w[i] + z[1]
    return a


def scanned(z, w):
    def step(carry, x):
        z, total = carry
        z = z * x + 1 / (z + 2j)
        return (z, total + np.sum(np.abs(z))), z * 2

    return ad.scan(step, (z, np.sum(np.abs(z))), w)


def scan_of_a_real_carry(z, w):
    return ad.scan(lambda c, x: (c + np.abs(x), np.exp(1j * c)), np.abs(z[0]), w)


def repeated(z, w):
    return ad.while_loop(lambda s: s[1] < 10, lambda s: (s[0] * w[0] * 0.5 + 1j, s[1] + 1), (z, 0))[0]


def until_small(z, w):
    return ad.while_loop(lambda s: np.sum(np.abs(s)) > 1, lambda s: s * w[0] / (1 + np.abs(w[0])), z)


def counted(z, w):
    return ad.fori_loop(0, 7, lambda i, s: s * w[i] * 0.3 + 1j, z)


def branched(z, w):
    return ad.cond(np.sum(z.real) > 0, lambda a, b: a * 1j, lambda a, b: a + b, z, w[0])


def checkpointed(z, w):
    return ad.checkpoint(lambda a, b: np.exp(a) * b)(z, w[0])


def guarded(z, w):
    return z * w[1] if np.abs(z[0]) > 0.1 else z / w[0]


LOOPS = [
    rolled,
    mandelbrot,
    in_place,
    scanned,
    scan_of_a_real_carry,
    repeated,
    until_small,
    counted,
    branched,
    checkpointed,
    guarded,
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("f", LOOPS)
def test_loops(f, dtype):
    same_compiled(f, draw(dtype, 5), (0.5 * draw(dtype, 40)).astype(dtype))


@pytest.mark.parametrize("f", [rolled, mandelbrot, in_place])
def test_python_loops_are_rolled(f):
    compiled = ad.jit(f)
    compiled(draw(C, 5), 0.5 * draw(C, 40))
    assert "are a loop" in str(compiled.report())


def test_second_derivatives_and_vmap():
    z = draw(C, 4, 3)
    f = lambda z: np.sum(np.abs(np.exp(z * z) / (z + 2)) ** 2)
    second = ad.grad(lambda z: np.sum(np.abs(ad.grad(f)(z)) ** 2))
    agree(ad.jit(second)(z[0]), second(z[0]))
    agree(ad.jit(ad.vmap(ad.grad(f)))(z), ad.vmap(ad.grad(f))(z))
    holomorphic = ad.grad(lambda z: np.sum(np.sin(z) ** 2), holomorphic=True)
    agree(ad.jit(holomorphic)(z[0]), holomorphic(z[0]))


def test_gradients_against_differences():
    z, h = draw(C, 5), 1e-6
    loss = loss_of(lambda z: np.sqrt(z) * np.log(z + 3) / np.tanh(z) + z**2.5 + np.cos(z) ** 3)
    g = ad.jit(ad.grad(loss))(z)
    for i in range(5):
        e = np.eye(5)[i] * h
        re, im = ((loss(z + d * e) - loss(z - d * e)) / (2 * h) for d in (1, 1j))
        np.testing.assert_allclose(g[i], re - 1j * im, rtol=1e-6)


# -- the pass ---------------------------------------------------------------------------------------------------


def test_a_real_graph_is_left_alone():
    g = ad.graph(lambda x: np.sin(x) * x)(np.ones(3))
    assert split_complex(g) is g
    assert not has_complex(g)


def test_inputs_and_results_keep_their_types_and_the_rest_is_real():
    z = draw(C, 3)
    g = ad.graph(lambda z, x: (np.exp(z) * x, np.abs(z)))(z, np.ones(3))
    made = split_complex(g)
    check(made)
    assert (made.input_types, made.output_types) == (g.input_types, g.output_types)
    inside = [e for e in made.equations if any(t.dtype.kind == "c" for t in e.types)]
    assert [e.op.name for e in inside] == ["as_complex"]
    agree(tuple(made.run_flat([z, np.ones(3)])), tuple(g.run_flat([z, np.ones(3)])))


def test_optimize_splits_only_if_asked():
    g = ad.graph(lambda z: z * z)(draw(C, 3))
    assert COMPLEX_PARTS not in optimize(g).sizes
    assert COMPLEX_PARTS in optimize(g, complex_parts=True).sizes


def test_a_donated_complex_array_may_become_a_real_one():
    z = draw(C, 3000)
    f = lambda z: np.concatenate([np.cumsum(z.real), np.cumsum(z.imag)])
    want = f(z)
    got = ad.jit(f, donate_argnums=0)(z)
    agree(got, want)
    assert np.shares_memory(got, z)


@pytest.mark.parametrize("transform", [np.fft.irfft, np.fft.hfft])
def test_transforms_to_half_precision(transform):
    x = np.array([1, 2, 3], np.float16)
    found = ad.jit(transform)(x)
    assert found.dtype == transform(x).dtype
    np.testing.assert_allclose(found, transform(x), rtol=1e-2, atol=1e-3)


WIDE = ("longdouble", "clongdouble")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("second", ["complex64", "complex128", "float64", "longdouble", "clongdouble", "int64"])
@pytest.mark.parametrize("first", ["complex64", "complex128", "longdouble", "clongdouble"])
def test_extended_precision_beside_complex_numbers(first, second):
    """NumPy computes what is as wide as that; narrower complex numbers keep their parts."""
    if not {first, second} & set(WIDE):
        pytest.skip("both have parts")

    def f(x, y):
        z = x * y + np.sin(x)
        picked = np.where(np.real(x) > 0.1, x, y)
        ordered = np.concatenate([x, y]), np.stack([x[0], y[0]]), x == y, x @ y
        return z, picked, *ordered, np.abs(z), np.real(z), np.cumsum(x * 1j), np.einsum("i,i", x, y), x.astype(y.dtype), y - x[0]

    x, y = sorted((draw(first, 3), draw(second, 3)), key=lambda v: v.dtype.itemsize + 99 * (v.dtype.kind == "i"))
    compiled = ad.jit(f)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        agree(compiled(x, y), f(x, y), x)
        loss = lambda x, y: sum(np.sum(np.abs(v) ** 2) for v in f(x, y) if v.dtype != bool)
        slopes = ad.grad(loss, (0, 1) if np.dtype(second).kind != "i" else (0,))
        agree(ad.jit(slopes)(x, y), slopes(x, y), x)
    assert not compiled.eager
