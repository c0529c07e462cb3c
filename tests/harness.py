"""One check for any differentiable function: value, both modes, second order, vmap.

`check(f, *args)` runs f, written with plain NumPy, and compares
- its value under each interpreter with the plain value,
- forward mode with central differences,
- reverse mode with forward mode: ⟨u, Jv⟩ = ⟨Jᵀu, v⟩,
- the second derivative, forward over reverse and reverse over reverse, with differences of the first,
- vmap, of the function and of its derivatives, with a loop.
"""

import warnings

import numpy as np

import adjoint as ad
from adjoint.core.tree import flatten

STEP = 1e-5


def leaves(tree):
    return [np.asarray(x) for x in flatten(tree)[0]]


def draw(rng, shape, low=-2.0, high=2.0, dtype=float):
    """A random array; complex if asked for."""
    x = rng.uniform(low, high, shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.uniform(low, high, shape)
    return np.asarray(x, dtype)


def directions(xs, rng):
    return [draw(rng, x.shape, -1, 1, x.dtype) for x in map(np.asarray, xs)]


def inner(us, vs):
    return sum(np.real(np.sum(u * v)) for u, v in zip(us, vs, strict=True))


def close(a, b, rtol, atol=None):
    a, b, atol = np.asarray(a), np.asarray(b), rtol if atol is None else atol
    if a.shape != b.shape or not (np.abs(a - b) <= atol + rtol * np.abs(b)).all():
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)  # which knows nan and infinity, and says what differs; it is slow


def shifted(xs, vs, h):
    return [x + h * v for x, v in zip(xs, vs, strict=True)]


def check(f, *args, order=2, vmap=True, rtol=1e-5, rtol2=2e-4, seed=0):
    """Check f at float or complex arrays `args`. Its result may be any container of arrays."""
    rng = np.random.default_rng(seed)
    xs = [np.asarray(a) if not isinstance(a, float) else a for a in args]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        plain = f(*xs)
        _values(f, xs, plain)
        vs = directions(xs, rng)
        floats = [i for i, y in enumerate(leaves(plain)) if y.dtype.kind in "fc"]
        assert floats, "the function has no float result"
        flat = lambda *xs: [flatten(f(*xs))[0][i] for i in floats]
        ys, pull = ad.vjp(flat, *xs)
        _, ts = ad.jvp(flat, tuple(xs), tuple(vs))
        hi, lo = flat(*shifted(xs, vs, STEP)), flat(*shifted(xs, vs, -STEP))
        for t, a, b in zip(ts, hi, lo, strict=True):
            close(t, (np.asarray(a) - np.asarray(b)) / (2 * STEP), rtol)
        us = directions(ys, rng)
        pulled = pull(us)
        close(inner(us, ts), inner(pulled, vs), 1e-8)
        for x, g in zip(xs, pulled, strict=True):
            assert np.shape(g) == np.shape(x)
            assert np.asarray(g).dtype == np.asarray(x).dtype
        if order > 1:
            _second_order(flat, xs, vs, us, rtol2)
        if vmap:
            _vmap(flat, xs, rng)


def _values(f, xs, plain):
    for found in (ad.vjp(f, *xs)[0], ad.jvp(f, tuple(xs), tuple(np.zeros_like(x) for x in xs))[0]):
        for a, b in zip(leaves(found), leaves(plain), strict=True):
            assert a.dtype == b.dtype, (a.dtype, b.dtype)
            assert a.shape == b.shape, (a.shape, b.shape)
            close(a, b, 1e-12)


def _second_order(flat, xs, vs, us, rtol):
    def scalar(*xs):
        return sum(np.real(np.sum(y * u)) for y, u in zip(flat(*xs), us, strict=True))

    gradient = ad.grad(scalar, tuple(range(len(xs))))
    _, forward = ad.jvp(gradient, tuple(xs), tuple(vs))
    _, pull = ad.vjp(gradient, *xs)
    h = 1e-5
    hi, lo = gradient(*shifted(xs, vs, h)), gradient(*shifted(xs, vs, -h))
    for a, p, m in zip(forward, hi, lo, strict=True):
        close(a, (np.asarray(p) - np.asarray(m)) / (2 * h), rtol)
    # reverse over reverse must be the transpose of forward over reverse
    ws = directions(xs, np.random.default_rng(1))
    close(inner(ws, forward), inner(pull(tuple(ws)), vs), 1e-7)


def _vmap(flat, xs, rng):
    stacks = [x + 1e-3 * draw(rng, (2,) + (1,) * np.ndim(x), -1, 1) for x in xs]
    stacks = [s.astype(np.asarray(x).dtype) for s, x in zip(stacks, xs, strict=True)]
    vs = [draw(rng, s.shape, -1, 1, s.dtype) for s in stacks]

    def forward(xs, vs):
        return ad.jvp(flat, tuple(xs), tuple(vs))[1]

    def reverse(xs, vs):
        ys, pull = ad.vjp(flat, *xs)
        return pull([np.full(np.shape(y), 1.5, y.dtype) for y in ys])

    for run in (lambda xs, vs: flat(*xs), forward, reverse):
        whole = ad.vmap(run)(stacks, vs)
        for k in range(2):
            single = run([s[k] for s in stacks], [v[k] for v in vs])
            for a, b in zip(whole, single, strict=True):
                close(a[k], b, 1e-7)


def check_single(f, reference, *args, rtol=2e-3, in_double=None):
    """In single precision: the dtypes of `reference`, gradients of their arguments' dtypes, near those in double precision, by
    another function if f holds single-precision arrays of its own."""
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        plain = leaves(reference(*args))
        floats = [i for i, y in enumerate(plain) if y.dtype.kind in "fc"]
        flat = lambda *xs: flatten(f(*xs))[0]
        ys, pull = ad.vjp(flat, *args)
        for y, p in zip(leaves(ys), plain, strict=True):
            assert y.dtype == p.dtype, (y.dtype, p.dtype)
            assert y.shape == p.shape, (y.shape, p.shape)
            close(y, p, rtol)
        chosen = lambda *xs: [flat(*xs)[i] for i in floats]
        ys, pull = ad.vjp(chosen, *args)
        us = directions(ys, rng)
        pulled = pull(us)
        _, ts = ad.jvp(chosen, args, tuple(directions(args, rng)))
        for t, y in zip(ts, ys, strict=True):
            assert np.asarray(t).dtype == np.asarray(y).dtype
        wide = [np.asarray(a, np.result_type(a, np.float64)) for a in args]
        in_double = in_double or f
        doubles, pull = ad.vjp(lambda *xs: [flatten(in_double(*xs))[0][i] for i in floats], *wide)
        expected = pull([np.asarray(u, np.asarray(y).dtype) for u, y in zip(us, doubles, strict=True)])
        for g, x, e in zip(pulled, args, expected, strict=True):
            assert np.asarray(g).dtype == np.asarray(x).dtype
            close(g, e, rtol, rtol * max(1.0, float(np.max(np.abs(e), initial=0.0))))
