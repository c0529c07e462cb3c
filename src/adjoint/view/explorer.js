// The explorer. Text from the program only ever becomes a text node, never markup.

const started = performance.now();
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const picture = byId("picture");
const STEM = 20, MARGIN = 24, NUMBER_LINE = 15, FOLD_AT = 60, FAR = 1500;
const LOOKS = ["waiting", "unreached", "chosen", "found"], CHOSEN = 4, FIRST = 16; // bits of how a box looks

const state = {
  graph: "raw", // which of data.graphs
  open: { raw: new Set(), simplified: new Set() }, // groups that are unfolded
  position: -1, // in stops; -1 is the overview, with everything shown
  chosen: -1, // index in view.nodes
  found: [], at: -1, // matches of the search, and the one we are at
};
let view = null; // what is drawn: nodes, edges, drawing, stops

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "rect", "text", "tspan", "path", "title", "defs", "marker"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const current = () => data.graphs[state.graph];

// -- folding: which boxes stand for which nodes --------------------------------------------------------------------

function representative(graph, i) {
  // the outermost closed group that holds node i, or the node itself
  let shown = "n" + i;
  for (let g = graph.nodes[i].group ?? -1; g >= 0; g = graph.groups[g].parent) if (!state.open[state.graph].has(g)) shown = "g" + g;
  return shown;
}

function build() {
  const graph = current(), keys = graph.nodes.map((_, i) => representative(graph, i));
  const index = new Map(), nodes = [];
  const isEquation = (i) => graph.nodes[i].equation;
  graph.nodes.forEach((node, i) => {
    const key = keys[i];
    if (key[0] === "n") {
      index.set(key, nodes.length);
      nodes.push({ ...node, members: [i], step: isEquation(i) || node.kind === "output" });
    } else if (isEquation(i)) {
      if (!index.has(key)) {
        const group = graph.groups[+key.slice(1)];
        index.set(key, nodes.length);
        nodes.push(groupBox(graph, group, +key.slice(1)));
      }
      nodes[index.get(key)].members.push(i);
    }
  });
  graph.nodes.forEach((_, i) => keys[i][0] === "g" && !isEquation(i) && nodes[index.get(keys[i])].inside++);
  const seen = new Set(), edges = [];
  for (const [source, target, port] of graph.edges) {
    const s = index.get(keys[source]), t = index.get(keys[target]);
    const from = nodes[s].group_index === undefined ? port : 0.5, key = s + ":" + t + ":" + from;
    if (s === t || (seen.has(key) && (nodes[s].group_index !== undefined || nodes[t].group_index !== undefined))) continue;
    seen.add(key);
    edges.push([s, t, from]);
  }
  const drawing = placeBoxes(nodes.map((n) => [n.width, n.height]), edges);
  const order = nodes.map((_, i) => i).filter((i) => nodes[i].step);
  const stops = [{ phase: "start", node: -1 }, ...order.map((node) => ({ phase: "forward", node }))];
  if (graph.evaluated && !graph.refusals.adjoint) {
    stops.push(...order.slice().reverse().map((node) => ({ phase: "backward", node })), { phase: "done", node: -1 });
  }
  const owner = keys.map((key) => index.get(key));
  view = { graph, nodes, edges, drawing, stops, owner, elements: [], lines: [], rows: [], looks: [], found: new Set(), reach: new Map() };
  order.forEach((node, i) => view.reach.set(node, i + 1));
}

function groupBox(graph, group, g) {
  const last = graph.nodes[group.last];
  return {
    kind: "group", name: "", op: group.label, detail: group.detail, text: group.label, row: group.label, line: last.line, code: "", values: last.values,
    labels: last.labels.slice(-1), width: group.width, height: group.height, members: [], inside: 0, step: true, group_index: g,
  };
}

// -- drawing ------------------------------------------------------------------------------------------------------

function curve(route) {
  let [x, y] = route[0], path = `M${x.toFixed(1)} ${y.toFixed(1)}`;
  y += STEM;
  path += `V${y.toFixed(1)}`;
  for (const [toX, toY] of route.slice(1)) {
    const middle = (y + toY) / 2;
    path += toX === x ? `V${toY.toFixed(1)}` : `C${x.toFixed(1)} ${middle.toFixed(1)} ${toX.toFixed(1)} ${middle.toFixed(1)} ${toX.toFixed(1)} ${toY.toFixed(1)}`;
    [x, y] = [toX, toY];
  }
  return path;
}

function draw() {
  build();
  const { nodes, edges, drawing } = view;
  const tip = make("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse" }, make("path", { class: "tip", d: "M0 0.5 L8 4 L0 7.5 Z" }));
  view.extents = drawing.boxes.map((box) => [box.x, box.y, box.x + box.width, box.y + box.height + STEM]);
  view.lineExtents = drawing.routes.map((route) => {
    const xs = route.map((point) => point[0]);
    return [Math.min(...xs), route[0][1], Math.max(...xs), route[route.length - 1][1]];
  });
  view.lineLayer = make("g", { "aria-hidden": "true" });
  view.boxLayer = make("g");
  picture.replaceChildren(make("defs", {}, tip), view.lineLayer, view.boxLayer);
  view.rows = nodes.map(row);
  view.looks = nodes.map(() => 0);
  byId("rows").replaceChildren(...view.rows.map((button) => make("li", {}, button)));
  const equations = view.graph.nodes.filter((n) => n.equation).length;
  byId("size").textContent = count(equations, "equation") + (nodes.length < view.graph.nodes.length ? `, ${nodes.length} boxes shown` : "");
  byId("slider").max = view.stops.length - 1;
  byId("folds").hidden = !view.graph.groups.length;
  byId("fold").disabled = !state.open[state.graph].size;
  byId("unfold").disabled = view.graph.groups.every((_, g) => state.open[state.graph].has(g));
  for (const name of ["raw", "simplified"]) byId(name).setAttribute("aria-pressed", String(name === state.graph));
  const kinds = new Set(nodes.map((n) => n.kind));
  byId("legend").replaceChildren(...Object.entries(data.kinds).filter(([kind]) => kinds.has(kind)).map(([kind, words]) => make("li", { class: kind }, make("i"), words)));
}

function line(i) {
  const [source, target] = view.edges[i], route = view.drawing.routes[i];
  const far = route.length === 2 && route[1][1] - route[0][1] > FAR;
  view.lines[i] ??= make("path", { d: curve(route), "marker-end": "url(#tip)" });
  const lit = target === state.chosen ? (view.stops[state.position]?.phase === "backward" ? " back" : " live") : "";
  view.lines[i].setAttribute("class", "edge" + (far ? " far" : "") + lit);
  return view.lines[i];
}

function element(i) {
  if (!view.elements[i]) {
    view.elements[i] = box(view.nodes[i], i, view.drawing.boxes[i]);
    dress(view.elements[i], view.looks[i]);
  }
  return view.elements[i];
}

function dress(element, look) {
  LOOKS.forEach((name, bit) => element.classList.toggle(name, Boolean(look & (1 << bit))));
  element.setAttribute("tabindex", look & FIRST ? "0" : "-1");
}

const unusual = (node) => node.values.some((v) => [v.value, v.adjoint, v.tangent].some((s) => s && (s.nan || s.inf)));

function box(node, i, { x, y, width, height }) {
  const middle = x + width / 2, round = node.kind === "input" || node.kind === "output" ? 15 : 7;
  const label = describe(node);
  const g = make("g", { class: `node ${node.kind}`, role: "button", tabindex: "-1", "aria-label": label, "data-index": i }, make("title", {}, label));
  if (node.group_index !== undefined) g.append(make("rect", { class: "behind", x: x + 5, y: y + 5, width, height, rx: round }));
  g.append(make("rect", { class: "front", x, y, width, height, rx: round }));
  const head = make("text", { x: middle, y: y + 18 }, node.name);
  if (node.op) head.append(node.name ? " " : "", make("tspan", { class: "op" }, node.op));
  g.append(head);
  if (node.detail) g.append(make("text", { class: "small", x: middle, y: y + 33 }, node.detail));
  const first = node.values[0] ?? {};
  const base = y + (node.detail ? 42 : 28);
  if (view.graph.evaluated) {
    if (first.value) g.append(make("text", { class: "small value", x: middle, y: base + NUMBER_LINE - 4 }, `= ${first.value.brief}`));
    if (first.adjoint) g.append(make("text", { class: "small adjoint", x: middle, y: base + 2 * NUMBER_LINE - 2 }, `adj ${first.adjoint.brief}`));
  }
  node.labels.forEach((text, k) => g.append(make("text", { class: "small type", x: x + (width * (k + 0.5)) / node.labels.length, y: y + height + 15 }, text)));
  if (unusual(node)) g.append(make("text", { class: "mark", x: x + width - 10, y: y + 16 }, "!"));
  return g;
}

function describe(node) {
  const kind = node.kind === "group" ? "repeated structure, folded" : data.kinds[node.kind];
  return `${node.text} (${kind})${node.line ? ", " + node.line : ""}${unusual(node) ? ", has nan or inf" : ""}`;
}

function row(node, i) {
  const first = node.values[0] ?? {};
  const button = make("button", { type: "button", class: `row ${node.kind}`, "data-index": i, tabindex: "-1", title: node.text }, make("span", {}, node.row));
  button.append(make("span", { class: "value" }, first.value ? first.value.brief : ""), make("span", { class: "adjoint" }, first.adjoint ? first.adjoint.brief : ""));
  return button;
}

// -- steps --------------------------------------------------------------------------------------------------------

function show() {
  const { nodes, stops, reach } = view, stop = stops[state.position];
  const forward = reach.size, back = Math.max(0, state.position - forward);
  nodes.forEach((node, i) => {
    const turn = reach.get(i) ?? 0;
    const waiting = Boolean(stop) && turn > state.position;
    const unreached = Boolean(stop) && stop.phase !== "done" && (!node.step || forward - turn >= back);
    const chosen = i === state.chosen, first = chosen || (state.chosen < 0 && i === 0);
    const look = (waiting ? 1 : 0) + (unreached ? 2 : 0) + (chosen ? CHOSEN : 0) + (view.found.has(i) ? 8 : 0) + (first ? FIRST : 0);
    if (look === view.looks[i]) return; // most boxes stay as they are: a step touches few
    view.looks[i] = look;
    dress(view.rows[i], look);
    if (view.elements[i]) dress(view.elements[i], look);
  });
  look();
  byId("slider").value = Math.max(state.position, 0);
  byId("slider").setAttribute("aria-valuetext", words(stop));
  byId("status").textContent = words(stop);
  byId("first").disabled = byId("previous").disabled = state.position === 0;
  byId("next").disabled = byId("end").disabled = state.position === stops.length - 1;
  details();
  if (state.chosen >= 0) requestAnimationFrame(() => view.rows[state.chosen]?.scrollIntoView({ block: "nearest" }));
}

function words(stop) {
  if (!stop) return view.graph.evaluated ? "Overview: all values and adjoints" : "Overview";
  const where = `${state.position} of ${view.stops.length - 1}`;
  if (stop.phase === "start") return `${where} · start: the inputs are known`;
  if (stop.phase === "done") return `${where} · done: the adjoints of the inputs are the gradient`;
  const node = view.nodes[stop.node], name = node.name || node.op;
  return `${where} · ${stop.phase === "forward" ? (view.graph.evaluated ? "forward: value of" : "forward:") : "backward: adjoint of"} ${name}`;
}

function go(position) {
  state.position = Math.max(0, Math.min(view.stops.length - 1, position));
  const stop = view.stops[state.position];
  state.chosen = stop.node;
  show();
  if (stop.node >= 0) reveal(stop.node);
}

function choose(i) {
  state.chosen = i;
  show();
}

function overview() {
  state.position = -1;
  state.chosen = -1;
  show();
}

// -- the selected node --------------------------------------------------------------------------------------------

function details() {
  const panel = byId("details"), node = view.nodes[state.chosen];
  if (!node) return panel.replaceChildren(...introduction());
  const parts = [make("h2", {}, node.kind === "group" ? node.op : `${node.name} ${node.op}`.trim())];
  parts.push(make("p", {}, make("span", { class: `badge ${node.kind}` }, node.kind === "group" ? "repeated structure" : data.kinds[node.kind])));
  if (node.kind === "group") {
    parts.push(make("p", {}, node.detail + (node.inside ? `, with ${count(node.inside, "box").replace("boxs", "boxes")} for inputs, constants and outputs of its own` : "")));
    parts.push(button("Unfold", "open", () => toggle(node.group_index, true)));
  } else {
    parts.push(make("pre", {}, node.text));
    const chain = [];
    for (let g = view.graph.nodes[node.members[0]].group ?? -1; g >= 0; g = view.graph.groups[g].parent) chain.push(g);
    if (chain.length) {
      const g = chain[0];
      parts.push(make("p", {}, button(`Fold ${view.graph.groups[g].label}`, "close", () => toggle(g, false))));
      if (chain.length > 1) parts.push(make("p", {}, button(`Fold ${view.graph.groups[chain[1]].label}`, "closeAll", () => toggle(chain[1], false))));
    }
  }
  const several = node.values.length > 1 || node.kind === "group";
  for (const value of node.values) {
    for (const [what, title] of [["value", "Value"], ["adjoint", node.kind === "output" ? "Adjoint (seed)" : "Adjoint"], ["tangent", "Tangent"]])
      if (value[what]) parts.push(...told(what, several ? `${title} of ${value.name}` : title, value[what]));
    if (view.graph.evaluated && !value.adjoint && node.kind !== "group")
      parts.push(make("h3", { class: "adjoint" }, several ? `Adjoint of ${value.name}` : "Adjoint"), make("p", { class: "soft" }, view.graph.refusals.adjoint ?? "none: no output depends on it by a derivative"));
    parts.push(make("h3", {}, "Type"), make("pre", {}, value.type));
  }
  if (node.rules && node.rules.length) parts.push(make("h3", {}, "Rule"), ...node.rules.map((rule) => make("pre", { class: "rule" }, rule)));
  if (node.hands && node.hands.length) {
    parts.push(make("h3", { class: "adjoint" }, "Hands on to"));
    for (const hand of node.hands) parts.push(make("pre", {}, `${hand.to}: ${hand.part}` + (hand.first ? "" : `   (${hand.total} in all)`)));
  }
  if (node.line) parts.push(make("h3", {}, "Source"), make("pre", { class: "source" }, node.line + (node.code ? `\n${node.code}` : "")));
  const linked = (title, indices) => {
    if (!indices.length) return;
    const links = make("div", { class: "links" });
    for (const i of [...new Set(indices)].slice(0, 40)) links.append(button(view.nodes[i].name || view.nodes[i].op, "", () => { choose(i); reveal(i); }));
    parts.push(make("h3", {}, title), links);
  };
  linked("Reads", view.edges.filter((e) => e[1] === state.chosen).map((e) => e[0]));
  linked("Read by", view.edges.filter((e) => e[0] === state.chosen).map((e) => e[1]));
  panel.replaceChildren(...parts);
}

function introduction() {
  const parts = [make("h2", {}, data.name)];
  const inputs = view.graph.nodes.filter((n) => n.kind === "input").length, outputs = view.graph.nodes.filter((n) => n.kind === "output").length;
  parts.push(make("p", {}, `${count(inputs, "input")}, ${count(outputs, "output")}. Click a box, or step with the arrow keys: forward through the ${view.graph.evaluated ? "values, then backward through the adjoints" : "equations"}.`));
  if (view.graph.refusals.adjoint) parts.push(make("p", { class: "warn" }, `No adjoints: ${view.graph.refusals.adjoint}`));
  const odd = view.nodes.map((n, i) => [n, i]).filter(([n]) => unusual(n));
  if (odd.length) {
    const links = make("div", { class: "links" });
    for (const [n, i] of odd.slice(0, 12)) links.append(button(n.name || n.op, "", () => { choose(i); reveal(i); }));
    parts.push(make("p", { class: "warn" }, `${count(odd.length, "value")} with nan or inf; the first:`), links);
  }
  return parts;
}

function button(text, id, action) {
  const element = make("button", { type: "button", id: id || undefined }, text);
  element.addEventListener("click", action);
  return element;
}

function told(what, title, summary) {
  const parts = [make("h3", { class: what }, title), make("pre", { class: `${what} full` }, summary.full)];
  if (summary.extremes) parts.push(make("pre", { class: "soft" }, summary.extremes));
  if (summary.nan || summary.inf) parts.push(make("p", { class: "warn" }, `${summary.nan} nan, ${summary.inf} inf`));
  if (summary.map && summary.map[0].length * summary.map.length > 2) parts.push(heat(summary.map, what));
  return parts;
}

function heat(rows, what) {
  const cell = rows.length * rows[0].length > 64 ? 11 : 16, colour = getComputedStyle(document.documentElement).getPropertyValue(`--${what}`);
  const map = make("svg", { class: "map", width: rows[0].length * cell, height: rows.length * cell, role: "img", "aria-label": "small picture of the array, dark where it is large" });
  rows.forEach((text, y) => [...text].forEach((level, x) => {
    const rect = make("rect", { x: x * cell, y: y * cell, width: cell - 1, height: cell - 1, fill: level === "x" ? "var(--warn)" : colour, "fill-opacity": level === "x" ? 1 : 0.06 + (0.94 * level) / 9 });
    map.append(rect);
  }));
  return map;
}

// -- folds, graphs, search, theme -----------------------------------------------------------------------------------

function redraw(change) {
  // the step and the node we are at stay, as the boxes that now hold them
  const at = state.position >= 0 ? view.stops[state.position] : null, before = view.nodes;
  const member = (i) => (i >= 0 ? before[i].members[0] : -1);
  const stopNode = at ? member(at.node) : -1, chosenNode = member(state.chosen);
  change();
  draw();
  if (at) {
    const found = view.stops.findIndex((s) => s.phase === at.phase && (s.node < 0 || view.nodes[s.node].members.includes(stopNode)));
    state.position = Math.max(found, 0);
  }
  state.chosen = chosenNode >= 0 ? view.owner[chosenNode] : -1;
  search();
}

function toggle(group, open) {
  redraw(() => (open ? state.open[state.graph].add(group) : close(group)));
  if (state.chosen >= 0) reveal(state.chosen);
}

function close(group) {
  state.open[state.graph].delete(group);
  current().groups.forEach((g, i) => g.parent === group && state.open[state.graph].delete(i));
}

function foldAll(folded) {
  redraw(() => (state.open[state.graph] = new Set(folded ? [] : current().groups.keys())));
  fit();
}

function use(name) {
  if (!data.graphs[name] || name === state.graph) return;
  state.graph = name;
  state.chosen = -1;
  if (state.position >= 0) state.position = 0;
  draw();
  search();
  fit();
}

function search(step = 0) {
  const text = byId("search").value.trim().toLowerCase();
  const matches = (i) => [view.graph.nodes[i].text, view.graph.nodes[i].line].some((t) => t.toLowerCase().includes(text));
  state.found = text ? view.nodes.map((_, i) => i).filter((i) => view.nodes[i].text.toLowerCase().includes(text) || view.nodes[i].members.some(matches)) : [];
  view.found = new Set(state.found);
  if (step && state.found.length) {
    state.at = state.at < 0 && step < 0 ? state.found.length - 1 : (state.at + step + state.found.length) % state.found.length;
    state.chosen = state.found[state.at];
    reveal(state.chosen);
  }
  show();
  byId("matches").textContent = !text ? "" : !state.found.length ? "none" : state.at >= 0 ? `${state.at + 1} of ${state.found.length}` : `${state.found.length} found`;
}

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  details();
}

// -- moving about ---------------------------------------------------------------------------------------------------

const camera = { x: 0, y: 0, scale: 1 }; // the left upper corner in the drawing, and pixels for each of its units

function look() {
  // Only what is in sight, or nearly, is in the document: it stays quick however large the graph is.
  const { scale } = camera, width = canvas.width / scale, height = canvas.height / scale;
  picture.setAttribute("viewBox", `${camera.x} ${camera.y} ${width} ${height}`);
  picture.classList.toggle("distant", scale < 0.3);
  const left = camera.x - width / 4, right = camera.x + 1.25 * width, top = camera.y - height / 4, bottom = camera.y + 1.25 * height;
  const inside = ([x0, y0, x1, y1]) => x0 < right && x1 > left && y0 < bottom && y1 > top;
  const attach = (layer, made, make, extents, kept) => {
    const added = [];
    extents.forEach((extent, i) => {
      if (inside(extent) || kept(i)) {
        const element = make(i);
        if (!element.parentNode) added.push(element);
      } else if (made[i]?.parentNode) made[i].remove();
    });
    layer.append(...added);
  };
  attach(view.lineLayer, view.lines, line, view.lineExtents, () => false);
  attach(view.boxLayer, view.elements, element, view.extents, (i) => view.looks[i] & FIRST);
}

const canvas = { width: 0, height: 0 }; // measured when it changes, since asking is slow

function measure() {
  const { clientWidth, clientHeight } = byId("canvas");
  canvas.width = clientWidth;
  canvas.height = clientHeight;
}

function frame() {
  // the whole graph, above the legend
  const { width, height } = view.drawing, room = canvas.height - 30;
  const whole = Math.min(canvas.width / (width + 2 * MARGIN), room / (height + 2 * MARGIN), 1.25);
  camera.scale = Math.max(whole, 0.03);
  camera.x = width / 2 - canvas.width / camera.scale / 2;
  camera.y = height / 2 - room / camera.scale / 2;
}

function fit() {
  frame();
  look();
}

function start() {
  frame();
  if (camera.scale >= 0.45 || !view.nodes.length) return;
  camera.scale = 0.8; // the whole is too small to read: begin at the top
  const top = view.drawing.boxes[0];
  camera.x = top.x + top.width / 2 - canvas.width / camera.scale / 2;
  camera.y = -MARGIN;
}

function zoom(factor, atX = canvas.width / 2, atY = canvas.height / 2) {
  const scale = Math.max(0.02, Math.min(6, camera.scale * factor));
  camera.x += atX / camera.scale - atX / scale;
  camera.y += atY / camera.scale - atY / scale;
  camera.scale = scale;
  look();
}

function reveal(i) {
  // bring a box into sight, moving only when it is out of it
  const box = view.drawing.boxes[i];
  if (camera.scale < 0.45) camera.scale = 0.8;
  const width = canvas.width / camera.scale, height = canvas.height / camera.scale, edge = 12 / camera.scale;
  if (box.x < camera.x + edge || box.x + box.width > camera.x + width - edge) camera.x = box.x + box.width / 2 - width / 2;
  if (box.y < camera.y + edge || box.y + box.height > camera.y + height - 3 * edge) camera.y = box.y + box.height / 2 - height / 2;
  look();
}

function listen() {
  const on = (id, action) => byId(id).addEventListener("click", action);
  on("first", () => go(0));
  on("previous", () => go(state.position - 1));
  on("next", () => go(state.position + 1));
  on("end", () => go(view.stops.length - 1));
  on("raw", () => use("raw"));
  on("simplified", () => use("simplified"));
  on("fold", () => foldAll(true));
  on("unfold", () => foldAll(false));
  on("theme", theme);
  on("in", () => zoom(1.3));
  on("out", () => zoom(1 / 1.3));
  on("fit", fit);
  byId("slider").addEventListener("input", () => go(Number(byId("slider").value)));
  byId("search").addEventListener("input", () => { state.at = -1; search(); });
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") search(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { byId("search").value = ""; state.at = -1; search(); byId("search").blur(); }
    event.stopPropagation();
  });
  const indexOf = (event) => event.target.closest("[data-index]");
  picture.addEventListener("click", (event) => {
    const hit = indexOf(event);
    if (!hit || moved > 4) return;
    choose(Number(hit.dataset.index));
    hit.focus({ preventScroll: true });
  });
  picture.addEventListener("dblclick", (event) => {
    const hit = indexOf(event), group = hit && view.nodes[Number(hit.dataset.index)].group_index;
    if (group !== undefined && group !== null) toggle(group, true);
  });
  byId("rows").addEventListener("click", (event) => {
    const hit = indexOf(event);
    if (!hit) return;
    choose(Number(hit.dataset.index));
    reveal(state.chosen);
  });
  let moved = 0, held = null;
  picture.addEventListener("pointerdown", (event) => { held = { x: event.clientX, y: event.clientY }; moved = 0; });
  addEventListener("pointermove", (event) => {
    if (!held) return;
    moved += Math.abs(event.clientX - held.x) + Math.abs(event.clientY - held.y);
    camera.x -= (event.clientX - held.x) / camera.scale;
    camera.y -= (event.clientY - held.y) / camera.scale;
    held = { x: event.clientX, y: event.clientY };
    picture.classList.add("moving");
    look();
  });
  for (const end of ["pointerup", "pointercancel", "blur"]) addEventListener(end, () => { held = null; picture.classList.remove("moving"); });
  picture.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { left, top } = picture.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) return zoom(Math.exp(-event.deltaY / 200), event.clientX - left, event.clientY - top);
    camera.x += (event.shiftKey ? event.deltaY : event.deltaX) / camera.scale;
    camera.y += (event.shiftKey ? 0 : event.deltaY) / camera.scale;
    look();
  }, { passive: false });
  addEventListener("resize", () => { measure(); look(); });
  addEventListener("keydown", keys);
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.id === "slider" && event.key !== "Escape") return; // it steps by itself
  const group = state.chosen >= 0 ? view.nodes[state.chosen].group_index : undefined;
  const inner = state.chosen >= 0 && group === undefined ? view.graph.nodes[view.nodes[state.chosen].members[0]].group : undefined;
  const fold = () => (group !== undefined ? toggle(group, true) : inner !== undefined && toggle(inner, false));
  const actions = {
    ArrowRight: () => go(state.position + 1), ArrowDown: () => go(state.position + 1),
    ArrowLeft: () => go(state.position - 1), ArrowUp: () => go(state.position - 1),
    Home: () => go(0), End: () => go(view.stops.length - 1),
    "/": () => byId("search").focus(), f: fold, t: theme, r: () => use(state.graph === "raw" ? "simplified" : "raw"),
    "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: fit, Escape: overview,
  };
  const onNode = event.target.classList && event.target.classList.contains("node");
  if (onNode && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    choose(Number(event.target.dataset.index));
    if (view.nodes[state.chosen].group_index !== undefined) toggle(view.nodes[state.chosen].group_index, true);
    return;
  }
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

byId("name").textContent = data.name;
byId("which").hidden = !data.graphs.simplified && !data.same;
byId("simplified").disabled = data.same;
if (data.same) byId("simplified").title = "There is nothing to simplify";
for (const [name, graph] of Object.entries(data.graphs)) if (graph.nodes.length <= FOLD_AT) state.open[name] = new Set(graph.groups.keys());
measure();
listen();
draw();
start();
show();
document.documentElement.dataset.ready = (performance.now() - started).toFixed(1); // milliseconds from data to picture
