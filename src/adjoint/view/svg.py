"""A graph as a still picture: one SVG text, without Graphviz.

Colours show the kind of each op and follow the reader's light or dark theme; a `<title>` on each box and edge gives the same in
words.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from html import escape
from re import sub

from ..ir.graph import Graph
from .diagram import HEAD, KINDS, SMALL, DiagramNode, diagram, port, width_of
from .layout import Box, Point, place

MARGIN = 20.0
FAR = 1500.0  # height of an edge that is drawn faintly
STEM = 20.0  # of an edge, next to the type label

#: Fill, line and text of each kind, on light and on dark.
PALETTE = {
    "input": ("#dbeafe", "#3b6fd4", "#17366f", "#1c2f52", "#7aa5f5", "#d6e5ff"),
    "constant": ("#eceef1", "#868e99", "#3a414b", "#2b3038", "#8d96a3", "#dfe3e8"),
    "elementwise": ("#dcf3e3", "#3c9a5f", "#14502c", "#17382a", "#62c48a", "#d3f4df"),
    "linear": ("#fdeccb", "#b87a10", "#6b4503", "#3f3015", "#e5b04f", "#fbe9c6"),
    "multilinear": ("#fcdfd3", "#d2693a", "#74300f", "#452518", "#f0946a", "#fde0d3"),
    "opaque": ("#f1dff6", "#a456bd", "#581d6d", "#3a2145", "#cf8fe5", "#f4e2fa"),
    "structured": ("#d5f1f1", "#2a9296", "#0d4a4d", "#15383a", "#58c3c7", "#d0f2f3"),
    "output": ("#fbdce4", "#cf4470", "#741a39", "#45192a", "#f283a5", "#fddde7"),
}


def picture(graph: Graph) -> str:
    """The SVG of a graph."""
    drawn = diagram(graph)
    drawing = place(drawn.sizes, drawn.edges)
    digest = sha256(repr(drawn).encode("utf-8", "backslashreplace")).hexdigest()
    key = f"adjoint-{digest[:10]}"  # several pictures may be in one page
    kinds = [kind for kind in KINDS if any(node.kind == kind for node in drawn.nodes)]
    legend, legend_width = _legend(kinds, drawing.height + 34)
    width, height = max(drawing.width, legend_width) + 2 * MARGIN, drawing.height + 2 * MARGIN + (44 if kinds else 0)
    title = f"graph {drawn.name}: {len(graph.input_types)} inputs, {len(graph)} equations, {len(graph.outputs)} outputs"
    types = {value: label for node in drawn.nodes for value, label in zip(node.values, node.types, strict=True)}
    lines = []
    for edge, value, route in zip(drawn.edges, drawn.edge_values, drawing.routes, strict=True):
        words = f"{_name(drawn.nodes[edge.source], value)} to {_name(drawn.nodes[edge.target])}: {types[value]}"
        kind = "e far" if is_far(route) else "e"
        lines.append(f'<path class="{kind}" marker-end="url(#{key}-tip)" d="{path(route)}"><title>{clean(words)}</title></path>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" id="{key}" role="img" aria-labelledby="{key}-title" '
            f'width="{width:.0f}" height="{height:.0f}" viewBox="{-MARGIN:g} {-MARGIN:g} {width:.1f} {height:.1f}">',
            f'<title id="{key}-title">{clean(title)}</title>',
            f"<style>{style(key)}</style>",
            f'<defs><marker id="{key}-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path class="tip" d="M0 0.5 L8 4 L0 7.5 Z"/></marker></defs>',
            f'<rect class="page" x="{-MARGIN:g}" y="{-MARGIN:g}" width="100%" height="100%"/>',
            *lines,
            *[_box(node, box) for node, box in zip(drawn.nodes, drawing.boxes, strict=True)],
            *legend,
            "</svg>",
        ]
    )


def clean(text: str) -> str:
    """Text for XML: escaped, and without the control characters that XML forbids."""
    return escape(sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text))


def is_far(route: Sequence[Point]) -> bool:
    """Whether an edge is long and runs behind the boxes in between."""
    return len(route) == 2 and route[1][1] - route[0][1] > FAR


def path(route: Sequence[Point]) -> str:
    """A curve through points that leaves and arrives vertically: first straight through the label of its type."""
    (x, y), parts = route[0], [f"M{route[0][0]:.1f} {route[0][1]:.1f}"]
    y += STEM
    parts.append(f"V{y:.1f}")
    for to_x, to_y in route[1:]:
        if to_x == x:
            parts.append(f"V{to_y:.1f}")
        else:
            middle = (y + to_y) / 2
            parts.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return "".join(parts)


def style(key: str) -> str:
    """The CSS rules of one picture, scoped to it."""
    light = ["--page:#ffffff;--edge:#8b95a3;--label:#5a6472"]
    dark = ["--page:#14171c;--edge:#707b8a;--label:#a9b3c0"]
    for kind, colours in PALETTE.items():
        names = [f"--{kind}-{part}" for part in ("fill", "line", "text")]
        light += [f"{name}:{colour}" for name, colour in zip(names, colours[:3], strict=True)]
        dark += [f"{name}:{colour}" for name, colour in zip(names, colours[3:], strict=True)]
    rules = [
        f"#{key}{{{';'.join(light)};font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}}",
        f"@media (prefers-color-scheme:dark){{#{key}{{{';'.join(dark)}}}}}",
        f"#{key} .page{{fill:var(--page)}}",
        f"#{key} .e{{fill:none;stroke:var(--edge);stroke-width:1.3}}",
        f"#{key} .far{{opacity:.3}}",
        f"#{key} .tip{{fill:var(--edge)}}",
        f"#{key} text{{text-anchor:middle;font-size:{HEAD:g}px}}",
        f"#{key} .op{{font-weight:600}}",
        f"#{key} .small{{font-size:{SMALL:g}px}}",
        f"#{key} .type{{fill:var(--label);stroke:var(--page);stroke-width:4;paint-order:stroke}}",
        f"#{key} .legend{{fill:var(--label);text-anchor:start}}",
    ]
    for kind in PALETTE:
        rules.append(f"#{key} .{kind} rect{{fill:var(--{kind}-fill);stroke:var(--{kind}-line);stroke-width:1.4}}")
        rules.append(f"#{key} .{kind} .in{{fill:var(--{kind}-text)}}")
    return "".join(rules)


def _name(node: DiagramNode, value: int | None = None) -> str:
    if value is None or len(node.values) < 2:
        return f"{node.name} {node.op}".strip()
    return f"v{value}"


def _box(node: DiagramNode, box: Box) -> str:
    middle = box.x + box.width / 2
    words = f"{node.text} ({KINDS[node.kind]})" + (f", {node.line}" if node.line else "")
    corner = box.height / 2 if node.kind in ("input", "output") else 6.0
    parts = [
        f'<g class="{node.kind}"><title>{clean(words)}</title>',
        f'<rect x="{box.x:z.1f}" y="{box.y:z.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{corner:g}"/>',
    ]
    head = clean(node.name) + (f' <tspan class="op">{clean(node.op)}</tspan>' if node.op else "")
    parts.append(f'<text class="in" x="{middle:.1f}" y="{box.y + 18:.1f}">{head}</text>')
    if node.detail:
        parts.append(f'<text class="in small" x="{middle:.1f}" y="{box.y + 33:.1f}">{clean(node.detail)}</text>')
    for i, label in enumerate(node.types):
        at = box.x + box.width * port(i, len(node.types))
        parts.append(f'<text class="type small" x="{at:.1f}" y="{box.y + box.height + 15:.1f}">{clean(label)}</text>')
    return "".join(parts) + "</g>"


def _legend(kinds: Sequence[str], y: float) -> tuple[list[str], float]:
    """A row that names the kinds, and its width."""
    parts, x = [], 0.0
    for kind in kinds:
        parts.append(
            f'<g class="{kind}"><rect x="{x:.1f}" y="{y:.1f}" width="14" height="14" rx="3"/>'
            f'<text class="legend small" x="{x + 20:.1f}" y="{y + 11:.1f}">{KINDS[kind]}</text></g>'
        )
        x += 20 + width_of(KINDS[kind], SMALL) + 18
    return parts, x
