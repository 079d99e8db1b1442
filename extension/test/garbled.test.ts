// Messages that are not what they should be: a part missing, another type, a name that is a key of every object. A sentence, and on it goes.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Handler } from "../src/view/channel";
import view from "../src/view/index";

type Message = Record<string, unknown>;
type Line = { to: "kernel" | "view"; message: Message; buffers: string[] };

const FILES = import.meta.glob("../../tests/workbench/golden/*.jsonl", { query: "?raw", import: "default", eager: true });
const LOGS = Object.entries(FILES).map(([path, text]) => [path.replace(/^.*\/|\.jsonl$/g, ""), told(text)] as const);
const JUNK = [null, true, -1, 0.5, 99999, "", "__proto__", "<img src=x onerror=alert(1)>", "\ud800", [], {}, [null], [[]]];

function told(text: string): Line[] {
  const lines = text.trim().split("\n").map((line) => JSON.parse(line) as Line);
  return lines.filter(({ to }) => to === "view");
}

const bytes = (base64: string) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)).buffer;

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
function random(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A copy with one part of it changed or left out. */
function garbled(message: Message, chance: () => number): Message {
  const copy = structuredClone(message);
  let at = copy as Record<string, unknown>;
  for (;;) {
    const keys = Object.keys(at);
    const key = keys[Math.floor(chance() * keys.length)]!;
    const inner = at[key];
    if (typeof inner === "object" && inner !== null && Object.keys(inner).length && chance() < 0.7) {
      at = inner as Record<string, unknown>;
      continue;
    }
    if (chance() < 0.2) delete at[key];
    else at[key] = JUNK[Math.floor(chance() * JUNK.length)];
    return copy;
  }
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(HTMLCanvasElement.prototype, "getContext").mockReturnValue(null);
});
afterEach(() => {
  document.body.replaceChildren();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** The view after its first graph, with a node selected; what it has sent, and how to tell it something. */
function opened(first: Line) {
  const said = vi.spyOn(console, "error").mockImplementation(() => undefined);
  const el = document.createElement("div");
  document.body.append(el);
  let hear: Handler = () => undefined;
  const tell = (message: Message, buffers: string[]) => hear(message, buffers.map(bytes));
  const sent: Message[] = [];
  const model = {
    get: () => 500,
    send: (message: unknown) => void sent.push(message as Message),
    on: (event: string, callback: Handler) => void (event === "msg:custom" && (hear = callback)),
    off: () => undefined,
  };
  const close = view.render({ model, el });
  const root = el.querySelector(".gradient-workbench")!.shadowRoot!;
  tell(first.message, first.buffers);
  root.querySelector('[data-testid="wb-node"][data-node]')!.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  return { said, sent, tell, close, root };
}

describe("a message that cannot be shown", () => {
  it("is said, and what comes after it is shown", async () => {
    const [first, ...others] = LOGS.find(([name]) => name === "scalars")![1] as [Line, ...Line[]];
    const { said, sent, tell, close, root } = opened(first);
    const right = others.find(({ message }) => message.type === "inspected")!;
    const { node } = sent.filter(({ type }) => type === "inspect").at(-1)!;
    tell({ ...right.message, node, facts: 0 }, right.buffers);
    expect(root.querySelector('[data-testid="wb-alert"]')!.textContent).toContain("The kernel's “inspected” message could not be shown");
    expect(said).toHaveBeenCalledOnce();
    for (const tab of root.querySelectorAll<HTMLElement>("[role=tab]:not([hidden])")) tab.click(); // it is not met again elsewhere
    root.querySelector<HTMLElement>('[data-testid="wb-tab-value"]')!.click();
    expect(said).toHaveBeenCalledOnce();
    tell({ ...right.message, node }, right.buffers);
    await vi.advanceTimersByTimeAsync(20);
    const [{ label }] = right.message.facts as [{ label: string }];
    expect(root.textContent).toContain(label);
    close();
  });
});

describe.each(LOGS)("the log of %s, garbled", (_, log) => {
  it.each([1, 2, 3])("ends in sentences, and the next graph is shown (seed %i)", async (seed) => {
    const chance = random(seed);
    const [first] = log as [Line];
    const { said, sent, tell, close, root } = opened(first);
    const tabs = [...root.querySelectorAll<HTMLElement>("[role=tab]:not([hidden])")];
    if (chance() < 0.5) tabs[Math.floor(chance() * tabs.length)]!.click();
    for (let i = 0; i < 100; i++) {
      const { message, buffers } = log[Math.floor(chance() * log.length)]!;
      const copy: Message = chance() < 0.7 ? garbled(message, chance) : { ...message };
      const asked = sent.filter(({ type }) => type === "inspect").at(-1);
      if (copy.type === "inspected" && asked) copy.node = asked.node; // the one that is looked at
      if ("re" in copy && sent.length) copy.re = sent[Math.floor(chance() * sent.length)]!.id;
      const before = said.mock.calls.length;
      tell(
        copy,
        buffers.filter(() => chance() < 0.9),
      );
      if (said.mock.calls.length > before) expect(root.textContent).toContain("could not be shown");
      await vi.advanceTimersByTimeAsync(20);
    }
    expect(said.mock.calls.length).toBeGreaterThan(0); // otherwise nothing was tried

    tell({ ...first.message, recording: "fresh" }, first.buffers);
    await vi.advanceTimersByTimeAsync(20);
    expect(root.querySelectorAll('[data-testid="wb-node"], [data-group]').length).toBeGreaterThan(0);
    expect(root.querySelector("img")).toBeNull();
    close();
  });
});
