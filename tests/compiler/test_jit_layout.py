"""What is a view and what is a copy under `jit`, for arguments in any memory order."""

import warnings

import numpy as np
import pytest
from inplace import same_layout

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.jit import CompileWarning

A = np.arange(12.0).reshape(3, 4) / 7 - 0.5
LAYOUTS = {
    "rows": A,
    "columns": np.asfortranarray(A),
    "upside down": np.ascontiguousarray(A[::-1])[::-1],
    "mirrored": np.ascontiguousarray(A[:, ::-1])[:, ::-1],
    "gaps": np.repeat(A, 2, axis=-1)[..., ::2],
    "gaps between rows": np.repeat(A, 2, axis=0)[::2],
}


def through_ravel(np, x):
    flat = x.ravel()
    for i in range(len(x)):
        x[i] = x[i - 1] * 0.9
    return x, flat


def of_a_new_array(np, x):
    y = x * 2.0
    rows, columns = y.reshape(-1), y.T.reshape(-1)
    rows[0], columns[1] = 5.0, 7.0
    return y, rows, columns


def of_a_copy(np, x):
    y = x.copy()
    flat = np.ascontiguousarray(y)
    flat += 1.0
    return y, flat


FUNCTIONS = [through_ravel, of_a_new_array, of_a_copy]


def total(f):
    return lambda x: sum((i + 1.0) * np.sum(np.sin(y)) for i, y in enumerate(f(anp, x)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("first", LAYOUTS)
def test_views_follow_the_order_of_the_arguments(f, first):
    """Whichever comes first: each order has its own program where it matters."""
    value, slope = ad.jit(lambda x: f(anp, x)), ad.jit(ad.grad(total(f)))
    curvature = ad.jit(lambda x: ad.jvp(ad.grad(total(f)), (x,), (np.ones((3, 4)),))[1])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*compiled again", CompileWarning)
        for x in (LAYOUTS[first], *LAYOUTS.values(), LAYOUTS[first]):
            before = x.copy()
            for found, wanted in zip(value(x), f(np, same_layout(x)), strict=True):
                np.testing.assert_allclose(found, wanted)
            np.testing.assert_allclose(slope(x), ad.grad(total(f))(x))
            np.testing.assert_array_equal(x, before)
        np.testing.assert_allclose(curvature(x), ad.hvp(total(f))(x, np.ones((3, 4))))
    assert not value.eager


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pullbacks_and_eager_runs_keep_the_order(layout):
    """`vjp` works on a copy, and a function that does not compile is given one: both are held as the array is."""
    x = LAYOUTS[layout]
    wanted = through_ravel(np, same_layout(x))

    def uncompiled(x):
        assert len(str(x)) > 3
        return through_ravel(anp, x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        for found in (ad.vjp(lambda x: through_ravel(anp, x), x)[0], ad.jit(uncompiled)(x)):
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(a, b)


def test_a_function_that_does_not_ask_has_one_program():
    compiled = ad.jit(lambda x: np.sum(np.sin(x) * 2.0) + x.T.reshape(-1)[1])
    for x in LAYOUTS.values():
        compiled(x)
    assert [len(paths) for paths in compiled.specializations.values()] == [1]


def test_arrays_outside_in_another_order():
    """They may be rebound: a function that asks for their order runs eagerly, unless they are in C order."""
    world = {"W": A}
    f = lambda np, t: of_a_new_array(np, world["W"] + t)
    compiled = ad.jit(lambda t: f(anp, t))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*not in C order", CompileWarning)
        for layout in ("rows", "columns", "rows", "gaps", "columns"):
            world["W"] = LAYOUTS[layout]
            for found, wanted in zip(compiled(1.0), f(np, 1.0), strict=True):
                np.testing.assert_allclose(found, wanted)


def a_row(np, x):
    y = x * 2.0
    row = y[np.argmax(y[:, 0])]
    row += 1.0
    return y


def a_column_of_a_part(np, x):
    y = x * 2.0
    column = y[1:, np.argmin(y[0])]
    column *= 3.0
    y[0] = 7.0
    return y, column


def a_row_seen_later(np, x):
    y = x * 2.0
    row = y[np.argmax(y[:, 0])]
    y *= 3.0
    return y, row


def a_copy_by_an_array(np, x):
    y = x * 2.0
    row = y[np.asarray(np.argmax(y[:, 0]))]
    row += 1.0
    return y, row


@pytest.mark.parametrize("f", [a_row, a_column_of_a_part, a_row_seen_later, a_copy_by_an_array])
def test_an_integer_index_gives_a_view(f):
    """An integer of NumPy's gives a view, an array without axes a copy, also where they are traced."""
    ours = lambda x: f(anp, x)
    batch = np.stack([A, A[::-1] * 1.5])
    wanted = [f(np, x.copy()) for x in batch]
    together = tuple(map(np.stack, zip(*wanted, strict=True))) if isinstance(wanted[0], tuple) else np.stack(wanted)
    for found, value in (
        (ad.jit(ours)(A), wanted[0]),
        (ad.vjp(ours, A)[0], wanted[0]),
        (ad.jit(lambda x: ad.jvp(ours, (x,), (x,))[0])(A), wanted[0]),
        (ad.vmap(ours)(batch), together),
        (ad.jit(ad.vmap(ours))(batch), together),
    ):
        for a, b in zip(
            found if isinstance(value, tuple) else [found], value if isinstance(value, tuple) else [value], strict=True
        ):
            np.testing.assert_allclose(a, b)
    slope = ad.grad(lambda x: np.sum(np.sin(ours(x)[0])) + np.sum(ours(x)[-1]))
    np.testing.assert_allclose(ad.jit(slope)(A), slope(A))
    np.testing.assert_allclose(ad.vmap(slope)(batch), np.stack([slope(x) for x in batch]))
