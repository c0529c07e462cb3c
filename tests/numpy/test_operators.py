"""Python's operators on traced values: either side, with the classes and the errors of Python and NumPy."""

import datetime
import operator
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod, operator.floordiv]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
OTHERS = [2.0, 3, np.float32(1.5), np.array([1.0, 2.0]), np.arange(1, 3), True]


@pytest.mark.parametrize("op", [*OPERATORS, *COMPARISONS], ids=lambda op: op.__name__)
@pytest.mark.parametrize("other", OTHERS, ids=repr)
@pytest.mark.parametrize("swapped", [False, True])
def test_values_and_dtypes_are_numpys(op, other, swapped):
    apply = (lambda x: op(other, x)) if swapped else (lambda x: op(x, other))
    for x in (np.array([0.5, 1.5]), np.float64(1.5)):
        seen = []
        ad.vjp(lambda x: (seen.append(apply(x)), x)[1], x)  # noqa: B023
        expected = apply(x)
        found = ad.stop_gradient(seen[0]) if not hasattr(seen[0], "underlying") else seen[0].underlying
        np.testing.assert_array_equal(found, expected)
        assert np.asarray(found).dtype == np.asarray(expected).dtype


@pytest.mark.parametrize("op", [operator.iadd, operator.imul, operator.isub, operator.itruediv])
def test_in_place_operators(op):
    def f(x):
        y = x * 1.0
        y = op(y, np.array([2.0, 4.0]))
        return np.sum(y * x)

    plain = ad.finite_difference(f, np.array([1.0, 3.0]), method="richardson")
    np.testing.assert_allclose(ad.grad(f)(np.array([1.0, 3.0])), plain, rtol=1e-8)


@pytest.mark.parametrize("other", ["text", None, object(), {}])
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_operands_that_numpy_refuses_are_type_errors(op, other):
    with pytest.raises(TypeError):
        ad.grad(lambda x: op(x, other))(1.0)


def test_an_object_with_operators_of_its_own_is_asked():
    class Other:
        __array_ufunc__ = None

        def __radd__(self, x):
            return x * 10.0

    assert ad.grad(lambda x: x + Other())(1.0) == 10.0


@pytest.mark.parametrize("f", [lambda x: 1.0 / (x - x), lambda x: (x - x) ** -1.0, lambda x: x // 0.0])
def test_python_numbers_raise_as_in_python(f):
    with pytest.raises(ZeroDivisionError):
        f(1.0)
    with pytest.raises(ZeroDivisionError):
        ad.jit(f)(1.0)


def test_matrix_products():
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(ad.grad(lambda x: np.sum(a @ x))(np.ones(3)), np.sum(a, axis=0))
    with pytest.raises(ValueError):
        ad.grad(lambda x: np.sum(a @ x))(np.ones(4))


@pytest.mark.parametrize("whole", [int, np.int64])
def test_a_sequence_times_a_traced_integer_is_repeated(whole):
    def f(x, n):
        items = [x, 1.0] * n + n * [x]
        items *= n
        return sum(items) + x * len((x, x) * n) + len("ab" * n)

    assert ad.jit(f)(0.5, whole(3)) == f(0.5, 3)
    assert ad.jit(ad.grad(f))(0.5, whole(3)) == ad.grad(f)(0.5, 3)
    assert ad.jit(ad.grad(f), source=True)(0.5, whole(3)) == ad.grad(f)(0.5, 3)


class Matrix:
    """An object that takes operators with arrays on itself, as SymPy's matrices do."""

    __array_priority__ = 11

    def __array__(self, dtype=None, copy=None):
        return np.array([object()])

    def __rmul__(self, other):
        return "mine", other

    __radd__ = __rmatmul__ = __rsub__ = __rmul__


class Declared(Matrix):
    __array_priority__ = 0
    __array_ufunc__ = None


@pytest.mark.parametrize("cls", [Matrix, Declared])
@pytest.mark.parametrize("operator", [lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a @ b, lambda a, b: a - b])
def test_objects_that_go_first(cls, operator):
    """As NumPy, by `__array_priority__` or `__array_ufunc__ = None`."""
    seen = []

    def f(x):
        made, other = operator(x, cls())
        seen.append(made)
        return anp.sum(other)

    assert operator(np.ones(2), cls())[0] == "mine"
    assert ad.grad(f)(np.ones(2)).tolist() == [1.0, 1.0]
    assert seen == ["mine"]


EXACT = {
    "number": lambda x: float(mpmath.mpf(x)),
    "function": lambda x: x * float(mpmath.exp(x)),
    "beside": lambda x: float(mpmath.mpf(2) * x),
    "scalar": lambda x: np.float64(mpmath.erfc(x)),
    "complex": lambda x: float(mpmath.mpc(x, 1).imag),
    "interval": lambda x: float(mpmath.iv.mpf(x).mid),
}


@pytest.mark.parametrize("run", [ad.grad, ad.jacfwd, lambda f: ad.jit(ad.grad(f)), lambda f: ad.grad(ad.adopt(f))])
@pytest.mark.parametrize("name", EXACT)
def test_numbers_of_mpmath_are_refused(name, run):
    """It would catch the error of float(x), and go on with nan."""
    with pytest.raises(ad.AdjointError, match=r"mpmath computes with integers.*test_operators"):
        run(EXACT[name])(0.3)


def test_a_number_that_is_compared_with_itself():
    f = lambda x: x * 2.0 if x == x and not x != x else x  # noqa: SIM202
    assert ad.grad(f)(0.3) == ad.jit(ad.grad(f))(0.3) == 2.0
    assert ad.grad(lambda x: mpmath.fp.exp(1.0) * x)(0.3) == mpmath.fp.exp(1.0)
    assert ad.grad(lambda x: x * float(mpmath.exp(ad.stop_gradient(x))))(0.3) == float(mpmath.exp(0.3))


OBJECTS = [
    *(None, "text", b"text", {}, {1.0}, frozenset(), ..., object(), float, len, datetime.date(2020, 1, 1)),
    *(Decimal(1), Decimal("0.1"), Decimal("1e400"), Fraction(10**400), Fraction(1), Fraction(1, 3), Fraction(1, 2)),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("x", [np.array([1.0, 0.5, 0.1]), np.zeros((2, 0)), np.float64(1.0), 0.5, 1.0], ids=repr)
@pytest.mark.parametrize("other", OBJECTS, ids=lambda x: "object" if type(x) is object else repr(x)[:20])
def test_objects_that_are_compared(other, x):
    """An array is compared element by element with any object, and an exact number by its value."""
    swapped = () if isinstance(other, Fraction) else (lambda a, b: b == a, lambda a, b: b != a)  # Fraction asks for the number
    for compare in (operator.eq, operator.ne, *swapped):
        expected, found = np.asarray(compare(x, other), bool), []

        def compared(x, compare=compare):
            return compare(x, other)

        ad.grad(lambda x, compared=compared, found=found: found.append(compared(x)) or np.sum(x))(x)
        found += [ad.vmap(compared)(np.stack([x, x]))[1], ad.jit(compared)(x)]
        for y in found:
            assert np.shape(y) == expected.shape
            np.testing.assert_array_equal(y, expected)
