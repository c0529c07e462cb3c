"""Write the table of docs/export.md, which ops each exporter writes: PYTHONPATH=src:tests python tools/exports.py

A test compares the page with what this tool would write.
"""

from __future__ import annotations

import pathlib
import re

import exported

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "export.md"
BEGIN, END = "<!-- ops: written by tools/exports.py -->", "<!-- end of ops -->"


def table() -> str:
    """For each exporter how many ops it writes, and the names of those that it refuses."""
    rows = ["| exporter | ops written | refused by name |", "|---|---|---|"]
    for exporter in exported.RUNNERS:
        found = exported.refusals(exporter)
        refused = sorted(name for name, why in found.items() if why is not None)
        rows.append(
            f"| `{exporter}` | {len(found) - len(refused)} of {len(found)} | {', '.join(f'`{n}`' for n in refused) or 'none'} |"
        )
    return "\n".join(rows)


def with_table(page: str) -> str:
    made = f"{BEGIN}\n\n{table()}\n\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: made, page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(PAGE)
