import { describe, expect, it } from "vitest";
import type { SideRunProjection } from "../api/shapes";
import { sideRunOf } from "./side_runs";

const told = (more: Partial<SideRunProjection>): SideRunProjection => ({
  number: 0,
  kind: "compensation",
  step: "hotel",
  task: "undo",
  event: null,
  path: [],
  status: "pending",
  scheduled_at: "1970-01-01T00:00:03Z",
  started_at: null,
  finished_at: null,
  error: null,
  ...more,
});
const ENDED = { started_at: "1970-01-01T00:00:04Z", finished_at: "1970-01-01T00:00:05Z" };

describe("a side run", () => {
  it("is queued until a worker has it", () => {
    expect(sideRunOf(told({}))).toMatchObject({ state: "queued", from: 3, begun: null, to: null, index: -1 });
    expect(sideRunOf(told({ status: "scheduled", path: [2, 7] }))).toMatchObject({ state: "queued", index: 7 });
  });

  it("says how it went wrong", () => {
    const error = { kind: "http.timeout", message: "no answer" };
    const failed = sideRunOf(told({ status: "failed", error, ...ENDED }));
    expect(failed).toMatchObject({ state: "failed", begun: 4, to: 5, note: "http.timeout: no answer" });
    const unknown = sideRunOf(told({ status: "unknown", error, ...ENDED }));
    expect(unknown).toMatchObject({ state: "failed", note: "may not be undone, check by hand: no answer" });
    expect(sideRunOf(told({ status: "cancelled", error, ...ENDED }))).toMatchObject({ state: "cancelled", note: "" });
    const hook = sideRunOf(
      told({ kind: "hook", status: "failed", event: "on_end", task: "tell", error, finished_at: ENDED.finished_at }),
    );
    expect(hook).toMatchObject({ label: "", begun: 5, to: 5, note: "on_end tell, http.timeout: no answer" });
  });

  it("is named for its task and what it handles", () => {
    expect(sideRunOf(told({})).label).toBe("undo");
    expect(sideRunOf(told({ kind: "handler", task: "audit", event: "paid" })).label).toBe("audit, for paid");
  });
});
