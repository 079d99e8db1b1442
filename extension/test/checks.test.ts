// The checks tab on a made-up recording: counts, marked axes, what is hidden, and what it asks for.
import { afterEach, expect, it } from "vitest";
import type { Channel, Request } from "../src/view/channel";
import { Controller } from "../src/view/controller";
import { ChecksPane } from "../src/view/panes/checks";
import { VERSION, type Finding } from "../src/view/protocol";
import { createStore } from "../src/view/store";
import { mlp } from "./page/recordings";

const base = { node: -1, site: null, why: "It matters.", fix: "x.T", operands: [] } as const;
const site = { cell: "In [2]", cell_id: "abc", file: "", line: 3, text: "z = h @ w" };
const FOUND: Finding[] = [
  {
    ...base,
    code: "shape-mismatch",
    severity: "error",
    sentence: "matmul failed: <b>8</b> and 3.",
    node: 2,
    site,
    operands: [
      { name: "h", node: 1, dtype: "float32", shape: [5, 8], marked: [1], words: "", value: "" },
      { name: "<i>w</i>", node: -1, dtype: "float32", shape: [], marked: [], words: "from 0 to 3", value: "w = 3" },
    ],
  },
  { ...base, operands: [], code: "nan-forward", severity: "error", sentence: "log made NaN.", node: 3 },
  { ...base, operands: [], code: "inf-forward", severity: "warning", sentence: "exp made +Inf." },
];

function opened(findings: readonly Finding[], thorough = false) {
  const store = createStore();
  const asked: Request[] = [];
  const channel = {
    send: (request: Request) => {
      asked.push(request);
      return Promise.resolve({ message: { type: "stepped" }, buffers: [] });
    },
  } as unknown as Channel;
  const pane = new ChecksPane({ controller: new Controller(store, channel), isDark: () => false, prefix: "", width: () => 320 });
  for (const message of mlp().graphs("r1")) store.dispatch({ do: "receive", received: { message, buffers: [] } });
  const tell = (some: readonly Finding[], all: boolean) =>
    store.dispatch({
      do: "receive",
      received: { message: { type: "findings", v: VERSION, re: null, recording: "r1", findings: [...some], thorough: all, unsure: "" }, buffers: [] },
    });
  const before = pane.offered(store.state);
  tell(findings, thorough);
  document.body.append(pane.element);
  pane.update(store.state, null);
  return { store, pane, asked, before, tell };
}

afterEach(() => document.body.replaceChildren());

const cards = (pane: ChecksPane) => [...pane.element.querySelectorAll<HTMLElement>('[data-testid="wb-finding"]')];

it("has a tab with a count only when something was found", () => {
  const { store, pane, before, tell } = opened(FOUND);
  expect(before).toBe(false);
  expect(pane.offered(store.state)).toBe(true);
  expect(pane.caption(store.state)).toBe("Checks 3");
  expect(pane.element.querySelector("h3")!.textContent).toBe("2 errors, 1 warning");
  expect(store.state.tab).toBe("checks"); // errors that come with a cell open their tab
  store.dispatch({ do: "tab", to: "value" });
  tell([], true);
  pane.update(store.state, null);
  expect(pane.offered(store.state)).toBe(false);
  store.dispatch({ do: "tab", to: "checks" }); // asked for, it stays and says so
  expect(pane.offered(store.state)).toBe(true);
  expect(pane.caption(store.state)).toBe("Checks");
  expect(pane.element.textContent).toContain("Every value was looked at.");
});

it("marks the axes that do not fit, in words too, and shows what users wrote as text", () => {
  const { pane } = opened(FOUND);
  const [card] = cards(pane);
  expect(card!.querySelector("b.dim")!.textContent).toBe("8 (does not fit)");
  expect([...card!.querySelectorAll("span.dim")].map((axis) => axis.textContent)).toEqual(["5"]);
  expect(card!.textContent).toContain("<b>8</b> and 3.");
  expect(card!.textContent).toContain("<i>w</i>");
  expect(card!.querySelector("i")).toBeNull();
  expect(card!.querySelector(".severity")!.textContent).toBe("error"); // not by colour alone
});

it("selects the node and asks the host for the line", () => {
  const { store, pane } = opened(FOUND);
  const seen: unknown[] = [];
  pane.element.addEventListener("workbench-reveal", (event) => seen.push((event as CustomEvent).detail));
  cards(pane)[0]!.querySelector<HTMLElement>("button.say")!.click();
  expect(store.state.selected).toBe(2);
  pane.update(store.state, null);
  expect(cards(pane)[0]!.classList.contains("selected")).toBe(true);
  cards(pane)[0]!.querySelector<HTMLElement>('[data-testid="wb-site"]')!.click();
  expect(seen).toEqual([site]);
  expect(cards(pane)[2]!.querySelector("button.say")).toBeNull(); // it is nowhere in the graph
});

it("leaves out NaN or infinities on a click, and keeps the focus there", () => {
  const { pane } = opened(FOUND);
  const toggle = () => pane.element.querySelector<HTMLElement>('[data-testid="wb-checks-nan"]')!;
  expect(toggle().getAttribute("aria-pressed")).toBe("true");
  toggle().click();
  expect(cards(pane).map((card) => card.dataset.code)).toEqual(["shape-mismatch", "inf-forward"]);
  expect(pane.element.textContent).toContain("1 finding not shown.");
  expect(toggle().getAttribute("aria-pressed")).toBe("false");
  expect(document.activeElement).toBe(toggle());
  toggle().click();
  expect(cards(pane)).toHaveLength(3);
  expect(opened(FOUND.slice(0, 1)).pane.element.querySelector('[data-testid="wb-checks-nan"]')).toBeNull();
});

it("looks at everything when asked to, once", () => {
  const { pane, asked } = opened(FOUND);
  const button = pane.element.querySelector<HTMLElement>('[data-testid="wb-checks-thorough"]')!;
  button.click();
  button.click();
  expect(asked.filter(({ type }) => type === "ask_findings")).toHaveLength(1);
  expect(opened(FOUND, true).pane.element.querySelector('[data-testid="wb-checks-thorough"]')).toBeNull();
});
