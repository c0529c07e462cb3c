"""What bad input gets: an error of the fitting kind that names the user's own line and what to write instead."""

import contextlib
import math
import os
import pickle
import traceback

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp

HERE = os.path.basename(__file__)
PACKAGE = os.path.dirname(os.path.abspath(ad.__file__))
X = np.array([1.0, 2.0, 3.0])


@contextlib.contextmanager
def complaint(kind, *words, clean=True):
    """The block must raise an AdjointError of this kind that names the innermost line of this file, and these words."""
    with pytest.raises(ad.AdjointError) as caught:
        yield
    error = caught.value
    assert isinstance(error, kind), type(error)
    frames = traceback.extract_tb(error.__traceback__)
    line = next(f.lineno for f in reversed(frames) if os.path.basename(f.filename) == HERE)
    message = str(error)
    assert f"({HERE}:{line})" in message, (line, message)
    for word in words:
        assert word in message, message
    if clean:
        ours = our_frames(error)
        assert ours in ([], ["entry"]), ours


def our_frames(error):
    """Names of our functions in a traceback. Python itself adds the one that the error leaves us by."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f.name for f in frames if f.filename.startswith((PACKAGE, "<adjoint"))]


TRANSFORMS = {
    "grad": lambda f: ad.grad(f)(2.0),
    "value_and_grad": lambda f: ad.value_and_grad(f)(2.0),
    "jvp": lambda f: ad.jvp(f, (2.0,), (1.0,)),
    "vjp": lambda f: ad.vjp(f, 2.0),
    "linearize": lambda f: ad.linearize(f, 2.0),
    "jacfwd": lambda f: ad.jacfwd(f)(2.0),
    "jacrev": lambda f: ad.jacrev(f)(2.0),
    "jacobian": lambda f: ad.jacobian(f)(2.0),
    "hessian": lambda f: ad.hessian(f)(2.0),
    "hvp": lambda f: ad.hvp(f)(2.0, 1.0),
    "elementwise_grad": lambda f: ad.elementwise_grad(f)(2.0),
    "derivative": lambda f: ad.derivative(f)(2.0),
    "vmap": lambda f: ad.vmap(f)(X),
}
every_transform = pytest.mark.parametrize("transform", TRANSFORMS)

# -- results ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [ad.grad, ad.value_and_grad, ad.hessian])
def test_non_scalar_result(transform):
    with complaint(ValueError, "scalar", "shape (3,)", "sum it", "jacobian"):
        transform(lambda x: x * 2)(X)
    with complaint(ValueError, "one scalar result", "has_aux=True"):
        transform(lambda x: (x.sum(), x.sum()))(X)


def test_complex_integer_or_boolean_result():
    with complaint(TypeError, "real result", "holomorphic=True", "np.real"):
        ad.grad(lambda z: z * z)(1 + 2j)
    with complaint(TypeError, "complex arguments", "astype(complex)"):
        ad.grad(lambda z: z * z, holomorphic=True)(1.0)
    with complaint(TypeError, "holomorphic=True"):
        ad.jacfwd(lambda z: z * z)(np.array([1j]))
    with complaint(TypeError, "float result", "int"):
        ad.grad(lambda x: 3)(1.0)
    with complaint(TypeError, "float result", "bool"):
        ad.grad(lambda x: x > 1)(2.0)
    with complaint(TypeError, "float result", "int"):
        ad.elementwise_grad(np.argmax)(X)


@every_transform
def test_a_function_that_returns_none(transform):
    def forgets(x):
        x * 2

    if transform == "vmap":
        assert ad.vmap(forgets)(X) is None  # nothing is a container of nothing
        return
    with complaint(TypeError, "forgets returned None", "return statement"):
        TRANSFORMS[transform](forgets)


@every_transform
def test_a_function_that_returns_text(transform):
    with complaint(TypeError, "returned", "str"):
        TRANSFORMS[transform](lambda x: "text")


def test_a_function_that_returns_objects():
    with complaint(TypeError, "objects", "np.stack"):
        ad.grad(lambda x: np.array([None, x.sum], dtype=object))(X)


def test_has_aux_needs_a_pair():
    for run in (
        lambda f: ad.grad(f, has_aux=True)(X),
        lambda f: ad.vjp(f, X, has_aux=True),
        lambda f: ad.jvp(f, (X,), (X,), has_aux=True),
        lambda f: ad.jacfwd(f, has_aux=True)(X),
    ):
        with complaint(TypeError, "pair (value, aux)"):
            run(np.sum)


# -- arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, kind, words",
    [
        (3, TypeError, ("argument 0", "int", "write 3.0")),
        (np.int64(3), TypeError, ("argument 0", "int64", "write 3.0")),
        (True, TypeError, ("argument 0", "bool")),
        (np.arange(3), TypeError, ("argument 0", "int64", "astype(float)")),
        (np.array([True]), TypeError, ("argument 0", "bool", "astype(float)")),
        ("text", TypeError, ("argument 0", "str")),
        (b"text", TypeError, ("argument 0", "bytes")),
        (np.array(["a"]), TypeError, ("argument 0", "<U1")),
        (np.array([1.0, None]), TypeError, ("argument 0", "object")),
        (object(), TypeError, ("argument 0", "object")),
        (np.ma.array([1.0]), TypeError, ("argument 0", "masked")),
        ({"w": [1.0, 2]}, TypeError, ("argument 0['w'][1]", "int")),
        ([1.0, "b"], TypeError, ("argument 0[1]", "str")),
        (np.array(["2020-01-01"], "M8[D]"), TypeError, ("argument 0", "datetime")),
    ],
)
def test_an_input_that_cannot_be_differentiated(value, kind, words):
    f = lambda x: 1.0
    for run in (
        lambda: ad.grad(f)(value),
        lambda: ad.vjp(f, value),
        lambda: ad.jvp(f, (value,), (value,)),
        lambda: ad.jacfwd(f)(value),
        lambda: ad.jacrev(f)(value),
        lambda: ad.linearize(f, value),
        lambda: ad.hessian(f)(value),
    ):
        with complaint(kind, *words):
            run()


def test_integers_are_welcome_where_they_are_not_differentiated():
    assert ad.grad(lambda x, n: x**n)(2.0, 3) == 12.0


def test_argnums():
    f = lambda x, y: x * y
    for transform in (
        ad.grad,
        ad.value_and_grad,
        ad.jacfwd,
        ad.jacrev,
        ad.jacobian,
        ad.hessian,
        ad.elementwise_grad,
        ad.derivative,
    ):
        with complaint(TypeError, "argnums=2", "out of range", "2 positional"):
            transform(f, 2)(1.0, 2.0)
        with complaint(TypeError, "argnums=-3", "out of range"):
            transform(f, -3)(1.0, 2.0)
        with complaint(TypeError, "argnums", "'x'"):
            transform(f, "x")(1.0, 2.0)
    with complaint(TypeError, "argnums", "1.0"):
        ad.grad(f, 1.0)(1.0, 2.0)
    with complaint(TypeError, "twice"):
        ad.grad(f, (1, -1))(1.0, 2.0)
    with complaint(TypeError, "empty"):
        ad.grad(f, ())(1.0, 2.0)
    with complaint(TypeError, "out of range", "keyword"):
        ad.grad(f)(x=1.0, y=2.0)
    with complaint(TypeError, "hvp(f)(x, v)"):
        ad.hvp(f)(1.0)
    with complaint(TypeError, "one scalar argument"):
        ad.derivative(f, (0, 1))(1.0, 2.0)
    with complaint(ValueError, "scalar argument", "elementwise_grad"):
        ad.derivative(np.sin)(X)


@pytest.mark.parametrize(
    "name",
    [
        "grad",
        "value_and_grad",
        "jacfwd",
        "jacrev",
        "jacobian",
        "hessian",
        "hvp",
        "elementwise_grad",
        "derivative",
        "vmap",
        "checkpoint",
        "custom_jvp",
        "custom_vjp",
    ],
)
def test_what_is_transformed_must_be_a_function(name):
    with complaint(TypeError, f"{name} expects a function", "float", clean=False):
        getattr(ad, name)(3.0)


def test_transforms_that_run_at_once_need_a_function_too():
    with complaint(TypeError, "jvp expects a function"):
        ad.jvp(3.0, (1.0,), (1.0,))
    with complaint(TypeError, "vjp expects a function"):
        ad.vjp(3.0, 1.0)
    with complaint(TypeError, "linearize expects a function"):
        ad.linearize(3.0, 1.0)
    with complaint(TypeError, "at least one argument"):
        ad.vjp(np.sin)


# -- tangents and cotangents --------------------------------------------------------------------------------------


def test_tangents_that_do_not_fit():
    f = lambda x: x * 2
    with complaint(ValueError, "tangent of argument 0", "(2,)", "(3,)"):
        ad.jvp(f, (X,), (np.ones(2),))
    with complaint(TypeError, "tangent of argument 0", "float32", "float64", "astype"):
        ad.jvp(f, (X,), (X.astype(np.float32),))
    with complaint(TypeError, "tangent of argument 0", "int", "astype"):
        ad.jvp(f, (X,), (np.ones(3, int),))
    with complaint(TypeError, "tangent", "complex128"):
        ad.jvp(f, (X,), (X * 1j,))
    with complaint(ValueError, "1 primals and 2 tangents"):
        ad.jvp(f, (X,), (X, X))
    with complaint(TypeError, "tuple", "jvp(f, (x,), (v,))"):
        ad.jvp(f, X, X)
    with complaint(TypeError, "tangents of jvp"):
        ad.jvp(f, (X,), X)
    with complaint(ValueError, "structure"):
        ad.jvp(lambda t: t["a"], ({"a": X},), ({"b": X},))
    with complaint(ValueError, "structure"):
        ad.jvp(f, (X,), (None,))
    with complaint(TypeError, "str"):
        ad.jvp(f, (X,), ("text",))
    push = ad.linearize(f, X)[1]
    with complaint(ValueError, "(2,)", "(3,)"):
        push(np.ones(2))
    with complaint(ValueError, "1 tangents, got 2"):
        push(X, X)


def test_cotangents_that_do_not_fit():
    _, pull = ad.vjp(lambda x: x * 2, X)
    with complaint(ValueError, "cotangent", "(2,)", "(3,)"):
        pull(np.ones(2))
    with complaint(ValueError, "cotangent", "()", "(3,)"):
        pull(1.0)
    with complaint(TypeError, "cotangent", "float32", "astype(float64)"):
        pull(X.astype(np.float32))
    with complaint(ValueError, "cotangent", "structure"):
        pull((X, X))
    with complaint(ValueError, "cotangent", "structure"):
        pull(None)
    _, pull = ad.vjp(lambda x: {"a": x, "b": (x, x)}, X)
    with complaint(ValueError, "cotangent['b'][1]", "(2,)"):
        pull({"a": X, "b": (X, np.ones(2))})


# -- leaks --------------------------------------------------------------------------------------------------------


@every_transform
def test_a_leaked_value_is_refused_wherever_it_is_used(transform):
    kept = []

    def leaks(x):
        kept.append(x)
        return x * 2.0

    TRANSFORMS[transform](leaks)
    leaked = kept[-1]
    with complaint(RuntimeError, "after", "had returned", "has_aux=True", clean=False):
        leaked + 1.0
    with complaint(RuntimeError, "had returned", clean=False):
        np.sin(leaked)
    with complaint(RuntimeError, "had returned", clean=False):
        np.greater(leaked, 1)
    with complaint(RuntimeError, "had returned", clean=False):
        np.ones(3) * leaked
    with complaint(RuntimeError, "had returned", clean=False):
        ad.stop_gradient(leaked)
    with complaint(RuntimeError, "had returned", clean=False):
        np.stack([leaked, 1.0])
    for again in TRANSFORMS:
        with complaint(RuntimeError, "had returned"):
            TRANSFORMS[again](lambda y: leaked)
        with complaint(RuntimeError, "had returned"):
            TRANSFORMS[again](lambda y: y * leaked)
    for use in (
        lambda: ad.grad(np.sin)(leaked),
        lambda: ad.jvp(np.sin, (leaked,), (1.0,)),
        lambda: ad.vjp(np.sin, leaked),
        lambda: ad.grad(lambda y: (y, leaked), has_aux=True)(1.0),
        lambda: ad.jvp(lambda y: (y, leaked), (1.0,), (1.0,), has_aux=True),
        lambda: ad.checkpoint(np.sin)(leaked),
    ):
        with complaint(RuntimeError, "had returned", clean=False):
            use()


def test_a_value_of_an_inner_transform_leaks_into_the_outer_one():
    def outer(x):
        kept = []
        ad.grad(lambda y: (kept.append(y), y * x)[1])(2.0)
        return x * kept[0]

    with complaint(RuntimeError, "traced by grad", "had returned"):
        ad.grad(outer)(3.0)


# -- conversions that would lose a derivative ---------------------------------------------------------------------

SCALAR_CONVERSIONS = {
    "float": float,
    "complex": complex,
    "math.sin": math.sin,
    "math.exp": math.exp,
    "np.array": np.array,
    "np.array list": lambda x: np.array([x]),
    "np.array nested": lambda x: np.array([[x, 1.0], [2.0, x]]),
    "np.asarray": np.asarray,
    "np.asarray list": lambda x: np.asarray([x, x]),
    "np.array dtype": lambda x: np.array([x], dtype=float),
    "np.array object": lambda x: np.array([x], dtype=object),
    "np.float64": np.float64,
    "np.float32": np.float32,
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "plain[0]": lambda x: np.zeros(3).__setitem__(0, x),
    "plain[:]": lambda x: np.zeros(3).__setitem__(slice(None), x),
    "plain[mask]": lambda x: np.zeros(3).__setitem__(np.array([True, False, True]), x),
    "plain.fill": lambda x: np.zeros(3).fill(x),
    "pickle": pickle.dumps,
    "format of a list": lambda x: f"{math.sqrt(x):.2f}",
}


@pytest.mark.parametrize("what", SCALAR_CONVERSIONS)
@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap", "derivative", "jacrev"])
def test_conversion_of_a_scalar(what, transform):
    convert = SCALAR_CONVERSIONS[what]
    with complaint(TypeError):
        TRANSFORMS[transform](lambda x: (convert(x), x)[1])


ARRAY_CONVERSIONS = {
    "np.array": np.array,
    "np.asarray": np.asarray,
    "np.ascontiguousarray": np.ascontiguousarray,
    "np.array list": lambda x: np.array([x, x]),
    "plain[:]": lambda x: np.zeros(3).__setitem__(slice(None), x),
    "plain[2d]": lambda x: np.zeros((2, 3)).__setitem__(0, x),
    "ints[:]": lambda x: np.zeros(3, int).__setitem__(slice(None), x),
    "float of element": lambda x: float(x[0]),
    "tolist": lambda x: x.tolist(),
    "out=": lambda x: np.add(x, 1.0, out=np.zeros(3)),
    "sum out=": lambda x: np.sum(x, out=np.zeros(())),
    "iadd": lambda x: np.zeros(3).__iadd__(x),
    "ufunc.at": lambda x: np.add.at(np.zeros(3), [0, 1, 2], x),
    "copyto": lambda x: np.copyto(np.zeros(3), x),
    "put": lambda x: np.put(np.zeros(3), [0, 1, 2], x),
}


@pytest.mark.parametrize("what", ARRAY_CONVERSIONS)
def test_conversion_of_an_array(what):
    convert = ARRAY_CONVERSIONS[what]
    for run in (
        lambda f: ad.grad(f)(X),
        lambda f: ad.jvp(f, (X,), (X,)),
        lambda f: ad.vmap(f)(np.ones((2, 3))),
        lambda f: ad.hessian(f)(X),
    ):
        with complaint((TypeError, ValueError)):
            run(lambda x: (convert(x), np.sum(x))[1])


def test_conversions_name_the_fix():
    with complaint(TypeError, "float()", "NumPy functions instead of math's", "ad.stop_gradient"):
        ad.grad(lambda x: math.sin(x))(1.0)
    with complaint(TypeError, "adjoint.numpy", "np.stack"):
        ad.grad(lambda x: np.array([x, x]).sum())(1.0)

    def writes(x):
        a = np.zeros(3)
        a[0] = x
        return a.sum()

    with complaint(TypeError, "a = adjoint.numpy.array(a)"):
        ad.grad(writes)(1.0)
    with complaint(TypeError, "a = adjoint.numpy.array(a)"):
        ad.grad(lambda x: writes(x[0]))(X)

    with complaint(ValueError, "out=", "adjoint.numpy"):
        ad.grad(lambda x: np.sum(np.sin(x, out=np.zeros(3))))(X)

    def adds_to_plain(x):
        a = np.zeros(3)
        a += x
        return a.sum()

    with complaint(ValueError, "adjoint.numpy"):
        ad.grad(adds_to_plain)(X)


def test_constants_convert_freely():
    f = lambda x: x * math.sin(ad.stop_gradient(x)) + np.array([ad.stop_gradient(x)])[0] + float(ad.stop_gradient(x))
    np.testing.assert_allclose(ad.grad(f)(1.0), math.sin(1.0))
    np.testing.assert_allclose(ad.derivative(f)(1.0), math.sin(1.0))


# -- what has no derivative ---------------------------------------------------------------------------------------


def test_unsupported_functions():
    with complaint(NotImplementedError, "np.packbits", "cannot be differentiated", "ad.custom_vjp"):
        ad.grad(lambda x: np.sum(np.packbits(x)))(X)
    with complaint(NotImplementedError, "reduceat", "not supported"):
        ad.grad(lambda x: np.sum(np.frompyfunc(lambda a, b: a - b, 2, 1).reduceat(x, [0, 1])))(X)
    with complaint(NotImplementedError, "where="):
        ad.grad(lambda x: np.sum(np.sin(x, where=[True, False, True])))(X)
    ufunc = np.frompyfunc(lambda a: a, 1, 1)
    with complaint(NotImplementedError, "cannot be differentiated"):
        ad.grad(lambda x: np.sum(ufunc(x)))(X)


def test_operands_that_are_no_numbers():
    for f in (lambda x: x + "a", lambda x: x * None, lambda x: x @ {}, lambda x: object() - x, lambda x: x < "b"):
        with pytest.raises(TypeError):
            ad.grad(f)(X)


def test_numpys_own_errors_stay_as_they_are():
    with pytest.raises(IndexError):
        ad.grad(lambda x: x[5])(X)
    with pytest.raises(IndexError):
        ad.grad(lambda x: x[0, 0])(X)
    with pytest.raises(IndexError):
        ad.grad(lambda x: x[1.0])(X)
    with pytest.raises(ValueError, match="broadcast"):
        ad.grad(lambda x: np.sum(x + np.ones(2)))(X)
    with pytest.raises(ValueError):
        ad.grad(lambda x: np.sum(x.reshape(2, 2)))(X)
    with pytest.raises(np.exceptions.AxisError):
        ad.grad(lambda x: np.sum(x, axis=3))(X)
    with pytest.raises(ValueError):
        ad.grad(lambda x: np.sum(x @ np.ones((2, 2))))(X)
    with pytest.raises(TypeError):
        ad.grad(lambda x: len(x))(1.0)
    with pytest.raises(TypeError):
        ad.grad(lambda x: next(iter(x)))(1.0)
    with pytest.raises(AttributeError):
        ad.grad(lambda x: x.no_such_method())(X)
    with pytest.raises(TypeError):
        ad.grad(lambda x: x)(X, unknown=1)


# -- vmap ---------------------------------------------------------------------------------------------------------


def test_vmap_mistakes():
    f = lambda x, y: x * y
    with complaint(ValueError, "batch sizes", "argument 0 has 3", "argument 1 has 2"):
        ad.vmap(f)(X, np.ones(2))
    with complaint(ValueError, "argument 0['a'] has 3", "argument 1 has 2"):
        ad.vmap(lambda t, y: y)({"a": X}, np.ones(2))
    with complaint(ValueError, "in_axes", "3 entries", "2 positional"):
        ad.vmap(f, in_axes=(0, 0, 0))(X, X)
    with complaint(ValueError, "no axis 1", "in_axes=None"):
        ad.vmap(f, in_axes=(1, 0))(X, X)
    with complaint(ValueError, "no axis 0", "in_axes=None"):
        ad.vmap(f)(X, 2.0)
    with complaint(ValueError, "nothing to map"):
        ad.vmap(f, in_axes=None)(X, X)
    with complaint(ValueError, "nothing to map"):
        ad.vmap(lambda: 1.0)()
    with complaint(ValueError, "in_axes", "integer or None"):
        ad.vmap(f, in_axes=(0, "b"))(X, X)
    with complaint(ValueError, "in_axes", "structure"):
        ad.vmap(lambda t: t["a"], in_axes=({"b": 0},))({"a": X})
    with complaint(ValueError, "out_axes", "out of range"):
        ad.vmap(f, out_axes=2)(X, X)
    with complaint(ValueError, "out_axes is None", "differs"):
        ad.vmap(f, out_axes=None)(X, X)
    with complaint(ValueError, "out_axes", "structure"):
        ad.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(X)
    with complaint(TypeError, "str", "in_axes=None"):
        ad.vmap(f)(X, "text")
    with complaint(TypeError, "chunk_size", clean=False):
        ad.vmap(f, chunk_size=0)
    with complaint(TypeError, "chunk_size", clean=False):
        ad.vmap(f, chunk_size=1.5)
    with complaint(TypeError, "in_axes", clean=False):
        ad.vmap(f, in_axes="x")
    with complaint((TypeError, ValueError), "out_axes"):
        ad.vmap(f, out_axes="x")(X, X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x if x > 1 else -x,
        lambda x: x * int(x),
        lambda x: np.ones(3)[x > 1],
        lambda x: x * (1.0 if x in [1.0] else 2.0),
        lambda x: sorted([x, 2.0])[0],
        lambda x: max(x, 2.0),
        lambda x: x * len(range(int(x))),
    ],
)
def test_branching_on_a_batch(f):
    with complaint((TypeError, ValueError)):
        ad.vmap(f)(X)


def test_a_plain_table_indexed_by_a_batch():
    table, i = np.arange(5.0), np.array([0, 3, 3])
    with complaint(TypeError, "adjoint.numpy.array(a)[i]"):
        ad.vmap(lambda i: table[i])(i)
    np.testing.assert_array_equal(ad.vmap(lambda i: anp.array(table)[i])(i), table[i])
    np.testing.assert_array_equal(ad.vmap(lambda a, i: a[i], in_axes=(None, 0))(table, i), table[i])


def test_a_branch_on_a_batch_says_what_to_do():
    with complaint(ValueError, "the truth of", "np.where", "ad.map"):
        ad.vmap(lambda x: x if x > 1 else -x)(X)


# -- tracebacks ---------------------------------------------------------------------------------------------------


class MineError(Exception):
    pass


def raises_mine(x):
    raise MineError("from the user")


@every_transform
def test_errors_of_the_users_own_come_without_our_frames(transform):
    with pytest.raises(MineError) as caught:
        TRANSFORMS[transform](raises_mine)
    assert our_frames(caught.value) == ["entry"]
    assert caught.value.__cause__ is None
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "raises_mine"


def test_nested_transforms_are_clean_too():
    with pytest.raises(MineError) as caught:
        ad.grad(ad.vmap(ad.jacfwd(raises_mine)))(X)
    assert our_frames(caught.value) == ["entry"]


def test_the_full_traceback_can_be_had(monkeypatch):
    monkeypatch.setenv("ADJOINT_FULL_TRACEBACK", "1")
    with pytest.raises(MineError) as caught:
        ad.grad(raises_mine)(1.0)
    assert len(our_frames(caught.value)) > 1


def test_a_failed_call_leaves_nothing_behind():
    for transform in TRANSFORMS.values():
        with pytest.raises(MineError):
            transform(raises_mine)
    from adjoint.core.bind import depth

    assert depth.get() == 0
    assert type(anp.zeros(3)) is np.ndarray
    assert ad.grad(np.sin)(0.0) == 1.0


def test_errors_pickle():
    with pytest.raises(ad.AdjointError) as caught:
        ad.grad(lambda x: x)(X)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.line == caught.value.line
    assert type(again) is type(caught.value)


# -- custom rules and own ops -------------------------------------------------------------------------------------


def test_custom_rules_that_do_not_fit():
    f = ad.custom_vjp(lambda x, y: x * y)
    with complaint(TypeError, "no rule", "defvjp", clean=False):
        f(1.0, 2.0)
    f.defvjp(lambda x, y: (x * y, (x, y)), lambda res, g: (g,))
    with complaint(ValueError, "tuple of 2 cotangents", "got 1"):
        ad.grad(f)(1.0, 2.0)
    f.defvjp(lambda x, y: (x * y, (x, y)), lambda res, g: (np.ones(4), g))
    with complaint(ValueError, "shape (4,)", "expected ()"):
        ad.grad(f)(1.0, 2.0)
    f.defvjp(lambda x, y: x * y, lambda res, g: (g, g))
    with complaint(TypeError, "(result, residuals)"):
        ad.grad(f)(1.0, 2.0)
    g = ad.custom_jvp(lambda x: x * x)
    with complaint(TypeError, "no rule", "defjvp", clean=False):
        g(1.0)
    g.defjvp(lambda primals, tangents: primals[0])
    with complaint(TypeError, "(result, tangent of the result)"):
        ad.derivative(g)(1.0)


def test_custom_functions_see_only_their_arguments():
    def with_vjp(w):
        f = ad.custom_vjp(lambda x: x * w)
        f.defvjp(lambda x: (x * w, None), lambda res, g: (g,))
        return f

    def with_jvp(w):
        f = ad.custom_jvp(lambda x: x * w)
        f.defjvp(lambda primals, tangents: (primals[0] * w, tangents[0] * w))
        return f

    def apply(w, make):
        return make(w)(w)

    for make in (with_vjp, with_jvp, lambda w: ad.checkpoint(lambda x: x * w)):
        with complaint(TypeError, "pass it as an argument"):
            ad.grad(apply)(3.0, make)
        assert ad.grad(lambda w, make: make(w)(2.0))(3.0, make) == 2.0
    for make in (with_vjp, with_jvp):
        with complaint(TypeError, "pass it as an argument"):
            ad.derivative(apply)(3.0, make)
        with complaint(TypeError, "pass it as an argument"):
            ad.vmap(apply, in_axes=(0, None))(X, make)


def test_own_ops_that_do_not_fit():
    with complaint(TypeError, "jvp= or vjp=", clean=False):
        ad.extend.opaque("half_an_op", np.sin)
    with complaint(TypeError, "choose another", clean=False):
        ad.extend.elementwise("sin", np.sin, partials=lambda y, x: (np.cos(x),))
    with complaint(TypeError, "name", clean=False):
        ad.extend.elementwise("", np.sin, partials=lambda y, x: (np.cos(x),))
    op = ad.extend.elementwise("two_partials", np.sin, partials=lambda y, x: (1, 2))
    with complaint(TypeError, "tuple of 1"):
        ad.grad(op)(1.0)
    op = ad.extend.linear("unbatched", lambda x: x[::-1], transpose=lambda g, x: g[::-1])
    with complaint(NotImplementedError, "no batching rule for 'unbatched'", "batch="):
        ad.vmap(op)(np.ones((2, 2)))


# -- the imperative style -----------------------------------------------------------------------------------------


def test_imperative_mistakes():
    x = ad.array(X, requires_grad=True)
    with complaint(ValueError, "shape (3,)", "y.backward(gradient)", clean=False):
        (x * 2).backward()
    with complaint(ValueError, "(2,)", "(3,)", clean=False):
        (x * 2).backward(np.ones(2))
    y = (x * x).sum()
    y.backward()
    with complaint(RuntimeError, "freed", "retain_graph=True", clean=False):
        y.backward()
    with complaint(RuntimeError, "no_grad", clean=False):
        x += 1.0
    with complaint(RuntimeError, "no_grad", clean=False):
        x[0] = 1.0
    with complaint(RuntimeError, "no_grad", clean=False):
        x[:2][0] = 1.0
    with complaint(TypeError, "requires_grad", "int", clean=False):
        ad.array([1, 2], requires_grad=True)
    with complaint(TypeError, "numbers", clean=False):
        ad.array("text")
    with complaint(TypeError, "float()", clean=False):
        float(ad.array(1.0, requires_grad=True))

    def mixed(z):
        (ad.array(2.0, requires_grad=True) * z).backward()

    with complaint(TypeError, "a value of grad", "return the value instead", clean=False):
        ad.grad(mixed)(3.0)


def test_an_integer_array_does_not_swallow_a_traced_value():
    def f(x):
        counts = np.zeros(3, dtype=int)
        counts[0] = x
        return x * counts[0]

    with pytest.raises(ad.AdjointError, match=r"integer array would lose its derivative.*test_errors.py:\d+") as error:
        ad.grad(f)(2.5)
    assert isinstance(error.value, TypeError)
    assert ad.grad(lambda x: x * int(x))(2.5) == 2
    assert ad.grad(lambda x: sum([x] * int(x)))(2.5) == 2


def test_an_error_that_c_code_has_buried_is_dug_out():
    import scipy.optimize

    with pytest.raises(ad.AdjointError, match=r"scipy.optimize.brentq, would lose its derivative.*numerical.*test_errors.py:\d+"):
        ad.grad(lambda x: scipy.optimize.brentq(lambda t: t - x, -10, 10))(0.5)


@pytest.mark.parametrize("error", [AttributeError, SystemError, ValueError, ZeroDivisionError])
def test_c_code_that_calls_python_again_with_our_error_set(error):
    """SciPy's root finders do. What fails then is whatever Python does next."""
    import scipy.optimize

    def difference(t, x):
        if t > 0:
            raise error("some operation failed")
        return t - x

    with pytest.raises(ad.AdjointError, match=r"scipy\.optimize\.brentq, would lose its derivative"):
        ad.grad(lambda x: scipy.optimize.brentq(difference, -10, 10, args=(x,)))(0.5)


def test_a_comprehension_catches_nothing():
    """Compiled into its function, it has a handler that restores its variable: an operation in it may fail all the same."""

    def f(x):
        [np.linalg.inv(m) for m in x]
        return np.sum(x)

    compiled = ad.jit(f)
    x = np.stack([np.eye(2), 2 * np.eye(2)])
    assert compiled(x) == f(x)
    assert not compiled.eager


def test_an_error_of_an_earlier_call_is_not_taken_for_this_one():
    """A refusal that the function has caught is remembered by its frame, and a later frame may have the same identity."""

    def reads(x, first):
        return (float if first else {}.__getitem__)(x)

    def caught(x):
        with pytest.raises(TypeError):
            reads(x, True)
        return x

    for _ in range(20):
        ad.grad(caught)(1.0)
        with pytest.raises(KeyError):
            ad.grad(lambda x: reads(x, False))(1.0)
