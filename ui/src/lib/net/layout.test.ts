import { describe, expect, it } from "vitest";
import type { Drawing } from "./drawing";
import { goesDown, placed } from "./layout";

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

  it("bears cycles, self-loops, doubled ways and steps nobody reaches", () => {
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
