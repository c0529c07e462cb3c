"""docs/design.md: its links lead to files, the names that they carry are defined there, and the map shows the imports."""

import ast
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PAGE = ROOT / "docs" / "design.md"
LINKS = re.findall(r"\[`?([^\]`]+)`?\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8"))


def names_in(file):
    """The names that a module defines at its top, and the members of its classes."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef))
        elif isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


@pytest.mark.parametrize("name, link", LINKS)
def test_a_link_leads_to_what_it_names(name, link):
    file = PAGE.parent / link
    assert file.exists()
    if file.suffix == ".py":
        module = file.parent.name if file.name == "__init__.py" else file.stem
        assert name == module or name.endswith(f"/{file.name}") or name in names_in(file)


def test_files_in_the_text_exist():
    for name in re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", PAGE.read_text(encoding="utf-8")):
        assert (ROOT / "src" / "adjoint" / name).exists() or (ROOT / name).exists(), name


def test_every_package_is_in_the_table_and_in_the_map():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import map as drawn
    finally:
        sys.path.pop(0)
    text = PAGE.read_text(encoding="utf-8")
    for package in drawn.packages():
        assert f"`{package}/`" in text or f"`adjoint.{package}`" in text
    assert drawn.PICTURE.read_text(encoding="utf-8") == drawn.picture(), "the map is old: python tools/map.py"


def test_the_root_holds_no_modules():
    files = sorted(p.name for p in (ROOT / "src" / "adjoint").iterdir() if p.is_file())
    assert files == ["__init__.py", "__main__.py", "py.typed"]
