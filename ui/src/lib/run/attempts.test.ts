import { describe, expect, it } from "vitest";
import type { AttemptInputs, AttemptView } from "../api/shapes";
import { attemptName, comparedWith, firstShown, sideText } from "./attempts";

const attempt = (more: Partial<AttemptView> = {}): AttemptView => ({
  seq: 5,
  ts: "2026-01-01T00:00:00Z",
  step: "load",
  task: "copy",
  kind: "python",
  path: [],
  visit: 1,
  attempt: 1,
  task_run_id: "r1",
  status: "success",
  ...more,
});

describe("attempts", () => {
  it("are named by task, iteration and number", () => {
    expect(attemptName(attempt())).toBe("copy, attempt 1");
    expect(attemptName(attempt({ path: [3, 5], attempt: 2 }))).toBe("copy [3.5], attempt 2");
  });

  it("show the last that failed first, else the last", () => {
    const [one, two, three] = [attempt({ seq: 1, status: "error" }), attempt({ seq: 2 }), attempt({ seq: 3 })];
    expect(firstShown([one, two, three])).toBe(one);
    expect(firstShown([two, three])).toBe(three);
    expect(firstShown([])).toBe(null);
  });

  it("say what they were compared with, and what is not there", () => {
    const found = { execution_id: "aaa-11111111", before: attempt() } as AttemptInputs;
    expect(comparedWith({ ...found, before_execution_id: "aaa-11111111" })).toBe("copy, attempt 1");
    expect(comparedWith({ ...found, before_execution_id: "bbb-22222222" })).toBe(
      "copy, attempt 1 of execution 22222222",
    );
    const differing = (values: object) => ({ path: "a", values: { ...values }, more: 0, entries: null });
    expect(sideText(differing({ before: 1 }), "after")).toBe("absent");
    const rows = { path: "rows", values: {}, more: 0, entries: { before: 1000, after: 1 } };
    expect([sideText(rows, "before"), sideText(rows, "after")]).toEqual(["1,000 entries", "1 entry"]);
    expect(sideText(differing({ before: null }), "before")).toBe("null");
    expect(sideText(differing({ after: "x".repeat(900) }), "after").length).toBeLessThan(410);
  });
});
