"""Functions that SymPy generates for adopted code take traced values."""

import numpy as np
import pytest

import adjoint as ad

sympy = pytest.importorskip("sympy")

IMPORTS = {
    "sympy": "import sympy\nlambdify = sympy.lambdify",
    "from": "from sympy import lambdify\nimport sympy",
    "utilities": "import sympy\nfrom sympy.utilities.lambdify import lambdify",
    "other": "import sympy\nfrom sympy.utilities import lambdify",
}


@pytest.mark.parametrize("modules", ["None", '"numpy"', '"math"', '["numpy", "scipy"]'])
@pytest.mark.parametrize("imported", IMPORTS)
def test_lambdify(write, imported, modules):
    lines = ["x, y = sympy.symbols('x y')", f"f = lambdify((x, y), sympy.sin(x) * y + sympy.exp(x), {modules})"]
    write("symbolic.py", "\n".join([IMPORTS[imported], *lines]))
    m = ad.adopt("symbolic")
    assert m.f(0.3, 2.0) == np.sin(0.3) * 2.0 + np.exp(0.3)
    slope = lambda x: ad.grad(m.f)(x, 2.0)
    assert np.isclose(slope(0.3), np.cos(0.3) * 2.0 + np.exp(0.3))
    assert np.isclose(ad.jit(slope)(0.3), slope(0.3))


def test_matrices(write):
    """A robot's library makes its transformation matrices in this way."""
    write(
        "robot.py",
        """
        import sympy
        angle = sympy.symbols("angle")
        turn = sympy.Matrix([[sympy.cos(angle), -sympy.sin(angle)], [sympy.sin(angle), sympy.cos(angle)]])
        frame = sympy.lambdify(angle, turn, "numpy")
        """,
    )
    frame = ad.adopt("robot").frame
    found = ad.jacfwd(frame)(0.4)
    np.testing.assert_allclose(found, [[-np.sin(0.4), -np.cos(0.4)], [np.cos(0.4), -np.sin(0.4)]])
    np.testing.assert_allclose(ad.jit(ad.jacfwd(frame))(0.4), found)


def test_sympy_itself_is_not_changed(write):
    write("symbolic.py", "import sympy\nfrom sympy.core.symbol import Symbol\nx = sympy.Symbol('x')")
    m = ad.adopt("symbolic")
    assert m.x is sympy.Symbol("x")
    assert m.Symbol is sympy.Symbol
    assert m.sympy.lambdify is not sympy.lambdify
    assert sympy.lambdify.__globals__["__name__"] == "sympy.utilities.lambdify"
