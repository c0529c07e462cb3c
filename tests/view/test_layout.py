import random
from itertools import pairwise

import pytest

from adjoint.view.layout import BEND_GAP, Edge, place


def random_edges(count, reach, seed, degree=2):
    generator = random.Random(seed)
    return [Edge(generator.randrange(max(0, t - reach), t), t) for t in range(1, count) for _ in range(degree)]


def overlaps(boxes):
    """Pairs of boxes that cover each other, by layers: boxes of different layers never share a height."""
    layers = {}
    for box in boxes:
        layers.setdefault(box.y, []).append(box)
    heights = sorted((y, max(b.y + b.height for b in layer)) for y, layer in layers.items())
    found = [(a, b) for a, b in pairwise(heights) if a[1] > b[0]]
    for layer in layers.values():
        layer.sort()
        found += [(a, b) for a, b in pairwise(layer) if a.x + a.width > b.x + 1e-6]
    return found


def check_drawing(drawing, edges):
    assert not overlaps(drawing.boxes)
    for edge, route in zip(edges, drawing.routes, strict=True):
        source, target = drawing.boxes[edge.source], drawing.boxes[edge.target]
        assert route[0] == pytest.approx((source.x + source.width * edge.port, source.y + source.height))
        assert route[-1][1] == target.y
        assert target.x < route[-1][0] < target.x + target.width
        assert all(a[1] <= b[1] for a, b in pairwise(route))
        assert route[0][1] < route[-1][1]
    for box in drawing.boxes:
        assert box.x >= -1e-9
        assert box.x + box.width <= drawing.width + 1e-9
        assert box.y + box.height <= drawing.height + 1e-9


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("count, reach", [(2, 1), (10, 4), (60, 8), (60, 60), (200, 20)])
def test_random_graphs_have_no_overlaps_and_edges_go_down(count, reach, seed):
    edges = random_edges(count, reach, seed)
    generator = random.Random(seed)
    sizes = [(generator.uniform(10, 150), generator.uniform(20, 70)) for _ in range(count)]
    drawing = place(sizes, edges)
    assert [(box.width, box.height) for box in drawing.boxes] == sizes
    check_drawing(drawing, edges)


def test_routes_avoid_boxes():
    """An edge that passes a layer keeps its distance from the boxes there."""
    edges = random_edges(80, 10, 3)
    drawing = place([(60.0, 30.0)] * 80, edges)
    for route in drawing.routes:
        for x, y in route[1:-1]:
            for box in drawing.boxes:
                if box.y <= y <= box.y + box.height:
                    assert not box.x - BEND_GAP + 1e-6 < x < box.x + box.width + BEND_GAP - 1e-6


def test_a_chain_is_straight():
    drawing = place([(50.0, 20.0), (80.0, 20.0), (30.0, 20.0)], [Edge(0, 1), Edge(1, 2)])
    assert [box.x + box.width / 2 for box in drawing.boxes] == [40.0, 40.0, 40.0]


def test_a_tree_has_no_crossings():
    edges = [Edge(p, c) for p in range(15) for c in (2 * p + 1, 2 * p + 2)]
    order = sorted(range(31), key=lambda i: i)
    generator = random.Random(1)
    generator.shuffle(edges)
    drawing = place([(20.0, 20.0)] * 31, edges)
    check_drawing(drawing, edges)
    leaves = [drawing.boxes[i].x for i in order[15:]]
    for p in range(7, 15):  # the two children of each stand beside each other
        a, b = leaves[2 * p - 14], leaves[2 * p - 13]
        assert not any(min(a, b) < x < max(a, b) for x in leaves)


def test_sources_are_placed_near_their_reader():
    chain = [Edge(i, i + 1) for i in range(1, 20)]
    drawing = place([(20.0, 20.0)] * 21, [Edge(0, 20), *chain])
    assert drawing.boxes[0].y == drawing.boxes[19].y


def test_edges_of_one_port_share_their_bends():
    chain = [Edge(i, i + 1) for i in range(10)]
    fan = [Edge(0, i) for i in range(2, 11)]
    drawing = place([(20.0, 20.0)] * 11, chain + fan)
    first = [route[1:3] for route in drawing.routes[11:]]
    assert all(points == first[0] for points in first)


def test_ports_keep_apart():
    edges = [Edge(0, 1, 1 / 3), Edge(0, 2, 2 / 3)]
    drawing = place([(90.0, 20.0), (20.0, 20.0), (20.0, 20.0)], edges)
    check_drawing(drawing, edges)
    assert drawing.routes[0][0][0] + 30 == pytest.approx(drawing.routes[1][0][0])


def test_degenerate():
    assert place([], []) == ([], [], 0.0, 0.0)
    alone = place([(10.0, 5.0)], [])
    assert alone.boxes == [(0.0, 0.0, 10.0, 5.0)]
    assert (alone.width, alone.height) == (10.0, 5.0)
    apart = place([(10.0, 5.0)] * 3, [])
    assert not overlaps(apart.boxes)
    twice = place([(10.0, 5.0)] * 2, [Edge(0, 1), Edge(0, 1)])
    assert twice.routes[0][-1] != twice.routes[1][-1]


@pytest.mark.parametrize("edge", [Edge(1, 0), Edge(0, 0), Edge(0, 2), Edge(-1, 1)])
def test_edges_that_are_none(edge):
    with pytest.raises(ValueError, match="lower box to a higher one"):
        place([(10.0, 5.0)] * 2, [edge])


def test_long_edges_cost_little():
    """A gradient reads in its second half what its first half computed: the bends must not grow with the square."""
    count = 3000
    edges = [Edge(i, i + 1) for i in range(count - 1)] + [Edge(i, count - 1 - i) for i in range(count // 2 - 1)]
    drawing = place([(60.0, 30.0)] * count, edges)
    assert sum(map(len, drawing.routes)) < 60 * count
    check_drawing(drawing, edges)
