"""`float`, `complex` and `type` of adopted modules: Python's on plain values, and traced values as they are."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.adopt.builtin import builtins_with, scalar, unreplaced

BUILTINS = builtins_with(__import__)
FLOAT, COMPLEX, TYPE = BUILTINS["float"], BUILTINS["complex"], BUILTINS["type"]


@pytest.mark.parametrize("x", [1, "2.5", np.float32(1.5), True, np.array(3.0), "inf"])
def test_plain_values(x):
    found = FLOAT(x)
    assert type(found) is float
    assert COMPLEX(1, 2) == 1 + 2j


@pytest.mark.parametrize("x", ["text", None, [1.0], object()])
def test_errors_are_pythons(x):
    with pytest.raises((TypeError, ValueError)) as ours:
        FLOAT(x)
    with pytest.raises((TypeError, ValueError)) as theirs:
        float(x)
    assert type(ours.value) is type(theirs.value)


def test_traced_values_stay_traced():
    assert ad.grad(lambda x: FLOAT(x) ** 2)(3.0) == 6.0
    assert ad.grad(lambda x: (COMPLEX(x, x) * COMPLEX(x, -x)).real)(3.0) == 12.0


def test_classes():
    assert isinstance(1.0, FLOAT)
    assert not isinstance(1, FLOAT)
    assert issubclass(np.float64, FLOAT)
    assert TYPE(1.0) is float or TYPE(1.0) is FLOAT
    seen = []
    ad.grad(lambda x: (seen.append(unreplaced(TYPE(x))), x)[1])(1.0)
    assert issubclass(seen[0], float)
    assert unreplaced(FLOAT) is float
    assert unreplaced(int) is int


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow", "radd", "rsub", "rmul", "rtruediv", "rpow", "mod"])
@pytest.mark.parametrize("cls", [FLOAT, COMPLEX], ids=["float", "complex"])
def test_operators_as_methods_of_the_class(cls, name):
    """`float.__mul__(a, b)`, as libraries that wrap all operators call them."""
    if not hasattr(cls, f"__{name}__"):
        pytest.skip("complex numbers have no remainder")
    real = unreplaced(cls)
    theirs, ours = getattr(real, f"__{name}__"), getattr(cls, f"__{name}__")
    assert ours(real(1.5), real(0.7)) == theirs(real(1.5), real(0.7))
    with pytest.raises(TypeError):
        ours("a", 1.0)
    for arranged in (lambda x: (x, real(0.7)), lambda x: (real(0.7), x)):
        f = lambda x, cls, method, arranged=arranged: abs(method(*arranged(cls(x))))
        h = 1e-6
        expected = (f(1.5 + h, real, theirs) - f(1.5 - h, real, theirs)) / (2 * h)
        assert np.isclose(ad.grad(f)(1.5, cls, ours), expected)


def test_other_methods_of_the_class():
    assert FLOAT.__neg__(2.0) == -2.0
    assert FLOAT.is_integer(2.0)
    assert FLOAT.fromhex("0x1p3") == 8.0
    assert ad.grad(lambda x: FLOAT.__abs__(x) * FLOAT.__neg__(x))(3.0) == -6.0


def test_arrays_of_one_element_are_numbers():
    assert ad.grad(lambda x: scalar(x) * 2.0)(np.array([3.0])).tolist() == [2.0]


def test_classes_of_numbers_with_a_metaclass(write):
    """They derive from Python's float: a class has one metaclass."""
    write(
        "units_of_length.py",
        """
        import abc, enum

        class Unit(float, enum.Enum):
            KM = 1.5
            M = 2.5

        class Abstract(float, abc.ABC):
            pass

        class Made(float, metaclass=abc.ABCMeta):
            def __new__(cls, x): return super().__new__(cls, x)

        class Angle(float):
            pass

        def f(x): return x * Unit.KM + x * Unit(2.5).value + Abstract(3.0) * x + Made(4.0) * x + Angle(1.0) * x
        """,
    )
    import units_of_length

    copy = ad.adopt("units_of_length")
    assert copy.f(2.0) == units_of_length.f(2.0)
    assert ad.grad(copy.f)(2.0) == ad.jit(ad.grad(copy.f))(2.0) == 12.0
    assert issubclass(copy.Unit, float)
    assert isinstance(copy.Unit.KM, float)


def test_scalars_of_numpy_are_no_numbers_of_python(write):
    """`np.float64(x)` of a Python float can be indexed, as NumPy's scalars can."""
    write(
        "scalars_i.py",
        "import numpy as np\ndef f(x):\n    y = np.float64(x)\n    return (y[y > 0] * 2).sum() + y[()] + y.item()\n",
    )
    m = ad.adopt("scalars_i")
    for f in (ad.grad(m.f), ad.jit(ad.grad(m.f)), ad.derivative(m.f), ad.jit(m.f)):
        assert f(1.0) == 4.0
        assert f(np.float64(1.0)) == 4.0


def test_dtypes_among_classes(write):
    """`x.dtype in (np.float32, np.float64)` asks the class first, which leaves the answer to the dtype."""
    write(
        "dtypes_among.py",
        """
        import numpy as np
        def kinds(x):
            among = [x.dtype in (np.int64, np.float64), x.dtype in [np.float32], x.dtype not in (np.float64,), x.dtype in [float]]
            return among + [np.float64 == x.dtype, x.dtype == np.float64, np.float64 != x.dtype, np.float64 == 3]
        def f(x): return x * 2 if x.dtype in (np.float32, np.float64) else x
        """,
    )
    import dtypes_among

    m = ad.adopt("dtypes_among")
    for dtype in (np.float32, np.float64, np.int64):
        assert m.kinds(np.ones(2, dtype)) == dtypes_among.kinds(np.ones(2, dtype))
    np.testing.assert_array_equal(ad.grad(lambda x: m.f(x).sum())(np.ones(3)), 2.0)
    np.testing.assert_array_equal(ad.jit(ad.grad(lambda x: m.f(x).sum()))(np.ones(3)), 2.0)


def test_equations_of_the_array_api():
    """Where array_api_compat calls compiled code of NumPy's by itself, its copies have rules."""
    from adjoint.adopt.copies import world_with

    xp = world_with().load("scipy._lib._array_api").array_namespace(np.ones(2))
    a, b = np.array([[2.0, 1.0], [0.5, 3.0]]), np.array([1.0, 2.0])
    np.testing.assert_array_equal(xp.linalg.solve(a, b), np.linalg.solve(a, b))
    solved = lambda a: xp.linalg.solve(a, b)[0]
    np.testing.assert_allclose(ad.grad(solved)(a), ad.finite_difference(solved, a), rtol=1e-7)
    np.testing.assert_allclose(ad.jit(ad.grad(solved))(a), ad.grad(solved)(a), rtol=1e-12)
    by_eig = lambda a: xp.linalg.eig(a)[0].real.max()
    np.testing.assert_allclose(ad.grad(by_eig)(a), ad.finite_difference(lambda a: np.linalg.eigvals(a).max(), a), rtol=1e-7)
