import { describe, expect, it } from "vitest";
import type { NetCost, StepCost } from "../api/shapes";
import { arcKey, drawnCost } from "./cost";

const step = (name: string, more: Partial<StepCost> = {}): StepCost => ({
  step: name,
  median_s: 1.5,
  p95_s: 4,
  runs: 3,
  share: null,
  is_critical: false,
  in_cycle: false,
  ...more,
});
const COST: NetCost = {
  path: "tests/cost",
  executions: 3,
  total_s: 1.5,
  steps: [
    step("load", { is_critical: true, share: 1 }),
    step("check"),
    step("new", { median_s: null, p95_s: null, runs: 0 }),
  ],
  arcs: [["load", "end"]],
};

describe("the cost of a net as it is drawn", () => {
  it("stands at each step, in figures and in words", () => {
    const { steps, arcs } = drawnCost(COST)!;
    expect(steps.get("load")).toEqual({
      label: "1.5 s",
      words: "on the critical path: median 1.5 s, p95 4.0 s, 3 runs",
      isCritical: true,
    });
    expect(steps.get("check")!.words).toBe("median 1.5 s, p95 4.0 s, 3 runs");
    expect(steps.get("new")).toEqual({ label: "no history", words: "no history", isCritical: false });
    expect(arcs.has(arcKey("load", "end"))).toBe(true);
    expect(arcs.has(arcKey("end", "load"))).toBe(false);
  });

  it("is not drawn where nothing is known", () => {
    expect(drawnCost(null)).toBeNull();
    expect(drawnCost({ ...COST, total_s: null })).toBeNull();
  });
});
