import { describe, expect, it } from "vitest";
import type { StepBar } from "../api/shapes";
import { barOf, tasksOf } from "./steps";

const AT = (s: number): string => new Date(s * 1000).toISOString();
const STEP: StepBar = {
  step: "ask", step_run_id: "r", scheduled_at: AT(10), started_at: AT(11), waiting_at: null, waits_for: [], finished_at: AT(15), status: "done",
  worker_id: "w", error: null, total: null, done: 0, failed: 0, task_runs: 0, tasks: [],
};

describe("a step as a bar", () => {
  it("was queued, then ran", () => {
    expect(barOf(STEP, 99).parts.map((part) => [part.kind, part.from, part.to])).toEqual([["queued", 10, 11], ["running", 11, 15]]);
  });
  it("that waits has not ended", () => {
    const bar = barOf({ ...STEP, waiting_at: AT(12), waits_for: ["message go"], finished_at: null, status: "waiting" }, 99);
    expect(bar.to).toBeNull();
    expect(bar.parts.at(-1)).toMatchObject({ kind: "waiting", from: 12, to: null });
    expect(bar.parts.at(-1)!.title).toContain("message go");
  });
  it("that nobody has taken is queued until now", () => {
    expect(barOf({ ...STEP, started_at: null, finished_at: null, status: "scheduled" }, 99).parts[0]!.title).toBe("queued 1 min 29 s");
  });
});

describe("tasks of a step", () => {
  const task = (attempt: number, from: number, to: number | null, more = {}) => ({ task: "t", attempt, started_at: AT(from), finished_at: to === null ? null : AT(to), status: "error", do: "retry", delay_s: 2, ...more });
  it("show the pause before another attempt", () => {
    const [first, second] = tasksOf({ ...STEP, tasks: [task(1, 11, 12), task(2, 14, null, { do: null, status: "running", delay_s: 0 })] }, 20);
    expect(first!.parts[1]).toMatchObject({ kind: "backoff", from: 12, to: 14 });
    expect(second).toMatchObject({ label: "t #2", to: null });
  });
  it("show a pause that is not over", () => {
    expect(tasksOf({ ...STEP, tasks: [task(1, 11, 12)] }, 13)[0]!.parts[1]).toMatchObject({ from: 12, to: 13 });
  });
});
