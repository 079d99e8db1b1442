// Stepping in the view: how far a step goes, breakpoints by mouse and keys, several passes, F-keys.
import { expect, it, vi } from "vitest";
import { combo } from "../src/view/keys";
import { VERSION, type StepTo } from "../src/view/protocol";
import { GradientTrack, gradients } from "../src/view/panes/gradients";
import type { Pass } from "../src/view/store";
import { FakeKernel } from "./page/kernel";
import { eachOnAFreshPage, openView, wait } from "./page/opened";
import { mlp } from "./page/recordings";
import { nameOf } from "../src/view/words";

eachOnAFreshPage();

async function opened(passes = ["loss"]) {
  const made = await openView(mlp(), { change: (kernel) => (kernel.passes = passes) });
  const at = () => Number(made.root.querySelector<HTMLElement>(".stepper")!.dataset.index);
  const asked = () => made.kernel.requests.filter((request): request is StepTo => request.type === "step").at(-1)!;
  return { ...made, at, asked };
}

it("names keys with Shift at letters, whatever Caps Lock says", () => {
  const key = (name: string, shiftKey = false) => combo({ key: name, shiftKey, ctrlKey: false, metaKey: false, altKey: false });
  expect([key("b"), key("B"), key("B", true), key("F10", true), key("?", true), key("*", true)]).toEqual([
    ...["b", "b", "Shift+B", "Shift+F10", "?", "*"],
  ]);
});

it("obeys the chosen granularity with buttons and with keys, and F11 goes by one op all the same", async () => {
  const { one, press, at, asked } = await opened();
  await press("ArrowRight");
  expect([at(), asked().by]).toEqual([1, "op"]);
  const by = one<HTMLSelectElement>("wb-by");
  by.value = "module";
  by.dispatchEvent(new Event("change"));
  one("wb-next").click();
  await wait();
  expect([at(), asked().do, asked().by]).toEqual([3, "next", "module"]);
  expect(await press("F10")).toBe(true);
  expect(at()).toBe(6);
  await press("F10", { shiftKey: true });
  expect([at(), asked().do]).toEqual([3, "previous"]);
  await press("F11");
  expect([at(), asked().do]).toEqual([4, "into"]);
  await press("F11", { shiftKey: true });
  expect(asked().do).toBe("out");
});

it("sets a breakpoint at the gutter and with b, runs to it, says so, and takes it away", async () => {
  const { kernel, root, one, press, at } = await opened();
  const [early, late] = [kernel.plan[4]!, kernel.plan[9]!].map((node) => node);
  const gutter = root.querySelector<SVGElement>(`[data-break="${early}"]`)!;
  gutter.dispatchEvent(new MouseEvent("click", { bubbles: true, composed: true }));
  await wait();
  expect([...kernel.broken]).toEqual([early]);
  expect(root.querySelector(`[data-node="${early}"] .flag[data-glyph="●"] title`)!.textContent).toContain("Breakpoint");
  root.querySelector(`[data-node="${late}"]`)!.dispatchEvent(new MouseEvent("click", { bubbles: true, composed: true }));
  await press("b");
  expect(kernel.broken.has(late!)).toBe(true);
  expect(one("wb-breaks").textContent).toContain("2");
  await press("F9");
  expect(at()).toBe(5);
  expect(one("wb-stopped").hidden).toBe(false);
  expect(one("wb-stopped").textContent).toContain("Stopped at a breakpoint");
  one("wb-run").click();
  await wait();
  expect(at()).toBe(10);
  await press("F9", { altKey: true });
  expect(at()).toBe(5);
  await press("ArrowRight");
  expect(one("wb-stopped").hidden).toBe(true);
  await press("b");
  expect(kernel.broken.has(late!)).toBe(false);
  await press("End");
  await press("F9");
  expect(at()).toBe(kernel.plan.length);
  expect(one("wb-status").textContent).toBe("The pass is finished.");
  await press("ArrowLeft");
  expect(one("wb-status").textContent).toBe("");
});

it("turns the arrow of an edge round when a gradient has come along it, and moves those of the step shown", async () => {
  const { kernel, root, press } = await opened();
  const lit = () => [...root.querySelectorAll<SVGElement>(".wb-wire.lit")];
  expect(lit()).toHaveLength(0);
  expect(root.querySelectorAll(".wb-wire .head").length).toBeGreaterThan(0);
  await press("ArrowRight");
  const [first] = lit();
  // The tail of a wire is where its data begins: the tip of its arrow is the first point of its line, and the way of the data lies behind it.
  const [x, y] = first!.querySelector(".line")!.getAttribute("d")!.match(/-?[\d.]+/g)!.map(Number);
  const points = first!.querySelector(".tail")!.getAttribute("d")!.match(/-?[\d.]+/g)!.map(Number);
  expect(points.slice(2, 4)).toEqual([x, y]);
  const head = first!.querySelector(".head")!.getAttribute("d")!.match(/-?[\d.]+/g)!.map(Number);
  const along = (all: number[], at: number) => Math.sign(all[at + 2]! - all[at]!);
  const axis = head[0] === head[2] ? 1 : 0;
  expect([along(head, axis), along(points, axis)].sort()).toEqual([-1, 1]);
  const current = () => [...root.querySelectorAll<SVGElement>(".wb-wire.flows")].map((wire) => Number(wire.dataset.source));
  expect(current()).toEqual(lit().map((wire) => Number(wire.dataset.source)));
  await press("ArrowRight");
  expect(current().every((source) => kernel.plan.indexOf(source) !== 0)).toBe(true);
  expect(lit().length).toBeGreaterThan(current().length);
  await press("Home");
  expect(lit()).toHaveLength(0);
});

it.each([["step", []], ["grad", ["inspect"]], ["memory", ["ask_memory"]]])("asks for what the %s tab shows in the same message as the step", async (tab, kinds) => {
  const { kernel, one, at, asked } = await opened();
  one(`wb-tab-${tab}`).click();
  await wait();
  for (const place of [1, 2]) {
    kernel.requests.length = 0;
    one("wb-next").click();
    await wait();
    expect(at()).toBe(place);
    expect((asked().then ?? []).map(({ type }) => type)).toEqual(kinds);
    expect(kernel.requests.map(({ type }) => type)).toEqual(["step", ...kinds]);
  }
});

it("plays at the chosen speed", async () => {
  const { one, click, at } = await opened();
  const speed = one<HTMLSelectElement>("wb-speed");
  speed.value = "4";
  speed.dispatchEvent(new Event("change"));
  await click(one("wb-play"));
  const began = at();
  await vi.advanceTimersByTimeAsync(950);
  expect(at() - began).toBeGreaterThanOrEqual(3);
  expect(at() - began).toBeLessThanOrEqual(4);
  await click(one("wb-play"));
  expect(one("wb-play").textContent).toBe("Play");
});

it("plays in every view of a recording, and in none when it is paused in one", async () => {
  const { again, one, click } = await opened();
  const { root, away } = again();
  const others = () => root.querySelector<HTMLElement>('[data-testid="wb-play"]')!;
  await click(one("wb-play"));
  expect([one("wb-play").textContent, others().textContent]).toEqual(["Pause", "Pause"]);
  await click(others());
  expect([one("wb-play").textContent, others().textContent]).toEqual(["Play", "Play"]);
  away();
  await click(one("wb-play"));
  expect(one("wb-play").textContent).toBe("Pause");
});

it("goes on asking for what its own tab shows when another view of the recording is gone", async () => {
  const { again, kernel, one, click } = await opened();
  again().away();
  await click(one("wb-tab-memory"));
  expect(kernel.requests.at(-1)!.type).toBe("ask_memory");
  const asked = () => kernel.requests.filter(({ type }) => type === "ask_memory").length;
  again();
  await wait();
  const before = asked();
  await click(one("wb-next"));
  expect(asked()).toBe(before + 1); // two views, one question
});

it("shows the tensor of each step in the tab that was chosen, unless it is told to hold one", async () => {
  const { core, one, seen, click, press } = await opened();
  const heading = () => seen("wb-panel")[0]!.querySelector(".pane:not([hidden]) h3")?.textContent ?? "";
  const nameAt = (index: number) => nameOf(core.store.state.recording!, core.store.state.pass!.plan[index - 1]!);
  await click(one("wb-tab-value"));
  for (const index of [1, 2, 3]) {
    await press("ArrowRight");
    expect([core.store.state.tab, heading()]).toEqual(["value", nameAt(index)]);
  }
  await click(seen("wb-hold")[0]!);
  await press("ArrowRight");
  expect(heading()).toBe(nameAt(3));
  await click(seen("wb-hold")[0]!);
  expect(heading()).toBe(nameAt(4));
  await click(one("wb-tab-grad"));
  await press("ArrowLeft");
  expect([core.store.state.tab, heading()]).toEqual(["grad", nameAt(3)]);
});

it("shows a student Step and Value alone, in every view of the page, until it is told to show all", async () => {
  const { again, core, one, click } = await opened();
  const { root } = again();
  const tabs = (where: ParentNode) => [...where.querySelectorAll<HTMLElement>("[role=tab]:not([hidden])")].map(({ textContent }) => textContent);
  const kept: boolean[] = [];
  document.body.addEventListener("workbench-level", (event) => kept.push((event as CustomEvent<{ student: boolean }>).detail.student));
  await click(one("wb-tab-memory"));
  const all = tabs(one("wb-root"));
  expect(all).toContain("Memory");
  await click(one("wb-student"));
  for (const where of [one("wb-root"), root]) expect(tabs(where)).toEqual(["Step", "Value"]);
  expect([core.store.state.tab, one("wb-root").classList.contains("student"), kept.at(-1)]).toEqual(["step", true, true]);
  await click(root.querySelector('[data-testid="wb-student"]')!);
  expect([tabs(one("wb-root")), kept.at(-1), core.store.state.tab]).toEqual([all, false, "memory"]);
  await click(one("wb-student"));
  await click(one("wb-tab-value"));
  await click(one("wb-student"));
  expect(core.store.state.tab).toBe("value");

  core.store.dispatch({ do: "receive", received: { message: { type: "level", v: VERSION, level: "student" }, buffers: [] } });
  expect(tabs(one("wb-root"))).toEqual(["Step", "Value"]);
});

it("asks for the level when it is on the page: widgets are built before", async () => {
  const give = (event: Event) => (event as CustomEvent<{ give(student: boolean): void }>).detail.give(true);
  document.addEventListener("workbench-level-kept", give);
  const { again, core } = await opened();
  core.store.dispatch({ do: "student", on: false });
  const { other } = again(true);
  await wait();
  expect(core.store.state.student).toBe(false);
  document.body.append(other);
  await vi.waitFor(() => expect(core.store.state.student).toBe(true));
  document.removeEventListener("workbench-level-kept", give);
});

it("is the level that the notebook keeps", async () => {
  const give = (event: Event) => (event as CustomEvent<{ give(student: boolean): void }>).detail.give(true);
  document.addEventListener("workbench-level-kept", give);
  const { core } = await opened();
  document.removeEventListener("workbench-level-kept", give);
  expect(core.store.state.student).toBe(true);
});

it("edits conditions in the list: a sentence for what cannot be read, and Escape closes it", async () => {
  const { kernel, root, one, press } = await opened();
  await press("B", { shiftKey: true });
  expect(one("wb-breakpoints").hidden).toBe(false);
  const when = one<HTMLInputElement>("wb-break-when");
  expect(root.activeElement).toBe(when);
  const submit = async (text: string) => {
    when.value = text;
    when.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, composed: true, cancelable: true }));
    await wait();
  };
  await submit("oops");
  expect(one("wb-break-problem").textContent).toContain("cannot be read");
  await submit("norm > 1e3 or <b>nan</b> > 0");
  expect(one("wb-break-problem").hidden).toBe(true);
  expect(kernel.conditions).toEqual(["norm > 1e3 or <b>nan</b> > 0"]);
  const row = one("wb-break");
  expect(row.querySelector("code")!.textContent).toBe("when norm > 1e3 or <b>nan</b> > 0");
  expect(row.querySelector("b")).toBeNull();
  when.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true, composed: true, cancelable: true }));
  await wait();
  expect(one("wb-breakpoints").hidden).toBe(true);
});

it("lists several passes and asks for the chosen one; one pass needs no list", async () => {
  const { one, asked, close } = await opened(["loss", "loss2", "<i>third</i>"]);
  const select = one<HTMLSelectElement>("wb-pass");
  expect([...select.options].map((option) => option.textContent)).toEqual([
    ...["pass 1 of 3: loss", "pass 2 of 3: loss2", "pass 3 of 3: <i>third</i>"],
  ]);
  select.value = "1";
  select.dispatchEvent(new Event("change"));
  await wait();
  expect(asked()).toMatchObject({ do: "pass", to: 1 });
  close();
  const alone = await opened();
  expect(alone.one("wb-pass").hidden).toBe(true);
});

it("fills in the norms of steps that were passed over, and what boxes say is what they say when all steps were sent", async () => {
  const whole = await opened();
  await whole.press("End");
  const said = () => [...document.querySelectorAll(".gradient-workbench")].map((host) => host.shadowRoot!.querySelectorAll("[data-grad-norm]"));
  const [expected] = said().map((boxes) => [...boxes].map((box) => [box.id.replace(/^wb\d+-/, ""), Number(box.getAttribute("data-grad-norm"))]));
  whole.close();
  document.body.replaceChildren();
  const { kernel, press } = await opened();
  kernel.brief = true;
  await press("End");
  await wait();
  expect(kernel.requests.filter(({ type }) => type === "ask_norms")).toMatchObject([{ first: 1, last: kernel.plan.length - 1 }]);
  const [got] = said().map((boxes) => [...boxes].map((box) => [box.id.replace(/^wb\d+-/, ""), Number(box.getAttribute("data-grad-norm"))]));
  expect(got!.map(([id]) => id)).toEqual(expected!.map(([id]) => id));
  got!.forEach(([, norm], at) => expect(norm as number).toBeCloseTo(expected![at]![1] as number, 5)); // float32
});

it("follows a pass forth and back as if each place were computed anew", () => {
  const kernel = new FakeKernel(mlp());
  const total = kernel.plan.length;
  const where = { stopped: "", runs: false, number: 0, passes: ["loss"], norms: new Map(), failed: false, done: false, mode: "live" } as const;
  const at = (index: number, known: number[]): Pass => ({
    ...{ ...where, plan: kernel.plan, index, total, sentence: "", trouble: "" },
    steps: new Map(known.map((one) => [one, kernel.step(one)])),
  });
  const plan = kernel.plan;
  const track = new GradientTrack();
  const known: number[] = [];
  for (const index of [3, total, 5, 6, 0, 9, 9, 2, total]) {
    known.push(index, index - 1);
    if (index === 9) known.push(1, 2, 3, 4);
    const pass = { ...at(index, known.filter((one) => one > 0)), plan };
    const [moved, anew] = [track.of(pass), gradients(pass)];
    expect([...moved.total].sort()).toEqual([...anew.total].sort());
    expect(new Set(moved.done)).toEqual(anew.done);
    const given = (from: typeof anew.from) => [...from].map(([node, of]) => [node, [...of].sort()]).filter(([, of]) => (of as []).length).sort();
    expect(given(moved.from)).toEqual(given(anew.from));
    expect([moved.current, moved.largest]).toEqual([anew.current, anew.largest]);
  }
});

it("controls a training loop: what it says, what its buttons ask for, and what cannot be asked any more", async () => {
  const { kernel, one } = await opened();
  expect(one("wb-training").hidden).toBe(true);
  const tell = (turn: number, state: string, resets = true) =>
    kernel.push({ type: "training", v: VERSION, re: null, recording: "r1", turn, total: 40, state, resets });
  const asked = async (id: string) => {
    one(id).click();
    await wait();
    return kernel.requests.filter((request) => request.type === "train").at(-1)?.do;
  };
  tell(3, "waits");
  expect(one("wb-train-label").textContent).toBe("turn 3 of 40, waits");
  expect(one<HTMLProgressElement>("wb-train-progress").getAttribute("value")).toBe("3");
  expect(await asked("wb-train-step")).toBe("step");
  expect(await asked("wb-train-play")).toBe("play");
  tell(9, "runs");
  expect(one("wb-train-play").title).toBe("Pause the training");
  expect(await asked("wb-train-play")).toBe("pause");
  expect(await asked("wb-train-reset")).toBe("reset");
  tell(40, "ended", false);
  expect(one("wb-train-label").textContent).toBe("turn 40 of 40, has ended");
  expect(one("wb-train-reset").getAttribute("aria-disabled")).toBe("true");
  expect(one("wb-train-play").getAttribute("aria-disabled")).toBe("true");
});

it("shows another process where the slider says, asks for its numbers, and keeps what is selected", async () => {
  const { kernel, core, one, node, click } = await openView(mlp(), { change: (kernel) => (kernel.processes = 3) });
  const slider = one<HTMLInputElement>("wb-rank");
  expect([slider.max, one("wb-rank-label").textContent]).toEqual(["2", "rank 0 of 3"]);
  expect(one("wb-rank-words").textContent).toBe("Each rank has its own data: x.");
  await click(node(core.store.state.recording!.root));
  const { selected } = core.store.state;
  const inspected = () => kernel.requests.filter(({ type }) => type === "inspect").length;
  const before = inspected();
  for (const to of ["1", "2"]) {
    slider.value = to;
    slider.dispatchEvent(new Event("input"));
  }
  await wait();
  const asked = kernel.requests.flatMap((request) => (request.type === "ask_rank" ? [request.rank] : []));
  expect([asked, one("wb-rank-label").textContent]).toEqual([[1, 2], "rank 2 of 3"]); // one request at a time, the last one kept
  expect([core.store.state.selected, inspected()]).toEqual([selected, before + 1]);
});

it("hides the ranks' bar where there is one process", async () => {
  expect((await opened()).one("wb-ranks").hidden).toBe(true);
});
