"use strict";
// The layout of layout.py, line for line, for graphs that are folded and unfolded on the page. A test compares the two.

const GAP_X = 24, BEND_GAP = 12, GAP_Y = 52, LONG = 24, LONGEST = 96, ORDER_SWEEPS = 6, PLACE_SWEEPS = 16;

function placeBoxes(sizes, edges) {
  if (!sizes.length) return { boxes: [], routes: [], width: 0, height: 0 };
  const net = joinCells(sizes, edges);
  orderLayers(net);
  return drawBoxes(net, findCenters(net));
}

function findRanks(count, edges) {
  const sources = Array.from({ length: count }, () => []), targets = Array.from({ length: count }, () => []);
  for (const [source, target] of edges) {
    sources[target].push(source);
    targets[source].push(target);
  }
  const rank = new Array(count).fill(0);
  for (let box = 0; box < count; box++) for (const s of sources[box]) rank[box] = Math.max(rank[box], rank[s] + 1);
  for (let box = count - 1; box >= 0; box--) {
    if (!targets[box].length || new Set(sources[box]).size > 1) continue;
    let least = Infinity;
    for (const t of targets[box]) least = Math.min(least, rank[t]);
    rank[box] = least - 1;
  }
  return rank;
}

function joinCells(sizes, edges) {
  const count = sizes.length, rank = findRanks(count, edges);
  const net = {
    sizes, edges, count, rank,
    widths: sizes.map((size) => size[0]),
    above: sizes.map(() => []),
    below: sizes.map(() => []),
    layers: Array.from({ length: rank.reduce((a, b) => Math.max(a, b), 0) + 1 }, () => []),
    bends: new Map(),
    routed: edges.map(() => true),
  };
  rank.forEach((r, box) => net.layers[r].push(box));
  const join = (upper, lower) => {
    const list = net.below[upper];
    if (list.length && list[list.length - 1] === lower) return;
    list.push(lower);
    net.above[lower].push(upper);
  };
  const ports = new Map();
  edges.forEach(([source, , port], i) => {
    const key = source + ":" + port;
    if (!ports.has(key)) ports.set(key, []);
    ports.get(key).push(i);
  });
  for (const [key, members] of ports) {
    members.sort((a, b) => rank[edges[a][1]] - rank[edges[b][1]]);
    const source = edges[members[0]][0], start = rank[source], chain = [];
    net.bends.set(key, chain);
    members.forEach((i, nth) => {
      const target = edges[i][1], span = rank[target] - start;
      if (span > Math.min(LONG * (nth + 1), LONGEST)) {
        net.routed[i] = false;
        return;
      }
      while (chain.length < span - 1) {
        const bend = net.widths.length;
        net.widths.push(0);
        net.above.push([]);
        net.below.push([]);
        net.layers[start + 1 + chain.length].push(bend);
        join(chain.length ? chain[chain.length - 1] : source, bend);
        chain.push(bend);
      }
      join(span > 1 ? chain[span - 2] : source, target);
    });
  }
  return net;
}

const gapBetween = (net, left, right) =>
  (net.widths[left] + net.widths[right]) / 2 + (left < net.count && right < net.count ? GAP_X : BEND_GAP);

const pullOf = (net, upper, lower) => (upper >= net.count && lower >= net.count ? 8 : net.above[upper].length ? 1 : 0.1);

function orderLayers(net) {
  const place = new Array(net.widths.length).fill(0);
  const number = (layer) => layer.forEach((cell, i) => (place[cell] = (i + 0.5) / layer.length));
  net.layers.forEach(number);
  let best = net.layers.map((layer) => layer.slice()), fewest = countCrossings(net, place);
  for (let sweep = 0; sweep < ORDER_SWEEPS && fewest; sweep++) {
    const down = sweep % 2 === 0, neighbours = down ? net.above : net.below;
    for (const layer of down ? net.layers : net.layers.slice().reverse()) {
      const keys = new Map();
      for (const cell of layer) {
        const near = neighbours[cell];
        keys.set(cell, near.length ? near.reduce((sum, n) => sum + place[n], 0) / near.length : place[cell]);
      }
      layer.sort((a, b) => keys.get(a) - keys.get(b));
      number(layer);
    }
    const crossings = countCrossings(net, place);
    if (crossings < fewest) {
      best = net.layers.map((layer) => layer.slice());
      fewest = crossings;
    }
  }
  net.layers = best;
}

function countCrossings(net, place) {
  let total = 0;
  for (const layer of net.layers) {
    const seen = [];
    const after = (end) => {
      let low = 0, high = seen.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (end < seen[middle]) high = middle;
        else low = middle + 1;
      }
      return low;
    };
    for (const cell of layer) {
      const ends = net.below[cell].map((n) => place[n]).sort((a, b) => a - b);
      for (const end of ends) total += seen.length - after(end);
      for (const end of ends) seen.splice(after(end), 0, end);
    }
  }
  return total;
}

function findCenters(net) {
  const x = new Array(net.widths.length).fill(0);
  for (const layer of net.layers) {
    let at = 0;
    layer.forEach((cell, i) => {
      at += i ? gapBetween(net, layer[i - 1], cell) : 0;
      x[cell] = at;
    });
    for (const cell of layer) x[cell] -= at / 2;
  }
  for (let sweep = 0; sweep < PLACE_SWEEPS; sweep++) {
    const last = sweep >= PLACE_SWEEPS - 2, down = sweep % 2 === 0;
    for (const layer of down ? net.layers : net.layers.slice().reverse()) {
      const wanted = [], weights = [];
      for (const cell of layer) {
        let total = 0, weight = 0;
        if (down || last)
          for (const upper of net.above[cell]) {
            const pull = pullOf(net, upper, cell);
            total += pull * x[upper];
            weight += pull;
          }
        if (!down || last)
          for (const lower of net.below[cell]) {
            const pull = pullOf(net, cell, lower);
            total += pull * x[lower];
            weight += pull;
          }
        wanted.push(weight ? total / weight : x[cell]);
        weights.push(weight || 0.01);
      }
      placeLayer(net, layer, wanted, weights, x);
    }
  }
  let left = Infinity;
  x.forEach((at, cell) => (left = Math.min(left, at - net.widths[cell] / 2)));
  return x.map((at) => at - left);
}

function placeLayer(net, layer, wanted, weights, x) {
  let offset = 0;
  const offsets = [], blocks = [];
  layer.forEach((cell, i) => {
    offset += i ? gapBetween(net, layer[i - 1], cell) : 0;
    offsets.push(offset);
    let mean = wanted[i] - offset, weight = weights[i], cells = 1;
    while (blocks.length && blocks[blocks.length - 1][0] >= mean) {
      const [before, heavy, more] = blocks.pop();
      mean = (before * heavy + mean * weight) / (heavy + weight);
      weight += heavy;
      cells += more;
    }
    blocks.push([mean, weight, cells]);
  });
  let i = 0;
  for (const [mean, , cells] of blocks) for (let k = 0; k < cells; k++, i++) x[layer[i]] = mean + offsets[i];
}

function drawBoxes(net, centers) {
  const boxes = new Array(net.count), tops = new Map();
  let y = 0;
  for (const layer of net.layers) {
    let height = 0;
    for (const cell of layer) if (cell < net.count) height = Math.max(height, net.sizes[cell][1]);
    for (const cell of layer) {
      const width = net.widths[cell];
      if (cell < net.count) boxes[cell] = { x: centers[cell] - width / 2, y, width, height: net.sizes[cell][1] };
      else tops.set(cell, [y, y + height]);
    }
    y += height + GAP_Y;
  }
  const arriving = boxes.map(() => []);
  const routes = net.edges.map(([source, target, port], i) => {
    const box = boxes[source], points = [[box.x + box.width * port, box.y + box.height]];
    const span = net.rank[target] - net.rank[source];
    if (net.routed[i])
      for (const bend of net.bends.get(source + ":" + port).slice(0, span - 1)) {
        const [top, bottom] = tops.get(bend);
        points.push([centers[bend], top], [centers[bend], bottom]);
      }
    arriving[target].push(i);
    return points;
  });
  let width = 0;
  arriving.forEach((members, target) => {
    const box = boxes[target];
    members.sort((a, b) => routes[a][routes[a].length - 1][0] - routes[b][routes[b].length - 1][0]);
    members.forEach((i, nth) => routes[i].push([box.x + (box.width * (nth + 1)) / (members.length + 1), box.y]));
    width = Math.max(width, box.x + box.width);
  });
  for (const route of routes) for (const point of route) width = Math.max(width, point[0]);
  return { boxes, routes, width, height: y - GAP_Y };
}
