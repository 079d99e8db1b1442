// Each class that a style sheet speaks of is given to something; what nobody is any more has no style.
import { expect, it } from "vitest";

const SHEETS = import.meta.glob("../src/view/**/*.css", { query: "?raw", import: "default", eager: true });
const CODE = Object.values(import.meta.glob("../src/view/**/*.ts", { query: "?raw", import: "default", eager: true })).join("\n");

/** Classes that are put together: "of-" and a category, "only-" and the parts shown; a state's two words with a hyphen. */
const MADE = /^(of-|only-)/;

it.each(Object.entries(SHEETS))("%s names no class that nothing has", (_, sheet) => {
  const rules = (sheet as string).replace(/\/\*.*?\*\//gs, "");
  const classes = new Set([...rules.matchAll(/([^{}]+)\{/g)].flatMap(([, selector]) => [...selector!.matchAll(/\.([a-zA-Z][\w-]*)/g)].map(([, name]) => name!)));
  const words = new Set(CODE.match(/[a-zA-Z][\w-]*/g));
  expect([...classes].filter((name) => !words.has(name) && !MADE.test(name) && !CODE.includes(`"${name.replace("-", " ")}"`))).toEqual([]);
});
