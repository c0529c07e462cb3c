"""Which packages come along, and what becomes of those that do not."""

import sys

import numpy as np
import pytest

import adjoint as ad


@pytest.fixture
def family(write):
    write(
        "calc_t/__init__.py",
        "import numpy as np\nimport tools_t, words_t, middle_t\ndef f(x): return tools_t.g(x) + middle_t.h(x)\n",
    )
    write("tools_t.py", "import math\ndef g(x): return math.sin(x)\n")
    write("words_t.py", "import re\n'''\nimport numpy\n'''\n")
    write("middle_t.py", "from tools_t import g\ndef h(x): return g(2 * x)\n")
    write("middle_none.py", "import re\n")
    return ad.adopt


def test_packages_that_compute_come_along(family):
    m = family("calc_t")
    assert ad.grad(m.f)(0.3) == pytest.approx(np.cos(0.3) + 2 * np.cos(0.6))
    assert m.tools_t.__name__ == "adjoint.adopted.tools_t"
    assert m.words_t is sys.modules["words_t"]


def test_the_plan(family):
    plan = ad.adopt.plan("calc_t")
    assert plan.adopted == {"calc_t": "asked for", "tools_t": "imports math", "middle_t": "imports tools_t"}
    assert plan.original == {"words_t": "imports nothing that is replaced"}
    text = repr(plan)
    assert text.startswith("ad.adopt('calc_t')\n  adopted (private copies):\n    calc_t    asked for")
    assert "math, numpy" in text
    assert "calc_t" not in sys.modules
    assert "adjoint.adopted.calc_t" not in sys.modules
    with pytest.raises(ModuleNotFoundError, match="absent_t"):
        ad.adopt.plan("absent_t")


def test_include_and_exclude(family):
    with_words = family("calc_t", include=["words_t"])
    assert with_words.words_t.__name__ == "adjoint.adopted.=+words_t.words_t"
    without = family("calc_t", exclude="tools_t")
    assert without.tools_t is sys.modules["tools_t"]
    assert without.f(0.3) == with_words.f(0.3)
    with pytest.raises(ad.AdjointError, match=r"math\.sin|np\.sin"):
        ad.grad(without.f)(0.3)
    assert ad.adopt.plan("calc_t", exclude=["tools_t"]).original["tools_t"] == "excluded"
    assert ad.adopt.plan("calc_t", include=["words_t"]).adopted["words_t"] == "included"
    with pytest.raises(ad.AdjointError, match="include= of adopt takes the names"):
        family("calc_t", include=[3])


def test_options_survive_pickling(family):
    import pickle

    m = family("calc_t", include=["words_t"])
    assert pickle.loads(pickle.dumps(m.f)) is m.f


def test_numba_is_plain_python(write):
    write(
        "fast_u.py",
        """
        import numba as nb
        import numpy as np
        from numba import njit, jit, vectorize, guvectorize, prange, float64, types
        from numba.experimental import jitclass
        from numba.extending import overload, register_jitable

        @njit
        def a(x): return x * 2
        @njit(cache=True, fastmath=True)
        def b(x):
            s = 0.0
            for i in prange(3): s += x[i] ** 2
            return s
        @jit("float64(float64)", nopython=True)
        def c(x): return np.sin(x)
        @vectorize([float64(float64, float64)])
        def d(x, y): return x * y if x > 0 else y
        @vectorize
        def d2(x): return x ** 2
        @guvectorize([(float64[:], float64, float64[:])], "(n),()->(n)")
        def e(x, y, out):
            for i in range(x.shape[0]): out[i] = x[i] * y
        @guvectorize(["void(float64[:], float64[:])"], "(n)->()", target="cpu")
        def total(x, out): out[0] = x.sum()
        @nb.njit(nb.types.Tuple((nb.int64, nb.float64))(nb.float64))
        def pair(x): return 1, x
        @jitclass([("v", float64)])
        class K:
            def __init__(self, v): self.v = v
        @overload(a)
        def ol(x): return lambda x: x
        """,
    )
    m = ad.adopt("fast_u")
    x = np.array([1.0, 2.0, 3.0])
    assert ad.grad(m.a)(3.0) == ad.jit(ad.grad(m.a))(3.0) == ad.grad(m.a.py_func)(3.0) == 2.0
    assert ad.grad(m.b)(x).tolist() == [2.0, 4.0, 6.0]
    assert ad.grad(m.c)(0.3) == np.cos(0.3)
    assert ad.grad(m.d)(2.0, 3.0) == 3.0
    assert ad.grad(lambda v: m.d(v, 2.0).sum())(x).tolist() == [2.0, 2.0, 2.0]
    assert m.d(x, 2.0).tolist() == [2.0, 4.0, 6.0]
    assert ad.grad(lambda v: m.d2(v).sum())(x).tolist() == [2.0, 4.0, 6.0]
    assert m.e(np.ones((2, 3)), np.array([2.0, 3.0])).tolist() == [[2.0] * 3, [3.0] * 3]
    assert ad.grad(lambda y: m.e(np.ones((2, 3)), y).sum())(np.array([2.0, 3.0])).tolist() == [3.0, 3.0]
    assert ad.jit(ad.grad(lambda v: m.e(v, 4.0).sum()))(x).tolist() == [4.0] * 3
    assert m.total(x) == 6.0
    assert ad.grad(m.total)(x).tolist() == [1.0] * 3
    assert m.pair(2.0) == (1, 2.0)
    assert m.K(3.0).v == 3.0


def test_extensions_name_the_function_and_the_librarys_line(write):
    write(
        "inner_v.py",
        """
        import numpy as np
        from scipy.ndimage import fourier_gaussian
        from scipy.interpolate import RegularGridInterpolator
        import struct
        def smooth(x): return fourier_gaussian(np.array([x, 1.0]), 1.0)[0]
        def spline(x):
            curve = RegularGridInterpolator(([0.0, 1.0, 3.0],), np.array([0.0, 1.0, 9.0]))
            return curve([x])[0]
        def pack(x): return struct.pack("d", x)
        """,
    )
    m = ad.adopt("inner_v")
    for f, words in (
        (m.smooth, r"fourier_gaussian.*inner_v.py:6"),
        (m.spline, r"curve.*inner_v.py:9"),
        (m.pack, r"pack.*inner_v.py:10"),
    ):
        with pytest.raises(ad.AdjointError, match=words):
            ad.grad(f)(2.0)
    assert m.spline(2.0) == pytest.approx(5.0)


def test_cython_names_the_function_and_the_librarys_line(write):
    write(
        "typed_x.py",
        """
        import numpy as np
        from scipy.spatial._hausdorff import directed_hausdorff
        def far(x):
            y = np.zeros((2, 2))
            y[0] = x
            return directed_hausdorff(y, np.ones((2, 2)), 0)[0]
        """,
    )
    m = ad.adopt("typed_x")
    assert m.far(2.0) == pytest.approx(2**0.5)
    for transform in (ad.grad, ad.derivative):
        with pytest.raises(ad.AdjointError, match=r"directed_hausdorff.*typed_x\.py:7"):
            transform(m.far)(2.0)


@pytest.mark.parametrize("expected", ["float", "float or None", "int"])
def test_compiled_python_names_the_librarys_line(write, expected):
    """What mypyc says of an argument of another class, at a line of the library."""
    name = f"typed_{len(expected)}"
    write(
        f"{name}.py",
        f"""
        def rate(x):
            raise TypeError(f"{expected} object expected; got {{x.by.__class__.__module__}}.Traced")
        """,
    )
    with pytest.raises(ad.AdjointError, match=rf"traced value was passed to.*{name}\.py:3"):
        ad.grad(ad.adopt(name).rate)(2.0)


def test_neighbours(write):
    write(
        "tree_w.py",
        """
        import numpy as np
        from scipy.spatial import cKDTree
        import scipy.spatial
        def nearest(x):
            d, i = cKDTree(x).query(np.array([[0.1, 0.0], [3.0, 3.0]]))
            return d.sum() + len(scipy.spatial.KDTree(x).query_pairs(1.0))
        def two(x):
            d, i = scipy.spatial.cKDTree(x).query(np.array([0.1, 0.0]), k=2)
            return (d * np.array([1.0, 3.0])).sum()
        """,
    )
    m = ad.adopt("tree_w")
    x = np.array([[0.0, 0.5], [1.0, 0.0], [3.0, 2.0]])
    for f in (m.nearest, m.two):
        assert ad.grad(f)(x) == pytest.approx(ad.finite_difference(f, x), abs=1e-6)
        with pytest.raises(ad.AdjointError, match=r"ad\.map"):
            ad.vmap(f)(x[None])
        assert np.allclose(ad.grad(f)(x), ad.jit(ad.grad(f))(x))


def test_compiled_code_that_looks_for_a_class(write):
    """Cython's fused functions and pybind11's overloads check classes, and convert nothing."""
    write(
        "overloads.py",
        """
        from scipy.special import cython_special
        try:
            from scipy.fft._pocketfft import pypocketfft as fft
        except ImportError:  # SciPy 1.18
            from scipy.fft._duccfft import pyduccfft as fft
        def fused(x):
            return cython_special.psi(x)
        def overloaded(x):
            return fft.r2c(x, (0,), True, 0, None, 1)[0].real
        """,
    )
    m = ad.adopt("overloads")
    for f, x, line in ((m.fused, 2.0, 8), (m.overloaded, np.ones(4), 10)):
        f(x)
        for transform in (ad.grad, ad.jacfwd):
            with pytest.raises(ad.AdjointError, match=rf"takes plain values only.*overloads\.py:{line}"):
                transform(f)(x)
