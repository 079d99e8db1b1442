// The graph pane: updates the SVG from the scene, draws only what is near the window, animates changes and moves the camera.

import { listenGestures, zoomAt, type Camera } from "./camera";
import { h, s, setAttribute } from "../dom";
import { drawBox, drawWire, besideHead, labelWire, markBox, markWire } from "./draw";
import { HEADER, MOST_GROWTH, resultText, textWidth, TITLE } from "./face";
import { Headers } from "./headers";
import { listenHints } from "./hints";
import { firstView, LEGIBLE, namedAt, readableAt, viewOf, wholeView, WORDS } from "./fit";
import type { Box, Scene } from "./layout";
import type { Marks } from "./marks";
import { drawNames } from "./names";
import { Minimap } from "./minimap";
import { listenPresses, type GraphEvents } from "./press";
import type { Recording, State } from "../store";
import { baseOf, dress, isKept, type Faces } from "./dress";
import { boxOf } from "./tree";
import { litOf, NONE_LIT, type Lit } from "./trace";
import { prefersStill } from "../theme";
import type { Wire } from "./wires";

const CLOSE = 1.3; // from this scale on, wires have labels
const BARE = LEGIBLE / (TITLE * MOST_GROWTH); // below this scale not even titles are drawn, only the names that have room
const BARE_MANY = 0.5; // the same for graphs with many boxes
const DRAW_ALL = 300; // boxes: culling does not pay off for fewer
const FLIP = 200; // milliseconds
const MARGIN = 8; // distance of a revealed box from the border

export class GraphPane {
  readonly element: HTMLElement;
  scene: Scene | null = null;
  anchor = ""; // key of the box that keeps its position on screen when the next scene is shown
  private camera: Camera = { x: 0, y: 0, k: 1 };
  private readonly svg = s("svg", { role: "none" });
  private readonly world = s("g", { role: "none" });
  private readonly under = s("g", { role: "none" });
  private readonly wires = s("g", { "aria-hidden": "true" });
  private readonly over = s("g", { role: "none" });
  private readonly pinned = s("g", { role: "none" });
  private readonly names = s("g", { class: "names", "aria-hidden": "true" });
  private namesAt = 0; // the scale the names were drawn for
  private readonly minimap = new Minimap((x, y) => {
    const { k } = this.camera;
    this.moveByHand({ k, x: this.size.w / 2 - x * k, y: this.size.h / 2 - y * k });
  });
  private readonly drawnBoxes = new Map<string, SVGGElement>();
  private readonly headers: Headers;
  private readonly drawnWires = new Map<string, SVGGElement>();
  private recording: Recording | null = null;
  private marks: Marks | null = null;
  private focusKey = "";
  private faces: Faces = new Map();
  private showsKept = false; // whether wires are marked whose results the tape saves
  private lit: Lit = NONE_LIT;
  private spare: Spare | null = null; // reusable elements, while a scene replaces another one of the same nodes
  private window: [number, number, number, number] | null = null; // the drawn region, in scene units
  private frame = 0;
  private gliding = 0;
  private goal: Camera | null = null; // where a glide ends
  private named = 0; // from this scale on, groups show names
  private closeUp = false; // near enough for labels on wires
  most = 1; // the largest scale at which fitting shows a graph
  private moved: "" | "fitted" | "by hand" = ""; // how the user last moved the camera
  private aim = ""; // key of the box last revealed
  size = { w: 0, h: 0 };
  private readonly stop: (() => void)[] = [];

  constructor(
    private readonly events: GraphEvents,
    private readonly prefix: string,
  ) {
    // Frames are nearly transparent and lie over the wires, so that their titles stay readable.
    this.world.append(this.wires, this.under, this.over, this.pinned, this.names);
    this.headers = new Headers(this.pinned);
    this.svg.append(this.world);
    this.element = h(
      "div",
      { class: "graph", tabindex: 0, role: "tree", "aria-label": "Graph of the recorded computation", "data-testid": "wb-graph" },
      this.svg,
      this.minimap.element,
    );
    this.stop.push(
      listenGestures(this.element, {
        camera: () => this.arrive(),
        move: (camera) => this.moveByHand(camera),
        focused: () => (this.element.getRootNode() as ShadowRoot).activeElement === this.element,
      }),
    );
    listenPresses(this.element, this.svg, events);
    listenHints(this.svg, () => events.overlay());
    if (typeof ResizeObserver !== "undefined") {
      const observer = new ResizeObserver(() => this.resized());
      observer.observe(this.element);
      this.stop.push(() => observer.disconnect());
    }
  }

  close(): void {
    cancelAnimationFrame(this.frame);
    this.arrive();
    this.stop.forEach((stop) => stop());
  }

  show(scene: Scene, recording: Recording, marks: Marks, animate: boolean): void {
    this.arrive();
    const [before, anchor] = [this.scene, this.anchor];
    this.anchor = "";
    const sameRecording = this.recording?.name === recording.name;
    const oldDrawn = new Map(this.drawnBoxes);
    // Unchanged elements are reused.
    const same = before && this.recording?.nodes === recording.nodes && this.recording.tree.host === recording.tree.host && this.recording.tree.plain === recording.tree.plain;
    this.spare = same ? { scene: before, boxes: oldDrawn, wires: new Map(this.drawnWires), said: new Map(before.wires.map((wire) => [wire.key, wire])) } : null;
    this.scene = scene;
    this.named = namedAt(scene);
    this.namesAt = -1;
    this.recording = recording;
    this.marks = marks;
    if (!before || !sameRecording) [this.moved, this.aim] = ["", ""];
    if (anchor && before && (this.moved || wholeView(scene, this.size).k < readableAt(scene))) this.hold(before, scene, anchor);
    else if (!this.moved) this.camera = this.firstView();
    this.drawnBoxes.clear();
    this.drawnWires.clear();
    for (const layer of [this.under, this.wires, this.over]) layer.replaceChildren();
    this.headers.show(scene.boxes.filter((box) => box.kind === "open"));
    this.window = null;
    this.place();
    this.spare = null;
    if (animate && before && sameRecording) this.flip(before, oldDrawn);
    this.minimap.show(scene);
    this.minimap.place(this.camera, this.size);
  }

  mark(marks: Marks): void {
    this.marks = marks;
    for (const [key, element] of this.drawnBoxes) this.markOne(key, element);
    for (const wire of this.scene?.wires ?? []) this.markWireOf(wire);
  }

  /** Adds the known information about nodes to their boxes. */
  dress(recording: Recording, faces: Faces, showsKept: boolean): void {
    const other = this.showsKept !== showsKept || showsKept;
    [this.recording, this.faces, this.showsKept] = [recording, faces, showsKept];
    for (const element of this.drawnBoxes.values()) this.dressOne(element);
    if (other) for (const wire of this.scene?.wires ?? []) this.markWireOf(wire);
  }

  private dressOne(element: SVGGElement): void {
    for (const one of [element, ...element.querySelectorAll<SVGGElement>(".wb-pill[data-node]")]) {
      const node = Number(one.dataset.node ?? -1);
      if (node >= 0) dress(one, node, this.recording!, this.faces.get(node));
    }
  }

  /** The nodes that currently have a box or a pill. */
  nodesDrawn(): number[] {
    const drawn: number[] = [];
    for (const { kind, id, face } of this.scene?.boxes ?? []) {
      if (kind === "op" || kind === "source") drawn.push(id, ...face.pills.map((pill) => pill.node).filter((node) => node >= 0));
    }
    return drawn;
  }

  /** Highlights the trace and the neighbors of the selected node. `soon`: another scene is about to be shown. */
  trace({ recording, open, selected, trace }: State, soon: boolean): void {
    this.lit = recording ? litOf(recording, open, selected, trace) : NONE_LIT;
    this.element.classList.toggle("traced", trace !== null);
    if (soon) return;
    for (const [key, element] of this.drawnBoxes) this.markOne(key, element);
    for (const wire of this.scene?.wires ?? []) this.markWireOf(wire);
  }

  focus(key: string): void {
    const before = this.focusKey;
    this.focusKey = key;
    for (const one of before === key ? [] : [before, key]) {
      const box = this.carrier(one);
      const element = box && this.drawnBoxes.get(box);
      if (element) this.markOne(box, element);
    }
    const shown = this.svg.querySelector(`[data-key="${key}"]`) ? key : this.carrier(key);
    setAttribute(this.element, "aria-activedescendant", shown ? this.prefix + shown : null);
    if (before !== key) for (const wire of this.scene?.wires ?? []) this.markWireOf(wire);
  }

  /** Moves the camera only if the box is not visible. */
  reveal(key: string): void {
    const box = this.boxOf(key);
    this.aim = box?.key ?? "";
    if (!box || !this.size.w) return;
    const { x, y, k } = this.camera;
    // For an open group, the title is enough.
    const [w, high] = box.kind === "open" ? [Math.min(box.w, 160), HEADER] : [box.w, box.h];
    const inside = (start: number, extent: number, room: number, covered = 0) => {
      const margin = Math.max(0, Math.min(MARGIN, (room - extent) / 2 - 1));
      return start >= margin + covered && Math.min(start + extent, room) <= room - margin;
    };
    const covered = Math.min(box.depth * HEADER * k, (this.size.h - high * k) / 2); // by the headers of the groups around it
    const [across, along] = [inside(box.x * k + x, w * k, this.size.w), inside(box.y * k + y, high * k, this.size.h, Math.max(0, covered))];
    if (across && along && k >= WORDS) return;
    const to = Math.max(k, WORDS);
    const [cx, cy] = [box.x + Math.min(w, this.size.w / to) / 2, box.y + Math.min(high, this.size.h / to) / 2];
    const goal = viewOf(this.scene!, this.size, to, cx, cy);
    // An axis along which the box is already visible does not move.
    this.glide({ k: to, x: across && to === k ? x : goal.x, y: along && to === k ? y : goal.y });
  }

  /** Repaints after the colors have changed. */
  repaint(): void {
    this.minimap.repaint();
  }

  fit(): void {
    if (!this.scene) return;
    this.moved = "fitted";
    this.move(wholeView(this.scene, this.size, this.most));
  }

  /** Resets the camera to a new graph's initial view. */
  home(): void {
    if (!this.scene) return;
    this.arrive();
    this.moved = "";
    this.camera = this.firstView();
    this.showCamera();
  }

  zoom(factor: number): void {
    this.moveByHand(zoomAt(this.arrive(), factor, this.size.w / 2, this.size.h / 2));
  }

  boxOf(key: string): Box | undefined {
    return this.scene?.byKey.get(this.carrier(key) ?? "");
  }

  /** The key of the box itself, or of the box that carries it as a pill. */
  private carrier(key: string): string | undefined {
    if (this.scene?.byKey.has(key)) return key;
    const node = key.startsWith("n") ? Number(key.slice(1)) : -1;
    const box = this.recording && node >= 0 && node < this.recording.tree.size ? `n${boxOf(this.recording.tree, node)}` : "";
    return this.scene?.byKey.has(box) ? box : undefined;
  }

  private glide(to: Camera): void {
    if (prefersStill()) return this.move(to);
    const from = this.camera;
    this.arrive();
    this.goal = to;
    const began = performance.now();
    const advance = () => {
      const t = Math.min(1, (performance.now() - began) / FLIP);
      const eased = t * (2 - t);
      if (t < 1) this.gliding = requestAnimationFrame(advance);
      else this.goal = null;
      this.camera = { k: from.k + (to.k - from.k) * eased, x: from.x + (to.x - from.x) * eased, y: from.y + (to.y - from.y) * eased };
      this.showCamera();
    };
    advance();
  }

  /** Ends a glide at its goal, so that its next frame does not override a new scene, size or camera. Drags start there. */
  private arrive(): Camera {
    cancelAnimationFrame(this.gliding);
    this.camera = this.goal ?? this.camera;
    this.goal = null;
    return this.camera;
  }

  private moveByHand(camera: Camera): void {
    this.moved = "by hand";
    this.move(camera);
  }

  private move(camera: Camera): void {
    this.arrive();
    this.camera = camera;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.showCamera();
    });
  }

  private showCamera(): void {
    this.place();
    this.minimap.place(this.camera, this.size);
  }

  private resized(): void {
    const [w, high] = [this.element.clientWidth, this.element.clientHeight];
    if (!w || !high) return; // not on the page, or hidden behind the table
    this.arrive();
    const before = this.size;
    this.size = { w, h: high };
    this.events.resized(this.size, !!this.moved);
    if (this.scene && this.moved === "by hand") {
      this.camera = { ...this.camera, x: this.camera.x + (w - before.w) / 2, y: this.camera.y + (high - before.h) / 2 };
    } else if (this.scene) {
      this.camera = this.moved ? wholeView(this.scene, this.size, this.most) : this.firstView();
    }
    this.showCamera();
  }

  private firstView(): Camera {
    return firstView(this.scene!, this.size, this.boxOf(this.aim));
  }

  private hold(before: Scene, scene: Scene, anchor: string): void {
    const [old, now] = [before.byKey.get(anchor), scene.byKey.get(anchor)];
    if (!old || !now) return;
    const { x, y, k } = this.camera;
    this.camera = { k, x: x + (old.x - now.x) * k, y: y + (old.y - now.y) * k };
  }

  private place(): void {
    const { x, y, k } = this.camera;
    this.world.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${k.toFixed(4)})`);
    this.svg.classList.toggle("far", k < WORDS);
    this.svg.classList.toggle("unnamed", k < this.named);
    if (k < WORDS) this.svg.style.setProperty("--legible", `${(LEGIBLE / k).toFixed(1)}px`);
    if (this.closeUp !== k >= CLOSE) {
      this.closeUp = k >= CLOSE;
      if (this.marks) for (const wire of this.scene?.wires ?? []) this.markWireOf(wire);
    }
    const bare = k < (this.scene && this.scene.boxes.length > DRAW_ALL ? BARE_MANY : BARE);
    this.svg.classList.toggle("bare", bare);
    this.showNames(bare ? k : 0);
    if (!this.scene || !this.marks) return;
    const view: [number, number, number, number] = [-x / k, -y / k, (this.size.w - x) / k, (this.size.h - y) / k];
    this.drawNear(view);
    this.headers.stick(this.drawnBoxes, bare || !this.size.w ? null : view);
  }

  /** Draws the names that fit at a scale; 0: none. */
  private showNames(k: number): void {
    if (this.namesAt === k) return;
    this.namesAt = k;
    this.names.replaceChildren(...(k && this.scene ? drawNames(this.scene, k) : []));
  }

  /** Draws everything near the window, if the window has left the region drawn so far. */
  private drawNear(view: readonly [number, number, number, number]): void {
    const held = this.window;
    if (held && held[0] <= view[0] && held[1] <= view[1] && held[2] >= view[2] && held[3] >= view[3]) return;
    const all = this.scene!.boxes.length <= DRAW_ALL || !this.size.w;
    const [mx, my] = [(view[2] - view[0]) * 0.3, (view[3] - view[1]) * 0.3];
    this.window = all ? [-Infinity, -Infinity, Infinity, Infinity] : [view[0] - mx, view[1] - my, view[2] + mx, view[3] + my];
    this.draw();
  }

  private draw(): void {
    const [left, top, right, bottom] = this.window!;
    const recording = this.recording!;
    for (const box of this.scene!.boxes) {
      const near = box.x <= right && box.y <= bottom && box.x + box.w >= left && box.y + box.h >= top;
      const drawn = this.drawnBoxes.get(box.key);
      if (near && !drawn) {
        const element = this.spareBox(box) ?? drawBox(box, recording, this.prefix);
        this.drawnBoxes.set(box.key, element);
        this.dressOne(element);
        this.markOne(box.key, element);
        (box.kind === "open" ? this.under : this.over).append(element);
      } else if (!near && drawn) {
        drawn.remove();
        this.drawnBoxes.delete(box.key);
      }
    }
    for (const wire of this.scene!.wires) {
      const [x0, y0, x1, y1] = wire.bounds;
      const near = x0 <= right && y0 <= bottom && x1 >= left && y1 >= top;
      const drawn = this.drawnWires.get(wire.key);
      if (near && !drawn) {
        const element = this.spareWire(wire) ?? drawWire(wire);
        element.classList.toggle("view", wire.consumers.every((node) => baseOf(recording, node) === wire.source));
        this.drawnWires.set(wire.key, element);
        this.markWireOf(wire);
        this.wires.append(element);
      } else if (!near && drawn) {
        drawn.remove();
        this.drawnWires.delete(wire.key);
      }
    }
  }

  /** The reusable element of a box that looked the same, moved to the box's new position. */
  private spareBox(box: Box): SVGGElement | undefined {
    const [element, old] = [this.spare?.boxes.get(box.key), this.spare?.scene.byKey.get(box.key)];
    if (!element || !old || looks(old) !== looks(box)) return undefined;
    setAttribute(element, "transform", `translate(${box.x} ${box.y})`);
    return element;
  }

  private spareWire(wire: Wire): SVGGElement | undefined {
    const [element, old] = [this.spare?.wires.get(wire.key), this.spare?.said.get(wire.key)];
    return element && old && old.path === wire.path && old.arrow === wire.arrow && old.back === wire.back ? element : undefined;
  }

  private markOne(key: string, element: SVGGElement): void {
    const light = (one: SVGGElement, own: string) => {
      one.classList.toggle("on-path", this.lit.path.has(own));
      one.classList.toggle("beside", this.lit.beside.has(own));
    };
    markBox(element, this.marks!.box(key), key === this.focusKey);
    light(element, key);
    const host = Number(element.dataset.node ?? -1);
    for (const pill of element.querySelectorAll<SVGGElement>(".wb-pill[data-key]")) {
      const own = pill.dataset.key!;
      markBox(pill, this.marks!.box(own, host), own === this.focusKey);
      light(pill, own);
    }
  }

  private markWireOf(wire: Wire): void {
    const element = this.drawnWires.get(wire.key);
    if (!element) return;
    const node = this.focusKey.startsWith("n") ? Number(this.focusKey.slice(1)) : -1;
    const near = node >= 0 && (wire.source === node || wire.consumers.includes(node));
    const mark = this.marks!.wire(wire);
    markWire(element, mark, near);
    const said = near || this.closeUp || this.lit.onPath(wire.source, wire.consumers) ? resultText(this.recording!, wire.source) : "";
    const flow = (11 / 13) * textWidth(said, "body") <= wire.room ? said : "";
    labelWire(element, mark.slope ? { ...wire, label: besideHead(wire) } : wire, mark.slope || flow);
    element.classList.toggle("kept", this.showsKept && isKept(this.recording!, this.faces, wire.source, wire.consumers));
    element.classList.toggle("on-path", this.lit.onPath(wire.source, wire.consumers));
  }

  private flip(before: Scene, oldDrawn: ReadonlyMap<string, SVGGElement>): void {
    for (const [key, element] of this.drawnBoxes) {
      if (typeof element.animate !== "function") return;
      const [old, now] = [before.byKey.get(key), this.scene!.byKey.get(key)!];
      const to = `translate(${now.x}px, ${now.y}px)`;
      if (!old || !oldDrawn.has(key)) element.animate([{ opacity: 0 }, { opacity: 1 }], { duration: FLIP, easing: "ease-out" });
      else if (old.x !== now.x || old.y !== now.y) {
        element.animate([{ transform: `translate(${old.x}px, ${old.y}px)` }, { transform: to }], {
          duration: FLIP,
          easing: "ease-in-out",
        });
      }
    }
    this.wires.animate([{ opacity: 0 }, { opacity: 0, offset: 0.5 }, { opacity: 1 }], { duration: FLIP * 1.4 });
  }
}

interface Spare {
  scene: Scene;
  boxes: ReadonlyMap<string, SVGGElement>;
  wires: ReadonlyMap<string, SVGGElement>;
  said: ReadonlyMap<string, Wire>;
}

/** Everything that a box shows, except its position. */
function looks({ kind, depth, w, h, face }: Box): string {
  return JSON.stringify([kind, depth, w, h, face]);
}
