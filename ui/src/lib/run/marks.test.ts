import { describe, expect, it } from "vitest";
import type { Slim } from "./events";
import type { StepBar } from "../api/shapes";
import { MarkHistory, marksOfRuns } from "./marks";

function event(type: string, step = "", run = "", more: Partial<Slim> = {}): Slim {
  return {
    seq: 0,
    type,
    at: 0,
    status: "",
    step,
    run,
    target: "",
    index: -1,
    path: "",
    total: -1,
    key: "",
    gist: "",
    ...more,
  };
}

const ONE_STEP = [
  event("token.created", "", "", { target: "a" }),
  event("step.scheduled", "a", "r1"),
  event("step.started", "a", "r1"),
  event("step.done", "a", "r1"),
  event("token.consumed", "a", "r1"),
];

describe("marks", () => {
  it("follow a token into a step and out of it", () => {
    const history = new MarkHistory(ONE_STEP);
    expect(history.at(1).a).toMatchObject({ tokens: 1, running: 0 });
    expect(history.at(2).a).toMatchObject({ tokens: 0, running: 1, state: "running" });
    expect(history.at(5).a).toMatchObject({ tokens: 0, running: 0, done: 1, state: "completed" });
  });

  it("count a failure once, and not as done", () => {
    const history = new MarkHistory([
      ...ONE_STEP.slice(0, 3),
      event("step.failed", "a", "r1"),
      event("token.consumed", "a", "r1"),
    ]);
    expect(history.at(5).a).toMatchObject({ done: 0, failed: 1, running: 0, state: "failed" });
  });

  it("show a step that waits", () => {
    const history = new MarkHistory([...ONE_STEP.slice(0, 4), event("timer.scheduled", "a", "r1")]);
    expect(history.at(5).a?.state).toBe("waiting");
  });

  it("let tokens meet without a step run of their own", () => {
    const twice = [
      event("token.created", "", "", { target: "j" }),
      event("token.created", "", "", { target: "j" }),
      event("token.consumed", "j", "r9"),
    ];
    expect(new MarkHistory(twice).at(3).j?.tokens).toBe(1);
  });

  it("are the same read backwards as forwards, across kept counts", () => {
    const log: Slim[] = [];
    for (let n = 0; n < 1500; n++) log.push(...ONE_STEP.map((one) => ({ ...one, run: one.run && `r${n}` })));
    const history = new MarkHistory(log);
    expect(history.at(log.length).a?.done).toBe(1500);
    for (const length of [7000, 4001, 4000, 3999, 12, 0]) {
      const fresh = new MarkHistory(log.slice(0, length));
      expect(history.at(length)).toEqual(fresh.at(length));
    }
  });

  it("count failed iterations over all runs of a step, of nested loops the innermost", () => {
    const loop = (run: string): Slim[] => [
      event("loop.started", "a", run, { total: 2 }),
      event("loop.started", "a", run, { path: "0", total: 3 }),
      event("loop.iteration.failed", "a", run, { path: "0.1", index: 1 }),
      event("loop.iteration.done", "a", run, { path: "0.2", index: 2 }),
      event("loop.iteration.done", "a", run, { path: "0", index: 0 }),
    ];
    const history = new MarkHistory([...loop("r1"), ...loop("r2")]);
    expect(history.at(5).a?.loop).toMatchObject({ total: 3, done: 1, failed: 1 });
    expect(history.at(10).a?.loop).toMatchObject({ total: 6, done: 2, failed: 2 });
  });

  it("of a long log are first those of its step runs", () => {
    const run = (step: string, status: string, ended: boolean, loop: Partial<StepBar> = {}): StepBar =>
      ({ step, status, finished_at: ended ? "x" : null, total: null, done: 0, failed: 0, ...loop }) as StepBar;
    const marks = marksOfRuns([
      run("a", "done", true),
      run("a", "running", false),
      run("b", "done", true, { total: 9, done: 7, failed: 2 }),
      run("c", "failed", true),
    ]);
    expect(marks.a).toMatchObject({ done: 1, running: 1, state: "running" });
    expect(marks.b).toMatchObject({ state: "done", loop: { total: 9, done: 7, failed: 2 } });
    expect(marks.c).toMatchObject({ failed: 1, state: "failed" });
  });
});
