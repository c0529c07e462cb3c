"""Draw the map of the packages from their imports: python tools/map.py

Each package is above those that it imports. Edges implied by others (transitive reduction) are not drawn. A test regenerates the
picture and compares it.
"""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

from adjoint.view.diagram import HEAD, SMALL, width_of
from adjoint.view.layout import Box, Edge, place
from adjoint.view.svg import MARGIN, PALETTE, clean, path, style

ROOT = pathlib.Path(__file__).parent.parent
SOURCE = ROOT / "src" / "adjoint"
PICTURE = ROOT / "docs" / "pictures" / "map.svg"
KEY = "adjoint-map"

#: The colour of a package: called by users, computes, records, shared by all.
COLOURS = {
    "input": ("cli", "compat", "check", "algebra", "export", "extend", "scipy", "numpy", "api", "adopt", "adopted"),
    "elementwise": ("eager", "derive"),
    "structured": ("staging", "source", "transform", "rewrite", "compiler"),
    "linear": ("ir", "view"),
    "constant": ("core", "device", "ops"),
}
DETAILS = {
    "device": "arrays on a GPU, by CuPy",
    "adopt": "other people's modules",
    "adopted": "their copies, by name",
    "algebra": "symbolic expressions",
    "api": "grad, jacobian, vmap, graph, …",
    "check": "check_grads, finite differences",
    "cli": "the command line",
    "compat": "other libraries' names",
    "compiler": "jit: lower, llvm, cuda, runtime",
    "core": "types, trees, errors, Op, bind",
    "derive": "jvp, vjp, batch from a declaration",
    "eager": "dual, tape, batch: compute",
    "export": "programs in other languages",
    "extend": "custom ops",
    "ir": "graph, text, check",
    "numpy": "NumPy on traced values",
    "ops": "one declaration per op",
    "rewrite": "simplify, loops",
    "scipy": "SciPy on traced values",
    "source": "loops from the source",
    "staging": "stage, guard, purity: record",
    "transform": "jvp, vjp, vmap of graphs",
    "view": "tables, pictures, source text",
}


def packages() -> list[str]:
    return sorted(p.parent.name for p in SOURCE.glob("*/__init__.py"))


def imports(package: str) -> set[str]:
    """The packages that a package imports."""
    found = {name for file in (SOURCE / package).rglob("*.py") for name in _imported(file)}
    return found & set(packages()) - {package}


def _imported(file: pathlib.Path) -> Iterator[str]:
    folder = file.parent.relative_to(SOURCE).parts
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*folder[: len(folder) - node.level + 1], *(node.module or "").split(".")]
            names = [part for part in base if part] or [alias.name for alias in node.names]
            yield from names[:1] if node.module or base != [""] else names


def reduced(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """The transitive reduction: the same order with the fewest edges."""

    def below(name: str) -> set[str]:
        return edges[name].union(*map(below, edges[name])) if edges[name] else set()

    return {name: targets - set().union(*map(below, targets)) if targets else set() for name, targets in edges.items()}


def ordered(edges: dict[str, set[str]]) -> list[str]:
    """The packages, each before those that it imports."""
    done: list[str] = []
    while len(done) < len(edges):
        left = [name for name in sorted(edges) if name not in done]
        done += [name for name in left if not any(name in edges[other] for other in left)]
    return done


def picture() -> str:
    edges = {name: imports(name) for name in packages()}
    names = ordered(edges)
    few = reduced(edges)
    links = [Edge(names.index(a), names.index(b)) for a in names for b in sorted(few[a])]
    sizes = [(round(max(width_of(f"{name}/", HEAD), width_of(DETAILS[name], SMALL)) + 24, 1), 42.0) for name in names]
    drawing = place(sizes, links)
    width, height = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" id="{KEY}" role="img" aria-labelledby="{KEY}-title" '
            f'width="{width:.0f}" height="{height:.0f}" viewBox="{-MARGIN:g} {-MARGIN:g} {width:.1f} {height:.1f}">',
            f'<title id="{KEY}-title">The packages of adjoint: each imports those below it</title>',
            f"<style>{style(KEY)}</style>",
            f'<rect class="page" x="{-MARGIN:g}" y="{-MARGIN:g}" width="100%" height="100%"/>',
            *[f'<path class="e" d="{path(route)}"/>' for route in drawing.routes],
            *map(_box, names, drawing.boxes),
            "</svg>\n",
        ]
    )


def _box(name: str, box: Box) -> str:
    kind = next(kind for kind, members in COLOURS.items() if name in members)
    assert kind in PALETTE
    middle = box.x + box.width / 2
    return (
        f'<g class="{kind}"><rect x="{box.x:z.1f}" y="{box.y:z.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="6"/>'
        f'<text class="in op" x="{middle:.1f}" y="{box.y + 18:.1f}">{name}/</text>'
        f'<text class="in small" x="{middle:.1f}" y="{box.y + 33:.1f}">{clean(DETAILS[name])}</text></g>'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"{PICTURE}: {len(packages())} packages")
