// Draws one recorded graph with the view's own layout and with Graphviz, and counts what is ugly in both by the same rule.
// node compare.mjs GRAPH.json OUT_FOLDER NAME DIRECTION OPEN         (OPEN: "all", "first" or a number of boxes)

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

const extension = new URL("../../extension/", import.meta.url);
const require = createRequire(new URL("package.json", extension));
const { build } = await import(pathToFileURL(require.resolve("esbuild")).href);
const { JSDOM } = require("jsdom");

const [graphFile, folder, name, direction] = process.argv.slice(2);
const { window } = new JSDOM("<!doctype html>");
Object.assign(globalThis, { window, document: window.document, XMLSerializer: window.XMLSerializer });

const source = (file) => JSON.stringify(fileURLToPath(new URL(`src/view/${file}`, extension)));
const bundle = await build({
  stdin: {
    contents: ["store.ts", "graph/layout.ts", "graph/tree.ts", "graph/picture.ts"].map((file) => `export * from ${source(file)};`).join("\n"),
    resolveDir: fileURLToPath(extension),
  },
  bundle: true,
  format: "esm",
  write: false,
  loader: { ".css": "text", ".svg": "text" },
  logLevel: "error",
});
const view = await import(`data:text/javascript;base64,${Buffer.from(bundle.outputFiles[0].contents).toString("base64")}`);

const received = { do: "receive", received: { message: JSON.parse(readFileSync(graphFile, "utf8")), buffers: [] } };
let state = view.reduce(view.START, received);
state = view.reduce({ ...state, recording: { ...state.recording, tree: state.recording.trees.full } }, { do: "open all", group: -1 });
const { recording } = state;
const { tree } = recording;

const ours = () => view.layout(recording, state.open, direction);
ours();
const began = performance.now();
const scene = ours();
const took = performance.now() - began;
// A font as narrow as the table of widths that serves where there is no canvas to measure with.
const font = (property) => (property === "--wb-font" ? "Liberation Sans, Arial, Helvetica, sans-serif" : "");
writeFileSync(`${folder}/${name}.svg`, view.toSvg(state, direction, font));

// -- the same graph in DOT -----------------------------------------------------------------------------------------------------

const shown = (node) => {
  const host = tree.host[node];
  const of = host >= 0 ? host : node;
  const closed = view.closedAround(tree, state.open, tree.home[of]);
  return closed === null ? `n${of}` : `g${closed}`;
};
const ends = scene.wires.filter((wire) => wire.arrow);
const edges = ends.map((wire) => [shown(wire.source), shown(wire.consumers[0]), wire.source]);
const quoted = (text) => JSON.stringify(text);
const inches = (px) => (px / 72).toFixed(4);

function dotText() {
  const inside = new Map();
  for (const box of scene.boxes) inside.set(box.parent, [...(inside.get(box.parent) ?? []), box]);
  const lines = (group) =>
    (inside.get(group) ?? []).flatMap((box) =>
      box.kind === "open"
        ? [`subgraph ${quoted(`cluster_${box.key}`)} { label=${quoted(box.face.title)}; margin=14;`, ...lines(box.id), "}"]
        : [`${quoted(box.key)} [label=${quoted(box.face.title)}, width=${inches(box.w)}, height=${inches(box.h)}];`],
    );
  return [
    "digraph G {",
    `graph [rankdir=${direction === "down" ? "TB" : "LR"}, nodesep=${inches(28)}, ranksep=${inches(32)}, newrank=false];`,
    'node [shape=box, fixedsize=true, style=rounded, fontname="Helvetica", fontsize=13];',
    "edge [arrowsize=0.7];",
    ...lines(-1),
    ...edges.map(([from, to, net], at) => `${quoted(from)} -> ${quoted(to)} [id="e${at}_${net}"];`),
    "}",
  ].join("\n");
}

// -- lines ---------------------------------------------------------------------------------------------------------------------

/** Points along an SVG path of M, L and C. */
function points(path) {
  const found = [];
  let at = [0, 0];
  for (const [, command, rest] of path.matchAll(/([MLC])([^MLC]+)/g)) {
    const n = rest.trim().split(/[ ,]+/).map(Number);
    if (command === "C") {
      const p = [at, [n[0], n[1]], [n[2], n[3]], [n[4], n[5]]];
      for (let i = 1; i <= 16; i++) found.push(bezier(p, i / 16));
    } else found.push([n[0], n[1]]);
    at = n.slice(-2);
  }
  return found;
}

function bezier(p, t) {
  const u = 1 - t;
  return [0, 1].map((k) => u ** 3 * p[0][k] + 3 * u * u * t * p[1][k] + 3 * u * t * t * p[2][k] + t ** 3 * p[3][k]);
}

/** Points where lines of two results cross. Lines of one result that lie on each other are one line to the eye, and count once. */
function crossings(lines) {
  const segments = [];
  for (const { at, net } of lines)
    for (let i = 1; i < at.length; i++) segments.push([...at[i - 1], ...at[i], net, Math.min(at[i - 1][1], at[i][1])]);
  segments.sort((a, b) => a[5] - b[5]);
  const found = new Set();
  const side = (ax, ay, bx, by, x, y) => (bx - ax) * (y - ay) - (by - ay) * (x - ax);
  for (let i = 0; i < segments.length; i++) {
    const a = segments[i];
    const bottom = Math.max(a[1], a[3]);
    for (let j = i + 1; j < segments.length && segments[j][5] <= bottom; j++) {
      const b = segments[j];
      if (a[4] === b[4] || Math.max(a[0], a[2]) < Math.min(b[0], b[2]) || Math.max(b[0], b[2]) < Math.min(a[0], a[2])) continue;
      const [s1, s2] = [side(a[0], a[1], a[2], a[3], b[0], b[1]), side(a[0], a[1], a[2], a[3], b[2], b[3])];
      const two = side(b[0], b[1], b[2], b[3], a[0], a[1]) * side(b[0], b[1], b[2], b[3], a[2], a[3]);
      if (s1 * s2 >= 0 || two >= 0) continue;
      const t = s1 / (s1 - s2);
      const [x, y] = [b[0] + t * (b[2] - b[0]), b[1] + t * (b[3] - b[1])];
      found.add(`${Math.min(a[4], b[4])} ${Math.max(a[4], b[4])} ${Math.round(x / 2)} ${Math.round(y / 2)}`);
    }
  }
  return found.size;
}

/** Lines that run through a box which is neither their beginning nor their end. */
function throughBoxes(lines, boxes) {
  let count = 0;
  for (const { at, ends: own } of lines) {
    for (const box of boxes) {
      if (own.includes(box.key)) continue;
      const inside = ([x, y]) => x > box.x + 1.5 && x < box.x + box.w - 1.5 && y > box.y + 1.5 && y < box.y + box.h - 1.5;
      const fine = at.flatMap((p, i) => (i ? [0.25, 0.5, 0.75, 1].map((t) => [0, 1].map((k) => at[i - 1][k] * (1 - t) + p[k] * t)) : [p]));
      if (fine.some(inside)) count++;
    }
  }
  return count;
}

function overlaps(boxes) {
  let count = 0;
  boxes.forEach((a, at) =>
    boxes.slice(at + 1).forEach((b) => {
      if (a.x < b.x + b.w - 0.5 && b.x < a.x + a.w - 0.5 && a.y < b.y + b.h - 0.5 && b.y < a.y + a.h - 0.5) count++;
    }),
  );
  return count;
}

/** Turns: places where a line's course across the flow begins to change. */
function bends(lines) {
  const across = direction === "down" ? 0 : 1;
  let count = 0;
  for (const { at } of lines) {
    let straight = true;
    for (let i = 1; i < at.length; i++) {
      const now = Math.abs(at[i][across] - at[i - 1][across]) < 0.75;
      if (straight && !now) count++;
      straight = now;
    }
  }
  return count;
}

const solid = scene.boxes.filter((box) => box.kind !== "open");
const lines = scene.wires.map((wire) => ({ at: points(wire.path), net: wire.source, ends: [] }));
const measured = (drawn, boxes, [w, h]) => ({
  crossings: crossings(drawn),
  bends: bends(drawn),
  through: throughBoxes(drawn, boxes),
  overlaps: overlaps(boxes),
  size: [Math.round(w), Math.round(h)],
});
const result = { name, direction, boxes: scene.boxes.length, edges: edges.length, ours: { ...measured(lines, solid, scene.bounds.slice(2)), ms: took } };

const dot = dotText();
writeFileSync(`${folder}/${name}.dot`, dot);
let text = null;
try {
  const started = performance.now();
  text = execFileSync("dot", ["-Tjson"], { input: dot, maxBuffer: 1 << 28, timeout: 120_000 }).toString();
  result.graphvizMs = performance.now() - started;
} catch (error) {
  if (error.code !== "ENOENT") throw error;
}
if (text) {
  const drawn = JSON.parse(text);
  const [, , width, height] = drawn.bb.split(",").map(Number);
  const flip = ([x, y]) => [x, height - y];
  const boxes = drawn.objects
    .filter((one) => one.pos && one.width)
    .map((one) => {
      const [x, y] = flip(one.pos.split(",").map(Number));
      const [w, h] = [one.width * 72, one.height * 72];
      return { key: one.name, x: x - w / 2, y: y - h / 2, w, h };
    });
  const graphvizLines = drawn.edges.map((edge) => {
    const [tip, ...p] = edge.pos.split(" ").map((pair) => flip(pair.replace(/^[es],/, "").split(",").map(Number)));
    const at = [p[0]];
    for (let i = 0; i + 3 < p.length; i += 3) for (let k = 1; k <= 16; k++) at.push(bezier(p.slice(i, i + 4), k / 16));
    at.push(tip);
    const [from, to] = [edge.tail, edge.head].map((id) => drawn.objects[id].name);
    return { at, net: Number(edge.id.split("_")[1]), ends: [from, to] };
  });
  result.graphviz = measured(graphvizLines, boxes, [width, height]);
  writeFileSync(`${folder}/${name}-graphviz.svg`, execFileSync("dot", ["-Tsvg"], { input: dot, maxBuffer: 1 << 28 }));
}
console.log(JSON.stringify(result));
