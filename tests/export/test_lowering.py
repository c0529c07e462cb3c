"""The steps of an exported program: what is written out, and what is refused, by the name of the op and its line."""

import dataclasses

import numpy as np
import pytest
from export.in_process import results

import adjoint as ad
from adjoint.compiler.lower.kernel import Kernel
from adjoint.compiler.lower.step import Foreign, Lapack, WhileVjp
from adjoint.core.errors import UnsupportedError
from adjoint.core.op import OPS
from adjoint.export.lowering import RULES, WRITTEN_OUT, lower

A = np.eye(3) + 0.1


def lowered(f, *args):
    return lower(ad.graph(f)(*args), "export.c")


def steps(f, *args):
    """All steps of a program, those in the bodies of loops included."""

    def walk(program):
        for step in program.steps:
            yield step
            for name in ("body", "true", "false", "cond"):
                if hasattr(getattr(step, name, None), "steps"):
                    yield from walk(getattr(step, name))

    return list(walk(lowered(f, *args)))


# -- what is written out -----------------------------------------------------------------------------------------------


PROGRAMS = {
    "elementwise": (lambda a: np.exp(a) * np.sin(a), A),
    "product": (lambda a: a @ a, A),
    "systems": (lambda a: np.linalg.solve(a, a[0]), A),
    "inverse": (np.linalg.inv, A),
    "cholesky": (np.linalg.cholesky, A),
    "determinant": (np.linalg.det, A),
    "qr": (lambda a: np.linalg.qr(a)[1], A),
    "eigenvalues": (np.linalg.eigvalsh, A),
    "singular values": (lambda a: np.linalg.svd(a)[1], A),
    "sorted": (np.sort, A),
    "scan": (lambda a: ad.scan(lambda c, r: (c + np.sort(r), c), a[0], a)[0], A),
    "branch": (lambda a: ad.cond(a[0, 0] > 0, np.linalg.inv, lambda a: a.T, a), A),
    "expanded": (lambda a: np.logaddexp(a, 1.0) + np.cbrt(a), A),
    "while": (lambda x: ad.while_loop(lambda x: x < 10.0, lambda x: x * 2, x), 1.0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_step_needs_python_or_lapack(name):
    f, x = PROGRAMS[name]
    found = steps(f, x)
    assert found
    assert not any(isinstance(step, (Foreign, WhileVjp)) for step in found)
    assert all(s.routine in WRITTEN_OUT or "template" in s.options for s in found if isinstance(s, Lapack))


def test_an_op_without_code_is_inlined_as_others():
    """Its steps have the line of the user's code, not those of the expansion."""
    program = lowered(lambda x: OPS["xlogy"](x, x) * OPS["entr"](x), np.ones(3))
    lines = {line for step in program.steps for line in step.lines}
    assert len(lines) == 1
    assert next(iter(lines)).startswith("test_lowering.py:")


def test_the_work_array_has_room_for_what_is_kept():
    assert lowered(lambda a: a * 2, A).arena == 0
    assert lowered(lambda a: np.linalg.inv(a @ a) @ a, A).arena >= A.nbytes


def test_dead_lines_are_left_out():
    program = ad.graph(lambda a: (np.exp(a), a + 1))(A)
    one = dataclasses.replace(program, outputs=program.outputs[1:])
    both, kernel = (lower(p, "export.c").steps for p in (program, one))
    lines = lambda steps: sum(len(step.code) for step in steps if isinstance(step, Kernel))
    assert lines(both) > lines(kernel) > 0


def test_a_step_that_may_fail_is_kept():
    """Its failure is that of the function."""
    found = lowered(lambda a: (np.linalg.inv(a), a + 1)[1], A).steps
    assert any(isinstance(step, Lapack) for step in found)


def test_rules_of_all_parts():
    names = {op.name for op in RULES}
    assert {"argsort", "put_at", "eigh", "svd"} <= names
    assert len(names) == len(RULES)


# -- what is refused ---------------------------------------------------------------------------------------------------


def refused(f, *args, match):
    with pytest.raises(UnsupportedError, match=match):
        lowered(f, *args)


def test_an_op_without_code():
    refused(lambda x: OPS["airy"](x)[0], 0.5, match=r"export\.c has no code for 'airy': jit calls NumPy.*test_lowering\.py:\d+")


def test_a_dtype_without_code():
    refused(lambda x: x * 2, np.ones(3, np.float16), match="'mul' of float16: its arrays are bool, float32, float64, int16")


def test_an_op_without_code_in_a_loop():
    f = lambda x: ad.fori_loop(0, 3, lambda i, c: OPS["airy"](c)[0], x)
    refused(f, 0.5, match=r"no code for 'airy'.*test_lowering\.py:\d+")


def test_decompositions_of_other_matrices():
    refused(lambda a: OPS["eig"](a)[0].real, A, match="no code for 'eig' of complex128")
    refused(lambda a: np.linalg.qr(a)[1], A * 1j, match="no code for 'qr' of complex128")
    refused(np.arctan, A * 1j, match="no code for 'arctan' of complex128")
    np.testing.assert_array_equal(results(np.linalg.eigvalsh, np.zeros((0, 0))), [np.zeros(0)])


@pytest.mark.parametrize("x", [1.0, 1.5, 20.0])
def test_the_backward_pass_of_a_while_loop_is_loops(x):
    f = ad.grad(lambda x: ad.while_loop(lambda x: x < 10.0, lambda x: x * x + 1, x))
    np.testing.assert_allclose(results(f, x), [f(x)], rtol=1e-13)


def test_dtypes_of_arguments():
    refused(lambda x, y: y, np.ones(2, np.float16), 1.0, match="no numbers of dtype float16, of the argument 'x'")


def test_dtypes_of_results():
    message = r"no numbers of dtype float16, of a result.*; it has bool, complex128, complex64, float32, float64, int16"
    refused(lambda x: (x, np.ones(2, np.float16)), 1.0, match=message)


@pytest.mark.parametrize("dtype", [np.dtype(letter) for letter in "?bhilBHILfd"])
def test_dtypes_that_all_exporters_have(dtype):
    assert lowered(lambda x: x.copy(), np.ones(2, dtype)).outputs[0].dtype == dtype


def test_the_exporter_is_named():
    with pytest.raises(UnsupportedError, match=r"^export\.wasm has no code"):
        lower(ad.graph(lambda x: OPS["airy"](x)[0])(0.5), "export.wasm")
