// The Step pane's what-ifs on a kernel in the page: what is asked, what is shown, what a refusal looks like.
import { describe, expect, it, vi } from "vitest";
import { addendsOf, sumLine } from "../src/view/panes/addends";
import { differenceText } from "../src/view/panes/beside";
import { percent } from "../src/view/panes/paths";
import { flatOf, indexOf } from "../src/view/panes/strip";
import { structureIcon } from "../src/view/panes/structure";
import type { ForkPass, Rerun } from "../src/view/protocol";
import { reduce, START, type State } from "../src/view/store";
import { received } from "./dag";
import { FakeKernel } from "./page/kernel";
import { eachOnAFreshPage, openView, wait } from "./page/opened";
import { Builder, mlp } from "./page/recordings";

eachOnAFreshPage();

async function open(builder: Builder = mlp()) {
  const made = await openView(builder);
  const { kernel, one, click } = made;
  const unfold = (id: string) => made.unfold(one(id));
  const submit = async (id: string) => {
    one(id).closest("form")!.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
    await wait();
  };
  const stepTo = async (kind: (node: number) => boolean) => {
    for (let at = 0; at < kernel.plan.length; at++) {
      await click(one("wb-next"));
      if (kind(kernel.plan[kernel.at - 1]!)) return;
    }
    throw new Error("no such step");
  };
  return { ...made, unfold, submit, stepTo };
}

describe("a folded section", () => {
  it("asks for nothing until it is opened, and then once for each step", async () => {
    const { kernel, one, click, unfold } = await open();
    await click(one("wb-next"));
    const asked = () => kernel.requests.filter(({ type }) => type === "fork" || type === "ask_paths").length;
    expect(asked()).toBe(0);
    await unfold("wb-paths");
    expect(asked()).toBe(1);
    await click(one("wb-next"));
    expect(asked()).toBe(1); // the paths of the same gradient
    await unfold("wb-forks");
    const before = asked();
    await click(one("wb-next"));
    expect(asked()).toBe(before + 1);
  });
});

describe("local derivatives", () => {
  it("show structure, size and a row that can be chosen", async () => {
    const { kernel, all, one, click, unfold } = await open();
    await click(one("wb-next"));
    await unfold("wb-local");
    const [first] = all("wb-derivative");
    expect(first!.dataset.structure).toBe("banded");
    expect(first!.textContent).toContain("640 × 320, one row");
    const row = first!.querySelector("input")!;
    row.value = "7";
    row.dispatchEvent(new Event("change"));
    await wait();
    expect(kernel.requests.filter((r) => r.type === "ask_local").at(-1)).toMatchObject({ chosen: 7 });
  });

  it("say when no answer came", async () => {
    const { kernel, one, click, unfold } = await open();
    await click(one("wb-next"));
    kernel.silent = true;
    await unfold("wb-local");
    expect(one("wb-local").textContent).toContain("Asking the kernel…");
    await vi.advanceTimersByTimeAsync(20_100);
    expect(one("wb-local").textContent).toContain("No answer came.");
  });

  it("are checked on a click", async () => {
    const { one, click, unfold } = await open();
    await click(one("wb-next"));
    await unfold("wb-local");
    await click(one("wb-check"));
    expect(one("wb-checked").dataset.outcome).toBe("agrees");
    expect(one("wb-checked").textContent).toContain("central differences");
  });

  it("have an icon for every structure", () => {
    const counts = ["identity", "permutation", "blocks", "dense", "zero"].map((name) => structureIcon(name).querySelectorAll("rect").length - 1);
    expect(counts).toEqual([6, 6, 12, 36, 0]);
  });
});

describe("a broadcast input", () => {
  it("is summed in a step of its own, with both pictures", async () => {
    const { kernel, all, stepTo } = await open();
    const { nodes, edges } = kernel.builder;
    await stepTo((node) => edges.target.some((target, row) => target === node && nodes.name[edges.source[row]!]!.includes("bias")));
    const [step] = all("wb-sub-step");
    expect(step!.textContent).toContain("summed over axis 0, because");
    expect(step!.querySelectorAll("figure").length).toBe(2);
  });
});

describe("a gradient of several consumers", () => {
  const builder = new Builder();
  const x = builder.node("leaf", "", [3], [], { name: "x" });
  const e = builder.node("op", "exp", [3], [x], { name: "e" });
  const m = builder.node("op", "mul", [3], [x, e]);
  const n = builder.node("op", "mul", [3], [m, m], { name: "n" });
  builder.root = builder.node("op", "sum", [], [n]);

  async function stateAfter(index: number): Promise<State> {
    const kernel = new FakeKernel(builder, "r1", true);
    let state = reduce(START, received(builder.graphs("r1")[0]!));
    kernel.listen((message, buffers) => (state = reduce(state, { do: "receive", received: { message: message as never, buffers: buffers as DataView[] } })));
    kernel.send({ type: "ready", v: 1, id: 1 });
    await vi.advanceTimersByTimeAsync(20);
    kernel.send({ type: "step", v: 1, id: 2, do: "index", to: index, by: "op" });
    await vi.advanceTimersByTimeAsync(20);
    return state;
  }

  it("says what has arrived and what is still to come", async () => {
    const state = await stateAfter(3); // sum, n, m have run; exp has not
    const addends = addendsOf(state.recording!, state.pass!, x);
    expect(addends.map(({ consumer, state: at }) => [consumer, at])).toEqual([
      [m, "arrived"],
      [e, "to come"],
    ]);
    const controller = { show: () => undefined } as never;
    expect(sumLine(controller, state.recording!, addends)!.textContent).toMatch(/^= mul 3 .*, still to come from e$/);
  });

  it("counts a consumer twice that takes it twice", async () => {
    const state = await stateAfter(2);
    expect(addendsOf(state.recording!, state.pass!, m)).toHaveLength(2);
    expect(addendsOf(state.recording!, state.pass!, n)).toHaveLength(1);
  });

  it("shows each addend with its picture where it is the step's own", async () => {
    const { all, stepTo } = await open(builder);
    await stepTo((node) => node === m);
    expect(all("wb-addend")).toHaveLength(2);
  });
});

describe("a fork", () => {
  it("is made of an expression or of one element, and shown beside the base", async () => {
    const { kernel, one, unfold, submit, stepTo } = await open();
    await stepTo((node) => kernel.builder.nodes.shape[node]!.length === 2);
    await unfold("wb-forks");
    one<HTMLInputElement>("wb-fork-text").value = "g.clip(-1, 1)";
    one<HTMLInputElement>("wb-fork-name").value = "clipped";
    await submit("wb-fork-text");
    const made = kernel.requests.filter((r): r is ForkPass => r.type === "fork" && r.do === "make").at(-1)!;
    expect(made).toMatchObject({ name: "clipped", text: "g.clip(-1, 1)", node: kernel.plan[kernel.at - 1], place: kernel.at, slot: -1, index: null });
    expect(one("wb-fork").dataset.name).toBe("clipped");
    expect(one("wb-fork-table").textContent).toContain("50 %");
    one<HTMLInputElement>("wb-fork-index").value = "[0, 1]";
    one<HTMLInputElement>("wb-fork-text").value = "5";
    await submit("wb-fork-text");
    expect(kernel.requests.filter((r) => r.type === "fork").at(-1)).toMatchObject({ index: [0, 1], text: "5" });
  });

  it("is written into .grad and taken out on a click only", async () => {
    const { kernel, one, click, unfold, submit, all } = await open();
    await click(one("wb-next"));
    await unfold("wb-forks");
    await submit("wb-fork-text");
    expect(kernel.whatIfs.forks[0]!.written).toBe(false);
    await click(one("wb-fork-write"));
    expect(kernel.whatIfs.forks[0]!.written).toBe(true);
    await click(one("wb-fork-undo"));
    expect(kernel.whatIfs.forks[0]!.written).toBe(false);
    await click(one("wb-fork-delete"));
    expect(all("wb-fork")).toHaveLength(0);
  });

  it("says beside the form what is wrong with an expression, and nowhere else", async () => {
    const { root, one, click, unfold, submit } = await open();
    await click(one("wb-next"));
    await unfold("wb-forks");
    one<HTMLInputElement>("wb-fork-text").value = "import os";
    await submit("wb-fork-text");
    expect(one("wb-forks").querySelector("[role=alert]")!.textContent).toContain("is not an expression");
    expect(root.querySelector(".alert")!.hasAttribute("hidden")).toBe(true);
  });

  it("keeps the keys that are typed into its form", async () => {
    const { kernel, one, click, unfold } = await open();
    await click(one("wb-next"));
    await unfold("wb-forks");
    one("wb-fork-text").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, composed: true }));
    await wait();
    expect(kernel.at).toBe(1);
  });
});

describe("another value", () => {
  it("runs the program again and shows both losses", async () => {
    const { kernel, one, click, unfold, submit } = await open();
    await click(one("wb-next"));
    await unfold("wb-other-value");
    one<HTMLInputElement>("wb-value-text").value = "x * 2";
    await submit("wb-value-text");
    const asked = kernel.requests.filter((r): r is Rerun => r.type === "rerun").at(-1)!;
    expect(kernel.builder.nodes.kind[asked.node]).toBe("parameter");
    expect(one("wb-loss-base").textContent).toBe("0.5");
    expect(one("wb-loss-new").textContent).toBe("0.25");
    expect(one("wb-value-table").textContent).toContain("100 %");
  });
});

describe("paths", () => {
  it("light up where one is looked at, and stay lit after a click", async () => {
    const { all, one, root, click, unfold } = await open();
    await click(one("wb-next"));
    await unfold("wb-paths");
    const [first, second] = all("wb-path");
    expect(first!.textContent).toContain("125 %");
    expect(second!.textContent).toContain("−25 %");
    expect(second!.textContent).toContain("1,024 paths: … ");
    const traced = () => one("wb-graph").classList.contains("traced");
    expect(traced()).toBe(false);
    first!.dispatchEvent(new Event("pointerenter"));
    await wait();
    expect(traced()).toBe(true);
    expect(root.querySelectorAll(".wb-box.on-path, .wb-wire.on-path").length).toBeGreaterThan(1);
    first!.dispatchEvent(new Event("pointerleave"));
    await wait();
    expect(traced()).toBe(false);
    await click(first!);
    first!.dispatchEvent(new Event("pointerleave"));
    await wait();
    expect(traced()).toBe(true);
    expect(first!.getAttribute("aria-pressed")).toBe("true");
  });
});

describe("numbers", () => {
  it("go from flat to index and back", () => {
    for (let flat = 0; flat < 24; flat++) expect(flatOf(indexOf(flat, [2, 3, 4]), [2, 3, 4])).toBe(flat);
    expect(flatOf([2, 0, 0], [2, 3, 4])).toBe(-1);
    expect(flatOf([0, 0.5, 0], [2, 3, 4])).toBe(-1);
    expect(indexOf(0, [])).toEqual([]);
  });

  it("read well", () => {
    expect([percent(1.25), percent(-0.05), percent(0.005), percent(null)]).toEqual(["125 %", "−5.0 %", "0.5 %", "–"]);
    expect([differenceText(0), differenceText(0.5), differenceText("inf"), differenceText(null), differenceText(1e-7)]).toEqual([
      "same",
      "50 %",
      "∞",
      "–",
      "1e−7",
    ]);
  });
});
