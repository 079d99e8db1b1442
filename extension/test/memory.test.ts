// The memory tab on a kernel in the page: the time line and its brush, moments, tables, why, what if, and the machine.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openChannel } from "../src/view/channel";
import { Controller } from "../src/view/controller";
import { MemoryPane } from "../src/view/panes/memory";
import { createStore } from "../src/view/store";
import { FakeKernel } from "./page/kernel";
import { mlp } from "./page/recordings";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  document.body.replaceChildren();
  vi.useRealTimers();
});

async function open(change: (kernel: FakeKernel) => void = () => undefined) {
  const kernel = new FakeKernel(mlp(), "r1", false);
  change(kernel);
  const channel = openChannel(kernel);
  const store = createStore();
  channel.subscribe({ message: (received) => store.dispatch({ do: "receive", received }), trouble: () => undefined });
  const controller = new Controller(store, channel);
  const pane = new MemoryPane({ controller, isDark: () => false, prefix: "", width: () => 330 });
  controller.askers.add(() => pane.asks());
  document.body.append(pane.element);
  store.subscribe((state, before) => pane.update(state, before));
  controller.start();
  const wait = (ms = 50) => vi.advanceTimersByTimeAsync(ms);
  await wait();
  controller.tab("memory");
  pane.update(store.state, null);
  await wait();
  const one = (id: string) => pane.element.querySelector<HTMLElement>(`[data-testid="${id}"]`)!;
  const click = async (id: string) => {
    one(id).dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    await wait();
  };
  const plot = one("wb-memory-plot");
  plot.getBoundingClientRect = () => new DOMRect(0, 0, 1000, 132);
  const pointer = (element: Element, kind: string, x: number) =>
    element.dispatchEvent(new MouseEvent(kind, { clientX: x, button: 0, bubbles: true, cancelable: true }));
  const drag = async (element: Element, from: number, to: number) => {
    pointer(element, "pointerdown", from);
    pointer(element, "pointermove", (from + to) / 2);
    pointer(element, "pointerup", to);
    await wait();
  };
  const last = (type: string) => kernel.requests.filter((request) => request.type === type).at(-1);
  return { kernel, pane, store, wait, one, click, plot, drag, last, text: () => pane.element.textContent! };
}

describe("the memory tab", () => {
  it("draws the sum first and the bands on a click, with the same numbers as a table", async () => {
    const { pane, one, click } = await open();
    expect(pane.element.querySelectorAll("path.area").length).toBeGreaterThan(0);
    expect(pane.element.querySelectorAll("path.band")).toHaveLength(0);
    await click("wb-memory-bands");
    expect([...pane.element.querySelectorAll("path.band")].map((path) => path.getAttribute("class"))).toEqual(["band of-parameter", "band of-saved"]);
    const twin = pane.element.querySelector<HTMLDetailsElement>(".timeline .twin")!;
    twin.open = true;
    twin.dispatchEvent(new Event("toggle"));
    expect([...twin.querySelectorAll("th")].map((cell) => cell.textContent)).toEqual(["event", "time", "live", "parameter", "saved"]);
    expect(twin.querySelectorAll("tbody tr").length).toBe(mlp().nodes.op.length);
    expect(one("wb-memory-totals").textContent).toMatch(/optimizer4 kB12 kB/);
    expect(pane.element.querySelectorAll(".ribbon.phase span")).toHaveLength(2);
  });

  it("a click on the line asks for that moment, a drag for that window, arrow keys walk, P goes to the peak", async () => {
    const { plot, drag, last, text, wait, one, click, kernel } = await open();
    const count = mlp().nodes.op.length;
    await drag(plot, 500, 501);
    expect(last("ask_moment")).toMatchObject({ event: Math.floor(count / 2) });
    expect(one("wb-moment").textContent).toContain("mul #12 made h");
    plot.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    await wait();
    expect(last("ask_moment")).toMatchObject({ event: Math.floor(count / 2) + 1 });
    expect(plot.getAttribute("aria-valuetext")).toBe(`event ${Math.floor(count / 2) + 1} of ${count}`);
    await drag(plot, 250, 750);
    const window = last("ask_window") as { first: number; last: number };
    expect([window.first, window.last]).toEqual([Math.floor(count / 4), Math.floor((3 * count) / 4) + 1]);
    expect(text()).toContain(`event ${window.first}`);
    plot.dispatchEvent(new KeyboardEvent("keydown", { key: "p", bubbles: true }));
    await wait();
    expect(one("wb-moment").textContent).toMatch(/^The peak: /);
    await click("wb-memory-whole");
    expect(last("ask_window")).toMatchObject({ first: 0, last: count });
    expect(kernel.requests.filter(({ type }) => type === "ask_window")).toHaveLength(2);
  });

  it("only the last of many windows is asked for while one is on its way", async () => {
    const { kernel, plot, wait } = await open();
    kernel.delay = 100;
    for (let at = 0; at < 8; at++) plot.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true }));
    await wait(1000);
    expect(kernel.requests.filter(({ type }) => type === "ask_window").length).toBeLessThanOrEqual(2);
  });

  it("jumps to the peak and back to now in one click each", async () => {
    const { click, one, last, pane } = await open();
    await click("wb-peak");
    expect(last("ask_moment")).toBeDefined();
    expect(one("wb-moment").textContent).toMatch(/^The peak: /);
    await click("wb-memory-now");
    expect(pane.element.querySelector("[data-testid=wb-moment]")).toBeNull();
  });

  it("leaves its buttons in place when only the bytes of the process are news", async () => {
    const { one, kernel, wait, pane } = await open();
    const asked = () => kernel.requests.filter(({ type }) => type === "ask_bytes").length;
    const [before, buttons] = [asked(), [...pane.element.querySelectorAll("button")]];
    await wait(10_000);
    expect(asked()).toBeGreaterThan(before);
    expect([...pane.element.querySelectorAll("button")]).toEqual(buttons);
    expect(buttons.every((button) => button.isConnected)).toBe(true);
    expect(one("wb-machine").textContent).not.toBe("");
  });

  it("tells why something is alive, with the line that cuts each chain", async () => {
    const { one, click, last, pane } = await open();
    await click("wb-why");
    expect(last("ask_why")).toBeDefined();
    const card = one("wb-why-card");
    expect(card.textContent).toContain("2 chains; it goes when all are cut");
    expect([...card.querySelectorAll("code.fix")].map((line) => line.textContent)).toEqual(["losses[3] = losses[3].item()", "%reset -f out"]);
    expect(card.querySelectorAll("li:first-child .arrow")).toHaveLength(2);
    card.querySelector<HTMLElement>(".dismiss")!.click();
    expect(pane.element.querySelector("[data-testid=wb-why-card]")).toBeNull();
  });

  it("says where the code is: a click on a line asks the host to show it, and selects nothing", async () => {
    const { pane, one, kernel } = await open();
    const shown: unknown[] = [];
    document.body.addEventListener("workbench-reveal", (event) => shown.push((event as CustomEvent).detail), { once: true });
    one("wb-memory-site").click();
    expect(shown).toEqual([expect.objectContaining({ line: expect.any(Number) as number })]);
    expect(kernel.requests.some(({ type }) => type === "inspect")).toBe(false);
    expect(pane.element.querySelectorAll("tr.clickable")).toHaveLength(mlp().nodes.op.length);
  });

  it("shows whose it is by line, op and module, and what nodes save", async () => {
    const { click, text } = await open();
    for (const [look, words] of [
      ["lines", "20 kB saved"],
      ["ops", "linear, backward"],
      ["modules", "layers.0"],
      ["saved", "h for d_other"],
    ] as const) {
      await click(`wb-memory-${look}`);
      expect(text()).toContain(words);
    }
  });

  it("predicts the peak with chips", async () => {
    const { click, one, last, pane } = await open();
    await click("wb-memory-what-if");
    expect(last("ask_predictions")).toMatchObject({ node: -1 });
    expect(one("wb-prediction").textContent).toContain("12 ops would run a second time, 2.0 ms more.");
    expect(pane.element.querySelector(".option b")!.textContent).toBe("−50 %");
    await click("wb-what-if-half");
    expect(one("wb-prediction").textContent).toContain("Every float32 array would be float16.");
  });

  it("looks at the machine as long as it is seen, and at nothing when it is not", async () => {
    const { kernel, pane, wait, one } = await open();
    const asked = () => kernel.requests.filter(({ type }) => type === "ask_bytes").length;
    expect(one("wb-machine").textContent).toBe("the whole process 123 MB");
    const before = asked();
    await wait(4200);
    expect(asked()).toBe(before + 2);
    pane.element.hidden = true;
    await wait(2100);
    const hidden = asked();
    await wait(10_000);
    expect(asked()).toBe(hidden);
  });

  it("shows a GPU's pool, used and held, as a gap below a dotted line", async () => {
    const gpu = { name: "GPU", index: 0, used: 3e8, held: 5e8, peak: 4e8, taken: 9e8, total: 8e9, utilisation: 37, missing: "" };
    const { one, pane } = await open((kernel) => (kernel.gpus = [gpu]));
    expect(one("wb-machine").textContent).toContain("GPU 37 % busy");
    expect(one("wb-machine").textContent).toContain("pool uses 300 MB of 500 MB held (200 MB, 40 %, free in pieces), at most 400 MB");
    expect(one("wb-machine").textContent).toContain("device 900 MB of 8 GB, 7.1 GB free");
    expect(pane.element.querySelectorAll("line.pool")).toHaveLength(1);
  });

  it("counts a GPU's bytes apart from the host's", async () => {
    const { pane } = await open((kernel) => (kernel.devices = [{ device: "cpu", now: 128, peak: 256 }, { device: "cuda:0", now: 3e6, peak: 5e6 }]));
    expect(pane.element.textContent).toContain("128 Bon cpu, at most 256 B");
    expect(pane.element.textContent).toContain("3 MBon cuda:0, at most 5 MB");
  });

  it("tells several GPUs apart", async () => {
    const gpu = { name: "GPU", index: 1, used: 3e8, held: 3e8, peak: 4e8, taken: 9e8, total: 8e9, utilisation: null, missing: "no nvml" };
    const { one } = await open((kernel) => (kernel.gpus = [gpu, { ...gpu, index: 0, used: 1e8 }]));
    const told = one("wb-machine").textContent ?? "";
    expect(told).toContain("GPU cuda:1 pool uses 300 MB of 300 MB held, at most 400 MB");
    expect(told).toContain("GPU cuda:0 pool uses 100 MB of 300 MB held (200 MB, 67 %, free in pieces)");
    expect(told.split("no nvml")).toHaveLength(2);
  });

  it("a kernel that is silent about the machine is no trouble on the screen", async () => {
    const { kernel, store, wait } = await open();
    kernel.silent = true;
    await wait(30_000);
    expect(store.state.status.tone).toBe("plain");
  });
});
