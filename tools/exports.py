"""Write the table of docs/export.md, which ops each exporter writes: PYTHONPATH=src:tests python tools/exports.py

A test compares the page with what this tool would write.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable

import exported

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "export.md"
BEGIN, END = "<!-- ops: written by tools/exports.py -->", "<!-- end of ops -->"


def table() -> str:
    """How many ops each exporter writes, and the names of those that it refuses; those that most of them refuse stand above."""
    found = {exporter: exported.refusals(exporter) for exporter in exported.RUNNERS}
    refused = {exporter: {name for name, why in ops.items() if why is not None} for exporter, ops in found.items()}
    all_but_two = [exporter for exporter in refused if exporter not in ("python", "numba")]
    common = set.intersection(*(refused[exporter] for exporter in all_but_two))
    rows = [
        f"{', '.join(f'`{exporter}`' for exporter in all_but_two)} all refuse {_listed(common)}. Beyond these:",
        "",
        "| exporter | ops written | refused by name |",
        "|---|---|---|",
    ]
    for exporter, names in refused.items():
        written = found[exporter].keys() - names
        if len(written) < len(names):
            what = f"all but {_listed(written)}"
        else:
            what = _listed(names - common if exporter in all_but_two else names) or "none"
        rows.append(f"| `{exporter}` | {len(written)} of {len(found[exporter])} | {what} |")
    return "\n".join(rows)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def with_table(page: str) -> str:
    made = f"{BEGIN}\n\n{table()}\n\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: made, page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(PAGE)
