"""Builds descent.html, a page that needs no network: a function of two variables, its gradient field, and the path of an
optimiser from a start that the reader drags. All numbers come from the exported WebAssembly, which is in the page.

    python build.py [folder]
"""

import sys
from pathlib import Path

import numpy as np

from adjoint import export


def valley(p):
    """Himmelblau's function: four minima."""
    x, y = p
    return (x * x + y - 11) ** 2 + (x + y * y - 7) ** 2


def valley_on_grid(points):
    return valley(points.T)


PAGE = Path(__file__).with_name("page.html")
SIZE = 60  # points along each side of the picture


def build(folder):
    """Write the page; returns its path."""
    one = export.wasm(valley, np.zeros(2), derivatives="value_and_gradient", embed=True)
    grid = export.wasm(valley_on_grid, np.zeros((SIZE * SIZE, 2)), simd=True, embed=True)
    text = PAGE.read_text(encoding="utf-8")
    for name, made in (("VALLEY", one), ("GRID", grid)):
        text = text.replace(f"/* {name} */", made.loader.replace("export async function load", "return async function load"))
    target = Path(folder) / "descent.html"
    target.write_text(text.replace("SIZE", str(SIZE)), encoding="utf-8")
    return target


if __name__ == "__main__":
    print(build(sys.argv[1] if len(sys.argv) > 1 else "."))
