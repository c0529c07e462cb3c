"""Where tangents are live: forward mode, eager and compiled, gives what reverse mode does."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp

X = np.array([0.0, 1.0, 4.0])
LONG = np.zeros(40)
LONG[5], LONG[7] = 1.0, 4.0


def padded(x):
    z = anp.zeros(4)
    z[1:] = x**2
    return z


#: The square root of a square is nan at 0: the zero of its slope is one of arithmetic. That of a constant is one of a mask.
PROGRAMS = {
    "getitem": lambda x: np.sqrt((x**2)[0]),
    "concatenate": lambda x: np.sqrt(np.concatenate([x**2, np.zeros(2)])),
    "stack": lambda x: np.sqrt(np.stack([x**2, x])),
    "roll": lambda x: np.sqrt(np.roll(x**2, 1)),
    "pad": lambda x: np.sqrt(np.pad(x**2, 1)),
    "put": lambda x: np.sqrt(padded(x)),
    "gather": lambda x: np.sqrt((x**2)[np.array([0, 2, 0])]),
    "matmul": lambda x: np.sqrt(np.eye(3) @ (x**2)),
    "einsum": lambda x: np.sqrt(np.einsum("ij,j->i", np.eye(3), x**2)),
    "cumsum": lambda x: np.sqrt(np.cumsum(x**2)),
    "min": lambda x: np.sqrt(np.min(x**2)),
    "sort": lambda x: np.sqrt(np.sort(x**2)),
    "prod": lambda x: np.sqrt(np.prod(np.stack([x, x]), axis=0)),
    "where": lambda x: np.sqrt(np.where(x > 0.5, x**2, 0.0)),
    "where of both": lambda x: np.sqrt(np.where(x > 0.5, x**2, 3 * x**2)),
    "constant factor": lambda x: np.sqrt(np.array([0.0, 2.0, 1.0]) * x**2),
    "maximum": lambda x: np.sqrt(np.maximum(x**2, -1.0)),
    "maximum of a constant": lambda x: np.sqrt(np.maximum(x - 5, 0.0)),
    "zeroth power": lambda x: np.sqrt(x**2) ** 0,
    "broadcast": lambda x: np.sqrt((x**2)[:1] + 0 * x),
    "scan": lambda x: np.sqrt(ad.scan(lambda c, y: (c + y**2, c), 0.0, x[:1])[0]),
    "in a scan": lambda x: ad.scan(lambda c, y: (c + np.sqrt(y**2), c), 0.0, x)[0],
    "rows of a scan": lambda x: ad.scan(lambda c, y: (c, np.sqrt(y)), 0.0, x)[1],
    "for": lambda x: np.sqrt(ad.fori_loop(0, 2, lambda i, c: c * c, x)),
    "while": lambda x: np.sqrt(ad.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] * s[1]), (0, x))[1]),
    "cond": lambda x: np.sqrt(ad.cond(x[1] > 0, lambda x: x**2, lambda x: x, x)),
    "checkpoint": lambda x: np.sqrt(ad.checkpoint(lambda x: (x**2)[::-1])(x)),
    "mask in a loop": lambda x: ad.fori_loop(0, 3, lambda i, c: c + np.where(x[i] > 0, x[i] * np.log(x[i]), 0.0), 0.0),
    "mask before a loop": lambda x: ad.fori_loop(0, 3, lambda i, c: c + np.sqrt(np.where(x > 0, x, 0.0)[i]), 0.0),
    "square before a loop": lambda x: (lambda z: ad.fori_loop(0, 3, lambda i, c: c + np.sqrt(z[i]), 0.0))(x**2),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_mode_agrees_with_reverse_mode(name):
    f = PROGRAMS[name]
    push = lambda x, v: ad.jvp(f, (x,), (v,))[1]
    with np.errstate(all="ignore"):
        columns = ad.jacrev(f)(X)
        for i, seed in enumerate(np.eye(3)):
            for found in (push(X, seed), ad.jit(push)(X, seed), ad.jit(lambda x, v=seed: push(x, v))(X)):
                np.testing.assert_allclose(found, columns[..., i], err_msg=f"{name} along {i}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", [0, 5])
def test_loops_over_arrays_at_computed_places_mark_them(first):
    f = lambda x: ad.fori_loop(0, 40, lambda i, c: c + np.sqrt(x[i] ** 2), 0.0)
    push = lambda x: ad.jvp(f, (x,), (np.eye(40)[first],))[1]
    with np.errstate(all="ignore"):
        for run in (push, ad.jit(push)):
            np.testing.assert_array_equal(run(LONG), np.nan if first == 0 else 1.0)


def test_programs_for_people_have_no_masks():
    assert "where" not in str(ad.symbolic("sin(x) * sqrt(x)", "x").diff("x"))
