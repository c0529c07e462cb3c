"""Tables outside ops/ that name ops: every key is an op. Facts about an op belong in its declaration; see CONTRIBUTING.md."""

import ast
import functools
from pathlib import Path

import pytest

import adjoint
import adjoint.scipy.linalg
import adjoint.scipy.special  # their ops are declared when they are loaded
from adjoint.algebra.parse import ALIASES
from adjoint.compiler.llvm import instruction, vecmath
from adjoint.compiler.lower.scalar import WORDS
from adjoint.core.op import OPS
from adjoint.numpy.table import load_all

load_all()

ROOT = Path(adjoint.__file__).parent
#: Tables of the names of NumPy, SciPy and Python, of which many are names of ops too.
OTHER_NAMES = (
    "ops/",
    "numpy/",
    "scipy/",
    "compat/",
    "adopt/",
    "staging/python.py",
    "algebra/formula.py",
    "__init__.py",
    "device/counterpart.py",
)
#: Tables of the words of scalar code, of which many are names of ops too.
SCALAR_CODE = ("compiler/lower/", "compiler/llvm/", "compiler/cuda/", "export/c_source.py", "export/javascript_module.py")
#: Commands of LaTeX; graphs of a loop; functions that the exported code has of its own.
COMMANDS = {
    "view/notation.py": {"ln"},
    "transform/while_loop.py": {"consts"},
    "view/python_text.py": {"placed", "scattered", "logsumexp"},
    "export/javascript_math.py": {
        "exp_of_square",
        "exponential",
        "growth",
        "hyperbolic_tangent",
        "numbers_of",
        "small",
        "to_single",
    },
    "export/latex_text.py": {"body", "cond"},
}
INTERNAL = {"select", "and", "or", "xor", "not"}
INTERNAL |= {f"bits.{name}" for name in ("and", "or", "xor", "not", "left", "right")}


def names(node):
    """The strings that a literal table holds: the keys of a dict, the elements of a set, or of a list that becomes one."""
    match node:
        case ast.Dict(keys=items) | ast.Set(elts=items):
            pass
        case ast.Call(func=ast.Name(id="set" | "frozenset" | "dict"), args=[ast.List(elts=items) | ast.Tuple(elts=items), *_]):
            pass
        case ast.Call(func=ast.Attribute(attr="fromkeys"), args=[ast.List(elts=items) | ast.Tuple(elts=items), *_]):
            pass
        case ast.Compare(
            left=ast.Attribute(attr="name") | ast.Name(id="name"),
            ops=[ast.In() | ast.NotIn()],
            comparators=[ast.List(elts=items) | ast.Tuple(elts=items)],
        ):
            pass
        case _:
            return []
    starred = [e for i in items if isinstance(i, ast.Starred) and isinstance(i.value, ast.Tuple) for e in i.value.elts]
    return [i.value for i in [*items, *starred] if isinstance(i, ast.Constant) and isinstance(i.value, str)]


def tables(tree):
    """The tables of which at least half of the keys are names of ops, with their lines."""
    for node in ast.walk(tree):
        found = names(node)
        if len(found) > 1 and sum(name in OPS for name in found) * 2 >= len(found):
            yield node.lineno, found


def test_tables_are_found():
    tree = ast.parse(
        'A = {"sin": 1, "cos": 2, "astype": 3}\nB = frozenset({"add", "mul"})\nC = dict.fromkeys(("exp", "log"), 1)\n'
        'D = frozenset(["tan", "tanh"])\nE = op.name in ("cast", "where")\nF = {"x": 1, "y": 2}\n'
        'G = {*("sin", "cos"), "zero_like"}'
    )
    assert [line for line, _ in sorted(tables(tree))] == [1, 2, 3, 4, 5, 7]
    assert [set(keys) - set(OPS) for _, keys in sorted(tables(tree))] == [{"astype"}, set(), set(), set(), set(), {"zero_like"}]


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


FILES = [path for path in sorted(ROOT.rglob("*.py")) if not path.relative_to(ROOT).as_posix().startswith(OTHER_NAMES)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_keys_are_ops(path):
    name = path.relative_to(ROOT).as_posix()
    known = {*OPS, *(WORDS if name.startswith(SCALAR_CODE) else ()), *COMMANDS.get(name, ())}
    for line, found in tables(tree_of(path)):
        assert not set(found) - known, f"{path}:{line} names what is no op"


def test_words_of_scalar_code():
    assert set(OPS) >= WORDS - INTERNAL - {"quotient"}  # of integers, in a rule for remainders
    assert INTERNAL <= {op.scalar for op in OPS.values() if isinstance(op.scalar, str)} <= WORDS
    assert {*instruction._RULES, *vecmath.NAMES} >= WORDS  # what every back end writes


def test_aliases_stand_for_ops():
    assert set(ALIASES.values()) <= set(OPS)


#: Packages whose tables are keyed by the ops themselves: an op is compared as an object, and facts about it are declared.
BY_OBJECT = (
    "derive/",
    "eager/",
    "staging/",
    "ir/",
    "transform/",
    "rewrite/",
    "view/",
    "check/",
    "api/",
    "compiler/cuda/foreign.py",
)
#: Tables of words that are no ops there: Python's functions, parameters of ops, patterns of rules, commands of LaTeX.
WORDS_OF_OTHERS = {
    "staging/python.py",
    "transform/while_loop.py",
    "rewrite/simplify/rules.py",
    "view/notation.py",
    "view/python.py",
    "view/python_text.py",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_ops_are_not_told_by_their_names(path):
    name, tree = path.relative_to(ROOT).as_posix(), tree_of(path)
    if not name.startswith(BY_OBJECT):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and ast.unparse(node.left).endswith("op.name"):
            named = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
            assert not named & set(OPS), f"{path}:{node.lineno} compares the name of an op: compare the op"
    if name not in WORDS_OF_OTHERS:
        assert not list(tables(tree)), f"{path}: a table of names of ops; declare the fact, or use the ops as keys"
