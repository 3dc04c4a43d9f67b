import { describe, expect, it } from "vitest";
import type { Drawing } from "./drawing";
import { placed } from "./layout";

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
    const where = placed(drawing(["a", "b", "c"], [["a", "b"], ["b", "c"]]));
    expect(where.get("a")!.x).toBeLessThan(where.get("b")!.x);
    expect(where.get("b")!.x).toBeLessThan(where.get("c")!.x);
  });

  it("bears cycles, self-loops, doubled ways and steps nobody reaches", () => {
    const where = placed(drawing(["a", "b", "lost"], [["a", "b"], ["a", "b"], ["b", "a"], ["b", "b"]]));
    expect([...where.keys()]).toEqual(["a", "b", "lost"]);
  });
});
