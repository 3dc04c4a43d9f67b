import { describe, expect, it } from "vitest";
import type { Drawing } from "./drawing";
import { goesDown, isNear, placed, viewOf } from "./layout";

function drawing(names: string[], ways: [string, string][]): Drawing {
  return {
    title: "t",
    subtitle: "",
    entry: names[0]!,
    boxes: names.map((name) => ({ name, role: "step", marks: [], lines: [] })),
    ways: ways.map(([source, target]) => ({ source, target, label: "", manner: "plain", guard: "" })),
  };
}

describe("layout", () => {
  it("goes from left to right along the ways", () => {
    const where = placed(
      drawing(
        ["a", "b", "c"],
        [
          ["a", "b"],
          ["b", "c"],
        ],
      ),
    );
    expect(where.get("a")!.x).toBeLessThan(where.get("b")!.x);
    expect(where.get("b")!.x).toBeLessThan(where.get("c")!.x);
  });

  it("bears cycles, self-loops, doubled ways and unreachable steps", () => {
    const where = placed(
      drawing(
        ["a", "b", "lost"],
        [
          ["a", "b"],
          ["a", "b"],
          ["b", "a"],
          ["b", "b"],
        ],
      ),
    );
    expect([...where.keys()]).toEqual(["a", "b", "lost"]);
  });

  it("goes downwards where it is narrow and the net is long", () => {
    const names = ["a", "b", "c", "d", "e"];
    const long = drawing(
      names,
      names.slice(1).map((name, at) => [names[at]!, name]),
    );
    expect([goesDown(long, 366), goesDown(long, 1000), goesDown(long, 0)]).toEqual([true, false, false]);
    const where = placed(long, true);
    expect(where.get("a")!.y).toBeLessThan(where.get("e")!.y);
  });

  it("stays as it is read where it is readable, and where going down would be no better", () => {
    expect(goesDown(drawing(["a", "b"], [["a", "b"]]), 500)).toBe(false);
    const many = ["a", ...Array.from({ length: 12 }, (_, n) => `b${n}`)];
    expect(
      goesDown(
        drawing(
          many,
          many.slice(1).map((name) => ["a", name]),
        ),
        366,
      ),
    ).toBe(false);
  });
});

describe("the view of a net", () => {
  const place = { width: 1000, height: 500 };
  const box = { x: 400, y: 300, width: 200, height: 100 };
  it("has the boxes in the middle, no larger than they are", () => {
    expect(viewOf([box], place)).toEqual({ x: 0, y: -100, zoom: 1 });
  });
  it("is as small as boxes need, and no smaller than can be read", () => {
    const wide = { x: 0, y: 0, width: 9000, height: 100 };
    expect(viewOf([wide], place).zoom).toBeCloseTo(0.1);
    expect(viewOf([wide], place, { minZoom: 0.6 }).zoom).toBe(0.6);
  });
  it("keeps the room free that is asked for at the sides", () => {
    const view = viewOf([{ x: 0, y: 0, width: 2000, height: 10 }], place, { left: 200, right: 0 });
    expect(view.zoom).toBeCloseTo(0.4);
    expect(view.x).toBeCloseTo(200);
  });
  it("is near one that is no further than a place is large", () => {
    const [here, there] = [viewOf([box], place), viewOf([{ ...box, x: 1300 }], place)];
    expect(isNear(here, there, place)).toBe(true);
    expect(isNear(here, viewOf([{ ...box, x: 1500 }], place), place)).toBe(false);
  });
});
