import { describe, expect, it } from "vitest";
import type { FormField } from "../api/shapes";
import { decisionField, outcomeOf } from "./decisions";

const decision: FormField = { field: "decision", type: "enum", options: ["approve", "send_back"], required: true };
const other: FormField = { field: "reason", type: "enum", options: ["price", "date"] };

describe("a form", () => {
  it("has a button for each option of its decision, where that is all there is to choose", () => {
    expect(decisionField([decision, { field: "comment", type: "text" }])).toBe(decision);
    expect(decisionField([decision, other])).toBeNull();
    expect(decisionField([{ ...decision, required: false }])).toBeNull();
    expect(decisionField([{ ...decision, options: ["a", "b", "c", "d", "e"] }])).toBeNull();
    expect(decisionField([{ ...decision, options: ["approve"] }])).toBeNull();
    expect(decisionField([other])).toBeNull();
    expect(decisionField([])).toBeNull();
  });

  it("was answered with its decision, or the one thing that could be chosen", () => {
    expect(outcomeOf({ form: [decision, other], result: { decision: "send_back", reason: "price" } })).toBe(
      "Send back",
    );
    expect(outcomeOf({ form: [other], result: { reason: "price" } })).toBe("Price");
    expect(outcomeOf({ form: [other], result: {} })).toBeNull();
    expect(outcomeOf({ form: [{ field: "sum", type: "number" }], result: { sum: 3 } })).toBeNull();
    expect(outcomeOf({ form: [decision], result: null })).toBeNull();
  });
});
