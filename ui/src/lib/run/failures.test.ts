import { describe, expect, it } from "vitest";
import type { ExecutionRow } from "../api/shapes";
import { failureGroups } from "./failures";

const row = (id: string, more: Partial<ExecutionRow> = {}): ExecutionRow =>
  ({
    execution_id: id,
    path: "sales/load",
    trial: null,
    status: "failed",
    failed_step: "fetch",
    error_kind: "http.status",
    ...more,
  }) as ExecutionRow;

describe("failures that are alike", () => {
  it("are one row with a count, in the order of the newest", () => {
    const groups = failureGroups([row("4"), row("3", { path: "crm/sync" }), row("2"), row("1")]);
    expect(groups.map(({ newest, many }) => [newest.execution_id, many])).toEqual([
      ["4", 3],
      ["3", 1],
    ]);
  });

  it("are those of the same step, kind of error and state alone", () => {
    const others: Partial<ExecutionRow>[] = [
      {},
      { failed_step: "store" },
      { error_kind: "timeout" },
      { status: "completed" },
      { trial: "draft" },
      { failed_step: null, error_kind: null },
      { failed_step: null, error_kind: null },
    ];
    expect(failureGroups(others.map((more, at) => row(String(at), more)))).toHaveLength(others.length);
  });
});
