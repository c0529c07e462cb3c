"""Imports inside functions: only of modules that are slow to load or may be missing, each with its reason."""

import ast
import importlib.util
import pathlib

import pytest

SOURCE = pathlib.Path(__file__).parents[1] / "src"

#: What functions may import, by the beginning of its name: why it is not loaded with the module.
LATE = {
    "scipy": "its parts take 20 ms to a second to load; few programs need one",
    "onnx": "an optional package",
    "cupy": "an optional package, and a GPU",
    "adjoint.adopt": "loads the replacements of third-party modules",
    "adjoint.api.evaluation": "the explorer needs it; `ad.graph` does not",
    "adjoint.api.graph": "loads every rewrite; `ad.grad` in eager mode needs none",
    "adjoint.compiler": "loads LLVM or the code generator; a program from the cache on disk needs neither",
    "adjoint.export.onnx_": "imports onnx",
    "adjoint.ir.text": "the parser, for sample calls of loops and for reports",
    "adjoint.rewrite": "the passes and the search for loops, which neither eager derivatives nor a program from disk need",
    "adjoint.source": "the rewriting of syntax trees, for adopted code and `source=True`",
    "adjoint.view": "draws and writes graphs, which most programs never ask for",
}
#: How many such imports there are. Fewer are better; for one more, think of the layout first.
MOST = 57


def late_imports(path):
    """The modules that the functions of a file import, with their lines."""
    package = ".".join(path.relative_to(SOURCE).parent.parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {node for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for node in ast.walk(f)}
    for node in inside:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            is_package = (SOURCE / pathlib.Path(*base.split(".")) / "__init__.py").exists()
            yield from ((f"{base}.{alias.name}" if is_package else base, node.lineno) for alias in node.names)


@pytest.fixture(scope="module")
def found():
    return {(path, line): name for path in sorted(SOURCE.rglob("*.py")) for name, line in late_imports(path)}


def test_each_has_a_reason(found):
    unexplained = [f"{path}:{line}: {name}" for (path, line), name in found.items() if not name.startswith(tuple(LATE))]
    assert not unexplained, "import these at the top of the module:\n" + "\n".join(unexplained)


def test_each_reason_is_needed(found):
    for prefix in LATE:
        assert any(name.startswith(prefix) for name in found.values()), prefix


def test_there_are_no_more(found):
    assert len(found) <= MOST
