import { describe, expect, it } from "vitest";
import type { StepProjection } from "../api/shapes";
import { lostIterations, marksOf, queuedSteps } from "./marks";

const step = (name: string, more: Partial<StepProjection> = {}): StepProjection => ({
  step: name,
  status: null,
  tokens: 0,
  running: 0,
  waiting: 0,
  queued: 0,
  queued_at: null,
  done: 0,
  failed: 0,
  loop: null,
  side_runs: {},
  ...more,
});

describe("marks", () => {
  it("are what the server tells of each step", () => {
    const marks = marksOf([step("a", { status: "done", done: 2 }), step("b", { tokens: 1 })]);
    const none = { tokens: 0, running: 0, queued: 0, queuedAt: null };
    expect(marks.a).toEqual({ ...none, done: 2, failed: 0, state: "completed", loop: undefined });
    expect(marks.b).toMatchObject({ tokens: 1, state: undefined });
  });

  it("do not take for running what no worker has taken yet", () => {
    const marks = marksOf([
      step("a", { status: "running", running: 3, queued: 2, queued_at: "2026-11-19T04:05:00Z" }),
      step("b", { status: "queued", running: 1, queued: 1, queued_at: "2026-11-19T04:04:00Z" }),
      step("c", { status: "running", running: 1 }),
    ]);
    expect(marks.a).toMatchObject({ running: 1, queued: 2, state: "running" });
    expect(marks.b).toMatchObject({ running: 0, queued: 1, state: "queued" });
    expect(queuedSteps(marks).map((one) => one.step)).toEqual(["b", "a"]);
  });

  it("count side runs by the state they are drawn in", () => {
    const { a } = marksOf([
      step("a", { side_runs: { compensation: { pending: 2, scheduled: 1, unknown: 1, failed: 1, done: 3 } } }),
    ]);
    expect(a!.sideRuns).toEqual({ compensation: { queued: 3, failed: 2, completed: 3 } });
  });

  it("say how many iterations failed, of the loops in which some did", () => {
    const loop = (failed: number) => ({ total: 10, done: 10 - failed, failed, unrun: 0, passed_over: 0 });
    const marks = marksOf([step("a", { loop: loop(2) }), step("b", { loop: loop(0) }), step("c", { loop: loop(1) })]);
    expect(lostIterations(marks)).toEqual({ failed: 3, total: 20, unrun: 0, passedOver: 0 });
    const ended = marksOf([step("a", { loop: { total: 1000, done: 112, failed: 1, unrun: 887, passed_over: 4 } })]);
    expect(lostIterations(ended)).toEqual({ failed: 1, total: 1000, unrun: 887, passedOver: 4 });
  });
});
