import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from drawings import HOSTILE, hostile, mixed, small_graphs, textbook

import adjoint as ad
from adjoint.core.op import OPS, Op
from adjoint.view.diagram import KINDS, diagram
from adjoint.view.svg import PALETTE, clean, picture

SVG = "{http://www.w3.org/2000/svg}"
GRAPHS = small_graphs() | {"200 equations": mixed(200)}


def texts(root, kind=None):
    return ["".join(t.itertext()) for t in root.iter(f"{SVG}text") if kind is None or kind in t.get("class", "")]


def box(rect):
    return tuple(float(rect.get(k)) for k in ("x", "y", "width", "height"))


@pytest.fixture(params=GRAPHS, ids=str)
def drawn(request):
    graph = GRAPHS[request.param]
    return graph, ET.fromstring(graph.svg())


def test_every_box_and_edge_is_there_with_its_words(drawn):
    graph, root = drawn
    nodes = diagram(graph).nodes
    titles = [t.text for t in root.iter(f"{SVG}title")]
    assert f"{len(graph)} equations" in titles[0]
    assert all(any(node.text in title for title in titles) for node in nodes)
    edges = [p for p in root.iter(f"{SVG}path") if p.get("class", "").startswith("e")]
    assert len(edges) == sum(len(node.operands) for node in nodes)
    assert all(e.find(f"{SVG}title").text for e in edges)


def test_boxes_do_not_overlap_and_texts_fit(drawn):
    _, root = drawn
    groups = [g for g in root.iter(f"{SVG}g") if g.find(f"{SVG}title") is not None]
    boxes = [box(g.find(f"{SVG}rect")) for g in groups]
    for i, (x, y, w, h) in enumerate(boxes):
        for u, v, a, b in boxes[i + 1 :]:
            assert x + w <= u or u + a <= x or y + h <= v or v + b <= y
    for g, (_, _, width, _) in zip(groups, boxes, strict=True):
        for text in g.iter(f"{SVG}text"):
            size = 10.5 if "small" in text.get("class") else 13.0
            assert len("".join(text.itertext())) * size * 0.6 <= width + 20
    left, top, width, height = map(float, root.get("viewBox").split())
    for x, y, w, h in boxes:
        assert left <= x
        assert top <= y
        assert x + w <= left + width
        assert y + h <= top + height


def test_edges_go_down(drawn):
    _, root = drawn
    for p in root.iter(f"{SVG}path"):
        if p.get("class", "").startswith("e"):
            d = p.get("d")
            start = float(d[1:].split("V")[0].split()[1])
            end = float(d.replace("V", " ").replace("C", " ").split()[-1])
            assert start < end


def test_types_are_written_at_the_edges():
    root = ET.fromstring(GRAPHS["network"].svg())
    assert {"float64[3]", "float64[3,3]", "float64[]"} == set(texts(root, "type"))
    both = ET.fromstring(ad.graph(lambda x: np.sum(x.astype(np.float64)))(np.ones((2, 2), np.float32)).svg())
    assert {"float32[2,2]", "float64[]"} <= set(texts(both, "type"))


def test_labels_of_several_results_stand_apart():
    graph = ad.graph(np.linalg.svd)(np.eye(30))
    root = ET.fromstring(graph.svg())
    group = next(g for g in root.iter(f"{SVG}g") if g.get("class") == "opaque")
    labels = [t for t in group.iter(f"{SVG}text") if "type" in t.get("class")]
    assert [t.text for t in labels] == ["float64[30,30]", "float64[30]", "float64[30,30]"]
    for a, b in pairwise(labels):
        assert float(b.get("x")) - float(a.get("x")) > (len(a.text) + len(b.text)) / 2 * 10.5 * 0.6


def test_kinds_are_coloured():
    root = ET.fromstring(GRAPHS["gradient"].svg())
    kinds = {g.get("class") for g in root.iter(f"{SVG}g")}
    assert {"input", "output", "elementwise", "linear", "multilinear"} <= kinds
    assert "opaque" in {g.get("class") for g in ET.fromstring(GRAPHS["several"].svg()).iter(f"{SVG}g")}
    assert "constant" in {g.get("class") for g in ET.fromstring(GRAPHS["comparison"].svg()).iter(f"{SVG}g")}
    assert set(PALETTE) == set(KINDS)
    assert {op.kind for op in OPS.values() if type(op) is not Op} <= set(KINDS)


def test_light_and_dark():
    assert "prefers-color-scheme:dark" in GRAPHS["textbook"].svg()


def test_colours_can_be_read():
    """Text on its box has a contrast of 4.5 at least, the lines of boxes 3 against the page: WCAG AA."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    def contrast(a, b):
        low, high = sorted((luminance(a), luminance(b)))
        return (high + 0.05) / (low + 0.05)

    for fill, line, text, dark_fill, dark_line, dark_text in PALETTE.values():
        assert contrast(fill, text) > 4.5
        assert contrast(dark_fill, dark_text) > 4.5
        assert contrast(line, "#ffffff") > 3
        assert contrast(dark_line, "#14171c") > 3


def test_hostile_names_are_text():
    graph = hostile()
    svg = picture(graph)
    root = ET.fromstring(svg)
    allowed = {"svg", "title", "style", "defs", "marker", "path", "rect", "g", "text", "tspan"}
    assert {e.tag.removeprefix(SVG) for e in root.iter()} <= allowed
    assert not any(name.startswith("on") or "href" in name for e in root.iter() for name in e.attrib)
    titles = "\n".join(t.text for t in root.iter(f"{SVG}title"))
    for text in HOSTILE[:5]:
        assert text in titles
    svg.encode("utf-8")


def test_control_characters_are_replaced():
    assert clean("a\0b\ud800<") == "a\ufffdb\ufffd&lt;"


def test_the_same_graph_gives_the_same_text_and_others_their_own_names():
    assert GRAPHS["textbook"].svg() == ad.graph(textbook)(2.0, 5.0).svg()
    one, two = (ET.fromstring(GRAPHS[name].svg()) for name in ("textbook", "network"))
    assert one.get("id") != two.get("id")


def test_large_constants_are_not_written_out():
    table = np.arange(1e5)
    graph = ad.graph(lambda x: np.sum(x * table))(np.ones(100_000))
    assert len(graph.svg()) < 20_000


def test_notebooks():
    assert "<svg" in GRAPHS["textbook"]._repr_html_()
    assert mixed(1001)._repr_html_() is None
