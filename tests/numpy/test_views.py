"""In-place writes and views inside differentiated functions: what NumPy's semantics say."""

import operator

import numpy as np
import pytest
from harness import check, draw

import adjoint as ad
import adjoint.numpy as anp

RNG = np.random.default_rng(3)
X = draw(RNG, (2, 2))
V = draw(RNG, (5,))

I = np.array([0, 2, 2])
MASK = np.array([True, False, True, False, True])


def quarter(x):
    a = anp.zeros((4, 4))
    a[:2, :2] = x
    b = a[0]
    b += 1
    return a.sum(), a * a


def views_of_views(x):
    a = anp.array(x)
    b = a[1:]
    c = b[::2]
    c *= 3.0
    d = a.reshape(5, 1).T
    d[0, 0] = x[4]
    return a, b, c, d


def transposed(x):
    a = anp.array(x)
    t = a.T
    t[0] = [7.0, 8.0]
    t += x
    return a * x


def aliases(x):
    a = anp.array(x)
    b = a
    b += 1
    c = a.copy()
    c *= 2
    return a, b, c


def buffers(x):
    out = anp.empty(5)
    for i in range(5):
        out[i] = x[i] * (out[i - 1] if i else 1.0)
    return out


def masked(x):
    a = anp.array(x)
    a[MASK] *= 2
    a[x < 0] = 0.0
    a[I] += 1.0
    return a * x


def repeated_indices(x):
    a = anp.zeros(4)
    a[I] = x[:3]  # element 2 is written twice: the last one stays
    np.add.at(a, I, x[:3])  # and here both count
    return a


def stencil(x):
    u = x.copy()
    for _ in range(3):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def mixed_targets(x):
    a = np.zeros_like(x)
    a[..., 0] = x[1]
    a[-1] -= x[0]
    a[[1, 3]] = x[[0, 2]]
    a[None, 1:2] /= 2.0
    return a


def swapped(x):
    a = anp.array(x)
    a[0], a[1] = a[1], a[0]
    a[[2, 3]] = a[[3, 2]]
    return a * x


def powers(x):
    a = anp.ones(5)
    a *= x
    a **= 2
    a -= x
    a /= 3.0
    a %= 10.0
    return a


def filled(x):
    a = anp.array(x)
    a.fill(2.0)
    a[2:] = x[0]
    return a * x


def read_after_write(x):
    a = anp.array(x)
    before = a[1] * 1.0
    row = a[:2]
    a[1] = 5.0 * x[0]
    return before, row, a


@pytest.mark.parametrize("f, x", [(quarter, X), (transposed, X)] + [(f, V) for f in (
    views_of_views, aliases, buffers, masked, repeated_indices, stencil, mixed_targets, swapped, powers, filled, read_after_write
)])  # fmt: skip
def test_against_numpy_and_differences(f, x):
    data = x.copy()
    if f is masked:  # the mask depends on the numbers, which a batch cannot share
        check(f, x, vmap=False)
    else:
        check(f, x)
    np.testing.assert_array_equal(x, data)


def test_the_example_of_the_design():
    def f(x):
        a = anp.zeros((4, 4))
        a[:2, :2] = x
        b = a[0]
        b += 1
        return a.sum()

    value, gradient = ad.value_and_grad(f)(np.ones((2, 2)))
    assert value == 8
    np.testing.assert_array_equal(gradient, np.ones((2, 2)))


def test_writing_to_the_argument_leaves_the_callers_array_alone():
    def f(x):
        x[0] = 2 * x[1]
        x += 1
        return np.sum(x * x)

    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(ad.grad(f)(x), [0, 2 * 5 * 2 + 2 * 3])
    np.testing.assert_array_equal(x, [1, 2])


def test_scalars_are_not_changed_in_place():
    def f(x):
        s = x[0]
        s += x[1]
        return x[0] * s

    np.testing.assert_array_equal(ad.grad(f)(np.array([3.0, 4.0])), [2 * 3 + 4, 3])


def test_a_read_only_view_refuses():
    with pytest.raises(ad.AdjointError, match="read-only"):
        ad.grad(lambda x: np.sum(write_to(np.broadcast_to(x, (2, 5)))))(V)


def write_to(a):
    a[0] = 1.0
    return a


def test_plain_arrays_cannot_hold_traced_values():
    def f(x):
        a = np.zeros(3)
        a[0] = x[0]
        return a.sum()

    with pytest.raises(ad.AdjointError, match=r"test_views.py:\d+"):
        ad.grad(f)(V)


def test_shape_and_dtype_mistakes_are_numpys():
    def f(x):
        a = anp.zeros(3)
        a[:] = x
        return a.sum()

    with pytest.raises(ValueError, match="broadcast"):
        ad.grad(f)(V)

    def g(x):
        a = anp.zeros(5)
        a[:] = x * 1j
        return a.sum()

    with pytest.raises(TypeError, match="complex"):
        ad.grad(g)(V)

    def h(x):
        a = anp.zeros(5)
        a += np.ones((2, 5)) * x
        return a.sum()

    with pytest.raises(ValueError, match="broadcast"):
        ad.grad(h)(V)


def test_nested_transforms_write_to_the_outer_array():
    def f(x):
        a = anp.zeros(2)
        a[0] = x
        a[1] = ad.grad(lambda y: y * y * x)(3.0)
        return a[0] * a[1]

    # a = (x, 6x): f = 6x², f' = 12x
    assert ad.grad(f)(2.0) == 24
    assert ad.grad(ad.grad(f))(2.0) == 12


def test_writes_under_vmap():
    def f(x):
        a = anp.zeros(3)
        a[1:] = x
        a[0] += a[2]
        return a

    batch = draw(RNG, (4, 2))
    np.testing.assert_allclose(ad.vmap(f)(batch), np.stack([f(row) for row in batch]))


# -- views that are seldom written to ---------------------------------------------------------------------------


def parts(np, x):
    z = np.zeros(3, dtype=complex)
    z.real = x[:3]
    z.imag = x[2:]
    z.real[0] += x[4]
    part = np.imag(z)
    part[1:] *= 2
    return z * z


def real_part(np, x):
    z = x + 1j * x[::-1]
    r = z.real
    r *= 2
    return z * r


def flat(np, x):
    a = np.zeros((2, 5))
    a.flat = x
    a.flat[3] *= x[0]
    return a


def einsum_views(np, x):
    a = np.zeros((3, 3))
    np.einsum("ii->i", a)[:] = x[:3]
    np.einsum("ij->ji", a)[0, 1] = x[4]
    return a


def no_axes(np, x):
    a = np.array(x[0] * 1.0)
    b = a
    a += x[1]
    a *= 2.0
    return a + b


def ranges(np, x):
    a = np.zeros((3, 3))
    a[range(3), range(3)] = x[:3]
    return a[range(2)] * x[0]


@pytest.mark.parametrize("f", [parts, real_part, flat, einsum_views, no_axes, ranges], ids=lambda f: f.__name__)
def test_as_numpy_writes(f):
    step = 1e-6
    y, tangent = ad.jvp(lambda x: f(anp, x), (V,), (np.ones(5),))
    np.testing.assert_allclose(y, f(np, V))
    np.testing.assert_allclose(tangent, (f(np, V + step) - f(np, V - step)) / (2 * step), rtol=1e-7, atol=1e-7)
    z, pull = ad.vjp(lambda x: f(anp, x), V)
    np.testing.assert_allclose(z, f(np, V))
    np.testing.assert_allclose(np.sum(pull(np.ones_like(z))[0]), np.sum(tangent).real)


def test_out_takes_part_in_broadcasting():
    def f(x):
        a = anp.zeros((2, 5))
        np.add(x[0], x[1], out=a)
        np.multiply(a[0], x, out=a)
        return a

    assert np.array_equal(f(V), ad.vjp(f, V)[0])
    np.testing.assert_allclose(ad.grad(lambda x: np.sum(f(x)))(V)[2], 2 * (V[0] + V[1]))


# -- arrays without axes are arrays, and scalars are not --------------------------------------------------------

NO_AXES = {  # each value is changed in place under another name; NumPy says whether the first name sees it
    "zeros": lambda np, x: np.zeros(()) + 0 * x[0],
    "array": lambda np, x: np.array(x[0]),
    "asarray": lambda np, x: np.asarray(x[0]),
    "full": lambda np, x: np.full((), x[0]),
    "zeros_like": lambda np, x: np.zeros_like(np.array(x[0])),
    "copy": lambda np, x: np.copy(x[0]),
    "method copy": lambda np, x: np.array(x[0]).copy(),
    "scalar copy": lambda np, x: x[0].copy(),
    "astype": lambda np, x: np.array(x[0]).astype("f4"),
    "scalar astype": lambda np, x: x[0].astype("f4"),
    "item": lambda np, x: x[0],
    "empty index": lambda np, x: np.array(x[0])[()],
    "ellipsis": lambda np, x: x.copy()[0, ...],
    "reshape": lambda np, x: x[:1].copy().reshape(()),
    "scalar reshape": lambda np, x: np.reshape(x[0], ()),
    "squeeze": lambda np, x: np.squeeze(x[:1].copy()),
    "transpose": lambda np, x: np.array(x[0]).T,
    "real": lambda np, x: np.array(x[0] + 1j * x[1]).real,
    "where": lambda np, x: np.where(x[0] > 9, x[0], x[1]),
    "select": lambda np, x: np.select([x[0] > 9], [x[0]], x[1]),
    "choose": lambda np, x: np.choose(0, [x[0], x[1]]),
    "tensordot": lambda np, x: np.tensordot(x, x, 1),
    "inner": lambda np, x: np.inner(x, x),
    "dot": lambda np, x: np.dot(x, x),
    "einsum": lambda np, x: np.einsum("i->", x),
    "sum": lambda np, x: np.sum(x),
    "logaddexp": lambda np, x: np.logaddexp.reduce(x),
    "sin": lambda np, x: np.sin(np.array(x[0])),
    "clip": lambda np, x: np.clip(x[0], -9, 9),
    "norm": lambda np, x: np.linalg.norm(x),
    "take": lambda np, x: np.take(x, 1),
    "nan_to_num": lambda np, x: np.nan_to_num(x[0]),
    "out": lambda np, x: np.add(x[0], x[1], out=np.empty(())),
}


@pytest.mark.parametrize("name", NO_AXES)
def test_no_axes(name):
    def f(np, x):
        first = NO_AXES[name](np, x)
        second = first
        second += x[1]
        return first * 1.0, second * 1.0

    check_writes(f)


def view_without_axes(np, x):
    a = np.array(x)
    b = a[0, ...]
    b += x[1]
    c = np.squeeze(a[1:2])
    c *= 2.0
    d = a[2:3].reshape(())
    d[...] = x[0]
    return a, b * 1.0, c * 1.0, d * 1.0


def accumulator(np, x):
    s = np.zeros(())
    s += x[0]
    t = s
    t -= 1
    np.sum(x, out=t[...])
    return s * x[1]


def scalars_stay(np, x):
    s = np.reshape(x[0], ())
    t = s
    t += 1
    u = x[0]
    v = u
    v *= 2
    return s, t, u, v


@pytest.mark.parametrize("f", [view_without_axes, accumulator, scalars_stay], ids=lambda f: f.__name__)
def test_views_without_axes(f):
    check_writes(f)


def check_writes(f):
    """The same numbers as NumPy gives, in every mode."""
    rows = np.array([[0.5, 1.5, -2.0], [2.0, 3.0, 1.0]])
    g = lambda x: f(anp, x)
    flat = lambda y: [np.asarray(part) for part in (y if isinstance(y, tuple) else (y,))]
    one = flat(f(np, rows[0]))
    both = [np.stack(parts) for parts in zip(one, flat(f(np, rows[1])), strict=True)]
    for wanted, found in (
        (one, ad.jvp(g, (rows[0],), (rows[1],))[0]),
        (one, ad.vjp(g, rows[0])[0]),
        (one, ad.graph(g)(rows[0])(rows[0])),
        (both, ad.vmap(g)(rows)),
        (both, ad.vmap(lambda x: ad.jvp(g, (x,), (x,))[0])(rows)),
        (both, ad.vjp(ad.vmap(g), rows)[0]),
    ):
        for a, b in zip(wanted, flat(found), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6)


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3)])
@pytest.mark.parametrize("index", [True, False, np.True_, np.array(False), (np.True_, ...)], ids=str)
def test_a_single_bool_selects_all_or_nothing(index, shape):
    X = np.arange(1.0, 1.0 + np.prod(shape, dtype=int)).reshape(shape)

    def read(x):
        return anp.sum(x[index] ** 2)

    def write(x):
        y = x * 2.0
        y[index] = 5.0
        y[index] *= 3.0
        return anp.sum(y * x)

    def chosen(x):
        y = x * 1.0
        bad = anp.sum(x) > 100.0
        y[~bad] = y[~bad] / x[~bad] + x[~bad] ** 2
        return anp.sum(y)

    for f, wanted in ((read, 2 * X), (write, np.full(shape, 15.0)), (chosen, 2 * X)):
        if f is not chosen and not np.all(index[0] if isinstance(index, tuple) else index):
            wanted = 0 * X if f is read else 4 * X
        np.testing.assert_allclose(f(X.copy()), ad.jvp(f, (X,), (X,))[0])
        np.testing.assert_allclose(ad.grad(f)(X), wanted)
        np.testing.assert_allclose(ad.jit(ad.grad(f))(X), wanted)


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ipow"])
@pytest.mark.parametrize("own", ["float64", "float32", "complex64"])
@pytest.mark.parametrize("other", ["int64", "float32", "float64", "complex128"])
def test_an_in_place_operation_raises_as_numpy_where_the_result_does_not_fit(name, own, other):
    run = getattr(operator, name)

    def outcome(a, b):
        try:
            return run(a, b).dtype
        except TypeError as error:
            return error.__class__, str(error)

    found = []

    def f(x):
        found.append(outcome(anp.ones(3, dtype=own) * anp.real(x).astype(own), np.ones(3, dtype=other)))
        return x * 1.0

    ad.grad(f)(np.float64(2.0))
    assert found == [outcome(np.ones(3, dtype=own), np.ones(3, dtype=other))]


PARTS = [slice(1, -1), slice(None, None, 2), (slice(None), 1), (..., slice(0, 2)), (1,), 0]


@pytest.mark.parametrize("index", [*PARTS, (slice(0, 0),), [0, 2], (0, 1)], ids=str)
@pytest.mark.parametrize("base", [lambda a: a, lambda a: a[::-1], lambda a: a.T, lambda a: a.reshape(3, 4)], ids=range(4))
def test_an_operation_on_a_part_writes_it_once(index, base):
    """Python writes the result of `a[i] += 1` back to a[i]; the view has written it already."""

    def f(x):
        a = x * 1.0
        part = base(a)
        part[index] += np.sin(part[index])
        return a, part

    x = RNG.normal(size=(4, 3))
    for got, wanted in zip(ad.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-14)
    total = lambda x: sum(np.sum(y**2) for y in f(x))
    np.testing.assert_allclose(ad.grad(total)(x), ad.finite_difference(total, x), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(ad.jit(ad.grad(total))(x), ad.grad(total)(x), rtol=1e-13)


@pytest.mark.parametrize("index", PARTS, ids=str)
def test_an_operation_on_a_part_is_one_write_in_the_graph(index):
    def f(x):
        a = x * 1.0
        a[index] += x[index]
        return a

    assert str(ad.graph(f)(RNG.normal(size=(4, 3)))).count("= put ") == 1


@pytest.mark.parametrize("which", range(3))
def test_a_part_is_written_where_it_is_not_its_own(which):
    def another(x):
        a, b = x * 1.0, x * 2.0
        part = b[1:]
        part += 1.0
        a[1:] = part  # of another array
        return a

    def moved(x):
        a = x * 1.0
        part = a[1:]
        part += 1.0
        a[:-1] = part  # another part
        return a

    def renewed(x):
        a = x * 1.0
        part = a[1:]
        a += 1.0
        a[1:] = part * 2.0
        return a

    f, x = (another, moved, renewed)[which], RNG.normal(size=5)
    np.testing.assert_array_equal(ad.jit(f)(x), f(x))
    np.testing.assert_allclose(ad.jacfwd(f)(x), ad.finite_difference(f, x), rtol=1e-6, atol=1e-8)


def test_a_part_of_a_read_only_array_is_not_written():
    def f(x):
        a = x * 1.0
        a.flags.writeable = False
        a[1:] = a[1:]
        return a

    with pytest.raises(ValueError, match="read-only"):
        f(np.ones(3))
    with pytest.raises(ad.AdjointError, match="read-only"):
        ad.grad(lambda x: np.sum(f(x)))(np.ones(3))


class Place:
    """An integer of the user's."""

    def __init__(self, place):
        self.place = place

    def __index__(self):
        return self.place


@pytest.mark.parametrize("kind", [np.array, np.int8, np.int64, Place])
@pytest.mark.parametrize("bounds", [(1, 3), (None, -1), (4, 0, -2), (2, None, 2)], ids=repr)
def test_bounds_of_slices_are_integers_of_any_kind(bounds, kind):
    part = slice(*(None if bound is None else kind(bound) for bound in bounds))

    def f(x):
        a = x * 1.0
        seen, rows = a[part], a[part, 1:]
        a[part] += 1.0
        rows *= seen[:, 1:]
        a[part] = a[part] * 2.0
        return a

    x = RNG.normal(size=(5, 3))
    wanted = f(x)
    np.testing.assert_array_equal(wanted, ad.jit(f)(x))
    np.testing.assert_array_equal(wanted, ad.value_and_grad(lambda x: (np.sum(y := f(x)), y), has_aux=True)(x)[0][1])
    gradient = ad.grad(lambda x: np.sum(np.sin(f(x))))
    np.testing.assert_allclose(ad.jit(gradient)(x), gradient(x), rtol=1e-12)


def test_a_view_keeps_the_bounds_that_it_was_made_with():
    def f(x):
        a, first = x * 1.0, np.array(1)
        part = a[first:3]
        rows = a[first:3, ...]
        first += 1
        part *= 3.0
        rows += 1.0
        return a

    x = RNG.normal(size=(5, 3))
    np.testing.assert_array_equal(ad.jvp(f, (x,), (x,))[0], f(x))
    np.testing.assert_array_equal(ad.jit(f)(x), f(x))


@pytest.mark.parametrize("bound", [1.0, np.array(1.5), np.array([1, 2]), "1"], ids=repr)
def test_other_bounds_are_refused(bound):
    for f in (lambda x: x, lambda x: ad.grad(lambda x: np.sum(x[bound:]))(x)):
        with pytest.raises(TypeError):
            f(np.ones(4))[bound:]
