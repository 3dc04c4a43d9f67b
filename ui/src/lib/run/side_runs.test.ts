import { describe, expect, it } from "vitest";
import { SideRunHistory, withSideRuns } from "./side_runs";
import type { Slim } from "./events";

function event(type: string, more: Partial<Slim> = {}): Slim {
  return {
    seq: 0,
    type,
    at: 0,
    status: "",
    step: "",
    run: "",
    target: "",
    index: -1,
    path: "",
    total: -1,
    key: "",
    gist: "",
    ...more,
  };
}

const SAGA = [
  event("compensation.registered", { step: "flight", run: "f", key: "c1", at: 1 }),
  event("compensation.registered", { step: "hotel", run: "h", key: "c2", at: 2 }),
  event("compensation.requested", { step: "pay", run: "p", at: 3 }),
  event("compensation.started", { step: "hotel", run: "e2", key: "c2", at: 3 }),
  event("order.claimed", { step: "hotel", run: "e2", at: 4 }),
  event("compensation.failed", { step: "hotel", run: "e2", key: "c2", at: 5, gist: "http.timeout: no answer" }),
  event("compensation.started", { step: "flight", run: "e1", key: "c1", at: 5 }),
  event("task.started", { step: "flight", run: "e1", at: 6 }),
  event("compensation.done", { step: "flight", run: "e1", key: "c1", at: 7 }),
];

describe("side runs", () => {
  it("stand by until somebody asks for them", () => {
    const history = new SideRunHistory(SAGA);
    expect(history.at(2)).toEqual([]);
    expect(history.undoable(2)).toBe(2);
    expect(history.undoable(SAGA.length)).toBe(0);
  });

  it("are undone the last first, each with its times and how it ended", () => {
    const found = new SideRunHistory(SAGA).at(SAGA.length);
    expect(found.map((one) => [one.step, one.state, one.from, one.begun, one.to])).toEqual([
      ["hotel", "failed", 3, 4, 5],
      ["flight", "completed", 3, 6, 7],
    ]);
    expect(found[0]!.note).toBe("http.timeout: no answer");
  });

  it("are as they were at any moment, in both directions", () => {
    const history = new SideRunHistory(SAGA);
    const states = (length: number): string[] => history.at(length).map((one) => one.state);
    expect(states(SAGA.length)).toEqual(["failed", "completed"]);
    expect(states(5)).toEqual(["running", "queued"]);
    expect(states(3)).toEqual(["queued", "queued"]);
  });

  it("are handlers, tasks nobody waits for and hooks too, and the step run they belong to is none of them", () => {
    const log = [
      event("task.async_started", { step: "load", run: "a", gist: "insert", at: 1 }),
      event("order.claimed", { step: "load", run: "a", at: 2 }),
      event("handler.started", { step: "load", run: "b", gist: "audit, for paid", at: 3 }),
      event("hook.failed", { seq: 4, step: "load", run: "own", gist: "py.exception: no", at: 4 }),
      event("task.started", { step: "load", run: "own", at: 5 }),
      event("handler.failed", { step: "load", run: "b", status: "stopped", at: 6 }),
      event("task.async_done", { step: "load", run: "a", status: "error", gist: "sql: gone", at: 7 }),
    ];
    expect(new SideRunHistory(log).at(log.length).map((one) => [one.kind, one.label, one.state])).toEqual([
      ["async", "insert", "failed"],
      ["handler", "audit, for paid", "cancelled"],
      ["hook", "", "failed"],
    ]);
  });

  it("are counted by kind and state at their step of the net, beside what is there", () => {
    const marks = { flight: { tokens: 0, running: 0, done: 1, failed: 0, state: "completed" } };
    const shown = withSideRuns(marks, new SideRunHistory(SAGA).at(5));
    expect(shown.flight).toEqual({ ...marks.flight, sideRuns: { compensation: { queued: 1 } } });
    expect(shown.hotel!.sideRuns).toEqual({ compensation: { running: 1 } });
    expect(withSideRuns(marks, [])).toBe(marks);
  });
});
