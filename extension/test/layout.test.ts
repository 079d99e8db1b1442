// The layout: what must hold for every graph, tried on random ones; and the graphs that users have.
import { describe, expect, it } from "vitest";
import { channelOf } from "../src/view/graph/channel";
import { describe as describeBox, textWidth } from "../src/view/graph/face";
import { bestScene, firstView, readableAt, wholeView } from "../src/view/graph/fit";
import { layout, type Box, type Scene } from "../src/view/graph/layout";
import { inversions, orderBoxes, type Link } from "../src/view/graph/order";
import { nearestFree } from "../src/view/graph/place";
import { reduce, START, type Recording } from "../src/view/store";
import { firstLook, shownAt } from "../src/view/graph/levels";
import { countBoxes, TOP } from "../src/view/graph/tree";
import { allGroups, randomDag, received, recordingOf } from "./dag";
import { random } from "./page/kernel";
import { Builder, lstm, mlp, transformer } from "./page/recordings";


const SEEDS = Array.from({ length: 40 }, (_, seed) => seed);

function someOpen(recording: Recording, seed: number): Set<number> {
  const next = random(seed + 5);
  const open = new Set<number>();
  for (const id of recording.tree.groups.keys()) if (next() < 0.7) open.add(id);
  return open;
}

function scenes(seed: number, plain = seed % 2 === 1): [Recording, Scene, Set<number>][] {
  const recording = shownAt(recordingOf(randomDag(seed, 20 + (seed % 5) * 12, 1 + (seed % 8))), { plain });
  return [new Set<number>(), someOpen(recording, seed), allGroups(recording)].flatMap((open) =>
    (["right", "down"] as const).map((direction): [Recording, Scene, Set<number>] => [
      recording,
      layout(recording, open, direction),
      open,
    ]),
  );
}

function overlap(a: Box, b: Box): boolean {
  return a.x < b.x + b.w - 0.01 && b.x < a.x + a.w - 0.01 && a.y < b.y + b.h - 0.01 && b.y < a.y + a.h - 0.01;
}

/** Points along an SVG path of M, L and absolute C, worked out from the text that is drawn. */
function sample(path: string): [number, number][] {
  const points: [number, number][] = [];
  let at: [number, number] = [0, 0];
  for (const [, command, rest] of path.matchAll(/([MLC])([^MLC]+)/g)) {
    const n = rest!.trim().split(/[ ,]+/).map(Number);
    if (command === "M") at = [n[0]!, n[1]!];
    for (let i = 1; command !== "M" && i <= 24; i++) {
      const t = i / 24;
      const u = 1 - t;
      const mix = (axis: 0 | 1) =>
        command === "L"
          ? at[axis] * u + n[axis]! * t
          : u ** 3 * at[axis] + 3 * u * u * t * n[axis]! + 3 * u * t * t * n[2 + axis]! + t ** 3 * n[4 + axis]!;
      points.push([mix(0), mix(1)]);
    }
    if (command !== "M") at = [n.at(-2)!, n.at(-1)!];
    points.push(at);
  }
  return points;
}

describe("layout of random graphs", () => {
  it("has the room that it promises for a word on a wire to the right", () => {
    let words = 0;
    for (const seed of SEEDS) {
      for (const [, scene] of scenes(seed)) {
        for (const { label, room } of scene.direction === "right" ? scene.wires : []) {
          if (!label || room <= 0) continue;
          words += 1;
          const word = { x: label[0], y: label[1] - 8, w: room, h: 8 } as Box;
          const hit = scene.boxes.find((box) => box.kind !== "open" && overlap(box, word));
          expect(hit?.key, `seed ${seed}`).toBeUndefined();
        }
      }
    }
    expect(words).toBeGreaterThan(100);
  });

  it("never lets boxes overlap, and keeps a child inside its group", () => {
    const overlapping: string[] = [];
    for (const seed of SEEDS) {
      for (const [, scene] of scenes(seed)) {
        for (const [at, a] of scene.boxes.entries()) {
          const holder = a.parent === TOP ? null : scene.byKey.get(`g${a.parent}`)!;
          if (holder) {
            expect(a.x).toBeGreaterThanOrEqual(holder.x);
            expect(a.y).toBeGreaterThanOrEqual(holder.y + 20); // below its title
            expect(a.x + a.w).toBeLessThanOrEqual(holder.x + holder.w);
            expect(a.y + a.h).toBeLessThanOrEqual(holder.y + holder.h);
          }
          for (const b of scene.boxes.slice(at + 1)) {
            if (a.parent === b.parent && overlap(a, b)) overlapping.push(`seed ${seed}: ${a.key} and ${b.key}`);
          }
        }
      }
    }
    expect(overlapping).toEqual([]);
  });

  it("draws every box and pill inside the scene, and pills inside their box", () => {
    for (const seed of SEEDS) {
      for (const [, scene] of scenes(seed)) {
        const [x, y, w, h] = scene.bounds;
        for (const box of scene.boxes) {
          expect(box.x >= x && box.y >= y && box.x + box.w <= x + w && box.y + box.h <= y + h).toBe(true);
          for (const pill of box.face.pills) expect(pill.x + pill.w <= box.face.w && pill.y + pill.h <= box.face.h).toBe(true);
        }
      }
    }
  });

  it("never leads a wire through a closed box", () => {
    const through: string[] = [];
    for (const seed of SEEDS) {
      for (const [, scene] of scenes(seed)) {
        const solid = scene.boxes.filter((box) => box.kind !== "open");
        for (const wire of scene.wires) {
          for (const [x, y] of sample(wire.path)) {
            const hit = solid.find((box) => x > box.x + 1 && x < box.x + box.w - 1 && y > box.y + 1 && y < box.y + box.h - 1);
            if (hit) through.push(`seed ${seed}: wire ${wire.key} goes through ${hit.key} at ${x} ${y}`);
          }
        }
      }
    }
    expect(through).toEqual([]);
  });

  it("joins each pair of connected boxes by wires that touch both", () => {
    for (const seed of SEEDS.slice(0, 20)) {
      const recording = recordingOf(randomDag(seed));
      const scene = layout(recording, new Set(), "down");
      const touches = (box: Box, [x, y]: [number, number]) =>
        x >= box.x - 0.2 && x <= box.x + box.w + 0.2 && y >= box.y - 0.2 && y <= box.y + box.h + 0.2;
      for (const wire of scene.wires) {
        const shown = (node: number) =>
          scene.boxes.find((box) => (box.kind === "closed" ? isWithin(recording, node, box.id) : box.id === node))!;
        const points = sample(wire.path);
        const trunk = scene.wires.some((other) => other.source === wire.source && other !== wire && other.key.includes("|"));
        if (!trunk) expect(touches(shown(wire.source), points[0]!)).toBe(true);
        if (wire.arrow) expect(touches(shown(wire.consumers[0]!), points.at(-1)!)).toBe(true);
      }
      const joined = new Set(scene.wires.flatMap((wire) => wire.consumers.map((consumer) => `${wire.source} ${consumer}`)));
      recording.edges.source.forEach((source, row) => {
        const target = recording.edges.target[row]!;
        if (recording.tree.host[source]! >= 0) return;
        const [a, b] = [source, target].map((node) =>
          scene.boxes.find((box) => (box.kind === "closed" ? isWithin(recording, node, box.id) : box.id === node)),
        );
        if (a !== b) expect(joined.has(`${source} ${target}`)).toBe(true);
      });
    }
  });

  it("hides nothing silently: what is drawn and what closed groups say add up to the whole", () => {
    for (const seed of SEEDS) {
      for (const [recording, scene] of scenes(seed, false)) {
        const { tree, nodes } = recording;
        let [ops, count, bytes] = [0, 0, 0];
        // What several groups use stands in each of them: the header around all tells how many there are, at the top the toolbar.
        const countShared = (group: number) => {
          const again = (node: number) => tree.host[node]! >= 0 && tree.home[node] === group && tree.consumers.count(node) > 1;
          const shared = nodes.op.map((_, node) => node).filter(again);
          expect(shared.length).toBe(tree.shared.get(group) ?? 0);
          count += shared.length;
          for (const node of shared) bytes += nodes.bytes[node]!;
        };
        countShared(TOP);
        for (const box of scene.boxes) {
          if (box.kind === "closed") {
            const totals = tree.totals.get(box.id)!;
            ops += totals.ops;
            count += totals.nodes;
            bytes += totals.bytes;
            const inside = nodes.op.map((_, node) => node).filter((node) => isWithin(recording, node, box.id));
            expect(totals.nodes).toBe(inside.length);
          } else if (box.kind !== "open") {
            const pills = (tree.pills.get(box.id) ?? []).filter((node) => tree.consumers.count(node) === 1);
            for (const node of [box.id, ...pills]) {
              ops += nodes.kind[node] === "op" ? 1 : 0;
              count += 1;
              bytes += nodes.bytes[node]!;
            }
          } else if (tree.shared.has(box.id)) {
            expect(box.face.also).toContain(`${tree.shared.get(box.id)} shared tensor`);
            countShared(box.id);
          }
        }
        expect(count).toBe(tree.size);
        expect(ops).toBe(nodes.kind.filter((kind) => kind === "op").length);
        expect(bytes).toBe(nodes.bytes.reduce((a, b) => a + b, 0));
      }
    }
  });

  it("moves nothing when a live recording grows", () => {
    for (const seed of SEEDS.slice(0, 40)) {
      const builder = randomDag(seed, 60, 0);
      for (const direction of ["right", "down"] as const) {
        let state = START;
        let scene: Scene | undefined;
        for (const message of builder.graphs("r1", 7)) {
          state = reduce(state, received({ ...message, live: true }));
          const grown: Scene = layout(state.recording!, state.open, direction, scene?.kept);
          for (const box of scene?.boxes ?? []) {
            const now = grown.byKey.get(box.key);
            if (state.recording!.tree.host[box.id]! >= 0) continue; // a tensor that became a pill of its first consumer
            expect(now && [now.x, now.y], `seed ${seed}, ${box.key}`).toEqual([box.x, box.y]);
          }
          const over = grown.boxes.filter((a, at) => grown.boxes.slice(at + 1).some((b) => overlap(a, b)));
          expect(over.map((box) => box.key)).toEqual([]);
          scene = grown;
        }
      }
    }
  });

  it("moves nothing when groups that are open grow, wherever their ops come", () => {
    let [grew, closed] = [0, 0];
    for (const seed of SEEDS) {
      for (const [groups, direction] of [
        [6, "down"],
        [3, "right"],
      ] as const) {
        let state = START;
        let scene: Scene | undefined;
        for (const message of randomDag(seed, 60, groups).graphs("r1", 5)) {
          state = reduce(state, received({ ...message, live: true }));
          const { tree } = state.recording!;
          // Every group is opened as soon as it is there, and stays open.
          const open = new Set([...state.recording!.tree.groups.keys()].filter((id) => tree.totals.has(id)));
          const grown: Scene = layout(state.recording!, open, direction, scene?.kept);
          for (const box of scene?.boxes ?? []) {
            const now = grown.byKey.get(box.key);
            if (box.kind === "source" && (!now || now.parent !== box.parent)) continue; // a tensor that became a pill, or came to be shared
            const empty = box.kind !== "op" && !grown.boxes.some((one) => one.key === box.key) && !state.recording!.nodes.kind.some((kind, id) => kind === "op" && isWithin(state.recording!, id, box.id));
            if (empty) continue; // a group that held nothing but such a tensor
            if (!now) {
              // Its group had no room to grow, and is closed at its old place until the code ends.
              const around = (id: number): boolean => id !== TOP && (grown.kept.blocked.has(id) || around(tree.parent(id)));
              expect(around(box.parent), `seed ${seed}, ${box.key}`).toBe(true);
              continue;
            }
            expect([now.x, now.y], `seed ${seed}, ${box.key}`).toEqual([box.x, box.y]);
            if (box.kind === "open" && now.kind === "open" && (now.w > box.w || now.h > box.h)) grew++;
          }
          const over = grown.boxes.flatMap((a, at) => grown.boxes.slice(at + 1).filter((b) => a.parent === b.parent && overlap(a, b)));
          expect(over.map((box) => box.key)).toEqual([]);
          scene = grown;
        }
        closed += scene!.kept.blocked.size;
      }
    }
    expect(grew).toBeGreaterThan(50); // both ways are taken
    expect(closed).toBeGreaterThan(10);
  });

  it("gives the same picture to the same recording", () => {
    const [a, b] = [1, 2].map(() => layout(recordingOf(randomDag(9)), new Set([0, 1, 2]), "down"));
    expect(a!.boxes).toEqual(b!.boxes);
    expect(a!.wires).toEqual(b!.wires);
  });
});

function isWithin(recording: Recording, node: number, group: number): boolean {
  for (let at = recording.tree.home[node]!; at !== TOP; at = recording.tree.parent(at)) if (at === group) return true;
  return false;
}

describe("cycles between groups", () => {
  it("draws the closing edge as a return lane", () => {
    const b = new Builder();
    const g = b.group("module", "m", "M");
    const x = b.node("input", "", [2], []);
    const first = b.node("op", "exp", [2], [x], { group: g });
    const middle = b.node("op", "sin", [2], [first]);
    b.root = b.node("op", "cos", [2], [middle], { group: g });
    const closed = layout(recordingOf(b), new Set(), "down");
    expect(closed.wires.filter((wire) => wire.back)).toHaveLength(1);
    const open = layout(recordingOf(b), new Set([g]), "down");
    expect(open.boxes).toHaveLength(5);
  });

  it("marks back edges by depth-first search and still uses every box once", () => {
    const links: Link[] = [
      [0, 1],
      [1, 2],
      [2, 0],
      [2, 3],
      [3, 1],
    ].map(([from, to], net) => ({ from: from!, to: to!, net }));
    const { back, layers } = orderBoxes(4, links);
    expect(back).toEqual([false, false, true, false, true]);
    expect(layers.flat().sort()).toEqual([0, 1, 2, 3]);
  });
});

describe("order", () => {
  it("counts crossings as a double loop does", () => {
    const next = random(3);
    for (let round = 0; round < 30; round++) {
      const [m, n] = [2 + Math.floor(next() * 6), 2 + Math.floor(next() * 6)];
      const edges: [number, number][] = [];
      for (let a = 0; a < m; a++) for (let b = 0; b < n; b++) if (next() < 0.5) edges.push([a, b]);
      let expected = 0;
      edges.forEach(([a, b], at) => edges.slice(at + 1).forEach(([c, d]) => (expected += (a - c) * (b - d) < 0 ? 1 : 0)));
      expect(inversions(edges)).toBe(expected);
    }
  });

  it("takes a sweep that untangles two pairs", () => {
    const links: Link[] = [
      [0, 3],
      [1, 2],
    ].map(([from, to], net) => ({ from: from!, to: to!, net }));
    const { layers } = orderBoxes(4, links);
    expect([
      [0, 1],
      [1, 0],
    ]).toContainEqual(layers[0]);
    expect(layers[1]).toEqual(layers[0]![0] === 0 ? [3, 2] : [2, 3]);
  });

  it("puts a source right before its first consumer", () => {
    const links: Link[] = [
      [0, 1],
      [1, 2],
      [2, 4],
      [3, 4],
    ].map(([from, to], net) => ({ from: from!, to: to!, net }));
    expect([...orderBoxes(5, links).layer]).toEqual([0, 1, 2, 2, 3]);
  });

  it("finds the nearest free place", () => {
    expect(nearestFree(5, [[0, 4]])).toBe(5);
    expect(nearestFree(3, [[0, 4]])).toBe(4);
    expect(nearestFree(1, [[0, 4]])).toBe(0);
    expect(
      nearestFree(
        1,
        [
          [0, 4],
          [4, 9],
          [3, 6],
        ],
        0.5,
      ),
    ).toBe(9);
  });
});

describe("real graphs", () => {
  it("carries parameters as pills wherever they are used, and boxes those that one group uses twice", () => {
    const recording = recordingOf(mlp());
    const scene = layout(recording, allGroups(recording), "down");
    const pills = scene.boxes.flatMap((box) => box.face.pills.map((pill) => pill.name));
    expect(pills).toEqual(expect.arrayContaining(["layers.0.weight", "layers.0.bias", "layers.2.weight", "layers.2.bias", "0.01"]));
    expect(scene.boxes.filter((box) => box.kind === "source").map((box) => box.face.title)).toEqual(["x", "y"]);
    const tied = recordingOf(transformer(2));
    const hosts = layout(tied, allGroups(tied), "down").boxes.filter((box) => box.face.pills.some((pill) => pill.name === "wte.weight"));
    expect(hosts.map((box) => box.face.title)).toEqual(["embedding", "transpose"]); // the weights of the first op and of the last
    const twice = new Builder("twice");
    const w = twice.node("parameter", "", [2, 2], [], { name: "w" });
    twice.root = twice.node("op", "matmul", [2, 2], [twice.node("op", "relu", [2, 2], [w]), w]);
    expect(layout(recordingOf(twice), new Set(), "down").boxes.map((box) => box.face.title)).toEqual(["w", "relu", "matmul"]);
  });

  it("draws x * x as two wires", () => {
    const recording = recordingOf(mlp());
    const scene = layout(recording, allGroups(recording), "down");
    const square = recording.nodes.name.indexOf("r2");
    expect(scene.wires.filter((wire) => wire.consumers.includes(square) && wire.arrow)).toHaveLength(2);
  });

  it("lays out the blocks of a transformer alike", () => {
    const recording = recordingOf(transformer(4));
    const scene = layout(recording, allGroups(recording), "down");
    const inside = (name: string) => {
      const group = [...recording.tree.groups.values()].find((g) => g.name === name)!.id;
      const frame = scene.byKey.get(`g${group}`)!;
      return scene.boxes.filter((box) => box.parent === group).map((box) => [box.x - frame.x, box.y - frame.y, box.face.title]);
    };
    expect(inside("h.1")).toEqual(inside("h.2"));
    expect(inside("h.1").length).toBeGreaterThan(3);
  });

  /** What is open at first in a window whose size is not known. */
  const first = (recording: Recording) => firstLook(recording, { w: 0, h: 0 }).open;

  it("opens at most 60 boxes at first, and all of a classroom graph", () => {
    for (const builder of [mlp(), transformer(), lstm(500)]) {
      const recording = recordingOf(builder);
      expect(countBoxes(recording.tree, first(recording))).toBeLessThanOrEqual(60);
    }
    const small = recordingOf(mlp());
    expect(first(small)).toEqual(allGroups(small));
  });

  it("opens no run of ops while more come into it", () => {
    for (const length of [1001, 1040, 1600]) {
      const growing = reduce(START, received({ ...chain(length).graphs("r1")[0]!, live: true }));
      expect(countBoxes(growing.recording!.tree, growing.open), `${length} ops`).toBeLessThan(10);
    }
  });

  it("lays out an 8,000-node recording with its loop open", () => {
    const recording = recordingOf(lstm(500));
    const middle = [...recording.tree.groups.values()].find((group) => group.label === "turns 2–500")!;
    const scene = bestScene(recording, new Set([0, middle.id]), { w: 600, h: 400 });
    expect(scene.boxes.length).toBeGreaterThan(500);
    expect(scene.direction).toBe("down");
  });
});

describe("crossings", () => {
  /** Every way to order the rows: the least crossings that layers as these can have. */
  function least(rows: number[][], spans: readonly { from: number; to: number }[]): number {
    const count = (order: number[][]) => {
      const place = new Map(order.flatMap((row) => row.map((vertex, at) => [vertex, at] as const)));
      return order.slice(1).reduce((sum, row) => {
        const lines = spans.filter(({ to }) => row.includes(to)).map(({ from, to }) => [place.get(from)!, place.get(to)!] as const);
        return sum + inversions(lines);
      }, 0);
    };
    const orders = (row: number[]): number[][] =>
      row.length < 2 ? [row] : row.flatMap((one, at) => orders([...row.slice(0, at), ...row.slice(at + 1)]).map((rest) => [one, ...rest]));
    let best = Infinity;
    const choose = (at: number, chosen: number[][]) => {
      if (at === rows.length) best = Math.min(best, count(chosen));
      else for (const order of orders(rows[at]!)) choose(at + 1, [...chosen, order]);
    };
    choose(0, []);
    return best;
  }

  it("are within 1.5 of the least possible, over many small graphs", () => {
    let [ours, possible] = [0, 0];
    for (let seed = 0; seed < 60; seed++) {
      const next = random(seed + 100);
      const links: Link[] = [];
      for (let to = 2; to < 9; to++) {
        for (const from of new Set([Math.floor(next() * to), Math.floor(next() * to)])) links.push({ from, to, net: from });
      }
      const { rows, spans } = orderBoxes(9, links);
      if (rows.reduce((product, row) => product * [1, 1, 2, 6, 24, 120][Math.min(5, row.length)]!, 1) > 2_000) continue;
      const place = new Map(rows.flatMap((row) => row.map((vertex, at) => [vertex, at] as const)));
      for (const row of rows) {
        ours += inversions(spans.filter(({ to }) => row.includes(to)).map(({ from, to }) => [place.get(from)!, place.get(to)!] as const));
      }
      possible += least(rows, spans);
    }
    expect(possible).toBeGreaterThan(10);
    expect(ours).toBeLessThanOrEqual(1.5 * possible);
  });

  it("of results that fan out to all are far fewer on tracks than as curves", () => {
    const bends = Array.from({ length: 8 }, (_, n) => ({ key: `${n}`, from: 100 * n, to: Array.from({ length: 8 }, (_, m) => 100 * m + 10 * n) }));
    const { tracks, count } = channelOf(bends);
    expect(tracks.size).toBe(8);
    const cross = (a: (typeof bends)[0], b: (typeof bends)[0]) => {
      const first = tracks.get(a.key)! < tracks.get(b.key)!;
      const reach = ({ from, to }: typeof a) => [Math.min(from, ...to), Math.max(from, ...to)] as const;
      const [low, high] = reach(first ? b : a);
      const [top, end] = reach(first ? a : b);
      const [upper, lower] = first ? [a, b] : [b, a];
      return upper.to.filter((x) => x > low && x < high).length + (lower.from > top && lower.from < end ? 1 : 0);
    };
    let [onTracks, asCurves] = [0, 0];
    bends.forEach((a, at) =>
      bends.slice(at + 1).forEach((b) => {
        onTracks += cross(a, b);
        asCurves += inversions([...a.to.map((end) => [a.from, end] as const), ...b.to.map((end) => [b.from, end] as const)]);
      }),
    );
    expect(asCurves).toBe(((8 * 7) / 2) ** 2); // the complete graph of eight and eight
    expect(onTracks).toBeLessThan(asCurves / 2);
    expect(count).toBeLessThanOrEqual(8);
  });

  it("are none where neighbours run straight", () => {
    expect(channelOf([0, 1, 2].map((n) => ({ key: `${n}`, from: n * 50, to: [n * 50] })))).toEqual({ tracks: new Map(), count: 0 });
  });
});

describe("alike groups in a row", () => {
  it("stand below each other and do not drift to one side", () => {
    const builder = lstm(8);
    const recording = recordingOf(builder);
    const scene = layout(recording, allGroups(recording), "down");
    const frames = scene.boxes.filter((box) => box.kind === "open" && recording.tree.groups.get(box.id)!.kind === "iteration");
    expect(frames).toHaveLength(8);
    const middles = frames.map((box) => box.x + box.w / 2);
    expect(Math.max(...middles) - Math.min(...middles)).toBeLessThan(frames[0]!.w / 2);
  });
});

/** So many ops one after another, with or without a module around each. */
function chain(length: number, modules = false): Builder {
  const b = new Builder("chain");
  let at = b.node("input", "", [2], [], { name: "x" });
  for (let n = 0; n < length; n++) {
    const group = modules ? b.group("module", `layers.${n}`, "ReLU") : -1;
    at = b.node("op", "relu", [2], [at], { group });
  }
  b.root = at;
  return b;
}

describe("direction and first view", () => {
  const none = new Set<number>();

  it("goes left to right where that fits well", () => {
    const scene = bestScene(recordingOf(chain(3)), none, { w: 950, h: 400 });
    expect(scene.direction).toBe("right");
    expect(wholeView(scene, { w: 950, h: 400 }).k).toBeGreaterThanOrEqual(0.75);
  });

  it("goes top to bottom where the graph is then larger, and all of it is in sight", () => {
    const recording = recordingOf(chain(7));
    const [w, h] = [610, 400];
    const scene = bestScene(recording, none, { w, h });
    expect(wholeView(layout(recording, none, "right"), { w, h }).k).toBeLessThan(0.75);
    expect(scene.direction).toBe("down");
    const { x, y, k } = firstView(scene, { w, h });
    expect(k).toBeGreaterThanOrEqual(readableAt(scene));
    for (const box of scene.boxes) {
      expect(box.x * k + x).toBeGreaterThanOrEqual(0);
      expect(box.y * k + y).toBeGreaterThanOrEqual(0);
      expect((box.x + box.w) * k + x).toBeLessThanOrEqual(w);
      expect((box.y + box.h) * k + y).toBeLessThanOrEqual(h);
    }
  });

  it("keeps left to right in a window that is low and wide", () => {
    expect(bestScene(recordingOf(chain(14)), none, { w: 900, h: 120 }).direction).toBe("right");
  });

  it("goes top to bottom with more than 40 boxes", () => {
    expect(bestScene(recordingOf(chain(40)), none, { w: 9000, h: 100 }).direction).toBe("down");
  });

  it("never magnifies, and centres", () => {
    const scene = bestScene(recordingOf(chain(1)), none, { w: 900, h: 400 });
    const { x, y, k } = firstView(scene, { w: 900, h: 400 });
    expect(k).toBe(1);
    expect([2 * x + scene.bounds[2], 2 * y + scene.bounds[3]]).toEqual([900, 400]);
  });

  it("starts at the beginning, or at the box in question, where the whole is too small to read", () => {
    const scene = bestScene(recordingOf(chain(60)), none, { w: 600, h: 400 });
    const seen = (box: Box, { x, y, k }: { x: number; y: number; k: number }) =>
      box.x * k + x >= 0 && box.y * k + y >= 0 && (box.x + box.w) * k + x <= 600 && (box.y + box.h) * k + y <= 400;
    const start = firstView(scene, { w: 600, h: 400 });
    expect(start.k).toBeGreaterThanOrEqual(0.75);
    expect(seen(scene.byKey.get("n1")!, start)).toBe(true);
    for (const key of ["n1", "n30", "n60"]) {
      const box = scene.byKey.get(key)!;
      expect(seen(box, firstView(scene, { w: 600, h: 400 }, box))).toBe(true);
    }
  });
});

describe("boxes", () => {
  it("hold their words, in every direction, with and without room for a number", () => {
    for (const builder of [mlp(), transformer(2), chain(4, true)]) {
      for (const badges of ["", "gradients", "all"] as const) {
        const recording = { ...recordingOf(builder), badges };
        for (const direction of ["right", "down"] as const) {
          const scene = layout(recording, allGroups(recording), direction);
          for (const { key, kind, face, w, h } of scene.boxes) {
            if (kind === "open" || kind === "closed") continue;
            const end = face.line[0] + (face.name ? textWidth(face.name, "name") + 8 : 0) + textWidth(face.detail, "body");
            const title = face.inset + textWidth(face.title, "title");
            expect(Math.max(end, title), key).toBeLessThanOrEqual(w - face.inset);
            const line = direction === "right" ? title : Math.max(end, ...face.pills.filter((p) => p.y < face.line[1]).map((p) => p.x + p.w));
            const number = badges === "all" || (badges && recording.nodes.grad[Number(key.slice(1))]) ? textWidth(" 460 kB", "body") : 0;
            expect(line + number, key).toBeLessThanOrEqual(w - 8);
            for (const pill of face.pills) {
              expect(pill.x + pill.w, key).toBeLessThanOrEqual(w - 8);
              expect(pill.y + pill.h, key).toBeLessThanOrEqual(h);
              expect(9 + textWidth(pill.name, "name") + (pill.shape ? 6 + textWidth(pill.shape, "body") : 0), key).toBeLessThanOrEqual(pill.w - 8);
              if (pill.y < face.line[1]) expect(pill.x, key).toBeGreaterThanOrEqual(end);
            }
          }
        }
      }
    }
  });

  it("stand in for a module that holds nothing else, and say so", () => {
    const recording = recordingOf(chain(4, true));
    const scene = layout(recording, new Set(), "down");
    expect(scene.boxes.map((box) => box.key)).toEqual(["n0", "n1", "n2", "n3", "n4"]);
    expect(scene.byKey.get("n2")!.face.name).toBe("ReLU layers.1");
    expect(describeBox(recording, "n2", false)).toContain("in ReLU layers.1");
    const growing = reduce(START, received({ ...chain(4, true).graphs("r1")[0]!, live: true })).recording!;
    expect(layout(growing, new Set(), "down").boxes.map((box) => box.key)).toEqual(["n0", "g0", "g1", "g2", "g3"]);
  });
});
