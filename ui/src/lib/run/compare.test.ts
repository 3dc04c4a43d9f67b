import { describe, expect, it } from "vitest";
import type { StepBar } from "../api/shapes";
import { differences, stepPairs } from "./compare";

describe("two runs", () => {
  it("differ where their data does", () => {
    expect(differences({ a: 1, list: [1, 2], same: { x: 1 } }, { a: 2, list: [1, 3, 4], same: { x: 1 } })).toEqual([
      { path: "a", before: 1, after: 2 },
      { path: "list.1", before: 2, after: 3 },
      { path: "list.2", before: undefined, after: 4 },
    ]);
    expect(differences({ a: 1 }, { a: 1 })).toEqual([]);
    expect(differences({ a: [1] }, { a: { 0: 1 } })).toHaveLength(1);
  });

  it("are compared no further than one reads", () => {
    const many = Array.from({ length: 1000 }, (_, n) => n);
    expect(
      differences(
        many,
        many.map((n) => n + 1),
      ),
    ).toHaveLength(200);
  });

  it("are compared step by step, with all visits of one", () => {
    const bar = (step: string, seconds: number, status = "done"): StepBar =>
      ({
        step,
        status,
        scheduled_at: "2026-01-01T00:00:00Z",
        started_at: "2026-01-01T00:00:00Z",
        finished_at: new Date(Date.parse("2026-01-01T00:00:00Z") + seconds * 1000).toISOString(),
      }) as StepBar;
    const pairs = stepPairs(
      [bar("load", 2), bar("gone", 1)],
      [bar("load", 3), bar("load", 4, "failed"), bar("new", 1)],
    );
    expect(pairs.map((one) => [one.step, one.before?.seconds, one.after?.seconds, one.change])).toEqual([
      ["load", 2, 7, 5],
      ["new", undefined, 1, null],
      ["gone", 1, undefined, null],
    ]);
    expect(pairs[0]!.after).toEqual({ status: "failed", seconds: 7, visits: 2 });
  });
});
