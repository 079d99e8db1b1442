// Modules whose values need each other are set up in an order that nobody chose: a constant can be undefined. Types may go around in circles.
import { expect, it } from "vitest";

const CODE = import.meta.glob("../src/**/*.ts", { query: "?raw", import: "default", eager: true }) as Record<string, string>;
const IMPORT = /^(?:import|export) (?!type )([^;]*?) from "(\.[^"]+)";/gm;

/** The modules whose values a module imports. */
function needs(path: string): string[] {
  const values = ([, names]: RegExpMatchArray) => names!.replace(/\btype \w+/g, "").match(/\w|\*/);
  return [...CODE[path]!.matchAll(IMPORT)].filter(values).map(([, , to]) => new URL(`${to}.ts`, `file:///a/${path}`).pathname.replace("/", "../"));
}

it("no module needs the value of another that needs its own", () => {
  const circles: string[] = [];
  const left = new Set<string>();
  const visit = (path: string, way: readonly string[]) => {
    if (way.includes(path)) circles.push([...way.slice(way.indexOf(path)), path].join(" → "));
    if (way.includes(path) || left.has(path)) return;
    for (const to of needs(path).filter((one) => one in CODE)) visit(to, [...way, path]);
    left.add(path);
  };
  Object.keys(CODE).forEach((path) => visit(path, []));
  expect(left.size).toBeGreaterThan(40);
  expect([...left].flatMap(needs).filter((to) => to in CODE).length).toBeGreaterThan(100);
  expect(circles).toEqual([]);
});
