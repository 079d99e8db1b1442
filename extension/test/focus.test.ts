// What has the focus has it still when its pane is drawn anew: in another width, with another answer, at another step.
import { expect, it } from "vitest";
import { answered } from "../src/view/store";
import { eachOnAFreshPage, openView } from "./page/opened";

eachOnAFreshPage();

it("stays where it is, in every tab, at every control", async () => {
  const { root, one, node, click, unfold, core } = await openView();
  const { store } = core;
  await click(one("wb-next"));
  await click(node(7));
  const redrawn: Record<string, () => void> = {
    room: () => store.dispatch({ do: "room" }),
    answers: () => {
      for (const type of ["local", "paths", "forks", "model_health", "memory"] as const) {
        const answer = answered(store.state, type);
        if (answer) store.dispatch({ do: "receive", received: { ...answer, message: { ...answer.message } } });
      }
    },
  };
  const names = new Set<string>();
  for (const tab of root.querySelectorAll<HTMLElement>("[role=tab]:not([hidden])")) {
    await click(tab);
    const panel = root.querySelector(".panel")!;
    for (const fold of panel.querySelectorAll<HTMLElement>("details:not([open])")) await unfold(fold);
    const controls = () => [...panel.querySelectorAll<HTMLElement>("button, input, select, summary")].filter((one) => !one.closest("[hidden]"));
    for (const [at, control] of controls().entries()) {
      const name = control.dataset.testid ?? `${control.tagName} ${control.title}`;
      if (names.has(name)) continue; // of what is alike the first
      names.add(name);
      for (const [what, redraw] of Object.entries(redrawn)) {
        const before = controls()[at]!;
        before.focus();
        expect(root.activeElement).toBe(before);
        redraw();
        expect(controls().indexOf(root.activeElement as HTMLElement), `${tab.textContent}, ${what}: ${name}`).toBe(at);
      }
    }
  }
  expect(names.size).toBeGreaterThan(30);
});

it("goes to the graph when what had it is gone", async () => {
  const { root, one, node, click, core } = await openView();
  await click(node(7));
  const button = one("wb-site");
  button.focus();
  core.store.dispatch({ do: "tab", to: "model" });
  expect(button.closest("[hidden]") ?? (button.isConnected ? null : root)).not.toBeNull();
  expect(root.activeElement).toBe(one("wb-graph"));
});
