import { describe, expect, it } from "vitest";
import { reach, textPlace, ticks, x, type Bar } from "./bars";

const bar = (from: number, to: number | null): Bar => ({
  id: `${from}`,
  label: "",
  step: "",
  depth: 0,
  from,
  to,
  state: "running",
  parts: [],
});

describe("the reach of a chart", () => {
  it("goes to now while something runs", () =>
    expect(reach([bar(10, 12), bar(11, null)], 20)).toEqual({ from: 10, to: 20 }));
  it("ends with the last bar when all is over", () =>
    expect(reach([bar(10, 12), bar(11, 15)], 99)).toEqual({ from: 10, to: 15 }));
  it("is found of any number of bars", () =>
    expect(reach(new Array<Bar>(300_000).fill(bar(10, 12)), 99)).toEqual({ from: 10, to: 12 }));
  it("is never empty", () => expect(reach([bar(10, 10)], 99).to).toBeGreaterThan(10));
});

describe("the axis", () => {
  it("puts moments where they belong", () => expect(x(15, { from: 10, to: 20, width: 200 })).toBe(100));
  it("has round numbers and not too many", () => {
    expect(ticks({ from: 100, to: 107, width: 500 }, 100)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(ticks({ from: 0, to: 90_000, width: 500 }, 0).length).toBeLessThanOrEqual(11);
  });
});

describe("the text of a bar", () => {
  it("stands behind the bar, or before it at the end of the chart", () => {
    expect(textPlace(0, 100, 600, 200, true)).toEqual({ x: 108, anchor: "start", isInside: false });
    expect(textPlace(400, 590, 600, 200, true)).toEqual({ x: 392, anchor: "end", isInside: false });
  });
  it("of a lost start stands inside a bar that fills the chart", () =>
    expect(textPlace(5, 580, 600, 200, true)).toEqual({ x: 572, anchor: "end", isInside: true }));
  it("is left out where there is no room at all", () => {
    expect(textPlace(5, 580, 600, 72, false)).toBeNull();
    expect(textPlace(5, 120, 150, 200, true)).toBeNull();
  });
});
