"""Random programs and random indices: every way to a derivative must give the same number."""

import numpy as np
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from night import examples

import adjoint as ad
import adjoint.numpy as anp

SHAPES = [(), (1,), (3,), (2, 3), (2, 1), (1, 3), (2, 1, 3)]
UNARY = [
    np.sin,
    np.tanh,
    np.exp,
    np.square,
    np.negative,
    np.arctan,
    np.cos,
    lambda x: np.log1p(x * x),
    lambda x: x**3 / 3,
    lambda x: 1 / (2 + x * x),
    lambda x: np.sqrt(1 + x * x),
    np.transpose,
    lambda x: x * 0.5 + 1,
]
BINARY = [
    np.add,
    np.subtract,
    np.multiply,
    lambda a, b: a / (1.5 + b * b),
    lambda a, b: np.where(a > 0, a**3 * b, np.zeros_like(a)),
    np.logaddexp,
    lambda a, b: np.arctan2(a, 2 + b * b),
]
REDUCE = [
    np.sum,
    np.mean,
    lambda x: np.sum(x, axis=0) if np.ndim(x) else x,
    lambda x: np.cumsum(x, axis=-1) if np.ndim(x) else x,
    lambda x: x[..., ::-1] if np.ndim(x) else x,
    lambda x: np.var(x),
    lambda x: np.reshape(x, (-1,)) if np.ndim(x) else x,
    lambda x: np.outer(x, x) if np.size(x) < 4 else x,
]
BOUND = 30.0  # values beyond make differences useless


@st.composite
def programs(draw):
    """(function of two arrays with a scalar result, its two arguments)."""
    steps = draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=7)
    )
    seed = draw(st.integers(0, 2**16))
    shapes = draw(st.tuples(st.sampled_from(SHAPES), st.sampled_from(SHAPES)))
    rng = np.random.default_rng(seed)
    xs = tuple(rng.uniform(-1.5, 1.5, s)[()] for s in shapes)
    extra = rng.uniform(-1, 1, (3,))

    def f(x, y):
        values = [x, y, extra]
        for kind, which, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            if kind == 0:
                v = UNARY[which % len(UNARY)](a)
            elif kind == 1:
                try:
                    np.broadcast_shapes(np.shape(a), np.shape(b))
                except ValueError:
                    b = np.sum(b)
                v = BINARY[which % len(BINARY)](a, b)
            else:
                v = REDUCE[which % len(REDUCE)](a)
            values.append(v)
        return np.sum(values[-1]) + np.sum(np.sin(values[len(values) // 2])) * 0.5

    with np.errstate(all="ignore"):
        y = f(*xs)
    assume(np.isfinite(y) and abs(y) < BOUND)
    return f, xs, rng


def inner(us, vs):
    return sum(float(np.sum(u * v)) for u, v in zip(us, vs, strict=True))


def near(a, b, rtol=1e-9, scale=1.0):
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, scale))


@given(programs())
@settings(max_examples=examples(120))
def test_reverse_is_forward_is_differences(program):
    f, xs, rng = program
    vs = tuple(rng.uniform(-1, 1, np.shape(x))[()] for x in xs)
    g = ad.grad(f, (0, 1))(*xs)
    value, t = ad.jvp(f, xs, vs)
    near(value, f(*xs))
    assume(abs(t) < 1e3)
    near(inner(g, vs), t, scale=abs(t))
    near(ad.linearize(f, *xs)[1](*vs), t, scale=abs(t))
    for part, x in zip(g, xs, strict=True):
        assert np.shape(part) == np.shape(x)
    move = lambda h: f(*(x + h * v for x, v in zip(xs, vs, strict=True)))
    h = 1e-4
    d = (8 * (move(h) - move(-h)) - (move(2 * h) - move(-2 * h))) / (12 * h)
    curvature = abs(move(h) - 2 * move(0) + move(-h)) / h**2
    if curvature < 1e2:  # else differences are of no use
        near(t, d, 1e-5, scale=abs(t) + curvature)
    jf, jr = ad.jacfwd(f, (0, 1))(*xs), ad.jacrev(f, (0, 1))(*xs)
    for a, b, c in zip(jf, jr, g, strict=True):
        near(a, c, scale=np.max(np.abs(c), initial=0))
        near(b, c, scale=np.max(np.abs(c), initial=0))


@given(programs())
@settings(max_examples=examples(80))
def test_second_order_by_all_nestings(program):
    f, xs, rng = program
    vs = tuple(rng.uniform(-1, 1, np.shape(x))[()] for x in xs)
    ws = tuple(rng.uniform(-1, 1, np.shape(x))[()] for x in xs)
    gradient = ad.grad(f, (0, 1))
    directional = lambda *xs: ad.jvp(f, xs, vs)[1]
    forward_over_reverse = inner(ws, ad.jvp(gradient, xs, vs)[1])
    scale = abs(forward_over_reverse) + 1
    assume(scale < 1e4)
    near(inner(ws, ad.grad(directional, (0, 1))(*xs)), forward_over_reverse, scale=scale)
    near(ad.jvp(directional, xs, ws)[1], forward_over_reverse, scale=scale)
    pulled = ad.vjp(gradient, *xs)[1](ws)
    near(inner(pulled, vs), forward_over_reverse, scale=scale)
    h = ad.hessian(f, (0, 1))(*xs)
    total = sum(
        np.sum(np.tensordot(w, np.tensordot(h[i][j], v, np.ndim(v)), np.ndim(w)))
        for i, w in enumerate(ws)
        for j, v in enumerate(vs)
    )
    near(total, forward_over_reverse, scale=scale)


@given(programs())
@settings(max_examples=examples(80))
def test_grad_of_vmap_is_vmap_of_grad_is_a_loop(program):
    f, xs, rng = program
    stacks = tuple(np.stack([x, x * 0.9, x + 0.05]) for x in xs)
    gradient = ad.grad(f, (0, 1))
    loop = [gradient(*(s[k] for s in stacks)) for k in range(3)]
    assume(all(np.max(np.abs(part), initial=0) < 1e3 for row in loop for part in row))
    batched = ad.vmap(gradient)(*stacks)
    chunked = ad.vmap(gradient, chunk_size=2)(*stacks)
    outside = ad.grad(lambda *stacks: np.sum(ad.vmap(f)(*stacks)), (0, 1))(*stacks)
    shared = ad.vmap(gradient, in_axes=(0, None))(stacks[0], xs[1])
    for k in range(3):
        alone = gradient(stacks[0][k], xs[1])
        for i in range(2):
            near(batched[i][k], loop[k][i], scale=1e3)
            near(chunked[i][k], loop[k][i], scale=1e3)
            near(outside[i][k], loop[k][i], scale=1e3)
            near(shared[i][k], alone[i], scale=1e3)
    vs = tuple(rng.uniform(-1, 1, s.shape) for s in stacks)
    tangents = ad.vmap(lambda xs, vs: ad.jvp(f, xs, vs)[1])(stacks, vs)
    near(tangents, [inner(loop[k], [v[k] for v in vs]) for k in range(3)], scale=1e3)
    hv = ad.vmap(lambda x, y, v: ad.hvp(f)(x, y, v))(*stacks, vs[0])
    near(hv[1], ad.hvp(f)(stacks[0][1], stacks[1][1], vs[0][1]), 1e-8, scale=1e3)


# -- indices ------------------------------------------------------------------------------------------------------


@st.composite
def indices(draw, shape, arrays=True):
    """Any index of NumPy's for an array of this shape."""
    kinds = ["int", "slice", "array", "list", "mask", "npint"] if arrays else ["int", "slice", "npint"]
    entries, used, count = [], 0, draw(st.integers(0, len(shape)))
    lead = draw(st.sampled_from([(2,), (3,), (2, 1), (1,), ()]))
    while used < count:
        n = shape[used]
        kind = draw(st.sampled_from(kinds))
        if kind in ("int", "npint"):
            i = draw(st.integers(-n, n - 1))
            entries.append(i if kind == "int" else np.int64(i))
        elif kind == "slice":
            part = st.one_of(st.none(), st.integers(-n - 1, n + 1))
            entries.append(slice(draw(part), draw(part), draw(st.sampled_from([None, 1, 2, -1, -2]))))
        elif kind == "mask":
            if used + 1 < count and draw(st.booleans()):
                mask = np.array(draw(st.lists(st.booleans(), min_size=n * shape[used + 1], max_size=n * shape[used + 1])))
                entries.append(mask.reshape(n, shape[used + 1]))
                used += 1
            else:
                entries.append(np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n))))
        else:
            size = int(np.prod(lead))
            array = np.array(draw(st.lists(st.integers(-n, n - 1), min_size=size, max_size=size)), int).reshape(lead)
            entries.append(array if kind == "array" or array.ndim != 1 else array.tolist())
        used += 1
    if draw(st.booleans()):
        entries.insert(draw(st.integers(0, len(entries))), Ellipsis)
    if draw(st.booleans()):
        entries.insert(draw(st.integers(0, len(entries))), None)
    if len(entries) == 1 and draw(st.booleans()):
        return entries[0]
    return tuple(entries)


@st.composite
def indexed(draw, arrays=True):
    shape = draw(st.sampled_from([(4,), (3, 2), (2, 3, 4), (3, 1, 2)]))
    index = draw(indices(shape, arrays))
    x = np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape)
    try:
        x[index]
    except IndexError:  # masks and arrays whose lengths do not broadcast
        assume(False)
    return x, index


@given(indexed())
@example((np.arange(6.0).reshape(3, 2), (None, np.array([0, 0]), Ellipsis, 0)))
@settings(max_examples=examples(250))
def test_reading(case):
    x, index = case
    rng = np.random.default_rng(3)
    read = lambda x: x[index]
    y, pull = ad.vjp(read, x)
    np.testing.assert_array_equal(y, x[index])
    v, u = rng.normal(size=x.shape), rng.normal(size=np.shape(y))[()]
    t = ad.jvp(read, (x,), (v,))[1]
    np.testing.assert_array_equal(t, v[index])
    near(np.sum(pull(u)[0] * v), np.sum(t * u))
    near(np.sum(ad.linearize(read, x)[1](v) * u), np.sum(t * u))
    stack = np.stack([x, v, x * v])
    np.testing.assert_array_equal(ad.vmap(read)(stack), np.stack([s[index] for s in stack]))
    np.testing.assert_array_equal(
        ad.vmap(read, in_axes=-1, out_axes=-1)(np.moveaxis(stack, 0, -1)), np.stack([s[index] for s in stack], -1)
    )
    pulled = ad.vmap(lambda x: ad.vjp(read, x)[1](u)[0])(stack)
    near(pulled[1], pull(u)[0])
    second = ad.hvp(lambda x: np.sum(x[index] ** 3))(x, v)
    weight = np.zeros(x.shape)
    np.add.at(weight, index, 1.0)
    near(second, 6 * x * v * weight)


@given(indexed(), st.sampled_from(["set", "add", "scale", "fill"]), st.booleans())
@settings(max_examples=examples(250))
def test_writing(case, how, through_view):
    x, index = case
    rng = np.random.default_rng(4)
    value = rng.normal(size=np.shape(x[index]))[()]

    def plainly(x, v):
        a = x.copy()
        target = a[...] if through_view else a
        if how == "set":
            target[index] = v
        elif how == "add":
            target[index] += v
        elif how == "scale":
            target[index] *= np.sum(v) + 1.5
        else:
            target[index] = 2.5
        return a * a

    out, pull = ad.vjp(plainly, x, value)
    np.testing.assert_array_equal(out, plainly(x, value))
    u = rng.normal(size=x.shape)
    dx, dv = rng.normal(size=x.shape), rng.normal(size=np.shape(value))[()]
    same, t = ad.jvp(plainly, (x, value), (dx, dv))
    np.testing.assert_array_equal(same, out)
    gx, gv = pull(u)
    near(np.sum(gx * dx) + np.sum(gv * dv), np.sum(t * u))
    h = 1e-6
    near(t, (plainly(x + h * dx, value + h * dv) - plainly(x - h * dx, value - h * dv)) / (2 * h), 1e-6, scale=10)
    xs, vs = np.stack([x, dx]), np.stack([value, dv])
    both = ad.vmap(plainly)(xs, vs)
    for k in range(2):
        np.testing.assert_array_equal(both[k], plainly(xs[k], vs[k]))
    np.testing.assert_array_equal(ad.vmap(plainly, in_axes=(None, 0))(x, vs)[1], plainly(x, vs[1]))
    np.testing.assert_array_equal(ad.vmap(plainly, in_axes=(0, None))(xs, value)[1], plainly(xs[1], value))
    pulled = ad.vmap(lambda x, v: ad.vjp(plainly, x, v)[1](u))(xs, vs)
    near(pulled[0][0], gx)
    near(pulled[1][0], gv)


@st.composite
def batched_indices(draw):
    """An array, and a batch of integer arrays that index some of its axes."""
    shape = draw(st.sampled_from([(4,), (3, 2), (2, 3, 4)]))
    lead = draw(st.sampled_from([(), (2,), (2, 1), (0,)]))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    kinds = [draw(st.sampled_from(["batched", "shared", "slice", "int", "new", "all"])) for _ in shape]
    assume("batched" in kinds)
    size = 3
    entries, arrays = [], []
    for kind, n in zip(kinds, shape, strict=True):
        if kind == "batched":
            entries.append(("batched", len(arrays)))
            arrays.append(rng.integers(-n, n, (size, *lead)))
        elif kind == "shared":
            entries.append(("plain", rng.integers(0, n, lead)))
        elif kind == "slice":
            entries.append(("plain", slice(None, None, -1)))
        elif kind == "int":
            entries.append(("plain", int(rng.integers(0, n))))
        else:
            if kind == "new":
                entries.append(("plain", None))
            entries.append(("plain", slice(None)))
    build = lambda parts: tuple(parts[what] if kind == "batched" else what for kind, what in entries)
    return rng.normal(size=(size, *shape)), arrays, build, rng


@given(batched_indices())
@settings(max_examples=examples(200))
def test_reading_and_writing_at_batched_indices(case):
    xs, arrays, build, rng = case
    size = len(xs)

    def read(x, parts):
        return x[build(parts)]

    def write(x, v, parts):
        a = anp.array(x)
        a[build(parts)] = v
        return a * a

    rows = [[a[k] for a in arrays] for k in range(size)]
    expected = [read(xs[k], rows[k]) for k in range(size)]
    np.testing.assert_array_equal(ad.vmap(read)(xs, arrays), np.stack(expected))
    np.testing.assert_array_equal(ad.vmap(read, in_axes=(None, 0))(xs[0], arrays), np.stack([read(xs[0], r) for r in rows]))
    u = rng.normal(size=np.shape(expected[0]))[()]
    pulled = ad.vmap(lambda x, parts: ad.vjp(lambda x: read(x, parts), x)[1](u)[0])(xs, arrays)
    shared = ad.vmap(lambda x, parts: ad.vjp(lambda x: read(x, parts), x)[1](u)[0], in_axes=(None, 0))(xs[0], arrays)
    outside = ad.grad(lambda xs: np.sum(ad.vmap(read)(xs, arrays) * u))(xs)
    values = rng.normal(size=(size, *np.shape(u)))
    written = ad.vmap(write)(xs, values, arrays)
    pull_write = lambda x, v, parts: ad.vjp(lambda x, v: write(x, v, parts), x, v)[1](np.ones(xs.shape[1:]))
    grads = ad.vmap(pull_write)(xs, values, arrays)
    for k in range(size):
        alone = ad.vjp(lambda x, k=k: read(x, rows[k]), xs[k])[1](u)[0]
        near(pulled[k], alone)
        near(shared[k], alone)
        near(outside[k], alone)
        np.testing.assert_array_equal(written[k], write(xs[k], values[k], rows[k]))
        for a, b in zip(grads, pull_write(xs[k], values[k], rows[k]), strict=True):
            near(a[k], b)
