// SPDX-License-Identifier: Apache-2.0
/* The drawing on the report's page (report_page.html and page_common.js have what it
 * uses): the main graph in layers by precision on a canvas, folded into runs
 * of one scope where it has more nodes than a drawing can show, and a strip of all nodes. */
"use strict";
const FEW = 10000, MOST_BOXES = 1500, MOST_OPEN = 3000;
const BOX = { wide: 132, high: 30, across: 150, down: 58 };

function readGraph(graph) {
  const numbers = (text) => (text ? text.split(" ").map(Number) : []);
  const op = numbers(graph.op), dtype = numbers(graph.dtype), row = numbers(graph.row);
  const reads = numbers(graph.reads), from = [];
  for (let i = 0, at = 0; i < op.length; i++) {
    const number = reads[at++], list = [];
    for (let k = 0; k < number; k++) list.push(i - reads[at++]);
    from.push(list);
  }
  /* Constants are not work: they would bury the rest. */
  const place = [], kept = [];
  for (let i = 0; i < op.length; i++) {
    place.push(kept.length);
    if (graph.ops[op[i]] === "Constant") { place[i] = -1; continue; }
    const node = row[i] ? report.nodes[row[i] - 1] : null, name = graph.ops[op[i]];
    kept.push({
      op: name, dtype: graph.dtypes[dtype[i]], node,
      precision: node ? precisionOf(node)
        : /QuantizeLinear$/.test(name) ? "other" : ofFloat(graph.dtypes[dtype[i]]),
      from: from[i].map((j) => place[j]).filter((j) => j >= 0),
    });
  }
  return kept;
}

/* Runs of nodes of one scope, as deep as leaves few enough; without scopes, of one length. Runs
 * follow the order of the graph, so that no arrow goes back. */
function foldRuns(all) {
  const scopes = [];
  for (let last = [], i = 0; i < all.length; i++) {
    const name = all[i].node ? all[i].node.name : null;
    if (name !== null) last = name.split(/[/.]/).filter(Boolean).slice(0, -1);
    scopes.push(last);
  }
  let best = null;
  for (let depth = 1; depth < 12; depth++) {
    const found = [];
    for (let i = 0, before; i < all.length; i++) {
      const key = scopes[i].slice(0, depth).join("/");
      if (key !== before) found.push({ name: key, first: i });
      before = key;
    }
    if (found.length > MOST_BOXES) break;
    best = found;
  }
  if (!best || best.length < Math.min(24, all.length / 500)) {
    const step = Math.ceil(all.length / 600);
    best = [];
    for (let i = 0; i < all.length; i += step) best.push({ name: scopes[i].join("/"), first: i });
  }
  best.forEach((run, i) => { run.end = i + 1 < best.length ? best[i + 1].first : all.length; });
  return best;
}

/* Boxes to draw: single nodes, or runs of them. */
function makeBoxes(all, runs, open) {
  const boxes = [], place = new Int32Array(all.length);
  const add = (first, end, name) => {
    const share = zeros();
    for (let i = first; i < end; i++) { share[all[i].precision]++; place[i] = boxes.length; }
    boxes.push({ first, end, name, share, from: new Set() });
  };
  for (const run of runs || [{ first: 0, end: all.length, open: true }]) {
    if (!run.open && !open.has(run.first)) { add(run.first, run.end, run.name); continue; }
    for (let i = run.first; i < run.end; i++) add(i, i + 1, all[i].op);
  }
  all.forEach((node, i) => {
    for (const j of node.from) if (place[j] !== place[i]) boxes[place[i]].from.add(place[j]);
  });
  return { boxes, place };
}

/* Layers by the longest way from the top; in each, a few rounds of moving boxes towards those they
 * are joined to. */
function layOut(boxes) {
  const layers = [];
  boxes.forEach((box) => {
    box.layer = 0;
    for (const j of box.from) box.layer = Math.max(box.layer, boxes[j].layer + 1);
    box.to = [];
  });
  boxes.forEach((box) => { for (const j of box.from) boxes[j].to.push(box); });
  /* What begins a branch of its own, as a constant's cast does, is put right above its reader. */
  const begins = boxes.map(() => false);
  boxes.forEach((box, i) => {
    begins[i] = [...box.from].every((j) => begins[j]) && box.from.size < 2;
  });
  for (let i = boxes.length - 1; i >= 0; i--)
    if (begins[i] && boxes[i].to.length)
      boxes[i].layer = Math.min(...boxes[i].to.map((box) => box.layer)) - 1;
  for (const box of boxes) (layers[box.layer] ||= []).push(box);
  for (let i = 0; i < layers.length; i++) layers[i] ||= [];
  const settle = (layer, wanted) => {
    layer.forEach((box, i) => { box.wish = wanted(box) ?? box.x ?? i * BOX.across; });
    layer.sort((a, b) => a.wish - b.wish);
    let edge = -Infinity, shift = 0;
    for (const box of layer) {
      box.x = Math.max(box.wish, edge);
      edge = box.x + BOX.across;
      shift += box.wish - box.x;
    }
    for (const box of layer) { box.x += shift / layer.length; box.y = box.layer * BOX.down; }
  };
  const mean = (list) =>
    (list.length ? list.reduce((sum, b) => sum + b.x, 0) / list.length : undefined);
  const above = (box) => mean([...box.from].map((j) => boxes[j]));
  for (const layer of layers) settle(layer, above);
  for (let round = 0; round < 2; round++) {
    for (const layer of [...layers].reverse()) settle(layer, (box) => mean(box.to));
    for (const layer of layers) settle(layer, above);
  }
  return layers;
}

function startDrawing() {
  const all = readGraph(report.graph), folded = all.length > FEW;
  const runs = folded ? foldRuns(all) : null, open = new Set();
  const canvas = at("drawing"), strip = at("strip"), pen = canvas.getContext("2d");
  let boxes, place, layers, view = { x: 0, y: 0, scale: 1 }, picked = null, asked = false;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue("--" + name).trim();
  const sized = (element) => {
    const ratio = window.devicePixelRatio || 1, box = element.getBoundingClientRect();
    element.width = Math.round(box.width * ratio);
    element.height = Math.round(box.height * ratio);
    const context = element.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return box;
  };

  function build() {
    ({ boxes, place } = makeBoxes(all, runs, open));
    layers = layOut(boxes);
    at("fold").hidden = !open.size;
    at("graph-note").textContent = count(all.length) + " nodes" +
      (folded ? " in " + count(boxes.length) + " boxes; a second click opens one of several"
              : "");
  }

  function limits() {
    let left = Infinity, right = -Infinity;
    for (const box of boxes) { left = Math.min(left, box.x); right = Math.max(right, box.x); }
    return { left, right: right + BOX.wide, bottom: layers.length * BOX.down };
  }

  function fit(whole) {
    const size = canvas.getBoundingClientRect(), edge = limits();
    const wide = size.width / (edge.right - edge.left + 40);
    const high = size.height / (edge.bottom + 40);
    view.scale = whole ? Math.min(wide, high, 1) : Math.max(Math.min(wide, 1), 0.7);
    const first = layers.find((layer) => layer.length)[0];
    view.x = whole || wide >= 0.7 ? (edge.left + edge.right - size.width / view.scale) / 2
                                  : first.x + BOX.wide / 2 - size.width / view.scale / 2;
    view.y = -20;
    draw();
  }

  function drawBox(box, detail) {
    const total = box.end - box.first;
    let x = box.x;
    for (const name of precisions) {
      const part = BOX.wide * box.share[name] / total;
      if (!part) continue;
      pen.fillStyle = color(name);
      pen.globalAlpha = detail ? 0.32 : 0.9;
      pen.fillRect(x, box.y, part, BOX.high);
      x += part;
    }
    pen.globalAlpha = 1;
    if (box === picked) {
      pen.strokeStyle = color("link");
      pen.lineWidth = 3 / Math.min(view.scale, 1);
      pen.strokeRect(box.x, box.y, BOX.wide, BOX.high);
    }
    if (!detail) return;
    pen.fillStyle = color("ink");
    const text = shown(box.name || "nodes") + (total > 1 ? " (" + count(total) + ")" : "");
    const cut = text.length > 18 ? "\u2026" + text.slice(-17) : text;
    pen.fillText(cut, box.x + 6, box.y + BOX.high / 2);
  }

  function draw() {
    asked = false;
    const size = sized(canvas), detail = view.scale > 0.45;
    const right = view.x + size.width / view.scale, bottom = view.y + size.height / view.scale;
    pen.clearRect(0, 0, size.width, size.height);
    pen.scale(view.scale, view.scale);
    pen.translate(-view.x, -view.y);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.strokeStyle = color("other");
    pen.lineWidth = Math.max(1, 0.6 / view.scale);
    pen.globalAlpha = detail ? 0.8 : 0.45;
    pen.beginPath();
    for (const box of boxes) {
      if (box.y < view.y) continue;
      for (const j of box.from) {
        const other = boxes[j];
        if (other.y > bottom) continue;
        const x = other.x + BOX.wide / 2, y = other.y + BOX.high, end = box.x + BOX.wide / 2;
        if (Math.max(x, end) < view.x || Math.min(x, end) > right) continue;
        pen.moveTo(x, y);
        if (detail) pen.bezierCurveTo(x, y + 16, end, box.y - 16, end, box.y);
        else pen.lineTo(end, box.y);
      }
    }
    pen.stroke();
    pen.globalAlpha = 1;
    const from = Math.max(0, Math.floor(view.y / BOX.down)), to = Math.ceil(bottom / BOX.down);
    for (let i = from; i < Math.min(to, layers.length); i++)
      for (const box of layers[i])
        if (box.x < right && box.x + BOX.wide > view.x) drawBox(box, detail);
    drawStrip(from, to);
  }

  /* All nodes from left to right; what the drawing shows is underlined. */
  function drawStrip(from, to) {
    const size = sized(strip), context = strip.getContext("2d"), width = Math.max(1, size.width);
    for (let x = 0; x < width; x++) {
      const first = Math.floor(all.length * x / width);
      const end = Math.max(first + 1, Math.floor(all.length * (x + 1) / width));
      const share = zeros();
      for (let i = first; i < Math.min(end, all.length); i++) share[all[i].precision]++;
      let y = 0;
      for (const name of precisions) {
        const part = 24 * share[name] / (end - first);
        context.fillStyle = color(name);
        context.fillRect(x, y, 1, part);
        y += part;
      }
    }
    let first = all.length, last = -1;
    for (let i = from; i < Math.min(to, layers.length); i++)
      for (const box of layers[i]) {
        first = Math.min(first, box.first);
        last = Math.max(last, box.end);
      }
    if (last < 0) return;
    context.fillStyle = color("link");
    const part = width / all.length;
    context.fillRect(first * part, 26, Math.max(3, (last - first) * part), 4);
  }

  const later = () => { if (!asked) requestAnimationFrame(draw); asked = true; };

  function zoom(factor, x, y) {
    const size = canvas.getBoundingClientRect();
    const px = x ?? size.width / 2, py = y ?? size.height / 2;
    const scale = Math.min(2.5, Math.max(0.01, view.scale * factor));
    view.x += px / view.scale - px / scale;
    view.y += py / view.scale - py / scale;
    view.scale = scale;
    later();
  }

  function center(box) {
    const size = canvas.getBoundingClientRect();
    view.x = box.x + BOX.wide / 2 - size.width / view.scale / 2;
    view.y = box.y - size.height / view.scale / 2;
  }

  function tell(box) {
    const line = at("picked");
    line.replaceChildren();
    picked = box;
    if (!box) return;
    const single = box.end - box.first === 1, item = all[box.first];
    const name = single ? item.node ? item.node.name : "a cast that demi inserted"
                        : (box.name || "nodes") + " (" + count(box.end - box.first) + ")";
    make("span", line, name, "mono");
    line.append(single ? " " + shown(item.op) + ", " + item.dtype + (item.node && item.node.reason
      ? ": " + shown(item.node.reason) : "")
      : ": " + saysShare(box.share));
    if (single && item.node)
      make("button", line, "Find it below").onclick = () => find(item.node.name);
    if (single || box.end - box.first > MOST_OPEN) return;
    make("button", line, "Open").onclick = () => unfold(box);
  }

  function unfold(box) {
    open.add(box.first);
    build();
    tell(boxes[place[box.first]]);
    center(picked);
    later();
  }

  function boxAt(x, y) {
    const px = view.x + x / view.scale, py = view.y + y / view.scale;
    const layer = layers[Math.floor(py / BOX.down)] || [];
    return layer.find((b) => px >= b.x && px <= b.x + BOX.wide && py <= b.y + BOX.high) || null;
  }

  let drag = null;
  canvas.onpointerdown = (event) => {
    canvas.setPointerCapture(event.pointerId);
    drag = { x: event.clientX, y: event.clientY, moved: false };
  };
  canvas.onpointermove = (event) => {
    if (!drag) return;
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 5) return;
    view.x -= dx / view.scale;
    view.y -= dy / view.scale;
    drag = { x: event.clientX, y: event.clientY, moved: true };
    later();
  };
  canvas.onpointerup = (event) => {
    const moved = drag && drag.moved, place_ = canvas.getBoundingClientRect();
    drag = null;
    if (moved) return;
    const box = boxAt(event.clientX - place_.left, event.clientY - place_.top);
    const several = box && box.end - box.first > 1 && box.end - box.first <= MOST_OPEN;
    if (several && box === picked) unfold(box);
    else tell(box);
    later();
  };
  canvas.onwheel = (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls
    event.preventDefault();
    const size = canvas.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 400), event.clientX - size.left, event.clientY - size.top);
  };
  canvas.onkeydown = (event) => {
    const step = 80 / view.scale;
    const keys = {
      ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step],
    };
    if (keys[event.key]) { view.x += keys[event.key][0]; view.y += keys[event.key][1]; later(); }
    else if (event.key === "+" || event.key === "=") zoom(1.3);
    else if (event.key === "-") zoom(1 / 1.3);
    else return;
    event.preventDefault();
  };
  strip.onclick = (event) => {
    const size = strip.getBoundingClientRect();
    const i = Math.floor(all.length * (event.clientX - size.left) / size.width);
    tell(boxes[place[Math.min(all.length - 1, Math.max(0, i))]]);
    center(picked);
    later();
  };
  at("zoom-in").onclick = () => zoom(1.4);
  at("zoom-out").onclick = () => zoom(1 / 1.4);
  at("zoom-all").onclick = () => fit(true);
  at("fold").onclick = () => { open.clear(); build(); tell(null); fit(false); };
  window.addEventListener("resize", later);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
  build();
  fit(false);
}
at("graph-box").hidden = !report.graph || !report.graph.op;
if (!at("graph-box").hidden) startDrawing();
