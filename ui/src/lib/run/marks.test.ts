import { describe, expect, it } from "vitest";
import type { StepProjection } from "../api/shapes";
import { lostIterations, marksOf } from "./marks";

const step = (name: string, more: Partial<StepProjection> = {}): StepProjection => ({
  step: name,
  status: null,
  tokens: 0,
  running: 0,
  waiting: 0,
  done: 0,
  failed: 0,
  loop: null,
  side_runs: {},
  ...more,
});

describe("marks", () => {
  it("are what the server tells of each step", () => {
    const marks = marksOf([step("a", { status: "done", done: 2 }), step("b", { tokens: 1 })]);
    expect(marks.a).toEqual({ tokens: 0, running: 0, done: 2, failed: 0, state: "completed", loop: undefined });
    expect(marks.b).toMatchObject({ tokens: 1, state: undefined });
  });

  it("count side runs by the state they are drawn in", () => {
    const { a } = marksOf([
      step("a", { side_runs: { compensation: { pending: 2, scheduled: 1, unknown: 1, failed: 1, done: 3 } } }),
    ]);
    expect(a!.sideRuns).toEqual({ compensation: { queued: 3, failed: 2, completed: 3 } });
  });

  it("say how many iterations failed, of the loops in which some did", () => {
    const loop = (failed: number) => ({ total: 10, done: 10 - failed, failed });
    const marks = marksOf([step("a", { loop: loop(2) }), step("b", { loop: loop(0) }), step("c", { loop: loop(1) })]);
    expect(lostIterations(marks)).toEqual({ failed: 3, total: 20, open: 0 });
    const ended = marksOf([step("a", { loop: { total: 1000, done: 112, failed: 1 } })]);
    expect(lostIterations(ended)).toEqual({ failed: 1, total: 1000, open: 887 });
  });
});
