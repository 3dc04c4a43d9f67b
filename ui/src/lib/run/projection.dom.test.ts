import { describe, expect, it } from "vitest";
import type { ProjectionView } from "../api/shapes";
import { merged } from "./projection.svelte";

const answer = (more: Partial<Record<keyof ProjectionView, unknown>>): ProjectionView =>
  ({ at: 1, since: 0, ts: null, steps: [], side_runs: [], side_runs_total: 0, ...more }) as ProjectionView;

describe("answers of the server", () => {
  it("that tell changes replace what has changed and leave the rest", () => {
    const first = merged(
      null,
      answer({ at: 5, steps: [{ step: "a", done: 0 }, { step: "b" }], side_runs: [{ number: 0, status: "running" }] }),
      true,
    );
    const second = merged(
      first,
      answer({ at: 7, since: 5, steps: [{ step: "a", done: 1 }], side_runs: [{ number: 0, status: "done" }] }),
      true,
    );
    expect([...second.steps.values()]).toEqual([{ step: "a", done: 1 }, { step: "b" }]);
    expect([...second.sideRuns.values()]).toEqual([{ number: 0, status: "done" }]);
    expect(second.at).toBe(7);
  });

  it("that tell everything replace everything", () => {
    const first = merged(null, answer({ steps: [{ step: "a" }], side_runs: [{ number: 0 }] }), true);
    expect(merged(first, answer({ steps: [{ step: "b" }] }), false).steps.has("a")).toBe(false);
  });

  it("keep as many side runs as one answer lists", () => {
    const listed = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => ({ number: from + n }));
    const first = merged(null, answer({ side_runs: listed(0, 1000), side_runs_total: 1000 }), true);
    const more = answer({ at: 9, since: 1, side_runs: listed(1000, 1010), side_runs_total: 1010 });
    const numbers = [...merged(first, more, true).sideRuns.keys()];
    expect([numbers.length, numbers[0], numbers.at(-1)]).toEqual([1000, 10, 1009]);
  });
});
