"""What NumPy takes for an array, next to a traced value: as an index, an operand, an argument. And what is refused by name."""

import array
import collections
import functools
import warnings

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp

X = np.array([1.0, 2.0, 3.0, 4.0])


class Like:
    """As a Series is: an object with `__array__`, and arithmetic that leaves traced values to us."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)


class Interface:
    def __init__(self, values):
        self.values = np.asarray(values)
        self.__array_interface__ = self.values.__array_interface__


INDICES = {
    "__array__": Like([0, 2]),
    "mask": Like([True, False, True, False]),
    "interface": Interface([0, 2]),
    "array.array": array.array("l", [0, 2]),
    "deque": collections.deque([0, 2]),
    "range": range(0, 4, 2),
    "memoryview": memoryview(np.array([0, 2])),
    "user list": collections.UserList([0, 2]),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_indices(index):
    chosen = np.array([1.0, 0.0, 1.0, 0.0])

    def write(x):
        y = x * 1.0
        y[index] = 0.0
        return np.sum(y)

    def update(x):
        y = x * 1.0
        y[index] *= 3.0
        return np.sum(y)

    for f, wanted in (
        (lambda x: np.sum(x[index]), chosen),
        (lambda x: np.sum(x.reshape(4, 1)[index, 0]), chosen),
        (lambda x: np.sum(x[None][:, index]), chosen),
        (write, 1 - chosen),
        (update, 1 + 2 * chosen),
    ):
        np.testing.assert_array_equal(ad.grad(f)(X), wanted)
        np.testing.assert_array_equal(ad.jvp(f, (X,), (X,))[1], wanted @ X)
        np.testing.assert_array_equal(ad.vmap(f)(np.stack([X, 2 * X])), [wanted @ X, 2 * wanted @ X])


def test_an_empty_index():
    assert ad.grad(lambda x: np.sum(x[collections.deque()]) + np.sum(x))(X).tolist() == [1.0] * 4


def test_invalid_indices():
    for index in ("a", {0: 1}, Like([0.5])):
        with pytest.raises(IndexError):
            ad.grad(lambda x, index=index: np.sum(x[index]))(X)


VALUES = {
    "__array__": Like(X),
    "interface": Interface(X),
    "array.array": array.array("d", X),
    "deque": collections.deque(X),
    "range": range(1, 5),
    "memoryview": memoryview(X.copy()),
    "subclass": X.view(np.recarray),
}
USES = {
    "x * v": lambda x, v: np.sum(x * v),
    "v * x": lambda x, v: np.sum(v * x),
    "x - v": lambda x, v: np.sum((x - v) ** 2),
    "v / x": lambda x, v: np.sum(v / x),
    "x @ v": lambda x, v: x @ v,
    "x < v": lambda x, v: np.sum(x[x <= v]),
    "in place": lambda x, v: np.sum((x * 1.0).__imul__(v)),
    "multiply": lambda x, v: np.sum(np.multiply(x, v)),
    "multiply reversed": lambda x, v: np.sum(np.multiply(v, x)),
    "dot": lambda x, v: np.dot(x, v),
    "concatenate": lambda x, v: np.sum(np.concatenate([x, v]) ** 2),
    "where": lambda x, v: np.sum(np.where(x > 2, x, v)),
    "maximum": lambda x, v: np.sum(np.maximum(x - 0.5, v)),
    "einsum": lambda x, v: np.einsum("i,i", x, v),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_operands(value, use):
    wanted = ad.grad(lambda x: use(x, np.asarray(value)))(X)
    np.testing.assert_allclose(ad.grad(lambda x: use(x, value))(X), wanted)


def test_other_objects_have_their_own_operators():
    class Mine:
        def __radd__(self, other):
            return "mine"

    seen = []
    ad.grad(lambda x: seen.append(x + Mine()) or np.sum(x))(X)
    assert seen == ["mine"]
    with pytest.raises(TypeError):
        ad.grad(lambda x: x + {1: 2})(X)
    with pytest.raises(TypeError):
        ad.grad(lambda x: x + "text")(X)


class Unit(np.ndarray):
    """An array with arithmetic of its own."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return NotImplemented


REFUSED = {
    "masked": (np.ma.masked_array(X, [0, 1, 0, 0]), "mask"),
    "matrix": (np.eye(4).view(np.matrix), r"np\.matrix"),
    "unit": (X.view(Unit), "Unit redefines arithmetic"),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("value, words", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize(
    "use",
    [
        lambda x, v: np.sum((x - v) ** 2),
        lambda x, v: np.sum(x * v),
        lambda x, v: np.sum(v * x),
        lambda x, v: np.sum(np.multiply(x, v)),
        lambda x, v: np.sum(np.concatenate([x, np.ravel(x)]) * 1.0) + np.sum(np.where(x > 0, x, v)),
    ],
)
def test_subclasses_with_a_meaning_of_their_own_are_refused(value, words, use):
    with pytest.raises(ad.AdjointError, match=words):
        ad.grad(lambda x: use(x, value))(X)


def test_a_matrix_is_not_an_argument():
    with pytest.raises(ad.AdjointError, match=r"np\.matrix"):
        ad.grad(lambda m: np.sum(m * m))(np.eye(2).view(np.matrix))


# -- keys ---------------------------------------------------------------------------------------------------------------


def memo(x):
    known = {}

    def square(v):
        if v not in known:
            known[v] = v * v
        return known[v]

    return square(x[0]) + 2 * square(x[1])


def cached(x):
    square = functools.cache(lambda v: v * v)
    return square(x[0]) + 2 * square(x[1])


def counted(x):
    table = {}
    for v in (x[0], x[1], x[0] * 1.0):
        table.setdefault(v, []).append(v)
    return sum(k * len(found) for found in table.values() for k in found)


def test_equal_numbers_are_two_keys():
    equal = np.array([1.0, 1.0])
    for f in (memo, cached):
        np.testing.assert_array_equal(ad.grad(f)(equal), [2.0, 4.0])
        np.testing.assert_array_equal(ad.jvp(f, (equal,), (np.array([1.0, 3.0]),))[1], 14.0)
        np.testing.assert_array_equal(ad.hessian(f)(equal), [[2.0, 0.0], [0.0, 4.0]])
        x = ad.array(equal, requires_grad=True)
        f(x).backward()
        np.testing.assert_array_equal(x.grad, [2.0, 4.0])
    np.testing.assert_array_equal(ad.grad(functools.cache(lambda x: x * x))(3.0), 6.0)


#: Functions that equal keys make differ from what they are of plain numbers: one entry, or several.
COUNTS = {
    "lists": counted,
    "set": lambda x: sum(v * v for v in set(x)),
    "length of a set": lambda x: len(set(x)) * x[0],
    "display of a set": lambda x: len({x[0], x[1]}) * x[1],
    "comprehension of a set": lambda x: len({v * 2 for v in x}) * x[1],
    "frozenset": lambda x: len(frozenset(x)) * x[1],
    "dict": lambda x: len({v: v + 1 for v in x}) * x[1],
    "fromkeys": lambda x: len(dict.fromkeys(x)) * x[1],
    "tuples as keys": lambda x: len({(v, 1) for v in x}) * x[1],
}
AT_EQUAL = {
    "grad": lambda f, x: ad.grad(f)(x),
    "jvp": lambda f, x: ad.jvp(f, (x,), (x,))[1],
    "hessian": lambda f, x: ad.hessian(f)(x),
    "grad of grad": lambda f, x: ad.grad(lambda x: np.sum(ad.grad(f)(x)))(x),
    "checkpoint": lambda f, x: ad.grad(lambda x: ad.checkpoint(f)(x))(x),
}


@pytest.mark.parametrize("dtype", [float, np.float32, complex])
@pytest.mark.parametrize("transform", AT_EQUAL)
@pytest.mark.parametrize("count", COUNTS)
def test_counts_of_equal_keys_are_refused(count, transform, dtype):
    f = (lambda x: COUNTS[count](x).real) if dtype is complex else COUNTS[count]
    if dtype is complex and transform in ("hessian", "grad of grad"):
        pytest.skip("not of complex numbers")
    for _ in range(2):
        with pytest.raises(ad.AdjointError, match="equal traced numbers are distinct keys"):
            AT_EQUAL[transform](f, np.array([1.0, 1.0], dtype))
    apart = np.array([1.0, 2.0], dtype)
    if dtype is not complex and count != "lists":
        np.testing.assert_allclose(ad.jvp(f, (apart,), (apart,))[1], (f(apart * 1.001) - f(apart * 0.999)) / 0.002, rtol=1e-2)


@pytest.mark.parametrize("count", COUNTS)
def test_counts_of_equal_keys_are_not_compiled(count):
    f = COUNTS[count]
    for x in (np.array([1.0, 2.0]), np.array([1.0, 1.0])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert ad.jit(f)(x) == f(x)
    with pytest.raises(ad.AdjointError, match="distinct keys"):
        ad.jit(ad.grad(f))(np.array([1.0, 1.0]))


def test_a_number_is_found_among_plain_ones():
    equal = np.array([1.0, 1.0])
    assert ad.grad(lambda x: x * 2 if x in {3.0, 4.0} else x)(3.0) == 2.0
    assert ad.grad(lambda x: x * 2 if x in {5.0, 4.0} else x)(3.0) == 1.0
    assert ad.grad(lambda x: x[0] * 2 if x[0] in [x[1]] else x[0])(equal).tolist() == [2.0, 0.0]  # a list compares
    assert ad.grad(lambda x: x[0] * 2 if hash(x[0]) == hash(x[1]) and x[0] == x[1] else x[0])(equal).tolist() == [2.0, 0.0]


def remembering(known):
    """The ways to write a function that keeps its results in a dict."""

    def checked(x):
        if x not in known:
            known[x] = x * x
        return known[x]

    def got(x):
        found = known.get(x)
        if found is None:
            found = known[x] = x * x
        return found

    def tried(x):
        try:
            return known[x]
        except KeyError:
            known[x] = x * x
            return known[x]

    return checked, got, tried, lambda x: known.setdefault(x, x * x)


@pytest.mark.parametrize("number", [float, np.float64])
@pytest.mark.parametrize("way", range(4))
def test_the_entry_of_a_plain_number_is_not_found_for_a_traced_one(way, number):
    def square(x):
        return remembering(known)[way](x)

    two, known = number(2.0), {}
    for transform in (ad.grad, ad.derivative, ad.hessian, lambda f: ad.jvp(f, (two,), (two,)) and ad.grad(f)):
        known.clear()
        assert transform(square)(two) == (2.0 if transform is ad.hessian else 4.0)
        known.clear()
        square(two)
        with pytest.raises(ad.AdjointError, match="one key of a dict"):
            transform(square)(two)
        known.clear()
        with pytest.raises(ad.AdjointError, match="one key of a dict"):
            transform(lambda x: square(x) + square(two))(two)
    known = {2.0: 5.0}
    assert ad.grad(lambda x: x * known[ad.stop_gradient(x)])(two) == 5.0
    assert ad.jit(lambda x: x * known[x])(two) == 10.0


class Remembering:
    @functools.lru_cache(None)  # noqa: B019
    def cube(self, x):
        return x**3


def test_methods_that_remember():
    it = Remembering()
    assert it.cube(2.0) == 8.0
    for f in (lambda x: it.cube(x), lambda x: it.cube(x=x), functools.cache(lambda x: it.cube(x))):
        for _ in range(2):
            assert ad.grad(f)(2.0) == 12.0
            assert ad.derivative(f)(2.0) == 12.0


def test_whole_numbers_are_keys():
    table = {0: 2.0, 3: 5.0}
    assert ad.grad(lambda x: x * table[int(x)])(3.5) == 5.0
    assert ad.grad(lambda x: np.sum(x) * table[np.argmax(x)])(X).tolist() == [5.0] * 4


def test_arrays_are_written_with_array_likes():
    def f(x):
        y = anp.zeros(4)
        y[:] = Like(X)
        y += x
        y[1:3] = collections.deque([1.0, 2.0])
        return np.sum(y)

    np.testing.assert_array_equal(ad.grad(f)(X), [1.0, 0.0, 0.0, 1.0])
