// The legend explains every kind of node, every state of a box in a pass and every kind of wire, drawn as the graph draws them.
import { expect, it } from "vitest";
import { legend } from "../src/view/legend";

it("explains each outline, state and wire, with a sample that has the graph's own classes", () => {
  const rows = [...legend().querySelectorAll("li")];
  for (const row of rows) {
    expect(row.querySelector("svg")!.childElementCount).toBeGreaterThan(0);
    expect(row.textContent!.length).toBeGreaterThan(5);
  }
  expect(new Set(rows.map((row) => row.textContent)).size).toBe(rows.length);
  const explained = (selector: string) => rows.filter((row) => row.querySelector(selector)).length;
  for (const kind of ["op", "parameter", "leaf", "input", "constant", "open", "closed"]) expect(explained(`.wb-box.${kind}`), kind).toBeGreaterThan(0);
  for (const state of ["reached", "done", "current", "selected", "hit", "failed"]) expect(explained(`.wb-box.${state}`), state).toBe(1);
  for (const wire of ["lit", "back", "view"]) expect(explained(`.wb-wire.${wire}`), wire).toBe(1);
  for (const part of [".healthbar .nan", ".healthbar .minus", ".keeps", ".note", ".flag.error", ".badge.warm"]) expect(explained(part), part).toBeGreaterThan(0);
});
