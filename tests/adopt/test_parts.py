"""The parts of NumPy and SciPy that are written in Python: adopted code runs copies of them."""

import sys
import textwrap

import numpy as np
import pytest

import adjoint as ad
from adjoint.adopt import choice

SOURCE = """
import sys
import numpy
import numpy as np
import numpy.polynomial
import numpy.polynomial.legendre as legendre
from numpy import polynomial
from numpy.polynomial import Polynomial
from numpy.polynomial.chebyshev import Chebyshev, chebval
import scipy.integrate
from scipy import interpolate, optimize

def by_class(c): return Polynomial(c)(2.0)
def by_attribute(c): return np.polynomial.Polynomial(c).deriv()(2.0) * polynomial.Polynomial(c).integ()(1.0)
def by_function(c): return chebval(0.3, c) + legendre.legval(0.2, c)
def converted(c): return Chebyshev(c).convert(kind=Polynomial).coef[1]
def by_place(c): return np.sum(Polynomial([1.0, 2.0, 3.0])(c))
def product(c): return (Polynomial(c) * Polynomial([1.0, 2.0]) + 1)(0.5)
def fitted(c): return Polynomial.fit(np.arange(3.0), c, 2)(1.5)
def integrated(c): return scipy.integrate.quad(lambda t: np.exp(c[0] * t) + c[1], 0, 1)[0]
def sampled(c): return scipy.integrate.simpson(c, x=[0.0, 1.0, 3.0])
def solved(c): return optimize.brentq(lambda x: x**3 - c[0], 0, 4) + optimize.fsolve(lambda x: x**2 - c[1], 1.0)[0]
def looked_up(c): return interpolate.CubicSpline(np.arange(3.0), c)(0.7) + interpolate.interp1d(np.arange(3.0), c)(0.7)
def plain(): return Polynomial([1.0, 2.0]), numpy is np, sys.modules["numpy"] is not None, "numpy" in sys.modules
FUNCTIONS = [by_class, by_attribute, by_function, converted, by_place, product, fitted, integrated, sampled, solved, looked_up]
"""
LATE = """
import numpy as np
TABLE = np.array([1.0, 2.0, 3.0])
def f(x): return np.sum(TABLE * x)
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    (folder / "uses_parts.py").write_text(SOURCE)
    (folder / "uses_late.py").write_text("def f(x):\n    import late_table\n    return late_table.f(x)\n")
    (folder / "late_table.py").write_text(textwrap.dedent(LATE))
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))


def test_functions(modules):
    import uses_parts  # the original

    adopted, c = ad.adopt("uses_parts"), np.array([2.0, 3.0, 0.5])
    for f, original in zip(adopted.FUNCTIONS, uses_parts.FUNCTIONS, strict=True):
        step = 1e-6
        wanted = [(original(c + e) - original(c - e)) / (2 * step) for e in step * np.eye(3)]
        assert f(c) == pytest.approx(original(c), rel=1e-14), f.__name__
        np.testing.assert_allclose(ad.grad(f)(c), wanted, rtol=1e-6, atol=1e-8, err_msg=f.__name__)
        np.testing.assert_allclose(ad.jit(ad.grad(f))(c), wanted, rtol=1e-6, atol=1e-8, err_msg=f.__name__)
    made, *rest = adopted.plain()
    assert str(made) == str(np.polynomial.Polynomial([1.0, 2.0]))
    assert rest == [True, True, True]


def test_constants_of_a_module_that_is_imported_inside_a_transform(modules):
    adopted = ad.adopt("uses_late")
    assert ad.grad(adopted.f)(2.0) == 6
    assert type(sys.modules["adjoint.adopted.late_table"].TABLE) is np.ndarray
    assert adopted.f(2.0) == 12


def test_the_originals_are_untouched():
    assert "adjoint" not in np.polynomial.Polynomial.__module__
    assert np.polynomial.chebyshev.np is np


def test_parts_exist():
    for name in choice.PARTS:
        assert choice.is_part(name)
        assert choice.holds_part(name.rpartition(".")[0]) or choice.is_part(name.rpartition(".")[0])
    assert not choice.is_part("numpy")
    assert not choice.is_part("numpy.polynomials")
