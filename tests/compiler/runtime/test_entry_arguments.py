"""The native check of arguments: arguments that fit run the program, all others are compiled separately or run eagerly."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import adjoint as ad

X = np.arange(6.0).reshape(2, 3)
ARGUMENTS = {
    "another array": X + 1,
    "by columns": np.asfortranarray(X),
    "strided": np.repeat(X, 2, axis=0)[::2],
    "reversed": X[::-1],
    "read-only": np.broadcast_to(np.float64(2.0), (2, 3)),
    "single": X.astype(np.float32),
    "integers": X.astype(int),
    "another shape": X[:1],
    "swapped bytes": X.astype(">f8"),
    "unaligned": np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(float).reshape(2, 3),
    "empty": X[:0],
    "subclass": X.view(np.matrix),
    "scalar": np.float64(2.0),
    "number": 2.0,
    "whole number": 2,
    "list": [1.0, 2.0],
}


def f(x):
    return np.multiply(x, 2.0) if not isinstance(x, list) else [v * 2.0 for v in x]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_after_a_first_call_every_other_argument_is_right(name):
    compiled = ad.jit(f)
    compiled(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for _ in range(2):
            found, expected = compiled(ARGUMENTS[name]), f(ARGUMENTS[name])
            np.testing.assert_array_equal(found, expected)
            assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(compiled(X), f(X))


@pytest.mark.parametrize(
    "tree", [(X, [X, X]), {"a": X, "b": (X,)}, {"b": X, "a": X}, [X, None], ((), X), (X, (X, {"c": [X]}))], ids=range(6)
)
def test_containers_are_opened(tree):
    total = lambda t: sum(np.sum(x) for x in ad.core.tree.flatten(t)[0])
    compiled = ad.jit(total)
    for _ in range(3):
        assert compiled(tree) == total(tree)


def test_a_container_of_another_length_misses():
    compiled = ad.jit(lambda xs: sum(np.sum(x) for x in xs))
    assert [compiled([X] * n) for n in (1, 2, 1)] == [np.sum(X), 2 * np.sum(X), np.sum(X)]


def test_places_outside_are_checked_at_each_call():
    scale = 2.0
    model = SimpleNamespace(w=X, layers=[1.0, 2.0])
    compiled = ad.jit(lambda x: x * scale + model.w + model.layers[1])
    expected = lambda x: x * scale + model.w + model.layers[1]
    np.testing.assert_array_equal(compiled(X), expected(X))
    for change in ("scale", "array", "item", "length"):
        if change == "scale":
            scale = 3.0
        elif change == "array":
            model.w = X - 1
        elif change == "item":
            model.layers[1] = 5.0
        else:
            model.layers.append(0.0)
        np.testing.assert_array_equal(compiled(X), expected(X))


def test_keywords_and_defaults():
    compiled = ad.jit(lambda x, y=1.0, *, z=2.0: x + y * z)
    assert [compiled(1.0), compiled(1.0, 3.0), compiled(1.0)] == [3, 7, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it is compiled for each way to call it
        assert [compiled(1.0, y=3.0), compiled(1.0, z=4.0), compiled(x=1.0)] == [7, 5, 3]
    with pytest.raises(TypeError):
        compiled()
