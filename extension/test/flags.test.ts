// Glyphs at a box's corner: any mark may bring them, and they go when it no longer does.
import { expect, it } from "vitest";
import { drawBox, markBox } from "../src/view/graph/draw";
import { layout } from "../src/view/graph/layout";
import { marksOf } from "../src/view/graph/marks";
import { NO_GRADIENTS } from "../src/view/panes/gradients";
import { START } from "../src/view/store";
import { recordingOf } from "./dag";
import { Builder, mlp } from "./page/recordings";

const PLAIN = { classes: "", badge: "", warm: false, norm: null, tint: 0, flags: [] };

it("draws a mark's flags with their meaning as a title, side by side inside the box, and takes them away again", () => {
  const recording = recordingOf(mlp());
  const box = layout(recording, new Set(), "down").boxes.find((one) => one.kind === "op")!;
  const element = drawBox(box, recording);
  const flags = [
    { glyph: "●", words: "breakpoint", tone: "accent" as const },
    { glyph: "!", words: "3 NaN <b>here</b>", tone: "error" as const },
  ];
  markBox(element, { ...PLAIN, flags }, false);
  const drawn = [...element.querySelectorAll(".flag")];
  expect(drawn.map((flag) => flag.querySelector("text")!.textContent)).toEqual(["●", "!"]);
  expect(drawn.map((flag) => flag.querySelector("title")!.textContent)).toEqual(["breakpoint", "3 NaN <b>here</b>"]);
  expect(drawn[1]!.classList.contains("error")).toBe(true);
  const at = drawn.map((flag) => Number(/translate\(([-\d.]+)/.exec(flag.getAttribute("transform")!)![1]));
  expect(at[0]! - at[1]!).toBeGreaterThanOrEqual(17); // no glyph covers another
  expect(Math.min(...at)).toBeGreaterThan(0);
  expect(Math.max(...at)).toBeLessThan(box.w);
  const same = element.querySelector(".flags");
  markBox(element, { ...PLAIN, flags, badge: "" }, true);
  expect(element.querySelector(".flags")).toBe(same); // unchanged flags are not drawn anew
  markBox(element, PLAIN, false);
  expect(element.querySelector(".flags")).toBeNull();
});

it("flags a box that stands for several nodes once for each kind of flag, with the number of nodes", () => {
  const b = new Builder();
  const layer = b.group("module", "layer", "Linear");
  const inputs = [b.node("input", "", [4, 3], [], { name: "x" }), b.node("parameter", "", [2, 3]), b.node("parameter", "", [2])];
  const linear = b.node("op", "linear", [4, 2], inputs, { group: layer });
  const recording = recordingOf(b);
  const added = [...inputs.slice(1), linear].map((node) => ({ node, glyph: "+", words: `only after: ${node}`, tone: "accent" as const }));
  const flags = new Map([["difference", added]]);
  const shown = (tree: typeof recording.tree) =>
    marksOf({ ...START, recording: { ...recording, tree }, flags }, NO_GRADIENTS).box(`n${linear}`);
  expect(shown(recording.trees.plain).flags).toEqual([{ ...added[0], words: "3 nodes in here; the first: only after: 1" }]);
  expect(shown(recording.trees.full).flags).toEqual([added[2]]); // the parameters have their own
});
