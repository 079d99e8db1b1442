// The time line: what is in sight, what lies under the pointer, moving and zooming; and the time tab on a kernel in the page.
import { describe, expect, it } from "vitest";
import {
  drawEvents,
  eventAt,
  firstAbove,
  inSight,
  momentText,
  moved,
  ticks,
  timelineEvents,
  zoomed,
  type TimelineEvents,
} from "../src/view/panes/lanes";
import { random } from "./page/kernel";

/** A lane of events that do not touch, another with one around others. */
function some(count: number, seed = 1): TimelineEvents {
  const next = random(seed);
  const events: number[] = [];
  const places: number[] = [];
  const ops: number[] = [];
  let at = 0;
  for (let k = 0; k < count; k++) {
    const took = next() * 1e-5;
    events.push(at, k % 50 === 49 ? took * 40 : took); // now and then one is around those that follow
    places.push(k, k % 3 === 2 ? 1 : 0);
    ops.push(k % 4);
    at += next() * 2e-5;
  }
  return timelineEvents(events, places, ops, ["add", "mul", "tanh", "sum"]);
}

describe("the time line", () => {
  it("finds what is in sight as looking at every event does", () => {
    const events = some(500);
    const next = random(7);
    const whole = events.reach[499]!;
    for (let trial = 0; trial < 200; trial++) {
      const begin = next() * whole;
      const end = begin + next() * whole * 0.05;
      const [first, last] = inSight(events, { begin, end });
      for (let at = 0; at < 500; at++) {
        const touches = events.begin[at]! <= end && events.begin[at]! + events.took[at]! > begin;
        if (touches) expect(at >= first && at < last).toBe(true);
      }
    }
    expect(inSight(events, { begin: whole + 1, end: whole + 2 })).toEqual([500, 500]);
    expect(firstAbove([1, 2, 2, 3], 2)).toBe(3);
    expect(firstAbove([], 2)).toBe(0);
  });

  it("tells the event under the pointer: of its lane, the innermost, or the nearest within reach", () => {
    const events = timelineEvents([0, 10, 2, 3, 12, 1], [7, 1, 8, 1, 9, 0], [0, 1, 0], ["a", "b"]);
    expect(eventAt(events, 1, 3, 0)).toBe(1); // inside both
    expect(eventAt(events, 1, 8, 0)).toBe(0); // inside the outer one
    expect(eventAt(events, 0, 3, 0)).toBe(-1);
    expect(eventAt(events, 0, 11.8, 0.5)).toBe(2);
    expect(eventAt(events, 0, 11, 0.5)).toBe(-1);
  });

  it("zooms about the pointer and never shows what is beyond the whole", () => {
    const whole = { begin: 0, end: 8 };
    const near = zoomed(whole, whole, 2, 0.5);
    expect(near).toEqual({ begin: 1, end: 5 }); // 2 stays a quarter from the left
    expect(zoomed(near, whole, 2, 2)).toEqual(whole);
    expect(zoomed(near, whole, 2, 100)).toEqual(whole);
    expect(moved(near, whole, 100)).toEqual({ begin: 4, end: 8 });
    expect(moved(near, whole, -100)).toEqual({ begin: 0, end: 4 });
    const least = zoomed(whole, whole, 3, 0);
    expect(least.end - least.begin).toBeCloseTo(1e-9, 12);
  });

  it("writes round moments, apart enough to be told apart", () => {
    expect(ticks({ begin: 0, end: 1 }, 450)).toEqual([0, 0.2, 0.4, 0.6000000000000001, 0.8, 1]);
    expect(ticks({ begin: 0, end: 0 }, 450)).toEqual([]);
    expect(momentText(0.0123456, 0.5, 0.00001)).toBe("12.35 ms");
    expect(momentText(0.6000000000000001, 1, 0.2)).toBe("0.6 s");
    expect(momentText(5, 10, 2)).toBe("5 s");
    expect(momentText(0, 1, 0.1)).toBe("0");
    expect(momentText(0.00000125, 0.0000099, 0.00000001)).toBe("1.25 µs");
    const texts = ticks({ begin: 0.7601, end: 0.76018 }, 320).map((moment) => momentText(moment, 0.76018, 2e-5));
    expect(new Set(texts).size).toBe(texts.length);
  });

  it("draws at most one hairline for each pixel and lane, however many events there are", () => {
    const count = 68_000;
    const events = timelineEvents(
      Array.from({ length: 2 * count }, (_, k) => (k % 2 ? 1e-6 : (k / 2) * 2e-6)),
      Array.from({ length: 2 * count }, (_, k) => (k % 2 ? 0 : k / 2)),
      new Array<number>(count).fill(0),
      ["mul"],
    );
    let rectangles = 0;
    const context = new Proxy({} as CanvasRenderingContext2D, {
      get: (_, name) => (name === "measureText" ? () => ({ width: 20 }) : () => void (name === "fillRect" && rectangles++)),
      set: () => true,
    });
    const look = { lanes: ["", ""] as const, text: "", quiet: "", line: "", back: "", font: "" };
    const none = { node: -1, op: -1, event: -1 };
    expect(drawEvents(context, events, { begin: 0, end: events.reach[count - 1]! }, 320, look, none)).toBe(count);
    expect(rectangles).toBeLessThan(320 + 20);
    rectangles = 0;
    // zoomed in, only what is in sight is looked at
    expect(drawEvents(context, events, { begin: 1e-3, end: 1e-3 + 40e-6 }, 320, look, none)).toBeLessThanOrEqual(23);
    expect(rectangles).toBeGreaterThan(15);
  });
});
