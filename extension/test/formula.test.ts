// Formulas and numbers on their way to the screen; heat maps; the names of keys.
import { describe, expect, it } from "vitest";
import { cellNumber, heatColour, heatInk } from "../src/view/panes/colours";
import { badGlyph, readHeat } from "../src/view/panes/heat";
import { readBuffer } from "../src/view/buffers";
import { formula } from "../src/view/panes/formula";
import type { Formula, Heat } from "../src/view/protocol";
import { bytesText, countText, numberText, shapeText } from "../src/view/words";
import { combo } from "../src/view/keys";

const MATHML = "http://www.w3.org/1998/Math/MathML";

describe("formula", () => {
  it("makes MathML of known tags", () => {
    const math = formula(["mrow", ["msup", ["mi", "x"], ["mn", "2"]], ["mo", "="], ["mfrac", ["mn", "1"], ["mi", "y"]]]);
    expect(math.namespaceURI).toBe(MATHML);
    expect([...math.querySelectorAll("*")].map((element) => element.localName)).toEqual([
      "mrow",
      "msup",
      "mi",
      "mn",
      "mo",
      "mfrac",
      "mn",
      "mi",
    ]);
    expect(math.textContent).toBe("x2=1y");
  });

  it("keeps a hostile name as text", () => {
    const name = "<script>alert(1)</script>";
    const math = formula(["mrow", ["mi", name], ["mtext", '<img src=x onerror="alert(1)">'], name]);
    expect([...math.querySelectorAll("*")].map((element) => element.localName)).toEqual(["mrow", "mi", "mtext", "mtext"]);
    expect(math.textContent).toBe(`${name}<img src=x onerror="alert(1)">${name}`);
  });

  it.each(["script", "img", "style", "iframe", "annotation-xml", "semantics", "maction", "a", "MI", "math"])(
    "never makes a <%s>",
    (tag) => {
      const math = formula(["mrow", [tag, ["mi", "x"], "href=javascript:alert(1)"]] as Formula);
      expect(math.querySelector(tag)).toBeNull();
      expect([...math.querySelectorAll("*")].every((element) => element.namespaceURI === MATHML && element.attributes.length === 0)).toBe(
        true,
      );
      expect(math.textContent).toContain("x");
    },
  );

  it("flattens elements inside tokens and stops at a depth", () => {
    expect(formula(["mi", ["script", "x"] as unknown as string]).innerHTML).not.toContain("script");
    let deep: Formula = ["mi", "x"];
    for (let n = 0; n < 5000; n++) deep = ["mrow", deep];
    expect(formula(deep).textContent).toBe("…");
  });

  it("draws a bar over the whole of a name", () => {
    const bar = (name: string) => formula(["mover", ["mi", name], ["mo", "¯"]]).innerHTML;
    expect(bar("x")).toBe("<mover><mi>x</mi><mo>¯</mo></mover>");
    expect(bar("scores")).toBe('<mrow class="bar"><mi>scores</mi></mrow>');
  });

  it("accepts a math element at the top, once", () => {
    expect(formula(["math", ["mi", "x"]]).outerHTML.match(/<math/g)).toHaveLength(1);
  });
});

describe("numbers in words", () => {
  it.each([
    [0, "0"],
    [-0.5, "−0.5"],
    [1234.5678, "1235"],
    [0.00012345, "1.23e−4"],
    [123456, "1.23e5"],
    [null, "–"],
    ["nan", "NaN"],
    ["-inf", "−Inf"],
    [true, "True"],
    [1e-320, "1e−320"],
    [12345.6, "12346"],
    [9999.9, "10000"],
    [-99999, "−99999"],
    [123456, "1.23e5"],
  ])("%j is %s", (value, text) => expect(numberText(value)).toBe(text));
  it("names shapes, counts and bytes", () => {
    expect([[4, 3], [], [5]].map(shapeText)).toEqual(["4×3", "scalar", "(5)"]);
    expect([999, 3210, 12_345, 2_000_000].map(countText)).toEqual(["999", "3.2k", "12k", "2M"]);
    expect([12, 40_000, 1_500_000].map(bytesText)).toEqual(["12 B", "40 kB", "1.5 MB"]);
  });
});

describe("heat map", () => {
  const view = (array: Float32Array | Uint8Array) => new DataView(array.buffer);
  it("reads buffers where they are not aligned, and refuses what is too short", () => {
    const bytes = new Uint8Array(9);
    new DataView(bytes.buffer).setFloat32(1, 1.5, true);
    expect([...readBuffer({ index: 0, dtype: "float32", shape: [2] }, [new DataView(bytes.buffer, 1, 8)])]).toEqual([1.5, 0]);
    expect(() => readBuffer({ index: 0, dtype: "float32", shape: [3] }, [new DataView(bytes.buffer)])).toThrow(
      /expected 3 of float32, got 9 bytes/,
    );
    expect(() => readBuffer({ index: 1, dtype: "uint8", shape: [9] }, [new DataView(bytes.buffer)])).toThrow(RangeError);
  });
  it("scales around zero by the finite cells only", () => {
    const heat: Heat = {
      ...{ axes: [-1, 0, 1], index: [0, 0], facets: 1, first: 0, rows: 2, cols: 2, block: [1, 1], pool: "mean" },
      ...{ values: { index: 0, dtype: "float32", shape: [1, 2, 2] }, marks: null },
    };
    const data = readHeat(heat, [view(new Float32Array([1, -3, NaN, Infinity]))]);
    expect([data.extent, data.pooled, [...(data.marks as Uint8Array)]]).toEqual([3, false, [0, 0, 1, 2]]);
  });
  it("has one colour for zero and tells the signs apart", () => {
    expect(heatColour(0, 5, false)).toBe(heatColour(0, 1, false));
    const channels = (text: string) => text.match(/\d+/g)!.map(Number);
    const [low, high] = [channels(heatColour(-1, 1, false)), channels(heatColour(1, 1, false))];
    expect(low[2]! > low[0]! && high[0]! > high[2]!).toBe(true);
  });
  it("writes on every colour so that it can be read", () => {
    const light = (text: string) => {
      const parts = text.startsWith("#") ? [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)) : text.match(/\d+/g)!.map(Number);
      const [r, g, b] = parts.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
    };
    for (const dark of [false, true]) {
      for (const value of [NaN, Infinity, ...Array.from({ length: 41 }, (_, at) => at / 20 - 1)]) {
        const both = [light(heatColour(value, 1, dark)), light(heatInk(value, 1, dark))].sort((a, b) => b - a);
        expect((both[0]! + 0.05) / (both[1]! + 0.05), `${value} ${dark}`).toBeGreaterThan(4.5);
      }
    }
  });
  it("has numbers that fit a cell", () => {
    const shown = [0, 1, -0.12345, -0.0543, 0.00482, -1e-9, 12.345, -123.4, 9999.4, 54321, 1e6, NaN, -Infinity].map(cellNumber);
    expect(shown).toEqual(["0", "1", "−0.123", "−0.054", "5e−3", "−1e−9", "12.3", "−123", "9999", "54321", "1e6", "NaN", "−Inf"]);
  });
  it("marks NaN and infinities with glyphs", () => {
    expect([0, 1, 2, 4, 6, 7].map(badGlyph)).toEqual(["", "X", "+I", "−I", "±I", "X"]);
  });
});

describe("keys", () => {
  const press = (key: string, mods: Partial<KeyboardEvent> = {}) =>
    combo({ key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...mods });
  it("names keys with their modifiers", () => {
    expect(press("ArrowUp", { shiftKey: true })).toBe("Shift+ArrowUp");
    expect(press("?", { shiftKey: true })).toBe("?");
    expect(press("F", { metaKey: true })).toBe("Ctrl+f");
    expect(press("ArrowLeft", { altKey: true })).toBe("Alt+ArrowLeft");
    expect(press(" ")).toBe(" ");
  });
});
