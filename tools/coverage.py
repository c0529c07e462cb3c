"""Write docs/coverage.md: how every public function of NumPy and scipy.special stands.

    python tools/coverage.py            write the page
    python tools/coverage.py --check    exit with 1 if the page is out of date

The page is made from the tables that the library itself dispatches by. It serves all supported versions of NumPy and SciPy: what
it says of a function that the installed version does not have is left as it stands.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import types
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import scipy.special

import adjoint.scipy.special  # noqa: F401 - enters its functions in the tables
from adjoint.core.op import Constant
from adjoint.numpy.table import CONSTANT, FUNCTIONS, REFUSED, UFUNCS, UNBATCHED, load_all

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "coverage.md"
MODULES = (("numpy", np), ("numpy.linalg", np.linalg), ("numpy.fft", np.fft), ("scipy.special", scipy.special))

INTRODUCTION = """\
# Coverage of NumPy and scipy.special

Made by `tools/coverage.py` from the tables that the library dispatches by; do not edit.

*Differentiable* functions work in forward and reverse mode, at any order, and under vmap unless said otherwise. *Constant*
ones have a derivative that is zero wherever it exists, or take no numbers to differentiate: they give plain values.
*Refused* ones raise on a traced value, with the reason given here.
"""


class Row(NamedTuple):
    name: str
    standing: str
    note: str


def public_functions(module: types.ModuleType) -> list[tuple[str, Any]]:
    names = getattr(module, "__all__", None) or dir(module)
    found = [(name, getattr(module, name, None)) for name in sorted(set(names)) if not name.startswith("_")]
    return [(name, f) for name, f in found if callable(f) and not isinstance(f, (type, types.ModuleType))]


def classify(name: str, function: Any) -> Row | None:
    """One row, or None for a function that no table knows."""
    if function in REFUSED:
        return Row(name, "refused", REFUSED[function])
    ours = UFUNCS.get(function) if isinstance(function, np.ufunc) else FUNCTIONS.get(function)
    if function in CONSTANT or isinstance(ours, Constant):
        return Row(name, "constant", "")
    if ours is None:
        return None
    return Row(name, "differentiable", "forward, reverse" + ("" if function in UNBATCHED else ", vmap"))


def rows_of(module: types.ModuleType) -> list[Row]:
    rows = []
    for name, function in public_functions(module):
        row = classify(name, function)
        if row is None:
            raise SystemExit(f"{module.__name__}.{name} is neither differentiable, constant nor refused")
        rows.append(row)
    return rows


def table() -> dict[str, list[Row]]:
    load_all()
    return {name: rows_of(module) for name, module in MODULES}


def written() -> dict[str, list[Row]]:
    """The rows that stand on the page."""
    found: dict[str, list[Row]] = {}
    rows: list[Row] = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            rows = found[line.removeprefix("## ")] = []
        elif line.startswith("| `"):
            name, standing, note = line.removeprefix("| `").removesuffix(" |").replace("` |", " |", 1).split(" | ", 2)
            rows.append(Row(name, standing, note))
    return found


def with_other_versions(tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """The tables, with what the page says of functions that are not in this version."""
    before, modules = written(), dict(MODULES)
    merged = {}
    for name, rows in tables.items():
        others = [row for row in before.get(name, ()) if not hasattr(modules[name], row.name)]
        merged[name] = sorted(rows + others)
    return merged


def distinct_differentiable(tables: dict[str, list[Row]]) -> int:
    """Differentiable functions, counting each once whatever its other names."""
    modules = dict(MODULES)
    every = ((modules[name], row) for name, rows in tables.items() for row in rows)
    return len({getattr(module, row.name, row.name) for module, row in every if row.standing == "differentiable"})


def page() -> str:
    tables = with_other_versions(table())
    parts = [INTRODUCTION, f"{distinct_differentiable(tables)} functions are differentiable, not counting second names.\n"]
    parts.append("| module | differentiable | constant | refused |\n|---|---|---|---|")
    for name, rows in tables.items():
        count = Counter(row.standing for row in rows)
        parts.append(f"| {name} | {count['differentiable']} | {count['constant']} | {count['refused']} |")
    for name, rows in tables.items():
        parts.append(f"\n## {name}\n\n| function | | |\n|---|---|---|")
        parts.extend(f"| `{row.name}` | {row.standing} | {row.note} |" for row in rows)
    return "\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    text = page()
    if parser.parse_args().check:
        if PAGE.read_text() != text:
            print("docs/coverage.md is out of date: run python tools/coverage.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
