"""Bad input raises an error of the right class that names the user's line and says what to write instead."""

import dis
import os
import pickle
import types

import numpy as np
import pytest
from complaints import X, complaint

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core import errors

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


def test_operands_that_are_not_numbers():
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


# -- pickling -----------------------------------------------------------------------------------------------------


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


def test_a_comprehension_catches_nothing():
    """Compiled into its function, it has a handler that restores its variable: an operation in it may fail all the same."""

    def f(x):
        [np.linalg.inv(m) for m in x]
        return np.sum(x)

    compiled = ad.jit(f)
    x = np.stack([np.eye(2), 2 * np.eye(2)])
    assert compiled(x) == f(x)
    assert not compiled.eager


def _over_several_lines(x):
    def inner(y):
        return [
        y + a
        for a in range(3)
    ]  # fmt: skip

    try:
        with np.errstate(all="ignore"):
            return inner(
                x,
            )
    finally:
        del x


@pytest.mark.parametrize("f", [_over_several_lines, lambda: (yield), errors.user_line, np.linalg.norm.__wrapped__])
def test_the_line_of_each_instruction(f):
    waiting = [f.__code__]
    for code in waiting:
        waiting += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        name = os.path.basename(code.co_filename)
        wanted = [f"{name}:{line or code.co_firstlineno}" for line, *_ in code.co_positions()]
        assert errors._lines_of(code) == wanted


@pytest.mark.parametrize(("body", "reads"), [("x = x + 1", 0), ("try: x = x + 1\n    except ValueError: pass", 1)])
def test_instructions_are_read_only_where_errors_are_caught(monkeypatch, body, reads):
    read = []
    instructions = dis.get_instructions
    monkeypatch.setattr(dis, "get_instructions", lambda code: read.append(code) or instructions(code))
    space = {}
    exec(f"def f(x):\n    {body}\n    return x\n", space)
    assert bool(errors._handlers(space["f"].__code__)) == bool(reads)
    assert len(read) == reads


def test_the_lines_of_a_long_function():
    source = "def f(x):\n" + "".join(f"    x = x * {i}.5\n" for i in range(2000)) + "    return x\n"
    space = {}
    exec(compile(source, "long.py", "exec"), space)
    assert [e.line for e in ad.graph(space["f"])(1.0).equations] == [f"long.py:{i}" for i in range(2, 2002)]
