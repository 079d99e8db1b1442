// Lessons: text without markup, questions that keep what was typed, pages, costs, and values hidden in presenter mode.
// @vitest-environment jsdom

import { beforeEach, describe, expect, it, vi } from "vitest";
import { markup } from "../src/view/panes/markup";
import { LessonPane } from "../src/view/panes/lesson";
import { Presenter } from "../src/view/presenter";
import type { Controller } from "../src/view/controller";
import type { Formula, Lesson, Modes, Question } from "../src/view/protocol";
import { START, type State } from "../src/view/store";
import { h, s } from "../src/view/dom";

const HOSTILE = "<img src=x onerror=alert(1)>";

const QUESTION: Question = {
  ...{ name: "q", prompt: [["p", "What is ", ["code", "w"], "?"]], asks: "value", choices: [], answer: "", attempts: 0 },
  ...{ state: "open", feedback: ["p", ""], expected: "", points: 1 },
};

function lesson(at: number, question: Question = QUESTION): Lesson {
  const page = { node: -1, depth: "", overlay: "", rule: false, question: null } as const;
  const pages = [
    { ...page, text: [["p", "one"]] as Formula[] },
    { ...page, text: [], question },
  ];
  return { type: "lesson", v: 1, re: null, recording: "r", title: "By hand", pages, at, role: "", trouble: "" };
}

function stateOf(...messages: (Lesson | Modes)[]): State {
  const recording = { name: "r", tree: { size: 3 }, sites: [], nodes: { name: ["a", "b", "c"], op: ["mul", "", ""], kind: ["op", "leaf", "leaf"], site: [-1, -1, -1], shape: [[], [], []] } };
  const answers = new Map(messages.map((message) => [message.type, { message, buffers: [] }])) as unknown as State["answers"];
  return { ...START, tab: "lesson", recording: recording as unknown as State["recording"], answers };
}

let asked: Record<string, unknown>[];
let done: Record<string, unknown>[];
let state: State;
let controller: Controller;

beforeEach(() => {
  asked = [];
  done = [];
  const fake = {
    ...{ store: { get state() { return state; }, dispatch: (action: Record<string, unknown>) => { done.push(action); } } },
    ...{ ask: (request: Record<string, unknown>) => (asked.push(request), Promise.resolve(true)) },
    ...{ say: vi.fn(), show: vi.fn(), tab: vi.fn(), setOverlay: vi.fn() },
  };
  controller = fake as unknown as Controller;
  document.body.replaceChildren();
});

function pane(): LessonPane {
  const made = new LessonPane({ controller, isDark: () => false, prefix: "t-", width: () => 300 });
  document.body.append(made.element);
  return made;
}

function show(made: LessonPane, next: State): void {
  state = next;
  made.update(next, null);
}

const at = (test: string) => document.querySelector<HTMLElement>(`[data-testid="${test}"]`)!;

describe("text", () => {
  it("makes elements of known tags alone", () => {
    const tree: Formula[] = [["p", HOSTILE, ["script", "alert(1)"] as Formula, ["b", "bold"]], ["constructor", "x"], ["pre", HOSTILE], ["math", ["mi", "x"]] as Formula];
    document.body.append(...(markup(tree) as Node[]));
    expect(document.querySelector("img, script")).toBeNull();
    expect(document.body.textContent).toContain(HOSTILE);
    expect([...document.body.children].map(({ tagName }) => tagName.toLowerCase())).toEqual(["p", "span", "pre", "math"]);
  });
});

describe("a lesson", () => {
  it("turns pages by asking the kernel, and goes its own way on a wish", () => {
    const made = pane();
    show(made, stateOf(lesson(0)));
    expect(at("wb-page-count").textContent).toBe("page 1 of 2");
    made.turnPage(-1);
    expect(asked).toEqual([]);
    made.turnPage(1);
    expect(asked.pop()).toEqual({ type: "turn_page", to: 1, follow: true });
    at("wb-follow").click();
    expect(asked.pop()).toEqual({ type: "turn_page", to: -1, follow: false });
    made.turnPage(1);
    expect(asked).toEqual([]); // the page is the view's own business now
    expect(at("wb-page-count").textContent).toBe("page 2 of 2");
    show(made, stateOf(lesson(0)));
    expect(at("wb-page-count").textContent).toBe("page 2 of 2");
    at("wb-follow").click();
    expect(at("wb-page-count").textContent).toBe("page 1 of 2");
  });

  it("keeps what was typed, sends it on Enter, and tells the host what to keep", () => {
    const made = pane();
    const kept: unknown[] = [];
    document.body.addEventListener("workbench-keep", (event) => kept.push((event as CustomEvent).detail));
    show(made, stateOf(lesson(1)));
    const input = at("wb-question-input") as HTMLInputElement;
    input.value = "[1, 2]";
    show(made, { ...stateOf(lesson(1)), selected: 2 });
    expect(at("wb-question-input")).toBe(input);
    expect(input.value).toBe("[1, 2]");
    input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
    expect(asked.at(-1)).toMatchObject({ type: "answer_question", name: "q", do: "answer", text: "[1, 2]" });
    expect(kept).toEqual([]);
    show(made, stateOf(lesson(1, { ...QUESTION, answer: "[1, 2]", attempts: 1, state: "wrong", feedback: ["p", HOSTILE, ["code", "x.grad"]] })));
    expect(at("wb-question-feedback").textContent).toBe(`${HOSTILE}x.grad`);
    expect(at("wb-question-feedback").querySelector("p > code")!.textContent).toBe("x.grad");
    expect(document.querySelector("img")).toBeNull();
    expect(kept).toEqual([{ key: "q", value: { answer: "[1, 2]", attempts: 1, revealed: false } }]);
    expect(at("wb-question-reveal").hidden).toBe(false);
    expect(at("wb-question-expected").hidden).toBe(true);
    show(made, stateOf(lesson(1, { ...QUESTION, answer: "[1, 2]", attempts: 1, state: "revealed", expected: "[3, 4]" })));
    expect(at("wb-question-expected").textContent).toBe("Answer: [3, 4]");
    expect(input.readOnly).toBe(true);
  });

  it("shows shapes and the gradient's norm where a rule has too many numbers to write out", () => {
    const rule = { symbols: ["mi", "a"], shapes: ["mi", "b"], numbers: null };
    const gradient = { shape: [8, 64], norm: 2.5, values: null, nan: 0, pos_inf: 0, neg_inf: 0, text: "" };
    const step = { forward: { ...rule, numbers: ["mn", "7"] }, contributions: [{ rule, gradient }] };
    const told = lesson(0);
    const pages = [{ ...told.pages[0]!, rule: true, depth: "numbers" as const }, told.pages[1]!];
    show(pane(), { ...stateOf({ ...told, pages }), pass: { index: 1, steps: new Map([[1, step]]) } as unknown as State["pass"] });
    const [forward, backward] = document.querySelectorAll<HTMLElement>('[data-testid="wb-rule-numbers"]');
    expect([forward!.textContent, backward!.querySelector("math")!.textContent]).toEqual(["7", "b"]);
    expect(document.querySelector('[data-testid="wb-page-rule"] p')!.textContent).toContain("too many elements");
    expect(document.querySelector(".gradient")!.textContent).toBe("‖∇‖ 2.58×64");
  });

  it("takes the node that is clicked for the answer, the first click too, and not what was selected before", () => {
    const ask: Question = { ...QUESTION, asks: "node" };
    for (const before of [-1, 1]) {
      const made = pane();
      show(made, { ...stateOf(lesson(1, ask)), selected: before });
      const input = made.element.querySelector<HTMLInputElement>('[data-testid="wb-question-input"]')!;
      expect(input.value).toBe("");
      show(made, { ...stateOf(lesson(1, ask)), selected: 2 });
      expect(input.value).toBe("c");
    }
  });

  it("gives back what the host kept, if it is an answer", async () => {
    document.body.addEventListener("workbench-kept", (event) => {
      const { give } = (event as CustomEvent<{ give(value: unknown): void }>).detail;
      give({ answer: 3, attempts: 1 });
      give(undefined);
      give({ answer: "7", attempts: 2, revealed: "yes" });
    });
    show(pane(), stateOf(lesson(1)));
    await Promise.resolve();
    const back = asked.filter(({ type }) => type === "answer_question");
    expect(back).toEqual([{ type: "answer_question", name: "q", do: "keep", text: "7", attempts: 2, revealed: false }]);
  });
});

describe("costs", () => {
  it("stand side by side, and a pass adds them up step by step", async () => {
    const cost = (multiplications: number) => ({ multiplications, additions: 1, others: 0, bytes: 8 });
    const steps = [0, 4].map((times, node) => ({ node, op: "mul", value: "2", badge: "2", cost: cost(times) }));
    const mode = (name: "forward" | "reverse", passes: number) => ({ name, passes, each: cost(4), total: cost(4 * passes), shown: [{ seed: "x[0]", steps, gives: "the row" }] });
    const modes: Modes = { type: "modes", v: 1, re: null, recording: "r", inputs: 3, outputs: 1, forward: mode("forward", 3), reverse: mode("reverse", 1), sentence: "S", crossover: "C" };
    show(pane(), stateOf(modes));
    expect(at("wb-modes-forward-multiplications").dataset.count).toBe("12");
    expect(at("wb-modes-reverse-multiplications").dataset.count).toBe("4");
    expect(at("wb-modes-reverse-multiplications").className).toBe("less");
    at("wb-modes-next").click();
    at("wb-modes-next").click();
    expect(at("wb-modes-status").textContent).toContain("4 multiplications, 2 additions");
    expect(at("wb-modes-status").textContent).toContain("The pass gives the row.");
    expect(controller.show).toHaveBeenLastCalledWith(1);
    await Promise.resolve();
    expect(done.at(-1)).toEqual({ do: "tangents", to: new Map([[0, "∇ 2"], [1, "∇ 2"]]) });
    at("wb-modes-next").click();
    expect(document.querySelectorAll(".flow li")).toHaveLength(2);
  });
});

describe("presenter mode", () => {
  it("hides values, reveals one at a time, and hides them anew elsewhere", async () => {
    const first = h("div", { class: "gradient" }, "0.5");
    const second = h("code", { class: "values" }, "[1, 2]");
    const root = h("div", {}, h("section", { class: "panel" }, first, second));
    const host = h("div", {}, root);
    document.body.append(host);
    const presenter = new Presenter(host, root, controller, () => undefined);
    presenter.reveal(false);
    expect(controller.say).toHaveBeenLastCalledWith("Nothing is hidden. Shift p begins presenter mode.");
    presenter.toggle();
    expect([first, second].map((one) => one.classList.contains("veiled"))).toEqual([true, true]);
    expect(first.getAttribute("aria-hidden")).toBe("true");
    presenter.reveal(false);
    expect([first, second].map((one) => one.classList.contains("veiled"))).toEqual([false, true]);
    second.click();
    expect(second.classList.contains("veiled")).toBe(false);
    presenter.update({ ...START, selected: 4 });
    expect(first.classList.contains("veiled")).toBe(true);
    const third = h("div", { class: "secret" }, "42");
    root.querySelector(".panel")!.append(third);
    await vi.waitFor(() => expect(third.classList.contains("veiled")).toBe(true));
    presenter.reveal(true);
    expect(root.querySelector(".veiled")).toBeNull();
    presenter.update({ ...START, selected: 5 });
    presenter.toggle();
    expect(root.querySelector(".veiled")).toBeNull();
    expect(host.className).toBe("");
    presenter.close();
  });

  it("leaves revealed what was revealed in the graph, whatever else changes", async () => {
    const badge = s("text", { class: "badge warm" }, "∇ 0.5");
    const sum = h("div", { class: "equation" }, "[1, 2] → 3");
    const root = h("div", {}, h("div", { class: "graph" }, s("svg", {}, s("g", { "data-node": 3 }, badge))), h("section", { class: "panel" }, sum));
    const host = h("div", {}, root);
    document.body.append(host);
    const presenter = new Presenter(host, root, controller, () => undefined);
    presenter.toggle();
    expect([badge, sum].map((one) => one.classList.contains("veiled"))).toEqual([true, true]);
    presenter.reveal(true);
    root.append(h("p", {}, "something else"));
    await new Promise((done) => setTimeout(done));
    expect(root.querySelector(".veiled")).toBeNull();
    presenter.close();
  });

  it("fills the screen, ends with Escape, and shows no hidden number as a tooltip", async () => {
    const value = h("code", { class: "values", title: "0.25" }, "0.25");
    const button = h("button", { title: "Next step" }, "Next");
    const root = h("div", {}, h("section", { class: "panel" }, value, button));
    const host = h("div", {}, root);
    document.body.append(host);
    let full: Element | null = null;
    Object.defineProperty(document, "fullscreenElement", { configurable: true, get: () => full });
    host.requestFullscreen = vi.fn(async () => void (full = host));
    document.exitFullscreen = vi.fn(async () => void (full = null));
    const presenter = new Presenter(host, root, controller, () => undefined);
    presenter.toggle();
    expect(full).toBe(host);
    expect([value.title, button.title]).toEqual(["", "Next step"]);
    presenter.toggle();
    await vi.waitFor(() => expect(full).toBeNull());
    expect(value.title).toBe("0.25");

    presenter.toggle();
    full = null; // Escape: the browser leaves the full screen, and says so afterwards
    host.dispatchEvent(new Event("fullscreenchange"));
    expect([presenter.on, root.querySelector(".veiled")]).toEqual([false, null]);

    host.requestFullscreen = vi.fn(() => Promise.reject(new TypeError("not allowed")));
    presenter.toggle();
    await vi.waitFor(() => expect(controller.say).toHaveBeenLastCalledWith("The browser does not let the view fill the screen here."));
    expect([presenter.on, value.classList.contains("veiled")]).toEqual([true, true]);
    presenter.close();
  });
});
