"""Layered layout of a drawing, top to bottom: positions of boxes and routes of edges.

    1. a box goes below all its operands (longest path), and as near to its readers as possible at no cost;
    2. an edge that passes several layers gets a bend in each, which takes room like a box; the edges of one port share theirs;
    3. sweeps down and up order each layer by the mean position of its neighbours, to reduce crossings;
    4. sweeps place each layer as near to its neighbours as order and gaps permit: a least-squares fit with an exact solution.

Boxes and edges are numbered; an edge goes from a lower number to a higher one, so there are no cycles. The time grows
nearly linearly with the number of edges. `layout.js` is the same in JavaScript, for folding and unfolding.

>>> drawing = place([(40, 20), (40, 20), (40, 20)], [Edge(0, 1), Edge(0, 2)])
>>> [(box.x, box.y) for box in drawing.boxes]
[(32.0, 0.0), (0.0, 72.0), (64.0, 72.0)]
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import NamedTuple

GAP_X = 24.0  # between boxes of a layer
BEND_GAP = 12.0  # between an edge that passes a layer and its neighbours
GAP_Y = 52.0  # between layers; edges start straight through their type labels
LONG = 24  # layers of an edge that is routed around boxes, per edge of its port
LONGEST = 96  # the same, for any number of edges
ORDER_SWEEPS = 6
PLACE_SWEEPS = 16


class Edge(NamedTuple):
    """From the bottom of one box, at a fraction of its width, to the top of another."""

    source: int
    target: int
    port: float = 0.5


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float


Point = tuple[float, float]


class Drawing(NamedTuple):
    """Boxes by their upper left corners; the points of each edge; the size of the drawing."""

    boxes: list[Box]
    routes: list[list[Point]]
    width: float
    height: float


def place(sizes: Sequence[tuple[float, float]], edges: Sequence[Edge]) -> Drawing:
    """Lay out boxes of the given widths and heights."""
    if not sizes:
        return Drawing([], [], 0.0, 0.0)
    net = _Net(sizes, edges)
    _order(net)
    centers = _centers(net)
    return _draw(net, centers)


class _Net:
    """Boxes and bends in layers; `above` and `below` join cells of adjacent layers. Cells after the last box are bends."""

    def __init__(self, sizes: Sequence[tuple[float, float]], edges: Sequence[Edge]) -> None:
        self.sizes, self.edges, self.count = sizes, edges, len(sizes)
        rank = _ranks(self.count, edges)
        self.widths = [width for width, _ in sizes]
        self.above: list[list[int]] = [[] for _ in sizes]
        self.below: list[list[int]] = [[] for _ in sizes]
        self.layers: list[list[int]] = [[] for _ in range(max(rank) + 1)]
        for box, r in enumerate(rank):
            self.layers[r].append(box)
        self.bends: dict[tuple[int, float], list[int]] = {}  # of a port, one in each layer below it
        self.routed = [True] * len(edges)
        ports: dict[tuple[int, float], list[int]] = {}
        for i, edge in enumerate(edges):
            ports.setdefault((edge.source, edge.port), []).append(i)
        for port, members in ports.items():
            self._route(port, sorted(members, key=lambda i: rank[edges[i].target]), rank)

    def _route(self, port: tuple[int, float], members: Sequence[int], rank: Sequence[int]) -> None:
        start = rank[port[0]]
        chain = self.bends[port] = []
        for nth, i in enumerate(members, 1):
            target = self.edges[i].target
            span = rank[target] - start
            if span > min(LONG * nth, LONGEST):
                self.routed[i] = False
                continue
            while len(chain) < span - 1:
                bend = len(self.widths)
                self.widths.append(0.0)
                self.above.append([])
                self.below.append([])
                self.layers[start + 1 + len(chain)].append(bend)
                self._join(chain[-1] if chain else port[0], bend)
                chain.append(bend)
            self._join(chain[span - 2] if span > 1 else port[0], target)

    def _join(self, upper: int, lower: int) -> None:
        if lower not in self.below[upper][-1:]:
            self.below[upper].append(lower)
            self.above[lower].append(upper)

    def gap(self, left: int, right: int) -> float:
        """The minimum distance between the centres of two neighbours."""
        gap = GAP_X if left < self.count and right < self.count else BEND_GAP
        return (self.widths[left] + self.widths[right]) / 2 + gap

    def pull(self, upper: int, lower: int) -> float:
        """The weight of a link being vertical: largest for long edges, so that they are straight; a source must not move a
        chain."""
        if upper >= self.count and lower >= self.count:
            return 8.0
        return 1.0 if self.above[upper] else 0.1


def _ranks(count: int, edges: Sequence[Edge]) -> list[int]:
    """The layer of each box."""
    sources: list[list[int]] = [[] for _ in range(count)]
    targets: list[list[int]] = [[] for _ in range(count)]
    for edge in edges:
        if not 0 <= edge.source < edge.target < count:
            raise ValueError(f"edge {edge.source} → {edge.target} does not go from a lower box to a higher one of {count}")
        sources[edge.target].append(edge.source)
        targets[edge.source].append(edge.target)
    rank = [0] * count
    for box in range(count):
        rank[box] = max((rank[s] + 1 for s in sources[box]), default=0)
    for box in reversed(range(count)):  # at most one operand: moving it down lengthens no edge in total
        if targets[box] and len(set(sources[box])) <= 1:
            rank[box] = min(rank[t] for t in targets[box]) - 1
    return rank


# -- order in the layers ----------------------------------------------------------------------------------------


def _order(net: _Net) -> None:
    """Sort the layers to reduce crossings; returns the best order found."""
    place_of = [0.0] * len(net.widths)
    for layer in net.layers:
        _number(layer, place_of)
    best, fewest = [list(layer) for layer in net.layers], _crossings(net, place_of)
    for sweep in range(ORDER_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        neighbours = net.above if down else net.below
        for layer in net.layers if down else reversed(net.layers):
            keys = {}
            for cell in layer:
                near = neighbours[cell]
                # Added from left to right, as JavaScript does: since Python 3.12, `sum` rounds once.
                total = reduce(add, (place_of[n] for n in near), 0.0)
                keys[cell] = total / len(near) if near else place_of[cell]
            layer.sort(key=keys.__getitem__)
            _number(layer, place_of)
        crossings = _crossings(net, place_of)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in net.layers], crossings
    net.layers = best


def _number(layer: Sequence[int], place_of: list[float]) -> None:
    """Positions between 0 and 1, so that layers of different lengths are comparable."""
    for i, cell in enumerate(layer):
        place_of[cell] = (i + 0.5) / len(layer)


def _crossings(net: _Net, place_of: Sequence[float]) -> int:
    """How often edges between adjacent layers cross, for layers as `place_of` numbers them."""
    total = 0
    for layer in net.layers:
        seen: list[float] = []
        for cell in layer:
            ends = sorted(place_of[n] for n in net.below[cell])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


# -- coordinates ------------------------------------------------------------------------------------------------


def _centers(net: _Net) -> list[float]:
    """The x of every cell's centre."""
    x = [0.0] * len(net.widths)
    for layer in net.layers:
        _spread(net, layer, x)
    for sweep in range(PLACE_SWEEPS):
        down, last = sweep % 2 == 0, sweep >= PLACE_SWEEPS - 2
        for layer in net.layers if down else reversed(net.layers):
            pulls = [_pulls(net, cell, down or last, not down or last) for cell in layer]
            weights = [sum(pull for pull, _ in found) for found in pulls]
            wanted = [
                sum(pull * x[other] for pull, other in found) / weight if weight else x[cell]
                for cell, found, weight in zip(layer, pulls, weights, strict=True)
            ]
            _place_layer(net, layer, wanted, [weight or 0.01 for weight in weights], x)
    left = min(x[cell] - net.widths[cell] / 2 for cell in range(len(x)))
    return [at - left for at in x]


def _spread(net: _Net, layer: Sequence[int], x: list[float]) -> None:
    """Place the cells of a layer side by side, around 0."""
    at = 0.0
    for i, cell in enumerate(layer):
        at += net.gap(layer[i - 1], cell) if i else 0.0
        x[cell] = at
    for cell in layer:
        x[cell] -= at / 2


def _pulls(net: _Net, cell: int, above: bool, below: bool) -> list[tuple[float, int]]:
    """The cells that a cell is drawn to, and how strongly."""
    uppers = [(net.pull(upper, cell), upper) for upper in (net.above[cell] if above else ())]
    return uppers + [(net.pull(cell, lower), lower) for lower in (net.below[cell] if below else ())]


def _place_layer(net: _Net, layer: Sequence[int], wanted: Sequence[float], weights: Sequence[float], x: list[float]) -> None:
    """Place a layer as near as possible to the wanted positions, keeping order and gaps: pool adjacent violators."""
    offset, offsets = 0.0, []
    blocks: list[tuple[float, float, int]] = []  # mean, weight, cells
    for i, cell in enumerate(layer):
        offset += net.gap(layer[i - 1], cell) if i else 0.0
        offsets.append(offset)
        mean, weight, cells = wanted[i] - offset, weights[i], 1
        while blocks and blocks[-1][0] >= mean:
            before, heavy, more = blocks.pop()
            mean = (before * heavy + mean * weight) / (heavy + weight)
            weight += heavy
            cells += more
        blocks.append((mean, weight, cells))
    i = 0
    for mean, _, cells in blocks:
        for _ in range(cells):
            x[layer[i]] = mean + offsets[i]
            i += 1


# -- the drawing ------------------------------------------------------------------------------------------------


def _draw(net: _Net, centers: Sequence[float]) -> Drawing:
    boxes = [Box(0.0, 0.0, 0.0, 0.0)] * net.count
    tops: dict[int, Point] = {}  # of a bend: the top and bottom of its layer
    y = 0.0
    for layer in net.layers:
        height = max((net.sizes[cell][1] for cell in layer if cell < net.count), default=0.0)
        for cell in layer:
            if cell < net.count:
                width = net.widths[cell]
                boxes[cell] = Box(centers[cell] - width / 2, y, width, net.sizes[cell][1])
            else:
                tops[cell] = (y, y + height)
        y += height + GAP_Y

    layer_of = {cell: r for r, layer in enumerate(net.layers) for cell in layer}
    routes: list[list[Point]] = []
    for i, edge in enumerate(net.edges):
        box = boxes[edge.source]
        points = [(box.x + box.width * edge.port, box.y + box.height)]
        span = layer_of[edge.target] - layer_of[edge.source]
        for bend in net.bends[edge.source, edge.port][: span - 1] if net.routed[i] else []:
            points += [(centers[bend], tops[bend][0]), (centers[bend], tops[bend][1])]
        routes.append(points)
    arriving: list[list[int]] = [[] for _ in boxes]
    for i, edge in enumerate(net.edges):
        arriving[edge.target].append(i)
    for target, members in enumerate(arriving):  # side by side, in order of arrival
        box = boxes[target]
        members.sort(key=lambda i: routes[i][-1][0])
        for nth, i in enumerate(members):
            routes[i].append((box.x + box.width * (nth + 1) / (len(members) + 1), box.y))
    width = max([box.x + box.width for box in boxes] + [point[0] for route in routes for point in route])
    return Drawing(boxes, routes, width, y - GAP_Y)
