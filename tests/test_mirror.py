"""tests/ mirrors src/adjoint/: a module with more than a few statements has its test file, under its name.

The exceptions are modules that consist of declarations, which one generated test tries all, and code that only a GPU runs.
"""

import ast
import fnmatch
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
SOURCE, TESTS = ROOT / "src" / "adjoint", ROOT / "tests"
MANY = 40  # statements inside functions

#: Modules whose tests are elsewhere: where, and why.
ELSEWHERE = {
    "ops/*.py": ("ops/test_table.py", "declarations of ops, each of which is tried in every mode"),
    "scipy/*.py": ("surface/test_surface.py", "SciPy's functions, each of which is tried in every mode"),
    "compiler/llvm/vecmath/*.py": ("compiler/llvm/test_vecmath.py", "elementary functions, whose errors are measured one by one"),
    "compat/autograd/*.py": ("compat/test_autograd.py", "autograd's names, in programs that were written for it"),
    "compiler/llvm/cumulative.py": ("compiler/lower/test_cumulative.py", "running sums, tested with their lowering"),
    "compiler/cuda/replay.py": ("compiler/test_gpu.py", "programs as CUDA graphs that are launched again, with a stand-in"),
    "compiler/cuda/libraries.py": ("compiler/cuda/test_linear.py", "cuBLAS and cuSOLVER, with a stand-in"),
    "export/onnx_*.py": ("export/test_onnx.py", "parts of one exporter, run by ONNX's own tools"),
    "export/stablehlo_*.py": ("export/test_jax.py", "parts of one exporter, whose programs JAX runs"),
    "export/jax_function.py": ("export/test_jax.py", "the same exporter"),
    "export/expansions/*.py": ("export/expansions/test_expansions.py", "ops written in others, which are compared with each op"),
    "device/gpu.py": ("gpu/test_gpu.py", "CuPy's memory and streams: needs a GPU, as compiler/cuda/gpu.py does"),
}


def statements(module):
    """How many statements the functions of a module have, without docstrings."""
    found = set()
    for function in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = (node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function)
            found.update(node for node in inside if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)))
    return len(found)


def test_file(module):
    place = module.relative_to(SOURCE)
    name = place.parent.name if place.stem == "__init__" else place.stem
    return TESTS / place.parent / f"test_{name}.py"


test_file.__test__ = False


@pytest.fixture(scope="module")
def names():
    return [m.relative_to(SOURCE).as_posix() for m in sorted(SOURCE.rglob("*.py")) if statements(m) > MANY]


def pattern_of(name):
    return next((p for p in ELSEWHERE if fnmatch.fnmatch(name, p) and p.count("/") == name.count("/")), None)


def test_modules_have_their_tests(names):
    for name in names:
        pattern = pattern_of(name)
        where = test_file(SOURCE / name) if pattern is None else TESTS / ELSEWHERE[pattern][0]
        assert where.exists() or test_file(SOURCE / name).exists(), f"{name} has no tests: write {where.relative_to(ROOT)}"


def test_no_exception_is_for_nothing(names):
    for pattern in ELSEWHERE:
        assert any(pattern_of(name) == pattern and not test_file(SOURCE / name).exists() for name in names), pattern


def test_a_module_without_tests_would_be_found(tmp_path):
    module = tmp_path / "module.py"
    module.write_text("def f():\n" + "    x = 1\n" * 50)
    assert statements(module) == 50
    assert statements(module) > MANY
