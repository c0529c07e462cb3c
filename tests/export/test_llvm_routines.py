"""The compiler of templates: statements and expressions, run as machine code."""

import ctypes

import numpy as np
import pytest

from adjoint.compiler.llvm import emit
from adjoint.compiler.native import load
from adjoint.export.llvm_routines import LlvmRoutines
from adjoint.export.template import Template

FLOAT = np.dtype(float)


def run(template, *arrays, reads=("a",), writes=("x",)):
    defined, declared = {}, set()

    def function(name, text):
        defined[name] = text.replace("NAME", name)
        return name

    routines = LlvmRoutines(function, declared)
    name = routines.routine("routine", Template(reads, writes, template), FLOAT)
    text = "\n".join([*(d if d.startswith("declare") else f"declare {d}" for d in sorted(declared)), *defined.values()])
    text = text.replace("define internal", "define")
    engine = load(emit.object_code(text, quickly=True))
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(engine.get_function_address(name))(*pointers)


@pytest.mark.parametrize(
    "template, expected",
    [
        ("  for (INT i = 0; i < 4; ++i) x[i] = (ONE + ONE) * a[i] + ONE;", lambda a: 2 * a + 1),
        ("  for (INT i = 0; i < 4; ++i) x[i] = a[3 - i];", lambda a: a[::-1]),
        (
            "  for (INT i = 0; i < 4; ++i) x[i] = a[i] < ZERO ? -a[i] : SQRT(a[i]);",
            lambda a: np.where(a < 0, -a, np.sqrt(np.abs(a))),
        ),
        ("  for (INT i = 0; i < 4; ++i) { REAL v = a[i]; v -= ONE; x[i] = ABS(v) / (v * v); }", lambda a: 1 / np.abs(a - 1)),
        (
            "  REAL t = ZERO;\n  for (INT i = 0; i < 4; ++i) t += a[i];\n  for (INT i = 0; i < 4; ++i) x[i] = t;",
            lambda a: np.full(4, a.sum()),
        ),
        (
            "  for (INT i = 0; i < 4; ++i) { if (i == 2) x[i] = ONE; else x[i] = a[i]; }",
            lambda a: np.where(np.arange(4) == 2, 1, a),
        ),
    ],
)
def test_statements(template, expected):
    a, x = np.array([0.5, -2.0, 3.0, 4.0]), np.full(4, 7.0)
    run(template, a, x)
    np.testing.assert_allclose(x, expected(a), rtol=1e-14)


@pytest.mark.parametrize("template", ["  for (INT i = 3; i >= 0; --i) x[i] = ONE;", "  x[0] = 1 +;"])
def test_statements_that_the_templates_do_not_use(template):
    with pytest.raises((AssertionError, KeyError, IndexError, ValueError)):
        run(template, np.zeros(4), np.zeros(4))
