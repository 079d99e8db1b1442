// Every chart says in words what it shows, and has a table with the same numbers.
import { describe, expect, it } from "vitest";
import { eachOnAFreshPage, openView } from "./page/opened";

eachOnAFreshPage();

const CHART = ':is(svg, canvas):is([role="img"], [role="application"], [role="slider"])';

/** The table that belongs to a chart: nearest to it, with no other table between. */
function tableOf(chart: Element): HTMLTableElement | null {
  const own = chart.closest(".placement, .histogram, .heat, .timeline, .series section");
  return (own ?? chart.closest("[role=tabpanel]"))?.querySelector("table") ?? null;
}

describe("charts", () => {
  it("in every tab have a name and a table of their own", async () => {
    const { root, one, node, click, unfold } = await openView();
    await click(one("wb-last"));
    await click(node(7));
    const names: string[] = [];
    for (const tab of root.querySelectorAll<HTMLElement>("[role=tab]:not([hidden])")) {
      await click(tab);
      const panel = root.querySelector(".scroller")!;
      // A table is made when its fold is opened, and folds lie in folds.
      for (let round = 0; round < 3; round++) for (const fold of panel.querySelectorAll<HTMLElement>("details:not([open])")) await unfold(fold);
      for (const chart of panel.querySelectorAll(CHART)) {
        if (chart.closest("[hidden]") || chart.closest(".strip")) continue; // a strip stands beside its own shape, norm and numbers
        const name = chart.getAttribute("aria-label") ?? "";
        expect(name, chart.outerHTML.slice(0, 200)).not.toBe("");
        expect(tableOf(chart)?.querySelectorAll("tbody tr").length ?? 0, `${tab.textContent}: ${name}`).toBeGreaterThan(0);
        names.push(`${tab.textContent}: ${name.split(/[ ,:]/)[0]}`);
      }
    }
    const looks = ["Sampled", "Heat", "A", "norm", "std", "Distribution"];
    expect(names).toEqual([...looks.map((name) => `Value: ${name}`), ...looks.map((name) => `Grad: ${name}`), "Model: Gradient", "Memory: Live"]);
  });

  it("have the numbers that are drawn in their tables", async () => {
    const { root, node, click, unfold } = await openView();
    await click(node(7));
    for (let round = 0; round < 3; round++) for (const fold of root.querySelectorAll<HTMLElement>(".scroller details:not([open])")) await unfold(fold);
    const rows = (inside: string) => [...root.querySelectorAll(`${inside} tbody tr`)].map((row) => [...row.children].map((cell) => cell.textContent));
    const titles = (drawn: string) => [...root.querySelectorAll(`${drawn} title`)].map(({ textContent }) => textContent);
    expect(rows(".histogram").map(([from, to, count]) => `${from} to ${to}: ${count}`)).toEqual(titles(".histogram rect"));
    const told = rows(".placement").map(([place, element]) => (element === "not its own" ? `place ${place}: not its own` : `place ${place}: element ${element}`));
    expect(told).toEqual(titles(".memory-grid rect"));
    expect(told).toHaveLength(8);
  });
});
