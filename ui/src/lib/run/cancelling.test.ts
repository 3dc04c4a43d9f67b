import { describe, expect, it, vi } from "vitest";
import { cancelling } from "./cancelling";

const said = (undoable: number | null, answers: Record<string, string | boolean>): string => {
  const { text } = cancelling("Cancel it?", undoable, () => undefined);
  return typeof text === "function" ? text(answers) : "";
};

describe("cancelling", () => {
  it("says whether compensations run, as it is chosen", () => {
    expect(said(2, { compensate: true })).toContain("Then compensations run");
    expect(said(2, { compensate: false })).toContain("Compensations do not run");
    expect(said(0, {})).toContain("None of its steps");
  });

  it("offers to undo only where something may be undone", () => {
    const names = (undoable: number | null): string[] =>
      cancelling("", undoable, () => undefined).blanks!.map((one) => one.name);
    expect(names(0)).toEqual(["reason"]);
    expect(names(1)).toEqual(["reason", "compensate"]);
    expect(names(null)).toEqual(["reason", "compensate"]);
  });

  it("sends the reason only when there is one", () => {
    const act = vi.fn();
    const { act: does } = cancelling("", 1, act);
    void does!({ reason: "", compensate: true });
    void does!({ reason: "wrong month", compensate: false });
    expect(act.mock.calls).toEqual([[{ compensate: true }], [{ compensate: false, reason: "wrong month" }]]);
  });
});
