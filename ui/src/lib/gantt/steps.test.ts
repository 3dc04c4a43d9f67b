import { describe, expect, it } from "vitest";
import type { StepBar } from "../api/shapes";
import type { SideRun } from "../run/side_runs";
import { tookS } from "./bars";
import { barOf, sideRunBar, ordered, pauseBar, tasksOf } from "./steps";

const AT = (s: number): string => new Date(s * 1000).toISOString();
const STEP: StepBar = {
  step: "ask",
  step_run_id: "r",
  scheduled_at: AT(10),
  started_at: AT(11),
  waiting_at: null,
  waits_for: [],
  finished_at: AT(15),
  status: "done",
  worker_id: "w",
  error: null,
  total: null,
  done: 0,
  failed: 0,
  task_runs: 0,
  tasks: [],
};

describe("a step as a bar", () => {
  it("was queued, then ran", () => {
    expect(barOf(STEP, 99).parts.map((part) => [part.kind, part.from, part.to])).toEqual([
      ["queued", 10, 11],
      ["running", 11, 15],
    ]);
  });
  it("took the time since it began, as in all other views", () => {
    expect(tookS(barOf(STEP, 99), 99)).toBe(4);
    expect(tookS(barOf({ ...STEP, started_at: null, finished_at: null }, 99), 99)).toBe(89);
  });
  it("is worded once it is seen", () => {
    let reads = 0;
    const counted = {
      ...STEP,
      get worker_id() {
        reads++;
        return "w";
      },
    };
    const bar = barOf(counted, 99);
    expect(reads).toBe(0);
    expect(bar.parts.at(-1)!.title).toContain("w");
    expect(reads).toBeGreaterThan(0);
  });
  it("that waits has not ended", () => {
    const bar = barOf(
      { ...STEP, waiting_at: AT(12), waits_for: ["message go"], finished_at: null, status: "waiting" },
      99,
    );
    expect(bar.to).toBeNull();
    expect(bar.parts.at(-1)).toMatchObject({ kind: "waiting", from: 12, to: null });
    expect(bar.parts.at(-1)!.title).toContain("message go");
  });
  it("that no worker has taken is queued until now", () => {
    const bar = barOf({ ...STEP, started_at: null, finished_at: null, status: "scheduled" }, 99);
    expect(bar.label).toMatch(/, queued$/);
    expect(bar.parts[0]!.title).toMatch(/^queued since .*:10 .*\(1 min 29 s\)$/);
  });
});

describe("tasks of a step", () => {
  const task = (attempt: number, from: number, to: number | null, more = {}) => ({
    task: "t",
    attempt,
    start: 1,
    worker_id: "w-1",
    started_at: AT(from),
    finished_at: to === null ? null : AT(to),
    status: "error",
    do: "retry",
    delay_s: 2,
    ...more,
  });
  it("show the pause before another attempt", () => {
    const [first, second] = tasksOf(
      { ...STEP, tasks: [task(1, 11, 12), task(2, 14, null, { do: null, status: "running", delay_s: 0 })] },
      20,
    );
    expect(first!.parts[1]).toMatchObject({ kind: "backoff", from: 12, to: 14 });
    expect(second).toMatchObject({ label: "t #2", to: null });
  });
  it("show a start that was lost as a bar of its own, and how it ended", () => {
    const step = {
      ...STEP,
      tasks: [
        task(1, 11, 15, { status: "lost", do: null, delay_s: 0 }),
        task(1, 15, null, { start: 2, status: "running", do: null, delay_s: 0 }),
      ],
    };
    const [lost, again] = tasksOf(step, 20);
    expect(lost).toMatchObject({ label: "t, lost", from: 11, to: 15 });
    expect(lost!.parts[0]!.title).toBe("t, attempt 1: lost within 4.0 s: worker w-1 did not answer, or was shut down");
    expect(again).toMatchObject({ label: "t, start 2", from: 15, to: null });
    expect(barOf(step, 20).label).toBe("ask, 1 start lost");
  });
  it("show a pause that is not over", () => {
    expect(tasksOf({ ...STEP, tasks: [task(1, 11, 12)] }, 13)[0]!.parts[1]).toMatchObject({ from: 12, to: 13 });
  });
});

describe("what runs beside the tokens", () => {
  const sideRun: SideRun = {
    id: "c",
    kind: "compensation",
    step: "car",
    label: "car_compensate",
    index: 2,
    state: "failed",
    from: 10,
    begun: 12,
    to: 13,
    note: "no answer",
  };

  it("was queued, then ran, and says how it went wrong", () => {
    const bar = sideRunBar(sideRun, 99);
    expect(bar.parts.map((part) => [part.kind, part.from, part.to])).toEqual([
      ["queued", 10, 12],
      ["running", 12, 13],
    ]);
    expect(bar.parts[1]!.title).toContain("no answer");
    expect([bar.sign, bar.label]).toEqual(["↶", "undo car [2]"]);
  });
  it("has a name of its kind", () => {
    const labels = [
      { ...sideRun, index: -1 },
      { ...sideRun, kind: "handler" as const, label: "audit, for paid" },
      { ...sideRun, kind: "async" as const, label: "insert" },
      { ...sideRun, kind: "hook" as const },
    ].map((one) => sideRunBar(one, 99).label);
    expect(labels).toEqual(["undo car", "audit, for paid", "insert beside car", "hook of car"]);
  });
  it("stands among the steps in the order of time, below no step of another", () => {
    const rows = ordered([
      [barOf(STEP, 99), { ...barOf(STEP, 99), id: "task" }],
      [sideRunBar({ ...sideRun, from: 5 }, 99)],
      [sideRunBar({ ...sideRun, id: "later", from: 11 }, 99)],
    ]);
    expect(rows.map((row) => row.id)).toEqual(["c", "r", "task", "later"]);
  });
});

describe("a pause", () => {
  const PAUSE = { since: "2026-11-20T00:00:10Z", by: "otto", reason: "lunch", until: null, resumed_by: null };
  const begun = Date.parse(PAUSE.since) / 1000;
  it("goes on until it is resumed, and says who paused it and why", () => {
    const bar = pauseBar(PAUSE, begun + 5);
    expect([bar.label, bar.to, bar.parts[0]!.title]).toEqual(["paused by otto", null, "paused by otto, 5.0 s: lunch"]);
  });
  it("says who resumed it", () => {
    const bar = pauseBar({ ...PAUSE, until: "2026-11-20T00:00:12Z", resumed_by: "anna" }, begun + 99);
    expect([bar.label, bar.to]).toEqual(["paused by otto, resumed by anna", begun + 2]);
  });
  it("of a nested execution names nobody", () => {
    expect(pauseBar({ ...PAUSE, by: null, reason: "its parent is paused" }, begun).label).toBe("paused");
  });
});
