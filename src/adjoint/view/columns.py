"""A table of text: rows of cells, each of one or more lines, laid out for a terminal, Markdown, LaTeX or HTML."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple


class TableRow(NamedTuple):
    """Cells, each a list of lines."""

    cells: tuple[Sequence[str], ...]


class Table(NamedTuple):
    """Columns with their heads; `parts` are groups of rows with a rule between them; `note` is for the reader."""

    heads: tuple[str, ...]
    parts: tuple[tuple[TableRow, ...], ...]
    note: str = ""


def width_of(text: str) -> int:
    """The number of terminal cells a text fills: a combining mark takes none, a wide character two."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))


def to_text(table: Table, is_ascii: bool = False) -> str:
    """The table for a terminal."""
    vertical, across, cross = (" | ", "-", "-+-") if is_ascii else (" │ ", "─", "─┼─")
    rows = [row for part in table.parts for row in part]
    widths = [
        max([width_of(head), *(width_of(line) for row in rows for line in row.cells[i])]) for i, head in enumerate(table.heads)
    ]

    def line(cells: Sequence[str]) -> str:
        return vertical.join(_padded(cell, w) for cell, w in zip(cells, widths, strict=True)).rstrip()

    rule = cross.join(across * w for w in widths)
    lines = [line(table.heads)]
    for part in table.parts:
        if part:
            lines.append(rule)
        for row in part:
            height = max(1, *(len(cell) for cell in row.cells))
            filled = [[*cell, *[""] * (height - len(cell))] for cell in row.cells]
            lines.extend(map(line, zip(*filled, strict=True)))
    return "\n".join([*lines, *([table.note] if table.note else [])])


def to_markdown(table: Table) -> str:
    """A Markdown table, as on GitHub."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    def cell(lines: Sequence[str]) -> str:
        return "<br>".join(_markdown(x) for x in lines if x)

    rows = [line([cell(c) for c in row.cells]) for part in table.parts for row in part]
    head = [line(table.heads), line(["---"] * len(table.heads))]
    return "\n".join([*head, *rows, *(["", table.note] if table.note else [])])


def _markdown(text: str) -> str:
    for sign in "\\|*_`[]":
        text = text.replace(sign, "\\" + sign)
    return html.escape(text, quote=False)


def to_latex(table: Table) -> str:
    """A LaTeX array, for mathematics mode. The cells are in mathematics mode; the heads are text."""
    lines = [rf"\begin{{array}}{{{'|'.join('l' * len(table.heads))}}}"]
    lines.append(" & ".join(rf"\text{{{head}}}" for head in table.heads) + r" \\")
    for part in table.parts:
        if part:
            lines.append(r"\hline")
        for row in part:
            height = max(1, *(len(cell) for cell in row.cells))
            filled = [[*cell, *[""] * (height - len(cell))] for cell in row.cells]
            lines.extend(" & ".join(cells) + r" \\" for cells in zip(*filled, strict=True))
    lines.append(r"\end{array}")
    if table.note:
        lines.append(f"% {table.note}")
    return "\n".join(lines)


_CELL = "padding:0.15em 0.8em;text-align:left;vertical-align:top;white-space:pre;"


def to_html(table: Table) -> str:
    """An HTML table with its own style, in the colours of the page around it."""
    lines = ['<table class="adjoint-trace" style="border-collapse:collapse;font-family:monospace">']
    heads = "".join(f'<th scope="col" style="{_CELL}">{html.escape(head)}</th>' for head in table.heads)
    lines.append(f"<thead><tr>{heads}</tr></thead>")
    for part in table.parts:
        if not part:
            continue
        lines.append('<tbody style="border-top:1px solid currentColor">')
        for row in part:
            cells = "".join(f'<td style="{_CELL}">{"<br>".join(html.escape(x) for x in cell)}</td>' for cell in row.cells)
            lines.append(f"<tr>{cells}</tr>")
        lines.append("</tbody>")
    lines.append("</table>")
    if table.note:
        lines.append(f"<p>{html.escape(table.note)}</p>")
    return "\n".join(lines)
