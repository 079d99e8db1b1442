// Replaces the kernel in a replay: answers from a file, moves the pass between recorded places, and refuses other requests.

import { readBuffer } from "../view/buffers";
import type { Handler, Model } from "../view/channel";
import { VERSION, type AskElement, type AskFaces, type AskNorms, type AskWindow, type Memory, type Problem, type StepTo, type Stepped, type ToKernel, type ToView, type TurnPage } from "../view/protocol";
import type { ReplayFile, Scene } from "./file";

const MANY = 16; // most steps sent with one move, as in the kernel

type Answer = { message: ToView; buffers: DataView[] };

/** The elements of a small tensor, in C order, as text. */
interface Elements {
  shape: number[];
  texts: string[];
  path: string;
  recording: string;
}

const HOW = "Open the notebook and run its cells to do that.";
const REFUSED: Partial<Record<ToKernel["type"], string>> = {
  break: `This is a replay: breakpoints cannot be changed. ${HOW}`,
  fork: `This is a replay: gradients cannot be changed. ${HOW}`,
  rerun: `This is a replay: the program cannot run again with other values. ${HOW}`,
  ask_edit: `This is a replay: there is nothing to edit. ${HOW}`,
  train: `This is a replay: a loop cannot be played. ${HOW}`,
  ask_compare: `This is a replay: nothing can be pinned. ${HOW}`,
  ask_why: `Which variables keep a tensor alive is not in this file. ${HOW}`,
  ask_element: "Single elements of so large a tensor are not in this file.",
  inspect: "This file has each tensor as first shown, but not this view of it.",
  answer_question: `Answers are compared with live tensors, and a replay has none. ${HOW}`,
  ask_export: "This page is the replay already: save it with the browser.",
};

export class ReplayKernel implements Model {
  private readonly listeners = new Map<string, Set<Handler>>();
  private scene!: Scene;
  private place = 0;
  private page: number | null = null; // of the lesson; null: as when the file was made
  private readonly sent = new Set<number>();

  constructor(private readonly file: ReplayFile) {
    this.show(file.index.scenes[file.index.shown]!);
  }

  private show(scene: Scene): void {
    this.scene = scene;
    this.place = scene.pass?.start ?? 0;
    this.sent.clear();
  }

  get(): unknown {
    return undefined;
  }

  on(event: string, callback: Handler): void {
    const known = this.listeners.get(event) ?? new Set();
    this.listeners.set(event, known.add(callback));
  }

  off(event: string, callback: Handler): void {
    this.listeners.get(event)?.delete(callback);
  }

  /** Answers asynchronously, as a kernel does. */
  send(message: unknown): void {
    const request = message as ToKernel;
    const all = request.type === "step" && request.then ? [request, ...request.then] : [request];
    queueMicrotask(() => {
      for (const { message, buffers } of all.flatMap((one) => this.answers(one))) this.listeners.get("msg:custom")?.forEach((tell) => tell(message, buffers));
    });
  }

  private answers(request: ToKernel): Answer[] {
    switch (request.type) {
      case "ready":
        return this.opening();
      case "step":
        return request.do === "pass" ? this.choose(request) : [this.step(request)];
      case "turn_page":
        return this.turn(request);
      case "ask_faces":
        return [this.faces(request)];
      case "ask_window":
        return [this.window(request)];
      case "ask_element":
        return [this.element(request)];
      case "ask_norms":
        return [this.norms(request)];
      case "ask_timing": // the file has the longest of all events; a window has no others
        return [this.found({ ...request, begin: 0, end: -1 }, request.id)];
      default:
        return [this.found(request, request.id)];
    }
  }

  private opening(): Answer[] {
    this.sent.clear();
    const { opening, pass } = this.scene;
    const found = opening.map((number) => this.file.message(number));
    for (const { message } of found) {
      if (message.type === "stepper") [message.index, message.sentence, message.stopped] = this.standing();
      if (message.type === "lesson") message.at = this.page ?? message.at;
    }
    return pass && this.place ? [...found, this.stepped(null)] : found;
  }

  private standing(): [number, string, string] {
    const { message } = this.stepped(null) as { message: Stepped };
    this.sent.clear();
    return [this.place, message.sentence, message.stopped];
  }

  /** The number of the answer to a request at the current place; -1: left out; null: not recorded. */
  private at(type: string, key: string): number | null {
    const known = this.scene.answers[type]?.[key];
    if (!known) return null;
    let at = -2;
    while (at + 2 < known.length && known[at + 2]! <= this.place) at += 2;
    return at < 0 ? -1 : known[at + 1]!;
  }

  /** The file's answer to this request at the current place, or a problem. */
  private found(request: ToKernel, re: number): Answer {
    const number = this.at(request.type, keyOf(request));
    if (number === null) return problem(re, REFUSED[request.type] ?? `The kernel would have to answer this, and a replay has none. ${HOW}`);
    if (number < 0) return problem(re, `This was left out of the file: ${this.file.index.left}`);
    const answer = this.file.message(number);
    return { ...answer, message: { ...answer.message, re } as ToView };
  }

  private element(request: AskElement): Answer {
    const known = this.at("elements", `${request.node} ${request.what}`);
    if (known === null || known < 0) return problem(request.id, REFUSED.ask_element!);
    const { shape, texts, path, recording } = this.file.message(known).message as unknown as Elements;
    const text = texts[shape.reduce((flat, size, axis) => flat * size + request.index[axis]!, 0)]!;
    const { node, what, index } = request;
    const place = path && index.length ? `${path}[${index.join(", ")}]` : path;
    return { message: { type: "element", v: VERSION, re: request.id, recording, node, what, index, text, path: place }, buffers: [] };
  }

  /** Norms: the opening messages include them all, but a view that has not processed them yet asks. */
  private norms({ id, first }: AskNorms): Answer {
    const told = this.scene.opening.map((number) => this.file.message(number));
    const found = told.filter(({ message }) => message.type === "norms" && message.first <= first).at(-1);
    return found ? { ...found, message: { ...found.message, re: id } as ToView } : problem(id, "There is no such step in this file.");
  }

  private faces(request: AskFaces): Answer {
    const { nodes } = request;
    const key = Object.keys(this.scene.answers["ask_faces"] ?? {})[0];
    const all = key === undefined ? null : this.found({ ...request, ...(JSON.parse(key) as Pick<AskFaces, "nodes">) }, request.id);
    if (all?.message.type !== "faces") return all ?? problem(request.id, "What the boxes show is not in this file.");
    const wanted = new Set(nodes);
    return { ...all, message: { ...all.message, faces: all.message.faces.filter(({ node }) => wanted.has(node)) } };
  }

  /** A part of the memory time line, cut out of the whole. */
  private window(request: AskWindow): Answer {
    const whole = this.found({ type: "ask_memory", v: VERSION, id: request.id }, request.id);
    if (whole.message.type !== "memory") return whole;
    const { line, recording } = whole.message as Memory;
    const events = readBuffer(line.events, whole.buffers);
    const inside = [...events.keys()].filter((at) => events[at]! >= request.first && events[at]! < request.last);
    const [first, last] = [inside[0] ?? 0, (inside.at(-1) ?? -1) + 1];
    const cut = (buffer: Memory["line"]["events"], wide: number) => readBuffer(buffer, whole.buffers).slice(first * wide, last * wide);
    const parts = [cut(line.events, 1), cut(line.bands, 7), ...(line.seconds ? [cut(line.seconds, 1)] : [])];
    const described = (index: number, shape: number[]) => ({ index, dtype: "float64" as const, shape });
    const n = last - first;
    const near = {
      ...line,
      ...{ first: request.first, last: request.last },
      ...{ events: described(0, [n]), bands: described(1, [n, 7]), seconds: line.seconds && described(2, [n]) },
    };
    const buffers = parts.map((part) => new DataView(part.buffer, part.byteOffset, part.byteLength));
    return { message: { type: "window", v: VERSION, re: request.id, recording, line: near }, buffers };
  }

  // -- the pass ----------------------------------------------------------------------------------------------------------------

  /** Switches to another pass: returns everything that a newly opened view receives. */
  private choose({ id, to }: StepTo): Answer[] {
    const scene = this.file.index.scenes[to];
    if (scene === undefined) return [problem(id, `There is no pass ${to + 1} in this file.`)];
    if (scene === null) return [problem(id, `This pass was left out of the file: ${this.file.index.left}`)];
    this.show(scene);
    return [...this.opening(), this.stepped(id)];
  }

  /** Turns to a page of the lesson, and moves the pass to its step. */
  private turn({ id, to, follow }: TurnPage): Answer[] {
    const { opening, pages, pass } = this.scene;
    const lesson = opening.map((number) => this.file.message(number)).find(({ message }) => message.type === "lesson");
    if (lesson?.message.type !== "lesson") return [problem(id, "There is no lesson in this file.")];
    if (follow && to >= 0) {
      this.page = Math.min(to, pages.length - 1);
      const place = pages[this.page];
      if (pass && typeof place === "number") this.place = this.near(place);
    }
    const told = { ...lesson, message: { ...lesson.message, re: id, at: this.page ?? lesson.message.at } };
    return pass ? [this.stepped(null), told] : [told];
  }

  /** The first recorded place at or after `wanted`, else the last. */
  private near(wanted: number): number {
    const places = Object.keys(this.scene.pass!.told).map(Number);
    return places.find((place) => place >= wanted) ?? places.at(-1)!;
  }

  private step(request: StepTo): Answer {
    const { pass } = this.scene;
    if (!pass) return problem(request.id, "There is no backward pass in this file.");
    const to = this.target(request);
    if (typeof to === "string") return problem(request.id, to);
    this.place = to;
    return this.stepped(request.id);
  }

  /** The place a step leads to, or why it leads nowhere. */
  private target({ do: wish, to, by }: StepTo): number | string {
    const { total, plan, ways, stops } = this.scene.pass!;
    const here = this.place;
    const led = (way: string) => {
      const known = ways[way];
      return typeof known === "string" ? known : (known?.[here] ?? here);
    };
    switch (wish) {
      case "next":
      case "previous":
        return led(`${wish} ${by}`);
      case "into":
        return led("next op");
      case "out":
        return led("out");
      case "first":
        return 0;
      case "last":
        return this.near(total);
      case "index":
        return this.near(Math.max(0, Math.min(to, total)));
      case "node": {
        const found = plan.flatMap((node, at) => (node === to ? [at + 1] : []));
        return found.length ? this.near(found.find((place) => place > here) ?? found[0]!) : "The backward pass does not reach this node.";
      }
      case "run":
        return Math.min(this.near(total), ...Object.keys(stops).map(Number).filter((place) => place > here));
      case "back":
        return Math.max(0, ...Object.keys(stops).map(Number).filter((place) => place < here));
      case "stop":
      case "begin": // only a kernel offers it
      case "pass": // see `choose`
        return here;
    }
  }

  private stepped(re: number | null): Answer {
    const { told, stops } = this.scene.pass!;
    const answer = this.file.message(told[this.place]!);
    const message = answer.message as Stepped;
    const before = Object.keys(told)
      .map(Number)
      .filter((place) => place > 0 && place <= this.place && !this.sent.has(place))
      .slice(-MANY);
    const steps = before.flatMap((place) => {
      this.sent.add(place);
      return place === this.place ? message.steps : (this.file.message(told[place]!).message as Stepped).steps;
    });
    return { ...answer, message: { ...message, re, steps, stopped: stops[this.place] ?? "", runs: false } };
  }
}

/** The key of a request, as `workbench/exporting/pack.py` writes it: JSON of its fields in alphabetical order. */
export function keyOf(request: ToKernel): string {
  const asked = Object.entries(request).filter(([name]) => !["type", "v", "id", "then"].includes(name));
  return JSON.stringify(Object.fromEntries(asked.sort(([a], [b]) => (a < b ? -1 : 1))));
}

function problem(re: number, sentence: string): Answer {
  const message: Problem = { type: "problem", v: VERSION, re, sentence, node: -1 };
  return { message, buffers: [] };
}
