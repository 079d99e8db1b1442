// The whole view on a kernel in the page: what a user sees after each gesture.
import { describe, expect, it, vi } from "vitest";
import { toSvg } from "../src/view/graph/picture";
import { ASKED, TOLD } from "../src/view/notebook";
import { VERSION, type Site } from "../src/view/protocol";
import { reduce, START } from "../src/view/store";
import { received } from "./dag";
import { eachOnAFreshPage, openView, wait } from "./page/opened";
import { lstm, mistake, mlp } from "./page/recordings";

eachOnAFreshPage();

describe("the view", () => {
  it("asks to be filled and shows what comes", async () => {
    const { kernel, one, all, root } = await openView(mlp());
    expect(kernel.requests[0]).toEqual({ type: "ready", v: VERSION, id: expect.any(Number) });
    expect((root.host as HTMLElement).style.height).toBe("500px");
    const shown = all("wb-node").filter((element) => element.dataset.node);
    expect(shown.map((element) => Number(element.dataset.node)).sort((a, b) => a - b)).toEqual(mlp().nodes.op.map((_, node) => node));
    expect(one("wb-step-label").textContent).toBe(`Start of ${kernel.plan.length} steps`);
    expect(one("wb-live").hidden).toBe(true);
  });

  it("steps forward and back with every gradient norm in full precision", async () => {
    const { kernel, one, all, node, click } = await openView(mlp());
    const shownNorms = () =>
      new Map(
        all("wb-node")
          .filter((e) => e.dataset.gradNorm !== undefined)
          .map((e) => [Number(e.dataset.node), e.dataset.gradNorm]),
      );
    const states = [shownNorms()];
    const expected = new Map<number, string>();
    for (let k = 1; k <= kernel.plan.length; k++) {
      await click(one("wb-next"));
      const step = kernel.step(k);
      expected.set(step.node, String(step.upstream.norm));
      for (const c of step.contributions) expected.set(c.target, String(c.total.norm));
      expect(shownNorms()).toEqual(expected);
      expect(one("wb-step-label").textContent).toBe(`Step ${k} of ${kernel.plan.length}`);
      expect(one("wb-sentence").textContent).toBe(step.sentence);
      expect(one("wb-upstream").dataset.norm).toBe(String(step.upstream.norm));
      expect(all("wb-contribution").map((e) => [e.dataset.target, e.dataset.norm])).toEqual(
        step.contributions.map((c) => [String(c.target), String(c.total.norm)]),
      );
      expect(node(step.node).classList.contains("current")).toBe(true);
      states.push(shownNorms());
    }
    for (let k = kernel.plan.length - 1; k >= 0; k--) {
      await click(one("wb-prev"));
      expect(shownNorms()).toEqual(states[k]);
    }
  });

  it("lights what the caret's line has made, when the graph comes after the caret has been told", async () => {
    const { sites, nodes } = mlp();
    const [{ cell_id, line, text }] = sites as [Site];
    const tell = () => document.dispatchEvent(new CustomEvent(TOLD, { detail: { notebook: document.body, caret: { cell_id, line, text } } }));
    document.addEventListener(ASKED, tell, { once: true });
    const { root } = await openView(mlp());
    const lit = [...root.querySelectorAll<SVGElement>("[data-node][aria-current=location]")].map((element) => Number(element.dataset.node));
    expect(lit.sort((a, b) => a - b)).toEqual(nodes.site.flatMap((site, node) => (site === 0 ? [node] : [])));
    expect(lit.length).toBeGreaterThan(0);
  });

  it("shows each rule with symbols, shapes or numbers", async () => {
    const { all, one, click } = await openView(mlp());
    await click(one("wb-next"));
    const visible = () => ["symbols", "shapes", "numbers"].filter((depth) => all(`wb-rule-${depth}`).some((e) => !e.hidden));
    expect(visible()).toEqual(["symbols"]);
    await click(all("wb-depth-shapes")[0]!);
    expect(visible()).toEqual(["shapes"]);
    expect(all("wb-rule-shapes")[0]!.querySelector("math")).not.toBeNull();
  });

  it("keeps the keys when the button that had them is drawn anew or hidden", async () => {
    const { one, all, root, press, click } = await openView(mlp());
    await click(one("wb-next"));
    const depth = all("wb-depth-shapes")[0]!;
    depth.focus();
    await click(depth);
    expect(depth.isConnected).toBe(false);
    expect(root.activeElement).toBe(all("wb-depth-shapes")[0]); // the one that was drawn in its place
    await press("ArrowRight", {}, root.activeElement!);
    expect(one("wb-step-label").textContent).toMatch(/^Step 2 of/); // and keys step from there, too
    const link = one("wb-panel").querySelector<HTMLElement>(".contribution .link")!;
    link.focus();
    await click(link);
    expect(root.activeElement).toBe(one("wb-graph"));
    await press("t");
    const row = one("wb-table").querySelector<HTMLElement>("tbody .link")!;
    row.focus();
    await click(row);
    expect(root.activeElement).toBe(one("wb-table"));
  });

  it("leaves scrolling by keys to the table and the details", async () => {
    const { one, press } = await openView(mlp());
    await press("t");
    const keydown = (key: string) => new KeyboardEvent("keydown", { key, bubbles: true, composed: true, cancelable: true });
    for (const key of ["ArrowDown", "End", " "]) {
      const event = keydown(key);
      one("wb-table").dispatchEvent(event);
      expect(event.defaultPrevented).toBe(false);
    }
    const step = keydown("ArrowRight");
    one("wb-table").dispatchEvent(step);
    expect(step.defaultPrevented).toBe(true);
  });

  it("does all of it by keys", async () => {
    const { kernel, one, press, root } = await openView(mlp());
    await press("ArrowRight");
    await press("ArrowRight");
    expect(one("wb-step-label").textContent).toMatch(/^Step 2 /);
    await press("ArrowLeft");
    expect(one("wb-step-label").textContent).toMatch(/^Step 1 /);
    await press("End");
    expect(one("wb-step-label").textContent).toMatch(new RegExp(`^Step ${kernel.plan.length} `));
    await press("Home");
    expect(one("wb-step-label").textContent).toMatch(/^Start/);
    const focused = () => root.getElementById(one("wb-graph").getAttribute("aria-activedescendant")!)!;
    await press("ArrowDown");
    expect(focused().dataset.node).toBe(String(kernel.builder.root));
    await press("ArrowUp");
    expect(focused().getAttribute("aria-label")).toBe("mean, scalar");
    await press("ArrowDown");
    await press("ArrowUp");
    await press("Enter");
    expect(focused().getAttribute("aria-selected")).toBe("true");
    expect(kernel.requests.at(-1)).toMatchObject({ type: "inspect", node: 15, what: "value" });
    await press("t");
    expect(one("wb-table").hidden).toBe(false);
    expect(one("wb-table").querySelectorAll("tbody tr")).toHaveLength(kernel.plan.length + 3);
    await press("t");
    await press("o");
    expect(root.querySelector("select")!.value).toBe("bytes");
  });

  it("says what a part of the graph is where the mouse rests on it", async () => {
    const { one, root, node, click, press } = await openView(mlp());
    await click(one("wb-next"));
    const over = (part: Element) => part.dispatchEvent(new Event("pointerover", { bubbles: true }));
    const hint = (part: Element) => (over(part), part.closest("g:has(> title), text:has(> title)")!.querySelector(":scope > title")!.textContent);
    const mean = node(15);
    expect(mean.querySelector(":scope > title")).toBeNull(); // made only when it is wanted
    expect(hint(mean.querySelector(".card")!)).toBe("mean, scalar");
    expect(hint(mean.querySelector(".badge")!)).toContain("The gradient that has arrived here");
    one("wb-graph").focus();
    await press("o");
    expect(hint(mean.querySelector(".badge")!)).toBe("Boxes show the bytes of their results.");
    const wires = [...root.querySelectorAll(".wb-wire")];
    expect(new Set(wires.map((wire) => hint(wire.firstElementChild!)))).toEqual(
      new Set(["A result flows here", "A gradient has flowed back here; the wider, the larger"]),
    );
    // A note of its own stays what it was.
    const noted = [...root.querySelectorAll("[data-node]")].find((one) => one.querySelector(":scope > title:not([data-hint])"))!;
    expect(hint(noted.querySelector(".card")!)).toMatch(/^view of /);
  });

  it("opens and closes groups by keys, the focus following", async () => {
    const { one, root, press, click } = await openView(lstm(40), { steps: false });
    await press("ArrowDown");
    for (let n = 0; n < 3; n++) await press("Backspace");
    const loop = root.querySelector<SVGElement>('[data-group="0"]')!;
    expect(loop.getAttribute("aria-expanded")).toBe("false");
    expect(loop.textContent).toContain("680 ops, 2.6k params");
    await click(loop);
    await press("Enter");
    expect(root.querySelector('[data-group="0"]')!.getAttribute("aria-expanded")).toBe("true");
    const focus = () => one("wb-graph").getAttribute("aria-activedescendant")!.split("-")[1];
    expect(focus()).toBe("g1"); // the weights stand on the ops that use them
    await press("Enter");
    await press("ArrowDown");
    await press("Backspace");
    expect(focus()).toBe("g1");
    await press("ArrowRight", { altKey: true });
    expect(root.getElementById(one("wb-graph").getAttribute("aria-activedescendant")!)!.getAttribute("aria-label")).toBe(
      "hidden turns 2–40, 663 ops, 529 kB, closed",
    );
    await press("Backspace");
    expect(root.querySelector('[data-group="0"]')!.getAttribute("aria-expanded")).toBe("false");
    expect(focus()).toBe("g0");
  });

  it("looks at a tensor, its gradient, and says why there is none", async () => {
    const { kernel, one, node, click, root } = await openView(mlp());
    await click(node(7));
    expect(kernel.requests.at(-1)).toMatchObject({ type: "inspect", node: 7, what: "value", index: [], exact: false });
    const panel = one("wb-panel");
    expect(panel.querySelector("h3:not([hidden] *)")!.textContent).toBe("hidden");
    expect(panel.querySelectorAll(".histogram rect")).toHaveLength(40);
    expect(panel.querySelector(".histogram details table tbody")!.children).toHaveLength(40);
    expect([...panel.querySelectorAll(".health .bar span")].map((e) => e.textContent)).toEqual(["X", "+I", "−I", "−", "+"]);
    expect(panel.querySelectorAll(".heat")).toHaveLength(1);
    await click(node(15)); // a scalar: its value says all
    expect(one("wb-values").textContent).toMatch(/^−?\d/);
    expect(panel.querySelectorAll(".heat, .histogram")).toHaveLength(0);
    await click(node(7));
    const exact = [...panel.querySelectorAll("button")].find((button) => button.textContent === "count all")!;
    await click(exact);
    expect(kernel.requests.at(-1)).toMatchObject({ exact: true });
    await click(one("wb-tab-grad"));
    expect(kernel.requests.at(-1)).toMatchObject({ node: 7, what: "grad" });
    await click(node(0));
    expect(one("wb-missing").textContent).toMatch(/does not require one/);
    let asked: Site | null = null;
    document.body.addEventListener("workbench-reveal", (event) => (asked = (event as CustomEvent<Site>).detail), { once: true });
    await click(node(7));
    await click(root.querySelector(".inspector .site")!);
    expect(asked).toEqual(mlp().sites[0]);
  });

  it("runs to the selected node, and explains where it cannot", async () => {
    const { kernel, one, node, click } = await openView(mlp());
    await click(one("wb-run-to"));
    expect(one("wb-status").textContent).toMatch(/Select a node first/);
    await click(node(7));
    await click(one("wb-run-to"));
    expect(kernel.requests.filter(({ type }) => type === "step").at(-1)).toMatchObject({ do: "node", to: 7 });
    expect(one("wb-step-label").textContent).toBe(`Step ${kernel.plan.indexOf(7) + 1} of ${kernel.plan.length}`);
    await click(node(1));
    await click(one("wb-run-to"));
    expect(one("wb-status").textContent).toMatch(/does not reach/);
  });

  it("scrubs with at most one request on the way, and ends where the finger is", async () => {
    const { kernel, one } = await openView(mlp());
    kernel.delay = 30;
    const scrub = one("wb-scrub") as HTMLInputElement;
    expect(scrub.max).toBe(String(kernel.plan.length));
    for (const value of [3, 5, 9, 12]) {
      scrub.value = String(value);
      scrub.dispatchEvent(new Event("input"));
    }
    await wait();
    await wait();
    expect(kernel.requests.filter((request) => request.type === "step").map((request) => request.to)).toEqual([3, 12]);
    expect(one("wb-step-label").textContent).toMatch(/^Step 12 /);
  });

  it("plays to the end and stops there", async () => {
    const { kernel, one, click } = await openView(mlp());
    await click(one("wb-play"));
    expect(one("wb-play").getAttribute("aria-label")).toMatch(/Pause/);
    await vi.advanceTimersByTimeAsync(1000 * (kernel.plan.length + 1));
    expect(one("wb-step-label").textContent).toMatch(new RegExp(`^Step ${kernel.plan.length} `));
    expect(one("wb-play").getAttribute("aria-label")).toMatch(/Play/);
  });

  it("shows the memory, and a row leads to its node", async () => {
    const { kernel, one, click } = await openView(mlp());
    await click(one("wb-tab-memory"));
    const rows = one("wb-memory").querySelectorAll<HTMLElement>("tr.clickable");
    expect(rows).toHaveLength(mlp().nodes.op.length);
    const id = Number(rows[0]!.dataset.node);
    await click(rows[0]!);
    expect(kernel.requests.at(-1)).toMatchObject({ type: "inspect", node: id });
  });

  it("finds nodes and opens what hides them", async () => {
    const { one, root } = await openView(lstm(40), { steps: false });
    const search = one("wb-search") as HTMLInputElement;
    const drawn = () => root.querySelectorAll(".wb-box.op.hit").length;
    search.value = "/^gates$/";
    search.dispatchEvent(new Event("input"));
    expect(root.querySelector(".hits")!.textContent).toBe("40 found");
    expect(drawn()).toBe(1); // the first turn is open
    expect(root.querySelector<SVGElement>(".wb-box.closed.hit .badge")!.textContent).toBe("39 found");
    for (let n = 0; n < 3; n++) search.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
    await wait();
    expect(root.querySelector(".hits")!.textContent).toBe("3 of 40");
    expect(drawn()).toBe(1); // the third turn is open now
    const third = lstm(40).nodes.name.flatMap((name, node) => (name === "gates" ? [node] : []))[2]!;
    expect(root.querySelector<SVGElement>(".wb-box.selected")!.dataset.node).toBe(String(third)); // what "run to node" then means
  });

  it("opens the group that a double click began on, though the graph has moved before its second click", async () => {
    const { root } = await openView(lstm(40), { steps: false });
    const hidden = () => root.querySelector<SVGElement>(".wb-box.closed")!;
    const key = hidden().dataset.key!;
    const mouse = (target: Element, type: string, detail: number) => target.dispatchEvent(new MouseEvent(type, { detail, bubbles: true, composed: true }));
    mouse(hidden().querySelector(".card")!, "click", 1);
    const around = root.querySelector(".wb-box.open .card")!;
    mouse(around, "click", 2);
    mouse(around, "dblclick", 2);
    await wait();
    expect(root.querySelector(`[data-key="${key}"]`)).toBeNull(); // what stood for hidden turns: all are shown
    expect(root.querySelectorAll(".wb-box.closed")).toHaveLength(39);
  });

  it("keeps hostile names as text everywhere, in the saved picture too", async () => {
    const { root, node, click, one, press } = await openView(mistake(), { steps: false });
    const hostile = mistake().nodes.name.indexOf("<script>alert(1)</script>");
    await click(node(hostile));
    await press("t");
    expect(root.querySelectorAll("script, img")).toHaveLength(0);
    expect(one("wb-table").textContent).toContain("<script>alert(1)</script>");
    expect(one("wb-panel").querySelector(".inspector h3")!.textContent).toBe("<script>alert(1)</script>");
    const state = reduce(START, received(mistake().graphs("r1")[0]!));
    const parsed = new DOMParser().parseFromString(toSvg(state, "right"), "image/svg+xml");
    expect(parsed.querySelector("parsererror")).toBeNull();
    expect(parsed.querySelectorAll("script")).toHaveLength(0);
    expect(parsed.querySelectorAll(".wb-box")).toHaveLength(3);
    const css = parsed.querySelector("style")!.textContent!;
    expect(css).toContain(".wb-box");
    expect(css).not.toContain("var(");
  });

  it("marks the op that failed", async () => {
    const { node, root } = await openView(mistake(), { steps: false });
    expect(node(mistake().root).classList.contains("failed")).toBe(true);
    expect(root.querySelectorAll(".failed")).toHaveLength(1);
    expect(node(mistake().root).getAttribute("aria-label")).toBe(
      "matmul, failed, matmul: the inner sizes must agree; a is (2,), b is (3, 4)",
    );
    expect((await openView(mlp())).root.querySelectorAll(".failed")).toHaveLength(0);
  });

  it("grows while the code runs", async () => {
    const { kernel, one, all } = await openView(mlp(), { steps: false });
    const parts = mlp().graphs("r2", 6);
    const counts: number[] = [];
    for (const part of parts) {
      kernel.push(part);
      counts.push(all("wb-node").filter((element) => element.dataset.node).length);
      expect(one("wb-live").hidden).toBe(!part.live);
    }
    expect(counts).toEqual([6, 12, 18, 21]);
  });

  it("says a sentence when the kernel stays silent, speaks another version, or sends what is unknown", async () => {
    const { kernel, one, click } = await openView(mlp());
    kernel.silent = true;
    await click(one("wb-next"));
    await vi.advanceTimersByTimeAsync(20_100);
    expect(one("wb-alert").textContent).toMatch(/has not answered yet/);
    await click(one("wb-tab-memory"));
    await vi.advanceTimersByTimeAsync(20_100);
    expect(one("wb-memory").textContent).toBe("No answer came.");
    kernel.silent = false;
    await click(one("wb-next"));
    expect(one("wb-step-label").textContent).toMatch(/^Step 1 /);
    kernel.push({ type: "stepped", v: VERSION + 1 });
    expect(one("wb-alert").textContent).toMatch(/Reload the page/);
    kernel.push({ type: "weather", v: VERSION });
    expect(one("wb-alert").textContent).toMatch(/“weather”/);
  });

  it("no longer says that the kernel is silent when the answer comes after all", async () => {
    const { kernel, one, click } = await openView(mlp());
    kernel.delay = 30_000;
    await click(one("wb-next"));
    await vi.advanceTimersByTimeAsync(20_100);
    expect(one("wb-alert").textContent).toMatch(/has not answered yet/);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(one("wb-step-label").textContent).toMatch(/^Step 1 /);
    expect(one("wb-alert").parentElement!.hidden).toBe(true);
  });

  it("says so when a message cannot be shown, and goes on", async () => {
    const { kernel, one, click } = await openView(mlp());
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    kernel.push({
      type: "stepped",
      v: VERSION,
      re: null,
      recording: "r1",
      index: 1,
      total: 18,
      steps: [{ index: 1 }],
      done: false,
      sentence: "",
    });
    expect(one("wb-alert").textContent).toMatch(/“stepped” message could not be shown/);
    expect(console.error).toHaveBeenCalledOnce();
    kernel.push({ ...mlp().graphs("r1")[0]! });
    await click(one("wb-tab-memory"));
    expect(one("wb-memory").querySelectorAll("tr.clickable")).not.toHaveLength(0);
  });

  it("begins with the values, and with the steps as soon as there is a pass", async () => {
    const { kernel, one, root, node, click } = await openView(mlp(), { steps: false });
    const chosen = () => root.querySelector('[role="tab"][aria-selected="true"]')!.textContent;
    expect(chosen()).toBe("Value");
    expect(one("wb-tab-step").hidden).toBe(true);
    expect(one("wb-panel").textContent).toContain("Click a node to see its tensor. wb.step(loss) steps through backward.");
    await click(node(7));
    kernel.push({ type: "stepper", v: VERSION, recording: "r1", mode: "live", plan: [20, 15], index: 0, sentence: "start", number: 0, passes: ["loss"], stopped: "" });
    expect(chosen()).toBe("Step");
    expect(one("wb-tab-step").hidden).toBe(false);
  });

  it("says once, in the bar, why a pass has stopped", async () => {
    const { kernel, one, root, click } = await openView(mlp());
    await click(one("wb-next"));
    kernel.refuse = "The pass stopped: 'weight' was written in place.";
    await click(one("wb-next"));
    const words = () => [...root.querySelectorAll<HTMLElement>(".root > :not([hidden])")].map((e) => e.textContent).join(" ");
    expect(words().split("was written in place")).toHaveLength(2);
    expect(one("wb-sentence").textContent).toBe("The pass stopped: 'weight' was written in place.");
    const stopped = { index: 1, total: kernel.plan.length, steps: [], done: false, failed: true, stopped: "", runs: false };
    const sentence = "The pass stopped after step 1 of 18: 'weight' was written in place.";
    kernel.push({ type: "stepped", v: VERSION, re: null, recording: "r1", ...stopped, sentence });
    expect(one("wb-sentence").textContent).toBe(sentence);
    expect(one("wb-sentence").parentElement!.classList.contains("error")).toBe(true);
    expect(words().split("was written in place")).toHaveLength(2);
    kernel.refuse = "";
    await click(one("wb-prev"));
    expect(one("wb-sentence").parentElement!.classList.contains("error")).toBe(false);
  });

  it("dismisses an error, and shows it without covering anything", async () => {
    const { kernel, one, root, click } = await openView(mlp());
    kernel.push({ type: "problem", v: VERSION, re: null, sentence: "Something is wrong.", node: -1 });
    const alert = one("wb-alert").parentElement!;
    expect([alert.hidden, alert.textContent, alert.parentElement]).toEqual([false, "Something is wrong.×", root.querySelector(".root")]);
    await click(one("wb-dismiss"));
    expect(alert.hidden).toBe(true);
  });

  it("says that a cell waits for the pass, until the kernel has gone", async () => {
    const { one, ends, click } = await openView(mlp(), { change: (kernel) => void (kernel.mode = "paused") });
    await click(one("wb-next"));
    expect(one("wb-paused").hidden).toBe(false);
    ends.get("comm_live_update")!();
    await wait();
    expect(one("wb-paused").hidden).toBe(true);
    expect(one("wb-step-label").textContent).toMatch(/^Step 1 of/);
  });

  it("keeps what is on the screen when the kernel has gone", async () => {
    const { one, all, node, click, ends } = await openView(mlp());
    await click(one("wb-next"));
    await click(node(7));
    const [boxes, line] = [all("wb-node").length, one("wb-summary").textContent];
    ends.get("comm_live_update")!();
    const gone = "The kernel that made this view has gone; run the cell again.";
    expect(one("wb-alert").textContent).toBe(gone);
    await click(one("wb-next"));
    await click(node(12));
    expect(one("wb-alert").textContent).toBe(gone);
    expect(one("wb-panel").textContent).toContain("No answer came.");
    await click(node(7));
    expect([all("wb-node").length, one("wb-summary").textContent]).toEqual([boxes, line]);
  });

  it("shows one tensor without a graph, and asks for it by itself", async () => {
    const builder = mlp();
    builder.view = "tensor";
    builder.root = 7;
    const { kernel, one, all, root, click } = await openView(builder);
    expect(kernel.requests.filter((request) => request.type === "inspect")).toMatchObject([{ node: 7, what: "value" }]);
    expect(one("wb-summary").textContent).toContain("64 by 32");
    expect(all("wb-node")).toHaveLength(0);
    expect(root.querySelector(".root")!.classList.contains("tensor")).toBe(true);
    expect((root.host as HTMLElement).style.height).toBe("auto");
    const tabs = [...root.querySelectorAll<HTMLElement>('[role="tab"]')].filter((tab) => !tab.hidden).map((tab) => tab.textContent);
    expect(tabs).toEqual(["Value", "Grad"]);
    await click(one("wb-tab-grad"));
    expect(kernel.requests.at(-1)).toMatchObject({ type: "inspect", node: 7, what: "grad" });
    expect(root.querySelector(".inspector h3")!.textContent).toBe("hidden");
  });

  it("does not take another view's answers for its own", async () => {
    const a = await openView(mlp());
    const first = (a.kernel.requests[0] as { id: number }).id;
    a.close();
    const b = await openView(mlp());
    expect((b.kernel.requests[0] as { id: number }).id).not.toBe(first);
  });

  it("tells a reader what to do while there is nothing to see", async () => {
    const quiet = await openView(mlp(), { change: (kernel) => (kernel.silent = true) });
    expect(quiet.root.querySelector(".empty")!.textContent).toMatch(/Waiting for the kernel/);
    await vi.advanceTimersByTimeAsync(20_100);
    expect(quiet.root.querySelector(".empty")!.textContent).toMatch(/has not answered/);
  });

  it("leaves nothing behind when closed", async () => {
    const { el, close } = await openView(mlp());
    close();
    expect(el.childNodes).toHaveLength(0);
    expect(vi.getTimerCount()).toBe(0);
  });
});
