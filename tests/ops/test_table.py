"""Every op in the table, tested from its declaration: no op can be untested.

Value against NumPy's implementation under each interpreter, type rule against the result, both modes against finite
differences, ⟨u, Jv⟩ = ⟨Jᵀu, v⟩, second order, vmap against a loop.
"""

import numpy as np
import pytest
from night import sampled

import adjoint as ad
import adjoint.scipy.linalg
import adjoint.scipy.special  # their ops are declared when they are loaded
from adjoint.api.graph import parse
from adjoint.compiler.lower.scalar import has_code
from adjoint.core.op import OPS, Constant, Elementwise, Linear, case
from adjoint.core.types import Type
from adjoint.derive import split, type_rule
from adjoint.numpy.table import load_all

load_all()  # modules that are loaded when first needed declare ops too

STEP = 1e-5

ELEMENTWISE_SHAPES = {
    1: [((),), ((3,),), ((2, 3),), ((0, 2),)],
    2: [((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)), ((0,), (1,))],
}


def samples(op, rng, dtype=float):
    """(arguments, parameters) pairs for an op, from its declared cases or from its arity."""
    cases = op.cases
    if not cases:
        cases = [case(*shapes) for shapes in ELEMENTWISE_SHAPES[op.arity or 1]]
    for one in cases:
        yield one.draw(op.domain, rng, dtype), one.params


def differentiable(op, args):
    """Positions of the arguments that carry a derivative."""
    if isinstance(op, Linear) and isinstance(op.transposes, tuple):
        rules = op.transposes + (op.transposes[-1],) * (len(args) - len(op.transposes))
        return [i for i, rule in enumerate(rules[: len(args)]) if rule is not None]
    floats = [i for i, a in enumerate(args) if np.asarray(a).dtype.kind in "fc"]
    return [i for i in floats if not split(op)[i].missing] if isinstance(op, Elementwise) else floats


def on_floats(op, args, params):
    """The op as a function of its differentiable arguments only, with a flat list of results."""
    where = differentiable(op, args)

    def f(*xs):
        full = list(args)
        for i, x in zip(where, xs, strict=True):
            full[i] = x
        y = op(*full, **params)
        return list(y) if op.many else [y]

    return f, [args[i] for i in where]


def parametrize(predicate, dtypes=(float,)):
    items = [(name, dtype) for name, op in sorted(OPS.items()) if predicate(op) for dtype in dtypes]
    return pytest.mark.parametrize("name, dtype", items, ids=lambda v: v if isinstance(v, str) else np.dtype(v).name)


def has_derivative(op):
    if isinstance(op, Constant) or op.name.startswith("test_"):
        return False
    return not isinstance(op, Elementwise) or not all(partial.missing for partial in split(op))


def with_complex(op):
    return has_derivative(op) and op.complex_domain


def inner(us, vs):
    """Re Σ uv: the pairing in which ∂f/∂re − i ∂f/∂im is the cotangent of a complex number."""
    return sum(np.real(np.sum(np.asarray(u) * np.asarray(v))) for u, v in zip(us, vs, strict=True))


def directions(xs, rng):
    out = []
    for x in xs:
        v = rng.standard_normal(np.shape(x))
        if np.asarray(x).dtype.kind == "c":
            v = v + 1j * rng.standard_normal(np.shape(x))
        out.append(np.asarray(v, np.asarray(x).dtype))
    return out


def close(a, b, tol):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tol, atol=tol)


@parametrize(lambda op: not op.name.startswith("test_"))
def test_value_and_type(name, dtype, rng):
    op = OPS[name]
    for args, params in samples(op, rng, dtype):
        y = op.impl(*args, **params)
        if not any(np.asarray(a).dtype.kind in "iub" for a in args):
            types = type_rule(op, [Type.of(np.asarray(a)) for a in args], params)
            for found, part in zip(types if op.many else [types], y if op.many else [y], strict=True):
                assert found == Type.of(np.asarray(part))
        for lifted in (ad.vjp, lambda f, *xs: ad.jvp(f, xs, tuple(np.zeros_like(x) for x in xs))):
            if not has_derivative(op):
                continue
            f, xs = on_floats(op, args, params)
            out = lifted(f, *xs)[0]
            for a, b in zip(out, y if op.many else [y], strict=True):
                assert np.asarray(a).dtype == np.asarray(b).dtype
                np.testing.assert_array_equal(a, b)


@parametrize(has_derivative)
def test_forward_mode_against_finite_differences(name, dtype, rng):
    op = OPS[name]
    for args, params in samples(op, rng):
        f, xs = on_floats(op, args, params)
        vs = directions(xs, rng)
        _, ts = ad.jvp(f, tuple(xs), tuple(vs))
        up = f(*[x + STEP * v for x, v in zip(xs, vs, strict=True)])
        down = f(*[x - STEP * v for x, v in zip(xs, vs, strict=True)])
        for t, a, b in zip(ts, up, down, strict=True):
            close(t, (np.asarray(a) - np.asarray(b)) / (2 * STEP), 2e-6)


def transposes(op, args, params, rng, tol):
    f, xs = on_floats(op, args, params)
    vs = directions(xs, rng)
    ys, pull = ad.vjp(f, *xs)
    _, ts = ad.jvp(f, tuple(xs), tuple(vs))
    us = directions(ys, rng)
    close(inner(us, ts), inner(pull(us), vs), tol)


@parametrize(has_derivative)
def test_reverse_mode_is_the_transpose(name, dtype, rng):
    for args, params in samples(OPS[name], rng):
        transposes(OPS[name], args, params, rng, 1e-10)


@parametrize(with_complex)
def test_complex(name, dtype, rng):
    op = OPS[name]
    for args, params in samples(op, rng, complex):
        transposes(op, args, params, rng, 1e-9)
        f, xs = on_floats(op, args, params)
        vs = directions(xs, rng)
        _, ts = ad.jvp(f, tuple(xs), tuple(vs))
        up = f(*[x + STEP * v for x, v in zip(xs, vs, strict=True)])
        down = f(*[x - STEP * v for x, v in zip(xs, vs, strict=True)])
        for t, a, b in zip(ts, up, down, strict=True):
            close(t, (np.asarray(a) - np.asarray(b)) / (2 * STEP), 5e-6)


@parametrize(has_derivative)
def test_second_order(name, dtype, rng):
    """Reverse over reverse and forward over reverse, against differences of the first derivative."""
    op = OPS[name]
    for args, params in samples(op, rng):
        f, xs = on_floats(op, args, params)
        vs = directions(xs, rng)
        us = directions(f(*xs), rng)

        def scalar(*xs, us=us, f=f):
            return sum(np.real(np.sum(y * u)) for y, u in zip(f(*xs), us, strict=True))

        every = tuple(range(len(xs)))
        gradient = ad.grad(scalar, every)
        _, forward = ad.jvp(gradient, tuple(xs), tuple(vs))
        _, pull = ad.vjp(gradient, *xs)
        reverse = pull(tuple(vs))
        up = gradient(*[x + STEP * v for x, v in zip(xs, vs, strict=True)])
        down = gradient(*[x - STEP * v for x, v in zip(xs, vs, strict=True)])
        for a, b, hi, lo in zip(forward, reverse, up, down, strict=True):
            numeric = (np.asarray(hi) - np.asarray(lo)) / (2 * STEP)
            close(a, numeric, 5e-5)
            close(b, numeric, 5e-5)


@parametrize(lambda op: not op.name.startswith("test_"))
def test_vmap_against_a_loop(name, dtype, rng):
    """Each float argument batched alone and all together, at the front and at the back."""
    op = OPS[name]
    for args, params in samples(op, rng):
        floats = [i for i, a in enumerate(args) if np.asarray(a).dtype.kind == "f"]
        for batched in [floats] + [[i] for i in floats if len(floats) > 1]:
            if not batched:
                continue
            stacks = list(args)
            for i in batched:
                shift = rng.uniform(-0.05, 0.05, (3,) + (1,) * np.ndim(args[i]))
                stacks[i] = args[i] + shift
            in_axes = tuple(0 if i in batched else None for i in range(len(args)))
            run = lambda *xs, params=params: op(*xs, **params)
            whole = ad.vmap(run, in_axes=in_axes)(*stacks)
            for k in range(3):
                single = run(*[s[k] if i in batched else s for i, s in enumerate(stacks)])
                for a, b in zip(whole if op.many else [whole], single if op.many else [single], strict=True):
                    close(a[k], b, 1e-12)


@parametrize(has_derivative)
def test_vmap_of_both_modes(name, dtype, rng):
    """Per-example derivatives in one pass equal a loop over examples."""
    op = OPS[name]
    for args, params in samples(op, rng):
        f, xs = on_floats(op, args, params)
        stacks = [x + rng.uniform(-0.05, 0.05, (3,) + (1,) * np.ndim(x)) for x in xs]
        vs = [rng.standard_normal(s.shape) for s in stacks]

        def forward(xs, vs, f=f):
            return ad.jvp(f, tuple(xs), tuple(vs))[1]

        def reverse(xs, vs, f=f):
            ys, pull = ad.vjp(f, *xs)
            return pull([np.full(np.shape(y), 1.5, y.dtype) for y in ys])

        for derive in (forward, reverse):
            whole = ad.vmap(derive)(stacks, vs)
            for k in range(3):
                single = derive([s[k] for s in stacks], [v[k] for v in vs])
                for a, b in zip(whole, single, strict=True):
                    close(a[k], b, 1e-10)


#: Ops whose rules ask for numbers: they have no graph of their derivative.
NEEDS_NUMBERS: set[str] = set()


@parametrize(has_derivative)
def test_staged(name, dtype, rng):
    """The graph of an op and of its reverse pass: types hold, text parses back, running it gives what eager gives."""
    op = OPS[name]
    for args, params in samples(op, rng):
        f, xs = on_floats(op, args, params)

        def reverse(*xs, f=f):
            ys, pull = ad.vjp(f, *xs)
            return pull([np.ones(np.shape(y), y.dtype) for y in ys])

        for function in (f,) if name in NEEDS_NUMBERS else (f, reverse):
            staged = ad.graph(function)(*xs)
            staged.check()
            assert parse(str(staged)) == staged
            for a, b in zip(staged(*xs), function(*xs), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


COMPILED = [(name, np.float64) for name in sorted(OPS) if not name.startswith("test_")]
IN_SINGLE = {*filter(lambda name: has_code(OPS[name]), OPS)} - {"cast", "truncate"}
IN_SINGLE |= {"sum", "max", "min", "matmul", "gather", "scatter_add"}
COMPILED += [(name, np.float32) for name in sampled(sorted(IN_SINGLE), 4)]  # all of them in double precision


@pytest.mark.parametrize("name, dtype", COMPILED, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_compiled(name, dtype, rng):
    """All cases of an op, and their reverse passes, as one compiled program: what eager gives, of the same types."""
    op = OPS[name]
    cases = [(on_floats(op, args, params), args, params) for args, params in samples(op, rng, dtype)]

    def every(inputs):
        results = []
        for ((f, _), args, params), xs in zip(cases, inputs, strict=True):
            if not has_derivative(op):
                y = op(*[x if np.asarray(a).dtype.kind == "f" else a for a, x in zip(args, xs, strict=True)], **params)
                results += list(y) if op.many else [y]
                continue
            ys, pull = ad.vjp(f, *xs)
            results += [*ys, *pull([np.ones(np.shape(y), y.dtype) for y in ys])]
        return results

    inputs = [xs if has_derivative(op) else list(args) for (_, xs), args, _ in cases]
    compiled = ad.jit(every)
    found, expected = compiled(inputs), every(inputs)
    assert not compiled.eager
    tol = 1e-11 if dtype is np.float64 else 2e-5
    for a, b in zip(map(np.asarray, found), map(np.asarray, expected), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol)
